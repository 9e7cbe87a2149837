"""With a keeper at work, what is saved is found within a second or so."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from cortex.base.types import Mode, Query
from cortex.engine.auto_indexer import AutoIndexer
from cortex.engine.engine import Engine

SECONDS = 3.0  # one by design; the rest is for a busy machine


def git(root: Path, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=root, check=True, capture_output=True, timeout=30)


def found(engine: Engine, text: str) -> list[str]:
    return sorted({hit.path for hit in engine.search(Query(text, mode=Mode.WORDS)).hits})


@pytest.fixture
def kept(root, open_engine, until):
    git(root, "init", "-q")
    for number in range(50):
        (root / f"f{number}.py").write_text(f"value_{number} = {number}\n", encoding="utf-8")
    (root / "f1.py").write_text("here = 'original'\n", encoding="utf-8")
    git(root, "add", ".")
    git(root, "commit", "-q", "-m", "first")
    with open_engine() as engine:
        keeper = AutoIndexer(engine)
        until(lambda: engine.freshness().state == "ready" and not engine.running)
        yield engine
        keeper.close()


def test_saving_renaming_deleting_ignoring_and_switching_are_seen_soon(
    kept, root, until, record_property
):
    def measure(what: str, condition) -> None:
        record_property(what, round(until(condition, SECONDS), 3))

    (root / "lamp.py").write_text("lamp = 'bright'\n", encoding="utf-8")
    measure("a new file", lambda: found(kept, "bright") == ["lamp.py"])
    (root / "lamp.py").write_text("lamp = 'dazzling'\n", encoding="utf-8")
    measure(
        "a change", lambda: found(kept, "dazzling") == ["lamp.py"] and found(kept, "bright") == []
    )
    os.replace(root / "lamp.py", root / "moved.py")
    measure("a rename", lambda: found(kept, "dazzling") == ["moved.py"])
    (root / "deep" / "er").mkdir(parents=True)
    (root / "deep" / "er" / "desk.py").write_text("desk = 'sturdy'\n", encoding="utf-8")
    measure("a file in a new folder", lambda: found(kept, "sturdy") == ["deep/er/desk.py"])
    (root / ".gitignore").write_text("deep/\n", encoding="utf-8")
    measure("a .gitignore", lambda: found(kept, "sturdy") == [])
    (root / ".gitignore").unlink()
    measure("no .gitignore any more", lambda: found(kept, "sturdy") == ["deep/er/desk.py"])
    (root / "moved.py").unlink()
    measure("a deletion", lambda: found(kept, "dazzling") == [])
    assert kept.store.check() == []


def blobs(engine: Engine) -> int:
    with engine.store._connections.read() as connection:
        return connection.execute("SELECT count(*) FROM blobs").fetchone()[0]


def test_a_branch_switch_is_seen_soon_and_costs_only_what_changed(
    kept, root, until, record_property
):
    git(root, "checkout", "-q", "-b", "other")
    (root / "f0.py").write_text("value_0 = 'elsewhere'\n", encoding="utf-8")
    git(root, "rm", "-q", "f1.py")
    git(root, "commit", "-q", "-a", "-m", "second")
    until(lambda: found(kept, "elsewhere") == ["f0.py"] and found(kept, "original") == [], SECONDS)
    before = blobs(kept)
    git(root, "checkout", "-q", "main")
    back = until(
        lambda: found(kept, "elsewhere") == [] and found(kept, "original") == ["f1.py"], SECONDS
    )
    record_property("a branch switch", round(back, 3))
    assert blobs(kept) == before  # every text was there already


def test_without_watching_a_comparing_scan_finds_what_changed(root, settings, until):
    quiet = settings.changed({"workspace.watchFiles": False, "indexing.updateInterval": 1})
    with Engine(root, quiet) as engine:
        keeper = AutoIndexer(engine)
        until(lambda: engine.freshness().state == "ready")
        (root / "lamp.py").write_text("lamp = 'bright'\n", encoding="utf-8")
        until(lambda: found(engine, "bright") == ["lamp.py"], 2 * SECONDS)
        keeper.close()


def test_a_first_question_waits_for_the_first_index(root, open_engine):
    (root / "lamp.py").write_text("lamp = 'bright'\n", encoding="utf-8")
    with open_engine() as engine:
        keeper = AutoIndexer(engine)
        assert found(engine, "bright") == ["lamp.py"]
        keeper.close()


def test_a_keeper_goes_on_after_a_run_that_failed(kept, root, until, monkeypatch):
    from cortex.engine import auto_indexer as keeper
    from cortex.engine import indexer

    whole = indexer.scan_paths

    def fail(*_: object) -> None:
        monkeypatch.setattr(indexer, "scan_paths", whole)
        raise OSError("the disk hiccuped")

    monkeypatch.setattr(keeper, "RETRY_SECONDS", 0.5)
    monkeypatch.setattr(indexer, "scan_paths", fail)
    (root / "lamp.py").write_text("lamp = 'bright'\n", encoding="utf-8")
    until(lambda: found(kept, "bright") == ["lamp.py"], 2 * SECONDS)
