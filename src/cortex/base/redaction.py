"""A text without its secrets: each is replaced by its kind, and every line keeps its number.

Chunks, symbols and offsets of the original are moved along, so that a reader of the redacted text
needs to know nothing of the original. Knows no store, setting or tool.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from cortex.base.secret_scanner import blot, find_leaks_by_line, placeholder, redact
from cortex.base.types import Chunk, Cut, Entry, Leak, Symbol

MIN_PART = 8  # characters of a secret that give it away where a field holds only its beginning
NAMED = 10  # places that a note names; the others are counted
WARNING = "secrets are redacted, don't copy these lines into a file"

Redacted = tuple[int, str]  # the number of a line that was changed, and the kind of secret in it


class RedactedText:
    """A text and its secrets, in order and each within one line, as `find_leaks_by_line` tells
    them.
    """

    def __init__(self, original: str, leaks: Sequence[Leak]) -> None:
        self._original = original
        self._leaks = tuple(leaks)
        moved, by = [], 0
        for leak in self._leaks:
            size = len(placeholder(leak.name))
            moved.append(Leak(leak.name, leak.start + by, leak.start + by + size))
            by += size - (leak.end - leak.start)
        self.leaks = tuple(moved)  # where the placeholders are

    def __bool__(self) -> bool:
        return bool(self._leaks)

    @cached_property
    def text(self) -> str:
        """The redacted text."""
        return blot(self._original, self._leaks)

    @cached_property
    def lines(self) -> tuple[Redacted, ...]:
        """The changed lines and what was in them."""
        found, line, at = [], 1, 0
        for leak in self._leaks:
            line += self._original.count("\n", at, leak.start)
            at = leak.start
            found.append((line, leak.name))
        return tuple(dict.fromkeys(found))

    def offset(self, original: int) -> int:
        """The place of an offset of the original; one inside a secret is where its placeholder
        ends.
        """
        number = bisect_right(self._starts, original) - 1
        if number < 0:
            return original
        leak, moved = self._leaks[number], self.leaks[number]
        if original == leak.start:
            return moved.start
        return moved.end + max(0, original - leak.end)

    def hides(self, start: int, end: int) -> bool:
        """Whether this range of the redacted text lies inside a placeholder."""
        number = bisect_right(self.leaks, start, key=lambda leak: leak.start) - 1
        if number < 0:
            return False
        leak = self.leaks[number]
        return start < leak.end and end <= leak.end

    def slices(self, original: str, ranges: Sequence[tuple[int, int]]) -> list[str]:
        """What these ranges of the original say, redacted."""
        if not self:
            return [original[start:end] for start, end in ranges]
        return [self.text[self.offset(start) : self.offset(end)] for start, end in ranges]

    @cached_property
    def _starts(self) -> list[int]:
        return [leak.start for leak in self._leaks]

    def field(self, value: str) -> str:
        """A name, signature or comment taken from the text, without what it has of a secret."""
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
        found = {self._original[leak.start : leak.end]: leak.name for leak in self._leaks}
        # Stored redacted, a secret is its placeholder already.
        return tuple(
            (secret, name) for secret, name in found.items() if secret != placeholder(name)
        )

    def chunk(self, chunk: Chunk) -> Chunk:
        """A chunk of the original as one of the redacted text."""
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
        """A definition without what its name has of a secret."""
        name, qualified = self.field(symbol.name), self.field(symbol.qualified)
        return replace(symbol, name=name, qualified=qualified, parent=self.field(symbol.parent))

    def cut(self, cut: Cut) -> Cut:
        """What was cut of the original, cut of the redacted text."""
        chunks = tuple(map(self.chunk, cut.chunks))
        return Cut(
            cut.language, self.text, chunks, tuple(map(self.symbol, cut.symbols)), self.leaks
        )


CLEAN = RedactedText("", ())


def redaction_of(text: str) -> RedactedText:
    """A text that was not looked at yet."""
    leaks = find_leaks_by_line(text)
    return RedactedText(text, leaks) if leaks else CLEAN


def redact_cut(cut: Cut) -> Cut:
    """The same cut, redacted where its text has secrets."""
    return RedactedText(cut.text, cut.leaks).cut(cut) if cut.leaks else cut


def redact_entry(entry: Entry) -> tuple[Entry, tuple[Redacted, ...]]:
    """A chunk of a chunk file without secrets in its text and whatever else it says, and the lines
    of that text.
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
    """A value of JSON with every text in it redacted."""
    if isinstance(value, str):
        return redact(value)[0]
    if isinstance(value, Mapping):
        # A value may be a secret only by the name that it has.
        return {key: _redact_named(str(key), one) for key, one in value.items()}
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
    """One note that says which lines of which files are redacted; none where there are none."""
    lines = [f"{path}:{line} ({name})" for path, (line, name) in dict.fromkeys(places)]
    more = f" and {len(lines) - NAMED} more" if len(lines) > NAMED else ""
    return (f"{WARNING}: {', '.join(lines[:NAMED])}{more}",) if lines else ()
