"""What is ours in a client's text: the entry of the server, and the hooks.

Pure functions from text to text.

An entry is ours when it starts `cortex mcp`; a hook when it runs `cortex hook`. What is called
"cortex" and does something else is somebody else's, and is replaced only where that was asked for.
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
    rf"(?:^|[\s\\/'\"])cortex(?:\.exe|\.cmd)?['\"]?\s+hook\s+(?:{'|'.join(EVENTS)})(?:\s+--profile\s+(?P<profile>\S+))?\s*$",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class ServerEntry:
    """How our server is started."""

    command: str
    arguments: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Merged:
    """A text with something of ours in it, and which keys had to be made for it."""

    text: str
    made: tuple[Keys, ...] = ()


def add_entry(text: str, client: Client, server: ServerEntry, *, replace: bool = False) -> Merged:
    """The client's text with our server in it; other settings of an entry that is ours stay.

    Raises: Broken; ConfigError (ENTRY_FOREIGN), where another server has our name.
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
        new = {key: value for key, value in wanted.items() if _reach(present, (key,)) != value}
        return Merged(toml_edit.put_table(text, path, new) if new else text)
    if present is None:
        return Merged(*jsonc_edit.put(text, path, wanted))
    for keys, value in _leaves(wanted, path):
        if _reach(present, keys[len(path) :]) != value:
            text = jsonc_edit.put(text, keys, value)[0]
    return Merged(text)


def remove_entry(text: str, client: Client, *, replace: bool = False) -> str:
    """The client's text without our server; with `replace` without whatever has its name."""
    while (present := read_entry(text, client)) is not None and (replace or is_ours(present)):
        path = (client.key, NAME)
        shorter = (
            toml_edit.remove_table(text, path)
            if client.format is ConfigFormat.TOML
            else jsonc_edit.remove(text, path)
        )
        if shorter == text:  # written in a way that has no lines of its own
            raise _unchangeable(client)
        text = shorter
    return text


def read_entry(text: str, client: Client) -> object:
    """What is called "cortex" among the client's servers, None for nothing."""
    if client.format is ConfigFormat.TOML:
        return _reach(toml_edit.parse(text), (client.key, NAME))
    part = jsonc_edit.find(jsonc_edit.read(text), (client.key, NAME))
    return None if part is None else jsonc_edit.value_of(text, part)


def write_entry(client: Client, server: ServerEntry) -> dict[str, object]:
    """Our server as the client writes one down."""
    started: dict[str, object] = {"command": server.command, "args": list(server.arguments)}
    match client.shape:
        case Shape.STDIO:
            return {"type": "stdio", **started}
        case Shape.BARE:
            return started
        case Shape.LOCAL:
            return {"type": "local", **started, "tools": ["*"]}
        case Shape.LIST:
            return {
                "type": "local",
                "command": [server.command, *server.arguments],
                "enabled": True,
            }
        case Shape.NESTED:
            return {"transport": {"type": "stdio", **started}}


def read_server(entry: object) -> ServerEntry | None:
    """How an entry starts its server, in whichever shape it is written; None for one that starts
    nothing.
    """
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
    """The variables that an entry gives its server."""
    _, variables = _find_variables(entry)
    return variables


def is_ours(entry: object) -> bool:
    """Whether an entry starts our server: `cortex mcp`, by any path, or our package through a
    runner.
    """
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
    """The client's text with another program and arguments in our entry, and without one of its
    variables; all else of it stays.

    Raises: Broken; ConfigError, where the entry isn't there, isn't ours, or is written in a way
    that can't be changed by itself.
    """
    present = read_entry(text, client)
    if not isinstance(present, Mapping) or not is_ours(present):
        raise _foreign(client, present)
    inner: Keys = ("transport",) if isinstance(present.get("transport"), Mapping) else ()
    wanted: dict[str, object] = {"command": server.command, "args": list(server.arguments)}
    if isinstance(_reach(present, (*inner, "command")), list):
        wanted = {"command": [server.command, *server.arguments]}
    new = {key: value for key, value in wanted.items() if _reach(present, (*inner, key)) != value}
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
    """A client's text with our hooks in it, once each; or only with those changed that are
    `present`, each with its profile.

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
        kept = next((_profile(one) for _, one in ours), "") if present else profile
        wanted = write_hook(hooks, event, program, system, kept)
        if [one for _, one in ours] == [wanted] or (present and not ours):
            continue
        for index, _ in reversed(ours):
            text = jsonc_edit.remove(text, path, index)
        text, new = jsonc_edit.append(text, path, wanted)
        made += new
    return Merged(text, tuple(made))


def read_hook_programs(text: str, hooks: Hooks) -> list[str]:
    """The programs that our hooks run, each once. Raises: Broken."""
    found = [value for name in hooks.events for _, value in _our_hooks(text, ("hooks", name))]
    return list(dict.fromkeys(program for hook in found for program in _programs(hook)))


def remove_hooks(text: str, hooks: Hooks) -> str:
    """A client's text without our hooks."""
    for name in hooks.events:
        path = ("hooks", name)
        for index, _ in reversed(_our_hooks(text, path)):
            text = jsonc_edit.remove(text, path, index)
    return text


def remove_made(text: str, made: Sequence[Keys]) -> str:
    """A JSON text without those keys that were made for ours and hold nothing now; `version` goes
    with the last of the rest.
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
    if ("version",) in made and top is not None and [one.key for one in top.parts] == ["version"]:
        text = jsonc_edit.remove(text, ("version",))
    return text


def write_hook(
    hooks: Hooks, event: str, program: str, system: System, profile: str = ""
) -> dict[str, object]:
    """One of our hooks as the client writes one down."""
    command: dict[str, object] = {"type": "command"} if hooks.typed else {}
    line = hook_command(program, event, system, powershell=hooks.powershell)
    command |= {"command": f"{line} --profile {profile}" if profile else line}
    command |= {"timeout": HOOK_SECONDS * hooks.per_second}
    return {"hooks": [command]} if hooks.grouped else command


def hook_command(program: str, event: str, system: System, *, powershell: bool = False) -> str:
    """The line that a client's shell runs: on Windows with slashes that every shell there
    understands.
    """
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
    found = [
        (index, jsonc_edit.value_of(text, element)) for index, element in enumerate(array.parts)
    ]
    return [(index, value) for index, value in found if _runs_us(value)]


def _runs_us(hook: object) -> bool:
    if not isinstance(hook, Mapping):
        return False
    inner = hook.get("hooks")
    if isinstance(inner, list):  # a group in which somebody put more than ours is theirs
        return bool(inner) and all(_runs_us(one) for one in inner)
    command = hook.get("command")
    return isinstance(command, str) and _OUR_HOOK.search(command) is not None


def _programs(hook: object) -> list[str]:
    if not isinstance(hook, Mapping):
        return []
    inner = hook.get("hooks")
    if isinstance(inner, list):
        return [program for one in inner for program in _programs(one)]
    try:
        words = shlex.split(str(hook.get("command")))
    except ValueError:  # quotes of a shell that isn't known here
        return []
    return words[: words.index("hook")][-1:] if "hook" in words else []


def _profile(hook: object) -> str:
    """The profile that a hook of ours is for, "" for none."""
    inner = hook.get("hooks") if isinstance(hook, Mapping) else None
    if isinstance(inner, list):
        return next((name for one in inner if (name := _profile(one))), "")
    found = _OUR_HOOK.search(str(hook.get("command"))) if isinstance(hook, Mapping) else None
    return (found["profile"] or "") if found else ""


def _leaves(entry: Mapping[str, object], path: Keys) -> list[tuple[Keys, object]]:
    """Every value of an entry that isn't an object, by its keys."""
    found: list[tuple[Keys, object]] = []
    for key, value in entry.items():
        found += (
            _leaves(value, (*path, key)) if isinstance(value, Mapping) else [((*path, key), value)]
        )
    return found


def _reach(value: object, path: Keys) -> object:
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def _find_variables(entry: object) -> tuple[Keys, Mapping[str, object]]:
    """Under which keys of an entry its variables are, and what they say."""
    for keys in (("env",), ("environment",), ("transport", "env")):
        found = _reach(entry, keys)
        if isinstance(found, Mapping):
            return keys, found
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
