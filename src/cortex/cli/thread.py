"""`cortex thread`: discussions: opened, followed, commented, resolved by a person."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any

import typer

from cortex.cli.options import JsonFlag
from cortex.cli.show import print_json, say
from cortex.cli.team_look import Around, labels_of, list_records, look_around, say_around, tell_list, whole_json
from cortex.cli.team_options import (
    AllFlag,
    BodyFileOption,
    BodyOption,
    CodeOption,
    EditFlag,
    IdArgument,
    InSubcortexOption,
    KeyOption,
    LimitOption,
    SensitiveFlag,
    StateOption,
    SubcortexOption,
    TagOption,
    TitleArgument,
    WithTagOption,
    code_cited,
    code_told,
    number_of,
    one_of,
    sensitivity,
    tags_told,
    team,
    written,
)
from cortex.cli.team_show import day, record_json, say_head, say_list, say_text, tell_record
from cortex.errors import InputError
from cortex.kinds import Comment, Record, Thread, Wanted
from cortex.records import changing
from cortex.records.checks import THREAD_TYPES
from cortex.records.rights import person
from cortex.records.writing import create

KIND = "thread"
START = "There is no thread yet: `cortex thread create TITLE` opens one"
TYPES_HELP = ", ".join(THREAD_TYPES)

app = typer.Typer(name=KIND, help="Discussions, with a summary that follows them.", no_args_is_help=True)


@app.command("list")
def list_threads(
    state: StateOption = None,
    everything: AllFlag = False,
    type: Annotated[str, typer.Option("--type", metavar="TYPE", help=f"Only of this type: {TYPES_HELP}.")] = "",
    subcortex: InSubcortexOption = "",
    tag: WithTagOption = None,
    limit: LimitOption = 30,
    as_json: JsonFlag = False,
) -> int:
    """List open threads, the last changed first."""
    told = one_of(type, THREAD_TYPES, "--type")
    with team() as library:
        found = list_records(
            library,
            KIND,
            limit,
            usual=("open",),
            states=state,
            everything=everything,
            subcortex=subcortex,
            tags=tag,
            refs=[("type", told)] if told else (),
        )
    return tell_list(
        found,
        "threads",
        START,
        lambda one: (one.id, day(one.updated), one.body.state, one.body.type, one.body.title),
        as_json=as_json,
    )


@app.command("show")
def show(
    told: IdArgument,
    comments: Annotated[
        int, typer.Option("--comments", min=0, max=1000, metavar="N", help="How many of the last comments.")
    ] = 50,
    as_json: JsonFlag = False,
) -> int:
    """Show a thread: what it is about, its summary, its comments, and what contradicts it."""
    with team() as library:
        record = changing.resolve_ref(library.store.recorded, told, KIND)
        wanted = Wanted(kinds=("comment",), refs=((KIND, record.id),))
        said = library.store.recorded.select(wanted, comments)[::-1] if comments else []
        total = library.store.recorded.count(wanted)
        around = look_around(library, record)
    if as_json:
        shown = {"comments": [record_json(one) for one in said], "comments_total": total}
        print_json({**whole_json(record, around), **shown})
    else:
        _say(record, said, total, around)
    return 0


def _say(record: Record[Thread], said: Sequence[Record[Comment]], total: int, around: Around) -> None:
    body = record.body
    say_head(record, labels_of(record, around), around.warnings)
    say_text(body.body)
    by = f", by {body.summary_by}" if body.summary_by else ""
    say_text(body.summary, f"Summary{by}")
    say_text(body.resolution, "Resolution")
    say_around(record, around)
    if said:
        say("")
        say(f"Comments{f' (the last {len(said)} of {total})' if total > len(said) else ''}:")
    for one in said:
        answer = f", to {one.body.parent}" if one.body.parent else ""
        say("")
        say(f"{one.id}, {one.author}, {day(one.created)}{answer}")
        say_text(one.body.body, gap=False)
        say_list("Cites", one.body.citations)


@app.command("create")
def create_one(
    title: TitleArgument,
    body: BodyOption = None,
    body_file: BodyFileOption = None,
    edit: EditFlag = False,
    type: Annotated[str, typer.Option("--type", metavar="TYPE", help=f"One of {TYPES_HELP}.")] = "other",
    subcortex: SubcortexOption = "",
    task: Annotated[str, typer.Option("--task", metavar="ID", help="The task that it is about.")] = "",
    tag: TagOption = None,
    code: CodeOption = None,
    sensitive: SensitiveFlag = False,
    key: KeyOption = "",
    as_json: JsonFlag = False,
) -> int:
    """Open a thread; it is found at once."""
    links = code_told(code)
    with team() as library:
        about = number_of(library, task, "task")

        def keep(told: str) -> Record[Any]:
            made = Thread(
                title,
                told,
                type.strip().lower(),
                subcortex=subcortex.strip(),
                sensitivity=sensitivity(sensitive),
                tags=tags_told(tag),
                task=about,
                code_links=links,
            )
            kept = replace(made, code_links=code_cited(library, links))
            return create(library, kept, actor=person(), key=key, payload=repr(made))

        again = f"cortex thread create {shlex.quote(title)} --body-file"
        record = written(
            body, body_file, keep, edit=edit, name="thread", again=again, instead="give the text with --body"
        )
    return tell_record(record, f"✓ Opened {record.id}: {record.body.title}", as_json=as_json)


@app.command("comment")
def comment(
    told: IdArgument,
    body: Annotated[
        str | None,
        typer.Argument(metavar="TEXT", help="What to say, as Markdown; -: from stdin; without it: in your editor."),
    ] = None,
    body_file: BodyFileOption = None,
    parent: Annotated[str, typer.Option("--reply-to", metavar="ID", help="The comment that it answers.")] = "",
    cite: Annotated[
        list[str] | None, typer.Option("--cite", metavar="ID", help="A record that it rests on; may be repeated.")
    ] = None,
    summary: Annotated[
        str, typer.Option("--summary", metavar="TEXT", help="A better summary of the thread, in place of the made one.")
    ] = "",
    sensitive: SensitiveFlag = False,
    key: KeyOption = "",
    as_json: JsonFlag = False,
) -> int:
    """Say something in a thread: who takes part hears of it, and its summary follows."""
    with team() as library:
        thread = number_of(library, told, KIND)
        answered = number_of(library, parent, "comment")
        cited = tuple(number_of(library, one, "") for one in cite or ())

        def keep(text: str) -> Record[Any]:
            if not text.strip():
                raise InputError("ARGUMENT_INVALID", "there is no text: nothing was written")
            made = Comment(thread, text, answered, sensitivity=sensitivity(sensitive), citations=cited)
            return create(library, made, actor=person(), key=key, summary=summary)

        record = written(
            body,
            body_file,
            keep,
            edit=True,
            name="comment",
            again=f"cortex thread comment {thread} --body-file",
            instead="give the text, or - to take it from stdin",
        )
    return tell_record(record, f"✓ Commented {record.id}", as_json=as_json)


@app.command("resolve")
def resolve(
    told: IdArgument,
    resolution: Annotated[str, typer.Option("--resolution", metavar="TEXT", help="What came out of it.")] = "",
    key: KeyOption = "",
    as_json: JsonFlag = False,
) -> int:
    """Resolve a thread: nothing is open there any more."""
    with team() as library:
        number = number_of(library, told, KIND)
        record = changing.resolve_thread(library, number, resolution, actor=person(), key=key)
    return tell_record(record, f"✓ Resolved {record.id}: {record.body.title}", as_json=as_json)
