"""Pack entries: a record with its claim in one sentence and its warnings."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from cortex.base.record_model import (
    Artifact,
    Comment,
    Link,
    Observation,
    Record,
    Subcortex,
    Task,
    Thread,
)
from cortex.engine.library import Library
from cortex.families.team.caveats import Changes, warnings_for
from cortex.families.team.sentences import cut, fold, sentences_of

CLAIM_CHARACTERS = 240
# Characters of a body that are read for its first sentence.
READ_CHARACTERS = 4_000
# Markup around the sentence in a line of a thread's summary.
_SOURCE = re.compile(r"^- |\s*\[\w+\]$")


@dataclass(frozen=True, slots=True)
class PackEntry:
    """A record as shown in a pack."""

    record: Record[Any]
    # Empty if the title says it all.
    claim: str
    warnings: tuple[str, ...] = ()
    # The reason for being in the pack.
    why: str = ""

    @property
    def id(self) -> str:
        """Id of the record."""
        return self.record.id


def entries_of(
    library: Library,
    records: Iterable[Record[Any]],
    now: int,
    changes_of: Changes,
    why: str = "",
    *,
    whole: bool = False,
) -> tuple[PackEntry, ...]:
    """Convert records to entries.

    Records that are withheld because the team's Core doesn't have them are left out, unless
    `whole`.
    """
    withheld = frozenset[str]() if whole else library.store.outbox.withheld()
    shown = [record for record in records if record.id not in withheld]
    warnings = warnings_for(library, shown, now, changes_of)
    return tuple(PackEntry(record, claim_of(record), warnings[record.id], why) for record in shown)


def claim_of(record: Record[Any]) -> str:
    """Return a record's claim, in one sentence of its own text."""
    match record.body:
        case Subcortex(description=text, charter=charter):
            texts = (text, charter)
        case Thread(resolution=resolution, summary=summary, body=text):
            texts = (resolution, _SOURCE.sub("", summary.partition("\n")[0]), text)
        case Observation(summary=summary):
            texts = (summary,)
        case Artifact(summary=summary, body=text):
            texts = (summary, text)
        case Task(state=state, blocked_reason=reason, notes=notes, body=text):
            texts = (f"blocked: {reason}" if state == "blocked" and reason else "", notes, text)
        case Comment(body=text) | Link(note=text):
            texts = (text,)
        case _:
            texts = ()
    return next(
        (sentence for text in texts if text.strip() and (sentence := _first_sentence(text))), ""
    )


def _first_sentence(text: str) -> str:
    """Return the first sentence of a text, shortened."""
    first = next((sentence.text for sentence in sentences_of(text[:READ_CHARACTERS])), "")
    return cut(first or fold(text[:READ_CHARACTERS]), CLAIM_CHARACTERS)
