"""Index runs between processes: queueing, progress and failures in a shared store."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from cortex.base.errors import CortexError, FileError, LimitError, StoreError
from cortex.base.settings import load
from cortex.base.types import Cancel, Progress
from cortex.engine import indexer, run_queue
from cortex.engine.embedders.hash_embedder import HashingEmbedder
from cortex.engine.engine import Engine

DEADLINE = 20.0
Open = Callable[[], Engine]


@pytest.fixture
def open_engine(tmp_path: Path) -> Iterator[Open]:
    """Open engines on one folder; the first to index holds the lease, the others ask it."""
    root = tmp_path / "work"
    root.mkdir()
    (root / "pyproject.toml").write_text("[project]\n", encoding="utf-8")
    for number in range(30):
        (root / f"m{number}.py").write_text(f"value_{number} = {number}\n", encoding="utf-8")
    settings = load(
        root,
        environment={"CORTEX_HOME": str(tmp_path / "home")},
        flags={"indexing.workers": 1},
        user_home=tmp_path,
    )
    with ExitStack() as opened:
        yield lambda: opened.enter_context(Engine(root, settings))


@contextmanager
def serving(engine: Engine) -> Iterator[None]:
    """Serve requests to this engine, as an auto indexer does."""
    done = threading.Event()

    def serve() -> None:
        while not done.wait(0.01):
            engine.serve_requests()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join(DEADLINE)


def fail_with(error: Exception) -> Callable[..., object]:
    def fail(*_: object, **__: object) -> object:
        raise error

    return fail


@pytest.mark.parametrize(
    ("failure", "kind", "code"),
    [
        (OSError(5, "Input/output error"), StoreError, "STORE_IO"),
        (OSError(28, "No space left on device"), FileError, "DISK_FULL"),
        (ValueError("nobody thought of this"), CortexError, "INTERNAL_ERROR"),
    ],
)
def test_unexpected_failure_of_a_run_is_in_the_status_and_the_log(
    open_engine, monkeypatch, failure, kind, code
):
    engine = open_engine()
    engine.index()
    before = len(engine.operations(100))
    monkeypatch.setattr(indexer, "scan", fail_with(failure))
    with pytest.raises(kind) as caught:
        engine.index()
    assert caught.value.code == code
    assert (engine.freshness().state, engine.freshness().error) == ("error", caught.value.message)
    assert len(engine.operations(100)) == before + 1
    assert engine.operations(1)[0].detail["error"] == code
    monkeypatch.undo()
    engine.index()
    assert engine.freshness().state == "ready"


@pytest.mark.parametrize(
    ("failure", "kind", "code"),
    [
        (OSError(5, "Input/output error"), StoreError, "STORE_IO"),
        (StoreError("STORE_LOCKED", "somebody else writes"), StoreError, "STORE_LOCKED"),
        (FileError("DISK_FULL", "full"), FileError, "DISK_FULL"),
        (LimitError("INDEX_TIMEOUT", "too late"), LimitError, "INDEX_TIMEOUT"),
    ],
)
def test_failure_in_the_lease_holder_reaches_the_caller_as_its_error_class(
    open_engine, monkeypatch, failure, kind, code
):
    holder, other = open_engine(), open_engine()
    holder.index()
    monkeypatch.setattr(indexer, "scan", fail_with(failure))
    with serving(holder), pytest.raises(kind) as caught:
        other.index()
    assert caught.value.code == code


def test_failure_after_a_run_is_reported(open_engine, monkeypatch):
    holder, other = open_engine(), open_engine()
    holder.index()
    monkeypatch.setattr(holder.store.indexes, "tidy", fail_with(RuntimeError("the words are odd")))
    with serving(holder), pytest.raises(CortexError) as caught:
        other.index()
    assert caught.value.code == "INTERNAL_ERROR"


def test_progress_of_a_run_in_the_holder_reaches_the_caller(open_engine, monkeypatch):
    monkeypatch.setattr(run_queue, "TELL_SECONDS", 0.0)
    holder, other = open_engine(), open_engine()
    holder.index()
    heard = threading.Event()
    steps: list[Progress] = []

    def hear(step: Progress) -> None:
        steps.append(step)
        if step.total:
            heard.set()

    tell = holder.store.log.tell

    def tell_and_wait(request: int, step: Progress) -> None:
        tell(request, step)
        if step.total:
            heard.wait(DEADLINE)

    monkeypatch.setattr(holder.store.log, "tell", tell_and_wait)
    with serving(holder):
        assert other.index(force=True, progress=hear).changed == 31
    assert any(step.stage == "reading" and step.total == 31 for step in steps)


def test_second_forced_run_is_refused_after_a_takeover(open_engine):
    first = open_engine()
    first.index(force=True, limited=True)
    first.close()
    second = open_engine()
    with pytest.raises(LimitError) as caught:
        second.index(force=True, limited=True)
    assert caught.value.code == "RATE_LIMITED"
    assert 0 < caught.value.context["retry_after_seconds"] <= 60
    assert second.index(force=True).status == "completed"


def test_few_runs_wait_however_many_are_requested_at_once(open_engine):
    engine, inside, go_on = open_engine(), threading.Event(), threading.Event()

    def hold(step: Progress) -> None:
        inside.set()
        go_on.wait(DEADLINE)

    run = threading.Thread(target=engine.index, kwargs={"progress": hold})
    run.start()
    assert inside.wait(DEADLINE)
    codes: list[str] = []
    cancel = Cancel()

    def wait() -> None:
        try:
            engine.index(cancel=cancel)
        except CortexError as error:
            codes.append(error.code)

    waiting = [threading.Thread(target=wait) for _ in range(20)]
    for thread in waiting:
        thread.start()
    while len(codes) < 20 - run_queue.WAITING_RUNS:
        assert any(thread.is_alive() for thread in waiting)
    cancel.cancel()
    for thread in waiting:
        thread.join(DEADLINE)
    go_on.set()
    run.join(DEADLINE)
    assert sorted(codes) == ["CANCELLED"] * run_queue.WAITING_RUNS + ["INDEX_BUSY"] * (
        20 - run_queue.WAITING_RUNS
    )


@contextmanager
def held_run(engine: Engine) -> Iterator[None]:
    """A forced run that is under way until the block ends."""
    begun, go_on = threading.Event(), threading.Event()

    def hold(step: Progress) -> None:
        if step.total:
            begun.set()
            go_on.wait(DEADLINE)

    thread = threading.Thread(target=lambda: engine.index(force=True, progress=hold))
    thread.start()
    try:
        assert begun.wait(DEADLINE)
        yield
    finally:
        go_on.set()
        thread.join(DEADLINE)


def test_run_is_visible_without_the_lease_only_while_it_lasts(open_engine, monkeypatch):
    monkeypatch.setattr(run_queue, "TELL_SECONDS", 0.0)
    holder, other = open_engine(), open_engine()
    holder.index()
    with held_run(holder):
        seen = other.freshness()
        assert (seen.state, 0 < seen.progress < 1) == ("indexing", True)
        assert other.vitals().total_files == 31
    assert (other.freshness().state, other.freshness().progress) == ("ready", 1.0)
    # What a process that was killed leaves behind is not believed: it holds no lease.
    holder.store.content.set({f"running:{holder.source.id}": '[1, "reading", 5, 10]'})
    assert other.freshness().state == "ready"


def test_forced_run_joins_the_one_under_way_from_any_engine(open_engine, until):
    holder, other = open_engine(), open_engine()
    holder.index()
    reports = []
    waiting = threading.Semaphore(0)

    def force(engine: Engine) -> None:
        reports.append(
            engine.index(force=True, limited=True, progress=lambda step: waiting.release())
        )

    with serving(holder):
        with held_run(holder):
            threads = [threading.Thread(target=force, args=(engine,)) for engine in (holder, other)]
            for thread in threads:
                thread.start()
            for _ in threads:
                assert waiting.acquire(timeout=DEADLINE)
        for thread in threads:
            thread.join(DEADLINE)
    assert [report.changed for report in reports] == [31, 31]
    forced = [operation for operation in holder.operations(100) if operation.detail.get("force")]
    assert len(forced) == 1


def test_forced_run_that_joined_a_cancelled_one_runs_itself(open_engine, monkeypatch):
    engine = open_engine()
    engine.index()
    begun, go_on = threading.Event(), threading.Event()
    cancel = Cancel()

    def hold(step: Progress) -> None:
        if step.total:
            begun.set()
            go_on.wait(DEADLINE)
            cancel.cancel()

    first = threading.Thread(
        target=lambda: engine.index(force=True, limited=True, progress=hold, cancel=cancel)
    )
    first.start()
    assert begun.wait(DEADLINE)
    reports = []
    joined = threading.Event()
    second = threading.Thread(
        target=lambda: reports.append(
            engine.index(force=True, limited=True, progress=lambda step: joined.set())
        )
    )
    second.start()
    assert joined.wait(DEADLINE)
    go_on.set()
    first.join(DEADLINE)
    second.join(DEADLINE)
    assert [(report.status, report.changed) for report in reports] == [("completed", 31)]


def test_silent_lease_holder_is_waited_for_briefly_and_reported(open_engine, monkeypatch, caplog):
    monkeypatch.setattr(run_queue, "NOTICE_SECONDS", 0.05)
    monkeypatch.setattr(run_queue, "SILENCE_SECONDS", 0.4)
    holder, other = open_engine(), open_engine()
    holder.index()
    with pytest.raises(StoreError) as caught:
        other.index()
    assert caught.value.code == "STORE_LOCKED" and "has not answered" in caught.value.message
    assert "cortex restart" in caught.value.suggestions[0]
    assert [record.message for record in caplog.records if "waiting for process" in record.message]
    assert not holder.store.log.asked(0)


def test_working_lease_holder_is_waited_for(open_engine, monkeypatch, until):
    monkeypatch.setattr(run_queue, "BEAT_SECONDS", 0.05)
    monkeypatch.setattr(run_queue, "SILENCE_SECONDS", 1.0)
    holder, other = open_engine(), open_engine()
    holder.index()
    looks, scan, waited = threading.Event(), indexer.scan, threading.Event()

    def look_slowly(*given: object, **more: object) -> object:
        looks.set()
        assert waited.wait(DEADLINE)
        return scan(*given, **more)

    monkeypatch.setattr(indexer, "scan", look_slowly)
    with serving(holder):
        asking = threading.Thread(target=lambda: reports.append(other.index()))
        reports: list[object] = []
        asking.start()
        assert looks.wait(DEADLINE)
        began = time.monotonic()
        until(lambda: time.monotonic() - began > 2 * run_queue.SILENCE_SECONDS)
        waited.set()
        asking.join(DEADLINE)
    assert len(reports) == 1


def test_lease_holder_reports_progress_while_indexes_catch_up(open_engine, monkeypatch, until):
    monkeypatch.setattr(run_queue, "BEAT_SECONDS", 0.01)
    first = open_engine()
    first.index()
    first.close()
    signs: list[str] = []

    class Slow(HashingEmbedder):
        def embed(self, texts, mode):
            if not signs:
                log = holder.store.log
                number = log.ask(holder.source.id, False, False, None)
                until(lambda: log.sign(number))
                signs.append(log.sign(number))
            return super().embed(texts, mode)

    with Engine(first.root, first.settings, embedder=Slow()) as holder:
        assert holder.holds_lease()
        holder.catch_up()
    assert signs
