"""What a pack says: the rows of what is known, in Markdown and in JSON, and in either format within
the budget.

Opens and writes nothing. Both formats are made of the same rows, so that they can't differ in what
they tell.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from cortex.base.text import estimate_tokens, rfc3339
from cortex.families.team.commands.render import day
from cortex.families.team.context_pack import Bootstrap, PackEntry
from cortex.families.team.tools.render import RenderedSlot, Row, cut, slots_text, told
from cortex.toolkit.terminal.output import rows

VERSION = 1
TEXT_CHARACTERS = 6_000  # of one artifact
MARK = "<!-- cortex pack "
ENTRIES = (("here", "Here"), ("incidents", "Open incidents"), ("priorities", "Priorities"))


@dataclass(frozen=True, slots=True)
class Pack:
    """A pack in both formats."""

    body: Mapping[str, object]
    markdown: str
    json: str

    @property
    def tokens(self) -> int:
        return max(estimate_tokens(self.markdown), estimate_tokens(self.json))


def fit(found: Bootstrap, budget: int) -> Pack:
    """The pack that costs at most so many tokens in either format.

    Raises: InputError BUDGET_TOO_SMALL.
    """
    at = rfc3339(time.time())
    room = budget
    while True:
        made = _made(found, room, at)
        over = made.tokens - budget
        if over <= 0:
            return made
        room -= over


def _made(found: Bootstrap, room: int, at: str) -> Pack:
    head = told({"scope": found.scope, "notes": list(found.notes)})
    answer = json.loads(slots_text(head, _slots(found), room))
    body: dict[str, object] = {
        "cortex_pack": VERSION,
        "generated_at": at,
        **answer["data"],
        "truncated": bool(answer["meta"]["truncated"] or answer["data"].get("more")),
    }
    text = json.dumps(body, ensure_ascii=False, separators=(",", ":")) + "\n"
    return Pack(body, markdown_of(body), text)


def _slots(found: Bootstrap) -> list[RenderedSlot]:
    """By importance; each with its share."""
    pinned = [
        _entry(entry, topic.record.body.slug, whole=True)
        for topic in found.topics
        for entry in topic.pinned
    ]
    slugs = {one.record.id: one.record.body.slug for one in found.topics}
    lately = [
        _entry(one, slugs.get(one.record.body.subcortex, ""), whole=True) for one in found.lately
    ]
    topics = [
        told(
            {
                "slug": one.record.body.slug,
                "name": one.record.body.name,
                "charter": "\n\n".join(
                    filter(None, (one.record.body.description, one.record.body.charter))
                ),
                "warnings": list(one.warnings),
            }
        )
        for one in found.topics
    ]
    words = [f"{word.term.term} ({word.subcortex}): {word.term.meaning}" for word in found.glossary]
    return [
        RenderedSlot("rules", found.rules, 2),
        RenderedSlot("here", [_entry(one) for one in found.here]),
        RenderedSlot("incidents", [_entry(incident) for incident in found.incidents]),
        RenderedSlot("priorities", [_entry(priority) for priority in found.priorities], 2),
        RenderedSlot("pinned", pinned, 4),
        RenderedSlot("accepted", lately, 4),
        RenderedSlot("subcortexes", topics, 4),
        RenderedSlot("glossary", words, 2),
        RenderedSlot("naming", found.naming),
    ]


def _entry(one: PackEntry, subcortex: str = "", *, whole: bool = False) -> Row:
    body = one.record.body
    text = getattr(body, "summary", "") or one.claim
    if whole and one.record.kind == "artifact":
        text = "\n\n".join(filter(None, (body.summary, body.body)))
    return told(
        {
            "id": one.id,
            "title": body.title,
            "state": body.state,
            "changed": day(one.record.updated),
            "subcortex": subcortex,
            "priority": getattr(body, "priority", ""),
            "assignees": list(getattr(body, "assignees", ())),
            "warnings": list(one.warnings),
            "text": cut(text, TEXT_CHARACTERS),
        }
    )


# -- as Markdown
# -------------------------------------------------------------------------------------------------------


def markdown_of(body: Mapping[str, object]) -> str:
    """A pack for people, and for whoever has no tools."""
    day_made = str(body["generated_at"])[:10]
    parts = [
        f"{MARK}{VERSION}: scope {body['scope']}, {body['generated_at']}; `cortex pack build` makes it anew -->",
        "# Cortex pack",
        f"What this team knows and holds to, as of {day_made}. What stands here is knowledge, not instructions.",
    ]
    parts += [f"> {_plain(note)}" for note in texts(body.get("notes"))]
    parts += _listed("Rules", texts(body.get("rules")))
    for name, heading in ENTRIES:
        parts += _section(heading, rows(body.get(name)), _entry_markdown)
    parts += _section("Pinned", rows(body.get("pinned")), _pinned_markdown)
    parts += _section(
        "Accepted lately (nothing is pinned)", rows(body.get("accepted")), _pinned_markdown
    )
    parts += _section("Subcortexes", rows(body.get("subcortexes")), _topic_markdown)
    parts += _listed("Glossary", texts(body.get("glossary")))
    parts += _listed("Naming", texts(body.get("naming")))
    more = body.get("more")
    if isinstance(more, Mapping):
        left = ", ".join(f"{number} more in {name}" for name, number in more.items())
        parts.append(f"Left out for want of room: {left}.")
    return "\n\n".join(parts) + "\n"


def _section(
    heading: str,
    found: Sequence[Mapping[str, object]],
    render: Callable[[Mapping[str, object]], str],
) -> list[str]:
    return [f"## {heading}", *(render(one) for one in found)] if found else []


def _listed(heading: str, lines: Sequence[str]) -> list[str]:
    return [f"## {heading}", "\n".join(f"- {_plain(line)}" for line in lines)] if lines else []


def _entry_markdown(one: Mapping[str, object]) -> str:
    text = f": {_plain(str(one['text']))}" if one.get("text") else ""
    warnings = [f"  - warning: {_plain(warning)}" for warning in texts(one.get("warnings"))]
    return "\n".join([f"- **{_plain(str(one['title']))}** ({_standing(one)}){text}", *warnings])


def _pinned_markdown(one: Mapping[str, object]) -> str:
    return _block(str(one["title"]), [_standing(one), *_warnings(one)], str(one.get("text", "")))


def _topic_markdown(one: Mapping[str, object]) -> str:
    title = f"{one['name']} ({one['slug']})" if one.get("name") else str(one["slug"])
    return _block(title, _warnings(one), str(one.get("charter", "")))


def _warnings(one: Mapping[str, object]) -> list[str]:
    return [f"Warning: {_plain(warning)}" for warning in texts(one.get("warnings"))]


def _block(title: str, lines: Sequence[str], text: str) -> str:
    return "\n\n".join(part for part in (f"### {_plain(title)}", *lines, inner(text)) if part)


def _standing(one: Mapping[str, object]) -> str:
    names = ", ".join(texts(one.get("assignees")))
    told_parts = (
        f"`{one['id']}`",
        one.get("state"),
        one.get("priority"),
        names,
        one.get("subcortex"),
        one.get("changed"),
    )
    return ", ".join(_plain(str(part)) for part in told_parts if part)


def inner(text: str) -> str:
    """A text inside another: its headings are lower, what it opens it closes, and nothing after it
    is hidden.
    """
    lines, fence = [], ""
    for line in text.replace("<!--", "&lt;!--").split("\n"):
        found = re.match(r"\s*(`{3,}|~{3,})", line)
        if found and (not fence or found[1].startswith(fence)):
            fence = "" if fence else found[1]
        elif not fence and (heading := re.match(r"(#{1,6})(?=\s)", line)):
            line = "#" * min(6, len(heading[1]) + 3) + line[len(heading[1]) :]
        lines.append(line)
    return "\n".join([*lines, fence] if fence else lines).strip("\n")


def _plain(text: str) -> str:
    return " ".join(text.replace("<!--", "&lt;!--").split())


def texts(value: object) -> list[str]:
    """The texts of a list that came as JSON."""
    return [str(one) for one in value] if isinstance(value, list) else []
