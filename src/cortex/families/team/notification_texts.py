"""Reasons of notifications: a table of templates, which renders and recognizes them.

The code passes a reason as a template with parameters; its text is rendered where the notification
is written. A record holds the text alone, at home and on the wire, so the template is recognized
again in two cases: to replace a name that differs between homes, and to accept from a client only
what a template says. Pure functions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cache

ROLES = ("assigned to you", "that you follow")

# Values of the parameters. Only text that is quoted from the record is free.
_PARAMETERS = {
    "name": r"\S{1,200}",
    "what": r"(?:an? [a-z]{1,20}(?: of a task)?|[a-z]{1,20}_[0-9A-Z]{26})",
    "role": f"(?:{'|'.join(ROLES)})",
    "changes": ".{0,2000}",
}
_NOTES = "(?:: .{0,2000})?"


@dataclass(frozen=True, slots=True)
class ReasonTemplate:
    """Text of a reason with its {parameters}, for one type of notification."""

    type: str
    text: str
    # True if free text may follow: the notes of a review, or what an older client quotes.
    noted: bool = False

    def __call__(self, *, notes: str = "", **parameters: str) -> Reason:
        """Fill in the parameters."""
        return Reason(self, parameters, notes)


@dataclass(frozen=True, slots=True)
class Reason:
    """A template with the values of its parameters."""

    template: ReasonTemplate
    parameters: Mapping[str, str]
    notes: str = ""

    @property
    def text(self) -> str:
        """The rendered reason."""
        text = self.template.text.format_map(self.parameters)
        return f"{text}: {self.notes}" if self.notes else text


MENTIONED = ReasonTemplate("mention", "{name} mentioned you in {what}")
OPENED = ReasonTemplate("thread_update", "you opened this thread; {name} commented")
SPOKE = ReasonTemplate("thread_update", "you commented in this thread; {name} commented")
ASSIGNED = ReasonTemplate("task_assigned", "{name} assigned this task to you")
CHANGED = ReasonTemplate("task_update", "a task {role}: {changes}")
ACCEPTED = ReasonTemplate("artifact_accepted", "{name} accepted your artifact")
DRAFTED = ReasonTemplate("review_needed", "{name} drafted {what}: approve or reject it")
CLASHES = ReasonTemplate(
    "review_needed", "a possible contradiction waits for your judgement", noted=True
)
PUBLISHED = ReasonTemplate(
    "draft_approved", "you drafted this; {name} published it as {what}", noted=True
)
REJECTED = ReasonTemplate("draft_rejected", "you drafted this; {name} rejected it", noted=True)

TEMPLATES = (
    MENTIONED, OPENED, SPOKE, ASSIGNED, CHANGED, ACCEPTED, DRAFTED, CLASHES, PUBLISHED, REJECTED
)  # fmt: skip


def renamed(type: str, reason: str, rename: Callable[[str], str]) -> str:
    """Replace the name in a reason by `rename`; a reason without a name is returned as it is."""
    for beginning, _ in _recognized(type, reason):
        if name := beginning.groupdict().get("name"):
            start, end = beginning.span("name")
            return reason[:start] + rename(name) + reason[end:]
    return reason


def fits(type: str, reason: str, names: Collection[str]) -> bool:
    """True for a reason that matches its type and names only one of `names`."""
    return any(
        rest.fullmatch(reason, beginning.end())
        and beginning.groupdict().get("name") in (None, *names)
        for beginning, rest in _recognized(type, reason)
    )


def _recognized(type: str, reason: str) -> Iterator[tuple[re.Match[str], re.Pattern[str]]]:
    """Yield the beginning of a reason, matched, and the pattern of the rest, by each template."""
    for template in TEMPLATES:
        if template.type == type:
            beginning, rest = _patterns(template)
            if (match := beginning.match(reason)) is not None:
                yield match, rest


@cache
def _patterns(template: ReasonTemplate) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Compile a template: up to the text after the name, and the rest, which may be cut."""
    before, name, after = template.text.rpartition("{name}")
    literal, brace, rest = after.partition("{") if name else ("", "", after)
    beginning, rest = _pattern(before + name + literal), _pattern(brace + rest)
    return re.compile(beginning), re.compile(rest + (_NOTES if template.noted else ""))


def _pattern(text: str) -> str:
    """Turn a part of a template into a regular expression."""
    return "".join(
        f"(?P<{part}>{_PARAMETERS[part]})" if index % 2 else re.escape(part)
        for index, part in enumerate(re.split(r"\{(\w+)\}", text))
    )
