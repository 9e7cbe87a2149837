"""What a new record may contradict: candidates for a person to judge, found before it is written,
linked in its own step.

Candidates are what is near by words or speaks of the same code; whether two differ is said by
`contradicting`. Bounded: the best few by words, the newest few by code, and a moment for all of it,
since somebody waits for the write.
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
from cortex.families.team.notifications import notice_review
from cortex.families.team.validation import checked

BY_WORDS, BY_CODE = 8, 20  # records that are looked at, of each file
MOST_PATHS = 5  # files of one record by which others are looked for
SECONDS = 0.3  # from which on no other pair is compared
MOST = 3  # links of one record
CHARACTERS = 300  # of the note of a link
KINDS = ("artifact", "observation", "thread")
_OVER = ("superseded", "deprecated", "archived")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Contradiction:
    """A record that says otherwise, and how."""

    id: str
    note: str
    sensitivity: str


def clashes_of(
    library: Library, body: Body, before: Record[Any] | None = None, *, until: float | None = None
) -> tuple[Contradiction, ...]:
    """What a body that isn't written yet may contradict; of what can't be searched now nothing is
    told.

    `before` is the record whose next version it is: where that says the same, there is nothing to
    look for. `until` is the moment, monotonic, from which on nothing more is compared.
    """
    until = time.monotonic() + SECONDS if until is None else until
    if not _counts(body) or (before is not None and _text_of(before.body) == _text_of(body)):
        return ()
    try:
        return tuple(_clashes(library, checked(body), before.id if before else "", until))
    except InputError:  # whoever writes it says why it can't be
        return ()
    except CortexError as error:
        log.warning("contradictions were not looked for: %s", error.message)
        return ()


def _clashes(library: Library, body: Any, own: str, until: float) -> list[Contradiction]:
    text = _text_of(body)
    found: list[Contradiction] = []
    for other, shares_code in _near(library, body) if time.monotonic() < until else ():
        if time.monotonic() >= until:
            log.info("not everything was compared with what is new: it took too long")
            break
        if not _counts(other.body) or other.id in (own, getattr(body, "supersedes", "")):
            continue
        if not shares_code and not same_subject(body.title, other.body.title):
            continue
        if differing := differences(text, _text_of(other.body)):
            told = (f"{one.subject}: {one.left} here, {one.right} there" for one in differing)
            note = one_line("; ".join(told), CHARACTERS)
            found.append(Contradiction(other.id, note, other.body.sensitivity))
            if len(found) == MOST:
                break
    return found


def write_clashes(
    step: RecordTransaction, record: Record[Any], clashes: Sequence[Contradiction]
) -> list[str]:
    """Keep what a new record may contradict for a person to judge; gives a warning for each."""
    warnings: list[str] = []
    for clash in clashes:
        if _is_linked(step, record.id, clash.id) or _is_linked(step, clash.id, record.id):
            continue
        private = SENSITIVE in (clash.sensitivity, record.body.sensitivity)
        sensitivity = SENSITIVE if private else NORMAL
        body = Link(record.id, "contradicts", clash.id, clash.note, "candidate", sensitivity)
        link = step.make(new_id(Link), body, "propose_link")
        # What the other one says stands in the link, which is seen by who sees both.
        notice_review(step, link, f"{record.body.title} may contradict another record", CLASHES)
        hidden = clash.sensitivity == SENSITIVE != record.body.sensitivity
        warnings.append(f"may contradict {clash.id}" + ("" if hidden else f": {clash.note}"))
    return warnings


def _is_linked(step: RecordTransaction, source: str, target: str) -> bool:
    """Whether it was said already that one may contradict the other, whatever somebody judged of
    that.
    """
    refs = (("source", source), ("target", target), ("relation", "contradicts"))
    return bool(step.select(RecordFilter(kinds=("link",), refs=refs), 1))


def _counts(body: Body) -> bool:
    """Whether a record says what is so: artifacts, observations and decisions that are not over."""
    says = isinstance(body, Artifact | Observation) or (
        isinstance(body, Thread) and body.type == "decision"
    )
    return says and body.state not in _OVER


def _near(library: Library, body: Any) -> list[tuple[Record[Any], bool]]:
    """The records that are near by words, and those that speak of the same code, each once; whether
    it was the code.
    """
    lookup = library.store.recorded
    found: dict[str, tuple[Record[Any], bool]] = {}
    for path in list(dict.fromkeys(link.path for link in body.code_links))[:MOST_PATHS]:
        # Path by path: the store has what points to one in order, and would sort what points to
        # several.
        for one in lookup.select(RecordFilter(kinds=KINDS, refs=(("path", path),)), BY_CODE):
            if _same_code(body, one.body):
                found[one.id] = (one, True)
    if sources := lookup.sources(KINDS):
        asked = Query(body.title, mode=Mode.WORDS, limit=BY_WORDS, snippets=(0,))
        docs = list(dict.fromkeys(hit.doc for hit in library.search(asked, sources=sources).hits))
        by_doc = lookup.by_docs(docs)
        for doc in docs:
            if doc in by_doc:
                found.setdefault(by_doc[doc].id, (by_doc[doc], False))
    return list(found.values())


def _same_code(body: Any, other: Any) -> bool:
    """Whether two speak of one symbol, or of one file as a whole."""
    mine = {(link.path, link.symbol.casefold()) for link in body.code_links}
    return any(
        (link.path, link.symbol.casefold()) in mine for link in getattr(other, "code_links", ())
    )


def _text_of(body: Any) -> str:
    parts = (
        body.title,
        getattr(body, "summary", "") if not isinstance(body, Thread) else "",
        getattr(body, "body", ""),
    )
    return "\n".join(part for part in (*parts, getattr(body, "resolution", "")) if part)
