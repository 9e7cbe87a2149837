r"""Plain text from bytes, unless it is binary, minified, generated or a private key.

Git LFS pointers are rejected, too. Line ends become "\n" ("\r\n" and a lone "\r" too), so that line
numbers are those of every editor and the same text is the same blob on every platform. Knows
nothing of languages. Road not taken: judging by a sample of the first bytes, which lets a NUL or a
key further down into the store; scanning all of a 1.5 MB file takes a few milliseconds.
"""

from __future__ import annotations

import re

from cortex.base.secret_scanner import is_key
from cortex.base.types import UnreadableFile
from cortex.engine.readers.encodings import decode

# A marker further down is not about the file.
GENERATED_LINES = 20
LONG_LINE = 2_000
# Reason for a file that holds nothing but a key.
PRIVATE_KEY = "private key"
# Minifiers of scripts and styles wrap at 500.
LONG_WEB_LINE = 400
# Characters; in a smaller file a long line is just a long line.
MINIFIED_FROM = 3_000

_LFS = b"version https://git-lfs.github.com/spec/"
_MAGIC = (
    b"%PDF-", b"PK\x03\x04", b"PK\x05\x06", b"\x1f\x8b", b"\x7fELF", b"\x89PNG", b"GIF87a",
    b"GIF89a", b"\xff\xd8\xff", b"7z\xbc\xaf", b"Rar!\x1a", b"OggS", b"fLaC", b"\xfd7zXZ",
    b"\x28\xb5\x2f\xfd", b"BZh91AY&SY", b"wOFF", b"wOF2", b"SQLite format 3", b"!<arch>\n",
    b"\xca\xfe\xba\xbe", b"\xcf\xfa\xed\xfe", b"\xed\xab\xee\xdb",
)  # fmt: skip
_CONTROL = bytes(c for c in range(32) if c not in b"\t\n\r\f\b\x1b") + b"\x7f"
_CONTROL_SHARE = 0.02

_GENERATED = re.compile(
    r"""^\s*(?://|\#|/?\*|--|<!--|;|%|"{1,3}|'|\{-|\(\*)"""  # in a comment
    r"""(?:.*(?<!\w)@generated(?!\w)|.*\bcode\ generated\ (?:by\ )?"""
    r""".*\bdo\ not\ edit\b|.*<auto-?generated)""",
    re.MULTILINE | re.IGNORECASE | re.VERBOSE,
)
_WEB = frozenset(
    {"js", "mjs", "cjs", "css", "json", "geojson", "html", "htm", "svg", "xml", "jsonl"}
)
_PROSE = frozenset(
    {"md", "mdx", "markdown", "txt", "rst", "adoc", "tex", "org", "csv", "tsv", "log", "srt", ""}
)


def read(raw: bytes, path: str) -> str | UnreadableFile:
    """Decode a file's bytes to UTF-8 encodable text, or say why it isn't worth indexing."""
    text = decoded(raw)
    if isinstance(text, UnreadableFile):
        return text
    if _is_minified(text, path):
        return UnreadableFile("minified")
    if _is_generated(text):
        return UnreadableFile("generated")
    return text


def decoded(raw: bytes) -> str | UnreadableFile:
    """Decode a file's bytes to UTF-8 encodable text, or say why it must not be indexed."""
    if raw.startswith(_LFS) and len(raw) < 1024:
        return UnreadableFile("git lfs pointer")
    if raw.startswith(_MAGIC):
        return UnreadableFile("binary")
    text = decode(raw)
    if text is None or _is_binary(raw, text):
        return UnreadableFile("binary")
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return UnreadableFile(PRIVATE_KEY) if is_key(text) else text


def _is_binary(raw: bytes, text: str) -> bool:
    if "\0" in text:
        return True
    # The text was UTF-16 or UTF-32, so the raw bytes say nothing.
    if b"\0" in raw:
        raw = text.encode("utf-8")
    return len(raw) - len(raw.translate(None, _CONTROL)) > len(raw) * _CONTROL_SHARE


def _is_minified(text: str, path: str) -> bool:
    if len(text) < MINIFIED_FROM:
        return False
    name = path.rpartition("/")[2]
    extension = name.rpartition(".")[2].lower() if "." in name else ""
    if extension in _PROSE:
        return False
    limit = LONG_WEB_LINE if extension in _WEB else LONG_LINE
    # With short lines on average there is no need to look at each.
    if len(text) < limit * (text.count("\n") + 1) / 100:
        return False
    return sum(len(line) for line in text.split("\n") if len(line) > limit) > len(text) / 2


def _is_generated(text: str) -> bool:
    end = -1
    for _ in range(GENERATED_LINES):
        end = text.find("\n", end + 1)
        if end < 0:
            break
    head = text[:4000] if end < 0 else text[: min(end, 4000)]
    return _GENERATED.search(head) is not None
