"""Time that a client waits for `cortex hook`, with cortexd running and without.

The whole command, from exec to its end, on a home with 1,000 memories. Each start without cortexd
starts one, which is stopped again.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import time
from pathlib import Path

from bench.common.figures import Section, Setup
from bench.common.process_cost import percentile
from bench.memories.tools import inside, own_environment

RUNS, COLD_RUNS = 30, 5
MEMORIES = 1_000
MOST_MS, MOST_COLD_MS = 300.0, 2_000.0
STOP = {
    "hook_event_name": "Stop",
    "last_assistant_message": "Done.\n\nremember: the bench ran {number} times\n",
}


def measure(setup: Setup) -> Section:
    """Both events, warm and cold."""
    section = Section("hooks", "Hooks of clients")
    section.text = f"The whole command, {RUNS} runs (without cortexd {COLD_RUNS}); {MEMORIES:,} memories, by words only."
    home = setup.work / "hooks"
    folder = home / "project-07"
    folder.mkdir(parents=True)
    environment = own_environment(setup, home)
    inside(setup, environment, "fill", count=MEMORIES, seed=setup.seed)
    del environment["CORTEX_NO_SIDECAR"]
    try:
        said, cold = "", list[float]()
        for _ in range(COLD_RUNS):
            _stop(setup, environment)
            took, said = _run(
                setup, "session-start", environment, folder, {"hook_event_name": "SessionStart"}
            )
            cold.append(took)
        for event, body in (("session-start", {"hook_event_name": "SessionStart"}), ("stop", STOP)):
            walls = [
                _run(setup, event, environment, folder, body, number)[0] for number in range(RUNS)
            ]
            section.add(f"{event}, p50", "ms", 1000 * statistics.median(walls))
            section.add(f"{event}, p95", "ms", 1000 * percentile(walls, 0.95), MOST_MS)
        section.add("session-start without cortexd, slowest", "ms", 1000 * max(cold), MOST_COLD_MS)
        _, said = _run(
            setup, "session-start", environment, folder, {"hook_event_name": "SessionStart"}
        )
        section.add("what session-start says", "tokens", len(said) / 4)
    finally:
        _stop(setup, environment)
    return section


def _run(
    setup: Setup,
    event: str,
    environment: dict[str, str],
    folder: Path,
    body: dict[str, str],
    number: int = 0,
) -> tuple[float, str]:
    """Seconds that the command took, and what it printed."""
    request = {key: value.replace("{number}", str(number)) for key, value in body.items()}
    request |= {"session_id": "bench", "cwd": str(folder)}
    started = time.perf_counter()
    done = subprocess.run(
        [*setup.cortex, "hook", event],
        env=environment,
        cwd=folder,
        input=json.dumps(request).encode(),
        capture_output=True,
        timeout=30,
        check=True,
    )
    return time.perf_counter() - started, done.stdout.decode()


def _stop(setup: Setup, environment: dict[str, str]) -> None:
    subprocess.run([*setup.cortex, "stop"], env=environment, capture_output=True, timeout=60)
