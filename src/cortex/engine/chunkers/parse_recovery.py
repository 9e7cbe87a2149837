"""Recovery from parse errors: measure the loss, try another grammar, parse in pieces.

The loss is the number of bytes under ERROR nodes that are in no definition there. Files without
errors never get here. The displayed language doesn't change: a C++ source named `.c` is parsed by
the right grammar and stays a "c" file, as its path says. Road not taken: guessing the language from
the text alone. The file's own grammar comes first, and another one must be much better.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import pairwise

from tree_sitter import Node, Parser, Point, Range, Tree

from cortex.engine.chunkers.grammars import ERROR_KIND, Grammar, has_grammar, load
from cortex.engine.chunkers.keyword_scan import Declaration

# Length of the sample that other grammars are tried on.
SNIFFED_BYTES = 40_000
# Grammars to try besides the file's own.
MAX_TRIED = 3
# Lost share of a text from which related, or other, grammars are tried; less is a macro or a new
# keyword, and not another language.
KIN_NEED, NEED = 0.04, 0.2
# Another grammar may lose at most this share of what the file's own one does, ...
KIN_GAIN, GAIN = 0.5, 0.2
# ... and at most this share of the text.
KIN_LOSS, FOREIGN_LOSS = 0.1, 0.05
# Minimum loss in an ERROR node for parsing it in pieces.
MIN_LOST_BYTES = 200
# In tree-sitter 0.26.0 every new Point takes a reference from its type, which crashes the process
# after some, so there is only this one. Rows and columns are never read here, and pieces begin at
# column 0, so it serves for every range.
_ORIGIN = Point(0, 0)
_KIN = {
    "c": ("cpp", "objc"),
    "cpp": ("objc",),
    "objc": ("cpp",),
    "javascript": ("tsx",),
    "typescript": ("tsx",),
}
_SIGNS = {
    "cpp": r"template\s*<|namespace\s+[\w:]*\s*\{|using\s+namespace\s|class\s+\w+[^;=]*\{?$|"
    r"#include\s*<\w+>|(?:public|private|protected):"
    r"|.*\b(?:std|boost|absl)::\w",
    "objc": r"@(?:interface|implementation|protocol|property|class)\b|#import\b",
    "java": r"package\s+[\w.]+;|import\s+(?:static\s+)?[\w.]+(?:\.\*)?;|(?:public|abstract|"
    r"final)\s+(?:\w+\s+)?(?:class|interface|enum)\s",
    "csharp": r"using\s+[A-Z][\w.]*;|namespace\s+[\w.]+;?\s*$|"
    r"\s+public\s+[\w<>\[\]?]+\s+\w+\s*\{\s*get;",
    "python": r"(?:async\s+)?def\s+\w+\(.*|from\s+[\w.]+\s+import\s|"
    r"import\s+[\w.]+(?:\s+as\s+\w+)?$|class\s+\w+(?:\([^()]*\))?:",
    "javascript": r"(?:const|let|var)\s+[\w{][^:]*=\s|import\s.*\sfrom\s+['\"]|"
    r"(?:async\s+)?function\s*\*?\s*\w*\(|module\.exports\b",
    "tsx": r"import\s.*\sfrom\s+['\"]|export\s+(?:default\s+)?(?:const|function|interface|type|"
    r"class|enum)\s|(?:interface|type)\s+\w+.*[={]$",
    "go": r"package\s+\w+$|func\s+[\w(]|type\s+\w+\s+(?:struct|interface)\b",
    "rust": r"(?:pub(?:\([^()]*\))?\s+)?(?:fn|struct|trait|mod|use|enum)\s+\w|impl\b|#!?\[\w",
    "kotlin": r"(?:\w+\s+){0,4}fun\s+[\w<]|(?:data|sealed|open|value)\s+class\s",
    "ruby": r"require(?:_relative)?\s+['\"]|module\s+[A-Z][\w:]*$|"
    r"\s*def\s+[\w.?!]+(?:\(.*\))?$|end$",
    "php": r"<\?php",
    "bash": r"#!/(?:usr/)?bin/(?:env\s+)?(?:ba|z|da)?sh\b",
}
_SIGN_PATTERNS = {
    language: re.compile(rf"^(?:{signs})", re.MULTILINE) for language, signs in _SIGNS.items()
}


def lost_bytes(nodes: Sequence[Node], grammar: Grammar) -> int:
    """Count the bytes under ERROR nodes that are in no definition, container or comment."""
    lost = 0
    pending = list(nodes)
    while pending:
        node = pending.pop()
        if not node.has_error:
            continue
        if node.kind_id != ERROR_KIND:
            pending.extend(node.children)
            continue
        lost += node.end_byte - node.start_byte
        for child in node.children:
            # ERROR nodes are included, too.
            if child.kind_id in grammar.outside:
                lost -= child.end_byte - child.start_byte
                pending.append(child)
    return lost


def better_language(raw: bytes, language: str, root: Node) -> str:
    """Language with the best grammar for a text with errors.

    It is `language`, unless another one is clearly better.
    """
    own = lost_bytes([root], load(language)) / max(1, len(raw))
    if own < KIN_NEED:
        return language
    sample = raw[: raw.rfind(b"\n", 0, SNIFFED_BYTES) + 1] if len(raw) > SNIFFED_BYTES else raw
    kin = _KIN.get(language, ())
    best, least = language, 1.0
    others = kin if own < NEED else _SIGNS
    for other in _candidates(sample.decode("utf-8", "replace"), language, others):
        grammar = load(other)
        loss = lost_bytes([grammar.parser.parse(sample).root_node], grammar) / max(1, len(sample))
        gain, limit = (KIN_GAIN, KIN_LOSS) if other in kin else (GAIN, FOREIGN_LOSS)
        if loss < min(least, limit, own * gain):
            best, least = other, loss
    return best


def _candidates(text: str, language: str, others: Iterable[str]) -> list[str]:
    """Rank the other languages that a text resembles, most signs first."""
    counts = {
        other: len(_SIGN_PATTERNS[other].findall(text))
        for other in others
        if other != language and other in _SIGNS and has_grammar(other)
    }
    return sorted(
        (other for other, count in counts.items() if count), key=lambda other: -counts[other]
    )[:MAX_TRIED]


def pieces(
    node: Node, raw: bytes, starts: list[int], declarations: list[Declaration], grammar: Grammar
) -> list[Node]:
    """Parse an ERROR node again from declaration to declaration; empty if that is no gain.

    Unknown syntax then costs its own declaration, and not everything that follows.
    """
    lost = lost_bytes([node], grammar)
    if lost < MIN_LOST_BYTES:
        return []
    first, last = row_of(starts, node.start_byte), row_of(starts, node.end_byte - 1)
    inside = declarations[
        bisect_right(declarations, first, key=_row) : bisect_right(declarations, last, key=_row)
    ]
    if not inside:
        return []
    outermost = min(declaration.indent for declaration in inside)
    cuts = [
        starts[declaration.first]
        for declaration in inside
        if declaration.indent == outermost and declaration.first > first
    ]
    bounds = [node.start_byte, *cuts, node.end_byte]
    parser = Parser(grammar.parser.language)
    trees = [_parse(raw, begin, end, parser) for begin, end in pairwise(bounds) if begin < end]
    nodes = [child for tree in trees for child in _children(tree)]
    return nodes if len(trees) > 1 and lost_bytes(nodes, grammar) < lost else []


def _row(declaration: Declaration) -> int:
    return declaration.row


def row_of(starts: list[int], offset: int) -> int:
    """Row of a byte offset."""
    return bisect_right(starts, offset) - 1


def _children(tree: Tree) -> list[Node]:
    root = tree.root_node
    return [root] if root.kind_id == ERROR_KIND else root.children


def _parse(raw: bytes, begin: int, end: int, parser: Parser) -> Tree:
    """Parse a part of the text; nodes keep their offsets in the whole text."""
    parser.included_ranges = [Range(_ORIGIN, _ORIGIN, begin, end)]
    return parser.parse(raw)
