"""The list of source archives: a row each, with hash and licence.

Knows nothing of where an archive comes from nor of what is in it.
"""

from __future__ import annotations

import csv
import hashlib
import lzma
from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Archive:
    """One released source archive of one package."""

    registry: str  # pypi, npm, debian
    name: str
    version: str
    file: str
    sha256: str
    licence: str = ""

    @property
    def package(self) -> str:
        return f"{self.registry}/{self.name}"


def read_list(path: Path) -> list[Archive]:
    """The archives of a list."""
    with lzma.open(path, "rt", encoding="utf-8", newline="") as lines:
        return [Archive(**row) for row in csv.DictReader(lines, delimiter="\t")]


def write_list(path: Path, archives: Iterable[Archive]) -> None:
    """Write a list, sorted."""
    names = [field.name for field in fields(Archive)]
    whole = path.with_suffix(".new")
    with lzma.open(whole, "wt", encoding="utf-8", newline="", preset=9) as lines:
        out = csv.writer(lines, delimiter="\t", lineterminator="\n")
        out.writerow(names)
        for archive in sorted(set(archives), key=lambda a: (a.registry, a.name, a.version, a.file)):
            out.writerow([getattr(archive, name) for name in names])
    whole.replace(path)


def place(cache: Path, archive: Archive) -> Path:
    """The path of an archive in the cache."""
    return (
        cache / "archives" / archive.registry / f"{archive.name.replace('/', '+')}+{archive.file}"
    )


def sha256_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
