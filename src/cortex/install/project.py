"""A project's own files: the entry that its people share in .mcp.json, and the lines in .gitignore that keep our store out of git.

What is written here is committed: no secret, no absolute path. A project that already says what git does with .cortex/, or that tracks
files in it, has decided; its .gitignore is left alone.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

from cortex.errors import ConfigError, FileError
from cortex.install import files, records
from cortex.install.clients import Machine, find_client, this_system
from cortex.install.entries import Server
from cortex.install.plans import Edit, Wish, install, plan_install
from cortex.install.records import Record
from cortex.paths import STORE_FOLDER
from cortex.sources import git
from cortex.sources.ignore import Patterns

IGNORED = (f"{STORE_FOLDER}/*", f"!{STORE_FOLDER}/config.yml")
SHARED = Server("cortex", ("mcp",))


def write_project_files(root: Path, *, mcp: bool, gitignore: bool, home: Path) -> list[str]:
    """Write or merge `.mcp.json` and `.gitignore` of the project at `root`; gives the names of those that changed.

    Raises: ConfigError (CLIENT_FILE_INVALID, ENTRY_FOREIGN); FileError.
    """
    written = []
    if mcp:
        machine = Machine(root, this_system())  # the files of a person aren't asked for
        (edit,) = plan_install([find_client("claude-code")], machine, root, Wish(SHARED))
        if edit.action != "unchanged":
            install(edit, home)
            written.append(edit.file.name)
    if gitignore and _write_ignore_lines(root, home):
        written.append(".gitignore")
    return written


def plan_ignore_removals(home: Path, failed: list[str], root: Path | None = None) -> list[Edit]:
    """The changes that take our lines out of the .gitignore of every project, or of one; in `failed` is what can't be read."""
    edits: list[Edit] = []
    for record in records.read_records(home):
        if record.clients or (root is not None and record.root != root):
            continue
        try:
            edits.append(plan_ignore_removal(record, home))
        except (ConfigError, FileError) as error:  # one such list doesn't keep us in everything else
            failed.append(error.message)
    return [edit for edit in edits if edit.action != "unchanged"]


def plan_ignore_removal(record: Record, home: Path) -> Edit:
    """The change that takes our lines out of a .gitignore again. Raises: FileError."""
    content = files.read(record.file, record.root)
    edit = Edit((), record.file, record.root, content, content, partial(plan_ignore_removal, record, home))
    if content is None:
        return edit
    if records.digest(content) == record.written:
        before = records.read_backup(home, record.file) if record.existed else None
        if before is not None or not record.existed:  # a lost copy doesn't make the file ours
            return replace(edit, after=before)
    ours = {line.encode() for line in IGNORED}
    rest = b"".join(line for line in content.splitlines(keepends=True) if line.strip() not in ours)
    return replace(edit, after=rest)


def _write_ignore_lines(root: Path, home: Path) -> bool:
    """Add our lines to .gitignore where nobody has decided yet; true if that changed it."""
    if not (root / ".git").exists() or git.tracks(root, STORE_FOLDER):
        return False
    file = root / ".gitignore"
    content = files.read(file, root)
    present = content or b""
    lines = present.decode("utf-8", "surrogateescape").removeprefix("\ufeff").splitlines()
    # Asked of the lines, not of git: the .gitignore in .cortex/ is ours, and a person's own list is not the project's.
    patterns = Patterns(lines)
    if (
        patterns.verdict(STORE_FOLDER, True) is not None
        or patterns.verdict(f"{STORE_FOLDER}/cortex.db", False) is not None
    ):
        return False
    end = b"\r\n" if b"\r\n" in present else b"\n"
    gap = b"" if not present or present.endswith(b"\n") else end
    after = present + gap + end.join(line.encode() for line in IGNORED) + end
    record = Record(file, root, (), content is not None, records.digest(after), (), ())
    records.write_record(home, record, content)
    files.write(file, after, root)
    return True
