"""Records named by an id, a prefix or a mistyped id."""

from __future__ import annotations

from cortex.base.record_model import Subcortex, Task
from cortex.engine.library import Library
from cortex.families.team.ids import new_id
from cortex.families.team.references import resolve_ref
from families.team.writes.record_writes import make, refused


def test_record_is_found_by_its_id_or_a_unique_prefix(library: Library) -> None:
    lookup = library.store.records
    scope, task = make(library, Subcortex("billing", "Billing")), make(library, Task("T"))
    for ref, kind in (
        (task.id, "task"),
        (task.id, ""),
        (task.id[:-3], ""),
        (task.id[5:-3].lower(), "task"),
        (f" {task.id} ", "task"),
    ):
        assert resolve_ref(lookup, ref, kind) == task, ref
    for ref, kind in (
        ("billing", ""),
        ("Billing", "subcortex"),
        (scope.id, ""),
        (scope.id[:-3], "subcortex"),
    ):
        assert resolve_ref(lookup, ref, kind) == scope, ref


def test_mistyped_id_is_refused_with_a_similar_one(library: Library) -> None:
    lookup = library.store.records
    meant, *_ = (make(library, Task(f"Task {number}")) for number in range(5))
    swapped = {"0": "1"}
    for place in (-1, -12, -20):
        typo = (
            meant.id[:place]
            + swapped.get(meant.id[place], "0")
            + (meant.id[place + 1 :] if place != -1 else "")
        )
        assert (
            refused(lambda typo=typo: resolve_ref(lookup, typo, "task"))
            .context["near"][0]
            .startswith(meant.id)
        )
    assert (
        "is no thread, its kind is task"
        in refused(lambda: resolve_ref(lookup, meant.id, "thread")).message
    )
    assert (
        "at least 8 characters" in refused(lambda: resolve_ref(lookup, "task_01", "task")).message
    )


def test_unknown_id_is_refused_with_near_ones(library: Library) -> None:
    lookup = library.store.records
    make(library, Subcortex("billing", "Billing"))
    task = make(library, Task("Paint it"))
    assert refused(lambda: resolve_ref(lookup, "biling", "subcortex")).context["near"] == [
        "billing"
    ]
    for ref, kind in (
        (task.id, "thread"),
        (task.id[:9], "task"),
        (new_id(Task), "task"),
        ("", "task"),
        ("%", ""),
        ("\ud800", ""),
        ("a\0b", "subcortex"),
    ):
        error = refused(lambda ref=ref, kind=kind: resolve_ref(lookup, ref, kind))
        assert error.code == "RECORD_UNKNOWN", ref
    assert "Paint it" in refused(lambda: resolve_ref(lookup, new_id(Task), "task")).message


def test_ambiguous_prefix_is_refused_with_all_matches(library: Library) -> None:
    several = [make(library, Task(f"T{number}")) for number in range(3)]
    shared = 0
    while len({record.id[: shared + 1] for record in several}) == 1:
        shared += 1
    if shared >= len("task_") + 8:
        error = refused(lambda: resolve_ref(library.store.records, several[0].id[:shared], "task"))
        assert error.code == "RECORD_UNKNOWN" and all(
            record.id in error.message for record in several
        )
