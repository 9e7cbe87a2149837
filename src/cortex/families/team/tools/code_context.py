"""Context of a code link from the index: definition, callers, and mentions.

Mentions are documents and memories that name the code. Only the client's own projects are searched,
and only indexed files: no path leads out of them. Callers are found by name in the index, so that a
large project costs no more than a search; an ambiguous name finds the callers of all its
definitions.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cortex.base.errors import CortexError, FileError
from cortex.base.text import rfc3339, role_of
from cortex.base.types import Cancel, FileView, Hit, Mode, Query, Symbol
from cortex.engine.engine import Engine
from cortex.engine.search.federated import SearchTarget, federated_search
from cortex.engine.sources import git
from cortex.families.team.tools.arguments import CodeSubject
from cortex.families.team.tools.render import Row, age_of, cut, without_empty
from cortex.families.team.tools.row_views import code_link
from cortex.families.team.tools.session import TeamSession

DEFINITION_CHARACTERS = 1_600
# Names listed for a file, if no symbol was requested.
OUTLINE = 30
CALLERS, CALLER_DEPTH = 8, 80
MENTIONS, MENTION_DEPTH = 4, 20
LINE_CHARACTERS = 160
MENTION_CHARACTERS = 240
# Beginnings of lines that name a symbol without using it, and of lines that define it.
_NO_CALL = r"#|//|/\*|\*|--|(?:import|from|use|using|include|require)\b"
_DEFINES = r"(?:def|class|func|function|fn|interface|struct|enum|trait|type|module|macro)"
# A text written this soon before a commit is about that commit.
SAME_SECONDS = 60


@dataclass(frozen=True, slots=True)
class CodeLocation:
    """A piece of code with its location, and its lines if known."""

    root: Path | None
    path: str
    symbol: str = ""
    lines: tuple[int, int] | None = None
    # The definition, or the outline of the file.
    rows: tuple[Row, ...] = ()
    callers: tuple[Row, ...] = ()
    notes: tuple[str, ...] = ()


def locate(context: TeamSession, subject: CodeSubject, cancel: Cancel) -> CodeLocation:
    """Find a piece of code in the client's projects.

    Raises: FileError PATH_OUTSIDE for a path that leaves them all.
    """
    with context.code() as engines:
        subject = _parse_lines(subject) if subject.path else _find_file(engines, subject)
        if not subject.path:
            return CodeLocation(
                None, "", subject.symbol or "", notes=(f"no open project defines {subject.symbol}",)
            )
        engine, path = _choose(engines, subject)
        if engine is None:
            return CodeLocation(
                None, path, subject.symbol or "", notes=("no open project has this file",)
            )
        try:
            view = engine.view(path)
        except FileError as error:
            if error.code == "PATH_OUTSIDE":
                raise
            return CodeLocation(engine.root, path, subject.symbol or "", notes=(error.message,))
        symbol = _find_symbol(view, subject.symbol or "")
        lines = _lines(view, symbol, subject)
        rows = (_definition(view, symbol, lines),) if lines else _outline(view)
        name = symbol.name if symbol else re.split(r"\W+", subject.symbol or "")[-1]
        notes = (
            () if symbol or not subject.symbol else (f"there is no {subject.symbol} in {path} now",)
        )
        callers = _callers(engine, name, symbol, path, lines, cancel) if name else ()
        return CodeLocation(
            engine.root,
            path,
            symbol.qualified if symbol else subject.symbol or "",
            lines,
            rows,
            callers,
            notes,
        )


def _parse_lines(subject: CodeSubject) -> CodeSubject:
    """Move the lines in a path, as in the id of a search hit, to their own fields."""
    link = code_link(subject.path)
    if link.path == subject.path:
        return subject
    symbol, start, end = link.symbol, link.line_start, link.line_end
    return subject.model_copy(
        update={
            "path": link.path,
            "symbol": subject.symbol or symbol,
            "line_start": subject.line_start or start,
            "line_end": subject.line_end or end,
        }
    )


def _find_file(engines: Sequence[Engine], subject: CodeSubject) -> CodeSubject:
    """Add the file that defines the symbol, from the first project that has one."""
    symbol = _dotted(subject.symbol or "")
    for engine in engines:
        if subject.repo not in (None, "", engine.root.name):
            continue
        lookup = engine.store.content
        for definition in lookup.definitions([engine.source.id], [symbol.rpartition(".")[2]]):
            if f".{definition.qualified}".endswith(f".{symbol}"):
                for place in lookup.places([(definition.doc, definition.chunk)]).values():
                    return subject.model_copy(
                        update={"path": place.doc.path, "repo": engine.root.name}
                    )
    return subject


def _dotted(symbol: str) -> str:
    """Return a symbol with dots as separators."""
    return symbol.strip().replace("::", ".").replace("#", ".").removesuffix("()")


def _choose(engines: Sequence[Engine], subject: CodeSubject) -> tuple[Engine | None, str]:
    """Return the project that has the file, and the path in it."""
    outside: FileError | None = None
    path = ""
    named = [engine for engine in engines if subject.repo in (None, "", engine.root.name)]
    for engine in named:
        try:
            relative = engine.relative(subject.path)
        except FileError as error:
            outside = error
            continue
        path = path or relative
        if (engine.root / relative).is_file():
            return engine, relative
    if outside is not None and not path:
        raise outside
    return (named[0] if path and named else None), path or _normalize(subject.path)


def _normalize(path: str) -> str:
    """Normalize a path of a project that isn't open. Raises: FileError PATH_OUTSIDE."""
    parts = [part for part in re.split(r"[\\/]", path) if part not in ("", ".")]
    if not parts or ".." in parts or re.match(r"[A-Za-z]:|[\\/~]", path):
        raise FileError(
            "PATH_OUTSIDE",
            f"{path[:200]!r} is no path inside a project",
            context={"path": path[:200]},
        )
    return "/".join(parts)


def _find_symbol(view: FileView, wanted: str) -> Symbol | None:
    """Find a definition by its qualified name, the end of it, or its name."""
    name = _dotted(wanted)
    if not name:
        return None
    for matches in (
        lambda symbol: symbol.qualified == name,
        lambda symbol: symbol.qualified.endswith(f".{name}"),
        lambda symbol: symbol.name == name,
    ):
        for symbol in view.symbols:
            if matches(symbol):
                return symbol
    return None


def _lines(view: FileView, symbol: Symbol | None, subject: CodeSubject) -> tuple[int, int] | None:
    """Return the lines of the symbol, or the requested ones."""
    if symbol is not None:
        return symbol.start_line, symbol.end_line
    last = view.text.count("\n") + 1
    if subject.line_start and subject.line_start <= last:
        return subject.line_start, min(subject.line_end or subject.line_start, last)
    return None


def _definition(view: FileView, symbol: Symbol | None, lines: tuple[int, int]) -> Row:
    """Return the row with the definition."""
    text = "\n".join(view.text.split("\n")[lines[0] - 1 : lines[1]])
    return without_empty(
        {
            "path": view.path,
            "lines": f"{lines[0]}-{lines[1]}",
            "symbol": symbol.qualified if symbol else "",
            "kind": symbol.kind if symbol else "",
            "code": cut(text, DEFINITION_CHARACTERS),
        }
    )


def _outline(view: FileView) -> tuple[Row, ...]:
    """Return the row with the names that a file defines."""
    names = [f"{symbol.qualified}:{symbol.start_line}" for symbol in view.symbols if symbol.name]
    return (
        without_empty(
            {
                "path": view.path,
                "lines": f"1-{view.text.count(chr(10)) + 1}",
                "defines": names[:OUTLINE],
            }
        ),
    )


def _callers(
    engine: Engine,
    name: str,
    symbol: Symbol | None,
    path: str,
    lines: tuple[int, int] | None,
    cancel: Cancel,
) -> tuple[Row, ...]:
    """Find uses of the name as a call or type, outside of its own definition."""
    if len(name) < 2:
        return ()
    try:
        page = engine.search(Query(name, mode=Mode.WORDS, limit=CALLER_DEPTH), cancel=cancel)
    # A pack is made of what is available.
    except CortexError:
        return ()
    before = r"(?:\.|->|::)" if symbol is not None and symbol.kind == "method" else r"(?<!\w)"
    usage = re.compile(rf"{before}{re.escape(name)}\s*[(<!{{]")
    non_usage = re.compile(
        rf"\s*(?:{_NO_CALL}|(?:\w+\s+){{0,3}}{_DEFINES}\s+(?:\([^)]*\)\s*)?{re.escape(name)}\b)"
    )
    rows: dict[tuple[str, int], Row] = {}
    for hit in page.hits:
        for line_number, line in _numbered_lines(hit):
            is_own = hit.path == path and lines is not None and lines[0] <= line_number <= lines[1]
            if not is_own and usage.search(line) and not non_usage.match(line):
                where = without_empty(
                    {"path": f"{hit.path}:{line_number}", "in": hit.qualified or hit.name}
                )
                rows[hit.path, line_number] = {**where, "text": cut(line.strip(), LINE_CHARACTERS)}
                # One line of each caller is enough.
                break
    # Tests and examples come last.
    kept = sorted(rows.items(), key=lambda item: bool(role_of(item[0][0])))
    return tuple(row for _, row in kept)[:CALLERS]


def _numbered_lines(hit: Hit) -> Iterator[tuple[int, str]]:
    """Return the lines of a chunk with their numbers."""
    return zip(
        hit.lines or range(hit.start_line, hit.end_line + 1), hit.text.split("\n"), strict=False
    )


# -- mentions


def mentions(
    places: Sequence[SearchTarget], location: CodeLocation, cancel: Cancel
) -> dict[str, list[Row]]:
    """Return the documents and memories that name the symbol or the file, by target.

    One that is older than the last change of the code is marked.
    """
    name = re.split(r"\W+", location.symbol)[-1] if location.symbol else ""
    file = location.path.rpartition("/")[2]
    named = [re.escape(word) for word in (location.path, name, file) if len(word) > 2]
    if not named:
        return {}
    query = Query(f"{name} {file}".strip(), mode=Mode.WORDS, limit=MENTION_DEPTH)
    changed = 0.0
    rows: dict[str, list[Row]] = {}
    for place in places:
        try:
            located, _ = federated_search([place], query, cancel)
        # A pack is made of what is available.
        except CortexError:
            continue
        matches = (_mention(hit.hit, hit.cited, named) for hit in located)
        if kept := list({row["id"]: row for row in matches if row}.values())[:MENTIONS]:
            changed = changed or changed_at(location)
            rows[place.name] = [_add_age(place, row, location, changed) for row in kept]
    return rows


def _mention(hit: Hit, cited: Mapping[str, object], named: Sequence[str]) -> Row | None:
    """Return the row of a mention with the text around it; None for a false match."""
    named_by = str(cited.get("title") or "")
    text = " ".join(hit.text.removeprefix(f"# {named_by}\n").split())
    title = named_by or " > ".join(part for part in (hit.path, hit.qualified) if part)
    mark = re.compile(rf"(?<!\w)(?:{'|'.join(named)})(?!\w)")
    match = mark.search(text)
    if match is None and not mark.search(title):
        return None
    start = max(0, (match.start() if match else 0) - MENTION_CHARACTERS // 3)
    around = ("…" if start else "") + text[start:]
    record_id = str(cited.get("id") or cited.get("document_id") or hit.path)
    return without_empty(
        {"id": record_id, "title": cut(title, 120), "text": cut(around, MENTION_CHARACTERS)}
    )


def _add_age(place: SearchTarget, row: Row, location: CodeLocation, changed: float) -> Row:
    """Add the age of a row, and a note if the code changed since."""
    if place.written is None:
        return row
    try:
        written = place.written(str(row["id"]))
    except CortexError:
        return row
    is_stale = changed > written + SAME_SECONDS
    since = (
        [f"{location.path} changed on {rfc3339(changed)[:10]}, after this was written"]
        if is_stale
        else []
    )
    return without_empty({**row, "age": age_of(int(written * 1000)), "maybe_stale": since})


def changed_at(location: CodeLocation) -> float:
    """Return the time of the last change in seconds since 1970; 0 if it is unknown.

    The time of the last commit, or of the file if it differs from the commit.
    """
    if location.root is None:
        return 0.0
    try:
        file = location.root / location.path
        state = file.stat()
        # Reading from a pipe could block forever.
        if not stat.S_ISREG(state.st_mode):
            return 0.0
        touched = state.st_mtime
        now = (
            file.read_text(encoding="utf-8", errors="replace")
            if state.st_size < git.HISTORY_BYTES
            else None
        )
    except OSError:
        return 0.0
    if now is None or git.committed(location.root, location.path) != now:
        return touched
    lines = f"{location.lines[0]},{location.lines[1]}" if location.lines else ""
    commits = git.commits_of_lines(location.root, location.path, lines, 1) if lines else []
    commits = commits or git.commits(location.root, location.path, 1)
    return float(commits[0].moment) if commits else touched
