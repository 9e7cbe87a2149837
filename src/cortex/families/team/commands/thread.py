"""`cortex team thread`: commands to open, comment, edit, resolve and reopen discussions."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any

import typer

from cortex.base.errors import InputError
from cortex.base.record_model import SENSITIVE, THREAD_TYPES, Comment, Record, RecordFilter, Thread
from cortex.families.team.caveats import absence_of
from cortex.families.team.commands.options import (
    AllFlag,
    BodyFileOption,
    BodyOption,
    CodeOption,
    EditFlag,
    IdArgument,
    InSubcortexOption,
    KeyOption,
    LimitOption,
    OtherSubcortexOption,
    SensitiveFlag,
    StateOption,
    SubcortexOption,
    TagOption,
    TitleArgument,
    TitleOption,
    UntagOption,
    WithTagOption,
    changed,
    code_cited,
    code_told,
    decide,
    edited,
    given,
    one_of,
    resolve_id,
    sensitivity,
    tags_told,
    team,
    text_told,
    written,
)
from cortex.families.team.commands.record_context import (
    Around,
    labels_of,
    list_records,
    look_around,
    marked_json,
    say_around,
    say_cautions,
    say_same_title,
    say_strangers,
    tell_list,
    whole_json,
)
from cortex.families.team.commands.render import day, say_head, say_list, say_text, tell_record
from cortex.families.team.references import resolve_ref
from cortex.families.team.writes import actions
from cortex.families.team.writes.create import create
from cortex.families.team.writes.update import revise
from cortex.toolkit.terminal.options import JsonFlag
from cortex.toolkit.terminal.output import print_json, say
from cortex.toolkit.terminal.prompts import writer

KIND = "thread"
START = "There is no thread yet: `cortex team thread create TITLE` opens one"
TYPES_HELP = ", ".join(THREAD_TYPES)
INSTEAD = "give the text with --body or --body-file, or say what else to change"

app = typer.Typer(
    name=KIND, help="Discussions, with a summary that follows them.", no_args_is_help=True
)


@app.command("list")
def list_threads(
    state: StateOption = None,
    everything: AllFlag = False,
    type: Annotated[
        str, typer.Option("--type", metavar="TYPE", help=f"Only of this type: {TYPES_HELP}.")
    ] = "",
    subcortex: InSubcortexOption = "",
    tag: WithTagOption = None,
    limit: LimitOption = 30,
    as_json: JsonFlag = False,
) -> int:
    """List open threads, the last changed first."""
    wanted_type = one_of(type, THREAD_TYPES, "--type")
    with team() as library:
        listing = list_records(
            library,
            KIND,
            limit,
            usual=("open",),
            states=state,
            everything=everything,
            subcortex=subcortex,
            tags=tag,
            refs=[("type", wanted_type)] if wanted_type else (),
        )
    return tell_list(
        listing,
        "threads",
        START,
        lambda thread: (
            thread.id,
            day(thread.updated),
            thread.body.state,
            thread.body.type,
            thread.body.title,
        ),
        as_json=as_json,
    )


@app.command("show")
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
        shown_comments = library.store.records.select(wanted, comments)[::-1] if comments else []
        total = library.store.records.count(wanted)
        around = look_around(library, record)
        absent = library.store.outbox.absent()
    if as_json:
        shown = {
            "comments": [marked_json(comment, absent) for comment in shown_comments],
            "comments_total": total,
        }
        print_json({**whole_json(record, around), **shown})
    else:
        _print_thread(record, shown_comments, total, around, absent)
    return 0


def _print_thread(
    record: Record[Thread],
    comments: Sequence[Record[Comment]],
    total: int,
    around: Around,
    absent: Mapping[str, str],
) -> None:
    body = record.body
    say_head(record, labels_of(record, around), around.warnings)
    say_text(body.body)
    by = f", by {body.summary_by}" if body.summary_by else ""
    say_text(body.summary, f"Summary{by}")
    say_text(body.resolution, "Resolution")
    say_around(record, around)
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


@app.command("create")
def create_one(
    title: TitleArgument,
    body: BodyOption = None,
    body_file: BodyFileOption = None,
    edit: EditFlag = False,
    type: Annotated[
        str, typer.Option("--type", metavar="TYPE", help=f"One of {TYPES_HELP}.")
    ] = "other",
    subcortex: SubcortexOption = "",
    task: Annotated[
        str, typer.Option("--task", metavar="ID", help="The task that it is about.")
    ] = "",
    tag: TagOption = None,
    code: CodeOption = None,
    sensitive: SensitiveFlag = False,
    key: KeyOption = "",
    as_json: JsonFlag = False,
) -> int:
    """Open a thread; it is found at once."""
    links = code_told(code)
    with team() as library:
        about = resolve_id(library, task, "task")

        def keep(text: str) -> Record[Any]:
            thread = Thread(
                title,
                text,
                type.strip().lower(),
                subcortex=subcortex.strip(),
                sensitivity=sensitivity(sensitive),
                tags=tags_told(tag),
                task=about,
                code_links=links,
            )
            stored = replace(thread, code_links=code_cited(library, links))
            return create(library, stored, actor=writer(), key=key, payload=repr(thread))

        again = f"cortex team thread create {shlex.quote(title)} --body-file"
        record = written(
            body,
            body_file,
            keep,
            edit=edit,
            name="thread",
            again=again,
            instead="give the text with --body",
        )
        say_strangers(library, record)
        say_same_title(library, record)
    return tell_record(record, f"✓ Opened {record.id}: {record.body.title}", as_json=as_json)


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
        thread = about.id
        answered = resolve_id(library, parent, "comment")
        cited = tuple(resolve_id(library, citation, "") for citation in cite or ())

        def keep(text: str) -> Record[Any]:
            if not text.strip():
                raise InputError("ARGUMENT_INVALID", "there is no text: nothing was written")
            new_comment = Comment(
                thread, text, answered, sensitivity=sensitivity(sensitive), citations=cited
            )
            return create(library, new_comment, actor=writer(), key=key, summary=summary)

        record = written(
            body,
            body_file,
            keep,
            edit=True,
            name="comment",
            again=f"cortex team thread comment {thread} --body-file",
            instead="give the text, or - to take it from stdin",
        )
        say_strangers(library, record)
        if about.body.state == "resolved":
            say(
                f"note: the thread is resolved; `cortex team thread reopen {thread}` "
                "opens it again",
                error=True,
            )
    return tell_record(record, f"✓ Commented {record.id}", as_json=as_json)


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
        thread_id = resolve_id(library, ref, KIND)
        title = resolve_ref(library.store.records, thread_id, KIND).body.title
        outcome = [f"  | {resolution}"] if resolution else []
        question = "\n".join([f"{thread_id}: {title}", *outcome, "Resolve it?"])
        actor = decide(library, "resolve_thread", question)
        record = actions.resolve_thread(library, thread_id, resolution, actor=actor, key=key)
    return tell_record(record, f"✓ Resolved {record.id}: {record.body.title}", as_json=as_json)


@app.command("reopen")
def reopen(ref: IdArgument, key: KeyOption = "", as_json: JsonFlag = False) -> int:
    """Open a thread again that was resolved or archived."""
    with team() as library:
        record = actions.reopen_thread(
            library, resolve_id(library, ref, KIND), actor=writer(), key=key
        )
    return tell_record(record, f"✓ Opened again {record.id}: {record.body.title}", as_json=as_json)


@app.command("archive")
def archive(ref: IdArgument, key: KeyOption = "", as_json: JsonFlag = False) -> int:
    """Archive a thread: nobody comments there any more, and it is found after the others; `reopen`
    brings it back.
    """
    with team() as library:
        record = actions.archive(
            library, resolve_id(library, ref, KIND), actor=writer(), key=key, kind=KIND
        )
    return tell_record(record, f"✓ Archived {record.id}: {record.body.title}", as_json=as_json)


@app.command("edit")
def edit_one(
    ref: IdArgument,
    title: TitleOption = None,
    body: BodyOption = None,
    body_file: BodyFileOption = None,
    type: Annotated[
        str | None, typer.Option("--type", metavar="TYPE", help=f"One of {TYPES_HELP}.")
    ] = None,
    subcortex: OtherSubcortexOption = None,
    tag: TagOption = None,
    untag: UntagOption = None,
    code: CodeOption = None,
    sensitive: SensitiveFlag = False,
    key: KeyOption = "",
    as_json: JsonFlag = False,
) -> int:
    """Change a thread; without options its text, in your editor ($VISUAL or $EDITOR). Its comments
    go where it goes.
    """
    text, links = text_told(body, body_file), code_told(code)
    word = None if type is None else one_of(type, THREAD_TYPES, "--type")
    private = SENSITIVE if sensitive else None
    plain = dict(given(title=title, body=text, type=word, subcortex=subcortex, sensitivity=private))
    lists = (tag, untag, code)
    with team() as library:
        before = resolve_ref(library.store.records, ref, KIND)
        if not plain and all(option is None for option in lists):
            again = f"cortex team thread edit {before.id} --body-file"
            after = edited(
                library, before, "body", action="edit", key=key, again=again, instead=INSTEAD
            )
        else:
            payload = repr((before.id, sorted(plain.items()), lists))
            if code is not None:
                plain["code_links"] = code_cited(library, links)

            def change(body: Thread) -> Thread:
                return replace(
                    body, **plain, tags=changed(body.tags, tags_told(tag), untag or (), "tag", str)
                )

            after = revise(
                library, before.id, change, actor=writer(), action="edit", key=key, payload=payload
            )
        say_cautions(library, after)
    same = after.version == before.version
    text = "Nothing was changed." if same else f"✓ Changed {after.id}: version {after.version}"
    return tell_record(after, text, as_json=as_json)
