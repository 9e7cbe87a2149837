"""Edit JSON as text: find the place, splice, and leave every other character as it was.

It reads JSON with comments and trailing commas, a byte order mark, any line ends, and an empty
file. Of duplicate keys the last one counts, as in every client.

Road not taken: a parser that keeps comments and writes the file again; none is known that keeps
everything, and the layout of the file isn't ours.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

# Path to a value, outermost key first.
Keys = tuple[str, ...]

# The patterns are unambiguous, so invalid JSON takes no longer to read than valid JSON.
_SPACE = re.compile(r"(?:[ \t\r\n\ufeff]|//[^\r\n]*|/\*.*?\*/)*", re.DOTALL)
_STRING = re.compile(r'"[^"\\\x00-\x1f]*(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*)*"')
_SCALAR = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|true|false|null")
_REST_OF_LINE = re.compile(r"(?:[ \t]+|/\*[^\r\n]*?\*/)*(?://[^\r\n]*)?")
_BLANK_REST = re.compile(r"[ \t]*(?=\r?\n)")
_INDENT = re.compile(r"^([ \t]+)\S", re.MULTILINE)
_CLOSING = {"{": "}", "[": "]"}


class Broken(ValueError):
    """Invalid JSON, with its position."""

    def __init__(self, text: str, position: int, reason: str) -> None:
        self.line = text.count("\n", 0, position) + 1
        self.column = len(text[text.rfind("\n", 0, position) + 1 : position].lstrip("\ufeff")) + 1
        self.reason = reason
        super().__init__(f"line {self.line}, column {self.column}: {reason}")


@dataclass(slots=True)
class JsoncPart:
    """A value in a text: its position and its children."""

    start: int
    end: int = 0
    # "{" or "["; "" for a scalar.
    opening: str = ""
    # Members of an object or elements of an array.
    parts: list[JsoncPart] = field(default_factory=list)
    # Key of a member.
    key: str = ""
    # Start of the key of a member, or of the element itself.
    key_start: int = 0
    # Position of the comma after it, -1 for none.
    comma: int = -1


# The same text is read several times, and that of Claude Code may have many megabytes.
@lru_cache(maxsize=2)
def read(text: str) -> JsoncPart | None:
    """Parse the outermost value of a text; None for only white space and comments.

    Raises: Broken.
    """
    position = _skip(text, 0)
    if position == len(text):
        return None
    top, position = _value(text, position, "", position)
    open_parts = [top] if top.opening else []
    while open_parts:
        position = _step(text, position, open_parts)
    position = _skip(text, position)
    if position != len(text):
        raise Broken(text, position, "something follows the end of the document")
    return top


def value_of(text: str, part: JsoncPart) -> object:
    """Return a part as a Python value."""
    match part.opening:
        case "{":
            return {member.key: value_of(text, member) for member in part.parts}
        case "[":
            return [value_of(text, element) for element in part.parts]
        case _:
            return json.loads(text[part.start : part.end])


def find(top: JsoncPart | None, path: Keys) -> JsoncPart | None:
    """Return the value under a path of keys."""
    part = top
    for key in path:
        if part is None or part.opening != "{":
            return None
        part = next((member for member in reversed(part.parts) if member.key == key), None)
    return part


def put(text: str, path: Keys, value: object) -> tuple[str, tuple[Keys, ...]]:
    """Return the text with `value` under the path, and the paths of the objects created for it.

    Raises: Broken, also where a value on the path isn't an object.
    """
    top = read(text)
    if top is None:
        return _append_document(text, _nest(path, value)), tuple(
            path[:depth] for depth in range(1, len(path))
        )
    present = find(top, path)
    if present is not None:
        return _replace(text, present, value), ()
    depth = next(
        depth for depth in range(len(path) - 1, -1, -1) if find(top, path[:depth]) is not None
    )
    around = find(top, path[:depth])
    assert around is not None
    if around.opening != "{":
        name = ".".join(path[:depth]) or "the document"
        raise Broken(text, around.start, f"{name} is not an object")
    made = tuple(path[:inner] for inner in range(depth + 1, len(path)))
    return _insert(text, around, path[depth], _nest(path[depth + 1 :], value)), made


def append(text: str, path: Keys, value: object) -> tuple[str, tuple[Keys, ...]]:
    """Append `value` to the array under the path, which is created if it is missing."""
    array = find(read(text), path)
    if array is None:
        changed, made = put(text, path, [value])
        return changed, (*made, path)
    if array.opening != "[":
        raise Broken(text, array.start, f"{'.'.join(path)} is not an array")
    return _insert(text, array, None, value), ()


def remove(text: str, path: Keys, index: int | None = None) -> str:
    """Remove the member under the path, or one element of the array there; comments stay."""
    top = read(text)
    around = find(top, path if index is not None else path[:-1])
    if around is None:
        return text
    if index is None:
        index = next(
            (at for at in reversed(range(len(around.parts))) if around.parts[at].key == path[-1]),
            None,
        )
    return text if index is None else _cut(text, around, index)


def _skip(text: str, position: int) -> int:
    match = _SPACE.match(text, position)
    assert match is not None
    if text.startswith("/*", match.end()):
        raise Broken(text, match.end(), "a comment without an end")
    return match.end()


def _value(text: str, position: int, key: str, key_start: int) -> tuple[JsoncPart, int]:
    """Read a scalar, or only the opening of an object or array."""
    part = JsoncPart(position, key=key, key_start=key_start)
    character = text[position : position + 1]
    if character and character in "{[":
        part.opening = character
        return part, position + 1
    match = (_STRING if character == '"' else _SCALAR).match(text, position)
    if match is None:
        reason = "an unfinished string" if character == '"' else "a value is missing here"
        raise Broken(text, position, reason)
    part.end = match.end()
    return part, part.end


def _step(text: str, position: int, open_parts: list[JsoncPart]) -> int:
    """Read one more part of the innermost open object or array, or its end.

    A loop instead of recursion, since files may nest deeply.
    """
    around = open_parts[-1]
    position = _skip(text, position)
    last = around.parts[-1] if around.parts else None
    character = text[position : position + 1]
    if character == _CLOSING[around.opening]:
        around.end = position + 1
        open_parts.pop()
        return around.end
    if character == "," and last is not None and last.comma < 0:
        last.comma = position
        return position + 1
    if last is not None and last.comma < 0:
        raise Broken(text, position, f"',' or '{_CLOSING[around.opening]}' is missing here")
    key, key_start = "", position
    if around.opening == "{":
        key, position = _key(text, position)
    part, position = _value(text, position, key, key_start)
    around.parts.append(part)
    if part.opening:
        open_parts.append(part)
    return position


def _key(text: str, position: int) -> tuple[str, int]:
    match = _STRING.match(text, position)
    if match is None:
        raise Broken(text, position, 'a key in quotes, or "}", is missing here')
    colon = _skip(text, match.end())
    if text[colon : colon + 1] != ":":
        raise Broken(text, colon, "':' is missing here")
    return json.loads(match[0]), _skip(text, colon + 1)


def _nest(path: Keys, value: object) -> object:
    for key in reversed(path):
        value = {key: value}
    return value


def _append_document(text: str, value: object) -> str:
    """Append a document to a text of white space and comments."""
    body = _render(value, "  ", "", _line_end(text))
    if not text.strip("\ufeff \t\r\n"):
        return ("\ufeff" if text.startswith("\ufeff") else "") + body + _line_end(text)
    return text.rstrip(" \t\r\n") + _line_end(text) + body + _line_end(text)


def _replace(text: str, part: JsoncPart, value: object) -> str:
    unit, indent = _unit(text), _indent_at(text, part.key_start)
    flat = "\n" not in text[part.start : part.end] and part.opening != ""
    return (
        text[: part.start]
        + _render(value, unit, indent, _line_end(text), flat=flat)
        + text[part.end :]
    )


def _insert(text: str, around: JsoncPart, key: str | None, value: object) -> str:
    """Insert a last member or element into an object or array, in the layout of the others."""
    inner = text[around.start + 1 : around.end - 1]
    end, unit = _line_end(text), _unit(text)
    flat = "\n" not in inner and bool(around.parts)
    indent = _indent_at(text, around.start if not around.parts else around.parts[0].key_start)
    if not around.parts or not _begins_line(text, around.parts[0].key_start):
        indent = _indent_at(text, around.start) + unit
    name = "" if key is None else json.dumps(key, ensure_ascii=False) + ": "
    rendered = name + _render(value, unit, indent, end, flat=flat)
    if not around.parts:
        if not inner.strip():
            return (
                f"{text[: around.start + 1]}{end}{indent}{rendered}{end}"
                f"{_indent_at(text, around.start)}{text[around.end - 1 :]}"
            )
        place = around.start + 1 + len(inner.rstrip())
        closing = (
            "" if "\n" in text[place : around.end - 1] else end + _indent_at(text, around.start)
        )
        return f"{text[:place]}{end}{indent}{rendered}{closing}{text[place:]}"
    last = around.parts[-1]
    # A trailing comma is kept.
    style = "," if last.comma >= 0 else ""
    if flat:
        place = (last.comma + 1) if style else last.end
        return f"{text[:place]}{'' if style else ','} {rendered}{style}{text[place:]}"
    comma = last.comma + 1 if style else last.end
    rest = _REST_OF_LINE.match(text, comma)
    place = rest.end() if rest and rest[0].strip() else comma
    closing = "" if "\n" in text[place : around.end - 1] else end + _indent_at(text, around.start)
    return (
        f"{text[:comma]}{'' if style else ','}{text[comma:place]}{end}{indent}"
        f"{rendered}{style}{closing}{text[place:]}"
    )


def _cut(text: str, around: JsoncPart, index: int) -> str:
    part = around.parts[index]
    start, end = part.key_start, part.end
    if part.comma >= 0:
        between = text[part.end : part.comma]
        end = part.comma + 1
        # A comment between the value and its comma.
        kept = between.strip()
        kept += _line_end(text) if "//" in kept else ""
    else:
        kept = ""
    rest = _BLANK_REST.match(text, end)
    # The part has its lines to itself, so they are removed.
    if _begins_line(text, start) and rest is not None and not kept:
        start = text.rfind("\n", 0, start)
        start = max(start - (text[start - 1 : start] == "\r"), around.start + 1)
        end = rest.end()
    elif not _begins_line(text, start) and index > 0:
        start = len(text[:start].rstrip(" \t"))
    elif index + 1 < len(around.parts):
        end += len(text[end:]) - len(text[end:].lstrip(" \t"))
    before, after = text[:start], kept + text[end:]
    # The last part had no trailing comma, so the new last one gets none.
    if index > 0 and part.comma < 0:
        comma = around.parts[index - 1].comma
        before = before[:comma] + before[comma + 1 :]
    changed = before + after
    if len(around.parts) == 1:
        return _close_up(changed, around.start)
    return changed


def _close_up(text: str, opening: int) -> str:
    """Collapse an empty object or array to `{}` or `[]`; comments inside stay."""
    end = opening + 1 + len(text[opening + 1 :]) - len(text[opening + 1 :].lstrip())
    return text[: opening + 1] + text[end:] if text[end : end + 1] in ("}", "]") else text


def _render(value: object, unit: str, indent: str, line_end: str, *, flat: bool = False) -> str:
    """Render a value: objects on lines of their own, lists of scalars on one line."""
    if not isinstance(value, Mapping | list) or not value:
        return json.dumps(value, ensure_ascii=False)
    if flat or (
        isinstance(value, list) and not any(isinstance(item, Mapping | list) for item in value)
    ):
        return json.dumps(value, ensure_ascii=False)
    inner = indent + unit
    if isinstance(value, Mapping):
        rows = [
            f"{json.dumps(str(key), ensure_ascii=False)}: {_render(item, unit, inner, line_end)}"
            for key, item in value.items()
        ]
        return _enclose("{", rows, "}", indent, inner, line_end)
    return _enclose(
        "[", [_render(item, unit, inner, line_end) for item in value], "]", indent, inner, line_end
    )


def _enclose(
    opening: str, rows: Sequence[str], closing: str, indent: str, inner: str, line_end: str
) -> str:
    return (
        opening
        + line_end
        + ("," + line_end).join(inner + row for row in rows)
        + line_end
        + indent
        + closing
    )


def _line_end(text: str) -> str:
    first = text.find("\n")
    return "\r\n" if first > 0 and text[first - 1] == "\r" else "\n"


def _unit(text: str) -> str:
    match = _INDENT.search(text)
    if match is None:
        return "  "
    return "\t" if match[1].startswith("\t") else match[1]


def _indent_at(text: str, position: int) -> str:
    """Return the white space at the beginning of the line of a position."""
    line = text.rfind("\n", 0, position) + 1
    return text[line : len(text) - len(text[line:].lstrip(" \t"))] if line <= position else ""


def _begins_line(text: str, position: int) -> bool:
    line = text.rfind("\n", 0, position) + 1
    return line > 0 and not text[line:position].strip(" \t")
