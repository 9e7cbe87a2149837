"""Which notifications of a home its Core passes on: those that follow from what was done, to whom
it concerns, in the words for it.

Whoever may write something may have others hear of it, and that is all: no text of their own
reaches anybody's inbox like this, but for what they may say in the record itself. What doesn't fit
is left out rather than refused: a home may have known less than its Core, and what was done counts
all the same. Pure.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from cortex.base.record_model import Artifact, Draft, Link, Notification, Record, Task, Thread
from cortex.base.text import one_line
from cortex.base.visibility import Viewer
from cortex.families.team.notification_texts import fits
from cortex.families.team.notifications import title_of
from cortex.families.team.validation import LIMITS


def is_due(told: Notification, about: Record[Any], viewer: Viewer, names: Collection[str]) -> bool:
    """Whether somebody should hear of a record like this; `names` are those in which the action
    speaks.
    """
    if not fits(
        told.type, told.reason, {*names, about.author} if told.type == "mention" else names
    ):
        return False
    match told.type, about.body:
        case "mention", _:
            return True
        case "thread_update", Thread():
            return True
        case "task_assigned", Task() as task:
            return told.recipient in task.assignees
        case "task_update", Task() as task:
            return told.recipient in (*task.assignees, *task.watchers, about.author)
        case "artifact_accepted", Artifact() as artifact:
            return artifact.state == "accepted" and told.recipient in (about.author, artifact.owner)
        case (("draft_approved" | "draft_rejected"), Draft()):
            return told.recipient == about.author
        case "review_needed", (Draft() | Link()):
            return viewer.is_own(told.recipient)
    return False


def titled(told: Notification, about: Record[Any]) -> Notification:
    """A notification for somebody else, called as what it is about is."""
    return replace(told, title=one_line(title_of(about), LIMITS[Notification]["title"]) or about.id)
