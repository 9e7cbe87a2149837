"""Permissions: the tier that each action needs."""

from __future__ import annotations

from cortex.base.actors import need_person
from cortex.base.errors import InputError
from cortex.base.record_model import Actor

TIERS = {
    "observe": 1,
    "draft": 1,
    "create_thread": 2,
    "comment": 2,
    "create_task": 2,
    "update_task": 2,
    "propose_artifact": 2,
    "link": 2,
    "acknowledge": 0,  # what is for oneself; who may edit does so for others
    "edit": 3,
    "approve_draft": 3,
    "reject_draft": 3,
    "accept_artifact": 3,
    "supersede_artifact": 3,
    "judge_link": 3,
    "resolve_thread": 3,
    "create_subcortex": 4,
    "edit_subcortex": 4,
    "sensitive": 3,  # writes that are sensitive, other than as a draft
}


def may(actor: Actor, action: str) -> bool:
    """Return whether an actor may do this."""
    return actor.tier >= TIERS[action]


def need(actor: Actor, action: str) -> None:
    """Raises: InputError RIGHTS_MISSING; APPROVAL_NEEDED for a decision that no person made."""
    need_person(actor, action)
    if not may(actor, action):
        raise InputError(
            "RIGHTS_MISSING",
            f"{actor.name} (tier {actor.tier}) may not {said(action)}: that needs tier {TIERS[action]}",
            context={"action": action, "tier": actor.tier, "needed": TIERS[action]},
        )


def said(action: str) -> str:
    """An action in words."""
    return "write what is sensitive" if action == "sensitive" else action.replace("_", " ")
