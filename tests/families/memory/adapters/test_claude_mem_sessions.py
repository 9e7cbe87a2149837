"""Sessions of a claude-mem database of any generation."""

from __future__ import annotations

import pytest

from cortex.families.memory.adapters.claude_mem import Session, open_database
from families.memory.adapters.claude_mem_databases import START


def test_the_third_generations_sessions_are_those_with_a_title_or_an_overview(make):
    made = make("3")
    made.session("one", title="Set up Railway", moment=START)
    made.session("two", "shop", title="Pay", moment=START + 1000)
    made.session("three", moment=START + 2000)
    when = {"created_at": "", "created_at_epoch": START + 500, "project": "ack"}
    made.insert("overviews", session_id="one", content="Variables were set.", **when)
    made.insert("overviews", session_id="unknown", content="Only an overview.\nTwo lines.", **when)
    with open_database(made.path) as database:
        first = Session(
            "one", "ack", "Set up Railway", "Variables were set.", START + 500, "2026-11-15"
        )
        lost = Session(
            "unknown",
            "ack",
            "Only an overview.",
            "Only an overview.\nTwo lines.",
            START + 500,
            "2026-11-15",
        )
        two = Session("two", "shop", "Pay", "", START + 1000, "2026-11-15")
        assert [session.id for session in database.sessions(None, 10)] == ["two", "unknown", "one"]
        assert database.sessions(["ack"], 10) == [lost, first]
        assert database.sessions(["shop", "none"], 10) == [two]
        assert (database.session("one"), database.session("own-one")) == (first, first)
        assert database.session("none") is None


@pytest.mark.parametrize("generation", ["4", "8", "13"])
def test_last_summary_of_a_session_is_the_one_read(make, generation):
    made = make(generation)
    one_session, two = (
        made.session("client-1"),
        made.session("client-2", "shop", title="Named by hand"),
    )
    made.summary(
        one_session,
        "Fix deploy",
        learned="A prefix  is\nneeded",
        completed="Fixed",
        created_at_epoch=START + 1,
    )
    made.summary(
        two, "Pay", "shop", investigated="The form", notes="None", created_at_epoch=START + 2
    )
    made.summary(
        one_session, "Document it", next_steps="Tell everybody", created_at_epoch=START + 3
    )
    made.session("client-3")
    with open_database(made.path) as database:
        first = Session(
            "client-1", "ack", "Document it", "Next steps: Tell everybody", START + 3, "2026-11-15"
        )
        title = "Named by hand" if generation == "13" else "Pay"
        second = Session(
            "client-2",
            "shop",
            title,
            "Investigated: The form\nNotes: None",
            START + 2,
            "2026-11-15",
        )
        assert database.sessions(None, 10) == [first, second]
        assert database.sessions(None, 1) == [first]
        assert database.sessions(["shop"], 10) == [second]
        assert database.sessions([], 10) == []
        assert database.session("client-1") == database.session("own-client-1") == first
        assert database.session("client-3") == Session(
            "client-3", "ack", "", "", START, "2026-11-15"
        )
