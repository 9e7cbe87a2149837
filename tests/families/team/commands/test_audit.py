"""`cortex team audit`."""

import pytest

from families.team.commands.command_answers import answer, refusal

pytestmark = pytest.mark.usefixtures("shop", "at_terminal")


def test_audit_log_has_actor_action_version_and_key(cortex, thread):
    assert cortex("team", "audit", thread)[1].count("\n") == 1
    cortex("team", "thread", "comment", thread, "Fifteen minutes.", "--key", "my-key")
    cortex("team", "thread", "resolve", thread)
    log = answer(cortex, "team", "audit")["audit"]
    assert [event["action"] for event in log] == [
        "resolve_thread",
        "summarize",
        "create_comment",
        "create_thread",
    ]
    assert [(event["record"], event["version"]) for event in log if event["record"] == thread] == [
        (thread, 3),
        (thread, 2),
        (thread, 1),
    ]
    assert log[2]["key"] == "my-key"
    assert {(event["actor"], event["tier"], event["via"]) for event in log} == {
        ("person", 4, "terminal")
    }
    some = answer(cortex, "team", "audit", thread[:20], "--limit", "2")
    assert ([event["version"] for event in some["audit"]], some["more"]) == ([3, 2], True)
    _, out, err = cortex("team", "audit", "-n", "1")
    assert (
        f"person (4) terminal resolve thread: {thread} version 3, key " in out,
        "--limit" in err,
    ) == (True, True)
    assert (
        refusal(cortex, "team", "audit", "thread_01ARZ3NDEKTSV4RRFFQ69G5FAV")["code"]
        == "RECORD_UNKNOWN"
    )


def test_empty_audit_log_says_so(cortex):
    assert cortex("team", "audit") == (0, "", "Nothing was written yet.\n")
    assert answer(cortex, "team", "audit") == {"audit": [], "more": False}
