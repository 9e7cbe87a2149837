"""Registry of document readers: chosen by content, then by file name.

Files that are text already (Markdown, reStructuredText, plain text, source code) stay unchanged, so
that line numbers match; everything else becomes Markdown with "#" headings. A reader is imported
with its first file.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from dataclasses import dataclass

from cortex.base.secret_scanner import is_key
from cortex.base.types import UnreadableFile
from cortex.engine.readers.markdown_writer import PAGE_END
from cortex.engine.readers.plain import PRIVATE_KEY, decoded, read
from cortex.engine.readers.unreadable import Unreadable

_PROSE = frozenset(
    "md markdown mdown mkd mdx qmd rmd rst txt text log adoc asciidoc org tex wiki textile srt "
    "vtt".split()
)
_PAGES = frozenset({"html", "htm", "xhtml"})
_TABLES = frozenset({"csv", "tsv"})
_ZIP = b"PK\x03\x04"
_GZIP = b"\x1f\x8b"
GZIP_ENDING = ".gz"
# Unpacked size of a gzip file: the packed file may be a thousandth of that.
MAX_UNPACKED_BYTES = 20_000_000
# Encrypted office files are wrapped in the old format, too.
_OLD_OFFICE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_PROTECTED = "EncryptedPackage".encode("utf-16-le")
# Bytes before the PDF signature that PDF readers tolerate.
_PDF_WITHIN = 1024
_INNER_PAGE = re.compile(r"(?<=[^\s])[^\S\n]*\f")


@dataclass(frozen=True, slots=True)
class DocumentText:
    r"""Text that a reader extracted from a file.

    Every page of a paged document ends with "\f"; `language` is "" if the file name determines it.
    """

    text: str
    language: str


def unpacked_name(path: str) -> str:
    """Strip the extension of gzip from the path of a document."""
    return path[: -len(GZIP_ENDING)] if path.lower().endswith(GZIP_ENDING) else path


def read_document(raw: bytes, path: str) -> DocumentText | UnreadableFile:
    """Extract the text of a document, always encodable as UTF-8, or say why there is none."""
    unpacked = unpacked_name(path)
    name = unpacked.rpartition("/")[2].lower()
    extension = name.rpartition(".")[2]
    try:
        if unpacked != path and raw.startswith(_GZIP):
            raw, path = _unpack(raw), unpacked
        if raw.startswith(_OLD_OFFICE):
            raise Unreadable(
                "encrypted"
                if _PROTECTED in raw
                else "an old Office format: save it as docx, xlsx or pptx"
            )
        if raw.startswith(_ZIP):
            return _document_text(_read_archive(raw))
        if extension == "pdf" or b"%PDF-" in raw[:_PDF_WITHIN]:
            return _document_text(_read_pdf(raw))
        if extension in ("docx", "pptx", "xlsx", "epub"):
            raise Unreadable("empty" if not raw else f"damaged: no {extension}")
        return _read_text(raw, path, extension)
    except Unreadable as reason:
        return UnreadableFile(str(reason))


def _unpack(raw: bytes) -> bytes:
    """Unpack a gzip file, up to the size that a text may have."""
    import gzip
    import zlib

    try:
        with gzip.GzipFile(fileobj=io.BytesIO(raw)) as packed:
            unpacked = packed.read(MAX_UNPACKED_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise Unreadable("damaged: not a whole gzip file") from error
    if len(unpacked) > MAX_UNPACKED_BYTES:
        raise Unreadable(f"unpacks to more than {MAX_UNPACKED_BYTES // 1_000_000} MB")
    return unpacked


def _read_text(raw: bytes, path: str, extension: str) -> DocumentText | UnreadableFile:
    if extension == "ipynb" or extension in _PAGES | _TABLES:
        text = decoded(raw)
        if isinstance(text, UnreadableFile):
            return text
        return _document_text(
            _reader_for(extension)(text), "text" if extension in _TABLES else "markdown"
        )
    if extension not in _PROSE and "." in path.rpartition("/")[2]:
        text = read(raw, path)
        return text if isinstance(text, UnreadableFile) else DocumentText(text, "")
    text = decoded(raw)
    # A form feed within a line doesn't end a page.
    return (
        text if isinstance(text, UnreadableFile) else DocumentText(_INNER_PAGE.sub(" ", text), "")
    )


def _reader_for(extension: str) -> Callable[[str], str]:
    if extension == "ipynb":
        from cortex.engine.readers.notebook import read_notebook

        return read_notebook
    if extension in _TABLES:
        from cortex.engine.readers.xlsx_csv import read_csv

        return read_csv
    from cortex.engine.readers.html import read_html

    return read_html


def _read_archive(raw: bytes) -> str:
    from cortex.engine.readers.safe_zip import Archive

    archive = Archive(raw)
    if "META-INF/container.xml" in archive:
        from cortex.engine.readers.epub import read_epub

        return read_epub(archive)
    main = archive.main()
    folder = main.partition("/")[0]
    if folder == "word":
        from cortex.engine.readers.docx import read_docx

        return read_docx(archive, main)
    if folder == "ppt":
        from cortex.engine.readers.pptx import read_pptx

        return read_pptx(archive, main)
    if folder == "xl":
        from cortex.engine.readers.xlsx_csv import read_xlsx

        return read_xlsx(archive, main)
    raise Unreadable("an archive without a document in it")


def _read_pdf(raw: bytes) -> str:
    from cortex.engine.readers.pdf import read_pdf

    return read_pdf(raw)


def _document_text(text: str, language: str = "markdown") -> DocumentText | UnreadableFile:
    if not text.replace(PAGE_END, "").strip():
        return UnreadableFile("no text in it")
    text = text.encode("utf-8", "replace").decode("utf-8").replace("\0", "")
    return UnreadableFile(PRIVATE_KEY) if is_key(text) else DocumentText(text, language)
