"""`cortex team artifact`: create, edit, accept and supersede artifacts, with history."""

from __future__ import annotations

import shlex
import time
from dataclasses import replace
from functools import partial
from typing import Annotated, Any

import typer

from cortex.base.errors import InputError
from cortex.base.record_model import (
    ARTIFACT_TYPES,
    SENSITIVE,
    VERIFICATIONS,
    Actor,
    Artifact,
    Record,
)
from cortex.base.record_spec import spec_of
from cortex.base.text import rfc3339
from cortex.engine.library import Library
from cortex.engine.store import AuditEntry
from cortex.families.team.commands.options import (
    BodyFileOption,
    BodyOption,
    CodeOption,
    EditFlag,
    EvidenceOption,
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
    evidence_told,
    given,
    one_of,
    people_told,
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
    say_around,
    say_cautions,
    say_same_title,
    say_strangers,
    tell_list,
    whole_json,
)
from cortex.families.team.commands.render import (
    beginning_of,
    day,
    say_head,
    say_list,
    say_rows,
    say_text,
    tell_record,
    title_with_id,
)
from cortex.families.team.references import resolve_ref
from cortex.families.team.writes import actions
from cortex.families.team.writes.create import create
from cortex.families.team.writes.update import revise
from cortex.toolkit.terminal.options import JsonFlag
from cortex.toolkit.terminal.output import moment, print_json, say
from cortex.toolkit.terminal.prompts import writer

KIND = "artifact"
START = "There is no artifact yet: `cortex team artifact create TITLE --body-file FILE` makes one"
TYPES_HELP = ", ".join(ARTIFACT_TYPES)
HISTORY = 100  # changes shown
INSTEAD = "give the text with --body or --body-file, or say what else to change"

ReviewByOption = Annotated[
    str | None,
    typer.Option("--review-by", metavar="DATE", help="When to look at it again, as 2027-01-31."),
]
OwnerOption = Annotated[
    str | None, typer.Option("--owner", metavar="NAME", help="Who stands for it; me: you.")
]
SummaryOption = Annotated[
    str | None, typer.Option("--summary", metavar="TEXT", help="What it says, in short.")
]

app = typer.Typer(
    name=KIND,
    help="Knowledge that somebody stands for: decisions, runbooks, specifications.",
    no_args_is_help=True,
)


@app.command("list")
def list_artifacts(
    state: StateOption = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Superseded and deprecated ones, too.")
    ] = False,
    type: Annotated[
        str, typer.Option("--type", metavar="TYPE", help=f"Only of this type: {TYPES_HELP}.")
    ] = "",
    overdue: Annotated[
        bool, typer.Option("--overdue", help="Only those that should have been looked at again.")
    ] = False,
    subcortex: InSubcortexOption = "",
    tag: WithTagOption = None,
    limit: LimitOption = 30,
    as_json: JsonFlag = False,
) -> int:
    """List artifacts that count, the last changed first."""
    wanted_type = one_of(type, ARTIFACT_TYPES, "--type")
    with team() as library:
        listing = list_records(
            library,
            KIND,
            limit,
            usual=("draft", "proposed", "accepted"),
            states=state,
            everything=everything,
            subcortex=subcortex,
            tags=tag,
            refs=[("type", wanted_type)] if wanted_type else (),
            due=rfc3339(time.time())[:10] if overdue else "",
        )
    return tell_list(
        listing,
        "artifacts",
        START,
        lambda artifact: (
            artifact.id,
            day(artifact.updated),
            artifact.body.state,
            artifact.body.type,
            artifact.body.title,
        ),
        as_json=as_json,
    )


@app.command("show")
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
        say_rows(
            [
                (
                    f"{entry.version:>3} {moment(entry.at)}",
                    entry.actor,
                    entry.action.replace("_", " "),
                )
                for entry in entries
            ]
        )
    else:
        _show(record, around)
    return 0


def _version(library: Library, record: Record[Any], version: int) -> Record[Any]:
    known = library.store.records.versions(record.id)
    if version not in known:
        raise InputError(
            "ARGUMENT_INVALID",
            f"there is no version {version}: {record.id} has 1 to {record.version}",
        )
    return known[version]


def _audit_json(entry: AuditEntry) -> dict[str, object]:
    return {
        "version": entry.version,
        "at": moment(entry.at),
        "actor": entry.actor,
        "action": entry.action,
    }


def _show(record: Record[Artifact], around: Around) -> None:
    body, known = record.body, around.known
    labels = (
        ("Owner", body.owner),
        ("Review by", body.review_by),
        ("Reviewed", moment(body.last_reviewed)),
        ("Verified", "" if body.verification == "unverified" else body.verification),
        ("Supersedes", title_with_id(body.supersedes, known) if body.supersedes else ""),
        ("Replaced by", title_with_id(body.superseded_by, known) if body.superseded_by else ""),
    )
    say_head(record, [*labels_of(record, around), *labels], around.warnings)
    say_text(body.summary, "In short")
    say_text(body.body)
    evidence = [
        f"{title_with_id(source.ref, known)}{f' ({source.note})' if source.note else ''}"
        for source in body.evidence
    ]
    say_list("Rests on", evidence)
    say_around(record, around)


@app.command("create")
def create_one(
    title: TitleArgument,
    body: BodyOption = None,
    body_file: BodyFileOption = None,
    edit: EditFlag = False,
    summary: SummaryOption = None,
    type: Annotated[
        str, typer.Option("--type", metavar="TYPE", help=f"One of {TYPES_HELP}.")
    ] = "other",
    state: Annotated[
        str,
        typer.Option(
            "--state", metavar="STATE", help="draft, proposed, or accepted, which needs evidence."
        ),
    ] = "draft",
    owner: OwnerOption = None,
    review_by: ReviewByOption = None,
    evidence: EvidenceOption = None,
    supersedes: Annotated[
        str,
        typer.Option(
            "--supersedes", metavar="ID", help="What it takes the place of once it is accepted."
        ),
    ] = "",
    subcortex: SubcortexOption = "",
    tag: TagOption = None,
    code: CodeOption = None,
    sensitive: SensitiveFlag = False,
    key: KeyOption = "",
    as_json: JsonFlag = False,
) -> int:
    """Write down knowledge that somebody stands for; it is found at once."""
    links = code_told(code)
    with team() as library:
        rests_on, old = evidence_told(library, evidence), resolve_id(library, supersedes, KIND)

        def keep(text: str) -> Record[Any]:
            artifact = Artifact(
                title,
                text,
                summary or "",
                type.strip().lower(),
                state.strip().lower(),
                owner=owner or "",
                review_by=review_by or "",
                evidence=rests_on,
                supersedes=old,
                subcortex=subcortex.strip(),
                sensitivity=sensitivity(sensitive),
                tags=tags_told(tag),
                code_links=links,
            )
            stored = replace(artifact, code_links=code_cited(library, links))
            actor = writer()
            if artifact.state == "accepted":
                actor = _ask(library, "accept_artifact", artifact, "Write it as accepted?")
            return create(library, stored, actor=actor, key=key, payload=repr(artifact))

        again = f"cortex team artifact create {shlex.quote(title)} --body-file"
        record = written(body, body_file, keep, edit=edit, name=KIND, again=again, instead=INSTEAD)
        say_cautions(library, record)
        say_strangers(library, record)
        say_same_title(library, record)
    return tell_record(
        record, f"✓ Made {record.id}: {record.body.title} ({record.body.state})", as_json=as_json
    )


@app.command("edit")
def edit_one(
    ref: IdArgument,
    title: TitleOption = None,
    body: BodyOption = None,
    body_file: BodyFileOption = None,
    summary: SummaryOption = None,
    type: Annotated[
        str | None, typer.Option("--type", metavar="TYPE", help=f"One of {TYPES_HELP}.")
    ] = None,
    state: Annotated[
        str | None,
        typer.Option(
            "--state", metavar="STATE", help="draft, proposed or deprecated; see accept, supersede."
        ),
    ] = None,
    owner: OwnerOption = None,
    review_by: ReviewByOption = None,
    reviewed: Annotated[
        bool, typer.Option("--reviewed", help="It was looked at again now.")
    ] = False,
    verification: Annotated[
        str | None,
        typer.Option("--verification", metavar="WORD", help=f"One of {', '.join(VERIFICATIONS)}."),
    ] = None,
    evidence: EvidenceOption = None,
    remove_evidence: Annotated[
        list[str] | None,
        typer.Option("--remove-evidence", metavar="REF", help="Evidence to leave out, by its id."),
    ] = None,
    subcortex: OtherSubcortexOption = None,
    tag: TagOption = None,
    untag: UntagOption = None,
    code: CodeOption = None,
    sensitive: SensitiveFlag = False,
    key: KeyOption = "",
    as_json: JsonFlag = False,
) -> int:
    """Change an artifact; without options its text, in your editor ($VISUAL or $EDITOR). Every
    version stays.
    """
    text, links = text_told(body, body_file), code_told(code)
    plain = dict(
        given(
            title=title,
            body=text,
            summary=summary,
            type=type,
            state=_edited_state(state),
            review_by=review_by,
        )
    )
    plain |= given(
        verification=verification, subcortex=subcortex, sensitivity=SENSITIVE if sensitive else None
    )
    lists = (evidence, remove_evidence, tag, untag, code)
    with team() as library:
        before = resolve_ref(library.store.records, ref, KIND)
        if not (
            plain or owner is not None or reviewed or any(option is not None for option in lists)
        ):
            again = f"cortex team artifact edit {before.id} --body-file"
            after = edited(
                library,
                before,
                "body",
                action="edit",
                key=key,
                again=again,
                instead=INSTEAD,
                actor=partial(_editor, library, before),
            )
        else:
            if owner is not None:
                plain["owner"] = "".join(people_told(library, [owner]))
            payload = repr((before.id, sorted(plain.items()), reviewed, lists))
            if reviewed:
                plain["last_reviewed"] = int(time.time() * 1000)
            if code is not None:
                plain["code_links"] = code_cited(library, links)
            more = evidence_told(library, evidence)
            fewer = [
                _evidence_ref(library, before.body, given_ref)
                for given_ref in remove_evidence or ()
            ]

            def change(body: Artifact) -> Artifact:
                return replace(
                    body,
                    **plain,
                    evidence=changed(
                        body.evidence, more, fewer, "evidence", lambda source: source.ref
                    ),
                    tags=changed(body.tags, tags_told(tag), untag or (), "tag", str),
                )

            actor = _editor(library, before, change(before.body))
            after = revise(
                library, before.id, change, actor=actor, action="edit", key=key, payload=payload
            )
        say_cautions(library, after)
    same = after.version == before.version
    text = "Nothing was changed." if same else f"✓ Changed {after.id}: version {after.version}"
    return tell_record(after, text, as_json=as_json)


def _editor(library: Library, before: Record[Artifact], after: Artifact) -> Actor:
    """Return the actor of an edit; changing an accepted artifact or deprecating asks a person."""
    if after.state == "deprecated" != before.body.state:
        return _ask(library, "deprecate_artifact", after, f"Deprecate {before.id}?")
    if before.body.state == "accepted" and after != before.body:
        return _ask(library, "edit_accepted", after, f"It is accepted. Have {before.id} say this?")
    return writer()


def _ask(library: Library, action: str, artifact: Artifact, question: str) -> Actor:
    """Show the artifact to the person and ask for a decision."""
    rests_on = [f"  rests on {source.ref}" for source in artifact.evidence]
    lines = [artifact.title, *beginning_of(artifact.body), *rests_on, question]
    return decide(library, action, "\n".join(lines))


def _evidence_ref(library: Library, body: Artifact, given_ref: str) -> str:
    """Resolve evidence of the artifact by its URL, its id or a prefix of that."""
    known = {source.ref for source in body.evidence}
    return (
        given_ref
        if given_ref in known or "://" in given_ref
        else resolve_id(library, given_ref, "")
    )


def _edited_state(state: str | None) -> str | None:
    """Check a state that an edit may set. Raises: InputError ARGUMENT_INVALID."""
    if state is None:
        return None
    word = one_of(state, spec_of(Artifact).states, "--state")
    if word in ("accepted", "superseded"):
        verb = {"accepted": "accept ID", "superseded": "supersede OLD NEW"}[word]
        raise InputError("ARGUMENT_INVALID", f"`cortex team artifact {verb}` does that")
    return word


@app.command("accept")
def accept(
    ref: IdArgument, evidence: EvidenceOption = None, key: KeyOption = "", as_json: JsonFlag = False
) -> int:
    """Accept an artifact, which needs evidence; who made it hears of it."""
    with team() as library:
        artifact_id = resolve_id(library, ref, KIND)
        more = evidence_told(library, evidence)
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
    return tell_record(record, f"✓ Accepted {record.id}: {record.body.title}", as_json=as_json)


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
    return tell_record(
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
    return tell_record(record, f"✓ Deprecated {record.id}: {record.body.title}", as_json=as_json)
