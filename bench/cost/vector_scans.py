"""A whole search with the vectors scanned by numpy, as installed, and by turbovec, an extra."""

from __future__ import annotations

from bench.common.figures import ENGINE_TASKS, Section, Setup
from bench.common.process_cost import percentile, run, run_task
from bench.common.questions import QUESTIONS

# Files of a repository of about 10,000, 100,000 and 500,000 chunks.
SIZES = (750, 7_500, 37_500)
QUICK_SIZES = (300, 1_500)


def measure(setup: Setup) -> Section:
    """Index each repository with vectors, then ask all questions with either engine."""
    section = Section("scans", "Scans of vectors")
    section.text = (
        f"{len(QUESTIONS)} questions in process, hybrid, at most 50 results, caching off; "
        "the first query opens the index."
    )
    environment = setup.environment("local", CORTEX_WORKSPACE_MAX_FILES="100000")
    for files in QUICK_SIZES if setup.quick else SIZES:
        root = setup.repository(files)
        run([*setup.cortex, "index", str(root), "--json"], environment, setup.bare_kb)
        for engine in ("numpy", "turbovec"):
            given = {
                "root": str(root),
                "home": str(setup.work / "home"),
                "provider": "local",
                "turbovec": engine == "turbovec",
                "questions": QUESTIONS,
                "rounds": max(2, setup.repeat),
            }
            found = run_task(ENGINE_TASKS, "search", given, environment, setup.bare_kb)
            name = f"{found['chunks']:,} chunks, {engine}"
            section.add(f"{name}, CPU for each", "ms", found["cpu_ms"])
            section.add(f"{name}, p95", "ms", percentile(found["ms"], 0.95))
            section.add(f"{name}, first query", "ms", found["first_ms"])
            section.add(f"{name}, memory above the open engine", "MB", found["added_mb"])
    return section
