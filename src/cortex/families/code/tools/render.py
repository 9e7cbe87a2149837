"""Answers of the code tools and resources, rendered within a token budget.

Pure functions from hits and index statistics to the JSON shapes of the tool contract: nothing here
opens, searches or waits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from cortex.base.redaction import note_of
from cortex.base.text import TOKEN_CHARACTERS, cut_to_tokens, estimate_tokens
from cortex.base.types import (
    Chunk,
    FileView,
    Freshness,
    Hit,
    Mode,
    Page,
    Skipped,
    StoreStats,
    Symbol,
)
from cortex.engine.search.federated import FederatedHit
from cortex.toolkit.pagination import dump, make_cursor, take_fitting, too_small

# Share of the budget that hits without text may take.
SKELETON_SHARE = 0.3
# A hit with less text than this isn't worth its place.
MIN_TEXT_TOKENS = 40
# Files of each skip reason that an answer lists by default.
SKIPPED_EXAMPLES = 3
# Files per page when a cursor asks for the skipped files.
SKIPPED_PAGE = 200
OVER_LIMITS = ("over maxFiles", "too large")
# Characters of an index error that are repeated in every answer.
ERROR_CHARACTERS = 200
STRATEGIES: Mapping[Mode, str] = {
    Mode.MEANING: "embeddings",
    Mode.WORDS: "tfidf",
    Mode.FULL: "fullworkspace",
    Mode.HYBRID: "hybrid",
    Mode.EXACT: "exact",
}

Json = dict[str, object]


def search_answer(
    located: Sequence[FederatedHit],
    metadata: Json,
    budget: int,
    *,
    several: bool,
    offset: int,
    key: str,
) -> Json:
    """Build the search answer: the best hits with text, the rest as file, lines and relevance.

    The answer never exceeds the budget.
    """
    total = int(str(metadata["totalResults"]))
    characters = budget * TOKEN_CHARACTERS
    metadata = _shorten_notes(metadata, characters // 4)
    room = characters - len(
        dump({"results": [], "metadata": {**metadata, "truncated": True, "cursor": "x" * 60}})
    )
    results, cut = _choose(located, room, several)
    if located and not results:
        raise too_small(characters - room + len(dump(_result(located[0], None, several))) + 1)
    next_offset = offset + len(results)
    metadata = {**metadata, "truncated": cut or len(results) < len(located)}
    if next_offset < total:
        metadata["cursor"] = make_cursor(key, next_offset)
    return {"results": results, "metadata": metadata}


def _choose(located: Sequence[FederatedHit], room: int, several: bool) -> tuple[list[Json], bool]:
    """Select as many hits as fit into `room` characters, the first ones with their text.

    The second value is true when a text was left out or cut.
    """
    skeletons = [_result(located_hit, None, several) for located_hit in located]
    costs = [len(dump(skeleton)) + 1 for skeleton in skeletons]
    for_text = room - min(sum(costs), int(room * SKELETON_SHARE))
    results: list[Json] = []
    cut = False
    for located_hit, skeleton, cost in zip(located, skeletons, costs, strict=True):
        text = located_hit.hit.text
        chosen = _result(located_hit, text, several) if text and not cut else None
        if chosen is not None and len(dump(chosen)) >= for_text:
            cut, chosen = True, _fit(located_hit, for_text, several)
        size = len(dump(chosen)) + 1 if chosen else cost
        if size > room:
            break
        results.append(chosen or skeleton)
        room -= size
        for_text -= size
    return results, cut or not all(located_hit.hit.text for located_hit in located)


def _shorten_notes(metadata: Json, characters: int) -> Json:
    """Drop or shorten notes that exceed their share of the budget."""
    notes = metadata.get("notes")
    if not isinstance(notes, list):
        return metadata
    kept: list[str] = []
    for note in notes:
        characters -= len(dump(note)) + 1
        if characters < 0:
            note = note[: max(0, len(note) + characters - 1)] + "…"
        if len(note) > 1:
            kept.append(note)
        if characters < 0:
            break
    return {**metadata, "notes": kept}


def _fit(located_hit: FederatedHit, characters: int, several: bool) -> Json | None:
    """Render the hit with as many lines as fit, or None if that is hardly any."""
    empty = _result(located_hit, "", several, partial=True)
    tokens = (characters - len(dump(empty))) // TOKEN_CHARACTERS
    while tokens >= MIN_TEXT_TOKENS:
        text = cut_to_tokens(located_hit.hit.text, tokens)
        full = _result(located_hit, text, several, partial=True)
        if len(dump(full)) < characters:
            return full
        # Quotes and line ends cost a second character in JSON.
        tokens = tokens * 9 // 10
    return None


def _result(
    located_hit: FederatedHit, text: str | None, several: bool, *, partial: bool = False
) -> Json:
    """Render a hit without text, with its text, or with a part of it.

    The line numbers are always those of the whole hit.
    """
    hit = located_hit.hit
    chunk: Json = {} if text is None else {"text": text}
    chunk |= {"startLine": hit.start_line, "endLine": hit.end_line}
    if partial:
        chunk["truncated"] = True
    out: Json = {"file": hit.path, "chunk": chunk, "relevance": hit.relevance}
    if several:
        out["workspace"] = located_hit.source
    if text is not None:
        out["context"] = context_of(hit)
    return out


def context_of(hit: Hit) -> Json:
    """Describe the place of a hit in the code: function, class, language, match reason."""
    out: Json = {}
    parent = hit.qualified.rpartition(".")[0]
    if hit.kind in ("function", "method", "constructor", "macro"):
        out["function"] = hit.name
        if parent:
            out["class"] = parent
    elif hit.kind == "section":
        out["section"] = hit.qualified
    elif hit.name and hit.kind != "block":
        out["class"] = hit.qualified or hit.name
    if hit.language:
        out["language"] = hit.language
    if hit.why:
        out["why"] = hit.why
    return out


def search_metadata(page: Page, milliseconds: float, states: Sequence[Freshness]) -> Json:
    """Describe how an answer was made: strategy, time, totals and index freshness."""
    out: Json = {
        "strategy": STRATEGIES[page.mode],
        "executionTime": round(milliseconds, 1),
        "totalResults": page.total,
        "index": freshness(states),
    }
    if page.notes:
        out["notes"] = list(page.notes)
    return out


def partial_first(body: Json) -> Json:
    """Move the metadata to the front, so that an agent reads first that files are missing."""
    metadata = body["metadata"]
    assert isinstance(metadata, dict)
    return {
        "metadata": {"notes": [], **metadata},
        **{key: body[key] for key in body if key != "metadata"},
    }


def freshness(states: Sequence[Freshness]) -> Json:
    """Summarize the index state of all searched workspaces."""
    busy = next((state for state in states if state.state != "ready"), None)
    out: Json = {
        "status": busy.state if busy else "ready",
        "lastIndexed": min((s.last_indexed for s in states), default=""),
    }
    if busy and busy.state == "indexing":
        out["progress"] = busy.progress
    if busy and busy.error:
        out["error"] = busy.error[:ERROR_CHARACTERS]
    return out


def resource_answer(
    query: str, located: Sequence[FederatedHit], page: Page, metadata: Json, *, several: bool
) -> Json:
    """Build the search answer in the shape of the search resource."""
    results: list[Json] = []
    for located_hit in located:
        body = _result(located_hit, located_hit.hit.text or None, several)
        chunk = body["chunk"]
        assert isinstance(chunk, dict)
        if located_hit.hit.text:
            chunk["tokens"] = estimate_tokens(located_hit.hit.text)
        results.append(
            {"file": body["file"], "fileName": located_hit.hit.path.rsplit("/", 1)[-1], **body}
        )
    return {
        "query": query,
        "strategy": metadata["strategy"],
        "executionTime": metadata["executionTime"],
        "totalResults": page.total,
        "results": results,
        "metadata": {
            "searchedFiles": page.docs,
            "searchedChunks": page.chunks,
            "cacheHit": page.cached,
            **{key: metadata[key] for key in ("index", "notes") if key in metadata},
        },
    }


def file_answer(view: FileView, start: int, end: int, budget: int, workspace: str) -> Json:
    """Render lines of a file with the symbols defined in them, within the budget.

    `workspace` is included when it isn't empty, that is, when there are several.

    Raises: InputError BUDGET_TOO_SMALL if not even the file name fits.
    """
    lines = view.text.split("\n")
    if lines and not lines[-1]:
        lines.pop()
    characters = budget * TOKEN_CHARACTERS
    body: Json = {
        "file": view.path,
        "language": view.language,
        "startLine": start,
        "endLine": end,
        "totalLines": len(lines),
        "text": "",
        **_defined_in(view, start, end, characters // 4),
    }
    if workspace:
        body["workspace"] = workspace
    room = characters - len(dump(body)) - len(',"truncated":true,"nextLine":') - 10
    room -= len(
        dump(note_of((view.path, leak) for leak in view.redacted if start <= leak[0] <= end))
    )
    if room < 0:
        raise too_small(characters - room)
    text, last, cut = _lines_within(lines, start, end, room)
    body["text"], body["endLine"] = text, last
    if notes := note_of((view.path, leak) for leak in view.redacted if start <= leak[0] <= last):
        body["notes"] = list(notes)
    if cut or last < end:
        body["truncated"] = True
    if last < end:
        body["nextLine"] = last + 1
    return body


def chunks_answer(
    view: FileView,
    embedding: Mapping[str, str] | None,
    start: int,
    budget: int,
    notes: Sequence[str] = (),
) -> Json:
    """Render a file's chunks from ordinal `start` on, within the budget.

    `cursor` is the ordinal of the next chunk.
    """
    out: Json = {
        "file": view.path,
        "language": view.language,
        "size": view.size,
        "lastModified": view.modified,
    }
    if notes:
        out["notes"] = list(notes)
    room = budget * TOKEN_CHARACTERS - len(dump(out))
    chunks: list[Json] = []
    for chunk in view.chunks[start:]:
        text = view.text[chunk.start : chunk.end]
        body: Json = {
            "index": chunk.ordinal,
            "text": text,
            "startLine": chunk.start_line,
            "endLine": chunk.end_line,
            "tokens": estimate_tokens(text),
            "embedding": embedding,
        }
        size = len(dump(body)) + 1
        if size > room and chunks:
            break
        if size > room:
            # The first chunk always comes, or there would be no way past it.
            body |= {
                "text": _cut_line(text, max(room - size + len(dump(text)), TOKEN_CHARACTERS)),
                "truncated": True,
            }
        chunks.append(body)
        room -= size
    out["chunks"] = chunks
    following = start + len(chunks)
    if following < len(view.chunks):
        out |= {"totalChunks": len(view.chunks), "truncated": True, "cursor": str(following)}
    return out


def _defined_in(view: FileView, start: int, end: int, characters: int) -> Json:
    """List the symbols and chunks in these lines, each list within its share of the budget."""
    symbols = [
        _symbol(symbol)
        for symbol in view.symbols
        if symbol.start_line <= end and symbol.end_line >= start
    ]
    chunks = [
        _chunk(chunk)
        for chunk in view.chunks
        if chunk.start_line <= end and chunk.end_line >= start
    ]
    return {
        "symbols": take_fitting(symbols, characters),
        "chunks": take_fitting(chunks, characters),
    }


def _lines_within(lines: Sequence[str], start: int, end: int, room: int) -> tuple[str, int, bool]:
    """Take as many lines as fit, at least a part of the first.

    Returns the text, the number of its last line, and whether that line was cut.
    """
    taken: list[str] = []
    for line in lines[start - 1 : end]:
        # The quotes stand for the line end, which costs two characters in JSON.
        room -= len(dump(line))
        if room < 0 and taken:
            break
        if room < 0:
            return _cut_line(line, room + len(dump(line))), start, True
        taken.append(line)
    return "\n".join(taken), start + max(0, len(taken) - 1), False


def _cut_line(line: str, characters: int) -> str:
    """Cut a line so that it costs at most this many characters in JSON."""
    part = line[:characters]
    while len(dump(part)) - 2 > characters:
        part = part[: len(part) * 9 // 10]
    return part


def _symbol(symbol: Symbol) -> Json:
    return {
        "name": symbol.qualified,
        "kind": symbol.kind,
        "startLine": symbol.start_line,
        "endLine": symbol.end_line,
    }


def _chunk(chunk: Chunk) -> Json:
    return {
        "index": chunk.ordinal,
        "startLine": chunk.start_line,
        "endLine": chunk.end_line,
        "kind": chunk.kind,
        "name": chunk.qualified or chunk.name,
    }


@dataclass(frozen=True, slots=True)
class About:
    """Facts of a workspace's status that are not index statistics."""

    path: str
    warnings: Sequence[str] = ()
    notes: Sequence[str] = ()
    settings: Mapping[str, object] = field(default_factory=dict)


def status_answer(name: str, vitals: StoreStats, about: About, *, start: int | None = None) -> Json:
    """Render the status of one workspace; `start` is as in `_skipped`."""
    embedding = vitals.embedding
    skipped = _skipped([({}, skip) for skip in vitals.skipped], start)
    out: Json = {
        "workspace": {
            "path": about.path,
            "name": name,
            "lastIndexed": vitals.freshness.last_indexed or None,
        },
        "indexing": {
            "status": vitals.freshness.state,
            **_counts([vitals]),
            "progress": vitals.freshness.progress,
        },
        "strategies": {
            "available": [*(["embeddings"] if embedding else []), "tfidf", "fullworkspace"],
            "preferred": "embeddings" if embedding and embedding.answering else "tfidf",
            "fallback": ["tfidf"] if embedding else ["fullworkspace"],
        },
        "embedding": embedding.as_json() if embedding else None,
        "cache": _cache([vitals]),
        "skipped": skipped,
        "lease": {"held": vitals.holder, "pid": vitals.holder_pid},
    }
    if vitals.freshness.error:
        out["error"] = vitals.freshness.error
    if about.settings:
        out["settings"] = dict(about.settings)
    if notes := [*about.notes, *_notes(skipped)]:
        out["notes"] = notes
    if about.warnings:
        out["warnings"] = list(about.warnings)
    return out


def _counts(states: Sequence[StoreStats]) -> Json:
    return {
        "totalFiles": sum(state.total_files for state in states),
        "indexedFiles": sum(state.indexed_files for state in states),
        "skippedFiles": sum(len(state.skipped) for state in states),
        "totalChunks": sum(state.chunks for state in states),
        "embeddedChunks": sum(state.embedded_chunks for state in states),
    }


def _cache(states: Sequence[StoreStats]) -> Json:
    cleanups = [state.last_cleanup for state in states if state.last_cleanup]
    return {
        "memoryUsage": size_text(sum(state.cache_bytes for state in states)),
        "diskUsage": size_text(sum(state.disk_bytes for state in states)),
        "hitRate": _cache_hit_rate(states),
        "lastCleanup": min(cleanups, default=None),
    }


def _skipped(skips: Sequence[tuple[Json, Skipped]], start: int | None) -> Json:
    """Count the skipped files by reason and list some, those over a limit first.

    Without `start` a few of each reason are listed, from 0 on all in pages. Each file comes with
    the fields that are paired with it.
    """
    reasons: Counter[str] = Counter()
    examples: list[tuple[Json, Skipped]] = []
    ordered = sorted(skips, key=lambda pair: pair[1].reason not in OVER_LIMITS)
    for extra, skip in ordered:
        reasons[skip.reason] += 1
        if reasons[skip.reason] <= SKIPPED_EXAMPLES:
            examples.append((extra, skip))
    named = examples if start is None else ordered[start : start + SKIPPED_PAGE]
    following = 0 if start is None and len(examples) < len(skips) else (start or 0) + len(named)
    out: Json = {
        "total": len(skips),
        "byReason": _most_first(reasons),
        "files": [{"file": skip.path, "reason": skip.reason, **extra} for extra, skip in named],
    }
    return {**out, "cursor": str(following)} if named and following < len(skips) else out


def _notes(skipped: Json) -> list[str]:
    """Say where the skipped files are listed that `_skipped` left out."""
    if "cursor" not in skipped:
        return []
    more = "`cortex doctor --json` lists all, the status resource those from this `cursor` on"
    return [f"not all of the {skipped['total']} skipped files are named: {more}"]


def _cache_hit_rate(states: Sequence[StoreStats]) -> float:
    return round(_mean_of_searched(states, "cache_hit_rate"), 4)


def _mean_of_searched(states: Sequence[StoreStats], name: str) -> float:
    """Average over the workspaces that were searched: the others would only pull it down."""
    values = [getattr(state, name) for state in states if state.average_search_ms]
    return sum(values) / max(1, len(values))


def _most_first(counts: Mapping[str, int]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])))


def sum_status(
    parts: Sequence[Json], states: Sequence[tuple[str, StoreStats]], start: int | None = None
) -> Json:
    """Merge several statuses: counts added up, the worst state, the embedder furthest behind.

    Everything else is taken from the first status.
    """
    vitals = [state for _, state in states]
    conditions = [state.freshness.state for state in vitals]
    indexing: Json = {
        **_counts(vitals),
        "status": next((worst for worst in ("error", "indexing") if worst in conditions), "ready"),
        "progress": min((state.freshness.progress for state in vitals), default=0.0),
    }
    skipped = _skipped(
        [({"workspace": name}, skip) for name, state in states for skip in state.skipped], start
    )
    behind = min(
        (state.embedding for state in vitals if state.embedding),
        key=lambda embedding: embedding.share,
        default=None,
    )
    out: Json = {
        **parts[0],
        "indexing": indexing,
        "embedding": behind.as_json() if behind else None,
        "cache": _cache(vitals),
        "skipped": skipped,
        "notes": _notes(skipped),
    }
    return out if out["notes"] else {key: value for key, value in out.items() if key != "notes"}


def stats_answer(states: Sequence[StoreStats], memory_bytes: int) -> Json:
    """Render index statistics over one or several workspaces."""
    languages: Counter[str] = Counter()
    sizes: Counter[str] = Counter(small=0, medium=0, large=0)
    for state in states:
        languages.update(state.languages)
        sizes.update(state.sizes)
    chunks = sum(state.chunks for state in states)
    tokens = sum(state.average_chunk_tokens * state.chunks for state in states)
    return {
        "files": {
            "total": sum(state.indexed_files for state in states),
            "byLanguage": _most_first(languages),
            "bySize": dict(sizes),
        },
        "chunks": {
            "total": chunks,
            "averageSize": round(tokens / chunks, 1) if chunks else 0,
            "embedded": sum(state.embedded_chunks for state in states),
            "tfidfIndexed": chunks,
        },
        "performance": {
            "averageSearchTime": round(_mean_of_searched(states, "average_search_ms"), 2),
            "indexingTime": round(1000 * sum(state.indexing_seconds for state in states)),
            "cacheHitRate": _cache_hit_rate(states),
            "memoryUsage": size_text(memory_bytes),
        },
    }


def size_text(size: int) -> str:
    """Format a size as people write it: 245MB."""
    for unit, power in (("GB", 30), ("MB", 20), ("KB", 10)):
        if size >= 1 << power:
            value = size / (1 << power)
            return f"{value:.1f}{unit}" if value < 10 else f"{value:.0f}{unit}"
    return f"{size}B"
