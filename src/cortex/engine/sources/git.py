"""What git says about files: its list of a repository, which ones changed lately and by whom, and
whether it ignores a folder.

The repository may be a stranger's: git runs with no locks, no prompts, no network and without the
monitor program that its configuration could name. Every answer may be None: no git, not a
repository, another owner's, too slow; the caller walks instead. Not taken: libgit2 or dulwich
(slower than the program, and each with its own idea of ignore rules).
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

TIMEOUT_SECONDS = 20  # a listing of 100,000 files takes about one
ANSWER_SECONDS = 2  # for what is asked while somebody waits for an answer
RECENT_COMMITS = 1_000  # a quarter of a second; what no later one touched is old
RECENT_BYTES = 4_000_000  # of the names in them
HISTORY_BYTES = 1_000_000  # of commits with their subjects; -L of an old git shows the lines too
RETRY_SECONDS = 3600  # before what took too long is asked again
MAX_ARGUMENT_CHARACTERS = 20_000  # Windows allows 32,767 for a whole command line

_OPTIONS = ("--no-optional-locks", "-c", "core.fsmonitor=false", "-c", "core.quotepath=off")
_NO_WINDOW = getattr(subprocess, "CREATE_NO_WINDOW", 0)
_COMMIT = re.compile(r"[0-9a-f]{7,64}")
# No field of a commit can hold a NUL
_COMMIT_FORMAT = "%x00%h%x00%cs%x00%ct%x00%aN%x00%s%x00%p%x00"
_ADVICE = re.compile(r"git config --global --add safe\.directory .+")
_not_before: dict[tuple[str, tuple[str, ...]], float] = {}  # questions that took too long
_said: set[str] = set()  # warnings that one time is enough for
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit as a line tells of it."""

    id: str  # short
    day: str
    moment: int  # seconds since the epoch
    author: str
    subject: str
    parents: bool  # whether there is something before it here


def list_files(repository: Path, only: Iterable[str] = ()) -> list[str] | None:
    """Tracked and not ignored paths below `repository`, or those of `only`; a repository within is
    a single path.
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
    """The commit that is checked out around `folder`, "" where there is none."""
    answer = _run(folder, "rev-parse", "--verify", "--quiet", "HEAD")
    return (
        ""
        if answer is None or answer.returncode != 0
        else answer.stdout.decode("ascii", "replace").strip()
    )


def remote(folder: Path) -> str:
    """The address that `origin` of the repository around `folder` has, "" where there is none."""
    answer = _run(folder, "config", "--get", "remote.origin.url")
    return (
        ""
        if answer is None or answer.returncode != 0
        else answer.stdout.decode("utf-8", "replace").strip()
    )


def recent_files(folder: Path) -> list[str]:
    """The paths below `folder` that the last commits changed, those of the newest commit first; of
    a very long list the beginning.
    """
    if not _is_its_worktree(folder):
        return []
    asked = (
        "log",
        f"--max-count={RECENT_COMMITS}",
        "--format=",
        "--name-only",
        "-z",
        "--relative",
        "--no-renames",
    )
    said = _first_words(folder, *asked, "--no-show-signature", "--no-ext-diff", most=RECENT_BYTES)
    # The last may be cut off
    names = dict.fromkeys(os.fsdecode(name) for name in said.split(b"\0")[:-1] if name)
    return [name for name in names if is_text(name)]


def commits(folder: Path, path: str, most: int, seconds: float = ANSWER_SECONDS) -> list[Commit]:
    """The last commits that touched `path`, newest first; those that are found within the time."""
    return _commits(
        _first_words(folder, *_history(most), paths=[path], most=HISTORY_BYTES, seconds=seconds)
    )


def commits_of_lines(
    folder: Path, path: str, place: str, most: int, seconds: float = ANSWER_SECONDS
) -> list[Commit]:
    """The last commits that touched a part of `path`, newest first: "3,9" of what is committed, or
    ":name" of a function.
    """
    return _commits(
        _first_words(
            folder, *_history(most), f"-L{place}:{path}", most=HISTORY_BYTES, seconds=seconds
        )
    )


def committed(folder: Path, path: str) -> str | None:
    """The text of `path` as it was last committed, None where it wasn't or is too long."""
    spelled = f"HEAD:./{Path(path).as_posix()}"
    answer = _first_words(
        folder, "cat-file", "blob", spelled, most=HISTORY_BYTES, seconds=ANSWER_SECONDS
    )
    return answer.decode("utf-8", "replace") if answer and len(answer) < HISTORY_BYTES else None


def is_shallow(folder: Path) -> bool:
    """Whether the repository around `folder` has only the end of its history."""
    answer = _run(folder, "rev-parse", "--is-shallow-repository", seconds=ANSWER_SECONDS)
    return answer is not None and answer.stdout.strip() == b"true"


def last_commit(folder: Path, path: str, after: str = "") -> tuple[str, str] | None:
    """The last commit that touched `path`, and its date; with `after` (a commit) of those that came
    since.

    None where there is none, or where git doesn't know it within the time of an answer.
    """
    asked = (
        "--literal-pathspecs",
        "log",
        "--max-count=1",
        "--format=%H %cs",
        "--no-show-signature",
        "--no-ext-diff",
    )
    since = [f"{after}..HEAD"] if _COMMIT.fullmatch(after) else []
    answer = _run(folder, *asked, *since, paths=[path], seconds=ANSWER_SECONDS)
    if answer is None or answer.returncode != 0:
        # A commit that was rewritten
        return last_commit(folder, path) if since and answer is not None else None
    commit, _, day = answer.stdout.decode("ascii", "replace").strip().partition(" ")
    return (commit, day) if commit else None


def files_named(folder: Path, name: str) -> list[str] | None:
    """The paths below `folder` whose last part is `name`, tracked or not ignored; None where git
    doesn't say.
    """
    pattern = ":(glob)**/" + re.sub(r"([\\*?\[\]])", r"\\\1", name)
    asked = ("ls-files", "-z", "--cached", "--others", "--exclude-standard")
    answer = _run(folder, *asked, paths=[pattern], seconds=ANSWER_SECONDS)
    if answer is None or answer.returncode != 0:
        return None
    return sorted({os.fsdecode(path) for path in answer.stdout.split(b"\0") if path})


def in_repository(folder: Path) -> bool:
    """Whether a repository is around `folder` that doesn't ignore it."""
    if (folder / ".git").exists():
        return True
    if not any((parent / ".git").exists() for parent in folder.resolve().parents):
        return False
    answer = _run(folder, "check-ignore", "--quiet", paths=["."])
    return answer is not None and answer.returncode == 1  # 0 is ignored, 128 an error


def tracks(folder: Path, *patterns: str) -> bool:
    """Whether a file in the folder that fits one of the patterns came with the repository."""
    done = _run(folder, "ls-files", "-z", paths=patterns)
    return done is not None and bool(done.stdout)


def ignoring_rule(folder: Path, path: str) -> str:
    """The rule that makes git ignore `path`, as `.gitignore:3: *.log`; "" where there is none."""
    answer = _run(
        folder, "check-ignore", "--verbose", "-z", "--stdin", given=os.fsencode(path) + b"\0"
    )
    if answer is None or answer.returncode != 0:
        return ""
    file, line, pattern, *_ = (os.fsdecode(part) for part in answer.stdout.split(b"\0"))
    return f"{file}:{line}: {pattern}"


def refusal(folder: Path) -> str:
    """What to do where git won't speak about the repository because another user owns it; "" where
    it does.
    """
    answer = _run(folder, "rev-parse", "--show-toplevel")
    return _refusal(answer.stderr) if answer is not None and answer.returncode != 0 else ""


def _is_its_worktree(folder: Path) -> bool:
    """Whether git's files are those around `folder`: a repository's configuration can name any
    other place.
    """
    answer = _run(folder, "rev-parse", "--show-toplevel")
    if answer is None or answer.returncode != 0:
        return False
    top = os.path.normcase(os.path.realpath(os.fsdecode(answer.stdout).removesuffix("\n")))
    here = os.path.normcase(os.path.realpath(folder))
    return here == top or here.startswith(os.path.join(top, ""))


def _history(most: int) -> tuple[str, ...]:
    """The words of a log whose commits `_commits` reads; nothing that the configuration names is
    run.
    """
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


def _commits(said: bytes) -> list[Commit]:
    """The commits in an answer; a last one that was cut off is left out."""
    fields = [field.decode("utf-8", "replace") for field in said.split(b"\0")]
    rows = (fields[at + 1 : at + 7] for at in range(0, len(fields) - 7, 7))
    return [
        Commit(id, day, int(moment), author, subject, bool(parents))
        for id, day, moment, author, subject, parents in rows
        if moment.isdigit()
    ]


def _first_words(
    folder: Path,
    *arguments: str,
    most: int,
    paths: Iterable[str] = (),
    seconds: float = TIMEOUT_SECONDS,
) -> bytes:
    """What git says first: at most so much of it, and what it says in time."""
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
            late = threading.Timer(seconds, process.kill)
            late.start()
            try:
                return process.stdout.read(most) if process.stdout else b""
            finally:
                late.cancel()
                # A thousand commits of a hundred thousand files each would fill the memory
                process.kill()
    except (OSError, ValueError):  # no such program, or a name that can't be one
        return b""


def _run(
    folder: Path,
    *arguments: str,
    paths: Iterable[str] = (),
    given: bytes = b"",
    seconds: float = 0.0,
) -> subprocess.CompletedProcess[bytes] | None:
    program = _program()
    question = (str(folder), arguments)
    if program is None or time.monotonic() < _not_before.get(question, 0.0):
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
        late = isinstance(error, subprocess.TimeoutExpired)
        _log.warning(
            "git doesn't answer about %s (%s); Cortex reads its ignore files",
            folder,
            "too slow" if late else error,
        )
        # A pipe in the place of a file would make every listing wait as long again.
        _not_before[question] = time.monotonic() + RETRY_SECONDS
        return None
    if answer.returncode > 1:
        _log.debug(
            "git %s in %s: %s",
            arguments,
            folder,
            answer.stderr.decode("utf-8", "replace").strip()[:300],
        )
        refused = _refusal(answer.stderr)
        if refused and refused not in _said:
            _said.add(refused)
            _log.warning("%s", refused)
    return answer


def _command(program: str, folder: Path, *arguments: str) -> list[str]:
    return [program, *_OPTIONS, "-C", str(folder), *arguments]


def _refusal(complaint: bytes) -> str:
    text = complaint.decode("utf-8", "replace")
    if "dubious ownership" not in text:
        return ""
    advice = _ADVICE.search(text)
    remedy = advice[0].strip() if advice else "git config --global --add safe.directory FOLDER"
    return f"another user owns the repository, so git does not list it and Cortex reads its ignore files: {remedy}"


@lru_cache(maxsize=1)
def _program() -> str | None:
    program = shutil.which("git")
    # On Windows the search begins in the working directory, where a stranger's git.exe may lie.
    if program is None or os.path.dirname(os.path.abspath(program)) == os.getcwd():
        return None
    return os.path.abspath(program)


def _environment() -> dict[str, str]:
    """What the child inherits: all but the variables that aim git at another repository (set inside
    a git hook).
    """
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
