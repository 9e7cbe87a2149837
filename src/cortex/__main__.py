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
    arguments = sys.argv[1:]
    if arguments and arguments[0].startswith("--profile") and len(arguments) > 1:
        from cortex.base.runtime.home import split_profile

        # In the environment, so that this process and its children find the same home.
        os.environ["CORTEX_PROFILE"], arguments = split_profile(arguments)
    if arguments[:1] == ["mcp"]:
        # Before anything else: a server that is stopped while it starts has nothing to close, so
        # it exits with 0.
        for signal_number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(signal_number, lambda *_: os._exit(0))
        no_sidecar = os.environ.get("CORTEX_NO_SIDECAR", "") not in ("", "0")
        if (
            not no_sidecar
            and not _IN_PROCESS.intersection(arguments[1:])
            and arguments[1:2] not in (["status"], ["logs"])
        ):
            from cortex.interfaces.daemon.shim import main as run_shim

            return run_shim(arguments[1:])
    if arguments[:1] == ["hook"] and not _HELP.intersection(arguments[1:]):
        from cortex.interfaces.daemon.hook import main as run_hook

        return run_hook(arguments[1:])
    # Imported modules stay in memory; collecting garbage among them takes a tenth of the start.
    gc.set_threshold(50_000)
    from cortex.interfaces.cli import run

    return run(arguments)


def serve_code() -> int:
    """Run `codeindex-mcp ARGUMENTS`, which is `cortex mcp code ARGUMENTS`."""
    sys.argv[1:1] = ["mcp", "code"]
    return main()


if __name__ == "__main__":
    sys.exit(main())
