"""Budgets of answers, and cursors that belong to one query."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cortex.base.errors import InputError
from cortex.toolkit.pagination import (
    MAX_OFFSET,
    MIN_BUDGET,
    check_budget,
    make_cursor,
    read_cursor,
    take_fitting,
)


@given(key=st.text(), other=st.text(), offset=st.integers(0, MAX_OFFSET - 1))
def test_cursor_is_read_back_for_its_own_query_only(key: str, other: str, offset: int):
    cursor = make_cursor(key, offset)
    assert read_cursor(key, cursor) == offset
    if key.encode("utf-8", "replace") != other.encode("utf-8", "replace"):
        with pytest.raises(InputError) as raised:
            read_cursor(other, cursor)
        assert raised.value.code == "CURSOR_INVALID"


@given(cursor=st.text() | st.integers().map(lambda offset: make_cursor("lamp", offset)))
def test_any_cursor_is_a_valid_offset_or_rejected(cursor: str):
    try:
        assert 0 <= read_cursor("lamp", cursor) < MAX_OFFSET
    except InputError as error:
        assert error.code == "CURSOR_INVALID"


def test_missing_cursor_starts_at_the_beginning():
    assert read_cursor("lamp", None) == 0


def test_budget_below_the_least_is_rejected_and_a_missing_one_is_the_default():
    assert check_budget(None, 4_000) == 4_000
    assert check_budget(MIN_BUDGET, 4_000) == MIN_BUDGET
    for budget in (MIN_BUDGET - 1, 0, -5):
        with pytest.raises(InputError) as raised:
            check_budget(budget, 4_000)
        assert raised.value.code == "BUDGET_TOO_SMALL"


@given(parts=st.lists(st.text(max_size=20)), characters=st.integers(0, 300))
def test_parts_are_taken_from_the_first_until_the_next_would_not_fit(
    parts: list[str], characters: int
):
    def needed(count: int) -> int:
        encoded = [json.dumps(part, ensure_ascii=False) for part in parts[:count]]
        return len("".join(encoded)) + count

    taken = take_fitting(parts, characters)
    assert taken == parts[: len(taken)]
    assert not taken or needed(len(taken)) <= characters
    assert taken == parts or needed(len(taken) + 1) > characters
