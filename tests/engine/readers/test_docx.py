"""Word documents as printed: list numbers, nesting, headings, tables, notes."""

import pytest

from cortex.engine.readers import DocumentText, read_document

STYLES = """
<w:style w:type="paragraph" w:default="1" w:styleId="N"><w:name w:val="Normal"/></w:style>
<w:style w:type="paragraph" w:styleId="T"><w:name w:val="Title"/></w:style>
<w:style w:type="paragraph" w:styleId="berschrift1"><w:name w:val="heading 1"/><w:pPr><w:outlineLvl w:val="0"/></w:pPr></w:style>
<w:style w:type="paragraph" w:styleId="H2"><w:name w:val="heading 2"/></w:style>
<w:style w:type="paragraph" w:styleId="Mine"><w:name w:val="My own"/><w:basedOn w:val="H2"/></w:style>
<w:style w:type="paragraph" w:styleId="TOC1"><w:name w:val="toc 1"/></w:style>
<w:style w:type="paragraph" w:styleId="Code"><w:name w:val="Source Code"/></w:style>
<w:style w:type="paragraph" w:styleId="LB"><w:name w:val="List Bullet"/><w:pPr><w:numPr><w:numId w:val="1"/></w:numPr></w:pPr></w:style>
"""


def level(depth: int, form: str, text: str, start: int = 1) -> str:
    return f'<w:lvl w:ilvl="{depth}"><w:start w:val="{start}"/><w:numFmt w:val="{form}"/><w:lvlText w:val="{text}"/></w:lvl>'


NUMBERING = (
    '<w:abstractNum w:abstractNumId="10">'
    + level(0, "bullet", "•")
    + level(1, "bullet", "o")
    + "</w:abstractNum>"
    '<w:abstractNum w:abstractNumId="11">'
    + level(0, "decimal", "%1.")
    + level(1, "lowerLetter", "%2)")
    + level(2, "lowerRoman", "%3.")
    + "</w:abstractNum>"
    '<w:abstractNum w:abstractNumId="12">'
    + level(0, "decimal", "%1")
    + level(1, "decimal", "%1.%2")
    + "</w:abstractNum>"
    '<w:num w:numId="1"><w:abstractNumId w:val="10"/></w:num>'
    '<w:num w:numId="2"><w:abstractNumId w:val="11"/></w:num>'
    '<w:num w:numId="3"><w:abstractNumId w:val="12"/></w:num>'
    '<w:num w:numId="4"><w:abstractNumId w:val="11"/><w:lvlOverride w:ilvl="0"><w:startOverride w:val="5"/></w:lvlOverride></w:num>'
)


def run(text: str, properties: str = "") -> str:
    return f'<w:r><w:rPr>{properties}</w:rPr><w:t xml:space="preserve">{text}</w:t></w:r>'


def paragraph(text: str, style: str = "", number: int = 0, depth: int = 0) -> str:
    listed = (
        f'<w:numPr><w:ilvl w:val="{depth}"/><w:numId w:val="{number}"/></w:numPr>' if number else ""
    )
    styled = f'<w:pStyle w:val="{style}"/>' if style else ""
    return (
        f"<w:p><w:pPr>{styled}{listed}</w:pPr>{text if text.startswith('<') else run(text)}</w:p>"
    )


@pytest.fixture
def text_of(make_docx):
    def read(*body: str, **parts: str) -> str:
        document = read_document(make_docx("".join(body), NUMBERING, STYLES, **parts), "a.docx")
        assert isinstance(document, DocumentText), document
        assert document.language == "markdown"
        return document.text

    return read


def test_lists_keep_their_visible_marks_numbers_and_nesting(text_of):
    text = text_of(
        paragraph("Fruit", number=1),
        paragraph("Apple", number=1, depth=1),
        paragraph("Nuts", style="LB"),
        paragraph("Steps:"),
        paragraph("First", number=2),
        paragraph("a part", number=2, depth=1),
        paragraph("another", number=2, depth=1),
        paragraph("small", number=2, depth=2),
        paragraph("Second", number=2),
        paragraph("again a part", number=2, depth=1),
        paragraph("between"),
        paragraph("Third", number=2),
        paragraph("Fifth", number=4),
        paragraph("Sixth", number=4),
    )
    assert text == (
        "- Fruit\n  - Apple\n- Nuts\n\nSteps:\n\n1. First\n  a) a part\n  b) another\n    i. small\n2. Second\n  a) again a part"
        "\n\nbetween\n\n3. Third\n5. Fifth\n6. Sixth"
    )


def test_headings_come_from_styles_in_any_language_with_their_printed_numbers(text_of):
    text = text_of(
        paragraph("A Guide", "T"),
        paragraph("Start", "berschrift1", number=3),
        paragraph("Details", "H2", number=3, depth=1),
        paragraph("More", "Mine", number=3, depth=1),
        paragraph("words"),
        paragraph("Next", "berschrift1", number=3),
    )
    assert text == "# A Guide\n\n# 1 Start\n\n## 1.1 Details\n\n## 1.2 More\n\nwords\n\n# 2 Next"


def test_tables_keep_rows_and_merged_cells(text_of):
    def cell(text: str, properties: str = "") -> str:
        return f"<w:tc><w:tcPr>{properties}</w:tcPr>{paragraph(text)}</w:tc>"

    text = text_of(
        "<w:tbl>"
        f"<w:tr>{cell('Name')}{cell('Age')}{cell('City')}</w:tr>"
        f"<w:tr>{cell('Ann|e', '<w:vMerge w:val=&quot;restart&quot;/>'.replace('&quot;', chr(34)))}{cell('3')}{cell('Rome')}</w:tr>"
        f"<w:tr>{cell('', '<w:vMerge/>')}{cell('both', '<w:gridSpan w:val=&quot;2&quot;/>'.replace('&quot;', chr(34)))}</w:tr>"
        "</w:tbl>"
    )
    assert (
        text == "| Name | Age | City |\n| --- | --- | --- |\n| Ann\\|e | 3 | Rome |\n|  | both |  |"
    )


def test_changes_hidden_text_fields_and_contents_read_as_shown(text_of):
    text = text_of(
        paragraph("Contents ... 1", "TOC1"),
        paragraph(
            f"<w:ins>{run('new ')}</w:ins><w:del><w:r><w:delText>old </w:delText></w:r></w:del>{run('kept', '<w:i/>')}"
            f"{run('unseen', '<w:vanish/>')}<w:r><w:instrText>PAGE</w:instrText></w:r>"
            f"<w:hyperlink>{run(' a link')}</w:hyperlink><w:r><w:tab/><w:t>x</w:t><w:noBreakHyphen/><w:t>y</w:t></w:r>"
        ),
    )
    assert text == "new kept a link\tx-y"


def test_footnotes_stand_at_the_end(text_of):
    notes = f'<w:footnote w:id="0">{paragraph("separator")}</w:footnote><w:footnote w:id="2">{paragraph("See there.")}</w:footnote>'
    text = text_of(
        paragraph(f'{run("Said")}<w:r><w:footnoteReference w:id="2"/></w:r>{run(".")}'),
        paragraph("End"),
        footnotes=notes,
    )
    assert text == "Said[^1].\n\nEnd\n\n[^1]: See there."


def test_footnote_that_refers_to_itself_is_read_once(text_of):
    inner = paragraph('<w:r><w:t>x</w:t><w:footnoteReference w:id="2"/></w:r>')
    notes = f'<w:footnote w:id="2">{inner}</w:footnote>'
    assert (
        text_of(paragraph('<w:r><w:footnoteReference w:id="2"/></w:r>'), footnotes=notes)
        == "[^1]\n\n[^1]: x"
    )


def test_code_is_fenced_and_text_boxes_follow_their_paragraph(text_of):
    box = f"<w:r><w:pict><w:txbxContent>{paragraph('In a box')}</w:txbxContent></w:pict></w:r>"
    text = text_of(
        paragraph("if x:", "Code"), paragraph("    y()", "Code"), paragraph(f"{run('Beside')}{box}")
    )
    assert text == "```\nif x:\n    y()\n```\n\nBeside\n\nIn a box"


@pytest.mark.parametrize(
    "words",
    ["中文文档的内容", "日本語の文書", "한국어 문서", "שלום עולם", "مرحبا بالعالم", "naïve 😀"],
)
def test_docx_text_of_any_script_is_read(text_of, words):
    assert text_of(paragraph(words, "berschrift1"), paragraph(words)) == f"# {words}\n\n{words}"


def test_paragraph_that_only_looks_like_a_heading_is_no_heading(text_of):
    assert text_of(paragraph("# not a heading"), paragraph("---")) == "\\# not a heading\n\n\\---"
