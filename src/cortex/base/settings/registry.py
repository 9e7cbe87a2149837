"""Registry of all settings, read from the groups: name, kind, default, range, variables.

Used by the documentation, `cortex config`, the search for the nearest known key, and the reading of
files and variables. A name is found in any spelling (`workspace.maxFiles`, `workspace.max_files`).
Knows no values but the defaults.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import get_args

from pydantic import ValidationError
from pydantic.fields import FieldInfo

from cortex.base.runtime.home import SETTING_VARIABLES
from cortex.base.settings.groups import Groups, KeyMark, SettingKind, SettingsGroup, Trust
from cortex.base.settings.values import format_duration, format_size

HIDDEN = "***"
_KINDS = {int: "whole number", float: "number", bool: "true or false", str: "text"}
_ALLOWED = {
    "size": "a size such as 1.5MB",
    "duration": "a duration such as 60s",
    "list": "a list of texts",
    "list of paths": "a list of paths",
    "address": "an address that starts with http:// or https://, without user, password, ? and #",
    "line of text": "a line of text",
    "whole number": "a whole number",
    "number": "a number",
    "text": "a text",
}
MAX_SHOWN_CHARACTERS = 80


@dataclass(frozen=True, slots=True)
class Key:
    """Definition of one setting."""

    name: str  # "workspace.maxFiles", as it is spelled in files
    attribute: tuple[str, ...]  # ("workspace", "max_files")
    group: type[SettingsGroup]
    kind: str
    default: object
    description: str
    allowed: str  # "a whole number from 50 to 1000"
    variables: tuple[str, ...]  # the first one that is set takes precedence
    trust: Trust  # the values that a project's own files may set
    secret: bool
    index: bool  # it decides what an index holds: the same for all clients of a store

    def parse(self, value: object) -> object:
        """Parse and validate `value`.

        Raises: ValueError, if it isn't allowed.
        """
        field = self.attribute[-1]
        try:
            return getattr(self.group.model_validate({field: value}), field)
        # Our own parsers may raise ValueError: bad JSON in a list.
        except (ValidationError, ValueError) as error:
            raise ValueError(self.allowed) from error

    def show(self, value: object) -> str:
        """Format `value` as a person writes it; a secret is hidden."""
        if self.secret:
            return HIDDEN if value else ""
        if self.kind == "size" and isinstance(value, int):
            return format_size(value)
        if self.kind == "duration" and isinstance(value, float):
            return format_duration(value)
        if isinstance(value, str):
            return value if value.isprintable() else json.dumps(value)
        return json.dumps(value, ensure_ascii=False)

    def reveal(self, value: object) -> object:
        """Convert `value` for JSON: numbers stay numbers, a secret is hidden."""
        if self.secret:
            return HIDDEN if value else ""
        return list(value) if isinstance(value, tuple) else value


@dataclass(frozen=True, slots=True)
class FamilyKey:
    """A key of another family's files: known and kept as written, not checked here."""

    name: str
    description: str
    trust: Trust = Trust.FREE


def _read_keys(
    model: type[SettingsGroup], names: tuple[str, ...], attributes: tuple[str, ...]
) -> Iterator[Key]:
    for attribute, field in model.model_fields.items():
        path, wire = (*attributes, attribute), (*names, field.alias or attribute)
        if isinstance(field.annotation, type) and issubclass(field.annotation, SettingsGroup):
            yield from _read_keys(field.annotation, wire, path)
        else:
            yield _read_key(model, field, ".".join(wire), path)


def _read_key(
    model: type[SettingsGroup], field: FieldInfo, name: str, path: tuple[str, ...]
) -> Key:
    mark = next((part for part in field.metadata if isinstance(part, KeyMark)), KeyMark())
    choices = _choices(field.annotation)
    kind = next((part.name for part in field.metadata if isinstance(part, SettingKind)), "")
    kind = kind or ("choice" if choices else _KINDS[field.annotation or str])
    own = () if mark.trust is Trust.ENVIRONMENT else ("CORTEX_" + "_".join(path).upper(),)
    others = tuple(variable for variable, setting in SETTING_VARIABLES.items() if setting == name)
    return Key(
        name=name,
        attribute=path,
        group=model,
        kind=kind,
        default=field.default,
        description=field.description or "",
        allowed=_allowed(kind, choices, field),
        variables=(*own, *others),
        trust=mark.trust,
        secret=mark.secret,
        index=mark.index,
    )


def _choices(annotation: object) -> tuple[str, ...]:
    choices = [part for part in get_args(annotation) if isinstance(part, str)]
    for part in get_args(annotation):
        choices.extend(choice for choice in get_args(part) if isinstance(choice, str))
    return tuple(choices)


def _allowed(kind: str, choices: tuple[str, ...], field: FieldInfo) -> str:
    if choices:
        return (
            ("a list of " if kind == "list" else "")
            + ", ".join(choices[:-1])
            + f" or {choices[-1]}"
        )
    text = _ALLOWED.get(kind, kind)
    bounds = {
        name: getattr(part, name)
        for part in field.metadata
        for name in ("ge", "gt", "le")
        if hasattr(part, name)
    }
    low, above, high = bounds.get("ge"), bounds.get("gt"), bounds.get("le")
    if low is not None and high is not None:
        return f"{text} from {low} to {high}"
    if low:
        return f"{text} of at least {low}"
    if above is not None:
        return f"{text} above {above}"
    return text


KEYS: tuple[Key, ...] = tuple(_read_keys(Groups, (), ()))

FAMILY_KEYS: tuple[FamilyKey, ...] = (
    FamilyKey("default_subcortex_slug", "Team: where new records belong."),
    FamilyKey("default_thread_id", "Team: the thread of this project."),
    FamilyKey("default_task_id", "Team: the task of this project."),
    FamilyKey("sensitivity_mode", "Team: how sensitive new records are."),
    FamilyKey("auto_observations", "Team: record observations by themselves."),
    FamilyKey("auto_flush_interval_minutes", "Team: minutes between two exchanges."),
    FamilyKey("stop_hook_policy", "Team: whether the stop hook drafts or posts."),
    FamilyKey("publish_comments", "Team: comments of an agent with tier T2 are published."),
    FamilyKey("agent_tier", "Team: the rights of what comes over MCP or HTTP.", Trust.NEVER),
    FamilyKey("plugins", "Team: plugins and their settings.", Trust.NEVER),
)


def normalise(name: str) -> str:
    """Return a key's name in a form that is equal for every spelling."""
    return name.replace("_", "").replace("-", "").lower()


_BY_NAME: dict[str, Key | FamilyKey] = {normalise(key.name): key for key in (*KEYS, *FAMILY_KEYS)}
_GROUP_NAMES = {name.rpartition(".")[0] for name in _BY_NAME} - {""}
_GROUP_NAMES |= {name.partition(".")[0] for name in _GROUP_NAMES} | {"mcp.kb"}


def find_key(name: str) -> Key | FamilyKey | None:
    """Return the key that `name` spells, if there is one."""
    return _BY_NAME.get(normalise(name))


def is_group(name: str) -> bool:
    """Return whether `name` spells a group of keys."""
    return normalise(name) in _GROUP_NAMES


def nearest_key(name: str) -> str:
    """Return the known key most similar to `name`, also by its last part; "" if none is."""
    wanted = normalise(name[:MAX_SHOWN_CHARACTERS])
    whole = difflib.get_close_matches(wanted, _BY_NAME, n=1, cutoff=0.75)
    if whole:
        return _BY_NAME[whole[0]].name
    ends = {known.rpartition(".")[2]: known for known in reversed(_BY_NAME)}
    last = difflib.get_close_matches(wanted.rpartition(".")[2], ends, n=1, cutoff=0.8)
    if last:
        return _BY_NAME[ends[last[0]]].name
    group = difflib.get_close_matches(wanted, sorted(_GROUP_NAMES), n=1, cutoff=0.7)
    return group[0] if group else ""


def unknown(name: str) -> str:
    """Build the message about an unknown key."""
    if is_group(name):
        return f"{name!r} is a group of keys, not one; `cortex config show` lists them"
    near = nearest_key(name)
    shown = name if len(name) <= MAX_SHOWN_CHARACTERS else name[:MAX_SHOWN_CHARACTERS] + "..."
    return f"unknown key {shown!r}" + (f"; did you mean {near!r}?" if near else "")
