"""What somebody names -> the record that is meant: an id, the beginning of one, or the slug of a
subcortex.

What a body points to is looked up here before it is written: nothing points nowhere. Reads only, in
a step or outside.
"""

from __future__ import annotations

import difflib
import re
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
from cortex.base.secret_scanner import redact
from cortex.base.text import one_line
from cortex.engine.store import RecordLookup, kind_of_id
from cortex.families.team.permalinks import named_in

B = TypeVar("B", bound=Body)

LEAST_OF_ID = 8  # characters of a ULID that may stand for all of it
MOST_NEAR = 5
MOST_ALIKE, LEAST_ALIKE = 100, 0.85  # ids that are looked at for near ones, and how alike they are
TIME_OF_ID = 10  # characters of a ULID that are its time
MOST_SCOPES = 2_000  # slugs that are looked at for near ones

_ULID = re.compile(r"[0-9A-HJKMNP-TV-Z]{1,26}")
# Field, kind
POINTS = (("thread", "thread"), ("task", "task"), ("parent", "comment"), ("supersedes", "artifact"))
PINS = (("pinned_threads", "thread"), ("pinned_artifacts", "artifact"), ("pinned_tasks", "task"))


class RecordReader(Protocol):
    """Where records are looked up one by one: a step, or what somebody sees inside of one."""

    def get(self, number: str, /) -> Record[Any] | None: ...

    def select(self, wanted: RecordFilter, limit: int = 100, /) -> list[Record[Any]]: ...

    def starting(self, prefix: str, limit: int = 10, /) -> list[Record[Any]]: ...


def resolve_ref(place: RecordLookup | RecordReader, ref: str, kind: str = "") -> Record[Any]:
    """The record that is meant: by its id, by at least 8 characters of its ULID, by a permalink, or
    a subcortex by its slug.

    Raises: InputError RECORD_UNKNOWN with near ones.
    """
    ref = named_in(one_line(ref, 200))
    if (named := _one(place, ref)) is not None and kind in ("", named.kind):
        return named
    if kind in ("", "subcortex") and (found := by_slug(place, ref)) is not None:
        return found
    begun = _beginning_with(place, ref, kind)
    if len(begun) == 1:
        return begun[0]
    what, ref = kind or "record", _shown(ref)
    if named is not None:
        near, why = [], f"{ref} is no {what}, its kind is {named.kind}"
    else:
        near = _titled(begun) or _near(place, ref, kind)
        why = (
            f"{len(begun)} begin like that"
            if begun
            else f"there is no {what} {ref!r}{_too_short(ref)}"
        )
    raise InputError(
        "RECORD_UNKNOWN",
        f"{why}{'; near: ' + ', '.join(near) if near else ''}",
        context={"id": ref, "type": what, "near": near},
    )


def by_slug(place: RecordLookup | RecordReader, slug: str) -> Record[Subcortex] | None:
    """The subcortex with this slug."""
    found = (
        place.select(RecordFilter(kinds=("subcortex",), refs=(("slug", slug.casefold()),)), 1)
        if slug.isascii()
        else []
    )
    return found[0] if found else None


def scope_of(place: RecordLookup | RecordReader, ref: str) -> Record[Subcortex]:
    """The subcortex of this slug or id. Raises: InputError SCOPE_NOT_FOUND."""
    ref = one_line(ref, 200)
    found = _one(place, ref)
    if found is None or not isinstance(found.body, Subcortex):
        found = by_slug(place, ref)
    if found is not None:
        return found
    near, ref = _near(place, ref, "subcortex"), _shown(ref)
    told = f"; near: {', '.join(near)}" if near else ""
    raise InputError(
        "SCOPE_NOT_FOUND",
        f"there is no subcortex {ref!r}{told}",
        context={"subcortex": ref, "near": near},
    )


def target_of(
    place: RecordLookup | RecordReader, ref: str, kinds: tuple[str, ...], field: str
) -> Record[Any]:
    """The record that a field points to. Raises: InputError TARGET_NOT_FOUND."""
    found = _one(place, ref)
    if found is None or found.kind not in kinds:
        what = " or ".join(kinds) if len(kinds) < 4 else "record"
        shown = _shown(ref)
        near = _near(place, shown, kinds[0]) if len(kinds) == 1 else []
        told = f"; near: {', '.join(near)}" if near else ""
        raise InputError(
            "TARGET_NOT_FOUND",
            f"there is no {what} {shown!r}{told}",
            context={"field": field, "id": shown, "near": near},
        )
    return found


def check_open(scope: Record[Subcortex]) -> None:
    """Raises: InputError RECORD_INVALID, where a subcortex takes nothing more."""
    if scope.body.state == "archived":
        told = f"the subcortex {scope.body.slug} is archived: nothing is added to it"
        raise InputError("RECORD_INVALID", told, context={"field": "subcortex"})


def resolved(step: RecordReader, body: B, before: Body | None = None) -> B:
    """The body with its subcortex by id, and sensitive where what it belongs to is; all that it
    points to is there.

    What stood there `before` isn't asked again. Raises: InputError TARGET_NOT_FOUND,
    SCOPE_NOT_FOUND, RECORD_INVALID.
    """
    changes: dict[str, Any] = {}
    above: list[Record[Any]] = []  # what it belongs to
    freed = before is not None and before.sensitivity == SENSITIVE != body.sensitivity
    scope = getattr(body, "subcortex", "")
    if scope and (freed or scope != getattr(before, "subcortex", "")):
        found = scope_of(step, scope)
        if not freed:
            check_open(found)
        changes["subcortex"] = found.id
        above.append(found)
    for field, kind in POINTS:
        ref = getattr(body, field, "")
        if ref and (freed or ref != getattr(before, field, "")):
            one = target_of(step, ref, (kind,), field)
            above += [one] if field != "supersedes" else []
    _check_several(step, body, before)
    private = [one.id for one in above if one.body.sensitivity == SENSITIVE]
    if private and freed:
        raise InputError(
            "RECORD_INVALID",
            f"it is sensitive as long as {private[0]} is",
            context={"field": "sensitivity"},
        )
    if private:
        changes["sensitivity"] = SENSITIVE
    return replace(body, **changes) if changes else body


def _check_several(step: RecordReader, body: Body, before: Body | None) -> None:
    if isinstance(body, Subcortex):
        for field, kind in PINS:
            for ref in set(getattr(body, field)).difference(getattr(before, field, ())):
                target_of(step, ref, (kind,), field)
    if isinstance(body, Artifact):
        known = before.evidence if isinstance(before, Artifact) else ()
        for number, one in enumerate(body.evidence):
            if one.kind != "url" and one not in known:
                target_of(step, one.ref, (one.kind,), f"evidence[{number}].ref")
    if isinstance(body, Comment) and body.parent and before is None:
        parent = target_of(step, body.parent, ("comment",), "parent")
        if parent.body.thread != body.thread:
            raise InputError(
                "TARGET_NOT_FOUND",
                f"{body.parent} is a comment of another thread: {parent.body.thread}",
                context={"field": "parent", "id": body.parent},
            )


def _shown(ref: str) -> str:
    """What somebody named, as an error tells it: it may be anything, a secret too."""
    return redact(ref)[0][:80]


def _one(place: RecordLookup | RecordReader, ref: str) -> Record[Any] | None:
    if not ref.isascii():  # no id is; and what isn't text at all can't be asked for
        return None
    return place.one(ref) if isinstance(place, RecordLookup) else place.get(ref)


def _beginning_with(place: RecordLookup | RecordReader, ref: str, kind: str) -> list[Record[Any]]:
    """The records whose id begins like this, with the prefix of its kind or without."""
    prefix, _, rest = ref.rpartition("_")
    told = kind_of_id(f"{prefix}_x") if prefix else kind
    rest = rest.upper()
    if not told or (kind and told != kind) or len(rest) < LEAST_OF_ID or not _ULID.fullmatch(rest):
        return []
    return place.starting(PREFIXES[KINDS[told]] + rest, MOST_NEAR)


def _near(place: RecordLookup | RecordReader, ref: str, kind: str) -> list[str]:
    """What somebody may have meant: slugs and ids that are spelled alike, or the newest of the
    kind.
    """
    if kind == "subcortex":
        slugs = [
            one.body.slug for one in place.select(RecordFilter(kinds=("subcortex",)), MOST_SCOPES)
        ]
        return difflib.get_close_matches(ref.casefold(), slugs, MOST_NEAR, 0.5) or slugs[:MOST_NEAR]
    told = kind or kind_of_id(ref)
    newest = place.select(RecordFilter(kinds=(told,)), MOST_ALIKE) if told else []
    alike = difflib.get_close_matches(ref, [one.id for one in newest], 1, LEAST_ALIKE)
    # The first characters are the time: who mistypes a later one means what was made at that
    # moment.
    begun = _beginning_with(place, ref[: len(ref) - 26 + TIME_OF_ID], told) if len(ref) > 26 else []
    return _titled(begun or [one for one in newest if one.id in alike] or newest[:3])


def _titled(records: list[Record[Any]]) -> list[str]:
    return [f"{record.id} ({record.body.title[:60]})" for record in records]


def _too_short(ref: str) -> str:
    rest = ref.rpartition("_")[2].upper()
    short = len(rest) < LEAST_OF_ID and rest.startswith("0") and _ULID.fullmatch(rest)
    return f" (a beginning has at least {LEAST_OF_ID} characters after the _)" if short else ""
