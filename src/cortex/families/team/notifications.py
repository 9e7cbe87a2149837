"""Who hears of what: notifications are records that are written in the step of what they are about.

At most one of a type is open for each recipient and record: a newer one takes its place. Who reads
them is not known here.
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
from cortex.families.team.validation import LIMITS, checked

OPEN = ("new", "seen")
MOST_MENTIONS = 10  # of one text
MOST_OPEN = 100  # that are looked at for one record
REASON = 500  # characters; there may be more where somebody has a longer name

# In prose only: code is full of decorators and scopes, and an address has its sign inside a word.
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
    """Have somebody hear of a record; an open notification of the same type about it is done with
    that.
    """
    close_notices(step, about, type, recipient, action="replace_notification")
    limits = LIMITS[Notification]
    body = Notification(
        type,
        recipient,
        about,
        one_line(title, limits["title"]) or about,
        one_line(reason, REASON),
        sensitivity=sensitivity,
    )
    return step.make(new_id(Notification), checked(body), "notify")


def title_of(record: Record[Any]) -> str:
    """How a record is called where others see it: what a sensitive comment says stands in its
    thread alone, since it has no title.
    """
    hidden = isinstance(record.body, Comment) and record.body.sensitivity == SENSITIVE
    return "a sensitive comment" if hidden else record.body.title


def close_notices(
    step: RecordTransaction,
    about: str,
    type: str = "",
    recipient: str = "",
    *,
    action: str = "close_notification",
) -> None:
    """Be done with what is open about a record, all of it or that of one type or for one recipient,
    whoever may see it.
    """
    refs = (("about", about), *((("recipient", recipient),) if recipient else ()))
    with step.unconfined():
        for one in step.select(
            RecordFilter(kinds=("notification",), states=OPEN, refs=refs), MOST_OPEN
        ):
            if type in ("", one.body.type):
                step.put(replace(one, body=replace(one.body, state="done")), action)


def who(name: str, settings: Settings | None = None, *, me: str = PERSON) -> str:
    """Whom a name means: "person", "agent", or somebody else by their own name.

    `me` is who says "me".
    """
    told = name.strip().removeprefix("@")
    folded = told.casefold()
    if folded == "me":
        return me
    if folded in (PERSON, AGENT):
        return folded
    return PERSON if settings is not None and folded in own_names(settings) else told


def person_of(name: str) -> str:
    """Whose machine or agent that is: the person's at home, "ada" of "ada/agent" where a team
    shares a server.
    """
    return PERSON if name == AGENT else name.partition("/")[0]


def own_names(settings: Settings) -> frozenset[str]:
    """What the person is called, in lower case; where that is "person", nobody is at home: a server
    has a login, too.
    """
    names = (PERSON,) if settings.team.name == PERSON else (PERSON, settings.team.name, login())
    return frozenset(name.casefold() for name in names if name)


@cache
def login() -> str:
    """The login name of the person, "" where the system tells none."""
    try:
        if sys.platform == "win32":
            return os.getlogin()
        import pwd

        return pwd.getpwuid(os.getuid()).pw_name
    except (OSError, KeyError):
        return ""


def mentioned(text: str, settings: Settings | None = None) -> list[str]:
    """Whom a text mentions as @name, in order; not what stands in code."""
    if "@" not in text:
        return []
    names = (found[1].rstrip("._-") for found in _MENTION.finditer(_CODE.sub(" ", text)))
    return list(dict.fromkeys(who(name, settings) for name in names if name))[:MOST_MENTIONS]


def notice_mentions(
    step: RecordTransaction,
    record: Record[Any],
    text: str,
    settings: Settings | None = None,
    *,
    besides: Iterable[str] = (),
) -> list[str]:
    """Tell those whom a text mentions; `besides` know already. Gives who was told."""
    told = [
        name
        for name in mentioned(text, settings)
        if name not in {record.author, step.actor.name, *besides}
    ]
    for name in told:
        _tell(
            step,
            "mention",
            name,
            record.id,
            record,
            MENTIONED.format(name=record.author, what=_named(record.body)),
        )
    return told


def notice_comment(
    step: RecordTransaction,
    comment: Record[Any],
    thread: Record[Any],
    authors: Iterable[str],
    settings: Settings | None = None,
) -> None:
    """Tell of a comment: whom it mentions, who opened the thread, and who spoke there before."""
    told = notice_mentions(step, comment, comment.body.body, settings)
    notice_spoken(step, comment, thread, authors, besides=told)


def notice_spoken(
    step: RecordTransaction,
    comment: Record[Any],
    thread: Record[Any],
    authors: Iterable[str],
    *,
    besides: Iterable[str] = (),
) -> None:
    """Tell of a comment who opened the thread, and who spoke there before; `besides` know already."""
    others = dict.fromkeys((thread.author, *authors))
    for name in others:
        if name not in {comment.author, step.actor.name, *besides}:
            why = OPENED if name == thread.author else SPOKE
            _tell(step, "thread_update", name, thread.id, thread, why.format(name=comment.author))


def notice_task(
    step: RecordTransaction,
    task: Record[Task],
    before: Task | None,
    changed: str = "",
    *,
    besides: Iterable[str] = (),
) -> None:
    """Tell of a task: those who have it now that it is theirs, the others that it was changed;
    `besides` know already.
    """
    old = before.assignees if before else ()
    silent = {step.actor.name, *besides} if before else {step.actor.name, task.author, *besides}
    new = [name for name in task.body.assignees if name not in old and name not in silent]
    for name in new:
        _tell(step, "task_assigned", name, task.id, task, ASSIGNED.format(name=step.actor.name))
    if before is None or not changed:
        return
    for name in dict.fromkeys((*task.body.assignees, *task.body.watchers, task.author)):
        if name not in silent and name not in new:
            role = ROLES[name not in task.body.assignees]
            _tell(step, "task_update", name, task.id, task, CHANGED.format(role=role, said=changed))


def notice_accepted(step: RecordTransaction, artifact: Record[Artifact]) -> None:
    """Tell those who made an artifact, and who stands for it, that it is accepted."""
    for name in dict.fromkeys((artifact.author, artifact.body.owner)):
        if name and name != step.actor.name:
            _tell(
                step,
                "artifact_accepted",
                name,
                artifact.id,
                artifact,
                ACCEPTED.format(name=step.actor.name),
            )


def notice_review(step: RecordTransaction, record: Record[Any], title: str, reason: str) -> None:
    """Tell the person that something waits for their judgement, whoever made it."""
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


def _tell(
    step: RecordTransaction, type: str, recipient: str, about: str, record: Record[Any], reason: str
) -> None:
    notice(
        step, type, recipient, about, title_of(record), reason, sensitivity=record.body.sensitivity
    )


def _named(body: Body) -> str:
    name = body.__class__.__name__.lower()
    return f"{'an' if name[0] in 'aeo' else 'a'} {name}"
