"""Check the sync with the team's Core: connected, synced recently, nothing refused.

Uses no network.
"""

from __future__ import annotations

from collections.abc import Iterator

from cortex.families.team.commands.sync_status import described, is_denied
from cortex.interfaces.cli.checks import Finding, ok, warning
from cortex.toolkit.terminal.output import many

CHECK = "server"


def check_sync() -> Iterator[Finding]:
    """Check the sync state of this home."""
    body = described()
    server, queue, refused = body["server"], body["queue"], body["refused"]
    assert isinstance(queue, int) and isinstance(refused, int)
    if not server:
        yield ok(
            CHECK,
            "no Core is connected: what is written stays here; `cortex connect URL` joins one",
        )
        return
    waiting = f"waiting here: {many(queue, 'write')}"
    synced = f"last synced {body['lastSync']}" if body["lastSync"] else "never synced yet"
    if body["syncError"]:
        text = f"{server}, {synced}, {waiting}: {body['syncError']}"
        yield warning(
            CHECK,
            text,
            f"cortex connect {server}, with a new token" if is_denied(body) else "cortex sync",
        )
    else:
        yield ok(CHECK, f"{server} as {body['name']}, {synced}, {waiting}")
    if refused:
        text = f"the Core refused {many(refused, 'write')}, kept here"
        yield warning(
            CHECK, text, "Read why in `cortex inbox`; `cortex sync --retry` sends them again."
        )
