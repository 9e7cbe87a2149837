"""Copies of other products' databases, which are followed and never changed."""

from __future__ import annotations

import os
import shutil
import sqlite3
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cortex.base.runtime.sqlite_file_state import state_of
from cortex.base.types import MemoryState, Mode
from cortex.engine.library import Library
from cortex.engine.store import Mirror
from cortex.families.memory import mirror
from cortex.families.memory.adapters.claude_mem import open_database
from cortex.families.memory.curation import delete, judge
from cortex.families.memory.index_text import word
from cortex.families.memory.mirror import copied, is_due, is_work, sync
from families.memory.adapters.claude_mem_databases import make_claude_mem
from families.memory.libraries import (
    CancelAfter,
    ask,
    copy,
    database,
    hold,
    listing,
    memories,
    one_of,
    open_library,
    settings_of,
    start_lease_holder,
    titles,
)

TOKEN = "ghp_" + "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3z5A"


@pytest.fixture
def place(isolated, tmp_path: Path) -> Path:
    return isolated.user / ".claude-mem"


@pytest.fixture
def library(place: Path, isolated) -> Iterator[Library]:
    with open_library(settings_of(isolated.cortex)) as opened:
        yield opened


def the_mirror(library: Library) -> Mirror:
    (found,) = library.store.memories.mirrors()
    return found


# -- the first copy
# ----------------------------------------------------------------------------------------------------


def test_the_newest_rows_are_copied_first(library, place, monkeypatch):
    monkeypatch.setattr(mirror, "BATCH", 3)
    database(place, *(f"Row {number}" for number in range(10))).close()
    assert not sync(library, cancel=CancelAfter(1))
    assert titles(memories(library)) == ["Row 9", "Row 8", "Row 7", "Row 6", "Row 5", "Row 4"]
    state = copied(library)
    assert (state.rows, state.left, state.complete) == (10, 4, False)
    assert copy(library)
    assert len(memories(library)) == 10 and copied(library).complete


def test_rows_are_found_by_words_once_the_copy_is_done(library, place):
    database(place, "Zebras count coins", "Lamps are blue").close()
    assert is_due(library) and copy(library) and not is_due(library)
    assert titles(ask(library, "zebra"))[0] == "Zebras count coins"


def test_a_database_without_rows_is_copied(library, place):
    database(place).close()
    assert copy(library) and not is_due(library)
    assert copied(library) == mirror.Copied(0, 0, ())


@pytest.mark.parametrize("generation", ["3", "4", "8", "13", "carried", "patched", "curated"])
def test_databases_of_every_generation_are_copied(library, place, generation):
    from families.memory.adapters.claude_mem_databases import make_claude_mem

    made = make_claude_mem(place / "claude-mem.db", generation)
    if generation in ("4", "8", "13", "carried"):
        made.observation(made.session("s"), "Seen by eye", concepts=["eye"])
    if generation in ("3", "patched", "curated", "carried"):
        made.memory("ack_1_2026-01-04_001", "Kept in mind", concepts=["mind"])
    made.close()
    assert copy(library)
    assert {memory.memory.provenance for memory in memories(library)} == {"claude-mem"}
    assert len(memories(library)) == (2 if generation == "carried" else 1)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=8)
@given(
    batch=st.integers(1, 7), stops=st.lists(st.integers(0, 3), max_size=6), changes=st.booleans()
)
def test_copy_stopped_anywhere_ends_like_an_undisturbed_one(
    tmp_path_factory, batch, stops, changes
):
    folder = tmp_path_factory.mktemp("stopped")
    made = database(folder / "mem", *(f"Row {number}" for number in range(12)))
    variables = {"ACK_MEM_DB": str(folder / "mem" / "claude-mem.db")}
    with (
        pytest.MonkeyPatch.context() as patch,
        open_library(settings_of(folder / "one", **variables)) as library,
    ):
        patch.setattr(mirror, "BATCH", batch)
        for number, looks in enumerate(stops):
            sync(library, cancel=CancelAfter(looks))
            # Above and below the position of the copy
            if changes:
                made.connection.execute(
                    f"UPDATE observations SET title = 'Changed {number}' WHERE id = {12 - number}"
                )
                made.connection.execute(f"DELETE FROM observations WHERE id = {number + 1}")
                made.connection.commit()
                made.observation("own-s1", f"New {number}")
        assert copy(library) and copied(library).complete
        with open_database(made.path) as opened:
            there = [(row.number, row.memory) for row in opened.rows(limit=100)]
        ones = memories(library)
        assert sorted((record.number, record.memory) for record in ones) == sorted(there)
        (source,) = library.store.memories.sources({the_mirror(library).origin}, ("shown",))
        assert {doc.path for doc in library.store.content.docs(source.id)} == {
            record.memory.key for record in ones
        }
        assert {record.source for record in ones} == {source.id}
    made.close()


# -- changes
# ------------------------------------------------------------------------------------------------------


def test_new_changed_and_deleted_rows_are_followed(library, place):
    made = database(place, "Apples", "Pears", "Plums")
    copy(library)
    made.observation("own-s1", "Cherries")
    made.connection.execute("UPDATE observations SET title = 'Red apples' WHERE title = 'Apples'")
    made.connection.execute("DELETE FROM observations WHERE title = 'Pears'")
    made.connection.commit()
    assert is_due(library) and copy(library)
    assert sorted(titles(memories(library))) == ["Cherries", "Plums", "Red apples"]
    assert (
        titles(ask(library, "pears")) == []
        and titles(ask(library, "red apples"))[0] == "Red apples"
    )
    made.close()


def test_write_in_progress_while_the_files_were_seen_is_copied_later(library, place):
    made = database(place, "Apples")
    assert copy(library)
    made.observation("own-s1", "Pears")
    journal = made.path.with_name(f"{made.path.name}-wal")
    written = time.time() - 5
    for file in (made.path, journal):
        os.utime(file, (written, written))
    # As seen before the disk had confirmed the write
    files = ",".join(map(str, state_of(made.path)))
    early = replace(the_mirror(library), seen=f"{files}@{int(written)}")
    library.store.memories.copy(early, (), (), word, lambda state: None)
    # No reader waits for it; the keeper of the library looks again
    assert not is_due(library) and is_work(library)
    assert copy(library)
    assert sorted(titles(memories(library))) == ["Apples", "Pears"]
    assert not is_work(library)
    made.close()


def test_copy_killed_while_embedding_has_its_vectors_in_the_end(place, isolated):
    database(place, "Lamps burn at night", "Mills turn").close()
    with Library(settings_of(isolated.cortex)) as library:
        assert copy(library) and ask(library, "lamps").mode is Mode.HYBRID
        state = the_mirror(library)
        library.store.memories.copy(replace(state, seen=""), (), (), word, lambda state: None)
    (manifest,) = isolated.cortex.glob("vectors-*/*/watermark.json")
    # As a kill leaves it: all is copied, the words have it, and the vectors are not said to be
    # complete
    manifest.unlink()
    with Library(settings_of(isolated.cortex)) as library:
        assert copy(library)
        assert library.store.check() == [] and ask(library, "lamps").mode is Mode.HYBRID


def test_decisions_about_a_row_do_not_apply_to_another_with_its_key(library, place):
    database(place, "Shown", "Hidden", "Forgotten").close()
    assert copy(library)
    judge(library, [one_of(library, "obs_2")], "reject")
    delete(library, [one_of(library, "obs_3")])
    (place / "claude-mem.db").rename(place / "before.db")
    # A new database begins
    made = make_claude_mem(place / "claude-mem.db", "13")
    session = made.session("later")
    for number, title in enumerate(("First", "Second", "Third")):
        made.observation(session, title, created_at_epoch=1_799_000_000_000 + number)
    made.close()
    assert copy(library)
    assert titles(ask(library)) == ["Third", "Second", "First"]
    assert one_of(library, "obs_2").judgement is None
    # The old one returns
    (place / "before.db").replace(place / "claude-mem.db")
    assert copy(library)
    assert titles(ask(library)) == ["Shown"]


def test_replaced_database_is_copied_anew(library, place):
    database(place, *(f"Old {number}" for number in range(5))).close()
    copy(library)
    shutil.rmtree(place)
    database(place, "Quite new").close()
    assert copy(library)
    assert titles(memories(library)) == ["Quite new"]


def test_a_row_that_gets_another_key_is_one_memory(library, place):
    from families.memory.adapters.claude_mem_databases import make_claude_mem

    made = make_claude_mem(place / "claude-mem.db", "3")
    number = made.memory(None, "Kept in mind")
    copy(library)
    assert [memory.memory.key for memory in memories(library)] == [f"obs_{number}"]
    made.connection.execute("UPDATE memories SET document_id = 'ack_1_2026-01-04_001'")
    made.connection.commit()
    copy(library)
    assert [record.memory.key for record in memories(library)] == ["ack_1_2026-01-04_001"]
    made.close()


def test_a_row_that_moves_to_another_project_is_found_in_both(library, place):
    made = database(place, "Apples")
    copy(library)
    made.connection.execute("UPDATE observations SET merged_into_project = 'orchard'")
    made.connection.commit()
    copy(library)
    assert [
        (memory.memory.project, memory.other_project, memory.scope) for memory in memories(library)
    ] == [("orchard", "ack", "orchard")]
    assert (
        titles(ask(library, project="ack")) == titles(ask(library, project="Orchard")) == ["Apples"]
    )
    made.close()


def test_a_large_database_is_compared_seldom_but_its_new_rows_come_at_once(
    library, place, monkeypatch
):
    monkeypatch.setattr(mirror, "SMALL", 2)
    made = database(place, "Apples", "Pears", "Plums")
    copy(library)
    made.connection.execute("UPDATE observations SET title = 'Red apples' WHERE title = 'Apples'")
    made.connection.commit()
    made.observation("own-s1", "Cherries")
    assert copy(library) and not is_due(library)
    assert sorted(titles(memories(library))) == ["Apples", "Cherries", "Pears", "Plums"]
    made.connection.execute(
        "UPDATE observations SET title = 'Black cherries' WHERE title = 'Cherries'"
    )
    made.connection.commit()
    assert copy(library) and copied(library).complete
    monkeypatch.setattr(mirror, "COMPARE_SECONDS", -1)
    assert is_due(library) and copy(library)
    assert sorted(titles(memories(library))) == ["Black cherries", "Pears", "Plums", "Red apples"]
    made.close()


def test_rows_deleted_from_a_large_database_are_noticed_at_once(library, place, monkeypatch):
    monkeypatch.setattr(mirror, "SMALL", 2)
    made = database(place, "Apples", "Pears", "Plums")
    copy(library)
    made.connection.execute("DELETE FROM observations WHERE title = 'Pears'")
    made.connection.commit()
    copy(library)
    assert sorted(titles(memories(library))) == ["Apples", "Plums"]
    made.close()


def test_uncurated_setting_applies_to_copied_rows(place, isolated):
    database(place, "Apples", "Pears").close()
    with open_library(settings_of(isolated.cortex)) as library:
        copy(library)
        judge(library, [one_of(library, "obs_1")], "approve")
    with open_library(settings_of(isolated.cortex, {"memory.uncurated": "staging"})) as other:
        assert mirror.is_work(other)
        # At once: not only when the copies were made anew
        for query in ("", "apples pears"):
            assert titles(ask(other, query)) == ["Apples"]
        copy(other)
        assert not mirror.is_work(other)
        assert titles(ask(other)) == ["Apples"] and titles(ask(other, status="staging")) == [
            "Pears"
        ]
    with open_library(settings_of(isolated.cortex)) as library:
        copy(library)
        assert titles(ask(library)) == ["Pears", "Apples"]


# -- judgements
# ---------------------------------------------------------------------------------------------


def test_judgement_stays_when_the_row_changes(library, place):
    made = database(place, "Apples", "Pears")
    copy(library)
    judge(library, [one_of(library, "obs_1")], "reject")
    made.connection.execute("UPDATE observations SET title = title || ' are round'")
    made.connection.commit()
    copy(library)
    assert (one_of(library, "obs_1").state, one_of(library, "obs_1").memory.title) == (
        MemoryState.REJECTED,
        "Apples are round",
    )
    assert titles(ask(library)) == ["Pears are round"]
    made.close()


def test_judgement_wins_over_the_databases_own_status(library, place):
    from families.memory.adapters.claude_mem_databases import make_claude_mem

    made = make_claude_mem(place / "claude-mem.db", "curated")
    made.memory("ack_1", "Approved there", status="approved")
    made.memory("ack_2", "Staged there")
    copy(library)
    assert (one_of(library, "ack_1").state, one_of(library, "ack_2").state) == (
        MemoryState.APPROVED,
        MemoryState.STAGING,
    )
    judge(library, [one_of(library, "ack_2")], "promote")
    made.connection.execute("UPDATE memories SET status = 'rejected'")
    made.connection.commit()
    copy(library)
    assert (one_of(library, "ack_1").state, one_of(library, "ack_2").state) == (
        MemoryState.REJECTED,
        MemoryState.PROMOTED,
    )
    made.close()


def test_deleted_row_never_comes_back(library, place, monkeypatch):
    made = database(place, "Apples", "Pears")
    copy(library)
    assert delete(library, [one_of(library, "obs_1")]).copies == 1
    made.connection.execute("UPDATE observations SET title = title || ' are round'")
    made.connection.commit()
    copy(library)
    assert titles(memories(library)) == ["Pears are round"]
    library.store.memories.drop_copy(the_mirror(library).origin)
    # Read from the database itself
    assert titles(ask(library, "round")) == ["Pears are round"]
    copy(library)
    assert titles(memories(library)) == ["Pears are round"]
    made.close()


def test_decision_made_during_a_copy_counts(library, place, monkeypatch):
    """Another process decides between the read of the judgements and the write of the rows."""
    database(place, "Apples", "Pears", "Plums").close()
    write = type(library.store.memories).copy

    def late(self, *given) -> None:
        if not memories(library):
            from cortex.engine.store import MemoryVerdict
            from cortex.families.memory.index_text import word

            origin = the_mirror(library).origin
            verdict = MemoryVerdict((origin, "obs_1"), MemoryState.REJECTED, None)
            self.decide([verdict], word, action="reject", actor="person", reason="")
            self.delete([(origin, "obs_2")], "person")
        write(self, *given)

    monkeypatch.setattr(type(library.store.memories), "copy", late)
    copy(library)
    assert titles(ask(library)) == ["Plums"] and sorted(titles(memories(library))) == [
        "Apples",
        "Plums",
    ]


# -- secrets
# -----------------------------------------------------------------------------------------------------------


def test_secrets_are_in_no_index_and_in_no_answer(library, place, isolated):
    made = database(place)
    parts = {
        "subtitle": f"with {TOKEN}",
        "facts": [f"token {TOKEN}"],
        "concepts": [TOKEN],
        "files_read": [f"{TOKEN}.txt"],
    }
    made.observation("own-s1", f"The token is {TOKEN}", narrative=f"say {TOKEN}", **parts)
    copy(library)
    assert (
        TOKEN not in repr(memories(library)) and "The token is" in memories(library)[0].memory.title
    )
    library.store.checkpoint()
    files = [file for file in isolated.cortex.rglob("*") if file.is_file() and file.name != "lease"]
    assert not any(TOKEN.encode() in file.read_bytes() for file in files)
    library.store.memories.drop_copy(the_mirror(library).origin)
    found = ask(library, "token")
    assert len(found.hits) == 1 and TOKEN not in repr(found)
    made.close()


# -- unreadable databases
# --------------------------------------------------------------------------------------


def corrupt(file: Path) -> None:
    file.write_bytes(b"SQLite format 3\0" + os.urandom(8_000))


@pytest.mark.parametrize(
    "damage",
    [
        corrupt,
        lambda file: file.write_bytes(b"no database at all" * 100),
        lambda file: file.write_bytes(b""),
    ],
)
def test_unreadable_database_is_noted_and_the_others_answer(place, isolated, monkeypatch, damage):
    monkeypatch.setattr(mirror, "RETRY_SECONDS", -1)
    database(isolated.user / ".ack-mem", "Apples").close()
    database(place, "Pears").close()
    good = (place / "claude-mem.db").read_bytes()
    damage(place / "claude-mem.db")
    with open_library(settings_of(isolated.cortex)) as library:
        assert not copy(library)
        found = ask(library)
        assert titles(found) == ["Apples"]
        assert [str(place) in note for note in found.notes] == [True]
        (place / "claude-mem.db").write_bytes(good)
        assert copy(library)
        assert sorted(titles(ask(library))) == ["Apples", "Pears"] and not ask(library).notes


def test_a_copied_database_that_breaks_answers_with_its_copy_and_recovers(
    library, place, monkeypatch
):
    monkeypatch.setattr(mirror, "RETRY_SECONDS", -1)
    database(place, "Pears").close()
    copy(library)
    os.rename(place / "claude-mem.db", place / "aside.db")
    corrupt(place / "claude-mem.db")
    assert not copy(library)
    assert titles(ask(library)) == ["Pears"] and copied(library).problems
    # The very file that was copied
    os.replace(place / "aside.db", place / "claude-mem.db")
    assert copy(library) and copied(library).complete


def test_unreadable_database_is_not_retried_at_once(library, place):
    place.mkdir()
    corrupt(place / "claude-mem.db")
    assert not copy(library)
    assert not is_due(library) and not is_work(library)


def test_a_locked_database_is_a_problem_until_it_is_free(library, place, monkeypatch):
    from cortex.engine.sources import sqlite_snapshot

    monkeypatch.setattr(sqlite_snapshot, "BUSY_SECONDS", 0.05)
    monkeypatch.setattr(mirror, "RETRY_SECONDS", -1)
    made = database(place, "Pears")
    made.connection.execute("PRAGMA journal_mode = DELETE")
    made.connection.execute("PRAGMA locking_mode = EXCLUSIVE")
    made.connection.execute("BEGIN EXCLUSIVE")
    made.connection.execute("UPDATE observations SET title = 'Half written'")
    assert not copy(library)
    assert "locked" in copied(library).problems[0]
    made.connection.rollback()
    made.close()
    assert copy(library) and titles(ask(library)) == ["Pears"]


def test_missing_database_gives_no_answers_and_is_forgotten_after_a_while(
    library, place, monkeypatch
):
    database(place, "Pears").close()
    copy(library)
    judge(library, [one_of(library, "obs_1")], "promote")
    shutil.rmtree(place)
    assert titles(ask(library)) == titles(ask(library, "pears")) == []
    assert copy(library) and len(memories(library)) == 1
    monkeypatch.setattr(mirror, "KEEP_SECONDS", -1)
    assert is_work(library) and copy(library)
    assert memories(library) == [] and library.store.memories.mirrors() == []
    monkeypatch.undo()
    monkeypatch.setenv("HOME", str(place.parent))
    database(place, "Pears").close()
    copy(library)
    assert one_of(library, "obs_1").state is MemoryState.PROMOTED


# -- no change of the original
# ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("writing", [False, True])
def test_folder_of_the_database_is_never_changed(library, place, writing):
    made = database(place, "Apples", "Pears")
    if not writing:
        made.close()
    before = listing(place)
    copy(library)
    ask(library, "apples")
    judge(library, [one_of(library, "obs_1")], "reject")
    delete(library, [one_of(library, "obs_2")])
    copy(library)
    assert listing(place) == before or (
        writing and [entry[0] for entry in listing(place)] == [entry[0] for entry in before]
    )
    if writing:
        made.close()


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="needs rights that count")
def test_a_folder_that_can_only_be_read_is_copied(library, place):
    database(place, "Apples").close()
    os.chmod(place, 0o500)
    try:
        assert copy(library)
    finally:
        os.chmod(place, 0o700)


# -- several processes
# -------------------------------------------------------------------------------------------------


def test_lease_holder_copies_while_another_process_waits(library, place, isolated, until):
    made = database(place, "Apples")
    holder = start_lease_holder(isolated.cortex)
    try:
        assert not library.holds_lease()
        assert copy(library) and titles(memories(library)) == ["Apples"]
        made.observation("own-s1", "Pears")
        assert copy(library) and len(memories(library)) == 2
        holder.communicate("end\n", timeout=20)
        made.observation("own-s1", "Plums")
        assert copy(library) and library.holds_lease() and len(memories(library)) == 3
    finally:
        holder.kill()
        holder.communicate()
        made.close()


def test_wait_for_another_process_ends_after_its_timeout(library, place, isolated):
    database(place, "Apples").close()
    with open_library(settings_of(isolated.cortex)) as other:
        hold(other)
        started = time.monotonic()
        assert not sync(library, seconds=0.1)
        assert time.monotonic() - started < 5
        assert not sync(library, seconds=60, cancel=CancelAfter(1))


def test_a_database_that_only_another_process_knows_is_copied_by_the_holder(isolated, tmp_path):
    database(tmp_path / "elsewhere", "Apples").close()
    variables = {"ACK_MEM_DB": str(tmp_path / "elsewhere" / "claude-mem.db")}
    with (
        open_library(settings_of(isolated.cortex)) as holder,
        open_library(settings_of(isolated.cortex, **variables)) as other,
    ):
        hold(holder)
        assert not sync(other, seconds=0)
        assert is_work(holder) and copy(holder)
        assert sync(other, seconds=0) and titles(ask(other)) == ["Apples"]
        # The holder does not read that database itself
        assert titles(ask(holder)) == []


def test_rows_in_the_journal_of_a_running_writer_are_copied(library, place):
    made = database(place, "Apples")
    made.connection.execute("PRAGMA wal_autocheckpoint = 0")
    made.observation("own-s1", "Only in the journal")
    assert copy(library)
    assert "Only in the journal" in titles(memories(library))
    made.close()


def test_uncommitted_row_is_not_copied(library, place):
    made = database(place, "Apples")
    made.connection.execute(
        "INSERT INTO observations (memory_session_id, project, type, title, created_at, created_at_epoch) VALUES ('own-s1', 'ack', 'x', 'Half', '', 1)"
    )
    assert made.connection.in_transaction
    assert copy(library) and titles(memories(library)) == ["Apples"]
    made.connection.commit()
    assert copy(library) and len(memories(library)) == 2
    made.close()


def test_own_store_error_is_not_reported_as_a_database_problem(library, place, monkeypatch):
    database(place, "Apples").close()

    def full(*given) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(type(library.store.memories), "copy", full)
    with pytest.raises(sqlite3.OperationalError):
        copy(library)


def test_secrets_in_fact_lines_project_and_kind_are_redacted(library, place):
    made = database(place)
    lines = [
        f"MIIEpAIBAAKCAQEA{number}u5bXkq9Zt3Vw7Rm2Lc8Yp4Nd6Hf1Jg0Ts{number}KzQe"
        for number in range(8)
    ]
    key = ["-----BEGIN RSA PRIVATE KEY-----", *lines, "-----END RSA PRIVATE KEY-----"]
    made.observation(
        "own-s1",
        "A key in lines",
        f"of {TOKEN}",
        facts=["before", *key, "after"],
        type=f"kind {TOKEN}",
    )
    copy(library)
    (record,) = memories(library)
    assert record.memory.facts == ("before", "[redacted: private key]", "after")
    assert TOKEN not in repr(record) and record.scope == record.memory.project


@pytest.mark.parametrize("highest", [0, -3])
def test_rows_whose_numbers_are_not_positive_are_copied(library, place, monkeypatch, highest):
    monkeypatch.setattr(mirror, "BATCH", 3)
    made = database(place)
    for number in range(highest, highest - 8, -1):
        made.observation("own-s1", f"Row {number}", id=number)
    assert copy(library)
    assert len(memories(library)) == 8
    assert not mirror.copied(library).left
    made.observation("own-s1", "Row 1", id=1)
    assert copy(library)
    assert len(memories(library)) == 9


def test_a_clock_that_was_ahead_does_not_stop_a_second_try(library, place, monkeypatch):
    place.mkdir(exist_ok=True)
    (place / "claude-mem.db").write_bytes(b"nothing" * 1000)
    monkeypatch.setattr(mirror.time, "time", lambda: 4_000_000_000.0)
    assert not copy(library)
    monkeypatch.undo()
    (place / "claude-mem.db").unlink()
    database(place, "Lamps are blue")
    assert copy(library)
    assert titles(memories(library)) == ["Lamps are blue"]


def test_row_from_the_far_future_is_copied(library, place):
    made = database(place, "Lamps are blue")
    made.observation("own-s1", "From a broken clock", created_at_epoch=99_999_999_999_999)
    assert copy(library)
    assert titles(memories(library)) == ["From a broken clock", "Lamps are blue"]
