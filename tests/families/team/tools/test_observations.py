"""Observations of agents: found at once, with failures, links and places by index."""

from __future__ import annotations

import json

from cortex.engine.library import Library
from families.team.tools.conftest import steady
from protocol.golden import check_golden

SECRET = "AKIA" + "IOSFODNN7EXAMPLQ"
UNKNOWN = "thread_01AAAAAAAAAAAAAAAAAAAAAAAA"


def test_valid_observations_are_found_and_failures_named_by_index(agent, shop):
    answer = agent.ask(
        "create_observations",
        idempotency_key="s:obs:mixed",
        observations=[
            {
                "title": "The quokka test passes",
                "summary_md": "In 3 s.",
                "type": "test_result",
                "tags": ["quokka"],
            },
            {"title": ""},
            {"title": "Key found", "summary_md": f"first line\nkey = {SECRET}"},
            {"title": "Elsewhere", "links": [UNKNOWN]},
            {"title": "Strange", "type": "rumour"},
            {
                "title": "Linked",
                "links": [
                    shop.ids["thread"],
                    "src/tokens.py#refresh_token",
                    "https://example.com/x",
                ],
            },
        ],
        attachments=[{"ref": "reports/quokka.html"}],
    )
    check_golden("team-answer-observations", steady(answer))
    data = answer["data"]
    assert [bool(id) for id in data["ids"]] == [True, False, False, False, False, True]
    codes = {row["index"]: row["code"] for row in data["failed"]}
    assert codes == {
        1: "VALIDATION_ERROR",
        2: "SENSITIVE_BLOCKED",
        3: "TARGET_NOT_FOUND",
        4: "VALIDATION_ERROR",
    }
    blocked = data["failed"][1]["message"]
    assert "summary" in blocked and "line 2" in blocked and SECRET not in json.dumps(answer)
    found = agent.data("search", query="quokka test", types=["observations"])["results"]
    assert found[0]["id"] == data["ids"][0]
    with Library(shop.settings()) as library:
        linked = library.store.records.one(data["ids"][5])
    assert linked is not None and linked.body.thread == shop.ids["thread"]
    assert linked.body.code_links[0].file_hash and linked.author == "agent"
    assert [attachment.ref for attachment in linked.body.attachments] == [
        "reports/quokka.html",
        "https://example.com/x",
    ]


def test_linked_record_shows_the_observation(agent, shop):
    observation = {"title": "It holds", "links": [shop.ids["adr"], "subcortex:auth"]}
    id = agent.data("create_observations", idempotency_key="s:obs:adr", observations=[observation])[
        "ids"
    ][0]
    assert id in [
        row["id"] for row in agent.data("get_artifact", artifact_id=shop.ids["adr"])["linked"]
    ]


def test_batch_without_a_valid_observation_fails_and_frees_its_key(agent):
    error = agent.fault(
        "create_observations",
        idempotency_key="s:obs:none",
        observations=[{"title": ""}, {"title": " "}],
    )
    assert error["code"] == "VALIDATION_ERROR" and [
        row["index"] for row in error["details"]["failed"]
    ] == [0, 1]
    assert agent.data(
        "create_observations", idempotency_key="s:obs:none", observations=[{"title": "Now"}]
    )["ids"]


def test_more_than_a_hundred_observations_are_refused(agent):
    many = [{"title": f"Number {number}"} for number in range(101)]
    assert (
        agent.fault("create_observations", idempotency_key="s:obs:101", observations=many)["code"]
        == "VALIDATION_ERROR"
    )
    assert (
        len(
            agent.data("create_observations", idempotency_key="s:obs:100", observations=many[:100])[
                "ids"
            ]
        )
        == 100
    )


def test_agent_writes_no_sensitive_record(agent):
    observation = {"title": "Salaries", "sensitivity": "sensitive"}
    assert (
        agent.fault(
            "create_observations", idempotency_key="s:obs:sens", observations=[observation]
        )["code"]
        == "PERMISSION_DENIED"
    )
    observation = {"title": "Salaries", "sensitivity": "secret"}
    assert (
        agent.fault(
            "create_observations", idempotency_key="s:obs:secr", observations=[observation]
        )["code"]
        == "SENSITIVE_BLOCKED"
    )
    kept = agent.data("create_draft", idempotency_key="s:draft:sens", draft_type="artifact", body_md="# Salaries\n\nSo.", metadata={"sensitivity": "sensitive"})  # fmt: skip
    assert "sensitive_content" in kept["risk_flags"]


def test_observation_with_a_path_outside_the_repository_is_refused(agent):
    for number, path in enumerate(("../outside.py", "/etc/passwd#root", "src/../../x")):
        observation = {"title": "Outside", "links": [path]}
        error = agent.fault(
            "create_observations", idempotency_key=f"s:obs:out{number}", observations=[observation]
        )
        assert error["code"] == "VALIDATION_ERROR"


def test_link_to_nothing_is_a_warning_and_an_empty_link_is_refused(agent):
    data = agent.data(
        "create_observations",
        idempotency_key="s:obs:links",
        observations=[
            {"title": "Of a file", "links": ["src/tokens.py", "src/nope.py"]},
            {"title": "Of words", "links": ["the token module", "../x.py", UNKNOWN]},
        ],
    )
    assert {"index": 0, "warning": "no file src/nope.py in this project: kept as given"} in data[
        "warnings"
    ]
    (failed,) = data["failed"]
    assert failed["index"] == 1
    assert all(name in failed["message"] for name in ("the token module", "../x.py", UNKNOWN))


def test_answer_names_the_place_of_each_moved_observation(agent, shop):
    homed, placed = {"title": "Anywhere"}, {"title": "In a topic", "links": ["subcortex:auth"]}
    data = agent.data(
        "create_observations", idempotency_key="s:obs:where", observations=[homed, placed, placed]
    )
    assert "where" not in data and data["elsewhere"] == [{"indexes": [1, 2], "subcortex": "auth"}]
    data = agent.data("create_observations", idempotency_key="s:obs:where2", observations=[placed])
    assert data["where"] == {"subcortex": "auth"} and "elsewhere" not in data
