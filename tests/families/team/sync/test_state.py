"""The state of a connection, as status shows it."""

from __future__ import annotations

from cortex.base.record_model import Subcortex
from cortex.families.team.sync import state
from cortex.families.team.sync.connection import connect
from families.team.sync.fake_core import TOKEN
from families.team.sync.homes import make, once


def test_state_describes_the_connection(library, core):
    connect(library, core.url, TOKEN)
    make(library, Subcortex("payments", "Payments"))
    before = state.of(library)
    assert (before.server, before.name, before.waiting, before.last_sync) == (core.url, "ada", 1, 0)
    once(library, core)
    after = state.of(library)
    assert (after.waiting, after.refused, after.records, after.error) == (
        0,
        0,
        1,
        "",
    ) and after.last_sync > 0
    assert after.bytes > 20 and after.cursor == "e1:1"
