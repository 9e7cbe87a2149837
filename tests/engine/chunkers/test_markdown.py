"""Chunks of Markdown, by its headings."""

import pytest

from cortex.base.types import Chunk
from cortex.engine.chunkers import cut
from cortex.engine.chunkers.markdown import cut_markdown

PARAGRAPH = "Some words that say something. " * 12


def chunks_of(text: str, target: int = 250) -> list[Chunk]:
    return list(cut(text, "x.md", "markdown", target).chunks)


def test_a_section_is_a_chunk_named_by_its_heading_and_path():
    text = f"# Guide\n\n{PARAGRAPH}\n\n## Install\n\n{PARAGRAPH}\n\n### Linux\n\n{PARAGRAPH}\n\n## Use\n\n{PARAGRAPH}\n"
    assert [(c.kind, c.name, c.qualified) for c in chunks_of(text)] == [
        ("section", "Guide", "Guide"),
        ("section", "Install", "Guide > Install"),
        ("section", "Linux", "Guide > Install > Linux"),
        ("section", "Use", "Guide > Use"),
    ]


def test_headings_are_symbols_with_their_parents():
    symbols = cut("# A\n\ntext\n\n## B `code` [link](x)\n\ntext\n", "x.md", "markdown").symbols
    assert [(s.kind, s.qualified, s.parent, s.start_line, s.end_line) for s in symbols] == [
        ("section", "A", "", 1, 4),
        ("section", "A > B code link", "A", 5, 8),
    ]


def test_a_hash_in_a_fence_is_no_heading():
    text = f"# A\n\n```sh\n# not a heading\n```\n\n~~~~\n# nor this\n~~~\n# nor that\n~~~~\n{PARAGRAPH}"
    assert [s.name for s in cut(text, "x.md", "markdown").symbols] == ["A"]


def test_underlined_headings_are_symbols_and_front_matter_is_not():
    text = "---\ntitle: x\n---\n\nTitle\n=====\n\ntext\n\nPart\n----\n\n- list\n---\n\n| a | b |\n"
    assert [s.qualified for s in cut(text, "x.md", "markdown").symbols] == ["Title", "Title > Part"]


def test_an_underlined_heading_may_begin_like_a_list():
    titles = ["2.34.2 (2026-05-14)", "1.0", "-draft-", "*New*", "+1"]
    text = "".join(f"{title}\n{'-' * 10}\n\ntext\n\n" for title in titles)
    assert [s.name for s in cut(text, "x.md", "markdown").symbols] == [
        "2.34.2 (2026-05-14)",
        "1.0",
        "-draft-",
        "New",
        "+1",
    ]
    text = "".join(
        f"{line}\n-----\n\ntext\n\n"
        for line in ("1. one", "2) two", "- a", "* b", "-", "---", "* * *", "___", "> q")
    )
    assert cut(text, "x.md", "markdown").symbols == ()


def test_heading_without_text_shares_a_chunk_with_the_section_below():
    first, *_ = chunks_of(f"# Title\n\n## Part\n\n{PARAGRAPH}\n")
    assert (first.qualified, first.start_line) == ("Title > Part", 1)


def test_small_sections_of_one_parent_share_a_chunk_named_after_it():
    text = f"# API\n\n{PARAGRAPH}\n\n" + "".join(f"## f{n}\n\nShort.\n\n" for n in range(5))
    found = chunks_of(text)
    assert [(c.qualified, c.start_line) for c in found] == [("API", 1), ("API", 5)]


def test_a_long_section_is_split_between_paragraphs():
    text = "# Long\n\n" + "\n\n".join(PARAGRAPH.strip() for _ in range(12)) + "\n"
    found = chunks_of(text)
    assert len(found) > 3
    assert {c.qualified for c in found} == {"Long"}
    assert all(text[c.start : c.end].rstrip().endswith("something.") for c in found)


@pytest.mark.parametrize(
    ("heading", "title"),
    [
        ("MAX_RETRY_COUNT", "MAX_RETRY_COUNT"),
        ("__init__", "__init__"),
        ("The `__init__` method, *now*", "The __init__ method, now"),
        ("**Bold**, _soft_ and __strong words__", "Bold, soft and strong words"),
        ("*args and **kwargs", "*args and **kwargs"),
        ("_private and `**kw`", "_private and **kw"),
        ("[`a_b`](http://x_y) and ![an image](x.png)", "a_b and an image"),
        (r"a\_b and 2 * 3 * 4", "a_b and 2 * 3 * 4"),
        ("***both* at once** and **nested _marks_**", "***both* at once** and nested marks"),
    ],
)
def test_a_title_loses_marks_and_keeps_names(heading, title):
    for text in (f"# {heading}\n\ntext\n", f"{heading}\n=====\n\ntext\n"):
        for paged in (False, True):
            chunks, _ = cut_markdown(text, 250, paged)
            assert chunks[0].name == title


@pytest.mark.parametrize("mark", ["*", "_", "`", "*a ", "_a ", "`a ", "[", "\\"])
def test_a_heading_of_marks_alone_takes_no_time(mark):
    chunks, _ = cut_markdown("# " + mark * 100_000 + "\n\ntext\n", 250)
    assert len(chunks[0].name) <= 200
