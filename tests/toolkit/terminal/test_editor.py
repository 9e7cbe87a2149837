"""Text files of the user, and edits that need a terminal."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from cortex.base.errors import CortexError, InputError
from cortex.toolkit.terminal.editor import MAX_BYTES, in_editor, read_file


def test_byte_order_mark_and_windows_line_ends_are_dropped(tmp_path: Path):
    (tmp_path / "note.md").write_bytes("\ufefftwo\r\nlinés".encode())
    assert read_file(tmp_path / "note.md") == "two\nlinés"


@pytest.mark.parametrize(
    ("content", "code", "reason"),
    [
        (None, "FILE_NOT_FOUND", "can't be read"),
        (b"x" * (MAX_BYTES + 1), "ARGUMENT_INVALID", "larger than 1,000,000 bytes"),
        ("é".encode("latin-1"), "ARGUMENT_INVALID", "no UTF-8 text"),
    ],
    ids=["missing", "large", "latin-1"],
)
def test_file_that_is_no_readable_text_is_an_error(
    tmp_path: Path, content: bytes | None, code: str, reason: str
):
    file = tmp_path / "note.md"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(CortexError, match=reason) as raised:
        read_file(file)
    assert raised.value.code == code and str(file) in raised.value.message


def test_editing_without_a_terminal_is_an_error_that_names_the_alternative(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    with pytest.raises(InputError, match="use --file"):
        in_editor("note", "text", str, again="cortex edit --file", instead="use --file")
