"""Summaries of threads after each comment."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from cortex.base.record_model import SENSITIVE, Comment, Thread
from cortex.engine.library import Library
from cortex.families.team.writes.discussion import SINCE
from families.team.writes.record_writes import TOKEN, WRITER, count, make, now, refused


def test_summary_follows_every_comment_with_its_sources(library: Library) -> None:
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


def test_supplied_summary_is_kept_and_extended(library: Library) -> None:
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


def test_long_supplied_summary_is_extended_within_its_limit(library: Library) -> None:
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


def test_supplied_summary_is_validated(library: Library) -> None:
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


def test_sensitive_comment_is_not_in_the_summary_of_an_open_thread(library: Library) -> None:
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


def test_concurrent_comments_are_all_kept(library: Library) -> None:
    thread = make(library, Thread("T"))
    with ThreadPoolExecutor(8) as threads:
        list(
            threads.map(
                lambda number: make(library, Comment(thread.id, f"We decided on option {number}.")),
                range(16),
            )
        )
    assert count(library, "comment") == 16 and now(library, thread).version == 17
