"""Names of definitions without a plain `name` field: one function for each way of naming.

Each takes a node and the source bytes and returns the name as written relative to its context,
parts joined by dots ("Outer.inner"), or "" if the node defines nothing. grammars.py assigns them to
nodes.
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
    """Source text of `node`."""
    # Slicing costs half of Node.text. Point (start_point, end_point) is never used: reading its row
    # or column in tree-sitter 0.26.0 returns a borrowed reference and crashes the process after
    # enough numbers above 256.
    return raw[
        node.start_byte : min(node.end_byte, node.start_byte + 4 * MAX_NAME_CHARACTERS)
    ].decode("utf-8", "replace")


def dotted(text: str) -> str:
    """Normalize a qualified name: `a::C<T>::m` becomes `a.C.m`."""
    if text.isidentifier():
        return text
    while "<" in text or "[" in text:
        shorter = _ARGUMENTS.sub("", text)
        if shorter == text:
            break
        text = shorter
    return _SEPARATORS.sub(".", text.strip()).strip(".")


def named(node: Node, raw: bytes) -> str:
    """Name from the `name` field, else from the first child that looks like a name."""
    name_node = node.child_by_field_name("name")
    if name_node is None:
        name_node = next(
            (child for child in node.named_children if _NAME_TYPES.search(child.type)), None
        )
    return dotted(text_of(name_node, raw).strip("\"'$")) if name_node is not None else ""


def assigned(node: Node, raw: bytes) -> str:
    """Left side of an assignment or name of a declarator, if it is a plain (dotted) name."""
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
    """Name at the end of a chain of declarators, for C and related languages."""
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
        # This is a prototype: the definition is elsewhere.
        return ""
    text = text_of(current, raw)
    if "operator" in text:
        return text.replace("::", ".").partition("(")[0].strip()
    return dotted(text)


_DECLARATORS = frozenset(
    "reference_declarator pointer_declarator parenthesized_declarator array_declarator "
    "init_declarator function_declarator attributed_declarator".split()
)


def receiver(node: Node, raw: bytes) -> str:
    """Name of a Go method, qualified by the type of its receiver."""
    name = named(node, raw)
    holder = node.child_by_field_name("receiver")
    if holder is None:
        return name
    inner = text_of(holder, raw).strip("() ").split(" ")[-1].lstrip("*").partition("[")[0]
    return f"{inner}.{name}" if inner else name


def implemented(node: Node, raw: bytes) -> str:
    """Type of a Rust impl block."""
    type_node = node.child_by_field_name("type")
    return (
        dotted(text_of(type_node, raw)).rpartition(".")[2].lstrip("&'")
        if type_node is not None
        else ""
    )


def selector(node: Node, raw: bytes) -> str:
    """Objective-C selector: `- (void)m:(int)a with:(int)b` is `m:with:`."""
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
    """Text of a node up to its block: a CSS rule is named by its selectors."""
    return " ".join(text_of(node, raw).partition("{")[0].split())[:MAX_NAME_CHARACTERS]


def labels(node: Node, raw: bytes) -> str:
    """Name of an HCL block: `resource "aws_x" "y"` is `aws_x.y`, `variable "v"` is `variable.v`."""
    words = [
        text_of(child, raw).strip('"')
        for child in node.named_children
        if child.type in ("identifier", "string_lit")
    ]
    return ".".join(words[1:] if len(words) > 2 and words[0] == "resource" else words)


def referenced(node: Node, raw: bytes) -> str:
    """Name of the object that an SQL statement creates, with its schema."""
    for child in node.named_children:
        if child.type in ("object_reference", "identifier"):
            return text_of(child, raw).replace('"', "").replace("`", "")
    return ""


def signed(node: Node, raw: bytes) -> str:
    """Name in a Julia signature, a type head or the short form `f(x) = ...`."""
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
    """Name of a test given as a string: `test "adds"`."""
    string = next((child for child in node.named_children if child.type.startswith("string")), None)
    return text_of(string, raw).strip("\"'")[:MAX_NAME_CHARACTERS] if string is not None else ""


def bound(node: Node, raw: bytes) -> str:
    """Name in the variable declaration of a Kotlin property."""
    declaration = next(
        (child for child in node.named_children if child.type == "variable_declaration"), None
    )
    return named(declaration, raw) if declaration is not None else ""


def last_word(node: Node, raw: bytes) -> str:
    """Name of a Swift protocol's property, which is a pattern: `var q`."""
    return (named(node, raw).split() or [""])[-1]


def special(node: Node, raw: bytes) -> str:
    """Name of Swift's `init`, `deinit` and `subscript`."""
    return node.type.partition("_")[0]


def ruby_constant(node: Node, raw: bytes) -> str:
    """Name of a Ruby constant; other assignments define nothing."""
    left = node.child_by_field_name("left")
    return text_of(left, raw) if left is not None and left.type == "constant" else ""


def listed(node: Node, raw: bytes) -> str:
    """First target of a Lua assignment."""
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
    """Kind and name of an Elixir call that defines something, else ("", "")."""
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
