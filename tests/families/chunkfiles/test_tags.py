"""Tags of a document, as people write them."""

from __future__ import annotations

import pytest

from cortex.families.chunkfiles import tags


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
def test_tags_of_front_matter_are_read_in_every_usual_shape(front, wanted):
    assert tags.of_front_matter(f"---\n{front}\n---\n# T\n") == wanted


def test_toml_front_matter_is_read_and_unterminated_front_matter_is_ignored():
    assert tags.of_front_matter('+++\ntags = ["a", "b"]\n+++\n') == ("a", "b")
    assert tags.of_front_matter("---\ntags: [a]\n") == ()
    assert tags.of_front_matter("tags: [a]\n") == ()


def test_hashtags_in_code_urls_colours_and_headings_are_ignored():
    text = "# Heading\n#alone, #two\ntext #in-side. (not#this) see x.md#part [a](#link) #fff `#code` #123\n    #indented\n```\n#fenced\n```\n"
    assert tags.hashtags(text) == (("alone", "two"), ("in-side",))


def test_folders_are_tags_unless_named_like_a_kind_or_language():
    assert tags.of_path("docs/Internal/.github/code/python/data/x.md") == (
        "docs",
        "internal",
        "github",
    )
    assert tags.of_path("x.md") == ()
