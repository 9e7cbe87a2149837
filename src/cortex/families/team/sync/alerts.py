"""What the person hears of a sync: each write that the Core didn't take stands in their inbox, with
why and what they wrote.

Alerts are notifications that stay on this machine. An alert is written before its entry is marked
as refused, and taken back before a later try of it is settled: wherever a process ends, there is
never a refusal that nobody is told of. Of what was there before the home had a Core, and of what
was sent again, there is one alert for all, since a whole library may be refused.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from cortex.base.actors import PERSON
from cortex.base.record_model import (
    NORMAL,
    SENSITIVE,
    Actor,
    Notification,
    Record,
    RecordFilter,
    Subcortex,
)
from cortex.base.secret_scanner import redact
from cortex.base.text import hash_bytes, one_line
from cortex.engine.library import Library
from cortex.engine.store import OutboxEntry, RecordChange, RecordTransaction
from cortex.engine.store.records.rows import UNSEEN
from cortex.families.team.ids import fresh_key, go_on_from, new_id
from cortex.families.team.index_text import wording
from cortex.families.team.notifications import OPEN, title_of
from cortex.families.team.sync import rejections, state
from cortex.families.team.validation import LIMITS, checked
from cortex.families.team.wire.codec import body_to

ALERT = "system_alert"
AUTHOR = Actor("cortex", 4)
TYPED_CHARACTERS = 60  # of each field that is told
WROTE_CHARACTERS, WHY_CHARACTERS = 180, 160  # of all fields, and of why it was refused
WHOLE = "`cortex sync --refused` shows all you wrote, `cortex sync --retry` sends it again"
AGAIN = "`cortex sync --refused` shows all you wrote: write it again on top of what is here, then run `cortex sync --give-up`"
CHOOSE = "`cortex sync --refused` shows all you wrote; `cortex sync --keep mine` puts it on top of what is here, `--keep theirs` gives it up"
OUTDONE = "somebody else decided first, and that stands: `cortex sync --give-up` ends this"
BEFORE = "from before it was joined or put back"  # in the alert about all of it


def tell_refused(library: Library, entry: OutboxEntry, code: str, message: str) -> None:
    """Have a refused write seen; an alert of an earlier try of the same one goes."""
    main = rejections.main_of(entry)
    end = f"{rejections.became(library, entry)}; {_way_out(entry, code, message)}"
    wrote = _wrote(main)
    reason = (
        f"the Core did not take this ({code}): {one_line(message, WHY_CHARACTERS)}. {wrote}. {end}"
    )
    title = _called(library, main)

    def work(step: RecordTransaction) -> str:
        _close(step, main.id, wrote)
        return _make(step, main.id, title, reason, main.after.sensitivity)

    _perform(library, work, fresh_key())


def take_back(library: Library, entry: OutboxEntry) -> None:
    """Have the alert of an earlier try go: the Core has taken it, or it is given up."""
    main = rejections.main_of(entry)
    wrote = _wrote(main)
    if any(one.body.type == ALERT for one in library.store.recorded.select(_open(main.id), 100)):
        _perform(library, lambda step: _close(step, main.id, wrote), fresh_key())


def tell_renamed(
    library: Library, record: Record[Subcortex], slug: str, work: Callable[[RecordTransaction], str]
) -> None:
    """Do what gives a subcortex another slug, and tell of it in the same step."""
    name = record.body.slug
    reason = f"the Core has another subcortex {name}: yours is called {slug} now, with all that is in it; {name} means the other"

    def both(step: RecordTransaction) -> str:
        work(step)
        return _make(step, record.id, title_of(record), reason, record.body.sensitivity)

    _perform(library, both, fresh_key())


def tell_replaced(library: Library, record: Record[Any], count: int, file: Path) -> None:
    """Tell that a Core that was put back has older versions than were here, and where those are
    kept now; once for each file.
    """
    many = f"{count} records" if count > 1 else "a record"
    reason = (
        f"the Core was put back, and what it has of {many} took the place of something later here, which is kept in {file}. "
        "Whoever wrote it may still send it again; else write what you miss once more"
    )

    def work(step: RecordTransaction) -> str:
        for one in step.select(_open(record.id)):
            if one.body.type == ALERT and str(file) in one.body.reason:
                step.put(replace(one, body=replace(one.body, state="done")))
        return _make(step, record.id, title_of(record), reason, record.body.sensitivity)

    _perform(library, work, fresh_key())


def tell_unsent(library: Library) -> None:
    """Have seen what of all that was there before, or sent again, the Core didn't take, in one
    alert; none where that is nothing.
    """
    entries = [one for one in library.store.outbox.refused() if rejections.is_told_together(one)]
    told = library.store.recorded.select(
        RecordFilter(kinds=("notification",), states=OPEN, authors=(AUTHOR.name,)), 1_000
    )
    earlier = [one for one in told if BEFORE in one.body.reason]
    if not entries and not earlier:
        return

    def work(step: RecordTransaction) -> str:
        for one in earlier:
            if (now := step.get(one.id)) is not None and now.body.state in OPEN:
                step.put(replace(now, body=replace(now.body, state="done")))
        if not entries:
            return ""
        first, main = entries[0], rejections.main_of(entries[0])
        count = f"{len(entries)} writes {BEFORE}" if len(entries) > 1 else f"a write {BEFORE}"
        why = f"{first.code}, {one_line(first.reason, WHY_CHARACTERS)}"
        stays = "What the Core has of it reads here as there, the rest stays"
        reason = f"the Core did not take {count}; this one: {why}. {stays}; {_way_out(first, first.code, first.reason)}"
        private = any(change.after.sensitivity == SENSITIVE for change in first.changes)
        return _make(
            step, main.id, _called(library, main), reason, SENSITIVE if private else NORMAL
        )

    # The same ones are told once, also where the person is done with that already; what is tried by
    # itself isn't told each time, but for each time that the Core was put back.
    again = library.store.truth.get(state.RESENT)
    tries = (f"{entry.key} {again if entry.taken else entry.attempts}" for entry in entries)
    key = hash_bytes(b"unsent", *(one.encode() for one in tries)).hex()[:32]
    _perform(library, work, f"unsent-{key}" if entries else fresh_key())


def _perform(library: Library, work: Callable[[RecordTransaction], str], key: str) -> None:
    """A step that stays on this machine; nothing of it is found by searching, so no index has to
    follow.
    """

    def begin(step: RecordTransaction) -> str:
        go_on_from(step.newest())
        return work(step)

    library.store.records.perform(
        begin,
        actor=AUTHOR,
        key=key,
        action="alert",
        payload="",
        wording=wording(library.settings),
        quiet=True,
    )


def _make(step: RecordTransaction, about: str, title: str, reason: str, sensitivity: str) -> str:
    limits = LIMITS[Notification]
    body = Notification(
        ALERT,
        PERSON,
        about,
        one_line(redact(title)[0], limits["title"]) or about,
        one_line(redact(reason)[0], limits["reason"]),
        sensitivity=sensitivity,
    )
    return step.make(new_id(Notification), checked(body)).id


def _close(step: RecordTransaction, about: str, wrote: str) -> str:
    for one in step.select(_open(about)):
        # Whole: another may begin alike
        if one.body.type == ALERT and f"{wrote}. It " in one.body.reason:
            step.put(replace(one, body=replace(one.body, state="done")))
    return ""


def _open(about: str) -> RecordFilter:
    return RecordFilter(
        kinds=("notification",), states=OPEN, refs=(("about", about), ("recipient", PERSON))
    )


def _called(library: Library, one: RecordChange) -> str:
    """How what was written is called; not where others called it so, and it may no longer be seen."""
    if (
        one.before is not None
        and one.before.title == one.after.title
        and library.store.recorded.one(one.id) is None
    ):
        return UNSEEN
    return title_of(Record(one.id, one.after))


def _way_out(entry: OutboxEntry, code: str, reason: str) -> str:
    """What can be done about a refusal."""
    if rejections.is_outdone(entry, code, reason):
        return OUTDONE
    if code != rejections.CONFLICT:
        return WHOLE
    return CHOOSE if rejections.is_edit(entry) else AGAIN


def _wrote(one: RecordChange) -> str:
    return f"You wrote: {one_line(redact(_typed(one))[0], WROTE_CHARACTERS).rstrip(' .')}"


def _typed(one: RecordChange) -> str:
    """What somebody changed, field by field; only its names, where all of it is what machines make."""
    before = {} if one.before is None else body_to(one.before)
    changed = {
        name: _news(before.get(name), value) for name, value in rejections.typed(one).items()
    }
    if rejections.MACHINE_MADE.issuperset(changed):
        return ", ".join(changed)
    return "; ".join(
        f"{name}: {one_line(_said(value), TYPED_CHARACTERS)}" for name, value in changed.items()
    )


def _news(before: Any, after: Any) -> Any:
    """What is new of several values; all of them, where some were only taken away."""
    if not isinstance(before, list) or not isinstance(after, list):
        return after
    return [one for one in after if one not in before] or after


def _said(value: Any) -> str:
    match value:
        case None:
            return ""
        case str():
            return value
        case list():
            return ", ".join(_said(one) for one in value)
        case dict():
            return " ".join(
                _said(one)
                for name, one in value.items()
                if one and name not in rejections.MACHINE_MADE
            )
    return json.dumps(value, ensure_ascii=False)
