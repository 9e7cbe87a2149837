"""Options of the record commands, made from the rows of fields, and their values.

A field with an option in `record_model` has it in the commands that create and edit its kind,
without a line here. Only values that a command line has to spell, such as evidence, are named here.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from cortex.base.record_model import SENSITIVE, Evidence, Term
from cortex.base.record_spec import FieldSpec
from cortex.engine.library import Library
from cortex.families.team.commands.options import (
    EditFlag,
    parse_evidence,
    parse_people,
    parse_tags,
    parse_terms,
    resolve_id,
)

Values = Mapping[str, Any]
# Elements of these lists have another name than their field.
_NOUNS = {"glossary": "word", "naming": "rule"}


@dataclass(frozen=True, slots=True)
class Parameter:
    """Parameter of a command, as Typer reads it from a signature; `...` is no default."""

    name: str
    annotation: Any
    default: Any = None


def add_command(
    app: typer.Typer,
    name: str,
    parameters: Iterable[Parameter],
    run: Callable[[Values], int],
    help: str,
) -> None:
    """Add a command with these parameters; `run` gets their values by name."""

    def command(**values: Any) -> int:
        return run(values)

    command.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(
                parameter.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=inspect.Parameter.empty if parameter.default is ... else parameter.default,
                annotation=parameter.annotation,
            )
            for parameter in parameters
        ]
    )
    app.command(name, help=help)(command)


# -- parameters


def field_parameters(
    specs: Iterable[FieldSpec], *, editing: bool, text: str = ""
) -> Iterator[Parameter]:
    """Yield the parameters of fields; `text` is the one that a file may hold."""
    for spec in specs:
        if _is_offered(spec, editing=editing):
            yield field_parameter(spec, editing=editing)
            if spec.option and spec.option.remove and editing:
                yield _many(f"remove_{spec.name}", spec.option.remove, spec, removing=True)
            if spec.name == text:
                yield from _text_sources(spec, editing=editing)


def _is_offered(spec: FieldSpec, *, editing: bool) -> bool:
    """True for a field with an option here: a row may have help for only one of both."""
    if spec.option is None or spec.sent == ("new" if editing else "change"):
        return False
    return bool(spec.option.help or (editing and spec.option.edit_help))


def field_parameter(spec: FieldSpec, *, editing: bool) -> Parameter:
    """Return the parameter that sets a field."""
    option = spec.option
    assert option is not None
    help = (option.edit_help or option.help) if editing else option.help
    if spec.name == "title" and not editing:
        argument = typer.Argument(metavar="TITLE", help="What it is about, in one line.")
        return Parameter(spec.name, Annotated[str, argument], ...)
    if not option.name.startswith("-"):
        argument = typer.Argument(metavar=option.metavar, help=help)
        return Parameter(spec.name, Annotated[str, argument], ...)
    if spec.part is not None:
        return _many(spec.name, option.name, spec)
    if not option.metavar:
        return Parameter(spec.name, Annotated[bool, typer.Option(option.name, help=help)], False)
    declared = typer.Option(option.name, metavar=option.metavar, help=help)
    if editing or spec.default == "":
        return Parameter(spec.name, Annotated[str | None, declared])
    required = ... if spec.needed else spec.default
    return Parameter(spec.name, Annotated[str, declared], required)


def _many(name: str, option: str, spec: FieldSpec, *, removing: bool = False) -> Parameter:
    row = spec.option
    assert row is not None
    metavar = "REF" if removing and spec.part is Evidence else row.metavar.partition(":")[0]
    declared = typer.Option(
        option,
        metavar=metavar if removing else row.metavar,
        help=row.remove_help if removing else row.help,
    )
    return Parameter(name, Annotated[list[str] | None, declared])


def _text_sources(spec: FieldSpec, *, editing: bool) -> Iterator[Parameter]:
    option = spec.option
    assert option is not None
    said = "what it says" if spec.name == "body" else f"the {spec.name}"
    declared = typer.Option(f"{option.name}-file", metavar="FILE", help=f"A file that has {said}.")
    yield Parameter("file", Annotated[Path | None, declared])
    if not editing:
        yield Parameter("edit", EditFlag, False)


# -- values


def parse_value(library: Library, spec: FieldSpec, value: Any) -> Any:
    """Parse the value of a field that isn't a list. Raises: InputError RECORD_UNKNOWN."""
    if spec.name == "sensitivity":
        return SENSITIVE if value else spec.default
    if spec.principal:
        return "".join(parse_people(library, [value]))
    if spec.kind and spec.kind != "subcortex":
        return resolve_id(library, value, spec.kind)
    return value.strip().lower() if spec.choices or spec.name == "state" else value.strip()


def parse_elements(library: Library, spec: FieldSpec, values: Sequence[str] | None) -> Any:
    """Parse the elements of a list. Raises: InputError ARGUMENT_INVALID, RECORD_UNKNOWN."""
    if spec.part is Evidence:
        return parse_evidence(library, values)
    if spec.part is Term:
        return parse_terms(values)
    if spec.principal:
        return parse_people(library, values)
    return parse_tags(values) if spec.folded else tuple(values or ())


def elements_removed(
    library: Library, spec: FieldSpec, body: Any, values: Sequence[str] | None
) -> Sequence[str]:
    """Return the names of the elements to take out of a list."""
    if spec.part is Evidence:
        known = {element_name(source) for source in getattr(body, spec.name)}
        return [
            ref if ref in known or "://" in ref else resolve_id(library, ref, "")
            for ref in values or ()
        ]
    return parse_people(library, values) if spec.principal else values or ()


def element_name(element: Any) -> str:
    """Return the name by which an element of a list is found again."""
    match element:
        case Evidence(ref=ref):
            return ref
        case Term(term=term):
            return term
        case _:
            return element


def element_noun(spec: FieldSpec) -> str:
    """Return the word for an element of a list: "tag" of `tags`."""
    return _NOUNS.get(spec.name, spec.name.removesuffix("s"))
