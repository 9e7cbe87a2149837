"""`cortex team artifact`: create, edit, accept and supersede artifacts, with history."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Annotated, Any

import typer

from cortex.base.errors import InputError
from cortex.base.record_model import Actor, Artifact, Record
from cortex.base.text import rfc3339
from cortex.engine.library import Library
from cortex.engine.store import AuditEntry
from cortex.families.team.commands.options import (
    EvidenceOption,
    IdArgument,
    KeyOption,
    decide,
    parse_evidence,
    resolve_id,
    team,
)
from cortex.families.team.commands.record_commands import (
    RecordCommands,
    choice_filter,
    flag_filter,
    record_app,
)
from cortex.families.team.commands.record_context import (
    Condition,
    look_around,
    say_cautions,
    say_record,
    say_same_title,
    say_strangers,
    whole_json,
)
from cortex.families.team.commands.render import beginning_of, print_record, say_rows, title_with_id
from cortex.families.team.references import resolve_ref
from cortex.families.team.writes import actions
from cortex.toolkit.terminal.options import JsonFlag
from cortex.toolkit.terminal.output import moment, print_json, say
from cortex.toolkit.terminal.prompts import writer

KIND = "artifact"
HISTORY = 100  # changes shown


def show(
    ref: IdArgument,
    version: Annotated[
        int | None, typer.Option("--version", min=1, metavar="N", help="As it was in this version.")
    ] = None,
    history: Annotated[
        bool, typer.Option("--history", help="Who changed it when, instead of what it says.")
    ] = False,
    as_json: JsonFlag = False,
) -> int:
    """Show an artifact: what it says, what it rests on, what contradicts it; as it is or as it
    was.
    """
    with team() as library:
        lookup = library.store.records
        record = resolve_ref(lookup, ref, KIND)
        entries = lookup.deeds(record.id, HISTORY)
        if version is not None:
            record = _version(library, record, version)
        around = look_around(library, record)
    if as_json:
        print_json(
            {**whole_json(record, around), "history": [_audit_json(entry) for entry in entries]}
        )
    elif history:
        say(record.body.title)
        say_rows([_history_row(entry) for entry in entries])
    else:
        say_record(record, around)
    return 0


def _version(library: Library, record: Record[Any], version: int) -> Record[Any]:
    known = library.store.records.versions(record.id)
    if version not in known:
        raise InputError(
            "ARGUMENT_INVALID",
            f"there is no version {version}: {record.id} has 1 to {record.version}",
        )
    return known[version]


def _history_row(entry: AuditEntry) -> tuple[str, ...]:
    return f"{entry.version:>3} {moment(entry.at)}", entry.actor, entry.action.replace("_", " ")


def _audit_json(entry: AuditEntry) -> dict[str, object]:
    return {
        "version": entry.version,
        "at": moment(entry.at),
        "actor": entry.actor,
        "action": entry.action,
    }


def _author(library: Library, before: Record[Artifact] | None, after: Artifact) -> Actor:
    """Return the author of a body; what is accepted, or no longer, asks a person."""
    state = before.body.state if before else ""
    if before is None:
        if after.state == "accepted":
            return _ask(library, "accept_artifact", after, "Write it as accepted?")
    elif after.state == "deprecated" != state:
        return _ask(library, "deprecate_artifact", after, f"Deprecate {before.id}?")
    elif state == "accepted" and after != before.body:
        return _ask(library, "edit_accepted", after, f"It is accepted. Have {before.id} say this?")
    return writer()


def _ask(library: Library, action: str, artifact: Artifact, question: str) -> Actor:
    """Show the artifact to the person and ask for a decision."""
    rests_on = [f"  rests on {source.ref}" for source in artifact.evidence]
    lines = [artifact.title, *beginning_of(artifact.body), *rests_on, question]
    return decide(library, action, "\n".join(lines))


app = record_app(
    RecordCommands(
        Artifact,
        start="There is no artifact yet: `cortex team artifact create TITLE --body-file FILE` "
        "makes one",
        columns=("id", "updated", "state", "type", "title"),
        list_help="List artifacts that count, the last changed first.",
        show=show,
        create_help="Write down knowledge with an owner; it is found at once.",
        edit_help="Change an artifact; without options its text, in your editor ($VISUAL or "
        "$EDITOR). Every version stays.",
        filters=(
            choice_filter(Artifact, "type"),
            flag_filter(
                "overdue",
                "Only those that should have been looked at again.",
                lambda: Condition(due=rfc3339(time.time())[:10]),
            ),
        ),
        all_help="Superseded and deprecated ones, too.",
        made="Made {name}: {title} ({state})",
        not_created=("verification",),
        not_edited=("supersedes",),
        flags={
            "reviewed": (
                "It was looked at again now.",
                lambda: {"last_reviewed": int(time.time() * 1000)},
            )
        },
        state_commands={"accepted": "accept ID", "superseded": "supersede OLD NEW"},
        author=_author,
        notes=(say_cautions, say_strangers, say_same_title),
        edit_notes=(say_cautions,),
    )
)


@app.command("accept")
def accept(
    ref: IdArgument, evidence: EvidenceOption = None, key: KeyOption = "", as_json: JsonFlag = False
) -> int:
    """Accept an artifact, which needs evidence; who made it hears of it."""
    with team() as library:
        artifact_id = resolve_id(library, ref, KIND)
        more = parse_evidence(library, evidence)
        current: Artifact = resolve_ref(library.store.records, artifact_id, KIND).body
        shown = replace(current, evidence=(*current.evidence, *more))
        actor = _ask(library, "accept_artifact", shown, f"Accept {artifact_id}?")
        try:
            record = actions.accept_artifact(
                library, artifact_id, actor=actor, key=key, evidence=more
            )
        except InputError as error:
            if error.context.get("field") == "evidence":
                error.context["accept"] = artifact_id
            raise
        say_cautions(library, record)
    return print_record(record, f"✓ Accepted {record.id}: {record.body.title}", as_json=as_json)


@app.command("supersede")
def supersede(
    old: Annotated[
        str, typer.Argument(metavar="OLD", help="The id of the one that doesn't count any more.")
    ],
    new: Annotated[
        str, typer.Argument(metavar="NEW", help="The id of the one that takes its place.")
    ],
    note: Annotated[str, typer.Option("--note", metavar="TEXT", help="Why.")] = "",
    key: KeyOption = "",
    as_json: JsonFlag = False,
) -> int:
    """Have one artifact take the place of another; both say so."""
    with team() as library:
        ends = [resolve_id(library, ref, KIND) for ref in (old, new)]
        titles = library.store.records.get(ends)
        older, newer = (title_with_id(end, titles) for end in ends)
        question = f"Have {newer} take the place of {older}?"
        actor = decide(library, "supersede_artifact", question)
        record = actions.supersede_artifact(library, *ends, actor=actor, key=key, note=note)
    return print_record(
        record, f"✓ {ends[1]} takes the place of {record.id}: {record.body.title}", as_json=as_json
    )


@app.command("deprecate")
def deprecate(
    ref: IdArgument,
    note: Annotated[
        str, typer.Option("--note", metavar="TEXT", help="Why; it stands above its text then.")
    ] = "",
    key: KeyOption = "",
    as_json: JsonFlag = False,
) -> int:
    """Say that an artifact doesn't hold any more, where nothing takes its place."""
    with team() as library:
        artifact_id = resolve_id(library, ref, KIND)
        current: Artifact = resolve_ref(library.store.records, artifact_id, KIND).body
        actor = _ask(library, "deprecate_artifact", current, f"Deprecate {artifact_id}?")
        record = actions.deprecate_artifact(library, artifact_id, actor=actor, key=key, note=note)
    return print_record(record, f"✓ Deprecated {record.id}: {record.body.title}", as_json=as_json)
