"""`cortex kb add|remove|list|sync|search|stats|import`: manage and search document folders.

Sources belong to the user, not to a project: no project settings apply here. The process that holds
the library's lease, cortexd or a server, indexes for these commands; without one they index
themselves. Exit codes: 0 done, 1 an error, 2 done in part, because files could not be read or only
lexical search is available.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from cortex.base.errors import CODES, Cancelled, ConfigError, CortexError, InputError
from cortex.base.types import Cancel, IndexReport
from cortex.engine.indexer import Stopped
from cortex.engine.library import Library
from cortex.engine.store import Folder
from cortex.families.documents.commands import conduit_import
from cortex.families.documents.search import (
    DocumentResult,
    DocumentResults,
    find,
    folders_of,
    query_of,
)
from cortex.families.documents.status import (
    Overview,
    SourceState,
    overview_of,
    state_of,
    states_of,
    totals_of,
)
from cortex.families.documents.tools.render import source_text, stats_head, stats_rows, unread_lines
from cortex.toolkit.terminal.library import open_library
from cortex.toolkit.terminal.option_sets import option
from cortex.toolkit.terminal.options import JsonFlag
from cortex.toolkit.terminal.output import many, print_json, printable, progress_bar, say

PARTIAL = 2
EMBEDDER_CODES = tuple(code for code in CODES if code.startswith("EMBEDDER_"))
# Unreadable files that are listed; --json lists all.
NAMED_FILES = 20
# Time for the lease holder to remove the documents from its indexes, too.
FOLLOW_SECONDS = 10.0
POLL_SECONDS = 0.05

app = typer.Typer(
    name="kb",
    help="Search your own documents: add folders, sync them, ask them.",
    no_args_is_help=True,
)
app.add_typer(conduit_import.app, name="import")


class DocumentModeName(StrEnum):
    """Search mode."""

    HYBRID = "hybrid"
    SEMANTIC = "semantic"
    FTS5 = "fts5"


@dataclass(frozen=True, slots=True)
class Synced:
    """Outcome of a sync of one source; `report` is None if it failed."""

    folder: Folder
    state: SourceState
    report: IndexReport | None
    error: CortexError | None

    @property
    def words_are_done(self) -> bool:
        """True if every document was read and only vectors failed, if anything."""
        return self.error is None or self.error.code in ("EMBEDDINGS_LIMIT", *EMBEDDER_CODES)


@app.command("add")
def add(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="A folder of documents.")],
    name: Annotated[
        str, option("--name NAME", "What to call it; default: the folder's name.")
    ] = "",
    include: Annotated[
        list[str] | None,
        option("--include PATTERN", "Only such files, as in .gitignore; may be repeated."),
    ] = None,
    exclude: Annotated[
        list[str] | None, option("--exclude PATTERN", "No such files; may be repeated.")
    ] = None,
    no_watch: Annotated[
        bool, typer.Option("--no-watch", help="Don't follow changes; sync it yourself.")
    ] = False,
    no_sync: Annotated[
        bool, typer.Option("--no-sync", help="Only remember it; nothing is read yet.")
    ] = False,
    as_json: JsonFlag = False,
) -> int:
    """Add a folder of documents, and index it."""
    with open_library() as library:
        folder = library.add_folder(
            path, name=name, include=include or (), exclude=exclude or (), watch=not no_watch
        )
        if not as_json:
            say(f"✓ Added source: {folder.name}")
            say(f"  ID: {folder.key}")
            say(f"  Path: {folder.source.root}")
            say("")
        if no_sync:
            if as_json:
                print_json({"source": state_of(library, folder).as_json(root=True), "sync": None})
            else:
                say("Run 'cortex kb sync' to index documents")
            return 0
        synced = _sync(library, folder, as_json)
        overview = overview_of(library, single=True)
        if as_json:
            print_json({"source": synced.state.as_json(root=True), "sync": _row(synced)})
        else:
            _print_synced([synced], overview, new=True)
    # Files that nothing can read are named: what could be added is there.
    return _exit_code([synced], overview, unread_counts=not synced.state.documents)


@app.command("remove")
def remove(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="Its ID or name.")],
    as_json: JsonFlag = False,
) -> int:
    """Remove a source: its documents and vectors are forgotten at once and for good. The files stay
    as they are.
    """
    with open_library() as library:
        folder = library.folder(source)
        count = library.remove_folder(folder)
        followed = _await_indexes(library)
    if as_json:
        print_json({"removed": _identity(folder), "documents": count})
        return 0
    say(f"✓ Removed source: {folder.name}")
    say(f"  {count:,} documents forgotten; the files in {folder.source.root} are untouched")
    if not followed:
        say(
            "note: nothing finds them any more; another process still drops them from its index",
            error=True,
        )
    return 0


@app.command("list")
def list_sources(as_json: JsonFlag = False) -> int:
    """List the sources, with what each holds and the files that could not be read."""
    with open_library() as library:
        states = states_of(library, library.folders())
    if as_json:
        print_json({"sources": [state.as_json(root=True) for state in states]})
        return 0
    if not states:
        say("There are no sources yet. Add one with: cortex kb add PATH")
        return 0
    say("Knowledge Base Sources")
    for state in states:
        say("")
        say(source_text(state), lines=True)
        if not state.folder.watch:
            say("  Not watched: run `cortex kb sync` after changes")
        for line in unread_lines([state], NAMED_FILES, printable):
            say(f"  {line}")
    return 0


@app.command("sync")
def sync(
    source: Annotated[
        str | None, typer.Argument(metavar="SOURCE", help="Its ID or name; default: all.")
    ] = None,
    as_json: JsonFlag = False,
) -> int:
    """Bring the sources up to date with their folders."""
    with open_library() as library:
        done = [_sync(library, folder, as_json) for folder in folders_of(library, source)]
        overview = overview_of(library, single=source is not None)
    code = _exit_code(done, overview)
    if as_json:
        status = {0: "completed", PARTIAL: "partial"}.get(code, "error")
        rows = [_row(synced) for synced in done]
        print_json({"status": status, "semantic": overview.meaning, "sources": rows})
    elif not done:
        say("There are no sources yet. Add one with: cortex kb add PATH")
    else:
        _print_synced(done, overview)
    return code


@app.command("search")
def search(
    query: Annotated[str, typer.Argument(metavar="QUERY", help="A question or a few words.")],
    source: Annotated[
        str | None, option("--source NAME", "Only this source, by its name or ID.")
    ] = None,
    limit: Annotated[
        int | None,
        option("--limit -n N", "How many results; default: as the settings say.", min=1, max=200),
    ] = None,
    mode: Annotated[
        DocumentModeName | None, option("--mode", "How to search; default: as the settings say.")
    ] = None,
    fts5: Annotated[
        bool, typer.Option("--fts5", help="By words only; the same as --mode fts5.")
    ] = False,
    as_json: JsonFlag = False,
) -> int:
    """Search the documents, as the tool kb_search does."""
    if fts5 and mode not in (None, DocumentModeName.FTS5):
        raise InputError("ARGUMENT_INVALID", f"--fts5 and --mode {mode} contradict each other")
    with open_library() as library:
        defaults = library.settings.mcp.kb.search
        mode_name = "fts5" if fts5 else mode.value if mode else defaults.default_mode
        wanted = limit or min(defaults.default_limit, defaults.max_limit)
        reader = library.reader
        if mode_name != "fts5":
            reader.embedding.try_out()
        results = find(reader, query_of(library.settings, query, mode_name, wanted), source)
    for note in results.notes:
        say(f"note: {note}", error=True)
    if as_json:
        print_json(found_json(results))
    else:
        _print_found(query, results)
    return 0


@app.command("stats")
def stats(
    source: Annotated[
        str | None, typer.Argument(metavar="SOURCE", help="Its ID or name; default: all.")
    ] = None,
    as_json: JsonFlag = False,
) -> int:
    """Show how much there is, whether search by meaning works, and which files could not be
    read.
    """
    with open_library() as library:
        states = states_of(library, folders_of(library, source))
        overview = overview_of(library, single=source is not None, ask=True)
    if as_json:
        print_json(_stats_json(states, overview))
        return 0
    say(stats_head(overview, states))
    say("")
    search_rows = (("Keyword (fts5)", "available"), ("Semantic", overview.semantic))
    for label, value in (*stats_rows(overview, states), *search_rows):
        say(f"{label + ':':<16}{value}")
    for line in unread_lines(states, NAMED_FILES, printable):
        say(line)
    return 0


# -- indexing


def _sync(library: Library, folder: Folder, as_json: bool) -> Synced:
    """Sync one source; an error doesn't affect the others."""
    report, failed = None, None
    with progress_bar(not as_json) as progress:
        try:
            report = library.index(source=folder.source, progress=progress)
            # Otherwise the lease holder embeds in the background.
            if library.holds_lease():
                library.embedding.embed(progress=progress, cancel=Cancel())
        except KeyboardInterrupt:
            say(
                f"stopped: `cortex kb sync {shlex.quote(folder.name)}` goes on from here",
                error=True,
            )
            raise
        except Cancelled:
            if library.store.folders.of(folder.source.id) is None:
                failed = ConfigError("SOURCE_UNKNOWN", f"{folder.name} was removed meanwhile")
            else:
                raise
        except CortexError as error:
            failed = error
            report = error.report if isinstance(error, Stopped) else report
    return Synced(folder, state_of(library, folder), report, failed)


def _await_indexes(library: Library) -> bool:
    """Wait until the lexical index has dropped what was removed; False on timeout.

    Another process may hold the lease and do that.
    """
    deadline, content = time.monotonic() + FOLLOW_SECONDS, library.store.content
    while library.store.indexes.state()[1] < content.seq() or content.keeps_deleted_words:
        if time.monotonic() > deadline or not library.store.lease.holder():
            return False
        time.sleep(POLL_SECONDS)
    return True


# -- output


def _exit_code(done: Sequence[Synced], overview: Overview, *, unread_counts: bool = True) -> int:
    """Exit code: 1 if a source could not be synced, 2 if it was not synced completely.

    Missing vectors don't count if no embedder is configured.
    """
    if any(synced.error is not None and not synced.words_are_done for synced in done):
        return 1
    words_only = bool(done) and overview.embedding is not None and not overview.meaning
    unread = any(
        synced.error is not None or (unread_counts and synced.state.unread) for synced in done
    )
    has_text = any(synced.state.chunks for synced in done)
    return PARTIAL if unread or (words_only and has_text) else 0


def _print_synced(done: Sequence[Synced], overview: Overview, *, new: bool = False) -> None:
    """Print the outcome of a sync.

    For a `new` source only the totals are printed, because a server may have indexed it first.
    """
    for synced in done:
        if synced.report is not None and new:
            say(f"Indexed {synced.state.documents:,} documents, {synced.state.chunks:,} chunks")
        elif synced.report is not None:
            report = synced.report
            parts = [
                f"{getattr(report, name)} {name}"
                for name in ("added", "changed", "deleted", "unchanged")
            ]
            say(f"{synced.folder.name}: {', '.join(parts)} in {report.seconds:.1f} s")
            say(f"  {synced.state.documents:,} documents, {synced.state.chunks:,} chunks")
        if error := synced.error:
            say(f"error: {synced.folder.name}: {error.message} [{error.code}]", error=True)
        for line in unread_lines([synced.state], NAMED_FILES, printable):
            say(f"  {line}")
    has_text = any(synced.state.chunks for synced in done)
    if overview.embedding is not None and not overview.meaning and has_text:
        say(f"warning: words only: semantic search is {overview.semantic}", error=True)


def _row(synced: Synced) -> dict[str, object]:
    state, error = synced.state, synced.error
    return {
        **_identity(synced.folder),
        **(asdict(synced.report) if synced.report else {}),
        "documents": state.documents,
        "chunks": state.chunks,
        "unread": [{"path": file.path, "reason": file.reason} for file in state.unread],
        **({"error": {"code": error.code, "message": error.message}} if error else {}),
    }


def _identity(folder: Folder) -> dict[str, object]:
    return {"id": folder.key, "name": folder.name, "path": folder.source.root}


def _stats_json(states: Sequence[SourceState], overview: Overview) -> dict[str, object]:
    embedding = overview.embedding
    return {
        "sources": [state.as_json(root=True) for state in states],
        **totals_of(states),
        "capabilities": {"fts5": True, "semantic": overview.meaning, "hybrid": overview.meaning},
        "embedding": embedding.as_json() if embedding else None,
    }


def found_json(page: DocumentResults) -> dict[str, object]:
    """Search results as JSON."""
    results = [_result_json(result) for result in page.results]
    return {"results": results, "total": page.total, "mode": page.mode, "degraded": page.degraded}


def _result_json(result: DocumentResult) -> dict[str, object]:
    return {
        "document_id": result.document_id,
        "source": result.folder.name,
        "path": result.path,
        "startLine": result.start_line,
        "endLine": result.end_line,
        "section": result.section or None,
        "page": result.page or None,
        "score": result.score,
        "snippet": result.snippet,
    }


def _print_found(query: str, results: DocumentResults) -> None:
    say(f"Found {many(len(results.results), 'result')} for: {query}")
    for number, result in enumerate(results.results, 1):
        say("")
        say(f"{number}. {result.title} (score: {result.score:.2f})")
        page = f", page {result.page}" if result.page else ""
        say(f"   Path: {result.folder.name}/{result.path}:{result.start_line}{page}")
        if result.section:
            say(f"   Section: {result.section}")
        say(f"   document_id: {result.document_id}")
        for line in result.snippet.split("\n"):
            say(f"   | {line}".rstrip(), lines=True)
