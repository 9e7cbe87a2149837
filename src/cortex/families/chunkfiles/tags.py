"""Tags of a chunk: its kind, language, folders, and a document's own tags.

Front matter is searched for its tags alone, in the shapes that people write them, which needs no
parser of YAML or TOML. Hashtags count outside of code. A line of nothing but hashtags applies to
the whole document, any other to the chunk that contains it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from cortex.engine.chunkers import LANGUAGES

# Per chunk.
MAX_TAGS = 24
MAX_FRONT_LINES = 200
KINDS = frozenset({"code", "documentation", "symbols", "definitions", "data"})
# Tags for languages that are commonly known by another name.
_COMMON_NAMES = {"tsx": "typescript", "ocaml-interface": "ocaml"}
_TAG = re.compile(r"[^\W_][\w.+/-]{0,63}")
_HASHTAG = re.compile(r"(?:(?<=[\s,;])|^)#([^\W\d_][\w-]{1,49})(?=[\s,;.!?)]|$)")
_COLOUR = re.compile(r"(?:[0-9a-f]{3}|[0-9a-f]{6}|[0-9a-f]{8})")
_CODE_SPAN = re.compile(r"`[^`\n]*`")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_KEY = re.compile(r"tags\s*[:=]\s*(.*)$", re.IGNORECASE)
_ENTRY = re.compile(r"\s*-\s+(.*)$")


def spoken(language: str) -> str:
    """Common name of a language, as a tag."""
    return _COMMON_NAMES.get(language, language)


def join(*groups: Iterable[str]) -> tuple[str, ...]:
    """Merge tags in order, without duplicates."""
    return tuple(dict.fromkeys(tag for group in groups for tag in group))[:MAX_TAGS]


def of_path(path: str) -> tuple[str, ...]:
    """Tags from the folders of a path.

    Folders named like a kind of chunk or a language are left out: their tags would be mistaken for
    that.
    """
    folders = (part.lstrip(".").lower() for part in path.split("/")[:-1])
    return tuple(
        folder
        for folder in folders
        if _TAG.fullmatch(folder) and folder not in KINDS and folder not in LANGUAGES
    )


def of_front_matter(text: str) -> tuple[str, ...]:
    """Tags from the front matter of a document."""
    lines = text.split("\n", MAX_FRONT_LINES)[:MAX_FRONT_LINES]
    mark = lines[0].rstrip()
    if mark not in ("---", "+++"):
        return ()
    end = next((row for row in range(1, len(lines)) if lines[row].rstrip() == mark), 0)
    for row in range(1, end):
        if match := _KEY.match(lines[row]):
            return tuple(_clean(_values(match[1].strip(), lines[row + 1 : end])))
    return ()


def _values(inline: str, following: list[str]) -> Iterator[str]:
    if inline and not inline.startswith("#"):
        rest = "" if not inline.startswith("[") or "]" in inline else " ".join(following)
        inline_list = f"{inline} {rest}".partition("]")[0].lstrip("[")
        yield from inline_list.split(",")
        return
    for line in following:
        match = _ENTRY.match(line)
        if match is None:
            return
        yield match[1]


def _clean(values: Iterable[str]) -> Iterator[str]:
    for value in values:
        tag = value.strip().strip("\"'").lstrip("#").strip().lower().replace(" ", "-")
        if _TAG.fullmatch(tag):
            yield tag


def hashtags(text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Extract the hashtags on lines of their own, and all others."""
    alone: dict[str, None] = {}
    within: dict[str, None] = {}
    fence = ""
    for line in text.split("\n"):
        if match := _FENCE.match(line):
            fence = match[1] if not fence else "" if match[1].startswith(fence) else fence
            continue
        if fence or "#" not in line or line.startswith(("    ", "\t")):
            continue
        plain = _CODE_SPAN.sub("", line)
        tags = [
            tag.lower() for tag in _HASHTAG.findall(plain) if not _COLOUR.fullmatch(tag.lower())
        ]
        only = not _HASHTAG.sub("", plain).strip(" \t\r,;")
        (alone if only else within).update(dict.fromkeys(tags))
    return tuple(alone), tuple(within)
