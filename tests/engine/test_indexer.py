"""Index runs: limits that keep the index, reused chunks, and files that change during a run."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from cortex.base.errors import FileError, LimitError
from cortex.base.settings import Settings, load
from cortex.base.types import Cancel, IndexReport, ScannedFile, Stamp
from cortex.engine import indexer
from cortex.engine.indexer import IndexTask
from cortex.engine.readers.unreadable import NO_PDF
from cortex.engine.sources.scanner import read_bytes
from cortex.engine.store import ContentChange, EmbeddingJob, Store
from cortex.engine.worker.pool import Pool

Run = Callable[..., IndexReport]


class CountingPool:
    """A pool that counts the files to cut."""

    def __init__(self) -> None:
        self._pool = Pool(1)
        self.cut = 0

    def cut_all(self, files, *rest, **more):
        def counted():
            for file in files:
                self.cut += 1
                yield file

        yield from self._pool.cut_all(counted(), *rest, **more)

    def close(self) -> None:
        self._pool.close()


@pytest.fixture(scope="module")
def shared_pool() -> Iterator[CountingPool]:
    pool = CountingPool()
    yield pool
    pool.close()


class Clock:
    """A clock on which a second passes with every file."""

    time, time_ns = staticmethod(time.time), staticmethod(time.time_ns)

    def __init__(self) -> None:
        self.now = 0.0

    def tick(self) -> None:
        self.now += 1.0

    def monotonic(self) -> float:
        return self.now


class Workspace:
    """A folder with its store, for many runs."""

    def __init__(self, root: Path, store: Store, pool: CountingPool) -> None:
        self.root, self.store, self.pool = root, store, pool
        self.source = store.content.source("files", "work", str(root))

    def settings(self, **flags: object) -> Settings:
        named = {name.replace("__", "."): value for name, value in flags.items()}
        return load(
            self.root, environment={"CORTEX_HOME": str(self.root.parent / "home")}, flags=named
        )

    def run(
        self,
        *,
        paths=None,
        force=False,
        progress=lambda step: None,
        cancel=None,
        embed=None,
        **flags: object,
    ) -> IndexReport:
        self.pool.cut = 0
        return indexer.run(
            IndexTask(
                self.store,
                self.source,
                self.settings(**flags),
                self.pool,  # type: ignore[arg-type]
                (EmbeddingJob(Stamp("test", "ones", 8), embed),) if embed else (),
                force=force,
                paths=paths,
                progress=progress,
                cancel=Cancel() if cancel is None else cancel,  # an unraised one is false
            )
        )

    def write(self, **texts: str) -> None:
        for name, text in texts.items():
            path = self.root / name.replace("__", "/").replace("_", ".")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")

    def many(self, count: int) -> None:
        for number in range(count):
            (self.root / f"f{number:03}.py").write_text(
                f"value_{number} = {number}\n", encoding="utf-8"
            )

    def texts(self) -> dict[str, str]:
        return {
            doc.path: self.store.content.text(doc.blob)
            for doc in self.store.content.docs(self.source.id)
        }


@pytest.fixture
def work(tmp_path: Path, shared_pool: CountingPool) -> Iterator[Workspace]:
    (tmp_path / "store").mkdir()
    (tmp_path / "work").mkdir()
    store = Store(tmp_path / "store")
    yield Workspace(tmp_path / "work", store, shared_pool)
    store.close()


def git(root: Path, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=root, check=True, capture_output=True, timeout=30)


@pytest.mark.parametrize("absolute", [False, True])
def test_chunk_files_of_a_project_are_not_indexed_as_source_files(work, absolute):
    work.write(
        lamp_py="def switch(): ...\n",
        chunks__code_json='{\n"chunks": [{"text": "def switch"}]\n}\n',
        other_json="{}\n",
    )
    work.write(chunks__about_md="# Chunks\n")
    folder = str(work.root / "chunks") if absolute else "chunks"
    work.run(server__chunksDir=folder)
    assert set(work.texts()) == {"lamp.py", "other.json", "chunks/about.md"}


def test_run_out_of_time_keeps_its_work_and_reports_the_rest(work, monkeypatch):
    clock = Clock()
    monkeypatch.setattr(indexer, "time", clock)
    work.many(600)
    with pytest.raises(LimitError) as caught:
        work.run(limits__processing__index_timeout=100, progress=lambda step: clock.tick())
    error = caught.value
    assert (error.code, error.retryable) == ("INDEX_TIMEOUT", True)
    done, left = error.context["files_processed"], error.context["files_remaining"]
    assert isinstance(done, int) and isinstance(left, int)
    assert done + left == 600
    assert len(work.texts()) == done > 0
    assert work.store.check() == []
    report = work.run()
    assert (report.status, report.added, report.unchanged) == ("completed", 600 - done, done)
    assert len(work.texts()) == 600


def test_scan_out_of_time_stops(work, monkeypatch):
    class Hasty(Clock):
        def monotonic(self) -> float:
            self.tick()
            return self.now

    monkeypatch.setattr(indexer, "time", Hasty())
    work.many(40)
    for paths in (None, [""]):
        with pytest.raises(LimitError) as caught:
            work.run(limits__processing__index_timeout=20, paths=paths)
        assert caught.value.code == "INDEX_TIMEOUT"
        assert caught.value.context["files_remaining"] == 0  # it isn't known yet how many there are


def test_embedding_out_of_time_keeps_the_lexical_index(work, monkeypatch):
    clock = Clock()
    monkeypatch.setattr(indexer, "time", clock)
    work.many(600)

    def embed(texts: list[str]) -> np.ndarray:
        clock.now += 1_000
        return np.ones((len(texts), 8), dtype=np.float32)

    with pytest.raises(LimitError) as caught:
        work.run(limits__processing__index_timeout=100, embed=embed)
    assert caught.value.code == "INDEX_TIMEOUT"
    assert len(work.texts()) == 600
    assert work.store.indexes.words().watermark() == work.store.content.seq()
    clock.now = -1e9  # as much time as it takes
    assert work.run(
        limits__processing__index_timeout=1000,
        embed=lambda texts: np.ones((len(texts), 8), np.float32),
    )


def test_a_forced_run_out_of_time_does_not_begin_to_rebuild(work, monkeypatch):
    clock = Clock()
    work.many(10)
    work.run()
    monkeypatch.setattr(indexer, "time", clock)
    monkeypatch.setattr(work.store.indexes, "rebuild", lambda: pytest.fail("rebuilt"))
    with pytest.raises(LimitError) as caught:
        work.run(
            limits__processing__index_timeout=10.5, force=True, progress=lambda step: clock.tick()
        )
    assert caught.value.code == "INDEX_TIMEOUT"


@pytest.mark.parametrize(
    ("flag", "code"),
    [("limits__memory__heap", "MEMORY_LIMIT"), ("limits__disk__database", "DISK_LIMIT")],
)
def test_run_over_a_limit_stops_and_keeps_the_index(work, flag, code):
    work.write(a_py="lamp = 1\n")
    work.run()
    work.write(b_py="desk = 1\n")
    with pytest.raises(LimitError) as caught:
        work.run(**{flag: 1000})
    assert caught.value.code == code
    assert caught.value.message.endswith(" than 1KB")
    assert work.texts() == {"a.py": "lamp = 1\n"}
    work.run()
    assert set(work.texts()) == {"a.py", "b.py"}


def test_limits_are_checked_during_a_run(work, monkeypatch):
    work.many(600)
    sizes = iter([0, 0, 10**12])
    monkeypatch.setattr(work.store, "disk_bytes", lambda: next(sizes))
    with pytest.raises(LimitError) as caught:
        work.run()
    assert caught.value.code == "DISK_LIMIT"
    assert 0 < len(work.texts()) < 600


def test_files_are_stored_in_steps_of_the_batch_size(work, monkeypatch):
    steps: list[int] = []
    apply = work.store.content.apply
    monkeypatch.setattr(
        work.store.content,
        "apply",
        lambda source, change: (steps.append(len(change)), apply(source, change)),
    )
    work.many(35)
    work.run(indexing__batch_size=10)
    assert steps == [10, 10, 10, 5]


def test_vectors_above_the_memory_limit_stop_only_the_embedding(work):
    asked: list[int] = []

    def embed(texts: list[str]) -> np.ndarray:
        asked.append(len(texts))
        return np.ones((len(texts), 8), dtype=np.float32)

    stamp = Stamp("test", "ones", 8)
    work.many(600)
    with pytest.raises(indexer.Stopped) as caught:
        work.run(embed=embed, limits__memory__embeddings=600 * 24)
    assert (caught.value.code, caught.value.report.added) == ("EMBEDDINGS_LIMIT", 600)
    assert caught.value.context["files_remaining"] == 0
    vectors = work.store.indexes.vectors(stamp)
    assert 0 < len(vectors.ids()) < 600
    assert (vectors.look().watermark, vectors.look().memory <= 600 * 24) == (-1, True)
    assert work.store.indexes.words().watermark() == work.store.content.seq()
    assert work.store.content.get(f"indexed:{work.source.id}")
    kept = len(vectors.ids())
    assert (sum(asked), work.run(embed=embed).unchanged) == (kept, 600)
    assert (sum(asked), work.store.indexes.sets.size(stamp)) == (600, 600)


def test_vectors_above_a_lowered_limit_are_kept_but_not_loaded(work, monkeypatch):
    def embed(texts: list[str]) -> np.ndarray:
        return np.ones((len(texts), 8), dtype=np.float32)

    stamp = Stamp("test", "ones", 8)
    work.many(40)
    work.run(embed=embed)
    vectors = work.store.indexes.vectors(stamp)
    work.write(more_py="lamp = 1\n")
    with monkeypatch.context() as patch, pytest.raises(LimitError) as caught:
        patch.setattr(vectors, "ids", lambda: pytest.fail("loaded"))
        work.run(embed=embed, limits__memory__embeddings=100)
    assert caught.value.code == "EMBEDDINGS_LIMIT"
    assert len(vectors.ids()) == 40
    for number in range(39):
        (work.root / f"f{number:03}.py").unlink()
    # Room for what is left
    work.run(embed=embed, limits__memory__embeddings=10 * vectors.look().row_bytes)
    assert len(vectors.ids()) == 2


def test_repeated_content_is_chunked_once(work):
    work.write(a_py="lamp = 1\n", b_py="lamp = 1\n", c_py="lamp = 1\n", c_txt="lamp = 1\n")
    report = work.run()
    assert (report.added, work.pool.cut) == (4, 2)  # once as Python, once as text


def test_rename_copy_and_touch_chunk_nothing_again(work):
    work.write(a_py="lamp = 1\n", b_py="desk = 1\n")
    work.run()
    (work.root / "a.py").rename(work.root / "moved.py")
    work.write(copy_py="desk = 1\n")
    os.utime(work.root / "b.py", (1, 1))
    report = work.run()
    assert (report.added, report.deleted, report.changed, work.pool.cut) == (2, 1, 0, 0)


def test_branch_switch_chunks_only_changes_and_the_way_back_nothing(work):
    work.many(20)
    git(work.root, "init", "-q")
    git(work.root, "add", ".")
    git(work.root, "commit", "-q", "-m", "first")
    work.run()
    git(work.root, "checkout", "-q", "-b", "other")
    work.write(f000_py="changed = 1\n", new_py="new = 1\n")
    (work.root / "f001.py").unlink()
    git(work.root, "add", "-A")
    git(work.root, "commit", "-q", "-m", "second")
    report = work.run()
    assert (report.added, report.changed, report.deleted, work.pool.cut) == (1, 1, 1, 2)
    git(work.root, "checkout", "-q", "main")
    report = work.run()
    assert (report.added, report.changed, report.deleted, work.pool.cut) == (1, 1, 1, 0)
    assert len(work.texts()) == 20


def test_gitignore_edit_removes_and_restores_files(work):
    git(work.root, "init", "-q")
    work.write(a_py="lamp = 1\n", out__b_py="desk = 1\n")
    work.run()
    (work.root / ".gitignore").write_text("out/\n", encoding="utf-8")
    work.run()
    assert "out/b.py" not in work.texts()
    (work.root / ".gitignore").unlink()
    work.run()
    assert "out/b.py" in work.texts()
    assert work.pool.cut == 0


def test_change_of_same_size_within_a_clock_tick_is_seen(work):
    """Only reading can tell, so a file written just now is read again."""
    work.write(a_py="lamp = 1\n")
    seen = (work.root / "a.py").stat()
    work.run()
    work.write(a_py="lamp = 2\n")
    os.utime(work.root / "a.py", ns=(seen.st_atime_ns, seen.st_mtime_ns))
    assert work.run().changed == 1
    assert work.texts() == {"a.py": "lamp = 2\n"}


def test_file_unchanged_for_long_is_not_read_again(work, monkeypatch):
    work.write(a_py="lamp = 1\n", b_py="desk = 1\n")
    os.utime(work.root / "a.py", (1_000_000, 1_000_000))
    work.run()
    read: list[str] = []

    def noting(root, path, size):
        read.append(path)
        return read_bytes(root, path, size)

    monkeypatch.setattr(indexer, "read_bytes", noting)
    work.run()
    assert read == ["b.py"]


def test_file_that_vanishes_during_a_run_is_ignored(work, monkeypatch):
    work.write(a_py="lamp = 1\n", b_py="desk = 1\n")
    work.run()
    work.write(a_py="lamp = 'new'\n", b_py="desk = 'new'\n", c_py="chair = 1\n")
    scan = indexer.scan

    def scan_then_lose(*arguments):
        found = scan(*arguments)
        (work.root / "b.py").unlink()
        (work.root / "c.py").unlink()
        return found

    monkeypatch.setattr(indexer, "scan", scan_then_lose)
    report = work.run()
    assert (report.changed, report.deleted, report.added, report.skipped) == (1, 1, 0, 0)
    assert work.texts() == {"a.py": "lamp = 'new'\n"}


def test_refused_files_are_counted_each_run_and_read_once(work):
    work.write(a_py="lamp = 1\n")
    (work.root / "b.bin").write_bytes(bytes(range(256)) * 4)
    os.utime(work.root / "b.bin", (1_000_000, 1_000_000))
    for _ in range(2):
        report = work.run()
        assert (report.skipped, set(work.texts())) == (1, {"a.py"})
    assert {skip.path for skip in work.store.content.skipped(work.source.id)} == {"b.bin"}


def test_a_file_that_becomes_unreadable_leaves_the_index(work):
    work.write(a_py="lamp = 1\n")
    work.run()
    (work.root / "a.py").write_bytes(b"\x00\x01\x02" * 500)
    report = work.run()
    assert (work.texts(), report.skipped) == ({}, 1)


@pytest.mark.parametrize("reason", ["timed out", "memory"])
def test_temporarily_refused_file_is_retried_after_an_hour(work, reason):
    work.write(a_py="lamp = 1\n", b_py="desk = 2\n")
    work.run()
    seen = (work.root / "b.py").stat()
    refused = ScannedFile("b.py", seen.st_size, seen.st_mtime_ns)
    work.store.content.apply(work.source.id, ContentChange(skips=[(refused, reason)]))
    assert work.run().added == 0
    work.store.content.set({f"retried:{work.source.id}": str(int(time.time()) - 3_601)})
    assert work.run(paths=["b.py"]).added == 0
    assert work.run().added == 1
    assert set(work.texts()) == {"a.py", "b.py"}


def test_pool_closed_during_a_run_leaves_it_unfinished(work):
    work.many(300)

    def close(step) -> None:
        if step.done == 40:
            work.pool.close()

    report = work.run(progress=close)
    assert report.status == "cancelled"
    assert work.store.content.get(f"indexed:{work.source.id}") == ""
    assert work.run().status == "completed"
    assert len(work.texts()) == 300


def test_failed_run_leaves_the_pool_usable(work):
    work.many(300)

    def fail(step) -> None:
        if step.done == 40:
            raise FileError("DISK_FULL", "full")

    # Whoever keeps the exception keeps the frames that it went through
    with pytest.raises(FileError) as kept:
        work.run(progress=fail)
    reports: list[IndexReport] = []
    thread = threading.Thread(target=lambda: reports.append(work.run()), daemon=True)
    thread.start()
    thread.join(20)
    assert [report.status for report in reports] == ["completed"]
    assert kept.value.code == "DISK_FULL"


def test_interrupted_change_of_chunk_size_is_finished_later(work):
    work.many(300)
    work.run()
    cancel = Cancel()
    work.run(
        indexing__chunk_size=100,
        cancel=cancel,
        progress=lambda step: cancel.cancel() if step.done > 100 else None,
    )
    report = work.run(indexing__chunk_size=100)
    assert report.status == "completed"
    assert report.changed + report.unchanged == 300
    assert report.changed > 0
    assert work.run(indexing__chunk_size=100).changed == 0


def test_files_above_the_file_limit_are_reported_and_new_ones_stay_out(work):
    work.many(5)
    work.run(workspace__max_files=3)
    assert set(work.texts()) == {"f000.py", "f001.py", "f002.py"}
    work.write(z_py="late = 1\n")
    work.run(workspace__max_files=3, paths=["z.py"])
    assert set(work.texts()) == {"f000.py", "f001.py", "f002.py"}
    over = {
        skip.path
        for skip in work.store.content.skipped(work.source.id)
        if skip.reason == "over maxFiles"
    }
    assert over == {"f003.py", "f004.py", "z.py"}


def test_progress_never_decreases_and_ends_at_the_total(work):
    work.many(100)
    steps = []
    work.run(progress=steps.append)
    assert steps[0].stage == "scanning"
    done = [step.done for step in steps[1:]]
    assert done == sorted(done)
    assert (done[-1], steps[-1].total) == (100, 100)


def test_file_refused_for_a_missing_extra_is_read_once_it_is_installed():
    file, reason = ScannedFile("a.pdf", 10, 20), "PDF needs an extra: pip install"
    assert not indexer._changed(file, None, (10, 20, reason), retry=False)
    assert indexer._changed(file, None, (10, 20, NO_PDF), retry=False)  # which the tests have


class FailingPool(CountingPool):
    """A pool with processes that end at their start, or at the first file."""

    def __init__(self, code: str) -> None:
        self._pool = Pool(1, command=[sys.executable, "-c", code])
        self.cut = 0


READY = "import sys, marshal; body = marshal.dumps('ready'); out = sys.stdout.buffer; "
READY += "out.write(len(body).to_bytes(8, 'little') + body); out.flush(); sys.stdin.buffer.read(8)"


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("", f"can't be started ({sys.executable} ended at once)"),
        (READY, "died at each of 2 files"),
    ],
)
def test_a_run_whose_workers_all_fail_is_an_error(work, code, message):
    work.many(2)
    shared, work.pool = work.pool, FailingPool(code)
    try:
        with pytest.raises(LimitError) as caught:
            work.run()
    finally:
        work.pool.close()
        work.pool = shared
    assert (caught.value.code, message in caught.value.message) == ("WORKER_FAILED", True)
    assert work.run().added == 2
