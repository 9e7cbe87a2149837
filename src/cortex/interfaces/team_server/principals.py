"""Principals of a Core: valid names, and changes of their permissions.

`access_policy` defines the meaning of a permission; the store keeps the rows and the token hashes.
The last active principal with the highest tier can't be removed or lowered.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from cortex.base.actors import AGENT, PERSON
from cortex.base.errors import InputError
from cortex.base.record_model import Actor
from cortex.base.visibility import EVERYWHERE
from cortex.engine.store.records.ledger import Ledger
from cortex.engine.store.records.principals import CONSOLE, Principal
from cortex.families.team.ids import new_ulid
from cortex.families.team.references import scope_of
from cortex.families.team.wire.identity import PLACE as FROM

ACTIVE, REVOKED = "active", "revoked"
# Range of tiers.
LOWEST, HIGHEST = 0, 4
PREFIX = "principal_"
NAME = re.compile(r"[a-z0-9][a-z0-9._-]{1,49}")
# A host and its port.
PLACE = re.compile(r"[a-z0-9\[][a-z0-9.:\]-]{0,99}")
# Reserved names: local users, the console, and the sender of sync notifications.
TAKEN = (PERSON, AGENT, "me", CONSOLE.name, "cortex")


def add(
    ledger: Ledger,
    name: str,
    tier: int,
    sensitive: bool,
    grants: Mapping[str, bool],
    *,
    by: Actor = CONSOLE,
) -> Principal:
    """Add a principal.

    Raises: InputError RECORD_INVALID for an invalid or taken name, or an invalid tier.
    """
    if not may_be_called(name):
        wanted = "2 to 50 small letters, digits, '.', '_' and '-', beginning with a letter or digit"
        raise _invalid(
            "name",
            f"{name!r} can't be a principal's name: that is {wanted}, and not {', '.join(TAKEN)}",
        )
    _check_tier(tier)
    return ledger.principals.add(f"{PREFIX}{new_ulid()}", name, tier, sensitive, grants, by=by)


def may_be_called(name: str) -> bool:
    """True for a valid principal name."""
    return NAME.fullmatch(name) is not None and name not in TAKEN


def is_from_elsewhere(name: str) -> bool:
    """True for the name of a principal of another Core, marked with its address.

    No principal of this Core can have such a name.
    """
    principal, _, place = name.partition(FROM)
    return NAME.fullmatch(principal) is not None and PLACE.fullmatch(place) is not None


def find(ledger: Ledger, name: str) -> Principal:
    """Return the principal with this name or id.

    Raises: InputError RECORD_UNKNOWN.
    """
    for principal in ledger.principals.all():
        if name in (principal.name, principal.id):
            return principal
    raise InputError(
        "RECORD_UNKNOWN",
        f"there is no principal {name!r}",
        context={"type": "principal", "id": name},
        instead=("`cortex core principal list` shows all principals of the Core.",),
    )


def change(
    ledger: Ledger,
    principal: Principal,
    *,
    tier: int | None = None,
    sensitive: bool | None = None,
    state: str | None = None,
    grants: Mapping[str, bool] | None = None,
    by: Actor = CONSOLE,
) -> Principal:
    """Change the permissions or the state of a principal.

    Raises: InputError RECORD_INVALID.
    """
    if tier is not None:
        _check_tier(tier)
    if state not in (None, ACTIVE, REVOKED):
        raise _invalid("state", f"a principal is {ACTIVE} or {REVOKED}, not {state!r}")
    lowered = (tier is not None and tier < HIGHEST) or state == REVOKED
    others = [other for other in ledger.principals.all() if other.id != principal.id]
    if (
        lowered
        and _is_administrator(principal)
        and not any(_is_administrator(other) for other in others)
    ):
        raise _invalid(
            "tier",
            f"{principal.name} is the last who may do everything (tier {HIGHEST}) and stays that",
        )
    ledger.principals.change(
        principal.id, tier=tier, sensitive=sensitive, state=state, grants=grants, by=by
    )
    return find(ledger, principal.id)


def grant(ledger: Ledger, principal: Principal, ref: str, *, writes: bool) -> Principal:
    """Grant a principal to read, or also write, in a subcortex or everywhere.

    Raises: InputError.
    """
    ledger.principals.grant(principal.id, scope_named(ledger, ref), writes)
    return find(ledger, principal.id)


def ungrant(ledger: Ledger, principal: Principal, ref: str) -> Principal:
    """Remove a grant of a principal.

    Raises: InputError where there is no such grant.
    """
    scope = ref if ref in principal.grants else scope_named(ledger, ref)
    if scope not in principal.grants:
        raise InputError("RECORD_UNKNOWN", f"{principal.name} has no grant for {ref!r}")
    ledger.principals.grant(principal.id, scope, None)
    return find(ledger, principal.id)


def scope_named(ledger: Ledger, ref: str) -> str:
    """Return the id of a subcortex by slug or id; "*" stands for all that aren't private.

    Raises: InputError SCOPE_NOT_FOUND.
    """
    return EVERYWHERE if ref == EVERYWHERE else scope_of(ledger.records, ref).id


def _is_administrator(principal: Principal) -> bool:
    return principal.tier >= HIGHEST and principal.state == ACTIVE


def _check_tier(tier: int) -> None:
    if not LOWEST <= tier <= HIGHEST:
        raise _invalid("tier", f"a tier is {LOWEST} to {HIGHEST}, not {tier}")


def _invalid(field: str, message: str) -> InputError:
    return InputError("RECORD_INVALID", message, context={"field": field})
