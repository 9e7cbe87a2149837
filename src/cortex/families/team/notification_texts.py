"""Why somebody hears of something, in a sentence: the templates, and where in such a sentence a
name stands.

What is written by a template can be read by it: whoever is called otherwise elsewhere is named
otherwise there, and no word of anybody's text is touched. Pure.
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

# The templates that name somebody, by the type of the notification.
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
    """The sentence with its name as `rename` has it; one that names nobody is itself."""
    for pattern in _PATTERNS.get(type, ()):
        if (found := pattern.match(reason)) is not None:
            start, end = found.span(1)
            return reason[:start] + rename(found[1]) + reason[end:]
    return reason


def fits(type: str, reason: str, names: Collection[str]) -> bool:
    """Whether a sentence is one of those for its type, and names nobody but one of these."""
    found = next(filter(None, (form.fullmatch(reason) for form in _FORMS.get(type, ()))), None)
    return found is not None and found.groupdict().get("name") in (None, *names)


def _form(template: str) -> re.Pattern[str]:
    """Reads a whole sentence; only what is said in the record itself may be anything, and an answer
    to a draft may say why.

    Of a possible contradiction older homes quote both sides.
    """
    parts = {
        "name": r"(?P<name>\S{1,200})",
        "what": r"(?:an? [a-z]{1,20}(?: of a task)?|[a-z]{1,20}_[0-9A-Z]{26})",
        "role": "|".join(ROLES).join(("(?:", ")")),
        "said": ".{0,2000}",
    }
    pattern = "".join(
        parts[one[1:-1]] if one[:1] == "{" else re.escape(one) for one in _FIELD.split(template)
    )
    return re.compile(
        pattern + ("(?:: .{0,2000})?" if template in (PUBLISHED, REJECTED, CLASHES) else "")
    )


def _pattern(template: str) -> re.Pattern[str]:
    """Reads a sentence up to what follows its name: the end may be somebody's words, and cut."""
    before, _, rest = template.partition("{name}")
    return re.compile(f"{re.escape(before)}(\\S{{1,200}}){re.escape(rest.partition('{')[0])}")


_FIELD = re.compile(r"(\{\w+\})")
_FORMS = {
    type: tuple(map(_form, templates))
    for type, templates in {
        **NAMING,
        "review_needed": (DRAFTED, CLASHES),
        "task_update": (CHANGED,),
    }.items()
}
_PATTERNS = {type: tuple(map(_pattern, templates)) for type, templates in NAMING.items()}
