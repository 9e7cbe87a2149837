"""Pairs of a query and the text that answers it, from source files."""

from __future__ import annotations

import pytest
from train.pairs import block_at, pairs_of, question_of, split_name

PYTHON = '''"""Reads settings from files and the environment."""

import os


class Settings:
    """The settings of one process, frozen after loading."""

    def load_environment(self, prefix):
        """Take every variable with the prefix over, without the prefix.

        Args:
            prefix: what they start with
        """
        found = {}
        for name, value in os.environ.items():
            if name.startswith(prefix):
                found[name.removeprefix(prefix)] = value
        return found


def other():
    return 1
'''

GO = """package pool

// Take hands out a free connection and waits for one if all are in use.
func (p *Pool) TakeConnection(ctx context.Context) (*Conn, error) {
\tselect {
\tcase conn := <-p.free:
\t\treturn conn, nil
\tcase <-ctx.Done():
\t\treturn nil, ctx.Err()
\t}
}

func unrelated() {}
"""

RST = """Retries
=======

Waiting between attempts
------------------------

A failed request is sent again after a pause that doubles each time. The pause has an upper limit.

It can be switched off in the settings, where the number of attempts and the first pause are set as well, for every host on its own.
"""


def found(path: str, text: str, kind: str) -> list[tuple[str, str]]:
    return [(pair.query, pair.document) for pair in pairs_of(path, text) if pair.kind == kind]


def test_docstring_pairs_with_its_function_without_the_docstring():
    pairs = dict(found("settings.py", PYTHON, "doc"))
    body = pairs["Take every variable with the prefix over, without the prefix."]
    assert body.lstrip().startswith("def load_environment(self, prefix):")
    assert "return found" in body
    assert "Take every variable" not in body
    assert "def other" not in body


def test_module_docstring_pairs_with_the_first_lines():
    (query, document), *_ = found("settings.py", PYTHON, "opening")
    assert query == "Reads settings from files and the environment."
    assert document.startswith("import os\nclass Settings:")


def test_comment_pairs_with_the_block_below_it():
    (query, document), *_ = found("pool.go", GO, "doc")
    assert query == "Take hands out a free connection and waits for one if all are in use."
    assert document.startswith("func (p *Pool) TakeConnection")
    assert document.endswith("}")
    assert "unrelated" not in document


def test_function_name_pairs_with_its_body_without_the_name():
    pairs = dict(found("pool.go", GO, "name"))
    assert "TakeConnection" not in pairs["take connection"]
    assert "ctx.Done()" in pairs["take connection"]


def test_heading_pairs_with_its_section():
    assert [query for query, _ in found("retries.rst", RST, "heading")] == [
        "Waiting between attempts"
    ]


def test_first_sentence_pairs_with_the_rest():
    (query, document), *_ = found("retries.rst", RST, "prose")
    assert query.startswith("A failed request is sent again")
    assert "upper limit" in document


@pytest.mark.parametrize(
    "comment",
    [
        "# Copyright 2020 Somebody Else and others",
        "// eslint-disable-next-line no-unused-vars at all",
        "// x = (a + b) * {c: d}; y = [z, w];",
        "// short",
        "/* ---------------------------- */",
    ],
)
def test_comment_without_prose_gives_no_pair(comment: str):
    assert question_of(comment) == ""


def test_comment_marks_tags_and_markup_are_removed_from_the_query():
    comment = (
        "/**\n * Closes the <b>channel</b> and {@code waits}.\n *\n * @param now at once\n */\n"
    )
    assert question_of(comment) == "Closes the channel and waits ."


def test_elixir_heredoc_is_a_comment():
    text = 'defmodule A do\n  @doc """\n  Splits a path into its segments and decodes each.\n  """\n  def split_path(path) do\n    path |> String.split("/") |> Enum.map(&URI.decode/1)\n  end\nend\n'
    assert [query for query, _ in found("a.ex", text, "doc")] == [
        "Splits a path into its segments and decodes each."
    ]


def test_block_ends_with_its_indentation():
    text = "def a():\n    one()\n\n    two()\nthree()\n"
    assert block_at(text, 0, 40) == "def a():\n    one()\n\n    two()"


def test_names_are_split_at_case_and_underscore():
    assert split_name("parseHTTPConfig_v2") == "parse http config v 2"
