"""Chunkers, text to chunks and symbols: code by syntax tree, Markdown by headings, or lines.

Pure: no I/O.

`VERSION` is part of a blob's identity: it is incremented whenever the same text would be cut
differently.
"""

from __future__ import annotations

from cortex.base.types import Cut
from cortex.engine.chunkers.languages import HEAD_CHARACTERS, LANGUAGES, language_of
from cortex.engine.chunkers.lines import cut_lines
from cortex.engine.chunkers.markdown import cut_markdown
from cortex.engine.chunkers.rst import is_sectioned, rst_headings

__all__ = ["HEAD_CHARACTERS", "LANGUAGES", "VERSION", "cut", "language_of"]

VERSION = 4


def cut(
    text: str,
    path: str,
    language: str,
    target_tokens: int = 250,
    overlap_tokens: int = 0,
    document: bool = False,
) -> Cut:
    """Cut `text` into chunks of about `target_tokens`; every non-blank line is in one.

    `overlap_tokens` applies to cutting by lines only. In a `document` a form feed ends a page, and
    no chunk of prose spans two pages; reStructuredText, and plain text with such headings, is cut
    by its headings.
    """
    # The grammars (and the parser library) are imported only by a process that cuts code.
    from cortex.engine.chunkers.grammars import has_grammar

    target_tokens = max(target_tokens, 16)
    if language == "markdown":
        chunks, symbols = cut_markdown(text, target_tokens, document)
        return Cut(language, text, chunks, symbols)
    if document and (language == "restructuredtext" or (language == "text" and is_sectioned(text))):
        chunks, symbols = cut_markdown(text, target_tokens, document, rst_headings)
        return Cut(language, text, chunks, symbols)
    if has_grammar(language):
        from cortex.engine.chunkers.code import cut_code

        chunks, symbols = cut_code(text, language, target_tokens)
        return Cut(language, text, chunks, symbols)
    return Cut(language, text, cut_lines(text, target_tokens, overlap_tokens, document), ())
