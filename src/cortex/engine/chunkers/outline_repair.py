"""Repair of an outline with parse errors, by declarations that were found by keyword.

Declarations fill the places where the tree has nothing. Definitions from the tree stay, and move
into the declaration that contains their lines. If the tree misses most of a text and keywords find
more, only declarations make the outline, because what is left of the tree is mostly wrong. Knows
definitions and declarations, no grammar.
"""

from __future__ import annotations

from bisect import bisect_left

from cortex.engine.chunkers.grammars import LIGHT
from cortex.engine.chunkers.keyword_scan import Declaration
from cortex.engine.chunkers.outline import FUNCTIONS, MAX_NESTING, TYPES, Definition, Outliner

# Share of a text that the tree misses, above which the tree isn't used.
HOPELESS = 0.5


def mend(outliner: Outliner) -> list[Definition]:
    """Repair an outline and return all of its definitions in document order."""
    top, declarations = outliner.top, outliner.declarations
    regions: dict[int, tuple[Definition, list[tuple[int, int]]]] = {}
    for owner, first, last in outliner.errors:
        regions.setdefault(id(owner), (owner, []))[1].append((first, last))
    if outliner.lost > HOPELESS * len(outliner.raw) and _count_heavy(outliner.found) < len(
        declarations
    ):
        top.children = []
        regions = {0: (top, [(0, len(outliner.starts))])}
    by_row = {declaration.row: declaration for declaration in declarations}
    for owner, rows in regions.values():
        children, better = _select_children(owner, by_row)
        children.sort(key=_declared_row)
        missing = _missing(owner, children, rows, declarations)
        opened = _extend_children(children, rows, by_row)
        missing_rows = {declaration.row for declaration in missing}
        missing.extend(declaration for declaration in better if declaration.row not in missing_rows)
        _fill(
            owner,
            children,
            opened,
            [_definition(declaration, owner, outliner.starts) for declaration in missing],
        )
    return _in_order(top)


def _count_heavy(definitions: list[Definition]) -> int:
    return sum(not definition.light for definition in definitions)


def _select_children(
    owner: Definition, by_row: dict[int, Declaration]
) -> tuple[list[Definition], list[Declaration]]:
    """Children of `owner` to keep, and type declarations to use instead of the others.

    A child that is no type but begins like one is dissolved into its children.
    """
    types = {owner.declared if owner.owner is not None else -1}
    types.update(child_.declared for child_ in owner.children if child_.kind in TYPES)
    kept: list[Definition] = []
    declared: list[Declaration] = []
    for child in owner.children:
        declaration = by_row.get(child.declared)
        if declaration is None or declaration.kind not in TYPES or declaration.row in types:
            kept.append(child)
            continue
        kept.extend(child.children)
        declared.append(declaration)
        types.add(declaration.row)
    return kept, declared


def _extend_children(
    children: list[Definition], rows: list[tuple[int, int]], by_row: dict[int, Declaration]
) -> list[Definition]:
    """Extend children that end at an error to the last row of their declaration."""
    opened: list[Definition] = []
    for first, _ in rows:
        index = bisect_left(children, first + 1, key=_declared_row) - 1
        child = children[index] if index >= 0 else None
        if child is None or child.light or not first - 2 <= child.last <= first:
            continue
        # The name can be some lines below the annotations with which a definition begins.
        candidates = (
            by_row.get(row)
            for row in range(child.declared, min(child.last, child.declared + 10) + 1)
        )
        declaration = next(
            (
                declaration_
                for declaration_ in candidates
                if declaration_ is not None and declaration_.name == child.name
            ),
            None,
        )
        if declaration is not None and declaration.last > child.last:
            child.last = declaration.last
            opened.append(child)
    return opened


def _missing(
    owner: Definition,
    children: list[Definition],
    rows: list[tuple[int, int]],
    declarations: list[Declaration],
) -> list[Declaration]:
    """Declarations in these rows that none of `children` covers."""
    missing: list[Declaration] = []
    index, covered, beyond = 0, -1, owner.declared if owner.owner is not None else -1
    for first, last in sorted(rows):
        start = bisect_left(declarations, max(first, beyond + 1), key=_row)
        for declaration in declarations[start : bisect_left(declarations, last + 1, key=_row)]:
            beyond = declaration.row
            while index < len(children) and children[index].declared <= declaration.row:
                covered = max(covered, children[index].last)
                index += 1
            if declaration.row > covered:
                missing.append(declaration)
    return missing


def _fill(
    owner: Definition, children: list[Definition], opened: list[Definition], added: list[Definition]
) -> None:
    """Assign children to `owner`; entries within the rows of an open one become its children."""
    holding = {id(definition) for definition in (*added, *opened)}
    owner.children = []
    stack: list[Definition] = []
    for entry in sorted([*children, *added], key=_declared_row):
        while stack and entry.declared > stack[-1].last:
            stack.pop()
        holder = stack[-1] if stack else owner
        if entry.light and holder.kind in FUNCTIONS:
            # This is a local variable of a function that the tree missed.
            continue
        _move(entry, holder)
        if id(entry) in holding and entry.qualified.count(".") < MAX_NESTING:
            stack.append(entry)


def _definition(declaration: Declaration, owner: Definition, starts: list[int]) -> Definition:
    definition = Definition(declaration.kind, declaration.name, owner, owner.node)
    definition.light = declaration.kind in LIGHT
    if declaration.kind == "function" and owner.kind in TYPES:
        definition.kind = "method"
    if owner.qualified:
        definition.qualified = f"{owner.qualified}.{declaration.name}"
    definition.name = declaration.name.rpartition(".")[2]
    definition.first, definition.declared, definition.last = (
        declaration.first,
        declaration.row,
        declaration.last,
    )
    definition.start = starts[declaration.row]
    return definition


def _move(entry: Definition, holder: Definition) -> None:
    """Make `entry` the last child of `holder`, and update the qualified names below it."""
    holder.children.append(entry)
    former, entry.owner = entry.owner, holder
    if former is holder:
        return
    if entry.kind == "function" and holder.kind in TYPES:
        entry.kind = "method"
    prefix = f"{holder.qualified}." if holder.qualified else ""
    prefix_length = len(former.qualified) + 1 if former is not None and former.qualified else 0
    pending = [entry]
    while pending:
        definition = pending.pop()
        definition.qualified = prefix + definition.qualified[prefix_length:]
        pending.extend(definition.children)


def _in_order(top: Definition) -> list[Definition]:
    definitions: list[Definition] = []
    pending = top.children[::-1]
    while pending:
        definition = pending.pop()
        definitions.append(definition)
        pending.extend(reversed(definition.children))
    return definitions


def _declared_row(definition: Definition) -> int:
    return definition.declared


def _row(declaration: Declaration) -> int:
    return declaration.row
