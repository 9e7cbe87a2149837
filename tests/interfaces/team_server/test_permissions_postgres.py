"""Reading at a Core over PostgreSQL: a sample of the rows of `test_permissions`.

Requests read a replica that follows the database: visibility must be right in it, too.
"""

from __future__ import annotations

import interfaces.team_server.test_permissions as rows
from interfaces.team_server.guarded_world import Reader, World, furnish

SAMPLE = ("nobody", "one-read", "all-write-s", "closed-s", "chief")
READING = (
    rows.test_lists_have_exactly_the_records_visible_to_their_reader,
    rows.test_search_finds_and_counts_only_visible_records,
    rows.test_packs_have_only_visible_records,
    rows.test_inbox_has_only_records_visible_to_its_owner,
    rows.test_artifact_versions_from_a_hidden_place_are_not_shown,
    rows.test_sync_deltas_have_exactly_the_visible_records,
    rows.test_hidden_ids_are_neither_visible_nor_unknown,
)


def test_postgresql_core_shows_each_reader_exactly_the_visible_records(open_core, database, folder):
    world = World(open_core(database, folder / "replica"))
    furnish(world)
    assert world.ids("chief") and world.hidden("chief")
    for name in SAMPLE:
        for row in READING:
            row(world, Reader(world, name), name)
