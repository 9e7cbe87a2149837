"""Settings changed by commands: one key at a time, in the user's file or a project's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cortex.base.errors import ConfigError, StoreError
from cortex.base.settings import (
    Key,
    Settings,
    environment,
    find_workspaces,
    known_key,
    load,
    read_setting,
    write_setting,
)
from cortex.toolkit.terminal.output import say

if TYPE_CHECKING:
    from cortex.engine.store import Store


@dataclass(frozen=True, slots=True)
class SettingChange:
    """Result of setting one key."""

    key: Key
    file: Path
    old: object
    new: object
    origin: str  # origin of the value that applies now

    @property
    def changed_keys(self) -> tuple[str, ...]:
        """Keys that have a new value in the file."""
        return (self.key.name,) if self.old != self.new else ()


def say_change(done: SettingChange) -> None:
    """Print the change, and a note where another origin takes precedence."""
    say(f"{done.key.name} = {done.key.show(done.new)} in {done.file}")
    if done.origin != str(done.file):
        say(f"note: {done.origin} still counts before this file", error=True)


def change(
    values: Mapping[str, object], *, project: bool, path: Path | None
) -> list[SettingChange]:
    """Validate settings, then write them: all or none.

    Raises: ConfigError, if a key is unknown, a value isn't allowed, or it would be ignored where it
    is written.
    """
    settings = load_settings(path)
    if project and settings.root is None:
        raise ConfigError("WORKSPACE_MISSING", "there is no project here; name one with --path")
    root = settings.root if project else None
    file = root / ".cortex" / "config.yml" if root else settings.home / "config.yml"
    own = load(None, environment=environment())
    keys = [(_settable(name, settings.home), value) for name, value in values.items()]
    checked = [(key, own.check(key, value, project=root)) for key, value in keys]
    changes = []
    for key, new in checked:
        old = read_setting(file, key)
        write_setting(file, key, new, private=not project, within=root)
        changes.append(
            done := SettingChange(key, file, old, new, load_settings(path).origin(key.name))
        )
        if done.changed_keys:
            _record(done, settings.home, root)
    return changes


def _settable(name: str, home: Path) -> Key:
    key = known_key(name)
    if not isinstance(key, Key):
        file = home / "config.yml"
        raise ConfigError(
            "CONFIG_INVALID",
            f"{key.name} can't be set by this command",
            instead=(f"Write it into {file}.",),
        )
    return key


def _record(done: SettingChange, home: Path, root: Path | None) -> None:
    """Add a line to the operations log of the project, or to the user's own."""
    # The setting applies anyway; every command that needs the database reports its problem.
    with suppress(StoreError), open_settings_store(home, root) as store:
        detail = {"key": done.key.name, "new": done.key.reveal(done.new), "file": str(done.file)}
        store.log.record("config", {"changed": detail})


@contextmanager
def open_settings_store(home: Path, root: Path | None) -> Iterator[Store]:
    """Open the store of a project, or the user's own."""
    from cortex.base.paths import ensure_store_dir
    from cortex.engine.store import Store, check_present
    from cortex.engine.store_folder import find_store

    folder = find_store(root, home) if root else home
    if root is None:
        check_present(folder)
    ensure_store_dir(folder)
    store = Store(folder)
    try:
        yield store
    finally:
        store.close()


def load_settings(path: Path | None) -> Settings:
    """Load the settings at `path` or here; without a project, those that apply without one."""
    variables = environment()
    if path is not None and not path.is_dir():
        raise ConfigError(
            "WORKSPACE_UNKNOWN", f"{str(path)!r} is not a folder", suggestions=("Correct --path.",)
        )
    if path is not None:
        return load(path.resolve(), environment=variables)
    bare = load(None, environment=variables)
    try:
        return find_workspaces(bare, cwd=Path.cwd(), environment=variables)[0].settings
    except ConfigError as error:
        if error.code not in ("WORKSPACE_MISSING", "WORKSPACE_UNKNOWN"):
            raise
        return bare
