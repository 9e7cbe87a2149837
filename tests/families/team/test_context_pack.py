"""Packs: what somebody new should know, and what matters about a subject."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pytest

from cortex.base.actors import person
from cortex.base.errors import InputError
from cortex.base.record_model import (
    Artifact,
    Body,
    CodeLink,
    Comment,
    Evidence,
    Link,
    Observation,
    Record,
    Subcortex,
    Task,
    Term,
    Thread,
)
from cortex.engine.library import Library
from cortex.engine.store import RecordTransaction
from cortex.families.team.context_pack import (
    MOST,
    SLOTS,
    ContextPack,
    PackSubject,
    bootstrap,
    context_pack,
)
from cortex.families.team.ids import fresh_key, new_id
from cortex.families.team.pack_entries import claim_of
from cortex.families.team.writes.placement import Placement
from cortex.families.team.writes.transactions import perform

NOW = int(time.time() * 1000)


def keep(library: Library, *bodies: Body) -> list[Any]:
    made: list[Record[Any]] = []

    def work(step: RecordTransaction) -> str:
        made.extend(step.make(new_id(type(body)), body) for body in bodies)
        return ""

    perform(library, work, actor=person(), key=fresh_key(), action="test", payload="")
    return made


def change(library: Library, record: Record[Any], **parts: object) -> None:
    def work(step: RecordTransaction) -> str:
        kept = step.get(record.id)
        assert kept is not None
        return step.put(replace(kept, body=replace(kept.body, **parts))).id

    perform(library, work, actor=person(), key=fresh_key(), action="test", payload="")


def slot(pack: ContextPack, name: str) -> list[str]:
    return [
        entry.record.body.title for one in pack.slots if one.name == name for entry in one.entries
    ]


# -- for somebody new
# --------------------------------------------------------------------------------------------------


@pytest.fixture
def team(library: Library) -> dict[str, Record[Any]]:
    """Two topics with what is pinned and pressing in each, and one that is over."""
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


def test_everywhere_all_topics_are_told_with_what_is_pinned_and_pressing(library, team):
    found = bootstrap(library)
    assert found.rules and {one.record.body.slug for one in found.topics} == {"docks", "sails"}
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


def test_an_entry_has_a_claim_and_what_to_know_about_it(library, team):
    topics = {topic.record.body.slug: topic for topic in bootstrap(library).topics}
    (rule,), (old,) = topics["docks"].pinned, topics["sails"].pinned
    assert (rule.claim, rule.warnings, rule.why) == ("By seven.", (), "pinned")
    assert old.warnings == ("review overdue since 2020-05-01",) and old.claim == ""
    assert topics["docks"].claim == "Where ships lie."


def test_one_topic_is_told_alone(library, team):
    found = bootstrap(library, "subcortex:sails")
    assert [topic.record.body.slug for topic in found.topics] == ["sails"] and found.topics[0].ours
    assert [priority.record.body.title for priority in found.priorities] == [
        "Close the leak",
        "Order canvas",
    ]
    assert found.incidents == found.glossary == ()


def test_in_a_workspace_its_topic_comes_first_and_the_others_by_name(library, team):
    thread = team["incident"].id
    found = bootstrap(
        library, "workspace", workspace_route=Placement(thread=thread, subcortex=team["docks"].id)
    )
    assert [(topic.record.body.slug, topic.ours, len(topic.pinned)) for topic in found.topics] == [
        ("docks", True, 1),
        ("sails", False, 0),
    ]
    assert [one.id for one in found.here] == [thread] and not found.naming
    assert [priority.record.body.title for priority in found.priorities] == ["Repair crane two"]


def test_a_workspace_without_a_topic_gets_all_and_is_told_so(library, team):
    found = bootstrap(
        library, "workspace", workspace_route=Placement(missing=("thread_x is gone",))
    )
    assert (
        len(found.topics) == 2
        and found.notes[0] == "thread_x is gone"
        and "no subcortex" in found.notes[1]
    )


def test_a_pin_of_what_was_superseded_shows_what_took_its_place(library):
    docks, old, second = keep(
        library, Subcortex("docks", "Docks"), Artifact("Old"), Artifact("Second")
    )
    (last,) = keep(library, Artifact("Last", state="accepted"))
    change(library, old, state="superseded", superseded_by=second.id)
    change(library, second, state="superseded", superseded_by=last.id)
    change(library, docks, pinned_artifacts=(old.id, second.id, last.id))
    ((topic,),) = [bootstrap(library, "subcortex:docks").topics]
    assert [(one.id, one.why) for one in topic.pinned] == [
        (last.id, f"took the place of {old.id}, pinned")
    ]
    assert slot(context_pack(library, PackSubject("subcortex", "docks")), "canon_artifacts") == [
        "Last"
    ]


def test_where_no_artifact_is_pinned_what_was_accepted_last_stands_in(library, team):
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
    assert [one.record.body.title for one in found.lately] == ["Rule 2", "Rule 1", "Rule 0"]
    assert {one.why for one in found.lately} == {
        "not pinned: accepted lately"
    } and not found.topics[0].pinned
    assert bootstrap(library).lately == ()  # sails has a pin


def test_an_unknown_topic_is_an_error_and_nothing_kept_is_none(library):
    assert bootstrap(library).topics == () and bootstrap(library).rules
    with pytest.raises(InputError) as caught:
        bootstrap(library, "subcortex:reefs")
    assert caught.value.code == "SCOPE_NOT_FOUND"


# -- about a subject
# ---------------------------------------------------------------------------------------------------


@pytest.fixture
def talk(library: Library) -> dict[str, Any]:
    """A thread with its comments, and what belongs to it."""
    (scope,) = keep(library, Subcortex("cache", "Cache"))
    (thread,) = keep(
        library, Thread("How large may the cache be?", "Memory is short.", subcortex=scope.id)
    )
    said = keep(
        library,
        *(
            Comment(thread.id, f"Opinion number {number}.", subcortex=scope.id)
            for number in range(9)
        ),
    )
    change(
        library,
        thread,
        summary=f"- Opinion number 0. [{said[0].id}]",
        summary_sources=(said[0].id,),
    )
    task, seen, rule, other, unrelated = keep(
        library,
        Task("Measure the cache", state="in_progress", thread=thread.id, subcortex=scope.id),
        Observation("The cache held 512 MB", thread=thread.id),
        Artifact(
            "The cache holds 256 MB", state="accepted", evidence=(Evidence("thread", thread.id),)
        ),
        Artifact("Evict the oldest first", state="accepted", subcortex=scope.id),
        Artifact("Lunch is at noon", state="accepted"),
    )
    (clash,) = keep(library, Link(seen.id, "contradicts", rule.id, "512 or 256", "candidate"))
    return {
        "scope": scope, "thread": thread, "said": said, "task": task, "seen": seen, "rule": rule, "other": other,
        "clash": clash, "unrelated": unrelated,
    }  # fmt: skip


def test_a_thread_comes_with_its_summary_its_comments_and_what_belongs_to_it(library, talk):
    pack = context_pack(library, PackSubject("thread", talk["thread"].id))
    assert (
        pack.thread == pack.about
        and pack.about is not None
        and pack.about.claim == "Opinion number 0."
    )
    assert [comment.claim for comment in pack.comments] == [
        f"Opinion number {number}." for number in (0, 4, 5, 6, 7, 8)
    ]
    assert slot(pack, "canon_artifacts") == ["The cache holds 256 MB", "Evict the oldest first"]
    assert slot(pack, "recent_observations") == ["The cache held 512 MB"]
    assert slot(pack, "in_progress_tasks") == ["Measure the cache"]
    assert [one.name for one in pack.slots] == [name for name in SLOTS if slot(pack, name)]


def test_contradictions_stand_in_their_slot_and_beside_what_they_are_about(library, talk):
    pack = context_pack(library, PackSubject("thread", talk["thread"].id))
    (clash,) = next(one.entries for one in pack.slots if one.name == "contradictions")
    assert clash.id == talk["clash"].id and clash.claim == "512 or 256"
    (seen,) = next(one.entries for one in pack.slots if one.name == "recent_observations")
    assert seen.warnings == (f"maybe contradicted by {talk['rule'].id}: 512 or 256",)


def test_a_contradiction_with_what_no_longer_counts_is_settled(library, talk):
    change(library, talk["rule"], state="superseded")
    pack = context_pack(library, PackSubject("thread", talk["thread"].id))
    assert "contradictions" not in [one.name for one in pack.slots]


@pytest.mark.parametrize(("kind", "name"), [("task", "task"), ("artifact", "rule")])
def test_a_task_and_an_artifact_come_with_the_thread_in_which_they_are_discussed(
    library, talk, kind, name
):
    pack = context_pack(library, PackSubject(kind, talk[name].id))
    assert pack.about is not None and pack.about.id == talk[name].id
    assert (
        pack.thread is not None and pack.thread.id == talk["thread"].id and len(pack.comments) == 6
    )
    assert "The cache held 512 MB" in slot(pack, "recent_observations")
    shown = [entry.id for one in pack.slots for entry in one.entries]
    assert len(set(shown)) == len(shown) and not {talk[name].id, talk["thread"].id} & set(shown)


def test_a_topic_comes_with_what_counts_there_and_what_was_last_done(library, talk):
    change(library, talk["scope"], pinned_artifacts=(talk["rule"].id,))
    pack = context_pack(library, PackSubject("subcortex", "cache"))
    assert pack.thread is None and slot(pack, "canon_artifacts") == [
        "The cache holds 256 MB",
        "Evict the oldest first",
    ]
    assert slot(pack, "recent_threads") == ["How large may the cache be?"]
    assert slot(pack, "in_progress_tasks") == ["Measure the cache"]


def test_what_is_superseded_or_done_is_related_and_not_canon(library, talk):
    change(library, talk["rule"], state="superseded")
    change(library, talk["task"], state="done")
    pack = context_pack(library, PackSubject("thread", talk["thread"].id))
    assert "The cache holds 256 MB" not in slot(pack, "canon_artifacts") and not slot(
        pack, "in_progress_tasks"
    )
    assert {"The cache holds 256 MB", "Measure the cache"} <= set(slot(pack, "related"))


def test_what_says_something_alike_is_there_although_nothing_links_it(library, talk):
    bodies = (
        Artifact(
            "The size of the cache is a share of the memory",
            "How large it may be.",
            state="accepted",
        ),
    )
    keep(
        library,
        *bodies,
        Thread("Why is the cache so large?", "It may be a leak of memory.", state="resolved"),
    )
    pack = context_pack(library, PackSubject("thread", talk["thread"].id))
    canon = next(one.entries for one in pack.slots if one.name == "canon_artifacts")
    assert ("The size of the cache is a share of the memory", "alike") in [
        (one.record.body.title, one.why) for one in canon
    ]
    assert "Why is the cache so large?" in slot(pack, "related") and "Lunch is at noon" not in slot(
        pack, "related"
    )


def test_only_the_slots_that_are_included_are_told(library, talk):
    pack = context_pack(library, PackSubject("thread", talk["thread"].id), ("in_progress_tasks",))
    assert [one.name for one in pack.slots] == ["in_progress_tasks"]


def test_code_comes_with_the_records_that_speak_of_it(library):
    mine = CodeLink("src/cache/lru.py", "engine", "Lru.get")
    _, of_symbol, _, _ = keep(
        library,
        Observation("The file is long", code_links=(replace(mine, symbol=""),)),
        Artifact("Reads move an entry to the front", state="accepted", code_links=(mine,)),
        Task(
            "Same place elsewhere", state="in_progress", code_links=(replace(mine, repo="other"),)
        ),
        Thread("Another file", code_links=(CodeLink("src/cache/lfu.py"),)),
    )
    pack = context_pack(library, PackSubject("code", link=CodeLink("src/cache/lru.py", "engine")))
    assert pack.about is pack.thread is None and not slot(pack, "in_progress_tasks")
    assert slot(pack, "recent_observations") == ["The file is long"]
    assert (
        next(one.entries for one in pack.slots if one.name == "canon_artifacts")[0].id
        == of_symbol.id
    )
    by_name = context_pack(library, PackSubject("code", link=CodeLink("", symbol="LRU.get")))
    assert slot(by_name, "canon_artifacts") == ["Reads move an entry to the front"]
    folder = context_pack(library, PackSubject("code", link=CodeLink("src/cache/")))
    assert slot(folder, "recent_threads") == ["Another file"] and slot(folder, "in_progress_tasks")


def test_linked_code_that_changed_is_told_in_a_pack(library, tmp_path):
    link = CodeLink("a.py", root=str(tmp_path), file_hash="00" * 16)
    (tmp_path / "a.py").write_text("x = 1\n", encoding="utf-8")
    keep(library, Observation("It was two", code_links=(link,)))
    pack = context_pack(library, PackSubject("code", link=CodeLink("a.py")))
    assert pack.slots[0].entries[0].warnings == ("maybe_stale: a.py changed",)


def test_slots_have_an_end_and_no_record_stands_in_two(library):
    (scope,) = keep(library, Subcortex("many", "Many"))
    (thread,) = keep(library, Thread("One of many", subcortex=scope.id))
    bodies = [
        body
        for number in range(25)
        for body in (
            Observation(f"Seen {number}", thread=thread.id, subcortex=scope.id),
            Task(f"Do {number}", state="in_progress", thread=thread.id, subcortex=scope.id),
            Artifact(f"Rule {number}", state="accepted", subcortex=scope.id),
            Thread(f"Talk {number}", subcortex=scope.id),
        )
    ]
    keep(library, *bodies)
    pack = context_pack(library, PackSubject("thread", thread.id))
    assert all(len(one.entries) <= MOST[one.name] for one in pack.slots)
    shown = [entry.id for one in pack.slots for entry in one.entries]
    assert len(set(shown)) == len(shown) > 25


def test_what_cannot_be_a_subject_is_refused(library):
    for subject in (
        PackSubject("comment", "x"),
        PackSubject("code"),
        PackSubject("code", link=CodeLink("")),
    ):
        with pytest.raises(InputError) as caught:
            context_pack(library, subject)
        assert caught.value.code == "ARGUMENT_INVALID"
    with pytest.raises(InputError) as caught:
        context_pack(library, PackSubject("thread", "thread_00000000000000000000000000"))
    assert caught.value.code == "RECORD_UNKNOWN"


def test_a_reader_makes_the_same_packs(library, talk):
    subject = PackSubject("thread", talk["thread"].id)
    assert context_pack(library.reader, subject).slots == context_pack(library, subject).slots
    assert bootstrap(library.reader).topics == bootstrap(library).topics


@pytest.mark.parametrize(
    ("body", "claim"),
    [
        (Thread("T", "It is asked.", resolution="It is so."), "It is so."),
        (Thread("T", "It is asked. Twice."), "It is asked."),
        (Task("T", "Do it.", "blocked", blocked_reason="no time"), "blocked: no time"),
        (Task("T", "Do it.", notes="Half done."), "Half done."),
        (Artifact("A", "# Head\n\nThe body says it.\n", ""), "The body says it."),
        (Observation("O", "```\ncode\n```"), "``` code ```"),
        (Observation("O"), ""),
        (Comment("thread_x", "w" * 1_000), "w" * 239 + "…"),
    ],
)
def test_a_claim_is_one_sentence_of_the_records_own(body, claim):
    assert claim_of(Record("x", body)) == claim
