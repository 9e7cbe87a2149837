"""Records as rows of an answer: short names, ids, ages instead of times, no empty fields.

Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from cortex.base.record_model import (
    SENSITIVE,
    Artifact,
    Attachment,
    CodeLink,
    Comment,
    Evidence,
    Link,
    Record,
    Task,
    Term,
    Thread,
)
from cortex.base.record_spec import FieldSpec, fields_of, spec_of
from cortex.families.team.context_pack import PackEntry
from cortex.families.team.permalinks import permalink
from cortex.families.team.tools.render import Row, age_of, cut, without_empty

TITLE_CHARACTERS = 160
# Usual order of the names in a full row.
_ORDER = (
    "id", "link", "title", "state", "type", "priority", "blocked_reason", "notes", "thread", "task",
    "parent", "review_notes", "published", "target", "changes", "subcortex", "for", "by", "age",
    "tags", "warnings", "code", "attachments", "cites", "text",
)  # fmt: skip

# Maps the id of a subcortex to its slug.
Slug = Callable[[str], str]
_LINES = re.compile(r"(.+?):(\d{1,9})(?:-(\d{1,9}))?")


def code_link(text: str) -> CodeLink:
    """Parse a code link: path, path#symbol, path:3 or path:3-9."""
    path, _, symbol = text.strip().partition("#")
    lines = _LINES.fullmatch(path)
    if lines is None:
        return CodeLink(path, symbol=symbol)
    return CodeLink(lines[1], symbol=symbol, line_start=int(lines[2]), line_end=int(lines[3] or 0))


def code_text(link: CodeLink) -> str:
    """Format a code link, the inverse of `code_link`."""
    if link.symbol:
        return f"{link.path}#{link.symbol}"
    if link.line_start:
        return f"{link.path}:{link.line_start}" + (f"-{link.line_end}" if link.line_end else "")
    return link.path


def short_row(record: Record[Any], warnings: Sequence[str] = ()) -> Row:
    """Return a short row for a record that another answer refers to; its id shows its kind."""
    return without_empty(
        {
            "id": record.id,
            "title": cut(record.body.title, TITLE_CHARACTERS),
            "state": usual_state(record),
            "age": age_of(record.updated),
            "warnings": list(warnings),
        }
    )


def usual_state(record: Record[Any]) -> str:
    """Return the state of a record, "" if all of its kind have the same or are seldom seen."""
    spec = fields_of(type(record.body)).get("state")
    is_telling = spec and not spec.quiet and spec_of(record.kind).found
    return record.body.state if is_telling else ""


def entry_row(entry: PackEntry, *, why: bool = True) -> Row:
    """Return a row for a pack: claim, state, and the reason for being there."""
    record, body = entry.record, entry.record.body
    row: Row = {"id": record.id}
    match body:
        case Comment():
            row |= {"by": record.author, "text": entry.claim}
        case Link():
            row |= {
                "source": body.source,
                "target": body.target,
                "claim": entry.claim,
                "state": body.state,
            }
        case Task():
            title, blocked = (
                cut(body.title, TITLE_CHARACTERS),
                entry.claim if body.state == "blocked" else "",
            )
            row |= {"title": title, "state": body.state, "claim": blocked or entry.claim}
            row |= {
                "priority": "" if body.priority == "normal" else body.priority,
                "for": list(body.assignees),
            }
        case _:
            is_same = entry.claim.rstrip(".").casefold() == body.title.rstrip(".").casefold()
            row |= {
                "title": cut(body.title, TITLE_CHARACTERS),
                "claim": "" if is_same else entry.claim,
            }
            row |= {"state": usual_state(record)}
    row |= {
        "age": age_of(record.updated),
        "why": entry.why if why else "",
        "warnings": list(entry.warnings),
    }
    return without_empty(row)


def opened_row(record: Record[Any], slug: Slug, warnings: Sequence[str]) -> Row:
    """Return the full row of a pack's subject; `text` is its content and comes last."""
    row = record_row(record, slug, warnings)
    text = row.pop("body", "") or row.pop("text", "")
    return without_empty({**row, "text": text})


def record_row(record: Record[Any], slug: Slug, warnings: Sequence[str]) -> Row:
    """Return the full row of a record, in the order of its kind; other fields come last."""
    body, kind = record.body, spec_of(record.kind)
    is_comment, is_thread = isinstance(body, Comment), isinstance(body, Thread)
    cells: Row = {
        "id": record.id,
        "link": permalink(record.id),
        # A comment has none of its own.
        "title": "" if is_comment else body.title,
        "by": record.author,
        "age": age_of(record.created if is_thread else record.updated),
        "version": record.version,
        "warnings": list(warnings),
    }
    order = kind.row or _ORDER
    for name, spec in fields_of(type(body)).items():
        value = getattr(body, name)
        if spec.row_name and not (spec.quiet and value == spec.default):
            shown, known = _shown_value(value, spec, slug), cells.get(spec.row_name)
            cells[spec.row_name] = f"{known}\n\n{shown}" if known and shown else known or shown
            order = order if spec.row_name in order else (*order, spec.row_name)
    if isinstance(body, Artifact):
        cells["owner"] = body.owner or record.author
    return without_empty({name: cells[name] for name in order if name in cells})


def _shown_value(value: Any, spec: FieldSpec, slug: Slug) -> object:
    """Return the value of a field as it is shown in a row."""
    if spec.part is not None:
        return [_shown_part(part) for part in value]
    if spec.kind == "subcortex":
        return slug(value)
    return age_of(value) if spec.moment and value else value


def _shown_part(part: Any) -> object:
    match part:
        case CodeLink():
            return code_text(part)
        case Evidence():
            return without_empty({"type": part.kind, "ref": part.ref, "note": part.note})
        case Attachment():
            return part.ref
        case Term():
            return f"{part.term}: {part.meaning}"
        case (field, value):
            return f"{field}: {value}"
    return part


def comment_row(record: Record[Comment], most: int, warnings: Sequence[str] = ()) -> Row:
    """Return the row of a comment in its thread."""
    body = record.body
    return without_empty(
        {
            "id": record.id,
            "link": permalink(record.id),
            "by": record.author,
            "age": age_of(record.created),
            "re": body.parent,
            "warnings": list(warnings),
            "text": cut(body.body, most),
            "cites": list(body.citations),
            "sensitive": body.sensitivity == SENSITIVE,
        }
    )
