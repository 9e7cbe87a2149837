"""Rendered answers keep to their budget, state their cost, and starve no slot."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cortex.base.errors import InputError, LimitError
from cortex.base.text import TOKEN_CHARACTERS
from cortex.families.team.tools import render
from cortex.families.team.tools.render import (
    RenderedSlot,
    Row,
    age_of,
    chosen_budget,
    error_text,
    paged_text,
    slots_text,
)

BUDGETS = st.sampled_from([200, 201, 250, 400, 1_000, 4_000])
ID = "thread_01JCZZZZZZZZZZZZZZZZZZZZZZ"


def texts(most: int) -> st.SearchStrategy[str]:
    """Short and long texts of letters and of characters that JSON escapes."""
    part = st.sampled_from(["a", "lamp ", '"', "\\", "\x01", "é", "日", "\n", "😀"])
    return st.builds(
        lambda one, times, end: (one * times + end)[:most],
        part,
        st.sampled_from([0, 1, 40, most]),
        part,
    )


@st.composite
def rows(draw: st.DrawFn) -> Row:
    row: Row = {"id": ID, "title": draw(texts(300)), "state": "open", "age": "3d"}
    if draw(st.booleans()):
        row |= {"text": draw(texts(3_000)), "warnings": draw(st.lists(texts(200), max_size=3))}
    return render.without_empty(row)


HEADS = st.builds(
    lambda title, body, tags: render.without_empty(
        {"id": ID, "title": title, "body": body, "tags": tags}
    ),
    texts(300),
    texts(20_000),
    st.lists(texts(50), max_size=10),
)
SLOTS = st.lists(
    st.builds(
        RenderedSlot, st.sampled_from("abcdef"), st.lists(rows(), max_size=8), st.integers(1, 4)
    ),
    max_size=6,
)


def opened(text: str, budget: int) -> tuple[dict[str, Any], dict[str, Any]]:
    answer = json.loads(text)
    assert len(text) <= budget * TOKEN_CHARACTERS
    assert answer["success"] is True
    assert answer["meta"]["budget_used"] == -(-len(text) // TOKEN_CHARACTERS)
    return answer["data"], answer["meta"]


@given(HEADS, SLOTS, BUDGETS)
def test_slots_keep_to_the_budget_and_report_omissions(head, slots, budget):
    slots = list({slot.name: slot for slot in slots}.values())
    text = slots_text(
        head, slots, budget, next_call="next", more_call=lambda after: f"more {after}"
    )
    body, meta = opened(text, budget)
    whole = {**head, **{slot.name: list(slot.rows) for slot in slots if slot.rows}}
    assert meta["truncated"] == (body != whole)
    assert meta["next_recommended_call"].startswith("more" if meta["truncated"] else "next")
    missing = {slot.name: len(slot.rows) - len(body.get(slot.name, ())) for slot in slots}
    assert body.get("more", {}) == {name: count for name, count in missing.items() if count}


@given(st.lists(st.integers(1, 60), min_size=2, max_size=6), st.sampled_from([600, 1_000, 4_000]))
def test_long_first_slot_starves_no_other(counts, budget):
    row: Row = {
        "id": ID,
        "title": "A title of usual length, as most have",
        "state": "open",
        "age": "3d",
    }
    slots = [RenderedSlot(f"slot{number}", [row] * count) for number, count in enumerate(counts)]
    body, _ = opened(slots_text({}, slots, budget), budget)
    assert all(body.get(slot.name) for slot in slots)


def test_unused_room_of_a_slot_goes_to_the_others_in_order():
    many = [{"id": ID, "title": "x" * 60}] * 50
    body, _ = opened(
        slots_text(
            {},
            [RenderedSlot("a", many), RenderedSlot("b", many[:1]), RenderedSlot("c", many)],
            1_000,
        ),
        1_000,
    )
    assert len(body["a"]) > len(body["c"]) > 0 and len(body["b"]) == 1


@given(HEADS, texts(60_000), BUDGETS)
def test_long_text_is_read_to_its_end_part_by_part(head, text, budget):
    offset, read = 0, ""
    head = {"id": ID, "title": head.get("title", "")}
    for _ in range(2_000):
        page = paged_text(
            head,
            "body",
            text,
            offset,
            budget,
            cursor=lambda end: f"cursor-{end}",
            more_call=lambda after: f"more {after}",
        )
        body, meta = opened(page, budget)
        read += body.get("body", "")
        if "next_cursor" not in body:
            break
        assert meta["truncated"] and meta["next_recommended_call"] == f"more {body['next_cursor']}"
        offset = int(body["next_cursor"].removeprefix("cursor-"))
    assert read == text


def test_budget_is_clamped_between_200_tokens_and_the_tools_maximum():
    assert chosen_budget(None, None, 4_000, 16_000) == 4_000
    assert chosen_budget(50_000, None, 4_000, 16_000) == 16_000
    assert chosen_budget(None, 1_000, 4_000, 16_000) == 250
    assert chosen_budget(300, 10_000, 4_000, 16_000) == 300
    for budget, characters in ((199, None), (None, 799), (1_000, 10)):
        with pytest.raises(InputError) as refused:
            chosen_budget(budget, characters, 4_000, 16_000)
        assert refused.value.code == "BUDGET_TOO_SMALL"


def test_age_is_rendered_in_its_largest_unit():
    day = 86_400_000
    ages = [
        age_of(400 * day - ago, 400 * day)
        for ago in (0, 61_000, 3 * day // 24, day, 45 * day, 399 * day)
    ]
    assert ages == ["now", "1m", "3h", "1d", "1mo", "1y"]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InputError("RECORD_UNKNOWN", "no"), "NOT_FOUND"),
        (InputError("RECORD_CHANGED", "no"), "VALIDATION_ERROR"),
        (InputError("RIGHTS_MISSING", "no"), "PERMISSION_DENIED"),
        (InputError("QUERY_EMPTY", "no"), "QUERY_TOO_SHORT"),
        (InputError("SENSITIVE_BLOCKED", "no"), "SENSITIVE_BLOCKED"),
        (LimitError("SEARCH_TIMEOUT", "no"), "SERVER_ERROR"),
    ],
)
def test_error_has_its_documented_code(error, code):
    body = json.loads(error_text(error))
    assert body["success"] is False and body["error"]["code"] == code
    assert body["error"]["message"] == "no" and body["error"]["suggestions"]
    assert ("retry_after_ms" in body["error"]) == error.retryable
    assert body["error"].get("details", {}).get("cause", code) == (
        error.code if code != error.code else code
    )
