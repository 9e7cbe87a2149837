"""What agents wrote and a person decides about, at the terminal: drafts, the inbox, and where a
project's contributions belong.
"""

import json

import pytest

from cortex.base.actors import AGENT, agent
from cortex.base.record_model import Comment, Draft, RecordFilter
from cortex.base.settings import environment, load
from cortex.families.team.writes.create import create
from cortex.families.team.writes.placement import route
from interfaces.cli.team_answers import answer, comment_draft, drafted, opened, refusal

pytestmark = pytest.mark.usefixtures("shop", "at_terminal")


@pytest.fixture
def thread(cortex):
    return answer(cortex, "team", "thread", "create", "Why do people get logged out?")["id"]


# -- from draft to notification
# ----------------------------------------------------------------------------------------


def test_a_draft_is_looked_at_approved_published_and_told(cortex, thread):
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
    assert [one["id"] for one in answer(cortex, "team", "drafts", "list", "--all")["drafts"]] == [
        number
    ]

    # The person knows what they approved themselves
    assert answer(cortex, "inbox")["entries"] == []
    (told,) = answer(cortex, "inbox", "--all")["entries"]
    assert (told["type"], told["about"], "Thank you." in told["why"]) == (
        "draft_approved",
        number,
        True,
    )
    found = answer(cortex, "search", "Monday", "--in", "team")["results"]
    assert (found[0]["id"], found[0]["family"]) == (comment["id"], "team")
    assert cortex("inbox", "done", told["id"][:20])[1] == "✓ Done with 1 notification\n"
    assert answer(cortex, "inbox", "--all")["entries"] == []
    with opened() as library:
        deeds = library.store.records.deeds(comment["id"])
        assert [(deed.actor, deed.action) for deed in deeds] == [("person", "approve_draft")]


def test_a_draft_is_decided_once(cortex, thread):
    (number,) = drafted(comment_draft(thread))
    answer(cortex, "team", "drafts", "approve", number)
    error = refusal(cortex, "team", "drafts", "approve", number)
    assert error["code"] == "RECORD_CHANGED"
    assert refusal(cortex, "team", "drafts", "reject", number)["code"] == "RECORD_CHANGED"
    assert len(answer(cortex, "team", "thread", "show", thread)["comments"]) == 1


def test_a_draft_that_belongs_nowhere_is_kept_and_posted_where_the_person_says(cortex, thread):
    (number,) = drafted(comment_draft("thread_01ARZ3NDEKTSV4RRFFQ69G5FAV"))
    assert "can't be published yet" in answer(cortex, "team", "drafts", "show", number)["next_step"]
    error = refusal(cortex, "team", "drafts", "approve", number)
    assert error["code"] == "TARGET_NOT_FOUND"
    (advice,) = error["suggestions"]  # and none that is for agents
    assert f"cortex team drafts approve {number} --target" in advice
    (done,) = answer(cortex, "team", "drafts", "approve", number, "--to", thread)["drafts"]
    assert done["record"]["kind"] == "comment"


def test_of_several_drafts_those_that_can_be_are_published(cortex, thread):
    good, bad, other = drafted(
        comment_draft(thread), comment_draft(), comment_draft(thread, "Something else.")
    )
    code, out, _ = cortex("team", "drafts", "approve", good, bad, "--json")
    body = json.loads(out)
    assert (code, [one["id"] for one in body["drafts"]]) == (2, [good])
    assert [(one["id"], one["code"]) for one in body["failed"]] == [(bad, "TARGET_NOT_FOUND")]
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


def test_every_kind_of_draft_becomes_what_it_is_for(cortex):
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
    assert [one["record"]["kind"] for one in done["drafts"]] == ["thread", "artifact", "task"]
    assert answer(cortex, "team", "task", "show", task)["state"] == "in_progress"
    assert (
        answer(cortex, "team", "thread", "list", "--subcortex", "auth")["threads"][0]["type"]
        == "incident"
    )


def test_a_key_decides_once_and_is_for_one_draft(cortex, thread):
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


def test_nothing_waits(cortex):
    assert cortex("team", "drafts", "list") == (0, "", "No draft waits for you.\n")
    assert cortex("inbox") == (0, "", "Nothing waits for you.\n")
    assert answer(cortex, "inbox") == {"entries": [], "more": False}
    assert cortex("inbox", "done", "--all")[1] == "✓ Done with 0 notifications\n"


# -- the inbox
# ---------------------------------------------------------------------------------------------------------


def test_the_inbox_has_what_happened_what_to_do_and_what_to_judge(cortex, thread):
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
    entries = {one["type"]: one for one in answer(cortex, "inbox")["entries"]}
    assert set(entries) == {"task", "review_overdue", "mention"}
    assert entries["task"]["next"] == f"cortex team task show {task}"
    assert entries["mention"]["next"] == f"cortex team thread show {thread}"
    code, out, err = cortex("inbox", "--limit", "1")
    assert (code, "--limit" in err) == (0, True)
    assert "agent mentioned you in a comment" in out
    assert [one["type"] for one in answer(cortex, "inbox", "--include", "tasks")["entries"]] == [
        "task"
    ]
    error = refusal(cortex, "inbox", "done", task)
    assert (error["code"], "cortex team task update" in error["message"]) == (
        "ARGUMENT_INVALID",
        True,
    )
    assert answer(cortex, "inbox", "done", "--all")["done"] == [entries["mention"]["id"]]
    assert {one["type"] for one in answer(cortex, "inbox")["entries"]} == {"task", "review_overdue"}


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("inbox", "done"), "ARGUMENT_INVALID"),
        (("inbox", "done", "notif_01ARZ3NDEKTSV4RRFFQ69G5FAV", "--all"), "ARGUMENT_INVALID"),
        (("inbox", "done", "notif_01ARZ3NDEKTSV4RRFFQ69G5FAV"), "RECORD_UNKNOWN"),
        (("inbox", "--include", "songs"), "ARGUMENT_INVALID"),
        (("team", "drafts", "list", "--state", "lost"), "ARGUMENT_INVALID"),
        (("team", "drafts", "show", "draft_01ARZ3NDEK"), "RECORD_UNKNOWN"),
        (("team", "context", "set"), "ARGUMENT_INVALID"),
        (("team", "context", "set", "--subcortex", "nowhere"), "RECORD_UNKNOWN"),
        (("team", "context", "show", "--path", "nowhere"), "WORKSPACE_UNKNOWN"),
    ],
)
def test_what_can_not_be_is_refused(cortex, arguments, code):
    assert refusal(cortex, *arguments)["code"] == code
    with opened() as library:
        assert library.store.records.count(RecordFilter()) == 0


# -- where a project's contributions belong
# ----------------------------------------------------------------------------


def test_a_project_says_where_its_contributions_belong(cortex, shop, thread):
    assert cortex("team", "context", "show")[2].startswith("This project says nothing")
    answer(cortex, "team", "subcortex", "create", "auth", "--name", "Who comes in")
    file = shop / ".cortex" / "config.json"
    file.parent.mkdir()
    file.write_text('{"auto_observations": true}\n', encoding="utf-8")
    said = answer(cortex, "team", "context", "set", "--subcortex", "auth", "--thread", thread[:20])
    assert said["context"] == {"subcortex": "auth", "thread": thread, "task": ""}
    assert said["route"]["thread"] == thread
    assert json.loads(file.read_text(encoding="utf-8")) == {
        "auto_observations": True,
        "default_subcortex_slug": "auth",
        "default_thread_id": thread,
    }
    with opened() as library:
        where = route(library.store.records, load(shop, environment=environment()).families)
    assert where.thread == thread
    _, out, _ = cortex("team", "context", "show")
    assert f"Thread:     {thread}: Why do people get logged out?" in out
    assert "default_thread_id" in out
    cleared = answer(cortex, "team", "context", "clear", "--thread")
    assert cleared["context"] == {"subcortex": "auth", "thread": "", "task": ""}
    answer(cortex, "team", "context", "clear")
    assert json.loads(file.read_text(encoding="utf-8")) == {"auto_observations": True}


def test_what_a_project_names_and_is_closed_now_does_not_count_and_is_told(cortex, shop):
    task = answer(cortex, "team", "task", "create", "Renew keys")["id"]
    answer(cortex, "team", "context", "set", "--task", task)
    answer(cortex, "team", "task", "update", task, "--state", "done")
    assert answer(cortex, "team", "context", "show")["route"]["task"] == ""
    assert "is done" in cortex("team", "context", "show")[2]
    assert refusal(cortex, "team", "context", "set", "--task", task)["code"] == "TARGET_NOT_FOUND"


def test_a_file_that_is_no_json_is_left_alone(cortex, shop, thread):
    file = shop / ".cortex" / "config.json"
    file.parent.mkdir()
    file.write_text("{broken", encoding="utf-8")
    assert refusal(cortex, "team", "context", "set", "--thread", thread)["code"] == "CONFIG_INVALID"
    assert file.read_text(encoding="utf-8") == "{broken"


# -- beside the rest
# ---------------------------------------------------------------------------------------------------


def test_records_are_searched_beside_code_and_memories_and_open_by_their_ids(cortex, thread):
    answer(cortex, "team", "thread", "comment", thread, "Login checks the user twice on Mondays.")
    answer(cortex, "memory", "add", "Login needs a user")
    results = answer(cortex, "search", "login check user", "--in", "code,memory,team")["results"]
    assert {result["family"] for result in results} == {"code", "memory", "team"}
    comment = next(one for one in results if one["family"] == "team")
    assert (comment["type"], comment["state"], comment["thread"]) == (
        "comment",
        "published",
        thread,
    )
    assert f"records/{thread}:1" in cortex("search", "why logged out", "--in", "team")[1]
    assert answer(cortex, "search", "zebra", "--in", "team")["results"] == []
    assert (
        refusal(cortex, "search", "login", "--in", "team", "--mode", "exact")["code"]
        == "ARGUMENT_INVALID"
    )


def test_the_status_says_what_there_is_and_which_drafts_wait(cortex):
    assert (
        "team         nothing yet; begin with `cortex team subcortex create SLUG --name NAME`"
        in cortex("status")[1]
    )
    answer(cortex, "team", "subcortex", "create", "auth", "--name", "Who comes in")
    answer(cortex, "team", "subcortex", "create", "ports", "--name", "What goes out")
    drafted(comment_draft())
    body = answer(cortex, "status")["team"]
    assert (body["records"]["subcortex"], body["records"]["thread"], body["drafts"]) == (2, 0, 1)
    assert (
        "team         2 subcortexes; 1 draft for you to decide about: `cortex team drafts list`"
        in cortex("mcp", "status")[1]
    )
    assert answer(cortex, "mcp", "status")["team"] == body


def test_who_removes_everything_hears_that_records_go_with_it(cortex, thread):
    code, _, err = cortex("uninstall", "--all", "--dry-run")
    assert (code, "What your team keeps" in err) == (0, True)
    assert answer(cortex, "team", "thread", "show", thread)["id"] == thread


def test_each_warning_about_settings_is_said_once_and_the_slug_is_shown(cortex, shop, isolated):
    auth = answer(cortex, "team", "subcortex", "create", "auth", "--name", "Who comes in")["id"]
    for place in (isolated.cortex, shop / ".cortex"):
        place.mkdir(parents=True, exist_ok=True)
        (place / "config.yml").write_text(f"unheard_of_{len(str(place))}: 1\n", encoding="utf-8")
    for command in (("set", "--subcortex", "auth"), ("show",), ("clear",)):
        lines = cortex("team", "context", *command)[2].splitlines()
        assert (
            sum("unheard_of" in line for line in lines)
            == len({one for one in lines if "unheard_of" in one})
            == 2
        )
    cortex("team", "context", "set", "--subcortex", "auth")
    assert f"auth ({auth}: " in cortex("team", "context", "show")[1]
