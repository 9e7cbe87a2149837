"""Cost of indexing as a repository grows: seconds, memory, disk."""

from __future__ import annotations

import json
import shutil

from bench.common.figures import Section, Setup
from bench.common.process_cost import Cost, bytes_below, run

TARGETS = {1_000: (30.0, 100.0), 10_000: (300.0, 500.0)}  # wall seconds, megabytes


def measure(setup: Setup) -> Section:
    """Index a small and a large repository several times, and once more unchanged."""
    section = Section("scale", "Indexing")
    per_mb: list[float] = []
    described: list[str] = []
    for files in (setup.small, setup.large):
        folder = setup.repository(files)
        costs: list[Cost] = []
        for _ in range(setup.repeat if files == setup.small else min(2, setup.repeat)):
            shutil.rmtree(folder / ".cortex", ignore_errors=True)
            costs.append(
                run(
                    [*setup.cortex, "index", str(folder), "--json"],
                    setup.environment(),
                    setup.bare_kb,
                )
            )
        report, text_mb = json.loads(costs[-1].output), setup.text_bytes[files] / 1e6
        seconds, memory = TARGETS.get(files, (None, None))
        name = f"{files:,} files"
        section.add(f"{name}, wall", "s", [cost.wall for cost in costs], seconds)
        section.add(f"{name}, CPU", "s", [cost.cpu for cost in costs])
        section.add(
            f"{name}, peak RssAnon above a bare Python",
            "MB",
            [cost.rss_anon_mb for cost in costs],
            memory,
        )
        section.add(
            f"{name}, index on disk / text",
            "x",
            bytes_below(folder / ".cortex") / setup.text_bytes[files],
        )
        per_mb.append(section.figures[-3].value / text_mb)
        described.append(
            f"{report['files']:,} of {files:,} files indexed ({text_mb:.0f} MB, {report['chunks']:,} chunks)"
        )
        again = run(
            [*setup.cortex, "index", str(folder), "--json"], setup.environment(), setup.bare_kb
        )
        section.add(f"{name}, again with nothing changed, CPU", "s", again.cpu)
    section.add("CPU per MB of text, large / small", "x", per_mb[1] / per_mb[0], 1.0)
    section.text = "; ".join(described) + ". The whole command, start-up and workers included."
    return section
