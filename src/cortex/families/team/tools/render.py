"""What the team's tools say: one JSON text, `{success, data, meta}`, that never costs more than its
budget. Knows no store.

A part that matters less never costs one that matters more its place, and none is starved: each slot
of an answer has a share, and what one doesn't use goes to the others in the order of their
importance. Texts are cut before rows are left off. An empty field is not told.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from cortex.base.errors import CortexError
from cortex.base.text import TOKEN_CHARACTERS, estimate_tokens
from cortex.toolkit.pagination import check_budget, too_small

Row = dict[str, object]
Part = Row | str  # of a slot

CALL_CHARACTERS = 250  # of a recommended call
SAME_CHARACTERS = 50  # of an argument that the caller knows
CURSOR = "x" * 48  # no cursor is longer
MIN_TEXT = 40  # characters that a text is worth being cut to
MAX_MESSAGE, MAX_SUGGESTIONS = 1_200, 4
RETRY_MILLISECONDS = 1_000
# A cut text goes on somewhere; an id, a number or a state is whole or not there.
CUT_FIELDS = (
    "text",
    "body",
    "code",
    "summary",
    "charter",
    "meaning",
    "claim",
    "why",
    "note",
    "title",
    "rule",
    "warnings",
)

# Without which a row says nothing
KEPT_FIELDS = ("id", "slug", "path", "title", "text", "claim", "state")

# How the contract calls what went wrong; whatever isn't named is the server's own affair.
CODES: Mapping[str, str] = {
    **dict.fromkeys(("RECORD_UNKNOWN", "DOCUMENT_UNKNOWN", "MEMORY_UNKNOWN", "FILE_NOT_FOUND"), "NOT_FOUND"),
    **dict.fromkeys(
        ("RECORD_INVALID", "RECORD_CHANGED", "ARGUMENT_INVALID", "CURSOR_INVALID", "QUERY_INVALID", "MEMORY_AMBIGUOUS"),
        "VALIDATION_ERROR",
    ),
    **dict.fromkeys(
        ("RIGHTS_MISSING", "APPROVAL_NEEDED", "PATH_OUTSIDE", "PERMISSION_DENIED", "FILE_UNREADABLE"),
        "PERMISSION_DENIED",
    ),
    "QUERY_EMPTY": "QUERY_TOO_SHORT",
    **{
        code: code
        for code in (
            "BUDGET_TOO_SMALL", "IDEMPOTENCY_REPLAY", "RATE_LIMITED", "SCOPE_NOT_FOUND", "SENSITIVE_BLOCKED", "TARGET_NOT_FOUND",
        )
    },
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class RenderedSlot:
    """A part of an answer: rows, the weightiest first; `share` is how much of the room it may claim
    for itself.
    """

    name: str
    rows: Sequence[Part]
    share: int = 1
    left: int = 0  # more rows that there are


@dataclass(slots=True)
class _Filling:
    slot: RenderedSlot
    kept: list[Part] = field(default_factory=list)
    used: int = 0
    cut: bool = False  # the last of the kept rows is not whole

    @property
    def done(self) -> bool:
        return len(self.kept) == len(self.slot.rows) and not self.cut


def dumped(part: object) -> str:
    """The JSON of an answer or a part of it, as short as it can be."""
    return json.dumps(part, ensure_ascii=False, separators=(",", ":"))


def size(part: object) -> int:
    """The characters that a part costs."""
    return len(dumped(part))


def told(row: Mapping[str, object]) -> Row:
    """A row without what says nothing."""
    return {
        name: value
        for name, value in row.items()
        if value not in ("", None, 0, False) and value != [] and value != {}
    }


def chosen_budget(budget: int | None, max_chars: int | None, default: int, most: int) -> int:
    """The tokens that count: what was asked for, at most `most`.

    Raises: InputError BUDGET_TOO_SMALL.
    """
    return min(check_budget(smallest_budget(budget, max_chars), default), most)


def smallest_budget(budget: int | None, max_chars: int | None) -> int | None:
    """The tokens that a caller leaves an answer, in either measure; None without a word about it."""
    asked = [
        one
        for one in (budget, None if max_chars is None else max_chars // TOKEN_CHARACTERS)
        if one is not None
    ]
    return min(asked) if asked else None


def age_of(at: int, now: int | None = None) -> str:
    """How long ago that was, in the largest unit that tells it: 5m, 3h, 12d, 8mo, 2y."""
    seconds = max(0, (int(time.time() * 1000) if now is None else now) - at) // 1000
    for unit, length in (
        ("y", 31_557_600),
        ("mo", 2_629_800),
        ("d", 86_400),
        ("h", 3_600),
        ("m", 60),
    ):
        if seconds >= length:
            return f"{seconds // length}{unit}"
    return "now"


def call_text(tool: str, **arguments: object) -> str:
    """A call as a reader would write it; what is empty is not told, and `...` is whatever it was in
    the call before.
    """
    told_ones = {
        name: value for name, value in arguments.items() if value not in (None, "", [], {})
    }
    inner = ", ".join(
        f"{name}={'…' if value is ... else repr(value)}" for name, value in told_ones.items()
    )
    return cut(f"cortex_{tool}({inner})", CALL_CHARACTERS)


def same(argument: object) -> object:
    """An argument of the call before, for the next one: itself where it is short."""
    return argument if len(repr(argument)) <= SAME_CHARACTERS else ...


def cut(text: str, most: int) -> str:
    """At most so many characters of a text."""
    return text if len(text) <= most else text[: max(0, most - 1)].rstrip() + "…"


# -- answers
# -----------------------------------------------------------------------------------------------------------


def whole_text(body: Row, next_call: str = "") -> str:
    """An answer that is short by itself: what a write did."""
    return _sealed(body, False, next_call)


def slots_text(
    head: Row,
    slots: Sequence[RenderedSlot],
    budget: int,
    *,
    next_call: str = "",
    more_call: Callable[[str], str] | None = None,
    cursor: Callable[[int], str] | None = None,
) -> str:
    """An answer of a head and slots; `more_call` (of a cursor) is recommended instead of
    `next_call` where something was left off.

    `cursor` says where to go on behind so many rows of the first slot. Raises: InputError
    BUDGET_TOO_SMALL, where not even the head has room.
    """
    slots = [slot for slot in slots if slot.rows or slot.left]
    frame = max(_frame(next_call), _frame(more_call(CURSOR)) if more_call else 0)
    around = sum(size(slot.name) + len(":[],") for slot in slots)
    counts = size({"more": {slot.name: 1_000_000 for slot in slots}}) if slots else 0
    room = (
        budget * TOKEN_CHARACTERS
        - frame
        - around
        - counts
        - (size({"next_cursor": CURSOR}) if cursor else 0)
    )
    whole = sum(size(row) + 1 for slot in slots for row in slot.rows)
    kept = fitted(head, room - min(whole, room // 2)) or fitted(head, room)
    if kept is None:
        raise too_small(budget * TOKEN_CHARACTERS - room + size(head))
    fillings = _fill(slots, room - size(kept) - 1)
    left = {
        filling.slot.name: count
        for filling in fillings
        if (count := len(filling.slot.rows) - len(filling.kept) + filling.slot.left)
    }
    truncated = kept != head or not all(one.done for one in fillings)
    body: Row = {
        **kept,
        **{one.slot.name: one.kept for one in fillings if one.kept},
        **({"more": left} if left else {}),
    }
    after = cursor(len(fillings[0].kept)) if cursor and slots and slots[0].name in left else ""
    if after and not fillings[0].kept:
        raise too_small(budget * TOKEN_CHARACTERS + MIN_TEXT)  # else it would go on where it is
    if after:
        body["next_cursor"] = after
    return _sealed(
        body, truncated, more_call(after) if more_call and (truncated or left) else next_call
    )


def paged_text(
    head: Row,
    name: str,
    text: str,
    offset: int,
    budget: int,
    *,
    cursor: Callable[[int], str],
    more_call: Callable[[str], str],
    next_call: str = "",
) -> str:
    """An answer whose last part is a long text, from `offset` on as far as the budget goes, and
    where it goes on.
    """
    frame = max(_frame(next_call), _frame(more_call(CURSOR)))
    room = budget * TOKEN_CHARACTERS - frame - size({name: "", "next_cursor": CURSOR})
    kept = fitted(head, room - min(size(text[offset:]), room // 2)) or fitted(head, room)
    if kept is None:
        raise too_small(budget * TOKEN_CHARACTERS - room + size(head))
    part = _beginning(text[offset:], room - size(kept))
    if not part and text[offset:]:
        raise too_small(budget * TOKEN_CHARACTERS + MIN_TEXT)
    end = offset + len(part)
    body: Row = told({**kept, name: part})
    if end == len(text):
        return _sealed(body, kept != head, next_call)
    body["next_cursor"] = after = cursor(end)
    return _sealed(body, True, more_call(after))


def _beginning(text: str, room: int) -> str:
    """As much of a text as costs no more than `room` as JSON, to the end of a line where one is
    near.
    """
    part = text[: max(0, room)]
    while part and (over := size(part) - len('""') - room) > 0:
        part = part[: -max(1, over // 6)]  # a character costs at most six
    if len(part) == len(text):
        return part
    line = part.rfind("\n") + 1
    return part[:line] if line > len(part) * 4 // 5 else part


def error_text(error: CortexError) -> str:
    """An error as this family tells it."""
    # What is near stands in the message, too.
    details = {
        name: value
        for name, value in error.context.items()
        if value not in ("", None) and name != "near"
    }
    code = code_of(error)
    if code != error.code:
        details["cause"] = error.code
    one: Row = {
        "code": code,
        "message": cut(error.message, MAX_MESSAGE),
        "details": details,
        "retry_after_ms": RETRY_MILLISECONDS if error.retryable else 0,
        "suggestions": list(dict.fromkeys(error.suggestions))[:MAX_SUGGESTIONS],
    }
    return json.dumps(
        {"success": False, "error": told(one)},
        ensure_ascii=False,
        separators=(",", ":"),
        default=str,
    )


def code_of(error: CortexError) -> str:
    """What the contract calls an error."""
    if error.code == "ARGUMENT_INVALID" and "filter" in error.context:
        return "INVALID_FILTER"
    return CODES.get(error.code, "SERVER_ERROR")


def _frame(next_call: str) -> int:
    """What an answer costs beside its body."""
    return len(_rendered({}, 999_999, False, next_call)) - len("{}")


def _rendered(body: Row, used: int, truncated: bool, next_call: str) -> str:
    meta: Row = {"budget_used": used, "truncated": truncated}
    if next_call:
        meta["next_recommended_call"] = next_call
    return dumped({"success": True, "data": body, "meta": meta})


def _sealed(body: Row, truncated: bool, next_call: str) -> str:
    """The answer with what it costs, which is part of what it costs."""
    used = 0
    while True:
        text = _rendered(body, used, truncated, next_call)
        if (cost := estimate_tokens(text)) == used:
            return text
        used = cost  # never less than before, so that this ends


# -- fitting
# -----------------------------------------------------------------------------------------------------------


def fitted(row: Row, room: int) -> Row | None:
    """The row in at most so many characters: its longest texts cut, then its lists from their ends,
    then without what it can do without.

    None where all that isn't enough.
    """
    row = dict(row)
    while (over := size(row) - room) > 0:
        texts = {name: len(str(row[name])) for name in CUT_FIELDS if isinstance(row.get(name), str)}
        longest = max(texts, key=texts.__getitem__, default="")
        if longest and texts[longest] > MIN_TEXT:
            row[longest] = cut(str(row[longest]), max(MIN_TEXT, texts[longest] - over - 1))
            continue
        lists = {name: value for name, value in row.items() if isinstance(value, list)}
        if lists:
            largest = max(lists, key=lambda name: size(lists[name]))
            kept = lists[largest][:-1]
            row = {
                name: kept if name == largest else value
                for name, value in row.items()
                if name != largest or kept
            }
            continue
        spare = [name for name in row if name not in KEPT_FIELDS]
        if not spare:
            return None
        row.pop(spare[-1])
    return row


def _fitted_part(part: Part, room: int) -> Part | None:
    if not isinstance(part, str):
        return fitted(part, room)
    over = size(part) - room
    return (
        part
        if over <= 0
        else cut(part, len(part) - over - 1)
        if len(part) - over > MIN_TEXT
        else None
    )


def _fill(slots: Sequence[RenderedSlot], room: int) -> list[_Filling]:
    """Each slot as far as its share goes, then, in their order, as far as the rest of the room
    goes.
    """
    fillings = [_Filling(slot) for slot in slots]
    shares = sum(slot.share for slot in slots) or 1
    for filling in fillings:
        _add(filling, room * filling.slot.share // shares)
    left = room - sum(one.used for one in fillings)
    for one in fillings:
        before = one.used
        _add(one, one.used + left)
        left -= one.used - before
    return fillings


def _add(one: _Filling, room: int) -> None:
    """More rows until the slot uses `room`; one that doesn't fit is cut, where that leaves
    something to read.
    """
    if one.cut:  # there is more room than when it was cut
        one.used -= size(one.kept.pop()) + 1
        one.cut = False
    for row in one.slot.rows[len(one.kept) :]:
        kept = _fitted_part(row, room - one.used - 1)
        if kept is None or (kept != row and size(kept) * 3 < size(row) and one.kept):
            return
        one.kept.append(kept)
        one.used += size(kept) + 1
        if kept != row:
            one.cut = True
            return
