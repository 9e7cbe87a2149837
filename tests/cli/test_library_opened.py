"""A person's store in the hands of a command: nobody else waits for it."""

from __future__ import annotations

from cortex import library as libraries
from cortex.actors import person
from cortex.cli.library import open_library
from cortex.guarded import Embedders
from cortex.kinds import Thread
from cortex.library import Library
from cortex.records.finding import Asked, find
from cortex.records.writing import create


def test_what_others_write_is_found_however_long_a_command_holds_the_library(isolated, monkeypatch):
    monkeypatch.setattr(libraries, "FOLLOW_SECONDS", 60.0)
    with open_library() as mine:
        assert mine.holds()
        with Library(mine.settings, embedders=Embedders(None)) as other:
            assert not other.holds()
            written = create(other, Thread("Which lamp?"), actor=person())
            assert other.follow()
            assert [hit.record.id for hit in find(other, Asked("lamp")).hits] == [written.id]
