"""Detection of contradictions: found before a record is written, linked in its transaction.

Candidates share words or code with the new record; `compare` decides if they conflict. Bounded,
since a caller waits for the write: the best few by words, the newest few by code, and a time limit
for all.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cortex.base.errors import CortexError, InputError
from cortex.base.record_model import (
    NORMAL,
    SENSITIVE,
    Artifact,
    Body,
    Link,
    Observation,
    Record,
    RecordFilter,
    Thread,
)
from cortex.base.text import one_line
from cortex.base.types import Mode, Query
from cortex.engine.library import Library
from cortex.engine.store import RecordTransaction
from cortex.families.team.contradictions.compare import differences, same_subject
from cortex.families.team.ids import new_id
from cortex.families.team.notification_texts import CLASHES
from cortex.families.team.notifications import notice, person_of
from cortex.families.team.validation import checked

# Records that are compared: by words, and for each file by code.
BY_WORDS, BY_CODE = 8, 20
# Files of a record that are used to find others.
MOST_PATHS = 5
# Time limit, after which no further pair is compared.
SECONDS = 0.3
# Most links of a record.
MOST = 3
# Most characters of a link's note.
CHARACTERS = 300
KINDS = ("artifact", "observation", "thread")
_CLOSED_STATES = ("superseded", "deprecated", "archived")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Contradiction:
    """A conflicting record, and a note on the conflict."""

    id: str
    note: str
    sensitivity: str


def clashes_of(
    library: Library, body: Body, before: Record[Any] | None = None, *, until: float | None = None
) -> tuple[Contradiction, ...]:
    """Find records that a new body may contradict; none if search is unavailable.

    `before` is the previous version of the record: if its text is the same, nothing is compared.
    `until` is the deadline on the monotonic clock.
    """
    until = time.monotonic() + SECONDS if until is None else until
    if not _is_assertion(body) or (before is not None and _text_of(before.body) == _text_of(body)):
        return ()
    try:
        return tuple(
            _compare_candidates(library, checked(body), before.id if before else "", until)
        )
    # The write itself reports the error.
    except InputError:
        return ()
    except CortexError as error:
        log.warning("contradictions were not looked for: %s", error.message)
        return ()


def _compare_candidates(library: Library, body: Any, own: str, until: float) -> list[Contradiction]:
    """Compare a body with its candidates until the deadline."""
    text = _text_of(body)
    contradictions: list[Contradiction] = []
    for other, shares_code in _find_candidates(library, body) if time.monotonic() < until else ():
        if time.monotonic() >= until:
            log.info("not everything was compared with what is new: it took too long")
            break
        if not _is_assertion(other.body) or other.id in (own, getattr(body, "supersedes", "")):
            continue
        if not shares_code and not same_subject(body.title, other.body.title):
            continue
        if differing := differences(text, _text_of(other.body)):
            parts = (
                f"{difference.subject}: {difference.left} here, {difference.right} there"
                for difference in differing
            )
            note = one_line("; ".join(parts), CHARACTERS)
            contradictions.append(Contradiction(other.id, note, other.body.sensitivity))
            if len(contradictions) == MOST:
                break
    return contradictions


def write_clashes(
    step: RecordTransaction, record: Record[Any], clashes: Sequence[Contradiction]
) -> list[str]:
    """Link a new record to its contradictions for review; returns a warning for each."""
    warnings: list[str] = []
    for clash in clashes:
        if _is_linked(step, record.id, clash.id) or _is_linked(step, clash.id, record.id):
            continue
        is_sensitive = SENSITIVE in (clash.sensitivity, record.body.sensitivity)
        sensitivity = SENSITIVE if is_sensitive else NORMAL
        body = Link(record.id, "contradicts", clash.id, clash.note, "candidate", sensitivity)
        link = step.make(new_id(Link), body, "propose_link")
        # The link quotes the other record, and only readers of both see it.
        title = f"{record.body.title} may contradict another record"
        notice(step, person_of(step.actor.name), link, CLASHES(), title)
        is_hidden = clash.sensitivity == SENSITIVE != record.body.sensitivity
        warnings.append(f"may contradict {clash.id}" + ("" if is_hidden else f": {clash.note}"))
    return warnings


def _is_linked(step: RecordTransaction, source: str, target: str) -> bool:
    """True if the contradiction was linked before, however it was judged."""
    refs = (("source", source), ("target", target), ("relation", "contradicts"))
    return bool(step.select(RecordFilter(kinds=("link",), refs=refs), 1))


def _is_assertion(body: Body) -> bool:
    """True for records that assert something: open artifacts, observations and decisions."""
    is_kind = isinstance(body, Artifact | Observation) or (
        isinstance(body, Thread) and body.type == "decision"
    )
    return is_kind and body.state not in _CLOSED_STATES


def _find_candidates(library: Library, body: Any) -> list[tuple[Record[Any], bool]]:
    """Find records with similar words or the same code, each once; True means by code."""
    lookup = library.store.records
    candidates: dict[str, tuple[Record[Any], bool]] = {}
    for path in list(dict.fromkeys(link.path for link in body.code_links))[:MOST_PATHS]:
        # Path by path: the store has the records of one path in order, but would have to sort those
        # of several.
        for record in lookup.select(RecordFilter(kinds=KINDS, refs=(("path", path),)), BY_CODE):
            if _same_code(body, record.body):
                candidates[record.id] = (record, True)
    if sources := lookup.sources(KINDS):
        query = Query(body.title, mode=Mode.WORDS, limit=BY_WORDS, snippets=(0,))
        docs = list(dict.fromkeys(hit.doc for hit in library.search(query, sources=sources).hits))
        by_doc = lookup.by_docs(docs)
        for doc in docs:
            if doc in by_doc:
                candidates.setdefault(by_doc[doc].id, (by_doc[doc], False))
    return list(candidates.values())


def _same_code(body: Any, other: Any) -> bool:
    """True if both link one symbol, or one file as a whole."""
    targets = {(link.path, link.symbol.casefold()) for link in body.code_links}
    return any(
        (link.path, link.symbol.casefold()) in targets for link in getattr(other, "code_links", ())
    )


def _text_of(body: Any) -> str:
    """Return the text of a body that is compared."""
    parts = (
        body.title,
        getattr(body, "summary", "") if not isinstance(body, Thread) else "",
        getattr(body, "body", ""),
    )
    return "\n".join(part for part in (*parts, getattr(body, "resolution", "")) if part)
