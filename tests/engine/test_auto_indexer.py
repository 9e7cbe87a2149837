"""Automatic indexing: with and without watching, through failures, and until closed."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from cortex.base.settings import load
from cortex.engine import auto_indexer as keeper_module
from cortex.engine.auto_indexer import AutoIndexer
from cortex.engine.embedders import Embedder
from cortex.engine.embedders.hash_embedder import HashingEmbedder
from cortex.engine.engine import Engine

Keep = Callable[..., tuple[Engine, AutoIndexer]]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "pyproject.toml").write_text("[project]\n", encoding="utf-8")
    return folder


@pytest.fixture
def keep(root: Path, tmp_path: Path) -> Iterator[Keep]:
    """Open an engine on the test's folder and keep it fresh until the test ends."""
    with ExitStack() as opened:

        def keep_one(
            embedder: Embedder | None = None, **flags: object
        ) -> tuple[Engine, AutoIndexer]:
            named = {name.replace("__", "."): value for name, value in flags.items()}
            environment = {"CORTEX_HOME": str(tmp_path / "home")}
            settings = load(
                root,
                environment=environment,
                flags={"indexing.workers": 1, **named},
                user_home=tmp_path,
            )
            engine = opened.enter_context(Engine(root, settings, embedder=embedder))
            keeper = AutoIndexer(engine)
            opened.callback(keeper.close)
            return engine, keeper

        yield keep_one


def keepers() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("keeper ")]


@pytest.mark.parametrize("watching", [True, False])
def test_a_new_file_is_found_and_a_removed_one_is_not(keep, root, until, watching):
    engine, _ = keep(workspace__watch_files=watching, indexing__update_interval=1)
    until(lambda: engine.knows("pyproject.toml"))
    (root / "lamp.py").write_text("lamp = 1\n", encoding="utf-8")
    until(lambda: engine.knows("lamp.py"))
    (root / "lamp.py").unlink()
    until(lambda: not engine.knows("lamp.py"))


def test_index_run_can_be_requested_without_watching_and_polling(keep, root, until):
    engine, keeper = keep(workspace__watch_files=False, indexing__update_interval=3600)
    until(lambda: engine.freshness().state == "ready")
    (root / "lamp.py").write_text("lamp = 1\n", encoding="utf-8")
    keeper.look_again()
    until(lambda: engine.knows("lamp.py"))


def test_closing_ends_the_thread_and_keeps_the_engine_open(keep, until):
    engine, keeper = keep()
    until(lambda: engine.freshness().state == "ready")
    assert keepers()
    keeper.close()
    assert (keepers(), engine.is_auto_indexed) == ([], False)
    assert engine.index().status == "completed"


def test_failed_run_is_retried(keep, root, until, monkeypatch):
    monkeypatch.setattr(keeper_module, "RETRY_SECONDS", 0.05)
    (root / "pyproject.toml").rename(root / "lamp.toml")  # no project: the store is elsewhere
    engine, keeper = keep(workspace__watch_files=False)
    until(lambda: engine.freshness().state == "ready")
    root.rename(root.with_name("away"))
    keeper.look_again()
    until(lambda: engine.freshness().error)
    root.with_name("away").rename(root)
    until(lambda: not engine.freshness().error)
    assert engine.knows("lamp.toml")


def test_each_save_is_indexed_once_without_room_for_vectors(keep, root, until):
    engine, _ = keep(HashingEmbedder(), limits__memory__embeddings=0)
    until(lambda: engine.freshness().error)
    for number in range(3):
        (root / f"lamp{number}.py").write_text(f"lamp = {number}\n", encoding="utf-8")
        until(lambda number=number: engine.knows(f"lamp{number}.py"), keeper_module.RETRY_SECONDS)


def test_save_without_a_change_is_one_line_of_the_log(keep, root, until):
    engine, _ = keep()
    until(lambda: engine.freshness().state == "ready" and not engine.running)
    (root / "pyproject.toml").touch()
    until(lambda: len(engine.operations(100)) > 1)
    until(lambda: not engine.running)
    # By then, an echo of the line would be there, too
    (root / "lamp.py").write_text("lamp = 1\n", encoding="utf-8")
    until(lambda: engine.operations(1)[0].detail["added"])
    assert [line.detail["added"] for line in engine.operations(100)] == [1, 0, 1]


@pytest.mark.skipif(os.name == "nt", reason="Windows doesn't remove a file that is open")
def test_removed_store_is_filled_again(keep, root, until):
    engine, _ = keep()
    until(lambda: engine.freshness().state == "ready")
    before = engine.store
    shutil.rmtree(root / ".cortex", ignore_errors=True)
    until(lambda: engine.store is not before and engine.freshness().state == "ready")
    assert engine.knows("pyproject.toml")
    assert engine.store.lease.held
