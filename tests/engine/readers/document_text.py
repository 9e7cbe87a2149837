"""The text of a document that is read as Markdown."""

from cortex.engine.readers import DocumentText, read_document


def text_of(raw: bytes, path: str) -> str:
    document = read_document(raw, path)
    assert isinstance(document, DocumentText), document
    return document.text
