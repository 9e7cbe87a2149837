"""Run the tests of secrets, patterns and readers with every other Python 3.11+ here.

`make test` uses one Python; patterns, encodings and the standard library differ between patch
levels: `re` before 3.11.5 missed private keys. Each Python gets an environment of its own below
`build/pythons`, kept until `pyproject.toml` or `constraints.txt` changes.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PLACE = ROOT / "build" / "pythons"
TOOLS = ("pytest", "pytest-timeout", "pytest-xdist", "hypothesis", "psutil")
TESTS = (
    "tests/base/secret_scanner",
    "tests/base/test_text.py",
    "tests/engine/sources/test_gitignore.py",
    "tests/engine/sources/test_scanner.py",
    "tests/engine/search/test_pattern_check.py",
    "tests/engine/search/test_grep.py",
    "tests/interfaces/install",
    "tests/engine/readers",
    "tests/engine/chunkers",
    "tests/families/team/contradictions/test_compare.py",
    "tests/families/team/test_sentences.py",
)
ABOUT = "import sys; print('.'.join(map(str, sys.version_info[:3])), sys.version_info >= (3, 11))"


def main() -> int:
    """Test with each Python; the exit code is 1 where any of them failed."""
    used = _version_of(Path(sys.executable))
    others = {version: path for version, path in _interpreters().items() if version != used}
    if not others:
        print(f"Python {used} is the only one here that is 3.11 or newer: `make test` covers it.")
    failed = [version for version, path in others.items() if not _test(version, path)]
    for version in others:
        print(f"Python {version}: {'FAILED' if version in failed else 'passed'}")
    return 1 if failed else 0


def _interpreters() -> dict[str, Path]:
    """Every Python 3.11+ on the PATH and among pyenv's versions, by its version."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    folders = [Path(part) for part in os.get_exec_path()]
    folders += sorted(pyenv.glob("versions/*/bin"))
    names = ("python3", *(f"python3.{minor}" for minor in range(11, 20)), "python")
    found: dict[str, Path] = {}
    for path in (folder / name for folder in folders for name in names):
        version = _version_of(path) if path.is_file() else ""
        if version:
            found.setdefault(version, path)
    return dict(sorted(found.items()))


def _version_of(python: Path) -> str:
    """The version of an interpreter, or nothing where it is too old or doesn't run."""
    asked = subprocess.run([python, "-c", ABOUT], capture_output=True, text=True, check=False)
    version, _, new_enough = asked.stdout.strip().partition(" ")
    return version if asked.returncode == 0 and new_enough == "True" else ""


def _test(version: str, python: Path) -> bool:
    """Set up an environment for this Python and run the tests in it."""
    print(f"== Python {version} ({python})", flush=True)
    own = _environment(version, python)
    if own is None:
        return False
    arguments = ["-m", "pytest", "-n", "2", "-p", "no:cacheprovider", *TESTS]
    return subprocess.run([own, *arguments], cwd=ROOT, check=False).returncode == 0


def _environment(version: str, python: Path) -> Path | None:
    """The Python of an environment that has cortex and the tools of the tests."""
    folder = PLACE / version
    own = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    stamp = folder / "installed"
    sources = (ROOT / "pyproject.toml", ROOT / "constraints.txt")
    if stamp.exists() and all(stamp.stat().st_mtime > path.stat().st_mtime for path in sources):
        return own
    pip = [own, "-m", "pip", "--disable-pip-version-check", "-qq", "install", "--no-compile"]
    pip += ["--constraint", "constraints.txt"]
    steps = (
        [python, "-m", "venv", "--clear", folder],
        [*pip, "hatchling", "editables"],
        [*pip, "--no-build-isolation", "--editable", ".[documents,languages]", *TOOLS],
    )
    for step in steps:
        if subprocess.run(step, cwd=ROOT, check=False).returncode:
            print(f"error: can't set up Python {version}: {' '.join(map(str, step))} failed")
            return None
    stamp.touch()
    return own


if __name__ == "__main__":
    sys.exit(main())
