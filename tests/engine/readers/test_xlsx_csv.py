"""Workbooks and CSV: rows that name their columns, and bounds on their size."""

import pytest

from cortex.engine.readers.xlsx_csv import MAX_CELLS, MAX_CHARACTERS
from engine.readers.document_text import text_of


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
