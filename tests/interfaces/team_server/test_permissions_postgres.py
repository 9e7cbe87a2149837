"""Who is told what at a Core whose records are in PostgreSQL: a sample of the rows that
`test_permissions` asks of a directory.

There everybody reads a replica that follows the database: what may be seen is to be right in it,
too.
"""

from __future__ import annotations

import interfaces.team_server.test_permissions as rows
from interfaces.team_server.guarded_world import Reader, World, furnish

SAMPLE = ("nobody", "one-read", "all-write-s", "closed-s", "chief")
READING = (
    rows.test_lists_tell_what_their_reader_may_see_and_nothing_else,
    rows.test_a_search_finds_and_counts_what_may_be_seen,
    rows.test_packs_have_what_may_be_seen,
    rows.test_an_inbox_has_what_its_owner_may_see,
    rows.test_versions_of_when_it_was_elsewhere_are_for_those_who_see_there,
    rows.test_a_replica_gets_what_may_be_seen_and_learns_of_nothing_else,
    rows.test_ids_that_may_not_be_seen_are_not_visible_and_told_by_nothing_else,
)


def test_a_core_over_a_database_tells_everybody_what_they_may_see_and_nothing_else(
    open_place, database, folder
):
    world = World(open_place(database, folder / "replica"))
    furnish(world)
    assert world.ids("chief") and world.hidden("chief")
    for name in SAMPLE:
        for row in READING:
            row(world, Reader(world, name), name)
