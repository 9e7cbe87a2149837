"""The engines of a process: shared by windows, held by calls, closed when nobody needs them, and
opened again.
"""

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
    """`make(keep=...)`: engines that are closed after the test, however it ends."""
    with ExitStack() as made:

        def make_one(**options) -> EnginePool:
            engines = EnginePool(**options)
            made.callback(engines.close)
            return engines

        yield make_one


def found(engine: Engine, text: str) -> list[str]:
    return [hit.path for hit in engine.search(Query(text=text, mode=Mode.WORDS)).hits]


def states(engines: EnginePool) -> dict[str, tuple[str, int]]:
    return {one.root.name: (one.freshness.state, one.windows) for one in engines.projects()}


def test_the_persons_library_is_open_without_being_a_project(make, project):
    root, settings = project("lamp")
    engines = make(keep=False)
    home, lamp = engines.borrow(settings.home, settings), engines.borrow(root, settings)
    with engines.use(home) as library, engines.use(lamp):
        assert isinstance(library, Library)
        assert [one.root for one in engines.projects()] == [root]


def test_an_engine_is_shared_by_all_who_have_the_folder_and_lingers_after_the_last(
    make, project, until
):
    root, settings = project("lamp")
    engines = make(keep=False, linger=0.3)
    lent = [engines.borrow(root, settings) for _ in range(8)]

    def use(one):
        with engines.use(one) as engine:
            return engine

    with ThreadPoolExecutor(8) as threads:
        opened = set(threads.map(use, lent))
    assert len(opened) == 1
    assert [one.windows for one in engines.projects()] == [8]
    for one in lent:
        engines.give_back(one)
    engines.close_idle()
    assert [one.windows for one in engines.projects()] == [0]
    again = engines.borrow(root, settings)
    assert use(again) in opened  # it was still there
    engines.give_back(again)
    until(lambda: engines.close_idle() or not engines.projects(), 5)


def test_an_engine_with_a_window_stays_open_while_there_is_memory(make, project):
    root, settings = project("lamp")
    engines = make(keep=False)
    one = engines.borrow(root, settings)
    with engines.use(one) as engine:
        pass
    for most_bytes in (0, 1 << 50):
        engines.close_idle(most_bytes)
    with engines.use(one) as same:
        assert same is engine
    engines.give_back(one)
    assert engines.projects() == []


def test_a_damaged_home_that_a_call_meets_costs_no_project_its_index(make, project):
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


def test_an_engine_that_can_not_be_opened_is_not_remembered(make, project, tmp_path):
    root, settings = project("lamp")
    (tmp_path / "home").write_text("in the way", encoding="utf-8")
    (root / ".cortex").write_text("in the way", encoding="utf-8")
    engines = make(keep=False)
    for _ in range(2):
        one = engines.borrow(root, settings)
        with pytest.raises(CortexError), engines.use(one):
            pass
        assert engines.projects() == []
        engines.give_back(one)


def test_what_is_unused_longest_is_closed_first_and_what_was_used_just_now_is_not(
    make, project, monkeypatch
):
    engines = make(keep=False, linger=600, rest=60)
    lent = {name: engines.borrow(*project(name)) for name in ("lamp", "fan", "door")}
    for one in lent.values():
        with engines.use(one):
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


def test_the_next_call_opens_a_closed_engine_and_finds_what_changed_meanwhile(make, project, until):
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


def test_what_was_changed_at_run_time_is_the_stores_and_outlives_engine_and_window(make, project):
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
    """Write a project's file as an editor that was done a moment ago."""
    file = root / "codeindex.config.json"
    file.write_text(
        json.dumps({name.replace("__", "."): value for name, value in settings.items()}),
        encoding="utf-8",
    )
    os.utime(file, (time.time() - 2, time.time() - 2))


def test_an_excluded_file_is_gone_from_the_next_answer_and_soon_from_the_index(
    make, project, until
):
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


def test_nobody_has_to_call_for_an_edited_configuration_to_count(make, project, until):
    root, settings = project("lamp")
    (root / "long.txt").write_text(
        "\n".join(f"line {n} of a long text" for n in range(400)), encoding="utf-8"
    )
    engines = make(keep=True)
    window = Workspaces([Workspace(root, settings)], engines)
    with window.open() as [(_, engine)]:
        until(lambda: engine.freshness().state == "ready", 10)
    before = engine.stats().chunks
    write_settings(root, indexing__chunkSize=50)
    until(lambda: engine.stats().chunks > 2 * before, 10)
    until(lambda: engine.state.made_with()["indexing.chunkSize"] == 50, 10)
    assert engine.state.shortcomings() == ()
    newcomer = engines.borrow(
        root,
        load(root, environment={"CORTEX_HOME": str(settings.home)}, flags={"indexing.workers": 1}),
    )
    assert newcomer.engine is engine
    engines.give_back(newcomer)
    window.close()


def test_an_answer_says_what_an_index_was_made_with_only_where_that_differs(make, project):
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


def test_a_full_index_says_so_at_every_question_and_how_to_make_room(make, project):
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
    one = engines.borrow(root, settings)
    begun, go_on = threading.Event(), threading.Event()
    with engines.use(one) as engine:
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
    engines.give_back(one)


@pytest.mark.soak
def test_calls_from_many_threads_never_meet_a_closed_engine(make, project, until, campaign):
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
                engine.stats()
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
                    or any(one.done() for one in workers)
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


def test_a_window_that_ends_while_a_call_is_under_way_leaves_nothing_open(make, project):
    root, settings = project("lamp")
    engines = make(keep=True)
    window = Workspaces([Workspace(root, settings)], engines)
    window.start()
    with window.open() as [(_, engine)]:
        window.close()
        window.close()  # as often as anybody likes
        assert engine.stats()
    assert engines.projects() == []
    with pytest.raises(ConfigError, match="ending"), window.open():
        pass


def test_after_the_end_nothing_is_opened(make, project):
    engines = make(keep=False)
    one = engines.borrow(*project("lamp"))
    with engines.use(one):
        pass
    engines.close()
    with pytest.raises(ConfigError, match="ending"), engines.use(one):
        pass


def test_what_was_given_back_meanwhile_is_not_opened_again(make, project):
    engines = make(keep=True)
    one = engines.borrow(*project("lamp"))
    engines.give_back(one)  # between a call's look at whether the window has ended, and its use
    with pytest.raises(ConfigError, match="ending"), engines.use(one):
        pass
    assert (one.engine, one.calls, engines.projects()) == (None, 0, [])


def test_embedding_under_way_keeps_an_engine_with_a_window_open(make, project):
    begun, go_on = threading.Event(), threading.Event()

    class Slow(HashingEmbedder):
        def embed(self, texts, mode):
            begun.set()
            assert go_on.wait(10)
            return super().embed(texts, mode)

    engines = make(keep=False)
    one = engines.borrow(*project("lamp"))
    with engines.use(one) as engine:
        engine.index()
        assert engine.holds_lease()
        slow = Slow()
        slow.costly = True
        engine.embedding.use(Embedders(slow))
        engine.embedding.work()
    try:
        assert begun.wait(10)
        engines.close_idle(1)
        assert one.engine is engine
        assert engine.embedding.working
    finally:
        go_on.set()
    assert engine.embedding.embed(cancel=Cancel())
