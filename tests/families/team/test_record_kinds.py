"""A new field and a new kind of a record, added through one row each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Annotated, Any

import pytest

from cortex.base.actors import agent, person
from cortex.base.errors import InputError
from cortex.base.record_model import (
    KINDS,
    NORMAL,
    PREFIXES,
    SENSITIVE,
    SENSITIVITIES,
    Record,
    RecordFilter,
    Thread,
    refs_of,
)
from cortex.base.record_spec import FieldSpec, KindSpec, Option, fields_of, record_kind, spec_of
from cortex.engine.library import Library
from cortex.engine.store import kind_of_id
from cortex.families.team.ids import new_id
from cortex.families.team.index_text import text_of
from cortex.families.team.pack_entries import claim_of
from cortex.families.team.references import resolve_ref
from cortex.families.team.required_permissions import rights_of
from cortex.families.team.tools.row_views import opened_row
from cortex.families.team.validation import check_first, check_move, checked
from cortex.families.team.wire.codec import body_from, body_to, is_id
from cortex.families.team.wire.identity import outward, renamed_body
from cortex.families.team.writes.create import create
from cortex.families.team.writes.preflight import texts_of
from cortex.families.team.writes.update import revise
from cortex.interfaces.team_server.apply.three_way_merge import Conflict, merged
from cortex.interfaces.team_server.routes.lists import list_query
from cortex.interfaces.team_server.schemas import (
    create_body,
    patch_body,
    record_row,
    record_schema,
    sent,
)

SPEC = KindSpec(
    "experiment_",
    moves={"planned": ("running",), "running": ("done",), "done": ()},
    first=("planned",),
    right="create_task",
    claim=("hypothesis",),
)


@dataclass(frozen=True, slots=True)
class Experiment:
    """A kind that this test adds."""

    title: Annotated[str, FieldSpec(80, needed=True, prose=True)]
    hypothesis: Annotated[
        str, FieldSpec(300, long=True, http="hypothesis_md", indexed=1, row="text")
    ] = ""
    state: Annotated[str, FieldSpec(http="status", row=None)] = "planned"
    thread: Annotated[
        str,
        FieldSpec(
            role="thread", kind="thread", belongs=True, filtered=True, http="thread_id", row=None
        ),
    ] = ""
    sensitivity: Annotated[str, FieldSpec(choices=SENSITIVITIES)] = NORMAL


@dataclass(frozen=True, slots=True)
class Trial(Experiment):
    """The same kind with fields that this test adds: one row each."""

    method: Annotated[
        str,
        FieldSpec(
            choices=("replay", "survey"),
            role="method",
            filtered=True,
            row=None,
            option=Option("--method", "METHOD", "How it is tried."),
        ),
    ] = "replay"
    lesson: Annotated[str, FieldSpec(50, long=True, http="lesson_md", indexed=2, row="learned")] = (
        ""
    )
    crew: Annotated[
        tuple[str, ...], FieldSpec(2, role="crew", principal=True, http="crew_ids", row="with")
    ] = ()
    ended: Annotated[int, FieldSpec(moment=True, http="ended_at", sent="change")] = 0


@pytest.fixture(params=[Experiment, Trial], ids=["kind", "kind-with-more-fields"])
def kind(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Register a class as a kind while the test runs."""
    cls = request.param
    record_kind(replace(SPEC, prefix=f"{cls.__name__.lower()}_"))(cls)
    yield cls
    del KINDS[cls.__name__.lower()], PREFIXES[cls]


@pytest.fixture
def trial() -> Iterator[Any]:
    record_kind(replace(SPEC, prefix="trial_"))(Trial)
    yield Trial
    del KINDS["trial"], PREFIXES[Trial]


def refused(work: Any) -> dict[str, object]:
    with pytest.raises(InputError) as caught:
        work()
    return caught.value.context


# -- a kind


def test_a_new_kind_has_ids_and_a_plural(kind: Any) -> None:
    name = kind.__name__.lower()
    record_id = new_id(kind)
    assert record_id.startswith(f"{name}_")
    assert kind_of_id(record_id) == name
    assert is_id(record_id, name)
    assert spec_of(name).plural == f"{name}s"


def test_a_new_kind_is_validated(kind: Any) -> None:
    assert checked(kind("  A   title ")) == kind("A title")
    assert refused(lambda: checked(kind("")))["field"] == "title"
    assert refused(lambda: checked(kind("x" * 81)))["field"] == "title"
    assert refused(lambda: checked(kind("A", state="gone")))["allowed"] == [
        "planned",
        "running",
        "done",
    ]
    assert refused(lambda: check_first(kind("A", state="done")))["field"] == "state"
    check_move(kind("A"), kind("A", state="running"))
    assert refused(lambda: check_move(kind("A"), kind("A", state="done")))["allowed"] == ["running"]


def test_a_new_kind_is_encoded_and_decoded(kind: Any) -> None:
    body = kind("A", hypothesis="B", thread="thread_1")
    encoded = body_to(body)
    assert encoded == {"title": "A", "hypothesis": "B", "thread": "thread_1"}
    assert body_from(kind.__name__.lower(), encoded) == body
    assert refused(lambda: body_from(kind.__name__.lower(), {**encoded, "colour": "red"}))


def test_a_new_kind_is_stored_linked_and_found_by_its_references(
    library: Library, kind: Any
) -> None:
    name = kind.__name__.lower()
    thread = create(library, Thread("A", sensitivity=SENSITIVE), actor=person())
    record = create(library, kind("A", "Batching helps.", thread=thread.id), actor=person())
    # It is as sensitive as its thread.
    assert record.body == kind("A", "Batching helps.", "planned", thread.id, SENSITIVE)
    wanted = RecordFilter(kinds=(name,), refs=(("thread", thread.id),))
    assert library.store.records.select(wanted) == [record]
    assert resolve_ref(library.store.records, record.id[:-4]) == record
    dangling = kind("A", thread="thread_01AAAAAAAAAAAAAAAAAAAAAAAA")
    assert refused(lambda: create(library, dangling, actor=person()))["field"] == "thread"


def test_a_new_kind_is_changed_within_its_states(library: Library, kind: Any) -> None:
    record = create(library, kind("A"), actor=person())

    def to(state: str) -> Record[Any]:
        return revise(
            library,
            record.id,
            lambda body: replace(body, state=state),
            actor=person(),
            action="edit",
        )

    assert refused(lambda: to("done"))["field"] == "state"
    assert to("running").version == 2


def test_a_new_kind_needs_the_permission_of_its_row(library: Library, kind: Any) -> None:
    assert rights_of(None, kind("A")) == ("create_task",)
    assert rights_of(None, kind("A", sensitivity=SENSITIVE)) == ("create_task", "sensitive")
    newcomer = replace(agent(library.settings), tier=1)
    assert refused(lambda: create(library, kind("A"), actor=newcomer))["needed"] == 2


def test_a_new_kind_is_shown_and_indexed(kind: Any) -> None:
    record = Record("experiment_1", kind("A", "Batching helps. Or not."), "ada")
    assert text_of(record, lambda _: None) == ("A", "# A\n\nBatching helps. Or not.\n")
    assert claim_of(record) == "Batching helps."
    row = opened_row(record, str, ("sensitive",))
    shown = {"title": "A", "state": "planned", "by": "ada", "text": "Batching helps. Or not."}
    assert shown.items() <= row.items()
    assert row["warnings"] == ["sensitive"]
    assert texts_of(record.body) == ["A", "Batching helps. Or not."]


def test_a_new_kind_has_schemas_over_http(kind: Any) -> None:
    fields = {"title", "hypothesis_md", "status", "thread_id", "sensitivity"}
    assert fields <= set(record_schema(kind)["properties"])  # type: ignore[call-overload]
    model = create_body(kind)
    assert model.model_json_schema()["required"] == ["title"]
    given = model.model_validate({"title": "A", "hypothesis_md": "B", "status": "planned"})
    assert kind(**sent(kind, given)) == kind("A", "B")
    assert "version" in patch_body(kind).model_fields
    assert "thread" in list_query(kind).model_fields
    row = record_row(Record("experiment_1", kind("A", "B"), "ada"))
    assert (row["hypothesis_md"], row["status"]) == ("B", "planned")


# -- a field


def test_a_new_field_is_validated(trial: Any) -> None:
    assert refused(lambda: checked(trial("A", method="guess")))["allowed"] == ["replay", "survey"]
    assert refused(lambda: checked(trial("A", lesson="x" * 51)))["field"] == "lesson"
    assert refused(lambda: checked(trial("A", crew=("a", "b", "c"))))["field"] == "crew"
    assert checked(trial("A", crew=("a", " a ", ""))).crew == ("a",)


def test_a_new_field_is_a_reference(trial: Any) -> None:
    assert set(refs_of(trial("A", method="survey", crew=("ada",)))) == {
        ("method", "survey"),
        ("crew", "ada"),
    }


def test_a_new_field_with_names_is_renamed_between_homes(trial: Any) -> None:
    assert renamed_body(trial("A", crew=("person", "bo")), outward("ada")).crew == ("ada", "bo")


def test_a_new_field_is_indexed_shown_and_judged(trial: Any) -> None:
    record = Record("trial_1", trial("A", "B", method="survey", lesson="C", crew=("ada",)), "ada")
    assert text_of(record, lambda _: None)[1] == "# A\n\nB\n\nC\n"
    row = opened_row(record, str, ())
    assert (row["method"], row["learned"], row["with"]) == ("survey", "C", ["ada"])
    assert texts_of(record.body) == ["A", "B", "C"]


def test_a_new_field_is_sent_over_http(trial: Any) -> None:
    row = record_row(Record("trial_1", trial("A", lesson="C", ended=1_000), "ada"))
    assert (row["lesson_md"], row["crew_ids"]) == ("C", [])
    assert row["ended_at"] == "1970-01-01T00:00:01.000Z"
    assert "method" in list_query(trial).model_fields
    assert "crew_ids" in create_body(trial).model_fields
    assert "ended_at" not in create_body(trial).model_fields
    assert "ended_at" in patch_body(trial).model_fields
    assert refused_by(create_body(trial), {"title": "A", "method": "guess"})


def refused_by(model: Any, given: dict[str, object]) -> bool:
    try:
        model.model_validate(given)
    except ValueError:
        return True
    return False


def test_a_new_field_is_merged(trial: Any) -> None:
    before = trial("A")
    ours, theirs = replace(before, lesson="C", crew=("a",)), replace(before, crew=("b",))
    assert merged(before, ours, theirs) == replace(before, lesson="C", crew=("b", "a"))
    conflict = merged(before, ours, replace(before, lesson="D"))
    assert isinstance(conflict, Conflict)
    assert conflict.fields == ("lesson",)


def test_a_new_field_names_the_option_that_sets_it(trial: Any) -> None:
    spec = fields_of(trial)["method"]
    assert spec.option is not None
    assert (spec.option.name, spec.default, spec.title) == ("--method", "replay", "Method")
