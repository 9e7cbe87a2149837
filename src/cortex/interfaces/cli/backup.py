"""`cortex backup ...`: snapshots of a home, made automatically or on request."""

from __future__ import annotations

from typing import Annotated

import typer

from cortex.base.errors import FileError, InputError
from cortex.base.text import rfc3339
from cortex.engine.store import STORE_NAME
from cortex.engine.store.snapshots import (
    ASKED,
    FOLDER,
    MOST,
    RESTORE,
    Contents,
    Snapshot,
    list_snapshots,
    make_snapshot,
    verify_snapshot,
)
from cortex.toolkit.terminal.library import confirm, person_settings
from cortex.toolkit.terminal.options import JsonFlag
from cortex.toolkit.terminal.output import many, print_json, say

NameArgument = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        help="As `cortex backup list` shows it; default: the newest but those of before a restore.",
    ),
]

app = typer.Typer(
    name="backup",
    help=(
        "Snapshots of your memories, records and settings: made daily by Cortex itself, and "
        "when you ask."
    ),
    no_args_is_help=True,
)


@app.command()
def create(as_json: JsonFlag = False) -> int:
    """Make a snapshot now; the oldest above seven is removed."""
    home = person_settings().home
    snapshot = make_snapshot(home / STORE_NAME, ASKED) if (home / STORE_NAME).exists() else None
    if as_json:
        print_json({"snapshot": _row(snapshot) if snapshot else None})
    elif snapshot is None:
        say("There is nothing to keep yet: no memories, records or sources of documents.")
    else:
        say(
            f"✓ Made {snapshot.file}: {snapshot.size:,} bytes. It holds all that you wrote: "
            "keep it as private as that."
        )
    return 0


@app.command("list")
def list_all(as_json: JsonFlag = False) -> int:
    """List the snapshots, newest first."""
    home = person_settings().home
    snapshots = list_snapshots(home)
    if as_json:
        print_json(
            {"folder": str(home / FOLDER), "snapshots": [_row(snapshot) for snapshot in snapshots]}
        )
        return 0
    for snapshot in snapshots:
        say(
            f"{snapshot.name:28} {rfc3339(snapshot.at)}  {snapshot.reason:10} "
            f"{snapshot.size:>12,} bytes"
        )
    say(
        f"{many(len(snapshots), 'snapshot')} of at most {MOST} in {home / FOLDER}"
        if snapshots
        else "There are no snapshots yet."
    )
    return 0


@app.command()
def verify(name: NameArgument = "", as_json: JsonFlag = False) -> int:
    """Read a snapshot from end to end, and say what it holds."""
    snapshot = _choose(name)[0]
    contents = _verified(snapshot)
    if as_json:
        print_json({**_row(snapshot), **_held(contents)})
    else:
        say(f"✓ {snapshot.name} is whole: {_described(contents)}")
    return 0


@app.command()
def restore(
    name: NameArgument = "",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Don't ask.")] = False,
    as_json: JsonFlag = False,
) -> int:
    """Put your memories, records and settings back to a snapshot. What is there now is kept as
    another one, to undo this.
    """
    from cortex.interfaces.assembly.recovery import restore_snapshot

    choice = _choose(name)
    snapshot, contents = _sound(choice, named=bool(name))
    damaged = [passed.name for passed in choice[: choice.index(snapshot)]]
    for passed in damaged:
        say(f"warning: the snapshot {passed} is damaged and was passed over", error=True)
    if not yes:
        text = f"Put this home back to {snapshot.name}, with {_described(contents)}?"
        confirm(text, "restoring replaces what is there now")
    done = restore_snapshot(person_settings(), snapshot)
    if as_json:
        print_json(
            {
                "restored": _row(snapshot),
                "damaged": damaged,
                **_held(contents),
                "settingsRestored": done.settings,
                "undo": done.before.name if done.before else None,
                "kept": str(done.kept) if done.kept else None,
            }
        )
        return 0
    say(f"✓ Restored {snapshot.name}: {_described(contents)}")
    if done.before:
        say(f"  To undo it: cortex backup restore {done.before.name}")
    if done.kept:
        until = " until the next restore" if done.before else ""
        say(f"  The database that was there is kept as {done.kept}{until}")
    if contents.folders:
        say("  Documents are read again in the background, or now with `cortex kb sync`.")
    return 0


def _sound(choice: list[Snapshot], *, named: bool) -> tuple[Snapshot, Contents]:
    """Return the named snapshot, or the newest sound one. Raises: FileError if all are damaged."""
    sound = (choice[0], _verified(choice[0])) if named else _newest_sound(choice)
    if sound is None:
        raise FileError(
            "IMPORT_UNREADABLE",
            f"all {many(len(choice), 'snapshot')} are damaged; nothing was changed",
            instead=(
                "Where the home's database is there, `cortex doctor --salvage` saves what "
                "can be read of it.",
            ),
        )
    return sound


def _choose(name: str) -> list[Snapshot]:
    """Return the snapshot of this name; without a name all, those before a restore last.

    Raises: InputError, FileError.
    """
    home = person_settings().home
    snapshots = list_snapshots(home)
    if not snapshots:
        raise FileError(
            "FILE_NOT_FOUND",
            f"there are no snapshots in {home / FOLDER}",
            instead=("Make one with `cortex backup create`; Cortex makes one a day by itself.",),
        )
    if not name:
        # A snapshot from before a restore serves to undo it, and is restored by its name.
        return sorted(snapshots, key=lambda snapshot: snapshot.reason == RESTORE)
    chosen = [snapshot for snapshot in snapshots if snapshot.name == name.removesuffix(".db.gz")]
    if not chosen:
        names = ", ".join(snapshot.name for snapshot in snapshots)
        raise InputError("ARGUMENT_INVALID", f"there is no snapshot {name!r}; there are: {names}")
    return chosen


def _newest_sound(snapshots: list[Snapshot]) -> tuple[Snapshot, Contents] | None:
    """Return the first undamaged snapshot and its contents.

    Raises: FileError, where the disk is full.
    """
    for snapshot in snapshots:
        try:
            return snapshot, verify_snapshot(snapshot)
        except FileError as error:
            if error.code != "IMPORT_UNREADABLE":
                raise
    return None


def _verified(snapshot: Snapshot) -> Contents:
    """Return the contents of a snapshot.

    Raises: FileError IMPORT_UNREADABLE for a damaged one, which suggests the newest sound one.
    """
    try:
        return verify_snapshot(snapshot)
    except FileError as damaged:
        if damaged.code != "IMPORT_UNREADABLE":
            raise
        if sound := _newest_sound([other for other in _choose("") if other != snapshot]):
            damaged.suggestions = (
                f"The newest one that is whole: `cortex backup restore {sound[0].name}`.",
            )
        raise


def _described(contents: Contents) -> str:
    memories = f"{contents.memories:,} {'memory' if contents.memories == 1 else 'memories'}"
    parts = [memories, many(contents.records, "record")]
    parts += [many(contents.folders, "source"), *(["your settings"] if contents.settings else [])]
    return ", ".join(parts)


def _held(contents: Contents) -> dict[str, object]:
    return {
        "memories": contents.memories,
        "records": contents.records,
        "sources": contents.folders,
        "settings": contents.settings,
    }


def _row(snapshot: Snapshot) -> dict[str, object]:
    return {
        "name": snapshot.name,
        "file": str(snapshot.file),
        "at": rfc3339(snapshot.at),
        "reason": snapshot.reason,
        "bytes": snapshot.size,
    }
