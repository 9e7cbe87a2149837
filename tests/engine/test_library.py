"""The library of a home: allowed folders, their search, and complete removal."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from cortex.base.actors import person
from cortex.base.errors import (
    Cancelled,
    ConfigError,
    CortexError,
    FileError,
    InputError,
    StoreError,
)
from cortex.base.record_model import Observation
from cortex.base.settings import Settings, load
from cortex.base.types import Mode, Query
from cortex.engine import run_queue
from cortex.engine.auto_indexer import AutoIndexer
from cortex.engine.embedders.circuit_breaker import Embedders
from cortex.engine.home_store import has_folders
from cortex.engine.library import Library, id_of
from cortex.engine.sources.forbidden_roots import reason_against
from cortex.families.team.search import RecordQuery, find
from cortex.families.team.writes.create import create
from cortex.interfaces.assembly.pool import engine_pool

Open = Callable[..., Library]
GUIDE = "# Guide\n\n## Tokens\n\nTokens expire after fifteen minutes.\n\n## Lamps\n\nA lamp is switched by its owner.\n"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    environment = {"CORTEX_HOME": str(tmp_path / "home")}
    return load(None, environment=environment, flags={"indexing.workers": 1}, user_home=tmp_path)


@pytest.fixture
def open_library(settings: Settings) -> Iterator[Open]:
    with ExitStack() as opened:

        def open_one(**more) -> Library:
            return opened.enter_context(Library(settings, **more))

        yield open_one


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    write(folder, "guide.md", GUIDE)
    write(folder, "sub/plain.txt", "The desk has three drawers.\n")
    return folder


def test_waiting_process_sees_progress_during_the_holder_s_maintenance(
    open_library, until, monkeypatch
):
    monkeypatch.setattr(run_queue, "BEAT_SECONDS", 0.01)
    library = open_library(embedders=Embedders(None))
    assert library.holds_lease()
    signs: list[str] = []

    def work() -> None:
        number = library.store.log.ask(library.source.id, False, False, None)
        until(lambda: library.store.log.sign(number))
        signs.append(library.store.log.sign(number))

    library.chores.append(work)
    library.serve_requests()
    assert signs


def write(folder: Path, path: str, text: str) -> None:
    (folder / path).parent.mkdir(parents=True, exist_ok=True)
    (folder / path).write_text(text, encoding="utf-8")


def found(library: Library, text: str, mode: Mode = Mode.HYBRID) -> list[str]:
    sources = [folder.source for folder in library.folders()]
    return [hit.path for hit in library.search(Query(text, mode=mode), sources=sources).hits]


def test_added_and_indexed_folder_is_searched(open_library, notes):
    library = open_library()
    folder = library.add_folder(notes)
    report = library.index(source=folder.source)
    assert (report.added, report.status) == (2, "completed")
    assert found(library, "how do tokens expire")[0] == "guide.md"
    state = library.state_of(folder)
    assert (state.counts.docs, state.size > 0, state.skipped, state.present) == (2, True, (), True)
    assert state.indexed_at


def test_folders_are_searched_together_or_separately(open_library, notes, tmp_path):
    other = tmp_path / "other"
    write(other, "lamps.md", "# Lamps\n\nLamp oil is kept in the cellar.\n")
    library = open_library()
    for place in (notes, other):
        library.index(source=library.add_folder(place).source)
    hits = library.search(
        Query("lamp"), sources=[folder.source for folder in library.folders()]
    ).hits
    assert {(hit.source, hit.path) for hit in hits} == {
        (library.folder("notes").source.id, "guide.md"),
        (library.folder("other").source.id, "lamps.md"),
    }
    alone = library.search(Query("lamp"), sources=[library.folder("other").source])
    assert ([hit.path for hit in alone.hits], alone.docs) == (["lamps.md"], 1)


def test_patterns_of_a_folder_apply_to_it_alone(open_library, notes, tmp_path):
    other = tmp_path / "other"
    write(other, "a.txt", "lamp\n")
    write(other, "b.md", "lamp\n")
    library = open_library()
    library.index(source=library.add_folder(notes).source)
    library.index(source=library.add_folder(other, include=["*.md"], exclude=["b*"]).source)
    assert {
        doc.path for doc in library.store.content.docs(library.folder("other").source.id)
    } == set()
    assert library.state_of(library.folder("notes")).counts.docs == 2


def test_folder_is_found_by_id_and_by_name_in_any_case(open_library, notes):
    library = open_library()
    folder = library.add_folder(notes, name="My Notes", key="k-1")
    assert library.folder("k-1") == library.folder("my notes") == folder
    with pytest.raises(ConfigError) as caught:
        library.folder("other")
    assert caught.value.code == "SOURCE_UNKNOWN"
    assert "My Notes (k-1)" in caught.value.message


def test_two_folders_of_one_name_get_two_names(open_library, tmp_path):
    library = open_library()
    for parent in ("a", "b"):
        write(tmp_path / parent / "docs", "x.md", "x\n")
        library.add_folder(tmp_path / parent / "docs")
    assert [folder.name for folder in library.folders()] == ["docs", "docs-2"]


def refusal(library: Library, path: Path, name: str = "", key: str = "") -> str:
    with pytest.raises(ConfigError) as caught:
        library.add_folder(path, name=name, key=key)
    assert caught.value.code == "SOURCE_REFUSED"
    return caught.value.message


def test_private_and_system_folders_and_those_of_cortex_are_refused(
    open_library, notes, tmp_path, monkeypatch
):
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    library = open_library()
    (tmp_path / ".ssh" / "inner").mkdir(parents=True)
    assert "keys" in refusal(library, tmp_path / ".ssh")
    assert "keys" in refusal(library, tmp_path / ".ssh" / "inner")
    (tmp_path / "link").symlink_to(tmp_path / ".ssh")
    assert "keys" in refusal(library, tmp_path / "link")
    assert "whole disk" in refusal(library, Path(tmp_path.anchor))
    assert "all that you have" in refusal(library, tmp_path)
    assert "its own files" in refusal(library, library.settings.home)
    assert "no such folder" in refusal(library, tmp_path / "none")
    assert "no folder" in refusal(library, notes / "guide.md")
    assert library.folders() == []


def test_folder_around_or_named_like_a_private_one_is_refused(open_library, tmp_path, monkeypatch):
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    library = open_library()
    for place in (".config/gh", ".config/notes", "other/.ssh/old", ".local/share/keyrings"):
        (tmp_path / place).mkdir(parents=True)
    assert "~/.config/gh" in refusal(library, tmp_path / ".config")
    assert "keyrings" in refusal(library, tmp_path / ".local")
    assert "by its name" in refusal(library, tmp_path / "other" / ".ssh" / "old")
    assert library.add_folder(tmp_path / ".config" / "notes").name == "notes"


@pytest.mark.skipif(not Path("/usr").is_dir(), reason="a folder of Unix")
def test_program_folder_is_refused_as_a_whole(open_library):
    assert "more than documents" in refusal(open_library(), Path("/usr"))


def test_a_private_folder_that_is_mounted_elsewhere_is_refused(tmp_path, monkeypatch):
    (tmp_path / "user" / ".ssh").mkdir(parents=True)
    (tmp_path / "elsewhere" / "inner").mkdir(parents=True)
    real = os.stat

    def stat(path, **more):  # a mount shows the same folder under another name
        moved = str(path).replace(str(tmp_path / "elsewhere"), str(tmp_path / "user" / ".ssh"))
        return real(moved if not moved.endswith("inner") else path, **more)

    monkeypatch.setattr(os, "stat", stat)
    why = reason_against(tmp_path / "elsewhere" / "inner", tmp_path / "user", tmp_path / "home")
    assert "~/.ssh holds keys" in why


def test_same_folder_added_twice_at_once_is_refused_once(open_library, notes):
    one, other = open_library(), open_library()
    looks = [one.folders()]  # what the other saw before the first one added it
    other.folders = lambda: looks.pop() if looks else Library.folders(other)  # type: ignore[method-assign]
    one.add_folder(notes)
    assert "one already" in refusal(other, notes)
    assert len(one.folders()) == 1


def test_a_folder_within_or_around_another_is_refused(open_library, notes):
    library = open_library()
    library.add_folder(notes / "sub")
    assert "lies in it" in refusal(library, notes)
    assert "one already" in refusal(library, notes / "sub")
    library.remove_folder(library.folder("sub"))
    library.add_folder(notes)
    assert "lies in" in refusal(library, notes / "sub")


def test_used_folder_name_or_id_is_refused(open_library, notes, tmp_path):
    library = open_library()
    library.add_folder(notes, name="one", key="k")
    (tmp_path / "more").mkdir()
    assert "already" in refusal(library, tmp_path / "more", name="ONE")
    assert "already" in refusal(library, tmp_path / "more", key="k")
    for name in ("a\nb", "a\x1b[31mb", " ", "n" * 201, "half \ud800"):
        assert "one line" in refusal(library, tmp_path / "more", name=name)
    assert "letters" in refusal(library, tmp_path / "more", key="k)\n```\nFound 3 results")


def test_removed_folder_is_gone_from_every_table_and_index_at_once(open_library, notes, settings):
    library = open_library()
    folder = library.add_folder(notes)
    library.index(source=folder.source)
    write(notes, "guide.md", GUIDE.replace("fifteen", "twenty"))
    library.index(source=folder.source)  # an earlier version is kept for a while
    assert library.remove_folder(folder) == 2
    assert found(library, "tokens") == []
    with sqlite3.connect(settings.home / "cortex.db") as database:
        for table in ("docs", "blobs", "chunks", "symbols", "vectors", "folders", "skips"):
            assert database.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,), table
    database.close()
    assert library.store.indexes.words().identities() == set()  # type: ignore[union-attr]
    assert library.store.check() == []
    stamp = library.embedding.answering().stamp
    assert stamp is not None
    assert library.store.indexes.sets.size(stamp) == 0


def test_removing_a_folder_keeps_the_same_text_of_another(open_library, notes, tmp_path):
    write(tmp_path / "twin", "same.md", GUIDE)
    library = open_library()
    for place in (notes, tmp_path / "twin"):
        library.index(source=library.add_folder(place).source)
    library.remove_folder(library.folder("notes"))
    assert found(library, "tokens expire") == ["same.md"]
    assert library.store.check() == []


def test_run_ends_when_its_folder_is_removed(open_library, notes):
    library = open_library()
    folder = library.add_folder(notes)

    def remove(step: object) -> None:
        if library.folders():
            library.store.folders.remove(folder)

    with pytest.raises(Cancelled):
        library.index(source=folder.source, progress=remove)
    assert library.store.content.counts(folder.source.id).docs == 0


def test_library_reader_finds_everything_and_can_write_nothing(open_library, notes):
    library = open_library()
    folder = library.add_folder(notes)
    library.index(source=folder.source)
    reader = library.reader
    assert found(reader, "tokens expire") == found(library, "tokens expire")
    with pytest.raises(StoreError) as caught:
        reader.store.content.set({"a": "b"})
    assert caught.value.code == "STORE_READ_ONLY"
    with reader.store.reading() as connection:
        assert connection.execute("PRAGMA query_only").fetchone() == (1,)  # type: ignore[attr-defined]
        connection.execute("PRAGMA query_only = OFF")  # type: ignore[attr-defined]
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            connection.execute("DELETE FROM docs")  # type: ignore[attr-defined]
    with pytest.raises(CortexError):
        reader.remove_folder(folder)
    assert not reader.store.lease.take()
    assert library.state_of(folder).counts.docs == 2


def test_library_reader_sees_later_writes(open_library, notes):
    library = open_library()
    folder = library.add_folder(notes)
    library.index(source=folder.source)
    assert found(library.reader, "cellar", Mode.WORDS) == []
    write(notes, "later.md", "# Cellar\n\nWine.\n")
    library.index(source=folder.source)
    assert found(library.reader, "cellar", Mode.WORDS) == ["later.md"]


def test_a_document_keeps_its_id_while_its_text_changes(open_library, notes):
    library = open_library()
    folder = library.add_folder(notes)
    library.index(source=folder.source)
    name = id_of(folder, "guide.md")
    before = library.document(name)[1]
    write(notes, "guide.md", "# Other\n")
    library.index(source=folder.source)
    after = library.document(name)[1]
    assert (before.path, before.id != after.id) == (after.path, True)
    with pytest.raises(InputError):
        library.document("doc_0000000000000000")


def test_home_has_folders_once_one_is_added(open_library, notes, settings):
    assert not has_folders(settings.home)
    library = open_library()
    assert not has_folders(settings.home)
    library.add_folder(notes)
    assert has_folders(settings.home)


def test_auto_indexer_follows_watched_folders_as_they_come_and_go(
    open_library, notes, tmp_path, until
):
    quiet = tmp_path / "quiet"
    write(quiet, "q.md", "silence\n")
    library = open_library()
    keeper = AutoIndexer(library)
    try:
        first = library.add_folder(notes)
        until(lambda: library.state_of(first).counts.docs == 2)
        write(notes, "new.md", "fresh\n")
        until(lambda: library.state_of(first).counts.docs == 3)
        other = tmp_path / "other"
        write(other, "a.md", "one\n")
        second = library.add_folder(other)
        unwatched = library.add_folder(quiet, watch=False)
        until(lambda: library.state_of(second).counts.docs == 1)
        write(other, "b.md", "two\n")
        until(lambda: library.state_of(second).counts.docs == 2)
        library.store.folders.remove(first)  # as another process does it
        until(lambda: "guide.md" not in found(library, "tokens"))
        until(
            lambda: (
                library.store.check() == []
                and library.store.indexes.state()[1] == library.store.content.seq()
            )
        )
        assert library.state_of(unwatched).counts.docs == 0
    finally:
        keeper.close()


def test_missing_folder_delays_no_other_and_keeps_its_documents(
    open_library, notes, tmp_path, until
):
    away = tmp_path / "away"
    write(away, "a.md", "faraway\n")
    library = open_library()
    gone = library.add_folder(away)
    library.index(source=gone.source)
    away.rename(tmp_path / "elsewhere")
    here = library.add_folder(notes)
    keeper = AutoIndexer(library)
    try:
        until(lambda: library.state_of(here).counts.docs == 2)
        assert found(library, "faraway", Mode.WORDS) == ["a.md"]
        assert not library.state_of(gone).present
    finally:
        keeper.close()


def test_engine_of_the_home_is_a_library(settings, notes):
    engines = engine_pool(keep=False)
    handle = engines.borrow(settings.home, settings)
    try:
        with engines.use(handle) as library:
            assert isinstance(library, Library)
    finally:
        engines.give_back(handle)


def kept(library: Library, folder, code: str) -> None:
    """Check that a sync fails and forgets nothing."""
    with pytest.raises(FileError) as caught:
        library.index(source=folder.source)
    assert caught.value.code == code
    assert found(library, "tokens") == ["guide.md"]


def test_a_folder_that_became_a_link_is_not_followed(open_library, notes, tmp_path):
    library = open_library()
    folder = library.add_folder(notes)
    library.index(source=folder.source)
    write(tmp_path / "elsewhere", "plain.txt", "The combination of the safe.\n")
    notes.rename(tmp_path / "moved")
    notes.symlink_to(tmp_path / "elsewhere", target_is_directory=True)
    kept(library, folder, "FILE_NOT_FOUND")
    assert found(library, "combination") == []


def test_unmounted_disk_is_not_taken_for_an_empty_folder(open_library, notes, monkeypatch):
    library = open_library()
    folder = library.add_folder(notes)
    monkeypatch.setattr(os.path, "ismount", lambda path: True)
    library.index(source=folder.source)
    monkeypatch.setattr(os.path, "ismount", lambda path: False)
    (notes / "guide.md").unlink()
    kept(library, folder, "FILE_NOT_FOUND")
    monkeypatch.setattr(os.path, "ismount", lambda path: True)
    library.index(source=folder.source)
    assert found(library, "tokens") == []


def test_a_folder_that_vanishes_during_a_sync_keeps_its_documents(open_library, notes, tmp_path):
    library = open_library()
    folder = library.add_folder(notes)
    library.index(source=folder.source)

    def vanish(step) -> None:
        if step.stage == "scanning":
            notes.rename(tmp_path / "moved")

    with pytest.raises(FileError):
        library.index(source=folder.source, progress=vanish)
    assert found(library, "tokens") == ["guide.md"]
    (tmp_path / "moved").rename(notes)
    assert library.index(source=folder.source).unchanged == 2


@pytest.mark.skipif(
    os.name == "nt" or os.geteuid() == 0, reason="who may do everything can read every folder"
)
def test_documents_of_an_unreadable_folder_are_kept(open_library, notes):
    library = open_library()
    folder = library.add_folder(notes)
    library.index(source=folder.source)
    (notes / "sub").chmod(0)
    library.index(source=folder.source)
    (notes / "sub").chmod(0o700)
    assert found(library, "drawers") == ["sub/plain.txt"]
    notes.chmod(0)
    try:
        kept(library, folder, "FILE_UNREADABLE")
    finally:
        notes.chmod(0o700)


def test_files_in_a_folder_called_secrets_are_no_documents(open_library, tmp_path):
    write(tmp_path / "secrets", "production.txt", "password tuesday\n")
    write(tmp_path / "secrets", "about.md", "# How passwords are kept\n")
    library = open_library()
    library.index(source=library.add_folder(tmp_path / "secrets").source)
    assert found(library, "password passwords") == ["about.md"]


def test_folders_skipped_in_code_are_read_in_document_folders(open_library, tmp_path):
    place = tmp_path / "more"
    write(place, "build/plan.md", "how to build\n")
    write(place, "day.log", "a diary\n")
    library = open_library()
    folder = library.add_folder(place)
    library.index(source=folder.source)
    assert {doc.path for doc in library.store.content.docs(folder.source.id)} == {
        "build/plan.md",
        "day.log",
    }


@pytest.mark.parametrize("kind", ["pos", "fast"])
def test_damaged_lexical_index_of_a_home_is_rebuilt_for_a_reader(tmp_path, kind):
    settings = load(None, environment={"CORTEX_HOME": str(tmp_path / "home")}, user_home=tmp_path)
    with Library(settings, embedders=Embedders(None)) as library:
        create(library, Observation("The lamp flickers", "at night"), actor=person())
    before = (settings.home / "cortex.db").read_bytes()
    for path in settings.home.glob(f"words-*/*.{kind}"):
        path.write_bytes(path.read_bytes()[::-1])
    with Library(settings, embedders=Embedders(None)) as library:
        assert [
            hit.record.body.title for hit in find(library.reader, RecordQuery("lamp")).hits
        ] == ["The lamp flickers"]
        create(library, Observation("The desk creaks", "by day"), actor=person())
        assert library.store.check() == []
    assert before and not list(settings.home.glob("cortex.db.damaged-*"))


@pytest.mark.parametrize("harm", ["newer", "garbage", "folder"])
def test_home_database_is_never_set_aside_or_suggested_to_be(open_library, settings, harm):
    open_library().close()
    database = settings.home / "cortex.db"
    if harm == "newer":
        with sqlite3.connect(database) as raw:
            raw.execute("PRAGMA user_version = 99")
        raw.close()
    elif harm == "garbage":
        database.write_bytes(b"garbage" * 1000)
    else:
        database.unlink()
        database.mkdir()
    with pytest.raises(StoreError) as caught:
        open_library()
    assert caught.value.code == ("STORE_NEWER" if harm == "newer" else "STORE_CORRUPT")
    assert "cortex.db" not in " ".join(caught.value.suggestions)
    assert database.exists() and not list(settings.home.glob("cortex.db.damaged-*"))
