"""Cortex and semble side by side on one tree: indexing, size, speed of queries.

    python -m bench.peers.side_by_side TREE --semble-python VENV/bin/python --semble-model DIR [--repeat 3] [--json OUT]

Two pairs. `code`: a copy of TREE that holds only the files which semble indexes by default, for
both. `all`: the whole TREE, semble with everything it can (code, docs, configuration), Cortex with
its defaults; each then has its own idea of what belongs, the row of files shows it. Each round has
empty caches, semble first. Indexing is the product's own cold command, start-up included. Warm
queries go through an MCP stdio session (Cortex with its answer cache off), and in process, without
any protocol. semble's own model comes from a hub; DIR is a local model2vec folder instead. Linux
only (/proc).
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

from bench.common.figures import Section
from bench.common.process_cost import bare_python_kb
from bench.peers.cortex import measure_cortex
from bench.peers.questions import QUERIES
from bench.peers.rows import Row, render
from bench.peers.semble import Semble, code_files, measure_semble

CPU_SHARE, DISK_SHARE, QUERY_SHARE = 0.5, 0.5, 1.0  # by words only
MODEL_CPU_SHARE = 1.0  # with the model's vectors


def measure(
    tree: Path,
    semble: Semble,
    cortex: Sequence[str],
    repeat: int,
    work: Path,
    say: Callable[[str], None],
) -> tuple[Section, list[Row]]:
    """Both pairs, `repeat` times over; the table, and the ratios that are promised."""
    bare_kb = bare_python_kb()
    whole, code = work / tree.name, work / "code" / tree.name
    shutil.copytree(tree, whole, symlinks=True, ignore=shutil.ignore_patterns(".cortex"))
    for name in code_files(semble, whole):
        (code / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(whole / name, code / name)
    pairs = {
        "code": (
            code,
            Row("semble, code"),
            Row("cortex, the same files, words"),
            Row("with vectors"),
        ),
        "all": (whole, Row("semble, all"), Row("cortex, all, words"), Row("with vectors")),
    }
    for turn in range(repeat):
        for content, (folder, theirs, ours, both) in pairs.items():
            measure_semble(theirs, semble, folder, content, bare_kb)
            measure_cortex(ours, cortex, folder, bare_kb, "none")
            measure_cortex(both, cortex, folder, bare_kb, "local")
        say(f"round {turn + 1} of {repeat} done")
    rows = [row for _, *some in pairs.values() for row in some]
    section = Section(
        "peers",
        "Beside semble",
        text=f"{tree.name}, by words only (provider `none`) and with the model's vectors, {repeat} rounds.\n\n{render(rows)}",
    )
    for content, (_, theirs, ours, both) in pairs.items():
        section.add(
            f"{content}: indexing CPU, cortex / semble",
            "x",
            ratios(ours.index_cpu, theirs.index_cpu),
            CPU_SHARE,
        )
        section.add(
            f"{content}: index on disk", "x", ratios(ours.disk_mb, theirs.disk_mb), DISK_SHARE
        )
        section.add(
            f"{content}: warm query in process, p50",
            "x",
            by_round(ours.inside_ms, theirs.inside_ms),
            QUERY_SHARE,
        )
        if theirs.mcp_ms:
            section.add(
                f"{content}: warm query over MCP, p50",
                "x",
                by_round(ours.mcp_ms, theirs.mcp_ms),
                QUERY_SHARE,
            )
        section.add(
            f"{content}: indexing CPU with vectors, cortex / semble",
            "x",
            ratios(both.index_cpu, theirs.index_cpu),
            MODEL_CPU_SHARE,
        )
    return section, rows


def ratios(ours: Sequence[float], theirs: Sequence[float]) -> list[float]:
    """Ratios of ours to theirs, round by round: both saw the machine in about the same state."""
    return [our / their for our, their in zip(ours, theirs, strict=True)]


def by_round(ours: Sequence[float], theirs: Sequence[float]) -> list[float]:
    """The ratios of the medians of each pass over all queries."""
    return ratios(medians(ours), medians(theirs))


def medians(values: Sequence[float]) -> list[float]:
    """The median of each pass over all queries."""
    size = len(QUERIES)
    return [
        statistics.median(values[start : start + size]) for start in range(0, len(values), size)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tree", type=Path)
    parser.add_argument(
        "--semble-python", required=True, help="the Python of an environment that has semble"
    )
    parser.add_argument("--semble-model", required=True, help="folder of a local model2vec model")
    parser.add_argument(
        "--no-semble-mcp", action="store_true", help="semble's `mcp` extra isn't installed"
    )
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--json", type=Path, help="write all numbers here")
    options = parser.parse_args()
    # Not resolved: a virtual environment's Python is a link, and what it links to knows nothing of
    # semble.
    python, model = (
        os.path.abspath(options.semble_python),
        str(Path(options.semble_model).resolve()),
    )
    semble = Semble(python, model, mcp=not options.no_semble_mcp)
    with tempfile.TemporaryDirectory(prefix="peers-") as work:
        section, rows = measure(
            options.tree.resolve(),
            semble,
            (sys.executable, "-m", "cortex"),
            options.repeat,
            Path(work).resolve(),
            lambda line: print(line, file=sys.stderr, flush=True),
        )
    print(
        section.render(
            f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
        )
    )
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(
            json.dumps([asdict(row) for row in rows], indent=1) + "\n", encoding="utf-8"
        )


if __name__ == "__main__":
    main()
