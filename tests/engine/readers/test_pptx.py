"""Presentations: one page for each slide."""

from engine.readers.document_text import text_of


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
