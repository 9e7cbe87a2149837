"""Declarations found by their keyword, line by line, where a grammar fails.

One small table for all languages: a line that begins, after modifiers and annotations, with a word
such as "class" or "fun" and a name declares something; its indentation determines its end. Knows no
grammar and no tree. Declarations without a keyword (C functions, Java methods) are not guessed: a
call looks the same.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

# Characters of a line that are examined.
MAX_LINE_CHARACTERS = 1_000
_KINDS = {
    "class": "class",
    "object": "class",
    "record": "class",
    "interface": "interface",
    "protocol": "interface",
    "trait": "trait",
    "struct": "struct",
    "union": "struct",
    "enum": "enum",
    "module": "module",
    "namespace": "module",
    "macro": "macro",
    "type": "type",
    "typealias": "type",
    "def": "function",
    "fn": "function",
    "func": "function",
    "fun": "function",
    "function": "function",
}
_MODIFIERS = (
    "public private protected internal fileprivate static final abstract sealed open override "
    "inline external extern suspend data value "
    "inner annotation companion operator infix tailrec lateinit actual expect const constexpr "
    "export default declare async unsafe partial "
    "virtual readonly ref mutating pub local cdef cpdef noinline crossinline vararg"
)
_MACRO = (
    # C++ macros and attributes before a name.
    r"(?:(?:[A-Z][A-Z0-9_]{3,}(?:\([^()]*\))?|alignas\([^()]*\)|\[\[[^\[\]]*\]\])\s+(?=\w))?"
)
_DECLARATION = re.compile(
    rf"""[ \t]*
    (?:(?:@[\w.:]+(?:\([^()]*\))?|\#?\[[^\[\]]*\]|[A-Z][A-Z0-9_]{{3,}}(?:\([^()]*\))?|template\s*<[^<>]*>|fun(?=\s+interface\b)
        |(?:{"|".join(_MODIFIERS.split())})\b(?:\([^()]*\))?)\s+){{0,10}}
    (?:(?P<type>class|(?:object|record)(?=\s+[A-Z]\w*\s*(?:[({{<:]|$|//|extends\b))|interface|protocol|trait|enum\s+class|enum\s+struct|module|namespace|macro|typealias|type)
        \s+{_MACRO}(?P<name>[^\W\d][\w.:]*)(?=\s*(?:[({{<\[:=,@\w]|$|//|\#|--))
      |(?P<plain>struct|union|enum)  # more often before a name than at a definition
        \s+{_MACRO}(?P<plain_name>[^\W\d][\w.:]*)(?=\s*(?:[({{<\[:]|$|//|\#|(?:implements|where|final)\b))
      |(?P<function>def|fn|func|function|fun)
        \s+(?:<[^()=]{{1,200}}?>\s+|\([^()]*\)\s*)?(?P<function_name>[^\W\d][\w.:?!]*)(?=\s*(?:[({{<\[=:]|$)))""",
    re.VERBOSE,
)
_STRINGS = ('"""', "'''")
# Starts of lines that belong to the following declaration.
_LEADS = ("@", "//", "/*", "*", "#", "--", "template", "[")
# Starts of lines that continue a declaration of the same indentation.
_CONTINUATIONS = (")", "{", "]", ">", ":", "where", "public:", "private:", "protected:")
_CLOSES = ("}", "end")


@dataclass(slots=True)
class Declaration:
    """A declaration and its rows (from 0).

    `first` includes the comments and annotations above it.
    """

    first: int
    row: int
    last: int
    indent: int
    kind: str
    name: str


def scan(lines: Sequence[str]) -> list[Declaration]:
    """Find the declarations of a text in line order."""
    declarations: list[Declaration] = []
    # Declarations without a known end, outermost first.
    opened: list[Declaration] = []
    # The end mark of an open comment or long string.
    waits = ""
    for row, line in enumerate(lines):
        line = line[:MAX_LINE_CHARACTERS]
        if waits:
            waits = "" if waits in line else waits
            continue
        bare = line.strip()
        if not bare:
            continue
        indent = len(line) - len(line.lstrip())
        # A directive is at the margin regardless of its context.
        if bare[0] != "#":
            _close(opened, indent, row, bare)
        waits = _open_mark(bare)
        declared = _parse_declaration(line, bare)
        if declared is None:
            continue
        kind, name = declared
        floor = declarations[-1].row + 1 if declarations else 0
        declarations.append(
            Declaration(_first_row(lines, row, floor), row, row, indent, kind, name)
        )
        opened.append(declarations[-1])
    for declaration in opened:
        declaration.last = len(lines) - 1
    for declaration in declarations:
        while declaration.last > declaration.row and not lines[declaration.last].strip():
            declaration.last -= 1
    return declarations


def _parse_declaration(line: str, bare: str) -> tuple[str, str] | None:
    if bare[-1] == ";" and "{" not in bare and "=" not in bare:
        # `class Other;` is only a forward declaration.
        return None
    match = _DECLARATION.match(line)
    if match is None:
        return None
    word = match["type"] or match["plain"] or match["function"]
    name = match["name"] or match["plain_name"] or match["function_name"]
    name = name.strip(".:").replace("::", ".")
    return (_KINDS[word.split()[0]], name) if name else None


def _close(opened: list[Declaration], indent: int, row: int, bare: str) -> None:
    """Close the declarations that end at a line of this indentation."""
    # Kotlin allows annotated constructors below the name of the class.
    is_continuation = bare.startswith(_CONTINUATIONS) or "constructor(" in bare
    while opened and (
        indent < opened[-1].indent or (indent == opened[-1].indent and not is_continuation)
    ):
        ended = opened.pop()
        ended.last = row if indent == ended.indent and bare.startswith(_CLOSES) else row - 1


def _open_mark(bare: str) -> str:
    """Mark that ends the comment or string left open by this line."""
    if bare.startswith("/*"):
        return "" if "*/" in bare[2:] else "*/"
    return next((mark for mark in _STRINGS if bare.count(mark) % 2), "")


def _first_row(lines: Sequence[str], row: int, floor: int) -> int:
    while row > floor and lines[row - 1].lstrip().startswith(_LEADS):
        row -= 1
    return row
