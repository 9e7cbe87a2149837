"""Entries of the chunk files for a document or a source file.

Ids, titles and metadata are those that readers of these files expect: one entry per file and kind
for code, one per section for documents, with `-c1`, `-c2` ... after the id where a text exceeds the
chunk size. Pure: knows no store, no vector and no file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from cortex.base.text import TOKEN_CHARACTERS
from cortex.base.types import Chunk, Doc, Entry, Symbol
from cortex.engine import chunkers
from cortex.families.chunkfiles import tags
from cortex.families.chunkfiles.outlines import Outline

SYMBOLS, DEFINITIONS, DATA, DOCUMENTATION = "symbols", "definitions", "data", "documentation"
DOCUMENTS = frozenset({"markdown", "restructuredtext", "asciidoc", "text", "latex"})
CONFIGURATION = frozenset({"yaml", "json", "toml", "ini", "hcl", "go-module", "dockerfile"})
# These hold only definitions, and there is no grammar for them here.
SCHEMAS = frozenset({"protobuf", "graphql", "prisma"})
# A larger file is a fixture or a lock file, not a configuration.
MAX_CONFIGURATION_CHARACTERS = 200_000


@dataclass(frozen=True, slots=True)
class Sizes:
    """Chunk sizes in tokens, and the kinds of code chunks to make."""

    document: int = 400
    document_overlap: int = 50
    # 0 means no limit.
    code: int = 0
    code_overlap: int = 0
    kinds: tuple[str, ...] = (SYMBOLS, DEFINITIONS, DATA)


def entries_of(doc: Doc, text: str, symbols: Sequence[Symbol], sizes: Sizes) -> Iterator[Entry]:
    """Make the entries of one file, without their times; none if it has none of these kinds."""
    if doc.language in DOCUMENTS:
        yield from _documentation(doc, text, sizes)
    elif doc.language in CONFIGURATION:
        if (
            DATA in sizes.kinds
            and len(text) <= MAX_CONFIGURATION_CHARACTERS
            and doc.role != "locale"
        ):
            yield from _file_entries(doc, DATA, text, sizes)
    elif doc.language in SCHEMAS:
        if DEFINITIONS in sizes.kinds:
            yield from _file_entries(doc, DEFINITIONS, text, sizes)
    else:
        outline = Outline(text, doc.language, symbols)
        makers = {SYMBOLS: outline.names, DEFINITIONS: outline.declarations, DATA: outline.values}
        for kind, make in makers.items():
            if kind in sizes.kinds:
                extra = {"package": outline.package} if kind == SYMBOLS else {}
                yield from _code_entries(doc, kind, make(), sizes, extra)


def _documentation(doc: Doc, text: str, sizes: Sizes) -> Iterator[Entry]:
    cut = chunkers.cut(text, doc.path, doc.language, sizes.document, sizes.document_overlap)
    language = tags.spoken(doc.language)
    common = tags.join(
        ("documentation", language), tags.of_path(doc.path), tags.of_front_matter(text)
    )
    document_tags, _ = tags.hashtags(text)
    for section, part, chunk in _sections(cut.chunks):
        body = text[chunk.start : chunk.end]
        tagged = tags.join(common, document_tags, tags.hashtags(body)[1])
        metadata: dict[str, str | int] = {
            "file_path": doc.path,
            "source": language,
            "section_index": section,
            "chunk_index": part,
            "start_line": chunk.start_line,
            "end_line": chunk.end_line,
        }
        title = f"Documentation: {doc.path} (section {section})"
        name = _numbered(f"doc-{doc.path}-s{section}", part)
        yield Entry(
            name, DOCUMENTATION, title, body, tagged, _with_tags(metadata, tagged), None, None
        )


def _sections(chunks: Sequence[Chunk]) -> Iterator[tuple[int, int, Chunk]]:
    """Yield chunks with the number of their section and of their part in it."""
    section, part = -1, 0
    before: Chunk | None = None
    for chunk in chunks:
        goes_on = (
            before is not None
            and before.kind == chunk.kind == "section"
            and before.qualified == chunk.qualified
        )
        section, part = (section, part + 1) if goes_on else (section + 1, 0)
        before = chunk
        yield section, part, chunk


def _file_entries(doc: Doc, kind: str, text: str, sizes: Sizes) -> Iterator[Entry]:
    """Make entries of one kind from a whole file, split by lines."""
    size = sizes.code or sizes.document
    for part, chunk in enumerate(
        chunkers.cut(text, doc.path, "text", size, sizes.code_overlap).chunks
    ):
        lines = {"start_line": chunk.start_line, "end_line": chunk.end_line}
        yield _code_entry(doc, kind, text[chunk.start : chunk.end], part, lines)


def _code_entries(
    doc: Doc, kind: str, blocks: list[str], sizes: Sizes, extra: dict[str, str]
) -> Iterator[Entry]:
    for part, text in enumerate(
        _join_blocks(blocks, sizes.code * TOKEN_CHARACTERS, sizes.code_overlap * TOKEN_CHARACTERS)
    ):
        yield _code_entry(doc, kind, text, part, extra)


def _code_entry(
    doc: Doc, kind: str, text: str, part: int, extra: dict[str, str] | dict[str, int]
) -> Entry:
    language = tags.spoken(doc.language)
    tagged = tags.join(("code", language, kind), tags.of_path(doc.path))
    metadata: dict[str, str | int] = {
        "file_path": doc.path,
        "language": language,
        "source": "code",
        **extra,
    }
    title = f"{kind.capitalize()}: {doc.path}"
    name = _numbered(f"code-{kind}-{doc.path}", part)
    return Entry(name, kind, title, text, tagged, _with_tags(metadata, tagged), None, None)


def _join_blocks(blocks: list[str], limit: int, overlap: int) -> Iterator[str]:
    """Join blocks up to `limit` characters (0: no limit), overlapping by up to `overlap`."""
    kept: list[str] = []
    for block in blocks:
        if limit and kept and sum(map(len, kept)) + len(block) > limit:
            yield "\n\n".join(kept)
            while kept and sum(map(len, kept)) > overlap:
                kept.pop(0)
        kept.append(block)
    if kept:
        yield "\n\n".join(kept)


def _numbered(name: str, part: int) -> str:
    return f"{name}-c{part}" if part else name


def _with_tags(metadata: dict[str, str | int], tagged: Sequence[str]) -> dict[str, object]:
    numbered = {f"tag_{position}": tag for position, tag in enumerate(tagged)}
    return dict(sorted({**metadata, **numbered}.items()))
