"""Commands in processes of their own."""

from __future__ import annotations

import subprocess

import forking
from protocol.code_server import CORTEX


def process(*arguments: object, **options: object) -> subprocess.CompletedProcess[str]:
    """Run a command and capture its output as text."""
    return forking.run(
        [*CORTEX, *map(str, arguments)],
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=60,
        **options,
    )
