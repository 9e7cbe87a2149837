"""Shared options of the team commands, their parsing, and the library they work on.

Records belong to the person, not to a project: only the files that `--code` names are resolved in
the project around the working directory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from cortex.base.actors import person
from cortex.base.errors import CODES, InputError
from cortex.base.record_model import NORMAL, SENSITIVE, Actor, CodeLink, Evidence, Record, Term
from cortex.engine.library import Library
from cortex.engine.sources.project import project_at
from cortex.engine.store import kind_of_id
from cortex.families.team.code_links import cited
from cortex.families.team.commands.sync_status import waits_for
from cortex.families.team.notifications import resolve_name
from cortex.families.team.permissions import TIERS, need
from cortex.families.team.references import resolve_ref
from cortex.families.team.writes.transactions import effective_actor
from cortex.families.team.writes.update import revise
from cortex.toolkit.terminal.editor import in_editor, read_file
from cortex.toolkit.terminal.library import open_library
from cortex.toolkit.terminal.options import read_text
from cortex.toolkit.terminal.output import many, say
from cortex.toolkit.terminal.prompts import decide as ask_decision
from cortex.toolkit.terminal.prompts import writer
from cortex.toolkit.terminal.workspace import from_root, here

EVIDENCE = ("thread", "comment", "observation", "artifact", "url")
LISTS = {
    **{
        kind: f"cortex team {kind} list --all"
        for kind in ("thread", "task", "artifact", "link", "subcortex")
    },
    "observation": "cortex team observation list",
    "comment": "cortex team thread show ID",
    "draft": "cortex team drafts list --all",
    "notification": "cortex inbox --all",
}
ANYTHING = 'cortex search "..." --in team'
OTHER_WAYS = (
    "Ask a person with the permission, or propose it: `cortex team artifact create --state "
    "proposed`, a comment, a draft."
)
UNKNOWN = ("RECORD_UNKNOWN", "TARGET_NOT_FOUND", "SCOPE_NOT_FOUND")

T = TypeVar("T")

IdArgument = Annotated[
    str, typer.Argument(metavar="ID", help="Its id, or the beginning of it if that is unique.")
]
IdsArgument = Annotated[
    list[str], typer.Argument(metavar="ID...", help="Their ids, or unique beginnings of them.")
]
SlugArgument = Annotated[str, typer.Argument(metavar="SLUG", help="Its slug or id.")]
BodyFileOption = Annotated[
    Path | None, typer.Option("--body-file", metavar="FILE", help="A file with its text.")
]
EditFlag = Annotated[
    bool, typer.Option("--edit", "-e", help="Write it in your editor ($VISUAL or $EDITOR).")
]
InSubcortexOption = Annotated[
    str,
    typer.Option("--subcortex", metavar="SLUG", help="Only in this subcortex, by its slug or id."),
]
WithTagOption = Annotated[
    list[str] | None,
    typer.Option(
        "--tag", metavar="TAG", help="Only with this tag; may be repeated: with all of them."
    ),
]
EvidenceOption = Annotated[
    list[str] | None,
    typer.Option(
        "--evidence",
        metavar="KIND:REF[=NOTE]",
        help=f"What it rests on: {', '.join(EVIDENCE[:-1])} with an id, or a url; may be repeated.",
    ),
]
SensitiveFlag = Annotated[
    bool,
    typer.Option(
        "--sensitive", help="Not for everybody: no vectors are made of it, and answers mark it."
    ),
]
KeyOption = Annotated[
    str,
    typer.Option(
        "--key",
        metavar="KEY",
        help="A key for this write: a retry with the same key writes nothing twice.",
    ),
]
StateOption = Annotated[
    list[str] | None,
    typer.Option("--state", metavar="STATE", help="Only in this state; may be repeated."),
]
AllFlag = Annotated[bool, typer.Option("--all", help="Also those that are closed.")]
LimitOption = Annotated[
    int, typer.Option("--limit", "-n", min=1, max=1000, metavar="N", help="How many.")
]
NotesOption = Annotated[str, typer.Option("--notes", metavar="TEXT", help="Why, for the author.")]


@contextmanager
def team() -> Iterator[Library]:
    """Open the library with the records; errors suggest the command that helps."""
    with open_library() as library:
        before = library.store.outbox.count()[0]
        try:
            yield library
        except InputError as error:
            error.suggestions = suggested(error)
            raise
        waiting = library.store.outbox.count()[0]
        if waiting > before:
            say(f"waiting to be sent: {many(waiting, 'write')}; {waits_for(library)}", error=True)


def suggested(error: InputError) -> tuple[str, ...]:
    """Suggestions for a person: commands in place of an agent's tools."""
    context, own = (
        error.context,
        tuple(
            suggestion
            for suggestion in error.suggestions
            if suggestion != CODES[error.code].suggestion
        ),
    )
    if error.code in UNKNOWN and own:
        return own
    if error.code in UNKNOWN:
        kind = "subcortex" if error.code == "SCOPE_NOT_FOUND" else str(context.get("type", ""))
        names = (kind, kind_of_id(str(context.get("id", ""))), str(context.get("field", "")))
        return (
            f"`{next((LISTS[name] for name in names if name in LISTS), ANYTHING)}` "
            "shows what there is.",
        )
    if error.code == "RIGHTS_MISSING":
        return (
            f"At the team's Core, this home has the permissions of tier {context.get('tier')}. "
            f"{OTHER_WAYS}",
        )
    if new := context.get("accept"):
        return (f"`cortex team artifact accept {new} --evidence KIND:REF` accepts it.",)
    if context.get("field") == "evidence" and "accepted" in error.message:
        return (
            "--evidence KIND:REF says what it rests on; without it, it is a draft or proposed.",
        )
    return error.suggestions


def resolve_id(library: Library, ref: str, kind: str) -> str:
    """Resolve a reference to a record id, "" for none. Raises: InputError RECORD_UNKNOWN."""
    return resolve_ref(library.store.records, ref, kind).id if ref else ""


def parse_code(targets: Sequence[str] | None) -> tuple[CodeLink, ...]:
    """Parse --code into links relative to the project's root."""
    folder = here()
    project = project_at(folder)
    links = []
    for target in targets or ():
        path, _, symbol = from_root(project, folder, target).partition("#")
        if not path.strip():
            raise InputError(
                "ARGUMENT_INVALID",
                f"--code {target!r} names no file; write it as PATH or PATH#SYMBOL",
            )
        links.append(
            CodeLink(path.strip().replace("\\", "/"), repo=project.name, symbol=symbol.strip())
        )
    return tuple(dict.fromkeys(links))


def code_cited(library: Library, links: Sequence[CodeLink]) -> tuple[CodeLink, ...]:
    """Add the current hashes to code links; print a note for each missing file or symbol."""
    if not links:
        return ()
    cited_links = cited(library, project_at(here()).path, links)
    for link in cited_links:
        if not link.file_hash:
            say(
                f"note: there is no file {link.path} here: a change of it can't be noticed",
                error=True,
            )
        elif link.symbol and not link.body_hash:
            say(
                f"note: there is no {link.symbol} in {link.path}: the whole file is watched",
                error=True,
            )
    return cited_links


def parse_evidence(library: Library, values: Sequence[str] | None) -> tuple[Evidence, ...]:
    """Parse --evidence. Raises: InputError ARGUMENT_INVALID, RECORD_UNKNOWN."""
    return tuple(dict.fromkeys(_parse_source(library, value) for value in values or ()))


def _parse_source(library: Library, value: str) -> Evidence:
    kind, _, rest = value.partition(":")
    kind = kind.strip().lower()
    if kind in ("http", "https"):
        kind, rest = "url", value
    elif (named := kind_of_id(value.partition("=")[0].strip())) in EVIDENCE:
        kind, rest = named, value
    if kind not in EVIDENCE or not rest.strip():
        known = ", ".join(f"{name}:ID" for name in EVIDENCE[:-1])
        raise InputError(
            "ARGUMENT_INVALID", f"--evidence {value!r} isn't one of: {known}, url:ADDRESS"
        )
    # A URL may contain "=", so its note starts after a space.
    ref, _, note = rest.partition(" =" if kind == "url" else "=")
    ref = ref.strip()
    return Evidence(
        kind, ref if kind == "url" else resolve_id(library, ref, kind), note.strip().strip('"')
    )


def parse_terms(values: Sequence[str] | None) -> tuple[Term, ...]:
    """Parse --term. Raises: InputError ARGUMENT_INVALID."""
    terms = []
    for value in values or ():
        word, _, meaning = value.partition(":")
        if not word.strip() or not meaning.strip():
            raise InputError(
                "ARGUMENT_INVALID", f'--term {value!r} must be written as "WORD: its meaning"'
            )
        terms.append(Term(word.strip(), meaning.strip()))
    return tuple(terms)


def parse_people(library: Library, names: Sequence[str] | None) -> tuple[str, ...]:
    """Canonical names of people and agents; any name of the person maps to their own."""
    return tuple(
        dict.fromkeys(
            resolve_name(name.strip(), library.settings) for name in names or () if name.strip()
        )
    )


def parse_tags(tags: Sequence[str] | None) -> tuple[str, ...]:
    """Parse --tag, without duplicates."""
    return tuple(
        {tag.strip().casefold(): tag.strip() for tag in tags or () if tag.strip()}.values()
    )


def changed(
    known: Sequence[T], more: Sequence[T], fewer: Sequence[str], what: str, word: Callable[[T], str]
) -> tuple[T, ...]:
    """Return `known` without `fewer` and with `more`; an added item replaces one of its name.

    `word` gives the name of an item. Raises: InputError ARGUMENT_INVALID, if an item of `fewer`
    isn't in `known`.
    """
    kept = {word(item).casefold(): item for item in known}
    for name in fewer:
        if kept.pop(name.strip().casefold(), None) is None:
            names = ", ".join(word(item) for item in known) or "none"
            raise InputError("ARGUMENT_INVALID", f"there is no {what} {name!r}; there: {names}")
    return tuple((kept | {word(item).casefold(): item for item in more}).values())


def sensitivity(sensitive: bool) -> str:
    """Sensitivity that --sensitive selects."""
    return SENSITIVE if sensitive else NORMAL


def read_given(text: str | None, file: Path | None) -> str | None:
    """Read a text from the command line, stdin or a file; None if not given.

    Raises: InputError, FileError.
    """
    if text is not None and file is not None:
        raise InputError("ARGUMENT_INVALID", "give the text or a file that has it, not both")
    if file is not None:
        return read_file(file).strip("\n")
    return None if text is None else read_text(text)


def written(
    text: str | None,
    file: Path | None,
    keep: Callable[[str], T],
    *,
    edit: bool,
    name: str,
    again: str,
    instead: str,
) -> T:
    """Pass the given text to `keep`; with `edit`, pass one written in an editor."""
    given_text = read_given(text, file)
    if given_text is not None or not edit:
        return keep(given_text or "")
    return in_editor(
        name, "", lambda now: keep(_check_not_empty(now.strip("\n"))), again=again, instead=instead
    )


def _check_not_empty(text: str) -> str:
    """Reject an empty text from the editor, which cancels the command."""
    if not text.strip():
        raise InputError("ARGUMENT_INVALID", "there is no text: nothing was written")
    return text


def edited(
    library: Library,
    before: Record[Any],
    field: str,
    *,
    action: str,
    key: str,
    again: str,
    instead: str,
    actor: Callable[[Any], Actor] = lambda after: writer(),
) -> Record[Any]:
    """Edit a text field of a record in an editor; a concurrent change isn't overwritten.

    `actor` returns the author of the edited body.
    """
    text: str = getattr(before.body, field)

    def keep(edited_text: str) -> Record[Any]:
        now = edited_text.strip("\n")
        if now == text.strip("\n"):
            return before
        return revise(
            library,
            before.id,
            lambda body: replace(body, **{field: now}),
            actor=actor(replace(before.body, **{field: now})),
            action=action,
            key=key,
            version=before.version,
            payload=repr((before.id, now)),
        )

    return in_editor(before.id, text, keep, again=again, instead=instead)


def one_of(value: str, known: Sequence[str], option: str) -> str:
    """Normalize an option's value and check it. Raises: InputError ARGUMENT_INVALID."""
    word = value.strip().lower().replace("-", "_")
    if word and word not in known:
        raise InputError(
            "ARGUMENT_INVALID", f"unknown: {option} {value!r}; known: {', '.join(known)}"
        )
    return word


def decide(library: Library, action: str, question: str) -> Actor:
    """Ask the person for a decision that their tier allows and return the actor.

    Raises: InputError RIGHTS_MISSING if the team server would reject it, APPROVAL_NEEDED if no
    person can be asked here; typer.Exit if the answer is no.
    """
    if action in TIERS:
        need(effective_actor(library, person()), action)
    return ask_decision(library.settings, action, question)
