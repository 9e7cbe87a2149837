"""Quality of the answers of `cortex mcp` on an evaluation kit's sets, scored by the kit.

    python -m bench.quality.retrieval --kit KIT --built BUILT [--sets NAME ...]

KIT is a folder with a `run.py` that takes `--built --bench --adapter mcp:FILE --out`, and writes
one JSON line for each query; BUILT holds its prepared sets. Everything is measured on a copy.
Intervals are 95 % bootstrap over the queries of a set, with a fixed seed; queries of one repository
are not independent of each other, so the true ones are somewhat wider.
"""

from __future__ import annotations

import argparse
import json
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench.common.figures import Section, Setup
from bench.common.intervals import mean_of
from bench.common.process_cost import percentile

KIT_SECONDS = 3_600


def measure(setup: Setup, kit: Path, built: Path, sets: Sequence[str] = ()) -> Section:
    """Run the kit on every set and give its means with their intervals."""
    section = Section("retrieval", "Retrieval")
    copy, out = setup.work / "built", setup.work / "scores"
    names = list(sets) or sorted(path.parent.name for path in built.glob("*/queries-dev.jsonl"))
    for name in names:
        shutil.copytree(built / name, copy / name, ignore=shutil.ignore_patterns(".cortex"))
    adapter = setup.work / "adapter.json"
    adapter.write_text(json.dumps(_adapter(setup)), encoding="utf-8")
    command = [
        sys.executable,
        "run.py",
        "--built",
        str(copy),
        "--bench",
        ",".join(names),
        "--name",
        "cortex",
    ]
    command += ["--adapter", f"mcp:{adapter}", "--out", str(out)]
    done = subprocess.run(
        command,
        cwd=kit,
        capture_output=True,
        text=True,
        timeout=KIT_SECONDS,
        env=setup.environment(provider="local"),
    )
    if done.returncode:
        raise SystemExit(f"the kit failed:\n{done.stderr[-2000:]}")
    rows = [_row(name, _scores(out / "cortex" / f"{name}-dev.jsonl"), setup.seed) for name in names]
    section.text = "\n".join(
        [
            "As installed (words and the model's vectors), `search_code` with its defaults; in brackets the 95 % interval.",
            "",
            "| set | queries | nDCG@10 | nDCG@10, repeats of a file collapsed | recall@10 | p50 ms | errors |",
            "|---|---:|---:|---:|---:|---:|---:|",
            *rows,
        ]
    )
    return section


def _adapter(setup: Setup) -> dict[str, object]:
    """The adapter by which the kit starts and asks Cortex."""
    home = setup.environment(provider="local")["CORTEX_HOME"]
    index = shlex.join(setup.cortex)
    return {
        "command": [*setup.cortex, "mcp", "code", "--workspace", "{folder}"],
        "env": {"CORTEX_HOME": home},
        "per_corpus": True,
        "prepare": {"command": f"{index} index {{folder}}"},
        "tool": "search_code",
        "arguments": {"query": "{query}", "maxResults": "{k}", "threshold": 0},
        "pick": "results",
    }


def _scores(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _row(name: str, rows: Sequence[dict], seed: int) -> str:
    cells = [
        name,
        str(len(rows)),
        str(mean_of([row["result"]["ndcg10"] for row in rows], seed)),
        str(mean_of([row["file"]["ndcg10"] for row in rows], seed)),
        str(mean_of([row["result"]["recall10"] for row in rows], seed)),
        f"{percentile([row['ms'] for row in rows], 0.5):.1f}",
        str(sum(row["error"] is not None for row in rows)),
    ]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kit", type=Path, required=True)
    parser.add_argument("--built", type=Path, required=True)
    parser.add_argument("--sets", nargs="*", default=[])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="cortex-retrieval-") as work:
        setup = Setup(Path(work).resolve(), quick=False, repeat=1)
        print(measure(setup, options.kit.resolve(), options.built.resolve(), options.sets).render())


if __name__ == "__main__":
    main()
