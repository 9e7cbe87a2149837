"""Saved files are found within a second or so by background indexing."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from cortex.base.types import Mode, Query
from cortex.engine.auto_indexer import AutoIndexer
from cortex.engine.engine import Engine

# One by design; the rest is for a busy machine
SECONDS = 3.0


def git(root: Path, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=root, check=True, capture_output=True, timeout=30)


def found(engine: Engine, text: str) -> list[str]:
    return sorted({hit.path for hit in engine.search(Query(text, mode=Mode.WORDS)).hits})


@pytest.fixture
def watched(root, open_engine, until):
    git(root, "init", "-q")
    for number in range(50):
        (root / f"f{number}.py").write_text(f"value_{number} = {number}\n", encoding="utf-8")
    (root / "f1.py").write_text("here = 'original'\n", encoding="utf-8")
    git(root, "add", ".")
    git(root, "commit", "-q", "-m", "first")
    with open_engine() as engine:
        background = AutoIndexer(engine)
        until(lambda: engine.freshness().state == "ready" and not engine.running)
        yield engine
        background.close()


def test_saved_renamed_deleted_or_ignored_file_is_seen_within_seconds(
    watched, root, until, record_property
):
    def measure(change: str, condition: Callable[[], object]) -> None:
        record_property(change, round(until(condition, SECONDS), 3))

    (root / "lamp.py").write_text("lamp = 'bright'\n", encoding="utf-8")
    measure("a new file", lambda: found(watched, "bright") == ["lamp.py"])
    (root / "lamp.py").write_text("lamp = 'dazzling'\n", encoding="utf-8")
    measure(
        "a change",
        lambda: found(watched, "dazzling") == ["lamp.py"] and found(watched, "bright") == [],
    )
    os.replace(root / "lamp.py", root / "moved.py")
    measure("a rename", lambda: found(watched, "dazzling") == ["moved.py"])
    (root / "deep" / "er").mkdir(parents=True)
    (root / "deep" / "er" / "desk.py").write_text("desk = 'sturdy'\n", encoding="utf-8")
    measure("a file in a new folder", lambda: found(watched, "sturdy") == ["deep/er/desk.py"])
    (root / ".gitignore").write_text("deep/\n", encoding="utf-8")
    measure("a .gitignore", lambda: found(watched, "sturdy") == [])
    (root / ".gitignore").unlink()
    measure("no .gitignore any more", lambda: found(watched, "sturdy") == ["deep/er/desk.py"])
    (root / "moved.py").unlink()
    measure("a deletion", lambda: found(watched, "dazzling") == [])
    assert watched.store.check() == []


def blobs(engine: Engine) -> int:
    with engine.store._connections.read() as connection:
        return connection.execute("SELECT count(*) FROM blobs").fetchone()[0]


def test_branch_switch_is_seen_within_seconds_and_stores_no_text_again(
    watched, root, until, record_property
):
    git(root, "checkout", "-q", "-b", "other")
    (root / "f0.py").write_text("value_0 = 'elsewhere'\n", encoding="utf-8")
    git(root, "rm", "-q", "f1.py")
    git(root, "commit", "-q", "-a", "-m", "second")
    until(
        lambda: found(watched, "elsewhere") == ["f0.py"] and found(watched, "original") == [],
        SECONDS,
    )
    before = blobs(watched)
    git(root, "checkout", "-q", "main")
    back = until(
        lambda: found(watched, "elsewhere") == [] and found(watched, "original") == ["f1.py"],
        SECONDS,
    )
    record_property("a branch switch", round(back, 3))
    assert blobs(watched) == before  # every text was there already


def test_changed_file_is_found_by_the_periodic_scan_without_watching(root, settings, until):
    quiet = settings.changed({"workspace.watchFiles": False, "indexing.updateInterval": 1})
    with Engine(root, quiet) as engine:
        background = AutoIndexer(engine)
        until(lambda: engine.freshness().state == "ready")
        (root / "lamp.py").write_text("lamp = 'bright'\n", encoding="utf-8")
        until(lambda: found(engine, "bright") == ["lamp.py"], 2 * SECONDS)
        background.close()


def test_first_search_waits_for_the_first_index(root, open_engine):
    (root / "lamp.py").write_text("lamp = 'bright'\n", encoding="utf-8")
    with open_engine() as engine:
        background = AutoIndexer(engine)
        assert found(engine, "bright") == ["lamp.py"]
        background.close()


def test_background_indexing_continues_after_a_failed_run(watched, root, until, monkeypatch):
    from cortex.engine import auto_indexer, indexer

    whole = indexer.scan_paths

    def fail(*_: object) -> None:
        monkeypatch.setattr(indexer, "scan_paths", whole)
        raise OSError("the disk hiccuped")

    monkeypatch.setattr(auto_indexer, "RETRY_SECONDS", 0.5)
    monkeypatch.setattr(indexer, "scan_paths", fail)
    (root / "lamp.py").write_text("lamp = 'bright'\n", encoding="utf-8")
    until(lambda: found(watched, "bright") == ["lamp.py"], 2 * SECONDS)
