"""What a chunk is tagged with: what it is, its language, the folders that it lies in, and what a
document says of itself.

Front matter is read for its tags alone, in the shapes that people write them; it needs no parser of
YAML or TOML. Hashtags count outside of code. A line of nothing but hashtags speaks for the whole
document, any other for the chunk that it is in.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from cortex.engine.chunkers import LANGUAGES

MAX_TAGS = 24  # of one chunk
MAX_FRONT_LINES = 200
KINDS = frozenset({"code", "documentation", "symbols", "definitions", "data"})
_SPOKEN = {"tsx": "typescript", "ocaml-interface": "ocaml"}  # languages that people call otherwise
_TAG = re.compile(r"[^\W_][\w.+/-]{0,63}")
_HASHTAG = re.compile(r"(?:(?<=[\s,;])|^)#([^\W\d_][\w-]{1,49})(?=[\s,;.!?)]|$)")
_COLOUR = re.compile(r"(?:[0-9a-f]{3}|[0-9a-f]{6}|[0-9a-f]{8})")
_CODE_SPAN = re.compile(r"`[^`\n]*`")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_KEY = re.compile(r"tags\s*[:=]\s*(.*)$", re.IGNORECASE)
_ENTRY = re.compile(r"\s*-\s+(.*)$")


def spoken(language: str) -> str:
    """A language as a tag."""
    return _SPOKEN.get(language, language)


def join(*groups: Iterable[str]) -> tuple[str, ...]:
    """Tags in order, each once."""
    return tuple(dict.fromkeys(tag for group in groups for tag in group))[:MAX_TAGS]


def of_path(path: str) -> tuple[str, ...]:
    """The folders of a path; not those that are called like a kind of chunk or a language, which
    they would pretend to be.
    """
    folders = (part.lstrip(".").lower() for part in path.split("/")[:-1])
    return tuple(
        folder
        for folder in folders
        if _TAG.fullmatch(folder) and folder not in KINDS and folder not in LANGUAGES
    )


def of_front_matter(text: str) -> tuple[str, ...]:
    """The tags that the front matter of a document names."""
    lines = text.split("\n", MAX_FRONT_LINES)[:MAX_FRONT_LINES]
    mark = lines[0].rstrip()
    if mark not in ("---", "+++"):
        return ()
    end = next((row for row in range(1, len(lines)) if lines[row].rstrip() == mark), 0)
    for row in range(1, end):
        if found := _KEY.match(lines[row]):
            return tuple(_cleaned(_values(found[1].strip(), lines[row + 1 : end])))
    return ()


def _values(inline: str, following: list[str]) -> Iterator[str]:
    if inline and not inline.startswith("#"):
        rest = "" if not inline.startswith("[") or "]" in inline else " ".join(following)
        whole = f"{inline} {rest}".partition("]")[0].lstrip("[")
        yield from whole.split(",")
        return
    for line in following:
        found = _ENTRY.match(line)
        if found is None:
            return
        yield found[1]


def _cleaned(values: Iterable[str]) -> Iterator[str]:
    for value in values:
        tag = value.strip().strip("\"'").lstrip("#").strip().lower().replace(" ", "-")
        if _TAG.fullmatch(tag):
            yield tag


def hashtags(text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The hashtags on lines of their own, and all others."""
    alone: dict[str, None] = {}
    within: dict[str, None] = {}
    fence = ""
    for line in text.split("\n"):
        if found := _FENCE.match(line):
            fence = found[1] if not fence else "" if found[1].startswith(fence) else fence
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
