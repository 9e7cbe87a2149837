"""Outline of a syntax tree: its definitions as a tree with rows instead of nodes.

Only nodes that can hold definitions are visited (see grammars.py), with a stack of iterators, so
that nesting costs no Python stack. ERROR nodes are looked through, or parsed again in pieces if
that gives more (parse_recovery.py); lines in them that declare something by keyword and are in no
definition become definitions, too (outline_repair.py). Knows nothing of chunks. Rows come from byte
offsets by bisection, never from `Point` (see name_extractors.py).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

from tree_sitter import Node

from cortex.engine.chunkers import name_extractors
from cortex.engine.chunkers.grammars import (
    DEFINE,
    ELIXIR,
    ERROR,
    ERROR_KIND,
    LEAD,
    LIGHT,
    SCOPE,
    TAIL,
    VALUE,
    WRAP,
    Grammar,
    Rule,
)
from cortex.engine.chunkers.keyword_scan import Declaration
from cortex.engine.chunkers.parse_recovery import pieces, row_of

# Depth of nested containers; deeper text is still cut, by lines.
MAX_DEPTH = 500
# Depth of nested definitions.
MAX_NESTING = 40
# Limit for reparsing in pieces, as a multiple of the text's length.
MAX_REPARSED = 3
FUNCTIONS = frozenset({"function", "method", "test"})
TYPES = frozenset({"class", "struct", "interface", "trait", "enum", "impl"})


class Definition:
    """A definition with its rows, counted from 0.

    `first` includes the comments and decorators before the declaration.
    """

    __slots__ = (
        "body",
        "children",
        "declared",
        "first",
        "kind",
        "last",
        "light",
        "name",
        "node",
        "owner",
        "qualified",
        "start",
    )

    def __init__(self, kind: str, name: str, owner: Definition | None, node: Node) -> None:
        self.kind = kind
        self.name = name
        self.qualified = name
        self.owner = owner
        self.node = node
        self.children: list[Definition] = []
        self.first = self.declared = self.last = 0
        # `start` and `body` are byte offsets.
        self.start = 0
        self.body = -1
        self.light = False


_Frame = tuple[Iterator[Node], Definition, dict[int, Rule]]


class Outliner:
    """One walk through one syntax tree."""

    def __init__(
        self,
        root: Node,
        raw: bytes,
        starts: list[int],
        grammar: Grammar,
        declarations: list[Declaration],
    ) -> None:
        self.raw = raw
        self.starts = starts
        self.grammar = grammar
        # Declarations by keyword, for a text with errors.
        self.declarations = declarations
        self.top = Definition("", "", None, root)
        # In document order.
        self.found: list[Definition] = []
        # Owner, first and last row of each ERROR outside of functions.
        self.errors: list[tuple[Definition, int, int]] = []
        # Bytes in these errors that are in no definition.
        self.lost = 0
        self._reparsable = MAX_REPARSED * len(raw)
        self._lead = self._lead_end = -1
        nodes = [root] if root.kind_id == ERROR_KIND else root.children
        self._stack: list[_Frame] = [(iter(nodes), self.top, grammar.outside)]

    def walk(self) -> Definition:
        """Walk the tree and return the definitions below an unnamed top."""
        stack = self._stack
        while stack:
            nodes, owner, table = stack[-1]
            for node in nodes:
                rule = table.get(node.kind_id)
                if rule is not None and self._visit(node, rule, owner, table):
                    # A pushed node comes first.
                    break
            else:
                stack.pop()
        return self.top

    def _visit(self, node: Node, rule: Rule, owner: Definition, table: dict[int, Rule]) -> bool:
        action, kind, namer = rule
        if action == DEFINE:
            if kind == "class" and self.grammar.keywords:
                kind = self._type_kind(node)
            return self._define(node, kind, namer(node, self.raw), owner, node)
        if action == VALUE:
            return self._value(node, kind, namer(node, self.raw), owner, table)
        if action == LEAD:
            self._remember_lead(node)
            return False
        if action == ELIXIR:
            kind, name = name_extractors.elixir(node, self.raw)
            return bool(kind) and self._define(node, kind, name, owner, node)
        if action == TAIL:
            return self._extend(node, table)
        if action == ERROR and table is self.grammar.outside:
            return self._recover(node, owner)
        if action == WRAP:
            self._remember_wrap(node)
        return self._push(node, owner, self.grammar.inside if action == SCOPE else table)

    def _type_kind(self, node: Node) -> str:
        """Kind of a type in Kotlin and Swift, by the word before its name.

        Both have one node type for all types.
        """
        words = (
            self.raw[node.start_byte : node.start_byte + 300]
            .partition(b"{")[0]
            .partition(b":")[0]
            .split()
        )
        return next(
            (self.grammar.keywords[word] for word in words if word in self.grammar.keywords),
            "class",
        )

    def _push(self, node: Node, owner: Definition, table: dict[int, Rule]) -> bool:
        if not node.child_count or len(self._stack) >= MAX_DEPTH:
            return False
        self._stack.append((iter(node.children), owner, table))
        return True

    def _recover(self, node: Node, owner: Definition) -> bool:
        """Continue in an ERROR's children, or in its pieces if these parse better."""
        size = node.end_byte - node.start_byte
        self.errors.append(
            (owner, row_of(self.starts, node.start_byte), row_of(self.starts, node.end_byte - 1))
        )
        parts: list[Node] = []
        if self.declarations and size <= self._reparsable:
            self._reparsable -= size
            parts = pieces(node, self.raw, self.starts, self.declarations, self.grammar)
        if parts and len(self._stack) < MAX_DEPTH:
            self._stack.append((iter(parts), owner, self.grammar.outside))
            return True
        known = (child for child in node.children if child.kind_id in self.grammar.outside)
        self.lost += size - sum(child.end_byte - child.start_byte for child in known)
        return self._push(node, owner, self.grammar.outside)

    def _define(self, node: Node, kind: str, name: str, owner: Definition, value: Node) -> bool:
        """Record a definition and continue in its body; a nameless one is looked through."""
        body = value.child_by_field_id(self.grammar.body_field) if self.grammar.body_field else None
        if body is None and self.grammar.bodies:
            body = next(
                (child for child in value.named_children if child.type in self.grammar.bodies), None
            )
        if not name:
            return self._push(body or value, owner, self.grammar.outside)
        if body is None and node.type.endswith("_specifier"):
            # `struct s x;` only names a struct.
            return False
        definition = self._record(node, kind, name, owner)
        if body is not None:
            definition.body = body.start_byte
        if definition.qualified.count(".") > MAX_NESTING:
            return False
        return self._push(
            body or value,
            definition,
            self.grammar.inside if definition.kind in FUNCTIONS else self.grammar.outside,
        )

    def _value(
        self, node: Node, kind: str, name: str, owner: Definition, table: dict[int, Rule]
    ) -> bool:
        """Record a variable, constant, field or type outside of functions.

        One with a function or a type as its value is recorded everywhere.
        """
        values = self.grammar.values
        value = _defining_child(node, values) if values else None
        if value is not None:
            kind_of_value = values[value.type]
            if kind_of_value == "value" and kind == "callable":
                return self._push(value, owner, table)
            if name := name or name_extractors.named(value, self.raw):
                return self._define(
                    node,
                    kind_of_value if kind_of_value != "value" else _kind_by_spelling(name),
                    name,
                    owner,
                    value,
                )
        if (
            name
            and kind != "callable"
            and owner.kind not in FUNCTIONS
            and table is not self.grammar.inside
        ):
            self._record(node, _kind_by_spelling(name) if kind == "value" else kind, name, owner)
        return kind == "callable" and value is None and self._push(node, owner, self.grammar.inside)

    def _record(self, node: Node, kind: str, name: str, owner: Definition) -> Definition:
        starts = self.starts
        first, last = node.start_byte, node.end_byte
        row = bisect_right(starts, first) - 1
        end = bisect_right(starts, max(first, last - 1)) - 1
        siblings = owner.children
        if (
            self.grammar.joins
            and siblings
            and siblings[-1].name == name
            and siblings[-1].kind == kind
        ):
            siblings[-1].last = end
            return siblings[-1]
        definition = Definition(kind, name, owner, node)
        definition.light = kind in LIGHT
        if "." in name and kind != "rule":
            definition.name = name.rpartition(".")[2] or name
        if kind == "function" and (
            owner.kind in TYPES
            or (
                "." in name and node.type == "function_definition" and "::" in _head(node, self.raw)
            )
        ):
            definition.kind = "method"
        if owner.qualified:
            definition.qualified = f"{owner.qualified}.{name}"
        definition.declared = definition.first = row
        definition.last = end
        definition.start = first
        if 0 <= self._lead <= row <= self._lead_end + 1:
            definition.first = self._lead
        self._lead = self._lead_end = -1
        siblings.append(definition)
        self.found.append(definition)
        return definition

    def _extend(self, node: Node, table: dict[int, Rule]) -> bool:
        if not self.found:
            return False
        owner = self.found[-1]
        owner.last = max(owner.last, bisect_right(self.starts, node.end_byte - 1) - 1)
        owner.body = node.start_byte
        return self._push(node, owner, self.grammar.inside)

    def _remember_lead(self, node: Node) -> None:
        """Remember a run of comments and decorators on lines of their own."""
        starts = self.starts
        first = node.start_byte
        row = bisect_right(starts, first) - 1
        if self.raw[starts[row] : first].strip():
            # This comment follows code on its line.
            return
        if self._lead < 0 or row > self._lead_end + 1:
            self._lead = row
        self._lead_end = bisect_right(starts, max(first, node.end_byte - 1)) - 1

    def _remember_wrap(self, node: Node) -> None:
        """Let the first definition in `node` begin with `node`, or with the comments before it."""
        row = bisect_right(self.starts, node.start_byte) - 1
        if self._lead < 0 or row > self._lead_end + 1:
            self._lead = row
        self._lead_end = bisect_right(self.starts, node.end_byte - 1) - 1


def _defining_child(node: Node, values: dict[str, str]) -> Node | None:
    """Return the child of `node` that makes it a function or type, if any."""
    for child in node.named_children:
        if child.type == "expression_list" and child.named_children:
            child = child.named_children[0]
        if child.type in values:
            return (
                None
                if child.type.endswith("_specifier") and child.child_by_field_name("body") is None
                else child
            )
    return None


def _kind_by_spelling(name: str) -> str:
    last = name.rpartition(".")[2]
    return "constant" if len(last) > 1 and last.isupper() else "variable"


def _head(node: Node, raw: bytes) -> str:
    return raw[node.start_byte : node.start_byte + 300].decode("utf-8", "replace")
