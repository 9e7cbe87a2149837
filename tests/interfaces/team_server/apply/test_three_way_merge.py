"""Two changes of one record become one, or are a conflict."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from cortex.base.record_model import (
    SUMMARY,
    Artifact,
    CodeLink,
    Draft,
    Evidence,
    Notification,
    Subcortex,
    Task,
    Term,
    Thread,
)
from cortex.families.team.writes.discussion import SINCE
from cortex.interfaces.team_server.apply.three_way_merge import (
    Conflict,
    merged,
    supplied_only,
    supplies,
)

word = st.sampled_from(["", "a", "b", "c"])
words = st.lists(st.sampled_from("abcde"), max_size=4, unique=True).map(tuple)
links = st.lists(
    st.builds(CodeLink, word, st.just(""), word, st.integers(0, 2)), max_size=3, unique=True
).map(tuple)
evidence = st.lists(st.builds(Evidence, word, word, word), max_size=3, unique=True).map(tuple)
terms = st.lists(st.builds(Term, word, word), max_size=3, unique_by=lambda one: one.term).map(tuple)
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
three = st.one_of([st.tuples(one, one, one) for one in kinds])


def changed(before: Any, after: Any) -> set[str]:
    return {
        field.name
        for field in fields(after)
        if getattr(before, field.name) != getattr(after, field.name)
    }


@given(two)
def test_a_change_that_is_alone_is_taken_as_it_is(bodies):
    before, after = bodies
    assert merged(before, after, before) == after
    assert merged(before, before, after) == after
    assert merged(before, after, after) == after


@given(three)
def test_fields_that_one_side_changed_are_that_sides(bodies):
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
def test_whoever_comes_first_makes_no_difference_where_fields_are_disjoint(bodies, chosen):
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
def test_several_values_are_a_set(before, ours, theirs):
    result = merged(Task("x", tags=before), Task("x", tags=ours), Task("x", tags=theirs))
    assert not isinstance(result, Conflict)
    added, gone = (set(ours) | set(theirs)) - set(before), set(before) - (set(ours) & set(theirs))
    assert set(result.tags) == (set(before) | added) - gone
    assert len(set(result.tags)) == len(result.tags)
    other = merged(Task("x", tags=before), Task("x", tags=theirs), Task("x", tags=ours))
    assert not isinstance(other, Conflict) and set(other.tags) == set(result.tags)


def test_what_is_added_comes_last_in_its_order():
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


def test_parts_are_merged_by_what_names_them():
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


def test_what_one_took_away_and_the_other_changed_is_kept():
    before = Artifact("x", evidence=(Evidence("url", "u"),))
    noted = (Evidence("url", "u", "why"), Evidence("url", "v"))
    assert merged(before, replace(before, evidence=()), replace(before, evidence=noted)) == replace(
        before, evidence=noted
    )


def test_a_notification_goes_on_and_never_back():
    new = Notification("mention", "ada", "thread_x", "t", "r")
    seen, done = replace(new, state="seen"), replace(new, state="done")
    assert merged(new, seen, done) == merged(new, done, seen) == done


def test_a_draft_that_both_rejected_is_rejected_once_and_one_that_became_two_things_is_a_conflict():
    draft = Draft("thread", "x", "y")
    mine, theirs = (
        replace(draft, state="rejected", reviewed_by=who, reviewed_at=at)
        for who, at in (("ada", 1), ("bob", 2))
    )
    assert merged(draft, mine, theirs) == theirs
    noted = [replace(one, review_notes=f"no, says {one.reviewed_by}") for one in (mine, theirs)]
    assert isinstance(merged(draft, *noted), Conflict)  # what somebody wrote isn't dropped
    assert merged(draft, mine, noted[1]) == noted[1]
    published = replace(draft, state="published", published="thread_1", reviewed_by="ada")
    assert isinstance(merged(draft, published, theirs), Conflict)
    assert isinstance(merged(draft, published, replace(published, published="thread_2")), Conflict)


def test_two_reviews_are_the_later_one():
    before = Artifact("x", state="proposed")
    mine, theirs = (replace(before, state="accepted", last_reviewed=at) for at in (5, 9))
    assert merged(before, mine, theirs) == merged(before, theirs, mine) == theirs


def test_a_summary_that_nobody_wrote_is_left_to_who_knows_all():
    before = Thread("x", summary="one", summary_sources=("comment_1",))
    ours = replace(
        before, summary="one two", summary_sources=("comment_1", "comment_2"), tags=("t",)
    )
    theirs = replace(before, summary="one three", summary_sources=("comment_3",))
    assert merged(before, ours, theirs) == replace(theirs, tags=("t",))
    assert not supplies(before, ours)


def test_a_summary_that_somebody_wrote_is_taken_without_what_was_said_since():
    before = Thread("x", summary="one", summary_sources=("comment_1",))
    told = {
        "summary": f"mine{SINCE}and",
        "summary_by": "ada",
        "summary_sources": ("comment_2", "comment_3"),
    }
    ours, theirs = replace(before, **told), replace(before, summary="one three")
    result = merged(before, ours, theirs)
    assert supplies(before, ours) and result == supplied_only(ours)
    assert {name: getattr(result, name) for name in SUMMARY} == {
        "summary": "mine", "summary_sources": ("comment_2",), "summary_by": "ada",
    }  # fmt: skip
    later = replace(
        ours, summary=f"mine{SINCE}and more", summary_sources=("comment_2", "comment_4")
    )
    assert not supplies(ours, later), "only what was said since is another"
