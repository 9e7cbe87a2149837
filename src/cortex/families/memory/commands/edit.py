"""`cortex memory edit`: another wording for a memory, by options or in the person's editor.

What was typed is never lost.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Annotated

import typer

from cortex.base.errors import InputError
from cortex.base.types import Citation, Memory
from cortex.engine.library import Library
from cortex.engine.store import OWN, Remembered
from cortex.families.memory.commands.form import filled, form_of
from cortex.families.memory.commands.options import IdArgument, citations_of, memories
from cortex.families.memory.curation import edit
from cortex.families.memory.databases import databases
from cortex.families.memory.ids import told_id
from cortex.families.memory.selection import find_told
from cortex.families.memory.writer import WriteResult
from cortex.toolkit.terminal.editor import in_editor, read_file
from cortex.toolkit.terminal.options import JsonFlag, read_text
from cortex.toolkit.terminal.output import cut_to, print_json, say
from cortex.toolkit.terminal.prompts import decide
from cortex.toolkit.terminal.workspace import here

MAX_SHOWN = 300  # characters of each value in the question


def edit_one(
    told: IdArgument,
    title: Annotated[
        str | None, typer.Option("--title", metavar="TEXT", help="Another title.")
    ] = None,
    subtitle: Annotated[
        str | None, typer.Option("--subtitle", metavar="TEXT", help="Another second line.")
    ] = None,
    add_fact: Annotated[
        list[str] | None,
        typer.Option("--add-fact", metavar="TEXT", help="One more fact; may be repeated."),
    ] = None,
    remove_fact: Annotated[
        list[str] | None,
        typer.Option(
            "--remove-fact",
            metavar="TEXT",
            help="A fact to leave out, or its number; may be repeated.",
        ),
    ] = None,
    tag: Annotated[
        list[str] | None,
        typer.Option("--tag", metavar="TAG", help="One more tag; may be repeated."),
    ] = None,
    untag: Annotated[
        list[str] | None,
        typer.Option("--untag", metavar="TAG", help="A tag to leave out; may be repeated."),
    ] = None,
    text: Annotated[
        str | None, typer.Option("--text", metavar="TEXT", help="Another story; -: from stdin.")
    ] = None,
    kind: Annotated[
        str | None, typer.Option("--kind", metavar="KIND", help="Another kind.")
    ] = None,
    project: Annotated[
        str | None, typer.Option("--project", metavar="NAME", help="Another project.")
    ] = None,
    citation: Annotated[
        list[str] | None,
        typer.Option(
            "--cite",
            metavar="PATH[#SYMBOL]",
            help="Code that it speaks of, instead of what it cites.",
        ),
    ] = None,
    form: Annotated[
        Path | None,
        typer.Option("--form", metavar="FILE", help="A form that was filled in before."),
    ] = None,
    as_json: JsonFlag = False,
) -> int:
    """Change what a memory says; without options in your editor ($VISUAL or $EDITOR)."""
    options = (title, subtitle, add_fact, remove_fact, tag, untag, text, kind, project, citation)
    with memories() as library:
        one = find_told(library, told)
        cited = citations_of(library, here(), citation) if citation else None
        if form is not None:
            done = _from_form(library, one, read_file(form))
        elif any(option is not None for option in options):
            told_text = read_text(text) if text is not None else None
            memory = _reworded(
                one.memory,
                title=title,
                subtitle=subtitle,
                text=told_text,
                kind=kind,
                project=project,
            )
            memory = replace(
                memory,
                facts=_facts(memory.facts, add_fact or (), remove_fact or ()),
                concepts=_tags(memory.concepts, tag or (), untag or ()),
            )
            done = _keep(library, one, memory, cited)
        else:
            done = _in_editor(library, one)
        present = databases(library.settings)
        told_now = told_id(one, present)
    if as_json:
        again = done is not None and done.key != one.memory.key
        print_json(
            {
                "id": done.key if done else told_now,
                "changed": done is not None,
                "supersedes": told_now if again else None,
            }
        )
    elif done is None:
        say("Nothing was changed.")
    elif one.origin == OWN:
        say(f"✓ Changed {told_now}")
    else:
        say(f"✓ {done.key} takes the place of {told_now}; {one.origin} is as it was")
    return 0


def _keep(
    library: Library, one: Remembered, memory: Memory, cited: Sequence[Citation] | None
) -> WriteResult | None:
    if memory == one.memory and cited is None:
        return None
    decide(
        library.settings,
        "edit_memory",
        "\n".join([*_changes(one.memory, memory, cited), f"Change “{one.memory.title}”?"]),
    )
    return edit(library, one, memory, citations=cited)


def _changes(before: Memory, after: Memory, cited: Sequence[Citation] | None) -> Iterator[str]:
    """The lines that say what becomes of a memory."""
    for name in (field.name for field in fields(Memory)):
        value = getattr(after, name)
        if value != getattr(before, name):
            told = "; ".join(value) if isinstance(value, tuple) else str(value)
            yield f"  {name}: {cut_to(told, MAX_SHOWN)}"
    if cited is not None:
        yield "  cites: " + ", ".join(
            f"{one.path}#{one.symbol}" if one.symbol else one.path for one in cited
        )


# -- by options
# --------------------------------------------------------------------------------------------------------


def _reworded(memory: Memory, **told: str | None) -> Memory:
    return replace(
        memory, **{name: value.strip() for name, value in told.items() if value is not None}
    )


def _facts(facts: tuple[str, ...], more: Sequence[str], fewer: Sequence[str]) -> tuple[str, ...]:
    gone: set[int] = set()
    for told in fewer:
        places = [place for place, fact in enumerate(facts) if fact.strip() == told.strip()]
        if not places and told.strip().isdecimal() and 1 <= int(told) <= len(facts):
            places = [int(told) - 1]
        if not places:
            raise InputError(
                "ARGUMENT_INVALID", f"there is no fact {told!r}; name it by its text or its number"
            )
        gone.update(places)
    kept = [fact for place, fact in enumerate(facts) if place not in gone]
    return tuple(dict.fromkeys((*kept, *(fact.strip() for fact in more if fact.strip()))))


def _tags(tags: tuple[str, ...], more: Sequence[str], fewer: Sequence[str]) -> tuple[str, ...]:
    gone = {told.strip().casefold() for told in fewer}
    unknown = gone - {tag.casefold() for tag in tags}
    if unknown:
        raise InputError(
            "ARGUMENT_INVALID",
            f"there is no tag {min(unknown)!r}; its tags: {', '.join(tags) or 'none'}",
        )
    kept = {tag.casefold(): tag for tag in tags if tag.casefold() not in gone}
    for tag in more:
        if tag.strip():
            kept.setdefault(tag.strip().casefold(), tag.strip())
    return tuple(kept.values())


# -- in an editor
# ------------------------------------------------------------------------------------------------------


def _in_editor(library: Library, one: Remembered) -> WriteResult | None:
    """Have a person fill in a form."""
    return in_editor(
        one.memory.key,
        form_of(one.memory),
        lambda text: _from_form(library, one, text),
        again=f"cortex memory edit {one.memory.key} --form",
        instead="say what to change, with --title for example",
    )


def _from_form(library: Library, one: Remembered, text: str) -> WriteResult | None:
    return _keep(library, one, filled(one.memory, text), None)
