"""Redaction of texts: each secret is replaced by its kind, and every line keeps its number.

Chunks, symbols and offsets of the original are moved along, so that a reader of the redacted text
needs to know nothing of the original. Knows no store, setting or tool.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from cortex.base.secret_scanner import find_leaks_by_line, placeholder, redact, replace_leaks
from cortex.base.types import Chunk, Cut, Entry, Leak, Symbol

# Characters at the beginning of a secret that identify it in a field that holds only a part.
MIN_PART = 8
# Places that a note names; the others are counted.
NAMED = 10
WARNING = "secrets are redacted, don't copy these lines into a file"

# The number of a changed line, and the kind of secret in it.
Redacted = tuple[int, str]


class RedactedText:
    """A text with its secrets replaced, and a mapping of offsets into the result.

    `leaks` are in order and each within one line, as `find_leaks_by_line` returns them.
    """

    def __init__(self, original: str, leaks: Sequence[Leak]) -> None:
        self._original = original
        self._leaks = tuple(leaks)
        placeholders, shift = [], 0
        for leak in self._leaks:
            size = len(placeholder(leak.name))
            placeholders.append(Leak(leak.name, leak.start + shift, leak.start + shift + size))
            shift += size - (leak.end - leak.start)
        # The ranges of the placeholders in the redacted text.
        self.leaks = tuple(placeholders)

    def __bool__(self) -> bool:
        return bool(self._leaks)

    @cached_property
    def text(self) -> str:
        """The redacted text."""
        return replace_leaks(self._original, self._leaks)

    @cached_property
    def lines(self) -> tuple[Redacted, ...]:
        """Changed lines, each with the kind of secret that it held."""
        changed, line, position = [], 1, 0
        for leak in self._leaks:
            line += self._original.count("\n", position, leak.start)
            position = leak.start
            changed.append((line, leak.name))
        return tuple(dict.fromkeys(changed))

    def offset(self, original: int) -> int:
        """Map an offset of the original; one inside a secret maps to the end of its placeholder."""
        index = bisect_right(self._starts, original) - 1
        if index < 0:
            return original
        leak, moved = self._leaks[index], self.leaks[index]
        if original == leak.start:
            return moved.start
        return moved.end + max(0, original - leak.end)

    def hides(self, start: int, end: int) -> bool:
        """Return whether this range of the redacted text lies inside a placeholder."""
        index = bisect_right(self.leaks, start, key=lambda leak: leak.start) - 1
        if index < 0:
            return False
        leak = self.leaks[index]
        return start < leak.end and end <= leak.end

    def slices(self, original: str, ranges: Sequence[tuple[int, int]]) -> list[str]:
        """Return these ranges of the original, redacted."""
        if not self:
            return [original[start:end] for start, end in ranges]
        return [self.text[self.offset(start) : self.offset(end)] for start, end in ranges]

    @cached_property
    def _starts(self) -> list[int]:
        return [leak.start for leak in self._leaks]

    def field(self, value: str) -> str:
        """Redact a name, signature or comment taken from the text.

        A field may hold only the beginning of a secret.
        """
        for secret, name in self._secrets:
            part = secret[:MIN_PART]
            at = value.find(part)
            while at >= 0:
                end = at
                while (
                    end < len(value) and end - at < len(secret) and value[end] == secret[end - at]
                ):
                    end += 1
                value = value[:at] + placeholder(name) + value[end:]
                at = value.find(part, at + len(placeholder(name)))
        return value

    @cached_property
    def _secrets(self) -> tuple[tuple[str, str], ...]:
        kinds = {self._original[leak.start : leak.end]: leak.name for leak in self._leaks}
        # A text that is stored redacted already holds the placeholder.
        return tuple(
            (secret, name) for secret, name in kinds.items() if secret != placeholder(name)
        )

    def chunk(self, chunk: Chunk) -> Chunk:
        """Convert a chunk of the original to a chunk of the redacted text."""
        return replace(
            chunk,
            start=self.offset(chunk.start),
            end=self.offset(chunk.end),
            name=self.field(chunk.name),
            qualified=self.field(chunk.qualified),
            signature=self.field(chunk.signature),
            doc=self.field(chunk.doc),
        )

    def symbol(self, symbol: Symbol) -> Symbol:
        """Redact the names of a symbol."""
        name, qualified = self.field(symbol.name), self.field(symbol.qualified)
        return replace(symbol, name=name, qualified=qualified, parent=self.field(symbol.parent))

    def cut(self, cut: Cut) -> Cut:
        """Convert the chunks and symbols of the original to those of the redacted text."""
        chunks = tuple(map(self.chunk, cut.chunks))
        return Cut(
            cut.language, self.text, chunks, tuple(map(self.symbol, cut.symbols)), self.leaks
        )


CLEAN = RedactedText("", ())


def redaction_of(text: str) -> RedactedText:
    """Scan a text for secrets and return its redaction."""
    leaks = find_leaks_by_line(text)
    return RedactedText(text, leaks) if leaks else CLEAN


def redact_cut(cut: Cut) -> Cut:
    """Redact a cut file where its text has secrets; otherwise return it as it is."""
    return RedactedText(cut.text, cut.leaks).cut(cut) if cut.leaks else cut


def redact_entry(entry: Entry) -> tuple[Entry, tuple[Redacted, ...]]:
    """Redact the text and all other fields of a chunk-file entry.

    Also returns the changed lines of the text.
    """
    text = redaction_of(entry.text)
    shown = replace(
        entry,
        text=text.text or entry.text,
        title=_redact_value(entry.title),
        tags=_redact_value(entry.tags),
        metadata=_redact_value(entry.metadata),
    )
    return shown, text.lines


def _redact_value(value: Any) -> Any:
    """Redact every text inside a JSON value."""
    if isinstance(value, str):
        return redact(value)[0]
    if isinstance(value, Mapping):
        # Some values are recognised as secrets only together with their key.
        return {key: _redact_named(str(key), item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(_redact_value, value))
    return value


def _redact_named(name: str, value: Any) -> Any:
    if not isinstance(value, str):
        return _redact_value(value)
    head = f"{name}: "
    clean = redact(f"{head}{value}")[0]
    return clean.removeprefix(head) if clean.startswith(head) else redact(value)[0]


def note_of(places: Iterable[tuple[str, Redacted]]) -> tuple[str, ...]:
    """Build one note that lists the redacted lines by file; empty where there are none."""
    lines = [f"{path}:{line} ({name})" for path, (line, name) in dict.fromkeys(places)]
    more = f" and {len(lines) - NAMED} more" if len(lines) > NAMED else ""
    return (f"{WARNING}: {', '.join(lines[:NAMED])}{more}",) if lines else ()
