"""A library held by a command, beside another process."""

from __future__ import annotations

from cortex.base.actors import person
from cortex.base.record_model import Thread
from cortex.engine import library as libraries
from cortex.engine.embedders.circuit_breaker import Embedders
from cortex.engine.library import Library
from cortex.families.team.search import RecordQuery, find
from cortex.families.team.writes.create import create
from cortex.toolkit.terminal.library import open_library


def test_foreign_writes_are_found_while_a_command_holds_the_library(isolated, monkeypatch):
    monkeypatch.setattr(libraries, "FOLLOW_SECONDS", 60.0)
    with open_library() as mine:
        assert mine.holds_lease()
        with Library(mine.settings, embedders=Embedders(None)) as other:
            assert not other.holds_lease()
            written = create(other, Thread("Which lamp?"), actor=person())
            assert other.follow()
            assert [hit.record.id for hit in find(other, RecordQuery("lamp")).hits] == [written.id]
