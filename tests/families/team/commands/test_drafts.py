"""`cortex team drafts`: drafts of agents, approved or rejected at the terminal."""

import json

import pytest

from cortex.base.actors import AGENT, agent
from cortex.base.record_model import Draft
from cortex.families.team.writes.drafts import create_draft
from families.team.commands.command_answers import answer, comment_draft, drafted, opened, refusal

pytestmark = pytest.mark.usefixtures("shop", "at_terminal")


@pytest.fixture
def thread(cortex):
    return answer(cortex, "team", "thread", "create", "Why do people get logged out?")["id"]


def test_draft_is_shown_approved_published_and_notified(cortex, thread):
    (number,) = drafted(comment_draft(thread, reason="I read the logs."))
    (waiting,) = answer(cortex, "inbox")["entries"]
    assert (waiting["type"], waiting["about"], waiting["next"]) == (
        "draft",
        number,
        f"cortex team drafts show {number}",
    )
    (listed,) = answer(cortex, "team", "drafts", "list")["drafts"]
    assert (listed["id"], listed["author"], listed["state"]) == (number, AGENT, "pending_review")
    _, out, _ = cortex("team", "drafts", "show", number[:20])
    assert (
        f"whether it is published as a comment in {thread} (Why do people get logged out?)" in out
    )
    assert "It happened on Monday, too." in out
    assert "I read the logs." in out
    assert answer(cortex, "team", "thread", "show", thread)["comments"] == []

    code, out, _ = cortex("team", "drafts", "approve", number, "--notes", "Thank you.")
    assert (code, out.startswith("✓ Published comment_")) == (0, True)
    (comment,) = answer(cortex, "team", "thread", "show", thread)["comments"]
    assert (comment["author"], comment["body"]) == (AGENT, "It happened on Monday, too.")
    shown = answer(cortex, "team", "drafts", "show", number)
    assert (shown["state"], shown["published"], shown["reviewed_by"]) == (
        "published",
        comment["id"],
        "person",
    )
    assert answer(cortex, "team", "drafts", "list")["drafts"] == []
    assert [
        draft["id"] for draft in answer(cortex, "team", "drafts", "list", "--all")["drafts"]
    ] == [number]

    # The person knows what they approved themselves
    assert answer(cortex, "inbox")["entries"] == []
    (entry,) = answer(cortex, "inbox", "--all")["entries"]
    assert (entry["type"], entry["about"], "Thank you." in entry["why"]) == (
        "draft_approved",
        number,
        True,
    )
    found = answer(cortex, "search", "Monday", "--in", "team")["results"]
    assert (found[0]["id"], found[0]["family"]) == (comment["id"], "team")
    assert cortex("inbox", "done", entry["id"][:20])[1] == "✓ Done with 1 notification\n"
    assert answer(cortex, "inbox", "--all")["entries"] == []
    with opened() as library:
        deeds = library.store.records.deeds(comment["id"])
        assert [(deed.actor, deed.action) for deed in deeds] == [("person", "approve_draft")]


def test_decided_draft_can_not_be_decided_again(cortex, thread):
    (number,) = drafted(comment_draft(thread))
    answer(cortex, "team", "drafts", "approve", number)
    error = refusal(cortex, "team", "drafts", "approve", number)
    assert error["code"] == "RECORD_CHANGED"
    assert refusal(cortex, "team", "drafts", "reject", number)["code"] == "RECORD_CHANGED"
    assert len(answer(cortex, "team", "thread", "show", thread)["comments"]) == 1


def test_draft_without_a_target_is_published_where_the_person_says(cortex, thread):
    (number,) = drafted(comment_draft("thread_01ARZ3NDEKTSV4RRFFQ69G5FAV"))
    assert "can't be published yet" in answer(cortex, "team", "drafts", "show", number)["next_step"]
    error = refusal(cortex, "team", "drafts", "approve", number)
    assert error["code"] == "TARGET_NOT_FOUND"
    (advice,) = error["suggestions"]  # and none that is for agents
    assert f"cortex team drafts approve {number} --target" in advice
    (done,) = answer(cortex, "team", "drafts", "approve", number, "--to", thread)["drafts"]
    assert done["record"]["kind"] == "comment"


def test_publishable_drafts_of_several_are_published(cortex, thread):
    good, bad, other = drafted(
        comment_draft(thread), comment_draft(), comment_draft(thread, "Something else.")
    )
    code, out, _ = cortex("team", "drafts", "approve", good, bad, "--json")
    body = json.loads(out)
    assert (code, [draft["id"] for draft in body["drafts"]]) == (2, [good])
    assert [(failure["id"], failure["code"]) for failure in body["failed"]] == [
        (bad, "TARGET_NOT_FOUND")
    ]
    advice = cortex("team", "drafts", "approve", good, bad)[2]
    assert (
        f"cortex team drafts approve {bad} --target" in advice
        and "cortex_create_draft" not in advice
    )
    code, out, err = cortex("team", "drafts", "reject", bad, other, "--notes", "Not now.")
    assert (code, out.count("✓ Rejected"), err) == (0, 2, "")
    assert answer(cortex, "team", "drafts", "show", bad)["review_notes"] == "Not now."
    code, out, err = cortex("team", "drafts", "reject", bad, other)
    assert (code, out, err.count("[RECORD_CHANGED]")) == (1, "", 2)
    (new,) = drafted(comment_draft(thread))
    assert (
        refusal(cortex, "team", "drafts", "approve", new, "draft_01ARZ3NDEKTSV4RRFFQ69G5FAV")[
            "code"
        ]
        == "RECORD_UNKNOWN"
    )
    assert answer(cortex, "team", "drafts", "show", new)["state"] == "pending_review"


def test_every_kind_of_draft_becomes_its_record(cortex):
    answer(cortex, "team", "subcortex", "create", "auth", "--name", "Who comes in")
    task = answer(cortex, "team", "task", "create", "Renew keys")["id"]
    ids = drafted(
        Draft("thread", "Logouts", "On Mondays.", target="auth", thread_type="incident"),
        Draft(
            "artifact", "Lives of tokens", "See https://example.org/x for it.", artifact_type="adr"
        ),
        Draft("task_update", "", "", target=task, patch=(("status", "in_progress"),)),
    )
    flags = answer(cortex, "team", "drafts", "show", ids[1])["risk_flags"]
    assert set(flags) >= {"external_link", "missing_evidence"}
    assert "Look at:    " in cortex("team", "drafts", "show", ids[1])[1]
    assert "status: in_progress" in cortex("team", "drafts", "show", ids[2])[1]
    assert "3" not in cortex("team", "drafts", "list", "--limit", "3")[2]
    assert "--limit" in cortex("team", "drafts", "list", "--limit", "2")[2]
    done = answer(cortex, "team", "drafts", "approve", *ids)
    assert [draft["record"]["kind"] for draft in done["drafts"]] == ["thread", "artifact", "task"]
    assert answer(cortex, "team", "task", "show", task)["state"] == "in_progress"
    assert (
        answer(cortex, "team", "thread", "list", "--subcortex", "auth")["threads"][0]["type"]
        == "incident"
    )


def test_key_decides_about_one_draft_once(cortex, thread):
    first, second = drafted(comment_draft(thread), comment_draft(thread, "Again."))
    approve = ("team", "drafts", "approve", first, "--key", "job-7")
    assert (
        answer(cortex, *approve)["drafts"][0]["published"]
        == answer(cortex, *approve)["drafts"][0]["published"]
    )
    assert (
        refusal(cortex, "team", "drafts", "approve", first, second, "--key", "job-8")["code"]
        == "ARGUMENT_INVALID"
    )


def test_drafts_wait_only_for_people_who_may_decide(cortex, core, joined, monkeypatch):
    joined(tier=1)
    with opened() as library:
        for place in range(3):
            draft = Draft("thread", f"Draft {place}", "text")
            number = create_draft(library, draft, actor=agent(library.settings))[0].id
    assert answer(cortex, "inbox")["entries"] == []
    assert "to decide" not in cortex("status")[1]
    error = refusal(cortex, "team", "drafts", "approve", number)
    assert error["code"] == "RIGHTS_MISSING" and "may not approve draft" in error["message"]
    core.ledger.principals.change(core.ledger.principals.named("ada").id, tier=3)
    answer(cortex, "sync")
    assert len(answer(cortex, "inbox")["entries"]) == 3
    assert "3 drafts for you to decide about" in cortex("status")[1]
