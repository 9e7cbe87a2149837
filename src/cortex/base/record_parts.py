"""Parts of record bodies, and rows of fields that several kinds have.

Parts are code links, evidence, attachments and terms. No I/O.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from cortex.base.record_spec import FieldSpec, Option

NORMAL, SENSITIVE = "normal", "sensitive"
SENSITIVITIES = (NORMAL, SENSITIVE)
EVIDENCE_KINDS = ("thread", "comment", "observation", "artifact", "url")


@dataclass(frozen=True, slots=True)
class CodeLink:
    """A file, or a symbol in it, that a record refers to.

    Hashes and commit describe it as it was when the link was made, where it could be read.
    """

    # Relative to the repository's root, with "/".
    path: Annotated[str, FieldSpec(1_000, needed=True, role="path", key=True)]
    # Name of the repository.
    repo: Annotated[str, FieldSpec(200)] = ""
    symbol: Annotated[str, FieldSpec(300, role="symbol", folded=True, key=True)] = ""
    line_start: int = 0
    line_end: int = 0
    commit: Annotated[str, FieldSpec(64, random=True, http="commit_sha")] = ""
    # The repository's folder on this machine; "" where it wasn't looked up.
    root: Annotated[str, FieldSpec(4_000, random=True, local=True)] = ""
    # Hexadecimal.
    file_hash: Annotated[str, FieldSpec(random=True, local=True)] = ""
    body_hash: Annotated[str, FieldSpec(random=True, local=True)] = ""


@dataclass(frozen=True, slots=True)
class Evidence:
    """A source that supports an artifact."""

    kind: Annotated[str, FieldSpec(choices=EVIDENCE_KINDS, needed=True, http="type", key=True)]
    ref: Annotated[str, FieldSpec(2_000, needed=True, role="evidence", key=True)]
    note: Annotated[str, FieldSpec(200, long=True)] = ""


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file or page that belongs to a record: its location, never its bytes."""

    name: Annotated[str, FieldSpec(300, needed=True, prose=True, key=True)]
    ref: Annotated[str, FieldSpec(2_000, needed=True, role="citation", key=True)]
    media_type: Annotated[str, FieldSpec(100)] = ""
    size: int = 0


@dataclass(frozen=True, slots=True)
class Term:
    """A word of a glossary."""

    term: Annotated[str, FieldSpec(100, needed=True, prose=True, key=True)]
    meaning: Annotated[str, FieldSpec(1_000, needed=True, long=True)]


# -- rows of fields that several kinds have

_BODY_OPTION = Option("--body", "TEXT", "What it says, as Markdown; -: from stdin.")

TITLE = FieldSpec(300, needed=True, prose=True, option=Option("--title", "TEXT", "Another title."))
SUBCORTEX = FieldSpec(
    role="subcortex", kind="subcortex", belongs=True, filtered=True, row=None, http="subcortex_id",
    option=Option(
        "--subcortex", "SLUG", "The subcortex that it belongs to, by its slug or id.",
        edit_help='Another subcortex, by its slug or id; "": none.',
    ),
)  # fmt: skip
SENSITIVITY = FieldSpec(
    choices=SENSITIVITIES,
    option=Option(
        "--sensitive", "", "Not for everybody: no vectors are made of it, and answers mark it."
    ),
)
CODE_LINKS = FieldSpec(
    50, indexed=9, row="code", label="Code",
    option=Option(
        "--code", "PATH[#SYMBOL]",
        "Code that it is about: it is marked when that changes; may be repeated.",
    ),
)  # fmt: skip
EVIDENCE = FieldSpec(
    100, http="evidence_links", label="Rests on",
    option=Option(
        "--evidence", "KIND:REF[=NOTE]",
        f"What it rests on: {', '.join(EVIDENCE_KINDS[:-1])} with an id, or a url; "
        "may be repeated.",
        remove="--remove-evidence", remove_help="Evidence to leave out, by its id.",
    ),
)  # fmt: skip
CITATIONS = FieldSpec(
    50, role="citation", row="cites", label="Cites",
    option=Option("--cite", "ID", "A record that it rests on; may be repeated."),
)  # fmt: skip
Title = Annotated[str, TITLE]
SubcortexRef = Annotated[str, SUBCORTEX]
Sensitivity = Annotated[str, SENSITIVITY]
CodeLinks = Annotated[tuple[CodeLink, ...], CODE_LINKS]
Citations = Annotated[tuple[str, ...], CITATIONS]


def body_row(most: int, **row: Any) -> FieldSpec:
    return FieldSpec(most, long=True, http="body_md", option=_BODY_OPTION, **row)


def tags_row(most: int) -> FieldSpec:
    option = Option(
        "--tag", "TAG", "A tag; may be repeated.",
        remove="--untag", remove_help="A tag to leave out; may be repeated.",
    )  # fmt: skip
    return FieldSpec(
        most,
        element=50,
        prose=True,
        folded=True,
        role="tag",
        filtered=True,
        indexed=8,
        row=None,
        option=option,
    )


def thread_row(help: str = "", **row: Any) -> FieldSpec:
    option = Option("--thread", "ID", help) if help else None
    row = {"http": "linked_thread_id", **row}
    return FieldSpec(
        role="thread", kind="thread", belongs=True, filtered=True, row=None, option=option, **row
    )


def task_row(help: str = "") -> FieldSpec:
    option = Option("--task", "ID", help) if help else None
    return FieldSpec(
        role="task", kind="task", belongs=True, filtered=True, row=None, http="linked_task_id",
        option=option,
    )  # fmt: skip


def type_row(choices: tuple[str, ...], **row: Any) -> FieldSpec:
    option = Option("--type", "TYPE", f"One of {', '.join(choices)}.")
    return FieldSpec(choices=choices, row=None, option=option, **row)
