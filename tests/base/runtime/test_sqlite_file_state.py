"""State of a database by its files, and when it must be read again."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from cortex.base.runtime.sqlite_file_state import needs_reread, state_of


def test_file_state_differs_after_every_write_and_is_empty_without_database(tmp_path):
    path, link = tmp_path / "a.db", tmp_path / "link.db"
    link.symlink_to(path)
    assert state_of(path) == state_of(Path("a\0b")) == ()
    states = []
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        for number in range(4):
            connection.execute(f"CREATE TABLE t{number} (x)")
            states.append(state_of(path))
            assert state_of(link) == states[-1]
    assert len({*states, state_of(path)}) == 5


@pytest.mark.parametrize(
    ("read", "now", "expected"),
    [
        (0.0, 0.5, False),  # it was read at once; not yet time for another look
        (0.0, 1.5, True),
        (1.5, 2.5, False),
        (1.5, 4.5, True),  # each look doubles the time until the next
        (9.0, 30.0, True),
        (10.5, 1e6, False),  # long after the write
        (-3600.0, 0.5, False),  # a clock that was set back
        (-3600.0, 1.5, True),
    ],
)
def test_state_read_shortly_after_a_write_is_reread_until_settled(read, now, expected):
    written = 1_700_000_000
    state = (1, (written - 50) * 10**9, 4096, 2, written * 10**9, 12)
    assert needs_reread(state, written + read, written + now) is expected
    assert not needs_reread((), written, written + now)
