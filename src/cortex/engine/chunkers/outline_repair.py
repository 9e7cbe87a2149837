"""An outline with holes, mended: declarations found by their keyword take the places where the tree
has nothing.

What the tree found stays, and moves into the declaration whose lines it stands in. Where most of a
text is lost and keywords find more, they alone make the outline: what a tree of garbage calls a
definition is garbage. Knows definitions and declarations, no grammar.
"""

from __future__ import annotations

from bisect import bisect_left

from cortex.engine.chunkers.grammars import LIGHT
from cortex.engine.chunkers.keyword_scan import Declaration
from cortex.engine.chunkers.outline import FUNCTIONS, MAX_NESTING, TYPES, Definition, Outliner

HOPELESS = 0.5  # of a text, lost


def mend(outliner: Outliner) -> list[Definition]:
    """Fill the holes of an outline; all of its definitions in document order."""
    top, declarations = outliner.top, outliner.declarations
    regions: dict[int, tuple[Definition, list[tuple[int, int]]]] = {}
    for owner, first, last in outliner.errors:
        regions.setdefault(id(owner), (owner, []))[1].append((first, last))
    if outliner.lost > HOPELESS * len(outliner.raw) and _large(outliner.found) < len(declarations):
        top.children = []
        regions = {0: (top, [(0, len(outliner.starts))])}
    by_row = {each.row: each for each in declarations}
    for owner, rows in regions.values():
        children, better = _believable(owner, by_row)
        children.sort(key=_declared)
        missing = _missing(owner, children, rows, declarations)
        opened = _lengthen(children, rows, by_row)
        seen = {each.row for each in missing}
        missing.extend(each for each in better if each.row not in seen)
        _fill(
            owner, children, opened, [_definition(each, owner, outliner.starts) for each in missing]
        )
    return _in_order(top)


def _large(found: list[Definition]) -> int:
    return sum(not each.light for each in found)


def _believable(
    owner: Definition, by_row: dict[int, Declaration]
) -> tuple[list[Definition], list[Declaration]]:
    """The children of `owner`; those that are no types but begin as one are taken apart, and that
    type is declared instead.
    """
    types = {owner.declared if owner.owner is not None else -1}
    types.update(each.declared for each in owner.children if each.kind in TYPES)
    kept: list[Definition] = []
    declared: list[Declaration] = []
    for child in owner.children:
        said = by_row.get(child.declared)
        if said is None or said.kind not in TYPES or said.row in types:
            kept.append(child)
            continue
        kept.extend(child.children)
        declared.append(said)
        types.add(said.row)
    return kept, declared


def _lengthen(
    children: list[Definition], rows: list[tuple[int, int]], by_row: dict[int, Declaration]
) -> list[Definition]:
    """Those children that break off where an error begins, with the rows that their indentation
    gives them.
    """
    opened: list[Definition] = []
    for first, _ in rows:
        index = bisect_left(children, first + 1, key=_declared) - 1
        child = children[index] if index >= 0 else None
        if child is None or child.light or not first - 2 <= child.last <= first:
            continue
        # The name can be some lines below the annotations with which a definition begins.
        spoken = (
            by_row.get(row)
            for row in range(child.declared, min(child.last, child.declared + 10) + 1)
        )
        said = next((each for each in spoken if each is not None and each.name == child.name), None)
        if said is not None and said.last > child.last:
            child.last = said.last
            opened.append(child)
    return opened


def _missing(
    owner: Definition,
    children: list[Definition],
    rows: list[tuple[int, int]],
    declarations: list[Declaration],
) -> list[Declaration]:
    """The declarations in these rows that none of `children` covers."""
    missing: list[Declaration] = []
    index, covered, beyond = 0, -1, owner.declared if owner.owner is not None else -1
    for first, last in sorted(rows):
        start = bisect_left(declarations, max(first, beyond + 1), key=_row)
        for each in declarations[start : bisect_left(declarations, last + 1, key=_row)]:
            beyond = each.row
            while index < len(children) and children[index].declared <= each.row:
                covered = max(covered, children[index].last)
                index += 1
            if each.row > covered:
                missing.append(each)
    return missing


def _fill(
    owner: Definition, children: list[Definition], opened: list[Definition], added: list[Definition]
) -> None:
    """Give `owner` its children and those that were missing; what stands in the rows of an open one
    goes into that.
    """
    holding = {id(each) for each in (*added, *opened)}
    owner.children = []
    stack: list[Definition] = []
    for entry in sorted([*children, *added], key=_declared):
        while stack and entry.declared > stack[-1].last:
            stack.pop()
        holder = stack[-1] if stack else owner
        if entry.light and holder.kind in FUNCTIONS:
            continue  # a local variable of a function that the tree didn't see
        _move(entry, holder)
        if id(entry) in holding and entry.qualified.count(".") < MAX_NESTING:
            stack.append(entry)


def _definition(declaration: Declaration, owner: Definition, starts: list[int]) -> Definition:
    made = Definition(declaration.kind, declaration.name, owner, owner.node)
    made.light = declaration.kind in LIGHT
    if declaration.kind == "function" and owner.kind in TYPES:
        made.kind = "method"
    if owner.qualified:
        made.qualified = f"{owner.qualified}.{declaration.name}"
    made.name = declaration.name.rpartition(".")[2]
    made.first, made.declared, made.last = declaration.first, declaration.row, declaration.last
    made.start = starts[declaration.row]
    return made


def _move(entry: Definition, holder: Definition) -> None:
    """Make `entry` the last child of `holder`, and name all of it after where it is now."""
    holder.children.append(entry)
    former, entry.owner = entry.owner, holder
    if former is holder:
        return
    if entry.kind == "function" and holder.kind in TYPES:
        entry.kind = "method"
    fresh = f"{holder.qualified}." if holder.qualified else ""
    cut = len(former.qualified) + 1 if former is not None and former.qualified else 0
    pending = [entry]
    while pending:
        each = pending.pop()
        each.qualified = fresh + each.qualified[cut:]
        pending.extend(each.children)


def _in_order(top: Definition) -> list[Definition]:
    found: list[Definition] = []
    pending = top.children[::-1]
    while pending:
        each = pending.pop()
        found.append(each)
        pending.extend(reversed(each.children))
    return found


def _declared(definition: Definition) -> int:
    return definition.declared


def _row(declaration: Declaration) -> int:
    return declaration.row
