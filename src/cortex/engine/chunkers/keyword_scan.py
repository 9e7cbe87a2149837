"""Declarations by their keyword, line by line: what is left where a grammar has lost its way.

One small table for all languages: a line that begins, after modifiers and annotations, with a word
such as "class" or "fun" and a name declares something; its indentation says where it ends. Knows no
grammar and no tree. Declarations without a keyword (C functions, Java methods) are not guessed: a
call looks the same.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

MAX_LINE_CHARACTERS = 1_000  # of a line that are looked at
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
    "public private protected internal fileprivate static final abstract sealed open override inline external extern suspend data value "
    "inner annotation companion operator infix tailrec lateinit actual expect const constexpr export default declare async unsafe partial "
    "virtual readonly ref mutating pub local cdef cpdef noinline crossinline vararg"
)
_MACRO = (
    # Before a name, in C++
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
# Lines before a declaration that belong to it
_LEADS = ("@", "//", "/*", "*", "#", "--", "template", "[")
# Lines that end nothing of their indentation
_GOES_ON = (
    ")",
    "{",
    "]",
    ">",
    ":",
    "where",
    "public:",
    "private:",
    "protected:",
)
_CLOSES = ("}", "end")


@dataclass(slots=True)
class Declaration:
    """A declaration and its rows (from 0); `first` includes the comments and annotations above it."""

    first: int
    row: int
    last: int
    indent: int
    kind: str
    name: str


def scan(lines: Sequence[str]) -> list[Declaration]:
    """The declarations of a text in the order of their lines."""
    found: list[Declaration] = []
    opened: list[Declaration] = []  # those whose end is not seen yet, outermost first
    waits = ""  # for the end of a comment or a long string
    for row, line in enumerate(lines):
        line = line[:MAX_LINE_CHARACTERS]
        if waits:
            waits = "" if waits in line else waits
            continue
        bare = line.strip()
        if not bare:
            continue
        indent = len(line) - len(line.lstrip())
        if bare[0] != "#":  # a directive stands at the margin whatever is around it
            _close(opened, indent, row, bare)
        waits = _waits(bare)
        declared = _declared(line, bare)
        if declared is None:
            continue
        kind, name = declared
        floor = found[-1].row + 1 if found else 0
        found.append(Declaration(_lead(lines, row, floor), row, row, indent, kind, name))
        opened.append(found[-1])
    for each in opened:
        each.last = len(lines) - 1
    for each in found:
        while each.last > each.row and not lines[each.last].strip():
            each.last -= 1
    return found


def _declared(line: str, bare: str) -> tuple[str, str] | None:
    if bare[-1] == ";" and "{" not in bare and "=" not in bare:
        return None  # `class Other;` only says that there is one
    match = _DECLARATION.match(line)
    if match is None:
        return None
    word = match["type"] or match["plain"] or match["function"]
    name = match["name"] or match["plain_name"] or match["function_name"]
    name = name.strip(".:").replace("::", ".")
    return (_KINDS[word.split()[0]], name) if name else None


def _close(opened: list[Declaration], indent: int, row: int, bare: str) -> None:
    """End what a line of this indentation ends."""
    # Kotlin has annotated ones below the class's name
    goes_on = bare.startswith(_GOES_ON) or "constructor(" in bare
    while opened and (indent < opened[-1].indent or (indent == opened[-1].indent and not goes_on)):
        ended = opened.pop()
        ended.last = row if indent == ended.indent and bare.startswith(_CLOSES) else row - 1


def _waits(bare: str) -> str:
    """What ends the comment or string that this line leaves open."""
    if bare.startswith("/*"):
        return "" if "*/" in bare[2:] else "*/"
    return next((mark for mark in _STRINGS if bare.count(mark) % 2), "")


def _lead(lines: Sequence[str], row: int, floor: int) -> int:
    while row > floor and lines[row - 1].lstrip().startswith(_LEADS):
        row -= 1
    return row
