"""`cortex team subcortex`: a team's topics with charter, glossary, naming rules and pins."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from cortex.base.errors import InputError
from cortex.base.record_model import OPEN_TASK_STATES, Record, RecordFilter, Subcortex
from cortex.families.team.commands.options import (
    AllFlag,
    EditFlag,
    IdsArgument,
    KeyOption,
    LimitOption,
    SensitiveFlag,
    SlugArgument,
    StateOption,
    changed,
    edited,
    given,
    people_told,
    resolve_id,
    sensitivity,
    team,
    terms_told,
    text_told,
    written,
)
from cortex.families.team.commands.record_context import list_records, tell_list
from cortex.families.team.commands.render import (
    brief_json,
    record_json,
    say_head,
    say_list,
    say_text,
    tell_record,
    title_with_id,
)
from cortex.families.team.references import resolve_ref
from cortex.families.team.writes import actions
from cortex.families.team.writes.create import create
from cortex.families.team.writes.update import revise
from cortex.toolkit.terminal.options import JsonFlag
from cortex.toolkit.terminal.output import print_json, say
from cortex.toolkit.terminal.prompts import writer

KIND = "subcortex"
START = "There is no subcortex yet: `cortex team subcortex create SLUG --name NAME` makes one"
RECENT = 10  # threads shown per subcortex
INSTEAD = "give the charter with --charter or --charter-file"

CharterOption = Annotated[
    str | None,
    typer.Option(
        "--charter", metavar="TEXT", help="What it is for and what holds there; -: from stdin."
    ),
]
CharterFileOption = Annotated[
    Path | None, typer.Option("--charter-file", metavar="FILE", help="A file that has the charter.")
]
TermOption = Annotated[
    list[str] | None,
    typer.Option(
        "--term", metavar="WORD: MEANING", help="A word and what it means there; may be repeated."
    ),
]
NamingOption = Annotated[
    list[str] | None,
    typer.Option(
        "--naming", metavar="RULE", help="A rule for how things are named; may be repeated."
    ),
]
StewardOption = Annotated[
    list[str] | None,
    typer.Option("--steward", metavar="NAME", help="Who looks after it; may be repeated."),
]

app = typer.Typer(name=KIND, help="Topics that a team keeps knowledge about.", no_args_is_help=True)


@app.command("list")
def list_subcortexes(
    state: StateOption = None,
    everything: AllFlag = False,
    limit: LimitOption = 100,
    as_json: JsonFlag = False,
) -> int:
    """List the subcortexes, the last changed first; archived ones with --all."""
    with team() as library:
        listing = list_records(
            library, KIND, limit, usual=("proposed", "active"), states=state, everything=everything
        )
    return tell_list(
        listing,
        "subcortexes",
        START,
        lambda record: (
            record.body.slug,
            record.body.state,
            _pin_count(record.body),
            record.body.name,
        ),
        as_json=as_json,
    )


def _pin_count(body: Subcortex) -> str:
    count = len(body.pinned_threads) + len(body.pinned_artifacts) + len(body.pinned_tasks)
    return f"{count} pinned" if count else ""


@app.command("show")
def show(ref: SlugArgument, as_json: JsonFlag = False) -> int:
    """Show a subcortex: its charter, its words and rules, what is pinned there, and what is going
    on.
    """
    with team() as library:
        lookup = library.store.records
        record = resolve_ref(lookup, ref, KIND)
        body = record.body
        pins = lookup.get((*body.pinned_artifacts, *body.pinned_threads, *body.pinned_tasks))
        within = ((KIND, record.id),)
        threads = lookup.select(
            RecordFilter(kinds=("thread",), states=("open",), refs=within, by_change=True), RECENT
        )
        tasks = lookup.count(RecordFilter(kinds=("task",), states=OPEN_TASK_STATES, refs=within))
        counts = {
            kind: lookup.count(RecordFilter(kinds=(kind,), refs=within))
            for kind in ("thread", "artifact", "task")
        }
    if as_json:
        shown = {
            "pinned": [brief_json(pin) for pin in pins.values()],
            "threads": [brief_json(thread) for thread in threads],
        }
        print_json({**record_json(record), **shown, "open_tasks": tasks, "counts": counts})
    else:
        _print_subcortex(record, pins, threads, tasks)
    return 0


def _print_subcortex(
    record: Record[Subcortex],
    pins: dict[str, Record[Any]],
    threads: Sequence[Record[Any]],
    open_tasks: int,
) -> None:
    body = record.body
    labels = (
        ("Slug", body.slug),
        ("State", body.state),
        ("Stewards", ", ".join(body.stewards)),
        ("Visibility", body.visibility),
        ("Open tasks", str(open_tasks)),
    )
    say_head(record, labels)
    say_text(body.description)
    say_text(body.charter, "Charter")
    say_list("Words", [f"{word.term}: {word.meaning}" for word in body.glossary])
    say_list("Naming", body.naming)
    say_list("Pinned", [title_with_id(record_id, pins) for record_id in pins])
    say_list("Open threads", [f"{thread.id}: {thread.body.title}" for thread in threads])


@app.command("create")
def create_one(
    slug: Annotated[
        str,
        typer.Argument(metavar="SLUG", help="Its short name: small letters, digits and dashes."),
    ],
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="What it is called.")],
    description: Annotated[
        str, typer.Option("--description", metavar="TEXT", help="What it is about.")
    ] = "",
    charter: CharterOption = None,
    charter_file: CharterFileOption = None,
    edit: EditFlag = False,
    term: TermOption = None,
    naming: NamingOption = None,
    steward: StewardOption = None,
    visibility: Annotated[
        str, typer.Option("--visibility", metavar="WHO", help="internal or private.")
    ] = "internal",
    sensitive: SensitiveFlag = False,
    key: KeyOption = "",
    as_json: JsonFlag = False,
) -> int:
    """Make a subcortex."""
    words = terms_told(term)
    with team() as library:

        def keep(text: str) -> Record[Any]:
            body = Subcortex(
                slug.strip(),
                name,
                description,
                text,
                visibility=visibility,
                sensitivity=sensitivity(sensitive),
                stewards=people_told(library, steward),
                glossary=words,
                naming=tuple(naming or ()),
            )
            return create(library, body, actor=writer(), key=key)

        again = f"cortex team subcortex create {slug} --name {shlex.quote(name)} --charter-file"
        record = written(
            charter, charter_file, keep, edit=edit, name=slug, again=again, instead=INSTEAD
        )
    return tell_record(record, f"✓ Made {record.body.slug}: {record.body.name}", as_json=as_json)


@app.command("edit")
def edit_one(
    ref: SlugArgument,
    name: Annotated[
        str | None, typer.Option("--name", metavar="NAME", help="Another name.")
    ] = None,
    description: Annotated[
        str | None, typer.Option("--description", metavar="TEXT", help="Another description.")
    ] = None,
    charter: CharterOption = None,
    charter_file: CharterFileOption = None,
    term: TermOption = None,
    remove_term: Annotated[
        list[str] | None,
        typer.Option("--remove-term", metavar="WORD", help="A word to leave out; may be repeated."),
    ] = None,
    naming: NamingOption = None,
    remove_naming: Annotated[
        list[str] | None,
        typer.Option(
            "--remove-naming", metavar="RULE", help="A rule to leave out; may be repeated."
        ),
    ] = None,
    steward: StewardOption = None,
    remove_steward: Annotated[
        list[str] | None,
        typer.Option("--remove-steward", metavar="NAME", help="Who no longer looks after it."),
    ] = None,
    visibility: Annotated[
        str | None, typer.Option("--visibility", metavar="WHO", help="internal or private.")
    ] = None,
    state: Annotated[
        str | None,
        typer.Option(
            "--state", metavar="STATE", help="Another state: an archived one comes back as active."
        ),
    ] = None,
    key: KeyOption = "",
    as_json: JsonFlag = False,
) -> int:
    """Change a subcortex; without options its charter, in your editor ($VISUAL or $EDITOR)."""
    words, text = terms_told(term), text_told(charter, charter_file)
    plain = given(
        name=name, description=description, charter=text, visibility=visibility, state=state
    )
    lists = (term, remove_term, naming, remove_naming, steward, remove_steward)
    with team() as library:
        before = resolve_ref(library.store.records, ref, KIND)

        def change(body: Subcortex) -> Subcortex:
            return replace(
                body,
                **plain,
                glossary=changed(
                    body.glossary, words, remove_term or (), "word", lambda word: word.term
                ),
                naming=changed(body.naming, naming or (), remove_naming or (), "rule", str),
                stewards=changed(
                    body.stewards,
                    people_told(library, steward),
                    people_told(library, remove_steward),
                    "steward",
                    str,
                ),
            )

        if plain or any(option is not None for option in lists):
            payload = repr((before.id, sorted(plain.items()), lists))
            after = revise(
                library,
                before.id,
                change,
                actor=writer(),
                action="edit_subcortex",
                key=key,
                payload=payload,
            )
        else:
            again = f"cortex team subcortex edit {before.body.slug} --charter-file"
            after = edited(
                library,
                before,
                "charter",
                action="edit_subcortex",
                key=key,
                again=again,
                instead=INSTEAD,
            )
    same = after.version == before.version
    return tell_record(
        after, "Nothing was changed." if same else f"✓ Changed {after.body.slug}", as_json=as_json
    )


@app.command("pin")
def pin(
    slug: SlugArgument, ids: IdsArgument, key: KeyOption = "", as_json: JsonFlag = False
) -> int:
    """Pin threads, artifacts or tasks: packs begin with them."""
    return _act_on_each(slug, ids, actions.pin, "✓ Pinned", key, as_json=as_json)


@app.command("unpin")
def unpin(
    slug: SlugArgument, ids: IdsArgument, key: KeyOption = "", as_json: JsonFlag = False
) -> int:
    """Take pins away."""
    return _act_on_each(slug, ids, actions.unpin, "✓ Unpinned", key, as_json=as_json)


def _act_on_each(
    slug: str, ids: Sequence[str], act: Any, done: str, key: str, *, as_json: bool
) -> int:
    if key and len(ids) > 1:
        raise InputError("ARGUMENT_INVALID", "a key is for one write: name one record with --key")
    with team() as library:
        subcortex = resolve_id(library, slug, KIND)
        targets = [resolve_ref(library.store.records, ref, "") for ref in ids]
        record = None
        for target in targets:
            record = act(library, subcortex, target.id, actor=writer(), key=key)
    assert record is not None
    if as_json:
        print_json(record_json(record))
        return 0
    for target in targets:
        say(f"{done} {target.id}: {target.body.title}")
    return 0


@app.command("archive")
def archive(ref: SlugArgument, key: KeyOption = "", as_json: JsonFlag = False) -> int:
    """Archive a subcortex: it is in no pack and no search any more; `edit --state active` brings it
    back.
    """
    with team() as library:
        record = actions.archive(
            library, resolve_id(library, ref, KIND), actor=writer(), key=key, kind=KIND
        )
    return tell_record(record, f"✓ Archived {record.body.slug}", as_json=as_json)
