"""`cortex memory edit` by options and in an editor, which never loses a typed form."""

import json
import os
import re
import stat
import sys
from pathlib import Path

import pytest

from families.memory.commands.memory_answers import answer, titles
from protocol.code_server import check_envelope

pytestmark = pytest.mark.usefixtures("shop", "at_terminal")

posix = pytest.mark.skipif(os.name == "nt", reason="there is no pty")


@pytest.fixture
def key(cortex):
    return answer(
        cortex,
        *(
            "add",
            "Tokens live 15 minutes",
            "--fact",
            "refresh lives a day",
            "--fact",
            "2",
            "--tag",
            "auth",
        ),
        *(
            "--kind",
            "gotcha",
            "--text",
            "A story.",
            "--file",
            "src/login.py",
            "--cite",
            "src/login.py#check",
        ),
    )["id"]


@pytest.fixture
def editor(tmp_path):
    """`editor(code)`: the command of an editor that runs that Python on the text of the form."""

    def make(code: str) -> str:
        script = tmp_path / "my editor.py"
        script.write_text(
            f"import sys\npath = sys.argv[1]\ntext = open(path, encoding='utf-8').read()\n{code}\n"
            "open(path, 'w', encoding='utf-8').write(text)\n",
            encoding="utf-8",
        )
        return f"'{sys.executable}' '{script}'"

    return make


# -- by options
# --------------------------------------------------------------------------------------------------------


def test_options_change_only_the_named_fields(cortex, key):
    before = answer(cortex, "show", key)
    done = answer(
        cortex,
        *(
            "edit",
            key,
            "--title",
            "Tokens live an hour",
            "--add-fact",
            "asked again",
            "--remove-fact",
            "2",
        ),
        *("--tag", "web", "--tag", "AUTH", "--subtitle", "since May"),
    )
    assert done == {"id": key, "changed": True, "supersedes": None}
    after = answer(cortex, "show", key)
    assert (after["title"], after["subtitle"]) == ("Tokens live an hour", "since May")
    assert (after["facts"], after["concepts"]) == (
        ["refresh lives a day", "asked again"],
        ["auth", "web"],
    )
    same = ("text", "kind", "project", "files", "created_at", "state", "citations")
    assert {name: after[name] for name in same} == {name: before[name] for name in same}
    assert answer(cortex, "search", "an hour since May")["results"][0]["id"] == key
    assert answer(cortex, "edit", key, "--untag", "WEB", "--project", "desk", "--kind", "")[
        "changed"
    ]
    after = answer(cortex, "show", key)
    assert (after["concepts"], after["project"], after["scope"], after["kind"]) == (
        ["auth"],
        "desk",
        "desk",
        "",
    )


def test_edit_without_a_change_is_no_decision(cortex, key):
    code, out, _ = cortex(
        "memory", "edit", key, "--tag", "auth", "--title", "Tokens live 15 minutes"
    )
    assert (code, out) == (0, "Nothing was changed.\n")
    assert len(answer(cortex, "log")["decisions"]) == 1


def test_cite_option_renews_a_stale_citation(cortex, shop, key):
    (shop / "src" / "login.py").write_text("def check(user):\n    return 1\n", encoding="utf-8")
    assert answer(cortex, "show", key)["maybe_stale"]
    assert answer(cortex, "edit", key, "--cite", "src/login.py#check")["changed"]
    assert answer(cortex, "show", key)["maybe_stale"] == []


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (["--title", " "], "MEMORY_REFUSED"),
        (["--text", "password: ghp_aZ3dE5fG7hJ9kL1mN2pQ4rS6tU8vW0xY1zB3"], "MEMORY_REFUSED"),
        (["--remove-fact", "3"], "ARGUMENT_INVALID"),
        (["--untag", "nothing"], "ARGUMENT_INVALID"),
        (["--form", "nowhere.md"], "FILE_NOT_FOUND"),
        # There is no terminal
        ([], "ARGUMENT_INVALID"),
    ],
)
def test_invalid_edit_is_refused_and_changes_nothing(cortex, key, options, code):
    before = answer(cortex, "show", key)
    _, out, _ = cortex("memory", "edit", key, *options, "--json")
    assert check_envelope(json.loads(out))["code"] == code
    assert answer(cortex, "show", key) == before


def test_edit_into_a_duplicate_is_refused(cortex, key):
    other = answer(cortex, "add", "Lamps burn")["id"]
    code, _, err = cortex(
        "memory",
        "edit",
        other,
        *("--title", "tokens live 15 minutes"),
        "--add-fact",
        "refresh lives a day",
        "--add-fact",
        "2",
        "--text",
        "a story",
    )
    assert (code, key in err) == (1, True)


@pytest.mark.parametrize(
    "options", [["--title", "Railway needs a prefix, still"], ["--tag", "cloud"]]
)
def test_edited_foreign_row_becomes_an_own_memory(cortex, foreign, at_terminal, options):
    done = answer(cortex, "edit", "obs_1", *options)
    assert (done["changed"], done["supersedes"]) == (True, "obs_1")
    shown = answer(cortex, "show", done["id"])
    assert (shown["origin"], shown["facts"], shown["project"]) == (
        "own",
        ["NIXPACKS_ is the prefix"],
        "ack",
    )
    assert options[1] in (shown["title"], *shown["concepts"])
    assert answer(cortex, "show", "obs_1")["superseded_by"] == done["id"]
    assert len(titles(cortex)) == 2
    assert answer(cortex, "undo")["undone"] == 2
    assert answer(cortex, "show", "obs_1")["curated"] is False


# -- in an editor
# ------------------------------------------------------------------------------------------------------


@posix
def test_form_is_opened_in_the_persons_editor(cortex, in_window, editor, key):
    change = "text = text.replace('# Tokens live 15 minutes', '# Tokens live an hour').replace('- 2\\n', '- two\\n  lines\\n')"
    code, out, shown = in_window(
        "y\n", "memory", "edit", key, EDITOR="false", VISUAL=editor(change)
    )
    assert (code, out) == (0, f"✓ Changed {key}\n")
    assert (
        "title: Tokens live an hour" in shown and "Change “Tokens live 15 minutes”? [y/N]:" in shown
    )
    after = answer(cortex, "show", key)
    assert (after["title"], after["facts"]) == (
        "Tokens live an hour",
        ["refresh lives a day", "two\nlines"],
    )
    assert (after["concepts"], after["files"], after["text"]) == (
        ["auth"],
        ["src/login.py"],
        "A story.",
    )


@posix
def test_form_saved_unchanged_changes_nothing(cortex, typed, editor, key, tmp_path):
    code, out, _ = typed("", "memory", "edit", key, EDITOR=editor(""), TMPDIR=str(tmp_path))
    assert (code, out) == (0, "Nothing was changed.\n")
    assert list(tmp_path.glob("cortex-*")) == []


@posix
@pytest.mark.parametrize(
    ("change", "code"),
    [
        ("text = text.replace('A story.', 'A story: ghp_aZ3dE5fG7hJ9kL1mN2pQ4rS6tU8vW0xY1zB3')", 1),
        ("text = text.replace('# Tokens', 'Tokens').replace('A story', 'A new story')", 2),
        (
            "open(path, 'w', encoding='utf-8').write(text.replace('A story', 'A new story')); sys.exit(3)",
            2,
        ),
    ],
)
def test_form_is_kept_when_the_edit_is_refused(
    cortex, in_window, editor, key, tmp_path, change, code
):
    before = answer(cortex, "show", key)
    done, out, shown = in_window(
        "y\n", "memory", "edit", key, EDITOR=editor(change), TMPDIR=str(tmp_path)
    )
    assert (done, out) == (code, "")
    (name,) = re.findall(r"What you wrote is in (\S+\.md):", shown)
    kept = Path(name)
    text = kept.read_text(encoding="utf-8")
    assert "A new story" in text or "ghp_" in text
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert answer(cortex, "show", key) == before
    mended = re.sub("ghp_\\w+", "gone", text).replace("\nTokens", "\n# Tokens")
    kept.write_text(mended, encoding="utf-8")
    assert answer(cortex, "edit", key, "--form", kept)["changed"]
    assert answer(cortex, "show", key)["text"] in ("A new story.", "A story: gone")


@posix
def test_form_is_kept_when_the_answer_is_no(cortex, in_window, editor, key, tmp_path):
    change = "text = text.replace('A story', 'A new story')"
    code, _, shown = in_window(
        "n\n", "memory", "edit", key, EDITOR=editor(change), TMPDIR=str(tmp_path)
    )
    (kept,) = tmp_path.glob("cortex-*")
    assert (code, str(kept) in shown) == (1, True)
    assert "A new story" in kept.read_text(encoding="utf-8")
    assert answer(cortex, "show", key)["text"] == "A story."


@posix
def test_missing_editor_is_reported(typed, key):
    code, _, err = typed("", "memory", "edit", key, EDITOR="/no/such/editor --wait")
    assert code == 2
    assert "can't be started" in err
    assert "Traceback" not in err
