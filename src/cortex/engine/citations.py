"""Citations of code, remembered by content, so that later changes can be reported.

A citation names a file, or a symbol in it. A change elsewhere in the file doesn't affect a symbol,
and white space never counts. Git is asked for the commit and for the new place of a moved file;
without git a bounded walk of the folder finds it. Parsing is up to the caller: `view` returns a
file with its symbols. Knows no store. Road not taken: line numbers, which every edit above them
shifts.
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

# Largest file that is compared.
MAX_BYTES = 8_000_000
# Characters of a path and a symbol.
MAX_TARGET = 4_500
# Files of the same name that may be the new place of a moved file.
MAX_CANDIDATES = 20
# Candidates parsed for a symbol.
MAX_PARSED = 3
WALK_SECONDS = 1.0
# Characters of a shortened commit id.
SHOWN_COMMIT = 7
# Symbols suggested for an unknown one.
NEAR = 4


def cite(root: Path, target: str, view: View) -> Citation:
    """Cite a file ("src/a.py") or a symbol ("src/a.py#Class.method") as it is now.

    A colon works in place of "#".

    Raises: FileError PATH_OUTSIDE, FILE_NOT_FOUND or FILE_UNREADABLE; InputError for a symbol that
    isn't there, or is one of several.
    """
    path, wanted = _split(root, target)
    relative = relative_of(root, resolve_inside(root, path))
    file = view(relative)
    content = _content_of(root, relative)
    if content is None:
        raise FileError(
            "FILE_UNREADABLE",
            f"{relative} can't be cited: it can't be read",
            context={"path": relative},
        )
    symbol, body = "", b""
    if wanted:
        symbol = _resolve_symbol(file, wanted)
        body = _body_of(file, symbol)
    return Citation(str(root), relative, symbol, content, body, git.head(root))


def check(citation: Citation, view: View) -> str:
    """Describe the change of a cited file or symbol; "" if unchanged or unknown."""
    root = Path(citation.root)
    if not _is_reachable(root):
        return ""
    now = _content_of(root, citation.path)
    if now == citation.file_hash:
        return ""
    if now is None:
        return _describe_missing(root, citation, view)
    change = _describe_change(citation, view)
    return change and f"{change}{_last_commit(root, citation)}"


def look(citation: Citation) -> str:
    """Check quickly, without parsing, if a cited file changed; doesn't say what changed."""
    root = Path(citation.root)
    if not _is_reachable(root) or (now := _content_of(root, citation.path)) == citation.file_hash:
        return ""
    return (
        f"{citation.path} "
        f"{'is gone' if now is None and not (root / citation.path).exists() else 'changed'}"
    )


def _is_reachable(root: Path) -> bool:
    """True if a root can be read; an unmounted drive is missing, or an empty folder."""
    try:
        with os.scandir(root) as entries:
            return next(entries, None) is not None
    except OSError:
        return False


def _content_of(root: Path, path: str) -> bytes | None:
    """Hash of a file without white space; None where it is missing or can't be read."""
    raw = read_bytes(root, path, MAX_BYTES)
    return None if isinstance(raw, UnreadableFile) else hash_bytes(b"file", b" ".join(raw.split()))


# -- symbols


def _split(root: Path, target: str) -> tuple[str, str]:
    """Path and symbol of a target; an existing file with the mark in its name is taken whole."""
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
    # The error is then about a path without the symbol.
    if not is_file:
        start = max(target.rfind("/"), target.rfind("\\"), 1)
        is_file = [at for at in marks if at > start] or [len(target)]
    return target[: is_file[0]], target[is_file[0] + 1 :].strip(": ")


def _resolve_symbol(file: FileView, wanted: str) -> str:
    """Qualified name of a symbol that may be given in part. Raises: InputError."""
    names = list(dict.fromkeys(symbol.qualified for symbol in file.symbols))
    for spelling in (wanted, wanted.replace("::", ".").replace("#", ".").removesuffix("()")):
        if spelling in names:
            return spelling
        ends = [name for name in names if name.endswith((f".{spelling}", f" > {spelling}"))]
        ends += [
            symbol.qualified
            for symbol in file.symbols
            if symbol.name == spelling and symbol.qualified not in ends
        ]
        if len(set(ends)) == 1:
            return ends[0]
        if ends:
            raise _unknown(f"{wanted} is one of several in {file.path}", ends)
    near = difflib.get_close_matches(wanted, names, n=NEAR, cutoff=0.5)
    last = wanted.replace("::", ".").rpartition(".")[2].lower()
    near += [
        symbol.qualified
        for symbol in file.symbols
        if symbol.name.lower() == last and symbol.qualified not in near
    ]
    raise _unknown(f"there is no {wanted} in {file.path}", near or names)


def _unknown(what: str, names: Sequence[str]) -> InputError:
    shown = ", ".join(names[:NEAR]) + (", …" if len(names) > NEAR else "")
    hint = f": {shown}" if names else "; nothing in it has a name: cite the file"
    return InputError("ARGUMENT_INVALID", what + hint, context={"near": list(names[:NEAR])})


def _body_of(file: FileView, qualified: str) -> bytes:
    """Hash of a symbol's lines without white space, b"" where it isn't defined.

    Covers all of its definitions where there are several.
    """
    lines = file.text.split("\n")
    bodies = [_lines_of(lines, symbol) for symbol in file.symbols if symbol.qualified == qualified]
    return hash_bytes(b"body", *bodies) if bodies else b""


def _lines_of(lines: Sequence[str], symbol: Symbol) -> bytes:
    return " ".join(" ".join(lines[symbol.start_line - 1 : symbol.end_line]).split()).encode(
        "utf-8", "surrogatepass"
    )


# -- changes


def _describe_change(citation: Citation, view: View) -> str:
    """Describe the change in an existing file; "" where it isn't the cited symbol."""
    if not citation.symbol:
        return f"{citation.path} changed"
    try:
        file = view(citation.path)
    except CortexError:
        # Too large by now, or no text any more.
        return f"{citation.path} changed"
    body = _body_of(file, citation.symbol)
    if body:
        return (
            ""
            if body == citation.body_hash
            else f"the body of {citation.symbol} in {citation.path} changed"
        )
    # A file without any symbols could not be parsed.
    return (
        f"{citation.symbol} is gone from {citation.path}"
        if file.symbols
        else f"{citation.path} changed"
    )


def _last_commit(root: Path, citation: Citation) -> str:
    """Last commit that touched the file since it was cited, in brackets."""
    commit = git.last_commit(root, citation.path, citation.commit)
    return f" (commit {commit[0][:SHOWN_COMMIT]}, {commit[1]})" if commit else ""


def _describe_missing(root: Path, citation: Citation, view: View) -> str:
    if os.path.lexists(root / citation.path):
        # It exists but can't be read now: another owner, a lock, a link in its place.
        return ""
    there = _moved_to(root, citation, view)
    change = f"{citation.path} moved to {there}" if there else f"{citation.path} is gone"
    return change + _last_commit(root, citation)


def _moved_to(root: Path, citation: Citation, view: View) -> str:
    """Path that the cited file moved to, "" for none.

    A file of the same name and content, else one of the same name with an unchanged symbol.
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
    """Files of the same name, those in the most similar folders first."""
    folder, _, name = path.rpartition("/")
    paths = git.files_named(root, name) if git.in_repository(root) else None
    if paths is None:
        paths = [other for other in _walk(root) if other.rpartition("/")[2] == name]
    existing = [
        other
        for other in paths
        if is_text(other) and other != path and os.path.lexists(root / other)
    ]
    likeness = difflib.SequenceMatcher(b=folder)

    def distance(other: str) -> tuple[float, str]:
        likeness.set_seq1(other.rpartition("/")[0])
        return -likeness.ratio(), other

    return sorted(existing, key=distance)[:MAX_CANDIDATES]


def _walk(root: Path) -> list[str]:
    """Files below a root; none where the walk takes too long."""
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
