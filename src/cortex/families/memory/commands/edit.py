"""`cortex memory edit`: change a memory by options or in the user's editor.

Text that was typed is never lost.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Annotated

from cortex.base.errors import InputError
from cortex.base.types import Citation, Memory
from cortex.engine.library import Library
from cortex.engine.store import OWN, Remembered
from cortex.families.memory.commands.form import filled, form_of
from cortex.families.memory.commands.options import IdArgument, citations_of, memories
from cortex.families.memory.curation import edit
from cortex.families.memory.databases import databases
from cortex.families.memory.ids import display_id
from cortex.families.memory.selection import find_by_id_or_prefix
from cortex.families.memory.writer import WriteResult
from cortex.toolkit.terminal.editor import in_editor, read_file
from cortex.toolkit.terminal.option_sets import option
from cortex.toolkit.terminal.options import JsonFlag, read_text
from cortex.toolkit.terminal.output import cut_to, print_json, say
from cortex.toolkit.terminal.prompts import decide
from cortex.toolkit.terminal.workspace import here

# Characters of each value in the confirmation.
MAX_SHOWN = 300


def edit_one(
    memory_id: IdArgument,
    title: Annotated[str | None, option("--title TEXT", "Another title.")] = None,
    subtitle: Annotated[str | None, option("--subtitle TEXT", "Another second line.")] = None,
    add_fact: Annotated[
        list[str] | None, option("--add-fact TEXT", "One more fact; may be repeated.")
    ] = None,
    remove_fact: Annotated[
        list[str] | None,
        option("--remove-fact TEXT", "A fact to leave out, or its number; may be repeated."),
    ] = None,
    tag: Annotated[list[str] | None, option("--tag TAG", "One more tag; may be repeated.")] = None,
    untag: Annotated[
        list[str] | None, option("--untag TAG", "A tag to leave out; may be repeated.")
    ] = None,
    text: Annotated[str | None, option("--text TEXT", "Another story; -: from stdin.")] = None,
    kind: Annotated[str | None, option("--kind KIND", "Another kind.")] = None,
    project: Annotated[str | None, option("--project NAME", "Another project.")] = None,
    citation: Annotated[
        list[str] | None,
        option("--cite PATH[#SYMBOL]", "Code that it speaks of, instead of what it cites."),
    ] = None,
    form: Annotated[Path | None, option("--form FILE", "A form that was filled in before.")] = None,
    as_json: JsonFlag = False,
) -> int:
    """Change what a memory says; without options in your editor ($VISUAL or $EDITOR)."""
    texts = {"title": title, "subtitle": subtitle, "text": text, "kind": kind, "project": project}
    lists = (add_fact, remove_fact, tag, untag, citation)
    with memories() as library:
        record = find_by_id_or_prefix(library, memory_id)
        cited = citations_of(library, here(), citation) if citation else None
        if form is not None:
            done = _from_form(library, record, read_file(form))
        elif any(value is not None for value in (*texts.values(), *lists)):
            new_texts = {name: value for name, value in texts.items() if value is not None}
            if text is not None:
                new_texts["text"] = read_text(text)
            memory = replace(
                record.memory,
                facts=_facts(record.memory.facts, add_fact or (), remove_fact or ()),
                concepts=_tags(record.memory.concepts, tag or (), untag or ()),
                **{name: value.strip() for name, value in new_texts.items()},
            )
            done = _save(library, record, memory, cited)
        else:
            done = _in_editor(library, record)
        shown_id = display_id(record, databases(library.settings))
    if as_json:
        superseded = done is not None and done.key != record.memory.key
        print_json(
            {
                "id": done.key if done else shown_id,
                "changed": done is not None,
                "supersedes": shown_id if superseded else None,
            }
        )
    elif done is None:
        say("Nothing was changed.")
    elif record.origin == OWN:
        say(f"✓ Changed {shown_id}")
    else:
        say(f"✓ {done.key} takes the place of {shown_id}; {record.origin} is as it was")
    return 0


def _save(
    library: Library, record: Remembered, memory: Memory, cited: Sequence[Citation] | None
) -> WriteResult | None:
    if memory == record.memory and cited is None:
        return None
    question = f"Change “{record.memory.title}”?"
    lines = [*_changes(record.memory, memory, cited), question]
    decide(library.settings, "edit_memory", "\n".join(lines))
    return edit(library, record, memory, citations=cited)


def _changes(before: Memory, after: Memory, cited: Sequence[Citation] | None) -> Iterator[str]:
    """Lines that describe the changes to a memory."""
    for name in (field.name for field in fields(Memory)):
        value = getattr(after, name)
        if value != getattr(before, name):
            shown = "; ".join(value) if isinstance(value, tuple) else str(value)
            yield f"  {name}: {cut_to(shown, MAX_SHOWN)}"
    if cited is not None:
        yield "  cites: " + ", ".join(
            f"{citation.path}#{citation.symbol}" if citation.symbol else citation.path
            for citation in cited
        )


# -- by options


def _facts(facts: tuple[str, ...], added: Sequence[str], dropped: Sequence[str]) -> tuple[str, ...]:
    removed: set[int] = set()
    for wanted in dropped:
        indexes = [index for index, fact in enumerate(facts) if fact.strip() == wanted.strip()]
        if not indexes and wanted.strip().isdecimal() and 1 <= int(wanted) <= len(facts):
            indexes = [int(wanted) - 1]
        if not indexes:
            raise InputError(
                "ARGUMENT_INVALID",
                f"there is no fact {wanted!r}; name it by its text or its number",
            )
        removed.update(indexes)
    kept = [fact for index, fact in enumerate(facts) if index not in removed]
    return tuple(dict.fromkeys((*kept, *(fact.strip() for fact in added if fact.strip()))))


def _tags(tags: tuple[str, ...], added: Sequence[str], dropped: Sequence[str]) -> tuple[str, ...]:
    removed = {tag.strip().casefold() for tag in dropped}
    unknown = removed - {tag.casefold() for tag in tags}
    if unknown:
        raise InputError(
            "ARGUMENT_INVALID",
            f"there is no tag {min(unknown)!r}; its tags: {', '.join(tags) or 'none'}",
        )
    kept = {tag.casefold(): tag for tag in tags if tag.casefold() not in removed}
    for tag in added:
        if tag.strip():
            kept.setdefault(tag.strip().casefold(), tag.strip())
    return tuple(kept.values())


# -- in an editor


def _in_editor(library: Library, record: Remembered) -> WriteResult | None:
    """Let the user fill in the form."""
    return in_editor(
        record.memory.key,
        form_of(record.memory),
        lambda text: _from_form(library, record, text),
        again=f"cortex memory edit {record.memory.key} --form",
        instead="say what to change, with --title for example",
    )


def _from_form(library: Library, record: Remembered, text: str) -> WriteResult | None:
    return _save(library, record, filled(record.memory, text), None)
