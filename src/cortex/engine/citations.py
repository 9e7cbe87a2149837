"""What is written about code: what it cites is remembered by its content, so that it can be said
what changed since.

A citation is of a file, or of a symbol in it; a change elsewhere in the file is none of a symbol's,
and white space is nobody's. Git is asked for the commit and for where a file went; without it a
bounded look at the folder tells the latter. Parsing is the caller's: `view` gives a file with its
symbols. Knows no store. Not taken: line numbers, which every edit above them shifts.
"""

from __future__ import annotations

import difflib
import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from cortex.base.errors import Cancelled, CortexError, FileError, InputError
from cortex.base.paths import relative_of, resolve_inside
from cortex.base.text import hash_bytes, is_text
from cortex.base.types import Cancel, Citation, FileView, Symbol, UnreadableFile
from cortex.engine.sources import git
from cortex.engine.sources.scanner import Rules, read_bytes, scan

View = Callable[[str], FileView]

MAX_BYTES = 8_000_000  # of a file that is compared
MAX_TARGET = 4_500  # characters: a path and a symbol
MAX_CANDIDATES = 20  # files of the same name that may be where a file went
MAX_PARSED = 3  # of them, for a symbol
WALK_SECONDS = 1.0
SHOWN_COMMIT = 7  # characters
NEAR = 4  # symbols that are named where one is unknown


def cite(root: Path, target: str, view: View) -> Citation:
    """What a memory cites: "src/a.py", or a symbol as "src/a.py#Class.method" or
    "src/a.py:Class.method", as it is now.

    Raises: FileError PATH_OUTSIDE, FILE_NOT_FOUND or FILE_UNREADABLE; InputError for a symbol that
    isn't there, or is one of several.
    """
    path, wanted = _split(root, target)
    relative = relative_of(root, resolve_inside(root, path))
    seen = view(relative)
    content = _content_of(root, relative)
    if content is None:
        raise FileError(
            "FILE_UNREADABLE",
            f"{relative} can't be cited: it can't be read",
            context={"path": relative},
        )
    symbol, body = "", b""
    if wanted:
        symbol = _find(seen, wanted)
        body = _body_of(seen, symbol)
    return Citation(str(root), relative, symbol, content, body, git.head(root))


def check(citation: Citation, view: View) -> str:
    """What happened to what a memory cites, "" where it is as it was or nobody can tell."""
    root = Path(citation.root)
    if not _is_there(root):
        return ""
    now = _content_of(root, citation.path)
    if now == citation.file_hash:
        return ""
    if now is None:
        return _gone(root, citation, view)
    change = _change(citation, view)
    return change and f"{change}{_by_whom(root, citation)}"


def look(citation: Citation) -> str:
    """Whether the file that a memory cites is another one now, by a glance that parses nothing:
    what changed in it isn't told.
    """
    root = Path(citation.root)
    if not _is_there(root) or (now := _content_of(root, citation.path)) == citation.file_hash:
        return ""
    return f"{citation.path} {'is gone' if now is None and not (root / citation.path).exists() else 'changed'}"


def _is_there(root: Path) -> bool:
    """Whether a root can be looked at: a drive that isn't mounted leaves nothing, or an empty
    folder.
    """
    try:
        with os.scandir(root) as entries:
            return next(entries, None) is not None
    except OSError:
        return False


def _content_of(root: Path, path: str) -> bytes | None:
    """A hash of what a file says, white space apart; None where it isn't there or can't be read."""
    raw = read_bytes(root, path, MAX_BYTES)
    return None if isinstance(raw, UnreadableFile) else hash_bytes(b"file", b" ".join(raw.split()))


# -- symbols
# -----------------------------------------------------------------------------------------------------------


def _split(root: Path, target: str) -> tuple[str, str]:
    """Path and symbol of a target; a file whose name holds the mark between them is meant as it is."""
    target = target.strip()
    if not target or len(target) > MAX_TARGET or not is_text(target):
        raise InputError(
            "ARGUMENT_INVALID",
            "a citation is a path, or path#symbol, of a file below the project's root",
        )
    if (root / target).is_file():
        return target, ""
    marks = [
        at
        for at, character in enumerate(target)
        if character in "#:" and target[at + 1 :].strip(":")
    ]
    is_file = [at for at in marks if (root / target[:at]).is_file()]
    if not is_file:  # then the error is about a path, without the symbol
        start = max(target.rfind("/"), target.rfind("\\"), 1)
        is_file = [at for at in marks if at > start] or [len(target)]
    return target[: is_file[0]], target[is_file[0] + 1 :].strip(": ")


def _find(seen: FileView, wanted: str) -> str:
    """The qualified name of a symbol that may be given in part. Raises: InputError."""
    names = list(dict.fromkeys(symbol.qualified for symbol in seen.symbols))
    for asked in (wanted, wanted.replace("::", ".").replace("#", ".").removesuffix("()")):
        if asked in names:
            return asked
        ends = [name for name in names if name.endswith((f".{asked}", f" > {asked}"))]
        ends += [
            symbol.qualified
            for symbol in seen.symbols
            if symbol.name == asked and symbol.qualified not in ends
        ]
        if len(set(ends)) == 1:
            return ends[0]
        if ends:
            raise _unknown(f"{wanted} is one of several in {seen.path}", ends)
    near = difflib.get_close_matches(wanted, names, n=NEAR, cutoff=0.5)
    last = wanted.replace("::", ".").rpartition(".")[2].lower()
    near += [
        symbol.qualified
        for symbol in seen.symbols
        if symbol.name.lower() == last and symbol.qualified not in near
    ]
    raise _unknown(f"there is no {wanted} in {seen.path}", near or names)


def _unknown(what: str, names: Sequence[str]) -> InputError:
    shown = ", ".join(names[:NEAR]) + (", …" if len(names) > NEAR else "")
    hint = f": {shown}" if names else "; nothing in it has a name: cite the file"
    return InputError("ARGUMENT_INVALID", what + hint, context={"near": list(names[:NEAR])})


def _body_of(seen: FileView, qualified: str) -> bytes:
    """A hash of a symbol's lines, white space apart, of all where it is defined more than once; b""
    where it isn't.
    """
    lines = seen.text.split("\n")
    bodies = [_lines_of(lines, symbol) for symbol in seen.symbols if symbol.qualified == qualified]
    return hash_bytes(b"body", *bodies) if bodies else b""


def _lines_of(lines: Sequence[str], symbol: Symbol) -> bytes:
    return " ".join(" ".join(lines[symbol.start_line - 1 : symbol.end_line]).split()).encode(
        "utf-8", "surrogatepass"
    )


# -- changes
# -----------------------------------------------------------------------------------------------------------


def _change(citation: Citation, view: View) -> str:
    """What is different in a file that is there, "" where it isn't the cited symbol."""
    if not citation.symbol:
        return f"{citation.path} changed"
    try:
        seen = view(citation.path)
    except CortexError:  # too large by now, or no text any more
        return f"{citation.path} changed"
    body = _body_of(seen, citation.symbol)
    if body:
        return (
            ""
            if body == citation.body_hash
            else f"the body of {citation.symbol} in {citation.path} changed"
        )
    # Nothing found at all is a file that couldn't be cut rather than one without symbols.
    return (
        f"{citation.symbol} is gone from {citation.path}"
        if seen.symbols
        else f"{citation.path} changed"
    )


def _by_whom(root: Path, citation: Citation) -> str:
    """The last commit that touched the file since it was cited, in brackets."""
    found = git.last_commit(root, citation.path, citation.commit)
    return f" (commit {found[0][:SHOWN_COMMIT]}, {found[1]})" if found else ""


def _gone(root: Path, citation: Citation, view: View) -> str:
    if os.path.lexists(root / citation.path):
        return ""  # there, but not to be read now: another owner, a lock, a link in its place
    there = _moved_to(root, citation, view)
    change = f"{citation.path} moved to {there}" if there else f"{citation.path} is gone"
    return change + _by_whom(root, citation)


def _moved_to(root: Path, citation: Citation, view: View) -> str:
    """Where the cited file is now: one of its name and content, else one of its name with the cited
    symbol as it was.
    """
    candidates = _files_named(root, citation.path)
    for path in candidates:
        if _content_of(root, path) == citation.file_hash:
            return path
    if not citation.symbol:
        return ""
    for path in candidates[:MAX_PARSED]:
        try:
            if _body_of(view(path), citation.symbol) == citation.body_hash:
                return path
        except CortexError:
            continue
    return ""


def _files_named(root: Path, path: str) -> list[str]:
    """The files of the same name, those in folders most like the old one first."""
    folder, _, name = path.rpartition("/")
    found = git.files_named(root, name) if git.in_repository(root) else None
    if found is None:
        found = [other for other in _walk(root) if other.rpartition("/")[2] == name]
    there = [
        other
        for other in found
        if is_text(other) and other != path and os.path.lexists(root / other)
    ]
    likeness = difflib.SequenceMatcher(b=folder)

    def distance(other: str) -> tuple[float, str]:
        likeness.set_seq1(other.rpartition("/")[0])
        return -likeness.ratio(), other

    return sorted(there, key=distance)[:MAX_CANDIDATES]


def _walk(root: Path) -> list[str]:
    """The files below a root, as far as a moment tells."""
    cancel = Cancel()
    late = threading.Timer(WALK_SECONDS, cancel.cancel)
    late.daemon = True
    late.start()
    try:
        return [file.path for file in scan(root, Rules(), cancel).files]
    except Cancelled:
        return []
    finally:
        late.cancel()
