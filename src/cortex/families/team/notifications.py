"""Notifications: records written in the same transaction as the change they are about.

For each recipient and record at most one of a type is open; a newer one replaces it. Doesn't know
how they are read.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from typing import Any

from cortex.base.actors import AGENT, PERSON
from cortex.base.record_model import (
    NORMAL,
    SENSITIVE,
    Artifact,
    Body,
    Comment,
    Notification,
    Record,
    RecordFilter,
    Task,
)
from cortex.base.record_spec import fields_of
from cortex.base.settings import Settings
from cortex.base.text import one_line
from cortex.engine.store import RecordTransaction
from cortex.families.team.ids import new_id
from cortex.families.team.notification_texts import (
    ACCEPTED,
    ASSIGNED,
    CHANGED,
    MENTIONED,
    OPENED,
    ROLES,
    SPOKE,
)
from cortex.families.team.validation import checked

OPEN = ("new", "seen")
# Most mentions of one text.
MOST_MENTIONS = 10
# Most open notifications of a record that are read.
MOST_OPEN = 100
# Most characters; a longer name may exceed it when it is replaced.
REASON = 500

# Only in prose: code is full of decorators and scopes, and an e-mail address has @ inside a word.
_CODE = re.compile(r"(?ms)^[ \t]*(```|~~~).*?(?:^[ \t]*\1|\Z)|`[^`\n]{1,500}`")
_MENTION = re.compile(r"(?<![\w@/.:-])@(\w[\w.-]{0,98})(?![\w/@])")


def notice(
    step: RecordTransaction,
    type: str,
    recipient: str,
    about: str,
    title: str,
    reason: str,
    *,
    sensitivity: str = NORMAL,
) -> Record[Notification]:
    """Notify a recipient about a record, replacing an open notification of the same type."""
    close_notices(step, about, type, recipient, action="replace_notification")
    body = Notification(
        type,
        recipient,
        about,
        one_line(title, fields_of(Notification)["title"].limit) or about,
        one_line(reason, REASON),
        sensitivity=sensitivity,
    )
    return step.make(new_id(Notification), checked(body), "notify")


def title_of(record: Record[Any]) -> str:
    """Return the title of a record for other places.

    The text of a sensitive comment, which has no title, is shown in its thread only.
    """
    is_hidden = isinstance(record.body, Comment) and record.body.sensitivity == SENSITIVE
    return "a sensitive comment" if is_hidden else record.body.title


def close_notices(
    step: RecordTransaction,
    about: str,
    type: str = "",
    recipient: str = "",
    *,
    action: str = "close_notification",
) -> None:
    """Close open notifications about a record, of all types and recipients or of one.

    Includes those that the actor can't see.
    """
    refs = (("about", about), *((("recipient", recipient),) if recipient else ()))
    with step.unconfined():
        for record in step.select(
            RecordFilter(kinds=("notification",), states=OPEN, refs=refs), MOST_OPEN
        ):
            if type in ("", record.body.type):
                step.put(replace(record, body=replace(record.body, state="done")), action)


def resolve_name(name: str, settings: Settings | None = None, *, me: str = PERSON) -> str:
    """Resolve a name to "person", "agent", or another principal's name.

    `me` is the author of the text, for the name "me".
    """
    bare = name.strip().removeprefix("@")
    folded = bare.casefold()
    if folded == "me":
        return me
    if folded in (PERSON, AGENT):
        return folded
    return PERSON if settings is not None and folded in own_names(settings) else bare


def person_of(name: str) -> str:
    """Return the person behind a name: "person" for the local agent, "ada" for "ada/agent"."""
    return PERSON if name == AGENT else name.partition("/")[0]


def own_names(settings: Settings) -> frozenset[str]:
    """Return the local person's names in lower case.

    If the configured name is "person", it is a server: its login is not a person's name.
    """
    names = (PERSON,) if settings.team.name == PERSON else (PERSON, settings.team.name, login())
    return frozenset(name.casefold() for name in names if name)


@cache
def login() -> str:
    """Return the login name of the local person, "" if the system has none."""
    try:
        if sys.platform == "win32":
            return os.getlogin()
        import pwd

        return pwd.getpwuid(os.getuid()).pw_name
    except (OSError, KeyError):
        return ""


def mentioned(text: str, settings: Settings | None = None) -> list[str]:
    """Return the principals that a text mentions as @name, in order, outside of code."""
    if "@" not in text:
        return []
    names = (match[1].rstrip("._-") for match in _MENTION.finditer(_CODE.sub(" ", text)))
    return list(dict.fromkeys(resolve_name(name, settings) for name in names if name))[
        :MOST_MENTIONS
    ]


def notice_mentions(
    step: RecordTransaction,
    record: Record[Any],
    text: str,
    settings: Settings | None = None,
    *,
    besides: Iterable[str] = (),
) -> list[str]:
    """Notify the principals that a text mentions, except `besides`; returns their names."""
    recipients = [
        name
        for name in mentioned(text, settings)
        if name not in {record.author, step.actor.name, *besides}
    ]
    for name in recipients:
        _notify(
            step,
            "mention",
            name,
            record.id,
            record,
            MENTIONED.format(name=record.author, what=_with_article(record.body)),
        )
    return recipients


def notice_comment(
    step: RecordTransaction,
    comment: Record[Any],
    thread: Record[Any],
    authors: Iterable[str],
    settings: Settings | None = None,
) -> None:
    """Notify about a comment: mentioned principals, the thread's author and earlier commenters."""
    notified = notice_mentions(step, comment, comment.body.body, settings)
    notice_spoken(step, comment, thread, authors, besides=notified)


def notice_spoken(
    step: RecordTransaction,
    comment: Record[Any],
    thread: Record[Any],
    authors: Iterable[str],
    *,
    besides: Iterable[str] = (),
) -> None:
    """Notify the thread's author and earlier commenters, except `besides`."""
    others = dict.fromkeys((thread.author, *authors))
    for name in others:
        if name not in {comment.author, step.actor.name, *besides}:
            why = OPENED if name == thread.author else SPOKE
            _notify(step, "thread_update", name, thread.id, thread, why.format(name=comment.author))


def notice_task(
    step: RecordTransaction,
    task: Record[Task],
    before: Task | None,
    changed: str = "",
    *,
    besides: Iterable[str] = (),
) -> None:
    """Notify new assignees of a task, and its other followers of a change, except `besides`."""
    old = before.assignees if before else ()
    silent = {step.actor.name, *besides} if before else {step.actor.name, task.author, *besides}
    new = [name for name in task.body.assignees if name not in old and name not in silent]
    for name in new:
        _notify(step, "task_assigned", name, task.id, task, ASSIGNED.format(name=step.actor.name))
    if before is None or not changed:
        return
    for name in dict.fromkeys((*task.body.assignees, *task.body.watchers, task.author)):
        if name not in silent and name not in new:
            role = ROLES[name not in task.body.assignees]
            _notify(
                step, "task_update", name, task.id, task, CHANGED.format(role=role, said=changed)
            )


def notice_accepted(step: RecordTransaction, artifact: Record[Artifact]) -> None:
    """Notify the author and the owner of an artifact that it was accepted."""
    for name in dict.fromkeys((artifact.author, artifact.body.owner)):
        if name and name != step.actor.name:
            _notify(
                step,
                "artifact_accepted",
                name,
                artifact.id,
                artifact,
                ACCEPTED.format(name=step.actor.name),
            )


def notice_review(step: RecordTransaction, record: Record[Any], title: str, reason: str) -> None:
    """Ask the person behind the actor to review a record."""
    recipient = person_of(step.actor.name)
    notice(
        step,
        "review_needed",
        recipient,
        record.id,
        title,
        reason,
        sensitivity=record.body.sensitivity,
    )


def _notify(
    step: RecordTransaction, type: str, recipient: str, about: str, record: Record[Any], reason: str
) -> None:
    """Notify a recipient about a record, with its title and sensitivity."""
    notice(
        step, type, recipient, about, title_of(record), reason, sensitivity=record.body.sensitivity
    )


def _with_article(body: Body) -> str:
    """Return the kind with its article, for messages."""
    name = body.__class__.__name__.lower()
    return f"{'an' if name[0] in 'aeo' else 'a'} {name}"
