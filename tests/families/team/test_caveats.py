"""What somebody should know who relies on a record."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from cortex.base.actors import person
from cortex.base.record_model import (
    SENSITIVE,
    Artifact,
    Body,
    CodeLink,
    Link,
    Observation,
    Record,
    Task,
    Thread,
)
from cortex.engine.library import Library
from cortex.families.team.caveats import warnings_for, warnings_of
from cortex.families.team.ids import fresh_key, new_id
from cortex.families.team.writes.transactions import perform

NOW = 1_767_225_600_000  # 2026-01-01


def keep(library: Library, *bodies: Body) -> list[Record[Any]]:
    made: list[Record[Any]] = []

    def work(step: Any) -> str:
        made.extend(step.make(new_id(type(body)), body) for body in bodies)
        return ""

    perform(library, work, actor=person(), key=fresh_key(), action="test", payload="")
    return made


def told(library: Library, record: Record[Any]) -> tuple[str, ...]:
    return warnings_of(library, record, NOW)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (Artifact("A", state="accepted"), ()),
        (Artifact("A", state="deprecated", review_by="2020-01-01"), ("deprecated",)),
        (Artifact("A", state="superseded"), ("superseded",)),
        (
            Artifact("A", state="accepted", review_by="2025-12-31"),
            ("review overdue since 2025-12-31",),
        ),
        (Artifact("A", state="accepted", review_by="2026-01-01"), ()),
        (Artifact("A", verification="incorrect"), ("marked as incorrect",)),
        (Task("A", sensitivity=SENSITIVE), ("sensitive: not to be passed on",)),
        (Thread("A"), ()),
    ],
)
def test_a_record_tells_what_speaks_against_relying_on_it(library, body, expected):
    (record,) = keep(library, body)
    assert told(library, record) == expected


def test_what_took_its_place_is_named_by_the_record_or_by_a_link(library):
    (new,) = keep(library, Artifact("New"))
    old, other = keep(
        library, Artifact("Old", state="superseded", superseded_by=new.id), Observation("Other")
    )
    keep(library, Link(new.id, "supersedes", old.id), Link(new.id, "supersedes", other.id))
    assert told(library, old) == told(library, other) == (f"superseded by {new.id}",)
    assert told(library, new) == ()


def test_contradictions_are_told_on_both_sides_those_that_were_judged_first(library):
    one, two, three = keep(library, Artifact("One"), Observation("Two"), Thread("Three"))
    keep(
        library,
        Link(one.id, "contradicts", three.id, "8 or 9", "candidate"),
        Link(two.id, "contradicts", one.id),
    )
    assert told(library, one) == (
        f"contradicted by {two.id}",
        f"maybe contradicted by {three.id}: 8 or 9",
    )
    assert told(library, three) == (f"maybe contradicted by {one.id}: 8 or 9",)


@pytest.mark.parametrize("settled", ["superseded", "deprecated", "dismissed"])
def test_a_contradiction_that_is_settled_is_no_longer_told(library, settled):
    state = settled if settled == "dismissed" else "confirmed"
    one, two = keep(
        library,
        Artifact("One"),
        Artifact("Two", state="draft" if settled == "dismissed" else settled),
    )
    keep(library, Link(one.id, "contradicts", two.id, state=state))
    assert told(library, one) == ()
    assert not any("contradicted" in line for line in told(library, two))


def test_links_of_other_kinds_and_to_what_is_gone_say_nothing(library):
    one, two = keep(library, Artifact("One"), Artifact("Two"))
    keep(
        library,
        Link(two.id, "supports", one.id),
        Link(one.id, "contradicts", "artifact_00000000000000000000000000"),
    )
    keep(library, Link(two.id, "supersedes", one.id, state="candidate"))
    assert told(library, one) == ()


def test_code_that_changed_is_told(library, tmp_path):
    link = CodeLink("a.py", root=str(tmp_path), file_hash="00" * 16)
    (tmp_path / "a.py").write_text("x = 1\n", encoding="utf-8")
    record, other = keep(
        library,
        Observation("A", code_links=(link,)),
        Task("B", code_links=(replace(link, root=""),)),
    )
    assert told(library, record) == ("maybe_stale: a.py changed",) and told(library, other) == ()


def test_many_records_are_told_of_in_one_look(library):
    records = keep(library, *(Artifact(f"Number {number}") for number in range(40)))
    keep(library, *(Link(one.id, "contradicts", two.id) for one, two in pairwise(records)))
    found = warnings_for(library, records, NOW)
    assert found == {record.id: told(library, record) for record in records}
    assert all(found.values()) and warnings_for(library, [], NOW) == {}


def test_what_something_sensitive_says_is_not_told_by_a_record_that_is_not(library):
    open_one, private = keep(library, Artifact("A"), Artifact("B", sensitivity=SENSITIVE))
    keep(
        library,
        Link(open_one.id, "contradicts", private.id, "30 here, 10 there", sensitivity=SENSITIVE),
    )
    assert told(library, open_one) == (f"contradicted by {private.id}",)
    assert told(library, private)[1] == f"contradicted by {open_one.id}: 30 here, 10 there"
