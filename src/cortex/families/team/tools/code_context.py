"""What the code itself says about a code link: the definition, who calls it by name, and the
documents and memories that mention it.

Only the client's own projects are looked at, and of them only what their index may hold: no path
leads out of them. Callers are found by name in the index, so that a large project costs no more
than a search; a name that many things have finds all of theirs.
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
from cortex.families.team.tools.render import Row, age_of, cut, told
from cortex.families.team.tools.row_views import code_link
from cortex.families.team.tools.session import TeamSession

DEFINITION_CHARACTERS = 1_600
OUTLINE = 30  # names of a file that no symbol was asked of
CALLERS, CALLER_DEPTH = 8, 80
MENTIONS, MENTION_DEPTH = 4, 20
LINE_CHARACTERS = 160
MENTION_CHARACTERS = 240
# How lines begin that name something without using it, and those that define it.
_NO_CALL = r"#|//|/\*|\*|--|(?:import|from|use|using|include|require)\b"
_DEFINES = r"(?:def|class|func|function|fn|interface|struct|enum|trait|type|module|macro)"
SAME_SECONDS = 60  # what was written with a commit is about what it commits


@dataclass(frozen=True, slots=True)
class CodeLocation:
    """A piece of code, found: its place, and its lines where it has some."""

    root: Path | None
    path: str
    symbol: str = ""
    lines: tuple[int, int] | None = None
    rows: tuple[Row, ...] = ()  # the definition, or the outline of the file
    callers: tuple[Row, ...] = ()
    notes: tuple[str, ...] = ()


def locate(context: TeamSession, asked: CodeSubject, cancel: Cancel) -> CodeLocation:
    """Find a piece of code in the client's projects.

    Raises: FileError PATH_OUTSIDE for a path that leaves them all.
    """
    with context.code() as engines:
        asked = _with_lines(asked) if asked.path else _with_file(engines, asked)
        if not asked.path:
            return CodeLocation(
                None, "", asked.symbol or "", notes=(f"no open project defines {asked.symbol}",)
            )
        engine, path = _choose(engines, asked)
        if engine is None:
            return CodeLocation(
                None, path, asked.symbol or "", notes=("no open project has this file",)
            )
        try:
            view = engine.view(path)
        except FileError as error:
            if error.code == "PATH_OUTSIDE":
                raise
            return CodeLocation(engine.root, path, asked.symbol or "", notes=(error.message,))
        symbol = _symbol(view, asked.symbol or "")
        lines = _lines(view, symbol, asked)
        rows = (_definition(view, symbol, lines),) if lines else _outline(view)
        name = symbol.name if symbol else re.split(r"\W+", asked.symbol or "")[-1]
        notes = () if symbol or not asked.symbol else (f"there is no {asked.symbol} in {path} now",)
        callers = _callers(engine, name, symbol, path, lines, cancel) if name else ()
        return CodeLocation(
            engine.root,
            path,
            symbol.qualified if symbol else asked.symbol or "",
            lines,
            rows,
            callers,
            notes,
        )


def _with_lines(asked: CodeSubject) -> CodeSubject:
    """The link with the lines that its path names, as the id of a hit does."""
    told_link = code_link(asked.path)
    if told_link.path == asked.path:
        return asked
    symbol, start, end = told_link.symbol, told_link.line_start, told_link.line_end
    return asked.model_copy(
        update={
            "path": told_link.path,
            "symbol": asked.symbol or symbol,
            "line_start": asked.line_start or start,
            "line_end": asked.line_end or end,
        }
    )


def _with_file(engines: Sequence[Engine], asked: CodeSubject) -> CodeSubject:
    """The link with the file that defines its symbol, in the first project that does; without one
    where none does.
    """
    symbol = _dotted(asked.symbol or "")
    for engine in engines:
        if asked.repo not in (None, "", engine.root.name):
            continue
        lookup = engine.store.lookup
        for definition in lookup.definitions([engine.source.id], [symbol.rpartition(".")[2]]):
            if f".{definition.qualified}".endswith(f".{symbol}"):
                for place in lookup.places([(definition.doc, definition.chunk)]).values():
                    return asked.model_copy(
                        update={"path": place.doc.path, "repo": engine.root.name}
                    )
    return asked


def _dotted(symbol: str) -> str:
    return symbol.strip().replace("::", ".").replace("#", ".").removesuffix("()")


def _choose(engines: Sequence[Engine], asked: CodeSubject) -> tuple[Engine | None, str]:
    """The project that has the file, and the path in it."""
    outside: FileError | None = None
    path = ""
    named = [one for one in engines if asked.repo in (None, "", one.root.name)]
    for engine in named:
        try:
            relative = engine.relative(asked.path)
        except FileError as error:
            outside = error
            continue
        path = path or relative
        if (engine.root / relative).is_file():
            return engine, relative
    if outside is not None and not path:
        raise outside
    return (named[0] if path and named else None), path or _plain(asked.path)


def _plain(path: str) -> str:
    """A path in a project that isn't here. Raises: FileError PATH_OUTSIDE."""
    parts = [part for part in re.split(r"[\\/]", path) if part not in ("", ".")]
    if not parts or ".." in parts or re.match(r"[A-Za-z]:|[\\/~]", path):
        raise FileError(
            "PATH_OUTSIDE",
            f"{path[:200]!r} is no path inside a project",
            context={"path": path[:200]},
        )
    return "/".join(parts)


def _symbol(view: FileView, wanted: str) -> Symbol | None:
    """The definition that is meant: by its qualified name, the end of it, or its name."""
    asked = _dotted(wanted)
    if not asked:
        return None
    for same in (
        lambda one: one.qualified == asked,
        lambda one: one.qualified.endswith(f".{asked}"),
        lambda one: one.name == asked,
    ):
        for one in view.symbols:
            if same(one):
                return one
    return None


def _lines(view: FileView, symbol: Symbol | None, asked: CodeSubject) -> tuple[int, int] | None:
    if symbol is not None:
        return symbol.start_line, symbol.end_line
    last = view.text.count("\n") + 1
    if asked.line_start and asked.line_start <= last:
        return asked.line_start, min(asked.line_end or asked.line_start, last)
    return None


def _definition(view: FileView, symbol: Symbol | None, lines: tuple[int, int]) -> Row:
    text = "\n".join(view.text.split("\n")[lines[0] - 1 : lines[1]])
    return told(
        {
            "path": view.path,
            "lines": f"{lines[0]}-{lines[1]}",
            "symbol": symbol.qualified if symbol else "",
            "kind": symbol.kind if symbol else "",
            "code": cut(text, DEFINITION_CHARACTERS),
        }
    )


def _outline(view: FileView) -> tuple[Row, ...]:
    names = [f"{symbol.qualified}:{symbol.start_line}" for symbol in view.symbols if symbol.name]
    return (
        told(
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
    """Where the name is used as one uses what it names, outside of its own definition."""
    if len(name) < 2:
        return ()
    try:
        page = engine.search(Query(name, mode=Mode.WORDS, limit=CALLER_DEPTH), cancel=cancel)
    except CortexError:  # a pack is of what there is
        return ()
    before = r"(?:\.|->|::)" if symbol is not None and symbol.kind == "method" else r"(?<!\w)"
    used = re.compile(rf"{before}{re.escape(name)}\s*[(<!{{]")
    other = re.compile(
        rf"\s*(?:{_NO_CALL}|(?:\w+\s+){{0,3}}{_DEFINES}\s+(?:\([^)]*\)\s*)?{re.escape(name)}\b)"
    )
    rows: dict[tuple[str, int], Row] = {}
    for hit in page.hits:
        for number, line in _numbered(hit):
            own = hit.path == path and lines is not None and lines[0] <= number <= lines[1]
            if not own and used.search(line) and not other.match(line):
                where = told({"path": f"{hit.path}:{number}", "in": hit.qualified or hit.name})
                rows[hit.path, number] = {**where, "text": cut(line.strip(), LINE_CHARACTERS)}
                break  # one line of each caller
    # Tests and examples after what they are of
    kept = sorted(rows.items(), key=lambda one: bool(role_of(one[0][0])))
    return tuple(row for _, row in kept)[:CALLERS]


def _numbered(hit: Hit) -> Iterator[tuple[int, str]]:
    """The lines of a chunk with their numbers."""
    return zip(
        hit.lines or range(hit.start_line, hit.end_line + 1), hit.text.split("\n"), strict=False
    )


# -- who mentions it
# ---------------------------------------------------------------------------------------------------


def mentions(
    places: Sequence[SearchTarget], found: CodeLocation, cancel: Cancel
) -> dict[str, list[Row]]:
    """The documents and memories, by the name of their place, whose text names the symbol or the
    file.

    One that is older than the last change of the code says so.
    """
    name = re.split(r"\W+", found.symbol)[-1] if found.symbol else ""
    file = found.path.rpartition("/")[2]
    named = [re.escape(word) for word in (found.path, name, file) if len(word) > 2]
    if not named:
        return {}
    query = Query(f"{name} {file}".strip(), mode=Mode.WORDS, limit=MENTION_DEPTH)
    changed = 0.0
    rows: dict[str, list[Row]] = {}
    for place in places:
        try:
            located, _ = federated_search([place], query, cancel)
        except CortexError:  # a pack is of what there is
            continue
        told_rows = (_mention(one.hit, one.cited, named) for one in located)
        if some := list({row["id"]: row for row in told_rows if row}.values())[:MENTIONS]:
            changed = changed or changed_at(found)
            rows[place.name] = [_with_age(place, row, found, changed) for row in some]
    return rows


def _mention(hit: Hit, cited: Mapping[str, object], named: Sequence[str]) -> Row | None:
    """What mentions the code, around where it does; None where it only seemed to."""
    named_by = str(cited.get("title") or "")
    text = " ".join(hit.text.removeprefix(f"# {named_by}\n").split())
    title = named_by or " > ".join(part for part in (hit.path, hit.qualified) if part)
    mark = re.compile(rf"(?<!\w)(?:{'|'.join(named)})(?!\w)")
    there = mark.search(text)
    if there is None and not mark.search(title):
        return None
    start = max(0, (there.start() if there else 0) - MENTION_CHARACTERS // 3)
    around = ("…" if start else "") + text[start:]
    number = str(cited.get("id") or cited.get("document_id") or hit.path)
    return told({"id": number, "title": cut(title, 120), "text": cut(around, MENTION_CHARACTERS)})


def _with_age(place: SearchTarget, row: Row, found: CodeLocation, changed: float) -> Row:
    """Add to a row how old it is, and whether the code changed since."""
    if place.written is None:
        return row
    try:
        written = place.written(str(row["id"]))
    except CortexError:
        return row
    stale = changed > written + SAME_SECONDS
    since = (
        [f"{found.path} changed on {rfc3339(changed)[:10]}, after this was written"]
        if stale
        else []
    )
    return told({**row, "age": age_of(int(written * 1000)), "maybe_stale": since})


def changed_at(found: CodeLocation) -> float:
    """When the code was last changed, in seconds since 1970: by a commit, or on disk where that was
    later; 0 where nobody knows.
    """
    if found.root is None:
        return 0.0
    try:
        file = found.root / found.path
        state = file.stat()
        if not stat.S_ISREG(state.st_mode):  # from a pipe nobody may ever answer
            return 0.0
        touched = state.st_mtime
        now = (
            file.read_text(encoding="utf-8", errors="replace")
            if state.st_size < git.HISTORY_BYTES
            else None
        )
    except OSError:
        return 0.0
    if now is None or git.committed(found.root, found.path) != now:
        return touched
    lines = f"{found.lines[0]},{found.lines[1]}" if found.lines else ""
    commits = git.commits_of_lines(found.root, found.path, lines, 1) if lines else []
    commits = commits or git.commits(found.root, found.path, 1)
    return float(commits[0].moment) if commits else touched
