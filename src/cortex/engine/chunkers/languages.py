"""Language of a file, by its name, then by its first line.

Knows names only: grammars.py knows how a language is parsed, and a language without a grammar is
cut by lines. Content is not guessed beyond the interpreter line, because a wrong guess costs more
than "text".
"""

from __future__ import annotations

import re

# Characters at the start of a text that are enough to detect its language.
HEAD_CHARACTERS = 4_096
_EXTENSIONS = {
    "ada": "adb ads",
    "asciidoc": "adoc asciidoc",
    "assembly": "asm s",
    "bash": "sh bash zsh ksh bats",
    "batch": "bat cmd",
    "c": "c",
    "clojure": "clj cljs cljc edn",
    "cmake": "cmake",
    "coffeescript": "coffee",
    "commonlisp": "lisp lsp",
    "cpp": "cpp cc cxx c++ hpp hh hxx h++ ipp inl tpp cu cuh ino h",
    "crystal": "cr",
    "csharp": "cs csx",
    "css": "css",
    "csv": "csv tsv",
    "d": "d",
    "dart": "dart",
    "diff": "diff patch",
    "elisp": "el",
    "elixir": "ex exs",
    "elm": "elm",
    "erlang": "erl hrl",
    "fish": "fish",
    "fortran": "f f90 f95 f03 for",
    "fsharp": "fs fsi fsx",
    "gettext": "po pot",
    "gleam": "gleam",
    "glsl": "glsl vert frag",
    "go": "go",
    "graphql": "graphql gql",
    "groovy": "groovy gradle gvy",
    "haskell": "hs",
    "hcl": "tf tfvars hcl",
    "html": "html htm xhtml",
    "ini": "ini cfg conf properties editorconfig env",
    "java": "java",
    "javascript": "js jsx mjs cjs",
    "jinja": "j2 jinja jinja2",
    "json": "json jsonc json5 jsonl ndjson geojson webmanifest",
    "julia": "jl",
    "kotlin": "kt kts",
    "latex": "tex sty cls",
    "less": "less",
    "lua": "lua",
    "makefile": "mk mak",
    "markdown": "md markdown mdown mkd mdx qmd rmd",
    "nim": "nim",
    "nix": "nix",
    "notebook": "ipynb",
    "objc": "m mm",
    "ocaml": "ml",
    "ocaml-interface": "mli",
    "pascal": "pas dpr",
    "perl": "pl pm t",
    "php": "php phtml php5 php7",
    "powershell": "ps1 psm1 psd1",
    "prisma": "prisma",
    "protobuf": "proto",
    "python": "py pyi pyw pyx pxd bzl",
    "r": "r",
    "racket": "rkt",
    "restructuredtext": "rst",
    "ruby": "rb rake gemspec ru podspec",
    "rust": "rs",
    "sass": "sass",
    "scala": "scala sc sbt",
    "scheme": "scm ss",
    "scss": "scss",
    "solidity": "sol",
    "sql": "sql ddl dml psql pgsql",
    "svelte": "svelte",
    "swift": "swift",
    "tcl": "tcl",
    "terraform-state": "tfstate",
    "toml": "toml",
    "tsx": "tsx",
    "twig": "twig",
    "typescript": "ts mts cts",
    "v": "v",
    "verilog": "sv svh",
    "vhdl": "vhd vhdl",
    "vim": "vim",
    "vue": "vue",
    "wgsl": "wgsl",
    "xml": "xml xsd xsl xslt svg plist csproj vbproj fsproj props targets resx xaml wsdl",
    "yaml": "yaml yml",
    "zig": "zig zon",
}
_FILENAMES = {
    "bash": ".bashrc .bash_profile .profile .zshrc .zshenv .envrc pkgbuild",
    "cmake": "cmakelists.txt",
    "dockerfile": "dockerfile containerfile",
    "go-module": "go.mod go.sum go.work",
    "groovy": "jenkinsfile",
    "ini": ".gitconfig .npmrc pip.conf",
    "json": ".babelrc .eslintrc .prettierrc",
    "makefile": "makefile gnumakefile",
    "markdown": "readme",
    "python": "sconstruct sconscript wscript build build.bazel workspace",
    "ruby": "gemfile rakefile vagrantfile podfile fastfile brewfile guardfile capfile",
    "toml": "cargo.lock poetry.lock uv.lock pipfile",
    "yaml": ".clang-format .clang-tidy",
}
_INTERPRETERS = {
    "bash": "sh bash zsh ksh dash ash",
    "elixir": "elixir",
    "fish": "fish",
    "groovy": "groovy",
    "haskell": "runhaskell runghc stack",
    "javascript": "node nodejs bun",
    "julia": "julia",
    "kotlin": "kotlin",
    "lua": "lua luajit",
    "ocaml": "ocaml",
    "perl": "perl",
    "php": "php",
    "powershell": "pwsh",
    "python": "python pypy uv",
    "r": "rscript",
    "ruby": "ruby jruby",
    "scala": "scala",
    "swift": "swift",
    "tcl": "tclsh wish",
    "typescript": "deno ts-node tsx",
}


def _invert(table: dict[str, str]) -> dict[str, str]:
    return {word: language for language, words in table.items() for word in words.split()}


_BY_EXTENSION = _invert(_EXTENSIONS)
_BY_FILENAME = _invert(_FILENAMES)
_BY_INTERPRETER = _invert(_INTERPRETERS)
# Every name that a language can have here.
LANGUAGES = frozenset({"text", *_EXTENSIONS, *_FILENAMES, *_INTERPRETERS})
_SHEBANG = re.compile(r"#!\s*(?:\S*/)?(?:env\s+(?:-\S+\s+)*(?:\w+=\S*\s+)*)?(?:\S*/)?([A-Za-z_-]+)")
_OBJECTIVE_C = re.compile(r"^\s*(@interface|@protocol|@class|#import)\b", re.MULTILINE)
_C_PLUS_PLUS = re.compile(
    r"^\s*(class\s+\w|namespace\b|template\s*<|using\s+\w|public:|private:|protected:)|\w::\w",
    re.MULTILINE,
)


def language_of(path: str, head: str = "") -> str:
    """Detect a file's language by its name, else by the interpreter line, else "text".

    `head` is the beginning of its text.
    """
    name = path.rpartition("/")[2].lower()
    extension = name.rpartition(".")[2] if "." in name else ""
    language = _BY_FILENAME.get(name) or _BY_EXTENSION.get(extension) or ""
    if extension == "h" and head:
        return _header_language(head)
    if not language and name.startswith(("dockerfile.", "makefile.", "containerfile.")):
        language = _BY_FILENAME[name.partition(".")[0]]
    if not language and head.startswith("#!") and (match := _SHEBANG.match(head)):
        language = _BY_INTERPRETER.get(match[1].lower(), "")
    return language or "text"


def _header_language(head: str) -> str:
    """Language of a .h file, decided by what C can't contain: C, C++ or Objective-C."""
    if _OBJECTIVE_C.search(head):
        return "objc"
    return "cpp" if _C_PLUS_PLUS.search(head) else "c"
