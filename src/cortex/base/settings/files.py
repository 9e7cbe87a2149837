"""Reading a settings file into entries, and changing one key of a YAML file with its comments kept.

Knows the two formats and nothing of precedence or trust. A file that can't be read is a warning,
never an error; its text is never quoted, since a link may point anywhere. ruamel.yaml is imported
only when a YAML file is there.
"""

from __future__ import annotations

import io
import json
import os
import re
import stat
import tempfile
from collections.abc import Mapping, MutableMapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from cortex.base.errors import ConfigError, FileError
from cortex.base.paths import LAST_SETTINGS_FOLDER, make_private
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

MAX_FILE_BYTES = 256_000  # what is larger would take seconds to parse, at every command
MAX_UNKNOWN_WARNINGS = 20  # in one file
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
    """The entries of a settings file and what is wrong with it; nothing if there is no file.

    `within` is the folder that the file must really lie in; `groups` are those of another product's
    file whose unknown keys are said; the rest of such a file is that product's. With a `home`, what
    a file said when it could last be read counts while it can't: a typo must not switch off what it
    excludes.
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
            _keep(home, path, text)
    except (OSError, ValueError, RecursionError) as error:
        content = _last_valid(home, path) if home is not None else None
        before = "" if content is None else "; what it said before counts"
        ignored = f"{path}: {_reason(error)}{before} (file ignored)"
    said = [ignored] if ignored else []
    if content is None:
        return [], said
    entries, warnings = read_entries(content, str(path), groups=groups)
    warnings += said
    open_to_others = _others_can_read(path)
    if within or not open_to_others:  # a project's file may say no secret anyway
        return entries, warnings
    exposed = [entry for entry in entries if _is_secret(entry.key)]
    warnings += [f"{path}: {entry.key.name}: {EXPOSED} (ignored)" for entry in exposed]
    return [entry for entry in entries if entry not in exposed], warnings


def _is_secret(key: Key | FamilyKey) -> bool:
    """Whether it is a secret that may stand in a file."""
    return isinstance(key, Key) and key.secret and key.trust is not Trust.ENVIRONMENT


def _others_can_read(path: Path) -> bool:
    """Whether the file is open to other people on this machine; Windows keeps a profile's files
    private by itself.
    """
    try:
        return os.name == "posix" and bool(path.stat().st_mode & (stat.S_IRGRP | stat.S_IROTH))
    except OSError:
        return True


def _keep(home: Path, path: Path, text: str) -> None:
    """Keep a valid text for the time when the file can't be read; a home isn't made for it."""
    kept = _kept(home, path)
    with suppress(OSError, UnicodeError, FileError):
        if home.is_dir() and not (kept.exists() and kept.read_text(encoding="utf-8") == text):
            _replace(kept, text, private=True)


def _last_valid(home: Path, path: Path) -> Mapping[object, object] | None:
    try:
        return _parse(path, _read_text(_kept(home, path)))
    except (OSError, ValueError, RecursionError):
        return None


def _kept(home: Path, path: Path) -> Path:
    return home / LAST_SETTINGS_FOLDER / hash_bytes(os.fsencode(os.path.abspath(path))).hex()


def read_entries(
    content: Mapping[object, object], origin: str, *, groups: tuple[str, ...] = ()
) -> tuple[list[SettingEntry], list[str]]:
    """The entries of a parsed file, with a warning for every key that isn't known; of some groups
    only, where they are named.
    """
    entries: list[SettingEntry] = []
    strange: list[str] = []
    shapeless: list[str] = []

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
                    shapeless.append(f"{origin}: {name}: is a group of keys, not a value (ignored)")
            elif key is None and name != "$schema":
                strange.append(name)

    walk(content, "")
    if groups:
        strange = [
            name
            for name in strange
            if {normalise(name.partition(".")[0]), nearest_key(name)} & {*groups}
        ]
    warnings = [f"{origin}: {unknown(name)}" for name in strange[:MAX_UNKNOWN_WARNINGS]]
    if len(strange) > MAX_UNKNOWN_WARNINGS:
        warnings.append(f"{origin}: {len(strange) - MAX_UNKNOWN_WARNINGS} more unknown keys")
    return entries, warnings + shapeless


def read_setting(path: Path, key: Key) -> object:
    """The value of `key` in one file; None if it holds none that is allowed."""
    written = [entry.value for entry in read_file(path)[0] if entry.key == key]
    try:
        return key.parse(written[-1]) if written else None
    except ValueError:
        return None


def write_setting(
    path: Path, key: Key, value: object, *, private: bool, within: Path | None = None
) -> None:
    """Set `key` to the checked `value` in a YAML file, which is made if it is missing and replaced
    in one step.

    Raises: ConfigError, if the file can't be understood; FileError, if it can't be written. Then it
    is as it was.
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
    """Why a file can't be read, without any of its text."""
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
    if content is None:  # nothing but comments: they stay on top
        content = CommentedMap()
        _place(content, key.name, _plain(key, value))
        return (text.rstrip() + "\n" if text.strip() else "") + _dump(yaml, content)
    if not isinstance(content, CommentedMap):
        raise ValueError("holds no keys with values")
    step = _MAPPING_STEP.search(text)
    yaml.indent(mapping=len(step[1]) if step else 2, sequence=sequence or 2, offset=offset or 0)
    _place(content, key.name, _plain(key, value))
    return _dump(yaml, content)


def _place(node: MutableMapping[str, object], name: str, value: object) -> None:
    """Put `value` where `name` is in `node`, in whatever spelling it is there; otherwise under its
    own.
    """
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
            _place(inner, ".".join(parts[length:]), value)
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


def _plain(key: Key, value: object) -> object:
    """A checked value as it is best read in a file."""
    if key.kind == "size" and isinstance(value, int):
        return format_size(value)
    if key.kind == "duration" and isinstance(value, float):
        return format_duration(value)
    return [_quoted(part) for part in value] if isinstance(value, tuple) else _quoted(value)


def _quoted(value: object) -> object:
    """A text with line breaks or control characters in double quotes: other styles fold some of
    them into spaces.
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
    """Write aside, then rename: a reader sees the old file or the new one."""
    make_private(path.parent)  # a store may come to lie beside the file
    mode = 0o600 if private else (path.stat().st_mode & 0o777 if path.exists() else 0o644)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, mode)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
