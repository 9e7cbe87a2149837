"""What agents write: observations at once, the rest as drafts unless they may; keys, secrets,
plugins, and where it goes.
"""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest

from cortex.base.actors import person
from cortex.engine.library import Library
from cortex.families.team.project_context import clear_context, write_context
from cortex.families.team.writes.drafts import approve
from families.team.tools.conftest import World, make_world, steady
from protocol.golden import check_golden

UNKNOWN = "thread_01AAAAAAAAAAAAAAAAAAAAAAAA"
SECRET = "AKIA" + "IOSFODNN7EXAMPLQ"
DIRECT = {"team.agentTier": 2, "team.publishComments": True}


@pytest.fixture(scope="module")
def shop(tmp_path_factory, strangers_environment) -> World:
    """A world that these tests write into."""
    return make_world(tmp_path_factory.mktemp("writes"))


@pytest.fixture
def agent(shop, desk_of):
    return desk_of(shop, keep=True)


@pytest.fixture
def trusted(shop, desk_of):
    return desk_of(shop, keep=True, **DIRECT)


# -- keys
# --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("create_observations", {"observations": [{"title": "x"}]}),
        ("create_draft", {"draft_type": "thread", "body_md": "x"}),
        ("publish_comment", {"thread_id": UNKNOWN, "body_md": "x"}),
        ("update_task", {"task_id": "task_x", "status": "done"}),
    ],
)
def test_a_write_without_a_key_is_refused_with_a_fresh_one(agent, tool, arguments):
    error = agent.fault(tool, **arguments)
    assert error["code"] == "VALIDATION_ERROR" and "key_" in error["suggestions"][0]


def test_the_same_key_gives_the_same_and_another_payload_is_a_replay(agent):
    first = agent.told(
        "create_observations", idempotency_key="s:obs:1", observations=[{"title": "Once"}]
    )
    again = agent.told(
        "create_observations", idempotency_key="s:obs:1", observations=[{"title": "Once"}]
    )
    assert again["ids"] == first["ids"] and again["replayed"] and "replayed" not in first
    error = agent.fault(
        "create_observations", idempotency_key="s:obs:1", observations=[{"title": "Twice"}]
    )
    assert error["code"] == "IDEMPOTENCY_REPLAY"


def test_a_commit_may_stand_for_the_key_of_each_kind_of_write(agent):
    for _ in range(2):
        ids = agent.told(
            "create_observations", commit_id="c0ffee", observations=[{"title": "Of a commit"}]
        )["ids"]
        draft = agent.told(
            "create_draft", commit_id="c0ffee", draft_type="thread", body_md="# Of a commit"
        )["draft_id"]
    assert ids and draft
    found = agent.told("search", query="Of a commit", types=["observations"])["results"]
    assert [row["id"] for row in found if row["title"] == "Of a commit"] == ids


def test_32_retries_at_once_write_one(agent):
    told: list[str] = []

    def write() -> None:
        told.extend(
            agent.told(
                "create_observations", idempotency_key="s:32", observations=[{"title": "Many"}]
            )["ids"]
        )

    threads = [threading.Thread(target=write) for _ in range(32)]
    for thread in threads:
        thread.start()
    for one in threads:
        one.join()
    assert len(told) == 32 and len(set(told)) == 1


# -- observations
# ------------------------------------------------------------------------------------------------------


def test_observations_are_found_at_once_and_what_fails_is_told_by_its_place(agent, shop):
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
    found = agent.told("search", query="quokka test", types=["observations"])["results"]
    assert found[0]["id"] == data["ids"][0]
    with Library(shop.settings()) as library:
        linked = library.store.records.one(data["ids"][5])
    assert linked is not None and linked.body.thread == shop.ids["thread"]
    assert linked.body.code_links[0].file_hash and linked.author == "agent"
    assert [attachment.ref for attachment in linked.body.attachments] == [
        "reports/quokka.html",
        "https://example.com/x",
    ]


def test_what_an_observation_links_to_knows_of_it(agent, shop):
    one = {"title": "It holds", "links": [shop.ids["adr"], "subcortex:auth"]}
    id = agent.told("create_observations", idempotency_key="s:obs:adr", observations=[one])["ids"][
        0
    ]
    assert id in [
        row["id"] for row in agent.told("get_artifact", artifact_id=shop.ids["adr"])["linked"]
    ]


def test_where_nothing_could_be_written_the_answer_is_an_error_and_the_key_is_free(agent):
    error = agent.fault(
        "create_observations",
        idempotency_key="s:obs:none",
        observations=[{"title": ""}, {"title": " "}],
    )
    assert error["code"] == "VALIDATION_ERROR" and [
        row["index"] for row in error["details"]["failed"]
    ] == [0, 1]
    assert agent.told(
        "create_observations", idempotency_key="s:obs:none", observations=[{"title": "Now"}]
    )["ids"]


def test_more_than_a_hundred_are_refused(agent):
    many = [{"title": f"Number {number}"} for number in range(101)]
    assert (
        agent.fault("create_observations", idempotency_key="s:obs:101", observations=many)["code"]
        == "VALIDATION_ERROR"
    )
    assert (
        len(
            agent.told("create_observations", idempotency_key="s:obs:100", observations=many[:100])[
                "ids"
            ]
        )
        == 100
    )


def test_what_is_sensitive_is_not_written_by_an_agent(agent):
    one = {"title": "Salaries", "sensitivity": "sensitive"}
    assert (
        agent.fault("create_observations", idempotency_key="s:obs:sens", observations=[one])["code"]
        == "PERMISSION_DENIED"
    )
    one = {"title": "Salaries", "sensitivity": "secret"}
    assert (
        agent.fault("create_observations", idempotency_key="s:obs:secr", observations=[one])["code"]
        == "SENSITIVE_BLOCKED"
    )
    kept = agent.told("create_draft", idempotency_key="s:draft:sens", draft_type="artifact", body_md="# Salaries\n\nSo.", metadata={"sensitivity": "sensitive"})  # fmt: skip
    assert "sensitive_content" in kept["risk_flags"]


def test_a_path_out_of_the_repository_is_refused(agent):
    for number, path in enumerate(("../outside.py", "/etc/passwd#root", "src/../../x")):
        one = {"title": "Outside", "links": [path]}
        error = agent.fault(
            "create_observations", idempotency_key=f"s:obs:out{number}", observations=[one]
        )
        assert error["code"] == "VALIDATION_ERROR"


def test_links_to_nothing_are_warned_of_and_those_that_say_nothing_are_refused(agent):
    told = agent.told(
        "create_observations",
        idempotency_key="s:obs:links",
        observations=[
            {"title": "Of a file", "links": ["src/tokens.py", "src/nope.py"]},
            {"title": "Of words", "links": ["the token module", "../x.py", UNKNOWN]},
        ],
    )
    assert {"index": 0, "warning": "no file src/nope.py in this project: kept as given"} in told[
        "warnings"
    ]
    (failed,) = told["failed"]
    assert failed["index"] == 1
    assert all(name in failed["message"] for name in ("the token module", "../x.py", UNKNOWN))


def test_where_observations_went_is_told_of_each_that_went_elsewhere(agent, shop):
    homed, placed = {"title": "Anywhere"}, {"title": "In a topic", "links": ["subcortex:auth"]}
    told = agent.told(
        "create_observations", idempotency_key="s:obs:where", observations=[homed, placed, placed]
    )
    assert "where" not in told and told["elsewhere"] == [{"indexes": [1, 2], "subcortex": "auth"}]
    told = agent.told("create_observations", idempotency_key="s:obs:where2", observations=[placed])
    assert told["where"] == {"subcortex": "auth"} and "elsewhere" not in told


# -- drafts
# ----------------------------------------------------------------------------------------------------------


def test_a_draft_says_where_it_will_post_and_becomes_what_a_person_approves(agent, shop):
    answer = agent.ask(
        "create_draft",
        idempotency_key="s:draft:1",
        draft_type="comment",
        target_ref={"thread_id": shop.ids["thread"]},
        body_md="The desktop app refreshes it, too.",
        metadata={"citations": [shop.ids["adr"]], "reason": "it was asked"},
    )
    check_golden("team-answer-draft", steady(answer))
    told = answer["data"]
    assert told["posts_to"]["id"] == shop.ids["thread"] and told["state"] == "pending_review"
    with Library(shop.settings()) as library:
        published = approve(library, told["draft_id"], actor=person())
    assert published.record.author == "agent"
    assert published.record.id in [row["id"] for row in agent.told("get_thread", thread_id=shop.ids["thread"], comment_mode="recent")["comments"]]  # fmt: skip
    assert told["draft_id"] in [
        row["about"] for row in agent.told("get_inbox", include=["notifications"])["entries"]
    ]


def test_a_draft_for_what_is_not_there_is_kept_with_the_next_step(agent):
    told = agent.told(
        "create_draft",
        idempotency_key="s:draft:lost",
        draft_type="comment",
        target_ref=UNKNOWN,
        body_md="Hm.",
    )
    assert (
        told["draft_id"]
        and "posts_to" not in told
        and "says where it belongs" in told["next_steps"][0]
    )


def test_without_a_target_a_draft_goes_where_the_project_says_now(shop, agent):
    def draft(key: str) -> dict[str, Any]:
        return agent.told("create_draft", idempotency_key=key, draft_type="comment", body_md="Hm.")

    told = draft("s:draft:no")
    assert "posts_to" not in told and any(
        "cortex team context set" in one for one in told["warnings"]
    )
    write_context(shop.repository, thread=shop.ids["incident"], subcortex="auth")
    told = draft("s:draft:way")
    assert (
        told["posts_to"]["id"] == shop.ids["incident"] and "default_thread_id" in told["routed_by"]
    )
    seen = agent.told(
        "create_observations", idempotency_key="s:obs:way", observations=[{"title": "Placed"}]
    )
    assert (
        seen["where"] == {"thread": shop.ids["incident"], "subcortex": "auth"}
        and "warnings" not in seen
    )
    write_context(shop.repository, thread=UNKNOWN, subcortex="")
    told = draft("s:draft:gone")
    assert "posts_to" not in told and UNKNOWN in json.dumps(told["warnings"])
    clear_context(shop.repository)
    assert any("cortex team context set" in one for one in draft("s:draft:cleared")["warnings"])


def test_what_was_said_at_the_start_and_taken_out_since_does_not_count(shop, desk_of):
    write_context(shop.repository, thread=shop.ids["incident"])
    desk = desk_of(shop, keep=True)
    assert desk.told("get_bootstrap_pack")["posts_to"]["thread"] == shop.ids["incident"]
    clear_context(shop.repository)
    assert "posts_to" not in desk.told("get_bootstrap_pack")


@pytest.mark.parametrize(("type", "known"), [("artifact", "adr"), ("thread", "decision")])
def test_a_strange_type_is_told_with_those_there_are(agent, type, known):
    words = {"draft_type": type, "body_md": "# So", "metadata": {"type": "rumour"}}
    message = agent.fault("create_draft", idempotency_key=f"s:draft:{type}", **words)["message"]
    assert (
        message.startswith("metadata.type is one of ") and known in message and '""' not in message
    )


def test_a_draft_with_a_secret_is_refused(agent):
    error = agent.fault(
        "create_draft",
        idempotency_key="s:draft:key",
        draft_type="thread",
        body_md=f"# x\n\n{SECRET}",
    )
    assert error["code"] == "SENSITIVE_BLOCKED" and SECRET not in json.dumps(error)


# -- comments and tasks
# ----------------------------------------------------------------------------------------------


def test_a_comment_is_a_draft_unless_agents_may_publish(agent, trusted, shop):
    thread = shop.ids["incident"]
    drafted = agent.ask(
        "publish_comment", idempotency_key="s:c:1", thread_id=thread, body_md="It is the cache."
    )
    check_golden("team-answer-comment", steady(drafted))
    assert drafted["data"]["published"] is False and drafted["data"]["posts_to"]["id"] == thread
    told = trusted.told(
        "publish_comment", idempotency_key="s:c:2", thread_id=thread, body_md="It was the cache."
    )
    assert told["published"] is True
    assert told["comment_id"] in json.dumps(trusted.told("get_thread", thread_id=thread))
    assert trusted.fault("publish_comment", idempotency_key="s:c:3", thread_id=UNKNOWN, body_md="x")["code"] == "TARGET_NOT_FOUND"  # fmt: skip
    assert agent.told("publish_comment", idempotency_key="s:c:4", thread_id=UNKNOWN, body_md="x")[
        "draft_id"
    ]


def test_a_retry_gets_what_the_first_call_got_though_the_rights_changed(agent, trusted, shop):
    arguments = {"thread_id": shop.ids["incident"], "body_md": "Once more."}
    first = agent.told("publish_comment", idempotency_key="s:c:5", **arguments)
    assert (
        trusted.told("publish_comment", idempotency_key="s:c:5", **arguments)["draft_id"]
        == first["draft_id"]
    )
    other = trusted.told("publish_comment", idempotency_key="s:c:6", **arguments)
    assert (
        trusted.told("publish_comment", idempotency_key="s:c:6", **arguments)["comment_id"]
        == other["comment_id"]
    )


def test_a_task_is_changed_by_who_may_and_drafted_by_others(agent, trusted, shop):
    drafted = agent.ask(
        "update_task",
        idempotency_key="s:t:1",
        task_id=shop.ids["task"],
        status="review",
        notes="Done?",
    )
    check_golden("team-answer-task", steady(drafted))
    rows = {row["id"]: row["title"] for row in agent.told("get_inbox", limit=100)["entries"]}
    assert rows[drafted["data"]["draft_id"]] == "Shorten the lifetime: state review, notes Done?"
    assert (
        drafted["data"]["updated"] is False
        and drafted["data"]["posts_to"]["id"] == shop.ids["task"]
    )
    told = trusted.told("update_task", idempotency_key="s:t:2", task_id=shop.ids["task"], status="blocked", blocked_reason="Waits.")  # fmt: skip
    assert (told["updated"], told["status"], told["blocked_reason"]) == (True, "blocked", "Waits.")
    assert trusted.told("update_task", idempotency_key="s:t:2", task_id=shop.ids["task"], status="blocked", blocked_reason="Waits.")["replayed"]  # fmt: skip
    for desk, key in ((agent, "s:t:3"), (trusted, "s:t:4")):
        assert desk.fault("update_task", idempotency_key=key, task_id=shop.ids["task"], status="gone")["code"] == "VALIDATION_ERROR"  # fmt: skip
        assert (
            desk.fault("update_task", idempotency_key=key, task_id=shop.ids["task"])["code"]
            == "VALIDATION_ERROR"
        )
    unknown = "task_01AAAAAAAAAAAAAAAAAAAAAAAA"
    assert trusted.fault("update_task", idempotency_key="s:t:5", task_id=unknown, status="done")["code"] == "TARGET_NOT_FOUND"  # fmt: skip
    with Library(shop.settings()) as library:
        approve(library, drafted["data"]["draft_id"], actor=person())
        task = library.store.records.one(shop.ids["task"])
    assert task is not None and (task.body.state, task.body.notes) == ("review", "Done?")


# -- plugins
# -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def censored(shop, desk_of, censor):
    """A caller whose texts a stranger's plugin sees first."""
    return desk_of(shop, keep=True, **{"team.plugins": ["git", censor]})


def test_a_plugin_has_its_say_before_anything_is_written_and_adds_to_packs(censored, shop):
    several = [{"title": "A forbidden thing"}, {"title": "Of Zeus"}]
    told = censored.told("create_observations", idempotency_key="s:p:1", observations=several)
    assert (
        told["failed"][0]["code"] == "SENSITIVE_BLOCKED"
        and "a forbidden word" in told["failed"][0]["message"]
    )
    kept = censored.told("get_context_pack", subject={"ref": told["ids"][1]})
    assert kept["title"] == "Of [redacted: code name]"
    for tool, arguments in (
        ("create_draft", {"draft_type": "thread", "body_md": "forbidden"}),
        ("publish_comment", {"thread_id": shop.ids["thread"], "body_md": "forbidden"}),
        ("update_task", {"task_id": shop.ids["task"], "notes": "forbidden"}),
    ):
        assert (
            censored.fault(tool, idempotency_key=f"s:p:{tool}", **arguments)["code"]
            == "SENSITIVE_BLOCKED"
        )
    sections = censored.told("get_context_pack", subject={"task_id": shop.ids["task"]})["sections"]
    assert sections == [
        {"title": "Censored", "plugin": "censor", "lines": ["task Shorten the lifetime"]}
    ]


def test_the_inbox_marks_what_is_sensitive(agent):
    words = {"draft_type": "thread", "body_md": "# Wages", "metadata": {"sensitivity": "sensitive"}}
    id = agent.told("create_draft", idempotency_key="s:draft:wages", **words)["draft_id"]
    rows = {row["id"]: row for row in agent.told("get_inbox", limit=100)["entries"]}
    assert rows[id]["sensitive"] is True
    assert all(
        "sensitive" not in row for row in rows.values() if row["title"] not in ("Wages", "Salaries")
    )
