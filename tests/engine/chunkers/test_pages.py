"""Documents with pages, and reStructuredText by its headings."""

from hypothesis import given
from hypothesis import strategies as st

from cortex.base.types import Chunk
from cortex.engine.chunkers import cut


def pages_of(text: str, chunks: tuple[Chunk, ...]) -> list[int]:
    return [1 + text.count("\f", 0, chunk.start) for chunk in chunks]


LINES = st.sampled_from(
    [
        "",
        "words of a line",
        "# One",
        "## Two",
        "\f",
        "\fpage begins",
        "```",
        "- entry",
        "x" * 90,
        "Title",
        "=====",
        " \f",
        "..\f",
    ]
)


@given(
    st.lists(LINES, max_size=40),
    st.sampled_from(["markdown", "text", "restructuredtext"]),
    st.sampled_from([16, 60]),
)
def test_no_chunk_is_on_two_pages_and_every_word_is_in_one(lines, language, target):
    text = "\n".join(lines).replace("..\f", "..")
    made = cut(text, "a", language, target, 0, document=True)
    seen = [False] * len(text)
    for chunk in made.chunks:
        assert "\f" not in text[chunk.start : chunk.end]
        assert chunk.start_line == 1 + text.count("\n", 0, chunk.start)
        assert chunk.end_line == 1 + text.count("\n", 0, chunk.end)
        seen[chunk.start : chunk.end] = [True] * (chunk.end - chunk.start)
    assert all(inside or character.isspace() for inside, character in zip(seen, text, strict=True))


@given(
    st.lists(LINES.filter(lambda line: line != "====="), max_size=40),
    st.sampled_from(["markdown", "text"]),
)
def test_document_without_form_feeds_is_cut_like_other_text(lines, language):
    text = "\n".join(lines).replace("\f", "")
    assert cut(text, "a", language, 60, 10, document=True) == cut(text, "a", language, 60, 10)


def test_section_keeps_its_path_on_the_next_page():
    text = "# Guide\n\nwords\n\f\nmore words\n\n## Install\n\nsteps\n\f\nlast steps\n\f\n"
    made = cut(text, "a.pdf", "markdown", 250, document=True)
    assert [
        (page, chunk.qualified)
        for page, chunk in zip(pages_of(text, made.chunks), made.chunks, strict=True)
    ] == [(1, "Guide"), (2, "Guide"), (2, "Guide > Install"), (3, "Guide > Install")]


def test_form_feeds_outside_documents_end_no_chunk():
    text = "one\n\f\ntwo\n"
    assert [chunk.end_line for chunk in cut(text, "a.txt", "text", 250).chunks] == [3]
    code = "def f():\n    pass\n\f\ndef g():\n    pass\n"
    assert cut(code, "a.py", "python", 250, document=True) == cut(code, "a.py", "python", 250)


RST = """=====
Guide
=====

Intro words.

Install
=======

Steps.

On Windows
----------

Click.

::

    Not
    ---

    a heading

=====  =====
a      b
=====  =====
1      2
=====  =====

Usage ``run``
=============

Words.

------

After a transition.
"""


def test_plain_text_with_headings_is_cut_by_them_in_documents_only():
    for document, paths in ((True, ["Guide", "Guide > Install"]), (False, [""])):
        made = cut(
            "Guide\n=====\n\nwords\n\nInstall\n-------\n\nsteps\n",
            "a.txt",
            "text",
            16,
            document=document,
        )
        assert list(dict.fromkeys(chunk.qualified for chunk in made.chunks)) == paths
    lone_heading = "Totals\n------\n\nwords\n"
    assert cut(lone_heading, "a.txt", "text", 16, document=True) == cut(
        lone_heading, "a.txt", "text", 16
    )


def test_a_heading_of_a_document_keeps_its_underscores():
    text = "# The `MAX_FILE_SIZE` of __all__ *files*\n\nwords\n"
    assert (
        cut(text, "a.md", "markdown", 16, document=True).chunks[0].name
        == "The MAX_FILE_SIZE of __all__ files"
    )
    text = "``LOG_LEVEL``\n=============\n\nwords\n\n:ref:`Other_one`\n================\n\nwords\n"
    chunks = cut(text, "a.rst", "restructuredtext", 16, document=True).chunks
    assert [chunk.name for chunk in chunks] == ["LOG_LEVEL", "Other_one"]


def test_rst_is_cut_by_its_headings_in_documents_only():
    made = cut(RST, "a.rst", "restructuredtext", 16, document=True)
    paths = list(dict.fromkeys(chunk.qualified for chunk in made.chunks))
    assert paths == [
        "Guide",
        "Guide > Install",
        "Guide > Install > On Windows",
        "Guide > Usage run",
    ]
    assert RST[made.chunks[0].start :].startswith("=====\nGuide\n")
    assert all(not chunk.qualified for chunk in cut(RST, "a.rst", "restructuredtext", 16).chunks)
