"""Repositories of real source text: the standard library and installed packages.

The same seed on the same installation gives the same files. Where there are fewer originals than
files wanted, they come again with their definitions renamed, so that no two files are alike. A
random text would be quicker to make, but words, names and sizes of real code decide what an index
costs.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sysconfig
from collections.abc import Iterator
from pathlib import Path

SEED = 7
EXTENSIONS = (
    ".py",
    ".js",
    ".c",
    ".h",
    ".md",
    ".rst",
    ".html",
    ".css",
    ".json",
    ".toml",
    ".sh",
    ".sql",
    ".ts",
)
SMALLEST, LARGEST = 300, 40_000  # of what is left the average is 8 KB, as in most repositories
# One of so many: the headers of native packages would otherwise be a third of all files
HEADERS_KEPT = 4
_LEFT_OUT = {
    "node_modules",
    "vendor",
    "_vendor",
    "build",
    "dist",
    "target",
    "bin",
    "obj",
    "out",
    "third_party",
    "lib",
}
_DEFINITION = re.compile(r"(?m)^(\s*(?:async def|def|class|function|struct)\s+)(\w+)")
_GIT = [
    "git",
    "-c",
    "user.name=bench",
    "-c",
    "user.email=bench@example.com",
    "-c",
    "gc.auto=0",
    "-c",
    "core.hooksPath=",
]


def make_repository(folder: Path, count: int, seed: int = SEED) -> int:
    """Fill a folder with a git repository of `count` files; the bytes of their text."""
    originals = sorted(_originals(), key=lambda found: _rank(seed, found[1]))
    if not originals:
        raise SystemExit("no source text was found to make a repository of")
    size = 0
    for number in range(count):
        path, name = originals[number % len(originals)]
        copy = number // len(originals)
        text = path.read_text(encoding="utf-8", errors="replace")
        if copy:
            text = _DEFINITION.sub(rf"\1\2_{copy}", text) + f"\n# {name} {copy}\n"
        target = folder / f"part{copy}" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
        size += len(text.encode("utf-8", "replace"))
    _commit(folder)
    return size


def _originals() -> Iterator[tuple[Path, str]]:
    for kind in ("stdlib", "purelib"):
        root = Path(sysconfig.get_path(kind))
        for directory, folders, files in os.walk(root):
            folders[:] = sorted(
                folder
                for folder in folders
                if folder not in ("__pycache__", "site-packages", "dist-packages")
            )
            for file in sorted(files):
                path = Path(directory, file)
                if (
                    path.suffix in EXTENSIONS
                    and SMALLEST <= path.stat().st_size <= LARGEST
                    and not path.is_symlink()
                ):
                    name = f"{kind}/{_place(path.relative_to(root))}"
                    if path.suffix != ".h" or _rank(0, name)[0] % HEADERS_KEPT == 0:
                        yield path, name


def _place(path: Path) -> str:
    """The path of a file, in folders whose names are never excluded as installed or built."""
    parts = [
        f"in_{part.strip('._')}" if part in _LEFT_OUT or part.startswith(".") else part
        for part in path.parts
    ]
    return "/".join(parts)


def _rank(seed: int, name: str) -> bytes:
    return hashlib.blake2b(f"{seed}:{name}".encode(), digest_size=8).digest()


def _commit(folder: Path) -> None:
    if shutil.which("git") is None:
        return  # then it is walked as a plain folder
    for step in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "all of it"]):
        subprocess.run([*_GIT, *step], cwd=folder, check=True, capture_output=True, timeout=600)
