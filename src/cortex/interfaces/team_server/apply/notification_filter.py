"""Filter for the notifications of a client: the server delivers those a change justifies.

A principal who may write a record may notify others of it, but only with the fixed texts for that
change: no free text reaches another inbox this way. A notification that doesn't fit is dropped
rather than rejected, since a client may have known less than its server and the change itself still
counts.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from cortex.base.record_model import Artifact, Draft, Link, Notification, Record, Task, Thread
from cortex.base.record_spec import fields_of
from cortex.base.text import one_line
from cortex.families.team.notification_texts import fits
from cortex.families.team.notifications import title_of
from cortex.families.team.permissions import need
from cortex.families.team.required_permissions import changed_fields
from cortex.families.team.validation import refusal
from cortex.interfaces.team_server.access_policy import not_found
from cortex.interfaces.team_server.apply.action_context import ActionContext
from cortex.interfaces.team_server.apply.visible_records import inherit_sensitivity


def delivered(body: Notification, context: ActionContext) -> Notification | None:
    """Return a notification as sensitive as its subject; None where it isn't delivered.

    Raises: InputError RECORD_INVALID, RIGHTS_MISSING, TARGET_NOT_FOUND.
    """
    # The permission of every principal who may write at all.
    need(context.step.actor, "observe")
    if body.type == "system_alert":
        raise refusal("type", "a notification of a home for its own person stays there")
    own = context.viewer.is_own(body.recipient)
    if context.upload and not own:
        # The recipients of old notifications have received them elsewhere, or need not.
        return None
    about = context.step.get(body.about)
    if about is None or not (body.about in context.touched or context.visible.shows(about)):
        raise not_found(body.about, "about")
    if not context.upload:
        if body.about not in context.touched:
            raise refusal(
                "about",
                f"a notification comes with what was done, and nothing was done with {body.about}",
            )
        if not (own or context.was_changed(body.about)) or not _is_due(body, about, context):
            return None
    if not own:
        title = one_line(title_of(about), fields_of(Notification)["title"].limit) or about.id
        body = replace(body, title=title)
    return inherit_sensitivity(body, about)


def check_closed(context: ActionContext, current: Record[Notification], body: Notification) -> None:
    """Check that the actor may close a notification.

    Its recipient may, an editor may, and any action on its subject may.

    Raises: InputError RECORD_INVALID, RIGHTS_MISSING.
    """
    if not changed_fields(current.body, body) <= {"state", "sensitivity"}:
        raise refusal("state", "of a notification only its state changes")
    if body.about in context.touched:
        return
    actor = context.step.actor
    need(actor, "acknowledge")
    if current.body.recipient != actor.name:
        need(actor, "edit")


def _is_due(notification: Notification, about: Record[Any], context: ActionContext) -> bool:
    """True if the state of the record justifies the notification and its text."""
    names = context.speakers()
    if notification.type == "mention":
        names.add(about.author)
    if not fits(notification.type, notification.reason, names):
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
            return context.viewer.is_own(notification.recipient)
    return False
