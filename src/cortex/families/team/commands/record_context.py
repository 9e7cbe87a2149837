"""Context of a record for display: warnings, links and related titles; also record lists."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from cortex.base.record_model import Attachment, Evidence, Record, RecordFilter, Term, refs_of
from cortex.base.record_spec import FieldSpec, fields_of, spec_of
from cortex.base.types import Mode, Query
from cortex.engine.library import Library
from cortex.families.team.caveats import absence_of, warnings_of
from cortex.families.team.commands.options import one_of
from cortex.families.team.commands.render import (
    Titles,
    brief_json,
    code_name,
    record_json,
    say_head,
    say_list,
    say_more,
    say_rows,
    say_text,
    subcortex_name,
    title_with_id,
)
from cortex.families.team.unknown_people import unknown_names
from cortex.toolkit.terminal.output import moment, print_json, say

MAX_LINKS = 50
SAME = 50  # search hits that are compared with a title
# Longest text that stands beside its label.
MAX_LABEL = 500
OVER = ("superseded", "deprecated", "archived")
PAGE = 500
_SHOWN_ROLES = ("subcortex", "thread", "task", "parent", "supersedes", "evidence", "citation")
# Fields of several kinds, which are shown in the same way for all of them.
_SHARED = frozenset(
    {"title", "name", "type", "state", "subcortex", "thread", "task", "tags", "sensitivity"}
    | {"code_links"}
)
# Texts that need no heading.
_UNTITLED = ("body", "summary", "description")
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


def describe_link(link: Record[Any], seen_from: str, known: Titles) -> str:
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


def say_record(
    record: Record[Any],
    around: Around,
    *,
    labels: Sequence[tuple[str, str]] = (),
    texts: Sequence[tuple[str, str]] = (),
) -> None:
    """Print a record by the rows of its fields: labels, texts and lists, code and links.

    `labels` and `texts`, each with its heading, are those that aren't fields.
    """
    own = [spec for spec in fields_of(type(record.body)).values() if _is_shown(spec)]
    short = [
        (spec.title, _label(spec, record.body, around.known)) for spec in own if _is_label(spec)
    ]
    say_head(record, [*_shared_labels(record, around), *short, *labels], around.warnings)
    for spec in sorted(own, key=lambda spec: spec.indexed or len(own)):
        value = getattr(record.body, spec.name)
        if spec.part is not None and not _is_label(spec):
            say_list(spec.title, [_element(element, around.known) for element in value])
        elif not _is_label(spec):
            say_text(value, spec.label or ("" if spec.name in _UNTITLED else spec.title))
    for heading, text in texts:
        say_text(text, heading)
    say_list("Code", [code_name(link) for link in getattr(record.body, "code_links", ())])
    say_list("Links", [describe_link(link, record.id, around.known) for link in around.links])


def _is_shown(spec: FieldSpec) -> bool:
    """True for a field that a command sets, or that has a label or is the main text."""
    return spec.name not in _SHARED and bool(spec.option or spec.label or spec.row == "text")


def _is_label(spec: FieldSpec) -> bool:
    """True for a field with its value beside its label: names and other short ones."""
    return spec.principal if spec.part is not None else not spec.long or spec.limit <= MAX_LABEL


def _label(spec: FieldSpec, body: Any, known: Titles) -> str:
    value = getattr(body, spec.name)
    if spec.part is not None:
        return ", ".join(value)
    if not value or (spec.quiet and value == spec.default):
        return ""
    return moment(value) if spec.moment else title_with_id(value, known)


def _element(element: Any, known: Titles) -> str:
    match element:
        case Evidence(ref=ref, note=note):
            return f"{title_with_id(ref, known)}{f' ({note})' if note else ''}"
        case Term(term=word, meaning=meaning) | Attachment(name=word, ref=meaning):
            return f"{word}: {meaning}"
        case _:
            return element


def _shared_labels(record: Record[Any], around: Around) -> list[tuple[str, str]]:
    """Labels that records of several kinds share."""
    body, known = record.body, around.known
    labels = [("State", body.state), ("Type", getattr(body, "type", ""))]
    if subcortex := getattr(body, "subcortex", ""):
        labels.append(("Subcortex", subcortex_name(subcortex, known)))
    labels += [
        (name.capitalize(), title_with_id(getattr(body, name), known))
        for name in ("thread", "task")
        if getattr(body, name, "")
    ]
    labels.append(("Tags", ", ".join(getattr(body, "tags", ()))))
    return labels


@dataclass(frozen=True, slots=True)
class Condition:
    """Condition on the records of a list."""

    refs: tuple[tuple[str, str], ...] = ()
    # To be reviewed before this day.
    due: str = ""
    # Condition on a body that the store can't check.
    keep: Callable[[Any], bool] | None = None


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
    conditions: Sequence[Condition],
    *,
    states: Sequence[str] | None = None,
    everything: bool = False,
) -> Listed:
    """Select the records that match a list command's options, last changed first.

    Without `states` and `everything` they are in one of the usual states of their kind.

    Raises: InputError ARGUMENT_INVALID, RECORD_UNKNOWN.
    """
    spec = spec_of(kind)
    named_states = tuple(one_of(state, spec.states, "--state") for state in states or ())
    wanted = RecordFilter(
        kinds=(kind,),
        states=named_states or (() if everything else spec.usual),
        refs=tuple(ref for condition in conditions for ref in condition.refs),
        due=max((condition.due for condition in conditions), default=""),
        by_change=True,
    )
    keep = [condition.keep for condition in conditions if condition.keep]
    rows = _select(library, wanted, limit + 1, keep)
    nothing_yet = not rows and not library.store.records.select(RecordFilter(kinds=(kind,)), 1)
    return Listed(
        tuple(rows[:limit]), len(rows) > limit, nothing_yet, library.store.outbox.absent()
    )


def print_list(
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
    library: Library, wanted: RecordFilter, limit: int, keep: Sequence[Callable[[Any], bool]]
) -> list[Record[Any]]:
    if not keep:
        return library.store.records.select(wanted, limit)
    records: list[Record[Any]] = []
    for offset in count(0, PAGE):
        page = library.store.records.select(wanted, PAGE, offset)
        records += [record for record in page if all(holds(record.body) for holds in keep)]
        if len(page) < PAGE or len(records) >= limit:
            break
    return records[:limit]
