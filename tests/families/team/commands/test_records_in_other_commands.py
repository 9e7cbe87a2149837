"""Records in commands that are about more than records: search, status, uninstall."""

import pytest

from families.team.commands.command_answers import answer, comment_draft, drafted, refusal

pytestmark = pytest.mark.usefixtures("shop", "at_terminal")


@pytest.fixture
def thread(cortex):
    return answer(cortex, "team", "thread", "create", "Why do people get logged out?")["id"]


def test_search_finds_records_beside_code_and_memories(cortex, thread):
    answer(cortex, "team", "thread", "comment", thread, "Login checks the user twice on Mondays.")
    answer(cortex, "memory", "add", "Login needs a user")
    results = answer(cortex, "search", "login check user", "--in", "code,memory,team")["results"]
    assert {result["family"] for result in results} == {"code", "memory", "team"}
    comment = next(result for result in results if result["family"] == "team")
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


def test_search_marks_superseded_records(cortex, thread):
    said = ("--state", "accepted", "--evidence", thread)
    old, new = (
        answer(cortex, "team", "artifact", "create", f"Tokens live {n} minutes", *said)["id"]
        for n in (15, 60)
    )
    answer(cortex, "team", "artifact", "supersede", old, new)
    _, out, _ = cortex("search", "tokens live minutes", "--in", "team")
    lines = {line.split(":")[0]: line for line in out.splitlines() if line.startswith("records/")}
    assert lines[f"records/{old}"].endswith("(superseded)") and "(" not in lines[f"records/{new}"]


def test_status_counts_records_and_waiting_drafts(cortex):
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


def test_uninstall_of_everything_names_the_records(cortex, thread):
    code, _, err = cortex("uninstall", "--all", "--dry-run")
    assert (code, "What your team keeps" in err) == (0, True)
    assert answer(cortex, "team", "thread", "show", thread)["id"] == thread
