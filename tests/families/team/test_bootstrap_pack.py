"""Bootstrap packs for newcomers."""

from __future__ import annotations

from typing import Any

import pytest

from cortex.base.errors import InputError
from cortex.base.record_model import Artifact, Record, Subcortex, Task, Term, Thread
from cortex.engine.library import Library
from cortex.families.team.context_pack import PackSubject, bootstrap, context_pack
from cortex.families.team.writes.placement import Placement
from families.team.kept_records import change, keep


@pytest.fixture
def team(library: Library) -> dict[str, Record[Any]]:
    """Two subcortexes with pins and urgent tasks, and an archived one."""
    docks, sails, gone = keep(
        library,
        Subcortex("docks", "Docks", "Where ships lie. More follows.", "Keep the quay free.", glossary=(Term("berth", "a place for a ship"),)),
        Subcortex("sails", "Sails", "What moves them.", naming=("Sails are named after winds.",)),
        Subcortex("oars", "Oars", state="archived"),
    )  # fmt: skip
    rule, old, task, done, urgent, high, low, incident, over = keep(
        library,
        Artifact(
            "Quays are swept daily", summary="By seven.", state="accepted", subcortex=docks.id
        ),
        Artifact(
            "Ropes are changed in May", state="accepted", review_by="2020-05-01", subcortex=sails.id
        ),
        Task("Repair crane two", subcortex=docks.id),
        Task("Paint the bollards", state="done", subcortex=docks.id),
        Task("Close the leak", state="in_progress", priority="urgent", subcortex=sails.id),
        Task("Order canvas", priority="high", subcortex=sails.id),
        Task("Tidy the loft", priority="low", subcortex=sails.id),
        Thread("Water in the store", type="incident", subcortex=docks.id),
        Thread("Fire in the loft", type="incident", state="resolved", subcortex=sails.id),
    )
    change(library, docks, pinned_artifacts=(rule.id,), pinned_tasks=(task.id, done.id))
    change(library, sails, pinned_artifacts=(old.id,))
    names = "docks sails gone rule old task done urgent high low incident over".split()
    return dict(
        zip(
            names,
            (docks, sails, gone, rule, old, task, done, urgent, high, low, incident, over),
            strict=True,
        )
    )


def test_global_pack_has_all_subcortexes_pins_and_urgent_tasks(library, team):
    found = bootstrap(library)
    assert found.rules and {entry.record.body.slug for entry in found.topics} == {"docks", "sails"}
    pinned = {
        topic.record.body.slug: [entry.record.body.title for entry in topic.pinned]
        for topic in found.topics
    }
    assert pinned == {"docks": ["Quays are swept daily"], "sails": ["Ropes are changed in May"]}
    assert [word.term.term for word in found.glossary] == ["berth"] and found.glossary[
        0
    ].subcortex == "docks"
    assert found.naming == ("Sails are named after winds.",)
    assert [priority.record.body.title for priority in found.priorities] == [
        "Repair crane two",
        "Close the leak",
        "Order canvas",
    ]
    assert [incident.record.body.title for incident in found.incidents] == ["Water in the store"]


def test_entry_has_a_claim_and_its_caveats(library, team):
    topics = {topic.record.body.slug: topic for topic in bootstrap(library).topics}
    (rule,), (old,) = topics["docks"].pinned, topics["sails"].pinned
    assert (rule.claim, rule.warnings, rule.why) == ("By seven.", (), "pinned")
    assert old.warnings == ("review overdue since 2020-05-01",) and old.claim == ""
    assert topics["docks"].claim == "Where ships lie."


def test_pack_of_one_subcortex_has_no_other(library, team):
    found = bootstrap(library, "subcortex:sails")
    assert [topic.record.body.slug for topic in found.topics] == ["sails"] and found.topics[0].ours
    assert [priority.record.body.title for priority in found.priorities] == [
        "Close the leak",
        "Order canvas",
    ]
    assert found.incidents == found.glossary == ()


def test_workspace_pack_begins_with_its_subcortex(library, team):
    thread = team["incident"].id
    found = bootstrap(
        library, "workspace", workspace_route=Placement(thread=thread, subcortex=team["docks"].id)
    )
    assert [(topic.record.body.slug, topic.ours, len(topic.pinned)) for topic in found.topics] == [
        ("docks", True, 1),
        ("sails", False, 0),
    ]
    assert [entry.id for entry in found.here] == [thread] and not found.naming
    assert [priority.record.body.title for priority in found.priorities] == ["Repair crane two"]


def test_workspace_without_a_subcortex_gets_all_with_a_note(library, team):
    found = bootstrap(
        library, "workspace", workspace_route=Placement(missing=("thread_x is gone",))
    )
    assert (
        len(found.topics) == 2
        and found.notes[0] == "thread_x is gone"
        and "no subcortex" in found.notes[1]
    )


def test_pin_of_a_superseded_artifact_shows_its_successor(library):
    docks, old, second = keep(
        library, Subcortex("docks", "Docks"), Artifact("Old"), Artifact("Second")
    )
    (last,) = keep(library, Artifact("Last", state="accepted"))
    change(library, old, state="superseded", superseded_by=second.id)
    change(library, second, state="superseded", superseded_by=last.id)
    change(library, docks, pinned_artifacts=(old.id, second.id, last.id))
    ((topic,),) = [bootstrap(library, "subcortex:docks").topics]
    assert [(entry.id, entry.why) for entry in topic.pinned] == [
        (last.id, f"took the place of {old.id}, pinned")
    ]
    slots = {
        slot.name: slot for slot in context_pack(library, PackSubject("subcortex", "docks")).slots
    }
    assert [entry.record.body.title for entry in slots["canon_artifacts"].entries] == ["Last"]


def test_latest_accepted_artifacts_replace_missing_pins(library, team):
    assert bootstrap(library).lately == ()
    change(library, team["docks"], pinned_artifacts=())
    keep(
        library,
        Artifact("Only proposed", state="proposed", subcortex=team["docks"].id),
        *(
            Artifact(f"Rule {number}", state="accepted", subcortex=team["docks"].id)
            for number in range(3)
        ),
        Artifact("Of sails", state="accepted", subcortex=team["sails"].id),
    )
    found = bootstrap(library, "subcortex:docks")
    assert [entry.record.body.title for entry in found.lately] == ["Rule 2", "Rule 1", "Rule 0"]
    assert {entry.why for entry in found.lately} == {
        "not pinned: accepted lately"
    } and not found.topics[0].pinned
    assert bootstrap(library).lately == ()  # sails has a pin


def test_unknown_subcortex_is_an_error_and_an_empty_store_is_not(library):
    assert bootstrap(library).topics == () and bootstrap(library).rules
    with pytest.raises(InputError) as caught:
        bootstrap(library, "subcortex:reefs")
    assert caught.value.code == "SCOPE_NOT_FOUND"
