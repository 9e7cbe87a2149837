"""Filter for the notifications of a client: the server delivers those a change justifies.

A principal who may write a record may notify others of it, but only with the fixed texts for that
change: no free text reaches another inbox this way. A notification that doesn't fit is dropped
rather than rejected, since a client may have known less than its server and the change itself still
counts. Pure.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from cortex.base.record_model import Artifact, Draft, Link, Notification, Record, Task, Thread
from cortex.base.record_spec import fields_of
from cortex.base.text import one_line
from cortex.base.visibility import Viewer
from cortex.families.team.notification_texts import fits
from cortex.families.team.notifications import title_of


def is_due(
    notification: Notification, about: Record[Any], viewer: Viewer, names: Collection[str]
) -> bool:
    """True where a recipient should be notified of this record.

    `names` are the principals in the name of which the action speaks.
    """
    if not fits(
        notification.type,
        notification.reason,
        {*names, about.author} if notification.type == "mention" else names,
    ):
        return False
    match notification.type, about.body:
        case "mention", _:
            return True
        case "thread_update", Thread():
            return True
        case "task_assigned", Task() as task:
            return notification.recipient in task.assignees
        case "task_update", Task() as task:
            return notification.recipient in (*task.assignees, *task.watchers, about.author)
        case "artifact_accepted", Artifact() as artifact:
            return artifact.state == "accepted" and notification.recipient in (
                about.author,
                artifact.owner,
            )
        case (("draft_approved" | "draft_rejected"), Draft()):
            return notification.recipient == about.author
        case "review_needed", (Draft() | Link()):
            return viewer.is_own(notification.recipient)
    return False


def titled(notification: Notification, about: Record[Any]) -> Notification:
    """Return a notification for another principal, titled like its subject."""
    return replace(
        notification,
        title=one_line(title_of(about), fields_of(Notification)["title"].limit) or about.id,
    )
