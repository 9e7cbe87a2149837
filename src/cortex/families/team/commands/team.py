"""`cortex team`: records of a team, a group for each kind."""

from __future__ import annotations

from typing import ClassVar

import typer

from cortex.toolkit.terminal.lazy_group import CommandRow, LazyGroup, Sections

_HERE = "cortex.families.team.commands"


class TeamCommands(LazyGroup):
    """Commands of `cortex team`."""

    sections: ClassVar[Sections] = {
        "Records": {
            "subcortex": CommandRow(f"{_HERE}.subcortex:app", "Topics with charter and glossary."),
            "thread": CommandRow(f"{_HERE}.thread:app", "Discussions and their summaries."),
            "artifact": CommandRow(f"{_HERE}.artifact:app", "Decisions, runbooks, specifications."),
            "task": CommandRow(f"{_HERE}.task:app", "What is to be done."),
            "observation": CommandRow(f"{_HERE}.observation:app", "What agents saw and kept."),
            "link": CommandRow(f"{_HERE}.link:app", "Relations between records."),
        },
        "Review and context": {
            "drafts": CommandRow(f"{_HERE}.drafts:app", "Approve or reject what agents wrote."),
            "context": CommandRow(f"{_HERE}.context:app", "Where a project's contributions go."),
            "audit": CommandRow(f"{_HERE}.audit:audit", "Who changed which record when."),
        },
    }


app = typer.Typer(
    cls=TeamCommands,
    name="team",
    help="Records of a team: subcortexes, threads, artifacts, tasks, observations, links, drafts.",
    no_args_is_help=True,
)
