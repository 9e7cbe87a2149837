"""Settings files: reading one into entries, and changing one key of a YAML file in place.

A change keeps the comments. Knows the two formats and nothing of precedence or trust. A file that
can't be read is a warning, never an error; its text is never quoted, since a link may point
anywhere. ruamel.yaml is imported only when there is a YAML file.
"""

from __future__ import annotations

import io
import json
import os
import re
import stat
from collections.abc import Mapping, MutableMapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from cortex.base.errors import ConfigError, FileError
from cortex.base.paths import LAST_SETTINGS_FOLDER, make_private
from cortex.base.runtime.atomic_file import replace_file
from cortex.base.settings.groups import Trust
from cortex.base.settings.merge import SettingEntry
from cortex.base.settings.registry import (
    FamilyKey,
    Key,
    find_key,
    is_group,
    nearest_key,
    normalise,
    unknown,
)
from cortex.base.settings.values import format_duration, format_size
from cortex.base.text import hash_bytes

if TYPE_CHECKING:
    from ruamel.yaml import YAML

# Larger files aren't read: every command would take seconds to parse them.
MAX_FILE_BYTES = 256_000
# Most warnings about unknown keys of a file.
MAX_UNKNOWN_WARNINGS = 20
EXPOSED = "others can read this file; make it yours alone (chmod 600), or use the environment"
_MAPPING_STEP = re.compile(
    r"^[^\s#-][^\n]*:[ \t]*(?:#[^\n]*)?\n(?:[ \t]*#[^\n]*\n)*( +)[^\s#-]", re.MULTILINE
)


def read_file(
    path: Path,
    *,
    within: Path | None = None,
    groups: tuple[str, ...] = (),
    home: Path | None = None,
) -> tuple[list[SettingEntry], list[str]]:
    """Read a settings file; returns its entries and warnings, both empty without a file.

    `within` is the folder in which the file must lie after links are resolved. `groups` is for the
    file of another product: unknown keys are reported only in these groups of it. With a `home`,
    the last valid content of a file is used while it can't be read, because a typo must not make
    excluded files searchable.
    """
    ignored = ""
    try:
        if not path.is_file():
            return [], []
        if within and not path.resolve().is_relative_to(within.resolve()):
            return [], [f"{path}: is a link that leaves the project (file ignored)"]
        text = _read_text(path)
        content = _parse(path, text)
        if home is not None:
            _save_valid(home, path, text)
    except (OSError, ValueError, RecursionError) as error:
        content = _last_valid(home, path) if home is not None else None
        before = "" if content is None else "; its last valid content is used"
        ignored = f"{path}: {_reason(error)}{before} (file ignored)"
    unreadable = [ignored] if ignored else []
    if content is None:
        return [], unreadable
    entries, warnings = read_entries(content, str(path), groups=groups)
    warnings += unreadable
    open_to_others = _others_can_read(path)
    # Secrets in a project's file are never accepted anyway.
    if within or not open_to_others:
        return entries, warnings
    exposed = [entry for entry in entries if _is_secret(entry.key)]
    warnings += [f"{path}: {entry.key.name}: {EXPOSED} (ignored)" for entry in exposed]
    return [entry for entry in entries if entry not in exposed], warnings


def _is_secret(key: Key | FamilyKey) -> bool:
    """Return whether a key is a secret that may be set in a file."""
    return isinstance(key, Key) and key.secret and key.trust is not Trust.ENVIRONMENT


def _others_can_read(path: Path) -> bool:
    """Return whether other users on this machine can read the file.

    Windows keeps a profile's files private by itself.
    """
    try:
        return os.name == "posix" and bool(path.stat().st_mode & (stat.S_IRGRP | stat.S_IROTH))
    except OSError:
        return True


def _save_valid(home: Path, path: Path, text: str) -> None:
    """Save a valid text for the time when the file can't be read; never creates a home."""
    saved = _saved_path(home, path)
    with suppress(OSError, UnicodeError, FileError):
        if home.is_dir() and not (saved.exists() and saved.read_text(encoding="utf-8") == text):
            _replace(saved, text, private=True)


def _last_valid(home: Path, path: Path) -> Mapping[object, object] | None:
    try:
        return _parse(path, _read_text(_saved_path(home, path)))
    except (OSError, ValueError, RecursionError):
        return None


def _saved_path(home: Path, path: Path) -> Path:
    return home / LAST_SETTINGS_FOLDER / hash_bytes(os.fsencode(os.path.abspath(path))).hex()


def read_entries(
    content: Mapping[object, object], origin: str, *, groups: tuple[str, ...] = ()
) -> tuple[list[SettingEntry], list[str]]:
    """Return the entries of a parsed file, with a warning for every unknown key.

    With `groups` unknown keys are reported in these groups only.
    """
    entries: list[SettingEntry] = []
    unknown_keys: list[str] = []
    not_groups: list[str] = []

    def walk(node: Mapping[object, object], prefix: str) -> None:
        for part, value in node.items():
            name = f"{prefix}{part}"
            key = find_key(name)
            if key is not None and value is not None:
                entries.append(SettingEntry(key, value, origin))
            elif key is None and is_group(name):
                if isinstance(value, Mapping):
                    walk(value, f"{name}.")
                elif value is not None:
                    not_groups.append(
                        f"{origin}: {name}: is a group of keys, not a value (ignored)"
                    )
            elif key is None and name != "$schema":
                unknown_keys.append(name)

    walk(content, "")
    if groups:
        unknown_keys = [
            name
            for name in unknown_keys
            if {normalise(name.partition(".")[0]), nearest_key(name)} & {*groups}
        ]
    warnings = [f"{origin}: {unknown(name)}" for name in unknown_keys[:MAX_UNKNOWN_WARNINGS]]
    if len(unknown_keys) > MAX_UNKNOWN_WARNINGS:
        warnings.append(f"{origin}: {len(unknown_keys) - MAX_UNKNOWN_WARNINGS} more unknown keys")
    return entries, warnings + not_groups


def read_setting(path: Path, key: Key) -> object:
    """Return the valid value of `key` in one file; None without one."""
    written = [entry.value for entry in read_file(path)[0] if entry.key == key]
    try:
        return key.parse(written[-1]) if written else None
    except ValueError:
        return None


def write_setting(
    path: Path, key: Key, value: object, *, private: bool, within: Path | None = None
) -> None:
    """Set `key` to the checked `value` in a YAML file, atomically; a missing file is created.

    Raises: ConfigError, if the file can't be understood; FileError, if it can't be written. The
    file is unchanged then.
    """
    target = Path(os.path.realpath(path))
    if within and not target.is_relative_to(within.resolve()):
        raise ConfigError(
            "CONFIG_INVALID",
            f"{path}: is a link that leaves the project",
            context={"file": str(path)},
            instead=("Put a file in its place, or set the value for yourself, without --project.",),
        )
    try:
        old = _read_text(target) if target.exists() else ""
        new = _change_yaml(old, key, value)
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(
            "CONFIG_INVALID",
            f"{path}: {_reason(error)}",
            context={"file": str(path)},
            instead=("Correct that file first.",),
        ) from error
    try:
        _replace(target, new, private=private)
    except OSError as error:
        raise FileError(
            "PERMISSION_DENIED",
            f"{path}: can't be written ({error.strerror})",
            context={"file": str(path)},
        ) from error


def _read_text(path: Path) -> str:
    with open(path, "rb") as file:
        content = file.read(MAX_FILE_BYTES + 1)
    if len(content) > MAX_FILE_BYTES:
        raise ValueError(f"is larger than {format_size(MAX_FILE_BYTES)}")
    return content.decode("utf-8-sig")


def _parse(path: Path, text: str) -> Mapping[object, object] | None:
    content = _load(path, text)
    if content is not None and not isinstance(content, Mapping):
        raise ValueError("holds no keys with values")
    return content


def _load(path: Path, text: str) -> object:
    if path.suffix == ".json":
        return json.loads(text) if text.strip() else None
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        return YAML(typ="safe", pure=True).load(text)
    except YAMLError as error:
        raise ValueError(_yaml_reason(error)) from error


def _reason(error: Exception) -> str:
    """Describe why a file can't be read, without any of its text."""
    match error:
        case json.JSONDecodeError():
            return f"isn't valid JSON at line {error.lineno}"
        case UnicodeDecodeError():
            return "isn't UTF-8"
        case OSError():
            return f"can't be read: {error.strerror}"
        case RecursionError():
            return "is nested too deeply"
    return str(error)


def _yaml_reason(error: Exception) -> str:
    mark = getattr(error, "problem_mark", None)
    return "isn't valid YAML" + (f" at line {mark.line + 1}" if mark else "")


def _change_yaml(text: str, key: Key, value: object) -> str:
    from ruamel.yaml import YAML
    from ruamel.yaml.comments import CommentedMap
    from ruamel.yaml.error import YAMLError
    from ruamel.yaml.util import load_yaml_guess_indent

    yaml = YAML()
    yaml.preserve_quotes, yaml.width = True, 4096
    try:
        content, sequence, offset = (
            load_yaml_guess_indent(text, yaml=yaml) if text.strip() else (None, None, None)
        )
    except YAMLError as error:
        raise ValueError(_yaml_reason(error)) from error
    # The file has nothing but comments: they stay on top.
    if content is None:
        content = CommentedMap()
        _set_in(content, key.name, _as_written(key, value))
        return (text.rstrip() + "\n" if text.strip() else "") + _dump(yaml, content)
    if not isinstance(content, CommentedMap):
        raise ValueError("holds no keys with values")
    step = _MAPPING_STEP.search(text)
    yaml.indent(mapping=len(step[1]) if step else 2, sequence=sequence or 2, offset=offset or 0)
    _set_in(content, key.name, _as_written(key, value))
    return _dump(yaml, content)


def _set_in(node: MutableMapping[str, object], name: str, value: object) -> None:
    """Set `name` in `node`, in the spelling that the file uses already, if any."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        wanted = normalise(".".join(parts[:length]))
        present = [known for known in node if normalise(str(known)) == wanted]
        if not present:
            continue
        inner = node[present[-1]]
        if length == len(parts):
            node[present[-1]] = value
            return
        if isinstance(inner, MutableMapping):
            _set_in(inner, ".".join(parts[length:]), value)
            return
        if inner is None:
            node[present[-1]] = _nested(parts[length:], value)
            return
        raise ValueError(f"{present[-1]!r} is a value where a group of keys belongs")
    node[parts[0]] = _nested(parts[1:], value)


def _nested(parts: list[str], value: object) -> object:
    for part in reversed(parts):
        value = {part: value}
    return value


def _as_written(key: Key, value: object) -> object:
    """Return a checked value in its most readable form for a file."""
    if key.kind == "size" and isinstance(value, int):
        return format_size(value)
    if key.kind == "duration" and isinstance(value, float):
        return format_duration(value)
    return [_quoted(part) for part in value] if isinstance(value, tuple) else _quoted(value)


def _quoted(value: object) -> object:
    """Put a text with line breaks or control characters in double quotes.

    Other YAML styles fold some of them into spaces.
    """
    from ruamel.yaml.scalarstring import DoubleQuotedScalarString

    return (
        DoubleQuotedScalarString(value)
        if isinstance(value, str) and not value.isprintable()
        else value
    )


def _dump(yaml: YAML, content: object) -> str:
    out = io.StringIO()
    yaml.dump(content, out)
    return out.getvalue()


def _replace(path: Path, text: str, *, private: bool) -> None:
    # The folder is private, because a store may later be created in it.
    make_private(path.parent)
    mode = 0o600 if private else 0o644
    replace_file(path, text.encode("utf-8"), mode=mode, keep_mode=not private)
