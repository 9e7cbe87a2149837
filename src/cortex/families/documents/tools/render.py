"""Render the results of the document tools as text within a token budget.

Pure functions: nothing here opens, searches or waits. Names and headings are single lines, so that
they can't pass for a line of ours; document text is fenced, with fences that it doesn't contain.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from cortex.base.text import TOKEN_CHARACTERS, cut_to_tokens, fenced, one_line
from cortex.engine.store import Folder
from cortex.families.documents.passages import Excerpt, Passage
from cortex.families.documents.search import PAGE_END, DocumentResult, DocumentResults
from cortex.families.documents.status import Overview, SourceState, totals_of
from cortex.toolkit.pagination import make_cursor, too_small

# Unreadable files that are listed in an answer; the others are counted.
NAMED_FILES = 20
# Characters reserved for the cursor.
CURSOR_ROOM = 160
# Shorter texts aren't worth their fences.
MIN_TEXT_TOKENS = 30
_UNITS = ((86_400, "day"), (3_600, "hour"), (60, "minute"))


# -- search


def search_text(query: str, page: DocumentResults, budget: int, offset: int, key: str) -> str:
    """Render results with snippets, the last ones without if the budget ends, and a cursor."""
    notes = _notes(page)
    head = _found_line(len(page.results), query) + notes
    room = budget * TOKEN_CHARACTERS - len(head) - CURSOR_ROOM
    blocks: list[str] = []
    for result in page.results:
        block = _result_text(result, with_text=True)
        if len(block) + 2 > room:
            block = _result_text(result, with_text=False)
        if len(block) + 2 > room:
            break
        blocks.append(block)
        room -= len(block) + 2
    if page.results and not blocks:
        short = len(_result_text(page.results[0], with_text=False))
        raise too_small(budget * TOKEN_CHARACTERS - room + short + 2)
    parts = [_found_line(len(blocks), query) + notes, *blocks]
    after = offset + len(blocks)
    if after < page.total and blocks:
        parts.append(f'{page.total - after:,} more: go on with cursor "{make_cursor(key, after)}"')
    return "\n\n".join(parts)


def _found_line(count: int, query: str) -> str:
    return f"Found {count} result{'' if count == 1 else 's'} for: {one_line(query)}"


def _notes(page: DocumentResults) -> str:
    """Notes about a degraded mode, and those of the search."""
    lines = [f"Mode: {page.mode} (degraded)"] if page.degraded else []
    lines += [f"Note: {one_line(note, 500)}" for note in page.notes]
    return "".join(f"\n{line}" for line in lines)


def _result_text(result: DocumentResult, *, with_text: bool) -> str:
    lines = [
        f"**{one_line(result.title)}** (score: {result.score:.2f})",
        f"Path: {one_line(result.path, 500)}",
        f"Lines: {result.start_line}-{result.end_line}",
        *([f"Section: {one_line(result.section)}"] if result.section else []),
        *([f"Page: {result.page}"] if result.page else []),
        f"Source: {_named(result.folder)}",
        f"document_id: {result.document_id}",
        *(["", fenced(result.snippet)] if with_text and result.snippet.strip() else []),
    ]
    return "\n".join(lines)


def _named(folder: Folder) -> str:
    return f"{one_line(folder.name)} (ID: {folder.key})"


def context_text(
    query: str, page: DocumentResults, excerpts: Sequence[Excerpt], budget: int
) -> str:
    """Render documents with passages and citations; better documents get a larger share."""
    counted = "1 document" if len(excerpts) == 1 else f"{len(excerpts)} documents"
    lead = f'## Relevant Context\n\n*Found {counted} for: "{one_line(query)}"*{_notes(page)}'
    room = budget * TOKEN_CHARACTERS - len(lead)
    parts: list[str] = []
    for index, excerpt in enumerate(excerpts):
        left = len(excerpts) - index
        # Shares decrease evenly; the last document gets the rest.
        share = room * 2 // (left + 1)
        part = _excerpt_text(index + 1, excerpt, share)
        if part is None:
            continue
        parts.append(part)
        room -= len(part)
    if excerpts and not parts:
        raise too_small(len(lead) + len(_head(1, excerpts[0].result)) + 80 * TOKEN_CHARACTERS)
    return lead + "".join(parts)


def _head(number: int, result: DocumentResult) -> str:
    head = f"\n\n### {number}. {one_line(result.title)}\n[document_id: {result.document_id}]"
    return f"{head} (source: {one_line(result.folder.name)}, score: {result.score:.2f})"


def _excerpt_text(number: int, excerpt: Excerpt, room: int) -> str | None:
    """Render a document with the passages that fit, in reading order; None if none fits."""
    head, end = _head(number, excerpt.result), "\n\n---"
    room -= len(head) + len(end)
    chosen: list[tuple[Passage, str]] = []
    for passage in excerpt.passages:
        text = _passage_text(excerpt.result, passage, room)
        if text is None:
            break
        chosen.append((passage, text))
        room -= len(text)
    if not chosen:
        return None
    chosen.sort(key=lambda entry: entry[0].start_line)
    return head + "".join(text for _, text in chosen) + end


def _passage_text(result: DocumentResult, passage: Passage, room: int) -> str | None:
    where = f" (page {passage.page})" if passage.page else ""
    where += f", lines {passage.start_line}-{passage.end_line}"
    where += f" - {one_line(passage.section)}" if passage.section else ""
    head = f"\n\n*Source: {one_line(result.path, 500)}{where}*\n\n"
    text = passage.text.replace(PAGE_END, "").strip("\n")
    whole = head + fenced(text)
    if len(whole) <= room:
        return whole
    tokens = (room - len(head) - (len(fenced(text)) - len(text)) - 2) // TOKEN_CHARACTERS
    return head + fenced(cut_to_tokens(text, tokens) + "\n…") if tokens >= MIN_TEXT_TOKENS else None


# -- documents


def document_text(
    facts: Sequence[tuple[str, str]], title: str, text: str, start: int, budget: int, key: str
) -> str:
    """Render a document from `start`: its facts and the text that fits the budget.

    The text is cut at the end of a line.
    """
    head = f"**{one_line(title)}**\n" + "\n".join(
        f"{name}: {one_line(value, 500)}" for name, value in facts
    )
    room = budget * TOKEN_CHARACTERS - len(head) - CURSOR_ROOM - 2 * len("\n````text\n")
    if room < MIN_TEXT_TOKENS * TOKEN_CHARACTERS:
        raise too_small(len(head) + CURSOR_ROOM + 2 * MIN_TEXT_TOKENS * TOKEN_CHARACTERS)
    part = text[start:]
    if len(part) > room:
        part = part[:room]
        line_end = part.rfind("\n") + 1
        part = part[:line_end] if line_end > room // 2 else part
    end = start + len(part)
    if start or end < len(text):
        head += f"\nCharacters: {start + 1:,}-{end:,} of {len(text):,}"
    if pages := text.count(PAGE_END):
        first = 1 + text.count(PAGE_END, 0, start)
        last = min(pages, 1 + text.count(PAGE_END, 0, max(start, end - 1)))
        part_of = f"{first}-{last} of " if (first, last) != (1, pages) else ""
        head += f"\nPages: {part_of}{pages}"
    body = f"{head}\n\n{fenced(part.replace(PAGE_END, '').strip(chr(10)))}"
    if end < len(text):
        body += (
            f'\n\n{len(text) - end:,} characters more: go on with cursor "{make_cursor(key, end)}"'
        )
    return body


# -- sources


def sources_text(states: Sequence[SourceState], now: datetime | None = None) -> str:
    """Render the sources with their paths and counts."""
    if not states:
        return (
            "Knowledge Base Sources\n\nThere are no sources yet. A person adds one with: "
            "cortex kb add PATH"
        )
    return "\n\n".join(("Knowledge Base Sources", *(source_text(state, now) for state in states)))


def source_text(state: SourceState, now: datetime | None = None) -> str:
    """Render one source in three lines, and one more if its folder is missing."""
    lines = [
        f"• {_named(state.folder)}",
        f"  Path: {one_line(state.folder.source.root, 1000)}",
        f"  Documents: {state.documents:,} | Chunks: {state.chunks:,} | Last sync: "
        f"{ago(state.figures.indexed_at, now)}",
    ]
    if not state.figures.present:
        lines.append("  The folder is not there now; what it held is still found.")
    return "\n".join(lines)


def stats_text(
    overview: Overview, states: Sequence[SourceState], now: datetime | None = None
) -> str:
    """Render counts, capabilities, and unreadable files."""
    lines = [
        stats_head(overview, states, one_line),
        "",
        *(f"{label}: {value}" for label, value in stats_rows(overview, states, now)),
        "Search capabilities:",
        "  Keyword (fts5): available",
        f"  Semantic: {overview.semantic}",
        f"  Hybrid: {'available' if overview.meaning else 'keyword only'}",
    ]
    lines += unread_lines(states, NAMED_FILES)
    return "\n".join(lines)


def stats_head(
    overview: Overview, states: Sequence[SourceState], name: Callable[[str], str] = str
) -> str:
    """Heading of the statistics, with the source if it is one."""
    if not overview.single:
        return "Knowledge Base Statistics"
    folder = states[0].folder
    return f"Knowledge Base Statistics: {name(folder.name)} (ID: {folder.key})"


def stats_rows(
    overview: Overview, states: Sequence[SourceState], now: datetime | None = None
) -> list[tuple[str, str]]:
    """Labels and values of the counts of one source, or of all."""
    totals = totals_of(states)
    last_sync = ("Last sync", ago(states[0].figures.indexed_at, now)) if overview.single else None
    return [
        last_sync or ("Sources", str(len(states))),
        ("Documents", f"{totals['documents']:,}"),
        ("Chunks", f"{totals['chunks']:,}"),
        ("Total size", size_text(totals["size"])),
    ]


def unread_lines(
    states: Sequence[SourceState], most: int, name: Callable[[str], str] = one_line
) -> list[str]:
    """List unreadable documents with reasons, and count the files that aren't documents."""
    unread = [(state, file) for state in states for file in state.unread]
    lines: list[str] = []
    if unread:
        lines.append(f"Files that could not be read: {len(unread):,}")
        several = len(states) > 1
        for state, file in unread[:most]:
            place = f"{state.folder.name}: {file.path}" if several else file.path
            lines.append(f"  {name(place)}: {name(file.reason)}")
        if len(unread) > most:
            lines.append(f"  and {len(unread) - most:,} more")
    others: Counter[str] = Counter()
    for state in states:
        others.update(state.others)
    if others:
        counted = ", ".join(f"{count:,} {reason}" for reason, count in sorted(others.items()))
        lines.append(f"Left out by kind: {counted}")
    return lines


def ago(moment: str, now: datetime | None = None) -> str:
    """Age of an RFC 3339 time in words."""
    if not moment:
        return "never"
    seconds = int(((now or datetime.now(UTC)) - datetime.fromisoformat(moment)).total_seconds())
    for size, unit in _UNITS:
        if seconds >= size:
            count = seconds // size
            return f"{count} {unit}{'' if count == 1 else 's'} ago"
    return "just now"


def size_text(size: int) -> str:
    """Human-readable size."""
    for unit, bytes_ in (("GB", 1_000_000_000), ("MB", 1_000_000), ("KB", 1_000)):
        if size >= bytes_:
            return f"{size / bytes_:.1f} {unit}"
    return f"{size} bytes"
