"""What a body may say: lengths, allowed values, states and how they follow one another, and no
secret anywhere.

One walk over the fields of whatever body comes, by the tables of `allowed`. Pure: whether what a
body points to exists is not known here, nor who writes it. Road not taken: cutting what is too
long, for then a team would keep something that nobody wrote.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass, replace
from datetime import date
from typing import Any, TypeVar

from cortex.base.errors import InputError
from cortex.base.record_model import (
    Artifact,
    Body,
    CodeLink,
    Draft,
    Evidence,
    Link,
    Notification,
    Observation,
    Subcortex,
    Term,
    Thread,
    kind_of,
)
from cortex.base.secret_scanner import find_leaks, redact
from cortex.families.team.field_rules import (
    ALLOWED,
    ARTIFACT_TYPES,
    DRAFT_TYPES,
    ELEMENT,
    ELEMENTS,
    EVIDENCE_KINDS,
    FIRST,
    LIMITS,
    LINE,
    LONG,
    MACHINE_MADE,
    MOVES,
    NEEDED,
    NEEDED_OF_DRAFT,
    NOTIFICATION_TYPES,
    OBSERVATION_TYPES,
    OPEN_TASK_STATES,
    PRIORITIES,
    RELATIONS,
    SECRET,
    SENSITIVITIES,
    SOURCE_TYPES,
    STATES,
    SUMMARY,
    THREAD_TYPES,
    TYPES,
    VERIFICATIONS,
    VISIBILITIES,
)

__all__ = [
    "ARTIFACT_TYPES",
    "DRAFT_TYPES",
    "EVIDENCE_KINDS",
    "FIRST",
    "LIMITS",
    "MOVES",
    "NOTIFICATION_TYPES",
    "OBSERVATION_TYPES",
    "OPEN_TASK_STATES",
    "PRIORITIES",
    "RELATIONS",
    "SECRET",
    "SENSITIVITIES",
    "SOURCE_TYPES",
    "STATES",
    "SUMMARY",
    "THREAD_TYPES",
    "TYPES",
    "VERIFICATIONS",
    "VISIBILITIES",
    "check_first",
    "check_move",
    "check_secrets",
    "check_value",
    "checked",
    "refusal",
    "texts_of",
]

B = TypeVar("B", bound=Body)

SLUG = re.compile(r"[a-z0-9][a-z0-9-]{2,49}")
_REFUSED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u202d\u202e]")
# Texts that nobody sees, least of all who approves them, and every model reads: letters as tags
# (but for those of a flag), and runs of marks that stand alone, or by threes, in any language.
_HIDDEN = re.compile(
    "\U0001f3f4[\U000e0030-\U000e0039\U000e0061-\U000e007a]{1,8}\U000e007f"
    "|([\U000e0000-\U000e007f]|[\ufe00-\ufe0f\U000e0100-\U000e01ef]{2}|[\u200b-\u200d\u2060-\u2064\ufeff]{4})"
)
_ADDRESS = re.compile(r"https?://\S+", re.IGNORECASE)
_HEX = re.compile(r"[0-9a-fA-F]{4,64}")


def checked(body: B) -> B:
    """The body as it can be kept: white space in order, nothing twice.

    Raises: InputError RECORD_INVALID, which names the field and what is allowed; SENSITIVE_BLOCKED
    for a secret, never with it.
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
        raise refusal(field, f"{field} is one of {told}, not {redact(value)[0][:40]!r}", allowed)


def check_secrets(body: object, prefix: str = "") -> None:
    """Raises: InputError SENSITIVE_BLOCKED with every field, line and kind of secret."""
    found = [
        {"field": field, "line": text.count("\n", 0, leak.start) + 1, "secret": leak.name}
        for field, text in texts_of(body, prefix)
        for leak in find_leaks(text)
    ]
    if found:
        places = "; ".join(
            f"{one['field']}, line {one['line']}: {one['secret']}" for one in found[:5]
        )
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


# -- one walk over the fields
# ------------------------------------------------------------------------------------------


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
    if (found := _REFUSED.search(value) or _hidden(value)) is not None:
        line = value.count("\n", 0, found.start()) + 1
        raise refusal(
            field,
            f"{field} is text: in line {line} it holds {found[0][:1]!a}, a character that isn't",
        )
    value = value.strip() if is_long else " ".join(value.split())
    if len(value) > most:
        raise refusal(
            field, f"{field} has at most {most:,} characters, this one has {len(value):,}"
        )
    return value


def _hidden(value: str) -> re.Match[str] | None:
    return (
        None
        if value.isascii()
        else next((found for found in _HIDDEN.finditer(value) if found[1]), None)
    )


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
        kept.setdefault(
            value.casefold() if isinstance(value, str) and name == "tags" else value, value
        )
    if len(kept) > most:
        raise refusal(field, f"{field} are at most {most}, these are {len(kept)}")
    return tuple(kept.values())


def _check_part(noun: object, prefix: str) -> None:
    """What nouns inside of a body have to hold besides."""
    match noun:
        case CodeLink():
            path = noun.path.replace("\\", "/")
            if path.startswith("/") or re.match(r"[A-Za-z]:", path) or ".." in path.split("/"):
                raise refusal(
                    prefix + "path",
                    f"{prefix}path is relative to the root of its repository, without `..`",
                )
            if noun.line_end and noun.line_end < noun.line_start:
                raise refusal(prefix + "line_end", f"{prefix}line_end is before line_start")
            if noun.commit and not _HEX.fullmatch(noun.commit):
                raise refusal(
                    prefix + "commit",
                    f"{prefix}commit is the hash of a commit: 4 to 64 hexadecimal digits",
                )
        case Evidence(kind="url") if not _ADDRESS.fullmatch(noun.ref):
            raise refusal(
                prefix + "ref", f"{prefix}ref is an address that begins with http:// or https://"
            )


def _with_slashes(link: CodeLink) -> CodeLink:
    path = link.path.replace("\\", "/")
    while path.startswith("./"):
        path = path[2:]
    return replace(link, path=path)


def _check_special(body: Body) -> None:
    """What only one kind has to hold."""
    match body:
        case Subcortex() if not SLUG.fullmatch(body.slug):
            raise refusal(
                "slug", "slug is 3 to 50 small letters, digits and dashes, and begins with no dash"
            )
        case Artifact():
            if body.review_by:
                _check_date(body.review_by)
            if body.state == "accepted" and not body.evidence:
                raise refusal(
                    "evidence",
                    "an artifact that is accepted needs evidence: at least one link to what it rests on",
                )
        case Link() if body.source == body.target:
            raise refusal("target", "target is the source itself: nothing is linked to itself")


def _check_date(value: str) -> None:
    try:
        if len(value) != 10:
            raise ValueError
        date.fromisoformat(value)
    except ValueError:
        raise refusal(
            "review_by", f"review_by is a date as 2027-01-31, not {value[:40]!r}"
        ) from None


def _named(noun: Any) -> str:
    name = kind_of(noun) if not isinstance(noun, Term) else "term"
    return f"{'an' if name[0] in 'aeo' else 'a'} {name}"
