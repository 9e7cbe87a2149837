"""Rendering of tool answers: one JSON text `{success, data, meta}` within a token budget.

Each slot of an answer has a share of the room, and unused room goes to the other slots in order of
importance, so that no slot is left without room. Texts are cut before rows are dropped. Empty
fields are left out. Knows nothing about the store.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from cortex.base.errors import CODES, CortexError
from cortex.base.text import TOKEN_CHARACTERS, estimate_tokens
from cortex.toolkit.pagination import check_budget, too_small

Row = dict[str, object]
# Element of a slot.
Part = Row | str

# Longest recommended call, in characters.
CALL_CHARACTERS = 250
# Longest argument that a recommended call repeats instead of "…".
SAME_CHARACTERS = 50
# Placeholder for a cursor when sizes are computed; none is longer.
CURSOR = "x" * 48
# Shortest length that a text is cut to.
MIN_TEXT = 40
MAX_MESSAGE, MAX_SUGGESTIONS = 1_200, 4
RETRY_MILLISECONDS = 1_000
# Fields that may be cut, since the rest can be read elsewhere; an id, a number or a state is
# complete or absent.
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

# Fields without which a row is useless.
KEPT_FIELDS = ("id", "slug", "path", "title", "text", "claim", "state")


@dataclass(frozen=True, slots=True)
class RenderedSlot:
    """A part of an answer: rows, most important first, and its share of the room."""

    name: str
    rows: Sequence[Part]
    share: int = 1
    # Further rows that exist but are not passed.
    left: int = 0


@dataclass(slots=True)
class _Filling:
    """The rows of a slot that were placed so far."""

    slot: RenderedSlot
    kept: list[Part] = field(default_factory=list)
    used: int = 0
    # The last of the kept rows is cut.
    cut: bool = False

    @property
    def done(self) -> bool:
        """True if all rows were kept in full."""
        return len(self.kept) == len(self.slot.rows) and not self.cut

    @property
    def left(self) -> int:
        """Number of rows that aren't in the answer."""
        return len(self.slot.rows) - len(self.kept) + self.slot.left


def dumped(part: object) -> str:
    """Return the most compact JSON of an answer or a part of it."""
    return json.dumps(part, ensure_ascii=False, separators=(",", ":"))


def size(part: object) -> int:
    """Return the cost of a part in characters."""
    return len(dumped(part))


def without_empty(row: Mapping[str, object]) -> Row:
    """Return a row without empty fields."""
    return {
        name: value
        for name, value in row.items()
        if value not in ("", None, 0, False) and value != [] and value != {}
    }


def chosen_budget(budget: int | None, max_chars: int | None, default: int, most: int) -> int:
    """Return the token budget of an answer: the requested or default one, at most `most`.

    Raises: InputError BUDGET_TOO_SMALL.
    """
    return min(check_budget(smallest_budget(budget, max_chars), default), most)


def smallest_budget(budget: int | None, max_chars: int | None) -> int | None:
    """Return the smaller of both limits in tokens; None if neither is given."""
    limits = [
        limit
        for limit in (budget, None if max_chars is None else max_chars // TOKEN_CHARACTERS)
        if limit is not None
    ]
    return min(limits) if limits else None


def age_of(at: int, now: int | None = None) -> str:
    """Format an age in its largest unit: 5m, 3h, 12d, 8mo, 2y."""
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
    """Format a tool call for the reader, without empty arguments.

    The value `...` is shown as "…", which means the same argument as in the previous call.
    """
    given = {name: value for name, value in arguments.items() if value not in (None, "", [], {})}
    inner = ", ".join(
        f"{name}={'…' if value is ... else repr(value)}" for name, value in given.items()
    )
    return cut(f"cortex_{tool}({inner})", CALL_CHARACTERS)


def same(argument: object) -> object:
    """Return an argument for a recommended call: itself if it is short, else `...`."""
    return argument if len(repr(argument)) <= SAME_CHARACTERS else ...


def cut(text: str, most: int) -> str:
    """Shorten a text to at most `most` characters."""
    return text if len(text) <= most else text[: max(0, most - 1)].rstrip() + "…"


# -- answers


def whole_text(body: Row, next_call: str = "") -> str:
    """Render an answer that is always short: the result of a write."""
    return _with_cost(body, False, next_call)


def slots_text(
    head: Row,
    slots: Sequence[RenderedSlot],
    budget: int,
    *,
    next_call: str = "",
    more_call: Callable[[str], str] | None = None,
    cursor: Callable[[int], str] | None = None,
) -> str:
    """Render an answer of a head and slots.

    If something was left out, `more_call` (given a cursor) is recommended instead of `next_call`.
    `cursor` makes the cursor after so many rows of the first slot.

    Raises: InputError BUDGET_TOO_SMALL if not even the head fits.
    """
    slots = [slot for slot in slots if slot.rows or slot.left]
    room = budget * TOKEN_CHARACTERS - _size_around(slots, next_call, more_call)
    room -= size({"next_cursor": CURSOR}) if cursor else 0
    whole = sum(size(row) + 1 for slot in slots for row in slot.rows)
    kept = _fitted_head(head, room, whole, budget)
    fillings = _fill(slots, room - size(kept) - 1)
    left = {filling.slot.name: count for filling in fillings if (count := filling.left)}
    truncated = kept != head or not all(filling.done for filling in fillings)
    body: Row = {
        **kept,
        **{filling.slot.name: filling.kept for filling in fillings if filling.kept},
        **({"more": left} if left else {}),
    }
    after = cursor(len(fillings[0].kept)) if cursor and slots and slots[0].name in left else ""
    if after and not fillings[0].kept:
        # Otherwise the cursor would not advance.
        raise too_small(budget * TOKEN_CHARACTERS + MIN_TEXT)
    if after:
        body["next_cursor"] = after
    is_partial = truncated or left
    return _with_cost(body, truncated, more_call(after) if more_call and is_partial else next_call)


def _size_around(
    slots: Sequence[RenderedSlot], next_call: str, more_call: Callable[[str], str] | None
) -> int:
    """Return the size of everything in an answer that is neither its head nor a row."""
    frame = max(_frame_size(next_call), _frame_size(more_call(CURSOR)) if more_call else 0)
    names = sum(size(slot.name) + len(":[],") for slot in slots)
    counts = size({"more": {slot.name: 1_000_000 for slot in slots}}) if slots else 0
    return frame + names + counts


def _fitted_head(head: Row, room: int, wanted: int, budget: int) -> Row:
    """Fit a head into `room`, half of it if the rest of the answer wants as much.

    Raises: InputError BUDGET_TOO_SMALL.
    """
    kept = fitted(head, room - min(wanted, room // 2)) or fitted(head, room)
    if kept is None:
        raise too_small(budget * TOKEN_CHARACTERS - room + size(head))
    return kept


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
    """Render an answer that ends with a long text, from `offset` as far as the budget allows.

    `cursor` makes the cursor for the rest.
    """
    frame = max(_frame_size(next_call), _frame_size(more_call(CURSOR)))
    room = budget * TOKEN_CHARACTERS - frame - size({name: "", "next_cursor": CURSOR})
    kept = _fitted_head(head, room, size(text[offset:]), budget)
    part = _first_part(text[offset:], room - size(kept))
    if not part and text[offset:]:
        raise too_small(budget * TOKEN_CHARACTERS + MIN_TEXT)
    end = offset + len(part)
    body: Row = without_empty({**kept, name: part})
    if end == len(text):
        return _with_cost(body, kept != head, next_call)
    body["next_cursor"] = after = cursor(end)
    return _with_cost(body, True, more_call(after))


def _first_part(text: str, room: int) -> str:
    """Return the beginning of a text that costs at most `room` as JSON.

    It ends with a line, if one ends nearby.
    """
    part = text[: max(0, room)]
    while part and (over := size(part) - len('""') - room) > 0:
        # A character costs at most six.
        part = part[: -max(1, over // 6)]
    if len(part) == len(text):
        return part
    line = part.rfind("\n") + 1
    return part[:line] if line > len(part) * 4 // 5 else part


def error_text(error: CortexError) -> str:
    """Render an error for the tools of this family."""
    # Suggestions are in the message, too.
    details = {
        name: value
        for name, value in error.context.items()
        if value not in ("", None) and name != "near"
    }
    code = code_of(error)
    if code != error.code:
        details["cause"] = error.code
    row: Row = {
        "code": code,
        "message": cut(error.message, MAX_MESSAGE),
        "details": details,
        "retry_after_ms": RETRY_MILLISECONDS if error.retryable else 0,
        "suggestions": list(dict.fromkeys(error.suggestions))[:MAX_SUGGESTIONS],
    }
    return json.dumps(
        {"success": False, "error": without_empty(row)},
        ensure_ascii=False,
        separators=(",", ":"),
        default=str,
    )


def code_of(error: CortexError) -> str:
    """Return the contract's code of an error."""
    if error.code == "ARGUMENT_INVALID" and "filter" in error.context:
        return "INVALID_FILTER"
    return CODES[error.code].tool or "SERVER_ERROR"


def _frame_size(next_call: str) -> int:
    """Return the cost of an answer apart from its body."""
    return len(_render({}, 999_999, False, next_call)) - len("{}")


def _render(body: Row, used: int, truncated: bool, next_call: str) -> str:
    """Serialize an answer with its metadata."""
    meta: Row = {"budget_used": used, "truncated": truncated}
    if next_call:
        meta["next_recommended_call"] = next_call
    return dumped({"success": True, "data": body, "meta": meta})


def _with_cost(body: Row, truncated: bool, next_call: str) -> str:
    """Render an answer that states its own cost, including that statement."""
    used = 0
    while True:
        text = _render(body, used, truncated, next_call)
        if (cost := estimate_tokens(text)) == used:
            return text
        # The cost never decreases, so the loop ends.
        used = cost


# -- fitting


def fitted(row: Row, room: int) -> Row | None:
    """Fit a row into `room` characters, or return None if that is impossible.

    Cuts the longest texts, then lists from their ends, then drops optional fields.
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


def _fit_part(part: Part, room: int) -> Part | None:
    """Fit a row or a text into `room` characters."""
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
    """Fill each slot up to its share, then, in order, up to the remaining room."""
    fillings = [_Filling(slot) for slot in slots]
    shares = sum(slot.share for slot in slots) or 1
    for filling in fillings:
        _add_rows(filling, room * filling.slot.share // shares)
    left = room - sum(filling.used for filling in fillings)
    for filling in fillings:
        before = filling.used
        _add_rows(filling, filling.used + left)
        left -= filling.used - before
    return fillings


def _add_rows(filling: _Filling, room: int) -> None:
    """Add rows until the slot uses `room`; the last may be cut if enough of it is left."""
    # There is more room now than when it was cut.
    if filling.cut:
        filling.used -= size(filling.kept.pop()) + 1
        filling.cut = False
    for row in filling.slot.rows[len(filling.kept) :]:
        kept = _fit_part(row, room - filling.used - 1)
        if kept is None or (kept != row and size(kept) * 3 < size(row) and filling.kept):
            return
        filling.kept.append(kept)
        filling.used += size(kept) + 1
        if kept != row:
            filling.cut = True
            return
