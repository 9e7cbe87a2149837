"""PDF: pages, recovered headings, and files that are refused."""

import sys
import time

import pytest

from cortex.base.types import UnreadableFile
from cortex.engine.readers import DocumentText, is_mended, read_document

pytest.importorskip("pypdfium2")


def text_of(raw: bytes) -> str:
    document = read_document(raw, "a.pdf")
    assert isinstance(document, DocumentText), document
    assert document.language == "markdown"
    return document.text


def test_every_page_ends_with_a_form_feed(make_pdf):
    text = text_of(make_pdf([["One"], ["Two"], [], ["Four"]]))
    assert text == "One\n\f\nTwo\n\f\n\n\f\nFour\n\f\n"


def test_large_type_becomes_headings_and_a_gap_ends_a_paragraph(make_pdf):
    body = [
        "ordinary words of the text that go on for a while",
        "and a second line of them",
        "",
        "",
        "after a gap",
    ]
    text = text_of(
        make_pdf(
            [
                [(24, "The Title"), "", *body, "", (14, "A Part"), "", *body],
                [*body, (14, "Another Part"), *body],
            ]
        )
    )
    assert [line for line in text.split("\n") if line.startswith("#")] == [
        "# The Title",
        "## A Part",
        "## Another Part",
    ]
    assert "and a second line of them\n\nafter a gap" in text


def test_bookmarks_decide_which_lines_are_headings(make_pdf):
    page = ["Alpha", "some words here", "Beta", "some more words"]
    text = text_of(make_pdf([page, ["Gamma", "the end"]], bookmarks=[("Alpha", 0), ("Gamma", 1)]))
    assert [line for line in text.split("\n") if line.startswith("#")] == ["# Alpha", "# Gamma"]


def test_the_title_is_a_heading_where_bookmarks_begin_later(make_pdf):
    page = [(24, "The Whole"), (24, "of the Title"), "by somebody", "", "Alpha", "some words here"]
    text = text_of(make_pdf([page, ["Gamma", "the end"]], bookmarks=[("Alpha", 0), ("Gamma", 1)]))
    assert [line for line in text.split("\n") if line.startswith("#")] == [
        "# The Whole of the Title",
        "# Alpha",
        "# Gamma",
    ]


def test_running_headers_and_footers_are_kept_once(make_pdf):
    pages = [
        [
            "Annual Report",
            f"text with number {at * at}",
            "words",
            "words of it",
            "more",
            f"Page {at} of 5",
        ]
        for at in range(1, 6)
    ]
    text = text_of(make_pdf(pages))
    assert text.count("Annual Report") == 1 and text.count(" of 5") == 1
    assert all(f"text with number {at * at}" in text for at in range(1, 6))


@pytest.mark.parametrize(
    "words",
    [
        "中文文档的内容",
        "日本語の文書です",
        "한국어 문서",
        "Ünïcödé – naïve",
        "Κείμενο",
        "𝒜 𝐁 emoji 😀",
    ],
)
def test_pdf_text_of_any_script_is_read(make_pdf, words):
    assert words in text_of(make_pdf([[words]]))


def test_right_to_left_text_reads_forward(make_pdf):
    text = text_of(make_pdf([["שלום עולם"[::-1]]]))  # drawn from left to right, as PDF does it
    assert "שלום" in text


def test_markdown_marks_in_a_pdf_are_escaped(make_pdf):
    text = text_of(make_pdf([["# include <stdio.h>", "words", "-----", "```"]]))
    assert "\\# include" in text and "\\-----" in text and "\\```" in text


def test_encrypted_pdf_is_refused(make_pdf):
    assert read_document(make_pdf([["secret"]], password="hunter2"), "a.pdf") == UnreadableFile(
        "encrypted"
    )


def test_scanned_pages_are_refused_with_the_reason(make_pdf):
    refused = read_document(make_pdf([["drawn"]], visible=False), "a.pdf")
    assert isinstance(refused, UnreadableFile) and "scanned" in refused.reason


def test_broken_pdf_is_refused(make_pdf):
    raw = make_pdf([["One"], ["Two"]])
    assert read_document(raw[:200], "a.pdf") == UnreadableFile("damaged: not a whole PDF")
    assert read_document(b"", "a.pdf") == UnreadableFile("damaged: not a whole PDF")
    assert read_document(b"%PDF-1.7\n" + bytes(range(256)) * 20, "a.pdf") == UnreadableFile(
        "damaged: not a whole PDF"
    )


def test_pdf_of_ten_thousand_pages_is_read_to_the_page_limit(make_pdf):
    raw = make_pdf([[f"This is page {at}"] for at in range(1, 10_001)])
    started = time.process_time()
    text = text_of(raw)
    assert time.process_time() - started < 10
    assert "This is page 2000\n" in text and "This is page 2001" not in text
    assert "[The document goes on: pages 2001 to 10000 are not read.]" in text


def test_missing_pdf_extra_is_refused_with_the_command(make_pdf, monkeypatch):
    assert not is_mended("encrypted")
    assert is_mended('PDF needs an extra: pip install "cortex-context[documents]"')
    monkeypatch.setitem(sys.modules, "pypdfium2", None)
    assert read_document(make_pdf([["One"]]), "a.pdf") == UnreadableFile(
        'PDF needs an extra: pip install "cortex-context[documents]"'
    )


def test_private_key_in_a_pdf_is_a_secret(make_pdf):
    lines = ["-----BEGIN PRIVATE KEY-----", "A" * 60, "-----END PRIVATE KEY-----"]
    assert read_document(make_pdf([lines]), "a.pdf") == UnreadableFile("private key")
