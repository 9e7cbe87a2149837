"""What a terminal gets to see: nothing that it would obey, whatever files, names and settings hold."""

import json
import logging
import os
import re
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

import forking
from cortex.cli.show import PrintableFormatter, printable, progress_bar
from cortex.types import Progress
from protocol.code_server import CORTEX, make_repository

posix = pytest.mark.skipif(os.name == "nt", reason="Windows allows no such names")
OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
ESCAPE = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202e\x08\x7f"
HOSTILE_NAME = "evil\x1b[31m\u202e\nfake.py"
HOSTILE_TEXT = f"def needle():\n    return 1  # {ESCAPE}\n" + "\n# ordinary text, so that the file is no binary\n" * 20


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    root = make_repository(tmp_path_factory.mktemp("terminal") / "repo\x1b[5m", {"a.py": HOSTILE_TEXT}, git=False)
    (root / HOSTILE_NAME).write_text(HOSTILE_TEXT, encoding="utf-8")
    (root / "left\x1b[7mout.bin").write_bytes(b"\0" * 2_000)
    (root / "big\x1b[7m.py").write_bytes(b"x = 1\n" * 400_000)
    return root


def alone(*arguments):
    """What the command says in a process of its own."""
    done = forking.run([*CORTEX, *map(str, arguments)], capture_output=True, timeout=60)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


@posix
@pytest.mark.parametrize("mode", ["hybrid", "exact", "fullworkspace"])
def test_hits_show_escapes_of_names_and_texts_where_they_stand(hostile, cortex, mode):
    code, out, err = cortex("search", "needle", "--mode", mode, "--path", hostile)
    assert code == 0
    assert not OBEYED.search(out + err)
    assert "evil\\x1b[31m\\u202e\\nfake.py:1" in out
    assert "    return 1  # \\x1b]0;owned\\x07\\x1b[2J\\x9b31m\\u202e\\x08\\x7f" in out
    assert "def needle():\n" in out


@posix
@pytest.mark.parametrize(
    "arguments",
    [
        ("index", "{root}"),
        ("index", "{root}", "--force"),
        ("doctor", "{root}"),
        ("doctor", "{root}/" + HOSTILE_NAME),
        ("doctor", "{root}/big\x1b[7m.py"),
        ("search", "x", "--path", "{root}/no\x1b[2Jfolder"),
        ("search", "x", "--lang", "\x1b[2J", "--path", "{root}"),
        ("search", "x", "--mode", "\x1b[2J", "--path", "{root}"),
        ("search", "x", "--\x1b[2J"),
        ("config", "get", "\x1b[2J", "--path", "{root}"),
        ("mcp", "\x1b[2J"),
    ],
)
def test_no_command_sends_what_a_terminal_obeys(hostile, cortex, arguments):
    run = alone if arguments[0] in ("doctor", "mcp") else cortex
    _, out, err = run(*(one.replace("{root}", str(hostile)) for one in arguments))
    assert not OBEYED.search(out + err), out + err
    assert "\\x1b[" in out + err


@posix
def test_settings_and_what_is_wrong_with_them_are_escaped_too(cortex, tmp_path, monkeypatch):
    root = make_repository(tmp_path / "set", {"a.py": "x = 1\n"}, git=False)
    (root / ".cortex").mkdir()
    wrong = {"workspace": {"exclude": ["\x1b[2Jdir\u202e"], "\x1b[31mwrong\x9b": 1}}
    (root / ".cortex" / "config.yml").write_text(json.dumps(wrong), encoding="utf-8")
    monkeypatch.chdir(root)
    for arguments in (["config", "show"], ["config", "get", "workspace.exclude"], ["index", root]):
        _, out, err = cortex(*arguments)
        assert not OBEYED.search(out + err), arguments
    _, out, _ = cortex("config", "show", "--json")
    assert not OBEYED.search(out)
    assert json.loads(out)


@posix
def test_programs_get_the_texts_as_they_are(hostile, cortex):
    out = cortex("search", "needle", "--mode", "exact", "--path", hostile, "--json")[1]
    assert not OBEYED.search(out)
    assert {one["file"] for one in json.loads(out)["results"]} == {"a.py", HOSTILE_NAME}
    assert ESCAPE in json.loads(out)["results"][0]["text"]
    out = cortex("search", "x", "--path", f"{hostile}/no\x9bfolder", "--json")[1]
    assert "no\x9bfolder" in json.loads(out)["error"]["message"].encode().decode("unicode_escape")
    assert not OBEYED.search(out)


@posix
def test_a_terminal_gets_only_the_colours_that_are_ours(hostile, on_terminal):
    shown = on_terminal("search", "needle", "--path", str(hostile))
    assert "\\x1b]0;owned" in shown
    assert not OBEYED.search(re.sub(r"\x1b\[[0-9;]*m|\r", "", shown))
    assert "\x1b[5m" not in shown


@posix
@pytest.mark.parametrize(("moment", "shown"), [(0.0, True), (60.0, False)])
def test_a_progress_bar_is_for_what_takes_longer_than_a_moment(monkeypatch, moment, shown):
    pty = pytest.importorskip("pty")
    master, slave = pty.openpty()
    monkeypatch.setattr("cortex.cli.show.MOMENT_SECONDS", moment)
    monkeypatch.setenv("TERM", "xterm")
    with open(slave, "w", encoding="utf-8") as terminal, open(master, "rb", buffering=0) as screen:
        monkeypatch.setattr(sys, "stderr", terminal)
        with progress_bar(True) as report:
            report(Progress("reading", 1, 2))
        print("end", file=terminal, flush=True)
        seen = b""
        while b"end" not in seen:
            seen += screen.read(4096)
    assert (b"Indexing" in seen) is shown


def test_log_lines_are_one_line_each_and_show_escapes():
    record = logging.LogRecord("x", logging.WARNING, "", 1, "can't read %s", ("a\n\x1b[2J",), None)
    assert PrintableFormatter("%(message)s").format(record) == "can't read a\\n\\x1b[2J"
    try:
        raise ValueError("\x1b[2J")
    except ValueError:
        record.exc_info = sys.exc_info()
    shown = PrintableFormatter("%(message)s").format(record)
    assert "\nTraceback" in shown
    assert "\x1b" not in shown


@given(st.text())
def test_any_text_becomes_harmless_and_ordinary_text_stays(text):
    assert not OBEYED.search(printable(text))
    assert "\n" not in printable(text)
    assert printable(text, lines=True).count("\n") == text.count("\n")
    printable(text).encode()
    assert not OBEYED.search(text) or printable(text, lines=True) != text


def test_ordinary_letters_of_every_script_stay():
    text = "naïve Straße 日本語 עברית 🦀 👩‍👩‍👧"
    assert printable(text) == text
