"""`cortex pack build`: what somebody new should know, as a file for people and for agents that have no MCP tools.

The content is the bootstrap pack, with the texts of what is pinned, since nobody can open an id there, and with days instead of ages,
since a file stays. Both formats are made of the same rows and both keep the budget. Sensitive records aren't in it unless told so.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from cortex.cli import workspace
from cortex.cli.options import JsonFlag
from cortex.cli.person import rows
from cortex.cli.show import print_json, printable, say
from cortex.cli.team_options import team
from cortex.cli.team_show import day
from cortex.errors import ConfigError, FileError, InputError
from cortex.families.team.answers import Row, Slot, cut, slots_text, told
from cortex.kinds import SENSITIVE
from cortex.library import Library
from cortex.records.bootstrapping import GLOBAL, SUBCORTEX, WORKSPACE
from cortex.records.packs import Bootstrap, Entry, Topic, bootstrap
from cortex.records.routing import Route, route
from cortex.text import estimate_tokens, rfc3339

VERSION = 1
BUDGET, MOST_BUDGET = 16_000, 200_000  # tokens
TEXT_CHARACTERS = 6_000  # of one artifact
MARK = "<!-- cortex pack "
JSON_MARK = '{"cortex_pack":'
NAME = "cortex-pack"
ENTRIES = (("here", "Here"), ("incidents", "Open incidents"), ("priorities", "Priorities"))

app = typer.Typer(
    name="pack", help="What somebody new should know, as a file for where there are no tools.", no_args_is_help=True
)


class Format(StrEnum):
    """How a pack is written."""

    MARKDOWN = "markdown"
    JSON = "json"


@dataclass(frozen=True, slots=True)
class Pack:
    """A pack in both formats."""

    body: Mapping[str, object]
    markdown: str
    json: str

    @property
    def tokens(self) -> int:
        return max(estimate_tokens(self.markdown), estimate_tokens(self.json))


@app.callback()
def _group() -> None:
    """Has `build` be a command of its own although it is the only one."""


@app.command("build")
def build(
    output: Annotated[
        str,
        typer.Option("--output", "-o", metavar="FILE", help="Where to write it; default: cortex-pack.md; -: stdout."),
    ] = "",
    format: Annotated[
        Format | None, typer.Option("--format", help="How to write it; default: by the name of the file.")
    ] = None,
    scope: Annotated[
        str,
        typer.Option(
            "--scope",
            metavar="SCOPE",
            help="global, workspace or subcortex:SLUG; default: the workspace here, or global where there is none.",
        ),
    ] = "",
    budget: Annotated[
        int, typer.Option("--budget", max=MOST_BUDGET, metavar="N", help="The most tokens that it may cost.")
    ] = BUDGET,
    sensitive: Annotated[bool, typer.Option("--sensitive", help="With sensitive records.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite a file that is no pack.")] = False,
    as_json: JsonFlag = False,
) -> int:
    """Write what somebody new should know into a file: rules, subcortexes with charters, what is pinned, words, priorities, incidents."""
    if output == "-" and as_json:
        raise InputError(
            "ARGUMENT_INVALID", "--output - writes the pack to stdout: take --format json instead of --json"
        )
    chosen = format or (Format.JSON if output.lower().endswith(".json") else Format.MARKDOWN)
    path = Path(output or f"{NAME}.{'json' if chosen is Format.JSON else 'md'}")
    if output != "-":
        _check_free(path, force=force)
    with team() as library:
        found = _found(library, scope.strip(), sensitive=sensitive)
    made = fit(found, budget)
    text = made.json if chosen is Format.JSON else made.markdown
    if output == "-":
        sys.stdout.reconfigure(encoding="utf-8", errors="replace")  # type: ignore[union-attr]
        print(printable(text, lines=True), end="")
        return 0
    _write(path, text)
    if as_json:
        print_json(_told(path, chosen, made, text))
    else:
        _say(path, made, text)
    return 0


def _told(path: Path, chosen: Format, made: Pack, text: str) -> dict[str, object]:
    counts = {name: len(value) for name, value in made.body.items() if isinstance(value, list)}
    return {
        "output": str(path.absolute()),
        "format": chosen.value,
        "scope": made.body["scope"],
        "tokens": estimate_tokens(text),
        "truncated": made.body["truncated"],
        "counts": counts,
    }


def _say(path: Path, made: Pack, text: str) -> None:
    say(f"✓ Wrote {path}: {made.body['scope']}, {estimate_tokens(text):,} tokens")
    for note in _texts(made.body.get("notes")):
        say(f"note: {note}", error=True)
    if made.body["truncated"]:
        say("note: not all of it found room; more with --budget", error=True)


# -- what is in it -----------------------------------------------------------------------------------------------------


def _found(library: Library, scope: str, *, sensitive: bool) -> Bootstrap:
    """What to tell. Raises: InputError ARGUMENT_INVALID, SCOPE_NOT_FOUND; ConfigError."""
    if scope and scope not in (GLOBAL, WORKSPACE) and not scope.startswith(SUBCORTEX):
        raise InputError("ARGUMENT_INVALID", f"unknown scope {scope!r}; known: global, workspace, subcortex:SLUG")
    way = Route()
    if scope in ("", WORKSPACE):
        try:
            way = route(library.store.recorded, workspace.find([])[0].settings.families)
            scope = WORKSPACE
        except ConfigError as error:
            if scope or error.code != "WORKSPACE_MISSING":
                raise
            scope = GLOBAL
    found = bootstrap(library, scope, workspace_route=way)
    return found if sensitive else _without_sensitive(found)


def _without_sensitive(found: Bootstrap) -> Bootstrap:
    """What may be passed on, and how many records may not."""
    entries = [*found.here, *found.incidents, *found.priorities, *(pin for one in found.topics for pin in one.pinned)]
    gone = {one.id for one in entries if _is_sensitive(one)}
    topics = [replace(one, pinned=_open(one.pinned)) for one in found.topics if not _is_sensitive(one)]
    gone |= {one.record.id for one in found.topics if _is_sensitive(one)}
    note = f"{len(gone)} sensitive record{'' if len(gone) == 1 else 's'} left out; take them in with --sensitive"
    slugs = {one.record.body.slug for one in topics}
    return replace(
        found,
        topics=tuple(topics),
        here=_open(found.here),
        incidents=_open(found.incidents),
        priorities=_open(found.priorities),
        glossary=tuple(word for word in found.glossary if word.subcortex in slugs),
        naming=tuple(dict.fromkeys(rule for one in topics if one.ours for rule in one.record.body.naming)),
        notes=(*found.notes, *((note,) if gone else ())),
    )


def _open(entries: Sequence[Entry]) -> tuple[Entry, ...]:
    return tuple(one for one in entries if not _is_sensitive(one))


def _is_sensitive(one: Entry | Topic) -> bool:
    return one.record.body.sensitivity == SENSITIVE


def fit(found: Bootstrap, budget: int) -> Pack:
    """The pack that costs at most so many tokens in either format. Raises: InputError BUDGET_TOO_SMALL."""
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


def _slots(found: Bootstrap) -> list[Slot]:
    """By importance; each with its share."""
    pinned = [_entry(entry, one.record.body.slug) for one in found.topics for entry in one.pinned]
    topics = [
        told(
            {
                "slug": one.record.body.slug,
                "name": one.record.body.name,
                "charter": "\n\n".join(filter(None, (one.record.body.description, one.record.body.charter))),
            }
        )
        for one in found.topics
    ]
    words = [f"{word.term.term} ({word.subcortex}): {word.term.meaning}" for word in found.glossary]
    return [
        Slot("rules", found.rules, 2),
        Slot("here", [_entry(one) for one in found.here]),
        Slot("incidents", [_entry(one) for one in found.incidents]),
        Slot("priorities", [_entry(one) for one in found.priorities], 2),
        Slot("pinned", pinned, 4),
        Slot("subcortexes", topics, 4),
        Slot("glossary", words, 2),
        Slot("naming", found.naming),
    ]


def _entry(one: Entry, subcortex: str = "") -> Row:
    body = one.record.body
    text = getattr(body, "summary", "") or one.claim
    if subcortex and one.record.kind == "artifact":
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


# -- as Markdown -------------------------------------------------------------------------------------------------------


def markdown_of(body: Mapping[str, object]) -> str:
    """A pack for people, and for whoever has no tools."""
    day_made = str(body["generated_at"])[:10]
    parts = [
        f"{MARK}{VERSION}: scope {body['scope']}, {body['generated_at']}; `cortex pack build` makes it anew -->",
        "# Cortex pack",
        f"What this team knows and holds to, as of {day_made}. What stands here is knowledge, not instructions.",
    ]
    parts += [f"> {_plain(note)}" for note in _texts(body.get("notes"))]
    parts += _listed("Rules", _texts(body.get("rules")))
    for name, heading in ENTRIES:
        parts += _section(heading, rows(body.get(name)), _entry_markdown)
    parts += _section("Pinned", rows(body.get("pinned")), _pinned_markdown)
    parts += _section("Subcortexes", rows(body.get("subcortexes")), _topic_markdown)
    parts += _listed("Glossary", _texts(body.get("glossary")))
    parts += _listed("Naming", _texts(body.get("naming")))
    more = body.get("more")
    if isinstance(more, Mapping):
        left = ", ".join(f"{number} more in {name}" for name, number in more.items())
        parts.append(f"Left out for want of room: {left}.")
    return "\n\n".join(parts) + "\n"


def _section(
    heading: str, found: Sequence[Mapping[str, object]], render: Callable[[Mapping[str, object]], str]
) -> list[str]:
    return [f"## {heading}", *(render(one) for one in found)] if found else []


def _listed(heading: str, lines: Sequence[str]) -> list[str]:
    return [f"## {heading}", "\n".join(f"- {_plain(line)}" for line in lines)] if lines else []


def _entry_markdown(one: Mapping[str, object]) -> str:
    text = f": {_plain(str(one['text']))}" if one.get("text") else ""
    warnings = [f"  - warning: {_plain(warning)}" for warning in _texts(one.get("warnings"))]
    return "\n".join([f"- **{_plain(str(one['title']))}** ({_standing(one)}){text}", *warnings])


def _pinned_markdown(one: Mapping[str, object]) -> str:
    warnings = [f"Warning: {_plain(warning)}" for warning in _texts(one.get("warnings"))]
    return _block(str(one["title"]), [_standing(one), *warnings], str(one.get("text", "")))


def _topic_markdown(one: Mapping[str, object]) -> str:
    return _block(
        f"{one['name']} ({one['slug']})" if one.get("name") else str(one["slug"]), [], str(one.get("charter", ""))
    )


def _block(title: str, lines: Sequence[str], text: str) -> str:
    return "\n\n".join(part for part in (f"### {_plain(title)}", *lines, inner(text)) if part)


def _standing(one: Mapping[str, object]) -> str:
    names = ", ".join(_texts(one.get("assignees")))
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
    """A text inside another: its headings are lower, what it opens it closes, and nothing after it is hidden."""
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


def _texts(value: object) -> list[str]:
    return [str(one) for one in value] if isinstance(value, list) else []


# -- the file ----------------------------------------------------------------------------------------------------------


def _check_free(path: Path, *, force: bool) -> None:
    """Refuse to overwrite what is no pack. Raises: InputError, FileError."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            begin = file.read(len(MARK) + len(JSON_MARK))
    except FileNotFoundError:
        return
    except OSError as error:
        raise FileError("PERMISSION_DENIED", f"{path} can't be written: {error.strerror}") from None
    if begin and not force and not begin.startswith((MARK, JSON_MARK)):
        raise InputError(
            "ARGUMENT_INVALID",
            f"{path} is there already, and no pack; nothing was written",
            suggestions=("Choose another name with --output, or overwrite it with --force.",),
        )


def _write(path: Path, text: str) -> None:
    """Write aside, then rename: a reader sees the old pack or the new one. Raises: FileError."""
    target = Path(os.path.realpath(path))
    made = ""
    try:
        number, made = tempfile.mkstemp(dir=target.parent, prefix=f".{NAME}-", suffix=".tmp")
        with os.fdopen(number, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
        os.chmod(made, target.stat().st_mode & 0o777 if target.exists() else 0o644)
        os.replace(made, target)
    except OSError as error:
        code = "FILE_NOT_FOUND" if isinstance(error, FileNotFoundError) else "PERMISSION_DENIED"
        raise FileError(code, f"{path} can't be written: {error.strerror}") from None
    finally:
        with suppress(OSError):
            os.unlink(made)
