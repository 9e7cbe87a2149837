"""What is told around a record when a person looks at it: warnings, and how it stands to others."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from cortex.base.record_model import KINDS, Record, RecordFilter, refs_of
from cortex.base.types import Mode, Query
from cortex.engine.library import Library
from cortex.families.team.caveats import absence_of, warnings_of
from cortex.families.team.commands.options import number_of, one_of
from cortex.families.team.commands.render import (
    Titles,
    brief_json,
    record_json,
    say_list,
    say_more,
    say_rows,
    told_code,
    told_subcortex,
    told_title,
)
from cortex.families.team.unknown_people import strangers_in
from cortex.families.team.validation import STATES
from cortex.toolkit.terminal.output import print_json, say

MAX_LINKS = 50
SAME = 50  # records whose words are those of a title that are looked at
OVER = ("superseded", "deprecated", "archived")
PAGE = 500
_NAMED = ("subcortex", "thread", "task", "parent", "supersedes", "evidence", "citation")
_BACK = {
    "supersedes": "is superseded by",
    "contradicts": "is contradicted by",
    "supports": "is supported by",
    "depends_on": "is needed by",
}


@dataclass(frozen=True, slots=True)
class Around:
    """What is known around a record."""

    warnings: tuple[str, ...]
    links: tuple[Record[Any], ...]  # from it and to it, but those that a person dismissed
    known: Titles  # what it points to, and what the links lead to


def look_around(library: Library, record: Record[Any], more: Sequence[str] = ()) -> Around:
    """Look at what is around a record; `more` are ids of others that will be told."""
    lookup = library.store.recorded
    links = tuple(one for one in lookup.links([record.id]) if one.body.state != "dismissed")[
        :MAX_LINKS
    ]
    ends = [end for link in links for end in (link.body.source, link.body.target)]
    named = [target for role, target in refs_of(record.body) if role in _NAMED]
    return Around(
        warnings_of(library, record, int(time.time() * 1000)),
        links,
        lookup.get((*ends, *named, getattr(record.body, "superseded_by", ""), *more)),
    )


def say_cautions(library: Library, record: Record[Any]) -> None:
    """On stderr, what speaks against a record that was just written."""
    for warning in warnings_of(library, record, int(time.time() * 1000)):
        say(f"note: {warning}", error=True)


def say_strangers(library: Library, record: Record[Any]) -> None:
    """On stderr, whom a record that was just written names and nobody here knows."""
    for sentence in strangers_in(library, record.body):
        say(f"note: {sentence}", error=True)


def say_same_title(library: Library, record: Record[Any]) -> None:
    """On stderr, the first record that has the title of one that was just made, in the same
    subcortex.
    """
    lookup = library.store.recorded
    asked = Query(record.body.title, mode=Mode.WORDS, limit=SAME, snippets=(0,))
    found = library.search(asked, sources=lookup.sources((record.kind,))).hits
    same = [
        doc
        for doc in lookup.by_docs(list({hit.doc for hit in found})).values()
        if _has_title_of(doc, record)
    ]
    if same:
        first = min(same, key=lambda one: one.id)
        say(f"note: {first.id} has the same title ({first.body.state})", error=True)


def _has_title_of(one: Record[Any], record: Record[Any]) -> bool:
    """Whether one was there before with the same title, and still counts."""
    named = (one.body.title.casefold(), one.body.subcortex) == (
        record.body.title.casefold(),
        record.body.subcortex,
    )
    replaced = one.id == getattr(record.body, "supersedes", "")
    return named and one.id < record.id and one.body.state not in OVER and not replaced


def whole_json(record: Record[Any], around: Around) -> dict[str, object]:
    """A record and what is around it, for programs."""
    return {
        **record_json(record),
        "warnings": list(around.warnings),
        "links": [record_json(link) for link in around.links],
        "named": [brief_json(one) for number, one in around.known.items() if number != record.id],
    }


def say_around(record: Record[Any], around: Around) -> None:
    """The code that a record speaks of, and how it stands to others."""
    say_list("Code", [told_code(one) for one in getattr(record.body, "code_links", ())])
    say_list("Links", [told_link(link, record.id, around.known) for link in around.links])


def told_link(link: Record[Any], seen_from: str, known: Titles) -> str:
    """A link in words, as seen from one of its ends."""
    body = link.body
    there = body.source == seen_from
    relation = body.relation.replace("_", " ") if there else _BACK[body.relation]
    other = told_title(body.target if there else body.source, known)
    judged = (
        f" (candidate {link.id}: judge it with `cortex link confirm` or `dismiss`)"
        if body.state == "candidate"
        else ""
    )
    return f"{relation} {other}{f': {body.note}' if body.note else ''}{judged}"


def labels_of(record: Record[Any], around: Around) -> list[tuple[str, str]]:
    """What records of several kinds are known by."""
    body, known = record.body, around.known
    found = [("State", body.state), ("Type", getattr(body, "type", ""))]
    if body.subcortex:
        found.append(("Subcortex", told_subcortex(body.subcortex, known)))
    found += [
        (name.capitalize(), told_title(getattr(body, name), known))
        for name in ("thread", "task")
        if getattr(body, name, "")
    ]
    found.append(("Tags", ", ".join(getattr(body, "tags", ()))))
    return found


@dataclass(frozen=True, slots=True)
class Listed:
    """What a list shows."""

    rows: tuple[Record[Any], ...]
    more: bool
    nothing_yet: bool  # there is none of this kind at all
    absent: Mapping[str, str]  # records that the team's Core doesn't have, with the reason


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
    """The records that the options of a list ask for, the last changed first; `usual` are the
    states where no option says which.

    `keep` is a condition that the store doesn't know. Raises: InputError ARGUMENT_INVALID,
    RECORD_UNKNOWN.
    """
    known = STATES[KINDS[kind]]
    told = tuple(one_of(state, known, "--state") for state in states or ())
    conditions = [*refs, *(("tag", tag.strip().casefold()) for tag in tags or ())]
    if subcortex:
        conditions.append(("subcortex", number_of(library, subcortex, "subcortex")))
    chosen = told or (() if everything else tuple(usual))
    wanted = RecordFilter(
        kinds=(kind,), states=chosen, refs=tuple(conditions), due=due, by_change=True
    )
    rows = _select(library, wanted, limit + 1, keep)
    nothing_yet = not rows and not library.store.recorded.select(RecordFilter(kinds=(kind,)), 1)
    return Listed(
        tuple(rows[:limit]), len(rows) > limit, nothing_yet, library.store.outbox.absent()
    )


def tell_list(
    found: Listed,
    name: str,
    start: str,
    row: Callable[[Record[Any]], Sequence[str]],
    *,
    as_json: bool,
) -> int:
    """Show a list, a line each; `name` is what programs find it under, `start` what to do where
    there is nothing yet.
    """
    if as_json:
        print_json(
            {name: [marked_json(one, found.absent) for one in found.rows], "more": found.more}
        )
    elif not found.rows:
        say(start if found.nothing_yet else "nothing found", error=True)
    else:
        say_rows([marked_row(one, row(one), found.absent) for one in found.rows])
        say_more(found.more)
    return 0


def marked_row(record: Record[Any], row: Sequence[str], absent: Mapping[str, str]) -> Sequence[str]:
    """The line of a record in a list; what the team's Core doesn't have says so before its title."""
    marks = absence_of(record.id, absent)
    return (*row[:-1], f"[{marks[0]}] {row[-1]}") if marks else row


def marked_json(record: Record[Any], absent: Mapping[str, str]) -> dict[str, object]:
    """A record of a list for programs, as `marked_row`."""
    marks = absence_of(record.id, absent)
    return {**record_json(record), "warnings": list(marks)} if marks else record_json(record)


def _select(
    library: Library, wanted: RecordFilter, limit: int, keep: Callable[[Any], bool] | None
) -> list[Record[Any]]:
    if keep is None:
        return library.store.recorded.select(wanted, limit)
    found: list[Record[Any]] = []
    for offset in count(0, PAGE):
        page = library.store.recorded.select(wanted, PAGE, offset)
        found += [one for one in page if keep(one.body)]
        if len(page) < PAGE or len(found) >= limit:
            break
    return found[:limit]
