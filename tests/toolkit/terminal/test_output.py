"""Texts that fit a terminal."""

from __future__ import annotations

import pytest

from cortex.toolkit.terminal.output import cut_to, width_of


@pytest.mark.parametrize(
    ("text", "width"),
    [("abcdef", 4), ("東京都庁", 5), ("a\x1b[31mb", 8), ("", 3), ("e\u0301" * 9, 4)],
)
def test_text_is_cut_to_the_available_columns(text, width):
    assert width_of(cut_to(text, width)) <= width
