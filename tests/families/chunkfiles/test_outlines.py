"""Outlines of code files: declarations, imports and packages."""

from __future__ import annotations

import pytest

from cortex.engine import chunkers
from cortex.families.chunkfiles.outlines import Outline


def outline(path: str, text: str) -> Outline:
    language = chunkers.language_of(path)
    return Outline(text, language, chunkers.cut(text, path, language).symbols)


@pytest.mark.parametrize(
    ("path", "text", "wanted"),
    [
        (
            "a.ts",
            "export const f = async (x: number): Promise<void> => {\n  g(x)\n}\n",
            "f(x: number): Promise<void>",
        ),
        ("a.ts", "function g<T>(a: T, b = '{'): T {\n  return a\n}\n", "g<T>(a: T, b = '{'): T"),
        (
            "a.py",
            "def f(a: int,\n      b: str = ':') -> dict[str, int]:\n    pass\n",
            "f(a: int, b: str = ':') -> dict[str, int]",
        ),
        ("a.rs", "pub fn f(x: &str) -> Result<(), E> {\n}\n", "f(x: &str) -> Result<(), E>"),
        ("A.java", "class A {\n  public int m(int a) {\n    return a;\n  }\n}\n", "A.m(int a)"),
        ("a.rb", "def f(a, b = 1)\n  a\nend\n", "f(a, b = 1)"),
    ],
)
def test_a_function_is_listed_as_it_is_declared(path, text, wanted):
    functions = outline(path, text).names()[-1]
    assert functions.startswith(f"Functions:\n  - {wanted} (line")


@pytest.mark.parametrize(
    ("path", "text", "imports", "package"),
    [
        ("a.go", 'package a\nimport "fmt"\nimport (\n\tx "y"\n\t// no\n\t"z"\n)\n', 3, "a"),
        ("a.py", "import os\nfrom a import b\nx = 'import'\n", 2, ""),
        ("A.java", "package com.x;\nimport java.util.List;\nimport static a.B.c;\n", 2, "com.x"),
        (
            "a.ts",
            "import a from 'a'\nimport 'b'\nconst c = require('c')\nconst d = import('d')\n",
            3,
            "",
        ),
        ("a.c", '#include <a.h>\n# include "b.h"\n', 2, ""),
        ("a.rs", "use a::b;\npub use c;\n", 2, ""),
        ("a.cs", "using System;\nusing var x = y;\nnamespace A.B;\n", 1, "A.B"),
    ],
)
def test_imports_are_counted_and_the_package_is_named(path, text, imports, package):
    found = outline(path, text)
    assert (found.imports, found.package) == (imports, package)
