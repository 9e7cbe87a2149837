"""Options in few words, and sets of options that several commands share.

A set is a dataclass with one annotated field for each option. A command takes it as one parameter;
Typer, which reads only signatures, sees the options one by one.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import wraps
from typing import Any, get_type_hints

import typer

KEYWORD_ONLY = inspect.Parameter.KEYWORD_ONLY


def option(usage: str, text: str, **limits: Any) -> Any:
    """Build an option from its usage, such as "--limit -n N", and its help text."""
    names = [part for part in usage.split() if part.startswith("-")]
    metavar = next((part for part in usage.split() if not part.startswith("-")), None)
    return typer.Option(*names, metavar=metavar, help=text, **limits)


def with_option_sets(command: Callable[..., int]) -> Callable[..., int]:
    """Replace the parameters of a command that are option sets by the options of the sets."""
    hints = get_type_hints(command, include_extras=True)
    sets: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}
    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(command).parameters.values():
        if parameter.name not in sets:
            annotation = hints[parameter.name]
            parameters.append(parameter.replace(annotation=annotation, kind=KEYWORD_ONLY))
            continue
        set_hints = get_type_hints(sets[parameter.name], include_extras=True)
        parameters += [
            inspect.Parameter(
                field.name, KEYWORD_ONLY, default=field.default, annotation=set_hints[field.name]
            )
            for field in fields(sets[parameter.name])
        ]

    @wraps(command)
    def run(**values: Any) -> int:
        for name, option_set in sets.items():
            own = {field.name: values.pop(field.name) for field in fields(option_set)}
            values[name] = option_set(**own)
        return command(**values)

    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return run
