"""Document formats: scan, reader and MIME type follow from one row each."""

import io
import sys
import types
import zipfile
from importlib import import_module
from pathlib import Path

import pytest

from cortex.base.types import UnreadableFile
from cortex.engine.readers import DocumentText, formats, read_document
from cortex.engine.readers.formats import FORMATS, DocumentFormat
from cortex.engine.sources.scanner import Rules, scan
from cortex.families.documents.search import mime_type


@pytest.mark.parametrize("known", FORMATS, ids=lambda known: next(iter(known.types)))
def test_reader_of_every_row_exists(known: DocumentFormat) -> None:
    module, _, function = known.reader.partition(":")
    if known.reader:
        assert callable(getattr(import_module(f"cortex.engine.readers.{module}"), function))


def test_no_extension_is_in_two_rows() -> None:
    extensions = [extension for known in FORMATS for extension in known.types]
    assert len(extensions) == len(set(extensions))


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("a.docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
        ("a.csv.gz", "text/csv"),
        ("a.ipynb", "application/x-ipynb+json"),
        ("a.rst", "text/x-rst"),
        ("a.ts", "text/x-typescript"),
        ("a.adoc", "text/plain"),
    ],
)
def test_mime_type_of_a_document_follows_its_name(path: str, kind: str) -> None:
    assert mime_type(path) == kind


def test_new_format_needs_only_its_row_and_a_reader(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    reader = types.ModuleType("cortex.engine.readers.odt")
    reader.read_odt = lambda archive: archive.read("content.xml").decode()  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, reader.__name__, reader)
    row = DocumentFormat(
        {"odt": "application/x-odt"}, "odt:read_odt", "archive", part="content.xml"
    )
    monkeypatch.setattr(formats, "FORMATS", (*FORMATS, row))

    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("content.xml", "# Tides\n\nThe sea rises twice a day.\n")
    (tmp_path / "tides.odt").write_bytes(buffer.getvalue())

    assert [file.path for file in scan(tmp_path, Rules(documents=True)).files] == ["tides.odt"]
    assert scan(tmp_path, Rules()).files == ()
    document = read_document(buffer.getvalue(), "tides.odt")
    assert document == DocumentText("# Tides\n\nThe sea rises twice a day.\n", "markdown")
    assert read_document(b"", "tides.odt") == UnreadableFile("empty")
    assert mime_type("tides.ODT") == "application/x-odt"
