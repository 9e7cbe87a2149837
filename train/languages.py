"""Languages of the extraction: endings, comments, and names of declarations."""

from __future__ import annotations

import re
from dataclasses import dataclass

_BLOCK = r"(?:^[ \t]*/\*[*!]?(?:[^*]|\*(?!/)){12,2500}\*/[ \t]*\n)"
_SLASHES = r"(?:^[ \t]*//[/!]?(?!/)[^\n]*\n){1,30}"
_HASHES = r"(?:^[ \t]*\#(?![!\[])[^\n]*\n){1,30}"
_DASHES = r"(?:^[ \t]*--(?!\[)[^\n]*\n){1,30}"
_CURLY_DASH = r"(?:^[ \t]*\{-(?:[^-]|-(?!\})){12,2500}-\}[ \t]*\n)"
_PERCENTS = r"(?:^[ \t]*%+[^\n]*\n){1,30}"
_PARENS = r"(?:^[ \t]*\(\*(?:[^*]|\*(?!\))){12,2500}\*\)[ \t]*\n)"
_LONG_LUA = r"(?:^[ \t]*--\[=*\[[^\]]{12,2500}\]=*\][ \t]*\n)"


@dataclass(frozen=True, slots=True)
class Language:
    """One language, or a family whose comments look alike."""

    name: str
    endings: tuple[str, ...]
    comment: re.Pattern[str]
    declaration: re.Pattern[str]


_KEYWORDS = (
    r"(?:fn|func|fun|function|def|defp|defmacro|class|struct|interface|enum|trait|type|object|module|defmodule|record|protocol|extension|union|sub|"
    r"macro|impl|mixin|actor|namespace|local function|let|val|const|var|data|newtype|instance)"
)
# A keyword and a name, else a name before a parenthesis: C, Java and C# methods have no keyword.
_DECLARATION = re.compile(
    rf"\b{_KEYWORDS}\s+(?:self\.)?(?:\([^)]{{0,60}}\)\s*)?(?:[\w:.]+[.:])?([A-Za-z_]\w{{2,}})|([A-Za-z_]\w{{2,}})\s*(?:<[^>(]{{0,40}}>)?\s*\("
)
_HASKELL = re.compile(r"^\s*(?:(?:data|newtype|class|type|instance)\s+)?([A-Za-z_][\w']{2,})")
_ERLANG = re.compile(r"^(?:-spec\s+)?([a-z]\w{2,})")
NOT_NAMES = frozenset(
    "if for while switch return catch elif else until unless when case match with sizeof assert new await throw super print require".split()
)


def _language(
    name: str, endings: str, *comments: str, declaration: re.Pattern[str] = _DECLARATION
) -> Language:
    return Language(name, tuple(endings.split()), re.compile("|".join(comments), re.M), declaration)


LANGUAGES = (
    _language("python", "py pyx", _HASHES),
    _language("javascript", "js jsx mjs cjs", _BLOCK, _SLASHES),
    _language("typescript", "ts tsx mts", _BLOCK, _SLASHES),
    _language("java", "java", _BLOCK, _SLASHES),
    _language("kotlin", "kt kts", _BLOCK, _SLASHES),
    _language("scala", "scala", _BLOCK, _SLASHES),
    _language("groovy", "groovy", _BLOCK, _SLASHES),
    _language("swift", "swift", _BLOCK, _SLASHES),
    _language("csharp", "cs", _BLOCK, _SLASHES),
    _language("go", "go", _BLOCK, _SLASHES),
    _language("rust", "rs", _BLOCK, _SLASHES),
    _language("dart", "dart", _BLOCK, _SLASHES),
    _language("php", "php", _BLOCK, _SLASHES),
    _language("c", "c h", _BLOCK, _SLASHES),
    _language("cpp", "cc cpp cxx hpp hh hxx", _BLOCK, _SLASHES),
    _language("objc", "m mm", _BLOCK, _SLASHES),
    _language("zig", "zig", _SLASHES),
    _language("ruby", "rb", _HASHES),
    _language("crystal", "cr", _HASHES),
    _language("elixir", "ex exs", _HASHES),
    _language("julia", "jl", _HASHES),
    _language("shell", "sh bash zsh bats", _HASHES),
    _language("lua", "lua", _LONG_LUA, _DASHES),
    _language("haskell", "hs", _CURLY_DASH, _DASHES, declaration=_HASKELL),
    _language("ocaml", "ml mli", _PARENS),
    _language("erlang", "erl hrl", _PERCENTS, declaration=_ERLANG),
)
BY_ENDING = {ending: language for language in LANGUAGES for ending in language.endings}
PROSE = {
    "md": "markdown",
    "markdown": "markdown",
    "mdx": "markdown",
    "rst": "rst",
    "adoc": "asciidoc",
}
WANTED = frozenset(BY_ENDING) | frozenset(PROSE)


def language_of(ending: str) -> str:
    """The language that a wanted ending stands for."""
    return PROSE.get(ending) or BY_ENDING[ending].name
