"""Markdown form for editing a memory, and its parser. Pure.

Fields that weren't changed in the form stay as they are in the memory, even where a form can't
express them: a tag with a comma stays one tag.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from cortex.base.errors import InputError
from cortex.base.types import Memory

HEAD = (
    "<!-- Change what you like, save, and close the editor. Saved without a change, "
    "everything stays as it is. -->"
)
# Fields of a memory in the form, by their labels: one line each, and lists below a heading.
LINES = {"Subtitle": "subtitle", "Kind": "kind", "Project": "project", "Tags": "concepts"}
LISTS = {"Facts": "facts", "Files": "files"}

_SECTION = re.compile(rf"##\s+({'|'.join((*LISTS, 'Text'))})\s*", re.IGNORECASE)
_FIELD = re.compile(rf"({'|'.join(LINES)})\s*:(.*)", re.IGNORECASE)


def form_of(memory: Memory) -> str:
    """Render the form of a memory."""
    lines = [HEAD, "", f"# {_one_line(memory.title)}", ""]
    for label, name in LINES.items():
        value = getattr(memory, name)
        entries = [value] if isinstance(value, str) else value
        lines.append(f"{label}: {', '.join(map(_one_line, entries))}")
    for label, name in LISTS.items():
        entries = getattr(memory, name)
        lines += ["", f"## {label}", "", *(f"- {_indented(entry)}" for entry in entries)]
    return "\n".join(
        [*(line.rstrip() for line in lines), "", "## Text", "", memory.text.strip("\n"), ""]
    )


def filled(memory: Memory, text: str) -> Memory:
    """Apply a filled-in form to a memory.

    Raises: InputError ARGUMENT_INVALID for a text that is no form any more.
    """
    before, now = _parse(form_of(memory)), _parse(text)
    return replace(memory, **{name: value for name, value in now.items() if value != before[name]})


def _parse(text: str) -> dict[str, Any]:
    """Parse the fields of a form, by their names in a memory."""
    head, sections = _sections(text.removeprefix("\ufeff").replace("\r\n", "\n"))
    titles = [line[2:].strip() for line in head if line.startswith("# ")]
    if len(titles) != 1 or not titles[0]:
        raise InputError(
            "ARGUMENT_INVALID", "the form has no title: a line that begins with `# `, and only one"
        )
    values: dict[str, Any] = dict.fromkeys(LINES.values(), "")
    for line in head:
        if field := _FIELD.fullmatch(line.strip()):
            values[LINES[field[1].capitalize()]] = field[2].strip()
        elif line.strip() and not line.startswith("# "):
            raise InputError(
                "ARGUMENT_INVALID",
                f"{line.strip()[:100]!r} in the form belongs to nothing: put it below ## Text",
            )
    tags = (tag.strip() for tag in values["concepts"].split(","))
    return {
        **values,
        "title": titles[0],
        "concepts": tuple(dict.fromkeys(tag for tag in tags if tag)),
        **{name: _entries(label, sections) for label, name in LISTS.items()},
        "text": "\n".join(sections.get("Text", [])).strip("\n"),
    }


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
