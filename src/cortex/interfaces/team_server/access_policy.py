"""Who may see and write what at a Core: a principal and the subcortexes that there are become a
viewer, and a viewer a guard of writes.

What a viewer sees is `seeing`'s rule; what a tier allows is `rights`' table. Here is how grants,
stewards and private subcortexes make scopes of them. Where somebody may not look, nothing is: a
refusal there says what it says of an id that was never given.
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
ALL = 4  # the tier from which "*" hides nothing


def viewer_of(principal: Principal, subcortexes: Iterable[Record[Subcortex]]) -> Viewer:
    """Whoever a principal is when they look at records; `subcortexes` are all that there are."""
    reads = set(principal.grants)
    writes = {scope for scope, may in principal.grants.items() if may}
    # Also what they may read by name: who writes everywhere doesn't write there for that
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
    """What changes whenever a viewer's rights to see do; what becomes private or public for all is
    told as a change of its own.
    """
    told = (viewer.name, viewer.tier, viewer.sensitive, sorted(viewer.reads))
    return hash_bytes(b"view", repr(told).encode()).hex()[:32]


def guard_of(viewer: Viewer) -> Guard:
    """The guard of a viewer's writes.

    It raises: InputError TARGET_NOT_FOUND, SCOPE_NOT_FOUND, RIGHTS_MISSING.
    """

    def guard(before: Record[Any] | None, after: Record[Any], get: Get) -> None:
        # Whoever may write something may have others hear of it
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
    """The error for what isn't there, or must be taken for that; it tells of nothing near."""
    shown = redact(ref)[0][:80]
    return InputError(
        "TARGET_NOT_FOUND",
        f"there is no record {shown!r}",
        context={"field": field, "id": shown, "near": []},
    )


def scope_not_found(ref: str) -> InputError:
    """As `not_found`, of a subcortex."""
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
        raise _nowhere(record)
    raise _missing(
        viewer,
        f"write in {scope}, only read there" if scope else "write what belongs to no subcortex",
        "write",
    )


def _nowhere(record: Record[Any]) -> InputError:
    """The error for a record in a scope that may not be known: it tells what the record itself
    names, never what that leads to.
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
    """What is sensitive is a draft for whoever may not write it: it is kept for those who see it."""
    return before is None and isinstance(after.body, Draft) and viewer.is_own(after.author)


def _missing(viewer: Viewer, what: str, action: str) -> InputError:
    return InputError(
        "RIGHTS_MISSING",
        f"{viewer.name} may not {what}",
        context={"action": action, "tier": viewer.tier, "needed": TIERS.get(action, viewer.tier)},
    )
