"""Context packs about a subject."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pytest

from cortex.base.errors import InputError
from cortex.base.record_model import (
    Artifact,
    CodeLink,
    Comment,
    Evidence,
    Link,
    Observation,
    Record,
    Subcortex,
    Task,
    Thread,
)
from cortex.engine.library import Library
from cortex.families.team.context_pack import (
    MOST,
    SLOTS,
    ContextPack,
    PackSubject,
    bootstrap,
    context_pack,
)
from cortex.families.team.pack_entries import claim_of
from families.team.kept_records import change, keep

NOW = int(time.time() * 1000)


def slot(pack: ContextPack, name: str) -> list[str]:
    return [
        entry.record.body.title
        for slot in pack.slots
        if slot.name == name
        for entry in slot.entries
    ]


# -- context packs
# ---------------------------------------------------------------------------------------------------


@pytest.fixture
def talk(library: Library) -> dict[str, Any]:
    """A thread with its comments and related records."""
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


def test_thread_pack_has_its_summary_comments_and_related_records(library, talk):
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
    assert [slot.name for slot in pack.slots] == [name for name in SLOTS if slot(pack, name)]


def test_contradictions_are_in_their_slot_and_beside_their_records(library, talk):
    pack = context_pack(library, PackSubject("thread", talk["thread"].id))
    (clash,) = next(slot.entries for slot in pack.slots if slot.name == "contradictions")
    assert clash.id == talk["clash"].id and clash.claim == "512 or 256"
    (seen,) = next(slot.entries for slot in pack.slots if slot.name == "recent_observations")
    assert seen.warnings == (f"maybe contradicted by {talk['rule'].id}: 512 or 256",)


def test_contradiction_with_a_superseded_record_is_left_out(library, talk):
    change(library, talk["rule"], state="superseded")
    pack = context_pack(library, PackSubject("thread", talk["thread"].id))
    assert "contradictions" not in [slot.name for slot in pack.slots]


@pytest.mark.parametrize(("kind", "name"), [("task", "task"), ("artifact", "rule")])
def test_pack_of_a_task_or_artifact_has_its_thread(library, talk, kind, name):
    pack = context_pack(library, PackSubject(kind, talk[name].id))
    assert pack.about is not None and pack.about.id == talk[name].id
    assert (
        pack.thread is not None and pack.thread.id == talk["thread"].id and len(pack.comments) == 6
    )
    assert "The cache held 512 MB" in slot(pack, "recent_observations")
    shown = [entry.id for slot in pack.slots for entry in slot.entries]
    assert len(set(shown)) == len(shown) and not {talk[name].id, talk["thread"].id} & set(shown)


def test_subcortex_pack_has_its_canon_and_latest_work(library, talk):
    change(library, talk["scope"], pinned_artifacts=(talk["rule"].id,))
    pack = context_pack(library, PackSubject("subcortex", "cache"))
    assert pack.thread is None and slot(pack, "canon_artifacts") == [
        "The cache holds 256 MB",
        "Evict the oldest first",
    ]
    assert slot(pack, "recent_threads") == ["How large may the cache be?"]
    assert slot(pack, "in_progress_tasks") == ["Measure the cache"]


def test_superseded_or_done_record_is_related_and_not_canon(library, talk):
    change(library, talk["rule"], state="superseded")
    change(library, talk["task"], state="done")
    pack = context_pack(library, PackSubject("thread", talk["thread"].id))
    assert "The cache holds 256 MB" not in slot(pack, "canon_artifacts") and not slot(
        pack, "in_progress_tasks"
    )
    assert {"The cache holds 256 MB", "Measure the cache"} <= set(slot(pack, "related"))


def test_similar_record_is_included_without_a_link(library, talk):
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
    canon = next(slot.entries for slot in pack.slots if slot.name == "canon_artifacts")
    assert ("The size of the cache is a share of the memory", "alike") in [
        (entry.record.body.title, entry.why) for entry in canon
    ]
    assert "Why is the cache so large?" in slot(pack, "related") and "Lunch is at noon" not in slot(
        pack, "related"
    )


def test_only_included_slots_are_filled(library, talk):
    pack = context_pack(library, PackSubject("thread", talk["thread"].id), ("in_progress_tasks",))
    assert [slot.name for slot in pack.slots] == ["in_progress_tasks"]


def test_code_pack_has_the_records_that_cite_it(library):
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
        next(slot.entries for slot in pack.slots if slot.name == "canon_artifacts")[0].id
        == of_symbol.id
    )
    by_name = context_pack(library, PackSubject("code", link=CodeLink("", symbol="LRU.get")))
    assert slot(by_name, "canon_artifacts") == ["Reads move an entry to the front"]
    folder = context_pack(library, PackSubject("code", link=CodeLink("src/cache/")))
    assert slot(folder, "recent_threads") == ["Another file"] and slot(folder, "in_progress_tasks")


def test_pack_reports_changed_linked_code(library, tmp_path):
    link = CodeLink("a.py", root=str(tmp_path), file_hash="00" * 16)
    (tmp_path / "a.py").write_text("x = 1\n", encoding="utf-8")
    keep(library, Observation("It was two", code_links=(link,)))
    pack = context_pack(library, PackSubject("code", link=CodeLink("a.py")))
    assert pack.slots[0].entries[0].warnings == ("maybe_stale: a.py changed",)


def test_slots_are_bounded_and_share_no_record(library):
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
    assert all(len(slot.entries) <= MOST[slot.name] for slot in pack.slots)
    shown = [entry.id for slot in pack.slots for entry in slot.entries]
    assert len(set(shown)) == len(shown) > 25


def test_invalid_subject_is_refused(library):
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


def test_read_only_library_makes_the_same_packs(library, talk):
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
def test_claim_is_one_sentence_of_its_record(body, claim):
    assert claim_of(Record("x", body)) == claim
