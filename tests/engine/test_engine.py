"""The engine end to end: index, put, forget, search, under changes, limits and losses."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil
import pytest

from cortex.base.errors import Cancelled, CortexError
from cortex.base.paths import ensure_store_dir
from cortex.base.settings import load
from cortex.base.types import Cancel, Mode, Note, Query
from cortex.engine import auto_indexer as keeper_module
from cortex.engine import engine as engine_module
from cortex.engine import index_repair
from cortex.engine.embedders.hash_embedder import HashingEmbedder
from cortex.engine.engine import Engine
from cortex.engine.store import report_damage

DEADLINE = 20.0
Open = Callable[..., Engine]
LAMP = 'def switch_lamp(state):\n    """Turn the lamp on or off."""\n    return not state\n'
DESK = "class Desk:\n    def drawers(self):\n        return 3\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    write(folder, {"pyproject.toml": "[project]\n", "src/lamp.py": LAMP, "src/desk.py": DESK})
    return folder


@pytest.fixture
def open_engine(root: Path, tmp_path: Path) -> Iterator[Open]:
    """Open engines on the test's folder, with settings as keyword `flags`, and close them."""
    with ExitStack() as opened:

        def open_one(embedder=None, **flags: object) -> Engine:
            named = {name.replace("__", "."): value for name, value in flags.items()}
            settings = load(
                root,
                environment={"CORTEX_HOME": str(tmp_path / "home")},
                flags={"indexing.workers": 1, **named},
                user_home=tmp_path,
            )
            return opened.enter_context(Engine(root, settings, embedder=embedder))

        yield open_one


def write(root: Path, texts: dict[str, str]) -> None:
    for path, text in texts.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")


def paths(engine: Engine, text: str, mode: Mode = Mode.WORDS, **more) -> list[str]:
    return [hit.path for hit in engine.search(Query(text, mode=mode, **more)).hits]


def code_of(work: Callable[[], object]) -> str:
    with pytest.raises(CortexError) as caught:
        work()
    return caught.value.code


# -- index and search
# ------------------------------------------------------------------------------------------------------


def test_indexed_file_is_found_with_its_lines_and_text(open_engine):
    engine = open_engine()
    report = engine.index()
    assert (report.status, report.added, report.changed, report.deleted) == ("completed", 3, 0, 0)
    hit = engine.search(Query("switch lamp", mode=Mode.WORDS)).hits[0]
    assert (hit.path, hit.start_line, hit.end_line, hit.name) == (
        "src/lamp.py",
        1,
        3,
        "switch_lamp",
    )
    assert hit.text == LAMP.rstrip("\n")
    assert engine.store.check() == []


def test_second_run_shortly_after_the_first_finds_nothing_to_do(open_engine):
    engine = open_engine()
    engine.index()
    seq = engine.store.content.seq()
    report = engine.index()
    assert (report.added, report.changed, report.deleted, report.unchanged) == (0, 0, 0, 3)
    assert engine.store.content.seq() == seq


def test_changes_deletions_and_renames_are_indexed(open_engine, root):
    engine = open_engine()
    engine.index()
    write(root, {"src/lamp.py": "def chandelier():\n    return 1\n"})
    (root / "src/desk.py").rename(root / "src/table.py")
    report = engine.index()
    assert (report.added, report.changed, report.deleted) == (1, 1, 1)
    assert paths(engine, "switch") == []
    assert paths(engine, "chandelier") == ["src/lamp.py"]
    assert paths(engine, "Desk drawers") == ["src/table.py"]


def test_run_over_named_paths_looks_at_no_others(open_engine, root):
    engine = open_engine()
    engine.index()
    write(root, {"src/new.py": "brand_new = 1\n", "other.py": "brand_new = 2\n"})
    (root / "src/desk.py").unlink()
    report = engine.index(paths=["src/"])
    assert (report.added, report.deleted) == (1, 1)
    assert paths(engine, "brand_new") == ["src/new.py"]


def test_a_folder_that_vanished_is_an_error_and_not_an_empty_one(open_engine, root):
    engine = open_engine()
    engine.index()
    moved = root.with_name("moved")
    root.rename(moved)
    assert code_of(engine.index) == "FILE_NOT_FOUND"
    moved.rename(root)
    assert set(engine.store.content.known(engine.source.id)) == {
        "pyproject.toml",
        "src/desk.py",
        "src/lamp.py",
    }


def test_an_empty_query_is_refused(open_engine):
    assert code_of(lambda: open_engine().search(Query("  "))) == "QUERY_EMPTY"


def test_answer_without_an_embedder_says_so(open_engine):
    engine = open_engine(indexing__embeddingProvider="none")
    engine.index()
    page = engine.search(Query("lamp"))
    assert page.mode is Mode.WORDS
    assert any("no embedder" in note for note in page.notes)


def test_cancelled_run_keeps_its_work_and_the_next_continues(open_engine, root):
    write(root, {f"many/f{number}.py": f"value_{number} = {number}\n" for number in range(150)})
    engine, cancel = open_engine(), Cancel()

    def stop_halfway(step) -> None:
        if step.done >= 50:
            cancel.cancel()

    assert engine.index(progress=stop_halfway, cancel=cancel).status == "cancelled"
    kept = len(engine.store.content.known(engine.source.id))
    assert 0 < kept < 153
    assert engine.freshness().state == "indexing"
    report = engine.index()
    assert (report.status, report.added) == ("completed", 153 - kept)
    assert engine.freshness().state == "ready"


def test_search_without_an_index_says_so(open_engine):
    page = open_engine().search(Query("lamp"))
    assert page.hits == ()
    assert any("not fully indexed" in note for note in page.notes)


@contextmanager
def paused_run(engine, is_reached):
    """An index run paused at a step of its progress while the block lasts."""
    reached, go_on = threading.Event(), threading.Event()

    def pause(step) -> None:
        if is_reached(step) and not reached.is_set():
            reached.set()
            go_on.wait(DEADLINE)

    run = threading.Thread(target=engine.index, kwargs={"progress": pause})
    run.start()
    try:
        assert reached.wait(DEADLINE)
        yield
    finally:
        go_on.set()
        run.join(DEADLINE)


@pytest.fixture
def half_read(open_engine, root, monkeypatch):
    """An engine with a first run paused after half of the files, and the event to go on."""
    monkeypatch.setattr("cortex.engine.indexer.FIRST_CATCH_UP_SECONDS", 0.0)
    write(root, {f"many/f{number}.py": f"value_{number} = 'crumb'\n" for number in range(200)})
    engine = open_engine(indexing__batch_size=20)
    return engine, paused_run(engine, lambda step: step.done >= 100)


def test_query_during_the_first_run_is_answered_from_indexed_files_with_a_note(half_read):
    engine, paused = half_read
    with paused:
        started = time.monotonic()
        page = engine.search(Query("crumb", mode=Mode.WORDS))
        assert time.monotonic() - started < 2
    assert page.hits
    assert "first index is under way" in page.notes[0]
    assert engine.search(Query("crumb", mode=Mode.WORDS)).notes == ()


def test_query_during_the_first_run_waits_for_files_with_fitting_paths(open_engine, root, until):
    many = {f"aaa/f{number}.py": f"value_{number} = {number}\n" for number in range(600)}
    write(root, {**many, "zzz/cookie_jar.py": "def bake():\n    return 'crumbs'\n"})
    engine, asked = open_engine(), []
    question = threading.Thread(
        target=lambda: asked.append(engine.search(Query("where are cookies baked")))
    )
    with paused_run(engine, lambda step: step.stage == "reading"):
        question.start()
        queue = engine._runs.queue
        assert queue is not None
        until(lambda: queue._preferences)
    question.join(DEADLINE)
    assert asked[0].hits[0].path == "zzz/cookie_jar.py"


def test_query_during_the_first_run_never_reports_no_hits(half_read, monkeypatch):
    monkeypatch.setattr("cortex.engine.searcher.FIRST_ANSWER_SECONDS", 0.2)
    engine, paused = half_read
    strict = Query("a lamp that is nowhere described", threshold=1.0)
    with paused:
        page = engine.search(strict)
    assert page.is_partial and not page.hits
    assert "not read yet" in page.notes[0] and "ask again" in page.notes[0]
    assert not any("threshold" in note for note in page.notes)
    after = engine.search(strict)
    assert not after.is_partial and any("threshold" in note for note in after.notes)


def test_query_waits_for_a_short_interrupted_first_run(open_engine, root, monkeypatch):
    monkeypatch.setattr("cortex.engine.indexer.FLUSH_SECONDS", 0.0)
    write(root, {f"many/f{number}.py": f"value_{number} = {number}\n" for number in range(20)})
    first, cancel = open_engine(indexing__batch_size=1), Cancel()
    first.index(cancel=cancel, progress=lambda step: cancel.cancel() if step.done >= 2 else None)
    first.close()
    write(root, {"late.py": "def late_comer():\n    pass\n"})
    engine = open_engine()
    assert engine.store.indexes.state()[1] >= 1  # some words are there
    reached, go_on = threading.Event(), threading.Event()

    def pause(step) -> None:
        reached.set()
        go_on.wait(DEADLINE)

    run = threading.Thread(target=engine.index, kwargs={"progress": pause})
    run.start()
    assert reached.wait(DEADLINE)
    threading.Timer(0.3, go_on.set).start()
    assert paths(engine, "late_comer") == ["late.py"]
    run.join(DEADLINE)


# -- force, settings, limits
# -----------------------------------------------------------------------------------------------


def test_forced_run_chunks_everything_again_and_leaves_nothing_old(open_engine):
    engine = open_engine()
    engine.index()
    before = {known.blob for known in engine.store.content.known(engine.source.id).values()}
    report = engine.index(force=True)
    after = {known.blob for known in engine.store.content.known(engine.source.id).values()}
    assert (report.changed, before & after) == (3, set())
    assert all(engine.store.content.text(blob) == "" for blob in before)
    assert engine.store.check() == []


def test_second_limited_forced_run_within_a_minute_is_refused(open_engine):
    engine = open_engine()
    engine.index(force=True, limited=True)
    assert code_of(lambda: engine.index(force=True, limited=True)) == "RATE_LIMITED"
    assert engine.index(force=True).status == "completed"


def test_forced_run_waits_for_the_run_under_way(open_engine):
    engine, inside, go_on = open_engine(), threading.Event(), threading.Event()

    def hold(step) -> None:
        inside.set()
        go_on.wait(DEADLINE)

    run = threading.Thread(target=engine.index, kwargs={"progress": hold})
    run.start()
    assert inside.wait(DEADLINE)
    steps = []

    def release(step) -> None:
        steps.append(step)
        go_on.set()

    assert engine.index(force=True, progress=release).status == "completed"
    assert steps[0].stage == "scanning"
    run.join(DEADLINE)


def test_another_chunk_size_chunks_everything_again(open_engine, root):
    write(
        root,
        {"long.txt": "".join(f"line {number} of many words in a row\n" for number in range(300))},
    )
    first = open_engine()
    first.index()
    coarse = first.store.content.counts(first.source.id).chunks
    first.close()
    second = open_engine(indexing__chunk_size=60)
    second.index()
    assert second.store.content.counts(second.source.id).chunks > 2 * coarse
    assert second.index().changed == 0
    assert second.store.check() == []


def test_old_log_lines_and_unused_content_are_cleaned_up(open_engine, root, monkeypatch):
    engine = open_engine()
    engine.index()
    blob = engine.store.content.known(engine.source.id)["src/desk.py"].blob
    (root / "src/desk.py").unlink()
    engine.index()
    engine.clean_up()
    assert engine.operations()
    assert engine.store.content.text(blob) == DESK
    later = time.time() + 31 * 86_400
    monkeypatch.setattr(engine_module.time, "time", lambda: later)
    engine.clean_up()
    assert engine.operations() == []
    assert engine.store.content.text(blob) == ""
    assert engine.vitals().last_cleanup


def test_operation_log_has_every_run_setting_change_and_deletion(open_engine, root):
    engine = open_engine()
    engine.index()
    (root / "src/desk.py").unlink()
    engine.index()
    engine.state.change({"search.cacheSize": "1MB"}, "a test")
    assert [line.what for line in engine.operations()] == ["config", "delete", "index", "index"]
    engine.index(paths=["src/lamp.py"])
    last = engine.operations(1)[0]
    # Though nothing changed
    assert (last.what, last.detail["unchanged"], last.detail["whole"]) == ("index", 1, False)


def test_operation_log_keeps_to_its_limit_on_disk(open_engine):
    engine = open_engine(limits__disk__logs="1KB")
    for _ in range(20):
        engine.index(paths=["src/lamp.py"])
    engine.clean_up()
    kept = engine.operations(100)
    assert 0 < len(kept) < 10
    assert sum(len(str(dict(line.detail))) for line in kept) <= 1000


# -- the cache
# -------------------------------------------------------------------------------------------------------------


def test_repeated_query_is_answered_from_the_cache_until_a_change(open_engine, root):
    engine = open_engine()
    engine.index()
    answers = [engine.search(Query("lamp", mode=Mode.WORDS)) for _ in range(4)]
    assert [page.cached for page in answers] == [False, True, True, True]
    assert engine.vitals().cache_hit_rate == 0.75
    assert engine.vitals().cache_bytes > 0
    write(root, {"src/new.py": "lamp = 1\n"})
    engine.index()
    page = engine.search(Query("lamp", mode=Mode.WORDS))
    assert not page.cached
    assert "src/new.py" in [hit.path for hit in page.hits]


def test_answer_from_before_the_catch_up_is_not_cached(open_engine, root, monkeypatch):
    engine = open_engine()
    engine.index()
    write(root, {"src/new.py": "value = 'glow'\n"})
    catch_up = engine.store.indexes.catch_up
    seen: list[list[str]] = []

    def ask_first(*how) -> None:
        seen.append(paths(engine, "glow"))  # SQLite has the file, the words haven't
        catch_up(*how)

    monkeypatch.setattr(engine.store.indexes, "catch_up", ask_first)
    engine.index()
    assert seen == [[]]
    assert paths(engine, "glow") == ["src/new.py"]


def test_no_answer_is_cached_where_caching_is_off(open_engine):
    engine = open_engine(search__enable_caching=False)
    engine.index()
    assert not any(engine.search(Query("lamp")).cached for _ in range(3))
    assert engine.vitals().cache_hit_rate == 0.0


# -- exact and fullworkspace
# -----------------------------------------------------------------------------------------------


def test_exact_mode_reads_the_current_files(open_engine, root):
    engine = open_engine()
    engine.index()
    write(root, {"src/new.py": "a = 1\nneedle = 'sharp'\n"})
    page = engine.search(Query("needle = 'sharp'", mode=Mode.EXACT))
    assert [(hit.path, hit.start_line, hit.end_line) for hit in page.hits] == [("src/new.py", 1, 2)]
    assert paths(engine, r"needle\s*=", Mode.EXACT, regex=True) == ["src/new.py"]
    assert paths(engine, "needle", Mode.EXACT, path="other") == []


def test_exact_mode_says_when_it_stops_early_and_narrows_by_language(open_engine, root):
    write(
        root,
        {"long.txt": "needle\n" * 2_500, "run": "#!/bin/sh\necho needle\n", "other": "needle\n"},
    )
    engine = open_engine()
    assert any(
        "stopped at 2,000 matches" in note
        for note in engine.search(Query("needle", mode=Mode.EXACT)).notes
    )
    page = engine.search(Query("needle", mode=Mode.EXACT, languages=("bash",)))
    assert [(hit.path, hit.language) for hit in page.hits] == [("run", "bash")]
    assert (page.docs, page.notes) == (1, ())


def test_exponential_expression_in_exact_mode_is_stopped(open_engine, root):
    write(root, {"bomb.txt": "a" * 400 + "!\n"})
    engine = open_engine(search__timeout="300ms")
    started = time.monotonic()
    assert (
        code_of(lambda: engine.search(Query(r"(a|aa)+$", mode=Mode.EXACT, regex=True)))
        == "REGEX_TIMEOUT"
    )
    assert time.monotonic() - started < 3


def test_an_invalid_expression_is_refused(open_engine):
    assert (
        code_of(lambda: open_engine().search(Query("(", mode=Mode.EXACT, regex=True)))
        == "REGEX_INVALID"
    )


def test_fullworkspace_answers_without_an_index_and_makes_none(open_engine, root):
    engine = open_engine()
    page = engine.search(Query("switch lamp", mode=Mode.FULL))
    assert page.mode is Mode.FULL
    assert page.hits[0].path == "src/lamp.py"
    assert engine.store.content.known(engine.source.id) == {}
    write(root, {"src/new.py": "needle = 1\n"})
    assert paths(engine, "needle", Mode.FULL) == ["src/new.py"]


def test_concurrent_fullworkspace_searches_are_all_answered(open_engine, root):
    write(root, {f"many/f{number}.py": f"value_{number} = {number}\n" for number in range(100)})
    engine = open_engine()
    with ThreadPoolExecutor(10) as threads:
        pages = list(
            threads.map(
                lambda number: engine.search(Query(f"value_{number}", mode=Mode.FULL)), range(10)
            )
        )
    assert [page.hits[0].path for page in pages] == [f"many/f{number}.py" for number in range(10)]


def test_fullworkspace_cache_is_released_when_idle(open_engine):
    engine = open_engine()
    before = set(psutil.Process().children())
    assert paths(engine, "switch lamp", Mode.FULL) == ["src/lamp.py"]
    engine.release_idle(60)
    assert set(psutil.Process().children()) - before
    engine.release_idle(0)
    assert not set(psutil.Process().children()) - before
    assert paths(engine, "switch lamp", Mode.FULL) == ["src/lamp.py"]


@pytest.mark.skipif(sys.platform != "linux", reason="only there memory is told and given back")
def test_memory_of_a_fullworkspace_search_is_returned(root):
    words = "".join(
        f"    value_{number} = lamp_{number} + desk_{number}\n" for number in range(300)
    )
    write(root, {f"many/f{number}.py": f"def part_{number}():\n{words}" for number in range(150)})
    # In a process of its own: what is free between the leftovers of a thousand tests tells nothing.
    script = (
        "import sys\n"
        "from cortex import Mode, Query, open_engine\n"
        "from cortex.base.runtime.process_stats import memory_bytes\n"
        "with open_engine(sys.argv[1]) as engine:\n"
        "    engine.search(Query('lamp_7', mode=Mode.FULL))\n"
        "    engine.release_idle(0)  # what stays is loaded by now: modules, tables of words\n"
        "    before = memory_bytes()\n"
        "    engine.search(Query('lamp_7', mode=Mode.FULL))\n"
        "    taken = memory_bytes() - before\n"
        "    engine.release_idle(0)\n"
        "    print(taken, memory_bytes() - before)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(root)], capture_output=True, text=True, timeout=60
    )
    taken, kept = map(int, done.stdout.split())
    assert kept < taken / 2


def test_auto_indexer_without_the_lease_releases_the_fullworkspace_cache(
    open_engine, monkeypatch, until
):
    monkeypatch.setattr(keeper_module, "IDLE_WORKER_SECONDS", 0.0)
    monkeypatch.setattr(keeper_module, "LEASE_SECONDS", 0.02)
    holder, reader = open_engine(), open_engine()
    holder.index()
    before = set(psutil.Process().children())
    reader.search(Query("switch lamp", mode=Mode.FULL))
    assert set(psutil.Process().children()) - before
    keeper = keeper_module.AutoIndexer(reader)
    until(lambda: not set(psutil.Process().children()) - before, DEADLINE)
    keeper.close()


def test_fullworkspace_on_many_files_answers_from_the_index_and_says_so(open_engine, monkeypatch):
    monkeypatch.setattr("cortex.engine.searcher.FULL_MODE_FILES", 2)
    engine = open_engine()
    engine.index()
    page = engine.search(Query("switch lamp", mode=Mode.FULL))
    assert page.hits[0].path == "src/lamp.py"
    assert page.mode is Mode.HYBRID
    assert any("fullworkspace reads at most" in note for note in page.notes)


def test_fullworkspace_search_keeps_to_its_time_limit(open_engine):
    engine = open_engine(search__timeout="1ms")
    assert code_of(lambda: engine.search(Query("lamp", mode=Mode.FULL))) == "SEARCH_TIMEOUT"


def test_a_cancelled_search_ends(open_engine):
    engine, cancel = open_engine(), Cancel()
    engine.index()
    cancel.cancel()
    for mode in (Mode.WORDS, Mode.EXACT, Mode.FULL):
        with pytest.raises(Cancelled):
            engine.search(Query("lamp", mode=mode), cancel=cancel)


# -- put and forget
# --------------------------------------------------------------------------------------------------------


def test_put_text_is_found_at_once_and_can_be_forgotten(open_engine):
    engine = open_engine(indexing__embeddingProvider="none")
    first, second = engine.put(
        [Note("notes", "one", "# Lamp\n\nbright\n"), Note("notes", "two", "# Desk\n\nwide\n")]
    )
    notes = engine.store.content.source("records", "notes", "")
    assert [hit.doc for hit in engine.search(Query("bright"), sources=[notes]).hits] == [first]
    assert engine.search(Query("bright")).hits == ()  # another source
    (changed,) = engine.put([Note("notes", "one", "# Lamp\n\ndark\n")])
    assert changed not in (first, second)
    assert engine.search(Query("bright"), sources=[notes]).hits == ()
    engine.forget([changed])
    assert engine.search(Query("dark"), sources=[notes]).hits == ()
    assert [hit.doc for hit in engine.search(Query("wide"), sources=[notes]).hits] == [second]
    assert engine.store.check() == []


def test_put_needs_the_lease(open_engine):
    open_engine().store.lease.take()
    second = open_engine()
    assert code_of(lambda: second.put([Note("notes", "one", "text")])) == "STORE_LOCKED"
    assert code_of(lambda: second.forget([1])) == "STORE_LOCKED"


# -- secrets
# ---------------------------------------------------------------------------------------------------------------


def test_secrets_are_not_in_the_store(open_engine, root):
    canary = "CANARY7f3a91bb52c04d"
    key = f"-----BEGIN RSA PRIVATE KEY-----\n{canary}{'A' * 60}\n-----END RSA PRIVATE KEY-----\n"
    write(
        root,
        {
            ".env": f"TOKEN={canary}\n",
            "deploy.pem": key,
            "src/notes.txt": key,
            ".ssh/id_rsa": canary,
        },
    )
    write(root, {"src/plain.py": "visible_word = 1\n"})
    engine = open_engine(HashingEmbedder())
    engine.index()
    engine.index(force=True)
    assert paths(engine, "visible_word") == ["src/plain.py"]
    everything = [
        text
        for doc in engine.store.content.docs(engine.source.id)
        for text in [engine.store.content.text(doc.blob)]
    ]
    with engine.store._connections.read() as connection:
        everything += [
            zlib.decompress(row[0]).decode() for row in connection.execute("SELECT text FROM blobs")
        ]
    assert not any(canary in text for text in everything)
    directory = engine.store.directory
    engine.close()
    raw = b"".join(
        file.read_bytes() for file in sorted(directory.rglob("*")) if file.is_file()
    ).lower()
    assert canary.lower().encode() not in raw
    assert b"visible_word" in raw or b"visibleword" in raw  # the check would have seen it


# -- meaning
# ---------------------------------------------------------------------------------------------------------------


def ids(engine: Engine) -> tuple[set, set, set]:
    """The chunks in use by SQLite, the lexical index and the vectors."""
    truth = {
        (doc.id, chunk)
        for doc in engine.store.content.docs(engine.source.id)
        for chunk, _ in engine.store.content.chunks(doc.blob)
    }
    words = engine.store.indexes.words()
    assert words is not None
    vectors = engine.store.indexes.vectors(HashingEmbedder().stamp).ids()
    return truth, words.identities(), set(vectors.tolist())


def test_sqlite_words_and_vectors_hold_the_same_ids(open_engine, root):
    engine = open_engine(HashingEmbedder())
    engine.index()
    write(root, {"src/copy.py": LAMP, "src/desk.py": "desk = 'other'\n"})
    (root / "pyproject.toml").write_text("[tool]\n", encoding="utf-8")
    engine.index()
    (root / "src/lamp.py").unlink()
    engine.index()
    truth, words, vectors = ids(engine)
    assert truth == words
    assert {chunk for _, chunk in truth} == vectors
    assert engine.search(Query("lamp", mode=Mode.MEANING)).mode is Mode.MEANING
    assert engine.vitals().embedded_chunks == len(vectors)


def test_vectors_of_another_model_are_not_used_and_the_answer_says_so(open_engine):
    first = open_engine(HashingEmbedder(64))
    first.index()
    second = open_engine(HashingEmbedder(32))
    page = second.search(Query("switch lamp"))
    assert page.mode is Mode.WORDS
    assert page.hits[0].path == "src/lamp.py"
    assert any("embedded by" in note for note in page.notes)
    first.close()
    second.index()
    page = second.search(Query("switch lamp"))
    assert page.mode is Mode.HYBRID
    assert page.notes == ()


def test_words_answer_with_a_note_when_vectors_exceed_their_limit(open_engine, root):
    write(root, {f"many/f{number}.py": f"value_{number} = 'desk'\n" for number in range(300)})
    engine = open_engine(HashingEmbedder(), limits__memory__embeddings="11KB")
    assert code_of(engine.index) == "EMBEDDINGS_LIMIT"
    assert engine.freshness().state == "error"
    page = engine.search(Query("switch lamp"))
    assert (page.mode, page.hits[0].path) == (Mode.WORDS, "src/lamp.py")
    assert any("limits.memory.embeddings" in note for note in page.notes)
    assert 0 < engine.vitals().embedded_chunks < engine.vitals().chunks
    (line,) = engine.operations()
    assert (line.detail["error"], line.detail["added"], line.detail["status"]) == (
        "EMBEDDINGS_LIMIT",
        303,
        "partial",
    )
    engine.put([Note("notes", "a.md", "the cat sleeps\n")])  # what is written is taken all the same
    engine.close()
    wider = open_engine(HashingEmbedder())
    wider.index()
    assert wider.search(Query("switch lamp")).mode is Mode.HYBRID
    narrower = open_engine(HashingEmbedder(), limits__memory__embeddings=0)
    page = narrower.search(Query("switch lamp"))
    assert (page.mode, page.hits[0].path) == (Mode.WORDS, "src/lamp.py")
    assert any("limits.memory.embeddings" in note for note in page.notes)
    assert narrower.vitals().embedded_chunks == 0


# -- repair
# ----------------------------------------------------------------------------------------------------------------


def test_lost_lexical_index_is_rebuilt_by_the_next_search(open_engine):
    first = open_engine()
    first.index()
    first.close()
    for words in first.store.directory.glob("words-*"):
        shutil.rmtree(words)
    engine = open_engine()
    assert paths(engine, "switch lamp")[0] == "src/lamp.py"
    assert engine.store.check() == []


@pytest.mark.skipif(os.name == "nt", reason="Windows doesn't remove a file that is open")
def test_store_removed_under_an_engine_is_opened_again(open_engine, root):
    engine = open_engine()
    engine.index()
    assert paths(engine, "switch lamp")[0] == "src/lamp.py"
    before = engine.store
    shutil.rmtree(root / ".cortex")
    write(root, {"src/lamp.py": "bulb = 1\n"})
    assert paths(engine, "switch lamp") == []  # and nothing from the cache
    assert (engine.index().added, paths(engine, "bulb")) == (3, ["src/lamp.py"])
    assert engine.store is not before
    (root / ".cortex" / "lease").unlink()
    assert not engine.store.lease.held
    assert engine.holds_lease()
    assert paths(engine, "bulb") == ["src/lamp.py"]


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such names")
def test_a_folder_whose_name_is_not_utf8_is_refused_with_a_reason(tmp_path):
    root = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9"))
    root.mkdir()
    write(root, {"pyproject.toml": "[project]\n"})
    with pytest.raises(CortexError) as caught:
        Engine(
            root,
            load(root, environment={"CORTEX_HOME": str(tmp_path / "home")}, user_home=tmp_path),
        )
    assert (caught.value.code, caught.value.suggestions[0]) == (
        "FILE_UNREADABLE",
        "Rename the folder.",
    )
    assert "caf\\udce9" in caught.value.message
    assert not (root / ".cortex").exists()


@pytest.mark.skipif(os.name == "nt", reason="Windows doesn't move a folder whose files are open")
def test_moved_project_is_not_created_again(open_engine, root):
    engine = open_engine()
    engine.index()
    root.rename(root.with_name("elsewhere"))
    assert paths(engine, "switch lamp")[0] == "src/lamp.py"
    assert code_of(engine.index) == "FILE_NOT_FOUND"
    assert not root.exists()
    root.with_name("elsewhere").rename(root)
    assert engine.index().unchanged == 3


def damage(directory: Path, *patterns: str) -> None:
    """Turn a bit in each of these files."""
    for path in [path for pattern in patterns for path in directory.glob(pattern)]:
        raw = bytearray(path.read_bytes())
        raw[len(raw) // 3] ^= 4
        path.write_bytes(raw)


def test_damaged_database_is_set_aside_and_the_project_indexed_again(open_engine, root):
    first = open_engine()
    first.index()
    first.close()
    (first.store.directory / "cortex.db").write_bytes(b"garbage" * 1000)
    with pytest.raises(CortexError) as caught:
        Engine(root, first.settings, keep_damaged=True)
    assert caught.value.code == "STORE_CORRUPT"
    engine = open_engine()
    (kept,) = first.store.directory.glob("cortex.db.damaged-*")
    assert kept.read_bytes().startswith(b"garbage")
    note = engine.search(Query("switch lamp")).notes[0]
    assert "damaged and is built anew" in note and kept.name in note
    engine.index()
    assert paths(engine, "switch lamp")[0] == "src/lamp.py"


def test_index_of_a_newer_version_is_set_aside_and_rebuilt(open_engine):
    first = open_engine()
    first.index()
    first.close()
    with sqlite3.connect(first.store.directory / "cortex.db") as raw:
        raw.execute("PRAGMA user_version = 99")
    raw.close()
    engine = open_engine()
    assert engine.index().added == 3
    assert "newer version of Cortex" in engine._replacement.notice
    assert len(list(first.store.directory.glob("cortex.db.damaged-*"))) == 1


def test_a_database_that_turns_out_to_be_damaged_is_replaced_in_the_same_call(open_engine):
    engine = open_engine()
    engine.index()
    ruin_texts(engine)
    assert paths(engine, "switch lamp")[0] == "src/lamp.py"
    assert len(list(engine.store.directory.glob("cortex.db.damaged-*"))) == 1
    assert engine.store.check() == []


def test_lease_holder_replaces_a_database_that_another_engine_found_damaged(open_engine):
    holder = open_engine()
    holder.index()
    other = open_engine()
    ruin_texts(holder)
    assert code_of(lambda: other.search(Query("switch lamp", mode=Mode.WORDS))) == "STORE_CORRUPT"
    holder.serve_requests()
    holder.index()
    assert paths(other, "switch lamp")[0] == "src/lamp.py"


def test_damage_report_ends_with_its_database(open_engine):
    first = open_engine()
    first.index()
    first.close()
    report_damage(first.store.directory)
    (first.store.directory / "cortex.db").unlink()
    again = open_engine()
    assert again.index().added == 3
    again.close()
    assert paths(open_engine(), "switch lamp")[0] == "src/lamp.py"
    assert list(first.store.directory.glob("cortex.db.damaged-*")) == []


def test_last_two_databases_set_aside_are_kept(open_engine):
    for _ in range(4):
        engine = open_engine()
        engine.close()
        (engine.store.directory / "cortex.db").write_bytes(b"garbage" * 100)
    open_engine()
    assert len(list(engine.store.directory.glob("cortex.db.damaged-*"))) == 2


def ruin_texts(engine: Engine) -> None:
    """Make every stored text unreadable."""
    with engine.store.connections.write() as connection:
        connection.execute("UPDATE blobs SET text = x'00ff'")


@pytest.mark.parametrize("kind", ["pos", "fast", "idx", "term", "fieldnorm", "store"])
def test_damaged_lexical_index_is_rebuilt_in_the_same_call(open_engine, capfd, kind):
    first = open_engine()
    first.index()
    first.close()
    damage(first.store.directory, f"words-*/*.{kind}")
    engine = open_engine()
    page = engine.search(Query("switch lamp", mode=Mode.WORDS))
    assert (page.hits[0].path, page.notes) == ("src/lamp.py", ())
    assert engine.store.check() == []
    assert "panicked" not in capfd.readouterr().err


def test_damaged_vectors_are_made_again_in_the_same_call(open_engine):
    first = open_engine(HashingEmbedder())
    first.index()
    first.close()
    damage(first.store.directory, "vectors-*/*/rows-*")
    engine = open_engine(HashingEmbedder())
    assert engine.store.check()
    engine.index()
    assert paths(engine, "switch lamp", Mode.MEANING)[0] == "src/lamp.py"
    assert engine.store.check() == []


def test_meaning_and_names_answer_with_a_note_without_a_lexical_index(open_engine, monkeypatch):
    monkeypatch.setattr(index_repair, "HEAL_SECONDS", 0.0)
    holder, reader = open_engine(HashingEmbedder()), open_engine(HashingEmbedder())
    holder.index()
    damage(holder.store.directory, "words-*/*.fast")
    for mode in (Mode.HYBRID, Mode.WORDS):
        page = reader.search(Query("switch_lamp", mode=mode))
        assert page.hits[0].path == "src/lamp.py"
        assert any("word index is damaged" in note for note in page.notes)
    holder.serve_requests()
    page = reader.search(Query("switch_lamp"))
    assert page.hits[0].path == "src/lamp.py" and page.notes == ()


def test_folder_in_place_of_a_store_file_is_moved_away(open_engine):
    first = open_engine()
    first.index()
    first.close()
    for name in ("lease", "cortex.db-shm", "cortex.db-wal"):
        (first.store.directory / name).unlink(missing_ok=True)
        (first.store.directory / name / "inside").mkdir(parents=True)
    engine = open_engine()
    assert engine.index().unchanged == 3
    assert engine.holds_lease()
    assert len(list(first.store.directory.glob("cortex.db.damaged-*/inside"))) == 3


# -- closing
# ------------------------------------------------------------------------------------------------------------------


def test_closing_during_a_run_ends_it_and_the_next_engine_continues(open_engine, root):
    write(root, {f"many/f{number}.py": f"value_{number} = {number}\n" for number in range(200)})
    engine, reached = open_engine(), threading.Event()
    outcome: list[object] = []

    def work() -> None:
        try:
            outcome.append(
                engine.index(progress=lambda step: reached.set() if step.done > 20 else None).status
            )
        except CortexError as error:
            outcome.append(error.code)

    run = threading.Thread(target=work)
    run.start()
    assert reached.wait(DEADLINE)
    engine.close()
    run.join(DEADLINE)
    assert outcome and outcome[0] in ("cancelled", "STORE_LOCKED", "completed")
    again = open_engine()
    again.index()
    assert len(again.store.content.known(again.source.id)) == 203
    assert again.store.check() == []


def test_search_on_a_closing_engine_is_an_error_and_never_a_crash(open_engine):
    engine = open_engine()
    engine.index()
    problems: list[str] = []
    started = threading.Barrier(4)

    def ask() -> None:
        started.wait(DEADLINE)
        for number in range(200):
            try:
                engine.search(Query(f"lamp {number}", mode=Mode.WORDS))
            except CortexError as error:
                problems.append(error.code)
                return

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    started.wait(DEADLINE)
    engine.close()
    for thread in threads:
        thread.join(DEADLINE)
    assert set(problems) <= {"STORE_LOCKED"}


def test_closing_leaves_no_thread_and_no_open_file_behind(open_engine, root):
    import psutil

    process = psutil.Process()
    threads, children = set(threading.enumerate()), set(process.children())
    engine = open_engine()
    engine.index()
    engine.search(Query("lamp"))
    engine.search(Query("lamp", mode=Mode.FULL))
    engine.close()
    assert set(threading.enumerate()) <= threads
    assert [file.path for file in process.open_files() if str(root) in file.path] == []
    assert set(process.children()) <= children


@pytest.mark.skipif(os.name == "nt", reason="modes are POSIX's")
def test_store_files_are_readable_by_their_owner_only_under_any_umask(tmp_path):
    root, home = tmp_path / "project", tmp_path / "home"
    (root / ".git").mkdir(parents=True)
    (root / "lamp.py").write_text("def lamp():\n    return 1\n", encoding="utf-8")
    kept = root / ".cortex"
    kept.mkdir(mode=0o755)
    (kept / "config.json").write_text("{}", encoding="utf-8")
    (kept / "config.json").chmod(0o644)
    before = os.umask(0)
    try:
        with Engine(root, load(None, environment={"CORTEX_HOME": str(home)})) as engine:
            engine.index()
    finally:
        os.umask(before)
    paths = [
        path for folder in (kept, home) for path in folder.rglob("*") if path.name != "config.json"
    ]
    assert {path.name.partition("-")[0] for path in paths} >= {
        "cortex.db",
        "words",
        "vectors",
        "projects.txt",
    }
    modes = {str(path.relative_to(tmp_path)): path.stat().st_mode & 0o777 for path in paths}
    assert {name: oct(mode) for name, mode in modes.items() if mode & 0o077} == {}
    # What the person committed there stays theirs.
    assert kept.stat().st_mode & 0o777 == 0o755
    assert (kept / "config.json").stat().st_mode & 0o777 == 0o644


@pytest.mark.skipif(os.name == "nt", reason="modes are POSIX's")
def test_index_folder_with_open_permissions_is_made_private(tmp_path):
    folder = tmp_path / "project" / ".cortex"
    (folder / "vectors-1").mkdir(parents=True)
    (folder / "vectors-1").chmod(0o755)
    (folder / "notes.md").write_text("", encoding="utf-8")
    (folder / "notes.md").chmod(0o644)
    ensure_store_dir(folder)
    assert (folder / "vectors-1").stat().st_mode & 0o777 == 0o700
    assert (folder / "notes.md").stat().st_mode & 0o777 == 0o644
