"""Presentations, workbooks, CSV, books and notebooks."""

import json

import pytest

from cortex.base.types import UnreadableFile
from cortex.engine.readers import DocumentText, read_document
from cortex.engine.readers.xlsx_csv import MAX_CELLS, MAX_CHARACTERS


def text_of(raw: bytes, path: str) -> str:
    document = read_document(raw, path)
    assert isinstance(document, DocumentText), document
    return document.text


def shape(text: str, kind: str = "") -> str:
    holder = f'<p:nvPr><p:ph type="{kind}"/></p:nvPr>' if kind else "<p:nvPr/>"
    return f"<p:sp><p:nvSpPr>{holder}</p:nvSpPr><p:txBody>{text}</p:txBody></p:sp>"


def words(text: str, properties: str = "") -> str:
    return f"<a:p><a:pPr{properties}</a:pPr><a:r><a:t>{text}</a:t></a:r></a:p>"


def test_a_slide_is_a_page_with_its_title_as_heading(make_pptx):
    first = shape(words("Points", ">"), "title") + shape(
        words("One", ">")
        + words("deeper", ' lvl="1">')
        + words("Two", ">")
        + words("bare", "><a:buNone/>")
        + words("a", '><a:buAutoNum type="alphaLcParenR"/>')
        + words("b", '><a:buAutoNum type="alphaLcParenR"/>'),
        "body",
    )
    second = shape(words("12", ">"), "sldNum") + shape(words("Just a note in a box", ">"))
    table = (
        "<p:graphicFrame><a:graphic><a:graphicData><a:tbl>"
        + "".join(
            f"<a:tr>{''.join(f'<a:tc><a:txBody>{words(cell, chr(62))}</a:txBody></a:tc>' for cell in row)}</a:tr>"
            for row in (("Year", "Sum"), ("2024", "7"))
        )
        + "</a:tbl></a:graphicData></a:graphic></p:graphicFrame>"
    )
    text = text_of(make_pptx(first, second + table, notes=words("Say this slowly", ">")), "a.pptx")
    assert text == (
        "# Points\n\n- One\n  - deeper\n- Two\nbare\na) a\nb) b\n\f\n"
        "# Slide 2\n\nJust a note in a box\n\n| Year | Sum |\n| --- | --- |\n| 2024 | 7 |\n\nNotes: Say this slowly\n\f\n"
    )


def test_rows_of_a_sheet_name_their_columns(make_xlsx):
    rows = (
        '<row r="1"><c r="A1" t="s"><v>0</v></c><c r="B1" t="s"><v>1</v></c><c r="C1" t="inlineStr"><is><t>Paid</t></is></c></row>'
        '<row r="2"><c r="A2" t="s"><v>2</v></c><c r="B2" s="1"><v>45352</v></c><c r="C2" t="b"><v>1</v></c></row>'
        '<row r="5"><c r="A5" t="str"><f>A2</f><v>Bob</v></c><c r="C5"><v>0.30000000000000004</v></c></row>'
    )
    styles = '<cellXfs><xf numFmtId="0"/><xf numFmtId="14"/></cellXfs>'
    other = '<row r="1"><c r="A1"><v>1</v></c><c r="B1"><v>2</v></c></row>'
    raw = make_xlsx(
        {"People & more": rows, "Numbers": other, "Empty": ""}, ["Name", "Since", "Ann"], styles
    )
    assert text_of(raw, "a.xlsx") == (
        "# People & more\n\nName | Since | Paid\nName: Ann | Since: 2024-03-01 | Paid: TRUE\n\nName: Bob | Paid: 0.3\n\n# Numbers\n\n1 | 2"
    )


def test_a_long_sheet_ends_at_a_bound_and_says_so(make_xlsx):
    rows = "".join(
        f'<row><c t="str"><v>word {at}</v></c><c><v>{at}</v></c></row>'
        for at in range(MAX_CELLS // 2 + 10)
    )
    text = text_of(make_xlsx({"S": rows}), "a.xlsx")
    assert text.endswith(f"[more rows follow; {MAX_CELLS:,} cells are read]")
    assert f"word {MAX_CELLS // 2 - 1} " in text and f"word {MAX_CELLS // 2 + 5} " not in text


def test_a_long_text_that_all_rows_share_is_written_out_to_a_bound(make_xlsx):
    rows = '<row><c t="s"><v>0</v></c></row>' * 100
    text = text_of(make_xlsx({"S": rows}, strings=["word " * 200_000]), "a.xlsx")
    assert len(text) < 1.1 * MAX_CHARACTERS
    assert text.endswith(f"[more rows follow; {MAX_CHARACTERS:,} characters are read]")


def test_digits_outside_ascii_are_no_row_or_style_number(make_xlsx):
    rows = '<row r="²"><c t="s"><v>²</v></c><c t="s"><v>0</v></c></row>'
    assert text_of(make_xlsx({"S": rows}, strings=["word"]), "a.xlsx") == "# S\n\nword"


@pytest.mark.parametrize("mark", [",", ";", "\t", "|"])
def test_csv_row_is_one_line_with_any_delimiter(mark):
    raw = f'name{mark}city{mark}age\nAnn{mark}"Rome\nItaly"{mark}3\nBob{mark}{mark}4\n'.encode()
    assert (
        text_of(raw, "a.csv")
        == "name | city | age\nname: Ann | city: Rome Italy | age: 3\nname: Bob | age: 4"
    )


def test_csv_without_a_header_is_read_as_plain_cells():
    assert text_of(b"1,2\n3,4\n", "a.csv") == "1 | 2\n3 | 4"


def test_chapters_of_a_book_come_in_reading_order_under_headings(make_epub):
    chapters = {
        "b.xhtml": "<h2>Opening</h2><p>It began.</p>",
        "a.xhtml": "<p>It went on.</p>",
        "c.xhtml": "<nav>x</nav>",
    }
    text = text_of(make_epub(chapters, {"b.xhtml": "One", "a.xhtml": "Two"}), "a.epub")
    assert text == "# A Book\n\nSomebody\n\n## Opening\n\nIt began.\n\n# Two\n\nIt went on."


def test_notebook_is_read_as_text_code_and_start_of_outputs():
    cells = [
        {"cell_type": "markdown", "source": ["# Study\n", "words"]},
        {
            "cell_type": "code",
            "source": "x = 1\nx",
            "outputs": [
                {
                    "output_type": "execute_result",
                    "data": {"text/plain": ["1"], "image/png": "A" * 9},
                },
                {"output_type": "stream", "text": [f"line {at}\n" for at in range(100)]},
                {"output_type": "error", "ename": "ValueError", "evalue": "bad"},
                {"output_type": "display_data", "data": {"image/png": "A" * 99}},
            ],
        },
        {"cell_type": "code", "source": [], "outputs": []},
    ]
    text = text_of(
        json.dumps({"cells": cells, "metadata": {"language_info": {"name": "julia"}}}).encode(),
        "a.ipynb",
    )
    shown = "\n".join(f"line {at}" for at in range(12))
    assert text == (
        f"# Study\nwords\n\n```julia\nx = 1\nx\n```\n\n```text\n1\n```\n\n```text\n{shown}\n...\n```\n\n```text\nValueError: bad\n```"
    )


@pytest.mark.parametrize("raw", [b"{", b"[]", b'{"cells": 3}', b"[" * 100_000])
def test_a_broken_notebook_is_refused(raw):
    answer = read_document(raw, "a.ipynb")
    assert isinstance(answer, UnreadableFile) and answer.reason.startswith("damaged")
