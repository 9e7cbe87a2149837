"""An archive's text files by path, without bundled, generated and useless ones.

Knows archive formats and paths; nothing of languages' syntax.
"""

from __future__ import annotations

import re
import tarfile
import zipfile
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from train.licences import licence_of, states_licence

LARGEST_FILE = 200_000
SMALLEST_FILE = 200
# Copies of other projects: taken only where the language is rare and the copy has a licence of its
# own.
_BUNDLES = re.compile(
    r"(^|/)(vendor|vendored|_vendor|_vendored|third_party|third-party|thirdparty|3rdparty|external|externals|extern|deps|subprojects|contrib|include/cargo)/"
)
_RARE = frozenset("rs cs swift kt scala dart ex exs".split())
_SKIPPED = re.compile(
    r"(^|/)(node_modules|bower_components|locale|locales|translations|i18n|testdata|fixtures|snapshots|__snapshots__|umd|amd|\.git)/"
    r"|(^|/)(tests?|testing|unittests?|specs?|__tests__|e2e|benchmarks?|testsuite|\w+Tests?)/|(^|/)test_|[._-](test|spec)s?\.\w+$|Tests?\.\w+$"
    r"|\.min\.|\.bundle\.|[-.]min\.js|_pb2|\.pb\.|\.g\.dart$|\.generated\.|\.d\.[cm]ts$|moc_|(^|/)(changelog|changes|history|news|authors|contributors)\b",
    re.I,
)
_STATES = re.compile(
    r"^(license|licence|copying|copyright|unlicense|mit-license)[^/]*$|^(PKG-INFO|package\.json|Cargo\.toml|composer\.json)$",
    re.I,
)
# Their files are about the folder above
_LICENCE_FOLDER = re.compile(r"(^|/)(licen[sc]es?)$", re.I)
_VERSION = re.compile(r"[-_.]v?\d+(\.\d+)*.*$")


@dataclass(frozen=True, slots=True)
class Component:
    """The part of an archive that is under one licence."""

    bundled: str  # the folder's name, for a copy of another project; "" for the archive's own
    licence: str
    texts: list[tuple[str, str]]


def read_archive(path: Path, wanted: frozenset[str]) -> list[Component]:
    """The components of an archive that have a permissive licence, with their texts.

    A file is under the licence that is stated in the nearest folder above it; copies of other
    projects count only with a licence of their own.
    """
    stated: dict[str, dict[str, str]] = defaultdict(dict)
    texts: list[tuple[str, str]] = []
    for name, content in _members(path, wanted):
        text = content.decode("utf-8", "replace")
        short = name.split("/", 1)[1] if "/" in name else name
        folder, _, base = short.rpartition("/")
        if _STATES.match(base):
            stated[_LICENCE_FOLDER.sub("", folder)][base] = text
        elif text.count("\ufffd") < 5 and not _is_machine_made(text):
            texts.append((short, text.replace("\r\n", "\n")))
    licences = {
        folder: licence_of(files) for folder, files in stated.items() if states_licence(files)
    }
    found: dict[tuple[str, str], list[tuple[str, str]]] = defaultdict(list)
    for short, text in texts:
        folder = next((above for above in _folders_above(short) if above in licences), None)
        bundle = _BUNDLES.search(short)
        if folder is None or not licences[folder] or (bundle and len(folder) < bundle.end()):
            continue
        found[
            _VERSION.sub("", folder.rsplit("/", 1)[-1]) if bundle else "", licences[folder]
        ].append((short, text))
    return [Component(bundled, licence, part) for (bundled, licence), part in sorted(found.items())]


def _folders_above(path: str) -> Iterator[str]:
    folder = path.rpartition("/")[0]
    while folder:
        yield folder
        folder = folder.rpartition("/")[0]
    yield ""


def ending(path: str) -> str:
    """The lower-case ending of a path, without the dot; "" if it has none."""
    _, dot, last = path.rsplit("/", 1)[-1].rpartition(".")
    return last.lower() if dot else ""


def _wants(name: str, size: int, wanted: frozenset[str]) -> bool:
    short = name.split("/", 1)[1] if "/" in name else name
    if size > LARGEST_FILE:
        return False
    if _STATES.match(short.rpartition("/")[2]):
        return True
    kind = ending(short)
    return (
        kind in wanted
        and size >= SMALLEST_FILE
        and not _SKIPPED.search(short)
        and (kind in _RARE or not _BUNDLES.search(short))
    )


def _members(path: Path, wanted: frozenset[str]) -> Iterator[tuple[str, bytes]]:
    if path.name.endswith(".zip"):
        with zipfile.ZipFile(path) as archive:
            for entry in archive.infolist():
                if not entry.is_dir() and _wants(entry.filename, entry.file_size, wanted):
                    yield entry.filename, archive.read(entry)
        return
    with tarfile.open(path, "r|*") as archive:  # as a stream: some are gigabytes when unpacked
        for member in archive:
            name = member.name.removeprefix("./")
            if member.isfile() and _wants(name, member.size, wanted):
                file = archive.extractfile(member)
                if file is not None:
                    yield name, file.read()


def _is_machine_made(text: str) -> bool:
    """True for long lines or a note at the top: not written by a person."""
    return len(text) > 110 * (text.count("\n") + 1) or bool(
        re.search(r"(?i)generated (by|from|file)|do not edit|autogenerated", text[:600])
    )
