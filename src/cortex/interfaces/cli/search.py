"""`cortex search`: search a folder, documents, memories, records and chunk files at once.

Without --in it searches what has content here. A named folder, a language or an exact text is a
question about code.
"""

from __future__ import annotations

import shlex
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer

from cortex.base.errors import ConfigError, CortexError, InputError
from cortex.base.paths import find_project_root
from cortex.base.settings import Settings, Workspace, environment, load
from cortex.base.types import Cancel, Freshness, Hit, Mode, Page, Query
from cortex.engine.engine import Engine
from cortex.engine.home_store import has_folders, has_records
from cortex.engine.library import Library
from cortex.engine.search import NO_EMBEDDER
from cortex.engine.search.federated import FederatedHit, SearchTarget, federated_search
from cortex.engine.store import STORE_NAME
from cortex.engine.store_folder import find_store
from cortex.families.chunkfiles.pool import ChunkIndexPool
from cortex.families.chunkfiles.tools import has_chunks, open_family
from cortex.families.code.tools.definitions import exact_text, language_called
from cortex.families.code.tools.render import context_of, search_metadata
from cortex.families.code.tools.session import FAMILY as CODE
from cortex.families.code.tools.session import Workspaces, places_of
from cortex.families.documents.tools.search_target import FAMILY as KB
from cortex.families.documents.tools.search_target import place_of
from cortex.families.memory.databases import has_memories
from cortex.families.memory.mirror import sync
from cortex.families.memory.tools.search_target import FAMILY as MEMORY
from cortex.families.memory.tools.search_target import place_of as place_of_memories
from cortex.interfaces.assembly.pool import engine_pool
from cortex.toolkit.terminal import workspace
from cortex.toolkit.terminal.options import JsonFlag
from cortex.toolkit.terminal.output import ask, decline, print_json, printable, progress_bar, say

MODES = {
    "auto": Mode.HYBRID,
    "hybrid": Mode.HYBRID,
    "meaning": Mode.MEANING,
    "embeddings": Mode.MEANING,
    "semantic": Mode.MEANING,
    "words": Mode.WORDS,
    "tfidf": Mode.WORDS,
    "fts5": Mode.WORDS,
    "exact": Mode.EXACT,
    "fullworkspace": Mode.FULL,
}
# Characters of a snippet, enough to judge a hit; programs get the whole text.
SNIPPET = (400,)
BY_MEANING = (Mode.HYBRID, Mode.MEANING)
# Modes that read the files themselves, so the index need not be updated first.
READS_FILES = (Mode.EXACT, Mode.FULL)
DEFAULT_MODE = "hybrid"
WEAK = " weak"
TEAM = "team"
CHUNKS = "chunks"
ALL = "all"
SEARCHED = (CODE, KB, MEMORY, TEAM, CHUNKS)
# States that are shown beside a hit.
OVER = ("superseded", "deprecated", "archived", "cancelled", "rejected")
# Time limit for copying new memories of other products.
COPY_SECONDS = 2.0


def search(
    query: Annotated[
        str,
        typer.Argument(metavar="QUERY", help="A question, a name, or with --mode exact a text."),
    ],
    path: Annotated[
        list[Path] | None,
        typer.Option("--path", metavar="PATH", help="The folder; may be repeated."),
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=1, max=200, metavar="N", help="How many results.")
    ] = 10,
    mode: Annotated[
        str,
        typer.Option(
            "--mode", metavar="MODE", help="hybrid, meaning, words, exact or fullworkspace."
        ),
    ] = DEFAULT_MODE,
    lang: Annotated[
        list[str] | None,
        typer.Option("--lang", metavar="LANGUAGE", help="Only this language; may be repeated."),
    ] = None,
    regex: Annotated[
        bool, typer.Option("--regex", help="The query is a regular expression (exact mode).")
    ] = False,
    threshold: Annotated[
        float, typer.Option("--threshold", min=0.0, max=1.0, metavar="X", help="Least relevance.")
    ] = 0.0,
    within: Annotated[
        str | None,
        typer.Option(
            "--in",
            metavar="WHAT",
            help="What to search, separated by commas: code, kb (your documents), memory, team, "
            "chunks; all: what is here, as without it.",
        ),
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show why each result is where it is.")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Search what is here: the code of this project, which is indexed first, your documents,
    memories and records, and chunk files. --in names some of them; --path, --lang and an exact
    text are about code alone.
    """
    called = Mode.EXACT if regex else _parse_mode(mode)
    exact = None if called is Mode.EXACT else exact_text(query)
    if exact is not None:
        called, (query, regex) = Mode.EXACT, exact
    of_code = bool(path or lang) or called in READS_FILES
    wanted = Query(
        text=query,
        mode=called,
        limit=limit,
        threshold=threshold,
        languages=tuple(language_called(name) for name in lang or ()),
        regex=regex,
        snippets=() if as_json else SNIPPET,
        explain=explain,
    )
    with ExitStack() as used:
        named = within if within is not None else CODE if of_code else ALL
        families, workspaces = _choose(named, path or [], wanted)
        weak_below = (
            workspaces[0].settings if workspaces else _person_settings()
        ).search.relevance_threshold
        opened = _open(used, families, workspaces, wanted, as_json)
        started = time.perf_counter()
        located, page = federated_search(opened.places, wanted, Cancel())
        milliseconds = 1000 * (time.perf_counter() - started)
        metadata = search_metadata(page, milliseconds, [state() for state in opened.states])
    labels = _Labels(families != (CODE,), len(opened.places) > 1, weak_below)
    if as_json:
        print_json({"results": [_row(hit, labels) for hit in located], "metadata": metadata})
    else:
        _print_hits(located, page, opened.late, labels, asked=mode != DEFAULT_MODE)


@dataclass(frozen=True, slots=True)
class _Labels:
    """Labels that a hit needs besides its path."""

    family: bool
    workspace: bool
    # The relevance below which tools leave a hit out.
    weak_below: float

    def is_weak(self, hit: Hit) -> bool:
        return hit.relevance < self.weak_below


def _parse_families(names: str) -> tuple[str, ...]:
    families = tuple(dict.fromkeys(name.strip() for name in names.split(",") if name.strip()))
    unknown = [name for name in families if name not in (*SEARCHED, ALL)]
    if unknown or not families:
        raise InputError(
            "ARGUMENT_INVALID", f"unknown: --in {names!r}; known: {', '.join((*SEARCHED, ALL))}"
        )
    return families


def _choose(
    within: str, paths: list[Path], wanted: Query
) -> tuple[tuple[str, ...], tuple[Workspace, ...]]:
    """Return the families to search and the workspaces that they need.

    Of all families only those are searched that have something to find. Without a project these are
    the user's own.
    """
    families = _parse_families(within)
    if ALL in families and wanted.mode in READS_FILES:
        families = (CODE,)
    person = _person_settings()
    if ALL not in families:
        of_project = {CODE, CHUNKS} & set(families)
        return families, _workspaces(paths, wanted) if of_project else ()
    own = {
        KB: has_folders(person.home),
        MEMORY: has_memories(person),
        TEAM: has_records(person.home),
    }
    try:
        workspaces = _workspaces(paths, wanted)
    except ConfigError as error:
        if error.code != "WORKSPACE_MISSING" or not any(own.values()):
            raise
        say(f"note: {error.message}: only what is yours is searched", error=True)
        workspaces = ()
    chunk_files = any(has_chunks(workspace) for workspace in workspaces)
    here = {CODE: bool(workspaces), **own, CHUNKS: chunk_files}
    return tuple(name for name in SEARCHED if here[name]), workspaces


def _parse_mode(name: str) -> Mode:
    if name not in MODES:
        raise InputError("ARGUMENT_INVALID", f"unknown mode {name!r}; known: {', '.join(MODES)}")
    return MODES[name]


def _person_settings() -> Settings:
    return load(None, environment=environment())


def _workspaces(paths: list[Path], wanted: Query) -> tuple[Workspace, ...]:
    """Return the workspaces to search; a folder that is no project needs a confirmation.

    Raises: ConfigError WORKSPACE_MISSING, where there is no terminal to ask on.
    """
    workspaces = workspace.find(paths)
    guessed = not paths and not workspaces[0].settings.workspace.paths
    root = workspaces[0].root
    if (
        not guessed
        or wanted.mode in READS_FILES
        or find_project_root(root, Path.home()) is not None
    ):
        return workspaces
    if _is_indexed(workspaces[0]):
        return workspaces
    if not sys.stdin.isatty():
        raise ConfigError(
            "WORKSPACE_MISSING",
            f"{root} is no project and has no index yet; nothing was indexed or searched",
            context={"cwd": str(root)},
            instead=(
                f"Index it first: cortex index {shlex.quote(str(root))}",
                "Or name a folder: --path FOLDER.",
            ),
        )
    if not ask(
        f"{root} is no project. Read and index all of its files, so that they can be searched?"
    ):
        decline()
    return workspaces


def _is_indexed(target: Workspace) -> bool:
    if not (find_store(target.root, target.settings.home) / STORE_NAME).exists():
        return False
    with Engine(target.root, target.settings, read_only=True) as engine:
        return bool(engine.freshness().last_indexed)


@dataclass(slots=True)
class _Opened:
    """Targets of a search, functions for the freshness of each, and incomplete workspaces."""

    places: list[SearchTarget] = field(default_factory=list)
    states: list[Callable[[], Freshness]] = field(default_factory=list)
    late: list[str] = field(default_factory=list)


def _open(
    used: ExitStack,
    families: tuple[str, ...],
    roots: Sequence[Workspace],
    wanted: Query,
    as_json: bool,
) -> _Opened:
    """Open the search targets for as long as `used` is open."""
    opened = _Opened()
    if CODE in families:
        _open_code(used, opened, roots, wanted, as_json)
    if {KB, MEMORY, TEAM} & set(families):
        opened.places += _open_own(used, families, wanted)
    if CHUNKS in families:
        chunk_files = open_family(roots, ChunkIndexPool())
        used.callback(chunk_files.close)
        opened.places += used.enter_context(chunk_files.places())
    return opened


def _open_code(
    used: ExitStack, opened: _Opened, roots: Sequence[Workspace], wanted: Query, as_json: bool
) -> None:
    workspaces = Workspaces(roots, engine_pool(keep=False))
    used.callback(workspaces.close)
    engines = used.enter_context(workspaces.open())
    for problem in workspaces.left_out:
        say(f"warning: {problem}", error=True)
    if wanted.mode not in READS_FILES:
        opened.late += [name for name, engine in engines if not _freshen(engine, as_json)]
    opened.places += places_of(engines)
    opened.states += [engine.freshness for _, engine in engines]
    for _, engine in engines if wanted.mode in BY_MEANING else ():
        engine.embedding.try_out()


def _open_own(used: ExitStack, families: tuple[str, ...], wanted: Query) -> list[SearchTarget]:
    """Open documents, memories and records, which are the user's in every project."""
    library = Library(_person_settings())
    used.callback(library.close)
    library.catch_up()
    if wanted.mode in BY_MEANING:
        library.reader.embedding.try_out()
    places: list[SearchTarget] = []
    if KB in families:
        places.append(place_of(library.reader))
    if MEMORY in families:
        sync(library, seconds=COPY_SECONDS)
        places.append(place_of_memories(library.reader))
    if TEAM in families:
        # Imported here, since a search of code alone needs none of it.
        from cortex.families.team.search import RecordQuery
        from cortex.families.team.tools.search_target import place_of as place_of_records

        places.append(place_of_records(library.reader, RecordQuery(withheld=True)))
    return places


def _freshen(engine: Engine, as_json: bool) -> bool:
    """Update the index if no other process does; true if that ended within the time limit.

    Otherwise the search uses the index as it is.
    """
    if not engine.holds_lease():
        return True
    cancel, failures = Cancel(), []

    def work() -> None:
        try:
            with progress_bar(not as_json) as progress:
                engine.index(progress=progress, cancel=cancel)
        except CortexError as error:
            failures.append(error)

    thread = threading.Thread(target=work, name="freshen", daemon=True)
    thread.start()
    thread.join(engine.settings.search.timeout)
    finished = not thread.is_alive()
    if not finished:
        cancel.cancel()
        thread.join(10)
    for failure in failures:
        say(f"warning: {failure.message}", error=True)
    return finished


def _row(located: FederatedHit, labels: _Labels) -> dict[str, object]:
    hit = located.hit
    row: dict[str, object] = {
        "file": hit.path,
        "startLine": hit.start_line,
        "endLine": hit.end_line,
        "relevance": hit.relevance,
        "text": hit.text,
        "context": context_of(hit),
    }
    if labels.is_weak(hit):
        row["weak"] = True
    if hit.evidence:
        row["evidence"] = dict(hit.evidence)
    if labels.family:
        return {**row, "family": located.family, "source": located.source, **located.cited}
    return {**row, "workspace": located.source} if labels.workspace else row


def _print_hits(
    located: list[FederatedHit], page: Page, late: list[str], labels: _Labels, *, asked: bool
) -> None:
    """Print hits with warnings and notes.

    The note that there is no embedder is printed only if a mode was given.
    """
    for name in late:
        say(f"warning: {name} is not fully indexed yet; run `cortex index` to finish", error=True)
    for note in page.notes:
        if asked or not note.endswith(NO_EMBEDDER):
            say(f"note: {note}", error=True)
    if not located:
        say("nothing found", error=True)
        return
    if all(labels.is_weak(hit.hit) for hit in located):
        say("note: all of these are weak: what you look for may not be here", error=True)
    if sys.stdout.isatty():
        _print_rich(located, labels)
        return
    for located_hit in located:
        weak = WEAK if labels.is_weak(located_hit.hit) else ""
        say(
            (
                f"{_place(located_hit, labels)}  {located_hit.hit.relevance:.2f}{weak}  "
                f"{located_hit.hit.qualified}{_state_note(located_hit)}"
            ).rstrip()
        )
        for number, line in _lines(located_hit.hit):
            say(f"{number:>6}  {line}", lines=True)
        if located_hit.hit.evidence:
            say(f"        {_evidence(located_hit.hit)}")


def _lines(hit: Hit) -> list[tuple[int, str]]:
    """Return the lines of a hit's text with their numbers.

    Where lines were left out, the text has a line in their place, which is skipped.
    """
    lines = iter(hit.text.split("\n"))
    if not hit.lines:
        return list(enumerate(lines, hit.start_line))
    numbered: list[tuple[int, str]] = []
    before = hit.start_line - 1
    for number in hit.lines:
        if number != before + 1:
            next(lines)
        numbered.append((number, next(lines)))
        before = number
    return numbered


def _evidence(hit: Hit) -> str:
    """Render the evidence of a hit in one line: summands, then factors."""
    parts = [
        f"{name} {value:g}" if name.startswith("x ") else f"{name} +{value:g}"
        for name, value in hit.evidence
    ]
    return f"{hit.score:g} = {', '.join(parts)}"


def _place(located: FederatedHit, labels: _Labels) -> str:
    # For a memory or a record the id, which the commands that show it accept.
    path = located.cited.get("id", located.hit.path)
    where = f"{located.source}/{path}" if labels.family or labels.workspace else path
    page = located.cited.get("page")
    return f"{where}:{located.hit.start_line}{f' (page {page})' if page else ''}"


def _state_note(located: FederatedHit) -> str:
    """Render the state of an obsolete record, or the warning that the Core rejected it."""
    state, warnings = str(located.cited.get("state", "")), located.cited.get("warnings")
    if isinstance(warnings, list) and warnings:
        return f"  ({warnings[0]})"
    return f"  ({state})" if state in OVER else ""


def _print_rich(located: list[FederatedHit], labels: _Labels) -> None:
    from rich.console import Console
    from rich.syntax import Syntax
    from rich.text import Text

    console = Console()
    for located_hit in located:
        hit = located_hit.hit
        title = Text(printable(_place(located_hit, labels)), style="bold cyan")
        weak = labels.is_weak(hit)
        title.append(
            f"  {hit.relevance:.2f}{WEAK if weak else ''}", style="dim" if weak else "green"
        )
        title.append(f"  {printable(hit.qualified)}" if hit.qualified else "", style="dim")
        title.append(_state_note(located_hit), style="yellow")
        console.print(title)
        for number, line in _lines(hit):
            code = Syntax("", hit.language or "text", theme="ansi_dark").highlight(
                printable(line, lines=True)
            )
            code.rstrip()
            console.print(Text(f"{number:>6}  ", style="dim").append(code))
        if hit.evidence:
            console.print(Text(f"        {printable(_evidence(hit))}", style="dim"))
