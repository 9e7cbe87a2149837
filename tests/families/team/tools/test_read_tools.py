"""Read tools: threads, artifacts, the inbox and search, with their warnings and cursors."""

from __future__ import annotations

import json

import pytest

from cortex.base.record_model import Artifact, Comment, Evidence, Thread
from cortex.engine.library import Library
from cortex.engine.store import RecordTransaction
from cortex.families.team.tools import TOOLS
from cortex.families.team.tools.definitions import TOOLS as LISTED
from cortex.families.team.writes.create import add_body
from cortex.toolkit.tool import input_schema, spell
from families.team.tools.conftest import in_one_step, make_world, steady
from protocol.golden import check_golden

READS = [
    "get_bootstrap_pack",
    "search",
    "get_context_pack",
    "get_thread",
    "get_artifact",
    "get_inbox",
]
WRITES = ["create_observations", "create_draft", "publish_comment", "update_task"]
TOOL_TOKENS = 1_950  # that the list of tools may cost


def test_tool_list_is_short():
    listed = [
        {
            "name": spell(tool.name),
            "description": tool.description,
            "inputSchema": dict(input_schema(tool)),
        }
        for tool in TOOLS
    ]
    check_golden("team-tools", listed)
    assert len(json.dumps(listed, separators=(",", ":"), ensure_ascii=False)) / 4 < TOOL_TOKENS


def test_write_tools_take_keys_and_are_absent_when_read_only(world, caller_of):
    assert [spell(tool.name) for tool in LISTED] == [f"cortex_{name}" for name in (*READS, *WRITES)]
    assert (
        [tool.writes for tool in LISTED]
        == [tool.keyed for tool in LISTED]
        == [False] * 6 + [True] * 4
    )
    assert [spell(tool.name) for tool in caller_of(world, read_only=True).family.tools] == [
        f"cortex_{n}" for n in READS
    ]


# -- threads
# -----------------------------------------------------------------------------------------------------------


def test_thread_has_its_summary_comments_and_links(caller, world):
    answer = caller.ask("get_thread", thread_id=world.ids["thread"])
    check_golden("team-answer-thread", steady(answer))
    data = answer["data"]
    assert (
        "15 minutes" in data["summary"]
        and data["subcortex"] == "auth"
        and data["comment_count"] == 3
    )
    assert world.ids["adr"] in [row["id"] for row in data["linked"]]


def test_thread_has_cited_newest_or_all_comments(caller, world):
    def shown(mode: str) -> list[str]:
        return [
            row["id"]
            for row in caller.data("get_thread", thread_id=world.ids["thread"], comment_mode=mode)[
                "comments"
            ]
        ]

    comments = [world.ids[f"comment{number}"] for number in range(3)]
    assert shown("recent") == comments[::-1]
    assert set(shown("top")) == set(comments)
    assert shown("referenced")[0] in comments[:2] and comments[2] in shown("referenced")


def test_thread_is_found_by_an_id_prefix_or_a_comment(caller, world):
    for ref in (world.ids["thread"][:22], world.ids["comment0"]):
        assert caller.data("get_thread", thread_id=ref)["id"] == world.ids["thread"]


def test_unknown_record_is_not_found(caller, world):
    for name, argument, id in (
        ("get_thread", "thread_id", "thread_01AAAAAAAAAAAAAAAAAAAAAAAA"),
        ("get_thread", "thread_id", world.ids["adr"]),
        ("get_artifact", "artifact_id", "nothing"),
    ):
        error = caller.fault(name, **{argument: id})
        assert error["code"] == "NOT_FOUND" and error["suggestions"]


# -- artifacts
# ---------------------------------------------------------------------------------------------------------


def test_artifact_has_its_evidence_body_and_warnings(caller, world):
    answer = caller.ask("get_artifact", artifact_id=world.ids["adr"])
    check_golden("team-answer-artifact", steady(answer))
    data = answer["data"]
    assert data["evidence"] == [
        {"type": "thread", "ref": world.ids["thread"], "note": "where it was decided"}
    ]
    assert (
        data["warnings"] == ["review overdue since 2026-01-31"]
        and data["supersedes"] == world.ids["old"]
    )
    assert data["body"].startswith("# Decision")


def test_superseded_artifact_names_the_call_that_opens_its_successor(caller, world):
    answer = caller.ask("get_artifact", artifact_id=world.ids["old"])
    assert answer["data"]["warnings"] == [f"superseded by {world.ids['adr']}"]
    assert (
        answer["meta"]["next_recommended_call"]
        == f"cortex_get_artifact(artifact_id='{world.ids['adr']}')"
    )


def test_earlier_version_of_an_artifact_is_shown(caller, world):
    data = caller.data("get_artifact", artifact_id=world.ids["old"], version=1)
    assert (data["state"], data["version"], data["current_version"]) == ("accepted", 1, 2)
    assert (
        caller.fault("get_artifact", artifact_id=world.ids["old"], version=9)["code"] == "NOT_FOUND"
    )


def test_cursor_of_another_request_is_refused(caller, world):
    error = caller.fault("get_artifact", artifact_id=world.ids["adr"], cursor="MTphYmM=")
    assert error["code"] == "VALIDATION_ERROR" and error["details"]["cause"] == "CURSOR_INVALID"


# -- the inbox
# ---------------------------------------------------------------------------------------------------------


def test_inbox_has_entries_with_reasons(caller, world):
    answer = caller.ask("get_inbox")
    check_golden("team-answer-inbox", steady(answer))
    rows = {row["id"]: row for row in answer["data"]["entries"]}
    assert rows[world.ids["task"]]["why"] and rows[world.ids["adr"]]["type"] == "review_overdue"


def test_inbox_continues_from_a_cursor(caller):
    whole = [row["id"] for row in caller.data("get_inbox", limit=50)["entries"]]
    seen, cursor = [], None
    while True:
        page = caller.data("get_inbox", limit=1, **({"cursor": cursor} if cursor else {}))
        seen += [row["id"] for row in page["entries"]]
        if not (cursor := page.get("next_cursor")):
            break
    assert seen == whole and len(seen) > 1
    assert {row["type"] for row in caller.data("get_inbox", include=["reviews"])["entries"]} == {
        "review_overdue"
    }
    assert caller.fault("get_inbox", cursor="page 2")["code"] == "VALIDATION_ERROR"


def test_inbox_of_an_agent_begins_with_its_own_tasks(caller, world):
    for number in range(3):
        words = {"draft_type": "thread", "body_md": f"Thread {number}"}
        caller.data("create_draft", idempotency_key=f"own-first-{number}", **words)
    entries = caller.data("get_inbox", limit=1)
    assert [row["id"] for row in entries["entries"]] == [world.ids["task"]] and entries["more"][
        "entries"
    ] >= 3


# -- long records
# ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def crowd(tmp_path_factory, strangers_environment):
    """A thread with many comments and an artifact with a long body."""
    world = make_world(tmp_path_factory.mktemp("crowd"))
    body = "\n".join(f'Line {number} says "so".' for number in range(2_000))

    def work(step: RecordTransaction) -> None:
        thread = add_body(step, Thread("Long", 'He said "no".\n' * 300)).id
        for number in range(30):
            add_body(
                step,
                Comment(thread, f"Comment {number}: " + "we decided it \\ so. " * (number % 9)),
            )
        artifact = add_body(
            step, Artifact("Long", body, evidence=(Evidence("url", "https://example.com"),))
        ).id
        world.ids.update({"long_thread": thread, "long_artifact": artifact})

    with Library(world.settings()) as library:
        in_one_step(library, work)
    return world


@pytest.mark.parametrize("budget", [200, 500, 4_000])
def test_every_comment_of_a_long_thread_is_reachable(crowd, caller_of, budget):
    caller, seen, cursor = caller_of(crowd), [], None
    for _ in range(80):
        page = caller.data(
            "get_thread",
            thread_id=crowd.ids["long_thread"],
            comment_mode="recent",
            budget=budget,
            **({"cursor": cursor} if cursor else {}),
        )
        seen += [row["id"] for row in page["comments"]]
        if not (cursor := page.get("next_cursor")):
            break
    assert len(seen) == len(set(seen)) == 30


def test_body_of_a_long_artifact_is_read_to_its_end(crowd, caller_of):
    caller, read, cursor = caller_of(crowd), "", None
    for _ in range(40):
        page = caller.data(
            "get_artifact",
            artifact_id=crowd.ids["long_artifact"],
            max_chars=8_000,
            **({"cursor": cursor} if cursor else {}),
        )
        read += page["body"]
        if not (cursor := page.get("next_cursor")):
            break
    assert read.splitlines() == [f'Line {number} says "so".' for number in range(2_000)]
