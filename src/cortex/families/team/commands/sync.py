"""`cortex sync`: push waiting writes to the team's Core, pull its changes, and report.

Exit codes: 0 both sides are equal, 1 some writes were refused or deferred, 2 the sync failed, 3 the
Core can't be reached. cortexd syncs in the background as well; a second sync waits for the first.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from cortex.base.errors import ConfigError, CortexError, InputError
from cortex.base.runtime.home import PROFILES
from cortex.engine.library import Library
from cortex.engine.store import OutboxEntry
from cortex.families.team.commands.options import one_of
from cortex.families.team.sync import connection, cycle, discard, rejections, state
from cortex.families.team.sync.client import Offline, Remote
from cortex.families.team.sync.cycle import FAILED, OFFLINE, OK, PARTIAL, SyncOutcome
from cortex.families.team.sync.upload import NONE
from cortex.toolkit.terminal.library import open_library
from cortex.toolkit.terminal.options import JsonFlag, ProfileOption
from cortex.toolkit.terminal.output import many, moment, print_error, print_json, say

EXITS = {OK: 0, PARTIAL: 1, FAILED: 2, OFFLINE: 3}
MOST_TOLD = 10  # refused writes listed
KEEPS = ("mine", "theirs")


@dataclass(frozen=True, slots=True)
class SyncSummary:
    """Outcome of a sync, and all writes that the Core has refused so far."""

    outcome: SyncOutcome
    server: str
    refused: tuple[OutboxEntry, ...]
    given_up: int = 0  # refused writes that were given up
    file: Path | None = None  # file that keeps them


def sync(
    retry: Annotated[
        bool, typer.Option("--retry", help="Send once more what the Core refused.")
    ] = False,
    give_up: Annotated[
        bool,
        typer.Option(
            "--give-up",
            help="Never send what the Core refused; all of it is written to a file first.",
        ),
    ] = False,
    refused: Annotated[
        bool,
        typer.Option(
            "--refused", help="Only show what the Core refused, whole: what was typed, and why."
        ),
    ] = False,
    keep: Annotated[
        str | None,
        typer.Option(
            "--keep",
            metavar="mine|theirs",
            help="If another person changed the same field first: send yours on top of theirs, "
            "or give yours up.",
        ),
    ] = None,
    record: Annotated[
        list[str] | None,
        typer.Option(
            "--record",
            metavar="ID",
            help="With --keep: only what is about this record; may be repeated.",
        ),
    ] = None,
    profile: ProfileOption = None,
    as_json: JsonFlag = False,
) -> int:
    """Bring this home and its Core together: send what waits, take over what changed. Exits with 0,
    1 partial, 2 failed, 3 offline.
    """
    if retry + give_up + refused + (keep is not None) > 1:
        raise InputError(
            "ARGUMENT_INVALID",
            "--retry sends what was refused, --give-up doesn't, --refused shows it, "
            "--keep chooses: take one",
        )
    side = None if keep is None else one_of(keep, KEEPS, "--keep")
    if record and side is None:
        raise InputError(
            "ARGUMENT_INVALID", "--record narrows --keep mine or --keep theirs; name one of them"
        )
    try:
        with open_library(profile) as library:
            if refused:
                return show_refused(library, as_json)
            join_configured(library)
            if side == "mine":
                discard.keep_mine(library, record or ())
            count, file = (0, None)
            if give_up or side == "theirs":
                count, file = (
                    discard.give_up(library)
                    if give_up
                    else discard.keep_theirs(library, record or ())
                )
            # Printed now, because the sync may fail.
            print_given_up(count, file)
            done = replace(run_sync(library, retry=retry), given_up=count, file=file)
    # Not exit code 1, which would mean a partial sync.
    except CortexError as error:
        print_error(error, as_json=as_json)
        return EXITS[OFFLINE if isinstance(error, Offline) else FAILED]
    if as_json:
        print_json(as_rows(done))
    else:
        print_summary(done)
    return exit_code(done)


def exit_code(done: SyncSummary) -> int:
    """Exit code: 1 as long as any write is refused, also by another process's sync."""
    return EXITS[_status(done)]


def _status(done: SyncSummary) -> str:
    return PARTIAL if done.refused and done.outcome.status == OK else done.outcome.status


def show_refused(library: Library, as_json: bool) -> int:
    """Print all refused writes completely, without a request to the Core."""
    entries = library.store.outbox.refused()
    if as_json:
        print_json(
            {
                "refused": [
                    {**rejections.encode_rejection(library, entry), "at": moment(entry.at)}
                    for entry in entries
                ]
            }
        )
        return 0
    for entry in entries:
        say(
            f"{rejections.title_of(entry)} ({rejections.main_of(entry).id}), "
            f"{entry.action} of {moment(entry.at)}"
        )
        say(f"  refused: {entry.code}: {entry.reason}")
        for change in entry.changes:
            for name, value in (
                rejections.typed(change).items() if change.kind != "notification" else ()
            ):
                text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
                say(f"  {change.id} {name}: {'taken away' if value is None else text}")
        say(
            f"  {rejections.became(library, entry)}; {_retry_advice(entry)}, "
            "--give-up writes it to a file and forgets it"
        )
    if not entries:
        say("the Core refused nothing")
    return 0


def _retry_advice(entry: OutboxEntry) -> str:
    """Describe the way to try a refused write again."""
    if rejections.is_outdone(entry, entry.code, entry.reason):
        return "another decision came first and stands"
    if entry.code != rejections.CONFLICT:
        return "--retry sends it again"
    if rejections.is_edit(entry):
        return "--keep mine puts it on top of that, --keep theirs gives it up"
    return "do it once more as it reads now"


def print_given_up(count: int, file: Path | None) -> None:
    """Print the number of given-up writes and their file, if any."""
    if file:
        say(
            f"given up: {many(count, 'refused write')}; all that you wrote is in {file}", error=True
        )


def given_up_row(count: int, file: Path | None) -> dict[str, object] | None:
    """Encode given-up writes as JSON, None if there are none."""
    return {"writes": count, "file": str(file)} if file else None


def join_configured(library: Library) -> None:
    """Connect to the Core in the settings if there is a token and no connection yet.

    Raises: CortexError.
    """
    url, settings = library.settings.team.server, library.settings
    if (
        url
        and not library.store.content.get(state.URL)
        and (token := connection.token_of(settings.home))
    ):
        joined = connection.connect(library, url, token, choice=NONE)
        say(f"connected to {joined.url} as {joined.name}", error=True)
        if library.store.outbox.candidates(library.store.content.get(state.EPOCH)):
            advice = (
                "`cortex connect --dry-run` shows what it has, "
                "`cortex connect --upload mine` sends it"
            )
            say(f"note: nothing of this home was sent there; {advice}", error=True)
        if joined.kept_aside:
            say(
                f"note: your changes of what the Core has are kept in {joined.kept_aside}",
                error=True,
            )


def run_sync(library: Library, *, retry: bool = False) -> SyncSummary:
    """Run one sync now. Raises: CortexError, if there is no Core to sync with."""
    remote = _remote(library)
    if retry:
        library.store.outbox.retry()
    try:
        outcome = cycle.sync(library, remote)
    finally:
        remote.close()
    return SyncSummary(outcome, remote.url, tuple(library.store.outbox.refused()))


def _remote(library: Library) -> Remote:
    """Open the Core of a home.

    Raises: ConfigError CORE_MISSING, with the name of the profile; NetworkError.
    """
    try:
        return connection.remote_of(library)
    except ConfigError as error:
        home = library.settings.home
        if home.parent.name != PROFILES:
            raise
        advice = f"Join a Core with `cortex --profile {home.name} connect URL`."
        message = f"profile {home.name}: {error.message}"
        raise ConfigError(error.code, message, context=error.context, instead=(advice,)) from None


def as_rows(done: SyncSummary) -> dict[str, object]:
    """Encode the summary as JSON."""
    outcome = done.outcome
    return {
        "status": _status(done),
        "server": done.server,
        "flushed": outcome.flushed,
        "pulled": outcome.pulled,
        "erased": outcome.erased,
        "waiting": outcome.waiting,
        "error": outcome.error or None,
        "refused": [
            {
                "action": entry.action,
                "record": rejections.main_of(entry).id,
                "title": rejections.title_of(entry),
                "code": entry.code,
                "reason": entry.reason,
            }
            for entry in done.refused
        ],
        "givenUp": given_up_row(done.given_up, done.file),
    }


def print_summary(done: SyncSummary) -> None:
    """Print the summary."""
    outcome, status = done.outcome, _status(done)
    gone = f", {outcome.erased:,} left that you may no longer see" if outcome.erased else ""
    refused = f", {len(done.refused):,} refused" if done.refused else ""
    counts = (
        f": {outcome.flushed:,} sent{refused}, {many(outcome.pulled, 'record')} came{gone}"
        if status in (OK, PARTIAL)
        else ""
    )
    say(f"{_MARKS[status]} {done.server}{counts}")
    if outcome.error:
        say(f"  {outcome.error}", error=True)
        for advice in outcome.advice if outcome.status == FAILED else ():
            say(f"  - {advice}", error=True)
    if outcome.waiting:
        until = "until that is mended" if outcome.status == FAILED else "for the next sync"
        say(f"  waiting here {until}: {many(outcome.waiting, 'write')}", error=True)
    for entry in done.refused[:MOST_TOLD]:
        say(f"  refused: {rejections.title_of(entry)} ({entry.code}): {entry.reason}", error=True)
    if done.refused:
        more = len(done.refused) - MOST_TOLD
        rest = f"{more:,} more; " if more > 0 else ""
        outdone = [rejections.is_outdone(entry, entry.code, entry.reason) for entry in done.refused]
        again = (
            "another decision came first: --give-up"
            if all(outdone)
            else "send it again with --retry, or --give-up"
        )
        say(f"  {rest}`cortex sync --refused` shows all you wrote; {again}", error=True)
        if any(
            entry.code == rejections.CONFLICT and rejections.is_edit(entry)
            for entry in done.refused
        ):
            say(
                "  changed by another person first: --keep mine puts yours on top, "
                "--keep theirs gives it up",
                error=True,
            )


_MARKS = {
    OK: "✓ Synced with",
    PARTIAL: "Synced in part with",
    FAILED: "Not synced with",
    OFFLINE: "Offline, not synced with",
}
