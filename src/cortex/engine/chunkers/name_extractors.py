"""Names of definitions whose grammar has no plain `name` field: one small function for each way of
naming.

Each takes a node and the source bytes and gives the name as written relative to where it stands,
parts joined by dots ("Outer.inner"), or "" when the node defines nothing. Which node uses which is
said in grammars.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from tree_sitter import Node

Namer = Callable[[Node, bytes], str]

MAX_NAME_CHARACTERS = 200
_NAME_TYPES = re.compile(
    r"(identifier|name|word|constant|module_id|variable|type_constructor|operator)$"
)
_ARGUMENTS = re.compile(r"<[^<>]*>|\[[^\[\]]*\]")
_SEPARATORS = re.compile(r"\s*(?:::|\\|->|#|:|\.)\s*")
_EXPORTS = re.compile(
    r"^(?:module\.exports|exports|window|globalThis|self|this)\.|\.prototype(?=\.)"
)
_WORD = re.compile(r"^[\w$?!.@*'-]+$")


def text_of(node: Node, raw: bytes) -> str:
    """The source text of `node`."""
    # Slicing costs half of Node.text; Point (start_point, end_point) is never touched: reading its
    # row or column in tree-sitter 0.26.0 returns a borrowed reference and crashes the process after
    # enough numbers above 256.
    return raw[
        node.start_byte : min(node.end_byte, node.start_byte + 4 * MAX_NAME_CHARACTERS)
    ].decode("utf-8", "replace")


def dotted(text: str) -> str:
    """`a::C<T>::m` -> `a.C.m`."""
    if text.isidentifier():
        return text
    while "<" in text or "[" in text:
        shorter = _ARGUMENTS.sub("", text)
        if shorter == text:
            break
        text = shorter
    return _SEPARATORS.sub(".", text.strip()).strip(".")


def named(node: Node, raw: bytes) -> str:
    """The `name` field, else the first child that looks like a name."""
    found = node.child_by_field_name("name")
    if found is None:
        found = next(
            (child for child in node.named_children if _NAME_TYPES.search(child.type)), None
        )
    return dotted(text_of(found, raw).strip("\"'$")) if found is not None else ""


def assigned(node: Node, raw: bytes) -> str:
    """The left side of an assignment or the name of a declarator, if it is a plain (dotted) name."""
    left = (
        node.child_by_field_name("name")
        or node.child_by_field_name("left")
        or node.child_by_field_name("property")
    )
    left = left or node.child_by_field_name("key") or node.child_by_field_name("pattern")
    if left is None:
        left = node.named_children[0] if node.named_children else None
    if left is None:
        return ""
    text = text_of(left, raw).strip("\"'").lstrip("$#").replace(":", ".")
    text = _EXPORTS.sub("", text)
    return text if len(text) < 100 and _WORD.match(text) else ""


def declared(node: Node, raw: bytes) -> str:
    """C and its kin: the name is at the end of a chain of declarators."""
    current: Node | None = node.child_by_field_name("declarator")
    function = node.type == "function_definition"
    for _ in range(50):
        if current is None:
            return ""
        kind = current.type
        if kind == "function_declarator":
            function = True
        deeper = current.child_by_field_name("declarator")
        if deeper is None and kind in _DECLARATORS:
            deeper = next(
                (
                    child
                    for child in current.named_children
                    if child.type.endswith(("declarator", "identifier"))
                ),
                None,
            )
        if deeper is None or kind in ("qualified_identifier", "operator_cast"):
            break
        current = deeper
    if current is None or (function and node.type in ("declaration", "field_declaration")):
        return ""  # a prototype: the definition is elsewhere
    text = text_of(current, raw)
    if "operator" in text:
        return text.replace("::", ".").partition("(")[0].strip()
    return dotted(text)


_DECLARATORS = frozenset(
    "reference_declarator pointer_declarator parenthesized_declarator array_declarator init_declarator function_declarator attributed_declarator".split()
)


def receiver(node: Node, raw: bytes) -> str:
    """Go: a method is named after the type it belongs to."""
    name = named(node, raw)
    holder = node.child_by_field_name("receiver")
    if holder is None:
        return name
    inner = text_of(holder, raw).strip("() ").split(" ")[-1].lstrip("*").partition("[")[0]
    return f"{inner}.{name}" if inner else name


def implemented(node: Node, raw: bytes) -> str:
    """Rust: an impl block stands for its type."""
    found = node.child_by_field_name("type")
    return dotted(text_of(found, raw)).rpartition(".")[2].lstrip("&'") if found is not None else ""


def selector(node: Node, raw: bytes) -> str:
    """Objective-C: `- (void)m:(int)a with:(int)b` is `m:with:`."""
    words: list[str] = []
    takes = False
    for child in node.named_children:
        if child.type == "identifier":
            words.append(text_of(child, raw))
        elif child.type == "method_parameter":
            takes = True
            words.append(":")
    return "".join(words) if takes else "".join(words[:1])


def first_line(node: Node, raw: bytes) -> str:
    """The node's text up to its block: a CSS rule is named by its selectors."""
    return " ".join(text_of(node, raw).partition("{")[0].split())[:MAX_NAME_CHARACTERS]


def labels(node: Node, raw: bytes) -> str:
    """HCL: `resource "aws_x" "y"` is `aws_x.y`, `variable "v"` is `variable.v`."""
    words = [
        text_of(child, raw).strip('"')
        for child in node.named_children
        if child.type in ("identifier", "string_lit")
    ]
    return ".".join(words[1:] if len(words) > 2 and words[0] == "resource" else words)


def referenced(node: Node, raw: bytes) -> str:
    """SQL: the created object, with its schema."""
    for child in node.named_children:
        if child.type in ("object_reference", "identifier"):
            return text_of(child, raw).replace('"', "").replace("`", "")
    return ""


def signed(node: Node, raw: bytes) -> str:
    """Julia: the name in a signature, a type head or the short form `f(x) = ...`."""
    current = node
    for _ in range(10):
        if current.type in ("identifier", "field_expression", "operator"):
            return dotted(text_of(current, raw))
        if not current.named_children:
            return ""
        current = current.named_children[0]
        if node.type == "assignment" and current.type == "identifier":
            return text_of(current, raw)
    return ""


def described(node: Node, raw: bytes) -> str:
    """The string that names a test: `test "adds"`."""
    found = next((child for child in node.named_children if child.type.startswith("string")), None)
    return text_of(found, raw).strip("\"'")[:MAX_NAME_CHARACTERS] if found is not None else ""


def bound(node: Node, raw: bytes) -> str:
    """Kotlin: the name in a property's variable declaration."""
    found = next(
        (child for child in node.named_children if child.type == "variable_declaration"), None
    )
    return named(found, raw) if found is not None else ""


def last_word(node: Node, raw: bytes) -> str:
    """Swift: a protocol's property is named by a pattern, `var q`."""
    return (named(node, raw).split() or [""])[-1]


def special(node: Node, raw: bytes) -> str:
    """Swift: `init`, `deinit` and `subscript` are their own names."""
    return node.type.partition("_")[0]


def ruby_constant(node: Node, raw: bytes) -> str:
    """Ruby: only an assignment to a constant defines something."""
    left = node.child_by_field_name("left")
    return text_of(left, raw) if left is not None and left.type == "constant" else ""


def listed(node: Node, raw: bytes) -> str:
    """Lua: the first target of an assignment."""
    targets = node.named_children[0] if node.named_children else None
    text = text_of(targets, raw).replace(":", ".") if targets is not None else ""
    return text if _WORD.match(text) else ""


_ELIXIR_KINDS = {
    "defmodule": "module",
    "defprotocol": "interface",
    "defimpl": "impl",
    "def": "function",
    "defp": "function",
    "defmacro": "macro",
    "defmacrop": "macro",
    "defguard": "function",
    "defdelegate": "function",
    "test": "test",
    "describe": "module",
}


def elixir(node: Node, raw: bytes) -> tuple[str, str]:
    """(kind, name) of an Elixir call that defines something, else ("", "")."""
    target = node.child_by_field_name("target")
    kind = (
        _ELIXIR_KINDS.get(text_of(target, raw), "")
        if target is not None and target.type == "identifier"
        else ""
    )
    arguments = (
        next((child for child in node.named_children if child.type == "arguments"), None)
        if kind
        else None
    )
    if arguments is None or not arguments.named_children:
        return "", ""
    head = arguments.named_children[0]
    while head.type in ("binary_operator", "call") and head.named_children:
        head = head.named_children[0]
    return kind, text_of(head, raw).strip('"')
