"""What goes into an entry: tags as people write them, declarations as they stand, and no text that
could stop it.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cortex.base.types import Doc, Symbol
from cortex.engine import chunkers
from cortex.families.chunkfiles import tags
from cortex.families.chunkfiles.export_entries import Sizes, entries_of
from cortex.families.chunkfiles.outlines import Outline


def outline(path: str, text: str) -> Outline:
    language = chunkers.language_of(path)
    return Outline(text, language, chunkers.cut(text, path, language).symbols)


@pytest.mark.parametrize(
    ("front", "wanted"),
    [
        ("tags: [a, 'b c', \"D\"]", ("a", "b-c", "d")),
        ("title: x\ntags:\n  - one\n  - Two\nauthor: y", ("one", "two")),
        ("tags:\n- one\n- two", ("one", "two")),
        ("tags: a, b", ("a", "b")),
        ("Tags: single", ("single",)),
        ("tags: [a,\n  b,\n  c]\nx: 1", ("a", "b", "c")),
        ("tags:", ()),
        ("tags: []", ()),
        ("tags: ['']", ()),
        ("mytags: [a]", ()),
        ("x: 1", ()),
    ],
)
def test_the_tags_of_front_matter_are_read_in_every_usual_shape(front, wanted):
    assert tags.of_front_matter(f"---\n{front}\n---\n# T\n") == wanted


def test_front_matter_of_toml_is_read_too_and_text_without_end_is_none():
    assert tags.of_front_matter('+++\ntags = ["a", "b"]\n+++\n') == ("a", "b")
    assert tags.of_front_matter("---\ntags: [a]\n") == ()
    assert tags.of_front_matter("tags: [a]\n") == ()


def test_hashtags_count_outside_of_code_addresses_colours_and_headings():
    text = "# Heading\n#alone, #two\ntext #in-side. (not#this) see x.md#part [a](#link) #fff `#code` #123\n    #indented\n```\n#fenced\n```\n"
    assert tags.hashtags(text) == (("alone", "two"), ("in-side",))


def test_folders_are_tags_unless_they_pretend_to_be_something_else():
    assert tags.of_path("docs/Internal/.github/code/python/data/x.md") == (
        "docs",
        "internal",
        "github",
    )
    assert tags.of_path("x.md") == ()


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


LINES = st.text(alphabet="ab(){}[]'\"`\\:;=>#/*@ \n\tdefclassconst", max_size=400)


@given(
    text=LINES,
    language=st.sampled_from(["python", "go", "typescript", "ruby", "markdown", "yaml", "text", "protobuf"]),
    places=st.lists(st.tuples(st.integers(-1, 12), st.integers(-1, 12), st.sampled_from("class function constant field enum".split())), max_size=5),
    size=st.integers(0, 40),
)  # fmt: skip
def test_any_text_with_any_symbols_gives_entries_with_ids_of_their_own(
    text, language, places, size
):
    symbols = [
        Symbol(name, name, kind, first, last) for first, last, kind in places for name in ("a", "")
    ]
    made = list(
        entries_of(
            Doc(1, 1, "x/y", 1, 1, 1, language), text, symbols, Sizes(16, 4, size, size // 3)
        )
    )
    assert len({one.id for one in made}) == len(made)
    for one in made:
        assert one.text.strip()
        assert one.tags and len(set(one.tags)) == len(one.tags)
