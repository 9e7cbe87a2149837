"""Outline of a source file for chunk files: its symbols, declarations and values.

Works on the text and symbols from the index. Nothing is parsed again, since parsing belongs in a
process of its own; so the end of a declaration is judged by its brackets: at the brace or colon
that opens its body, else at the end of its first line.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence

from cortex.base.types import Symbol

TYPES = frozenset("class struct interface trait enum type module table view".split())
FUNCTIONS = frozenset("function method test macro".split())
VALUES = frozenset("constant variable".split())
MAX_TYPE_LINES = 120
MAX_VALUE_LINES = 80
MAX_SIGNATURE_LINES = 10
MAX_COMMENT_LINES = 30
MAX_LINE_CHARACTERS = 1_000
_HASH_COMMENTS = frozenset(
    "python ruby bash perl r elixir julia powershell crystal nim fish tcl coffeescript".split()
)
_BY_COLON = frozenset({"python", "nim"})
_BRACES = frozenset(
    "c cpp csharp css dart go groovy java javascript kotlin objc php rust scala swift tsx "
    "typescript zig".split()
)
_COMMENT = ("//", "/*", "*", "--", ";;", "@", "#[")
_PACKAGE = {
    **dict.fromkeys(
        ("go", "java", "kotlin", "scala", "groovy"),
        re.compile(r"^[ \t]*package[ \t]+([\w.]+)", re.MULTILINE),
    ),
    **dict.fromkeys(
        ("csharp", "php"), re.compile(r"^[ \t]*namespace[ \t]+([\w.\\]+)", re.MULTILINE)
    ),
    "elixir": re.compile(r"^[ \t]*defmodule[ \t]+([\w.]+)", re.MULTILINE),
}
_IMPORT = {
    **dict.fromkeys(("python",), re.compile(r"^[ \t]*(?:import|from)[ \t]+[\w.]+", re.MULTILINE)),
    **dict.fromkeys(
        ("java", "kotlin", "scala", "groovy", "swift", "dart", "haskell", "d"),
        re.compile(r"^[ \t]*import[ \t]+\S", re.MULTILINE),
    ),
    **dict.fromkeys(
        ("javascript", "typescript", "tsx"),
        re.compile(r"^[ \t]*import\b[^\n(]|^[^\n/]*\brequire\(", re.MULTILINE),
    ),
    **dict.fromkeys(
        ("c", "cpp", "objc"), re.compile(r"^[ \t]*#[ \t]*(?:include|import)\b", re.MULTILINE)
    ),
    **dict.fromkeys(("rust", "php"), re.compile(r"^[ \t]*(?:pub[ \t]+)?use[ \t]+\S", re.MULTILINE)),
    "csharp": re.compile(r"^[ \t]*(?:global[ \t]+)?using[ \t]+[\w.]+[ \t]*[;=]", re.MULTILINE),
    "ruby": re.compile(r"^[ \t]*require(?:_relative)?\b", re.MULTILINE),
    "elixir": re.compile(r"^[ \t]*(?:import|alias|use|require)[ \t]+[A-Z]", re.MULTILINE),
}
_AFTER_NAME = re.compile(r"\s*(?:=\s*(?:async\s+)?(?:function\s*)?)?([(<\[].*)$")
_GO_IMPORT = re.compile(r'[ \t]*(?:import[ \t]+)?[\w.]*[ \t]*"[^"]*"')


class Outline:
    """Text in a language, with its symbols."""

    def __init__(self, text: str, language: str, symbols: Sequence[Symbol]) -> None:
        self.text = text
        self.language = language
        self.lines = text.split("\n")
        self.symbols = [
            symbol
            for symbol in symbols
            if 0 < symbol.start_line <= min(symbol.end_line, len(self.lines))
        ]
        self._functions = sorted(
            symbol.start_line for symbol in self.symbols if symbol.kind in FUNCTIONS
        )

    @property
    def package(self) -> str:
        """Package, namespace or module that the file declares."""
        pattern = _PACKAGE.get(self.language)
        match = pattern.search(self.text) if pattern else None
        return match[1] if match else ""

    @property
    def imports(self) -> int:
        """Number of lines that look like an import."""
        if self.language == "go":
            return self._go_imports()
        pattern = _IMPORT.get(self.language)
        return len(pattern.findall(self.text)) if pattern else 0

    def _go_imports(self) -> int:
        """Count `import "x"` lines and the lines of import blocks."""
        count, inside = 0, False
        for line in self.lines:
            if inside and line.startswith(")"):
                inside = False
            elif line.startswith("import") and "(" in line:
                inside = True
            elif (inside or line.startswith("import")) and _GO_IMPORT.match(line):
                count += 1
        return count

    def names(self) -> list[str]:
        """List the types and functions of the file as blocks of text; empty if it has neither."""
        types = [
            f"  - {symbol.qualified} ({symbol.kind}) {_span(symbol)}"
            for symbol in self.symbols
            if symbol.kind in TYPES
        ]
        functions = [
            f"  - {self._call_signature(function)} {_span(function)}"
            for function in self.symbols
            if function.kind in FUNCTIONS
        ]
        if not types and not functions:
            return []
        package, imports = self.package, self.imports
        blocks = [f"Package: {package}"] if package else []
        blocks += [f"Imports: {imports} packages"] if imports else []
        blocks += ["\n".join(("Types:", *types))] if types else []
        return blocks + (["\n".join(("Functions:", *functions))] if functions else [])

    def declarations(self) -> list[str]:
        """List every type and function as declared, with its comment, in file order."""
        blocks = []
        for symbol in self.symbols:
            if symbol.kind in TYPES:
                body = self._type(symbol)
            elif symbol.kind in FUNCTIONS:
                body = self._function(symbol)
            else:
                continue
            blocks.append(_block(symbol, [*self._comment(symbol), *body]))
        return blocks

    def values(self) -> list[str]:
        """List constants, variables and enums with their contents, without nested ones."""
        blocks = []
        last = 0
        for symbol in self.symbols:
            if symbol.start_line > last and self._is_value(symbol):
                last = symbol.end_line
                body = _capped(self.lines[symbol.start_line - 1 : symbol.end_line], MAX_VALUE_LINES)
                blocks.append(_block(symbol, [*self._comment(symbol), *body]))
        return blocks

    def _is_value(self, symbol: Symbol) -> bool:
        if symbol.kind in VALUES:
            return symbol.kind == "constant" or not symbol.parent
        if symbol.kind == "class" and self.language == "python":
            return (
                re.search(
                    r"\b(?:\w*Enum|\w*Flag)\b\s*[,)]",
                    self.lines[symbol.start_line - 1][:MAX_LINE_CHARACTERS],
                )
                is not None
            )
        return symbol.kind == "enum" or (symbol.kind == "field" and symbol.name.isupper())

    def _call_signature(self, symbol: Symbol) -> str:
        """Format a function as its qualified name and what follows the name in its declaration."""
        signature = " ".join(line.strip() for line in self._signature(symbol))
        at = signature.find(symbol.name) if symbol.name else -1
        while at >= 0:
            end = at + len(symbol.name)
            whole = not signature[at - 1 : at].isidentifier()
            if whole and (match := _AFTER_NAME.match(signature, end)):
                body_marks = " {:" if self.language in _BY_COLON else " {"
                return f"{symbol.qualified}{match[1].rstrip(body_marks)}"
            at = signature.find(symbol.name, end)
        return f"{symbol.qualified}()"

    def _function(self, symbol: Symbol) -> list[str]:
        signature = self._signature(symbol)
        if self.language in _BY_COLON:
            return [*signature, *self._docstring(symbol, len(signature))]
        ends_here = (
            symbol.start_line + len(signature) > symbol.end_line
            and "{" not in self.lines[symbol.end_line - 1]
        )
        return signature if ends_here else [*signature[:-1], f"{signature[-1]} {{ ... }}"]

    def _docstring(self, symbol: Symbol, after: int) -> list[str]:
        body = self.lines[symbol.start_line - 1 + after : symbol.end_line]
        mark = next(
            (
                mark
                for mark in ('"""', "'''")
                if body and body[0].lstrip().startswith((mark, f"r{mark}"))
            ),
            "",
        )
        if not mark:
            return []
        for row, line in enumerate(body[:MAX_COMMENT_LINES]):
            if mark in (line if row else line.replace(mark, "", 1)):
                return body[: row + 1]
        return body[:1]

    def _type(self, symbol: Symbol) -> list[str]:
        """Lines of a type: in full, or up to its first function."""
        following = bisect_right(self._functions, symbol.start_line)
        inner = (
            self._functions[following] if following < len(self._functions) else symbol.end_line + 1
        )
        if inner > symbol.end_line:
            return _capped(self.lines[symbol.start_line - 1 : symbol.end_line], MAX_TYPE_LINES)
        lines = self.lines[symbol.start_line - 1 : inner - 1]
        while len(lines) > 1 and (not lines[-1].strip() or self._is_comment(lines[-1])):
            lines.pop()
        return [*_capped(lines, MAX_TYPE_LINES), "..."]

    def _comment(self, symbol: Symbol) -> list[str]:
        """Comments and decorators directly above a definition."""
        first = symbol.start_line - 1
        while first > max(0, symbol.start_line - 1 - MAX_COMMENT_LINES) and self._is_comment(
            self.lines[first - 1]
        ):
            first -= 1
        return self.lines[first : symbol.start_line - 1]

    def _is_comment(self, line: str) -> bool:
        begin = line.lstrip()
        return begin.startswith(_COMMENT) or (
            begin.startswith("#") and self.language in _HASH_COMMENTS
        )

    def _signature(self, symbol: Symbol) -> list[str]:
        """Lines of a declaration up to the opening of its body."""
        lines = self.lines[
            symbol.start_line - 1 : min(
                symbol.end_line, symbol.start_line - 1 + MAX_SIGNATURE_LINES
            )
        ]
        first = lines[0][:MAX_LINE_CHARACTERS].rstrip()
        if self.language not in _BY_COLON and self.language not in _BRACES:
            return [first]
        text = "\n".join(line[:MAX_LINE_CHARACTERS] for line in lines)
        end = _find_body(text, ":" if self.language in _BY_COLON else "{")
        if end < 0:
            return [first]
        kept = text[: end + 1] if self.language in _BY_COLON else text[:end].rstrip()
        return [line.rstrip() for line in (kept or first).split("\n")]


def _find_body(text: str, opener: str) -> int:
    """Find the character that opens a body, outside of brackets and strings; -1 if none."""
    depth = 0
    quote = ""
    at = 0
    while at < len(text):
        character = text[at]
        if quote:
            if character == "\\":
                at += 1
            elif character == quote:
                quote = ""
        elif character in "\"'`":
            quote = character if text.find(character, at + 1) > 0 else ""
        elif character == opener and depth == 0:
            return at
        elif character in "([{":
            depth += 1
        elif character in ")]}":
            depth -= 1
        elif depth == 0 and (character == ";" or text.startswith("=>", at)):
            return at
        at += 1
    return -1


def _span(symbol: Symbol) -> str:
    return (
        f"(line {symbol.start_line})"
        if symbol.start_line == symbol.end_line
        else f"(lines {symbol.start_line}-{symbol.end_line})"
    )


def _capped(lines: list[str], limit: int) -> list[str]:
    return lines if len(lines) <= limit else [*lines[:limit], "..."]


def _block(symbol: Symbol, lines: Sequence[str]) -> str:
    """Format a definition under its line numbers, without the common indentation."""
    common = min(
        (len(line) - len(line.lstrip()) for line in lines if line.strip() not in ("", "...")),
        default=0,
    )
    cut = (
        line[min(common, len(line) - len(line.lstrip())) :][:MAX_LINE_CHARACTERS].rstrip()
        for line in lines
    )
    return "\n".join((f"// {_span(symbol)}", *cut))
