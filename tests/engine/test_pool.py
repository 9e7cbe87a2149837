"""The engines of a process: shared, kept while in use, closed when idle, opened again."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from cortex.base.errors import ConfigError, CortexError
from cortex.base.settings import Settings, Workspace, load
from cortex.base.types import Cancel, Mode, Query
from cortex.engine.embedders.circuit_breaker import Embedders
from cortex.engine.embedders.hash_embedder import HashingEmbedder
from cortex.engine.engine import Engine
from cortex.engine.library import Library
from cortex.engine.pool import CLOSED, EnginePool
from cortex.engine.store import STORE_NAME, Store
from cortex.families.code.tools.session import Workspaces


@pytest.fixture
def project(tmp_path: Path) -> Callable[..., tuple[Path, Settings]]:
    """`project(name)`: a folder with one file, and its settings."""

    def make(name: str, **flags: object) -> tuple[Path, Settings]:
        root = tmp_path / name
        root.mkdir()
        (root / f"{name}.py").write_text(f"def only_{name}():\n    return 1\n", encoding="utf-8")
        named = {
            "indexing.workers": 1,
            **{key.replace("__", "."): value for key, value in flags.items()},
        }
        return root, load(root, environment={"CORTEX_HOME": str(tmp_path / "home")}, flags=named)

    return make


@pytest.fixture
def make() -> Iterator[Callable[..., EnginePool]]:
    """Make pools, `make(keep=...)`, that are closed after the test."""
    with ExitStack() as made:

        def make_one(**options) -> EnginePool:
            engines = EnginePool(**options)
            made.callback(engines.close)
            return engines

        yield make_one


def found(engine: Engine, text: str) -> list[str]:
    return [hit.path for hit in engine.search(Query(text=text, mode=Mode.WORDS)).hits]


def states(engines: EnginePool) -> dict[str, tuple[str, int]]:
    return {
        pooled.root.name: (pooled.freshness.state, pooled.windows) for pooled in engines.projects()
    }


def test_home_library_is_open_without_being_a_project(make, project):
    root, settings = project("lamp")
    engines = make(keep=False)
    home, lamp = engines.borrow(settings.home, settings), engines.borrow(root, settings)
    with engines.use(home) as library, engines.use(lamp):
        assert isinstance(library, Library)
        assert [pooled.root for pooled in engines.projects()] == [root]


def test_engine_is_shared_by_windows_and_lingers_after_the_last(make, project, until):
    root, settings = project("lamp")
    engines = make(keep=False, linger=0.3)
    lent = [engines.borrow(root, settings) for _ in range(8)]

    def use(handle):
        with engines.use(handle) as engine:
            return engine

    with ThreadPoolExecutor(8) as threads:
        opened = set(threads.map(use, lent))
    assert len(opened) == 1
    assert [pooled.windows for pooled in engines.projects()] == [8]
    for handle in lent:
        engines.give_back(handle)
    engines.close_idle()
    assert [pooled.windows for pooled in engines.projects()] == [0]
    again = engines.borrow(root, settings)
    assert use(again) in opened  # it was still there
    engines.give_back(again)
    until(lambda: engines.close_idle() or not engines.projects(), 5)


def test_engine_with_a_window_stays_open_while_memory_allows(make, project):
    root, settings = project("lamp")
    engines = make(keep=False)
    handle = engines.borrow(root, settings)
    with engines.use(handle) as engine:
        pass
    for most_bytes in (0, 1 << 50):
        engines.close_idle(most_bytes)
    with engines.use(handle) as same:
        assert same is engine
    engines.give_back(handle)
    assert engines.projects() == []


def test_damaged_home_costs_no_project_its_index(make, project):
    engines = make(keep=False)
    root, settings = project("sound")
    (root / "pyproject.toml").touch()
    settings.home.mkdir()
    (settings.home / STORE_NAME).write_bytes(b"garbage" * 1000)
    lent = engines.borrow(root, settings)
    with engines.use(lent) as engine:
        engine.index()
        directory = engine.store.directory
    with pytest.raises(CortexError) as caught, engines.use(lent):
        Store(settings.home)
    assert caught.value.code == "STORE_CORRUPT"
    assert directory is not None and list(directory.glob("cortex.db.damaged-*")) == []
    with engines.use(lent) as engine:
        assert found(engine, "only_sound") == ["sound.py"]


def test_engine_that_failed_to_open_is_not_kept(make, project, tmp_path):
    root, settings = project("lamp")
    (tmp_path / "home").write_text("in the way", encoding="utf-8")
    (root / ".cortex").write_text("in the way", encoding="utf-8")
    engines = make(keep=False)
    for _ in range(2):
        handle = engines.borrow(root, settings)
        with pytest.raises(CortexError), engines.use(handle):
            pass
        assert engines.projects() == []
        engines.give_back(handle)


def test_least_recently_used_engine_is_closed_first(make, project, monkeypatch):
    engines = make(keep=False, linger=600, rest=60)
    lent = {name: engines.borrow(*project(name)) for name in ("lamp", "fan", "door")}
    for handle in lent.values():
        with engines.use(handle):
            pass
    engines.give_back(lent["door"])
    room = iter([2, 0, 0, 0])
    monkeypatch.setattr("cortex.engine.shared_pool.memory_bytes", lambda: next(room))
    lent["lamp"].used -= 120
    lent["fan"].used -= 240
    engines.close_idle(1)
    # A project without windows goes first
    assert states(engines) == {"lamp": ("indexing", 1), "fan": ("indexing", 1)}
    room = iter([2, 0])
    engines.close_idle(1)
    assert states(engines) == {"lamp": ("indexing", 1), "fan": (CLOSED, 1)}
    room = iter([2, 2])
    with engines.use(lent["fan"]):
        pass
    engines.close_idle(1)
    assert states(engines) == {"lamp": (CLOSED, 1), "fan": ("indexing", 1)}


def test_closed_engine_is_reopened_by_a_call_and_finds_new_changes(make, project, until):
    engines = make(keep=True)
    windows = [Workspaces([Workspace(*project(name))], engines) for name in ("lamp", "fan")]
    for window, name in zip(windows, ("lamp", "fan"), strict=True):
        with window.open() as [(_, engine)]:
            until(lambda engine=engine: engine.freshness().state == "ready", 10)
            assert found(engine, f"only_{name}") == [f"{name}.py"]
    with windows[1].open():
        until(
            lambda: (
                engines.close_idle(1)
                or states(engines) == {"lamp": (CLOSED, 1), "fan": ("ready", 1)}
            ),
            10,
        )
        (engine.root.parent / "lamp" / "bulb.py").write_text(
            "def change_bulb():\n    return 1\n", encoding="utf-8"
        )
        with windows[0].open() as [(_, again)]:
            assert found(again, "change_bulb") == ["bulb.py"]
            assert states(engines) == {"lamp": ("ready", 1), "fan": ("ready", 1)}
            (again.root / "bulb.py").unlink()
            until(lambda: found(again, "change_bulb") == [], 10)  # it is watched again
    for window in windows:
        window.close()
    assert engines.projects() == []


def test_setting_changed_at_run_time_is_stored_and_outlives_the_engine(make, project):
    root, settings = project("lamp")
    engines = make(keep=False)
    window = Workspaces([Workspace(root, settings)], engines)
    with window.open() as [(_, engine)]:
        engine.state.change({"indexing.chunkSize": 99}, "editor 1.0")
    engines.close_idle(1)
    assert states(engines) == {"lamp": (CLOSED, 1)}
    window.close()
    other = Workspaces([Workspace(root, settings)], engines)
    with other.open() as [(_, again)]:
        assert again is not engine
        assert again.settings.indexing.chunk_size == other.settings.indexing.chunk_size == 99
        override = again.state.override
        assert override and (override.settings, override.by) == (
            {"indexing.chunkSize": 99},
            "editor 1.0",
        )
    other.close()


def write_settings(root: Path, **settings: object) -> None:
    """Write a project's settings file as of a moment ago."""
    file = root / "codeindex.config.json"
    file.write_text(
        json.dumps({name.replace("__", "."): value for name, value in settings.items()}),
        encoding="utf-8",
    )
    os.utime(file, (time.time() - 2, time.time() - 2))


def test_newly_excluded_file_is_gone_from_answers_then_from_the_index(make, project, until):
    root, settings = project("lamp")
    (root / "secret.py").write_text("def hidden_vault():\n    return 1\n", encoding="utf-8")
    window = Workspaces([Workspace(root, settings)], make(keep=True))
    with window.open() as [(_, engine)]:
        until(lambda: engine.freshness().state == "ready", 10)
        assert found(engine, "hidden_vault") == ["secret.py"]
    write_settings(root, workspace__excludePatterns=["secret.py"])
    with window.open() as [(_, engine)]:
        assert found(engine, "hidden_vault") == []
        until(lambda: not engine.knows("secret.py"), 10)
        until(lambda: not engine.state.shortcomings(), 10)
    (root / "codeindex.config.json").unlink()
    with window.open() as [(_, engine)]:
        until(lambda: found(engine, "hidden_vault") == ["secret.py"], 10)
    window.close()


def test_edited_configuration_takes_effect_without_a_call(make, project, until):
    root, settings = project("lamp")
    (root / "long.txt").write_text(
        "\n".join(f"line {n} of a long text" for n in range(400)), encoding="utf-8"
    )
    engines = make(keep=True)
    window = Workspaces([Workspace(root, settings)], engines)
    with window.open() as [(_, engine)]:
        until(lambda: engine.freshness().state == "ready", 10)
    before = engine.vitals().chunks
    write_settings(root, indexing__chunkSize=50)
    until(lambda: engine.vitals().chunks > 2 * before, 10)
    until(lambda: engine.state.made_with()["indexing.chunkSize"] == 50, 10)
    assert engine.state.shortcomings() == ()
    newcomer = engines.borrow(
        root,
        load(root, environment={"CORTEX_HOME": str(settings.home)}, flags={"indexing.workers": 1}),
    )
    assert newcomer.engine is engine
    engines.give_back(newcomer)
    window.close()


def test_answer_names_the_settings_of_an_index_only_where_they_differ(make, project):
    root, settings = project("lamp")
    window = Workspaces([Workspace(root, settings)], make(keep=False))
    with window.open() as [(_, engine)]:
        engine.index()
        assert engine.search(Query(text="only_lamp")).notes == ()
        write_settings(root, indexing__chunkSize=50, workspace__excludePatterns=["x"])
    with window.open() as [(_, engine)]:
        (note,) = engine.search(Query(text="only_lamp")).notes
        assert note == (
            "the index was made with other settings (workspace.excludePatterns; indexing.chunkSize 250, now 50): "
            "run `cortex index`"
        )
        engine.index()
        assert engine.search(Query(text="only_lamp")).notes == ()
    window.close()


def test_full_index_says_so_in_every_answer_and_how_to_make_room(make, project):
    root, settings = project("lamp", workspace__maxFiles=2)
    for number in range(3):
        (root / f"more{number}.py").write_text("x = 1\n", encoding="utf-8")
    window = Workspaces([Workspace(root, settings)], make(keep=False))
    with window.open() as [(_, engine)]:
        engine.index()
        for mode in (Mode.HYBRID, Mode.EXACT):
            assert engine.search(Query(text="only_lamp", mode=mode)).notes[0] == (
                "2 files are not indexed, because workspace.maxFiles is 2 (set by flag --max-files): "
                "raise it to 4 there, or exclude some files"
            )
    window.close()


def test_a_run_under_way_keeps_an_engine_with_a_window_open(make, project):
    root, settings = project("lamp")
    engines = make(keep=False)
    handle = engines.borrow(root, settings)
    begun, go_on = threading.Event(), threading.Event()
    with engines.use(handle) as engine:
        pass

    def hold(_: object) -> None:
        begun.set()
        assert go_on.wait(10)

    run = threading.Thread(target=lambda: engine.index(progress=hold))
    run.start()
    assert begun.wait(10)
    engines.close_idle(1)
    assert states(engines)["lamp"][0] == "indexing"
    go_on.set()
    run.join()
    engines.close_idle(1)
    assert states(engines) == {"lamp": (CLOSED, 1)}
    engines.give_back(handle)


@pytest.mark.soak
def test_calls_from_many_threads_never_get_a_closed_engine(make, project, until, campaign):
    times, seconds = campaign(6, 400), campaign(30, 600)
    engines = make(keep=True)
    windows = [Workspaces([Workspace(*project(name))], engines) for name in ("lamp", "fan", "door")]
    names = ("lamp", "fan", "door")
    done = threading.Event()
    closed = []

    def ask(number: int) -> None:
        name, window = names[number], windows[number]
        while not done.wait(0.005):  # which is when nobody calls
            with window.open() as [(_, engine)]:
                engine.vitals()
                assert set(found(engine, f"only_{name}")) <= {f"{name}.py"}
                assert engine.view(f"{name}.py").text

    def close() -> None:
        while not done.wait(0.001):
            engines.close_idle(1)
            closed.extend(name for name, (state, _) in states(engines).items() if state == CLOSED)

    with ThreadPoolExecutor(8) as threads:
        workers = [
            *(threads.submit(ask, number) for number in range(3)),
            *(threads.submit(close) for _ in range(2)),
        ]
        try:
            until(
                lambda: (
                    min(closed.count(name) for name in names) >= times
                    or any(worker.done() for worker in workers)
                ),
                seconds,
            )
        finally:
            done.set()
        for worker in workers:
            worker.result()
    for window, name in zip(windows, names, strict=True):
        with window.open() as [(_, engine)]:
            assert engine.holds_lease()  # no engine was left behind with the lease
            assert found(engine, f"only_{name}") == [f"{name}.py"]
        window.close()
    assert engines.projects() == []


def test_window_closed_during_a_call_leaves_no_engine_open(make, project):
    root, settings = project("lamp")
    engines = make(keep=True)
    window = Workspaces([Workspace(root, settings)], engines)
    window.start()
    with window.open() as [(_, engine)]:
        window.close()
        window.close()  # as often as anybody likes
        assert engine.vitals()
    assert engines.projects() == []
    with pytest.raises(ConfigError, match="ending"), window.open():
        pass


def test_closed_pool_opens_no_engine(make, project):
    engines = make(keep=False)
    handle = engines.borrow(*project("lamp"))
    with engines.use(handle):
        pass
    engines.close()
    with pytest.raises(ConfigError, match="ending"), engines.use(handle):
        pass


def test_engine_returned_before_its_use_is_not_opened_again(make, project):
    engines = make(keep=True)
    handle = engines.borrow(*project("lamp"))
    engines.give_back(handle)  # between a call's look at whether the window has ended, and its use
    with pytest.raises(ConfigError, match="ending"), engines.use(handle):
        pass
    assert (handle.engine, handle.calls, engines.projects()) == (None, 0, [])


def test_embedding_under_way_keeps_an_engine_with_a_window_open(make, project):
    begun, go_on = threading.Event(), threading.Event()

    class Slow(HashingEmbedder):
        def embed(self, texts, mode):
            begun.set()
            assert go_on.wait(10)
            return super().embed(texts, mode)

    engines = make(keep=False)
    handle = engines.borrow(*project("lamp"))
    with engines.use(handle) as engine:
        engine.index()
        assert engine.holds_lease()
        slow = Slow()
        slow.costly = True
        engine.embedding.use(Embedders(slow))
        engine.embedding.work()
    try:
        assert begun.wait(10)
        engines.close_idle(1)
        assert handle.engine is engine
        assert engine.embedding.working
    finally:
        go_on.set()
    assert engine.embedding.embed(cancel=Cancel())
