"""Ids of records."""

from __future__ import annotations

from cortex.families.team import ids


def test_ids_continue_after_newer_ones_without_collision(monkeypatch):
    monkeypatch.setattr(ids, "_last", 0)
    newest = "7" + "0" * 25
    ids.advance_past("thread_1")
    ids.advance_past("Z" * 26)
    assert ids.new_ulid() < newest
    ids.advance_past(newest)
    first = ids.new_ulid()
    ids.advance_past("0" * 26)
    assert newest < first < ids.new_ulid()
    monkeypatch.setattr(ids, "_last", 0)  # as in another process
    ids.advance_past(newest)
    assert newest < ids.new_ulid() != first
