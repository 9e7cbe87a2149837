"""One thing opened: threads, artifacts, the inbox; what they show, what they leave out, and what
they warn of.
"""

from __future__ import annotations

import ast
import base64
import json
import re
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime

import pytest

from cortex.base.errors import LimitError
from cortex.base.record_model import Artifact, Comment, Evidence, Thread
from cortex.base.types import Cancel, Page, Query
from cortex.engine.library import Library
from cortex.engine.search.federated import SearchTarget
from cortex.engine.store import RecordTransaction
from cortex.families.team import tools
from cortex.families.team.tools import TOOLS
from cortex.families.team.tools.definitions import TOOLS as LISTED
from cortex.families.team.tools.search_tool import moment
from cortex.families.team.writes.create import add_body
from cortex.interfaces.assembly.pool import engine_pool
from cortex.toolkit.pagination import MAX_OFFSET
from cortex.toolkit.tool import Family, input_schema, spell
from families.team.tools.conftest import Desk, in_one_step, make_world, steady
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


def test_the_tools_are_listed_with_few_words():
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


def test_the_tools_that_write_are_keyed_and_a_read_only_server_has_none(world, desk_of):
    assert [spell(tool.name) for tool in LISTED] == [f"cortex_{name}" for name in (*READS, *WRITES)]
    assert (
        [tool.writes for tool in LISTED]
        == [tool.keyed for tool in LISTED]
        == [False] * 6 + [True] * 4
    )
    assert [spell(tool.name) for tool in desk_of(world, read_only=True).family.tools] == [
        f"cortex_{n}" for n in READS
    ]


# -- threads
# -----------------------------------------------------------------------------------------------------------


def test_a_thread_comes_with_its_summary_its_comments_and_what_is_linked_to_it(desk, world):
    answer = desk.ask("get_thread", thread_id=world.ids["thread"])
    check_golden("team-answer-thread", steady(answer))
    told = answer["data"]
    assert (
        "15 minutes" in told["summary"]
        and told["subcortex"] == "auth"
        and told["comment_count"] == 3
    )
    assert world.ids["adr"] in [row["id"] for row in told["linked"]]


def test_comments_are_those_that_are_referred_to_the_newest_or_all(desk, world):
    def shown(mode: str) -> list[str]:
        return [
            row["id"]
            for row in desk.told("get_thread", thread_id=world.ids["thread"], comment_mode=mode)[
                "comments"
            ]
        ]

    comments = [world.ids[f"comment{number}"] for number in range(3)]
    assert shown("recent") == comments[::-1]
    assert set(shown("top")) == set(comments)
    assert shown("referenced")[0] in comments[:2] and comments[2] in shown("referenced")


def test_a_thread_may_be_named_by_a_part_of_its_id_or_by_a_comment(desk, world):
    for ref in (world.ids["thread"][:22], world.ids["comment0"]):
        assert desk.told("get_thread", thread_id=ref)["id"] == world.ids["thread"]


def test_what_is_not_there_is_not_found(desk, world):
    for name, argument, id in (
        ("get_thread", "thread_id", "thread_01AAAAAAAAAAAAAAAAAAAAAAAA"),
        ("get_thread", "thread_id", world.ids["adr"]),
        ("get_artifact", "artifact_id", "nothing"),
    ):
        error = desk.fault(name, **{argument: id})
        assert error["code"] == "NOT_FOUND" and error["suggestions"]


# -- artifacts
# ---------------------------------------------------------------------------------------------------------


def test_an_artifact_comes_with_its_evidence_its_body_and_warnings(desk, world):
    answer = desk.ask("get_artifact", artifact_id=world.ids["adr"])
    check_golden("team-answer-artifact", steady(answer))
    told = answer["data"]
    assert told["evidence"] == [
        {"type": "thread", "ref": world.ids["thread"], "note": "where it was decided"}
    ]
    assert (
        told["warnings"] == ["review overdue since 2026-01-31"]
        and told["supersedes"] == world.ids["old"]
    )
    assert told["body"].startswith("# Decision")


def test_what_was_superseded_says_by_what_and_names_the_call_that_opens_it(desk, world):
    answer = desk.ask("get_artifact", artifact_id=world.ids["old"])
    assert answer["data"]["warnings"] == [f"superseded by {world.ids['adr']}"]
    assert (
        answer["meta"]["next_recommended_call"]
        == f"cortex_get_artifact(artifact_id='{world.ids['adr']}')"
    )


def test_an_earlier_version_is_told_as_it_was(desk, world):
    told = desk.told("get_artifact", artifact_id=world.ids["old"], version=1)
    assert (told["state"], told["version"], told["current_version"]) == ("accepted", 1, 2)
    assert (
        desk.fault("get_artifact", artifact_id=world.ids["old"], version=9)["code"] == "NOT_FOUND"
    )


def test_a_cursor_of_something_else_is_refused(desk, world):
    error = desk.fault("get_artifact", artifact_id=world.ids["adr"], cursor="MTphYmM=")
    assert error["code"] == "VALIDATION_ERROR" and error["details"]["cause"] == "CURSOR_INVALID"


# -- the inbox
# ---------------------------------------------------------------------------------------------------------


def test_the_inbox_says_what_waits_and_why(desk, world):
    answer = desk.ask("get_inbox")
    check_golden("team-answer-inbox", steady(answer))
    rows = {row["id"]: row for row in answer["data"]["entries"]}
    assert rows[world.ids["task"]]["why"] and rows[world.ids["adr"]]["type"] == "review_overdue"


def test_the_inbox_goes_on_where_it_ended(desk):
    whole = [row["id"] for row in desk.told("get_inbox", limit=50)["entries"]]
    seen, cursor = [], None
    while True:
        page = desk.told("get_inbox", limit=1, **({"cursor": cursor} if cursor else {}))
        seen += [row["id"] for row in page["entries"]]
        if not (cursor := page.get("next_cursor")):
            break
    assert seen == whole and len(seen) > 1
    assert {row["type"] for row in desk.told("get_inbox", include=["reviews"])["entries"]} == {
        "review_overdue"
    }
    assert desk.fault("get_inbox", cursor="page 2")["code"] == "VALIDATION_ERROR"


def test_an_agent_meets_its_own_tasks_before_what_waits_for_a_person(desk, world):
    for number in range(3):
        words = {"draft_type": "thread", "body_md": f"Thread {number}"}
        desk.told("create_draft", idempotency_key=f"own-first-{number}", **words)
    entries = desk.told("get_inbox", limit=1)
    assert [row["id"] for row in entries["entries"]] == [world.ids["task"]] and entries["more"][
        "entries"
    ] >= 3


# -- long ones
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
def test_every_comment_of_a_long_thread_is_reached(crowd, desk_of, budget):
    desk, seen, cursor = desk_of(crowd), [], None
    for _ in range(80):
        page = desk.told(
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


def test_the_body_of_a_long_artifact_is_read_to_its_end(crowd, desk_of):
    desk, read, cursor = desk_of(crowd), "", None
    for _ in range(40):
        page = desk.told(
            "get_artifact",
            artifact_id=crowd.ids["long_artifact"],
            max_chars=8_000,
            **({"cursor": cursor} if cursor else {}),
        )
        read += page["body"]
        if not (cursor := page.get("next_cursor")):
            break
    assert read.splitlines() == [f'Line {number} says "so".' for number in range(2_000)]


# -- what is recommended next
# ------------------------------------------------------------------------------------------


def called(desk, text: str):
    """The answer to a call as an answer recommends it."""
    name, arguments = re.fullmatch(r"cortex_(\w+)\((.*)\)", text).groups()
    parsed = ast.parse(f"f({arguments})", mode="eval").body
    assert isinstance(parsed, ast.Call)
    return desk.ask(
        name,
        **{
            keyword.arg: ast.literal_eval(keyword.value)
            for keyword in parsed.keywords
            if keyword.arg
        },
    )


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("search", {"query": "token", "types": ["threads", "artifacts"], "limit": 1}),
        ("search", {"query": "token", "filters": {"subcortex": "auth", "since": "30d"}, "limit": 1}),
        ("get_inbox", {"include": ["tasks", "reviews"], "limit": 1}),
        ("get_bootstrap_pack", {"scope": "subcortex:auth", "budget": 300}),
        ("get_context_pack", {"subject": {"subcortex_slug": "auth"}, "include": {"contradictions": False}, "budget": 200}),
    ],
)  # fmt: skip
def test_what_is_recommended_next_goes_on_with_the_same_question(desk, name, arguments):
    text = desk.ask(name, **arguments)["meta"]["next_recommended_call"]
    assert all(
        f"{argument}=" in text for argument in arguments if argument not in ("limit", "budget")
    ), text
    called(desk, text)


def test_a_question_too_long_to_repeat_is_not_cut_into_another_one(desk):
    text = desk.ask("search", query="how long does a token live " * 6, limit=1)["meta"][
        "next_recommended_call"
    ]
    assert text.startswith("cortex_search(query=…, cursor='")


# -- searching
# ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("types", [None, ["threads", "artifacts"]])
@pytest.mark.parametrize("offset", [20_000_000, MAX_OFFSET - 1])
def test_a_cursor_that_somebody_moved_far_beyond_the_last_hit_is_answered_with_nothing(
    desk, types, offset
):
    asked = {"query": "token", "limit": 1, **({"types": types} if types else {})}
    _, _, question = base64.urlsafe_b64decode(
        desk.told("search", **asked)["next_cursor"]
    ).partition(b":")
    told = desk.told(
        "search", **asked, cursor=base64.urlsafe_b64encode(b"%d:%s" % (offset, question)).decode()
    )
    assert told["note"] == "nothing found" and not told.get("results")


def test_a_state_that_no_record_has_is_told_with_those_there_are(desk):
    error = desk.fault("search", query="token", types=["tasks"], filters={"status": "open"})
    assert error["code"] == "INVALID_FILTER" and "in_progress" in error["message"]
    assert desk.told(
        "search", query="lifetime", types=["tasks"], filters={"status": "in_progress"}
    )["results"]


def test_a_place_that_cannot_be_searched_costs_nobody_elses_answers(world):
    def busy() -> AbstractContextManager[list[SearchTarget]]:
        def ask(query: Query, cancel: Cancel) -> Page:
            raise LimitError("INDEX_BUSY", "it is being built")

        return nullcontext([SearchTarget("chunks", "chunks", ask)])

    family = Family("chunks", "", None, (), places=busy)
    desk = Desk(
        tools.open_family(world.settings(), engine_pool(keep=False), [world.workspace()], (family,))
    )
    try:
        told = desk.told("search", query="token")
        assert (
            told["notes"] == ["chunks could not be searched: it is being built"] and told["results"]
        )
        assert desk.fault("search", query="token", types=["chunks"])["code"] == "SERVER_ERROR"
    finally:
        desk.family.close()


def test_the_day_that_something_is_wanted_until_counts_and_days_are_those_of_utc():
    assert (
        moment("2026-01-31", "until")
        == moment("2026-02-01", "since")
        == moment("2026-02-01T00:00Z", "until")
    )
    assert moment("2026-01-31T12:00", "until") == moment("2026-01-31T14:00+02:00", "since")
    assert moment("", "until") == 0
    assert moment("9999-12-31", "until") > moment("9999-12-31", "since")


def test_what_changed_today_is_found_until_today(desk):
    today = datetime.now(UTC).strftime("%Y-%m-%d")
    assert desk.told("search", query="token lives", filters={"until": today})["results"]
