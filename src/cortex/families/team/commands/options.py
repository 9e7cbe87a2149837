"""What the commands about a team's records have in common: their options, the records that these
mean, and the library opened for them.

Records are the person's, not a project's: only the files that `--code` names are looked for in the
project here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
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
from cortex.families.team.notifications import who
from cortex.families.team.permissions import TIERS, need
from cortex.families.team.references import resolve_ref
from cortex.families.team.writes.transactions import acting
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
        kind: f"cortex {kind} list --all"
        for kind in ("thread", "task", "artifact", "link", "subcortex")
    },
    "observation": "cortex observation list",
    "comment": "cortex thread show ID",
    "draft": "cortex drafts list --all",
    "notification": "cortex inbox --all",
}
ANYTHING = 'cortex search "..." --in team'
OTHER_WAYS = "Ask somebody who may, or propose it: `cortex artifact create --state proposed`, a comment, a draft."
UNKNOWN = ("RECORD_UNKNOWN", "TARGET_NOT_FOUND", "SCOPE_NOT_FOUND")

T = TypeVar("T")

IdArgument = Annotated[
    str, typer.Argument(metavar="ID", help="Its id, or a beginning of it that no other has.")
]
IdsArgument = Annotated[
    list[str],
    typer.Argument(metavar="ID...", help="Their ids, or beginnings of them that no others have."),
]
SlugArgument = Annotated[str, typer.Argument(metavar="SLUG", help="Its slug or id.")]
TitleArgument = Annotated[
    str, typer.Argument(metavar="TITLE", help="What it is about, in one line.")
]
TitleOption = Annotated[str | None, typer.Option("--title", metavar="TEXT", help="Another title.")]
BodyOption = Annotated[
    str | None,
    typer.Option("--body", metavar="TEXT", help="What it says, as Markdown; -: from stdin."),
]
BodyFileOption = Annotated[
    Path | None, typer.Option("--body-file", metavar="FILE", help="A file that has what it says.")
]
EditFlag = Annotated[
    bool, typer.Option("--edit", "-e", help="Write it in your editor ($VISUAL or $EDITOR).")
]
SubcortexOption = Annotated[
    str,
    typer.Option(
        "--subcortex", metavar="SLUG", help="The subcortex that it belongs to, by its slug or id."
    ),
]
OtherSubcortexOption = Annotated[
    str | None,
    typer.Option(
        "--subcortex", metavar="SLUG", help='Another subcortex, by its slug or id; "": none.'
    ),
]
InSubcortexOption = Annotated[
    str,
    typer.Option("--subcortex", metavar="SLUG", help="Only in this subcortex, by its slug or id."),
]
TagOption = Annotated[
    list[str] | None, typer.Option("--tag", metavar="TAG", help="A tag; may be repeated.")
]
WithTagOption = Annotated[
    list[str] | None,
    typer.Option("--tag", metavar="TAG", help="Only with this tag; of several all must be there."),
]
UntagOption = Annotated[
    list[str] | None,
    typer.Option("--untag", metavar="TAG", help="A tag to leave out; may be repeated."),
]
CodeOption = Annotated[
    list[str] | None,
    typer.Option(
        "--code",
        metavar="PATH[#SYMBOL]",
        help="Code that it speaks of: it is told when that changes; may be repeated.",
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
        help="A key of this write: the same one makes a script's retry harmless.",
    ),
]
StateOption = Annotated[
    list[str] | None,
    typer.Option("--state", metavar="STATE", help="Only in this state; may be repeated."),
]
AllFlag = Annotated[bool, typer.Option("--all", help="Those that are closed, too.")]
LimitOption = Annotated[
    int, typer.Option("--limit", "-n", min=1, max=1000, metavar="N", help="How many.")
]
NotesOption = Annotated[
    str, typer.Option("--notes", metavar="TEXT", help="Why, for whoever wrote it.")
]


@contextmanager
def team() -> Iterator[Library]:
    """The library with the records; what goes wrong is told with the command that helps."""
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
    """What a person can do about an error: commands in place of the tools that an agent has."""
    told, own = (
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
        asked = "subcortex" if error.code == "SCOPE_NOT_FOUND" else str(told.get("type", ""))
        names = (asked, kind_of_id(str(told.get("id", ""))), str(told.get("field", "")))
        return (
            f"`{next((LISTS[name] for name in names if name in LISTS), ANYTHING)}` shows what there is.",
        )
    if error.code == "RIGHTS_MISSING":
        return (
            f"This home may do what tier {told.get('tier')} allows at the team's Core. {OTHER_WAYS}",
        )
    if new := told.get("accept"):
        return (f"`cortex artifact accept {new} --evidence KIND:REF` accepts it.",)
    if told.get("field") == "evidence" and "accepted" in error.message:
        return (
            "--evidence KIND:REF says what it rests on; without it, it is a draft or proposed.",
        )
    return error.suggestions


def number_of(library: Library, ref: str, kind: str) -> str:
    """The id of the record that was meant, "" where none was. Raises: InputError RECORD_UNKNOWN."""
    return resolve_ref(library.store.recorded, ref, kind).id if ref else ""


def code_told(targets: Sequence[str] | None) -> tuple[CodeLink, ...]:
    """What --code names, as seen from the project's root."""
    folder = here()
    place = project_at(folder)
    found = []
    for target in targets or ():
        path, _, symbol = from_root(place, folder, target).partition("#")
        if not path.strip():
            raise InputError(
                "ARGUMENT_INVALID",
                f"--code {target!r} names no file; write it as PATH or PATH#SYMBOL",
            )
        found.append(
            CodeLink(path.strip().replace("\\", "/"), repo=place.name, symbol=symbol.strip())
        )
    return tuple(dict.fromkeys(found))


def code_cited(library: Library, links: Sequence[CodeLink]) -> tuple[CodeLink, ...]:
    """What --code names, as it is now; what isn't there is kept as it was told, and said."""
    if not links:
        return ()
    found = cited(library, project_at(here()).path, links)
    for one in found:
        if not one.file_hash:
            say(
                f"note: there is no file {one.path} here: nobody is told when it changes",
                error=True,
            )
        elif one.symbol and not one.body_hash:
            say(
                f"note: there is no {one.symbol} in {one.path}: the whole file is watched",
                error=True,
            )
    return found


def evidence_told(library: Library, told: Sequence[str] | None) -> tuple[Evidence, ...]:
    """What --evidence names. Raises: InputError ARGUMENT_INVALID, RECORD_UNKNOWN."""
    return tuple(dict.fromkeys(_evidence(library, one) for one in told or ()))


def _evidence(library: Library, told: str) -> Evidence:
    kind, _, rest = told.partition(":")
    kind = kind.strip().lower()
    if kind in ("http", "https"):
        kind, rest = "url", told
    elif (named := kind_of_id(told.partition("=")[0].strip())) in EVIDENCE:
        kind, rest = named, told
    if kind not in EVIDENCE or not rest.strip():
        known = ", ".join(f"{one}:ID" for one in EVIDENCE[:-1])
        raise InputError(
            "ARGUMENT_INVALID", f"--evidence {told!r} is none; known: {known} and url:ADDRESS"
        )
    # An address may hold a "=" itself: there a note is what comes after a blank.
    ref, _, note = rest.partition(" =" if kind == "url" else "=")
    ref = ref.strip()
    return Evidence(
        kind, ref if kind == "url" else number_of(library, ref, kind), note.strip().strip('"')
    )


def terms_told(told: Sequence[str] | None) -> tuple[Term, ...]:
    """What --term names. Raises: InputError ARGUMENT_INVALID."""
    found = []
    for one in told or ():
        word, _, meaning = one.partition(":")
        if not word.strip() or not meaning.strip():
            raise InputError(
                "ARGUMENT_INVALID", f'--term {one!r} is none; write it as "WORD: what it means"'
            )
        found.append(Term(word.strip(), meaning.strip()))
    return tuple(found)


def people_told(library: Library, told: Sequence[str] | None) -> tuple[str, ...]:
    """Names of people and agents, the person's own in whichever of their names."""
    return tuple(
        dict.fromkeys(who(one.strip(), library.settings) for one in told or () if one.strip())
    )


def tags_told(told: Sequence[str] | None) -> tuple[str, ...]:
    """What --tag names, each once."""
    return tuple(
        {one.strip().casefold(): one.strip() for one in told or () if one.strip()}.values()
    )


def changed(
    known: Sequence[T], more: Sequence[T], fewer: Sequence[str], what: str, word: Callable[[T], str]
) -> tuple[T, ...]:
    """A list with some more and some fewer; one that has the same word takes the place of the
    other.

    Raises: InputError ARGUMENT_INVALID for one to leave out that isn't there.
    """
    kept = {word(one).casefold(): one for one in known}
    for told in fewer:
        if kept.pop(told.strip().casefold(), None) is None:
            there = ", ".join(word(one) for one in known) or "none"
            raise InputError("ARGUMENT_INVALID", f"there is no {what} {told!r}; there: {there}")
    return tuple((kept | {word(one).casefold(): one for one in more}).values())


def sensitivity(sensitive: bool) -> str:
    """What --sensitive says."""
    return SENSITIVE if sensitive else NORMAL


def text_told(text: str | None, file: Path | None) -> str | None:
    """A text that was given on the command line, on stdin or in a file; None where none was.
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
    """Keep a text that was given, or with `edit` one that is written in an editor."""
    told = text_told(text, file)
    if told is not None or not edit:
        return keep(told or "")
    return in_editor(
        name, "", lambda now: keep(_not_empty(now.strip("\n"))), again=again, instead=instead
    )


def _not_empty(text: str) -> str:
    """What somebody wrote in an editor; who leaves it empty has thought better of it."""
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
    """A text of a record in an editor; where somebody has changed it meanwhile, nothing is
    overwritten.

    `actor` gives who writes the body that it becomes.
    """
    text: str = getattr(before.body, field)

    def keep(told: str) -> Record[Any]:
        now = told.strip("\n")
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


def one_of(told: str, known: Sequence[str], option: str) -> str:
    """A word that is known. Raises: InputError ARGUMENT_INVALID."""
    word = told.strip().lower().replace("-", "_")
    if word and word not in known:
        raise InputError(
            "ARGUMENT_INVALID", f"unknown: {option} {told!r}; known: {', '.join(known)}"
        )
    return word


def given(**told: Any) -> Mapping[str, Any]:
    """Those of these options that were given."""
    return {name: value for name, value in told.items() if value is not None}


def decide(library: Library, action: str, question: str) -> Actor:
    """Ask the person for a decision that their tier allows and return who made it.

    Raises: InputError RIGHTS_MISSING where the team server would reject it, APPROVAL_NEEDED where
    no person can be asked here; typer.Exit where the answer is no.
    """
    if action in TIERS:
        need(acting(library, person()), action)
    return ask_decision(library.settings, action, question)
