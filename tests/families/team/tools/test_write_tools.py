"""Write tools of agents: observations, drafts, comments and task updates.

With their keys, secrets, plugins and targets.
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
from families.team.tools.conftest import steady
from protocol.golden import check_golden

UNKNOWN = "thread_01AAAAAAAAAAAAAAAAAAAAAAAA"
SECRET = "AKIA" + "IOSFODNN7EXAMPLQ"
DIRECT = {"team.agentTier": 2, "team.publishComments": True}


@pytest.fixture
def trusted(shop, caller_of):
    return caller_of(shop, keep=True, **DIRECT)


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
def test_write_without_a_key_is_refused_with_a_fresh_one(agent, tool, arguments):
    error = agent.fault(tool, **arguments)
    assert error["code"] == "VALIDATION_ERROR" and "key_" in error["suggestions"][0]


def test_same_key_gives_the_same_record_and_refuses_another_payload(agent):
    first = agent.data(
        "create_observations", idempotency_key="s:obs:1", observations=[{"title": "Once"}]
    )
    again = agent.data(
        "create_observations", idempotency_key="s:obs:1", observations=[{"title": "Once"}]
    )
    assert again["ids"] == first["ids"] and again["replayed"] and "replayed" not in first
    error = agent.fault(
        "create_observations", idempotency_key="s:obs:1", observations=[{"title": "Twice"}]
    )
    assert error["code"] == "IDEMPOTENCY_REPLAY"


def test_commit_serves_as_key_for_each_kind_of_write(agent):
    for _ in range(2):
        ids = agent.data(
            "create_observations", commit_id="c0ffee", observations=[{"title": "Of a commit"}]
        )["ids"]
        draft = agent.data(
            "create_draft", commit_id="c0ffee", draft_type="thread", body_md="# Of a commit"
        )["draft_id"]
    assert ids and draft
    found = agent.data("search", query="Of a commit", types=["observations"])["results"]
    assert [row["id"] for row in found if row["title"] == "Of a commit"] == ids


def test_32_concurrent_retries_of_a_tool_write_once(agent):
    ids: list[str] = []

    def write() -> None:
        ids.extend(
            agent.data(
                "create_observations", idempotency_key="s:32", observations=[{"title": "Many"}]
            )["ids"]
        )

    workers = [threading.Thread(target=write) for _ in range(32)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(ids) == 32 and len(set(ids)) == 1


# -- drafts
# ----------------------------------------------------------------------------------------------------------


def test_draft_names_its_target_and_is_published_on_approval(agent, shop):
    answer = agent.ask(
        "create_draft",
        idempotency_key="s:draft:1",
        draft_type="comment",
        target_ref={"thread_id": shop.ids["thread"]},
        body_md="The desktop app refreshes it, too.",
        metadata={"citations": [shop.ids["adr"]], "reason": "it was asked"},
    )
    check_golden("team-answer-draft", steady(answer))
    data = answer["data"]
    assert data["posts_to"]["id"] == shop.ids["thread"] and data["state"] == "pending_review"
    with Library(shop.settings()) as library:
        published = approve(library, data["draft_id"], actor=person())
    assert published.record.author == "agent"
    assert published.record.id in [row["id"] for row in agent.data("get_thread", thread_id=shop.ids["thread"], comment_mode="recent")["comments"]]  # fmt: skip
    assert data["draft_id"] in [
        row["about"] for row in agent.data("get_inbox", include=["notifications"])["entries"]
    ]


def test_draft_for_a_missing_target_is_kept_with_the_next_step(agent):
    data = agent.data(
        "create_draft",
        idempotency_key="s:draft:lost",
        draft_type="comment",
        target_ref=UNKNOWN,
        body_md="Hm.",
    )
    assert (
        data["draft_id"]
        and "posts_to" not in data
        and "says where it belongs" in data["next_steps"][0]
    )


def test_draft_without_a_target_follows_the_current_project_file(shop, agent):
    def draft(key: str) -> dict[str, Any]:
        return agent.data("create_draft", idempotency_key=key, draft_type="comment", body_md="Hm.")

    data = draft("s:draft:no")
    assert "posts_to" not in data and any(
        "cortex team context set" in warning for warning in data["warnings"]
    )
    write_context(shop.repository, thread=shop.ids["incident"], subcortex="auth")
    data = draft("s:draft:way")
    assert (
        data["posts_to"]["id"] == shop.ids["incident"] and "default_thread_id" in data["routed_by"]
    )
    seen = agent.data(
        "create_observations", idempotency_key="s:obs:way", observations=[{"title": "Placed"}]
    )
    assert (
        seen["where"] == {"thread": shop.ids["incident"], "subcortex": "auth"}
        and "warnings" not in seen
    )
    write_context(shop.repository, thread=UNKNOWN, subcortex="")
    data = draft("s:draft:gone")
    assert "posts_to" not in data and UNKNOWN in json.dumps(data["warnings"])
    clear_context(shop.repository)
    assert any(
        "cortex team context set" in warning for warning in draft("s:draft:cleared")["warnings"]
    )


def test_removed_default_of_the_project_is_ignored(shop, caller_of):
    write_context(shop.repository, thread=shop.ids["incident"])
    caller = caller_of(shop, keep=True)
    assert caller.data("get_bootstrap_pack")["posts_to"]["thread"] == shop.ids["incident"]
    clear_context(shop.repository)
    assert "posts_to" not in caller.data("get_bootstrap_pack")


@pytest.mark.parametrize(("type", "known"), [("artifact", "adr"), ("thread", "decision")])
def test_unknown_draft_type_is_refused_with_the_known_ones(agent, type, known):
    words = {"draft_type": type, "body_md": "# So", "metadata": {"type": "rumour"}}
    message = agent.fault("create_draft", idempotency_key=f"s:draft:{type}", **words)["message"]
    assert (
        message.startswith("metadata.type is one of ") and known in message and '""' not in message
    )


def test_draft_with_a_secret_is_refused(agent):
    error = agent.fault(
        "create_draft",
        idempotency_key="s:draft:key",
        draft_type="thread",
        body_md=f"# x\n\n{SECRET}",
    )
    assert error["code"] == "SENSITIVE_BLOCKED" and SECRET not in json.dumps(error)


# -- comments and tasks
# ----------------------------------------------------------------------------------------------


def test_comment_of_an_agent_is_a_draft_unless_agents_may_publish(agent, trusted, shop):
    thread = shop.ids["incident"]
    drafted = agent.ask(
        "publish_comment", idempotency_key="s:c:1", thread_id=thread, body_md="It is the cache."
    )
    check_golden("team-answer-comment", steady(drafted))
    assert drafted["data"]["published"] is False and drafted["data"]["posts_to"]["id"] == thread
    data = trusted.data(
        "publish_comment", idempotency_key="s:c:2", thread_id=thread, body_md="It was the cache."
    )
    assert data["published"] is True
    assert data["comment_id"] in json.dumps(trusted.data("get_thread", thread_id=thread))
    assert trusted.fault("publish_comment", idempotency_key="s:c:3", thread_id=UNKNOWN, body_md="x")["code"] == "TARGET_NOT_FOUND"  # fmt: skip
    assert agent.data("publish_comment", idempotency_key="s:c:4", thread_id=UNKNOWN, body_md="x")[
        "draft_id"
    ]


def test_retry_gets_the_first_answer_after_a_permission_change(agent, trusted, shop):
    arguments = {"thread_id": shop.ids["incident"], "body_md": "Once more."}
    first = agent.data("publish_comment", idempotency_key="s:c:5", **arguments)
    assert (
        trusted.data("publish_comment", idempotency_key="s:c:5", **arguments)["draft_id"]
        == first["draft_id"]
    )
    other = trusted.data("publish_comment", idempotency_key="s:c:6", **arguments)
    assert (
        trusted.data("publish_comment", idempotency_key="s:c:6", **arguments)["comment_id"]
        == other["comment_id"]
    )


def test_task_update_without_permission_is_a_draft(agent, trusted, shop):
    drafted = agent.ask(
        "update_task",
        idempotency_key="s:t:1",
        task_id=shop.ids["task"],
        status="review",
        notes="Done?",
    )
    check_golden("team-answer-task", steady(drafted))
    rows = {row["id"]: row["title"] for row in agent.data("get_inbox", limit=100)["entries"]}
    assert rows[drafted["data"]["draft_id"]] == "Shorten the lifetime: state review, notes Done?"
    assert (
        drafted["data"]["updated"] is False
        and drafted["data"]["posts_to"]["id"] == shop.ids["task"]
    )
    data = trusted.data("update_task", idempotency_key="s:t:2", task_id=shop.ids["task"], status="blocked", blocked_reason="Waits.")  # fmt: skip
    assert (data["updated"], data["status"], data["blocked_reason"]) == (True, "blocked", "Waits.")
    assert trusted.data("update_task", idempotency_key="s:t:2", task_id=shop.ids["task"], status="blocked", blocked_reason="Waits.")["replayed"]  # fmt: skip
    for caller, key in ((agent, "s:t:3"), (trusted, "s:t:4")):
        assert caller.fault("update_task", idempotency_key=key, task_id=shop.ids["task"], status="gone")["code"] == "VALIDATION_ERROR"  # fmt: skip
        assert (
            caller.fault("update_task", idempotency_key=key, task_id=shop.ids["task"])["code"]
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
def censored(shop, caller_of, censor):
    """A caller whose texts are judged by a plugin."""
    return caller_of(shop, keep=True, **{"team.plugins": ["git", censor]})


def test_plugin_judges_every_write_and_adds_to_packs(censored, shop):
    several = [{"title": "A forbidden thing"}, {"title": "Of Zeus"}]
    data = censored.data("create_observations", idempotency_key="s:p:1", observations=several)
    assert (
        data["failed"][0]["code"] == "SENSITIVE_BLOCKED"
        and "a forbidden word" in data["failed"][0]["message"]
    )
    kept = censored.data("get_context_pack", subject={"ref": data["ids"][1]})
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
    sections = censored.data("get_context_pack", subject={"task_id": shop.ids["task"]})["sections"]
    assert sections == [
        {"title": "Censored", "plugin": "censor", "lines": ["task Shorten the lifetime"]}
    ]


def test_inbox_marks_sensitive_entries(agent):
    words = {"draft_type": "thread", "body_md": "# Wages", "metadata": {"sensitivity": "sensitive"}}
    id = agent.data("create_draft", idempotency_key="s:draft:wages", **words)["draft_id"]
    rows = {row["id"]: row for row in agent.data("get_inbox", limit=100)["entries"]}
    assert rows[id]["sensitive"] is True
    assert all(
        "sensitive" not in row for row in rows.values() if row["title"] not in ("Wages", "Salaries")
    )
