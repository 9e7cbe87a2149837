"""One write to the records: acknowledged when it is kept, though the indexes may follow later."""

from __future__ import annotations

from cortex.kinds import Observation
from cortex.records.finding import Asked, find
from cortex.records.rights import person
from cortex.records.writing import create
from cortex.store import words as words_module
from cortex.store.words import Words


def test_what_cannot_be_indexed_yet_is_written_and_found_later(library, settings, monkeypatch, caplog):
    create(library, Observation("The first lamp"), actor=person())
    mine = library.store.indexes.words()
    assert mine is not None and library.holds()
    mine.close()
    (folder,) = settings.home.glob("words-*")
    others = Words(folder)
    others.apply([], (), mine.watermark())  # it has the lock now
    monkeypatch.setattr(words_module, "LOCK_SECONDS", 0.0)
    kept = create(library, Observation("The second lamp"), actor=person(), key="once")
    assert library.store.recorded.one(kept.id) == kept
    assert create(library, Observation("The second lamp"), actor=person(), key="once") == kept
    assert "isn't found yet" in caplog.text
    others.close()
    assert library.follow()
    assert [hit.record.id for hit in find(library, Asked("second lamp")).hits][:1] == [kept.id]
