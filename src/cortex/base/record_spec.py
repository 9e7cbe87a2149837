"""Specification of record kinds and their fields: the one table that everything derives from.

A field of a body is annotated with its row, `title: Annotated[str, FieldSpec(300, needed=True)]`,
and a body class is decorated with the row of its kind, `@record_kind(KindSpec("task_", ...))`. Both
stand in `record_model`. From them follow validation, references, names and schemas over HTTP, list
filters, indexed text, the rows of tools, the merge of two changes, and the options of commands.

Read the rows with

- `fields_of(cls)`: name -> FieldSpec, in the order of the class; also of parts such as `CodeLink`;
- `spec_of(kind or cls)`: the KindSpec, with `name`, `plural`, `states`, `moves`, `first`, `usual`
  and `help`; `KINDS` maps the name of a kind to its class, `PREFIXES` a class to its prefix;
- `choices_of(cls, name)`: the allowed values of a field; of `state` the states of its kind.

A FieldSpec that was read also has `name`, `hint` (the plain type), `default` (`...` where one has
to be given) and `part` (the type of a list's elements, None unless it is a list). It answers
`limit` (characters, or elements of a list), `http_name`, `row_name`, `title` (its label) and, where
commands offer it, `option`: name, metavar and help of the option that sets it, and of the one that
removes elements.

No I/O, and no rule that needs two fields: those are in the team family's `validation`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from functools import cache
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

# Most characters of a text without a limit of its own: ids, names.
LINE = 200
# Most characters of an element of a list, and most elements of a list.
ELEMENT, ELEMENTS = 500, 100


@dataclass(frozen=True, slots=True)
class Option:
    """Option of the commands that create and edit a record."""

    name: str  # "--review-by"
    metavar: str  # "DATE"
    help: str
    # Help where the record is edited, if it differs.
    edit_help: str = ""
    # Option that takes elements out of a list: "--untag", with its help.
    remove: str = ""
    remove_help: str = ""


@dataclass(frozen=True, slots=True)
class FieldSpec:
    """Row of a field."""

    # -- valid values
    # Most characters of a text, or elements of a list; 0 for the usual number.
    most: int = 0
    # Most characters of each element of a list.
    element: int = ELEMENT
    # Allowed values; those of `state` are the states of its kind.
    choices: tuple[str, ...] = ()
    # Must not be empty.
    needed: bool = False
    # Has several lines; all other texts are one line, with white space folded.
    long: bool = False
    # Written by people and agents, so judged by plugins; long texts are prose anyhow.
    prose: bool = False
    # Milliseconds since 1970, 0 for never.
    moment: bool = False
    # Random by nature, so not scanned for secrets.
    random: bool = False
    # Case makes no difference.
    folded: bool = False

    # -- references
    # Role of the reference that the value is, "" for none.
    role: str = ""
    # The only values that are references.
    referring: tuple[str, ...] = ()
    # Kind of the records that it may name.
    kind: str = ""
    # A record that is named makes this one as sensitive as itself.
    belongs: bool = False
    # Names principals, which differ between a home and its Core.
    principal: bool = False

    # -- over HTTP, and in a merge
    # Name over HTTP, "" for its own.
    http: str = ""
    # Clients may set it: always, only in a new record, only in a change, or never.
    sent: Literal["always", "new", "change", "never"] = "always"
    # A list of records may be filtered by its role.
    filtered: bool = False
    # Holds on one machine only: neither sent nor accepted over HTTP.
    local: bool = False
    # Value of two different changes: a conflict, the larger one, the later one among the states, or
    # one that is derived again.
    merge: Literal["conflict", "larger", "later", "derived"] = "conflict"
    # Identifies a part within a list.
    key: bool = False

    # -- shown
    # Place in the indexed text, 0 for none; lists in a row make one paragraph.
    indexed: int = 0
    # Name in the rows of tools, "" for not shown, None for its own name.
    row: str | None = ""
    # Not shown in rows while it has its default value.
    quiet: bool = False
    # Label in the terminal, "" for one made of the name.
    label: str = ""
    option: Option | None = None

    # -- filled in by `fields_of`
    name: str = ""
    hint: Any = str
    default: Any = ...
    part: Any = None

    @property
    def limit(self) -> int:
        """Most characters, or elements of a list."""
        return self.most or (LINE if self.part is None else ELEMENTS)

    @property
    def is_prose(self) -> bool:
        """True for text that plugins judge; others are ids, addresses, names, allowed values."""
        return self.prose or self.long

    @property
    def http_name(self) -> str:
        """Name over HTTP."""
        return self.http or self.name

    @property
    def row_name(self) -> str:
        """Name in the rows of tools, "" where it isn't shown."""
        return self.name if self.row is None else self.row

    @property
    def title(self) -> str:
        """Label in the terminal."""
        return self.label or self.name.replace("_", " ").capitalize()


@dataclass(frozen=True, slots=True)
class KindSpec:
    """Row of a kind."""

    # Prefix of its ids.
    prefix: str
    # The states, each with its successors.
    moves: Mapping[str, tuple[str, ...]]
    # States of a new record; none for any.
    first: tuple[str, ...] = ()
    # States that a list shows if none is asked for; none for all.
    usual: tuple[str, ...] = ()
    # A search returns its records.
    found: bool = True
    # Permission to create one.
    right: str = "edit"
    # Fields from which the record's claim is taken, as the first sentence; best field first.
    claim: tuple[str, ...] = ()
    # Order of the names in the rows of tools, if it isn't the usual one.
    row: tuple[str, ...] = ()
    # Help of its group of commands.
    help: str = ""
    # Filled in by `record_kind`.
    name: str = ""

    @property
    def states(self) -> tuple[str, ...]:
        return tuple(self.moves)

    @property
    def plural(self) -> str:
        return f"{self.name}es" if self.name.endswith("x") else f"{self.name}s"


C = TypeVar("C", bound=type[Any])

KINDS: dict[str, type] = {}
PREFIXES: dict[type, str] = {}
_SPECS: dict[type, KindSpec] = {}


def record_kind(spec: KindSpec) -> Callable[[C], C]:
    """Register the class that it decorates as the body of a kind, by its name in small letters."""

    def register(cls: C) -> C:
        name = cls.__name__.lower()
        KINDS[name], PREFIXES[cls] = cls, spec.prefix
        _SPECS[cls] = replace(spec, name=name)
        return cls

    return register


def spec_of(kind: type | str) -> KindSpec:
    """Return the row of a kind, by its class or its name."""
    return _SPECS[KINDS[kind] if isinstance(kind, str) else kind]


@cache
def fields_of(cls: type) -> Mapping[str, FieldSpec]:
    """Return the rows of a class's fields by name, in their order."""
    hints = get_type_hints(cls, include_extras=True)
    return {
        field.name: _filled(hints[field.name], field.name, field.default) for field in fields(cls)
    }


def _filled(hint: Any, name: str, default: Any) -> FieldSpec:
    """Return a field's row with its name, type and default value."""
    plain, *rows = get_args(hint) if hasattr(hint, "__metadata__") else (hint,)
    spec = next((row for row in rows if isinstance(row, FieldSpec)), FieldSpec())
    part = get_args(plain)[0] if get_origin(plain) is tuple else None
    default = ... if default is MISSING else default
    return replace(spec, name=name, hint=plain, default=default, part=part)


def choices_of(cls: type, name: str) -> tuple[str, ...]:
    """Return the allowed values of a field; none if it has any."""
    return spec_of(cls).states if name == "state" else fields_of(cls)[name].choices


def refs_of(body: Any) -> tuple[tuple[str, str], ...]:
    """Return the references of a body as (role, target); paths, tags and names are targets, too."""
    return tuple(dict.fromkeys(_refs(body)))


def _refs(noun: Any) -> Iterator[tuple[str, str]]:
    for spec in _referring(type(noun)):
        value = getattr(noun, spec.name)
        for item in value if spec.part is not None else (value,):
            if not spec.role:
                yield from _refs(item)
            elif item and (not spec.referring or item in spec.referring):
                yield spec.role, item.casefold() if spec.folded else item


@cache
def _referring(cls: type) -> tuple[FieldSpec, ...]:
    """Return the fields with references, their own or those of their parts."""
    return tuple(
        spec
        for spec in fields_of(cls).values()
        if spec.role or (is_dataclass(spec.part) and _referring(spec.part))
    )
