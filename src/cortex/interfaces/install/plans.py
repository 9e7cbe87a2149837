"""Plans of file changes that can be shown first, and their execution.

Planning writes nothing, and an error in a plan invalidates all of it: of several clients either all
are changed or none. The earlier bytes are restored exactly where a file is as we left it; else only
our part is cut out of the current content. A client may write while the user is being asked, so a
file that changed since it was planned is planned again.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from cortex.base.errors import ConfigError, FileError, InputError
from cortex.interfaces.install import config_entries, safe_files, undo_log
from cortex.interfaces.install.clients import (
    NAME,
    Client,
    ConfigFormat,
    Machine,
    entry_file,
    hooks_file,
)
from cortex.interfaces.install.config_entries import Merged, ServerEntry
from cortex.interfaces.install.jsonc_edit import Broken, Keys
from cortex.interfaces.install.undo_log import InstallRecord

# Option that names a folder to serve.
WORKSPACE = "--workspace"


@dataclass(frozen=True, slots=True)
class InstallOptions:
    """Options of an installation."""

    server: ServerEntry
    hooks: bool = False
    # True to replace a foreign entry of our name.
    replace: bool = False
    # Profile of the hooks; the server has it among its arguments.
    profile: str = ""


@dataclass(frozen=True, slots=True)
class Edit:
    """A planned change of one file."""

    clients: tuple[Client, ...]
    file: Path
    root: Path | None
    before: bytes | None
    # None to remove the file.
    after: bytes | None
    # Plans the change again for the current content.
    again: Callable[[], Edit] = field(compare=False, repr=False)
    made: tuple[Keys, ...] = ()
    # Other clients that share the file.
    kept_for: tuple[str, ...] = ()

    @property
    def action(self) -> str:
        """The effect on the file: created, updated, unchanged, removed."""
        if self.before == self.after:
            return "unchanged"
        if self.before is None:
            return "created"
        return "removed" if self.after is None else "updated"

    def diff(self) -> str:
        """Return the change as a unified diff; "" for none."""
        old, new = (
            (content or b"").decode("utf-8", "replace").splitlines(keepends=True)
            for content in (self.before, self.after)
        )
        names = (
            "/dev/null" if self.before is None else str(self.file),
            str(self.file) if self.after is not None else "/dev/null",
        )
        lines = difflib.unified_diff(old, new, *names)
        return "".join(
            line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
            for line in lines
        )


def plan_install(
    clients: Sequence[Client], machine: Machine, root: Path | None, wish: InstallOptions
) -> list[Edit]:
    """Plan the changes that connect these clients, for the user or the project at `root`.

    Raises: InputError where a client has no file in a project; ConfigError (CLIENT_FILE_INVALID,
    ENTRY_FOREIGN); FileError.
    """
    edits: dict[Path, Edit] = {}
    for client in clients:
        file = entry_file(client, machine, root)
        if file is None:
            raise InputError(
                "ARGUMENT_INVALID",
                f"{client.title} has no file for a project's servers; use --scope user",
            )
        server = wish.server
        if WORKSPACE not in server.arguments:
            server = replace(server, arguments=(*server.arguments, *client.arguments))
        edit = edits.get(file) or _start(file, root)
        add = partial(config_entries.add_entry, client=client, server=server, replace=wish.replace)
        edits[file] = _merge(edit, client, add)
        hooks_path = hooks_file(client, machine, root)
        hooks = client.hooks
        if wish.hooks and hooks is not None and hooks_path is not None:
            edit = edits.get(hooks_path) or _start(hooks_path, root)
            command, system = wish.server.command, machine.system
            add = partial(
                config_entries.add_hooks,
                hooks=hooks,
                program=command,
                system=system,
                profile=wish.profile,
            )
            edits[hooks_path] = _merge(edit, client, add)
    return list(edits.values())


def plan_change(
    client: Client, file: Path, root: Path | None, change: Callable[[str], Merged]
) -> Edit:
    """Plan a change of our entry in a client's file.

    Raises: ConfigError (CLIENT_FILE_INVALID, ENTRY_FOREIGN); FileError.
    """
    return _merge(_start(file, root), client, change)


def plan_uninstall(
    clients: Sequence[Client], machine: Machine, root: Path | None, home: Path, failed: list[str]
) -> list[Edit]:
    """Plan the changes that disconnect these clients.

    Files without an entry of ours are left out; messages about unreadable files are added to
    `failed`.
    """
    wanted: dict[Path, list[Client]] = {}
    for client in clients:
        for file in dict.fromkeys(
            (entry_file(client, machine, root), hooks_file(client, machine, root))
        ):
            if file is not None:
                wanted.setdefault(file, []).append(client)
    edits: list[Edit] = []
    for file, leaving in wanted.items():
        try:
            edits.append(_plan_removal(file, tuple(leaving), root, home))
        # One broken file doesn't stop the removal from the others.
        except (ConfigError, FileError) as error:
            failed.append(error.message)
    return [edit for edit in edits if edit.action != "unchanged" or edit.kept_for]


def renew(edit: Edit) -> Edit:
    """Return a planned change for the current content of its file.

    Raises: ConfigError (CLIENT_FILE_INVALID, ENTRY_FOREIGN); FileError.
    """
    return edit if safe_files.read(edit.file, edit.root) == edit.before else edit.again()


def install(edit: Edit, home: Path) -> Path | None:
    """Execute a planned change; return the path of the backup.

    Raises: ConfigError, FileError; the file is unchanged then.
    """
    edit = renew(edit)
    if edit.after is None or edit.action == "unchanged":
        _remember_clients(edit, home)
        return None
    known = undo_log.read_record(home, edit.file)
    exact = (
        known is not None
        and edit.before is not None
        and known.written == undo_log.digest(edit.before)
    )
    names = tuple(client.name for client in edit.clients)
    if known is not None and exact:
        before = undo_log.read_backup(home, edit.file) if known.existed else None
        folders, made = known.folders, (*known.made, *edit.made)
        existed, names = known.existed, tuple(dict.fromkeys((*known.clients, *names)))
    else:
        before = None if edit.before is None else _without_ours(edit, known)
        folders = safe_files.missing_folders(edit.file) or (known.folders if known else ())
        made = (*(known.made if known else ()), *edit.made)
        existed = edit.before is not None
    record = InstallRecord(
        edit.file,
        edit.root,
        names,
        existed,
        undo_log.digest(edit.after),
        folders,
        tuple(dict.fromkeys(made)),
    )
    backup = undo_log.write_record(home, record, before)
    try:
        safe_files.write(edit.file, edit.after, edit.root)
    except FileError:
        if known is None:
            undo_log.drop_record(home, edit.file)
        raise
    return backup


def uninstall(edits: Sequence[Edit], home: Path) -> None:
    """Execute planned removals; remove the folders created for them if they are empty.

    Raises: ConfigError, FileError; that file is unchanged then.
    """
    folders: set[Path] = set()
    for planned in edits:
        edit = renew(planned)
        known = undo_log.read_record(home, edit.file)
        if edit.kept_for:
            if known is not None:
                undo_log.write_record(home, replace(known, clients=edit.kept_for), None)
            continue
        if edit.after is None:
            safe_files.delete(edit.file, edit.root)
        elif edit.after != edit.before:
            safe_files.write(edit.file, edit.after, edit.root)
        folders |= set(known.folders) if known else set()
        undo_log.drop_record(home, edit.file)
    safe_files.remove_folders(folders)
    _reassign_folders([folder for folder in folders if folder.exists()], home)


def _reassign_folders(folders: Sequence[Path], home: Path) -> None:
    """Assign our folders that still hold another file of ours to the record of that file."""
    for record in list(undo_log.read_records(home)):
        parents = [
            folder
            for folder in folders
            if record.file.is_relative_to(folder) and folder not in record.folders
        ]
        if parents:
            undo_log.write_record(home, replace(record, folders=(*parents, *record.folders)), None)


def _start(file: Path, root: Path | None) -> Edit:
    content = safe_files.read(file, root)
    return Edit((), file, root, content, content, partial(_start, file, root))


def _merge(edit: Edit, client: Client, change: Callable[[str], Merged]) -> Edit:
    text = safe_files.read_text(edit.file, edit.after or b"")
    try:
        merged = change(text)
    except Broken as error:
        raise _broken(edit.file, error) from None
    clients = edit.clients if client in edit.clients else (*edit.clients, client)
    return replace(
        edit,
        clients=clients,
        after=merged.text.encode(),
        made=(*edit.made, *merged.made),
        again=lambda: _merge(edit.again(), client, change),
    )


def _plan_removal(file: Path, leaving: tuple[Client, ...], root: Path | None, home: Path) -> Edit:
    content = safe_files.read(file, root)
    edit = Edit(
        leaving, file, root, content, content, partial(_plan_removal, file, leaving, root, home)
    )
    known = undo_log.read_record(home, file)
    # A file without our name isn't parsed, so it may be broken.
    if content is None or NAME.encode() not in content:
        return edit
    names = {client.name for client in leaving}
    staying = tuple(name for name in known.clients if name not in names) if known else ()
    if staying:
        return replace(edit, kept_for=staying)
    if known is not None and known.written == undo_log.digest(content):
        before = undo_log.read_backup(home, file) if known.existed else None
        if before is not None or not known.existed:
            return replace(edit, after=before)
    rest = _without_ours(edit, known)
    is_empty = (
        known is not None
        and not known.existed
        and rest.strip(b"\xef\xbb\xbf \t\r\n") in (b"", b"{}")
    )
    return replace(edit, after=None if is_empty else rest)


def _without_ours(edit: Edit, known: InstallRecord | None) -> bytes:
    """Return the content of a file without our entries."""
    content = edit.before or b""
    text = whole = safe_files.read_text(edit.file, content)
    try:
        in_toml = edit.file.suffix == ".toml"
        for client in edit.clients:
            # Hooks are JSON in every client.
            if in_toml == (client.format is ConfigFormat.TOML):
                text = config_entries.remove_entry(text, client)
            if client.hooks is not None and not in_toml:
                text = config_entries.remove_hooks(text, client.hooks)
        if known is not None and text != whole and not in_toml:
            text = config_entries.remove_made(text, known.made)
    except Broken as error:
        raise _broken(edit.file, error) from None
    return text.encode()


def _remember_clients(edit: Edit, home: Path) -> None:
    """Record a further client that shares an unchanged file."""
    known = undo_log.read_record(home, edit.file)
    names = {client.name for client in edit.clients}
    if known is not None and not names <= set(known.clients):
        undo_log.write_record(
            home,
            replace(known, clients=tuple(dict.fromkeys((*known.clients, *sorted(names))))),
            None,
        )


def _broken(file: Path, error: Broken) -> ConfigError:
    context = {"path": str(file), "line": error.line, "column": error.column}
    return ConfigError("CLIENT_FILE_INVALID", f"{file}, {error}", context=context)
