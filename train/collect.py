"""Archives -> pairs as numbers.

`python -m train.collect CACHE OUT LIST SHARED [FOLDER...]` reads every archive once, and its texts
once.

What is left out, in this order: archives without a clear permissive licence, files in folders named
after a benchmark, files with a restricting header, files (and then whole packages) that share lines
with a benchmark on this machine, more pairs than a package may give, repeated pairs. Words are
numbered as they come; which of them are in the vocabulary is decided later.
"""

from __future__ import annotations

import hashlib
import json
import sys
import tarfile
import time
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from cortex.engine.embedders.static import parts_of, runs_of
from train.archives import Archive, place, read_list, write_list
from train.benchmarks import Shared, is_benchmark, is_bundled
from train.contents import Component, ending, read_archive
from train.languages import WANTED, language_of
from train.licences import is_restricted
from train.pairs import Pair, pairs_of

MOST_PAIRS = {
    "doc": 900,
    "inline": 350,
    "name": 350,
    "named": 250,
    "opening": 150,
    "heading": 200,
    "prose": 150,
}
MOST_CHARACTERS = 1_000_000  # of one package's text in one language
LARGE_SHARE = 8  # packages of thin languages may give this many times as much
THIN = frozenset(
    "rust ruby csharp kotlin swift scala elixir dart lua crystal haskell zig julia groovy erlang objc typescript php shell ocaml".split()
)
SAME_QUERY = 12  # how often one question may stand in the whole
KINDS = tuple(MOST_PAIRS)


@dataclass(slots=True)
class Numbers:
    """Bags of words, one after another."""

    words: array[int] = field(default_factory=lambda: array("I"))
    counts: array[int] = field(default_factory=lambda: array("B"))
    ends: array[int] = field(default_factory=lambda: array("Q"))

    def add(self, bag: Counter[int]) -> None:
        self.words.extend(bag.keys())
        self.counts.extend(min(count, 255) for count in bag.values())
        self.ends.append(len(self.words))


class Collection:
    """The pairs so far."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}
        self.packages_with: list[int] = []
        self.queries, self.documents = Numbers(), Numbers()
        self.package, self.kind, self.language = array("I"), array("B"), array("B")
        self.languages: dict[str, int] = {}
        self.packages: dict[str, int] = {}
        self.seen: set[bytes] = set()
        self.asked: Counter[bytes] = Counter()
        self._memo: dict[str, tuple[int, ...]] = {}

    def add(self, pairs: Iterable[Pair], package: str) -> int:
        """Take a package's pairs over, without those seen before; how many."""
        words_here: set[int] = set()
        taken = 0
        for pair in pairs:
            key = _digest(pair.query.lower(), pair.document)
            question = _digest(pair.query.lower())
            if key in self.seen or self.asked[question] >= SAME_QUERY:
                continue
            query, document = self._bag(pair.query), self._bag(pair.document)
            if not query or len(document) < 5:
                continue
            self.seen.add(key)
            self.asked[question] += 1
            self.queries.add(query)
            self.documents.add(document)
            self.package.append(self.packages.setdefault(package, len(self.packages)))
            self.kind.append(KINDS.index(pair.kind))
            self.language.append(self.languages.setdefault(pair.language, len(self.languages)))
            words_here.update(query, document)
            taken += 1
        for number in words_here:
            self.packages_with[number] += 1
        return taken

    def _bag(self, text: str) -> Counter[int]:
        bag: Counter[int] = Counter()
        memo = self._memo
        for run, times in Counter(runs_of(text)).items():
            found = memo.get(run)
            if found is None:
                found = memo[run] = tuple(self._number(part) for part in parts_of(run))
            for number in found:
                bag[number] += times
        return bag

    def _number(self, word: str) -> int:
        number = self.numbers.setdefault(word, len(self.numbers))
        if number == len(self.packages_with):
            self.packages_with.append(0)
        return number

    def save(self, folder: Path) -> None:
        """Write everything as arrays."""
        folder.mkdir(parents=True, exist_ok=True)
        for name, bags in (("queries", self.queries), ("documents", self.documents)):
            np.save(folder / f"{name}-words.npy", np.frombuffer(bags.words, dtype=np.uint32))
            np.save(folder / f"{name}-counts.npy", np.frombuffer(bags.counts, dtype=np.uint8))
            np.save(
                folder / f"{name}-ends.npy",
                np.frombuffer(bags.ends, dtype=np.uint64).astype(np.int64),
            )
        np.save(folder / "package.npy", np.frombuffer(self.package, dtype=np.uint32))
        np.save(folder / "kind.npy", np.frombuffer(self.kind, dtype=np.uint8))
        np.save(folder / "language.npy", np.frombuffer(self.language, dtype=np.uint8))
        np.save(folder / "packages-with.npy", np.array(self.packages_with, dtype=np.uint32))
        names = {"kinds": KINDS, "languages": list(self.languages), "packages": list(self.packages)}
        (folder / "names.json").write_text(json.dumps(names), encoding="utf-8")
        (folder / "words.txt").write_text("\n".join(self.numbers), encoding="ascii")


def component_pairs(
    package: str, texts: list[tuple[str, str]], shared: Shared
) -> list[Pair] | None:
    """A limited number of a component's pairs; None if it holds a benchmark's files."""
    found: dict[tuple[str, str], list[tuple[bytes, Pair]]] = defaultdict(list)
    characters: Counter[str] = Counter()
    copies = 0
    for path, text in sorted(texts, key=lambda entry: _digest(package, entry[0])):
        language = language_of(ending(path))
        most = MOST_CHARACTERS * (LARGE_SHARE if language in THIN else 1)
        if characters[language] > most or is_bundled(path) or is_restricted(text):
            continue
        if shared.holds(package, path, text):
            copies += 1
            continue
        characters[language] += len(text)
        for pair in pairs_of(path, text):
            found[pair.kind, pair.language].append((_digest(pair.query, pair.document), pair))
    if copies >= 3 and copies > 0.1 * len(texts):
        return None
    pairs: list[Pair] = []
    for (kind, language), ranked in sorted(found.items()):
        most = MOST_PAIRS[kind] * (LARGE_SHARE if language in THIN else 1)
        pairs.extend(pair for _, pair in sorted(ranked, key=lambda entry: entry[0])[:most])
    return pairs


def collect(
    cache: Path, archives: list[Archive], shared: Shared
) -> tuple[Collection, list[Archive], Counter[str]]:
    """All pairs of the archives, the archives that gave some, and why others didn't."""
    collection, used, reasons = Collection(), [], Counter[str]()
    start = time.process_time()
    for count, archive in enumerate(sorted(archives, key=lambda a: a.package), 1):
        if count % 500 == 0:
            seconds = time.process_time() - start
            sys.stderr.write(
                f"{count}/{len(archives)}: {len(collection.package)} pairs, {seconds:.0f} s\n"
            )
        if is_benchmark(archive.name):
            reasons["benchmark by name"] += 1
            continue
        try:
            components = read_archive(place(cache, archive), WANTED)
        except (OSError, ValueError, EOFError, RuntimeError, tarfile.TarError) as error:
            reasons[f"unreadable: {type(error).__name__}"] += 1
            continue
        licences = {
            part.licence: None
            for part in components
            if _take(collection, archive, part, shared, reasons)
        }
        if licences:
            used.append(replace(archive, licence=", ".join(licences)))
        elif not components:
            reasons["no clear permissive licence"] += 1
    return collection, used, reasons


def _take(
    collection: Collection, archive: Archive, part: Component, shared: Shared, reasons: Counter[str]
) -> bool:
    package = f"part/{part.bundled}" if part.bundled else archive.package
    if is_benchmark(part.bundled):
        reasons["bundled benchmark by name"] += 1
        return False
    pairs = component_pairs(package, part.texts, shared)
    if pairs is None:
        reasons["benchmark by lines"] += 1
        return False
    return collection.add(pairs, package) > 0


def report(collection: Collection, used: list[Archive], reasons: Counter[str]) -> dict[str, object]:
    """Figures of the collection."""
    by_language = Counter(list(collection.languages)[number] for number in collection.language)
    by_kind = Counter(KINDS[number] for number in collection.kind)
    return {
        "archives": len(used),
        "left out": dict(reasons),
        "pairs": len(collection.package),
        "words": len(collection.numbers),
        "by language": dict(by_language.most_common()),
        "by kind": dict(by_kind.most_common()),
        "by licence": dict(Counter(archive.licence for archive in used).most_common()),
    }


def main() -> None:
    cache, out, path, known = (Path(name) for name in sys.argv[1:5])
    shared = Shared.read(known, [Path(name) for name in sys.argv[5:]])
    collection, used, reasons = collect(cache, read_list(path), shared)
    collection.save(out)
    write_list(out / "used.tsv.xz", used)
    shared.write(out / "shared.txt")
    text = json.dumps(report(collection, used, reasons), indent=1)
    (out / "report.json").write_text(text, encoding="utf-8")
    sys.stdout.write(text + "\n")


def _digest(*parts: str) -> bytes:
    return hashlib.blake2b("\0".join(parts).encode("utf-8", "replace"), digest_size=10).digest()


if __name__ == "__main__":
    main()
