"""The archives of the list -> the cache: only missing ones, all checked by hash."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from train.archives import Archive, place, sha256_of
from train.registries import download

THREADS = 8


def fill(cache: Path, archives: list[Archive]) -> list[Archive]:
    """Download missing archives; returns those that failed or differ from the list."""
    with ThreadPoolExecutor(THREADS) as pool:
        present = pool.map(lambda archive: _fetch(cache, archive), archives)
    return [archive for archive, there in zip(archives, present, strict=True) if not there]


def _fetch(cache: Path, archive: Archive) -> bool:
    file = place(cache, archive)
    if file.exists():
        return sha256_of(file.read_bytes()) == archive.sha256
    try:
        content = download(archive)
    except (OSError, KeyError, ValueError) as error:
        sys.stderr.write(f"{archive.package}: {error}\n")
        return False
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content or b"")
    return True
