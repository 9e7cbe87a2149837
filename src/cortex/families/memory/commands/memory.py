"""`cortex memory`: add, list, show and search memories.

Curation is in curate.py, editing in edit.py, files are in import_export.py. Memories belong to the
user, not to a project: no project settings apply here. Exit codes: 0 done, 1 an error, 2 wrong
usage.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from cortex.base.errors import CortexError
from cortex.base.paths import relative_of
from cortex.base.types import Citation, Memory, MemoryState, Mode
from cortex.engine.citations import check
from cortex.engine.library import Library
from cortex.engine.sources.project import Project, project_at
from cortex.engine.store import Remembered
from cortex.families.memory.commands import curate, edit, import_export
from cortex.families.memory.commands.options import (
    IdArgument,
    NewState,
    ProjectOption,
    ScopeOption,
    Selection,
    StateName,
    TagOption,
    citations_of,
    memories,
)
from cortex.families.memory.commands.render import (
    MemoryDetails,
    details_json,
    row_json,
    say_details,
    say_marks,
    say_rows,
)
from cortex.families.memory.databases import (
    MemoryDatabase,
    current_scope,
    databases,
    has_memories,
    scope_folders,
    searched_places,
)
from cortex.families.memory.ids import display_id
from cortex.families.memory.search import MemoryQuery, find, sources_of
from cortex.families.memory.selection import Filter, choose, find_by_id_or_prefix, named
from cortex.families.memory.session_context import session_of
from cortex.families.memory.staleness import changes_in
from cortex.families.memory.tools.render import Paths, scope_rows
from cortex.families.memory.writer import WriteResult, add
from cortex.toolkit.terminal.option_sets import option, with_option_sets
from cortex.toolkit.terminal.options import JsonFlag, read_text
from cortex.toolkit.terminal.output import print_json, say
from cortex.toolkit.terminal.prompts import decide
from cortex.toolkit.terminal.workspace import here

# Decisions that are shown for one memory.
HISTORY = 50

app = typer.Typer(
    name="memory",
    help="What was learnt: write it down, judge it, find it again.",
    no_args_is_help=True,
)


class StatusName(StrEnum):
    """Curation status that may be searched."""

    APPROVED = "approved"
    STAGING = "staging"
    ALL = "all"


class MemoryModeName(StrEnum):
    """Search mode."""

    HYBRID = "hybrid"
    MEANING = "meaning"
    WORDS = "words"


@app.command("add")
def add_one(
    title: Annotated[str, typer.Argument(metavar="TITLE", help="What was learnt, in one line.")],
    subtitle: Annotated[str, option("--subtitle TEXT", "A second line.")] = "",
    fact: Annotated[
        list[str] | None, option("--fact TEXT", "Something that is so; may be repeated.")
    ] = None,
    tag: Annotated[
        list[str] | None, option("--tag TAG", "What it is about; may be repeated.")
    ] = None,
    file: Annotated[
        list[str] | None, option("--file PATH", "A file that it is about; may be repeated.")
    ] = None,
    citation: Annotated[
        list[str] | None,
        option("--cite PATH[#SYMBOL]", "Code that it speaks of: answers say when it has changed."),
    ] = None,
    text: Annotated[str, option("--text TEXT", "The whole story; -: from stdin.")] = "",
    project: Annotated[
        str | None, option("--project NAME", "The project it belongs to; default: the one here.")
    ] = None,
    scope: Annotated[str, option("--scope NAME", "Its scope; default: its project.")] = "",
    kind: Annotated[str, option("--kind KIND", "Such as decision, gotcha, bugfix.")] = "",
    session: Annotated[str, option("--session ID", "The session that it comes from.")] = "",
    supersedes: Annotated[
        list[str] | None, option("--supersedes ID", "What it takes the place of; may be repeated.")
    ] = None,
    state: Annotated[NewState, option("--state", "What it counts as.")] = NewState.APPROVED,
    as_json: JsonFlag = False,
) -> int:
    """Write down what was learnt; it is found at once."""
    folder = here()
    current_project = project_at(folder)
    body = read_text(text)
    with memories() as library:
        cited = citations_of(library, folder, citation or ())
        files = [_project_path(current_project, folder, path) for path in file or ()]
        memory = Memory(
            "",
            title,
            subtitle=subtitle.strip(),
            facts=tuple(entry.strip() for entry in fact or () if entry.strip()),
            concepts=tuple(dict.fromkeys(entry.strip() for entry in tag or () if entry.strip())),
            files=tuple(dict.fromkeys((*files, *(target.path for target in cited)))),
            text=body,
            project=current_project.name if project is None else project.strip(),
            session=session,
            kind=kind.strip(),
            provenance="person",
        )
        superseded = named(library, supersedes or ())
        initial = MemoryState(state)
        if superseded or initial is MemoryState.PROMOTED:
            replaced = [f"in place of “{record.memory.title}”" for record in superseded]
            question = "\n".join([memory.title, *replaced, "Add it?"])
            decide(library.settings, "judge_memory", question)
        done = add(
            library, memory, state=initial, scope=scope, supersedes=superseded, citations=cited
        )
        present = databases(library.settings)
    _print_added(done, memory, superseded, present, as_json=as_json)
    return 0


def _print_added(
    done: WriteResult,
    memory: Memory,
    superseded: Sequence[Remembered],
    present: Sequence[MemoryDatabase],
    *,
    as_json: bool,
) -> None:
    known = done.duplicate_of
    if as_json:
        print_json(
            {
                "id": display_id(known, present) if known else done.key,
                "created": done.created,
                "state": done.state.value if done.state else "",
                "duplicate_of": display_id(known, present) if known else None,
                "similar_to": [
                    {"id": display_id(record, present), "title": record.memory.title}
                    for record in done.similar_to
                ],
                "superseded": [display_id(record, present) for record in superseded],
            }
        )
        return
    if known:
        say(f"Known already as {display_id(known, present)}: {known.memory.title}")
        if done.state is not known.state and done.state:
            say(f"  It is {done.state.value} now")
    else:
        say(f"✓ Added {done.key}: {' '.join(memory.title.split())}")
        say(f"  {done.state.value if done.state else ''}, project {memory.project or 'none'}")
    for record in superseded:
        say(f"  Takes the place of {display_id(record, present)}: {record.memory.title}")
    for record in done.similar_to:
        say(f"  Similar: {display_id(record, present)}: {record.memory.title}")


def _project_path(project: Project, folder: Path, path: str) -> str:
    """Path relative to the project's root if it is inside, else as typed."""
    with suppress(CortexError, ValueError, OSError):
        if os.path.lexists(folder / path):
            return relative_of(project.path, Path(os.path.normpath(folder / path)))
    return path


@app.command("list")
@with_option_sets
def list_memories(
    *,
    selection: Selection,
    limit: Annotated[int, option("--limit -n N", "How many.", min=1)] = 30,
    as_json: JsonFlag = False,
) -> int:
    """List memories, newest first."""
    wanted = selection.filter(StateName.ALL)
    with memories() as library:
        rows, total = choose(library, wanted, limit)
        present, uncurated = databases(library.settings), library.settings.memory.uncurated
    if as_json:
        print_json(
            {"memories": [row_json(row, present, uncurated) for row in rows], "total": total}
        )
        return 0
    if not rows:
        is_filtered = selection.state or wanted != Filter()
        say("nothing found" if is_filtered else _no_memories_text(library), error=True)
    say_rows(rows, present)
    say_marks(rows, uncurated)
    if total > len(rows):
        say(f"{len(rows):,} of {total:,}; more with --limit", error=True)
    return 0


def _no_memories_text(library: Library) -> str:
    places = ", ".join(map(str, searched_places(library.settings)))
    return (
        "There are no memories yet: write one with `cortex memory add TITLE`; a claude-mem "
        f"database would be read from: {places}"
    )


@app.command("show")
def show(memory_id: IdArgument, as_json: JsonFlag = False) -> int:
    """Show all of a memory: what it says, where it comes from, what was decided about it, whether
    the code that it cites has changed.
    """
    with memories() as library:
        record = find_by_id_or_prefix(library, memory_id)
        present = databases(library.settings)
        details = MemoryDetails(
            record,
            present,
            library.settings.memory.uncurated,
            session_of(present, record.memory.session),
            tuple(
                (cited, _changed(library, cited))
                for cited in library.store.memories.citations(record.id)
            ),
            tuple(library.store.memories.decisions(HISTORY, record.ref)),
        )
    if as_json:
        print_json(details_json(details))
    else:
        say_details(details)
    return 0


def _changed(library: Library, cited: Citation) -> str:
    try:
        return check(cited, library.view_in(Path(cited.root)))
    except CortexError as error:
        return f"it can't be compared: {error.message}"


@app.command("search")
def search(
    query: Annotated[str, typer.Argument(metavar="QUERY", help="A question or a few words.")],
    tag: TagOption = None,
    project: ProjectOption = "",
    scope: ScopeOption = "",
    status: Annotated[
        StatusName, option("--status", "What may answer; all: approved ones and those in staging.")
    ] = StatusName.APPROVED,
    limit: Annotated[int, option("--limit -n N", "How many results.", min=1, max=200)] = 10,
    mode: Annotated[MemoryModeName, option("--mode", "How to search.")] = MemoryModeName.HYBRID,
    as_json: JsonFlag = False,
) -> int:
    """Search the memories, as the tool query_memories does."""
    names = project_at(here()).names
    with memories(tell=False) as library:
        if mode is not MemoryModeName.WORDS:
            library.embedding.try_out()
        request = MemoryQuery(
            query, tuple(tag or ()), project, scope, status, limit, mode=Mode(mode), near=names
        )
        results = find(library, request)
        present, uncurated = results.present, library.settings.memory.uncurated
        changes_of = changes_in(library)
        stale = [changes_of(hit.record) for hit in results.hits]
        nothing = "nothing found" if has_memories(library.settings) else _no_memories_text(library)
    for note in results.notes:
        say(f"note: {note}", error=True)
    if as_json:
        rows = [
            {
                **row_json(hit.record, present, uncurated),
                "relevance": hit.relevance,
                "maybe_stale": list(changes),
            }
            for hit, changes in zip(results.hits, stale, strict=True)
        ]
        print_json({"results": rows, "total": results.total, "mode": results.mode or Mode.WORDS})
        return 0
    if not results.hits:
        say(nothing, error=True)
    rows = [hit.record for hit in results.hits]
    say_rows(rows, present, stale=stale)
    say_marks(rows, uncurated)
    return 0


@app.command("scopes")
def scopes(as_json: JsonFlag = False) -> int:
    """List the scopes: how many memories each has, and which one is current here."""
    project = project_at(here())
    with memories() as library:
        settings = library.settings
        present = databases(settings)
        sources = tuple(source.id for source in sources_of(library, present, "all"))
        counts = library.store.memories.scopes(sources)
    rows = scope_rows(counts, (*present, *scope_folders(settings)), Paths(settings.home))
    current = current_scope(settings.memory.scope, project, [count.scope for count in counts])
    if as_json:
        print_json({"scopes": rows, "current_scope": current})
        return 0
    width = max((len(str(row["name"])) for row in rows), default=0)
    for row in rows:
        mark = "*" if str(row["name"]).casefold() == current.casefold() else " "
        say(
            f"{mark} {row['name']!s:<{width}}  {row['memory_count']:>6}  {row['last_updated']}  "
            f"{row['path']}"
        )
    if not rows:
        say(_no_memories_text(library), error=True)
    say(f"current scope: {current}", error=True)
    return 0


app.command("edit")(edit.edit_one)
app.command("approve")(curate.approve)
app.command("reject")(curate.reject)
app.command("promote")(curate.promote)
app.command("supersede")(curate.supersede_one)
app.command("delete")(curate.delete_some)
app.command("undo")(curate.undo_last)
app.command("log")(curate.show_log)
app.command("import")(import_export.import_path)
app.command("export")(import_export.export_some)
