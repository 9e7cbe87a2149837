"""Validation of record bodies: lengths, enumerated values, states, transitions, secrets.

One walk over the fields of a body, by their rows in `record_model`. Pure: doesn't know if a
referenced record exists, nor who writes. Road not taken: truncating long text, since the team would
then keep something that its author didn't write.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import is_dataclass, replace
from datetime import date
from typing import Any, TypeVar

from cortex.base.errors import InputError
from cortex.base.record_model import (
    SENSITIVITIES,
    Artifact,
    Body,
    CodeLink,
    Draft,
    Evidence,
    Link,
    Subcortex,
    Term,
    kind_of,
)
from cortex.base.record_spec import FieldSpec, choices_of, fields_of, spec_of
from cortex.base.secret_scanner import find_leaks, redact

B = TypeVar("B", bound=Body)

# A sensitivity that must not be stored at all.
SECRET = "secret"
# Fields that a draft of this type needs.
_NEEDED_OF_DRAFT: Mapping[str, tuple[str, ...]] = {
    "comment": ("body",),
    "thread": ("title",),
    "artifact": ("title", "body"),
    "task_update": ("patch",),
}
SLUG = re.compile(r"[a-z0-9][a-z0-9-]{2,49}")
_FORBIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u202d\u202e]")
# Text that readers and reviewers can't see but every model reads: tag characters (except those of a
# flag), and runs of two variation selectors or four zero-width characters, which no language needs.
_HIDDEN = re.compile(
    "\U0001f3f4[\U000e0030-\U000e0039\U000e0061-\U000e007a]{1,8}\U000e007f"
    "|([\U000e0000-\U000e007f]|[\ufe00-\ufe0f\U000e0100-\U000e01ef]{2}"
    "|[\u200b-\u200d\u2060-\u2064\ufeff]{4})"
)
_ADDRESS = re.compile(r"https?://\S+", re.IGNORECASE)
_HEX = re.compile(r"[0-9a-fA-F]{4,64}")


def checked(body: B) -> B:
    """Return the body as it is stored: white space normalized, without duplicates.

    Raises: InputError RECORD_INVALID with the field and the allowed values; SENSITIVE_BLOCKED for a
    secret, without quoting it.
    """
    if body.sensitivity == SECRET:
        raise InputError(
            "SENSITIVE_BLOCKED",
            "what is secret is not stored; say where it is kept instead",
            context={"field": "sensitivity", "allowed": list(SENSITIVITIES)},
        )
    body = _validate(body, "")
    check_value("state", body.state, choices_of(type(body), "state"))
    _check_kind(body)
    check_secrets(body)
    return body


def check_first(body: Body) -> None:
    """Check that a new record is in an initial state. Raises: InputError RECORD_INVALID."""
    if first := spec_of(type(body)).first:
        check_value("state", body.state, first)


def check_move(before: Body, after: Body) -> None:
    """Check the transition between two states. Raises: InputError RECORD_INVALID."""
    if before.state == after.state:
        return
    allowed = spec_of(type(before)).moves.get(before.state, ())
    if after.state not in allowed:
        raise refusal(
            "state",
            f"{_with_article(before)} that is {before.state} can't become {after.state}; "
            f"allowed: {', '.join(allowed) or 'nothing'}",
            allowed,
        )


def check_value(field: str, value: str, allowed: Sequence[str]) -> None:
    """Check that a value is allowed. Raises: InputError RECORD_INVALID."""
    if value not in allowed:
        options = ", ".join(option or '""' for option in allowed)
        raise refusal(field, f"{field} is one of {options}, not {redact(value)[0][:40]!r}", allowed)


def check_secrets(body: object, prefix: str = "") -> None:
    """Check that a body holds no secrets.

    Raises: InputError SENSITIVE_BLOCKED with field, line and kind of every secret.
    """
    secrets = [
        {"field": field, "line": text.count("\n", 0, leak.start) + 1, "secret": leak.name}
        for field, text in texts_of(body, prefix)
        for leak in find_leaks(text)
    ]
    if secrets:
        places = "; ".join(
            f"{secret['field']}, line {secret['line']}: {secret['secret']}"
            for secret in secrets[:5]
        )
        more = f" and {len(secrets) - 5} more" if len(secrets) > 5 else ""
        raise InputError(
            "SENSITIVE_BLOCKED",
            f"it holds a secret ({places}{more}); nothing was written",
            context={
                "field": secrets[0]["field"],
                "line": secrets[0]["line"],
                "secrets": secrets[:20],
            },
        )


def texts_of(noun: object, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Iterate over the written texts of a body, each with the name of its field."""
    for name, spec in fields_of(type(noun)).items():
        if spec.random:
            continue
        field, value = prefix + name, getattr(noun, name)
        if isinstance(value, str):
            yield field, value
        elif isinstance(value, tuple):
            for index, part in enumerate(value):
                place = f"{field}[{index}]"
                if isinstance(part, Term):
                    yield place, f"{part.term}: {part.meaning}"
                elif isinstance(part, tuple):
                    yield place, ": ".join(part)
                elif is_dataclass(part):
                    yield from texts_of(part, place + ".")
                else:
                    yield place, part


def refusal(field: str, why: str, allowed: Sequence[str] = ()) -> InputError:
    """Return the error for a field that can't be stored."""
    context: dict[str, object] = {"field": field}
    if allowed:
        context["allowed"] = list(allowed)
    return InputError("RECORD_INVALID", why, context=context)


# -- one walk over the fields


def _validate(noun: Any, prefix: str) -> Any:
    """Return a body, or a part of one, with all fields validated."""
    specs = fields_of(type(noun))
    changes: dict[str, object] = {}
    for name, spec in specs.items():
        value, field = getattr(noun, name), prefix + name
        if isinstance(value, str):
            changes[name] = _validate_text(field, value, spec.limit, spec.long)
        elif isinstance(value, tuple):
            changes[name] = _validate_list(field, value, spec)
        elif not isinstance(value, int) or value < 0:
            raise refusal(field, f"{field} is a number that isn't negative")
    noun = replace(noun, **changes)
    for name in _needed(noun):
        if not getattr(noun, name):
            raise refusal(
                prefix + name, f"{prefix + name} is missing: {_with_article(noun)} needs it"
            )
    for name, spec in specs.items():
        if spec.choices:
            check_value(prefix + name, getattr(noun, name), spec.choices)
    _check_part(noun, prefix)
    return _normalize_path(noun) if isinstance(noun, CodeLink) else noun


def _needed(noun: Any) -> Sequence[str]:
    """Return the fields that must not be empty."""
    if isinstance(noun, Draft):
        return _NEEDED_OF_DRAFT.get(noun.type, ())
    return [name for name, spec in fields_of(type(noun)).items() if spec.needed]


def _validate_text(field: str, value: str, most: int, is_long: bool) -> str:
    """Normalize the white space of a text. Raises: InputError RECORD_INVALID."""
    value = value.replace("\r\n", "\n").replace("\r", "\n")
    if (match := _FORBIDDEN.search(value) or _find_hidden(value)) is not None:
        line = value.count("\n", 0, match.start()) + 1
        raise refusal(
            field,
            f"{field} is text: in line {line} it holds {match[0][:1]!a}, a character that isn't",
        )
    value = value.strip() if is_long else " ".join(value.split())
    if len(value) > most:
        raise refusal(
            field, f"{field} has at most {most:,} characters, this one has {len(value):,}"
        )
    return value


def _find_hidden(value: str) -> re.Match[str] | None:
    """Find invisible text."""
    return (
        None
        if value.isascii()
        else next((match for match in _HIDDEN.finditer(value) if match[1]), None)
    )


def _validate_list(field: str, values: Sequence[Any], spec: FieldSpec) -> tuple[Any, ...]:
    """Validate each element of a list and drop empty ones and duplicates."""
    kept: dict[Any, Any] = {}
    for index, value in enumerate(values):
        place = f"{field}[{index}]"
        if is_dataclass(value):
            value = _validate(value, place + ".")
        elif isinstance(value, tuple):
            value = tuple(_validate_text(place, part, spec.element, True) for part in value)
        elif not (value := _validate_text(place, value, spec.element, False)):
            continue
        key = value.casefold() if spec.folded and isinstance(value, str) else value
        kept.setdefault(key, value)
    if len(kept) > spec.limit:
        raise refusal(field, f"{field} are at most {spec.limit}, these are {len(kept)}")
    return tuple(kept.values())


def _check_part(noun: object, prefix: str) -> None:
    """Check further rules for parts of a body."""
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


def _normalize_path(link: CodeLink) -> CodeLink:
    """Use forward slashes, without a leading `./`."""
    path = link.path.replace("\\", "/")
    while path.startswith("./"):
        path = path[2:]
    return replace(link, path=path)


def _check_kind(body: Body) -> None:
    """Check further rules for single kinds."""
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
                    "an artifact that is accepted needs evidence: at least one link to what it "
                    "rests on",
                )
        case Link() if body.source == body.target:
            raise refusal("target", "target is the source itself: nothing is linked to itself")


def _check_date(value: str) -> None:
    """Check a date of the form 2027-01-31. Raises: InputError RECORD_INVALID."""
    try:
        if len(value) != 10:
            raise ValueError
        date.fromisoformat(value)
    except ValueError:
        raise refusal(
            "review_by", f"review_by is a date as 2027-01-31, not {value[:40]!r}"
        ) from None


def _with_article(noun: Any) -> str:
    """Return the kind with its article, for messages."""
    name = kind_of(noun) if not isinstance(noun, Term) else "term"
    return f"{'an' if name[0] in 'aeo' else 'a'} {name}"
