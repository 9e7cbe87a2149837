"""Who may do what: one table. The person at the terminal may do all; what comes over a protocol observes and drafts.

A tier above 2 is never given to what comes over MCP or HTTP, whatever the settings say: nothing there approves. A command
without a terminal counts as the person, but for decisions: those need somebody who can be asked.
"""

from __future__ import annotations

from cortex.errors import InputError
from cortex.kinds import Actor
from cortex.settings import Settings

PERSON, AGENT = "person", "agent"  # the two that write on one machine
MOST_OF_AGENTS = 2

# How a write was made, as the audit log keeps it. A Core sees a token, never a terminal.
BY_AGENT, TERMINAL, COMMAND, SERVER = "agent", "terminal", "command", "server"
VIAS = {
    BY_AGENT: "an agent, over a protocol",
    TERMINAL: "a person at a terminal",
    COMMAND: "a command without a terminal",
    SERVER: "whoever has a token of the team server",
}

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

# What speaks for the team, or takes back what does: a person is asked on a terminal.
DECISIONS = {
    "approve_draft": "publish a draft",
    "reject_draft": "reject a draft",
    "accept_artifact": "accept an artifact",
    "edit_accepted": "change an accepted artifact",
    "supersede_artifact": "supersede an artifact",
    "deprecate_artifact": "deprecate an artifact",
    "judge_link": "judge a link",
    "resolve_thread": "resolve a thread",
    "judge_memory": "judge a memory",
    "edit_memory": "change a memory",
    "delete_memory": "delete a memory",
}


def person(via: str = TERMINAL) -> Actor:
    """The person: at the terminal, or as whom a command runs that has none."""
    return Actor(PERSON, 4, via)


def agent(settings: Settings) -> Actor:
    """Whoever comes over a protocol."""
    return Actor(AGENT, min(settings.team.agent_tier, MOST_OF_AGENTS), BY_AGENT)


def may(actor: Actor, action: str) -> bool:
    """Whether somebody may do this."""
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


def need_person(actor: Actor, action: str) -> None:
    """Raises: InputError APPROVAL_NEEDED, where this is a decision and only a command made it."""
    if actor.via == COMMAND and action in DECISIONS:
        raise approval_needed(action, "this command has no terminal on which to ask one")


def approval_needed(action: str, why: str) -> InputError:
    """The error for a decision that isn't made here."""
    return InputError(
        "APPROVAL_NEEDED",
        f"a person decides whether to {DECISIONS[action]}, and {why}; nothing was decided",
        context={"action": action},
    )


def said(action: str) -> str:
    """An action in words."""
    return "write what is sensitive" if action == "sensitive" else action.replace("_", " ")
