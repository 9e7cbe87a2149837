"""Who may do what: one table. The person at the terminal may do all; what comes over a protocol observes and drafts.

A tier above 2 is never given to what comes over MCP or HTTP, whatever the settings say: nothing there approves.
"""

from __future__ import annotations

from cortex.errors import InputError
from cortex.kinds import Actor
from cortex.settings import Settings

PERSON, AGENT = "person", "agent"  # the two that write on one machine
MOST_OF_AGENTS = 2

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


def person() -> Actor:
    """The person at the terminal."""
    return Actor(PERSON, 4)


def agent(settings: Settings) -> Actor:
    """Whoever comes over a protocol."""
    return Actor(AGENT, min(settings.team.agent_tier, MOST_OF_AGENTS))


def may(actor: Actor, action: str) -> bool:
    """Whether somebody may do this."""
    return actor.tier >= TIERS[action]


def need(actor: Actor, action: str) -> None:
    """Raises: InputError RIGHTS_MISSING."""
    if not may(actor, action):
        raise InputError(
            "RIGHTS_MISSING",
            f"{actor.name} (tier {actor.tier}) may not {_said(action)}: that needs tier {TIERS[action]}",
            context={"action": action, "tier": actor.tier, "needed": TIERS[action]},
        )


def _said(action: str) -> str:
    return "write what is sensitive" if action == "sensitive" else action.replace("_", " ")
