r"""Secrets inside a text: keys of known shape, private keys, passwords in addresses and
assignments.

A pure function of the text: nobody is asked whether a key still works. A shape says whose key it
is; where a name alone speaks for a value ("password = …"), the value must look random too, so that
prose about passwords, placeholders, hashes and identifiers pass. Every repetition is bounded and
possessive and starts at the edge of a word, so that the time is linear in the text; `regex`, not
`re`, which misses possessive groups before Python 3.11.5 and takes twice as long. Not taken: high
entropy anywhere (checksums and minified code are full of it), and lists of words to allow.
"""

from __future__ import annotations

import re as literals  # four times as fast as `regex` where no repetition is to be looked for
from collections.abc import Iterator, Sequence

import regex as re

from cortex.base.secret_scanner.keys import (
    keys_of_known_shape,
    private_keys,
    self_describing_tokens,
)
from cortex.base.secret_scanner.named import command_passwords, named_values, passwords_in_addresses
from cortex.base.types import Leak

MIN_KEY = 20  # characters of the shortest key that is told by its shape
VERSION = 2  # grows whenever the same text has other secrets
MAX_BESIDE_KEY = 200  # characters, besides white space, of a file that is nothing but a key

_CERTIFICATE = re.compile(
    r"-----BEGIN [A-Z0-9 ]{3,60}+-----[A-Za-z0-9+/=\s]{0,20000}+-----END [A-Z0-9 ]{3,60}+-----"
)
_DIGIT = literals.compile("[0-9]").search


def find_leaks(text: str) -> list[Leak]:
    """The secrets in a text, in order, none over another."""
    # Most texts have nothing that could be one: a look at their longest words, and for the names of
    # secrets, is a tenth of all these. A key of small letters alone is none: names in programs are.
    long = " ".join(
        {
            word
            for word in text.split()
            if len(word) >= MIN_KEY and (not word.islower() or _DIGIT(word))
        }
    )
    by_shape = (
        (*keys_of_known_shape(text, long), *self_describing_tokens(text, long)) if long else ()
    )
    by_place = (*passwords_in_addresses(text), *command_passwords(text), *named_values(text))
    found = (*private_keys(text), *by_shape, *by_place)
    merged: list[Leak] = []
    # Stable: of two at the same place the better known is first
    for leak in sorted(found, key=lambda leak: leak.start):
        if merged and leak.start < merged[-1].end:
            last = merged.pop()
            leak = Leak(last.name, last.start, max(last.end, leak.end))
        merged.append(leak)
    return merged


def redact(text: str) -> tuple[str, tuple[str, ...]]:
    """The text with what it leaks replaced by the name of the secret, and these names."""
    leaks = find_leaks(text)
    return blot(text, leaks), tuple(dict.fromkeys(leak.name for leak in leaks))


def find_leaks_by_line(text: str) -> tuple[Leak, ...]:
    """The secrets in a text, each line of one by itself, so that redacting moves no line."""
    return tuple(part for leak in find_leaks(text) for part in _lines_of(text, leak))


def _lines_of(text: str, leak: Leak) -> Iterator[Leak]:
    start = leak.start
    for line in text[leak.start : leak.end].split("\n"):
        inner = line.strip()
        if inner:
            begin = start + line.index(inner)
            yield Leak(leak.name, begin, begin + len(inner))
        start += len(line) + 1


def blot(text: str, leaks: Sequence[Leak]) -> str:
    """The text with each of these secrets, which come in order, replaced by its name."""
    parts, at = [], 0
    for leak in leaks:
        parts += [text[at : leak.start], placeholder(leak.name)]
        at = leak.end
    return "".join([*parts, text[at:]])


def placeholder(name: str) -> str:
    """What stands in the place of a secret of this name."""
    return f"[redacted: {name}]"


def is_key(text: str) -> bool:
    """Whether a text is private keys, perhaps with certificates, and hardly anything else."""
    keys = sorted(private_keys(text), key=lambda leak: leak.start)
    if not keys:
        return False
    rest = _CERTIFICATE.sub("", blot(text, keys))
    return len("".join(rest.split())) <= MAX_BESIDE_KEY
