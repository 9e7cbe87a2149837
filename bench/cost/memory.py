"""Memory that searching, updating and watching add to an open engine."""

from __future__ import annotations

import statistics

from bench.common.figures import Section, Setup
from bench.common.mcp_client import Session
from bench.common.process_cost import Watch
from bench.common.questions import QUESTIONS

WORK_MB, WATCH_MB = 50.0, 10.0


def measure(setup: Setup) -> Section:
    """Measure an engine in a fresh process, and servers with and without watching."""
    section = Section("memory", "Memory")
    root = str(setup.indexed(setup.large))
    section.text = f"{setup.large:,} files; RssAnon of the process and its workers."
    searched = [
        setup.inside("search", root=root, questions=QUESTIONS, rounds=1, steady=True)
        for _ in range(setup.repeat)
    ]
    updated = [
        setup.inside("update", root=root, rounds=20, steady=True) for _ in range(setup.repeat)
    ]
    section.add("searching adds, peak", "MB", [run["added_mb"] for run in searched], WORK_MB)
    section.add(
        "updating a file adds, worker process included, peak",
        "MB",
        [run["added_mb"] for run in updated],
        WORK_MB,
    )
    watching = [_at_rest(setup, root, "true") for _ in range(setup.repeat)]
    blind = [_at_rest(setup, root, "false") for _ in range(setup.repeat)]
    section.add(
        "server at rest, watching, above a bare Python", "MB", [kb / 1024 for kb in watching]
    )
    section.add(
        "server at rest, not watching, above a bare Python", "MB", [kb / 1024 for kb in blind]
    )
    section.add(
        "watching adds",
        "MB",
        (statistics.median(watching) - statistics.median(blind)) / 1024,
        WATCH_MB,
    )
    return section


def _at_rest(setup: Setup, root: str, watch_files: str) -> int:
    """Kilobytes of a server that has looked at everything once and found it unchanged."""
    environment = setup.environment(CORTEX_WORKSPACE_WATCH_FILES=watch_files)
    with Session([*setup.cortex, "mcp", "code", "--workspace", root], environment) as session:
        session.wait_until_ready()
        session.call("reindex_workspace")  # ends after the look that the server began with
        watch = Watch(session.server.pid)
        size = watch.mark()
        watch.stop()
        return size - setup.bare_kb
