"""Markdown form for editing a memory, and its parser. Pure.

Fields that weren't changed in the form stay as they are in the memory, even where a form can't
express them: a tag with a comma stays one tag.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields, replace

from cortex.base.errors import InputError
from cortex.base.types import Memory

HEAD = (
    "<!-- Change what you like, save, and close the editor. Saved without a change, "
    "everything stays as it is. -->"
)
SECTIONS = ("Facts", "Files", "Text")

_SECTION = re.compile(rf"##\s+({'|'.join(SECTIONS)})\s*", re.IGNORECASE)
_FIELD = re.compile(r"(Subtitle|Kind|Project|Tags)\s*:(.*)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Form:
    """Parsed fields of a form."""

    title: str
    subtitle: str
    kind: str
    project: str
    concepts: tuple[str, ...]
    facts: tuple[str, ...]
    files: tuple[str, ...]
    text: str


def form_of(memory: Memory) -> str:
    """Render the form of a memory."""
    lines = [
        HEAD,
        "",
        f"# {_one_line(memory.title)}",
        "",
        f"Subtitle: {_one_line(memory.subtitle)}",
        f"Kind: {_one_line(memory.kind)}",
        f"Project: {_one_line(memory.project)}",
        f"Tags: {', '.join(map(_one_line, memory.concepts))}",
    ]
    for name, entries in (("Facts", memory.facts), ("Files", memory.files)):
        lines += ["", f"## {name}", "", *(f"- {_indented(entry)}" for entry in entries)]
    return "\n".join(
        [*(line.rstrip() for line in lines), "", "## Text", "", memory.text.strip("\n"), ""]
    )


def filled(memory: Memory, text: str) -> Memory:
    """Apply a filled-in form to a memory.

    Raises: InputError ARGUMENT_INVALID for a text that is no form any more.
    """
    before, now = _parse(form_of(memory)), _parse(text)
    changed = {
        field.name: getattr(now, field.name)
        for field in fields(Form)
        if getattr(now, field.name) != getattr(before, field.name)
    }
    return replace(memory, **changed)


def _parse(text: str) -> Form:
    head, sections = _sections(text.removeprefix("\ufeff").replace("\r\n", "\n"))
    titles = [line[2:].strip() for line in head if line.startswith("# ")]
    if len(titles) != 1 or not titles[0]:
        raise InputError(
            "ARGUMENT_INVALID", "the form has no title: a line that begins with `# `, and only one"
        )
    values = {
        field[1].lower(): field[2].strip()
        for line in head
        if (field := _FIELD.fullmatch(line.strip()))
    }
    unknown_lines = [
        line
        for line in head
        if line.strip() and not line.startswith("# ") and not _FIELD.fullmatch(line.strip())
    ]
    if unknown_lines:
        raise InputError(
            "ARGUMENT_INVALID",
            f"{unknown_lines[0].strip()[:100]!r} in the form belongs to nothing: put it below "
            "## Text",
        )
    return Form(
        titles[0],
        values.get("subtitle", ""),
        values.get("kind", ""),
        values.get("project", ""),
        tuple(
            dict.fromkeys(
                tag for part in values.get("tags", "").split(",") if (tag := part.strip())
            )
        ),
        _entries("Facts", sections),
        _entries("Files", sections),
        "\n".join(sections.get("Text", [])).strip("\n"),
    )


def _sections(text: str) -> tuple[list[str], dict[str, list[str]]]:
    """Split a form into the lines before the first section, without comments, and the sections.

    Everything below Text belongs to it.
    """
    head: list[str] = []
    sections: dict[str, list[str]] = {}
    target = head
    for line in text.split("\n"):
        section = _SECTION.fullmatch(line) if "Text" not in sections else None
        if section:
            target = sections.setdefault(section[1].capitalize(), [])
        else:
            target.append(line)
    return [line for line in head if not line.strip().startswith("<!--")], sections


def _entries(name: str, sections: dict[str, list[str]]) -> tuple[str, ...]:
    """Entries of a list; an indented line continues the entry before it."""
    entries: list[str] = []
    for line in sections.get(name, []):
        if line.startswith(("- ", "* ")):
            entries.append(line[2:].strip())
        elif line.startswith("  ") and entries:
            entries[-1] += "\n" + line[2:].rstrip()
        elif line.strip() and line.strip() not in ("-", "*"):
            entries.append(line.strip())
    return tuple(entry for entry in map(str.strip, entries) if entry)


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _indented(text: str) -> str:
    return text.strip().replace("\r", "").replace("\n", "\n  ")
