"""JSON codec for records and changes between a home and its Core.

Data from a home is decoded strictly: an unknown field or a value of the wrong type or size is an
error that names its location, and nothing of it is used. Data from a Core may have fields that this
version doesn't know; they are dropped. Field rules (states, lengths, secrets) and permissions are
checked elsewhere.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from typing import Any, get_origin

from cortex.base.actors import AGENT, PERSON
from cortex.base.errors import CortexError, InputError
from cortex.base.record_model import KINDS, PREFIXES, Body, Record
from cortex.base.record_spec import FieldSpec, fields_of
from cortex.base.secret_scanner import redact
from cortex.engine.store import OutboxEntry, RecordChange, VersionedRecord
from cortex.engine.store.records.json_codec import to_fields

JsonObject = dict[str, object]

# Of one action: moving a thread moves its comments.
MOST_CHANGES = 20_000
# Of one text; more than any field may have.
MOST_CHARACTERS = 200_000
# Of one field; more than any field may have.
MOST_VALUES = 1_000
# Largest integer that every JSON parser reads exactly.
MOST_NUMBER = 2**53 - 1
# Characters: a key of a home, and the home's id.
MOST_KEY = 400

_ULID = "[0-7][0-9A-HJKMNP-TV-Z]{25}"
_NAME = re.compile(r"[^\s\x00-\x1f\x7f-\x9f\ud800-\udfff]{1,200}")
_KEY = re.compile(r"[\x21-\x7e]{1,400}")
_ACTION = re.compile(r"[a-z][a-z0-9_.-]{0,63}")


@dataclass(frozen=True, slots=True)
class Action:
    """Changes of one transaction at a home, as sent to a Core."""

    key: str
    action: str
    # "person" or "agent".
    actor: str
    tier: int
    # Milliseconds since 1970, by the home's clock.
    at: int
    changes: tuple[RecordChange, ...]
    # The Core accepted it before, and was then restored from a backup.
    again: bool = False


# -- encoding


def body_to(body: Body) -> JsonObject:
    """Encode a body without default values."""
    return to_fields(body)


def record_to(kept: VersionedRecord) -> JsonObject:
    """Encode the current version of a record."""
    record = kept.record
    return {
        "id": record.id,
        "kind": record.kind,
        "version": record.version,
        "change": kept.change,
        "author": record.author,
        "created": record.created,
        "updated": record.updated,
        "body": body_to(record.body),
    }


def changed_to(change: RecordChange) -> JsonObject:
    """Encode the change of one record."""
    return {
        "id": change.id,
        "kind": change.kind,
        "author": change.author,
        "created": change.created,
        "before": None if change.before is None else body_to(change.before),
        "after": body_to(change.after),
    }


def action_to(entry: OutboxEntry, key: str, changes: Sequence[RecordChange]) -> JsonObject:
    """Encode an outbox entry under its key at the Core.

    `changes` are the entry's changes with the names used at the Core.
    """
    payload: JsonObject = {
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
) -> JsonObject:
    """Encode the result of an action."""
    return {
        "idempotency_key": key,
        "status": status,
        "id": records[0].record.id if records else None,
        "error": None if error is None else error_to(error),
        "records": [record_to(record) for record in records],
    }


def error_to(error: CortexError) -> JsonObject:
    """Encode an error; a conflict has details for each field."""
    conflicts = error.context.get("conflicts")
    details = conflicts if isinstance(conflicts, list) else [error.context] if error.context else []
    return {"code": error.code, "message": error.message, "details": details}


def canonical(changes: Sequence[RecordChange]) -> str:
    """Return the canonical JSON of changes, independent of their origin."""
    encoded = [changed_to(change) for change in changes]
    return json.dumps(encoded, ensure_ascii=False, separators=(",", ":"), sort_keys=True)


# -- decoding


def record_from(data: object, place: str = "record") -> VersionedRecord:
    """Decode a record from a Core. Raises: InputError RECORD_INVALID."""
    data = _object(data, place)
    record_id, kind = _id_fields(data, place)
    body = body_from(kind, data.get("body"), f"{place}.body", strict=False)
    record = Record(
        record_id,
        body,
        _name_field(data, "author", place),
        _integer_field(data, "created", place),
        _integer_field(data, "updated", place),
        _integer_field(data, "version", place),
    )
    return VersionedRecord(record, _integer_field(data, "change", place))


def action_from(data: object, place: str = "action") -> Action:
    """Decode an action from a home.

    Raises: InputError RECORD_INVALID with the location of the error.
    """
    data = _object(data, place, ("idempotency_key", "action", "payload"))
    inside = f"{place}.payload"
    payload = _object(data.get("payload"), inside, ("actor", "tier", "at", "changes", "again"))
    actor = _text_field(payload, "actor", inside, _NAME)
    if actor not in (PERSON, AGENT):
        raise _invalid(f"{inside}.actor", f"is {PERSON} or {AGENT}")
    changes = _list(payload.get("changes"), f"{inside}.changes", MOST_CHANGES)
    if not changes:
        raise _invalid(f"{inside}.changes", "are none")
    again = payload.get("again", False)
    if not isinstance(again, bool):
        raise _invalid(f"{inside}.again", "is true or false")
    return Action(
        _text_field(data, "idempotency_key", place, _KEY),
        _text_field(data, "action", place, _ACTION),
        actor,
        _integer_field(payload, "tier", inside),
        _integer_field(payload, "at", inside),
        tuple(
            changed_from(change, f"{inside}.changes[{index}]")
            for index, change in enumerate(changes)
        ),
        again,
    )


def changed_from(data: object, place: str = "change") -> RecordChange:
    """Decode a change from a home.

    Raises: InputError RECORD_INVALID with the location of the error.
    """
    data = _object(data, place, ("id", "kind", "author", "created", "before", "after"))
    record_id, kind = _id_fields(data, place)
    before = data.get("before")
    return RecordChange(
        record_id,
        kind,
        _name_field(data, "author", place),
        _integer_field(data, "created", place),
        None if before is None else body_from(kind, before, f"{place}.before"),
        body_from(kind, data.get("after"), f"{place}.after"),
    )


def body_from(kind: str, data: object, place: str = "body", *, strict: bool = True) -> Body:
    """Decode a body; unless `strict`, unknown fields are dropped.

    Raises: InputError RECORD_INVALID.
    """
    if kind not in KINDS:
        raise _invalid(place, f"is of no kind that is known: {', '.join(KINDS)}")
    return _decode_dataclass(KINDS[kind], data, place, strict)


def is_id(record_id: str, kind: str) -> bool:
    """True for a valid id of a record of this kind."""
    return kind in KINDS and re.fullmatch(PREFIXES[KINDS[kind]] + _ULID, record_id) is not None


def _decode_dataclass(cls: type, data: object, place: str, strict: bool) -> Any:
    """Decode a dataclass by the types of its fields."""
    specs = fields_of(cls)
    data = _object(data, place, tuple(specs) if strict else None)
    for name, spec in specs.items():
        if spec.default is ... and name not in data:
            raise _invalid(f"{place}.{name}", "is missing")
    values = {
        name: _decode_value(spec, data[name], f"{place}.{name}", strict)
        for name, spec in specs.items()
        if name in data
    }
    return cls(**values)


def _decode_value(spec: FieldSpec, data: object, place: str, strict: bool) -> Any:
    """Decode a value by its type: a text, an integer, or a tuple of texts, pairs or dataclasses."""
    if spec.part is None:
        return _text(data, place) if spec.hint is str else _integer(data, place)
    items = [
        (item, f"{place}[{index}]") for index, item in enumerate(_list(data, place, MOST_VALUES))
    ]
    if is_dataclass(spec.part):
        cls: Any = spec.part
        return tuple(_decode_dataclass(cls, item, at, strict) for item, at in items)
    decode = _pair if get_origin(spec.part) is tuple else _text
    return tuple(decode(item, at) for item, at in items)


def _pair(data: object, place: str) -> tuple[str, ...]:
    """Check for two texts."""
    pair = _list(data, place, MOST_VALUES)
    if len(pair) != 2:
        raise _invalid(place, "are 2 texts")
    return tuple(_text(text, f"{place}[{index}]") for index, text in enumerate(pair))


def _object(data: object, place: str, known: Sequence[str] | None = None) -> Mapping[str, object]:
    """Check for an object, with only `known` fields if given."""
    if not isinstance(data, dict):
        raise _invalid(place, "is an object")
    unknown = [name for name in data if known is not None and name not in known]
    if unknown:
        shown = redact(str(unknown[0]))[0][:80]
        raise _invalid(place, f"has no field {shown!r}; known: {', '.join(known or ())}")
    return data


def _list(data: object, place: str, most: int) -> list[object]:
    """Check for a list of at most `most` elements."""
    if not isinstance(data, list):
        raise _invalid(place, "is a list")
    if len(data) > most:
        raise _invalid(place, f"are at most {most:,}, these are {len(data):,}")
    return data


def _text(data: object, place: str) -> str:
    """Check for a text of allowed length."""
    if not isinstance(data, str):
        raise _invalid(place, "is a text")
    if len(data) > MOST_CHARACTERS:
        raise _invalid(
            place, f"has at most {MOST_CHARACTERS:,} characters, this one has {len(data):,}"
        )
    return data


def _integer(data: object, place: str) -> int:
    """Check for a non-negative integer."""
    if not isinstance(data, int) or isinstance(data, bool) or not 0 <= data <= MOST_NUMBER:
        raise _invalid(place, "is a whole number that isn't negative")
    return data


def _integer_field(data: Mapping[str, object], name: str, place: str) -> int:
    """Return an integer field."""
    return _integer(data.get(name), f"{place}.{name}")


def _text_field(data: Mapping[str, object], name: str, place: str, pattern: re.Pattern[str]) -> str:
    """Return a text field that matches a pattern."""
    value = _text(data.get(name), f"{place}.{name}")
    if pattern.fullmatch(value) is None:
        raise _invalid(f"{place}.{name}", f"isn't like {pattern.pattern}")
    return value


def _name_field(data: Mapping[str, object], name: str, place: str) -> str:
    """Return a field with a principal's name."""
    return _text_field(data, name, place, _NAME)


def _id_fields(data: Mapping[str, object], place: str) -> tuple[str, str]:
    """Return the id and kind of a record, which must match."""
    kind, record_id = _text(data.get("kind"), f"{place}.kind"), _text(data.get("id"), f"{place}.id")
    if kind not in KINDS:
        raise _invalid(f"{place}.kind", f"is one of {', '.join(KINDS)}")
    if not is_id(record_id, kind):
        raise _invalid(f"{place}.id", f"is {PREFIXES[KINDS[kind]]} and a ULID")
    return record_id, kind


def _invalid(place: str, what: str) -> InputError:
    """Return the error for a location."""
    return InputError("RECORD_INVALID", f"{place} {what}", context={"field": place})
