"""Resolution of references: ids, prefixes of ids, permalinks and slugs to records.

All references of a body are resolved before it is written, so that none is dangling. Read-only,
inside and outside of a transaction.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Protocol, TypeVar

from cortex.base.errors import InputError
from cortex.base.record_model import (
    KINDS,
    PREFIXES,
    SENSITIVE,
    Artifact,
    Body,
    Comment,
    Record,
    RecordFilter,
    Subcortex,
)
from cortex.base.record_spec import FieldSpec, fields_of
from cortex.base.secret_scanner import redact
from cortex.base.text import one_line
from cortex.engine.store import RecordQueries, kind_of_id
from cortex.families.team.permalinks import named_in

B = TypeVar("B", bound=Body)

# Shortest prefix of a ULID that may identify it.
LEAST_OF_ID = 8
MOST_NEAR = 5
# Ids that are compared for suggestions, and the similarity that they need.
MOST_ALIKE, LEAST_ALIKE = 100, 0.85
# Characters of a ULID that encode its time.
TIME_OF_ID = 10
# Slugs that are compared for suggestions.
MOST_SCOPES = 2_000

_ULID = re.compile(r"[0-9A-HJKMNP-TV-Z]{1,26}")


class RecordReader(Protocol):
    """Reader of single records: a transaction, or a principal's view inside one."""

    def get(self, record_id: str, /) -> Record[Any] | None: ...

    def select(self, wanted: RecordFilter, limit: int = 100, /) -> list[Record[Any]]: ...

    def starting(self, prefix: str, limit: int = 10, /) -> list[Record[Any]]: ...


def resolve_ref(place: RecordQueries | RecordReader, ref: str, kind: str = "") -> Record[Any]:
    """Find a record by id, by at least 8 characters of its ULID, by permalink, or by slug.

    Only subcortexes have slugs.

    Raises: InputError RECORD_UNKNOWN with suggestions.
    """
    ref = named_in(one_line(ref, 200))
    if (named := _get(place, ref)) is not None and kind in ("", named.kind):
        return named
    if kind in ("", "subcortex") and (subcortex := by_slug(place, ref)) is not None:
        return subcortex
    candidates = _find_by_prefix(place, ref, kind)
    if len(candidates) == 1:
        return candidates[0]
    what, ref = kind or "record", _redacted(ref)
    if named is not None:
        near, why = [], f"{ref} is no {what}, its kind is {named.kind}"
    else:
        near = _with_titles(candidates) or _suggest(place, ref, kind)
        why = (
            f"{len(candidates)} begin like that"
            if candidates
            else f"there is no {what} {ref!r}{_length_hint(ref)}"
        )
    raise InputError(
        "RECORD_UNKNOWN",
        f"{why}{'; near: ' + ', '.join(near) if near else ''}",
        context={"id": ref, "type": what, "near": near},
    )


def by_slug(place: RecordQueries | RecordReader, slug: str) -> Record[Subcortex] | None:
    """Return the subcortex with this slug."""
    matches = (
        place.select(RecordFilter(kinds=("subcortex",), refs=(("slug", slug.casefold()),)), 1)
        if slug.isascii()
        else []
    )
    return matches[0] if matches else None


def scope_of(place: RecordQueries | RecordReader, ref: str) -> Record[Subcortex]:
    """Return the subcortex of a slug or id. Raises: InputError SCOPE_NOT_FOUND."""
    ref = one_line(ref, 200)
    record = _get(place, ref)
    if record is None or not isinstance(record.body, Subcortex):
        record = by_slug(place, ref)
    if record is not None:
        return record
    near, ref = _suggest(place, ref, "subcortex"), _redacted(ref)
    hint = f"; near: {', '.join(near)}" if near else ""
    raise InputError(
        "SCOPE_NOT_FOUND",
        f"there is no subcortex {ref!r}{hint}",
        context={"subcortex": ref, "near": near},
    )


def target_of(
    place: RecordQueries | RecordReader, ref: str, kinds: tuple[str, ...], field: str
) -> Record[Any]:
    """Return the record that a field refers to. Raises: InputError TARGET_NOT_FOUND."""
    record = _get(place, ref)
    if record is None or record.kind not in kinds:
        what = " or ".join(kinds) if len(kinds) < 4 else "record"
        shown = _redacted(ref)
        near = _suggest(place, shown, kinds[0]) if len(kinds) == 1 else []
        hint = f"; near: {', '.join(near)}" if near else ""
        raise InputError(
            "TARGET_NOT_FOUND",
            f"there is no {what} {shown!r}{hint}",
            context={"field": field, "id": shown, "near": near},
        )
    return record


def check_open(scope: Record[Subcortex]) -> None:
    """Check that a subcortex isn't archived. Raises: InputError RECORD_INVALID."""
    if scope.body.state == "archived":
        message = f"the subcortex {scope.body.slug} is archived: nothing is added to it"
        raise InputError("RECORD_INVALID", message, context={"field": "subcortex"})


def resolved(step: RecordReader, body: B, before: Body | None = None) -> B:
    """Check a body's references; returns it with its subcortex id and inherited sensitivity.

    References that are unchanged since `before` are not checked again.

    Raises: InputError TARGET_NOT_FOUND, SCOPE_NOT_FOUND, RECORD_INVALID.
    """
    is_declassified = before is not None and before.sensitivity == SENSITIVE != body.sensitivity
    targets = _targets_of(step, body, before, again=is_declassified)
    _check_evidence(step, body, before)
    changes: dict[str, Any] = {
        name: target.id for name, target in targets.items() if target.kind == "subcortex"
    }
    fields = fields_of(type(body))
    sensitive = [
        target.id
        for name, target in targets.items()
        if fields[name].belongs and target.body.sensitivity == SENSITIVE
    ]
    if sensitive and is_declassified:
        raise InputError(
            "RECORD_INVALID",
            f"it is sensitive as long as {sensitive[0]} is",
            context={"field": "sensitivity"},
        )
    if sensitive:
        changes["sensitivity"] = SENSITIVE
    return replace(body, **changes) if changes else body


def _targets_of(
    step: RecordReader, body: Body, before: Body | None, *, again: bool
) -> dict[str, Record[Any]]:
    """Return the records that single fields name, the subcortex first; lists are checked only.

    With `again` unchanged fields are looked up, too, even in an archived subcortex.
    """
    targets: dict[str, Record[Any]] = {}
    for spec, ref in named_refs(body):
        known, is_list = getattr(before, spec.name, ""), spec.part is not None
        if (ref in known) if is_list else (ref == known and not again):
            continue
        is_scope = spec.kind == "subcortex"
        target = scope_of(step, ref) if is_scope else target_of(step, ref, (spec.kind,), spec.name)
        if is_scope and not again:
            check_open(target)
        if not is_list:
            targets[spec.name] = target
    return targets


def named_refs(body: Body) -> Iterator[tuple[FieldSpec, str]]:
    """Iterate over the references to records of one kind each, the subcortex first."""
    specs = [spec for spec in fields_of(type(body)).values() if spec.kind]
    for spec in sorted(specs, key=lambda spec: spec.kind != "subcortex"):
        value = getattr(body, spec.name)
        yield from ((spec, ref) for ref in (value if spec.part else (value,)) if ref)


def _check_evidence(step: RecordReader, body: Body, before: Body | None) -> None:
    """Check the evidence of an artifact and the parent of a comment."""
    if isinstance(body, Artifact):
        known = before.evidence if isinstance(before, Artifact) else ()
        for index, item in enumerate(body.evidence):
            if item.kind != "url" and item not in known:
                target_of(step, item.ref, (item.kind,), f"evidence[{index}].ref")
    if isinstance(body, Comment) and body.parent and before is None:
        parent = target_of(step, body.parent, ("comment",), "parent")
        if parent.body.thread != body.thread:
            raise InputError(
                "TARGET_NOT_FOUND",
                f"{body.parent} is a comment of another thread: {parent.body.thread}",
                context={"field": "parent", "id": body.parent},
            )


def _redacted(ref: str) -> str:
    """Redact a reference for an error message: it may contain a secret."""
    return redact(ref)[0][:80]


def _get(place: RecordQueries | RecordReader, ref: str) -> Record[Any] | None:
    # Ids are ASCII, and the database rejects lone surrogates.
    """Return the record with this id, if any."""
    if not ref.isascii():
        return None
    return place.one(ref) if isinstance(place, RecordQueries) else place.get(ref)


def _find_by_prefix(place: RecordQueries | RecordReader, ref: str, kind: str) -> list[Record[Any]]:
    """Find records by the beginning of an id, with or without the prefix of its kind."""
    prefix, _, rest = ref.rpartition("_")
    prefix_kind = kind_of_id(f"{prefix}_x") if prefix else kind
    rest = rest.upper()
    if (
        not prefix_kind
        or (kind and prefix_kind != kind)
        or len(rest) < LEAST_OF_ID
        or not _ULID.fullmatch(rest)
    ):
        return []
    return place.starting(PREFIXES[KINDS[prefix_kind]] + rest, MOST_NEAR)


def _suggest(place: RecordQueries | RecordReader, ref: str, kind: str) -> list[str]:
    """Suggest slugs or ids with a similar spelling, or else the newest of the kind."""
    if kind == "subcortex":
        slugs = [
            record.body.slug
            for record in place.select(RecordFilter(kinds=("subcortex",)), MOST_SCOPES)
        ]
        return difflib.get_close_matches(ref.casefold(), slugs, MOST_NEAR, 0.5) or slugs[:MOST_NEAR]
    wanted_kind = kind or kind_of_id(ref)
    newest = place.select(RecordFilter(kinds=(wanted_kind,)), MOST_ALIKE) if wanted_kind else []
    alike = difflib.get_close_matches(ref, [record.id for record in newest], 1, LEAST_ALIKE)
    # The first characters encode the time: with a typo in a later one, the record was created at
    # that time.
    same_time = (
        _find_by_prefix(place, ref[: len(ref) - 26 + TIME_OF_ID], wanted_kind)
        if len(ref) > 26
        else []
    )
    return _with_titles(
        same_time or [record for record in newest if record.id in alike] or newest[:3]
    )


def _with_titles(records: list[Record[Any]]) -> list[str]:
    """Format records as id and title."""
    return [f"{record.id} ({record.body.title[:60]})" for record in records]


def _length_hint(ref: str) -> str:
    """Explain the shortest prefix for a reference that is too short."""
    rest = ref.rpartition("_")[2].upper()
    is_short = len(rest) < LEAST_OF_ID and rest.startswith("0") and _ULID.fullmatch(rest)
    return f" (a beginning has at least {LEAST_OF_ID} characters after the _)" if is_short else ""
