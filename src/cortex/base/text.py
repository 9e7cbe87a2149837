"""Pure functions on strings: words of identifiers, token estimate, cutting to a budget, fences,
hashes, roles of paths, how much JSON holds.

Knows nothing of files, stores or queries. Identifiers are split here and not by the word index's
own analyzer, because that one has no camelCase filter and the same split is needed for queries,
snippets and paths.
"""

from __future__ import annotations

import hashlib
import re
from datetime import UTC, datetime
from functools import lru_cache

TOKEN_CHARACTERS = 4  # a token is estimated as four characters
NAME_CHARACTERS = 200  # of a name that stands in a line
SLICE_BYTES = 1_000_000  # of JSON that is cut up at a time

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
# In a text of several lines
_COMMANDS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_MARKS = re.compile(r"`{3,}")
# Longer runs are hashes, base64 or minified text: nobody searches for them by word
MAX_WORD_CHARACTERS = 80


def estimate_tokens(text: str) -> int:
    """The number of tokens that `text` costs, by the rule of thumb used for every budget."""
    return -(-len(text) // TOKEN_CHARACTERS)


def identifiers_of(text: str) -> list[str]:
    """The runs of letters, digits and underscores in `text`, as they stand there."""
    return text.translate(_WORD_CHARACTERS).split() if text.isascii() else _WORD.findall(text)


def words_of(text: str) -> list[str]:
    """The searchable words of `text`, in order: identifiers whole and in parts, lower case; CJK
    runs as single characters and pairs.
    """
    return [word for identifier in identifiers_of(text) for word in split_identifier(identifier)]


@lru_cache(maxsize=20_000)
def split_identifier(word: str) -> tuple[str, ...]:
    """`parseHTTPConfig` -> (parsehttpconfig, parse, http, config): the whole first, then the parts
    where there are several.
    """
    if len(word) > MAX_WORD_CHARACTERS:
        return ()
    if not word.isascii() and _CJK.search(word):
        return _split_cjk(word)
    pieces = _CAMEL.findall(word) if word.isascii() else word.split("_")
    parts = [piece.lower() for piece in pieces if piece]
    return tuple(parts) if len(parts) <= 1 else ("".join(parts), *parts)


def _split_cjk(word: str) -> tuple[str, ...]:
    """Single characters and overlapping pairs: languages without spaces are found by any two
    characters.
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
    """`text`, or as many of its whole lines as fit into `tokens` (a first line that is too long is
    cut).
    """
    limit = tokens * TOKEN_CHARACTERS
    if len(text) <= limit:
        return text
    if limit <= 0:
        return ""
    end = text.rfind("\n", 0, limit + 1)
    return text[:end] if end > 0 else text[:limit]


def one_line(text: str, most: int = NAME_CHARACTERS) -> str:
    """A name as it may stand in a line: what would end the line, or turn it round, is shown as an
    escape.
    """
    shown = _CONTROL.sub(lambda found: ascii(found[0])[1:-1], text.strip())
    return shown if len(shown) <= most else shown[: most - 1] + "…"


def fenced(text: str) -> str:
    """A text that isn't ours, between fences that are longer than any in it; what a terminal would
    obey is left out.
    """
    text = _COMMANDS.sub("", text)
    marks = "`" * max(3, 1 + max(map(len, _MARKS.findall(text)), default=0))
    return f"{marks}text\n{text}\n{marks}"


def hash_bytes(*parts: bytes) -> bytes:
    """A 16-byte content hash of the parts, each delimited by its length."""
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.digest()


_ROLES: tuple[tuple[str, re.Pattern[str]], ...] = (
    (
        "vendored",
        re.compile(
            r"(^|/)(vendor|vendored|third_party|third-party|node_modules|bower_components|_vendor|external|deps)/"
        ),
    ),
    (
        "generated",
        re.compile(
            r"(\.pb\.(go|cc|h)|_pb2(_grpc)?\.pyi?|\.g\.(dart|cs)|\.generated\.\w+|\.min\.(js|css)|_generated\.\w+)$"
        ),
    ),
    (
        "test",
        re.compile(
            r"(^|/)(tests?|__tests__|spec|specs|testing|testdata|fixtures|e2e|androidTest|\w+Test)/"
            r"|(^|/)(test_[^/]*|conftest)\.\w+$|[._-](test|tests|spec)\.\w+$|_test\.\w+$|(Tests?|Spec|IT)\.(java|kt|scala|cs|swift|php|groovy)$"
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
            r"(^|/)(docs?|documentation)/|\.(md|mdx|rst|txt|adoc)$|(^|/)(CHANGELOG|CHANGES|HISTORY|NEWS)[^/]*$",
            re.IGNORECASE,
        ),
    ),
)


@lru_cache(maxsize=50_000)
def role_of(path: str) -> str:
    """What a file is for, judged by its relative path: "" for ordinary code, else the first role
    that matches.
    """
    for role, pattern in _ROLES:
        if pattern.search(path):
            return role
    return ""


def holds_more(body: bytes, most: int, marks: bytes = b"[{,") -> bool:
    """Whether JSON in UTF-8 says more than `most` values, before any is built; of "[{" only objects
    and lists.

    61 MB of small ones took 2 GB and 7 s. What stands in texts is told from the rest only where there is much at all: 54 MB of prose take
    0.3 s, and 1 MB of ordinary records 1 ms.
    """
    if sum(body.count(mark) for mark in marks) <= most:
        return False
    # Without what is escaped every quotation mark begins or ends a text.
    bare = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    found, in_text = 0, False
    for start in range(0, len(bare), SLICE_BYTES):
        parts = bare[start : start + SLICE_BYTES].split(b'"')
        outside = b"".join(parts[in_text::2])
        found += sum(outside.count(mark) for mark in marks)
        if found > most:
            return True
        in_text ^= len(parts) % 2 == 0
    return False


def is_text(name: str) -> bool:
    """Whether a name from the system is text at all: one in another encoding holds what no UTF-8
    can say.
    """
    return name.isascii() or not any("\ud800" <= character <= "\udfff" for character in name)


def rfc3339(seconds: float) -> str:
    """A moment, in seconds since the epoch, as text in UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
