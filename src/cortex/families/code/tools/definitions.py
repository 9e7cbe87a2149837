"""Definitions and handlers of the five code tools.

Answer shapes are in render.py, argument schemas in arguments.py.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

from cortex.base.errors import ConfigError, FileError, InputError
from cortex.base.runtime.process_stats import memory_bytes
from cortex.base.settings import Key, Settings, known_key
from cortex.base.text import TOKEN_CHARACTERS
from cortex.base.types import Cancel, FileView, Mode, ProgressCallback, Query
from cortex.engine import chunkers
from cortex.engine.embedders import leaves
from cortex.engine.engine import Engine
from cortex.engine.search.federated import federated_search
from cortex.families.code.tools import render
from cortex.families.code.tools.arguments import (
    FindSimilarCode,
    GetFileContext,
    ReindexWorkspace,
    SearchCode,
    UpdateConfig,
)
from cortex.families.code.tools.jobs import report_progress
from cortex.families.code.tools.render import Json
from cortex.families.code.tools.session import Workspaces, ambiguous, places_of
from cortex.toolkit.pagination import check_budget, dump, read_cursor
from cortex.toolkit.tool import Answer, Call, Tool

MODES: Mapping[str, Mode] = {
    "auto": Mode.HYBRID,
    "embeddings": Mode.MEANING,
    "tfidf": Mode.WORDS,
    "fullworkspace": Mode.FULL,
}
# Errors that say least about why no workspace has a file; the others are reported first.
ERROR_PRIORITY: Mapping[str, int] = {"FILE_NOT_FOUND": 1, "PATH_OUTSIDE": 2}
MAX_FILE_TYPES = 100
# Characters of text for the first hits of an answer; the rest are named only. The first hit is
# right four times of five, and get_file_context reads the rest of what is worth reading.
SNIPPETS = (480, 320, 240, 160, 160, 160, 0)
# A forced run that takes longer continues as a background job.
FORCE_ANSWER_SECONDS = 2.0
FORCE_GOES_ON = (
    "everything is built anew in the background and searches go on meanwhile: "
    "codeindex://workspace/status says how far "
    "it is, and reindex_workspace without `force` waits for the end"
)
STRATEGY_IS_BOTH = "counts as `both`: words and vectors are always brought up to date together"
WORDS_ARE_KEPT = (
    "indexing.strategies leaves out tfidf: words are indexed all the same, every search needs them"
)
NEEDS_INDEXING = ("indexing.chunkSize", "indexing.embeddingProvider", "workspace.maxFiles")
CHANGEABLE = (*NEEDS_INDEXING, "search.cacheSize")


def search_code(context: Workspaces, arguments: SearchCode, call: Call) -> Answer:
    """Find code by question, name or text."""
    # Arguments that are not given take their default from the settings.
    given = arguments.model_fields_set
    search = context.settings.search
    query = make_query(
        arguments.query,
        strategy=arguments.strategy,
        limit=arguments.maxResults if "maxResults" in given else search.default_max_results,
        threshold=arguments.threshold if "threshold" in given else search.relevance_threshold,
        file_types=arguments.fileTypes or [],
    )
    return _search(context, query, arguments, call)


def find_similar_code(context: Workspaces, arguments: FindSimilarCode, call: Call) -> Answer:
    """Find code that looks like a snippet."""
    languages = (language_called(arguments.language),) if arguments.language else ()
    query = Query(text=arguments.code, code=True, limit=arguments.maxResults, languages=languages)
    return _search(context, query, arguments, call)


def make_query(
    text: str, *, strategy: str, limit: int, threshold: float, file_types: list[str]
) -> Query:
    """Build a query from the arguments of a tool call.

    "Text" in quotes and /text/ between slashes are matched exactly with every strategy.
    """
    mode, regex = MODES[strategy], False
    if (exact := exact_text(text)) is not None:
        mode, (text, regex) = Mode.EXACT, exact
    extensions = tuple(
        dict.fromkeys(type_.strip().lstrip("*").lstrip(".").lower() for type_ in file_types)
    )
    # A bare "*" means every file type.
    if "" in extensions:
        extensions = ()
    if len(extensions) > MAX_FILE_TYPES:
        raise InputError(
            "ARGUMENT_INVALID",
            f"{len(extensions)} file types are too many, the most are {MAX_FILE_TYPES}",
        )
    return Query(
        text=text, mode=mode, limit=limit, threshold=threshold, extensions=extensions, regex=regex
    )


def exact_text(text: str) -> tuple[str, bool] | None:
    """Extract the text of a quoted or slashed query, and whether it is a regular expression.

    Returns None for any other query.
    """
    stripped = text.strip()
    if len(stripped) < 3 or stripped[0] != stripped[-1]:
        return None
    if stripped[0] == '"' and '"' not in stripped[1:-1]:
        return stripped[1:-1], False
    if stripped[0] == "/" and " " not in stripped.strip("/")[:1]:
        return stripped[1:-1], True
    return None


def _search(
    context: Workspaces, query: Query, arguments: SearchCode | FindSimilarCode, call: Call
) -> Answer:
    workspace = arguments.workspace
    tokens = check_budget(arguments.budget, context.settings.search.budget)
    key = repr((query, workspace))
    offset = read_cursor(key, arguments.cursor)
    started = time.perf_counter()
    # More text than this could not be shown.
    max_characters = tokens * TOKEN_CHARACTERS
    paged_query = replace(query, offset=offset, characters=max_characters, snippets=SNIPPETS)
    with context.open(workspace) as engines:
        located, page = federated_search(places_of(engines), paged_query, call.cancel)
        milliseconds = 1000 * (time.perf_counter() - started)
        states = [engine.freshness() for _, engine in engines]
        is_full = any(engine.state.over_limit for _, engine in engines)
    left_out = context.left_out if workspace is None else ()
    notes = (*page.notes, *left_out, *context.unheeded)
    if not (page.total or page.is_partial or any("threshold" in note for note in notes)):
        notes = (*notes, "nothing matches")
    metadata = render.search_metadata(replace(page, notes=notes), milliseconds, states)
    body = render.search_answer(
        located, metadata, tokens, several=len(context.names) > 1, offset=offset, key=key
    )
    if page.is_partial or is_full:
        body = render.partial_first(body)
    return Answer(dump(body), structured=body, hits=len(located))


def language_called(name: str) -> str:
    """Resolve a language by its name or by a file extension.

    Raises: InputError ARGUMENT_INVALID.
    """
    key = name.strip().lower()
    if key in chunkers.LANGUAGES:
        return key
    by_extension = chunkers.language_of(f"x.{key}")
    if by_extension == "text" and key not in ("text", "txt"):
        raise InputError(
            "ARGUMENT_INVALID",
            f"unknown language {name!r}",
            suggestions=(
                f"Leave `language` out, or use one of: {', '.join(sorted(chunkers.LANGUAGES))}.",
            ),
        )
    return by_extension


def reindex_workspace(context: Workspaces, arguments: ReindexWorkspace, call: Call) -> Answer:
    """Update the index from the workspace, or rebuild it with `force`.

    A forced run that takes long continues as a job after the answer.
    """
    work = partial(_index, context, arguments)
    notes: list[str] = []
    if arguments.force:
        job, started = context.jobs.start(arguments.workspace, arguments.path, work)
        is_done = job.wait(FORCE_ANSWER_SECONDS, call, owned=started)
        # A rejected request is answered by its error and leaves no job.
        context.jobs.last = job
        if is_done:
            body = _merge_reports(job.reports)
        else:
            body = {"status": "indexing", "job": job.as_json()}
            notes.append(FORCE_GOES_ON)
    else:
        body = _merge_reports(work(partial(report_progress, call), call.cancel))
    body["index"] = status(context, arguments.workspace)
    body["stats"] = stats(context, arguments.workspace)
    if arguments.strategy != "both":
        notes.append(f"strategy `{arguments.strategy}` {STRATEGY_IS_BOTH}")
        with context.open(arguments.workspace) as engines:
            if not any(engine.has_embedder for _, engine in engines):
                notes.append(
                    "no embedder is configured: there are no vectors, words alone were brought "
                    "up to date"
                )
    return Answer(dump({**body, "notes": notes} if notes else body))


def _index(
    context: Workspaces, arguments: ReindexWorkspace, progress: ProgressCallback, cancel: Cancel
) -> list[Json]:
    """Index the workspaces of a call one after the other and return their reports."""
    with context.open(arguments.workspace) as all_engines:
        engines = all_engines if arguments.path is None else _with_path(all_engines, arguments.path)
        reports: list[Json] = []
        for name, engine in engines:
            report = engine.index(
                force=arguments.force,
                paths=None if arguments.path is None else [engine.relative(arguments.path)],
                progress=progress,
                cancel=cancel,
                limited=True,
            )
            reports.append({"workspace": name, **asdict(report)})
        return reports


def _with_path(engines: Sequence[tuple[str, Engine]], path: str) -> list[tuple[str, Engine]]:
    """Select the engines that have something at this path, on disk or in the index.

    Raises: FileError FILE_NOT_FOUND, or PATH_OUTSIDE if the path is in none of the roots.
    """
    matches: list[tuple[str, Engine]] = []
    outside: FileError | None = None
    for name, engine in engines:
        try:
            relative = engine.relative(path)
        except FileError as error:
            outside = error
            continue
        if (engine.root / relative).exists() or engine.knows(relative):
            matches.append((name, engine))
    if matches:
        return matches
    names = ", ".join(name for name, _ in engines)
    raise outside or FileError(
        "FILE_NOT_FOUND", f"there is no {path!r} in {names}", context={"path": path}
    )


def _merge_reports(reports: list[Json]) -> Json:
    """Merge the reports of several workspaces into one answer."""
    total = {key: value for key, value in reports[0].items() if key != "workspace"}
    if len(reports) == 1:
        return total
    for report in reports[1:]:
        for key in ("added", "changed", "deleted", "unchanged", "skipped"):
            total[key] = int(str(total[key])) + int(str(report[key]))
        total["seconds"] = round(float(str(total["seconds"])) + float(str(report["seconds"])), 3)
        if report["status"] != "completed":
            total["status"] = report["status"]
    return {**total, "workspaces": reports}


def status(context: Workspaces, workspace: str | None, start: int | None = None) -> Json:
    """Build the status of one workspace, or of all: sums in the same shape plus each workspace.

    With `start`, skipped files are listed in pages from there; without it a few of each reason.
    """
    parts, states = [], []
    with context.open(workspace) as engines:
        own = start if len(engines) == 1 else None
        for name, engine in engines:
            figures, warnings = engine.vitals(), (*engine.settings.warnings, *context.unheeded)
            if "tfidf" not in engine.settings.indexing.strategies:
                warnings = (*warnings, WORDS_ARE_KEPT)
            states.append((name, figures))
            about = render.About(
                str(engine.root), warnings, engine.state.shortcomings(), engine.state.describe()
            )
            parts.append(render.status_answer(name, figures, about, start=own))
    body = (
        parts[0]
        if len(parts) == 1
        else {**render.sum_status(parts, states, start), "workspaces": parts}
    )
    job = context.jobs.last
    return body if job is None else {**body, "job": job.as_json()}


def stats(context: Workspaces, workspace: str | None) -> Json:
    """Index statistics of the named workspace, or of all."""
    with context.open(workspace) as engines:
        return render.stats_answer([engine.vitals() for _, engine in engines], memory_bytes())


def update_config(context: Workspaces, arguments: UpdateConfig, call: Call) -> Answer:
    """Change settings for all users of the index until they are reset; writes no file."""
    wanted = {key: getattr(arguments.settings, _short(key)) for key in CHANGEABLE}
    changes = {key: value for key, value in wanted.items() if value is not None}
    changed: dict[str, Json] = {}
    reindexing = False
    with context.open(arguments.workspace) as engines:
        for name, engine in engines:
            _check_settings(engine, name, changes)
        for _, engine in engines if changes else ():
            old = engine.settings
            engine.state.change(changes, call.client or "an agent")
            engine.follow_settings()
            new = engine.settings
            different = [key for key in changes if old.value(key) != new.value(key)]
            changed |= {
                _short(key): {"old": _format_setting(old, key), "new": _format_setting(new, key)}
                for key in different
            }
            if any(key in NEEDS_INDEXING for key in (changes if arguments.restart else different)):
                # The process that holds the index lease applies the change by itself.
                reindexing = context.look_again(engine) or not engine.holds_lease() or reindexing
    stale = any(_short(key) in changed for key in NEEDS_INDEXING)
    restart = stale and not reindexing
    return Answer(dump({"changed": changed, "restartNeeded": restart, "reindexing": reindexing}))


def _short(key: str) -> str:
    return key.rpartition(".")[2]


def _format_setting(settings: Settings, name: str) -> object:
    """Format a setting as in a configuration file: sizes as text, numbers as numbers."""
    key, value = known_key(name), settings.value(name)
    return key.show(value) if isinstance(key, Key) and key.kind == "size" else value


def _check_settings(engine: Engine, name: str, changes: Mapping[str, object]) -> None:
    """Reject settings that this workspace doesn't allow, before any engine is changed.

    Raises: ConfigError CONFIG_INVALID.
    """
    provider = changes.get("indexing.embeddingProvider")
    if (
        engine.settings.server.local_only
        and provider is not None
        and leaves(str(provider), engine.settings)
    ):
        raise ConfigError(
            "CONFIG_INVALID",
            f"server.localOnly is on for {name}: {provider!r} is beyond this machine",
            context={"key": "indexing.embeddingProvider"},
        )
    engine.settings.changed(changes)


def get_file_context(context: Workspaces, arguments: GetFileContext, call: Call) -> Answer:
    """Read lines of a file as it is on disk now, with the symbols defined in them."""
    budget = check_budget(arguments.budget, context.settings.search.budget)
    file = view_file(context, arguments.workspace, arguments.path)
    view = file.view
    total = view.text.count("\n") + (not view.text.endswith("\n") and bool(view.text))
    line_range = arguments.lineRange
    start = (line_range.start if line_range else None) or 1
    end = (line_range.end if line_range else None) or (
        start if line_range and line_range.start else max(1, total)
    )
    if start > end:
        raise InputError(
            "ARGUMENT_INVALID", f"lineRange starts at {start} and ends before it, at {end}"
        )
    if start > max(1, total):
        raise InputError(
            "ARGUMENT_INVALID", f"{view.path} has {total} lines, lineRange starts at {start}"
        )
    around = arguments.contextLines if line_range else 0
    workspace = file.workspace if len(context.names) > 1 else ""
    body = render.file_answer(
        view, max(1, start - around), max(1, min(total, end + around)), budget, workspace
    )
    return Answer(dump(body))


@dataclass(frozen=True, slots=True)
class WorkspaceFile:
    """A file, the workspace it belongs to, and the embedder of that workspace's index."""

    workspace: str
    view: FileView
    embedding: dict[str, str] | None


def view_file(context: Workspaces, workspace: str | None, path: str) -> WorkspaceFile:
    """Read the file at this path from the named workspace, or from the one that has it.

    Raises: InputError WORKSPACE_AMBIGUOUS if several workspaces have a file there; FileError, the
    most specific one of the failures.
    """
    failures: list[FileError] = []
    # Keyed by the file itself: nested workspaces both contain it.
    files: dict[Path, WorkspaceFile] = {}
    with context.open(workspace) as engines:
        for name, engine in engines:
            try:
                view = engine.view(path)
                file = WorkspaceFile(name, view, engine.embedding_of_index())
                files.setdefault(engine.root / view.path, file)
            except FileError as error:
                failures.append(error)
    if len(files) > 1:
        raise ambiguous(f"a file {path!r}", [file.workspace for file in files.values()])
    for file in files.values():
        return file
    raise min(failures, key=lambda error: ERROR_PRIORITY.get(error.code, 0))


def _object(**properties: object) -> dict[str, object]:
    return {"type": "object", "properties": properties}


TEXT, NUMBER = {"type": "string"}, {"type": "number"}
SEARCH_OUTPUT: Mapping[str, object] = _object(
    results={
        "type": "array",
        "items": _object(
            file=TEXT,
            chunk=_object(text=TEXT, startLine=NUMBER, endLine=NUMBER),
            relevance=NUMBER,
            context={"type": "object"},
        ),
    },
    metadata=_object(strategy=TEXT, executionTime=NUMBER, totalResults=NUMBER),
)

_tool = partial(Tool, "code", idempotent=True)

TOOLS = (
    _tool(
        "search_code",
        "Search code",
        "Use this first to find where something is in the code: a question in "
        "plain words, a name, an error message "
        "or a path. Answers with the best places (file, lines, text, relevance), ranked, "
        "within a token budget; go on with "
        '`cursor`. "Quoted" text and /regular expressions/ are matched exactly in the current '
        "files.",
        SearchCode,
        search_code,
        writes=False,
        output_schema=SEARCH_OUTPUT,
    ),
    _tool(
        "reindex_workspace",
        "Reindex workspace",
        "Use this only when answers look out of date: the index follows saved "
        "files by itself. Compares the workspace "
        "(or one path in it) with the index and updates what changed; `force` builds "
        "everything anew, at most once a minute, and answers with "
        "a job where that takes more than a moment. "
        "The answer also holds the workspace's status and statistics, and which files are left "
        "out.",
        ReindexWorkspace,
        reindex_workspace,
        writes=True,
    ),
    _tool(
        "update_config",
        "Update configuration",
        "Use this to change how the workspace is indexed or cached (chunkSize, "
        "embeddingProvider, maxFiles, cacheSize) for "
        "everybody who uses its index, until a person ends that. Nothing is written to a file; "
        "the index follows in the background.",
        UpdateConfig,
        update_config,
        writes=True,
    ),
    _tool(
        "get_file_context",
        "Get file context",
        "Use this to read the lines around a search hit, or a whole file, as it is "
        "on disk now, with the definitions "
        "and chunks in that range. Long files come in parts: go on from `nextLine`.",
        GetFileContext,
        get_file_context,
        writes=False,
    ),
    _tool(
        "find_similar_code",
        "Find similar code",
        "Use this before writing code that may exist already, or to find all "
        "places that do the same: give a snippet, "
        "get the most similar code of the workspace, ranked like search_code.",
        FindSimilarCode,
        find_similar_code,
        writes=False,
        output_schema=SEARCH_OUTPUT,
    ),
)
