"""Warnings about a record: not at the Core, superseded, contradicted, overdue, stale.

One line each. A contradiction with a superseded or deprecated record is settled and gives no
warning. Read-only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from cortex.base.record_model import SENSITIVE, Artifact, CodeLink, Link, Record
from cortex.base.text import one_line, rfc3339
from cortex.engine.library import Library
from cortex.engine.store import RecordQueries
from cortex.families.team.code_links import changes_in

SETTLED = ("superseded", "deprecated")
# Most contradictions that are named.
MAX_NAMED = 3
# Most code links of a record that are checked.
MAX_CHECKED = 5

ONLY_HERE = "only on this machine, not at the team server"
NOT_ACCEPTED = "not accepted by the team server"
WHY_CHARACTERS = 200

Changes = Callable[[CodeLink], str]


def warnings_of(
    library: Library, record: Record[Any], now: int, changes_of: Changes | None = None
) -> tuple[str, ...]:
    """Return the warnings about a record; `now` is in milliseconds."""
    return warnings_for(library, [record], now, changes_of)[record.id]


def warnings_for(
    library: Library, records: Sequence[Record[Any]], now: int, changes_of: Changes | None = None
) -> dict[str, tuple[str, ...]]:
    """Return the warnings about each of these records."""
    links = [
        link
        for link in library.store.records.links([record.id for record in records])
        if _is_relevant(link.body)
    ]
    about: dict[str, list[Link]] = {}
    for link in links:
        about.setdefault(link.body.source, []).append(link.body)
        about.setdefault(link.body.target, []).append(link.body)
    ends = {end for link in links for end in (link.body.source, link.body.target)}
    known = {record.id: record for record in records}
    known |= library.store.records.get(end for end in ends if end not in known)
    look = changes_of or changes_in(library)
    absent = library.store.outbox.absent()
    return {
        record.id: (
            *absence_of(record.id, absent),
            *_status_warnings(record, about.get(record.id, ()), now),
            *_contradiction_warnings(record, about, known),
            *_stale_warnings(record, look),
        )
        for record in records
    }


def absence_of(record_id: str, absent: Mapping[str, str]) -> tuple[str, ...]:
    """Return the warning for a record that the Core doesn't have (see `Outbox.absent`)."""
    why = absent.get(record_id)
    if why is None:
        return ()
    return (f"{NOT_ACCEPTED}: {one_line(why, WHY_CHARACTERS)}" if why else ONLY_HERE,)


def unsettled(lookup: RecordQueries, links: Iterable[Record[Link]]) -> list[Record[Link]]:
    """Filter contradictions that are still open: not dismissed, and both ends in force."""
    contradictions = [
        link
        for link in links
        if link.body.relation == "contradicts" and link.body.state != "dismissed"
    ]
    ends = lookup.get(
        {end for link in contradictions for end in (link.body.source, link.body.target)}
    )
    settled = {record_id for record_id, record in ends.items() if record.body.state in SETTLED}
    return [link for link in contradictions if not settled & {link.body.source, link.body.target}]


def _is_relevant(link: Link) -> bool:
    """True for links that lead to a warning."""
    return (link.relation == "contradicts" and link.state != "dismissed") or (
        link.relation == "supersedes" and link.state == "confirmed"
    )


def _status_warnings(record: Record[Any], links: Sequence[Link], now: int) -> list[str]:
    """Return warnings from the record's own fields and its successors."""
    body, warnings = record.body, list[str]()
    successors = [getattr(body, "superseded_by", "")]
    successors += [
        link.source for link in links if link.relation == "supersedes" and link.target == record.id
    ]
    named = [successor for successor in dict.fromkeys(successors) if successor]
    if named or body.state == "superseded":
        warnings.append(f"superseded by {', '.join(named)}" if named else "superseded")
    if body.state == "deprecated":
        warnings.append("deprecated")
    if isinstance(body, Artifact):
        today = rfc3339(now / 1000)[:10]
        if body.review_by and body.review_by < today and body.state not in SETTLED and not named:
            warnings.append(f"review overdue since {body.review_by}")
        if body.verification == "incorrect":
            warnings.append("marked as incorrect")
    if body.sensitivity == SENSITIVE:
        warnings.append("sensitive: not to be passed on")
    return warnings


def _contradiction_warnings(
    record: Record[Any], about: dict[str, list[Link]], known: dict[str, Record[Any]]
) -> list[str]:
    """Return warnings for contradicting records, confirmed ones first."""
    if record.body.state in SETTLED:
        return []
    warnings: dict[str, str] = {}
    links = [link for link in about.get(record.id, ()) if link.relation == "contradicts"]
    for link in sorted(links, key=lambda link: link.state != "confirmed"):
        other = known.get(link.target if link.source == record.id else link.source)
        if other is None or other.body.state in SETTLED or other.id in warnings:
            continue
        # The note of a link to a sensitive record quotes it: a record that isn't sensitive must not
        # show it.
        is_hidden = link.sensitivity == SENSITIVE != record.body.sensitivity
        note = f": {link.note}" if link.note and not is_hidden else ""
        verdict = "contradicted" if link.state == "confirmed" else "maybe contradicted"
        warnings[other.id] = f"{verdict} by {other.id}{note}"
    return list(warnings.values())[:MAX_NAMED]


def _stale_warnings(record: Record[Any], changes_of: Changes) -> list[str]:
    """Return warnings for linked code that changed."""
    links: Sequence[CodeLink] = getattr(record.body, "code_links", ())[:MAX_CHECKED]
    return [f"maybe_stale: {change}" for link in links if (change := changes_of(link))]
