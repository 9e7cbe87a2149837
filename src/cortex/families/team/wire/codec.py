"""Records and changes as JSON between a home and its Core, both ways.

What a home sends is read strictly: a field that isn't known, a value of another type or size is an
error that names its place, and nothing of it is used. What a Core sends may say more than this
version knows; that is left out. What a body may say besides (states, lengths, secrets) isn't known
here, nor who may say it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache
from typing import Any, get_args, get_origin, get_type_hints

from cortex.base.actors import AGENT, PERSON
from cortex.base.errors import CortexError, InputError
from cortex.base.record_model import KINDS, PREFIXES, Body, Record
from cortex.base.secret_scanner import redact
from cortex.engine.store import OutboxEntry, RecordChange, VersionedRecord
from cortex.engine.store.records.json_codec import told_of

Told = dict[str, object]

MOST_CHANGES = 20_000  # of one action: a thread that moves takes its comments along
MOST_CHARACTERS = 200_000  # of one text; more than any field may have
MOST_VALUES = 1_000  # of one field; as above
MOST_NUMBER = 2**53 - 1  # that every reader of JSON understands
MOST_KEY = 400  # characters: a key of a home, and which home that is

_ULID = "[0-7][0-9A-HJKMNP-TV-Z]{25}"
_NAME = re.compile(r"[^\s\x00-\x1f\x7f-\x9f\ud800-\udfff]{1,200}")
_KEY = re.compile(r"[\x21-\x7e]{1,400}")
_ACTION = re.compile(r"[a-z][a-z0-9_.-]{0,63}")


@dataclass(frozen=True, slots=True)
class Action:
    """What one step at home wrote, as it is told to a Core."""

    key: str
    action: str
    actor: str  # person or agent
    tier: int
    at: int  # milliseconds since 1970, there
    changes: tuple[RecordChange, ...]
    again: bool = False  # the ledger took it once, before it was put back


# -- telling
# -----------------------------------------------------------------------------------------------------------


def body_to(body: Body) -> Told:
    """A body, without what is as it is anyway."""
    return told_of(body)


def record_to(kept: VersionedRecord) -> Told:
    """A record as it is now."""
    one = kept.record
    return {
        "id": one.id,
        "kind": one.kind,
        "version": one.version,
        "change": kept.change,
        "author": one.author,
        "created": one.created,
        "updated": one.updated,
        "body": body_to(one.body),
    }


def changed_to(one: RecordChange) -> Told:
    """What a step wrote of one record."""
    return {
        "id": one.id,
        "kind": one.kind,
        "author": one.author,
        "created": one.created,
        "before": None if one.before is None else body_to(one.before),
        "after": body_to(one.after),
    }


def action_to(entry: OutboxEntry, key: str, changes: Sequence[RecordChange]) -> Told:
    """An entry of the outbox under the key that it has at the Core; `changes` are its own, with the
    names of the Core.
    """
    payload: Told = {
        "actor": entry.actor,
        "tier": entry.tier,
        "at": entry.at,
        "changes": [changed_to(change) for change in changes],
    }
    if entry.taken:
        payload["again"] = True
    return {"idempotency_key": key, "action": entry.action, "payload": payload}


def result_to(
    key: str, status: str, records: Sequence[VersionedRecord], error: CortexError | None = None
) -> Told:
    """What became of an action."""
    return {
        "idempotency_key": key,
        "status": status,
        "id": records[0].record.id if records else None,
        "error": None if error is None else error_to(error),
        "records": [record_to(record) for record in records],
    }


def error_to(error: CortexError) -> Told:
    """Why something was refused; of a conflict a detail for each field."""
    conflicts = error.context.get("conflicts")
    details = conflicts if isinstance(conflicts, list) else [error.context] if error.context else []
    return {"code": error.code, "message": error.message, "details": details}


def canonical(changes: Sequence[RecordChange]) -> str:
    """Changes as the one text that stands for them, whoever made it."""
    told = [changed_to(change) for change in changes]
    return json.dumps(told, ensure_ascii=False, separators=(",", ":"), sort_keys=True)


# -- reading
# -----------------------------------------------------------------------------------------------------------


def record_from(told: object, place: str = "record") -> VersionedRecord:
    """A record that a Core tells. Raises: InputError RECORD_INVALID."""
    told = _object(told, place)
    number, kind = _id(told, place)
    body = body_from(kind, told.get("body"), f"{place}.body", strict=False)
    record = Record(
        number,
        body,
        _name(told, "author", place),
        _number(told, "created", place),
        _number(told, "updated", place),
        _number(told, "version", place),
    )
    return VersionedRecord(record, _number(told, "change", place))


def action_from(told: object, place: str = "action") -> Action:
    """An action that a home tells.

    Raises: InputError RECORD_INVALID with the place that is wrong.
    """
    told = _object(told, place, ("idempotency_key", "action", "payload"))
    inside = f"{place}.payload"
    payload = _object(told.get("payload"), inside, ("actor", "tier", "at", "changes", "again"))
    actor = _matching(payload, "actor", inside, _NAME)
    if actor not in (PERSON, AGENT):
        raise _wrong(f"{inside}.actor", f"is {PERSON} or {AGENT}")
    changes = _list(payload.get("changes"), f"{inside}.changes", MOST_CHANGES)
    if not changes:
        raise _wrong(f"{inside}.changes", "are none")
    again = payload.get("again", False)
    if not isinstance(again, bool):
        raise _wrong(f"{inside}.again", "is true or false")
    return Action(
        _matching(told, "idempotency_key", place, _KEY),
        _matching(told, "action", place, _ACTION),
        actor,
        _number(payload, "tier", inside),
        _number(payload, "at", inside),
        tuple(
            changed_from(one, f"{inside}.changes[{number}]") for number, one in enumerate(changes)
        ),
        again,
    )


def changed_from(told: object, place: str = "change") -> RecordChange:
    """A change that a home tells.

    Raises: InputError RECORD_INVALID with the place that is wrong.
    """
    told = _object(told, place, ("id", "kind", "author", "created", "before", "after"))
    number, kind = _id(told, place)
    before = told.get("before")
    return RecordChange(
        number,
        kind,
        _name(told, "author", place),
        _number(told, "created", place),
        None if before is None else body_from(kind, before, f"{place}.before"),
        body_from(kind, told.get("after"), f"{place}.after"),
    )


def body_from(kind: str, told: object, place: str = "body", *, strict: bool = True) -> Body:
    """The body of a kind; unless `strict`, what isn't known is left out.

    Raises: InputError RECORD_INVALID.
    """
    if kind not in KINDS:
        raise _wrong(place, f"is of no kind that is known: {', '.join(KINDS)}")
    return _noun(KINDS[kind], told, place, strict)


def is_id(number: str, kind: str) -> bool:
    """Whether a text is an id that a record of this kind may have."""
    return kind in KINDS and re.fullmatch(PREFIXES[KINDS[kind]] + _ULID, number) is not None


def _noun(cls: type, told: object, place: str, strict: bool) -> Any:
    hints = _hints(cls)
    told = _object(told, place, tuple(hints) if strict else None)
    needed = [
        field.name for field in fields(cls) if field.default is MISSING and field.name not in told
    ]
    if needed:
        raise _wrong(f"{place}.{needed[0]}", "is missing")
    values = {
        name: _value(hint, told[name], f"{place}.{name}", strict)
        for name, hint in hints.items()
        if name in told
    }
    return cls(**values)


def _value(hint: Any, told: object, place: str, strict: bool) -> Any:
    if get_origin(hint) is not tuple:
        return _text(told, place) if hint is str else _whole(told, place)
    inner, *rest = get_args(hint)
    if rest != [...]:  # a pair
        pair = _list(told, place, MOST_VALUES)
        if len(pair) != 1 + len(rest):
            raise _wrong(place, f"are {1 + len(rest)} texts")
        return tuple(_text(one, f"{place}[{number}]") for number, one in enumerate(pair))
    several = enumerate(_list(told, place, MOST_VALUES))
    if is_dataclass(inner):
        assert isinstance(inner, type)
        return tuple(_noun(inner, one, f"{place}[{number}]", strict) for number, one in several)
    return tuple(_value(inner, one, f"{place}[{number}]", strict) for number, one in several)


@cache
def _hints(cls: type) -> dict[str, Any]:
    known = get_type_hints(cls)
    return {field.name: known[field.name] for field in fields(cls)}


def _object(told: object, place: str, known: Sequence[str] | None = None) -> Mapping[str, object]:
    if not isinstance(told, dict):
        raise _wrong(place, "is an object")
    strange = [name for name in told if known is not None and name not in known]
    if strange:
        shown = redact(str(strange[0]))[0][:80]
        raise _wrong(place, f"has no field {shown!r}; known: {', '.join(known or ())}")
    return told


def _list(told: object, place: str, most: int) -> list[object]:
    if not isinstance(told, list):
        raise _wrong(place, "is a list")
    if len(told) > most:
        raise _wrong(place, f"are at most {most:,}, these are {len(told):,}")
    return told


def _text(told: object, place: str) -> str:
    if not isinstance(told, str):
        raise _wrong(place, "is a text")
    if len(told) > MOST_CHARACTERS:
        raise _wrong(
            place, f"has at most {MOST_CHARACTERS:,} characters, this one has {len(told):,}"
        )
    return told


def _whole(told: object, place: str) -> int:
    if not isinstance(told, int) or isinstance(told, bool) or not 0 <= told <= MOST_NUMBER:
        raise _wrong(place, "is a whole number that isn't negative")
    return told


def _number(told: Mapping[str, object], name: str, place: str) -> int:
    return _whole(told.get(name), f"{place}.{name}")


def _matching(told: Mapping[str, object], name: str, place: str, pattern: re.Pattern[str]) -> str:
    value = _text(told.get(name), f"{place}.{name}")
    if pattern.fullmatch(value) is None:
        raise _wrong(f"{place}.{name}", f"isn't like {pattern.pattern}")
    return value


def _name(told: Mapping[str, object], name: str, place: str) -> str:
    return _matching(told, name, place, _NAME)


def _id(told: Mapping[str, object], place: str) -> tuple[str, str]:
    """The id of a record and its kind, which fit."""
    kind, number = _text(told.get("kind"), f"{place}.kind"), _text(told.get("id"), f"{place}.id")
    if kind not in KINDS:
        raise _wrong(f"{place}.kind", f"is one of {', '.join(KINDS)}")
    if not is_id(number, kind):
        raise _wrong(f"{place}.id", f"is {PREFIXES[KINDS[kind]]} and a ULID")
    return number, kind


def _wrong(place: str, what: str) -> InputError:
    return InputError("RECORD_INVALID", f"{place} {what}", context={"field": place})
