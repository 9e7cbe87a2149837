"""Commands, requests and messages of the Core page, run against a real Core.

The Core is served in this process, in place of `cortex core serve`; requests that the page makes
with curl are made without it.
"""

from __future__ import annotations

import json
import re
import shlex
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

import cortex
from cortex.interfaces.cli import run
from interfaces.team_server.commands.core_server import CoreServer, core_at

PAGE = Path(__file__).parents[2] / "docs" / "core.md"
PLACES = ("https://core.example.org", "http://127.0.0.1:8790")
SECONDS = 20
Command = Callable[..., tuple[int, str]]


def commands(mark: str) -> list[list[str]]:
    """The commands of a block of the page, in words."""
    found = re.search(
        rf"<!-- {mark} -->\n```console\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL
    )
    assert found is not None, mark
    lines = found[1].replace("\\\n", " ").splitlines()
    return [shlex.split(line.removeprefix("$ ")) for line in lines if line.startswith("$ ")]


def placed(words: list[str], url: str, token: str = "") -> list[str]:
    """Words with the Core of this run in place of the page's."""
    for place in PLACES:
        words = [word.replace(place, url) for word in words]
    return [word.replace("$TOKEN", token) for word in words]


@pytest.fixture
def command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Command:
    """`command(home, *words)`: the exit code and output of a command in a home."""
    # No test here searches by meaning
    monkeypatch.setenv("CORTEX_INDEXING_EMBEDDING_PROVIDER", "none")
    monkeypatch.chdir(tmp_path)

    def run_command(home: str, *words: str) -> tuple[int, str]:
        monkeypatch.setenv("CORTEX_HOME", str(tmp_path / home))
        capsys.readouterr()
        code = run(list(words))
        written = capsys.readouterr()
        return code, written.out + written.err

    return run_command


def begin(command: Command) -> dict[str, str]:
    """Run the page's commands on the server, except serving, and return the tokens."""
    tokens: dict[str, str] = {}
    for words in commands("on the server"):
        if words == ["cortex", "core", "serve"]:
            continue
        code, said = command("server", *words[1:])
        assert code == 0, said
        if shown := re.search(r"^ctx_\S+$", said, re.MULTILINE):
            tokens["bo" if "bo" in words else "ada"] = shown[0]
    return tokens


def request(words: list[str]) -> tuple[int, str]:
    """Send the request of a curl command line."""
    headers: dict[str, str] = {}
    body: bytes | None = None
    url = ""
    rest = iter(words)
    for word in rest:
        match word:
            case "curl" | "-s":
                pass
            case "-H":
                name, _, value = next(rest).partition(": ")
                headers[name] = value
            case "-d":
                body = next(rest).encode()
            case _:
                assert not url, word
                url = word
    asked = urllib.request.Request(url, body, headers)
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(
        asked, timeout=SECONDS
    ) as answer:
        return answer.status, answer.read().decode("utf-8")


@pytest.mark.usefixtures("isolated")
def test_commands_and_requests_of_the_core_page_run_in_order(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens = begin(command)
    assert set(tokens) == {"ada", "bo"}
    with core_at(tmp_path / "server" / "core") as core:
        for name, token in tokens.items():
            monkeypatch.setenv("CORTEX_CORE_TOKEN", token)
            for words in commands("on a machine"):
                code, said = command(name, *placed(words, core.url)[1:])
                assert code == 0, (words, said)
            monkeypatch.delenv("CORTEX_CORE_TOKEN")
        assert core.titles() == {"How long should a token live?"}
        code, said = command("bo", "team", "thread", "list")
        assert (code, said.count("How long should a token live?")) == (0, 2)
        answers = [
            request(placed(words, core.url, tokens["ada"])) for words in commands("with curl")
        ]
        assert [code for code, _ in answers] == [200, 201, 200, 200, 200]
        listed, written, found, audited, figures = (body for _, body in answers)
        assert len(json.loads(listed)["data"]) == 2
        number = json.loads(written)["data"]["id"]
        assert number in found and number in audited and "cortex_requests_total" in figures
        again = request(placed(commands("with curl")[1], core.url, tokens["ada"]))
        assert json.loads(again[1])["data"]["id"] == number
        for path in ("/health", "/api/v2/openapi.json"):
            assert request([core.url + path])[0] == 200
        for path in ("/metrics", "/api/v2/threads"):
            with pytest.raises(urllib.error.HTTPError, match="401") as refused:
                request([core.url + path])
            refused.value.close()
        code, said = command("server", "core", "backup", str(tmp_path / "copy"))
        assert code == 0, said
    assert command("other", "core", "restore", str(tmp_path / "copy"))[0] == 0
    assert command("other", "core", "restore", str(tmp_path / "copy"))[0] == 2
    assert command("other", "core", "migrate")[0] == 0
    assert command("other", "core", "renew")[0] == 0
    code, said = command("other", "core", "principal", "list")
    assert code == 0 and "ada: tier 4" in said and "bo: tier 3" in said


@pytest.mark.usefixtures("isolated")
def test_troubleshooting_table_of_the_core_page_quotes_real_messages(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    tokens = begin(command)

    def trouble(expected: int, home: str, *words: str) -> str:
        code, said = command(home, *words)
        assert code == expected, said
        seen.append(f"{' '.join(words)}: {said}, exit code {code}")
        return said

    def connect(core: CoreServer, name: str, expected: int = 0) -> str:
        monkeypatch.setenv("CORTEX_CORE_TOKEN", tokens[name])
        said = trouble(expected, name, "connect", core.url)
        monkeypatch.delenv("CORTEX_CORE_TOKEN")
        return said

    with core_at(tmp_path / "server" / "core") as core:
        for name in tokens:
            connect(core, name)
        # Both members change the same field of a task.
        made = trouble(0, "ada", "team", "task", "create", "Refresh in the background")
        number = re.findall(r"task_\w+", made)[0]
        trouble(0, "ada", "sync")
        trouble(0, "bo", "sync")
        trouble(0, "ada", "team", "task", "update", number, "--state", "done")
        trouble(
            0, "bo", "team", "task", "update", number, "--state", "in_progress", "--note", "begun"
        )
        trouble(0, "ada", "sync")
        assert "(RECORD_CHANGED)" in trouble(1, "bo", "sync")
        assert "1 refused" in trouble(1, "bo", "sync")
        assert "(RECORD_CHANGED)" in trouble(1, "bo", "sync", "--retry")
        assert "system_alert" in trouble(0, "bo", "inbox")
        assert "state: in_progress" in trouble(0, "bo", "sync", "--refused")
        trouble(0, "ada", "sync")
        assert "begun" in trouble(0, "ada", "team", "task", "show", number)
        assert "refused:" not in trouble(0, "bo", "sync", "--keep", "mine", "--record", number)
        assert "in_progress" in trouble(0, "bo", "team", "task", "show", number)
        trouble(0, "ada", "sync")
        trouble(0, "ada", "team", "task", "update", number, "--state", "done")
        trouble(0, "bo", "team", "task", "update", number, "--state", "review")
        trouble(0, "ada", "sync")
        trouble(1, "bo", "sync")
        assert "refused:" not in trouble(0, "bo", "sync", "--keep", "theirs")
        (given_up,) = (tmp_path / "bo" / "refused").iterdir()
        assert json.loads(given_up.read_text(encoding="utf-8"))[0]["record"] == number
        assert "system_alert" not in trouble(0, "bo", "inbox")
        assert "done" in trouble(0, "bo", "team", "task", "show", number)
        # A refused write is accepted once the tier allows it.
        assert "RIGHTS_MISSING" in trouble(
            1, "bo", "team", "subcortex", "create", "ops", "--name", "Ops"
        )
        trouble(0, "bo", "team", "thread", "create", "Written in time")
        trouble(0, "server", "core", "principal", "change", "bo", "--tier", "1")
        assert "(RIGHTS_MISSING)" in trouble(1, "bo", "sync")
        trouble(0, "server", "core", "principal", "change", "bo", "--tier", "4")
        assert "refused:" not in trouble(0, "bo", "sync", "--retry")
        # A revoked token, and a new one.
        trouble(0, "server", "core", "token", "revoke", tokens["bo"].split("_")[1])
        trouble(0, "bo", "team", "thread", "create", "Written meanwhile")
        assert "waiting here until that is mended: 1 write\n" in trouble(2, "bo", "sync")
        said = trouble(0, "server", "core", "token", "create", "bo")
        tokens["bo"] = re.findall(r"^ctx_\S+$", said, re.MULTILINE)[0]
        assert "1 sent" in connect(core, "bo")
        trouble(0, "server", "core", "principal", "change", "bo", "--revoke")
        assert "erased from this machine" in trouble(2, "bo", "sync")
        trouble(0, "server", "core", "principal", "change", "bo", "--restore")
        trouble(0, "bo", "sync")
        monkeypatch.setenv("CORTEX_CORE_TOKEN", tokens["ada"])
        trouble(1, "bo", "connect", core.url)
        trouble(1, "new", "connect", f"{core.url}/api/v2")
        monkeypatch.delenv("CORTEX_CORE_TOKEN")
        core.stop()
        trouble(3, "bo", "sync")
        trouble(1, "new", "connect", core.url, "--token-file", str(tmp_path / "none"))
        monkeypatch.setenv("CORTEX_CORE_TOKEN", tokens["bo"])
        trouble(1, "new", "connect", core.url)
    trouble(1, "elsewhere", "core", "token", "list")
    trouble(1, "server", "core", "serve", "--host", "0.0.0.0", "--port", "0")
    text = (
        PAGE.read_text(encoding="utf-8")
        .partition("## When something goes wrong")[2]
        .partition("\n## ")[0]
    )
    rows = [
        row.split(" | ")[0].removeprefix("| ") for row in text.splitlines() if row.startswith("| `")
    ]
    # Messages that no command above brings up: they stand in the sources.
    of_sources = {"another process uses", "there is no principal yet"}
    source = "".join(
        path.read_text(encoding="utf-8") for path in Path(cortex.__file__).parent.rglob("*.py")
    )
    assert [message for message in of_sources if message not in source] == []
    unseen = {"certificate verify failed", "/health", "STORE_LOCKED", *of_sources}
    codes = re.compile(r"[A-Z_]+")
    for row in rows:
        wanted = [
            quoted
            for quoted in re.findall(r"`([^`]+)`", row)
            if quoted not in unseen and not codes.fullmatch(quoted)
        ]
        wanted += re.findall(r"exit code \d", row)
        assert any(all(part in said for part in wanted) for said in seen), row
    assert "there is no file" in "".join(seen)
