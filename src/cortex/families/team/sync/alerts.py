"""Inbox alerts about sync: one per write that the Core rejected, with reason and content.

Alerts are notifications that stay on this machine. An alert is written before its outbox entry is
marked as refused, and closed before a later attempt is settled, so no crash leaves a rejection
without an alert. Records from before the home had a Core, and records that were sent again, share
one alert, because a whole library may be rejected at once.
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
from cortex.base.record_spec import fields_of
from cortex.base.secret_scanner import redact
from cortex.base.text import hash_bytes, one_line
from cortex.engine.library import Library
from cortex.engine.store import OutboxEntry, RecordChange, RecordTransaction, TransactionOptions
from cortex.engine.store.records.rows import UNSEEN
from cortex.families.team.ids import advance_past, fresh_key, new_id
from cortex.families.team.index_text import wording
from cortex.families.team.notifications import OPEN, title_of
from cortex.families.team.sync import rejections, state
from cortex.families.team.validation import checked
from cortex.families.team.wire.codec import body_to

ALERT = "system_alert"
AUTHOR = Actor("cortex", 4)
# Characters quoted of each changed field, of all fields together, and of the rejection's reason.
TYPED_CHARACTERS = 60
WROTE_CHARACTERS, WHY_CHARACTERS = 180, 160
WHOLE = "`cortex sync --refused` shows all you wrote, `cortex sync --retry` sends it again"
AGAIN = (
    "`cortex sync --refused` shows all you wrote: write it again on top of what is here, "
    "then run `cortex sync --give-up`"
)
CHOOSE = (
    "`cortex sync --refused` shows all you wrote; `cortex sync --keep mine` puts it on top of "
    "what is here, `--keep theirs` gives it up"
)
OUTDONE = "another decision came first and stands: `cortex sync --give-up` ends this"
# Marks the shared alert about records from before the connection.
BEFORE = "from before it was joined or put back"


def alert_refused(library: Library, entry: OutboxEntry, code: str, message: str) -> None:
    """Alert the person to a rejected write, replacing the alert of an earlier attempt."""
    main = rejections.main_of(entry)
    end = f"{rejections.became(library, entry)}; {_advice(entry, code, message)}"
    wrote = _quote(main)
    reason = (
        f"the Core did not take this ({code}): {one_line(message, WHY_CHARACTERS)}. {wrote}. {end}"
    )
    title = _title(library, main)

    def work(step: RecordTransaction) -> str:
        _close_alerts(step, main.id, _end_of_quote(wrote))
        return _create_alert(step, main.id, title, reason, main.after.sensitivity)

    _run_local(library, work, fresh_key())


def close_alert(library: Library, entry: OutboxEntry) -> None:
    """Close the alert of an earlier attempt: the write was accepted or given up."""
    main = rejections.main_of(entry)
    wrote = _quote(main)
    if any(
        notification.body.type == ALERT
        for notification in library.store.records.select(_open_about(main.id), 100)
    ):
        quote = _end_of_quote(wrote)
        _run_local(library, lambda step: _close_alerts(step, main.id, quote), fresh_key())


def alert_renamed(
    library: Library, record: Record[Subcortex], slug: str, work: Callable[[RecordTransaction], str]
) -> None:
    """Run `work`, which renames a subcortex, and add an alert in the same transaction."""
    name = record.body.slug
    reason = (
        f"the Core has another subcortex {name}: yours is called {slug} now, "
        f"with all that is in it; {name} means the other"
    )

    def both(step: RecordTransaction) -> str:
        work(step)
        return _create_alert(step, record.id, title_of(record), reason, record.body.sensitivity)

    _run_local(library, both, fresh_key())


def alert_overwritten(library: Library, record: Record[Any], count: int, file: Path) -> None:
    """Alert that a restored Core replaced newer local versions, which are saved in `file`.

    An earlier alert about the same file is closed.
    """
    many = f"{count} records" if count > 1 else "a record"
    reason = (
        f"the Core was put back, and what it has of {many} took the place of something later here, "
        f"which is kept in {file}. "
        "Its author may still send it again; else write what you miss once more"
    )

    def work(step: RecordTransaction) -> str:
        _close_alerts(step, record.id, str(file))
        return _create_alert(step, record.id, title_of(record), reason, record.body.sensitivity)

    _run_local(library, work, fresh_key())


def alert_unsent(library: Library) -> None:
    """Alert once to all rejected uploads and resent writes; close the alert if none is left."""
    entries = [entry for entry in library.store.outbox.refused() if rejections.shares_alert(entry)]
    open_alerts = library.store.records.select(
        RecordFilter(kinds=("notification",), states=OPEN, authors=(AUTHOR.name,)), 1_000
    )
    earlier = [alert for alert in open_alerts if BEFORE in alert.body.reason]
    if not entries and not earlier:
        return

    def work(step: RecordTransaction) -> str:
        for alert in earlier:
            if (now := step.get(alert.id)) is not None and now.body.state in OPEN:
                step.put(replace(now, body=replace(now.body, state="done")))
        if not entries:
            return ""
        first, main = entries[0], rejections.main_of(entries[0])
        count = f"{len(entries)} writes {BEFORE}" if len(entries) > 1 else f"a write {BEFORE}"
        why = f"{first.code}, {one_line(first.reason, WHY_CHARACTERS)}"
        stays = "What the Core has of it reads here as there, the rest stays"
        reason = (
            f"the Core did not take {count}; this one: {why}. {stays}; "
            f"{_advice(first, first.code, first.reason)}"
        )
        private = any(change.after.sensitivity == SENSITIVE for change in first.changes)
        return _create_alert(
            step, main.id, _title(library, main), reason, SENSITIVE if private else NORMAL
        )

    # The idempotency key keeps the same set of entries from alerting twice, also after the person
    # closed the alert. Entries that are resent automatically alert once per restore of the Core,
    # not once per attempt.
    again = library.store.content.get(state.RESENT)
    tries = (f"{entry.key} {again if entry.taken else entry.attempts}" for entry in entries)
    key = hash_bytes(b"unsent", *(attempt.encode() for attempt in tries)).hex()[:32]
    _run_local(library, work, f"unsent-{key}" if entries else fresh_key())


def _run_local(library: Library, work: Callable[[RecordTransaction], str], key: str) -> None:
    """Run a local transaction. Alerts aren't searchable, so no index has to be updated."""

    def begin(step: RecordTransaction) -> str:
        advance_past(step.newest())
        return work(step)

    library.store.records.perform(
        begin,
        TransactionOptions(
            actor=AUTHOR,
            key=key,
            action="alert",
            payload="",
            wording=wording(library.settings),
            quiet=True,
        ),
    )


def _create_alert(
    step: RecordTransaction, about: str, title: str, reason: str, sensitivity: str
) -> str:
    limits = fields_of(Notification)
    body = Notification(
        ALERT,
        PERSON,
        about,
        one_line(redact(title)[0], limits["title"].limit) or about,
        one_line(redact(reason)[0], limits["reason"].limit),
        sensitivity=sensitivity,
    )
    return step.make(new_id(Notification), checked(body)).id


def _close_alerts(step: RecordTransaction, about: str, text: str) -> str:
    """Close the alerts about a record that contain a text."""
    for alert in step.select(_open_about(about)):
        if alert.body.type == ALERT and text in alert.body.reason:
            step.put(replace(alert, body=replace(alert.body, state="done")))
    return ""


def _end_of_quote(wrote: str) -> str:
    """Return the whole sentence: the alert of another write may begin the same way."""
    return f"{wrote}. It "


def _open_about(about: str) -> RecordFilter:
    return RecordFilter(
        kinds=("notification",), states=OPEN, refs=(("about", about), ("recipient", PERSON))
    )


def _title(library: Library, change: RecordChange) -> str:
    """Return the title of a changed record.

    A title by another author is hidden once the record is no longer visible here.
    """
    if (
        change.before is not None
        and change.before.title == change.after.title
        and library.store.records.one(change.id) is None
    ):
        return UNSEEN
    return title_of(Record(change.id, change.after))


def _advice(entry: OutboxEntry, code: str, reason: str) -> str:
    """Choose the advice for a rejection."""
    if rejections.is_outdone(entry, code, reason):
        return OUTDONE
    if code != rejections.CONFLICT:
        return WHOLE
    return CHOOSE if rejections.is_edit(entry) else AGAIN


def _quote(change: RecordChange) -> str:
    return (
        f"You wrote: {one_line(redact(_render_changes(change))[0], WROTE_CHARACTERS).rstrip(' .')}"
    )


def _render_changes(change: RecordChange) -> str:
    """Render the changed fields; only their names, if all of them are machine-made."""
    before = {} if change.before is None else body_to(change.before)
    changed = {
        name: _added(before.get(name), value) for name, value in rejections.typed(change).items()
    }
    if rejections.MACHINE_MADE.issuperset(changed):
        return ", ".join(changed)
    return "; ".join(
        f"{name}: {one_line(_render_value(value), TYPED_CHARACTERS)}"
        for name, value in changed.items()
    )


def _added(before: Any, after: Any) -> Any:
    """Return the added items of a list, or the whole list if items were only removed."""
    if not isinstance(before, list) or not isinstance(after, list):
        return after
    return [item for item in after if item not in before] or after


def _render_value(value: Any) -> str:
    match value:
        case None:
            return ""
        case str():
            return value
        case list():
            return ", ".join(_render_value(item) for item in value)
        case dict():
            return " ".join(
                _render_value(item)
                for name, item in value.items()
                if item and name not in rejections.MACHINE_MADE
            )
    return json.dumps(value, ensure_ascii=False)
