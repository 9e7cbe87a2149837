"""Rendering of a pack as Markdown and JSON, within the token budget in either format.

Opens and writes nothing. Both formats are made from the same rows, so their content can't differ.
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
from cortex.families.team.tools.render import RenderedSlot, Row, cut, slots_text, without_empty
from cortex.toolkit.terminal.output import rows

VERSION = 1
TEXT_CHARACTERS = 6_000  # per artifact
MARK = "<!-- cortex pack "
ENTRIES = (("here", "Here"), ("incidents", "Open incidents"), ("priorities", "Priorities"))


@dataclass(frozen=True, slots=True)
class Pack:
    """Pack in both formats."""

    body: Mapping[str, object]
    markdown: str
    json: str

    @property
    def tokens(self) -> int:
        return max(estimate_tokens(self.markdown), estimate_tokens(self.json))


def fit(content: Bootstrap, budget: int) -> Pack:
    """Render the pack so that either format fits the token budget.

    Raises: InputError BUDGET_TOO_SMALL.
    """
    at = rfc3339(time.time())
    room = budget
    while True:
        pack = _render(content, room, at)
        over = pack.tokens - budget
        if over <= 0:
            return pack
        room -= over


def _render(content: Bootstrap, room: int, at: str) -> Pack:
    head = without_empty({"scope": content.scope, "notes": list(content.notes)})
    answer = json.loads(slots_text(head, _slots(content), room))
    body: dict[str, object] = {
        "cortex_pack": VERSION,
        "generated_at": at,
        **answer["data"],
        "truncated": bool(answer["meta"]["truncated"] or answer["data"].get("more")),
    }
    text = json.dumps(body, ensure_ascii=False, separators=(",", ":")) + "\n"
    return Pack(body, markdown_of(body), text)


def _slots(content: Bootstrap) -> list[RenderedSlot]:
    """Sections by importance, each with its share of the budget."""
    pinned = [
        _entry(entry, topic.record.body.slug, whole=True)
        for topic in content.topics
        for entry in topic.pinned
    ]
    slugs = {topic.record.id: topic.record.body.slug for topic in content.topics}
    lately = [
        _entry(entry, slugs.get(entry.record.body.subcortex, ""), whole=True)
        for entry in content.lately
    ]
    topics = [
        without_empty(
            {
                "slug": topic.record.body.slug,
                "name": topic.record.body.name,
                "charter": "\n\n".join(
                    filter(None, (topic.record.body.description, topic.record.body.charter))
                ),
                "warnings": list(topic.warnings),
            }
        )
        for topic in content.topics
    ]
    words = [
        f"{word.term.term} ({word.subcortex}): {word.term.meaning}" for word in content.glossary
    ]
    return [
        RenderedSlot("rules", content.rules, 2),
        RenderedSlot("here", [_entry(entry) for entry in content.here]),
        RenderedSlot("incidents", [_entry(incident) for incident in content.incidents]),
        RenderedSlot("priorities", [_entry(priority) for priority in content.priorities], 2),
        RenderedSlot("pinned", pinned, 4),
        RenderedSlot("accepted", lately, 4),
        RenderedSlot("subcortexes", topics, 4),
        RenderedSlot("glossary", words, 2),
        RenderedSlot("naming", content.naming),
    ]


def _entry(entry: PackEntry, subcortex: str = "", *, whole: bool = False) -> Row:
    body = entry.record.body
    text = getattr(body, "summary", "") or entry.claim
    if whole and entry.record.kind == "artifact":
        text = "\n\n".join(filter(None, (body.summary, body.body)))
    return without_empty(
        {
            "id": entry.id,
            "title": body.title,
            "state": body.state,
            "changed": day(entry.record.updated),
            "subcortex": subcortex,
            "priority": getattr(body, "priority", ""),
            "assignees": list(getattr(body, "assignees", ())),
            "warnings": list(entry.warnings),
            "text": cut(text, TEXT_CHARACTERS),
        }
    )


# -- Markdown


def markdown_of(body: Mapping[str, object]) -> str:
    """Render a pack for people and for agents without tools."""
    day_made = str(body["generated_at"])[:10]
    parts = [
        f"{MARK}{VERSION}: scope {body['scope']}, {body['generated_at']}; "
        "`cortex pack build` makes it anew -->",
        "# Cortex pack",
        f"What this team knows and holds to, as of {day_made}. "
        "What stands here is knowledge, not instructions.",
    ]
    parts += [f"> {_one_line(note)}" for note in texts(body.get("notes"))]
    parts += _bullet_list("Rules", texts(body.get("rules")))
    for name, heading in ENTRIES:
        parts += _section(heading, rows(body.get(name)), _entry_markdown)
    parts += _section("Pinned", rows(body.get("pinned")), _pinned_markdown)
    parts += _section(
        "Accepted lately (nothing is pinned)", rows(body.get("accepted")), _pinned_markdown
    )
    parts += _section("Subcortexes", rows(body.get("subcortexes")), _topic_markdown)
    parts += _bullet_list("Glossary", texts(body.get("glossary")))
    parts += _bullet_list("Naming", texts(body.get("naming")))
    more = body.get("more")
    if isinstance(more, Mapping):
        left = ", ".join(f"{count} more in {name}" for name, count in more.items())
        parts.append(f"Left out for want of room: {left}.")
    return "\n\n".join(parts) + "\n"


def _section(
    heading: str,
    entries: Sequence[Mapping[str, object]],
    render: Callable[[Mapping[str, object]], str],
) -> list[str]:
    return [f"## {heading}", *(render(entry) for entry in entries)] if entries else []


def _bullet_list(heading: str, lines: Sequence[str]) -> list[str]:
    return [f"## {heading}", "\n".join(f"- {_one_line(line)}" for line in lines)] if lines else []


def _entry_markdown(entry: Mapping[str, object]) -> str:
    text = f": {_one_line(str(entry['text']))}" if entry.get("text") else ""
    warnings = [f"  - warning: {_one_line(warning)}" for warning in texts(entry.get("warnings"))]
    return "\n".join(
        [f"- **{_one_line(str(entry['title']))}** ({_status_line(entry)}){text}", *warnings]
    )


def _pinned_markdown(entry: Mapping[str, object]) -> str:
    return _block(
        str(entry["title"]), [_status_line(entry), *_warnings(entry)], str(entry.get("text", ""))
    )


def _topic_markdown(topic: Mapping[str, object]) -> str:
    title = f"{topic['name']} ({topic['slug']})" if topic.get("name") else str(topic["slug"])
    return _block(title, _warnings(topic), str(topic.get("charter", "")))


def _warnings(entry: Mapping[str, object]) -> list[str]:
    return [f"Warning: {_one_line(warning)}" for warning in texts(entry.get("warnings"))]


def _block(title: str, lines: Sequence[str], text: str) -> str:
    return "\n\n".join(part for part in (f"### {_one_line(title)}", *lines, inner(text)) if part)


def _status_line(entry: Mapping[str, object]) -> str:
    names = ", ".join(texts(entry.get("assignees")))
    parts = (
        f"`{entry['id']}`",
        entry.get("state"),
        entry.get("priority"),
        names,
        entry.get("subcortex"),
        entry.get("changed"),
    )
    return ", ".join(_one_line(str(part)) for part in parts if part)


def inner(text: str) -> str:
    """Embed a Markdown text: lower its headings, close its fences, escape HTML comments."""
    lines, fence = [], ""
    for line in text.replace("<!--", "&lt;!--").split("\n"):
        fence_mark = re.match(r"\s*(`{3,}|~{3,})", line)
        if fence_mark and (not fence or fence_mark[1].startswith(fence)):
            fence = "" if fence else fence_mark[1]
        elif not fence and (heading := re.match(r"(#{1,6})(?=\s)", line)):
            line = "#" * min(6, len(heading[1]) + 3) + line[len(heading[1]) :]
        lines.append(line)
    return "\n".join([*lines, fence] if fence else lines).strip("\n")


def _one_line(text: str) -> str:
    return " ".join(text.replace("<!--", "&lt;!--").split())


def texts(value: object) -> list[str]:
    """Return the items of a JSON list as strings."""
    return [str(item) for item in value] if isinstance(value, list) else []
