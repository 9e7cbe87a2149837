"""Two changes of one record become one, or are a conflict."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cortex.base.record_model import (
    SUMMARY,
    Artifact,
    Attachment,
    CodeLink,
    Draft,
    Evidence,
    Notification,
    Observation,
    Subcortex,
    Task,
    Term,
    Thread,
)
from cortex.families.team.writes.discussion import SINCE
from cortex.interfaces.team_server.apply.three_way_merge import (
    Conflict,
    conflict_error,
    merge_without_base,
    merged,
    supplied_only,
    supplies,
    unsummarized,
)

word = st.sampled_from(["", "a", "b", "c"])
words = st.lists(st.sampled_from("abcde"), max_size=4, unique=True).map(tuple)
links = st.lists(
    st.builds(CodeLink, word, st.just(""), word, st.integers(0, 2)), max_size=3, unique=True
).map(tuple)
evidence = st.lists(st.builds(Evidence, word, word, word), max_size=3, unique=True).map(tuple)
terms = st.lists(st.builds(Term, word, word), max_size=3, unique_by=lambda term: term.term).map(
    tuple
)
tasks = st.builds(
    Task,
    word,
    word,
    word,
    word,
    words,
    words,
    word,
    word,
    word,
    word,
    st.sampled_from(["normal", "sensitive"]),
    words,
    links,
)
artifacts = st.builds(
    Artifact, word, word, last_reviewed=st.integers(0, 3), evidence=evidence, tags=words
)
subcortexes = st.builds(
    Subcortex, word, word, stewards=words, glossary=terms, naming=words, pinned_threads=words
)
notifications = st.builds(
    Notification, word, word, word, word, word, st.sampled_from(["new", "seen", "done"])
)
drafts = st.builds(
    Draft,
    word,
    word,
    word,
    patch=st.lists(st.tuples(word, word), max_size=2).map(tuple),
    risk_flags=words,
)
kinds = [tasks, artifacts, subcortexes, notifications, drafts]
two = st.one_of([st.tuples(kind, kind) for kind in kinds])
three = st.one_of([st.tuples(kind, kind, kind) for kind in kinds])


def changed(before: Any, after: Any) -> set[str]:
    return {
        field.name
        for field in fields(after)
        if getattr(before, field.name) != getattr(after, field.name)
    }


@given(two)
def test_change_of_one_side_is_taken_as_it_is(bodies):
    before, after = bodies
    assert merged(before, after, before) == after
    assert merged(before, before, after) == after
    assert merged(before, after, after) == after


@given(three)
def test_field_changed_by_one_side_has_its_value(bodies):
    before, ours, theirs = bodies
    result = merged(before, ours, theirs)
    both = changed(before, ours) & changed(before, theirs) & changed(ours, theirs)
    if isinstance(result, Conflict):
        assert set(result.fields) <= both
        return
    for name in changed(before, ours) | changed(before, theirs):
        if name not in both:
            side = ours if name in changed(before, ours) else theirs
            assert getattr(result, name) == getattr(side, name)
    assert not changed(before, result) - changed(before, ours) - changed(before, theirs)


@given(three, st.sets(st.integers(0, 20)))
def test_order_of_disjoint_changes_makes_no_difference(bodies, chosen):
    before, first, second = bodies
    names = [field.name for field in fields(before)]
    sides = (
        [name for place, name in enumerate(names) if (place in chosen) is ours]
        for ours in (True, False)
    )
    ours, theirs = (
        replace(before, **{name: getattr(side, name) for name in mine})
        for side, mine in zip((first, second), sides, strict=True)
    )
    assert merged(before, ours, theirs) == merged(before, theirs, ours)


@given(words, words, words)
def test_lists_are_merged_as_sets(before, ours, theirs):
    result = merged(Task("x", tags=before), Task("x", tags=ours), Task("x", tags=theirs))
    assert not isinstance(result, Conflict)
    added, gone = (set(ours) | set(theirs)) - set(before), set(before) - (set(ours) & set(theirs))
    assert set(result.tags) == (set(before) | added) - gone
    assert len(set(result.tags)) == len(result.tags)
    other = merged(Task("x", tags=before), Task("x", tags=theirs), Task("x", tags=ours))
    assert not isinstance(other, Conflict) and set(other.tags) == set(result.tags)


def test_added_values_come_last_in_their_order():
    before = Task("x", assignees=("a", "b"))
    after = replace(before, assignees=("b", "d", "c"))
    current = replace(before, assignees=("z", "a", "b"))
    assert merged(before, after, current) == replace(before, assignees=("z", "b", "d", "c"))


def test_a_conflict_names_the_fields_and_both_values():
    before = Task("x", "body", "inbox", notes="n")
    result = merged(
        before,
        replace(before, state="done", notes="mine"),
        replace(before, state="blocked", notes="theirs"),
    )
    assert isinstance(result, Conflict) and result.fields == ("state", "notes")
    assert (result.clashes[1].theirs, result.clashes[1].ours) == ("theirs", "mine")


def test_equal_changes_are_no_conflict():
    before = Task("x", state="inbox")
    after = replace(before, state="done", notes="n")
    assert merged(before, after, replace(before, state="done", tags=("t",))) == replace(
        after, tags=("t",)
    )


def test_parts_are_merged_by_their_name():
    before = Subcortex("api", "API", glossary=(Term("a", "1"), Term("b", "1")))
    ours = replace(before, glossary=(Term("a", "2"), Term("b", "1"), Term("c", "1")))
    theirs = replace(before, glossary=(Term("a", "1"), Term("b", "3")))
    result = merged(before, ours, theirs)
    assert result == replace(before, glossary=(Term("a", "2"), Term("b", "3"), Term("c", "1")))
    clash = merged(before, ours, replace(before, glossary=(Term("a", "9"),)))
    assert isinstance(clash, Conflict) and clash.fields == ("glossary",)


def test_two_places_of_one_file_stay_two():
    """Their path and symbol are the same: then they are compared as they are."""
    before = Task("x", code_links=(CodeLink("a", line_start=1), CodeLink("a", line_start=9)))
    ours = replace(before, code_links=(*before.code_links, CodeLink("b")))
    theirs = replace(before, code_links=before.code_links[1:])
    assert merged(before, ours, theirs) == replace(
        before, code_links=(CodeLink("a", line_start=9), CodeLink("b"))
    )


def test_part_removed_by_one_side_and_changed_by_the_other_is_kept():
    before = Artifact("x", evidence=(Evidence("url", "u"),))
    noted = (Evidence("url", "u", "why"), Evidence("url", "v"))
    assert merged(before, replace(before, evidence=()), replace(before, evidence=noted)) == replace(
        before, evidence=noted
    )


def test_notification_state_never_goes_back():
    new = Notification("mention", "ada", "thread_x", "t", "r")
    seen, done = replace(new, state="seen"), replace(new, state="done")
    assert merged(new, seen, done) == merged(new, done, seen) == done


def test_draft_rejected_by_both_sides_is_merged_and_published_twice_is_a_conflict():
    draft = Draft("thread", "x", "y")
    mine, theirs = (
        replace(draft, state="rejected", reviewed_by=who, reviewed_at=at)
        for who, at in (("ada", 1), ("bob", 2))
    )
    assert merged(draft, mine, theirs) == theirs
    noted = [
        replace(review, review_notes=f"no, says {review.reviewed_by}") for review in (mine, theirs)
    ]
    assert isinstance(merged(draft, *noted), Conflict)  # notes aren't dropped
    assert merged(draft, mine, noted[1]) == noted[1]
    published = replace(draft, state="published", published="thread_1", reviewed_by="ada")
    assert isinstance(merged(draft, published, theirs), Conflict)
    assert isinstance(merged(draft, published, replace(published, published="thread_2")), Conflict)


def test_later_of_two_reviews_is_kept():
    before = Artifact("x", state="proposed")
    mine, theirs = (replace(before, state="accepted", last_reviewed=at) for at in (5, 9))
    assert merged(before, mine, theirs) == merged(before, theirs, mine) == theirs


def test_generated_summary_is_left_to_the_core():
    before = Thread("x", summary="one", summary_sources=("comment_1",))
    ours = replace(
        before, summary="one two", summary_sources=("comment_1", "comment_2"), tags=("t",)
    )
    theirs = replace(before, summary="one three", summary_sources=("comment_3",))
    assert merged(before, ours, theirs) == replace(theirs, tags=("t",))
    assert not supplies(before, ours)


def test_written_summary_is_taken_without_the_comments_since():
    before = Thread("x", summary="one", summary_sources=("comment_1",))
    sent = {
        "summary": f"mine{SINCE}and",
        "summary_by": "ada",
        "summary_sources": ("comment_2", "comment_3"),
    }
    ours, theirs = replace(before, **sent), replace(before, summary="one three")
    result = merged(before, ours, theirs)
    assert supplies(before, ours) and result == supplied_only(ours)
    assert {name: getattr(result, name) for name in SUMMARY} == {
        "summary": "mine", "summary_sources": ("comment_2",), "summary_by": "ada",
    }  # fmt: skip
    later = replace(
        ours, summary=f"mine{SINCE}and more", summary_sources=("comment_2", "comment_4")
    )
    assert not supplies(ours, later), "only what was said since is another"


def test_bodies_of_two_kinds_are_not_merged():
    task, thread = Task("x"), Thread("x")
    for bodies in ((task, task, thread), (task, thread, task), (thread, task, task)):
        with pytest.raises(TypeError):
            merged(*bodies)


def test_evidence_code_and_files_are_merged_by_their_target():
    before = Observation(
        "x",
        attachments=(Attachment("a.png", "s3:a", "image/png"), Attachment("b.txt", "s3:b")),
        code_links=(CodeLink("a.py", symbol="run"), CodeLink("b.py", symbol="run")),
    )
    first, second = before.attachments
    run, other = before.code_links
    ours = replace(
        before,
        attachments=(replace(first, media_type="image/webp"), second),
        code_links=(replace(run, line_start=7), other),
    )
    theirs = replace(
        before,
        attachments=(first, replace(second, media_type="text/plain")),
        code_links=(run, replace(other, line_start=9)),
    )
    assert merged(before, ours, theirs) == replace(
        before,
        attachments=(replace(first, media_type="image/webp"), theirs.attachments[1]),
        code_links=(replace(run, line_start=7), theirs.code_links[1]),
    )
    clash = merged(
        before, ours, replace(before, attachments=(replace(first, media_type="image/x"),))
    )
    assert isinstance(clash, Conflict) and clash.fields == ("attachments",)


def test_the_same_source_with_another_note_is_the_same_evidence():
    one, two = Evidence("url", "u", "old"), Evidence("file", "u", "old")
    before = Artifact("x", evidence=(one, two))
    ours = replace(before, evidence=(replace(one, note="mine"), two))
    theirs = replace(before, evidence=(one, replace(two, note="theirs")))
    assert merged(before, ours, theirs) == replace(
        before, evidence=(replace(one, note="mine"), replace(two, note="theirs"))
    )


def test_fields_of_a_draft_are_merged_by_their_name():
    before = Draft("thread", "x", "y", patch=(("title", "a"), ("state", "open")))
    ours = replace(before, patch=(("title", "b"), ("state", "open")))
    theirs = replace(before, patch=(("title", "a"), ("state", "closed"), ("tags", "t")))
    assert merged(before, ours, theirs) == replace(
        before, patch=(("title", "b"), ("state", "closed"), ("tags", "t"))
    )


def test_part_changed_by_one_and_removed_by_the_other_is_kept_from_either_side():
    before = Subcortex("api", "API", glossary=(Term("a", "1"), Term("b", "1")))
    changed_one = replace(before, glossary=(Term("a", "2"), Term("b", "1")))
    without = replace(before, glossary=(Term("b", "1"),))
    for result in (merged(before, changed_one, without), merged(before, without, changed_one)):
        assert set(result.glossary) == {Term("a", "2"), Term("b", "1")}


@pytest.mark.parametrize("states", [("new", "seen", "done"), ("new", "done", "seen")])
def test_a_notification_of_an_unknown_state_is_no_further_than_a_new_one(states: tuple[str, ...]):
    before, *known = (Notification("m", "ada", "thread_x", "t", "r", state) for state in states)
    for state in known:
        odd = replace(before, state="archived")
        assert merged(before, state, odd) == merged(before, odd, state) == state


def test_later_of_two_states_counts_regardless_of_the_base():
    odd, new, seen, done = (
        Notification("m", "ada", "thread_x", "t", "r", state)
        for state in ("archived", "new", "seen", "done")
    )
    for less, more in ((new, seen), (seen, done), (new, done)):
        assert merged(odd, less, more) == merged(odd, more, less) == more


def test_an_open_and_a_seen_notification_keep_their_other_fields():
    new = Notification("mention", "ada", "thread_x", "t", "r")
    result = merged(new, replace(new, state="seen"), replace(new, sensitivity="sensitive"))
    assert result == replace(new, state="seen", sensitivity="sensitive")


@pytest.mark.parametrize("state", ["rejected", "published"])
def test_a_review_without_a_reviewer_is_completed_by_the_other(state: str):
    draft = Draft("thread", "x", "y")
    named = replace(draft, state=state, reviewed_by="ada", reviewed_at=5)
    unnamed = replace(draft, state=state)
    assert merged(draft, named, unnamed) == merged(draft, unnamed, named) == named


def test_two_reviewers_of_a_published_draft_are_a_conflict():
    draft = Draft("thread", "x", "y")
    mine, theirs = (
        replace(draft, state="published", published="thread_1", reviewed_by=who, reviewed_at=at)
        for who, at in (("ada", 1), ("bob", 2))
    )
    clash = merged(draft, mine, theirs)
    assert isinstance(clash, Conflict) and clash.fields == ("reviewed_by", "reviewed_at")


def test_a_review_that_only_one_made_is_that_one():
    before = Artifact("x", last_reviewed=7)
    assert merged(before, replace(before, last_reviewed=3), before).last_reviewed == 3
    assert merged(before, before, replace(before, last_reviewed=3)).last_reviewed == 3


def test_record_created_again_is_the_existing_one_or_a_conflict():
    there = Task("x", "body", "done", tags=("t",))
    assert merge_without_base(there, there) is there
    clash = merge_without_base(Task("y", "body", "inbox", tags=("t",)), there)
    assert isinstance(clash, Conflict) and clash.fields == ("title", "state")
    assert [(field_clash.theirs, field_clash.ours) for field_clash in clash.clashes] == [
        ("x", "y"),
        ("done", "inbox"),
    ]


def test_notification_created_again_stays_as_it_is():
    there = Notification("mention", "ada", "thread_x", "t", "r", "done")
    assert merge_without_base(replace(there, state="new", title="other"), there) is there


def test_thread_created_again_may_have_another_summary():
    there = Thread("x", summary="one", summary_sources=("comment_1",), summary_by="ada")
    assert merge_without_base(Thread("x"), there) is there
    assert isinstance(merge_without_base(Thread("y"), there), Conflict)


def test_the_error_of_a_conflict_has_both_values_cut_where_they_are_long():
    before = Task("x", "body", "inbox")
    long = "m" * 201
    conflict = merged(before, replace(before, state="done"), replace(before, state="blocked"))
    assert isinstance(conflict, Conflict)
    error = conflict_error("task_1", conflict)
    assert (error.code, error.message) == (
        "RECORD_CHANGED",
        "task_1 was changed meanwhile: state says something else now",
    )
    assert error.context == {
        "id": "task_1",
        "fields": ["state"],
        "conflicts": [{"id": "task_1", "field": "state", "theirs": "blocked", "yours": "done"}],
    }
    two = merged(
        before,
        replace(before, body=long, notes="mine", state="done"),
        replace(before, body="t" * 200, notes="theirs", state="done"),
    )
    assert isinstance(two, Conflict)
    error = conflict_error("task_1", two)
    assert error.message.endswith("changed meanwhile: body, notes say something else now")
    assert error.context["conflicts"] == [
        {"id": "task_1", "field": "body", "theirs": "t" * 200, "yours": "m" * 199 + "…"},
        {"id": "task_1", "field": "notes", "theirs": "theirs", "yours": "mine"},
    ]


@pytest.mark.parametrize(
    ("by", "sources", "counts"),
    [
        ("ada", ("comment_1",), True),
        ("ada", (), False),
        ("", ("comment_1",), False),
        ("", (), False),
    ],
)
def test_a_summary_is_written_where_it_has_an_author_and_a_comment(by, sources, counts):
    written = Thread("x", summary="written", summary_by=by, summary_sources=sources)
    assert supplies(None, written) is supplies(Thread("x"), written) is counts
    assert supplies(written, written) is False
    kept = written if counts else Thread("x")
    assert supplied_only(written) == kept
    assert merged(Thread("x"), written, Thread("x")) == kept
    assert unsummarized(written) == Thread("x")


@pytest.mark.parametrize("field", ["summary", "summary_by", "summary_sources"])
def test_a_summary_with_another_text_author_or_comment_is_another(field: str):
    before = Thread("x", summary="written", summary_by="ada", summary_sources=("comment_1",))
    other = replace(before, **{field: ("comment_2",) if field == "summary_sources" else "other"})
    assert supplies(before, other) is True
    assert merged(before, other, replace(before, tags=("t",))) == replace(other, tags=("t",))
