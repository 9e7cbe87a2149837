"""Pure functions on text: identifier words, token estimates, cutting, fences, hashes, roles.

Knows nothing of files, stores or queries. Identifiers are split here and not by the analyzer of the
lexical index, because that one has no camelCase filter and the same split is needed for queries,
snippets and paths.
"""

from __future__ import annotations

import hashlib
import re
from datetime import UTC, datetime
from functools import lru_cache

# A token is estimated as four characters.
TOKEN_CHARACTERS = 4
# Longest name that is shown in a line.
NAME_CHARACTERS = 200
# Bytes of JSON that are split at a time.
SLICE_BYTES = 1_000_000

_WORD = re.compile(r"\w+")
# ASCII text is split by a table, in half the time of the expression.
_WORD_CHARACTERS = "".join(
    chr(code) if chr(code).isalnum() or chr(code) == "_" else " " for code in range(128)
)
_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff]")
_CAMEL = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|[0-9]+")
_CONTROL = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
# Control characters in a text of several lines.
_COMMANDS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_MARKS = re.compile(r"`{3,}")
# Longer runs are hashes, base64 or minified text, which no query contains as a word.
MAX_WORD_CHARACTERS = 80


def estimate_tokens(text: str) -> int:
    """Estimate the number of tokens of `text`, by the rule of thumb used for every budget."""
    return -(-len(text) // TOKEN_CHARACTERS)


def identifiers_of(text: str) -> list[str]:
    """Return the runs of letters, digits and underscores in `text`, unchanged."""
    return text.translate(_WORD_CHARACTERS).split() if text.isascii() else _WORD.findall(text)


def words_of(text: str) -> list[str]:
    """Return the searchable words of `text`, in order and in lower case.

    Identifiers are returned whole and in parts, CJK runs as single characters and pairs.
    """
    return [word for identifier in identifiers_of(text) for word in split_identifier(identifier)]


@lru_cache(maxsize=20_000)
def split_identifier(word: str) -> tuple[str, ...]:
    """Split an identifier into its whole and its parts, in lower case.

    `parseHTTPConfig` becomes (parsehttpconfig, parse, http, config). A single part is returned
    once.
    """
    if len(word) > MAX_WORD_CHARACTERS:
        return ()
    if not word.isascii() and _CJK.search(word):
        return _split_cjk(word)
    pieces = _CAMEL.findall(word) if word.isascii() else word.split("_")
    parts = [piece.lower() for piece in pieces if piece]
    return tuple(parts) if len(parts) <= 1 else ("".join(parts), *parts)


def _split_cjk(word: str) -> tuple[str, ...]:
    """Split CJK text into single characters and overlapping pairs.

    Languages without spaces are found by any two characters.
    """
    out: list[str] = []
    run = ""
    for character in word + " ":
        if _CJK.match(character):
            out.append(character)
            if run:
                out.append(run[-1] + character)
            run += character
        else:
            run = ""
    rest = _CJK.sub(" ", word)
    for part in rest.split():
        out.extend(split_identifier(part))
    return tuple(out)


def cut_to_tokens(text: str, tokens: int) -> str:
    """Cut `text` to the whole lines that fit into `tokens`; a long first line is cut inside."""
    limit = tokens * TOKEN_CHARACTERS
    if len(text) <= limit:
        return text
    if limit <= 0:
        return ""
    end = text.rfind("\n", 0, limit + 1)
    return text[:end] if end > 0 else text[:limit]


def one_line(text: str, most: int = NAME_CHARACTERS) -> str:
    """Return a name for use in a line; control and direction characters are shown as escapes."""
    shown = _CONTROL.sub(lambda match: ascii(match[0])[1:-1], text.strip())
    return shown if len(shown) <= most else shown[: most - 1] + "…"


def fenced(text: str) -> str:
    """Put untrusted text between fences longer than any in it.

    Control characters that a terminal would obey are removed.
    """
    text = _COMMANDS.sub("", text)
    marks = "`" * max(3, 1 + max(map(len, _MARKS.findall(text)), default=0))
    return f"{marks}text\n{text}\n{marks}"


def hash_bytes(*parts: bytes) -> bytes:
    """Return a 16-byte content hash of the parts, each delimited by its length."""
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.digest()


_ROLES: tuple[tuple[str, re.Pattern[str]], ...] = (
    (
        "vendored",
        re.compile(
            r"(^|/)(vendor|vendored|third_party|third-party|node_modules|bower_components|"
            r"_vendor|external|deps)/"
        ),
    ),
    (
        "generated",
        re.compile(
            r"(\.pb\.(go|cc|h)|_pb2(_grpc)?\.pyi?|\.g\.(dart|cs)|\.generated\.\w+|"
            r"\.min\.(js|css)|_generated\.\w+)$"
        ),
    ),
    (
        "test",
        re.compile(
            r"(^|/)(tests?|__tests__|spec|specs|testing|testdata|fixtures|e2e|androidTest|\w+Test)/"
            r"|(^|/)(test_[^/]*|conftest)\.\w+$|[._-](test|tests|spec)\.\w+$|_test\.\w+$|"
            r"(Tests?|Spec|IT)\.(java|kt|scala|cs|swift|php|groovy)$"
        ),
    ),
    ("example", re.compile(r"(^|/)(examples?|samples?|demos?|docs_src|benchmarks?|tutorials?)/")),
    (
        "locale",
        re.compile(r"(^|/)(locales?|translations?|i18n|l10n|LC_MESSAGES)/|\.(po|pot|xliff|xlf)$"),
    ),
    (
        "docs",
        re.compile(
            r"(^|/)(docs?|documentation)/|\.(md|mdx|rst|txt|adoc)$|"
            r"(^|/)(CHANGELOG|CHANGES|HISTORY|NEWS)[^/]*$",
            re.IGNORECASE,
        ),
    ),
)


@lru_cache(maxsize=50_000)
def role_of(path: str) -> str:
    """Return the role of a file by its relative path; "" for ordinary code.

    The first role that matches is returned.
    """
    for role, pattern in _ROLES:
        if pattern.search(path):
            return role
    return ""


def holds_more(body: bytes, most: int, marks: bytes = b"[{,") -> bool:
    """Return whether JSON in UTF-8 has more than `most` values, before any of them is built.

    With the marks "[{" only objects and lists are counted. 61 MB of small values took 2 GB and 7 s
    to parse. Strings are distinguished from structure only where there are many marks at all: 54 MB
    of prose take 0.3 s, and 1 MB of ordinary records 1 ms.
    """
    if sum(body.count(mark) for mark in marks) <= most:
        return False
    # Without escapes every quotation mark begins or ends a string.
    bare = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    count, in_string = 0, False
    for start in range(0, len(bare), SLICE_BYTES):
        parts = bare[start : start + SLICE_BYTES].split(b'"')
        outside = b"".join(parts[in_string::2])
        count += sum(outside.count(mark) for mark in marks)
        if count > most:
            return True
        in_string ^= len(parts) % 2 == 0
    return False


def is_text(name: str) -> bool:
    """Return whether a name from the system is valid text, and not undecodable bytes."""
    return name.isascii() or not any("\ud800" <= character <= "\udfff" for character in name)


def rfc3339(seconds: float) -> str:
    """Format a time, in seconds since the epoch, as RFC 3339 in UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
