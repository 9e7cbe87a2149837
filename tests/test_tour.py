"""The tour that `make tour` gives, as a test: every tool, resource, prompt and error over MCP with
a foreign client.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def test_tour_finds_everything_as_expected(isolated):
    done = subprocess.run(
        [sys.executable, "-m", "bench.tour"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=100,
        env={**os.environ},
    )

    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert done.stdout.rstrip().endswith("Everything as expected.")
