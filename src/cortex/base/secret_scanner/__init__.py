"""Secret scanner: keys of known shape, private keys, passwords in addresses and assignments.

A pure function of the text: no service is asked whether a key still works. A shape names the issuer
of a key; where only a name marks a value ("password = …"), the value must look random too, so that
prose about passwords, placeholders, hashes and identifiers pass. Every repetition is bounded and
possessive and starts at the edge of a word, so that the time is linear in the text. The scanner
uses `regex` and not `re`, which misses possessive groups before Python 3.11.5 and takes twice as
long. Not taken: high entropy anywhere (checksums and minified code are full of it), and lists of
words to allow.
"""

from __future__ import annotations

# Four times as fast as `regex` for patterns without repetition.
import re as literals
from collections.abc import Iterator, Sequence

import regex as re

from cortex.base.secret_scanner.keys import (
    keys_of_known_shape,
    private_keys,
    self_describing_tokens,
)
from cortex.base.secret_scanner.named import command_passwords, named_values, passwords_in_addresses
from cortex.base.types import Leak

# Characters of the shortest key that is recognised by its shape.
MIN_KEY = 20
# Incremented whenever the scanner finds other secrets in the same text.
VERSION = 2
# Characters besides white space that a file may have around a key and still count as a key.
MAX_BESIDE_KEY = 200

_CERTIFICATE = re.compile(
    r"-----BEGIN [A-Z0-9 ]{3,60}+-----[A-Za-z0-9+/=\s]{0,20000}+-----END [A-Z0-9 ]{3,60}+-----"
)
_DIGIT = literals.compile("[0-9]").search


def find_leaks(text: str) -> list[Leak]:
    """Return the secrets in a text, in order and without overlaps."""
    # Most texts have no candidates: checking only their long words, and the names of secrets,
    # takes a tenth of the time. Words of lower-case letters alone are identifiers, not keys.
    long_words = " ".join(
        {
            word
            for word in text.split()
            if len(word) >= MIN_KEY and (not word.islower() or _DIGIT(word))
        }
    )
    by_shape = (
        (*keys_of_known_shape(text, long_words), *self_describing_tokens(text, long_words))
        if long_words
        else ()
    )
    by_place = (*passwords_in_addresses(text), *command_passwords(text), *named_values(text))
    leaks = (*private_keys(text), *by_shape, *by_place)
    merged: list[Leak] = []
    # The sort is stable: of two leaks at the same place the more specific one comes first.
    for leak in sorted(leaks, key=lambda leak: leak.start):
        if merged and leak.start < merged[-1].end:
            last = merged.pop()
            leak = Leak(last.name, last.start, max(last.end, leak.end))
        merged.append(leak)
    return merged


def redact(text: str) -> tuple[str, tuple[str, ...]]:
    """Replace each secret by a placeholder; also returns the kinds of secrets."""
    leaks = find_leaks(text)
    return replace_leaks(text, leaks), tuple(dict.fromkeys(leak.name for leak in leaks))


def find_leaks_by_line(text: str) -> tuple[Leak, ...]:
    """Return the secrets in a text split by line, so that redacting moves no line."""
    return tuple(part for leak in find_leaks(text) for part in _lines_of(text, leak))


def _lines_of(text: str, leak: Leak) -> Iterator[Leak]:
    start = leak.start
    for line in text[leak.start : leak.end].split("\n"):
        inner = line.strip()
        if inner:
            begin = start + line.index(inner)
            yield Leak(leak.name, begin, begin + len(inner))
        start += len(line) + 1


def replace_leaks(text: str, leaks: Sequence[Leak]) -> str:
    """Replace the given secrets, which are in order, by their placeholders."""
    parts, position = [], 0
    for leak in leaks:
        parts += [text[position : leak.start], placeholder(leak.name)]
        position = leak.end
    return "".join([*parts, text[position:]])


def placeholder(name: str) -> str:
    """Return the text that replaces a secret of this kind."""
    return f"[redacted: {name}]"


def is_key(text: str) -> bool:
    """Return whether a text is hardly anything but private keys, perhaps with certificates."""
    keys = sorted(private_keys(text), key=lambda leak: leak.start)
    if not keys:
        return False
    rest = _CERTIFICATE.sub("", replace_leaks(text, keys))
    return len("".join(rest.split())) <= MAX_BESIDE_KEY
