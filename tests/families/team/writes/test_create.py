"""Writing records: found at once, once for a key, in their place, by who may; and what follows from
each.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from cortex.base.actors import person
from cortex.base.errors import CortexError
from cortex.base.record_model import (
    SENSITIVE,
    Actor,
    Artifact,
    Body,
    CodeLink,
    Comment,
    Evidence,
    Link,
    Observation,
    Record,
    RecordFilter,
    Subcortex,
    Task,
    Thread,
    kind_of,
)
from cortex.base.types import Mode, Query
from cortex.engine.embedders.circuit_breaker import Embedders
from cortex.engine.library import Library
from cortex.engine.store import TransactionOptions
from cortex.families.team.ids import new_id
from cortex.families.team.index_text import wording
from cortex.families.team.permissions import TIERS
from cortex.families.team.search import RecordQuery, find
from cortex.families.team.writes.actions import archive
from cortex.families.team.writes.create import (
    MOST_AT_ONCE,
    add_comment,
    create,
    create_observations,
    create_once,
)
from cortex.families.team.writes.discussion import SINCE
from cortex.families.team.writes.transactions import perform

PERSON, AGENT, WRITER = person(), Actor("agent", 1), Actor("agent", 2)
TOKEN = "ghp_" + "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3z5A"


def refused(call: Callable[[], object]) -> CortexError:
    with pytest.raises(CortexError) as raised:
        call()
    return raised.value


def make(library: Library, body: Body, actor: Actor = PERSON, **more: Any) -> Record[Any]:
    return create(library, body, actor=actor, **more)


def now(library: Library, record: Record[Any]) -> Record[Any]:
    found = library.store.records.one(record.id)
    assert found is not None
    return found


def found_by(library: Library, text: str) -> list[str]:
    """The ids of the records that are found by words."""
    sources = library.store.records.sources(
        ("subcortex", "thread", "comment", "observation", "artifact", "task")
    )
    return [hit.path for hit in library.search(Query(text, mode=Mode.WORDS), sources=sources).hits]


def count(library: Library, *kinds: str) -> int:
    return library.store.records.count(RecordFilter(kinds=kinds))


# -- one of each
# -------------------------------------------------------------------------------------------------------


def bodies(library: Library) -> list[Body]:
    thread, other = make(library, Thread("First thread")), make(library, Thread("Second thread"))
    return [
        Subcortex("billing", "Quarzite billing"),
        Thread("Quarzite rounding"),
        Comment(thread.id, "quarzite is right"),
        Observation("Quarzite was seen"),
        Artifact("Quarzite decision", "half to even"),
        Task("Quarzite to fix"),
        Link(thread.id, "supports", other.id),
    ]


def test_a_new_record_of_every_kind_is_kept_and_found_at_once(library: Library) -> None:
    for body in bodies(library):
        record = make(library, body)
        assert (record.kind, record.author, record.version) == (kind_of(body), "person", 1)
        assert now(library, record) == record
        if not isinstance(body, Link):
            assert record.id in found_by(library, "quarzite")


@pytest.mark.parametrize("number", range(7))
def test_nobody_writes_what_they_may_not(library: Library, number: int) -> None:
    body = bodies(library)[number]
    action = {"subcortex": "create_subcortex", "comment": "comment", "observation": "observe", "artifact": "propose_artifact", "link": "link"}.get(kind_of(body), f"create_{kind_of(body)}")  # fmt: skip
    before = library.store.records.count(RecordFilter())
    for tier in range(5):
        actor = Actor(f"tier-{tier}", tier)
        if tier < TIERS[action]:
            error = refused(lambda actor=actor: make(library, body, actor))
            assert error.code == "RIGHTS_MISSING" and error.context["needed"] == TIERS[action]
            assert library.store.records.count(RecordFilter()) == before
        else:
            make(library, body, actor)
            break


def test_what_is_sensitive_is_only_written_by_who_may(library: Library) -> None:
    for body in (Observation("T", sensitivity=SENSITIVE), Thread("T", sensitivity=SENSITIVE)):
        assert refused(lambda body=body: make(library, body, WRITER)).code == "RIGHTS_MISSING"
        assert make(library, body).body.sensitivity == SENSITIVE


def test_what_belongs_to_something_sensitive_is_so_too(library: Library) -> None:
    make(library, Subcortex("salaries", "Salaries", sensitivity=SENSITIVE))
    thread = make(library, Thread("Raises", subcortex="salaries"))
    comment = make(library, Comment(thread.id, "They are due in March."))
    assert thread.body.sensitivity == comment.body.sensitivity == SENSITIVE
    assert comment.body.subcortex == thread.body.subcortex
    for body in (Comment(thread.id, "no"), Observation("Seen", subcortex="salaries")):
        assert refused(lambda body=body: make(library, body, WRITER)).code == "RIGHTS_MISSING"
    link = make(library, Link(thread.id, "supports", make(library, Thread("Open")).id, "because"))
    assert link.body.sensitivity == SENSITIVE


# -- places
# ------------------------------------------------------------------------------------------------------------


def test_a_subcortex_is_named_by_its_slug_or_its_id(library: Library) -> None:
    scope = make(library, Subcortex("Billing", "Billing"))
    assert scope.body.slug == "billing"
    for ref in ("billing", "BILLING", scope.id):
        assert make(library, Thread("T", subcortex=ref)).body.subcortex == scope.id


def test_a_slug_is_taken_once(library: Library) -> None:
    first = make(library, Subcortex("billing", "Billing"))
    error = refused(lambda: make(library, Subcortex("billing", "Another")))
    assert (
        error.code == "RECORD_INVALID"
        and first.id in error.message
        and count(library, "subcortex") == 1
    )


def test_an_unknown_subcortex_is_told_with_near_ones(library: Library) -> None:
    make(library, Subcortex("billing", "Billing"))
    error = refused(lambda: make(library, Thread("T", subcortex="biling")))
    assert (
        error.code == "SCOPE_NOT_FOUND"
        and error.context["near"] == ["billing"]
        and count(library, "thread") == 0
    )


def test_nothing_is_added_to_what_is_archived(library: Library) -> None:
    make(library, Subcortex("billing", "Billing"))
    thread = make(library, Thread("T", subcortex="billing"))
    archive(library, thread.id, actor=PERSON)
    assert refused(lambda: make(library, Comment(thread.id, "late"))).code == "RECORD_INVALID"
    archive(library, "billing", actor=PERSON)
    assert refused(lambda: make(library, Thread("U", subcortex="billing"))).code == "RECORD_INVALID"


def test_what_points_nowhere_is_refused(library: Library) -> None:
    thread, other = make(library, Thread("T")), make(library, Thread("U"))
    comment = make(library, Comment(thread.id, "B"))
    for body in (
        Comment(new_id(Thread), "B"),
        Comment(comment.id, "B"),  # no thread
        Comment(thread.id, "B", parent=new_id(Comment)),
        Comment(other.id, "B", parent=comment.id),  # of another thread
        Thread("T", task=new_id(Task)),
        Observation("T", thread=new_id(Thread)),
        Task("T", thread=comment.id),
        Artifact("T", supersedes=new_id(Artifact)),
        Artifact("T", evidence=(Evidence("thread", new_id(Thread)),)),
        Artifact("T", evidence=(Evidence("artifact", thread.id),)),
        Link(thread.id, "supports", new_id(Thread)),
        Link("nobody", "supports", thread.id),
        Subcortex("billing", "B", pinned_threads=(comment.id,)),
    ):
        assert refused(lambda body=body: make(library, body)).code == "TARGET_NOT_FOUND", body
    assert make(library, Comment(thread.id, "B", parent=comment.id)).body.parent == comment.id


# -- artifacts, tasks, links
# -------------------------------------------------------------------------------------------


def test_an_artifact_is_accepted_with_evidence_only(library: Library) -> None:
    thread = make(library, Thread("T"))
    assert (
        refused(lambda: make(library, Artifact("A", state="accepted"))).context["field"]
        == "evidence"
    )
    evidence = (Evidence("thread", thread.id),)
    assert (
        refused(
            lambda: make(library, Artifact("A", state="accepted", evidence=evidence), WRITER)
        ).code
        == "RIGHTS_MISSING"
    )
    record = make(library, Artifact("A", state="accepted", evidence=evidence))
    assert record.body.owner == "person" and record.body.last_reviewed == record.created


def test_an_accepted_artifact_takes_the_place_of_another(library: Library) -> None:
    evidence = (Evidence("url", "https://example.com/"),)
    old = make(library, Artifact("Old", state="accepted", evidence=evidence))
    proposed = make(library, Artifact("Maybe", state="proposed", supersedes=old.id))
    assert now(library, old).body.state == "accepted" and proposed.body.supersedes == old.id
    new = make(library, Artifact("New", state="accepted", evidence=evidence, supersedes=old.id))
    assert (now(library, old).body.state, now(library, old).body.superseded_by) == (
        "superseded",
        new.id,
    )
    (link,) = library.store.records.select(RecordFilter(kinds=("link",)))
    assert (link.body.source, link.body.relation, link.body.target) == (
        new.id,
        "supersedes",
        old.id,
    )
    third = Artifact("Third", state="accepted", evidence=evidence, supersedes=old.id)
    assert refused(lambda: make(library, third)).code == "RECORD_INVALID"


def test_a_task_that_somebody_has_is_assigned(library: Library) -> None:
    assert make(library, Task("T")).body.state == "inbox"
    mine = make(library, Task("T", assignees=("me", "Ada", "lena", "@lena")))
    assert (mine.body.state, mine.body.assignees) == ("assigned", ("person", "lena"))
    assert make(library, Task("T", assignees=("me",)), WRITER).body.assignees == ("agent",)


def test_the_same_link_is_kept_once(library: Library) -> None:
    one, two = make(library, Thread("One")), make(library, Thread("Two"))
    first = make(library, Link(one.id, "supports", two.id))
    assert make(library, Link(one.id, "supports", two.id)).id == first.id
    assert make(library, Link(two.id, "supports", one.id)).id != first.id


def test_a_link_that_supersedes_is_told_in_both_artifacts(library: Library) -> None:
    evidence = (Evidence("url", "https://example.com/"),)
    old, new = (
        make(library, Artifact("Old")),
        make(library, Artifact("New", state="accepted", evidence=evidence)),
    )
    make(library, Link(new.id, "supersedes", old.id))
    assert (
        now(library, new).body.supersedes == old.id
        and now(library, old).body.superseded_by == new.id
    )
    assert (
        refused(lambda: make(library, Link(old.id, "supersedes", new.id))).code == "RECORD_INVALID"
    )


# -- the summary of a thread
# -------------------------------------------------------------------------------------------


def test_the_summary_follows_every_comment_with_its_sources(library: Library) -> None:
    thread = make(library, Thread("How do we round invoices?", "Half up or half to even?"))
    first = make(
        library,
        Comment(thread.id, "We decided to round half to even, because the tax office does."),
    )
    body = now(library, thread).body
    assert (
        first.id in body.summary_sources
        and f"[{first.id}]" in body.summary
        and body.summary_by == ""
    )
    second = make(
        library,
        Comment(thread.id, "The root cause of the wrong totals was a float in invoices.py."),
        WRITER,
    )
    body = now(library, thread).body
    assert {first.id, second.id} <= set(body.summary_sources) and len(body.summary) <= 1_200


def test_a_summary_that_comes_with_a_comment_stays_and_is_carried_on(library: Library) -> None:
    thread = make(library, Thread("How do we round invoices?"))
    first = make(library, Comment(thread.id, "B"), WRITER, summary="  We round half to even.  ")
    body = now(library, thread).body
    assert (body.summary, body.summary_by, body.summary_sources) == (
        "We round half to even.",
        "agent",
        (first.id,),
    )
    second = make(
        library, Comment(thread.id, "We decided to round taxes up, because the law says so.")
    )
    body = now(library, thread).body
    assert (
        body.summary.startswith(f"We round half to even.{SINCE}- We decided")
        and body.summary_by == "agent"
    )
    assert body.summary_sources == (first.id, second.id)
    third = make(library, Comment(thread.id, "C"), summary="Taxes are rounded up.")
    body = now(library, thread).body
    assert (body.summary, body.summary_by, body.summary_sources) == (
        "Taxes are rounded up.",
        "person",
        (third.id,),
    )


def test_a_supplied_summary_that_is_long_leaves_no_more_room_than_there_is(
    library: Library,
) -> None:
    thread = make(library, Thread("How do we round invoices?"))
    make(library, Comment(thread.id, "B"), summary="x" * 1_150)
    make(
        library,
        Comment(
            thread.id,
            "We decided to round taxes up, because the law says so and nobody may round them down.",
        ),
    )
    assert now(library, thread).body.summary == "x" * 1_150


def test_a_supplied_summary_is_looked_at_like_everything_else(library: Library) -> None:
    thread = make(library, Thread("T"))
    assert (
        refused(lambda: make(library, Comment(thread.id, "B"), summary=f"use {TOKEN}")).code
        == "SENSITIVE_BLOCKED"
    )
    assert (
        refused(lambda: make(library, Comment(thread.id, "B"), summary="x" * 1_201)).context[
            "field"
        ]
        == "summary"
    )
    assert count(library, "comment") == 0


def test_sensitive_comments_stay_out_of_the_summary_of_an_open_thread(library: Library) -> None:
    thread = make(library, Thread("How do we round invoices?"))
    make(
        library,
        Comment(thread.id, "We decided that Lena earns 90,000 a year.", sensitivity=SENSITIVE),
    )
    assert "Lena" not in now(library, thread).body.summary
    said = Comment(thread.id, "Lena earns 90,000 a year.", sensitivity=SENSITIVE)
    assert (
        refused(lambda: make(library, said, summary="Lena earns a lot.")).context["field"]
        == "summary"
    )
    private = make(library, Thread("How much?", sensitivity=SENSITIVE))
    make(library, Comment(private.id, "We decided that Lena earns 90,000 a year."))
    assert "Lena" in now(library, private).body.summary
    make(library, Comment(private.id, "That is all."), summary="Lena earns a lot.")
    assert now(library, private).body.summary == "Lena earns a lot."


def test_comments_that_come_at_once_are_all_there_and_none_is_lost(library: Library) -> None:
    thread = make(library, Thread("T"))
    with ThreadPoolExecutor(8) as threads:
        list(
            threads.map(
                lambda number: make(library, Comment(thread.id, f"We decided on option {number}.")),
                range(16),
            )
        )
    assert count(library, "comment") == 16 and now(library, thread).version == 17


# -- keys
# --------------------------------------------------------------------------------------------------------------


def test_the_same_key_gives_the_same_record_and_another_payload_is_refused(
    library: Library,
) -> None:
    first = create_once(library, Thread("T"), actor=PERSON, key="s:1")
    again = create_once(library, Thread("T"), actor=PERSON, key="s:1")
    assert (first.replayed, again.replayed, again.record) == (False, True, first.record)
    assert refused(lambda: make(library, Thread("U"), key="s:1")).code == "IDEMPOTENCY_REPLAY"
    assert (
        refused(lambda: make(library, Task("T"), key="s:1", payload=repr(Thread("T")))).code
        == "IDEMPOTENCY_REPLAY"
    )
    assert count(library) == 1


def test_32_retries_at_once_give_one_record(library: Library) -> None:
    ready = threading.Barrier(32, timeout=60)

    def retry(_: int) -> str:
        ready.wait()
        return make(library, Observation("Once"), AGENT, key="s:1").id

    with ThreadPoolExecutor(32) as threads:
        ids = set(threads.map(retry, range(32)))
    assert len(ids) == 1 and count(library) == 1


@pytest.mark.parametrize("key", ["with blank", "x" * 201, "\n", "é"])
def test_a_key_that_is_none_is_refused_with_one_that_is(library: Library, key: str) -> None:
    error = refused(lambda: make(library, Thread("T"), key=key))
    assert error.code == "RECORD_INVALID" and "key_" in error.suggestions[0] and count(library) == 0


def test_nothing_is_written_where_something_later_in_a_step_fails(library: Library) -> None:
    thread = make(library, Thread("T"))

    def work(step: Any) -> str:
        add_comment(step, Comment(thread.id, "@lena look"))
        raise RuntimeError("halfway")

    with pytest.raises(RuntimeError):
        perform(library, work, actor=PERSON, key="s:1", action="test", payload="")
    assert now(library, thread).version == 1 and count(library, "comment", "notification") == 0


# -- observations, several at once
# -------------------------------------------------------------------------------------


def test_of_several_observations_the_good_ones_are_written_and_the_others_told(
    library: Library,
) -> None:
    several = [
        Observation("Good"),
        Observation(""),
        Observation("Keys", f"use {TOKEN}"),
        Observation("Lost", subcortex="nowhere"),
        Observation("Private", sensitivity=SENSITIVE),
        Observation("Fine", "too"),
    ]
    batch = create_observations(library, several, actor=AGENT, key="s:1")
    codes = [outcome.error.code if outcome.error else "" for outcome in batch.outcomes]
    assert codes == [
        "",
        "RECORD_INVALID",
        "SENSITIVE_BLOCKED",
        "SCOPE_NOT_FOUND",
        "RIGHTS_MISSING",
        "",
    ]
    assert [one.index for one in batch.outcomes] == list(range(6)) and not batch.replayed
    assert [bool(one.id) for one in batch.outcomes] == [True, False, False, False, False, True]
    assert count(library, "observation") == 2 and batch.outcomes[0].id in found_by(library, "good")

    again = create_observations(library, several, actor=AGENT, key="s:1")
    assert again.replayed and [one.id for one in again.outcomes] == [
        one.id for one in batch.outcomes
    ]
    for first, second in zip(batch.outcomes, again.outcomes, strict=True):
        assert (first.error is None) is (second.error is None)
        if first.error and second.error:
            assert (first.error.code, first.error.message) == (
                second.error.code,
                second.error.message,
            )
            assert type(first.error) is type(second.error)
    assert count(library, "observation") == 2


def test_where_none_of_several_could_be_written_the_key_stays_free(library: Library) -> None:
    several = [Observation("Lost", subcortex="billing")]
    batch = create_observations(library, several, actor=AGENT, key="s:1")
    assert [outcome.id for outcome in batch.outcomes] == [""] and not batch.replayed
    make(library, Subcortex("billing", "Billing"))
    again = create_observations(library, several, actor=AGENT, key="s:1")
    assert again.outcomes[0].id and not again.replayed


def test_what_somebody_else_refused_is_told_in_its_place(library: Library) -> None:
    no = CortexError(
        "SENSITIVE_BLOCKED", "a plugin says no", context={"field": "title", "why": Mode.WORDS}
    )
    several = [Observation("Good"), Observation("Bad")]
    for replayed in (False, True):
        batch = create_observations(library, several, actor=AGENT, key="s:1", refused={1: no})
        assert [outcome.error and outcome.error.code for outcome in batch.outcomes] == [
            None,
            "SENSITIVE_BLOCKED",
        ]
        assert batch.replayed is replayed and count(library, "observation") == 1


def test_several_are_neither_none_nor_too_many(library: Library) -> None:
    for number in (0, MOST_AT_ONCE + 1):
        several = [Observation("T")] * number
        assert (
            refused(
                lambda several=several: create_observations(
                    library, several, actor=AGENT, key="s:1"
                )
            ).code
            == "RECORD_INVALID"
        )
    assert (
        refused(
            lambda: create_observations(
                library, [Observation("T")], actor=Actor("guest", 0), key="s:1"
            )
        ).code
        == "RIGHTS_MISSING"
    )


# -- contradictions
# ----------------------------------------------------------------------------------------------------


def candidates(library: Library) -> list[Link]:
    return [
        one.body
        for one in library.store.records.select(
            RecordFilter(kinds=("link",), states=("candidate",))
        )
    ]


def test_what_says_otherwise_is_kept_for_the_person_to_judge(library: Library) -> None:
    evidence = (Evidence("url", "https://example.com/"),)
    old = make(
        library,
        Artifact(
            "Cache timeout", "The cache timeout is 30 seconds.", state="accepted", evidence=evidence
        ),
    )
    batch = create_observations(
        library,
        [Observation("Cache timeout", "The cache timeout is 60 seconds.")],
        actor=AGENT,
        key="s:1",
    )
    (link,) = candidates(library)
    assert (link.source, link.relation, link.target) == (
        batch.outcomes[0].id,
        "contradicts",
        old.id,
    )
    assert "60" in link.note and "30" in link.note and old.id in batch.outcomes[0].warnings[0]
    (told,) = library.store.records.select(
        RecordFilter(kinds=("notification",), refs=(("recipient", "person"),))
    )
    assert told.body.type == "review_needed" and "contradict" in told.body.title
    again = create_observations(
        library,
        [Observation("Cache timeout", "The cache timeout is 60 seconds.")],
        actor=AGENT,
        key="s:1",
    )
    assert (
        again.outcomes[0].warnings == batch.outcomes[0].warnings and len(candidates(library)) == 1
    )


def test_what_speaks_of_the_same_code_is_compared_whatever_its_title(library: Library) -> None:
    link = CodeLink("src/cache.py", symbol="Cache.get")
    old = make(
        library,
        Artifact("How long things stay", "The cache timeout is 30 seconds.", code_links=(link,)),
    )
    make(
        library,
        Artifact(
            "Elsewhere",
            "The cache timeout is 45 seconds.",
            code_links=(CodeLink("src/cache.py", symbol="Cache.put"),),
        ),
    )
    make(
        library,
        Observation("Seen in production", "The cache timeout is 60 seconds.", code_links=(link,)),
    )
    assert [candidate.target for candidate in candidates(library)] == [old.id]


def test_a_decision_is_compared_and_a_contradiction_of_something_sensitive_is_sensitive(
    library: Library,
) -> None:
    old = make(
        library,
        Thread(
            "Cache timeout",
            "The cache timeout is 30 seconds.",
            type="decision",
            sensitivity=SENSITIVE,
        ),
    )
    make(library, Thread("Cache timeout", "The cache timeout is 60 seconds.", type="decision"))
    assert [(candidate.target, candidate.sensitivity) for candidate in candidates(library)] == [
        (old.id, SENSITIVE)
    ]


def test_what_agrees_or_is_about_something_else_is_no_candidate(library: Library) -> None:
    make(library, Artifact("Cache timeout", "The cache timeout is 30 seconds."))
    make(library, Observation("Cache timeout", "The cache timeout is 30 seconds."))
    make(library, Observation("Lock timeout", "The lock timeout is 60 seconds."))
    # A question, no decision
    make(library, Thread("Cache timeout", "The cache timeout is 60 seconds."))
    assert candidates(library) == []


def test_what_is_over_or_superseded_by_it_is_no_candidate(library: Library) -> None:
    evidence = (Evidence("url", "https://example.com/"),)
    old = make(
        library,
        Artifact(
            "Cache timeout", "The cache timeout is 30 seconds.", state="accepted", evidence=evidence
        ),
    )
    new = Artifact(
        "Cache timeout",
        "The cache timeout is 60 seconds.",
        state="accepted",
        evidence=evidence,
        supersedes=old.id,
    )
    make(library, new)
    make(library, Observation("Cache timeout", "The cache timeout is 60 seconds."))
    assert candidates(library) == []


def test_a_record_has_a_few_candidates_at_most(library: Library) -> None:
    for number in range(6):
        make(library, Observation("Cache timeout", f"The cache timeout is {30 + number} seconds."))
    before = len(candidates(library))
    make(library, Observation("Cache timeout", "The cache timeout is 90 seconds."))
    assert len(candidates(library)) - before == 3


def test_what_can_not_be_searched_now_is_written_all_the_same(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(library, Artifact("Cache timeout", "The cache timeout is 30 seconds."))

    def fail(*_: object, **__: object) -> None:
        raise CortexError("SEARCH_TIMEOUT", "too slow")

    monkeypatch.setattr(library, "search", fail)
    assert (
        make(library, Observation("Cache timeout", "The cache timeout is 60 seconds.")).version == 1
    )
    assert candidates(library) == []


# -- somebody who ends in between
# ---------------------------------------------------------------------------------------


def test_what_was_written_by_somebody_who_ended_at_once_is_found_by_the_next(library, settings):
    def written(text, key):
        body = Thread("Who sings", text)
        return library.store.records.perform(
            lambda step: step.make(new_id(Thread), body).id,
            TransactionOptions(
                actor=PERSON,
                key=key,
                action="create_thread",
                payload=f"{body!r}",
                wording=wording(settings),
            ),
        ).result

    first = written("the walrus", "once")
    # A retry
    assert create(library, Thread("Who sings", "the walrus"), actor=PERSON, key="once").id == first
    assert [hit.record.id for hit in find(library, RecordQuery("walrus")).hits] == [first]
    second = written("the narwhal", "twice")
    assert find(library, RecordQuery("narwhal")).hits == ()
    library.catch_up()
    assert [hit.record.id for hit in find(library, RecordQuery("narwhal")).hits] == [second]


def test_records_in_a_store_without_its_indexes_are_found_again(library, settings, tmp_path):
    number = create(library, Thread("Walrus singing"), actor=PERSON).id
    copy = tmp_path / "elsewhere"
    copy.mkdir()
    library.store.checkpoint()
    shutil.copy(settings.home / "cortex.db", copy)
    with Library(settings.model_copy(update={"home": copy}), embedders=Embedders(None)) as other:
        other.catch_up()
        assert [hit.record.id for hit in find(other.reader, RecordQuery("walrus")).hits] == [number]
