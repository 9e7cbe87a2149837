"""Context of a record for display: warnings, links and related titles; also record lists."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from cortex.base.record_model import KINDS, Record, RecordFilter, refs_of
from cortex.base.record_spec import spec_of
from cortex.base.types import Mode, Query
from cortex.engine.library import Library
from cortex.families.team.caveats import absence_of, warnings_of
from cortex.families.team.commands.options import one_of, resolve_id
from cortex.families.team.commands.render import (
    Titles,
    brief_json,
    record_json,
    say_list,
    say_more,
    say_rows,
    title_with_id,
    told_code,
    told_subcortex,
)
from cortex.families.team.unknown_people import unknown_names
from cortex.toolkit.terminal.output import print_json, say

MAX_LINKS = 50
SAME = 50  # search hits that are compared with a title
OVER = ("superseded", "deprecated", "archived")
PAGE = 500
_SHOWN_ROLES = ("subcortex", "thread", "task", "parent", "supersedes", "evidence", "citation")
_INVERSE = {
    "supersedes": "is superseded by",
    "contradicts": "is contradicted by",
    "supports": "is supported by",
    "depends_on": "is needed by",
}


@dataclass(frozen=True, slots=True)
class Around:
    """Warnings, links and related records of a record."""

    warnings: tuple[str, ...]
    links: tuple[Record[Any], ...]  # from it and to it, without dismissed ones
    known: Titles  # targets of its references and links


def look_around(library: Library, record: Record[Any], more: Sequence[str] = ()) -> Around:
    """Collect the context of a record; `more` are further ids that will be shown."""
    lookup = library.store.records
    links = tuple(link for link in lookup.links([record.id]) if link.body.state != "dismissed")[
        :MAX_LINKS
    ]
    ends = [end for link in links for end in (link.body.source, link.body.target)]
    named = [target for role, target in refs_of(record.body) if role in _SHOWN_ROLES]
    return Around(
        warnings_of(library, record, int(time.time() * 1000)),
        links,
        lookup.get((*ends, *named, getattr(record.body, "superseded_by", ""), *more)),
    )


def say_cautions(library: Library, record: Record[Any]) -> None:
    """Print warnings about a record that was just written to stderr."""
    for warning in warnings_of(library, record, int(time.time() * 1000)):
        say(f"note: {warning}", error=True)


def say_strangers(library: Library, record: Record[Any]) -> None:
    """Print unknown names in a record that was just written to stderr."""
    for sentence in unknown_names(library, record.body):
        say(f"note: {sentence}", error=True)


def say_same_title(library: Library, record: Record[Any]) -> None:
    """Print the first record with the same title and subcortex as a new one to stderr."""
    lookup = library.store.records
    query = Query(record.body.title, mode=Mode.WORDS, limit=SAME, snippets=(0,))
    hits = library.search(query, sources=lookup.sources((record.kind,))).hits
    same = [
        other
        for other in lookup.by_docs(list({hit.doc for hit in hits})).values()
        if _is_duplicate(other, record)
    ]
    if same:
        first = min(same, key=lambda duplicate: duplicate.id)
        say(f"note: {first.id} has the same title ({first.body.state})", error=True)


def _is_duplicate(other: Record[Any], record: Record[Any]) -> bool:
    """True if `other` is older, has the same title and subcortex, and is still valid."""
    named = (other.body.title.casefold(), other.body.subcortex) == (
        record.body.title.casefold(),
        record.body.subcortex,
    )
    replaced = other.id == getattr(record.body, "supersedes", "")
    return named and other.id < record.id and other.body.state not in OVER and not replaced


def whole_json(record: Record[Any], around: Around) -> dict[str, object]:
    """Encode a record and its context as JSON."""
    return {
        **record_json(record),
        "warnings": list(around.warnings),
        "links": [record_json(link) for link in around.links],
        "named": [
            brief_json(related)
            for related_id, related in around.known.items()
            if related_id != record.id
        ],
    }


def say_around(record: Record[Any], around: Around) -> None:
    """Print the code links and the links of a record."""
    say_list("Code", [told_code(link) for link in getattr(record.body, "code_links", ())])
    say_list("Links", [told_link(link, record.id, around.known) for link in around.links])


def told_link(link: Record[Any], seen_from: str, known: Titles) -> str:
    """Describe a link as seen from one of its ends."""
    body = link.body
    is_source = body.source == seen_from
    relation = body.relation.replace("_", " ") if is_source else _INVERSE[body.relation]
    other = title_with_id(body.target if is_source else body.source, known)
    judged = (
        f" (candidate {link.id}: judge it with `cortex team link confirm` or `dismiss`)"
        if body.state == "candidate"
        else ""
    )
    return f"{relation} {other}{f': {body.note}' if body.note else ''}{judged}"


def labels_of(record: Record[Any], around: Around) -> list[tuple[str, str]]:
    """Labels that records of several kinds share."""
    body, known = record.body, around.known
    labels = [("State", body.state), ("Type", getattr(body, "type", ""))]
    if body.subcortex:
        labels.append(("Subcortex", told_subcortex(body.subcortex, known)))
    labels += [
        (name.capitalize(), title_with_id(getattr(body, name), known))
        for name in ("thread", "task")
        if getattr(body, name, "")
    ]
    labels.append(("Tags", ", ".join(getattr(body, "tags", ()))))
    return labels


@dataclass(frozen=True, slots=True)
class Listed:
    """Page of a list of records."""

    rows: tuple[Record[Any], ...]
    more: bool
    nothing_yet: bool  # true if there is no record of this kind at all
    absent: Mapping[str, str]  # ids of records that the Core doesn't have, with the reason


def list_records(
    library: Library,
    kind: str,
    limit: int,
    *,
    usual: Sequence[str],
    states: Sequence[str] | None = None,
    everything: bool = False,
    subcortex: str = "",
    tags: Sequence[str] | None = None,
    refs: Sequence[tuple[str, str]] = (),
    keep: Callable[[Any], bool] | None = None,
    due: str = "",
) -> Listed:
    """Select the records that match a list command's options, last changed first.

    `usual` are the states if no option names any; `keep` is a condition that the store can't check.

    Raises: InputError ARGUMENT_INVALID, RECORD_UNKNOWN.
    """
    known = spec_of(KINDS[kind]).states
    named_states = tuple(one_of(state, known, "--state") for state in states or ())
    conditions = [*refs, *(("tag", tag.strip().casefold()) for tag in tags or ())]
    if subcortex:
        conditions.append(("subcortex", resolve_id(library, subcortex, "subcortex")))
    chosen = named_states or (() if everything else tuple(usual))
    wanted = RecordFilter(
        kinds=(kind,), states=chosen, refs=tuple(conditions), due=due, by_change=True
    )
    rows = _select(library, wanted, limit + 1, keep)
    nothing_yet = not rows and not library.store.records.select(RecordFilter(kinds=(kind,)), 1)
    return Listed(
        tuple(rows[:limit]), len(rows) > limit, nothing_yet, library.store.outbox.absent()
    )


def tell_list(
    listing: Listed,
    name: str,
    start: str,
    row: Callable[[Record[Any]], Sequence[str]],
    *,
    as_json: bool,
) -> int:
    """Print a list, one line per record.

    `name` is its JSON key; `start` is printed if there is no record of the kind yet.
    """
    if as_json:
        print_json(
            {
                name: [marked_json(record, listing.absent) for record in listing.rows],
                "more": listing.more,
            }
        )
    elif not listing.rows:
        say(start if listing.nothing_yet else "nothing found", error=True)
    else:
        say_rows([marked_row(record, row(record), listing.absent) for record in listing.rows])
        say_more(listing.more)
    return 0


def marked_row(record: Record[Any], row: Sequence[str], absent: Mapping[str, str]) -> Sequence[str]:
    """Mark a list row before its title if the team's Core doesn't have the record."""
    marks = absence_of(record.id, absent)
    return (*row[:-1], f"[{marks[0]}] {row[-1]}") if marks else row


def marked_json(record: Record[Any], absent: Mapping[str, str]) -> dict[str, object]:
    """Encode a list entry as JSON, marked like `marked_row`."""
    marks = absence_of(record.id, absent)
    return {**record_json(record), "warnings": list(marks)} if marks else record_json(record)


def _select(
    library: Library, wanted: RecordFilter, limit: int, keep: Callable[[Any], bool] | None
) -> list[Record[Any]]:
    if keep is None:
        return library.store.records.select(wanted, limit)
    records: list[Record[Any]] = []
    for offset in count(0, PAGE):
        page = library.store.records.select(wanted, PAGE, offset)
        records += [record for record in page if keep(record.body)]
        if len(page) < PAGE or len(records) >= limit:
            break
    return records[:limit]
