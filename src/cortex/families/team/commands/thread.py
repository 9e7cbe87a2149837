"""`cortex team thread`: commands to open, comment, edit, resolve and reopen discussions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from cortex.base.errors import InputError
from cortex.base.record_model import Comment, Record, RecordFilter, Thread
from cortex.families.team.caveats import absence_of
from cortex.families.team.commands.options import (
    BodyFileOption,
    IdArgument,
    KeyOption,
    SensitiveFlag,
    decide,
    resolve_id,
    sensitivity,
    team,
    written,
)
from cortex.families.team.commands.record_commands import RecordCommands, choice_filter, record_app
from cortex.families.team.commands.record_context import (
    look_around,
    marked_json,
    say_cautions,
    say_record,
    say_same_title,
    say_strangers,
    whole_json,
)
from cortex.families.team.commands.render import day, print_record, say_list, say_text
from cortex.families.team.references import resolve_ref
from cortex.families.team.writes import actions
from cortex.families.team.writes.create import create
from cortex.toolkit.terminal.options import JsonFlag
from cortex.toolkit.terminal.output import print_json, say
from cortex.toolkit.terminal.prompts import writer

KIND = "thread"


def show(
    ref: IdArgument,
    comments: Annotated[
        int,
        typer.Option(
            "--comments", min=0, max=1000, metavar="N", help="How many of the last comments."
        ),
    ] = 50,
    as_json: JsonFlag = False,
) -> int:
    """Show a thread: what it is about, its summary, its comments, and what contradicts it."""
    with team() as library:
        record = resolve_ref(library.store.records, ref, KIND)
        wanted = RecordFilter(kinds=("comment",), refs=((KIND, record.id),))
        last = library.store.records.select(wanted, comments)[::-1] if comments else []
        total = library.store.records.count(wanted)
        around = look_around(library, record)
        absent = library.store.outbox.absent()
    if as_json:
        rows = [marked_json(comment, absent) for comment in last]
        print_json({**whole_json(record, around), "comments": rows, "comments_total": total})
        return 0
    body = record.body
    by = f", by {body.summary_by}" if body.summary_by else ""
    say_record(
        record, around, texts=((f"Summary{by}", body.summary), ("Resolution", body.resolution))
    )
    _say_comments(last, total, absent)
    return 0


def _say_comments(
    comments: Sequence[Record[Comment]], total: int, absent: Mapping[str, str]
) -> None:
    if comments:
        say("")
        say(
            f"Comments{f' (the last {len(comments)} of {total})' if total > len(comments) else ''}:"
        )
    for comment in comments:
        answer = f", to {comment.body.parent}" if comment.body.parent else ""
        say("")
        say(f"{comment.id}, {comment.author}, {day(comment.created)}{answer}")
        for warning in absence_of(comment.id, absent):
            say(f"warning: {warning}")
        say_text(comment.body.body, gap=False)
        say_list("Cites", comment.body.citations)


app = record_app(
    RecordCommands(
        Thread,
        start="There is no thread yet: `cortex team thread create TITLE` opens one",
        columns=("id", "updated", "state", "type", "title"),
        list_help="List open threads, the last changed first.",
        show=show,
        create_help="Open a thread; it is found at once.",
        edit_help="Change a thread; without options its text, in your editor ($VISUAL or "
        "$EDITOR). Its comments go where it goes.",
        filters=(choice_filter(Thread, "type"),),
        made="Opened {name}: {title}",
        not_edited=("task",),
        notes=(say_strangers, say_same_title),
        edit_notes=(say_cautions,),
    )
)


@app.command("comment")
def comment(
    ref: IdArgument,
    body: Annotated[
        str | None,
        typer.Argument(
            metavar="TEXT",
            help="What to say, as Markdown; -: from stdin; without it: in your editor.",
        ),
    ] = None,
    body_file: BodyFileOption = None,
    parent: Annotated[
        str, typer.Option("--reply-to", metavar="ID", help="The comment that it answers.")
    ] = "",
    cite: Annotated[
        list[str] | None,
        typer.Option("--cite", metavar="ID", help="A record that it rests on; may be repeated."),
    ] = None,
    summary: Annotated[
        str,
        typer.Option(
            "--summary",
            metavar="TEXT",
            help="A better summary of the thread, in place of the made one.",
        ),
    ] = "",
    sensitive: SensitiveFlag = False,
    key: KeyOption = "",
    as_json: JsonFlag = False,
) -> int:
    """Say something in a thread: who takes part hears of it, and its summary follows."""
    with team() as library:
        about = resolve_ref(library.store.records, ref, KIND)
        answered = resolve_id(library, parent, "comment")
        cited = tuple(resolve_id(library, citation, "") for citation in cite or ())

        def keep(text: str) -> Record[Any]:
            if not text.strip():
                raise InputError("ARGUMENT_INVALID", "there is no text: nothing was written")
            new = Comment(
                about.id, text, answered, sensitivity=sensitivity(sensitive), citations=cited
            )
            return create(library, new, actor=writer(), key=key, summary=summary)

        record = written(
            body,
            body_file,
            keep,
            edit=True,
            name="comment",
            again=f"cortex team thread comment {about.id} --body-file",
            instead="give the text, or - to take it from stdin",
        )
        say_strangers(library, record)
        if about.body.state == "resolved":
            note = f"the thread is resolved; `cortex team thread reopen {about.id}` opens it again"
            say(f"note: {note}", error=True)
    return print_record(record, f"✓ Commented {record.id}", as_json=as_json)


@app.command("resolve")
def resolve(
    ref: IdArgument,
    resolution: Annotated[
        str, typer.Option("--resolution", metavar="TEXT", help="What came out of it.")
    ] = "",
    key: KeyOption = "",
    as_json: JsonFlag = False,
) -> int:
    """Resolve a thread: nothing is open there any more."""
    with team() as library:
        about = resolve_ref(library.store.records, ref, KIND)
        outcome = [f"  | {resolution}"] if resolution else []
        question = "\n".join([f"{about.id}: {about.body.title}", *outcome, "Resolve it?"])
        actor = decide(library, "resolve_thread", question)
        record = actions.resolve_thread(library, about.id, resolution, actor=actor, key=key)
    return print_record(record, f"✓ Resolved {record.id}: {record.body.title}", as_json=as_json)


@app.command("reopen")
def reopen(ref: IdArgument, key: KeyOption = "", as_json: JsonFlag = False) -> int:
    """Open a thread again that was resolved or archived."""
    with team() as library:
        record = actions.reopen_thread(
            library, resolve_id(library, ref, KIND), actor=writer(), key=key
        )
    return print_record(record, f"✓ Opened again {record.id}: {record.body.title}", as_json=as_json)


@app.command("archive")
def archive(ref: IdArgument, key: KeyOption = "", as_json: JsonFlag = False) -> int:
    """Archive a thread: it takes no more comments and is found after the others; `reopen`
    brings it back.
    """
    with team() as library:
        record = actions.archive(
            library, resolve_id(library, ref, KIND), actor=writer(), key=key, kind=KIND
        )
    return print_record(record, f"✓ Archived {record.id}: {record.body.title}", as_json=as_json)
