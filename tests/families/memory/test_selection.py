"""Choice of memories for curation: by filters, by ids and by prefixes of ids."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cortex.base.errors import InputError
from cortex.base.types import Memory, MemoryState
from cortex.engine.library import Library
from cortex.families.memory.curation import judge
from cortex.families.memory.selection import Filter, choose, find_by_id_or_prefix, named
from cortex.families.memory.writer import add
from families.memory.libraries import (
    copy,
    database,
    memories,
    one_of,
    open_library,
    settings_of,
    titles,
)


@pytest.fixture
def library(isolated) -> Iterator[Library]:
    """A library with a memory in each state, and an uncurated row of another product."""
    database(isolated.user / ".claude-mem", "Uncurated lamp").close()
    with open_library(settings_of(isolated.cortex)) as library:
        copy(library)
        add(library, Memory("", "Approved lamp", kind="gotcha", created=1_000))
        add(library, Memory("", "Staged lamp", text="It burns."), state=MemoryState.STAGING)
        for action, title in (("promote", "Promoted desk"), ("reject", "Rejected desk")):
            judge(library, [one_of(library, add(library, Memory("", title)).key)], action)
        yield library


@pytest.mark.parametrize(
    ("wanted", "chosen"),
    [
        (Filter(), {"Uncurated lamp", "Approved lamp", "Staged lamp", "Promoted desk"}),
        (Filter(("approved",)), {"Uncurated lamp", "Approved lamp", "Promoted desk"}),
        (Filter(("promoted",)), {"Promoted desk"}),
        (Filter(("uncurated", "staging")), {"Uncurated lamp", "Staged lamp"}),
        (Filter(("rejected",)), {"Rejected desk"}),
        (Filter(("any",), matching="the desks"), {"Promoted desk", "Rejected desk"}),
        (Filter(matching="burning lamps"), {"Staged lamp"}),
        (Filter(kind="GOTCHA"), {"Approved lamp"}),
        (Filter(before=1_001), {"Approved lamp"}),
        (Filter(("any",), origin="own"), {"Approved lamp", "Staged lamp", "Promoted desk", "Rejected desk"}),
    ],
)  # fmt: skip
def test_filter_chooses_by_state_text_kind_time_and_origin(library, wanted, chosen):
    records, total = choose(library, wanted)
    assert set(titles(records)) == chosen and total == len(chosen)
    assert choose(library, wanted, limit=1) == (records[:1], len(chosen))


@pytest.mark.parametrize("wanted", [Filter(matching="the"), Filter(origin="/nowhere.db")])
def test_filter_that_can_not_match_is_refused(library, wanted):
    with pytest.raises(InputError) as caught:
        choose(library, wanted)
    assert caught.value.code == "ARGUMENT_INVALID"


def test_memory_named_twice_is_chosen_once(library):
    key = next(
        record.memory.key for record in memories(library) if record.memory.title == "Staged lamp"
    )
    assert titles(named(library, [key, "obs_1", key])) == ["Staged lamp", "Uncurated lamp"]


@pytest.mark.parametrize("prefix", ["mem_", "mem_zzzz", "obs", ""])
def test_prefix_that_fits_no_memory_is_unknown(library, prefix):
    with pytest.raises(InputError) as caught:
        find_by_id_or_prefix(library, prefix)
    assert caught.value.code == "MEMORY_UNKNOWN"
