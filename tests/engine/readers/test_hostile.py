"""Hostile documents: bombs, false sizes, broken archives, in this process and in the worker."""

import gzip
import io
import zipfile

import pytest

from cortex.base.types import Cancel, Cut, UnreadableFile
from cortex.engine.readers import DocumentText, read_document
from cortex.engine.readers import safe_zip as archive_module
from cortex.engine.worker.pool import Pool

BODY = "<w:p><w:r><w:t>fine words</w:t></w:r></w:p>"


def reason_of(raw: bytes, path: str) -> str:
    answer = read_document(raw, path)
    assert isinstance(answer, UnreadableFile), answer
    return answer.reason


def test_a_zip_bomb_is_refused_by_what_it_declares(make_zip):
    raw = make_zip({"word/document.xml": b" " * 250_000_000})
    assert len(raw) < 1_000_000
    assert reason_of(raw, "a.docx") == "unpacks to 250 MB"


def test_a_small_archive_with_a_huge_ratio_is_refused(make_zip):
    assert (
        reason_of(make_zip({"word/document.xml": b"<a/>", "x": b"0" * 20_000_000}), "a.docx")
        == "unpacks to 20 MB"
    )


def test_archive_with_false_sizes_is_stopped_while_unpacking(make_zip, monkeypatch):
    monkeypatch.setattr(archive_module, "MAX_UNPACKED_BYTES", 1_000_000)
    raw = bytearray(make_zip({"word/document.xml": b" " * 5_000_000}))
    with zipfile.ZipFile(io.BytesIO(raw)) as archive:
        central = archive.start_dir
    # The size in the table of contents
    raw[central + 24 : central + 28] = (100).to_bytes(4, "little")
    answer = reason_of(bytes(raw), "a.docx")
    assert answer.startswith(("damaged", "unpacks to more than"))


def test_size_limit_counts_over_all_parts_of_an_archive(make_docx, monkeypatch):
    monkeypatch.setattr(archive_module, "MAX_UNPACKED_BYTES", 2_000)
    assert reason_of(make_docx(BODY * 50), "a.docx").startswith("unpacks to")


def test_gzipped_text_is_read_as_its_content():
    read = read_document(gzip.compress(b"# Changes\n\nfixed\n"), "doc/README.md.GZ")
    assert isinstance(read, DocumentText)
    assert (read.text, read.language) == ("# Changes\n\nfixed\n", "")
    page = read_document(gzip.compress(b"<h1>Title</h1><p>words</p>"), "page.html.gz")
    assert isinstance(page, DocumentText)
    assert (page.language, "# Title" in page.text) == ("markdown", True)
    # Several packed parts in a row are one text.
    assert read_document(
        gzip.compress(b"one ") + gzip.compress(b"two"), "changelog.gz"
    ) == DocumentText("one two", "")
    with Pool(1) as pool:
        files = [(1, "doc/README.md.gz", gzip.compress(b"# Changes\n\nfixed\n"))]
        ((_, cut),) = pool.cut_all(files, documents=True)
    assert isinstance(cut, Cut)
    assert (cut.language, cut.chunks[0].name) == ("markdown", "Changes")


GZIPPED = {
    "a bomb": (lambda: gzip.compress(b"a" * 21_000_000, 1), "unpacks to more than 20 MB"),
    "cut off": (lambda: gzip.compress(b"some words " * 50)[:-20], "damaged: not a whole gzip file"),
    "half a head": (lambda: gzip.compress(b"x")[:4], "damaged: not a whole gzip file"),
    "packed twice": (lambda: gzip.compress(gzip.compress(b"words")), "binary"),
    "a program": (lambda: gzip.compress(b"\x7fELF\0\0"), "binary"),
}


@pytest.mark.parametrize("name", GZIPPED)
def test_a_gzip_file_that_is_a_bomb_or_no_text_is_refused(name):
    make, reason = GZIPPED[name]
    assert reason_of(make(), "changelog.gz") == reason


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_xml_entities_are_refused_in_any_encoding(make_zip, encoding):
    laughs = "".join(f'<!ENTITY l{at} "{f"&l{at - 1};" * 10 if at else "ha"}">' for at in range(10))
    document = f'<?xml version="1.0" encoding="{encoding}"?><!DOCTYPE d [{laughs}]><d>&l9;</d>'
    assert (
        reason_of(make_zip({"word/document.xml": document.encode(encoding)}), "a.docx")
        == "declares XML entities"
    )
    for part in ("META-INF/container.xml", "META-INF/CONTAINER.XML"):
        assert (
            reason_of(make_zip({part: document.encode(encoding)}), "a.epub")
            == "declares XML entities"
        )


def test_external_xml_entity_is_not_fetched(make_zip, tmp_path):
    (tmp_path / "secret.txt").write_text("a secret", encoding="utf-8")
    document = f'<!DOCTYPE d [<!ENTITY x SYSTEM "{(tmp_path / "secret.txt").as_uri()}">]><d>&x;</d>'
    assert reason_of(make_zip({"word/document.xml": document}), "a.docx") == "declares XML entities"


def test_deeply_nested_xml_is_refused(make_docx):
    assert (
        reason_of(make_docx("<w:sdt>" * 50_000 + "</w:sdt>" * 50_000), "a.docx")
        == "nested too deeply"
    )


def test_a_part_outside_of_the_archive_is_not_a_part(make_zip):
    raw = make_zip({
        "META-INF/container.xml": '<c><rootfile full-path="../../../../etc/passwd"/></c>',
    })  # fmt: skip
    assert reason_of(raw, "a.epub").startswith("damaged")


@pytest.mark.parametrize("path", ["a.docx", "a.pptx", "a.xlsx", "a.epub"])
def test_broken_files_are_refused_with_a_reason(make_docx, make_zip, path):
    whole = make_docx(BODY)
    assert reason_of(b"", path) == "empty"
    assert reason_of(b"just text", path).startswith("damaged")
    assert reason_of(whole[: len(whole) // 2], path) == "damaged: not a whole archive"
    assert reason_of(make_zip({"a.txt": "x"}), path) == "an archive without a document in it"
    for main in (
        "word/document.xml",
        "ppt/presentation.xml",
        "xl/workbook.xml",
        "META-INF/container.xml",
    ):
        assert (
            reason_of(make_zip({main: "<unfinished"}), path) == f"damaged: {main} is no whole XML"
        )
        assert isinstance(read_document(make_zip({main: "<x/>"}), path), UnreadableFile)


def test_document_with_any_wrong_byte_is_read_or_refused(make_docx, make_xlsx):
    for whole in (make_docx(BODY), make_xlsx({"S": "<row><c><v>1</v></c></row>"})):
        for place in range(0, len(whole), 7):
            raw = bytearray(whole)
            raw[place] ^= 0xFF
            assert isinstance(read_document(bytes(raw), "a.docx"), DocumentText | UnreadableFile)


def test_protected_and_old_office_files_are_refused_with_the_reason():
    old = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(500)
    assert reason_of(old + "EncryptedPackage".encode("utf-16-le"), "a.docx") == "encrypted"
    assert "old Office format" in reason_of(old, "a.xlsx")


def test_document_format_is_recognised_by_content_before_name(make_docx):
    answer = read_document(make_docx(BODY), "misnamed.pptx")
    assert answer == DocumentText("fine words", "markdown")


@pytest.mark.parametrize(
    ("path", "language"), [("a.md", ""), ("a.txt", ""), ("a.rst", ""), ("NOTES", "")]
)
def test_plain_text_document_is_unchanged(path, language):
    text = "---\ntitle: x\n---\n# Heading\n\tcode  \n\n\n# @generated\nlast"
    assert read_document(text.encode(), path) == DocumentText(text, language)


def test_generated_and_minified_prose_is_still_a_document():
    text = "<!-- @generated -->\n" + "word " * 2_000
    assert read_document(text.encode(), "a.md") == DocumentText(text, "")


def test_a_form_feed_within_a_line_ends_no_page():
    assert read_document(b"one\ftwo\n\fthree\n\f\n", "a.txt") == DocumentText(
        "one two\n\fthree\n\f\n", ""
    )


def test_hostile_document_costs_only_itself_in_the_worker(make_docx, make_zip, make_pdf):
    pytest.importorskip("pypdfium2")
    files = [
        (0, "a.docx", make_docx(BODY)),
        (1, "bomb.docx", make_zip({"word/document.xml": b" " * 250_000_000})),
        (2, "locked.pdf", make_pdf([["x"]], password="p")),
        (3, "deep.html", b"<div>" * 50_000 + b"deep"),
        (4, "b.pdf", make_pdf([["first page words"], ["second page words"]])),
        (5, "c.md", b"# One\n\ntext\n"),
        (6, "d.py", b"def f():\n    return 1\n"),
    ]
    with Pool(1) as pool:
        answers = dict(pool.cut_all(files, 250, 0, Cancel(), documents=True))
        plain = dict(pool.cut_all(files[:3], 250, 0, Cancel()))
    assert {
        key: answer.reason for key, answer in answers.items() if isinstance(answer, UnreadableFile)
    } == {1: "unpacks to 250 MB", 2: "encrypted"}
    book = answers[4]
    assert isinstance(book, Cut)
    assert [book.text.count("\f", 0, chunk.start) + 1 for chunk in book.chunks] == [1, 2]
    assert [book.text[chunk.start : chunk.end] for chunk in book.chunks] == [
        "first page words",
        "second page words",
    ]
    section, function = answers[5], answers[6]
    assert isinstance(section, Cut) and section.chunks[0].qualified == "One"
    assert isinstance(function, Cut) and function.chunks[0].kind == "function"
    assert plain == {key: UnreadableFile("binary") for key in range(3)}
