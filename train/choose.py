"""Names -> archives in the cache and a list of them: the step that asks for the newest.

`python -m train.choose CACHE LIST REGISTRY NAMES...`: NAMES are files with one package name per
line. Benchmark repositories are left out by name here and by content later.
"""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from train.archives import Archive, place, read_list, sha256_of, write_list
from train.benchmarks import is_benchmark
from train.registries import download, releases

LIMIT_BYTES = {"pypi": 12_000_000, "npm": 6_000_000, "debian": 6_000_000}
THREADS = 12


def choose(cache: Path, registry: str, name: str, limit: int) -> Archive | None:
    """Download an archive of a package; None if missing, too large or a benchmark's."""
    if is_benchmark(name):
        return None
    try:
        candidates = releases(registry, name)
    except (OSError, KeyError, ValueError):
        return None
    for archive in candidates:
        file = place(cache, archive)
        try:
            content = file.read_bytes() if file.exists() else download(archive, limit)
        except (OSError, KeyError, ValueError):
            continue
        if content is None:
            return None
        if not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
        return replace(archive, sha256=archive.sha256 or sha256_of(content))
    return None


def main() -> None:
    cache, path, registry = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
    limit = LIMIT_BYTES[registry]
    names: dict[str, None] = {}
    for argument in sys.argv[4:]:
        if argument.startswith("--limit="):
            limit = int(argument.split("=")[1])
        else:
            names.update(dict.fromkeys(Path(argument).read_text(encoding="utf-8").split()))
    chosen = read_list(path) if path.exists() else []
    known = {archive.package for archive in chosen}
    wanted = [name for name in names if f"{registry}/{name}" not in known]
    if wanted:
        releases(registry, wanted[0])  # what is asked once is asked before the threads start
    with ThreadPoolExecutor(THREADS) as pool:
        for count, archive in enumerate(
            pool.map(lambda name: choose(cache, registry, name, limit), wanted), 1
        ):
            if archive is not None:
                chosen.append(archive)
            if count % 200 == 0:
                write_list(path, chosen)
                sys.stderr.write(f"{registry} {count}/{len(wanted)}: {len(chosen)}\n")
    write_list(path, chosen)


if __name__ == "__main__":
    main()
