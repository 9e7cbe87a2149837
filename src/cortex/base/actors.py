"""Actors (person or agent), the way a write was made, and the decisions that need a person.

A caller over MCP or HTTP never gets a tier above 2, regardless of the settings: no agent approves.
A command without a terminal acts for the person, except for decisions: these need a person who can
be asked.
"""

from __future__ import annotations

from cortex.base.errors import InputError
from cortex.base.record_model import Actor
from cortex.base.settings import Settings

# The two actors on one machine.
PERSON, AGENT = "person", "agent"
# Highest tier that settings can give an agent.
MOST_OF_AGENTS = 2

# How a write was made, as the audit log records it. A team server sees a token, never a terminal.
BY_AGENT, TERMINAL, COMMAND, SERVER = "agent", "terminal", "command", "server"
VIAS = {
    BY_AGENT: "an agent, over a protocol",
    TERMINAL: "a person at a terminal",
    COMMAND: "a command without a terminal",
    SERVER: "the holder of a token of the team server",
}

# Decisions that publish or withdraw team knowledge: a person confirms them at a terminal.
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
    """Return the person as an actor, at a terminal or through a command without one."""
    return Actor(PERSON, 4, via)


def agent(settings: Settings) -> Actor:
    """Return the actor of a caller over a protocol, with the tier that settings give agents."""
    return Actor(AGENT, min(settings.team.agent_tier, MOST_OF_AGENTS), BY_AGENT)


def need_person(actor: Actor, action: str) -> None:
    """Require a person for a decision; other actions pass.

    Raises: InputError APPROVAL_NEEDED for a decision that a command without a terminal makes.
    """
    if actor.via == COMMAND and action in DECISIONS:
        raise approval_needed(action, "this command has no terminal on which to ask one")


def approval_needed(action: str, why: str) -> InputError:
    """Build the error for a decision that can't be made here."""
    return InputError(
        "APPROVAL_NEEDED",
        f"a person decides whether to {DECISIONS[action]}, and {why}; nothing was decided",
        context={"action": action},
    )
