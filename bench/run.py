"""`make bench`: every measurement, as Markdown tables with their targets.

    python -m bench.run [--only NAME ...] [--quick] [--repeat N] [--json OUT] [--update]

`--quick` works on smaller repositories and once only: to see that everything runs; its numbers say
nothing about the targets. `--update` writes the tables into bench/RESULTS.md, each between its two
marks; what stands around them is kept. Side by side with semble runs only where `--semble-python`,
`--semble-model` and `--django` (an unpacked source release) say where to find them; retrieval,
ranking, relevance, several, recall and tokens need `--kit` and `--built`, and take semble beside
where it is given. Targets that were missed are listed at the end. Linux only (/proc).
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from bench.chunk_files import generations as chunks
from bench.common import corpus
from bench.common.figures import Section, Setup
from bench.core import load as core
from bench.cost import daemon, hooks, install, memory, queries, redaction, updates
from bench.cost import indexing as scale
from bench.cost import ranking as rankcost
from bench.cost import tool_list as toolcost
from bench.cost import vector_scans as scans
from bench.documents import sync as documents
from bench.memories import claude_mem as foreign
from bench.memories import recall
from bench.memories import tools as memories
from bench.mixed import home as mixed
from bench.peers import side_by_side as peers
from bench.peers.semble import Semble
from bench.quality import federated as several
from bench.quality import functions, ranking, relevance, retrieval, tokens
from bench.quality import semantic as meaning
from bench.team import tools as team

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench" / "RESULTS.md"
MEASURES: dict[str, Callable[[Setup], Section]] = {
    "tools": toolcost.measure,
    "install": install.measure,
    "scale": scale.measure,
    "queries": queries.measure,
    "scans": scans.measure,
    "rankcost": rankcost.measure,
    "memory": memory.measure,
    "updates": updates.measure,
    "daemon": daemon.measure,
    "chunks": chunks.measure,
    "documents": documents.measure,
    "memories": memories.measure,
    "mixed": mixed.measure,
    "functions": functions.measure,
    "team": team.measure,
    "core": core.measure,
    "foreign": foreign.measure,
    "hooks": hooks.measure,
    "redaction": redaction.measure,
}
NEEDS_MORE = (
    "peers",
    "retrieval",
    "ranking",
    "meaning",
    "relevance",
    "tokens",
    "several",
    "recall",
)


def main() -> int:
    options = read_arguments()
    if not Path("/proc/self/status").exists():
        sys.stderr.write("The benchmarks read /proc and run on Linux only.\n")
        return 2
    sections: list[Section] = []
    stamp = describe(options)
    with tempfile.TemporaryDirectory(prefix="cortex-bench-") as work:
        setup = Setup(Path(work).resolve(), options.quick, options.repeat, options.seed)
        for name, measure in chosen(options).items():
            started = time.perf_counter()
            section = measure(setup)
            sections.append(section)
            print(section.render(stamp if options.update else ""), flush=True)
            sys.stderr.write(f"{name}: {time.perf_counter() - started:.0f} s\n")
            if options.update:
                update_results(section, stamp)
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(
            json.dumps([asdict(section) for section in sections], indent=1) + "\n", encoding="utf-8"
        )
    missed = [
        f"{section.name}: {figure.what}"
        for section in sections
        for figure in section.figures
        if not figure.met
    ]
    print(f"{stamp}\n\n{len(missed)} targets missed" + "".join(f"\n- {line}" for line in missed))
    return 0


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=[*MEASURES, *NEEDS_MORE])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument(
        "--repeat", type=int, default=0, help="runs of each measurement; default 3, with --quick 1"
    )
    parser.add_argument("--seed", type=int, default=corpus.SEED)
    parser.add_argument("--json", type=Path, help="write all numbers here")
    parser.add_argument(
        "--update", action="store_true", help="write the tables into bench/RESULTS.md"
    )
    parser.add_argument(
        "--note", default="", help="said beside each table, for instance that the machine was busy"
    )
    parser.add_argument("--semble-python", help="the Python of an environment that has semble")
    parser.add_argument("--semble-model", help="folder of a local model2vec model")
    parser.add_argument("--django", type=Path, help="an unpacked source release of Django")
    parser.add_argument("--kit", type=Path, help="an evaluation kit with run.py")
    parser.add_argument("--built", type=Path, help="the kit's prepared sets")
    options = parser.parse_args()
    options.repeat = options.repeat or (1 if options.quick else 3)
    return options


def chosen(options: argparse.Namespace) -> dict[str, Callable[[Setup], Section]]:
    """The measurements to run: the named ones, or all whose requirements are there."""
    possible = dict(MEASURES)
    if options.semble_python and options.semble_model and options.django:
        possible["peers"] = lambda setup: beside_semble(setup, options)
    if options.kit and options.built:
        kit, built = options.kit.resolve(), options.built.resolve()
        semble = semble_of(options)
        possible["retrieval"] = lambda setup: retrieval.measure(setup, kit, built)
        possible["ranking"] = lambda setup: ranking.measure(setup, kit, built, semble)
        possible["meaning"] = lambda setup: meaning.measure(setup, kit, built)
        possible["relevance"] = lambda setup: relevance.measure(
            setup, kit, built, fit=not setup.quick
        )
        possible["several"] = lambda setup: several.measure(setup, kit, built)
        possible["recall"] = lambda setup: recall.measure(setup, kit, built)
        possible["tokens"] = lambda setup: tokens.measure(setup, kit, built, semble)
    for name in options.only or ():
        if name not in possible:
            raise SystemExit(f"{name} needs more options: see --help")
    return {
        name: measure
        for name, measure in possible.items()
        if not options.only or name in options.only
    }


def semble_of(options: argparse.Namespace) -> Semble | None:
    """semble, if the options locate it."""
    if not (options.semble_python and options.semble_model):
        return None
    # Not resolved: a virtual environment's Python is a link, and what it links to knows nothing of
    # semble.
    return Semble(
        os.path.abspath(options.semble_python), str(Path(options.semble_model).resolve()), mcp=True
    )


def beside_semble(setup: Setup, options: argparse.Namespace) -> Section:
    semble = semble_of(options)
    assert semble is not None
    work = setup.work / "peers"
    work.mkdir()
    say = lambda line: sys.stderr.write(f"{line}\n")  # noqa: E731
    return peers.measure(options.django.resolve(), semble, setup.cortex, setup.repeat, work, say)[0]


def describe(options: argparse.Namespace) -> str:
    """Time, machine and version of a measurement."""
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    memory_gb = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    machine = (
        f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, {memory_gb:.0f} GB"
    )
    runs = f"up to {options.repeat} runs" if options.repeat > 1 else "a single run"
    parts = [
        today,
        machine,
        f"Python {platform.python_version()}",
        f"seed {options.seed}",
        f"commit {commit()}",
        runs,
    ]
    if options.quick:
        parts.append("**quick: smaller repositories, preliminary**")
    return ", ".join(parts) + (f". {options.note}" if options.note else "")


def commit() -> str:
    """The commit that was measured, and whether something in src/ differs from it."""

    def git(*words: str) -> str:
        return subprocess.run(
            ["git", *words], cwd=ROOT, capture_output=True, text=True, timeout=30
        ).stdout

    changed = git("status", "--porcelain", "--untracked-files=no", "--", "src").strip()
    return (git("rev-parse", "--short", "HEAD").strip() or "unknown") + (
        " with changes" if changed else ""
    )


def update_results(section: Section, stamp: str) -> None:
    """Put a section between its two marks in RESULTS.md."""
    begin, end = f"<!-- {section.name} -->", f"<!-- end of {section.name} -->"
    text = RESULTS.read_text(encoding="utf-8")
    body = f"{begin}\n{section.render(stamp)}{end}"
    found = re.search(re.escape(begin) + ".*?" + re.escape(end), text, re.DOTALL)
    if not found:
        raise SystemExit(f"{RESULTS} has no place for {section.name}: {begin} ... {end}")
    RESULTS.write_text(text[: found.start()] + body + text[found.end() :], encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
