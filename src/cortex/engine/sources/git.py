"""Queries to git: files of a repository, recent changes and authors, ignore rules.

The repository may be hostile: git runs with no locks, no prompts, no network and without the
monitor program that its configuration could name. Every answer may be missing: no git, no
repository, another owner's, too slow; the caller then walks the folder. Roads not taken: libgit2
and dulwich, slower than the program and each with its own ignore rules.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from cortex.base.text import is_text

# A listing of 100,000 files takes about one second.
TIMEOUT_SECONDS = 20
# For queries during an answer.
ANSWER_SECONDS = 2
# About a quarter of a second; files untouched by these commits count as old.
RECENT_COMMITS = 1_000
# Names of the files in recent commits.
RECENT_BYTES = 4_000_000
# Commits with their subjects; with -L an old git shows the lines, too.
HISTORY_BYTES = 1_000_000
# Pause before a query that took too long is repeated.
RETRY_SECONDS = 3600
# Windows allows 32,767 for a whole command line.
MAX_ARGUMENT_CHARACTERS = 20_000

_OPTIONS = ("--no-optional-locks", "-c", "core.fsmonitor=false", "-c", "core.quotepath=off")
_NO_WINDOW = getattr(subprocess, "CREATE_NO_WINDOW", 0)
_COMMIT = re.compile(r"[0-9a-f]{7,64}")
# No field of a commit can contain a NUL.
_COMMIT_FORMAT = "%x00%h%x00%cs%x00%ct%x00%aN%x00%s%x00%p%x00"
_ADVICE = re.compile(r"git config --global --add safe\.directory .+")
# Time of the next attempt, for queries that took too long.
_retry_at: dict[tuple[str, tuple[str, ...]], float] = {}
# Warnings that were logged once.
_logged_warnings: set[str] = set()
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit in one line."""

    # Abbreviated.
    id: str
    day: str
    # Seconds since the epoch.
    moment: int
    author: str
    subject: str
    # True if earlier history is available here.
    parents: bool


def list_files(repository: Path, only: Iterable[str] = ()) -> list[str] | None:
    """Tracked and not ignored paths below `repository`, or only those of `only`.

    A nested repository is a single path.
    """
    answer = _run(
        repository,
        "--literal-pathspecs",
        "ls-files",
        "-z",
        "--cached",
        "--others",
        "--exclude-standard",
        paths=only,
    )
    if answer is None or answer.returncode != 0 or not _is_its_worktree(repository):
        return None
    names = {os.fsdecode(name).rstrip("/") for name in answer.stdout.split(b"\0") if name}
    return sorted(name for name in names if name)


def head(folder: Path) -> str:
    """Commit checked out around `folder`, "" for none."""
    answer = _run(folder, "rev-parse", "--verify", "--quiet", "HEAD")
    return (
        ""
        if answer is None or answer.returncode != 0
        else answer.stdout.decode("ascii", "replace").strip()
    )


def remote(folder: Path) -> str:
    """Address of `origin` of the repository around `folder`, "" for none."""
    answer = _run(folder, "config", "--get", "remote.origin.url")
    return (
        ""
        if answer is None or answer.returncode != 0
        else answer.stdout.decode("utf-8", "replace").strip()
    )


def recent_files(folder: Path) -> list[str]:
    """Paths below `folder` changed by the last commits, newest commit first.

    A very long list is cut.
    """
    if not _is_its_worktree(folder):
        return []
    arguments = (
        "log",
        f"--max-count={RECENT_COMMITS}",
        "--format=",
        "--name-only",
        "-z",
        "--relative",
        "--no-renames",
    )
    output = _read_output(
        folder, *arguments, "--no-show-signature", "--no-ext-diff", most=RECENT_BYTES
    )
    # The last name may be cut off.
    names = dict.fromkeys(os.fsdecode(name) for name in output.split(b"\0")[:-1] if name)
    return [name for name in names if is_text(name)]


def commits(folder: Path, path: str, most: int, seconds: float = ANSWER_SECONDS) -> list[Commit]:
    """Last commits that touched `path`, newest first, as far as found in time."""
    return _commits(
        _read_output(folder, *_history(most), paths=[path], most=HISTORY_BYTES, seconds=seconds)
    )


def commits_of_lines(
    folder: Path, path: str, place: str, most: int, seconds: float = ANSWER_SECONDS
) -> list[Commit]:
    """Last commits that touched a part of `path`, newest first.

    `place` is a range of committed lines ("3,9"), or a function (":name").
    """
    return _commits(
        _read_output(
            folder, *_history(most), f"-L{place}:{path}", most=HISTORY_BYTES, seconds=seconds
        )
    )


def committed(folder: Path, path: str) -> str | None:
    """Text of `path` as last committed; None where it wasn't, or is too long."""
    spelled = f"HEAD:./{Path(path).as_posix()}"
    answer = _read_output(
        folder, "cat-file", "blob", spelled, most=HISTORY_BYTES, seconds=ANSWER_SECONDS
    )
    return answer.decode("utf-8", "replace") if answer and len(answer) < HISTORY_BYTES else None


def is_shallow(folder: Path) -> bool:
    """True if the repository around `folder` is a shallow clone."""
    answer = _run(folder, "rev-parse", "--is-shallow-repository", seconds=ANSWER_SECONDS)
    return answer is not None and answer.stdout.strip() == b"true"


def last_commit(folder: Path, path: str, after: str = "") -> tuple[str, str] | None:
    """Last commit that touched `path`, with its date; with `after` only later commits count.

    None where there is none, or where git doesn't find it in time.
    """
    arguments = (
        "--literal-pathspecs",
        "log",
        "--max-count=1",
        "--format=%H %cs",
        "--no-show-signature",
        "--no-ext-diff",
    )
    since = [f"{after}..HEAD"] if _COMMIT.fullmatch(after) else []
    answer = _run(folder, *arguments, *since, paths=[path], seconds=ANSWER_SECONDS)
    if answer is None or answer.returncode != 0:
        # The commit `after` was rewritten.
        return last_commit(folder, path) if since and answer is not None else None
    commit, _, day = answer.stdout.decode("ascii", "replace").strip().partition(" ")
    return (commit, day) if commit else None


def files_named(folder: Path, name: str) -> list[str] | None:
    """Paths below `folder` with this file name, tracked or not ignored; None without git."""
    pattern = ":(glob)**/" + re.sub(r"([\\*?\[\]])", r"\\\1", name)
    arguments = ("ls-files", "-z", "--cached", "--others", "--exclude-standard")
    answer = _run(folder, *arguments, paths=[pattern], seconds=ANSWER_SECONDS)
    if answer is None or answer.returncode != 0:
        return None
    return sorted({os.fsdecode(path) for path in answer.stdout.split(b"\0") if path})


def in_repository(folder: Path) -> bool:
    """True if `folder` is in a repository that doesn't ignore it."""
    if (folder / ".git").exists():
        return True
    if not any((parent / ".git").exists() for parent in folder.resolve().parents):
        return False
    answer = _run(folder, "check-ignore", "--quiet", paths=["."])
    # 0 means ignored, 128 an error.
    return answer is not None and answer.returncode == 1


def tracks(folder: Path, *patterns: str) -> bool:
    """True if the repository tracks a file in the folder that matches a pattern."""
    answer = _run(folder, "ls-files", "-z", paths=patterns)
    return answer is not None and bool(answer.stdout)


def ignoring_rule(folder: Path, path: str) -> str:
    """Rule that makes git ignore `path`, as `.gitignore:3: *.log`; "" for none."""
    answer = _run(
        folder, "check-ignore", "--verbose", "-z", "--stdin", given=os.fsencode(path) + b"\0"
    )
    if answer is None or answer.returncode != 0:
        return ""
    file, line, pattern, *_ = (os.fsdecode(part) for part in answer.stdout.split(b"\0"))
    return f"{file}:{line}: {pattern}"


def refusal(folder: Path) -> str:
    """Advice where git refuses a repository because another user owns it; "" otherwise."""
    answer = _run(folder, "rev-parse", "--show-toplevel")
    return _refusal(answer.stderr) if answer is not None and answer.returncode != 0 else ""


def _is_its_worktree(folder: Path) -> bool:
    """True if git's worktree is the one around `folder`.

    A repository's configuration can name any other place.
    """
    answer = _run(folder, "rev-parse", "--show-toplevel")
    if answer is None or answer.returncode != 0:
        return False
    top = os.path.normcase(os.path.realpath(os.fsdecode(answer.stdout).removesuffix("\n")))
    here = os.path.normcase(os.path.realpath(folder))
    return here == top or here.startswith(os.path.join(top, ""))


def _history(most: int) -> tuple[str, ...]:
    """Arguments of a log for `_commits`; nothing that the configuration names is run."""
    quiet = (
        "--no-patch",
        "--no-show-signature",
        "--no-ext-diff",
        "--no-textconv",
        "--no-notes",
        "--encoding=UTF-8",
    )
    return (
        "--literal-pathspecs",
        "log",
        f"--max-count={most}",
        f"--format={_COMMIT_FORMAT}",
        *quiet,
    )


def _commits(output: bytes) -> list[Commit]:
    """Parse the commits of an answer; a last one that was cut off is left out."""
    fields = [field.decode("utf-8", "replace") for field in output.split(b"\0")]
    rows = (fields[at + 1 : at + 7] for at in range(0, len(fields) - 7, 7))
    return [
        Commit(id, day, int(moment), author, subject, bool(parents))
        for id, day, moment, author, subject, parents in rows
        if moment.isdigit()
    ]


def _read_output(
    folder: Path,
    *arguments: str,
    most: int,
    paths: Iterable[str] = (),
    seconds: float = TIMEOUT_SECONDS,
) -> bytes:
    """Beginning of git's output: at most `most` bytes, and only until the timeout."""
    program = _program()
    if program is None:
        return b""
    try:
        with subprocess.Popen(
            [*_command(program, folder, *arguments), *(["--", *paths] if paths else [])],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=_environment(),
            creationflags=_NO_WINDOW,
        ) as process:
            timer = threading.Timer(seconds, process.kill)
            timer.start()
            try:
                return process.stdout.read(most) if process.stdout else b""
            finally:
                timer.cancel()
                # The rest could fill the memory: a thousand commits of a hundred thousand files
                # each.
                process.kill()
    except (OSError, ValueError):
        # No such program, or an impossible name.
        return b""


def _run(
    folder: Path,
    *arguments: str,
    paths: Iterable[str] = (),
    given: bytes = b"",
    seconds: float = 0.0,
) -> subprocess.CompletedProcess[bytes] | None:
    program = _program()
    query = (str(folder), arguments)
    if program is None or time.monotonic() < _retry_at.get(query, 0.0):
        return None
    try:
        answer = subprocess.run(
            [*_command(program, folder, *arguments), *(["--", *paths] if paths else [])],
            input=given,
            capture_output=True,
            timeout=seconds or TIMEOUT_SECONDS,
            env=_environment(),
            creationflags=_NO_WINDOW,
        )
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        timed_out = isinstance(error, subprocess.TimeoutExpired)
        _log.warning(
            "git doesn't answer about %s (%s); Cortex reads its ignore files",
            folder,
            "too slow" if timed_out else error,
        )
        # A pipe in place of a file would make every listing wait as long again.
        _retry_at[query] = time.monotonic() + RETRY_SECONDS
        return None
    if answer.returncode > 1:
        _log.debug(
            "git %s in %s: %s",
            arguments,
            folder,
            answer.stderr.decode("utf-8", "replace").strip()[:300],
        )
        advice = _refusal(answer.stderr)
        if advice and advice not in _logged_warnings:
            _logged_warnings.add(advice)
            _log.warning("%s", advice)
    return answer


def _command(program: str, folder: Path, *arguments: str) -> list[str]:
    return [program, *_OPTIONS, "-C", str(folder), *arguments]


def _refusal(complaint: bytes) -> str:
    text = complaint.decode("utf-8", "replace")
    if "dubious ownership" not in text:
        return ""
    advice = _ADVICE.search(text)
    remedy = advice[0].strip() if advice else "git config --global --add safe.directory FOLDER"
    return (
        "another user owns the repository, so git does not list it and Cortex reads its ignore "
        f"files: {remedy}"
    )


@lru_cache(maxsize=1)
def _program() -> str | None:
    program = shutil.which("git")
    # On Windows the search begins in the working directory, which may contain a hostile git.exe.
    if program is None or os.path.dirname(os.path.abspath(program)) == os.getcwd():
        return None
    return os.path.abspath(program)


def _environment() -> dict[str, str]:
    """Environment without variables that point git at another repository, as in a hook."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("GIT_") or name.startswith("GIT_CONFIG_") or name == "GIT_EXEC_PATH"
    }
    return kept | {
        "GIT_ALLOW_PROTOCOL": "none",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "LC_ALL": "C",
    }
