"""What somebody should know who relies on a record: that the Core doesn't have it, something took
its place, speaks against it, is overdue.

One line each. A contradiction with what was superseded or deprecated is none: it is settled. Only
reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from cortex.base.record_model import SENSITIVE, Artifact, CodeLink, Link, Record
from cortex.base.text import one_line, rfc3339
from cortex.engine.library import Library
from cortex.engine.store import RecordLookup
from cortex.families.team.code_links import changes_in

SETTLED = ("superseded", "deprecated")
MAX_NAMED = 3  # contradictions that are named
MAX_CHECKED = 5  # code links of one record that are looked at

ONLY_HERE = "only on this machine, not at the team server"
NOT_ACCEPTED = "not accepted by the team server"
WHY_CHARACTERS = 200

Changes = Callable[[CodeLink], str]


def warnings_of(
    library: Library, record: Record[Any], now: int, changes_of: Changes | None = None
) -> tuple[str, ...]:
    """What to know about a record; `now` in milliseconds."""
    return warnings_for(library, [record], now, changes_of)[record.id]


def warnings_for(
    library: Library, records: Sequence[Record[Any]], now: int, changes_of: Changes | None = None
) -> dict[str, tuple[str, ...]]:
    """What to know about each of these records."""
    links = [
        one
        for one in library.store.recorded.links([record.id for record in records])
        if _counts(one.body)
    ]
    about: dict[str, list[Link]] = {}
    for link in links:
        about.setdefault(link.body.source, []).append(link.body)
        about.setdefault(link.body.target, []).append(link.body)
    ends = {end for one in links for end in (one.body.source, one.body.target)}
    known = {record.id: record for record in records}
    known |= library.store.recorded.get(end for end in ends if end not in known)
    look = changes_of or changes_in(library)
    absent = library.store.outbox.absent()
    return {
        record.id: (
            *absence_of(record.id, absent),
            *_standing(record, about.get(record.id, ()), now),
            *_against(record, about, known),
            *_stale(record, look),
        )
        for record in records
    }


def absence_of(number: str, absent: Mapping[str, str]) -> tuple[str, ...]:
    """What to know of a record that the team's Core doesn't have (`Outbox.absent`); nothing of any
    other.
    """
    why = absent.get(number)
    if why is None:
        return ()
    return (f"{NOT_ACCEPTED}: {one_line(why, WHY_CHARACTERS)}" if why else ONLY_HERE,)


def unsettled(lookup: RecordLookup, links: Iterable[Record[Link]]) -> list[Record[Link]]:
    """The contradictions that still matter: nobody dismissed them, and both ends still count."""
    found = [
        link
        for link in links
        if link.body.relation == "contradicts" and link.body.state != "dismissed"
    ]
    ends = lookup.get({end for one in found for end in (one.body.source, one.body.target)})
    over = {number for number, one in ends.items() if one.body.state in SETTLED}
    return [one for one in found if not over & {one.body.source, one.body.target}]


def _counts(link: Link) -> bool:
    return (link.relation == "contradicts" and link.state != "dismissed") or (
        link.relation == "supersedes" and link.state == "confirmed"
    )


def _standing(record: Record[Any], links: Sequence[Link], now: int) -> list[str]:
    """What the record itself says, and what took its place."""
    body, found = record.body, list[str]()
    after = [getattr(body, "superseded_by", "")]
    after += [
        link.source for link in links if link.relation == "supersedes" and link.target == record.id
    ]
    named = [fromkey for fromkey in dict.fromkeys(after) if fromkey]
    if named or body.state == "superseded":
        found.append(f"superseded by {', '.join(named)}" if named else "superseded")
    if body.state == "deprecated":
        found.append("deprecated")
    if isinstance(body, Artifact):
        today = rfc3339(now / 1000)[:10]
        if body.review_by and body.review_by < today and body.state not in SETTLED and not named:
            found.append(f"review overdue since {body.review_by}")
        if body.verification == "incorrect":
            found.append("marked as incorrect")
    if body.sensitivity == SENSITIVE:
        found.append("sensitive: not to be passed on")
    return found


def _against(
    record: Record[Any], about: dict[str, list[Link]], known: dict[str, Record[Any]]
) -> list[str]:
    """What speaks against a record: first what somebody has judged."""
    if record.body.state in SETTLED:
        return []
    found: dict[str, str] = {}
    links = [link for link in about.get(record.id, ()) if link.relation == "contradicts"]
    for link in sorted(links, key=lambda one: one.state != "confirmed"):
        other = known.get(link.target if link.source == record.id else link.source)
        if other is None or other.body.state in SETTLED or other.id in found:
            continue
        # A link to something sensitive says what that says: nobody hears it from a record that
        # isn't.
        hidden = link.sensitivity == SENSITIVE != record.body.sensitivity
        note = f": {link.note}" if link.note and not hidden else ""
        maybe = "contradicted" if link.state == "confirmed" else "maybe contradicted"
        found[other.id] = f"{maybe} by {other.id}{note}"
    return list(found.values())[:MAX_NAMED]


def _stale(record: Record[Any], changes_of: Changes) -> list[str]:
    links: Sequence[CodeLink] = getattr(record.body, "code_links", ())[:MAX_CHECKED]
    return [f"maybe_stale: {change}" for link in links if (change := changes_of(link))]
