"""A document or a file of code becomes entries of the chunk files: what each is called, what it
says, what is known of it.

Ids, titles and metadata are those that readers of these files know: one entry per file and kind for
code, one per section for documents, `-c1`, `-c2` ... behind the id where a text is longer than a
chunk may be. Pure: knows no store, no vector and no file.
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
# Nothing but definitions, and no grammar here
SCHEMAS = frozenset({"protobuf", "graphql", "prisma"})
# More is a fixture or a lock file, not somebody's configuration
MAX_CONFIGURATION_CHARACTERS = 200_000


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much goes into a chunk, in tokens, and which kinds of code chunks are wanted."""

    document: int = 400
    document_overlap: int = 50
    code: int = 0  # no limit
    code_overlap: int = 0
    kinds: tuple[str, ...] = (SYMBOLS, DEFINITIONS, DATA)


def entries_of(doc: Doc, text: str, symbols: Sequence[Symbol], sizes: Sizes) -> Iterator[Entry]:
    """The entries of one file, without their times; none where it holds nothing of these kinds."""
    if doc.language in DOCUMENTS:
        yield from _documentation(doc, text, sizes)
    elif doc.language in CONFIGURATION:
        if (
            DATA in sizes.kinds
            and len(text) <= MAX_CONFIGURATION_CHARACTERS
            and doc.role != "locale"
        ):
            yield from _whole(doc, DATA, text, sizes)
    elif doc.language in SCHEMAS:
        if DEFINITIONS in sizes.kinds:
            yield from _whole(doc, DEFINITIONS, text, sizes)
    else:
        outline = Outline(text, doc.language, symbols)
        makers = {SYMBOLS: outline.names, DEFINITIONS: outline.declarations, DATA: outline.values}
        for kind, make in makers.items():
            if kind in sizes.kinds:
                more = {"package": outline.package} if kind == SYMBOLS else {}
                yield from _code(doc, kind, make(), sizes, more)


def _documentation(doc: Doc, text: str, sizes: Sizes) -> Iterator[Entry]:
    cut = chunkers.cut(text, doc.path, doc.language, sizes.document, sizes.document_overlap)
    spoken = tags.spoken(doc.language)
    common = tags.join(
        ("documentation", spoken), tags.of_path(doc.path), tags.of_front_matter(text)
    )
    alone, _ = tags.hashtags(text)
    for section, part, chunk in _sections(cut.chunks):
        body = text[chunk.start : chunk.end]
        tagged = tags.join(common, alone, tags.hashtags(body)[1])
        metadata: dict[str, str | int] = {
            "file_path": doc.path,
            "source": spoken,
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
    """Chunks with the number of their section and of their part of it."""
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


def _whole(doc: Doc, kind: str, text: str, sizes: Sizes) -> Iterator[Entry]:
    """A file that is of one kind altogether, cut by lines."""
    size = sizes.code or sizes.document
    for part, chunk in enumerate(
        chunkers.cut(text, doc.path, "text", size, sizes.code_overlap).chunks
    ):
        lines = {"start_line": chunk.start_line, "end_line": chunk.end_line}
        yield _code_entry(doc, kind, text[chunk.start : chunk.end], part, lines)


def _code(
    doc: Doc, kind: str, blocks: list[str], sizes: Sizes, more: dict[str, str]
) -> Iterator[Entry]:
    for part, text in enumerate(
        _joined(blocks, sizes.code * TOKEN_CHARACTERS, sizes.code_overlap * TOKEN_CHARACTERS)
    ):
        yield _code_entry(doc, kind, text, part, more)


def _code_entry(
    doc: Doc, kind: str, text: str, part: int, more: dict[str, str] | dict[str, int]
) -> Entry:
    spoken = tags.spoken(doc.language)
    tagged = tags.join(("code", spoken, kind), tags.of_path(doc.path))
    metadata: dict[str, str | int] = {
        "file_path": doc.path,
        "language": spoken,
        "source": "code",
        **more,
    }
    title = f"{kind.capitalize()}: {doc.path}"
    name = _numbered(f"code-{kind}-{doc.path}", part)
    return Entry(name, kind, title, text, tagged, _with_tags(metadata, tagged), None, None)


def _joined(blocks: list[str], limit: int, overlap: int) -> Iterator[str]:
    """Blocks put together up to `limit` characters, 0 is no limit; each text repeats up to
    `overlap` of the one before.
    """
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
    numbered = {f"tag_{number}": tag for number, tag in enumerate(tagged)}
    return dict(sorted({**metadata, **numbered}.items()))
