"""`cortex team task`: assigning, blocking and finishing tasks."""

import pytest

from families.team.commands.command_answers import answer, refusal

pytestmark = pytest.mark.usefixtures("shop", "at_terminal")


def test_task_is_assigned_blocked_continued_and_done(cortex, thread):
    made = answer(
        cortex,
        "team",
        "task",
        "create",
        "Renew keys",
        "--assign",
        "me",
        "--priority",
        "high",
        "--thread",
        thread[:20],
    )
    number = made["id"]
    assert (made["assignees"], made["state"], made["thread"]) == (["person"], "assigned", thread)
    assert [
        task["id"]
        for task in answer(cortex, "team", "task", "list", "--mine", "--priority", "high")["tasks"]
    ] == [number]
    assert answer(cortex, "team", "task", "list", "--assignee", "agent")["tasks"] == []
    blocked = answer(
        cortex,
        "team",
        "task",
        "update",
        number,
        "--blocked",
        "The vault is closed.",
        "--assign",
        "agent",
    )
    assert (blocked["state"], blocked["blocked_reason"]) == ("blocked", "The vault is closed.")
    assert blocked["assignees"] == ["person", "agent"]
    moved = answer(
        cortex,
        *(
            "team",
            "task",
            "update",
            number,
            "--state",
            "in-progress",
            "--note",
            "First.",
            "--unassign",
            "agent",
        ),
    )
    assert (moved["state"], moved["blocked_reason"], moved["assignees"]) == (
        "in_progress",
        "",
        ["person"],
    )
    assert (
        answer(cortex, "team", "task", "update", number, "--note", "Second.")["notes"]
        == "First.\n\nSecond."
    )
    _, out, _ = cortex("team", "task", "show", number)
    assert f"Thread:     {thread}: How long do tokens live?" in out
    assert "First.\n\nSecond." in out
    answer(cortex, "team", "task", "update", number, "--state", "done")
    assert answer(cortex, "team", "task", "list")["tasks"] == []
    assert len(answer(cortex, "team", "task", "list", "--all")["tasks"]) == 1


def test_blocking_a_task_needs_a_reason(cortex):
    number = answer(cortex, "team", "task", "create", "Call the vault")["id"]
    error = refusal(cortex, "team", "task", "update", number, "--state", "blocked")
    assert (error["code"], "--blocked REASON" in error["message"]) == ("ARGUMENT_INVALID", True)
    assert (
        refusal(cortex, "team", "task", "update", number, "--blocked", " ")["code"]
        == "ARGUMENT_INVALID"
    )
    assert (
        answer(cortex, "team", "task", "update", number, "--blocked", "No key")["state"]
        == "blocked"
    )
    assert (
        answer(cortex, "team", "task", "update", number, "--state", "blocked", "--note", "Still.")[
            "notes"
        ]
        == "Still."
    )
