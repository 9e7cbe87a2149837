"""Records rendered for people: wrapped texts, rows and control characters."""

import pytest

from cortex.families.team.commands.render import say_rows, wrapped
from families.team.commands.command_answers import answer

pytestmark = pytest.mark.usefixtures("shop", "at_terminal")


def test_control_characters_are_escaped_when_shown(cortex):
    made = answer(cortex, "team", "thread", "create", "A title", "--body", "left \u2066right\u2069")
    _, out, _ = cortex("team", "thread", "show", made["id"])
    assert "\u2066" not in out
    assert "\\u2066" in out


def test_long_lines_wrap_between_words_except_in_code():
    text = "one two three four\n- five six seven\n```\nwide wide wide wide\n```\nshort"
    assert (
        wrapped(text, 10)
        == "one two\nthree four\n- five six\n  seven\n```\nwide wide wide wide\n```\nshort"
    )
    assert wrapped(text, 0) == text


def test_row_fits_the_terminal_with_its_whole_id(monkeypatch, capsys):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    number = "thread_01ARZ3NDEKTSV4RRFFQ69G5FAV"
    say_rows(
        [
            (number, "open", "a very long cell of a name", "Wörter " * 30),
            (number, "resolved", "x", "short"),
        ]
    )
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith(f"{number} open     a very long")
    assert (len(first) <= 80, first.endswith("…")) == (True, True)
    assert second == f"{number} resolved x              short"
