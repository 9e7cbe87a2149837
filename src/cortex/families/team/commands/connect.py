"""`cortex connect` and `cortex disconnect`: join a team's Core and leave it.

The token is never an argument: all users of a machine can see command lines, and shells keep them.
"""

from __future__ import annotations

import getpass
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from cortex.base.actors import AGENT, PERSON
from cortex.base.errors import FileError, InputError, explained
from cortex.base.settings import environment
from cortex.families.team.commands.options import one_of
from cortex.families.team.commands.sync import (
    as_rows,
    exit_code,
    given_up_row,
    print_given_up,
    print_summary,
    run_sync,
)
from cortex.families.team.permissions import describe_action
from cortex.families.team.sync import connection, discard, state
from cortex.families.team.sync.connection import MAX_TOKEN, TOKEN_VARIABLE, Joined, Preview
from cortex.families.team.sync.upload import (
    ALL,
    CHOICES,
    KEEPS_AUTHORS,
    MINE,
    NONE,
    Plan,
    UploadPart,
)
from cortex.toolkit.terminal.library import open_library
from cortex.toolkit.terminal.options import JsonFlag, ProfileOption
from cortex.toolkit.terminal.output import many, print_json, say

MOST_NAMES = 5  # people or Cores named in a summary
_YOURS = {PERSON: "you", AGENT: "your agents"}


def connect(
    url: Annotated[
        str,
        typer.Argument(metavar="URL", help="The Core's address; default: the setting team.server."),
    ] = "",
    token_file: Annotated[
        str,
        typer.Option(
            "--token-file",
            metavar="FILE",
            help=f"A file that has the token; -: stdin. Default: ${TOKEN_VARIABLE}, "
            "or else it is asked for.",
        ),
    ] = "",
    plain_http: Annotated[
        bool,
        typer.Option(
            "--plain-http",
            help="Allow http:// beyond this machine: everybody in between can read all.",
        ),
    ] = False,
    moved: Annotated[
        bool,
        typer.Option(
            "--moved", help="It is the same team's Core, restored or renewed at another address."
        ),
    ] = False,
    upload: Annotated[
        str | None,
        typer.Option(
            "--upload",
            metavar="all|mine|none",
            help="Which records of this home are sent: mine are those that you wrote here "
            "and no other Core ever had. "
            "Default: you are asked; none, where there is no terminal.",
        ),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Only show what would be sent; nothing is joined or sent."),
    ] = False,
    profile: ProfileOption = None,
    as_json: JsonFlag = False,
) -> int:
    """Join a team's Core: what you choose of this home is sent there, what you may see of it comes
    here; then sync for a first time.
    """
    choice = None if upload is None else one_of(upload, CHOICES, "--upload")
    with open_library(profile) as library:
        before = library.store.content.get(state.URL)
        address = url or library.settings.team.server or before
        if not address:
            raise InputError(
                "ARGUMENT_INVALID", "which Core? Name its address, such as https://core.example.org"
            )
        is_joined = bool(before) and address.rstrip("/") == before and not token_file
        token = connection.token_of(library.settings.home) if is_joined else _read_token(token_file)
        preview = None
        if dry_run or not before or choice:
            preview = connection.preview(library, address, token, plain=plain_http, moved=moved)
            if not as_json:
                _show_plan(preview)
            if dry_run:
                if as_json:
                    plan = _plan_json(preview.plan, choice)
                    print_json({"server": preview.url, "dryRun": True, "upload": plan})
                return 0
            choice = choice or _ask_choice(preview)
        joined = connection.connect(
            library, address, token, plain=plain_http, moved=moved, choice=choice
        )
        moved_from = before if joined.again and joined.url != before else None
        if not as_json:
            _say_joined(joined, moved_from)
        _print_unsent(preview, choice, joined.kept_aside)
        done = run_sync(library)
    if as_json:
        sent = _plan_json(preview.plan, choice) if preview else None
        print_json({**_joined_json(joined, moved_from), "upload": sent, "sync": as_rows(done)})
    else:
        print_summary(done)
    return exit_code(done)


def _say_joined(joined: Joined, moved_from: str | None) -> None:
    again = "Still connected" if joined.again else "Connected"
    begin = f"Moved from {moved_from}" if moved_from else again
    say(f"✓ {begin} to {joined.url} as {joined.name} (tier {joined.tier})")


def _joined_json(joined: Joined, moved_from: str | None) -> dict[str, object]:
    return {
        "server": joined.url,
        "name": joined.name,
        "tier": joined.tier,
        "again": joined.again,
        "movedFrom": moved_from,
        "queued": joined.queued,
    }


def _show_plan(preview: Preview) -> None:
    """Print the records of this home that the Core doesn't have."""
    mine, others = preview.plan.mine, preview.plan.others
    total = mine.records + others.records + preview.plan.kept
    if total:
        say(f"{preview.url} doesn't have {many(total, 'record')} of this home:")
    if mine.records:
        say(
            f"  mine: {_describe(mine)}, written here, "
            f"never sent elsewhere{_expected_refusals(mine, preview.tier)}"
        )
    if others.records:
        authors = {_YOURS.get(name, name): count for name, count in others.authors.items()}
        origins = f", once at {_names(others.origins)}" if others.origins else ""
        say(
            f"  all adds: {_describe(others)}, by {_names(authors)}{origins}"
            f"{_expected_refusals(others, preview.tier)}"
        )
    if preview.plan.kept:
        say(
            f"  {many(preview.plan.kept, 'record')} stay here: "
            f"a Core takes what others wrote from tier {KEEPS_AUTHORS} on"
        )
    if preview.plan.changes:
        say(
            f"  and changes of {many(preview.plan.changes, 'record')} that it has, "
            "made here since you left it"
        )


def _ask_choice(preview: Preview) -> str:
    """Ask the person for the choice; send nothing if there is no terminal."""
    plan = preview.plan
    if not plan.sent(ALL) and not plan.changes:
        return MINE
    if not sys.stdin.isatty():
        if plan.changes:
            message = (
                f"changes of {many(plan.changes, 'record')} wait here, "
                "and there is no terminal to ask on"
            )
            advice = (
                "--upload mine sends them, --upload none keeps them in a file and takes over "
                "what the Core has."
            )
            raise InputError("ARGUMENT_INVALID", message, suggestions=(advice,))
        return NONE
    counts = f"mine ({plan.sent(MINE):,}), all ({plan.sent(ALL):,}) or none"
    print(f"Send which? {counts} [mine]: ", end="", file=sys.stderr, flush=True)
    return one_of(sys.stdin.readline().strip() or MINE, CHOICES, "the answer")


def _print_unsent(preview: Preview | None, choice: str | None, file: Path | None) -> None:
    """Print the records that stay here, and the command that sends them."""
    plan = preview.plan if preview else None
    held = plan.sent(ALL) - plan.sent(choice or MINE) if plan else 0
    if held:
        advice = "`cortex connect --upload mine` or `--upload all` sends them"
        say(f"note: not sent, only kept here: {many(held, 'record')}; {advice}", error=True)
    if file:
        say(
            f"note: your changes of what the Core has are not sent; they are kept in {file}",
            error=True,
        )


def _describe(part: UploadPart) -> str:
    kinds = ", ".join(many(count, kind) for kind, count in part.kinds.items())
    private = f", {part.private:,} of them private" if part.private else ""
    return f"{many(part.records, 'record')} ({kinds}{private})"


def _expected_refusals(part: UploadPart, tier: int) -> str:
    """Describe the records that the Core would refuse at this tier."""
    reasons = _names({describe_action(right): count for right, count in part.refused.items()})
    return (
        f"; {sum(part.refused.values()):,} would be refused at tier {tier}: {reasons}"
        if part.refused
        else ""
    )


def _names(counts: Mapping[str, int]) -> str:
    shown = [f"{name} ({count:,})" for name, count in list(counts.items())[:MOST_NAMES]]
    more = len(counts) - len(shown)
    return ", ".join(shown) + (f" and {more:,} more" if more > 0 else "")


def _plan_json(plan: Plan, choice: str | None) -> dict[str, object]:
    """Encode the upload plan as JSON."""
    parts = {"mine": asdict(plan.mine), "others": asdict(plan.others)}
    return {"choice": choice, **parts, "kept": plan.kept, "changes": plan.changes}


def disconnect(
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Also where writes wait or were refused: they are never sent, but stay here.",
        ),
    ] = False,
    profile: ProfileOption = None,
    as_json: JsonFlag = False,
) -> int:
    """Leave the Core: all records stay here, the token goes, and nothing is sent or fetched any
    more.
    """
    with open_library(profile) as library:
        count, file = discard.give_up(library, erase=False) if force else (0, None)
        url = connection.disconnect(library, force=force)
    if as_json:
        print_json({"server": url or None, "givenUp": given_up_row(count, file)})
    else:
        print_given_up(count, file)
        say(f"✓ Left {url}; all records stay here" if url else "no Core was connected")
    return 0


def _read_token(source: str) -> str:
    """Read the token from a file, stdin, the environment or a prompt.

    Raises: InputError, FileError.
    """
    if source == "-":
        return sys.stdin.readline(MAX_TOKEN + 1)
    if source:
        try:
            with open(Path(source), encoding="utf-8", errors="replace") as file:
                return file.readline(MAX_TOKEN + 1)
        except FileNotFoundError:
            message = f"there is no file {source} to read the token from"
            raise FileError(
                "FILE_NOT_FOUND", message, instead=("Check the name after --token-file.",)
            ) from None
        except OSError as error:
            raise explained(error, f"reading {source}") from error
    if token := environment().get(TOKEN_VARIABLE):
        return token
    if not sys.stdin.isatty():
        raise InputError(
            "ARGUMENT_INVALID",
            "there is no terminal to ask for the token on",
            suggestions=(
                f"Take --token-file FILE, --token-file - for stdin, or {TOKEN_VARIABLE}.",
            ),
        )
    return getpass.getpass("Token: ", stream=sys.stderr)
