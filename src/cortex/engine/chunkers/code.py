"""Code to chunks: whole definitions where they fit, their parts where they don't, small neighbours
together.

Works in rows: a chunk is whole lines, so two definitions on one line share a chunk. The text is
first laid out as units (a whole definition, or the text between definitions), then units too small
to stand alone are put together. A group of several small definitions is named after what encloses
them; their signatures and the symbols still name each one.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from itertools import accumulate, pairwise

from tree_sitter import Node

from cortex.base.text import TOKEN_CHARACTERS
from cortex.base.types import Chunk, Symbol
from cortex.engine.chunkers.grammars import load
from cortex.engine.chunkers.keyword_scan import Declaration, scan
from cortex.engine.chunkers.lines import Rows, ranges
from cortex.engine.chunkers.outline import Definition, Outliner
from cortex.engine.chunkers.outline_repair import mend
from cortex.engine.chunkers.parse_recovery import better_language
from cortex.engine.chunkers.signatures import MAX_SIGNATURE_CHARACTERS, doc_of, signature_of

# A definition of up to 1.5 targets stays whole: two halves of a function are worse than one long
# chunk
SLACK = 1.5
# Of the target: a definition smaller than this (some five lines) shares a chunk with its neighbours
TINY = 0.2
SCRAP = 0.08  # of the target: text between definitions that is smaller goes to a neighbour
_WORDS = re.compile(r"\w\w")


class _Unit:
    """Rows that stay together: a definition (`whole`), or text directly inside `owner`."""

    __slots__ = ("first", "heavy", "last", "opens", "owner", "size", "whole")

    def __init__(
        self, first: int, last: int, owner: Definition, whole: tuple[Definition, ...], size: int
    ) -> None:
        self.first = first
        self.last = last
        self.owner = owner
        self.whole = whole
        self.size = size
        self.heavy = False
        self.opens = False  # holds the owner's own declaration


def cut_code(
    text: str, language: str, target_tokens: int
) -> tuple[tuple[Chunk, ...], tuple[Symbol, ...]]:
    """Chunks and symbols of a text in a language that has a grammar."""
    grammar = load(language)
    rows = Rows(text)
    raw = text.encode("utf-8", "surrogatepass")
    starts = rows.starts
    if len(raw) != len(text):
        starts = [0, *accumulate(len(line) + 1 for line in raw.split(b"\n"))]
    root = grammar.parser.parse(raw).root_node
    declarations: list[Declaration] = []
    if root.has_error:
        fitting = better_language(raw, language, root)
        if fitting != language:
            language, grammar = fitting, load(fitting)
            root = grammar.parser.parse(raw).root_node
        declarations = scan(rows.lines)
    outliner = Outliner(root, raw, starts, grammar, declarations)
    top = outliner.walk()
    found = mend(outliner) if outliner.errors else outliner.found
    top.last = len(rows.lines) - 1
    layout = _Layout(rows, raw, starts, language, target_tokens * TOKEN_CHARACTERS)
    layout.lay(top)
    chunks, symbols = layout.chunks(), tuple(_symbols(found))
    for each in found:
        each.owner = None  # no cycles: the tree is freed now, not at some later garbage collection
    return chunks, symbols


def _symbols(found: list[Definition]) -> list[Symbol]:
    return [
        Symbol(
            each.name,
            each.qualified,
            each.kind,
            each.declared + 1,
            each.last + 1,
            each.qualified[: -len(each.name) - 1],
        )
        for each in found
        if each.kind != "impl"
    ]


class _Layout:
    """One text on its way from definitions to chunks."""

    def __init__(
        self, rows: Rows, raw: bytes, starts: list[int], language: str, target: int
    ) -> None:
        self.rows = rows
        self.raw = raw
        self.starts = starts
        self.language = language
        self.target = target
        self.limit = int(target * SLACK)
        self.units: list[_Unit] = []
        self.free = 0  # the first row that no unit has yet

    def lay(self, top: Definition) -> None:
        """Lay out every row, in order; a definition that is too large opens into its parts."""
        stack: list[tuple[Definition, int]] = [(top, 0)]
        while stack:
            owner, index = stack.pop()
            opened = False
            while index < len(owner.children) and not opened:
                child = owner.children[index]
                index += 1
                if child.last < self.free:
                    continue  # shares its line with what came before
                if child.first > self.free:
                    self._gap(owner, child.first - 1)
                if self.rows.size(max(child.first, self.free), child.last) <= self.limit:
                    self._whole(child)
                else:
                    stack.append((owner, index))
                    stack.append((child, 0))
                    opened = True
            if not opened and owner.last >= self.free:
                self._gap(owner, owner.last)

    def _whole(self, definition: Definition) -> None:
        first, last = self.rows.trim(self.free, definition.last)
        self.free = definition.last + 1
        unit = _Unit(
            first, last, definition.owner or definition, (definition,), self.rows.size(first, last)
        )
        unit.heavy = not definition.light and unit.size > self.target * TINY
        self.units.append(unit)

    def _gap(self, owner: Definition, last: int) -> None:
        """Text of `owner` between its children: one unit, or several at the boundaries of
        statements.
        """
        begin, self.free = self.free, last + 1
        first, last = self.rows.trim(begin, last)
        if last < first:
            return
        breaks = [first, last + 1]
        if self.rows.size(first, last) > self.target:
            breaks = self._breaks(owner.node, first, last)
        for start, end in pairwise(breaks):
            start, end = self.rows.trim(start, end - 1)
            if start <= end:
                unit = _Unit(start, end, owner, (), self.rows.size(start, end))
                unit.opens = start <= owner.declared <= end and owner.owner is not None
                self.units.append(unit)

    def _breaks(self, node: Node, first: int, last: int) -> list[int]:
        """Rows at which `first` to `last` can be cut: where statements begin; in large statements,
        where inner ones do.
        """
        starts = self.starts
        low, high = starts[first], starts[last + 1]
        found = {first, last + 1}
        pending = [node]
        while pending:
            for child in pending.pop().named_children:
                begin, end = child.start_byte, child.end_byte
                if end <= low or begin >= high:
                    continue
                row = bisect_right(starts, begin) - 1
                if row > first:
                    found.add(row)
                if min(end, high) - max(begin, low) > self.target:
                    pending.append(child)
        return self._coarsen(sorted(found))

    def _coarsen(self, breaks: list[int]) -> list[int]:
        """Drop breaks so that neighbouring parts fill the target."""
        kept = [breaks[0]]
        for here, there in pairwise(breaks[1:]):
            if self.rows.size(kept[-1], there - 1) > self.target:
                kept.append(here)
        return [*kept, breaks[-1]] if breaks[-1] != kept[-1] else kept

    def chunks(self) -> tuple[Chunk, ...]:
        """The units, grouped, as chunks."""
        out: list[Chunk] = []
        for group in self._attach_scraps(self._group()):
            kind, name, qualified, signature, doc = self._caption(group)
            for start, end, first, last in ranges(
                self.rows, group.first, group.last, self.target, self.limit
            ):
                out.append(
                    Chunk(
                        len(out),
                        start,
                        end,
                        first + 1,
                        last + 1,
                        kind,
                        name,
                        qualified,
                        signature,
                        doc,
                    )
                )
                doc = ""
        return tuple(out)

    def _group(self) -> list[_Unit]:
        """Neighbouring light units of one owner, joined up to the target."""
        groups: list[_Unit] = []
        for unit in self.units:
            last = groups[-1] if groups else None
            if (
                last is None
                or last.heavy
                or unit.heavy
                or last.owner is not unit.owner
                or self.rows.size(last.first, unit.last) > self.target
            ):
                groups.append(unit)
                continue
            last.last = unit.last
            last.whole += unit.whole
            last.opens |= unit.opens
            last.size = self.rows.size(last.first, last.last)
        return groups

    def _attach_scraps(self, groups: list[_Unit]) -> list[_Unit]:
        """Put a few lines that mean little alone (a brace, a section comment) to the next or the
        previous group.
        """
        out: list[_Unit] = []
        carried: _Unit | None = None
        for index, group in enumerate(groups):
            if carried is not None:
                group.first = carried.first
                group.size = self.rows.size(group.first, group.last)
                carried = None
            if group.whole or group.opens or group.size > self.target * SCRAP:
                out.append(group)
                continue
            following = groups[index + 1] if index + 1 < len(groups) else None
            meaningful = (
                _WORDS.search("".join(self.rows.lines[group.first : group.last + 1])) is not None
            )
            if (
                following is not None
                and (meaningful or not out)
                and self.rows.size(group.first, following.last) <= self.limit
            ):
                carried = group
            elif (
                out
                and self.rows.size(out[-1].first, group.last) <= self.limit + self.target * SCRAP
            ):
                out[-1].last = group.last
            else:
                out.append(group)
        return out

    def _caption(self, group: _Unit) -> tuple[str, str, str, str, str]:
        """Kind, name, qualified name, signature and doc of a group."""
        whole = group.whole
        speaker = group.owner if group.opens else self._main(group) or group.owner
        alone = speaker is not group.owner
        if speaker.owner is None:
            return "block", "", "", self._joined(whole), ""
        signature = (
            signature_of(speaker, self.raw, self.starts)
            if alone or group.opens or not whole
            else self._joined(whole)
        )
        doc = (
            doc_of(speaker, self.raw, self.rows.lines, self.language)
            if alone or group.opens
            else ""
        )
        return speaker.kind, speaker.name, speaker.qualified, signature, doc

    def _main(self, group: _Unit) -> Definition | None:
        """The one definition that most of a group is, if there is one."""
        candidates = [each for each in group.whole if not each.light] or group.whole
        if (
            len(candidates) == 1
            and 2 * self.rows.size(candidates[0].first, candidates[0].last) >= group.size
        ):
            return candidates[0]
        return None

    def _joined(self, whole: tuple[Definition, ...]) -> str:
        heavy = [each for each in whole if not each.light] or whole
        signatures = "; ".join(signature_of(each, self.raw, self.starts) for each in heavy[:12])
        return signatures[:MAX_SIGNATURE_CHARACTERS]
