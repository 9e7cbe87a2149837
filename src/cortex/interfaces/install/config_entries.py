"""Our entries in a client's configuration text: the server and the hooks.

Pure functions from text to text. An entry is ours if it starts `cortex mcp`; a hook if it runs
`cortex hook`. Any other entry called "cortex" is foreign, and is replaced only on request.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cortex.base.errors import ConfigError
from cortex.interfaces.install import jsonc_edit, toml_edit
from cortex.interfaces.install.clients import (
    EVENTS,
    HOOK_SECONDS,
    NAME,
    Client,
    ConfigFormat,
    Hooks,
    Shape,
    System,
)
from cortex.interfaces.install.jsonc_edit import Keys

_OUR_PROGRAM = re.compile(r"(?:.*[\\/])?cortex(?:\.exe|\.cmd)?", re.IGNORECASE | re.DOTALL)
_OUR_PACKAGE = re.compile(r"cortex-context(?:\W.*)?", re.DOTALL)
_OUR_HOOK = re.compile(
    rf"(?:^|[\s\\/'\"])cortex(?:\.exe|\.cmd)?['\"]?\s+hook\s+(?:{'|'.join(EVENTS)})"
    r"(?:\s+--profile\s+(?P<profile>\S+))?\s*$",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class ServerEntry:
    """Command and arguments that start our server."""

    command: str
    arguments: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Merged:
    """A text with our entry in it, and the keys that were created for it."""

    text: str
    made: tuple[Keys, ...] = ()


def add_entry(text: str, client: Client, server: ServerEntry, *, replace: bool = False) -> Merged:
    """Add our server to the client's text; other settings of an entry of ours stay.

    Raises: Broken; ConfigError (ENTRY_FOREIGN) where another server has our name.
    """
    path = (client.key, NAME)
    wanted = write_entry(client, server)
    present = read_entry(text, client)
    if present is not None and not is_ours(present):
        if not replace:
            raise _foreign(client, present)
        text = remove_entry(text, client, replace=True)
        present = None
    if client.format is ConfigFormat.TOML:
        new = {key: value for key, value in wanted.items() if _value_at(present, (key,)) != value}
        return Merged(toml_edit.put_table(text, path, new) if new else text)
    if present is None:
        return Merged(*jsonc_edit.put(text, path, wanted))
    for keys, value in _leaves(wanted, path):
        if _value_at(present, keys[len(path) :]) != value:
            text = jsonc_edit.put(text, keys, value)[0]
    return Merged(text)


def remove_entry(text: str, client: Client, *, replace: bool = False) -> str:
    """Remove our server from the client's text; with `replace` any server of that name."""
    while (present := read_entry(text, client)) is not None and (replace or is_ours(present)):
        path = (client.key, NAME)
        shorter = (
            toml_edit.remove_table(text, path)
            if client.format is ConfigFormat.TOML
            else jsonc_edit.remove(text, path)
        )
        # The entry has no lines of its own.
        if shorter == text:
            raise _unchangeable(client)
        text = shorter
    return text


def read_entry(text: str, client: Client) -> object:
    """Return the entry called "cortex" among the client's servers, None for none."""
    if client.format is ConfigFormat.TOML:
        return _value_at(toml_edit.parse(text), (client.key, NAME))
    part = jsonc_edit.find(jsonc_edit.read(text), (client.key, NAME))
    return None if part is None else jsonc_edit.value_of(text, part)


def write_entry(client: Client, server: ServerEntry) -> dict[str, object]:
    """Return the entry of our server in the shape of the client."""
    command: dict[str, object] = {"command": server.command, "args": list(server.arguments)}
    match client.shape:
        case Shape.STDIO:
            return {"type": "stdio", **command}
        case Shape.BARE:
            return command
        case Shape.LOCAL:
            return {"type": "local", **command, "tools": ["*"]}
        case Shape.LIST:
            return {
                "type": "local",
                "command": [server.command, *server.arguments],
                "enabled": True,
            }
        case Shape.NESTED:
            return {"transport": {"type": "stdio", **command}}


def read_server(entry: object) -> ServerEntry | None:
    """Return the command of an entry in any shape; None for one that starts nothing."""
    if not isinstance(entry, Mapping):
        return None
    inner = entry.get("transport")
    if isinstance(inner, Mapping):
        return read_server(inner)
    command, arguments = entry.get("command"), entry.get("args", [])
    if isinstance(command, list):
        command, arguments = (command[0] if command else ""), command[1:]
    if not isinstance(command, str) or not isinstance(arguments, list):
        return None
    return ServerEntry(
        command, tuple(argument for argument in arguments if isinstance(argument, str))
    )


def read_variables(entry: object) -> Mapping[str, object]:
    """Return the environment variables that an entry sets for its server."""
    _, variables = _find_variables(entry)
    return variables


def is_ours(entry: object) -> bool:
    """True for an entry that starts our server: `cortex mcp`, or our package through a runner."""
    server = read_server(entry)
    if server is None:
        return False
    if _OUR_PROGRAM.fullmatch(server.command):
        return server.arguments[:1] == ("mcp",)
    return (
        any(_OUR_PACKAGE.fullmatch(argument) for argument in server.arguments)
        and "mcp" in server.arguments
    )


def change_entry(text: str, client: Client, server: ServerEntry, without: str = "") -> Merged:
    """Change command and arguments of our entry, and remove one of its variables.

    Raises: Broken; ConfigError where the entry is missing, isn't ours, or can't be changed by
    itself.
    """
    present = read_entry(text, client)
    if not isinstance(present, Mapping) or not is_ours(present):
        raise _foreign(client, present)
    inner: Keys = ("transport",) if isinstance(present.get("transport"), Mapping) else ()
    wanted: dict[str, object] = {"command": server.command, "args": list(server.arguments)}
    if isinstance(_value_at(present, (*inner, "command")), list):
        wanted = {"command": [server.command, *server.arguments]}
    new = {
        key: value for key, value in wanted.items() if _value_at(present, (*inner, key)) != value
    }
    path, in_toml = (client.key, NAME, *inner), client.format is ConfigFormat.TOML
    if in_toml and new:
        text = toml_edit.put_table(text, path, new)
    for key, value in new.items() if not in_toml else ():
        text = jsonc_edit.put(text, (*path, key), value)[0]
    names, variables = _find_variables(present)
    if without in variables:
        keys = (client.key, NAME, *names, without)
        shorter = toml_edit.remove_table(text, keys) if in_toml else jsonc_edit.remove(text, keys)
        if shorter == text:
            raise _unchangeable(client)
        text = shorter
    return Merged(text)


def add_hooks(
    text: str,
    hooks: Hooks,
    program: str,
    system: System,
    *,
    profile: str = "",
    present: bool = False,
) -> Merged:
    """Add our hooks to a client's text, once each.

    With `present` only change the hooks that exist, each with its profile.

    Raises: Broken.
    """
    made: list[Keys] = []
    if (
        hooks.version
        and not present
        and jsonc_edit.find(jsonc_edit.read(text), ("version",)) is None
    ):
        text, _ = jsonc_edit.put(text, ("version",), 1)
        made.append(("version",))
    for event, name in zip(EVENTS, hooks.events, strict=True):
        path = ("hooks", name)
        ours = _our_hooks(text, path)
        kept = next((_profile(hook) for _, hook in ours), "") if present else profile
        wanted = write_hook(hooks, event, program, system, kept)
        if [hook for _, hook in ours] == [wanted] or (present and not ours):
            continue
        for index, _ in reversed(ours):
            text = jsonc_edit.remove(text, path, index)
        text, new = jsonc_edit.append(text, path, wanted)
        made += new
    return Merged(text, tuple(made))


def read_hook_programs(text: str, hooks: Hooks) -> list[str]:
    """Return the programs that our hooks run, each once.

    Raises: Broken.
    """
    our_hooks = [value for name in hooks.events for _, value in _our_hooks(text, ("hooks", name))]
    return list(dict.fromkeys(program for hook in our_hooks for program in _programs(hook)))


def remove_hooks(text: str, hooks: Hooks) -> str:
    """Return a client's text without our hooks."""
    for name in hooks.events:
        path = ("hooks", name)
        for index, _ in reversed(_our_hooks(text, path)):
            text = jsonc_edit.remove(text, path, index)
    return text


def remove_made(text: str, made: Sequence[Keys]) -> str:
    """Remove the keys that were created for ours and are empty now.

    `version` is removed if it is the only key left.
    """
    for path in sorted(made, key=len, reverse=True):
        part = jsonc_edit.find(jsonc_edit.read(text), path)
        if (
            part is not None
            and part.opening
            and not part.parts
            and not text[part.start + 1 : part.end - 1].strip()
        ):
            text = jsonc_edit.remove(text, path)
    top = jsonc_edit.read(text)
    if (
        ("version",) in made
        and top is not None
        and [member.key for member in top.parts] == ["version"]
    ):
        text = jsonc_edit.remove(text, ("version",))
    return text


def write_hook(
    hooks: Hooks, event: str, program: str, system: System, profile: str = ""
) -> dict[str, object]:
    """Return one of our hooks in the shape of the client."""
    command: dict[str, object] = {"type": "command"} if hooks.typed else {}
    line = hook_command(program, event, system, powershell=hooks.powershell)
    command |= {"command": f"{line} --profile {profile}" if profile else line}
    command |= {"timeout": HOOK_SECONDS * hooks.per_second}
    return {"hooks": [command]} if hooks.grouped else command


def hook_command(program: str, event: str, system: System, *, powershell: bool = False) -> str:
    """Return the shell command of a hook; on Windows with slashes, which every shell accepts."""
    if system is not System.WINDOWS:
        return f"{shlex.quote(program)} hook {event}"
    plain = program.replace("\\", "/")
    if not re.search(r"[\s/&()']", plain):
        return f"{plain} hook {event}"
    return f'{"& " if powershell else ""}"{plain}" hook {event}'


def _our_hooks(text: str, path: Keys) -> list[tuple[int, object]]:
    array = jsonc_edit.find(jsonc_edit.read(text), path)
    if array is None or array.opening != "[":
        return []
    elements = [
        (index, jsonc_edit.value_of(text, element)) for index, element in enumerate(array.parts)
    ]
    return [(index, value) for index, value in elements if _is_our_hook(value)]


def _is_our_hook(hook: object) -> bool:
    if not isinstance(hook, Mapping):
        return False
    inner = hook.get("hooks")
    # A group with other hooks isn't ours.
    if isinstance(inner, list):
        return bool(inner) and all(_is_our_hook(element) for element in inner)
    command = hook.get("command")
    return isinstance(command, str) and _OUR_HOOK.search(command) is not None


def _programs(hook: object) -> list[str]:
    if not isinstance(hook, Mapping):
        return []
    inner = hook.get("hooks")
    if isinstance(inner, list):
        return [program for element in inner for program in _programs(element)]
    try:
        words = shlex.split(str(hook.get("command")))
    # Quoting of an unknown shell.
    except ValueError:
        return []
    return words[: words.index("hook")][-1:] if "hook" in words else []


def _profile(hook: object) -> str:
    """Return the profile of one of our hooks, "" for none."""
    inner = hook.get("hooks") if isinstance(hook, Mapping) else None
    if isinstance(inner, list):
        return next((name for element in inner if (name := _profile(element))), "")
    match = _OUR_HOOK.search(str(hook.get("command"))) if isinstance(hook, Mapping) else None
    return (match["profile"] or "") if match else ""


def _leaves(entry: Mapping[str, object], path: Keys) -> list[tuple[Keys, object]]:
    """Return every value of an entry that isn't an object, by its keys."""
    leaves: list[tuple[Keys, object]] = []
    for key, value in entry.items():
        leaves += (
            _leaves(value, (*path, key)) if isinstance(value, Mapping) else [((*path, key), value)]
        )
    return leaves


def _value_at(value: object, path: Keys) -> object:
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def _find_variables(entry: object) -> tuple[Keys, Mapping[str, object]]:
    """Return the keys and the values of an entry's environment variables."""
    for keys in (("env",), ("environment",), ("transport", "env")):
        variables = _value_at(entry, keys)
        if isinstance(variables, Mapping):
            return keys, variables
    return (), {}


def _unchangeable(client: Client) -> ConfigError:
    return ConfigError(
        "CLIENT_FILE_INVALID",
        f"the entry {NAME!r} of {client.title} is written in a way that can't be changed by itself",
        suggestions=("Change it in an editor.",),
    )


def _foreign(client: Client, present: object) -> ConfigError:
    shown = present.get("command", present.get("url")) if isinstance(present, Mapping) else present
    return ConfigError(
        "ENTRY_FOREIGN",
        f"{client.title} has a server called {NAME!r} that isn't ours (it starts {shown!r})",
        context={"client": client.name},
    )
