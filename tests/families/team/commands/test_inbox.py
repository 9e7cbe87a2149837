"""`cortex inbox`."""

import pytest

from cortex.base.actors import agent
from cortex.base.record_model import Comment
from cortex.families.team.writes.create import create
from families.team.commands.command_answers import answer, exits, opened, refusal

pytestmark = pytest.mark.usefixtures("shop", "at_terminal")


def test_empty_inbox_and_draft_list_say_so(cortex):
    assert cortex("team", "drafts", "list") == (0, "", "No draft waits for you.\n")
    assert cortex("inbox") == (0, "", "Nothing waits for you.\n")
    assert answer(cortex, "inbox") == {"entries": [], "more": False}
    assert cortex("inbox", "done", "--all")[1] == "✓ Done with 0 notifications\n"


def test_inbox_has_mentions_tasks_and_overdue_reviews(cortex, thread):
    task = answer(cortex, "team", "task", "create", "Renew keys", "--assign", "me")["id"]
    answer(
        cortex, "team", "artifact", "create", "Ports", "--body", "8080", "--review-by", "2020-01-31"
    )
    with opened() as library:
        writer = agent(
            library.settings.model_copy(
                update={"team": library.settings.team.model_copy(update={"agent_tier": 2})}
            )
        )
        create(library, Comment(thread, "Look at this, @person."), actor=writer)
    entries = {entry["type"]: entry for entry in answer(cortex, "inbox")["entries"]}
    assert set(entries) == {"task", "review_overdue", "mention"}
    assert entries["task"]["next"] == f"cortex team task show {task}"
    assert entries["mention"]["next"] == f"cortex team thread show {thread}"
    code, out, err = cortex("inbox", "--limit", "1")
    assert (code, "--limit" in err) == (0, True)
    assert "agent mentioned you in a comment" in out
    assert [
        entry["type"] for entry in answer(cortex, "inbox", "--include", "tasks")["entries"]
    ] == ["task"]
    error = refusal(cortex, "inbox", "done", task)
    assert (error["code"], "cortex team task update" in error["message"]) == (
        "ARGUMENT_INVALID",
        True,
    )
    assert answer(cortex, "inbox", "done", "--all")["done"] == [entries["mention"]["id"]]
    assert {entry["type"] for entry in answer(cortex, "inbox")["entries"]} == {
        "task",
        "review_overdue",
    }


def test_acknowledged_alert_keeps_the_refused_write(cortex, core, lowered):
    lowered("Only mine")
    assert exits(cortex, "sync")[0] == 1
    (entry,) = answer(cortex, "inbox")["entries"]
    answer(cortex, "inbox", "done", entry["id"])
    assert exits(cortex, "sync")[0] == 1
    assert answer(cortex, "inbox")["entries"] == [] and answer(cortex, "status")["refused"] == 1
