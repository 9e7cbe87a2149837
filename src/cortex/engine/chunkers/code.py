"""Code to chunks: whole definitions if they fit, else their parts; small ones together.

Works in rows: a chunk is whole lines, so two definitions on one line share a chunk. The text is
first laid out as units (a whole definition, or the text between definitions), then units too small
to stand alone are merged. A group of several small definitions is named after the enclosing one;
their signatures and the symbols still name each one.
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
# chunk.
SLACK = 1.5
# Share of the target below which a definition (some five lines) shares a chunk with its neighbours.
TINY = 0.2
# Share of the target below which text between definitions is attached to a neighbour.
SCRAP = 0.08
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
        # True if the unit contains the owner's own declaration.
        self.opens = False


def cut_code(
    text: str, language: str, target_tokens: int
) -> tuple[tuple[Chunk, ...], tuple[Symbol, ...]]:
    """Cut a text in a language with a grammar into chunks and symbols."""
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
    definitions = mend(outliner) if outliner.errors else outliner.found
    top.last = len(rows.lines) - 1
    layout = _Layout(rows, raw, starts, language, target_tokens * TOKEN_CHARACTERS)
    layout.lay(top)
    chunks, symbols = layout.chunks(), tuple(_symbols(definitions))
    for definition in definitions:
        # Break the cycles, so that the tree is freed now and not at some later garbage collection.
        definition.owner = None
    return chunks, symbols


def _symbols(definitions: list[Definition]) -> list[Symbol]:
    return [
        Symbol(
            definition.name,
            definition.qualified,
            definition.kind,
            definition.declared + 1,
            definition.last + 1,
            definition.qualified[: -len(definition.name) - 1],
        )
        for definition in definitions
        if definition.kind != "impl"
    ]


class _Layout:
    """Conversion of one text from definitions to chunks."""

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
        # The first row that is in no unit yet.
        self.free = 0

    def lay(self, top: Definition) -> None:
        """Lay out every row in order; a definition that is too large is opened into its parts."""
        stack: list[tuple[Definition, int]] = [(top, 0)]
        while stack:
            owner, index = stack.pop()
            opened = False
            while index < len(owner.children) and not opened:
                child = owner.children[index]
                index += 1
                if child.last < self.free:
                    # It shares its line with the previous unit.
                    continue
                if child.first > self.free:
                    self._add_gap(owner, child.first - 1)
                if self.rows.size(max(child.first, self.free), child.last) <= self.limit:
                    self._add_definition(child)
                else:
                    stack.append((owner, index))
                    stack.append((child, 0))
                    opened = True
            if not opened and owner.last >= self.free:
                self._add_gap(owner, owner.last)

    def _add_definition(self, definition: Definition) -> None:
        first, last = self.rows.trim(self.free, definition.last)
        self.free = definition.last + 1
        unit = _Unit(
            first, last, definition.owner or definition, (definition,), self.rows.size(first, last)
        )
        unit.heavy = not definition.light and unit.size > self.target * TINY
        self.units.append(unit)

    def _add_gap(self, owner: Definition, last: int) -> None:
        """Add the text of `owner` between its children as units, split between statements."""
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
        """Rows at which `first` to `last` can be cut: statements, or inner ones if large."""
        starts = self.starts
        low, high = starts[first], starts[last + 1]
        breaks = {first, last + 1}
        pending = [node]
        while pending:
            for child in pending.pop().named_children:
                begin, end = child.start_byte, child.end_byte
                if end <= low or begin >= high:
                    continue
                row = bisect_right(starts, begin) - 1
                if row > first:
                    breaks.add(row)
                if min(end, high) - max(begin, low) > self.target:
                    pending.append(child)
        return self._coarsen(sorted(breaks))

    def _coarsen(self, breaks: list[int]) -> list[int]:
        """Drop breaks so that neighbouring parts fill the target."""
        kept = [breaks[0]]
        for current, following in pairwise(breaks[1:]):
            if self.rows.size(kept[-1], following - 1) > self.target:
                kept.append(current)
        return [*kept, breaks[-1]] if breaks[-1] != kept[-1] else kept

    def chunks(self) -> tuple[Chunk, ...]:
        """Group the units and convert them to chunks."""
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
        """Merge neighbouring light units of one owner up to the target."""
        groups: list[_Unit] = []
        for unit in self.units:
            previous = groups[-1] if groups else None
            if (
                previous is None
                or previous.heavy
                or unit.heavy
                or previous.owner is not unit.owner
                or self.rows.size(previous.first, unit.last) > self.target
            ):
                groups.append(unit)
                continue
            previous.last = unit.last
            previous.whole += unit.whole
            previous.opens |= unit.opens
            previous.size = self.rows.size(previous.first, previous.last)
        return groups

    def _attach_scraps(self, groups: list[_Unit]) -> list[_Unit]:
        """Attach lines that mean little alone (a brace, a comment) to a neighbouring group."""
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
        subject = group.owner if group.opens else self._main_definition(group) or group.owner
        is_single = subject is not group.owner
        if subject.owner is None:
            return "block", "", "", self._join_signatures(whole), ""
        signature = (
            signature_of(subject, self.raw, self.starts)
            if is_single or group.opens or not whole
            else self._join_signatures(whole)
        )
        doc = (
            doc_of(subject, self.raw, self.rows.lines, self.language)
            if is_single or group.opens
            else ""
        )
        return subject.kind, subject.name, subject.qualified, signature, doc

    def _main_definition(self, group: _Unit) -> Definition | None:
        """The definition that makes up most of a group, if there is one."""
        candidates = [
            definition for definition in group.whole if not definition.light
        ] or group.whole
        if (
            len(candidates) == 1
            and 2 * self.rows.size(candidates[0].first, candidates[0].last) >= group.size
        ):
            return candidates[0]
        return None

    def _join_signatures(self, whole: tuple[Definition, ...]) -> str:
        heavy = [definition for definition in whole if not definition.light] or whole
        signatures = "; ".join(
            signature_of(definition, self.raw, self.starts) for definition in heavy[:12]
        )
        return signatures[:MAX_SIGNATURE_CHARACTERS]
