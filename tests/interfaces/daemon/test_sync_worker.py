"""Background sync of cortexd: soon after a write, cancelled at the end, only with a Core."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from cortex.base.actors import person
from cortex.base.record_model import Thread
from cortex.base.runtime.sqlite_file_state import state_of
from cortex.base.settings import load
from cortex.engine.library import Library
from cortex.engine.store import STORE_NAME, Store
from cortex.families.team.sync import client as remote
from cortex.families.team.sync import connection as connecting
from cortex.families.team.sync.cycle import sync
from cortex.families.team.writes.create import create
from cortex.interfaces.assembly.pool import engine_pool
from cortex.interfaces.daemon import sync_worker
from cortex.interfaces.daemon.sync_worker import Syncing
from interfaces.daemon.sandbox import CORTEX, Sandbox
from interfaces.team_server.commands.core_server import CoreServer, core_at

Until = Callable[..., float]


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sync_worker, "LOOK_SECONDS", 0.02)


@pytest.fixture
def core(tmp_path: Path) -> Iterator[CoreServer]:
    with core_at(tmp_path / "core") as served:
        yield served


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    text = "indexing:\n  embeddingProvider: none\nteam:\n  sync_seconds: 3600\n"
    (folder / "config.yml").write_text(text, encoding="utf-8")
    return folder


@contextmanager
def at_work(home: Path, **more: bool) -> Iterator[Syncing]:
    """The background sync of a home, as cortexd has it."""
    engines = engine_pool(keep=True, linger=60)
    running = Syncing(engines, home, **more)
    running.start()
    try:
        yield running
    finally:
        running.close()
        engines.close()


def write(home: Path, title: str) -> None:
    """A write of another process."""
    with Library(load(None, environment={"CORTEX_HOME": str(home)})) as library:
        create(library, Thread(title, "It matters."), actor=person())


def join(home: Path, url: str, token: str) -> None:
    with Library(load(None, environment={"CORTEX_HOME": str(home)})) as library:
        connecting.connect(library, url, token)


def point_to(home: Path, url: str, token: str = "ctx_0_x") -> None:
    """Write the settings of a joined Core."""
    with closing(Store(home)) as store:
        store.content.set(
            {"core.url": url, "core.name": "ada", "core.epoch": "e", "core.view": "v"}
        )
    (home / connecting.TOKEN_FILE).write_text(token, encoding="utf-8")


def test_home_is_synced_on_joining_a_core_and_soon_after_each_write(
    home: Path, core: CoreServer, until: Until
):
    write(home, "Before")
    with at_work(home) as running:
        join(home, core.url, core.let_in("ada"))
        until(lambda: core.titles() == {"Before"})
        write(home, "After")
        until(lambda: core.titles() == {"Before", "After"})
        until(lambda: not running.has_work())


def test_token_in_the_environment_syncs_the_home(
    home: Path, core: CoreServer, until: Until, monkeypatch
):
    token = core.let_in("ada")
    join(home, core.url, token)
    (home / connecting.TOKEN_FILE).unlink()
    monkeypatch.setenv(connecting.TOKEN_VARIABLE, token)
    write(home, "Written")
    with at_work(home):
        until(lambda: core.titles() == {"Written"})


def test_home_without_a_core_is_not_opened(home: Path, until: Until):
    write(home, "Mine")
    engines = engine_pool(keep=False)
    running = Syncing(engines, home)
    for _ in range(3):
        running._look()
    assert engines._handles == [] and not running.has_work()
    running.close()


def test_unsent_writes_count_as_work_until_sent(home: Path, core: CoreServer, until: Until):
    join(home, core.url, core.let_in("ada"))
    core.stop()
    write(home, "Written offline")
    with at_work(home) as running:
        until(lambda: running._last is not None)
        assert running.has_work() and running._last.status == "offline"


def test_write_in_progress_at_the_check_is_synced_later(home: Path):
    point_to(home, "http://127.0.0.1:9")
    write(home, "Written slowly")
    running = Syncing(engine_pool(keep=False), home)
    path, written = home / STORE_NAME, time.time() - 5
    for file in (path, *home.glob(f"{STORE_NAME}-wal")):
        os.utime(file, (written, written))
    # The files of after the write, and none of its rows
    running._seen, running._seen_at = state_of(path), written
    for _ in range(2):  # reading makes an empty journal, which is a change once
        running._ask_store()
        assert running._waiting == 1
    running._waiting = 0
    running._ask_store()  # it was read, and the next look is later
    assert running._waiting == 0
    running.close()


def test_failure_that_needs_a_person_does_not_keep_cortexd_running(
    home: Path, core: CoreServer, until: Until
):
    join(home, core.url, core.let_in("ada"))
    (home / connecting.TOKEN_FILE).write_text("ctx_0_wrong", encoding="utf-8")
    write(home, "Never sent")
    with at_work(home) as running:
        until(lambda: running._last is not None)
        assert running._last.status == "failed" and not running.has_work()


def test_running_sync_is_cancelled_when_cortexd_ends(home: Path, until: Until):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        point_to(home, f"http://127.0.0.1:{silent.getsockname()[1]}")
        with at_work(home) as running:
            silent.settimeout(30)
            connection, _ = silent.accept()  # and never answer
            began = time.monotonic()
            running.close()
            assert time.monotonic() - began < remote.ANSWER_SECONDS / 2
            assert running._thread.daemon  # it holds up no exit
            connection.close()
            until(lambda: not running._thread.is_alive())


def test_first_sync_can_be_skipped(home: Path, core: CoreServer, until: Until):
    join(home, core.url, core.let_in("ada"))
    write(home, "Waits")
    with at_work(home, skip_first=True) as running:
        until(lambda: running._pace is not None)
        assert running._last is None and running.has_work()
        write(home, "Sent with the one before")
        until(lambda: core.titles() == {"Waits", "Sent with the one before"})


def test_zero_interval_disables_background_sync(home: Path, core: CoreServer, until: Until):
    (home / "config.yml").write_text("team:\n  sync_seconds: 0\n", encoding="utf-8")
    join(home, core.url, core.let_in("ada"))
    write(home, "Waits")
    with at_work(home) as running:
        until(lambda: running._pace is not None)
        write(home, "Waits, too")
        until(lambda: running._waiting == 2)
        assert not core.titles() and not running.has_work()


def test_idle_cortexd_exits_only_after_unsent_writes_are_sent(
    sandbox: Sandbox, core: CoreServer, until: Until
):
    sandbox.home.mkdir()
    text = "indexing:\n  embeddingProvider: none\nserver:\n  idleTimeout: 1s\n"
    (sandbox.home / "config.yml").write_text(text, encoding="utf-8")
    join(sandbox.home, core.url, core.let_in("ada"))
    core.stop()
    write(sandbox.home, "Written offline")
    command = [*CORTEX, "start", "--no-mcp-write", "--no-gitignore-write"]
    subprocess.run(
        command,
        env=sandbox.environment(),
        cwd=sandbox.root,
        check=True,
        capture_output=True,
        timeout=60,
    )
    pid = sandbox.pid()
    until(lambda: "offline" in (sandbox.home / "logs" / "cortexd.log").read_text(encoding="utf-8"))
    until(lambda: (sandbox.status() or {}).get("endsIn") == 0)  # over, but for what waits
    assert sandbox.pid() == pid
    core.start()
    settings = load(None, environment={"CORTEX_HOME": str(sandbox.home)})
    with Library(settings) as library, closing(connecting.remote_of(library)) as remote:
        assert sync(library, remote).status == "ok"  # by command, beside it
    assert core.titles() == {"Written offline"}
    until(lambda: not sandbox.cortexds(), 20)
