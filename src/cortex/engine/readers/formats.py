"""Document formats: one row for each, from which scan, reader and MIME type follow.

Standard library only: a reader is imported with its first file. Formats of source code aren't here;
`engine/chunkers/languages.py` has them.
"""

from __future__ import annotations

import mimetypes
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal

# Independent of the MIME types configured on this machine.
_TYPES = mimetypes.MimeTypes(filenames=())
# By default a video.
_TYPES.add_type("text/x-typescript", ".ts")
_OFFICE = "application/vnd.openxmlformats-officedocument."


@dataclass(frozen=True, slots=True)
class DocumentFormat:
    """A document format, how it is recognised, and its reader."""

    # MIME type of each file name extension, "" for the usual one.
    types: Mapping[str, str]
    # "module:function" of the reader in this package; "" for text that stays as it is.
    reader: str = ""
    # What the reader converts: the bytes, a `safe_zip.Archive`, or decoded text.
    takes: Literal["bytes", "archive", "text"] = "text"
    # Bytes near the beginning of a file of this format, with any name.
    signature: bytes = b""
    # Part that only archives of this format have; ending in "/", the folder of the main part.
    part: str = ""
    # Language of the converted text, "" where the file name determines it.
    language: str = "markdown"

    def read(self, content: Any) -> str:
        """Convert a document to text.

        Raises: Unreadable.
        """
        module, _, function = self.reader.partition(":")
        reader: Callable[[Any], str] = getattr(import_module(f"{__package__}.{module}"), function)
        return reader(content)


def _usual(extensions: str, mime: str = "") -> dict[str, str]:
    return dict.fromkeys(extensions.split(), mime)


FORMATS: tuple[DocumentFormat, ...] = (
    DocumentFormat(
        {
            **_usual("md markdown mdx", "text/markdown"),
            "rst": "text/x-rst",
            **_usual("mdown mkd qmd rmd txt text log adoc asciidoc org tex wiki textile srt vtt"),
        },
        language="",
    ),
    DocumentFormat(_usual("html htm xhtml"), "html:read_html"),
    DocumentFormat(_usual("csv tsv"), "xlsx_csv:read_csv", language="text"),
    DocumentFormat({"ipynb": "application/x-ipynb+json"}, "notebook:read_notebook"),
    DocumentFormat(_usual("pdf"), "pdf:read_pdf", "bytes", signature=b"%PDF-"),
    DocumentFormat(
        {"epub": "application/epub+zip"}, "epub:read_epub", "archive", part="META-INF/container.xml"
    ),
    DocumentFormat(
        {"docx": f"{_OFFICE}wordprocessingml.document"}, "docx:read_docx", "archive", part="word/"
    ),
    DocumentFormat(
        {"pptx": f"{_OFFICE}presentationml.presentation"}, "pptx:read_pptx", "archive", part="ppt/"
    ),
    DocumentFormat(
        {"xlsx": f"{_OFFICE}spreadsheetml.sheet"}, "xlsx_csv:read_xlsx", "archive", part="xl/"
    ),
)


def format_of(extension: str) -> DocumentFormat | None:
    """Return the format with this file name extension (lower case, without a dot)."""
    return next((known for known in FORMATS if extension in known.types), None)


def is_binary_document(extension: str) -> bool:
    """Return whether files with this extension have a reader, although they aren't text."""
    known = format_of(extension)
    return known is not None and known.takes != "text"


def mime_type(extension: str) -> str:
    """Return the MIME type of a file name extension."""
    known = format_of(extension)
    own = known.types[extension] if known is not None else ""
    return own or _TYPES.guess_type(f"x.{extension}")[0] or "text/plain"
