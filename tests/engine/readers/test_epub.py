"""Books: chapters in reading order."""

from engine.readers.document_text import text_of


def test_chapters_of_a_book_come_in_reading_order_under_headings(make_epub):
    chapters = {
        "b.xhtml": "<h2>Opening</h2><p>It began.</p>",
        "a.xhtml": "<p>It went on.</p>",
        "c.xhtml": "<nav>x</nav>",
    }
    text = text_of(make_epub(chapters, {"b.xhtml": "One", "a.xhtml": "Two"}), "a.epub")
    assert text == "# A Book\n\nSomebody\n\n## Opening\n\nIt began.\n\n# Two\n\nIt went on."
