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
    # One's own notifications; the permission to edit includes those of others.
    "acknowledge": 0,
    "edit": 3,
    "approve_draft": 3,
    "reject_draft": 3,
    "accept_artifact": 3,
    "supersede_artifact": 3,
    "judge_link": 3,
    "resolve_thread": 3,
    "create_subcortex": 4,
    "edit_subcortex": 4,
    # Sensitive writes, except as a draft.
    "sensitive": 3,
}


def may(actor: Actor, action: str) -> bool:
    """Return True if the actor's tier allows the action."""
    return actor.tier >= TIERS[action]


def need(actor: Actor, action: str) -> None:
    """Require a permission.

    Raises: InputError RIGHTS_MISSING; APPROVAL_NEEDED for a decision that needs a person.
    """
    need_person(actor, action)
    if not may(actor, action):
        raise InputError(
            "RIGHTS_MISSING",
            f"{actor.name} (tier {actor.tier}) may not {describe_action(action)}: that needs tier "
            f"{TIERS[action]}",
            context={"action": action, "tier": actor.tier, "needed": TIERS[action]},
        )


def describe_action(action: str) -> str:
    """Describe an action in words."""
    return "write what is sensitive" if action == "sensitive" else action.replace("_", " ")
