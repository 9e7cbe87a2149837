"""A project's own files: the shared entry in .mcp.json, and our lines in .gitignore.

These files are committed: they have no secret, and no path of this machine unless nothing else
works here. A project that already has rules for .cortex/, or that tracks files in it, has decided;
its .gitignore is left alone.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from cortex.base.errors import ConfigError, FileError
from cortex.base.paths import STORE_FOLDER
from cortex.engine.sources import git
from cortex.engine.sources.gitignore import Patterns
from cortex.interfaces.install import safe_files as files
from cortex.interfaces.install import undo_log
from cortex.interfaces.install.clients import Client, Machine, entry_file, find_client, this_system
from cortex.interfaces.install.config_entries import ServerEntry, is_ours, read_entry, read_server
from cortex.interfaces.install.jsonc_edit import Broken
from cortex.interfaces.install.plans import Edit, InstallOptions, install, plan_install
from cortex.interfaces.install.undo_log import InstallRecord

IGNORED = (f"{STORE_FOLDER}/*", f"!{STORE_FOLDER}/config.yml", f"!{STORE_FOLDER}/config.json")
# Name of the command, the same on every machine.
NAME_ON_PATH = "cortex"
PROFILE = "--profile"


@dataclass(frozen=True, slots=True)
class ProjectWrite:
    """The names of the changed files, and notes about them for the user."""

    files: tuple[str, ...]
    notes: tuple[str, ...] = ()


def write_project_files(
    root: Path, *, mcp: bool, gitignore: bool, home: Path, program: str = "", profile: str = ""
) -> ProjectWrite:
    """Write or merge `.mcp.json` and `.gitignore` of the project at `root`.

    `program` is the full path of the command, for a machine that doesn't have it on the PATH.

    Raises: ConfigError (CLIENT_FILE_INVALID, ENTRY_FOREIGN); FileError.
    """
    written: list[str] = []
    notes: list[str] = []
    if mcp:
        client = find_client("claude-code")
        # Only the files of the project are used, so the home doesn't matter.
        machine = Machine(root, this_system())
        server = _server(root, client, machine, program, profile, notes)
        (edit,) = plan_install([client], machine, root, InstallOptions(server))
        if edit.action != "unchanged":
            install(edit, home)
            written.append(edit.file.name)
    if gitignore and not (root / ".git").exists():
        notes.append(f"{root} is not a git repository: .gitignore was not written")
    elif gitignore and _write_ignore_lines(root, home):
        written.append(".gitignore")
    return ProjectWrite(tuple(written), tuple(notes))


def _server(
    root: Path, client: Client, machine: Machine, program: str, profile: str, notes: list[str]
) -> ServerEntry:
    """Return the server of the project's entry.

    An existing entry keeps its command and arguments, and gets the profile.
    """
    file = entry_file(client, machine, root)
    assert file is not None
    present = _present_server(file, root, client)
    if present is not None:
        server = present
    else:
        command, note = project_command(root, [file], program)
        server = ServerEntry(command, ("mcp",))
        notes += [note] if note else []
    return (
        replace(server, arguments=_with_profile(server.arguments, profile)) if profile else server
    )


def project_command(root: Path, targets: Sequence[Path], program: str) -> tuple[str, str]:
    """Return the command for entries in files of a project, and a note for the user.

    It is plain `cortex`, which works on every machine that has it on its PATH. If this one hasn't,
    it is `program`, the full path, unless one of the files is committed.
    """
    if not program or shutil.which(NAME_ON_PATH):
        return NAME_ON_PATH, ""
    names = [target.relative_to(root).as_posix() for target in targets]
    listed, folder = ", ".join(names), Path(program).parent
    if git.tracks(root, *names):
        return (
            NAME_ON_PATH,
            f"`{NAME_ON_PATH}`, which {listed} starts, is not on the PATH: put {folder} on it.",
        )
    return program, (
        f"`{NAME_ON_PATH}` is not on the PATH: {listed} has its full path, "
        "which is of this machine only. "
        f"Before you commit it, put {folder} on the PATH, remove the entry and run this again."
    )


def _present_server(file: Path, root: Path, client: Client) -> ServerEntry | None:
    """Return the server of our present entry; None for none of ours or an unreadable file."""
    try:
        entry = read_entry(files.read_text(file, files.read(file, root) or b""), client)
    # Planning reports the position of the error.
    except Broken:
        return None
    return read_server(entry) if is_ours(entry) else None


def _with_profile(arguments: tuple[str, ...], profile: str) -> tuple[str, ...]:
    """Return the arguments with this profile in place of another, or added at the end."""
    kept: list[str] = []
    words = iter(arguments)
    for word in words:
        if word == PROFILE:
            next(words, None)
        elif not word.startswith(f"{PROFILE}="):
            kept.append(word)
    return (*kept, PROFILE, profile)


def plan_ignore_removals(home: Path, failed: list[str], root: Path | None = None) -> list[Edit]:
    """Plan the removal of our lines from the .gitignore of every project, or of one.

    Messages about unreadable files are added to `failed`.
    """
    edits: list[Edit] = []
    for record in undo_log.read_records(home):
        if record.clients or (root is not None and record.root != root):
            continue
        try:
            edits.append(plan_ignore_removal(record, home))
        # One unreadable file doesn't stop the removal from the others.
        except (ConfigError, FileError) as error:
            failed.append(error.message)
    return [edit for edit in edits if edit.action != "unchanged"]


def plan_ignore_removal(record: InstallRecord, home: Path) -> Edit:
    """Plan the removal of our lines from a .gitignore.

    Raises: FileError.
    """
    content = files.read(record.file, record.root)
    edit = Edit(
        (), record.file, record.root, content, content, partial(plan_ignore_removal, record, home)
    )
    if content is None:
        return edit
    if undo_log.digest(content) == record.written:
        before = undo_log.read_backup(home, record.file) if record.existed else None
        # A lost backup doesn't mean that the file is ours.
        if before is not None or not record.existed:
            return replace(edit, after=before)
    ours = {line.encode() for line in IGNORED}
    rest = b"".join(line for line in content.splitlines(keepends=True) if line.strip() not in ours)
    return replace(edit, after=rest)


def _write_ignore_lines(root: Path, home: Path) -> bool:
    """Add our lines to .gitignore if it has no rule for them; true if that changed it."""
    file = root / ".gitignore"
    content = files.read(file, root)
    present = content or b""
    if _add_missing_exceptions(file, root, present, home):
        return True
    if git.tracks(root, STORE_FOLDER):
        return False
    lines = present.decode("utf-8", "surrogateescape").removeprefix("\ufeff").splitlines()
    # Checks the lines instead of asking git: the .gitignore in .cortex/ is ours, and the user's
    # global ignore file isn't the project's.
    patterns = Patterns(lines)
    if (
        patterns.verdict(STORE_FOLDER, True) is not None
        or patterns.verdict(f"{STORE_FOLDER}/cortex.db", False) is not None
    ):
        return False
    end = b"\r\n" if b"\r\n" in present else b"\n"
    gap = b"" if not present or present.endswith(b"\n") else end
    after = present + gap + end.join(line.encode() for line in IGNORED) + end
    record = InstallRecord(file, root, (), content is not None, undo_log.digest(after), (), ())
    undo_log.write_record(home, record, content)
    files.write(file, after, root)
    return True


def _add_missing_exceptions(file: Path, root: Path, content: bytes, home: Path) -> bool:
    """Complete lines of an earlier version, which ignored a file meant to be committed."""
    lines = content.splitlines(keepends=True)
    written = [line.strip() for line in lines]
    first, *exceptions = (line.encode() for line in IGNORED)
    missing = [line for line in exceptions if line not in written]
    if first not in written or not missing or len(missing) == len(exceptions):
        return False
    position = max(written.index(line) for line in exceptions if line in written) + 1
    end = b"\r\n" if b"\r\n" in content else b"\n"
    if not lines[position - 1].endswith(b"\n"):
        lines[position - 1] += end
    after = b"".join([*lines[:position], *(line + end for line in missing), *lines[position:]])
    known = undo_log.read_record(home, file)
    if known is not None and known.written == undo_log.digest(content):
        undo_log.write_record(home, replace(known, written=undo_log.digest(after)), None)
    files.write(file, after, root)
    return True
