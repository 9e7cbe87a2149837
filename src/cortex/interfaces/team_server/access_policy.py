"""Access policy of a Core: from principals and subcortexes to viewers and write guards.

`visibility` decides what a viewer sees, `permissions` what a tier allows. This module turns grants,
stewards and private subcortexes into scopes. An invisible record is treated as missing: the error
is the same as for an id that never existed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from cortex.base.errors import InputError
from cortex.base.record_model import SENSITIVE, Draft, Notification, Record, Subcortex
from cortex.base.secret_scanner import redact
from cortex.base.text import hash_bytes
from cortex.base.visibility import EVERYWHERE, Get, Viewer, scope_of, sees
from cortex.engine.store import Guard
from cortex.engine.store.records.principals import Principal
from cortex.families.team.permissions import TIERS

PRIVATE = "private"
# Tier from which the grant "*" includes private subcortexes.
ALL = 4


def viewer_of(principal: Principal, subcortexes: Iterable[Record[Subcortex]]) -> Viewer:
    """Build the viewer of a principal; `subcortexes` are all that exist."""
    reads = set(principal.grants)
    writes = {scope for scope, may in principal.grants.items() if may}
    # Private subcortexes, even those with a grant to read: "*" doesn't allow to write there.
    hidden: set[str] = set()
    for subcortex in subcortexes:
        if principal.name in subcortex.body.stewards:
            reads.add(subcortex.id)
            writes.add(subcortex.id)
        if subcortex.body.visibility == PRIVATE:
            hidden.add(subcortex.id)
    if EVERYWHERE in reads and principal.tier >= ALL:
        hidden.clear()
    return Viewer(
        principal.name,
        principal.tier,
        principal.sensitive,
        frozenset(reads),
        frozenset(writes),
        frozenset(hidden),
    )


def stamp_of(viewer: Viewer) -> str:
    """Return a digest that changes with the viewer's permission to read.

    A subcortex that becomes private or public is a change of its own in the change feed.
    """
    permissions = (viewer.name, viewer.tier, viewer.sensitive, sorted(viewer.reads))
    return hash_bytes(b"view", repr(permissions).encode()).hex()[:32]


def guard_of(viewer: Viewer) -> Guard:
    """Build the guard of a viewer's writes.

    The guard raises InputError TARGET_NOT_FOUND, SCOPE_NOT_FOUND, RIGHTS_MISSING.
    """

    def guard(before: Record[Any] | None, after: Record[Any], get: Get) -> None:
        # A principal who may write a record may notify others of it.
        if isinstance(after.body, Notification):
            return
        if before is not None:
            if not sees(viewer, before, get):
                raise not_found(before.id)
            _need_scope(viewer, before, get)
        elif isinstance(after.body, Subcortex) and EVERYWHERE not in viewer.writes:
            raise _missing(
                viewer, "create a subcortex: that needs to write everywhere", "create_subcortex"
            )
        _need_scope(viewer, after, get)
        if (
            after.body.sensitivity == SENSITIVE
            and not viewer.sensitive
            and not _is_own_draft(viewer, before, after)
        ):
            raise _missing(
                viewer, "write what is sensitive, which they don't see either", "sensitive"
            )

    return guard


def not_found(ref: str, field: str = "id") -> InputError:
    """Build the error for a missing or invisible record; it suggests no similar ids."""
    shown = redact(ref)[0][:80]
    return InputError(
        "TARGET_NOT_FOUND",
        f"there is no record {shown!r}",
        context={"field": field, "id": shown, "near": []},
    )


def scope_not_found(ref: str) -> InputError:
    """Build the error for a missing or invisible subcortex."""
    shown = redact(ref)[0][:80]
    return InputError(
        "SCOPE_NOT_FOUND",
        f"there is no subcortex {shown!r}",
        context={"subcortex": shown, "near": []},
    )


def _need_scope(viewer: Viewer, record: Record[Any], get: Get) -> None:
    scope = scope_of(record, get)
    if viewer.may_write(scope):
        return
    if scope and not viewer.may_read(scope):
        raise _invisible_scope(record)
    raise _missing(
        viewer,
        f"write in {scope}, only read there" if scope else "write what belongs to no subcortex",
        "write",
    )


def _invisible_scope(record: Record[Any]) -> InputError:
    """Build the error for a record in an invisible scope.

    It names the reference in the record itself, never the records that the reference leads to.
    """
    for field in (
        "subcortex",
        "target" if isinstance(record.body, Draft) else "source",
        "thread",
        "task",
    ):
        if ref := getattr(record.body, field, ""):
            return scope_not_found(ref) if field == "subcortex" else not_found(ref, field)
    return not_found(record.id)


def _is_own_draft(viewer: Viewer, before: Record[Any] | None, after: Record[Any]) -> bool:
    """True for a new draft of the viewer.

    A principal who may not write sensitive records may draft one; others review it.
    """
    return before is None and isinstance(after.body, Draft) and viewer.is_own(after.author)


def _missing(viewer: Viewer, what: str, action: str) -> InputError:
    return InputError(
        "RIGHTS_MISSING",
        f"{viewer.name} may not {what}",
        context={"action": action, "tier": viewer.tier, "needed": TIERS.get(action, viewer.tier)},
    )
