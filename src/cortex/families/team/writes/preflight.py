"""Preflight of record writes: plugins judge every new text before it is stored.

A write runs inside a transaction, and a plugin may take seconds. So the write is run once to
collect its texts, rolled back, and run again with the verdicts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import is_dataclass, replace
from typing import Any, get_origin

from cortex.base.errors import InputError
from cortex.base.record_model import Body, Notification, Record, Thread
from cortex.base.record_spec import fields_of
from cortex.engine.library import Library
from cortex.engine.store import RecordTransaction, Screened, TransactionResult
from cortex.families.team.validation import checked
from cortex.families.team.writes.discussion import SINCE
from cortex.plugins.policy import Policy, allowed, policy_of
from cortex.plugins.registry import Screening

# Attempts of a write: text derived from a redacted text may be new again.
ROUNDS = 5

Work = Callable[[RecordTransaction], str]
# Maps a field and its text to the text that may be written.
Change = Callable[[str, str], str]


class Unscreened(Exception):
    """A write has texts without a verdict: rolls the transaction back."""


class Screen:
    """Verdicts on the texts of one write."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._verdicts: dict[str, Screening] = {}
        self._waiting: dict[str, None] = {}

    def apply(self, before: Record[Any] | None, record: Record[Any]) -> Record[Any]:
        """Return the record with its new texts as they may be written.

        Raises: InputError SENSITIVE_BLOCKED; RECORD_INVALID if a redacted text doesn't fit its
        field.
        """
        known = set(texts_of(before.body)) if before is not None else set[str]()
        body = with_texts(
            record.body, lambda field, text: text if text in known else self._verdict(field, text)
        )
        return record if body == record.body else replace(record, body=checked(body))

    def _verdict(self, field: str, text: str) -> str:
        if (verdict := self._verdicts.get(text)) is None:
            self._waiting[text] = None
            return text
        return allowed(verdict, field)

    def check(self) -> None:
        """Check that every text has a verdict. Raises: Unscreened."""
        if self._waiting:
            raise Unscreened

    def ask(self, texts: Iterable[str] = ()) -> None:
        """Have the plugins judge the waiting texts, and `texts`.

        Raises: ConfigError PLUGIN_UNUSABLE.
        """
        waiting, self._waiting = [*self._waiting, *texts], {}
        for text in waiting:
            if text not in self._verdicts:
                self._verdicts[text] = verdict = self._policy.screen(text)
                self._verdicts.setdefault(verdict.text, replace(verdict, warnings=()))


def screened_step(
    screen: Screen | None, work: Work, attempt: Callable[[Work, Screened | None], TransactionResult]
) -> TransactionResult:
    """Run `work` through `attempt` until the plugins have judged all of its texts.

    Raises: InputError SENSITIVE_BLOCKED, RECORD_INVALID; ConfigError PLUGIN_UNUSABLE; every error
    of `work`.
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
    """Return a screen for writes to a library, or None if no policy plugin is active."""
    policy = policy_of(library)
    return None if policy is None else Screen(policy)


def texts_of(body: Body) -> list[str]:
    """Collect the texts of a body that plugins judge."""
    texts: list[str] = []

    def collect(field: str, text: str) -> str:
        texts.append(text)
        return text

    with_texts(body, collect)
    return texts


def with_texts(body: Any, change: Change) -> Any:
    """Return a body with its texts changed, field by field; derived texts stay as they are."""
    if isinstance(body, Notification):
        return body
    changed: dict[str, object] = {}
    for name, spec in fields_of(type(body)).items():
        value = getattr(body, name)
        if isinstance(body, Thread) and name == "summary":
            changed[name] = _change_supplied(body, change)
        elif is_dataclass(spec.part):
            changed[name] = tuple(with_texts(part, change) for part in value)
        elif get_origin(spec.part) is tuple:
            changed[name] = tuple(
                (key, text if key == "state" else change(key, text)) for key, text in value
            )
        elif spec.is_prose and spec.part is not None:
            changed[name] = tuple(change(name, text) for text in value)
        elif spec.is_prose and value.strip():
            changed[name] = change(name, value)
    return replace(body, **changed) if changed else body


def _change_supplied(thread: Thread, change: Change) -> str:
    """Change the supplied part of a summary; the rest is quoted from comments, with their ids."""
    base, since, rest = thread.summary.partition(SINCE)
    return (
        change("summary", base) + since + rest
        if thread.summary_by and base.strip()
        else thread.summary
    )
