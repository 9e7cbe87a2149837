"""Watched folders: changes arrive soon, and only those that matter."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cortex.engine.sources.scanner import Rules, scan
from cortex.engine.sources.watcher import FolderWatch, Watcher, relevant_paths

WAIT_SECONDS = 10.0


class DeliveredChanges:
    """The changes that a watcher delivered, to wait on."""

    def __init__(self) -> None:
        self.paths: set[str] = set()
        self._changed = threading.Condition()

    def __call__(self, paths: set[str]) -> None:
        with self._changed:
            self.paths |= paths
            self._changed.notify_all()

    def wait(self, wanted: Callable[[set[str]], bool]) -> float:
        """Wait until the delivered changes satisfy `wanted`; gives the seconds."""
        before = time.monotonic()
        with self._changed:
            assert self._changed.wait_for(lambda: wanted(self.paths), WAIT_SECONDS), self.paths
        return time.monotonic() - before


@contextmanager
def watching(root: Path) -> Iterator[DeliveredChanges]:
    log = DeliveredChanges()
    watcher = Watcher(root, log)
    assert watcher.start()
    try:
        yield log
    finally:
        watcher.close()
        assert not watcher.alive


def test_a_saved_file_is_delivered_well_within_a_second(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    with watching(tmp_path) as log:
        (tmp_path / "sub" / "a.py").write_text("x", encoding="utf-8")
        assert log.wait(lambda paths: "sub/a.py" in paths) < 1.0


def test_changes_deletions_and_renames_are_delivered(tmp_path: Path) -> None:
    for name in ("changed.py", "deleted.py", "old.py"):
        (tmp_path / name).write_text("x", encoding="utf-8")
    with watching(tmp_path) as log:
        (tmp_path / "changed.py").write_text("y", encoding="utf-8")
        (tmp_path / "deleted.py").unlink()
        (tmp_path / "old.py").rename(tmp_path / "new.py")
        log.wait(lambda paths: {"changed.py", "deleted.py", "old.py", "new.py"} <= paths)


def test_files_in_a_new_folder_are_covered(tmp_path: Path) -> None:
    with watching(tmp_path) as log:
        (tmp_path / "a" / "b").mkdir(parents=True)
        (tmp_path / "a" / "b" / "c.py").touch()
        log.wait(lambda paths: "a" in paths or "a/b/c.py" in paths)


def test_a_folder_made_later_is_watched_too(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    with watching(tmp_path) as log:
        (tmp_path / "a" / "b").mkdir(parents=True)
        (tmp_path / "old").rename(tmp_path / "moved")
        log.wait(lambda paths: {"a", "old", "moved"} <= paths)
        (tmp_path / "a" / "b" / "c.py").touch()
        (tmp_path / "moved" / "d.py").touch()
        log.wait(lambda paths: {"a/b/c.py", "moved/d.py"} <= paths)


@pytest.mark.skipif(os.name == "nt", reason="makes links")
def test_folders_behind_a_link_and_those_of_package_managers_are_not_watched(
    tmp_path: Path,
) -> None:
    for name in ("outside", "root/node_modules"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "root" / "link").symlink_to(tmp_path / "outside")
    with watching(tmp_path / "root") as log:
        (tmp_path / "outside" / "x.py").touch()
        (tmp_path / "root" / "node_modules" / "y.js").touch()
        (tmp_path / "root" / "z.py").touch()
        log.wait(lambda paths: "z.py" in paths)
        assert log.paths == {"z.py"}


def test_a_root_that_goes_away_ends_the_watching(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    log = DeliveredChanges()
    watcher = Watcher(root, log)
    assert watcher.start()
    root.rmdir()
    log.wait(lambda paths: "" in paths)
    watcher.close()


def test_too_few_inotify_watches_are_reported_at_once(tmp_path: Path) -> None:
    for number in range(20):
        (tmp_path / f"folder{number}").mkdir()
    code = "import sys; from pathlib import Path; from cortex.engine.sources.watcher import Watcher; sys.exit(Watcher(Path(sys.argv[1]), print).start())"
    # A namespace of its own, in which the limit can be set without touching the machine's.
    limit = 'echo 10 > /proc/sys/user/max_inotify_watches || exit 77; exec "$@"'
    try:
        seen = subprocess.run(
            [
                "unshare",
                "--user",
                "--map-root-user",
                "sh",
                "-c",
                limit,
                "sh",
                sys.executable,
                "-c",
                code,
                str(tmp_path),
            ],
            capture_output=True,
            timeout=30,
        )
    except FileNotFoundError:
        pytest.skip("no unshare here")
    if seen.returncode == 77 or b"unshare" in seen.stderr:
        pytest.skip("no namespaces here")
    assert seen.returncode == 0, seen.stderr
    assert b"can't be watched" in seen.stderr


def test_changed_ignore_file_asks_for_a_full_scan(tmp_path: Path) -> None:
    with watching(tmp_path) as log:
        (tmp_path / ".gitignore").write_text("*.log", encoding="utf-8")
        log.wait(lambda paths: "" in paths)


def test_branch_switch_asks_for_a_full_scan_but_a_scan_does_not(tmp_path: Path) -> None:
    (tmp_path / "a.py").touch()
    for arguments in (["init", "-q"], ["add", "a.py"], ["commit", "-qm", "first"]):
        subprocess.run(["git", "-C", str(tmp_path), *arguments], check=True)
    os.utime(tmp_path / "a.py", (1, 1))
    with watching(tmp_path) as log:
        scan(tmp_path, Rules())
        (tmp_path / "later.py").touch()
        log.wait(lambda paths: "later.py" in paths)
        assert log.paths == {"later.py"}
        subprocess.run(["git", "-C", str(tmp_path), "checkout", "-qb", "other"], check=True)
        log.wait(lambda paths: "" in paths)


def test_a_failing_receiver_does_not_end_the_watching(tmp_path: Path) -> None:
    log = DeliveredChanges()

    def receive(paths: set[str]) -> None:
        log(paths)
        raise ValueError("no")

    watcher = Watcher(tmp_path, receive)
    assert watcher.start()
    (tmp_path / "a.py").touch()
    log.wait(lambda paths: "a.py" in paths)
    (tmp_path / "b.py").touch()
    log.wait(lambda paths: "b.py" in paths)
    assert watcher.alive
    watcher.close()


def test_closing_takes_less_than_a_second(tmp_path: Path) -> None:
    watcher = Watcher(tmp_path, DeliveredChanges())
    assert watcher.start()
    before = time.monotonic()
    watcher.close()
    assert time.monotonic() - before < 1.0
    assert not watcher.alive


def test_folder_that_cannot_be_watched_is_reported_at_once(tmp_path: Path) -> None:
    watcher = Watcher(tmp_path / "nowhere", DeliveredChanges())
    assert watcher.start() is False
    assert not watcher.alive
    watcher.close()


@pytest.mark.parametrize(
    ("change", "path", "expected"),
    [
        (1, "a.py", {"a.py"}),
        (1, "sub/.cortexignore", {""}),
        (2, ".git/index", {""}),
        (1, ".git/HEAD", {""}),
        (2, "sub/.git/HEAD", {""}),
        (1, ".git/index.lock", set()),
        (1, ".git/objects/ab/cd", set()),
        (1, ".git", {""}),
        (2, ".git", set()),
        (2, ".cortex/cortex.db-wal", set()),
        (1, "web/node_modules/x/index.js", set()),
        (1, "web/node_modules/x/.git/HEAD", set()),
        (2, ".", set()),
        (3, ".", {""}),
    ],
)
def test_file_events_become_the_paths_to_look_at(
    tmp_path: Path, change: int, path: str, expected: set[str]
) -> None:
    assert relevant_paths(str(tmp_path), [(change, str(tmp_path / path))]) == expected


def test_missing_folder_is_watched_as_soon_as_it_exists(tmp_path: Path) -> None:
    log = DeliveredChanges()
    watch = FolderWatch(tmp_path / "project", log)
    assert not watch.renew()
    (tmp_path / "project").mkdir()
    try:
        assert watch.renew() and watch.active
        # Watching goes on, so nothing was missed.
        assert not watch.renew()
        (tmp_path / "project" / "a.py").write_text("x", encoding="utf-8")
        log.wait(lambda paths: "a.py" in paths)
    finally:
        watch.close()
    assert not watch.active


def test_folder_with_watching_off_is_never_watched(tmp_path: Path) -> None:
    watch = FolderWatch(tmp_path, DeliveredChanges(), enabled=False)
    assert not watch.renew() and not watch.active
