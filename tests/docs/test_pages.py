"""Links, names, marked commands and example answers of the pages are correct."""

from __future__ import annotations

import html
import json
import re
import shlex
import subprocess
import sys
import sysconfig
import tomllib
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import typer

from cortex.base.errors import CODES, ConfigError
from cortex.base.runtime.home import COMMAND_VARIABLES, OTHER_VARIABLES
from cortex.base.settings import KEYS, Workspace, environment, known_key, load
from cortex.engine.chunkers.grammars import RULES
from cortex.engine.sources.secret_filenames import is_secret
from cortex.families.code.tools import open_family
from cortex.interfaces.assembly.pool import engine_pool
from cortex.interfaces.cli import app
from cortex.interfaces.cli import run as run_command
from cortex.toolkit.tool import Call, bind, find_tool, perform
from families.memory.adapters.claude_mem_databases import make_claude_mem

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("bench/*.md")])
CORTEX = str(Path(sysconfig.get_path("scripts"), "cortex"))
SECONDS = 110
Answered = Callable[..., Any]
LOGIN = '''\
"""Who may come in."""


def check_password(user: str, password: str) -> bool:
    """Whether passwords agree; they are checked in constant time."""
    if user not in USERS:
        raise LookupError("no such user")
    return USERS[user] == password


def set_password(user: str, password: str) -> None:
    """Remember a password."""
    USERS[user] = password


USERS: dict[str, str] = {}
'''


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small project that the handbook's examples work on."""
    root = tmp_path_factory.mktemp("project")
    (root / "pyproject.toml").write_text('[project]\nname = "example"\n', encoding="utf-8")
    (root / "login.py").write_text(LOGIN, encoding="utf-8")
    (root / "server.py").write_text(
        "from login import check_password\n\n\ndef main():\n    check_password('a', 'b')\n", "utf-8"
    )
    (root / ".env").write_text("TOKEN=1\n", encoding="utf-8")
    return root


def texts() -> Iterator[tuple[str, str]]:
    for page in PAGES:
        yield page.relative_to(ROOT).as_posix(), page.read_text(encoding="utf-8")


def blocks(text: str, *languages: str) -> list[str]:
    found = re.findall(r"^ *```(\w*)\n(.*?)^ *```$", text, re.MULTILINE | re.DOTALL)
    return [body for language, body in found if language in languages]


def inline(text: str) -> set[str]:
    without_blocks = re.sub(r"^ *```.*?^ *```$", "", text, flags=re.MULTILINE | re.DOTALL)
    return set(re.findall(r"`([^`\n]+)`", without_blocks))


def anchors(text: str) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {
        re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings
    }


def test_every_relative_link_has_a_target() -> None:
    broken = []
    for name, text in texts():
        for target in re.findall(r"\]\(([^)\s]+)\)", text):
            if re.match(r"[a-z]+:", target):
                continue
            path, _, anchor = target.partition("#")
            page = (ROOT / name).parent / path if path else ROOT / name
            if not page.exists() or (
                anchor and anchor not in anchors(page.read_text(encoding="utf-8"))
            ):
                broken.append(f"{name}: {target}")
    assert broken == []


def test_every_page_is_in_the_index_of_the_handbook() -> None:
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    assert [
        page.name
        for page in (ROOT / "docs").glob("*.md")
        if page.name != "README.md" and f"]({page.name})" not in index
    ] == []


def test_every_error_code_and_variable_that_a_page_names_exists() -> None:
    variables = {
        *OTHER_VARIABLES,
        *COMMAND_VARIABLES,
        *(variable for key in KEYS for variable in key.variables),
    }
    known = {
        *CODES,
        *(code.tool for code in CODES.values()),
        "SERVER_ERROR",
        *variables,
        "HYBRID",
        "MEANING",
        "WORDS",
        "EXACT",
        "FULL",
    }
    unknown = []
    for name, text in texts():
        for word in inline(text):
            if (
                re.fullmatch(r"[A-Z]{4,}(_[A-Z]+)+", word)
                and word not in known
                and word != "CORTEX_SOAK"
            ):
                unknown.append(f"{name}: {word}")
    assert unknown == []


def test_every_setting_that_a_page_names_exists() -> None:
    groups = "|".join(sorted({key.name.partition(".")[0] for key in KEYS}))
    known = {*(key.name for key in KEYS), *(key.name.rpartition(".")[0] for key in KEYS)}
    named = [(name, word) for name, text in texts() for word in inline(text)]
    settings = [
        (name, word) for name, word in named if re.fullmatch(rf"(?:{groups})\.[A-Za-z_.]+", word)
    ]
    assert len(settings) > 50
    unknown = [
        setting
        for setting in settings
        if setting[1] not in known and not is_known(setting[1]) and not is_module(setting[1])
    ]
    assert unknown == []


def is_known(setting: str) -> bool:
    """True for a key of another family, or a key in its other spelling."""
    try:
        return known_key(setting) is not None
    except ConfigError:
        return False


def is_module(name: str) -> bool:
    return (ROOT / "src" / "cortex" / name).exists()


def command_lines() -> list[tuple[str, str]]:
    """Every line of a block, and every inline piece, that begins with `cortex`."""
    found = []
    for name, text in texts():
        for body in blocks(text, "console", "bash", ""):
            found += [
                (name, line.removeprefix("$ "))
                for line in body.splitlines()
                if re.match(r"(\$ )?cortex ", line)
            ]
        found += [
            (name, words)
            for words in sorted(inline(text))
            if words.startswith("cortex ") and "…" not in words
        ]
    return found


@pytest.fixture(scope="module")
def commands() -> Any:
    """All commands with their options."""
    return typer.main.get_command(app)


@pytest.mark.parametrize(("page", "line"), command_lines())
def test_every_command_line_has_existing_commands_and_options(
    commands: Any, page: str, line: str
) -> None:
    command = commands
    words = shlex.split(
        re.sub(r"[\[\]]|\s#.*", "", line)
        .replace("show|get|set", "show")
        .replace("start|stop|restart|status", "start")
    )[1:]
    while words and getattr(command, "commands", None) and not words[0].startswith("-"):
        if " ".join(words[:2]) in command.commands:
            words[:2] = [" ".join(words[:2])]
        assert words[0] in command.commands, f"{page}: {line}"
        command = command.commands[words.pop(0)]
    known = {
        opt for parameter in command.params for opt in (*parameter.opts, *parameter.secondary_opts)
    } | {"--help"}
    assert [word for word in words if word.startswith("-") and word not in known] == [], (
        f"{page}: {line}"
    )


def marked() -> list[tuple[str, str]]:
    found = []
    for name, text in texts():
        for body in re.findall(r"<!-- runs -->\n```console\n(.*?)```", text, re.DOTALL):
            found += [
                (name, line.removeprefix("$ "))
                for line in body.splitlines()
                if line.startswith("$ ")
            ]
    return found


def run(arguments: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        arguments,
        cwd=folder,
        capture_output=True,
        encoding="utf-8",
        timeout=SECONDS,
        stdin=subprocess.DEVNULL,
        check=False,
    )


def test_the_marked_commands_of_every_page_run(project: Path) -> None:
    lines = marked()
    assert len({name for name, _ in lines}) >= 2
    for name, line in {line: (name, line) for name, line in lines}.values():
        program, *arguments = shlex.split(line)
        assert program == "cortex"
        done = run([CORTEX, *arguments], project)
        assert done.returncode == 0, f"{name}: {line}\n{done.stdout}{done.stderr}"
        if arguments[0] == "search":
            assert "login.py" in done.stdout, f"{name}: {line}"


def test_python_example_runs(project: Path) -> None:
    (example,) = blocks((ROOT / "docs" / "python.md").read_text(encoding="utf-8"), "python")
    done = run([sys.executable, "-W", "error", "-c", example], project)
    assert done.returncode == 0, done.stderr
    assert "login.py:" in done.stdout
    assert "QUERY_EMPTY" in done.stdout


def test_methods_on_the_python_page_exist() -> None:
    from cortex import Engine

    text = (ROOT / "docs" / "python.md").read_text(encoding="utf-8").partition("Of an `Engine`")[2]
    named = re.findall(r"`(\w+)\(", text)
    assert len(named) > 8
    assert [name for name in named if not callable(getattr(Engine, name, None))] == []


def test_demo_shows_every_family_and_a_given_repository(project: Path) -> None:
    done = run([sys.executable, str(ROOT / "scripts" / "demo.py"), str(project)], ROOT)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n$ cortex ") == 14
    for found in (
        "passwords.py:16",
        "returns.md:1",
        "code-symbols.json",
        "memories/mem_",
        "records/artifact_",
    ):
        assert found in done.stdout
    assert done.stdout.rstrip().endswith("docs/getting-started.md.")
    printed = re.sub(r"\b(artifact|mem)_\w+", r"\1_…", done.stdout)
    drawn = (ROOT / "docs" / "demo.svg").read_text(encoding="utf-8")
    lines = re.findall(r"<text [^>]*clip-path[^>]*>([^<]*)</text>", drawn)
    pictured = [html.unescape(line).replace("\xa0", " ").strip() for line in lines]
    assert len(pictured) > 20
    assert [line for line in pictured if line not in printed] == []


def test_every_snippet_for_a_client_can_be_parsed() -> None:
    text = (ROOT / "docs" / "getting-started.md").read_text(encoding="utf-8")
    entries = []
    for body in blocks(text, "json"):
        servers = json.loads(body)
        entries += [
            entry for key in ("mcpServers", "servers") for entry in servers.get(key, {}).values()
        ]
    entries += [tomllib.loads(body)["mcp_servers"]["cortex"] for body in blocks(text, "toml")]
    assert len(entries) == 5
    assert {(entry["command"], entry["args"][0]) for entry in entries} == {("cortex", "mcp")}
    inline_json = [
        json.loads(words)
        for words in inline((ROOT / "README.md").read_text("utf-8"))
        if words[0] == "{"
    ]
    assert len(inline_json) == 2


def test_lists_of_secret_and_harmless_file_names_are_right() -> None:
    text = (ROOT / "docs" / "files.md").read_text(encoding="utf-8")
    for name, verdict in (("secrets", True), ("harmless", False)):
        names = re.findall(
            r"`([^`]+)`",
            text.partition(f"<!-- {name} -->")[2].partition(f"<!-- end of {name} -->")[0],
        )
        assert names
        assert [name for name in names if is_secret(name) is not verdict] == []


def test_readme_has_the_number_of_languages() -> None:
    assert f"{len(RULES)} languages are cut" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_numbers_of_the_readme_are_in_the_results() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    inside = text.partition("<!-- numbers:begin -->")[2].partition("<!-- numbers:end -->")[0]
    assert inside.strip(), "README.md has no place for numbers"
    rows = [line for line in inside.splitlines() if line.startswith("|")][2:]
    results = ROOT / "bench" / "RESULTS.md"
    measured = results.read_text(encoding="utf-8") if results.exists() else ""
    cells = [cell.strip(" *") for row in rows for cell in row.strip("|").split("|")[1:]]
    assert [cell for cell in cells if re.search(r"\d", cell) and cell not in measured] == []


# -- the shapes of answers

# Maps whose keys are not ours, or that another example shows
FREE = {"byLanguage", "byReason", "index", "stats", "changed"}


def shape(value: object, place: str = "") -> set[str]:
    """Every key of a JSON value by its path; all items of a list have the same path."""
    if isinstance(value, list):
        return {key for item in value for key in shape(item, place + "[]")}
    if not isinstance(value, dict):
        return set()
    found: set[str] = set()
    for key, part in value.items():
        found.add(f"{place}.{key}")
        if key not in FREE:
            found |= shape(part, f"{place}.{key}")
    return found


def documented(name: str) -> set[str]:
    found = [
        body
        for _, text in texts()
        for body in re.findall(
            rf"<!-- answer of {re.escape(name)} -->\n```json\n(.*?)```", text, re.DOTALL
        )
    ]
    assert len(found) == 1, f"there must be a single example of an answer of {name}"
    return shape(json.loads(found[0]))


@pytest.fixture(scope="module")
def family(project: Path) -> Iterator[Any]:
    opened = open_family(
        [Workspace(project, load(project, environment=environment()))], engine_pool(keep=True)
    )
    yield opened
    opened.close()


def ask(family: Any, name: str, **arguments: object) -> Any:
    owner, tool = find_tool([family], name)
    return json.loads(perform(owner, tool, bind(tool, arguments), Call()).text)


def test_examples_of_tool_answers_have_the_shape_of_real_ones(family: Any) -> None:
    ask(family, "reindex_workspace")
    long = "check password of user " + "with a long text " * 5
    answer = ask(family, "search_code", query=long, budget=250, maxResults=2)
    whole = ask(family, "search_code", query="check password")
    found = shape(answer) | shape(whole)
    assert found | {".metadata.cursor"} == documented("search_code") | (
        found & {".results[].chunk.truncated"}
    )
    context = ask(family, "get_file_context", path="login.py", lineRange={"start": 4, "end": 6})
    assert shape(context) == documented("get_file_context")
    assert shape(ask(family, "reindex_workspace")) == documented("reindex_workspace")
    assert shape(ask(family, "update_config", settings={"cacheSize": "10MB"})) == documented(
        "update_config"
    )
    assert shape(ask(family, "search_code", query="x", cursor="?")) == documented("error")


@pytest.mark.parametrize(
    ("name", "resource", "variables"),
    [
        ("status", "workspace-status", {}),
        ("stats", "workspace-stats", {}),
        ("search", "search", {"query": "check_password"}),
        ("chunks", "file-chunks", {"path": "login.py"}),
    ],
)
def test_examples_of_resources_have_the_shape_of_real_ones(
    family: Any, name: str, resource: str, variables: dict[str, str]
) -> None:
    ask(family, "reindex_workspace")
    (found_resource,) = [known for known in family.resources if known.name == resource]
    found = shape(json.loads(found_resource.read(family.context, variables, Call())))
    optional = {".results[].context.function", ".results[].context.class"}
    # Another test may have changed it with update_config
    optional |= {path for path in found if path.startswith(".settings")}
    assert found - optional == documented(name) - optional


@pytest.fixture
def answered(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Answered:
    """`answered(*arguments, cwd, home)`: the JSON of a command that runs in a folder."""

    def ask(*arguments: str, cwd: Path, home: Path) -> Any:
        capsys.readouterr()
        with monkeypatch.context() as patch:
            patch.chdir(cwd)
            patch.setenv("CORTEX_HOME", str(home))
            run_command([*arguments, "--json"])
        return json.loads(capsys.readouterr().out)

    return ask


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("cortex index", ["index"]),
        ("cortex search", ["search", "check_password"]),
        ("cortex chunks export", ["chunks", "export"]),
        ("cortex doctor", ["doctor"]),
        ("cortex doctor FILE", ["doctor", ".env"]),
        ("cortex stop", ["stop"]),
        ("cortex config get", ["config", "get", "workspace.maxFiles"]),
        ("cortex config set", ["config", "set", "workspace.maxFiles", "30000"]),
    ],
)
def test_examples_of_commands_have_the_shape_of_real_answers(
    project: Path, tmp_path: Path, answered: Answered, name: str, arguments: list[str]
) -> None:
    body = answered(*arguments, cwd=project, home=tmp_path / "home")
    optional = {".results[].context.class", ".results[].context.function"}
    operations = {key for key in documented(name) if key.startswith(".operations[].")}
    found = {
        key for key in shape(body) if key not in optional and not key.startswith(".operations[].")
    }
    assert found == documented(name) - optional - operations


def test_examples_of_document_commands_have_the_shape_of_real_answers(
    tmp_path: Path, answered: Answered
) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "tokens.md").write_text("# Auth\n\nTokens expire.\n", encoding="utf-8")
    for name in ("old.doc", "picture.png"):
        (notes / name).write_bytes(b"old")

    def answer(*arguments: str) -> set[str]:
        return shape(answered("kb", *arguments, cwd=tmp_path, home=tmp_path / "home"))

    answer("add", str(notes))
    for name, *more in (["list"], ["sync"], ["search", "tokens"], ["stats"]):
        assert answer(name, *more) == documented(f"cortex kb {name}"), name


@pytest.mark.usefixtures("at_terminal")
def test_examples_of_memory_commands_have_the_shape_of_real_answers(
    tmp_path: Path, answered: Answered, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop, home = tmp_path / "shop", tmp_path / "home"
    (shop / ".git").mkdir(parents=True)
    (shop / "login.py").write_text("def check(user):\n    return user\n", encoding="utf-8")
    (shop / "empty.md").write_text("\n", encoding="utf-8")
    with closing(make_claude_mem(home / "claude-mem.db")) as made:
        made.observation(
            made.session("s1", title="Deploying"),
            "Railway env vars need a prefix",
            facts=["NIXPACKS_"],
        )
        made.summary("own-s1", "Deploy it", learned="Prefixes")

    monkeypatch.setenv("ACK_MEM_DB", str(home / "claude-mem.db"))

    def ask(*arguments: str) -> Any:
        return answered("memory", *arguments, cwd=shop, home=home / "cortex")

    def check(name: str, *arguments: str) -> Any:
        body = ask(name, *arguments)
        assert shape(body) == documented(f"cortex memory {name}"), name
        return body

    ask("add", "Tokens live 15 minutes", "--fact", "The refresh token lives a day", "--tag", "auth")
    options = (
        "--fact",
        "The refresh token lives a day",
        "--tag",
        "auth",
        "--cite",
        "login.py#check",
        "--session",
        "s1",
    )
    key = check("add", "Tokens live 15 minutes now", *options)["id"]
    (shop / "login.py").write_text("def check(user):\n    return not user\n", encoding="utf-8")
    check("list", "--tag", "auth", "--matching", "now")
    check("show", key)
    check("search", "tokens live now", "--tag", "auth", "--limit", "1")
    check("scopes")
    check("edit", key, "--subtitle", "since May")
    check("log", key, "--limit", "1")
    ask("reject", key)
    check("approve", key)
    check("undo")
    check("supersede", "obs_1", "--by", key)
    check("delete", key, "obs_1")
    check("export", "-o", str(tmp_path / "out.json"))
    check("import", str(shop))


@pytest.mark.usefixtures("at_terminal")
def test_examples_of_team_commands_have_the_shape_of_real_answers(
    tmp_path: Path, answered: Answered
) -> None:
    shop, home = tmp_path / "shop", tmp_path / "home"
    (shop / ".git").mkdir(parents=True)
    (shop / "login.py").write_text("def check(user):\n    return user\n", encoding="utf-8")

    def ask(*arguments: str) -> Any:
        return answered(*arguments, cwd=shop, home=home)

    def check(name: str, *arguments: str) -> Any:
        body = ask(*name.split(), *arguments)
        assert shape(body) == documented(f"cortex {name}"), name
        return body

    words = ("--term", "Token: proves who you are", "--naming", "Tables are plural")
    ask("team", "subcortex", "create", "auth", "--name", "Who comes in", *words)
    options = (
        "--subcortex",
        "auth",
        "--type",
        "incident",
        "--tag",
        "tokens",
        "--code",
        "login.py#check",
    )
    thread = check("team thread create", "Nobody can log in", *options)["id"]
    ask("team", "task", "create", "Call the vault", "--priority", "urgent", "--assign", "me")
    ask("team", "subcortex", "pin", "auth", thread)
    check("inbox")
    check("team audit")
    ask("team", "context", "set", "--subcortex", "auth")
    check("team context show")
    check("pack build", "--scope", "global")
