"""The tool `cortex.search`: one query to records, code, documents, memories and chunk files.

Results are merged by relevance. With `chunk_types` or `tags` only chunk files are searched, by the
contract and with the answer of their own family. A row says what it is, where it is and why it
matched; `next` names the tool that opens each type, once for all rows of it. Types without a tool
for the client are opened as a context pack. A filter that applies only to records searches records
alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from functools import partial
from typing import Annotated, Any, Literal

from pydantic import Field

from cortex.base.errors import Cancelled, CortexError, FileError, InputError
from cortex.base.record_model import FOUND_KINDS, KINDS, Comment, Record
from cortex.base.record_spec import spec_of
from cortex.base.types import Cancel, Page, Query
from cortex.engine.library import Library
from cortex.engine.search.federated import FederatedHit, SearchTarget, federated_search
from cortex.families.team import search as finding
from cortex.families.team.caveats import warnings_for
from cortex.families.team.tools.arguments import Budgeted
from cortex.families.team.tools.read_tools import now
from cortex.families.team.tools.render import (
    RenderedSlot,
    Row,
    age_of,
    call_text,
    chosen_budget,
    cut,
    same,
    slots_text,
    smallest_budget,
    without_empty,
)
from cortex.families.team.tools.row_views import usual_state
from cortex.families.team.tools.search_target import FAMILY, place_of
from cortex.families.team.tools.session import TeamSession
from cortex.toolkit.pagination import make_cursor, read_cursor
from cortex.toolkit.tool import (
    Answer,
    Arguments,
    Call,
    Whole,
    bind,
    find_tool,
    nearest_within,
    perform,
)

SEARCH_BUDGET, MOST_BUDGET = 4_000, 16_000
# Characters of text: for the first three, and for each further one.
SNIPPETS = (320, 320, 320, 160)
# Characters.
TITLE, WHY = 120, 80
MOST_NOTES = 3
# Results.
DEFAULT_LIMIT, MOST = 10, 100
# Penalty for each further hit of a family; from .02 to .07 the answers are the same
# (bench/mixed/home.py).
SPREAD = 0.03
# Characters of a date or time.
MAX_DAY = 40
DAY_MS = 86_400_000

RECORDS = {spec_of(kind).plural: kind for kind in FOUND_KINDS}
# Types and their families.
OTHERS = {"code": "code", "documents": "kb", "memories": "memory", "chunks": "chunks"}
TYPE_OF = {family: name for name, family in OTHERS.items()}
TYPES = (*RECORDS, *OTHERS)
# Tool that opens a kind, and its argument; other kinds are opened as a context pack.
OPENERS = {
    "thread": "cortex_get_thread thread_id",
    "comment": "cortex_get_thread thread_id",
    "artifact": "cortex_get_artifact artifact_id",
    "observation": "cortex_get_context_pack subject.ref",
    "task": "cortex_get_context_pack subject.task_id",
    "subcortex": "cortex_get_context_pack subject.subcortex_slug",
}
_KINDS = dict.fromkeys((*OPENERS, *FOUND_KINDS))
Type = Literal[(*(spec_of(kind).plural for kind in _KINDS), *OTHERS)]  # type: ignore[valid-type]


class Filters(Arguments):
    subcortex: str | None = None
    since: Annotated[str | None, Field(description="date (UTC), or 7d", max_length=MAX_DAY)] = None
    until: Annotated[str | None, Field(description="that day included", max_length=MAX_DAY)] = None
    status: str | None = None
    sensitivity: Literal["normal", "sensitive"] | None = None
    tags: tuple[str, ...] = Field(default_factory=tuple)


class TeamSearch(Budgeted):
    query: str
    types: tuple[Type, ...] | None = None  # type: ignore[valid-type]
    filters: Annotated[Filters, Field(description="Of records", default_factory=Filters)]
    limit: Annotated[
        Whole | None,
        nearest_within(1, MOST),
        Field(json_schema_extra={"minimum": 1, "maximum": MOST, "default": DEFAULT_LIMIT}),
    ] = None
    cursor: str | None = None
    chunk_types: Annotated[
        tuple[str, ...],
        Field(description="Only chunk files, whole: documentation, symbols, definitions, data"),
    ] = Field(default_factory=tuple)
    tags: Annotated[tuple[str, ...], Field(description="Only chunk files that have all")] = Field(
        default_factory=tuple
    )


def search(context: TeamSession, arguments: TeamSearch, call: Call) -> Answer:
    """Search everything that the client may read."""
    if arguments.chunk_types or arguments.tags:
        return _search_chunks(context, arguments, call)
    budget = chosen_budget(arguments.budget, arguments.max_chars, SEARCH_BUDGET, MOST_BUDGET)
    key = repr((arguments.query, arguments.types, arguments.filters))
    offset = read_cursor(key, arguments.cursor)
    query = Query(
        arguments.query, limit=arguments.limit or DEFAULT_LIMIT, offset=offset, snippets=SNIPPETS
    )
    notes: list[str] = []
    with ExitStack() as used:
        library = used.enter_context(context.open())
        places = _targets(context, arguments, library, used, notes)
        located, page = federated_search(places, query, call.cancel, spread=SPREAD)
        notes += page.notes
        rows = _rows(located, library)
    text = _answer(
        context, arguments, rows, located, page, offset, partial(make_cursor, key), notes, budget
    )
    return Answer(text, hits=len(rows))


def _search_chunks(context: TeamSession, arguments: TeamSearch, call: Call) -> Answer:
    """Search the chunk files alone, with the answer of their own family.

    Raises: InputError ARGUMENT_INVALID, FileError.
    """
    others = {
        "types": arguments.types,
        "filters": arguments.filters != Filters(),
        "cursor": arguments.cursor,
    }
    if given := [name for name, value in others.items() if value]:
        raise InputError(
            "ARGUMENT_INVALID",
            f"`chunk_types` and `tags` ask the chunk files alone, without `{given[0]}`; for tags "
            f"of records use `filters.tags`",
        )
    family = context.families.get("chunks")
    if family is None:
        why = (
            context.missing.get("chunks")
            or "this project had no chunk files when the session began"
        )
        raise FileError(
            "FILE_NOT_FOUND",
            f"`chunk_types` and `tags` ask the chunk files: {why}",
            instead=(
                "Leave both out to search everything else; `cortex chunks export` writes chunk "
                "files.",
            ),
        )
    chunk_arguments = arguments.model_dump(include={"query", "limit", "chunk_types", "tags"})
    chunk_arguments |= {"budget": smallest_budget(arguments.budget, arguments.max_chars)}
    family, tool = find_tool([family], "cortex_search")
    return perform(family, tool, bind(tool, chunk_arguments), call)


def _targets(
    context: TeamSession, arguments: TeamSearch, library: Library, used: ExitStack, notes: list[str]
) -> list[SearchTarget]:
    """Select the search targets for the requested types and filters."""
    wanted = arguments.types or TYPES
    kinds = tuple(RECORDS[name] for name in wanted if name in RECORDS)
    families = [OTHERS[name] for name in wanted if name in OTHERS]
    filters = arguments.filters
    if filters != Filters() and families:
        if arguments.types:
            notes.append(
                "filters are about records: code, documents, memories and chunks are not searched"
            )
        families = []
    places: list[SearchTarget] = []
    if kinds:
        request = finding.RecordQuery(
            arguments.query,
            types=kinds,
            subcortex=filters.subcortex or "",
            state=_state(filters.status or "", kinds),
            sensitivity=filters.sensitivity or "",
            since=moment(filters.since, "since"),
            until=moment(filters.until, "until"),
            tags=filters.tags,
        )
        places.append(place_of(library, request))
    if families:
        others, failures = used.enter_context(context.others(families))
        places += others
        notes += failures
    return [_isolate_failure(place, notes) for place in places] if len(places) > 1 else places


def _isolate_failure(place: SearchTarget, notes: list[str]) -> SearchTarget:
    """Wrap a target so that its failure doesn't affect the others."""

    def ask(query: Query, cancel: Cancel) -> Page:
        try:
            return place.ask(query, cancel)
        # An invalid query is invalid everywhere.
        except (Cancelled, InputError):
            raise
        except CortexError as error:
            notes.append(f"{place.name} could not be searched: {error.message}")
            return Page((), 0, query.mode)

    return replace(place, ask=ask)


def _state(status: str, kinds: Sequence[str]) -> str:
    """Check a state for these kinds. Raises: InputError ARGUMENT_INVALID."""
    known = dict.fromkeys(state for kind in kinds for state in spec_of(KINDS[kind]).states)
    if status and status not in known:
        raise InputError(
            "ARGUMENT_INVALID",
            f"`filters.status`: {status[:40]!r} is none of {', '.join(known)}",
            context={"filter": "status"},
        )
    return status


def moment(text: str | None, name: str) -> int:
    """Parse a date, a time, or days ago ("7d") to milliseconds since 1970; 0 for none.

    UTC unless the text has a time zone. A date as `until` includes that day.

    Raises: InputError ARGUMENT_INVALID.
    """
    if not text:
        return 0
    try:
        if text.endswith("d") and text[:-1].isdigit():
            at = datetime.now(UTC) - timedelta(days=int(text[:-1]))
        else:
            at = datetime.fromisoformat(text)
        rest = DAY_MS if name == "until" and _is_day(text) else 0
        return max(1, int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000) + rest)
    except (ValueError, OverflowError):
        raise InputError(
            "ARGUMENT_INVALID",
            f"`filters.{name}`: {text!r} is no date; say 2026-01-31, or 7d for the last week",
            context={"filter": name},
        ) from None


def _is_day(text: str) -> bool:
    """True for a date without a time."""
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


# -- rows


def _rows(located: Sequence[FederatedHit], library: Library) -> list[Row]:
    """Return a row for each hit."""
    known = library.store.records.get(
        str(hit.cited["id"]) for hit in located if hit.family == FAMILY
    )
    warnings = warnings_for(library, list(known.values()), now())
    return [_row(hit, known, warnings) for hit in located]


def _row(
    federated: FederatedHit, known: Mapping[str, Record[Any]], warnings: Mapping[str, Sequence[str]]
) -> Row:
    """Return the row of a hit."""
    hit = federated.hit
    row: Row = {
        "id": _id(federated),
        "type": _type(federated),
        "title": cut(_title(federated), TITLE),
    }
    snippet = hit.text.strip()
    record = known.get(str(federated.cited.get("id", ""))) if federated.family == FAMILY else None
    if record is not None:
        heading, snippet = _split_heading(snippet)
        row |= {
            "state": usual_state(record),
            "age": age_of(record.updated),
            "warnings": list(warnings[record.id]),
        }
        if isinstance(record.body, Comment):
            row |= {
                "title": cut(heading or _title(federated), TITLE),
                "thread_id": record.body.thread,
            }
    elif federated.family == "code":
        row |= {
            "path": hit.path,
            "lines": f"{hit.start_line}-{hit.end_line}",
            "workspace": federated.source,
        }
    row |= {
        "summary_snippet": snippet,
        "score": round(hit.relevance, 2),
        "why_this_matched": cut(hit.why, WHY),
    }
    return without_empty(row)


def _split_heading(text: str) -> tuple[str, str]:
    """Split a record's text into its heading, which is the row's title, and the rest.

    The heading of a comment is the title of its thread.
    """
    heading, _, rest = text.partition("\n")
    return (heading.removeprefix("# "), rest.strip()) if heading.startswith("# ") else ("", text)


def _type(hit: FederatedHit) -> str:
    """Return the type of a hit for the answer."""
    return str(hit.cited["type"]) if hit.family == FAMILY else TYPE_OF[hit.family]


def _id(hit: FederatedHit) -> str:
    """Return the id of a hit, or its path and lines."""
    named = hit.cited.get("id") or hit.cited.get("document_id")
    return str(named) if named else f"{hit.hit.path}:{hit.hit.start_line}-{hit.hit.end_line}"


def _title(hit: FederatedHit) -> str:
    """Return the title of a hit, or its path."""
    title = str(hit.cited.get("title") or hit.hit.qualified or hit.hit.name)
    return title or hit.hit.path


def _answer(
    context: TeamSession,
    arguments: TeamSearch,
    rows: Sequence[Row],
    located: Sequence[FederatedHit],
    page: Page,
    offset: int,
    cursor_at: Any,
    notes: Sequence[str],
    budget: int,
) -> str:
    """Render the answer within the budget."""
    head = without_empty(
        {
            "next": {_type(hit): _opener(hit, context) for hit in located},
            "total": page.total,
            "notes": [cut(note, 200) for note in dict.fromkeys(notes)][:MOST_NOTES],
            "note": "" if rows else "nothing found",
        }
    )

    def more(after: str) -> str:
        types, filters = (
            list(arguments.types or ()),
            arguments.filters.model_dump(mode="json", exclude_defaults=True),
        )
        return call_text(
            "search",
            query=same(arguments.query),
            types=same(types),
            filters=same(filters),
            cursor=after,
        )

    left = max(0, page.total - offset - len(rows)) if rows else 0
    return slots_text(
        head,
        [RenderedSlot("results", rows, left=left)],
        budget,
        next_call="" if rows else call_text("get_bootstrap_pack"),
        more_call=more,
        cursor=lambda count: cursor_at(offset + count),
    )


def _opener(hit: FederatedHit, context: TeamSession) -> str:
    """Return the tool that opens a hit, and its argument."""
    if hit.family == FAMILY:
        return OPENERS.get(_type(hit), "cortex_get_context_pack subject.ref")
    if hit.opener and hit.family in context.served:
        return hit.opener
    return "cortex_get_context_pack " + (
        "subject.code_link" if hit.family == "code" else f"subject.ref={_type(hit)}:ID"
    )
