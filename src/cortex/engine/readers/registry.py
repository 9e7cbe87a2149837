"""Reading of documents: the format is chosen by content, then by file name.

Files that are text already (Markdown, reStructuredText, plain text, source code) stay unchanged, so
that line numbers match; everything else becomes Markdown with "#" headings. Knows no format:
`formats.py` has them.
"""

from __future__ import annotations

import io
import re
from dataclasses import dataclass

from cortex.base.secret_scanner import is_key
from cortex.base.types import UnreadableFile
from cortex.engine.readers import formats
from cortex.engine.readers.formats import DocumentFormat, format_of
from cortex.engine.readers.markdown_writer import PAGE_END
from cortex.engine.readers.plain import PRIVATE_KEY, decoded, read
from cortex.engine.readers.unreadable import Unreadable

_ZIP = b"PK\x03\x04"
_GZIP = b"\x1f\x8b"
GZIP_ENDING = ".gz"
# Unpacked size of a gzip file: the packed file may be a thousandth of that.
MAX_UNPACKED_BYTES = 20_000_000
# Encrypted office files are wrapped in the old format, too.
_OLD_OFFICE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_PROTECTED = "EncryptedPackage".encode("utf-16-le")
# A signature may stand behind some other bytes: readers of PDF tolerate this many.
_SIGNATURE_WITHIN = 1024
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
    extension = unpacked.rpartition("/")[2].lower().rpartition(".")[2]
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
            return _read_archive(raw)
        known = _signed_format(raw) or format_of(extension)
        if known is not None and known.takes == "bytes":
            return _document_text(known.read(raw), known.language)
        if known is not None and known.takes == "archive":
            raise Unreadable("empty" if not raw else f"damaged: no {extension}")
        return _read_text(raw, path, known)
    except Unreadable as reason:
        return UnreadableFile(str(reason))


def _signed_format(raw: bytes) -> DocumentFormat | None:
    head = raw[:_SIGNATURE_WITHIN]
    signed = (known for known in formats.FORMATS if known.signature)
    return next((known for known in signed if known.signature in head), None)


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


def _read_text(
    raw: bytes, path: str, known: DocumentFormat | None
) -> DocumentText | UnreadableFile:
    if known is None and "." in path.rpartition("/")[2]:
        text = read(raw, path)
        return text if isinstance(text, UnreadableFile) else DocumentText(text, "")
    text = decoded(raw)
    if isinstance(text, UnreadableFile):
        return text
    if known is not None and known.reader:
        return _document_text(known.read(text), known.language)
    # A form feed within a line doesn't end a page.
    return DocumentText(_INNER_PAGE.sub(" ", text), "")


def _read_archive(raw: bytes) -> DocumentText | UnreadableFile:
    from cortex.engine.readers.safe_zip import Archive

    archive = Archive(raw)
    for known in formats.FORMATS:
        part = known.part
        if part and (archive.main.startswith(part) if part.endswith("/") else part in archive):
            return _document_text(known.read(archive), known.language)
    raise Unreadable("an archive without a document in it")


def _document_text(text: str, language: str) -> DocumentText | UnreadableFile:
    if not text.replace(PAGE_END, "").strip():
        return UnreadableFile("no text in it")
    text = text.encode("utf-8", "replace").decode("utf-8").replace("\0", "")
    return UnreadableFile(PRIVATE_KEY) if is_key(text) else DocumentText(text, language)
