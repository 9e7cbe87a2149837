"""Warnings to readers who rely on a record."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from cortex.base.record_model import (
    SENSITIVE,
    Artifact,
    CodeLink,
    Link,
    Observation,
    Record,
    Task,
    Thread,
)
from cortex.engine.library import Library
from cortex.families.team.caveats import warnings_for, warnings_of
from families.team.kept_records import keep

NOW = 1_767_225_600_000  # 2026-01-01


def caveats(library: Library, record: Record[Any]) -> tuple[str, ...]:
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
def test_record_has_a_caveat_for_each_reason(library, body, expected):
    (record,) = keep(library, body)
    assert caveats(library, record) == expected


def test_superseding_record_is_named_from_the_record_or_a_link(library):
    (new,) = keep(library, Artifact("New"))
    old, other = keep(
        library, Artifact("Old", state="superseded", superseded_by=new.id), Observation("Other")
    )
    keep(library, Link(new.id, "supersedes", old.id), Link(new.id, "supersedes", other.id))
    assert caveats(library, old) == caveats(library, other) == (f"superseded by {new.id}",)
    assert caveats(library, new) == ()


def test_contradictions_are_on_both_sides_with_confirmed_ones_first(library):
    one, two, three = keep(library, Artifact("One"), Observation("Two"), Thread("Three"))
    keep(
        library,
        Link(one.id, "contradicts", three.id, "8 or 9", "candidate"),
        Link(two.id, "contradicts", one.id),
    )
    assert caveats(library, one) == (
        f"contradicted by {two.id}",
        f"maybe contradicted by {three.id}: 8 or 9",
    )
    assert caveats(library, three) == (f"maybe contradicted by {one.id}: 8 or 9",)


@pytest.mark.parametrize("settled", ["superseded", "deprecated", "dismissed"])
def test_settled_contradiction_is_no_caveat(library, settled):
    state = settled if settled == "dismissed" else "confirmed"
    one, two = keep(
        library,
        Artifact("One"),
        Artifact("Two", state="draft" if settled == "dismissed" else settled),
    )
    keep(library, Link(one.id, "contradicts", two.id, state=state))
    assert caveats(library, one) == ()
    assert not any("contradicted" in line for line in caveats(library, two))


def test_other_links_and_missing_targets_are_no_caveat(library):
    one, two = keep(library, Artifact("One"), Artifact("Two"))
    keep(
        library,
        Link(two.id, "supports", one.id),
        Link(one.id, "contradicts", "artifact_00000000000000000000000000"),
    )
    keep(library, Link(two.id, "supersedes", one.id, state="candidate"))
    assert caveats(library, one) == ()


def test_changed_code_is_a_caveat(library, tmp_path):
    link = CodeLink("a.py", root=str(tmp_path), file_hash="00" * 16)
    (tmp_path / "a.py").write_text("x = 1\n", encoding="utf-8")
    record, other = keep(
        library,
        Observation("A", code_links=(link,)),
        Task("B", code_links=(replace(link, root=""),)),
    )
    assert (
        caveats(library, record) == ("maybe_stale: a.py changed",) and caveats(library, other) == ()
    )


def test_caveats_of_many_records_equal_those_of_each(library):
    records = keep(library, *(Artifact(f"Number {number}") for number in range(40)))
    keep(library, *(Link(one.id, "contradicts", two.id) for one, two in pairwise(records)))
    found = warnings_for(library, records, NOW)
    assert found == {record.id: caveats(library, record) for record in records}
    assert all(found.values()) and warnings_for(library, [], NOW) == {}


def test_sensitive_text_is_not_quoted_in_caveats_of_open_records(library):
    open_one, private = keep(library, Artifact("A"), Artifact("B", sensitivity=SENSITIVE))
    keep(
        library,
        Link(open_one.id, "contradicts", private.id, "30 here, 10 there", sensitivity=SENSITIVE),
    )
    assert caveats(library, open_one) == (f"contradicted by {private.id}",)
    assert caveats(library, private)[1] == f"contradicted by {open_one.id}: 30 here, 10 there"
