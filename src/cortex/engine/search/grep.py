"""Literal or regular expression search over the files as they are on disk, without an index.

Matching lines become hits with a little context; matches near each other are one hit. The `regex`
module is used because it can be interrupted: the standard one runs an exploding expression to its
end. Expressions see files with secrets redacted; otherwise a client could guess a secret letter by
letter, even though it is never shown.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from cortex.base.errors import Cancelled, InputError, LimitError
from cortex.base.redaction import CLEAN, RedactedText, note_of, redaction_of
from cortex.base.text import role_of
from cortex.base.types import Cancel, Hit, Mode, Page, Query, ScannedFile, Source, UnreadableFile
from cortex.engine.chunkers import HEAD_CHARACTERS, language_of
from cortex.engine.readers import read
from cortex.engine.search.pattern_check import rejection_reason
from cortex.engine.sources.scanner import read_bytes
from cortex.engine.store import extension_of

CONTEXT_LINES = 2
# A pattern that matches everything stops here.
MAX_HITS = 2_000
STOPPED = f"stopped at {MAX_HITS:,} matches, there may be more: narrow the search"
# Limit for an expression in one file. One that takes longer explodes, and would do so in the next
# file, too.
FILE_SECONDS = 5.0
# Texts remembered as free of secrets.
MAX_CLEAN = 100_000

Find = Callable[[str], Iterator[tuple[int, int]]]


@dataclass(slots=True)
class Matches:
    """Matches of a pattern, and how far the search came."""

    hits: list[Hit]
    # Files searched so far.
    searched: int = 0
    # Stopped early; there may be more matches.
    stopped: bool = False

    def page(self, query: Query) -> Page:
        """Page of the hits that the query asks for, with notes."""
        shown = tuple(self.hits[query.offset : query.offset + query.limit])
        notes = (*((STOPPED,) if self.stopped else ()), *redaction_note(shown))
        return Page(shown, len(self.hits), Mode.EXACT, notes, docs=self.searched)


def redaction_note(hits: Sequence[Hit]) -> tuple[str, ...]:
    """Note that names the redacted lines of these hits; empty without any."""
    return note_of((hit.path, redacted) for hit in hits for redacted in hit.redacted)


def search_exact(
    query: Query,
    source: Source,
    files: Iterable[ScannedFile],
    *,
    deadline: float,
    max_file_size: int,
    cancel: Cancel,
    redacted: bool = True,
) -> Matches:
    """Find every match of the pattern in the files.

    Ordinary code comes first, then the order is by number of matches, path and line.

    Raises: InputError REGEX_INVALID, LimitError REGEX_TIMEOUT or SEARCH_TIMEOUT, Cancelled.
    """
    find = _finder(query, deadline)
    matches = Matches([])
    wanted = [file for file in files if _is_wanted(file.path, query)]
    for file in sorted(wanted, key=lambda file: (bool(role_of(file.path)), file.path)):
        _check_time(cancel, deadline, file.path)
        if len(matches.hits) >= MAX_HITS:
            matches.stopped = True
            break
        raw = read_bytes(Path(source.root), file.path, max_file_size)
        text = raw if isinstance(raw, UnreadableFile) else read(raw, file.path)
        if isinstance(text, UnreadableFile):
            continue
        language = language_of(file.path, text[:HEAD_CHARACTERS])
        if query.languages and language not in query.languages:
            continue
        matches.searched += 1
        # A text without the literal needs no scan for secrets.
        redaction = (
            _redaction_of(text) if redacted and (query.regex or query.text in text) else CLEAN
        )
        text = redaction.text if redaction else text
        spans = list(islice(find(text), MAX_HITS))
        matches.stopped |= len(spans) == MAX_HITS
        spans = [span for span in spans if not redaction.hides(*span)] if redaction else spans
        matches.hits.extend(_hits_in(file.path, language, text, source.id, spans, redaction))
    matches.hits.sort(
        key=lambda hit: (bool(role_of(hit.path)), -hit.score, hit.path, hit.start_line)
    )
    return matches


def _check_time(cancel: Cancel, deadline: float, path: str) -> None:
    if cancel:
        raise Cancelled()
    if time.monotonic() > deadline:
        raise LimitError(
            "SEARCH_TIMEOUT", "the search ran out of time", context={"files_left_from": path}
        )


# Hashes of texts without secrets.
_clean: set[int] = set()


def _redaction_of(text: str) -> RedactedText:
    """Redact a text; texts without secrets, most of them, are remembered by their hash."""
    key = hash(text)
    if key in _clean:
        return CLEAN
    redaction = redaction_of(text)
    if not redaction:
        if len(_clean) >= MAX_CLEAN:
            _clean.clear()
        _clean.add(key)
    return redaction


def _finder(query: Query, deadline: float) -> Find:
    if not query.regex:
        return lambda text: _find_literal(text, query.text)
    if reason := rejection_reason(query.text):
        raise InputError(
            "REGEX_INVALID",
            f"the expression is refused: {reason}",
            context={"pattern": query.text[:200]},
        )
    # Imported here because few queries are expressions.
    import regex

    try:
        pattern = regex.compile(query.text, regex.MULTILINE | regex.VERSION0, cache_pattern=False)
    except (regex.error, ValueError, RecursionError, OverflowError, MemoryError) as error:
        raise InputError(
            "REGEX_INVALID", f"not a regular expression: {error}", context={"pattern": query.text}
        ) from error

    def find(text: str) -> Iterator[tuple[int, int]]:
        # The engine's timeout counts processor time, which a busy machine stretches: hence the look
        # at the wall clock for each match.
        left = min(FILE_SECONDS, max(0.01, deadline - time.monotonic()))
        try:
            for match in pattern.finditer(text, timeout=left, concurrent=True):
                if time.monotonic() > deadline:
                    raise TimeoutError
                yield match.span()
        except (TimeoutError, MemoryError) as error:
            what = "time" if isinstance(error, TimeoutError) else "memory"
            raise LimitError(
                "REGEX_TIMEOUT",
                f"the expression takes too much {what} on this workspace",
                context={"pattern": query.text},
            ) from error

    return find


def _find_literal(text: str, wanted: str) -> Iterator[tuple[int, int]]:
    at = text.find(wanted)
    while at >= 0:
        yield at, at + len(wanted)
        at = text.find(wanted, at + max(1, len(wanted)))


def _hits_in(
    path: str,
    language: str,
    text: str,
    source: int,
    spans: Sequence[tuple[int, int]],
    redaction: RedactedText,
) -> Iterator[Hit]:
    if not spans:
        return
    lines = text.split("\n")
    # An empty string after the last line end is no line.
    total = len(lines) - (not lines[-1])
    for first, last, count in _groups(_lines_of(text, spans)):
        start, end = max(1, first - CONTEXT_LINES), max(last, min(total, last + CONTEXT_LINES))
        yield Hit(
            source=source,
            doc=0,
            chunk=0,
            path=path,
            start_line=start,
            end_line=end,
            text="\n".join(lines[start - 1 : end]),
            score=float(count),
            relevance=1.0,
            language=language,
            why=f"exact match in line {first}",
            redacted=tuple(line for line in redaction.lines if start <= line[0] <= end),
        )


def _lines_of(text: str, spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """First and last line of each span; spans are in order, so the text is counted once."""
    out: list[tuple[int, int]] = []
    line, at = 1, 0
    for start, end in spans:
        line += text.count("\n", at, start)
        at = start
        out.append((line, line + text.count("\n", start, max(start, end - 1))))
    return out


def _groups(lines: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int, int]]:
    first, last = lines[0]
    count = 0
    for start, end in lines:
        if start > last + 2 * CONTEXT_LINES + 1:
            yield first, last, count
            first, count = start, 0
        last = max(last, end) if count else end
        count += 1
    yield first, last, count


def _is_wanted(path: str, query: Query) -> bool:
    if query.path and path != query.path and not path.startswith(query.path + "/"):
        return False
    return not query.extensions or extension_of(path) in query.extensions
