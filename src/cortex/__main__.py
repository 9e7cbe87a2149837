"""The `cortex` command."""

from __future__ import annotations

import gc
import os
import signal
import sys

_HELP = {"--help", "-h"}
_IN_PROCESS = {"--no-sidecar", *_HELP}


def main() -> int:
    """Run the command line; returns the exit code."""
    if sys.argv[1:2] == ["mcp"]:
        # Before anything else: a server that is told to go while it starts has nothing to close and ends well.
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: os._exit(0))
        alone = os.environ.get("CORTEX_NO_SIDECAR", "") not in ("", "0")
        if not alone and not _IN_PROCESS.intersection(sys.argv[2:]) and sys.argv[2:3] not in (["status"], ["logs"]):
            from cortex.daemon.shim import main as carry

            return carry(sys.argv[2:])
    if sys.argv[1:2] == ["hook"] and not _HELP.intersection(sys.argv[2:]):
        from cortex.daemon.hook import main as take

        return take(sys.argv[2:])
    # Loading modules makes objects that stay: looking for garbage among them takes a tenth of it.
    gc.set_threshold(50_000)
    from cortex.cli import run

    return run(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
