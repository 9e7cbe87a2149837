"""What a body may say: lengths, allowed values, states and how they follow one another, and no secret anywhere.

Tables, and one walk over the fields of whatever body comes. Pure: whether what a body points to exists is not known here, nor who
writes it. Road not taken: cutting what is too long, for then a team would keep something that nobody wrote.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from datetime import date
from typing import Any, TypeVar

from cortex.errors import InputError
from cortex.kinds import (
    NORMAL,
    SENSITIVE,
    Artifact,
    Attachment,
    Body,
    CodeLink,
    Comment,
    Draft,
    Evidence,
    Link,
    Notification,
    Observation,
    Subcortex,
    Task,
    Term,
    Thread,
    kind_of,
)
from cortex.leaks import find_leaks

B = TypeVar("B", bound=Body)

SECRET = "secret"  # what must not be stored at all
SENSITIVITIES = (NORMAL, SENSITIVE)

THREAD_TYPES = ("question", "research", "proposal", "update", "decision", "incident", "retrospective", "other")
OBSERVATION_TYPES = (
    "test_result", "backtest_result", "research_note", "code_change", "tool_output", "decision", "checkpoint", "other",
)  # fmt: skip
ARTIFACT_TYPES = ("adr", "runbook", "report", "spec", "postmortem", "glossary", "other")
DRAFT_TYPES = ("comment", "thread", "artifact", "task_update")
NOTIFICATION_TYPES = (
    "mention", "thread_update", "task_assigned", "task_update", "review_needed", "artifact_accepted", "draft_approved",
    "draft_rejected", "system_alert",
)  # fmt: skip
TYPES: Mapping[type, tuple[str, ...]] = {
    Thread: THREAD_TYPES,
    Observation: OBSERVATION_TYPES,
    Artifact: ARTIFACT_TYPES,
    Draft: DRAFT_TYPES,
    Notification: NOTIFICATION_TYPES,
}

# The states of a kind, and which may follow each. A new record is in one of those of `FIRST`.
_OPEN_TASK = ("inbox", "assigned", "in_progress", "review", "blocked")
_TASK = (*_OPEN_TASK, "done", "cancelled")
MOVES: Mapping[type, Mapping[str, tuple[str, ...]]] = {
    Subcortex: {"proposed": ("active", "archived"), "active": ("archived",), "archived": ("active",)},
    Thread: {"open": ("resolved", "archived"), "resolved": ("open", "archived"), "archived": ("open",)},
    Comment: {"published": ()},
    Observation: {"recorded": ()},
    Artifact: {
        "draft": ("proposed", "accepted", "deprecated"),
        "proposed": ("draft", "accepted", "deprecated"),
        "accepted": ("superseded", "deprecated"),
        "superseded": (),
        "deprecated": ("proposed",),
    },
    Task: {state: tuple(other for other in _TASK if other != state) for state in _OPEN_TASK}
    | dict.fromkeys(("done", "cancelled"), ("inbox", "assigned", "in_progress")),
    Draft: {
        "pending_review": ("approved", "rejected", "published", "expired"),
        "approved": ("published",),
        "expired": ("published", "rejected"),
        "rejected": (),
        "published": (),
    },
    Notification: {"new": ("seen", "done"), "seen": ("done",), "done": ()},
    Link: {"candidate": ("confirmed", "dismissed"), "confirmed": ("dismissed",), "dismissed": ("confirmed",)},
}
STATES: Mapping[type, tuple[str, ...]] = {cls: tuple(moves) for cls, moves in MOVES.items()}
OPEN_TASK_STATES = _OPEN_TASK
FIRST: Mapping[type, tuple[str, ...]] = {
    Subcortex: ("proposed", "active"),
    Thread: ("open",),
    Artifact: ("draft", "proposed", "accepted"),
    Task: _TASK,
    Draft: ("pending_review",),
    Notification: ("new",),
    Link: ("candidate", "confirmed"),
}

VISIBILITIES = ("private", "internal")
PRIORITIES = ("low", "normal", "high", "urgent")
VERIFICATIONS = ("unverified", "verified", "incorrect")
EVIDENCE_KINDS = ("thread", "comment", "observation", "artifact", "url")
RELATIONS = ("supersedes", "contradicts", "supports", "depends_on")
SOURCE_TYPES = ("manual", "stop_hook", "periodic_sync", "ci", "webhook", "api")
TARGET_KINDS = ("", "thread", "task", "subcortex")
# What else has allowed values, by class and field.
ALLOWED: Mapping[tuple[type, str], tuple[str, ...]] = {
    (Subcortex, "visibility"): VISIBILITIES,
    (Task, "priority"): PRIORITIES,
    (Artifact, "verification"): VERIFICATIONS,
    (Evidence, "kind"): EVIDENCE_KINDS,
    (Link, "relation"): RELATIONS,
    (Observation, "source_type"): SOURCE_TYPES,
    (Draft, "target_kind"): TARGET_KINDS,
    (Draft, "artifact_type"): ("", *ARTIFACT_TYPES),
    (Draft, "thread_type"): ("", *THREAD_TYPES),
}

SUMMARY = 1_200  # characters of a thread's rolling summary
# The most characters of a text; of several values how many, and in ELEMENTS how long each may be.
LIMITS: Mapping[type, Mapping[str, int]] = {
    Subcortex: {
        "name": 100, "description": 2_000, "charter": 10_000, "stewards": 50, "pinned_threads": 50, "pinned_artifacts": 50,
        "pinned_tasks": 50, "glossary": 200, "naming": 100,
    },
    Thread: {"title": 300, "body": 50_000, "tags": 10, "summary": SUMMARY, "resolution": 2_000, "code_links": 50},
    Comment: {"body": 50_000, "citations": 50},
    Observation: {
        "title": 300, "summary": 10_000, "tags": 20, "session": 200, "commit_id": 200, "attachments": 20, "code_links": 50,
    },
    Artifact: {
        "title": 300, "body": 100_000, "summary": 2_000, "owner": 100, "evidence": 100, "tags": 20, "code_links": 50,
    },
    Task: {
        "title": 300, "body": 50_000, "assignees": 20, "watchers": 50, "blocked_reason": 500, "notes": 10_000, "tags": 20,
        "code_links": 50,
    },
    Draft: {
        "title": 300, "body": 100_000, "target": 200, "patch": 20, "citations": 50, "tags": 20, "reason": 2_000, "summary": 2_000,
        "risk_flags": 10, "code_links": 50, "evidence": 100, "review_notes": 2_000,
    },
    Notification: {"recipient": 100, "title": 300, "reason": 500},
    Link: {"note": 500},
    CodeLink: {"path": 1_000, "repo": 200, "symbol": 300, "commit": 64, "root": 4_000},
    Evidence: {"ref": 2_000, "note": 200},
    Attachment: {"name": 300, "ref": 2_000, "media_type": 100},
    Term: {"term": 100, "meaning": 1_000},
}  # fmt: skip
ELEMENTS: Mapping[str, int] = {
    "tags": 50,
    "stewards": 100,
    "assignees": 100,
    "watchers": 100,
    "naming": 500,
    "patch": 10_000,
}
ELEMENT = 500  # characters of any other of several values
LINE = 200  # characters of a text that isn't named above: ids, names

# What has to say something.
NEEDED: Mapping[type, tuple[str, ...]] = {
    Subcortex: ("slug", "name"),
    Thread: ("title",),
    Comment: ("thread", "body"),
    Observation: ("title",),
    Artifact: ("title",),
    Task: ("title",),
    Notification: ("recipient", "about", "title", "reason"),
    Link: ("source", "relation", "target"),
    CodeLink: ("path",),
    Evidence: ("kind", "ref"),
    Attachment: ("name", "ref"),
    Term: ("term", "meaning"),
}
NEEDED_OF_DRAFT: Mapping[str, tuple[str, ...]] = {
    "comment": ("body",),
    "thread": ("title",),
    "artifact": ("title", "body"),
    "task_update": ("patch",),
}
# Texts of several lines; all others are one line, in which white space is folded.
LONG = frozenset(
    {"description", "charter", "body", "summary", "resolution", "notes", "reason", "review_notes", "meaning", "blocked_reason", "note"}
)  # fmt: skip
MACHINE_MADE = frozenset({"commit", "file_hash", "body_hash", "root"})  # random by nature: no place for a secret

SLUG = re.compile(r"[a-z0-9][a-z0-9-]{2,49}")
_REFUSED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u202d\u202e]")
_ADDRESS = re.compile(r"https?://\S+", re.IGNORECASE)
_HEX = re.compile(r"[0-9a-fA-F]{4,64}")


def checked(body: B) -> B:
    """The body as it can be kept: white space in order, nothing twice.

    Raises: InputError RECORD_INVALID, which names the field and what is allowed; SENSITIVE_BLOCKED for a secret, never with it.
    """
    if body.sensitivity == SECRET:
        raise InputError(
            "SENSITIVE_BLOCKED",
            "what is secret is not stored; say where it is kept instead",
            context={"field": "sensitivity", "allowed": list(SENSITIVITIES)},
        )
    body = _checked(body, "")
    check_value("state", body.state, STATES[type(body)])
    check_value("sensitivity", body.sensitivity, SENSITIVITIES)
    if isinstance(body, Thread | Observation | Artifact | Draft | Notification):
        check_value("type", body.type, TYPES[type(body)])
    _check_special(body)
    check_secrets(body)
    return body


def check_first(body: Body) -> None:
    """A new record is in a state that it may begin with. Raises: InputError RECORD_INVALID."""
    allowed = FIRST.get(type(body))
    if allowed is not None:
        check_value("state", body.state, allowed)


def check_move(before: Body, after: Body) -> None:
    """One state may follow the other. Raises: InputError RECORD_INVALID."""
    if before.state == after.state:
        return
    allowed = MOVES[type(before)].get(before.state, ())
    if after.state not in allowed:
        raise refusal(
            "state",
            f"{_named(before)} that is {before.state} can't become {after.state}; allowed: {', '.join(allowed) or 'nothing'}",
            allowed,
        )


def check_value(field: str, value: str, allowed: Sequence[str]) -> None:
    """Raises: InputError RECORD_INVALID, where a value is none of those allowed."""
    if value not in allowed:
        told = ", ".join(one or '""' for one in allowed)
        raise refusal(field, f"{field} is one of {told}, not {value[:40]!r}", allowed)


def check_secrets(body: object) -> None:
    """Raises: InputError SENSITIVE_BLOCKED with every field, line and kind of secret."""
    found = [
        {"field": field, "line": text.count("\n", 0, leak.start) + 1, "secret": leak.name}
        for field, text in texts_of(body)
        for leak in find_leaks(text)
    ]
    if found:
        places = "; ".join(f"{one['field']}, line {one['line']}: {one['secret']}" for one in found[:5])
        more = f" and {len(found) - 5} more" if len(found) > 5 else ""
        raise InputError(
            "SENSITIVE_BLOCKED",
            f"it holds a secret ({places}{more}); nothing was written",
            context={"field": found[0]["field"], "line": found[0]["line"], "secrets": found[:20]},
        )


def texts_of(noun: object, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Every text that somebody wrote in a body, and the name of its field."""
    for one in fields(noun):  # type: ignore[arg-type]
        if one.name in MACHINE_MADE:
            continue
        field, value = prefix + one.name, getattr(noun, one.name)
        if isinstance(value, str):
            yield field, value
        elif isinstance(value, tuple):
            for number, part in enumerate(value):
                name = f"{field}[{number}]"
                if isinstance(part, Term):
                    yield name, f"{part.term}: {part.meaning}"
                elif isinstance(part, tuple):
                    yield name, ": ".join(part)
                elif is_dataclass(part):
                    yield from texts_of(part, name + ".")
                else:
                    yield name, part


def refusal(field: str, why: str, allowed: Sequence[str] = ()) -> InputError:
    """The error for a field that can't be kept as it is."""
    context: dict[str, object] = {"field": field}
    if allowed:
        context["allowed"] = list(allowed)
    return InputError("RECORD_INVALID", why, context=context)


# -- one walk over the fields ------------------------------------------------------------------------------------------


def _checked(noun: Any, prefix: str) -> Any:
    """A body, or a noun inside of it, with every field in order."""
    cls = type(noun)
    limits = LIMITS.get(cls, {})
    changes: dict[str, object] = {}
    for one in fields(noun):
        value, field = getattr(noun, one.name), prefix + one.name
        if isinstance(value, str):
            changes[one.name] = _text(field, value, limits.get(one.name, LINE), one.name in LONG)
        elif isinstance(value, tuple):
            changes[one.name] = _several(field, one.name, value, limits.get(one.name, 100))
        elif not isinstance(value, int) or value < 0:
            raise refusal(field, f"{field} is a number that isn't negative")
    noun = replace(noun, **changes)
    needed = NEEDED_OF_DRAFT.get(noun.type, ()) if isinstance(noun, Draft) else NEEDED.get(cls, ())
    for name in needed:
        if not getattr(noun, name):
            raise refusal(prefix + name, f"{prefix + name} is missing: {_named(noun)} needs it")
    for (owner, name), allowed in ALLOWED.items():
        if owner is cls:
            check_value(prefix + name, getattr(noun, name), allowed)
    _check_part(noun, prefix)
    return _with_slashes(noun) if isinstance(noun, CodeLink) else noun


def _text(field: str, value: str, most: int, is_long: bool) -> str:
    value = value.replace("\r\n", "\n").replace("\r", "\n")
    if (found := _REFUSED.search(value)) is not None:
        line = value.count("\n", 0, found.start()) + 1
        raise refusal(field, f"{field} is text: in line {line} it holds {found[0]!a}, a character that isn't")
    value = value.strip() if is_long else " ".join(value.split())
    if len(value) > most:
        raise refusal(field, f"{field} has at most {most:,} characters, this one has {len(value):,}")
    return value


def _several(field: str, name: str, values: Sequence[Any], most: int) -> tuple[Any, ...]:
    length = ELEMENTS.get(name, ELEMENT)
    kept: dict[Any, Any] = {}
    for number, value in enumerate(values):
        place = f"{field}[{number}]"
        if is_dataclass(value):
            value = _checked(value, place + ".")
        elif isinstance(value, tuple):
            value = tuple(_text(place, one, length, True) for one in value)
        elif not (value := _text(place, value, length, False)):
            continue
        kept.setdefault(value.casefold() if isinstance(value, str) and name == "tags" else value, value)
    if len(kept) > most:
        raise refusal(field, f"{field} are at most {most}, these are {len(kept)}")
    return tuple(kept.values())


def _check_part(noun: object, prefix: str) -> None:
    """What nouns inside of a body have to hold besides."""
    match noun:
        case CodeLink():
            path = noun.path.replace("\\", "/")
            if path.startswith("/") or re.match(r"[A-Za-z]:", path) or ".." in path.split("/"):
                raise refusal(prefix + "path", f"{prefix}path is relative to the root of its repository, without `..`")
            if noun.line_end and noun.line_end < noun.line_start:
                raise refusal(prefix + "line_end", f"{prefix}line_end is before line_start")
            if noun.commit and not _HEX.fullmatch(noun.commit):
                raise refusal(prefix + "commit", f"{prefix}commit is the hash of a commit: 4 to 64 hexadecimal digits")
        case Evidence(kind="url") if not _ADDRESS.fullmatch(noun.ref):
            raise refusal(prefix + "ref", f"{prefix}ref is an address that begins with http:// or https://")


def _with_slashes(link: CodeLink) -> CodeLink:
    path = link.path.replace("\\", "/")
    while path.startswith("./"):
        path = path[2:]
    return replace(link, path=path)


def _check_special(body: Body) -> None:
    """What only one kind has to hold."""
    match body:
        case Subcortex() if not SLUG.fullmatch(body.slug):
            raise refusal("slug", "slug is 3 to 50 small letters, digits and dashes, and begins with no dash")
        case Artifact():
            if body.review_by:
                _check_date(body.review_by)
            if body.state == "accepted" and not body.evidence:
                raise refusal(
                    "evidence", "an artifact that is accepted needs evidence: at least one link to what it rests on"
                )
        case Link() if body.source == body.target:
            raise refusal("target", "a record can't be linked to itself")


def _check_date(value: str) -> None:
    try:
        if len(value) != 10:
            raise ValueError
        date.fromisoformat(value)
    except ValueError:
        raise refusal("review_by", f"review_by is a date as 2027-01-31, not {value[:40]!r}") from None


def _named(noun: Any) -> str:
    name = kind_of(noun) if not isinstance(noun, Term) else "term"
    return f"{'an' if name[0] in 'aeo' else 'a'} {name}"
