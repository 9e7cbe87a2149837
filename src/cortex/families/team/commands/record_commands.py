"""Commands that kinds of records share: list, show, create and edit, made from the row of a kind.

Options, labels and texts follow from the fields in `record_model`. What one kind alone has, such as
accepting an artifact, is in the module of that kind.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Annotated, Any

import typer

from cortex.base.errors import InputError
from cortex.base.record_model import Actor, Record
from cortex.base.record_spec import FieldSpec, choices_of, fields_of, spec_of
from cortex.engine.library import Library
from cortex.families.team.commands.field_options import (
    Parameter,
    Values,
    add_command,
    element_name,
    element_noun,
    elements_removed,
    field_parameters,
    parse_elements,
    parse_value,
)
from cortex.families.team.commands.options import (
    IdArgument,
    InSubcortexOption,
    KeyOption,
    LimitOption,
    SlugArgument,
    StateOption,
    WithTagOption,
    changed,
    code_cited,
    edited,
    one_of,
    parse_code,
    read_given,
    resolve_id,
    team,
    written,
)
from cortex.families.team.commands.record_context import (
    Condition,
    list_records,
    look_around,
    print_list,
    say_record,
    whole_json,
)
from cortex.families.team.commands.render import day, name_of, print_record
from cortex.families.team.references import resolve_ref
from cortex.families.team.writes.create import create
from cortex.families.team.writes.update import revise
from cortex.toolkit.terminal.options import JsonFlag
from cortex.toolkit.terminal.output import print_json
from cortex.toolkit.terminal.prompts import writer

KEY, JSON = Parameter("key", KeyOption, ""), Parameter("as_json", JsonFlag, False)

Note = Callable[[Library, Record[Any]], None]


@dataclass(frozen=True, slots=True)
class ListFilter:
    """Option of a list, and the condition that its value is."""

    parameter: Parameter
    condition: Callable[[Library, Any], Condition]


IN_SUBCORTEX = ListFilter(
    Parameter("subcortex", InSubcortexOption, ""),
    lambda library, ref: Condition(refs=(("subcortex", resolve_id(library, ref, "subcortex")),)),
)
WITH_TAGS = ListFilter(
    Parameter("tag", WithTagOption),
    lambda library, tags: Condition(refs=tuple(("tag", tag.strip().casefold()) for tag in tags)),
)


@dataclass(frozen=True, slots=True)
class RecordCommands:
    """Commands of a kind, as far as they differ from those of other kinds."""

    cls: type
    # Said where there is no record of the kind.
    start: str
    # Fields and header fields in a line of the list.
    columns: tuple[str | Callable[[Record[Any]], str], ...]
    list_help: str
    show: Callable[..., int]
    # No help: there is no such command.
    create_help: str = ""
    edit_help: str = ""
    filters: tuple[ListFilter, ...] = ()
    all_help: str = "Those that are closed, too."
    limit: int = 30
    # Field that can be written in an editor, or come from a file.
    text: str = "body"
    made: str = "Made {name}: {title}"
    # Fields that `create`, or `edit`, leaves to other commands.
    not_created: tuple[str, ...] = ()
    not_edited: tuple[str, ...] = ()
    # Flags of `edit` with their help and the changes that they make.
    flags: Mapping[str, tuple[str, Callable[[], Mapping[str, Any]]]] = field(default_factory=dict)
    # States that commands of their own bring about.
    state_commands: Mapping[str, str] = field(default_factory=dict)
    edit_action: str = "edit"
    # Author of a new body, or of a changed one.
    author: Callable[[Library, Record[Any] | None, Any], Actor] = lambda *_: writer()
    notes: tuple[Note, ...] = ()
    edit_notes: tuple[Note, ...] = ()

    @property
    def name(self) -> str:
        return spec_of(self.cls).name

    @property
    def fields(self) -> Mapping[str, FieldSpec]:
        return fields_of(self.cls)

    @property
    def file_option(self) -> str:
        """Option for a file with the text."""
        option = self.fields[self.text].option
        return f"{option.name}-file" if option else ""


def record_app(kind: RecordCommands) -> typer.Typer:
    """Build the group of a kind with the commands that all kinds share."""
    app = typer.Typer(name=kind.name, help=spec_of(kind.cls).help, no_args_is_help=True)
    add_command(app, "list", _list_parameters(kind), partial(_list, kind), kind.list_help)
    app.command("show")(kind.show)
    if kind.create_help:
        add_command(
            app, "create", _create_parameters(kind), partial(_create, kind), kind.create_help
        )
    if kind.edit_help:
        add_command(app, "edit", _edit_parameters(kind), partial(_edit, kind), kind.edit_help)
    return app


# -- list


def choice_filter(cls: type, name: str) -> ListFilter:
    """Return the filter by a field with a fixed set of values."""
    spec = fields_of(cls)[name]
    assert spec.option is not None
    help = f"Only of this {name}: {', '.join(spec.choices)}."
    option = typer.Option(spec.option.name, metavar=spec.option.metavar, help=help)

    def condition(library: Library, value: str) -> Condition:
        word = one_of(value, spec.choices, f"--{name}")
        # Only some of the values of a field may be references.
        if spec.role and not spec.referring:
            return Condition(refs=((spec.role, word),))
        return Condition(keep=lambda body: getattr(body, name) == word)

    return ListFilter(Parameter(name, Annotated[str, option], ""), condition)


def flag_filter(name: str, help: str, condition: Callable[[], Condition]) -> ListFilter:
    """Return the filter that a flag is."""
    option = Annotated[bool, typer.Option(f"--{name}", help=help)]
    return ListFilter(Parameter(name, option, False), lambda library, given: condition())


def _list_parameters(kind: RecordCommands) -> Iterator[Parameter]:
    if len(spec_of(kind.cls).states) > 1:
        every = typer.Option("--all", help=kind.all_help)
        yield Parameter("state", StateOption)
        yield Parameter("everything", Annotated[bool, every], False)
    yield from (filter.parameter for filter in _list_filters(kind))
    yield from (Parameter("limit", LimitOption, kind.limit), JSON)


def _list_filters(kind: RecordCommands) -> list[ListFilter]:
    shared = {"subcortex": IN_SUBCORTEX, "tags": WITH_TAGS}
    return [*kind.filters, *(filter for name, filter in shared.items() if name in kind.fields)]


def _list(kind: RecordCommands, given: Values) -> int:
    with team() as library:
        listing = list_records(
            library,
            kind.name,
            given["limit"],
            [
                filter.condition(library, value)
                for filter in _list_filters(kind)
                if (value := given[filter.parameter.name])
            ],
            states=given.get("state"),
            everything=given.get("everything", False),
        )
    return print_list(
        listing,
        spec_of(kind.cls).plural,
        kind.start,
        lambda record: [_cell(record, column) for column in kind.columns],
        as_json=given["as_json"],
    )


def _cell(record: Record[Any], column: str | Callable[[Record[Any]], str]) -> str:
    if not isinstance(column, str):
        return column(record)
    if column in ("created", "updated"):
        return day(getattr(record, column))
    value = (
        getattr(record.body, column) if hasattr(record.body, column) else getattr(record, column)
    )
    return ", ".join(value) if isinstance(value, tuple) else value


# -- show


def plain_show(cls: type, help: str) -> Callable[..., int]:
    """Return the command that shows a record and what surrounds it."""

    def show(ref: IdArgument, as_json: JsonFlag = False) -> int:
        with team() as library:
            record = resolve_ref(library.store.records, ref, spec_of(cls).name)
            around = look_around(library, record)
        if as_json:
            print_json(whole_json(record, around))
        else:
            say_record(record, around)
        return 0

    show.__doc__ = help
    return show


# -- create


def _create_parameters(kind: RecordCommands) -> Iterator[Parameter]:
    offered = [spec for spec in kind.fields.values() if spec.name not in kind.not_created]
    yield from field_parameters(offered, editing=False, text=kind.text)
    yield from (KEY, JSON)


def _create(kind: RecordCommands, given: Values) -> int:
    links = parse_code(given.get("code_links"))
    with team() as library:
        values = {
            spec.name: _parse(library, spec, given[spec.name])
            for spec in kind.fields.values()
            if given.get(spec.name) is not None and spec.name not in (kind.text, "code_links")
        }
        if links:
            values["code_links"] = links

        def keep(text: str) -> Record[Any]:
            body = kind.cls(**values, **{kind.text: text})
            stored = replace(body, code_links=code_cited(library, links)) if links else body
            actor = kind.author(library, None, body)
            return create(library, stored, actor=actor, key=given["key"], payload=repr(body))

        record = written(
            given[kind.text],
            given["file"],
            keep,
            edit=given["edit"],
            name=kind.name,
            again=" ".join(
                (f"cortex team {kind.name} create", *_required(kind, given), kind.file_option)
            ),
            instead=f"give the text with {kind.file_option.removesuffix('-file')}",
        )
        for note in kind.notes:
            note(library, record)
    text = kind.made.format(name=name_of(record), title=record.body.title, state=record.body.state)
    return print_record(record, f"✓ {text}", as_json=given["as_json"])


def _parse(library: Library, spec: FieldSpec, value: Any) -> Any:
    return (
        parse_value(library, spec, value)
        if spec.part is None
        else parse_elements(library, spec, value)
    )


def _required(kind: RecordCommands, given: Values) -> Iterator[str]:
    """Yield the arguments and options that a new record needs, as they were given."""
    for spec in kind.fields.values():
        if spec.needed and spec.option and spec.name in given:
            if spec.name != "title" and spec.option.name.startswith("-"):
                yield spec.option.name
            yield shlex.quote(given[spec.name])


# -- edit


def _edit_parameters(kind: RecordCommands) -> Iterator[Parameter]:
    yield Parameter("ref", SlugArgument if "slug" in kind.fields else IdArgument, ...)
    offered = [spec for spec in kind.fields.values() if spec.name not in kind.not_edited]
    yield from field_parameters(offered, editing=True, text=kind.text)
    for name, (help, _) in kind.flags.items():
        yield Parameter(name, Annotated[bool, typer.Option(f"--{name}", help=help)], False)
    yield from (KEY, JSON)


def _edit(kind: RecordCommands, values: Values) -> int:
    given = {
        name: value
        for name, value in values.items()
        if value not in (None, False) and name not in ("ref", "file", "key", "as_json")
    }
    text = read_given(values[kind.text], values["file"])
    if text is not None:
        given[kind.text] = text
    _check_state(kind, given)
    with team() as library:
        before = resolve_ref(library.store.records, values["ref"], kind.name)
        after = (
            _change(kind, library, before, given, values["key"])
            if given
            else _write_anew(kind, library, before, values["key"])
        )
        for note in kind.edit_notes:
            note(library, after)
    same = after.version == before.version
    text = (
        "Nothing was changed." if same else f"✓ Changed {name_of(after)}: version {after.version}"
    )
    return print_record(after, text, as_json=values["as_json"])


def _write_anew(
    kind: RecordCommands, library: Library, before: Record[Any], key: str
) -> Record[Any]:
    """Have the text written in an editor."""
    return edited(
        library,
        before,
        kind.text,
        action=kind.edit_action,
        key=key,
        again=f"cortex team {kind.name} edit {name_of(before)} {kind.file_option}",
        instead=f"give the text with {kind.file_option.removesuffix('-file')} or "
        f"{kind.file_option}, or say what else to change",
        actor=lambda after: kind.author(library, before, after),
    )


def _change(
    kind: RecordCommands, library: Library, before: Record[Any], given: Values, key: str
) -> Record[Any]:
    change = _changer(kind, library, before.body, given)
    return revise(
        library,
        before.id,
        change,
        actor=kind.author(library, before, change(before.body)),
        action=kind.edit_action,
        key=key,
        payload=repr((before.id, sorted(given.items()))),
    )


def _changer(
    kind: RecordCommands, library: Library, body: Any, given: Values
) -> Callable[[Any], Any]:
    """Return the change that the options ask for."""
    plain: dict[str, Any] = {}
    lists: list[tuple[FieldSpec, Any, Any]] = []
    for spec in kind.fields.values():
        more, fewer = given.get(spec.name), given.get(f"remove_{spec.name}")
        if spec.name == "code_links" and more:
            plain[spec.name] = code_cited(library, parse_code(more))
        elif spec.part is not None and (more or fewer):
            removed = elements_removed(library, spec, body, fewer)
            lists.append((spec, parse_elements(library, spec, more), removed))
        elif more is not None:
            plain[spec.name] = more if spec.name == kind.text else parse_value(library, spec, more)
    for name, (_, changes) in kind.flags.items():
        plain |= changes() if name in given else {}

    def change(current: Any) -> Any:
        elements = {
            spec.name: changed(
                getattr(current, spec.name), more, fewer, element_noun(spec), element_name
            )
            for spec, more, fewer in lists
        }
        return replace(current, **plain, **elements)

    return change


def _check_state(kind: RecordCommands, given: Values) -> None:
    """Refuse a state that a command of its own brings about.

    Raises: InputError ARGUMENT_INVALID.
    """
    if not kind.state_commands or "state" not in given:
        return
    word = one_of(given["state"], choices_of(kind.cls, "state"), "--state")
    if command := kind.state_commands.get(word):
        raise InputError("ARGUMENT_INVALID", f"`cortex team {kind.name} {command}` does that")
