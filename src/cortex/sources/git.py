"""What git says about files: its list of a repository, and whether it ignores a folder.

The repository may be a stranger's: git runs with no locks, no prompts, no network and without the monitor program that its
configuration could name. Every answer may be None: no git, not a repository, another owner's, too slow; the caller walks instead.
Not taken: libgit2 or dulwich (slower than the program, and each with its own idea of ignore rules).
"""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

TIMEOUT_SECONDS = 60
MAX_ARGUMENT_CHARACTERS = 20_000  # Windows allows 32,767 for a whole command line

_OPTIONS = ("--no-optional-locks", "-c", "core.fsmonitor=false", "-c", "core.quotepath=off")
_log = logging.getLogger(__name__)


def list_files(repository: Path, only: Iterable[str] = ()) -> list[str] | None:
    """Tracked and not ignored paths below `repository`, or those of `only`; a repository within is a single path."""
    answer = _run(
        repository, "--literal-pathspecs", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *only
    )
    if answer is None or answer.returncode != 0:
        return None
    names = {os.fsdecode(name).rstrip("/") for name in answer.stdout.split(b"\0") if name}
    # A configured worktree elsewhere gives paths that climb; nothing above the folder is ours to list.
    return sorted(name for name in names if name and not name.startswith(("../", "/")))


def in_repository(folder: Path) -> bool:
    """Whether a repository is around `folder` that doesn't ignore it."""
    if (folder / ".git").exists():
        return True
    if not any((parent / ".git").exists() for parent in folder.resolve().parents):
        return False
    answer = _run(folder, "check-ignore", "--quiet", ".")
    return answer is not None and answer.returncode == 1  # 0 is ignored, 128 an error


def tracks(folder: Path, *patterns: str) -> bool:
    """Whether a file in the folder that fits one of the patterns came with the repository."""
    done = _run(folder, "ls-files", "-z", "--", *patterns)
    return done is not None and bool(done.stdout)


def ignoring_rule(folder: Path, path: str) -> str:
    """The rule that makes git ignore `path`, as `.gitignore:3: *.log`; "" where there is none."""
    answer = _run(folder, "check-ignore", "--verbose", "-z", "--", path)
    if answer is None or answer.returncode != 0:
        return ""
    file, line, pattern, *_ = (os.fsdecode(part) for part in answer.stdout.split(b"\0"))
    return f"{file}:{line}: {pattern}"


def _run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[bytes] | None:
    program = _program()
    if program is None:
        return None
    try:
        answer = subprocess.run(
            [program, *_OPTIONS, "-C", str(folder), *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=TIMEOUT_SECONDS,
            env=_environment(),
            creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
        )
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        _log.warning("git %s failed in %s: %s", arguments[:2], folder, error)
        return None
    if answer.returncode > 1:
        _log.info("git %s in %s: %s", arguments[:2], folder, answer.stderr.decode("utf-8", "replace").strip()[:300])
    return answer


@lru_cache(maxsize=1)
def _program() -> str | None:
    program = shutil.which("git")
    # On Windows the search begins in the working directory, where a stranger's git.exe may lie.
    if program is None or os.path.dirname(os.path.abspath(program)) == os.getcwd():
        return None
    return os.path.abspath(program)


def _environment() -> dict[str, str]:
    """What the child inherits: all but the variables that aim git at another repository (set inside a git hook)."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("GIT_") or name.startswith("GIT_CONFIG_") or name == "GIT_EXEC_PATH"
    }
    return kept | {"GIT_ALLOW_PROTOCOL": "none", "GIT_NO_LAZY_FETCH": "1", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
