"""`cortex team link`: relations between records, and the review of suspected contradictions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from cortex.base.errors import InputError
from cortex.base.record_model import RELATIONS, Link, Record
from cortex.engine.library import Library
from cortex.families.team.caveats import absence_of
from cortex.families.team.commands.options import (
    AllFlag,
    IdsArgument,
    KeyOption,
    LimitOption,
    StateOption,
    decide,
    one_of,
    resolve_id,
    team,
)
from cortex.families.team.commands.record_context import Condition, list_records
from cortex.families.team.commands.render import (
    Titles,
    brief_json,
    day,
    record_json,
    say_more,
    title_with_id,
)
from cortex.families.team.writes import actions
from cortex.families.team.writes.create import create
from cortex.toolkit.terminal.options import JsonFlag
from cortex.toolkit.terminal.output import print_json, say
from cortex.toolkit.terminal.prompts import writer

KIND = "link"
START = "There is no link yet: `cortex team link add FROM RELATION TO` makes one"
RELATIONS_HELP = ", ".join(RELATIONS)

app = typer.Typer(name=KIND, help="How records stand to one another.", no_args_is_help=True)


@app.command("add")
def add(
    source: Annotated[
        str, typer.Argument(metavar="FROM", help="The id of the record that says more.")
    ],
    relation: Annotated[str, typer.Argument(metavar="RELATION", help=f"One of {RELATIONS_HELP}.")],
    target: Annotated[
        str, typer.Argument(metavar="TO", help="The id of the record that it stands to.")
    ],
    note: Annotated[str, typer.Option("--note", metavar="TEXT", help="In which way.")] = "",
    key: KeyOption = "",
    as_json: JsonFlag = False,
) -> int:
    """Say how one record stands to another."""
    word = one_of(relation, RELATIONS, "RELATION")
    with team() as library:
        ends = [resolve_id(library, ref, "") for ref in (source, target)]
        link = Link(ends[0], word, ends[1], note)
        known = library.store.records.get(ends)
        replaces = word == "supersedes" and all(
            record.kind == "artifact" for record in known.values()
        )
        newer, older = (title_with_id(end, known) for end in ends[:2])
        question = f"Have {newer} take the place of {older}?"
        actor = decide(library, "supersede_artifact", question) if replaces else writer()
        record = create(library, link, actor=actor, key=key)
        known = _ends(library, [record])
    if as_json:
        print_json(_link_json(record, known))
    else:
        say(f"✓ Linked {record.id}: {_render_link(record, known)}")
    return 0


@app.command("list")
def list_links(
    about: Annotated[
        str, typer.Argument(metavar="ID", help="Only those from or to this record.")
    ] = "",
    state: StateOption = None,
    everything: AllFlag = False,
    relation: Annotated[
        str,
        typer.Option("--relation", metavar="RELATION", help=f"Only of this one: {RELATIONS_HELP}."),
    ] = "",
    limit: LimitOption = 30,
    as_json: JsonFlag = False,
) -> int:
    """List links, the last changed first; candidates are for you to judge, dismissed ones come with
    --all.
    """
    word = one_of(relation, RELATIONS, "--relation")
    with team() as library:
        record_id = resolve_id(library, about, "")
        conditions = [
            Condition(refs=(("relation", word),) if word else ()),
            Condition(
                keep=(lambda body: record_id in (body.source, body.target)) if record_id else None
            ),
        ]
        listing = list_records(
            library, KIND, limit, conditions, states=state, everything=everything
        )
        known = _ends(library, listing.rows)
    if as_json:
        rows = [
            {**_link_json(row, known), "warnings": list(absence_of(row.id, listing.absent))}
            for row in listing.rows
        ]
        print_json({"links": rows, "more": listing.more})
    elif not listing.rows:
        say(START if listing.nothing_yet else "nothing found", error=True)
    else:
        for link in listing.rows:
            warnings = absence_of(link.id, listing.absent)
            say(" ".join((link.id, day(link.updated), link.body.state, *warnings)))
            say(f"  {_render_link(link, known)}")
        say_more(listing.more)
    return 0


@app.command("confirm")
def confirm(ids: IdsArgument, key: KeyOption = "", as_json: JsonFlag = False) -> int:
    """Say that candidates are so: answers warn of it."""
    return _judge(ids, key, confirmed=True, as_json=as_json)


@app.command("dismiss")
def dismiss(ids: IdsArgument, key: KeyOption = "", as_json: JsonFlag = False) -> int:
    """Say that candidates are not so: they are not shown again."""
    return _judge(ids, key, confirmed=False, as_json=as_json)


def _judge(ids: Sequence[str], key: str, *, confirmed: bool, as_json: bool) -> int:
    if key and len(ids) > 1:
        raise InputError("ARGUMENT_INVALID", "a key is for one write: name one link with --key")
    with team() as library:
        link_ids = [resolve_id(library, ref, KIND) for ref in ids]
        links = library.store.records.get(link_ids).values()
        shown = [f"{link.id}: {_render_link(link, _ends(library, [link]))}" for link in links]
        question = "Is that so?" if confirmed else "Dismiss that?"
        actor = decide(library, "judge_link", "\n".join([*shown, question]))
        done = [
            actions.judge_link(library, link_id, confirmed, actor=actor, key=key)
            for link_id in link_ids
        ]
        known = _ends(library, done)
    if as_json:
        print_json({"links": [_link_json(link, known) for link in done]})
        return 0
    for link in done:
        say(f"✓ {link.body.state.capitalize()} {link.id}: {_render_link(link, known)}")
    return 0


def _ends(library: Library, links: Sequence[Record[Any]]) -> Titles:
    return library.store.records.get(
        [end for link in links for end in (link.body.source, link.body.target)]
    )


def _link_json(link: Record[Any], known: Titles) -> dict[str, object]:
    ends = {name: known.get(getattr(link.body, name)) for name in ("source", "target")}
    return {
        **record_json(link),
        "ends": {name: brief_json(end) if end else None for name, end in ends.items()},
    }


def _render_link(link: Record[Any], known: Titles) -> str:
    body = link.body
    note = f" ({body.note})" if body.note else ""
    return (
        f"{title_with_id(body.source, known)} {body.relation.replace('_', ' ')} "
        f"{title_with_id(body.target, known)}{note}"
    )
