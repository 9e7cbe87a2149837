"""Notes of hooks, handed over once and in order; a file goes when all of it was taken."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import pytest

from cortex.base.errors import InputError, StoreError
from cortex.families.memory.hook_inbox import HookNote, is_waiting, take_in
from cortex.interfaces.daemon.hook import keep

NOTE = {
    "format": 1,
    "at": 1_700_000_000.25,
    "event": "stop",
    "client": "codex",
    "session": "s1",
    "cwd": "/work/shop",
}


class NoteRecorder:
    """A consumer that records the notes it gets, or raises for one titled "two"."""

    def __init__(self) -> None:
        self.notes: list[HookNote] = []
        self.error: Exception | None = None

    def __call__(self, candidate: HookNote) -> None:
        if self.error is not None and candidate.title == "two":
            raise self.error
        self.notes.append(candidate)

    @property
    def titles(self) -> list[str]:
        return [note.title for note in self.notes]


@pytest.fixture
def recorder() -> NoteRecorder:
    return NoteRecorder()


def bring(home: Path, *titles: str) -> Path:
    return (
        home
        / "inbox"
        / keep(str(home), {**NOTE, "candidates": [{"title": title} for title in titles]})
    )


def files(home: Path) -> list[str]:
    return sorted(
        os.path.relpath(path, home / "inbox")
        for path in (home / "inbox").rglob("*")
        if path.is_file()
    )


def test_hook_note_is_read_with_all_its_parts(tmp_path, recorder):
    parts = {
        "title": " Use  uv ",
        "text": "because",
        "facts": ["a", "", 3],
        "concepts": ["b"],
        "files": ["c.py"],
    }
    keep(str(tmp_path), {**NOTE, "candidates": [{**parts, "kind": "decision"}]})
    assert is_waiting(tmp_path)
    assert take_in(tmp_path, recorder) == 1
    assert recorder.notes == [
        HookNote(
            "Use uv",
            "because",
            ("a",),
            ("b",),
            ("c.py",),
            "decision",
            project_path="/work/shop",
            session="s1",
            at=1_700_000_000_250,
            client="codex",
        )
    ]
    assert files(tmp_path) == [] and not is_waiting(tmp_path)


def test_files_are_taken_in_the_order_in_which_they_were_written(tmp_path, recorder):
    names = [
        bring(tmp_path, "one", "two").name,
        bring(tmp_path, "three").name,
        bring(tmp_path, "four").name,
    ]
    assert names == sorted(names)
    assert take_in(tmp_path, recorder) == 4
    assert recorder.titles == ["one", "two", "three", "four"]
    assert take_in(tmp_path, recorder) == 0


@pytest.mark.skipif(sys.platform == "win32", reason="modes")
def test_only_its_owner_can_read_the_inbox(tmp_path):
    path = bring(tmp_path / "home", "one")
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert path.parent.parent.stat().st_mode & 0o777 == 0o700


def test_missing_inbox_or_home_gives_nothing(tmp_path, recorder):
    assert take_in(tmp_path, recorder) == 0
    assert take_in(tmp_path / "nowhere", recorder) == 0
    assert not is_waiting(tmp_path / "nowhere")


@pytest.mark.parametrize(
    "error", [StoreError("STORE_LOCKED", "locked"), OSError(28, "No space left on device")]
)
def test_a_file_stays_until_its_last_candidate_was_remembered(tmp_path, recorder, error):
    first, second = bring(tmp_path, "one", "two"), bring(tmp_path, "three")
    recorder.error = error
    assert take_in(tmp_path, recorder) == 1
    assert files(tmp_path) == [first.name, second.name]
    recorder.error = None
    assert take_in(tmp_path, recorder) == 3
    # That the first is one memory is the store's work
    assert recorder.titles == ["one", "one", "two", "three"]
    assert files(tmp_path) == []


def test_refused_candidate_does_not_hold_up_others(tmp_path, recorder, caplog):
    bring(tmp_path, "one", "two", "three")
    recorder.error = InputError("ARGUMENT_INVALID", "it holds a key")
    assert take_in(tmp_path, recorder) == 2
    assert files(tmp_path) == []
    assert "it holds a key" in caplog.text and "two" not in caplog.text


def test_file_that_makes_remembering_crash_is_put_aside(tmp_path, recorder, caplog):
    path = bring(tmp_path, "two")
    bring(tmp_path, "three")
    recorder.error = ValueError("a defect")
    assert take_in(tmp_path, recorder) == 1
    assert files(tmp_path) == [os.path.join("refused", path.name)]


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[]", "format is unknown"),
        (b'{"format": 2, "candidates": []}', "format is unknown"),
        (b'{"format": 1, "candidates": "no"}', "no list"),
        (b" " * (3 << 20), "too large"),
    ],
)
def test_invalid_file_is_put_aside_with_a_reason(tmp_path, recorder, caplog, raw, reason):
    path = bring(tmp_path, "one")
    bring(tmp_path, "two")
    path.write_bytes(raw)
    assert take_in(tmp_path, recorder) == 1
    assert files(tmp_path) == [os.path.join("refused", path.name)]
    assert (tmp_path / "inbox" / "refused" / path.name).read_bytes() == raw
    assert reason in caplog.text
    assert take_in(tmp_path, recorder) == 0


def test_foreign_files_links_and_pipes_are_neither_read_nor_removed(tmp_path, recorder):
    bring(tmp_path, "one")
    inbox = tmp_path / "inbox"
    (inbox / "notes.json").write_text("{}", encoding="utf-8")
    (inbox / "00000000000000000001-1-00000000.json.bak").write_text("{}", encoding="utf-8")
    (inbox / "00000000000000000002-1-00000000.json").mkdir()
    elsewhere = tmp_path / "secret.json"
    elsewhere.write_text(
        json.dumps({**NOTE, "candidates": [{"title": "stolen"}]}), encoding="utf-8"
    )
    if sys.platform != "win32":
        (inbox / "00000000000000000003-1-00000000.json").symlink_to(elsewhere)
        os.mkfifo(inbox / "00000000000000000004-1-00000000.json")
    before = set(os.listdir(inbox))
    assert take_in(tmp_path, recorder) == 1
    assert recorder.titles == ["one"]
    assert len(before - set(os.listdir(inbox))) == 1
    assert elsewhere.exists()


def test_unfinished_file_of_a_killed_hook_is_taken_after_a_while(tmp_path, recorder):
    path = bring(tmp_path, "one")
    unfinished = path.with_name(f".{path.name}")
    path.rename(unfinished)
    # Its hook may be about to finish it
    assert take_in(tmp_path, recorder) == 0
    past = time.time() - 120
    os.utime(unfinished, (past, past))
    assert take_in(tmp_path, recorder) == 1
    assert recorder.titles == ["one"] and files(tmp_path) == []


@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() == 0, reason="everything can be read")
def test_a_file_that_cannot_be_read_is_put_aside(tmp_path, recorder):
    path = bring(tmp_path, "one")
    path.chmod(0)
    assert take_in(tmp_path, recorder) == 0
    assert files(tmp_path) == [os.path.join("refused", path.name)]


@pytest.mark.parametrize("at", [None, "soon", True, -1, float("nan"), 1e300])
def test_invalid_time_is_taken_from_the_file_name(tmp_path, recorder, at):
    before = int(time.time() * 1000)
    keep(str(tmp_path), {**NOTE, "at": at, "candidates": [{"title": "one"}]})
    take_in(tmp_path, recorder)
    assert before <= recorder.notes[0].at <= int(time.time() * 1000)


def test_unstorable_characters_and_parts_are_cleaned(tmp_path, recorder):
    listed = [
        {"title": "a\0b\nc", "text": "half \ud800", "facts": "no", "kind": 7},
        {"title": "   "},
        "text",
        None,
    ]
    keep(str(tmp_path), {**NOTE, "session": 5, "candidates": listed})
    assert take_in(tmp_path, recorder) == 1
    (note,) = recorder.notes
    assert (note.title, note.text, note.facts, note.kind, note.session) == (
        "ab c",
        "half ?",
        (),
        "",
        "",
    )


def test_a_call_takes_a_bounded_number_of_files(tmp_path, recorder, monkeypatch):
    monkeypatch.setattr("cortex.families.memory.hook_inbox.MOST_FILES", 2)
    for title in ("one", "two", "three"):
        bring(tmp_path, title)
    assert take_in(tmp_path, recorder) == 2
    assert take_in(tmp_path, recorder) == 1
    assert recorder.titles == ["one", "two", "three"]
