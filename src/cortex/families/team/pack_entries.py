"""Pack entries: a record with its claim in one sentence and its warnings."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from cortex.base.record_model import Record, Task, Thread
from cortex.base.record_spec import spec_of
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
    body = record.body
    texts = {name: getattr(body, name) for name in spec_of(type(body)).claim}
    match body:
        case Thread(summary=summary):
            texts["summary"] = _SOURCE.sub("", summary.partition("\n")[0])
        case Task(state=state, blocked_reason=reason):
            is_blocked = state == "blocked" and reason
            texts["blocked_reason"] = f"blocked: {reason}" if is_blocked else ""
    sentences = (_first_sentence(text) for text in texts.values() if text.strip())
    return next(filter(None, sentences), "")


def _first_sentence(text: str) -> str:
    """Return the first sentence of a text, shortened."""
    first = next((sentence.text for sentence in sentences_of(text[:READ_CHARACTERS])), "")
    return cut(first or fold(text[:READ_CHARACTERS]), CLAIM_CHARACTERS)
