"""Decisions of people: made at a terminal only, and recorded in the audit log."""

import sys

import pytest

from cortex.base.settings import environment, load
from families.team.commands.command_answers import answer, comment_draft, drafted, refusal

pytestmark = pytest.mark.usefixtures("shop")

EVIDENCE = ("--evidence", "https://example.org/why")


@pytest.fixture
def thread(cortex):
    return answer(cortex, "team", "thread", "create", "Why do people get logged out?")["id"]


def decisions(cortex, thread):
    """A command line for each decision, with all that it is about in place."""
    (draft,) = drafted(comment_draft(thread))
    made = answer(
        cortex, "team", "artifact", "create", "Ports", "--body", "We use 8080.", *EVIDENCE
    )["id"]
    other = answer(
        cortex, "team", "artifact", "create", "Doors", "--body", "We use none.", *EVIDENCE
    )["id"]
    link = answer(cortex, "team", "link", "add", made, "contradicts", other)["id"]
    memory = answer(cortex, "memory", "add", "Lamps are off", "--state", "staging")["id"]
    return {
        "approve_draft": ("team", "drafts", "approve", draft),
        "reject_draft": ("team", "drafts", "reject", draft),
        "accept_artifact": ("team", "artifact", "accept", made),
        "accept_artifact, at once": (
            "team",
            "artifact",
            "create",
            "Keys",
            "--state",
            "accepted",
            *EVIDENCE,
        ),
        "supersede_artifact": ("team", "artifact", "supersede", made, other),
        "supersede_artifact, by a link": ("team", "link", "add", other, "supersedes", made),
        "deprecate_artifact": ("team", "artifact", "deprecate", made),
        "deprecate_artifact, by an edit": (
            "team",
            "artifact",
            "edit",
            made,
            "--state",
            "deprecated",
        ),
        "judge_link": ("team", "link", "confirm", link),
        "judge_link, against": ("team", "link", "dismiss", link),
        "resolve_thread": ("team", "thread", "resolve", thread),
        "judge_memory": ("memory", "approve", memory),
        "judge_memory, against": ("memory", "reject", memory),
        "judge_memory, for all": ("memory", "promote", memory),
        "edit_memory": ("memory", "edit", memory, "--title", "Lamps are on"),
        "delete_memory": ("memory", "delete", memory),
    }


def test_decision_without_a_terminal_is_refused(cortex, thread):
    before = None
    for name, arguments in decisions(cortex, thread).items():
        before = before or answer(cortex, "team", "audit")
        error = refusal(cortex, *arguments)
        assert (name, error["code"]) == (name, "APPROVAL_NEEDED")
        assert "a person decides" in error["message"] and "no terminal" in error["message"]
        assert "in a terminal of their own" in error["suggestions"][0]
        assert "cortex " not in " ".join(error["suggestions"])
    assert answer(cortex, "team", "audit") == before
    assert answer(cortex, "memory", "list", "--state", "approved")["total"] == 0


def test_decision_shows_its_subject_and_changes_nothing_after_a_no(cortex, thread, at_terminal):
    at_terminal.answer = ""
    for name, arguments in decisions(cortex, thread).items():
        code, out, err = cortex(*arguments)
        assert (name, code, out, err) == (name, 1, "", "nothing was changed\n")
    asked = iter(at_terminal.questions)
    assert next(asked).splitlines()[-2:] == [
        "  | It happened on Monday, too.",
        "Publish it? [y/N]:",
    ]
    assert all(
        any(word in question for word in ("Ports", "Monday", "Keys", "logged out", "Lamps"))
        for question in asked
    )


def test_accepted_artifact_is_changed_only_after_a_yes(cortex, at_terminal):
    made = answer(
        cortex,
        "team",
        "artifact",
        "create",
        "Ports",
        "--body",
        "8080.",
        "--state",
        "accepted",
        *EVIDENCE,
    )["id"]
    at_terminal.answer = "n"
    assert cortex("team", "artifact", "edit", made, "--body", "Any port.")[0] == 1
    assert "Any port." in at_terminal.questions[-1]
    at_terminal.answer = "yes"
    assert answer(cortex, "team", "artifact", "edit", made, "--body", "Any port.")["version"] == 2


def test_adding_a_promoted_memory_is_a_decision(cortex, at_terminal):
    assert cortex("memory", "add", "Deploys are on Friday")[0] == 0
    at_terminal.answer = "n"
    assert cortex("memory", "add", "Deploys are on Monday", "--state", "promoted")[0] != 0
    assert "Deploys are on Monday" in at_terminal.questions[-1]
    assert "Monday" not in cortex("memory", "list")[1]


def test_yes_option_does_not_replace_a_decision(cortex):
    code, _, err = cortex("memory", "approve", "mem_0123456789", "--yes")
    assert (code, "--yes" in err) == (2, True)


def test_approval_setting_studio_refuses_decisions_in_the_terminal(cortex, thread, at_terminal):
    assert cortex("config", "set", "team.approval", "studio")[0] == 0
    error = refusal(cortex, "team", "thread", "resolve", thread)
    assert error["code"] == "APPROVAL_NEEDED" and "team.approval is studio" in error["message"]
    assert at_terminal.questions == []


def test_project_settings_cannot_choose_where_decisions_are_made(cortex, shop):
    (shop / ".cortex").mkdir()
    (shop / ".cortex" / "config.yml").write_text("team:\n  approval: studio\n", encoding="utf-8")
    assert load(shop, environment=environment()).team.approval == "terminal"


def test_audit_log_distinguishes_agents_people_and_commands(cortex, thread, at_terminal):
    (draft,) = drafted(comment_draft(thread))
    answer(cortex, "team", "drafts", "approve", draft)
    how = {
        entry["action"]: (entry["actor"], entry["via"])
        for entry in answer(cortex, "team", "audit")["audit"]
    }
    assert how["create_thread"] == ("person", "command")
    assert how["create_draft"] == ("agent", "agent")
    assert how["approve_draft"] == ("person", "terminal")
    out = cortex("team", "audit")[1]
    assert "person (4) command  create thread" in out and "agent (1)  agent    create draft" in out
    assert "person (4) terminal approve draft" in out


@pytest.mark.skipif(sys.platform == "win32", reason="pseudo-terminals are POSIX")
def test_decision_asks_the_controlling_terminal_not_stdin(cortex, thread, in_window):
    code, out, shown = in_window("y\n", "team", "thread", "resolve", thread)
    assert (code, out.startswith("✓ Resolved")) == (0, True), shown
    assert "Why do people get logged out?" in shown and "Resolve it? [y/N]:" in shown
    (last,) = answer(cortex, "team", "audit", "-n", "1")["audit"]
    assert (last["action"], last["via"]) == ("resolve_thread", "terminal")
