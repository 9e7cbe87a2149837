"""A record in one line: what it claims, how old it is, how it stands, and what to know before
relying on it.
"""

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
READ_CHARACTERS = 4_000  # of a body, for its first sentence
# What a line of a thread's summary has besides its sentence
_SOURCE = re.compile(r"^- |\s*\[\w+\]$")


@dataclass(frozen=True, slots=True)
class PackEntry:
    """A record as a pack tells it."""

    record: Record[Any]
    claim: str  # "" where the title says it all
    warnings: tuple[str, ...] = ()
    why: str = ""  # it is here

    @property
    def id(self) -> str:
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
    """Each of these records as an entry; unless `whole`, without those that are withheld since the
    team's Core doesn't have them.
    """
    withheld = frozenset[str]() if whole else library.store.outbox.withheld()
    ones = [record for record in records if record.id not in withheld]
    warnings = warnings_for(library, ones, now, changes_of)
    return tuple(PackEntry(one, claim_of(one), warnings[one.id], why) for one in ones)


def claim_of(record: Record[Any]) -> str:
    """What a record says, in one sentence of its own."""
    match record.body:
        case Subcortex(description=text, charter=charter):
            told = (text, charter)
        case Thread(resolution=resolution, summary=summary, body=text):
            told = (resolution, _SOURCE.sub("", summary.partition("\n")[0]), text)
        case Observation(summary=summary):
            told = (summary,)
        case Artifact(summary=summary, body=text):
            told = (summary, text)
        case Task(state=state, blocked_reason=reason, notes=notes, body=text):
            told = (f"blocked: {reason}" if state == "blocked" and reason else "", notes, text)
        case Comment(body=text) | Link(note=text):
            told = (text,)
        case _:
            told = ()
    return next((said for text in told if text.strip() and (said := _first_of(text))), "")


def _first_of(text: str) -> str:
    first = next((sentence.text for sentence in sentences_of(text[:READ_CHARACTERS])), "")
    return cut(first or fold(text[:READ_CHARACTERS]), CLAIM_CHARACTERS)
