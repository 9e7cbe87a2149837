"""Templates of the reasons in notifications, and parsing of such reasons.

A reason can be parsed by the template that produced it. So a name that differs between homes is
replaced in place, and free text is never touched. Pure functions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping

MENTIONED = "{name} mentioned you in {what}"
OPENED = "you opened this thread; {name} commented"
SPOKE = "you commented in this thread; {name} commented"
ASSIGNED = "{name} assigned this task to you"
ACCEPTED = "{name} accepted your artifact"
DRAFTED = "{name} drafted {what}: approve or reject it"
PUBLISHED = "you drafted this; {name} published it as {what}"
REJECTED = "you drafted this; {name} rejected it"
CLASHES = "a possible contradiction waits for your judgement"
CHANGED = "a task {role}: {said}"
ROLES = ("assigned to you", "that you follow")

# Templates that contain a name, by the type of the notification.
NAMING: Mapping[str, tuple[str, ...]] = {
    "mention": (MENTIONED,),
    "thread_update": (OPENED, SPOKE),
    "task_assigned": (ASSIGNED,),
    "artifact_accepted": (ACCEPTED,),
    "review_needed": (DRAFTED,),
    "draft_approved": (PUBLISHED,),
    "draft_rejected": (REJECTED,),
}


def renamed(type: str, reason: str, rename: Callable[[str], str]) -> str:
    """Replace the name in a reason by `rename`; a reason without a name is returned as it is."""
    for pattern in _NAME_PATTERNS.get(type, ()):
        if (match := pattern.match(reason)) is not None:
            start, end = match.span(1)
            return reason[:start] + rename(match[1]) + reason[end:]
    return reason


def fits(type: str, reason: str, names: Collection[str]) -> bool:
    """True for a reason that matches its type and names only one of `names`."""
    match = next(
        filter(None, (form.fullmatch(reason) for form in _FULL_PATTERNS.get(type, ()))), None
    )
    return match is not None and match.groupdict().get("name") in (None, *names)


def _full_pattern(template: str) -> re.Pattern[str]:
    """Compile a pattern for a whole reason.

    Only text quoted from the record is free. A decision about a draft may add a reason, and older
    clients quote both sides of a possible contradiction.
    """
    parts = {
        "name": r"(?P<name>\S{1,200})",
        "what": r"(?:an? [a-z]{1,20}(?: of a task)?|[a-z]{1,20}_[0-9A-Z]{26})",
        "role": "|".join(ROLES).join(("(?:", ")")),
        "said": ".{0,2000}",
    }
    pattern = "".join(
        parts[part[1:-1]] if part[:1] == "{" else re.escape(part) for part in _FIELD.split(template)
    )
    return re.compile(
        pattern + ("(?:: .{0,2000})?" if template in (PUBLISHED, REJECTED, CLASHES) else "")
    )


def _name_pattern(template: str) -> re.Pattern[str]:
    """Compile a pattern up to the text after the name; what follows may be free text, and cut."""
    before, _, rest = template.partition("{name}")
    return re.compile(f"{re.escape(before)}(\\S{{1,200}}){re.escape(rest.partition('{')[0])}")


_FIELD = re.compile(r"(\{\w+\})")
_FULL_PATTERNS = {
    type: tuple(map(_full_pattern, templates))
    for type, templates in {
        **NAMING,
        "review_needed": (DRAFTED, CLASHES),
        "task_update": (CHANGED,),
    }.items()
}
_NAME_PATTERNS = {type: tuple(map(_name_pattern, templates)) for type, templates in NAMING.items()}
