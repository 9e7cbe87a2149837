"""`python -m cortex.cortexd`: the cortexd process.

Front ends, those of other versions too, start it by this name and recognise a running one by it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from cortex.interfaces.daemon.main import main


def read_arguments(arguments: Sequence[str]) -> Mapping[str, Any]:
    """Parse a client's `cortex mcp` command line, loading the commands with the first client."""
    from cortex.interfaces.cli.mcp import read_arguments as read

    return read(arguments)


if __name__ == "__main__":
    # Exit at once: a thread that still waits for a disk or a network must not delay the exit.
    os._exit(main(sys.argv[1:], read_arguments))
