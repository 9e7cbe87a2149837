"""Preflight of records: plugins judge the texts of every write before it is made.

A step runs inside a transaction, and a plugin may take seconds. So the step is run once to find the
texts that it would write, rolled back, and run again with the verdicts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import fields, replace
from typing import Any

from cortex.base.errors import InputError
from cortex.base.record_model import Attachment, Body, Evidence, Notification, Record, Term, Thread
from cortex.engine.library import Library
from cortex.engine.store import RecordTransaction, Screened, TransactionResult
from cortex.families.team.validation import checked
from cortex.families.team.writes.discussion import SINCE
from cortex.plugins.policy import Policy, allowed, policy_of
from cortex.plugins.registry import Screening

ROUNDS = 5  # of a step: what is derived from a redacted text may be new once more

# The fields in which somebody says something; others hold ids, addresses, names and words of a
# list.
TEXTS = frozenset(
    "title name body summary description charter reason resolution notes review_notes blocked_reason note term meaning".split()
)
LISTS = frozenset(("tags", "naming"))
PARTS = (Term, Evidence, Attachment)

Work = Callable[[RecordTransaction], str]
Change = Callable[[str, str], str]  # a field and its text -> the text as it may be written


class Unscreened(Exception):
    """A step would write texts that no plugin was asked about: it is taken back."""


class Screen:
    """The verdicts on the texts of one write."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._verdicts: dict[str, Screening] = {}
        self._waiting: dict[str, None] = {}

    def apply(self, before: Record[Any] | None, record: Record[Any]) -> Record[Any]:
        """The record with its new texts as they may be written.

        Raises: InputError SENSITIVE_BLOCKED; RECORD_INVALID, where a redacted text doesn't fit its
        field.
        """
        known = set(texts_of(before.body)) if before is not None else set[str]()
        body = with_texts(
            record.body, lambda field, text: text if text in known else self._verdict(field, text)
        )
        return record if body == record.body else replace(record, body=checked(body))

    def _verdict(self, field: str, text: str) -> str:
        if (found := self._verdicts.get(text)) is None:
            self._waiting[text] = None
            return text
        return allowed(found, field)

    def check(self) -> None:
        """Raises: Unscreened, where a step met a text without a verdict."""
        if self._waiting:
            raise Unscreened

    def ask(self, texts: Iterable[str] = ()) -> None:
        """Have the plugins judge the texts that wait, and these.

        Raises: ConfigError PLUGIN_UNUSABLE.
        """
        waiting, self._waiting = [*self._waiting, *texts], {}
        for text in waiting:
            if text not in self._verdicts:
                self._verdicts[text] = found = self._policy.screen(text)
                self._verdicts.setdefault(found.text, replace(found, warnings=()))


def screened_step(
    screen: Screen | None, work: Work, attempt: Callable[[Work, Screened | None], TransactionResult]
) -> TransactionResult:
    """Do a step whose texts the plugins allow, as `attempt` does it.

    Raises: InputError SENSITIVE_BLOCKED, RECORD_INVALID; ConfigError PLUGIN_UNUSABLE; whatever the
    step raises.
    """
    if screen is None:
        return attempt(work, None)

    def judged(step: RecordTransaction) -> str:
        result = work(step)
        screen.check()
        return result

    for _ in range(ROUNDS):
        try:
            return attempt(judged, screen.apply)
        except Unscreened:
            screen.ask()
    raise InputError(
        "RECORD_INVALID",
        "plugins change what is written each time that they are asked; nothing was written",
    )


def screen_of(library: Library) -> Screen | None:
    """A screen for what is written to a library now, None where no plugin may have a say."""
    policy = policy_of(library)
    return None if policy is None else Screen(policy)


def texts_of(body: Body) -> list[str]:
    """The texts of a body that plugins are asked about."""
    found: list[str] = []

    def collect(field: str, text: str) -> str:
        found.append(text)
        return text

    with_texts(body, collect)
    return found


def with_texts(body: Any, change: Change) -> Any:
    """A body whose texts are changed, field by field; what is derived from other texts stays as it
    is.
    """
    if isinstance(body, Notification):
        return body
    changed: dict[str, object] = {}
    for field in fields(body):
        name, value = field.name, getattr(body, field.name)
        if isinstance(value, str):
            if name == "summary" and isinstance(body, Thread):
                changed[name] = _with_supplied(body, change)
            elif name in TEXTS and value.strip():
                changed[name] = change(name, value)
        elif name in LISTS:
            changed[name] = tuple(change(name, text) for text in value)
        elif name == "patch":
            changed[name] = tuple(
                (key, value if key == "state" else change(key, value)) for key, value in value
            )
        elif isinstance(value, tuple) and value and isinstance(value[0], PARTS):
            changed[name] = tuple(with_texts(part, change) for part in value)
    return replace(body, **changed) if changed else body


def _with_supplied(thread: Thread, change: Change) -> str:
    """A summary of which the part is changed that somebody wrote; the rest is sentences of
    comments, with their ids.
    """
    base, since, rest = thread.summary.partition(SINCE)
    return (
        change("summary", base) + since + rest
        if thread.summary_by and base.strip()
        else thread.summary
    )
