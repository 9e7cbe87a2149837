"""Front matter, title and date of a Markdown note."""

from __future__ import annotations

from datetime import UTC, date, datetime

import hypothesis
import pytest
from hypothesis import strategies

from cortex.families.memory.markdown_notes import (
    TITLE_CHARACTERS,
    MarkdownNote,
    cut_title,
    find_moment,
    read_note,
)


def note_of(text: str, path: str = "note.md") -> MarkdownNote:
    found = read_note(text, path)
    assert found is not None
    return found


def moment(*parts: int) -> int:
    return int(datetime(*parts, tzinfo=UTC).timestamp() * 1000)  # pyright: ignore[reportArgumentType]


def test_front_matter_gives_title_tags_kind_and_date():
    note = note_of(
        "---\ntitle: \"Why we cache\"\ndescription: It was slow.\ntags: [cache, 'speed']\ntype: decision\ndate: 2026-01-05\n---\n\nBecause.\n"
    )
    assert note == MarkdownNote(
        "Why we cache",
        "It was slow.",
        ("cache", "speed"),
        "decision",
        moment(2026, 1, 5),
        "Because.",
    )


def test_a_list_of_tags_may_have_a_line_for_each():
    note = note_of(
        "---\ntags:\n  - cache\n  - '#speed'\ntitle: A # not a comment in a text would be\n---\nBody\n"
    )
    assert (note.tags, note.title) == (("cache", "speed"), "A")


def test_toml_front_matter_is_read_too():
    note = note_of(
        '+++\ntitle = "Lamps"\ntags = ["a", "b"]\ndate = 2026-01-05T10:00:00Z\n+++\nBody\n'
    )
    assert (note.title, note.tags, note.created, note.text) == (
        "Lamps",
        ("a", "b"),
        moment(2026, 1, 5, 10),
        "Body",
    )


@pytest.mark.parametrize(
    "text",
    [
        "---\nowner: kim\ntitle: Lamps\n---\nBody",
        "---\ntitle: Lamps\ndescription: |\n  owner: kim\n---\nBody",
        '+++\ntitle = "Lamps"\nowner = "kim"\n+++\nBody',
        "+++\nowner = kim is no TOML\n+++\n# Lamps\n",
        # It never ends: it is none
        "---\nowner: kim\n# Lamps\n",
    ],
)
def test_unknown_front_matter_stays_in_the_text(text: str):
    note = note_of(text)
    assert note.title == "Lamps"
    assert "kim" in note.text


def test_the_title_is_the_first_heading_outside_of_code():
    note = note_of(
        "Some words first.\n\n```sh\n# a comment\n```\n\n## The [real](https://example.com) title ##\n\nMore.\n"
    )
    assert note.title == "The real title"
    assert note.text.startswith("Some words first.")


def test_leading_heading_is_not_repeated_in_the_text():
    assert note_of("# Lamps\n\nThey shine.\n").text == "They shine."
    assert note_of("# Lamps\n").text == ""
    assert "# **Lamps** [x](y)" in note_of("# **Lamps** [x](y)\n\nThey shine.\n").text


def test_title_without_a_heading_is_the_first_line_cut_at_a_word():
    line = "word " * 60
    note = note_of(f"\n\n{line}\nsecond line\n")
    assert note.title == ("word " * 20).strip()
    assert note.text.startswith(note.title)
    assert note.text.endswith("second line")


@pytest.mark.parametrize("text", ["", "\n \n", "---\nowner:\n---\n", "#\n"])
def test_file_without_content_is_no_empty_note(text: str):
    found = read_note(text, "note.md")
    assert found is None or found.text


@pytest.mark.parametrize(
    ("text", "path", "created"),
    [
        ("[1:56 pm on 8 May, 2023] Kim: hello", "a.md", moment(2023, 5, 8, 13, 56)),
        ("[12:05 am on 1 January, 2024] Kim: hello", "a.md", moment(2024, 1, 1, 0, 5)),
        ("# 4:45 pm on 26 March, 2023\n\nKim: hello", "S01.md", moment(2023, 3, 26, 16, 45)),
        ("Standup (2026-01-05)", "a.md", moment(2026, 1, 5)),
        ("# Standup of March 3rd, 2025", "a.md", moment(2025, 3, 3)),
        ("hello", "2026-01-05-standup.md", moment(2026, 1, 5)),
        ("hello", "daily/2026/01/05.md", moment(2026, 1, 5)),
        ("hello", "20260105_notes.md", moment(2026, 1, 5)),
        (
            "---\ncreated: 2026-01-05T10:00:00+02:00\n---\n[2020-01-01] x",
            "2021-01-01.md",
            moment(2026, 1, 5, 8),
        ),
        ("---\ndate: 20260105\n---\nx", "a.md", moment(2026, 1, 5)),
        ("---\ndate: 2026\n---\nx", "a.md", 0),
        ("---\ndate: someday\n---\nx", "a.md", 0),
        # A date in prose is what the prose is about
        ("It was 2026-01-05 when we met.", "a.md", 0),
        ("[2026-13-45] x", "v1.2026.md", 0),
        ("[see](https://example.com)", "D1_10.md", 0),
    ],
)
def test_date_is_found_in_front_matter_first_line_or_name(text: str, path: str, created: int):
    assert note_of(text, path).created == created


@hypothesis.given(strategies.text())
def test_any_text_is_a_note_with_a_short_title_or_none(text: str):
    note = read_note(text, "note.md")
    assert note is None or (
        note.title and len(note.title) <= TITLE_CHARACTERS and "\n" not in note.title
    )


@hypothesis.given(strategies.text())
def test_a_title_is_the_beginning_of_its_line(text: str):
    assert " ".join(text.split()).startswith(cut_title(text))


@hypothesis.given(strategies.dates(date(1970, 1, 2), date(2099, 12, 31)))
def test_date_is_found_in_every_written_form(when: date):
    day = moment(when.year, when.month, when.day)
    for form in ("%Y-%m-%d", "%d %B, %Y", "%B %d, %Y", "%d %b %Y", "%Y%m%d"):
        assert find_moment(f"on {when.strftime(form)}") == day
