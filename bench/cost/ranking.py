"""CPU time of ranking a query on the large repository, without the store's part."""

from __future__ import annotations

import statistics

from bench.common.figures import Section, Setup
from bench.common.process_cost import percentile
from bench.common.questions import QUESTIONS

TARGET_MS = 10.0


def measure(setup: Setup) -> Section:
    """Ask all questions as `search_code` does, several times over."""
    section = Section("rankcost", "Cost of ranking")
    root, rounds = str(setup.indexed(setup.large)), max(2, setup.repeat)
    cost = setup.inside("ranking", root=root, questions=QUESTIONS, rounds=rounds)
    section.text = (
        f"{cost['chunks']:,} chunks, {len(QUESTIONS)} questions, {rounds} times over, as `search_code` asks with its defaults. CPU time of the thread. Ranking is all of "
        "`cortex.engine.search` (parsing, evidence, order, relevance, merging, snippets) beside the calls of the store."
    )
    section.add("ranking, p50", "ms", percentile(cost["ranking_ms"], 0.5))
    section.add("ranking, p95", "ms", percentile(cost["ranking_ms"], 0.95), TARGET_MS)
    section.add("ranking, most", "ms", max(cost["ranking_ms"]))
    section.add("store, p50", "ms", percentile(cost["store_ms"], 0.5))
    section.add("store, p95", "ms", percentile(cost["store_ms"], 0.95))
    for name, took in sorted(cost["calls_ms"].items(), key=lambda pair: -statistics.mean(pair[1])):
        if statistics.mean(took) >= 0.05:
            section.add(f"of the store: `{name}`, mean", "ms", statistics.mean(took))
    return section
