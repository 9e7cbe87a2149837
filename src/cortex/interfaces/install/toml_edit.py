"""Edit TOML as text: add, change or remove one table and keep every other character.

It reads just enough to know where tables and assignments begin and end (strings over several lines,
brackets, comments); the standard library parses the text before and after.

Road not taken: tomlkit, a dependency for one table.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from cortex.interfaces.install.jsonc_edit import Broken, Keys

_STRINGS = re.compile(
    r'"""(?:[^\\]|\\.)*?"{3,5}(?!")|\'\'\'.*?\'{3,5}(?!\')|"(?:[^"\\\n]|\\.)*"|\'[^\'\n]*\'',
    re.DOTALL,
)
_KEY = re.compile(r"\s*(?:([A-Za-z0-9_-]+)|\"((?:[^\"\\\n]|\\.)*)\"|'([^'\n]*)')\s*")
_PLACE = re.compile(r"\(at line (\d+), column (\d+)\)")


@dataclass(frozen=True, slots=True)
class TomlStatement:
    """A table heading or an assignment, with its position in the text."""

    start: int
    # After the line end.
    end: int
    heading: bool
    keys: Keys
    # Start of the value of an assignment.
    value: int = 0


def parse(text: str) -> Mapping[str, object]:
    """Parse a text.

    Raises: Broken.
    """
    try:
        return tomllib.loads(text.removeprefix("\ufeff"))
    except tomllib.TOMLDecodeError as error:
        place = _PLACE.search(str(error))
        lines = text.split("\n")
        line, column = (int(place[1]), int(place[2])) if place else (len(lines), 1)
        position = sum(len(row) + 1 for row in lines[: line - 1]) + column - 1
        raise Broken(text, min(position, len(text)), str(error).partition(" (at ")[0]) from None


def put_table(text: str, path: Keys, values: Mapping[str, object]) -> str:
    """Return the text with these values in the table at `path`; its other values stay.

    Raises: Broken, also where the table can't be written on lines of its own.
    """
    before = parse(text)
    end = "\r\n" if "\r\n" in text else "\n"
    heading = next(
        (
            statement
            for statement in _statements(text)
            if statement.heading and statement.keys == path
        ),
        None,
    )
    if heading is None:
        gap = "" if not text.strip("\ufeff") else end if text.endswith("\n") else end * 2
        lines = [
            f"[{'.'.join(map(_quote_key, path))}]",
            *(f"{_quote_key(key)} = {_write(value)}" for key, value in values.items()),
        ]
        changed = text + gap + end.join(lines) + end
    else:
        changed = _change_table(text, heading, values, end)
    _check(before, changed, path, values)
    return changed


def remove_table(text: str, path: Keys) -> str:
    """Return the text without the table at `path`, its subtables and the blank line before."""
    parse(text)
    cuts: list[tuple[int, int]] = []
    table: Keys = ()
    for statement in _statements(text):
        table = statement.keys if statement.heading else table
        whole = statement.keys if statement.heading else (*table, *statement.keys)
        inside = whole[: len(path)] == path
        if inside and cuts and not text[cuts[-1][1] : statement.start].strip():
            cuts[-1] = (cuts[-1][0], statement.end)
        elif inside:
            cuts.append((statement.start, statement.end))
    for start, stop in reversed(cuts):
        before = text[:start]
        # Not `$`, which also matches before a final line end and would remove the one above.
        # A blank line that opens the file is not ours either: we write one only below other text.
        if re.search(r"\n[ \t]*\r?\n\Z", before):
            before = re.sub(r"[ \t]*\r?\n\Z", "", before)
        text = before + text[stop:]
    return text


def _change_table(text: str, heading: TomlStatement, values: Mapping[str, object], end: str) -> str:
    """Set values in an existing table."""
    assignments: dict[str, TomlStatement] = {}
    inside = False
    for statement in _statements(text):
        if statement.heading:
            inside = statement.start == heading.start
        elif inside and len(statement.keys) == 1:
            assignments[statement.keys[0]] = statement
    missing = [key for key in values if key not in assignments]
    edits = [
        (
            heading.end,
            heading.end,
            "".join(f"{_quote_key(key)} = {_write(values[key])}{end}" for key in missing),
        )
    ]
    for key, statement in assignments.items():
        if key in values:
            edits.append(
                (statement.value, _end_of_value(text, statement.value), _write(values[key]))
            )
    for start, stop, new in sorted(edits, reverse=True):
        gap = end if new and start == heading.end and not text[:start].endswith("\n") else ""
        text = text[:start] + gap + new + text[stop:]
    return text


def _check(
    before: Mapping[str, object], changed: str, path: Keys, values: Mapping[str, object]
) -> None:
    """Check that a change had exactly the intended effect.

    Raises: Broken.
    """
    try:
        after = parse(changed)
    except Broken as error:
        reason = f"[{'.'.join(path)}] can't be added as a table of its own ({error.reason})"
        raise Broken(changed, 0, reason) from None
    wanted = _with_values(before, path, values)
    if after != wanted:
        raise Broken(
            changed, 0, f"[{'.'.join(path)}] can't be changed in the way that it is written"
        )


def _with_values(content: object, path: Keys, values: Mapping[str, object]) -> dict[str, object]:
    base: dict[str, object] = dict(content) if isinstance(content, Mapping) else {}
    if not path:
        return base | dict(values)
    return base | {path[0]: _with_values(base.get(path[0]), path[1:], values)}


def _statements(text: str) -> Iterator[TomlStatement]:
    """Yield every heading and assignment of a valid TOML text."""
    position = 1 if text.startswith("\ufeff") else 0
    while position < len(text):
        line_end = text.find("\n", position)
        line_end = len(text) if line_end < 0 else line_end + 1
        start = position + len(text[position:line_end]) - len(text[position:line_end].lstrip())
        if start >= line_end or text[start] == "#":
            position = line_end
            continue
        if text[start] == "[":
            brackets = 2 if text.startswith("[[", start) else 1
            keys, _ = _keys(text, start + brackets)
            # An array of tables is no plain table: "[[a]]" never equals the path of "[a]".
            yield TomlStatement(position, line_end, True, (*keys, "[]") if brackets == 2 else keys)
            position = line_end
            continue
        keys, equals = _keys(text, start)
        value = equals + 1 + len(text[equals + 1 :]) - len(text[equals + 1 :].lstrip(" \t"))
        stop = text.find("\n", _end_of_value(text, value))
        stop = len(text) if stop < 0 else stop + 1
        yield TomlStatement(position, stop, False, keys, value)
        position = stop


def _keys(text: str, position: int) -> tuple[Keys, int]:
    """Parse a dotted key; return its parts and its end."""
    keys: list[str] = []
    while match := _KEY.match(text, position):
        bare, quoted, literal = match.groups()
        keys.append(
            bare
            if bare is not None
            else literal
            if literal is not None
            else tomllib.loads(f'key = "{quoted}"')["key"]
        )
        position = match.end()
        if text[position : position + 1] != ".":
            break
        position += 1
    return tuple(keys), position


def _end_of_value(text: str, position: int) -> int:
    """Return the end of a value.

    That is after its last bracket or its string, or before a comment or the line end.
    """
    depth = 0
    end = position
    while position < len(text):
        character = text[position]
        if character in "\"'":
            match = _STRINGS.match(text, position)
            position = end = match.end() if match else len(text)
            continue
        if character == "#":
            if depth == 0:
                break
            position = text.find("\n", position)
            if position < 0:
                break
            continue
        if character == "\n" and depth == 0:
            break
        depth += (character in "[{") - (character in "]}")
        position += 1
        if not character.isspace():
            end = position
    return end


def _quote_key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else json.dumps(key)


def _write(value: object) -> str:
    """Render a string or a list of strings: JSON and TOML share the syntax."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
