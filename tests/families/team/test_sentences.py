from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cortex.families.team.sentences import (
    SENTENCE_CHARACTERS,
    cut,
    fold,
    sentences_of,
    stem,
    stems_of,
)


def texts(text: str) -> list[str]:
    """The sentences of a text as plain strings."""
    return [sentence.text for sentence in sentences_of(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One. Two! Three? Four", ["One.", "Two!", "Three?", "Four"]),
        ("Use a pool, e.g. pgbouncer, i.e. one per host. It helps.", ["Use a pool, e.g. pgbouncer, i.e. one per host.", "It helps."]),
        ("It takes 3.5 ms with v1.2 in file.py today. Good.", ["It takes 3.5 ms with v1.2 in file.py today.", "Good."]),
        ("See https://example.org/a.b?c=d. Then go on.", ["See https://example.org/a.b?c=d.", "Then go on."]),
        ("Well... that was odd. It works now…", ["Well... that was odd.", "It works now…"]),
        ("It hung... Then it ended.", ["It hung...", "Then it ended."]),
        ("fixed it. it was the cache.", ["fixed it.", "it was the cache."]),
        ("Logs, metrics, etc. are kept. We keep logs etc. Then we delete.", ["Logs, metrics, etc. are kept.", "We keep logs etc.", "Then we delete."]),
        ("See fig. 3 and no. 7 there. No. It isn't.", ["See fig. 3 and no. 7 there.", "No.", "It isn't."]),
        ("We take `a. B` and (so. Or so.) as one. Two.", ["We take `a. B` and (so. Or so.) as one.", "Two."]),
        ("最初の文です。次の文です！終わり", ["最初の文です。", "次の文です！", "終わり"]),
        ('He said "stop." Then he left.', ['He said "stop."', "Then he left."]),
        ("We take option B. It is cheaper.", ["We take option B.", "It is cheaper."]),
        ("We set it to 3. It works.", ["We set it to 3.", "It works."]),
    ],
)  # fmt: skip
def test_sentences_end_where_a_reader_ends_them(text: str, expected: list[str]):
    assert texts(text) == expected


def test_markdown_is_not_part_of_a_sentence():
    text = (
        "# Title\nFirst line of\na paragraph.\n\n- one entry\n- [x] another entry\n  carried on\n2. a third\n\n> quoted. words\n\n"
        "```py\ncode. Here\n```\n\n    indented. Code\n\n| a | b |\n|---|---|\n\nUnderlined\n----------\n<!-- hidden. -->Last."
    )
    assert texts(text) == [
        "First line of a paragraph.",
        "one entry",
        "another entry carried on",
        "a third",
        "Last.",
    ]


def test_lines_ended_by_their_writer_are_sentences():
    assert texts("Deployed the fix\nError rate is down") == [
        "Deployed the fix",
        "Error rate is down",
    ]
    assert texts("a line that is carried on\nin the next one") == [
        "a line that is carried on in the next one"
    ]


def test_a_sentence_knows_the_heading_above_it():
    found = list(
        sentences_of(
            "Before.\n\n## Decision\nWe go.\n\n**Open points**\n- none\n\nResult\n===\nDone."
        )
    )
    assert [(sentence.text, sentence.heading) for sentence in found] == [
        ("Before.", ""),
        ("We go.", "Decision"),
        ("none", "Open points"),
        ("Done.", "Result"),
    ]


def test_long_sentence_is_cut_between_words_and_outside_code():
    assert cut("short") == "short"
    long = cut("word " * 100)
    assert len(long) <= SENTENCE_CHARACTERS and long.endswith("word…")
    assert cut("x" * 500) == "x" * (SENTENCE_CHARACTERS - 1) + "…"
    assert cut("word " * 40 + "`" + "code " * 40 + "`").count("`") == 0


def test_invisible_characters_become_spaces():
    assert fold("a\n b\x1b[31m\u202ec\u200bd\ud800e\U000e0041f") == "a b [31m c d e f"


def test_words_with_one_stem_are_equal():
    for family in (
        "retry retries retried retrying",
        "size sizes sized sizing",
        "cache caches cached caching",
        "run runs running",
    ):
        assert len({stem(word) for word in family.split()}) == 1
    assert stem("redis") == "redis" and stem("status") == "status" and stem("class") == "class"
    assert stems_of("the poolSize of the DB_POOLS") == ["pool", "siz", "db", "pool"]


@given(st.text(max_size=400))
def test_every_sentence_stands_in_its_text(text: str):
    folded = fold(text)
    for sentence in texts(text):
        assert sentence and sentence in folded


@pytest.mark.parametrize(
    "piece", [".", "! ", "`", "(", "(a. ", "`a. ", "- ", "1. ", "#", "> ", "<!--", "...x", "\u2028", "**", "。", "a.b ", "\x00", "["]
)  # fmt: skip
def test_any_text_is_split_in_bounded_time(piece: str):
    started = time.process_time()
    texts(piece * (100_000 // len(piece)))
    assert time.process_time() - started < 1.0
