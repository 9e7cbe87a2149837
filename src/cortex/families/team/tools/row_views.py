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
    CodeLink,
    Comment,
    Draft,
    Link,
    Observation,
    Record,
    Subcortex,
    Task,
    Thread,
)
from cortex.families.team.context_pack import PackEntry
from cortex.families.team.permalinks import permalink
from cortex.families.team.tools.render import Row, age_of, cut, without_empty

TITLE_CHARACTERS = 160

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
    """Return the state of a record, "" if all of its kind have the same."""
    return record.body.state if isinstance(record.body, Thread | Artifact | Task) else ""


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
    """Return the full row of a pack's subject; `text` is its content."""
    match record.body:
        case Thread():
            row = thread_row(record, slug, warnings)
            return without_empty({**row, "body": "", "text": row.get("body")})
        case Artifact():
            return without_empty({**artifact_row(record, slug, warnings), "text": record.body.body})
        case Subcortex() as body:
            return without_empty(
                {
                    "id": record.id,
                    "slug": body.slug,
                    "title": body.name,
                    "state": "" if body.state == "active" else body.state,
                    "stewards": list(body.stewards),
                    "warnings": list(warnings),
                    "naming": list(body.naming),
                    "glossary": [f"{term.term}: {term.meaning}" for term in body.glossary],
                    "text": "\n\n".join(part for part in (body.description, body.charter) if part),
                }
            )
        case body:
            text = body.summary if isinstance(body, Observation) else getattr(body, "body", "")
            text = body.note if isinstance(body, Link) else text
            fields = (
                "type",
                "priority",
                "blocked_reason",
                "notes",
                "thread",
                "task",
                "parent",
                "review_notes",
                "published",
            )
            return without_empty(
                {
                    "id": record.id,
                    "link": permalink(record.id),
                    "title": "" if isinstance(body, Comment) else body.title,
                    "state": body.state if isinstance(body, Task | Draft | Link) else "",
                    **{name: getattr(body, name, "") for name in fields},
                    "target": body.target if isinstance(body, Draft) else "",
                    "changes": [f"{field}: {value}" for field, value in getattr(body, "patch", ())],
                    "subcortex": slug(getattr(body, "subcortex", "")),
                    "for": list(getattr(body, "assignees", ())),
                    "by": record.author,
                    "age": age_of(record.updated),
                    "tags": list(getattr(body, "tags", ())),
                    "warnings": list(warnings),
                    "code": [code_text(link) for link in getattr(body, "code_links", ())],
                    "attachments": [
                        attachment.ref for attachment in getattr(body, "attachments", ())
                    ],
                    "cites": list(getattr(body, "citations", ())),
                    "text": text,
                }
            )


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


def thread_row(record: Record[Thread], slug: Slug, warnings: Sequence[str]) -> Row:
    """Return the row of a thread without its comments."""
    body = record.body
    return without_empty(
        {
            "id": record.id,
            "link": permalink(record.id),
            "title": body.title,
            "type": body.type,
            "state": body.state,
            "subcortex": slug(body.subcortex),
            "by": record.author,
            "age": age_of(record.created),
            "tags": list(body.tags),
            "task": body.task,
            "warnings": list(warnings),
            "resolution": body.resolution,
            "summary": body.summary,
            "summary_by": body.summary_by,
            "body": body.body,
            "code": [code_text(link) for link in body.code_links],
        }
    )


def artifact_row(record: Record[Artifact], slug: Slug, warnings: Sequence[str]) -> Row:
    """Return the row of an artifact without its body."""
    body = record.body
    return without_empty(
        {
            "id": record.id,
            "link": permalink(record.id),
            "title": body.title,
            "type": body.type,
            "state": body.state,
            "version": record.version,
            "owner": body.owner or record.author,
            "review_by": body.review_by,
            "reviewed": age_of(body.last_reviewed) if body.last_reviewed else "",
            "verification": "" if body.verification == "unverified" else body.verification,
            "subcortex": slug(body.subcortex),
            "age": age_of(record.updated),
            "tags": list(body.tags),
            "supersedes": body.supersedes,
            "superseded_by": body.superseded_by,
            "warnings": list(warnings),
            "summary": body.summary,
            "evidence": [
                without_empty({"type": item.kind, "ref": item.ref, "note": item.note})
                for item in body.evidence
            ],
            "code": [code_text(link) for link in body.code_links],
        }
    )
