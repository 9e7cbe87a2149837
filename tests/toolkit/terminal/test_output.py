"""Output of commands: control characters escaped, errors with their code, times in RFC 3339."""

import json

import pytest

from cortex.base.errors import CortexError
from cortex.toolkit.terminal.output import (
    cut_to,
    moment,
    print_error,
    print_json,
    printable,
    width_of,
)


def test_control_characters_are_shown_as_escapes():
    assert printable("a\x1b[31m\u202eb\n") == r"a\x1b[31m\u202eb\n"
    assert printable("a\tb\n\x07", lines=True) == "a\tb\n\\x07"


def test_json_output_escapes_control_characters_and_still_parses(capsys):
    body = {"name": "\x9b31m \u2028", "text": "two\nlines", "place": "Zürich"}
    print_json(body)
    out = capsys.readouterr().out
    assert "\x9b" not in out and "\u2028" not in out and "Zürich" in out
    assert json.loads(out) == body


def test_error_names_its_code_and_repeats_no_suggestion(capsys):
    print_error(CortexError("STORE_LOST", "gone", instead=("Look.", "Look.")), as_json=False)
    assert capsys.readouterr().err == "error: gone [STORE_LOST]\n  - Look.\n"


def test_time_outside_every_clock_is_empty():
    assert moment(1_700_000_000_000).startswith("2023-11-14T22:13:20")
    assert [moment(value) for value in (0, -5, 10**18)] == ["", "", ""]


@pytest.mark.parametrize(
    ("text", "width"),
    [("abcdef", 4), ("東京都庁", 5), ("a\x1b[31mb", 8), ("", 3), ("e\u0301" * 9, 4)],
)
def test_text_is_cut_to_the_available_columns(text, width):
    assert width_of(cut_to(text, width)) <= width
