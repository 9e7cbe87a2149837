"""What a team keeps, as a person or a script writes it: subcortexes, threads, tasks, artifacts,
links.
"""

import io
import json
import os
import re
import sys

import pytest

from cortex.base.actors import agent
from cortex.base.record_model import Observation, RecordFilter
from cortex.families.team.commands.render import say_rows, wrapped
from cortex.families.team.writes.create import create_observations
from interfaces.cli.team_answers import answer, opened, refusal

pytestmark = pytest.mark.usefixtures("shop", "at_terminal")

HEADER = {
    "id",
    "kind",
    "version",
    "author",
    "created_at",
    "updated_at",
    "title",
    "state",
    "sensitivity",
}
SECRET = "ghp_" + "aZ3dE5fG7hJ9kL1mN2pQ4rS6tU8vW0xY1zB3"


@pytest.fixture
def auth(cortex):
    """A subcortex."""
    return answer(cortex, "team", "subcortex", "create", "auth", "--name", "Who comes in")["id"]


@pytest.fixture
def thread(cortex):
    return answer(
        cortex, "team", "thread", "create", "How long do tokens live?", "--type", "question"
    )["id"]


@pytest.fixture
def terminal(monkeypatch, tmp_path):
    """`terminal(code)`: stdin is a terminal, and the editor runs that Python on the text."""

    class Terminal(io.StringIO):
        def isatty(self):
            return True

    def make(code):
        script = tmp_path / "my editor.py"
        script.write_text(
            f"import sys\npath = sys.argv[1]\ntext = open(path, encoding='utf-8').read()\n{code}\n"
            "open(path, 'w', encoding='utf-8').write(text)\n",
            encoding="utf-8",
        )
        monkeypatch.setattr("sys.stdin", Terminal())
        quote = '"' if sys.platform == "win32" else "'"
        monkeypatch.setenv("EDITOR", f"{quote}{sys.executable}{quote} -S {quote}{script}{quote}")
        monkeypatch.delenv("VISUAL", raising=False)

    return make


def stdin(monkeypatch, text):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode()), "utf-8"))


# -- nothing yet
# -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "start"),
    [
        ("subcortex", "cortex team subcortex create SLUG --name NAME"),
        ("thread", "cortex team thread create TITLE"),
        ("task", "cortex team task create TITLE"),
        ("artifact", "cortex team artifact create TITLE"),
        ("link", "cortex team link add FROM RELATION TO"),
    ],
)
def test_where_nothing_is_yet_a_list_says_how_to_start(cortex, command, start):
    code, out, err = cortex("team", command, "list")
    assert (code, out) == (0, "")
    assert start in err
    found = answer(cortex, "team", command, "list")
    assert list(found.values()) == [[], False]


# -- subcortex
# ---------------------------------------------------------------------------------------------------------


def test_a_subcortex_has_a_charter_words_and_rules_that_can_be_changed(cortex, tmp_path):
    file = tmp_path / "charter.md"
    file.write_bytes("\ufeff# Größe\r\n\r\nWho may come in.\r\n".encode())
    made = answer(
        cortex,
        *(
            "team",
            "subcortex",
            "create",
            "auth",
            "--name",
            "Who comes in",
            "--charter-file",
            file,
            "--steward",
            "me",
        ),
        *("--term", "Token: proves who you are", "--naming", "Tables are plural"),
    )
    assert (made["slug"], made["charter"], made["stewards"]) == (
        "auth",
        "# Größe\n\nWho may come in.",
        ["person"],
    )
    assert made["glossary"] == [{"term": "Token", "meaning": "proves who you are"}]
    changed = answer(
        cortex,
        *(
            "team",
            "subcortex",
            "edit",
            "auth",
            "--name",
            "Who may come in",
            "--term",
            "token: a ticket",
            "--naming",
            "No verbs",
        ),
        *("--remove-naming", "tables are plural", "--remove-steward", "me"),
    )
    assert (changed["name"], changed["naming"], changed["stewards"]) == (
        "Who may come in",
        ["No verbs"],
        [],
    )
    assert changed["glossary"] == [{"term": "token", "meaning": "a ticket"}]
    assert (changed["charter"], changed["version"]) == (made["charter"], 2)
    assert (
        cortex("team", "subcortex", "edit", "auth", "--name", "Who may come in")[1]
        == "Nothing was changed.\n"
    )
    _, out, _ = cortex("team", "subcortex", "show", "auth")
    assert "Charter:\n# Größe" in out
    assert "token: a ticket" in out


def test_what_is_pinned_is_shown_and_an_archived_subcortex_comes_back(cortex, auth, thread):
    assert answer(cortex, "team", "subcortex", "pin", "auth", thread[:20])["pinned_threads"] == [
        thread
    ]
    shown = answer(cortex, "team", "subcortex", "show", auth)
    assert [one["id"] for one in shown["pinned"]] == [thread]
    assert "1 pinned" in cortex("team", "subcortex", "list")[1]
    assert answer(cortex, "team", "subcortex", "unpin", "auth", thread)["pinned_threads"] == []
    assert answer(cortex, "team", "subcortex", "archive", "auth")["state"] == "archived"
    assert answer(cortex, "team", "subcortex", "list")["subcortexes"] == []
    assert cortex("team", "subcortex", "list")[2] == "nothing found\n"
    assert [
        one["slug"] for one in answer(cortex, "team", "subcortex", "list", "--all")["subcortexes"]
    ] == ["auth"]
    assert (
        answer(cortex, "team", "subcortex", "edit", "auth", "--state", "active")["state"]
        == "active"
    )


def test_a_charter_is_written_in_an_editor_and_never_lost(cortex, auth, terminal):
    terminal("text = 'Only who has a ticket.\\n'")
    assert (
        answer(cortex, "team", "subcortex", "edit", "auth")["charter"] == "Only who has a ticket."
    )
    terminal("pass")
    assert cortex("team", "subcortex", "edit", "auth")[1] == "Nothing was changed.\n"
    terminal(f"text = 'The key is {SECRET}'")
    error = refusal(cortex, "team", "subcortex", "edit", "auth")
    assert error["code"] == "SENSITIVE_BLOCKED"
    told = " ".join(error["suggestions"])
    found = re.search(
        r"What you wrote is in (\S+): `cortex team subcortex edit auth --charter-file \S+` takes it",
        told,
    )
    assert found
    assert SECRET not in told
    with open(found[1], encoding="utf-8") as kept:
        assert SECRET in kept.read()


# -- threads
# -----------------------------------------------------------------------------------------------------------


def test_a_thread_is_opened_commented_shown_and_resolved(cortex, auth, shop, monkeypatch):
    made = answer(
        cortex,
        *(
            "team",
            "thread",
            "create",
            "How long do tokens live?",
            "--body",
            "We saw logouts.",
            "--type",
            "question",
        ),
        *(
            "--subcortex",
            "auth",
            "--tag",
            "tokens",
            "--tag",
            "Tokens",
            "--code",
            "src/login.py#check",
        ),
    )
    assert set(made) >= HEADER
    assert (made["subcortex"], made["tags"], made["author"]) == (auth, ["Tokens"], "person")
    (link,) = made["code_links"]
    assert (link["path"], link["symbol"], link["repo"]) == ("src/login.py", "check", "shop")
    assert link["body_hash"]
    first = answer(
        cortex, "team", "thread", "comment", made["id"], "Tokens live 15 minutes. I measured it."
    )
    stdin(monkeypatch, "And refresh tokens a day.\n")
    second = answer(
        cortex, "team", "thread", "comment", made["id"][:22], "-", "--reply-to", first["id"]
    )
    assert (second["body"], second["parent"]) == ("And refresh tokens a day.", first["id"])
    (shop / "src" / "login.py").write_text("def check(user):\n    return 1\n", encoding="utf-8")
    shown = answer(cortex, "team", "thread", "show", made["id"])
    assert [one["id"] for one in shown["comments"]] == [first["id"], second["id"]]
    assert shown["summary"]
    assert any("maybe_stale" in one for one in shown["warnings"])
    assert (
        answer(cortex, "team", "thread", "show", made["id"], "--comments", "1")["comments"][0]["id"]
        == second["id"]
    )
    _, out, _ = cortex("team", "thread", "show", made["id"])
    assert "Subcortex:  auth" in out
    assert f"{second['id']}, person, " in out
    assert (
        answer(cortex, "team", "thread", "resolve", made["id"], "--resolution", "15 minutes")[
            "resolution"
        ]
        == "15 minutes"
    )
    assert answer(cortex, "team", "thread", "list")["threads"] == []
    assert (
        len(
            answer(cortex, "team", "thread", "list", "--state", "resolved", "--type", "question")[
                "threads"
            ]
        )
        == 1
    )


def test_a_thread_is_changed_archived_and_opened_again_and_its_comments_go_with_it(
    cortex, auth, thread
):
    said = answer(cortex, "team", "thread", "comment", thread, "Fifteen minutes.")["id"]
    change = (
        "--title",
        "Lifetimes",
        "--type",
        "Decision",
        "--tag",
        "a",
        "--tag",
        "b",
        "--subcortex",
        "auth",
    )
    after = answer(cortex, "team", "thread", "edit", thread[:20], *change, "--body", "Decided.")
    assert (after["title"], after["type"], after["tags"], after["body"]) == (
        "Lifetimes",
        "decision",
        ["a", "b"],
        "Decided.",
    )
    assert answer(cortex, "team", "thread", "edit", thread, "--untag", "A")["tags"] == ["b"]
    with opened() as library:
        assert library.store.records.one(said).body.subcortex == auth
    assert (
        cortex("team", "thread", "edit", thread, "--title", "Lifetimes")[1]
        == "Nothing was changed.\n"
    )
    assert answer(cortex, "team", "thread", "archive", thread)["state"] == "archived"
    assert refusal(cortex, "team", "thread", "comment", thread, "Late.")["code"] == "RECORD_INVALID"
    assert answer(cortex, "team", "thread", "reopen", thread)["state"] == "open"
    assert answer(cortex, "team", "thread", "edit", thread, "--subcortex", "")["subcortex"] == ""


def test_a_supplied_summary_takes_the_place_of_the_made_one(cortex, thread):
    cortex(
        "team",
        "thread",
        "comment",
        thread,
        "Some say a day, some an hour.",
        "--summary",
        "Nobody knows yet.",
    )
    shown = answer(cortex, "team", "thread", "show", thread)
    assert (shown["summary"], shown["summary_by"]) == ("Nobody knows yet.", "person")
    assert "Summary, by person:\nNobody knows yet." in cortex("team", "thread", "show", thread)[1]


def test_a_comment_without_text_comes_from_the_editor(cortex, thread, terminal):
    terminal("text = 'From the editor.\\n\\nReally.\\n'")
    assert (
        answer(cortex, "team", "thread", "comment", thread)["body"] == "From the editor.\n\nReally."
    )
    terminal("pass")
    assert refusal(cortex, "team", "thread", "comment", thread)["code"] == "ARGUMENT_INVALID"


def test_an_editor_that_is_left_without_a_text_writes_nothing_and_leaves_no_file(
    cortex, terminal, tmp_path, monkeypatch
):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    for code in ("pass", "sys.exit(1)"):
        terminal(code)
        assert "What you wrote" not in str(
            refusal(cortex, "team", "thread", "create", "Never mind", "--edit")
        )
    assert answer(cortex, "team", "thread", "list")["threads"] == [] and not list(
        tmp_path.glob("cortex-thread-*")
    )


def test_who_comments_on_a_resolved_thread_hears_that_it_is(cortex, thread):
    assert cortex("team", "thread", "comment", thread, "Fifteen minutes.")[2] == ""
    answer(cortex, "team", "thread", "resolve", thread)
    code, _, err = cortex("team", "thread", "comment", thread, "Or sixteen.")
    assert (code, f"is resolved; `cortex team thread reopen {thread}`" in err) == (0, True)


@pytest.mark.parametrize("kind", ["thread", "artifact"])
def test_who_writes_a_title_a_second_time_hears_of_the_first(cortex, auth, kind):
    first = answer(cortex, "team", kind, "create", "Größe of tokens?")["id"]
    assert cortex("team", kind, "create", "grösse of TOKENS?", "--subcortex", "auth")[2] == ""
    code, out, err = cortex("team", kind, "create", "grösse of TOKENS?", "--key", "twice")
    assert (code, "✓" in out, f"note: {first} has the same title" in err) == (0, True, True)
    assert (
        f"note: {first} has the same title"
        in cortex("team", kind, "create", "grösse of TOKENS?", "--key", "twice")[2]
    )
    assert "same title" not in cortex("team", kind, "create", "?!")[2]


def test_code_that_is_not_there_is_kept_and_said(cortex):
    code, _, err = cortex("team", "thread", "create", "A typo", "--code", "src/nope.py#f")
    assert code == 0 and "there is no file src/nope.py here" in err


def test_who_writes_what_may_contradict_something_hears_of_it(cortex, thread):
    said = (
        "--body",
        "The timeout is 30 seconds.",
        "--state",
        "accepted",
        "--evidence",
        f"{thread}=we talked",
    )
    first = answer(cortex, "team", "artifact", "create", "Timeout of the gateway", *said)
    assert first["evidence"] == [{"kind": "thread", "ref": thread, "note": "we talked"}]
    code, _, err = cortex(
        "team",
        "artifact",
        "create",
        "Timeout of the gateway",
        "--body",
        "The timeout is 10 seconds.",
    )
    assert code == 0 and f"note: maybe contradicted by {first['id']}" in err


def test_a_search_says_which_records_no_longer_count(cortex, thread):
    said = ("--state", "accepted", "--evidence", thread)
    old, new = (
        answer(cortex, "team", "artifact", "create", f"Tokens live {n} minutes", *said)["id"]
        for n in (15, 60)
    )
    answer(cortex, "team", "artifact", "supersede", old, new)
    _, out, _ = cortex("search", "tokens live minutes", "--in", "team")
    told = {line.split(":")[0]: line for line in out.splitlines() if line.startswith("records/")}
    assert told[f"records/{old}"].endswith("(superseded)") and "(" not in told[f"records/{new}"]


def test_a_list_has_complete_ids_the_last_changed_first_and_can_be_narrowed(cortex, auth):
    ids = [
        answer(cortex, "team", "thread", "create", f"Thread {number}", "--tag", f"t{number}")["id"]
        for number in range(3)
    ]
    answer(
        cortex,
        "team",
        "thread",
        "create",
        "An incident",
        "--type",
        "incident",
        "--subcortex",
        "auth",
    )
    answer(cortex, "team", "thread", "comment", ids[0], "Something was said here.")
    code, out, err = cortex("team", "thread", "list", "--limit", "2")
    assert code == 0
    assert out.split()[0] == ids[0]
    assert "--limit" in err
    assert [
        one["title"] for one in answer(cortex, "team", "thread", "list", "--tag", "T1")["threads"]
    ] == ["Thread 1"]
    assert [
        one["type"]
        for one in answer(cortex, "team", "thread", "list", "--subcortex", "auth")["threads"]
    ] == ["incident"]
    assert [
        one["title"]
        for one in answer(cortex, "team", "thread", "list", "--type", "incident")["threads"]
    ] == ["An incident"]


def test_what_is_shown_can_not_command_a_terminal(cortex):
    made = answer(cortex, "team", "thread", "create", "A title", "--body", "left \u2066right\u2069")
    _, out, _ = cortex("team", "thread", "show", made["id"])
    assert "\u2066" not in out
    assert "\\u2066" in out


# -- the same write again
# ----------------------------------------------------------------------------------------------


def test_the_same_key_writes_once_and_another_write_under_it_is_refused(cortex, shop):
    create = ("team", "thread", "create", "Once", "--code", "src/login.py", "--key", "job-1")
    first = answer(cortex, *create)
    (shop / "src" / "login.py").write_text("changed = True\n", encoding="utf-8")
    assert answer(cortex, *create)["id"] == first["id"]
    assert (
        refusal(cortex, "team", "thread", "create", "Twice", "--key", "job-1")["code"]
        == "IDEMPOTENCY_REPLAY"
    )
    say = ("team", "thread", "comment", first["id"], "Said once.", "--key", "job-2")
    assert answer(cortex, *say)["id"] == answer(cortex, *say)["id"]
    task = answer(cortex, "team", "task", "create", "Renew keys")["id"]
    update = ("team", "task", "update", task, "--note", "Half of them.", "--key", "job-3")
    assert answer(cortex, *update)["notes"] == answer(cortex, *update)["notes"] == "Half of them."
    assert (
        refusal(cortex, *update[:-3], "All of them.", "--key", "job-3")["code"]
        == "IDEMPOTENCY_REPLAY"
    )
    answer(cortex, "team", "task", "update", task, "--assign", "Lena")
    leave = ("team", "task", "update", task, "--unassign", "Lena", "--key", "job-4")
    assert answer(cortex, *leave)["version"] == answer(cortex, *leave)["version"]


# -- tasks
# -------------------------------------------------------------------------------------------------------------


def test_a_task_is_assigned_blocked_moved_on_and_done(cortex, thread):
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
        one["id"]
        for one in answer(cortex, "team", "task", "list", "--mine", "--priority", "high")["tasks"]
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


# -- artifacts
# ---------------------------------------------------------------------------------------------------------


def test_a_task_is_not_blocked_without_a_reason(cortex):
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


def test_an_artifact_is_accepted_only_with_evidence_and_has_all_its_versions(
    cortex, thread, tmp_path
):
    file = tmp_path / "adr.md"
    file.write_text("Tokens live 15 minutes.\n", encoding="utf-8")
    made = answer(
        cortex,
        "team",
        "artifact",
        "create",
        "Lives of tokens",
        "--body-file",
        file,
        "--type",
        "adr",
        "--owner",
        "me",
    )
    number = made["id"]
    assert (made["state"], made["body"], made["owner"]) == (
        "draft",
        "Tokens live 15 minutes.",
        "person",
    )
    error = refusal(cortex, "team", "artifact", "accept", number)
    assert (
        error["code"],
        f"cortex team artifact accept {number} --evidence" in str(error["suggestions"]),
    ) == ("RECORD_INVALID", True)
    answer(
        cortex,
        "team",
        "artifact",
        "edit",
        number,
        "--body",
        "Tokens live an hour.",
        "--tag",
        "tokens",
        "--review-by",
        "2020-01-31",
    )
    accepted = answer(
        cortex, "team", "artifact", "accept", number[:18], "--evidence", f"thread:{thread}=the talk"
    )
    assert accepted["state"] == "accepted"
    assert accepted["evidence"] == [{"kind": "thread", "ref": thread, "note": "the talk"}]
    assert accepted["last_reviewed"]
    shown = answer(cortex, "team", "artifact", "show", number)
    assert "review overdue since 2020-01-31" in shown["warnings"]
    assert [one["action"] for one in shown["history"]][-2:] == ["edit", "create_artifact"]
    assert (
        answer(cortex, "team", "artifact", "show", number, "--version", "1")["body"]
        == "Tokens live 15 minutes."
    )
    _, out, _ = cortex("team", "artifact", "show", number)
    assert "warning: review overdue since 2020-01-31" in out
    assert f"{thread}: How long do tokens live? (the talk)" in out
    assert "create artifact" in cortex("team", "artifact", "show", number, "--history")[1]
    assert [
        one["id"] for one in answer(cortex, "team", "artifact", "list", "--overdue")["artifacts"]
    ] == [number]
    done = answer(
        cortex,
        "team",
        "artifact",
        "edit",
        number,
        "--reviewed",
        "--review-by",
        "2999-01-31",
        "--untag",
        "TOKENS",
    )
    assert (done["tags"], done["review_by"]) == ([], "2999-01-31")
    assert answer(cortex, "team", "artifact", "list", "--overdue")["artifacts"] == []


def test_one_artifact_takes_the_place_of_another_and_both_say_so(cortex):
    page = "https://example.org/a?b=c"
    make = (
        "team",
        "artifact",
        "create",
        "--state",
        "accepted",
        "--evidence",
        f"url:{page} =a page",
    )
    old, new = (answer(cortex, *make, title)["id"] for title in ("Ports", "Ports again"))
    assert answer(cortex, "team", "artifact", "show", old)["evidence"] == [
        {"kind": "url", "ref": page, "note": "a page"}
    ]
    assert answer(cortex, "team", "artifact", "supersede", old, new)["superseded_by"] == new
    shown = answer(cortex, "team", "artifact", "show", new)
    assert shown["supersedes"] == old
    assert [one["relation"] for one in shown["links"]] == ["supersedes"]
    assert [one["id"] for one in answer(cortex, "team", "artifact", "list")["artifacts"]] == [new]
    assert f"Replaced by: {new}" in cortex("team", "artifact", "show", old)[1].replace(
        "Replaced by:", "Replaced by: "
    ).replace("  ", " ")


def test_an_artifact_that_holds_no_more_is_deprecated_with_why(cortex):
    number = answer(cortex, "team", "artifact", "create", "Ports", "--body", "Port 80.")["id"]
    assert (
        cortex("team", "artifact", "deprecate", number, "--note", "We have no ports.")[1]
        == f"✓ Deprecated {number}: Ports\n"
    )
    assert (
        "**Deprecated:** We have no ports.\n\nPort 80."
        in cortex("team", "artifact", "show", number)[1]
    )


def test_evidence_that_is_left_out_is_named_by_its_id_or_address(cortex, thread):
    number = answer(
        cortex,
        *(
            "team",
            "artifact",
            "create",
            "Ports",
            "--evidence",
            f"thread:{thread}",
            "--evidence",
            "https://example.org/x",
        ),
    )["id"]
    left = answer(cortex, "team", "artifact", "edit", number, "--remove-evidence", thread[:20])[
        "evidence"
    ]
    assert [one["ref"] for one in left] == ["https://example.org/x"]
    assert (
        answer(
            cortex, "team", "artifact", "edit", number, "--remove-evidence", "https://example.org/x"
        )["evidence"]
        == []
    )
    assert (
        refusal(cortex, "team", "artifact", "edit", number, "--remove-evidence", thread)["code"]
        == "ARGUMENT_INVALID"
    )


def test_an_edit_in_an_editor_that_somebody_was_faster_than_overwrites_nothing(
    cortex, terminal, monkeypatch
):
    number = answer(cortex, "team", "artifact", "create", "Ports", "--body", "8080")["id"]
    terminal("text = '9090\\n'")
    assert answer(cortex, "team", "artifact", "edit", number)["body"] == "9090"
    run = "import subprocess\nsubprocess.run([sys.executable, '-m', 'cortex', 'team', 'artifact', 'edit', '%s', '--body', '7070'])"
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    terminal(f"{run % number}\ntext = '6060'")
    monkeypatch.setenv("EDITOR", os.environ["EDITOR"].replace(" -S ", " "))
    code, out, _ = cortex("team", "artifact", "edit", number, "--json")
    error = json.loads(out)["error"] if code else None
    assert error is not None
    assert error["code"] == "RECORD_CHANGED"
    assert "--body-file" in str(error["suggestions"])
    assert answer(cortex, "team", "artifact", "show", number)["body"] == "7070"


# -- links
# -------------------------------------------------------------------------------------------------------------


def test_a_contradiction_is_a_candidate_that_a_person_judges(cortex, thread):
    first = answer(
        cortex, "team", "artifact", "create", "Token lifetime", "--body", "Tokens live 15 minutes."
    )["id"]
    second = answer(
        cortex, "team", "artifact", "create", "Token lifetime", "--body", "Tokens live 60 minutes."
    )["id"]
    (link,) = answer(cortex, "team", "link", "list", "--state", "candidate")["links"]
    assert {link["source"], link["target"]} == {first, second}
    assert any(
        "maybe contradicted by" in one
        for one in answer(cortex, "team", "artifact", "show", first)["warnings"]
    )
    assert "candidate" in cortex("team", "artifact", "show", second)[1]
    assert cortex("team", "link", "confirm", link["id"])[1].startswith(
        f"✓ Confirmed {link['id']}: "
    )
    assert any(
        one.startswith("contradicted by")
        for one in answer(cortex, "team", "artifact", "show", first)["warnings"]
    )
    assert answer(cortex, "team", "link", "dismiss", link["id"])["links"][0]["state"] == "dismissed"
    assert answer(cortex, "team", "artifact", "show", first)["warnings"] == []
    assert answer(cortex, "team", "link", "list", first)["links"] == []
    made = answer(cortex, "team", "link", "add", thread, "supports", second, "--note", "measured")
    assert (made["relation"], made["ends"]["target"]["title"]) == ("supports", "Token lifetime")
    assert "Links:\n  is supported by" in cortex("team", "artifact", "show", second)[1]
    assert [
        one["id"]
        for one in answer(cortex, "team", "link", "list", second, "--relation", "supports")["links"]
    ] == [made["id"]]


# -- what can't be
# -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("team", "thread", "create", " "), "RECORD_INVALID", "title"),
        (("team", "thread", "create", "x" * 301), "RECORD_INVALID", "300"),
        (("team", "thread", "create", "T", "--type", "chat"), "RECORD_INVALID", "incident"),
        (
            ("team", "thread", "create", "T", "--body", f"key {SECRET}"),
            "SENSITIVE_BLOCKED",
            "line 1",
        ),
        (("team", "thread", "create", "T", "--subcortex", "nowhere"), "SCOPE_NOT_FOUND", "nowhere"),
        (("team", "thread", "create", "T", "--code", "../out.py"), "RECORD_INVALID", "out.py"),
        (("team", "thread", "create", "T", "--code", "#check"), "ARGUMENT_INVALID", "PATH#SYMBOL"),
        (("team", "thread", "create", "T", "--key", "a b"), "RECORD_INVALID", "key"),
        (
            ("team", "thread", "create", "T", "--body", "x", "--body-file", "y"),
            "ARGUMENT_INVALID",
            "not both",
        ),
        (
            ("team", "thread", "create", "T", "--body-file", "nowhere.md"),
            "FILE_NOT_FOUND",
            "nowhere.md",
        ),
        (("team", "thread", "create", "T", "--edit"), "ARGUMENT_INVALID", "--body"),
        (
            ("team", "thread", "comment", "thread_01ARZ3NDEKTSV4RRFFQ69G5FAV", "hi"),
            "RECORD_UNKNOWN",
            "01ARZ3NDEK",
        ),
        (("team", "thread", "list", "--state", "closed"), "ARGUMENT_INVALID", "resolved"),
        (("team", "thread", "list", "--type", "chat"), "ARGUMENT_INVALID", "incident"),
        (("team", "thread", "list", "--subcortex", "nowhere"), "RECORD_UNKNOWN", "nowhere"),
        (("team", "thread", "show", "auth"), "RECORD_UNKNOWN", "thread"),
        (("team", "subcortex", "create", "No Slug", "--name", "N"), "RECORD_INVALID", "slug"),
        (("team", "subcortex", "create", "auth", "--name", "Again"), "RECORD_INVALID", "already"),
        (
            ("team", "subcortex", "create", "auth2", "--name", "N", "--term", "Token"),
            "ARGUMENT_INVALID",
            "WORD",
        ),
        (
            ("team", "subcortex", "edit", "auth", "--remove-term", "Token"),
            "ARGUMENT_INVALID",
            "Token",
        ),
        (("team", "subcortex", "edit", "auth"), "ARGUMENT_INVALID", "--charter"),
        (("team", "subcortex", "edit", "auth", "--state", "gone"), "RECORD_INVALID", "archived"),
        (("team", "subcortex", "pin", "auth", "auth"), "RECORD_INVALID", "pinned"),
        (
            ("team", "subcortex", "pin", "auth", "auth", "auth", "--key", "k"),
            "ARGUMENT_INVALID",
            "key",
        ),
        (("team", "task", "create", "T", "--priority", "huge"), "RECORD_INVALID", "urgent"),
        (
            ("team", "task", "update", "task_01ARZ3NDEKTSV4RRFFQ69G5FAV", "--state", "done"),
            "RECORD_UNKNOWN",
            "task",
        ),
        (("team", "artifact", "create", "T", "--state", "accepted"), "RECORD_INVALID", "evidence"),
        (
            ("team", "artifact", "create", "T", "--evidence", "song:x"),
            "ARGUMENT_INVALID",
            "thread:ID",
        ),
        (
            ("team", "artifact", "create", "T", "--review-by", "soon"),
            "RECORD_INVALID",
            "2027-01-31",
        ),
        (
            ("team", "artifact", "edit", "artifact_01ARZ3NDEK", "--state", "accepted"),
            "ARGUMENT_INVALID",
            "accept",
        ),
        (("team", "link", "add", "auth", "likes", "auth"), "ARGUMENT_INVALID", "supports"),
        (("team", "link", "add", "auth", "supports", "auth"), "RECORD_INVALID", "itself"),
        (("team", "link", "confirm", "link_01ARZ3NDEKTSV4RRFFQ69G5FAV"), "RECORD_UNKNOWN", "link"),
    ],
)
def test_what_can_not_be_is_refused_with_what_is_allowed_and_writes_nothing(
    cortex, auth, arguments, code, says
):
    error = refusal(cortex, *arguments)
    assert (error["code"], says in json.dumps(error)) == (code, True), error
    assert SECRET not in json.dumps(error)
    with opened() as library:
        assert [one.id for one in library.store.records.select(RecordFilter())] == [auth]


@pytest.mark.parametrize(
    ("arguments", "first"),
    [
        (
            ("team", "thread", "show", "thread_01ARZ3NDEKTSV4RRFFQ69G5FAV"),
            "cortex team thread list",
        ),
        (("team", "thread", "show", "task_01ARZ3NDEKTSV4RRFFQ69G5FAV"), "cortex team thread list"),
        (
            ("team", "task", "create", "T", "--thread", "thread_01ARZ3NDEKTSV4RRFFQ69G5FAV"),
            "cortex team thread list",
        ),
        (
            ("team", "link", "add", "artifact_01ARZ3NDEKTSV4RRFFQ69G5FAV", "supports", "x"),
            "cortex team artifact list",
        ),
        (("team", "audit", "nothing"), "cortex search"),
        (("team", "thread", "create", "T", "--subcortex", "nowhere"), "cortex team subcortex list"),
        (("team", "artifact", "create", "T", "--state", "accepted"), "--evidence"),
    ],
)
def test_what_is_not_there_is_told_with_the_command_that_lists_it(cortex, arguments, first):
    told = refusal(cortex, *arguments)["suggestions"]
    assert first in told[0]
    assert "cortex_" not in " ".join(told)


def test_who_supersedes_by_what_is_not_accepted_hears_how_to_accept_it(cortex):
    old, new = (
        answer(cortex, "team", "artifact", "create", title)["id"] for title in ("Old", "New")
    )
    for arguments in (
        ("team", "artifact", "supersede", old, new),
        ("team", "link", "add", new, "supersedes", old),
    ):
        error = refusal(cortex, *arguments)
        assert "accept it first" in error["message"]
        assert f"cortex team artifact accept {new} --evidence" in error["suggestions"][0]


def test_a_beginning_that_two_ids_have_is_no_id(cortex):
    ids = [
        answer(cortex, "team", "thread", "create", f"Thread {number}")["id"] for number in range(2)
    ]
    same = next(
        number for number, (left, right) in enumerate(zip(*ids, strict=True)) if left != right
    )
    error = refusal(cortex, "team", "thread", "show", ids[0][:same])
    assert error["code"] == "RECORD_UNKNOWN"
    assert all(id_ in error["message"] for id_ in ids)
    assert answer(cortex, "team", "thread", "show", ids[0][: same + 1])["id"] == ids[0]


def test_what_is_sensitive_is_marked(cortex):
    number = answer(cortex, "team", "thread", "create", "Salaries", "--sensitive")["id"]
    assert answer(cortex, "team", "thread", "show", number)["sensitivity"] == "sensitive"
    assert "warning: sensitive" in cortex("team", "thread", "show", number)[1]


# -- on a terminal
# -----------------------------------------------------------------------------------------------------


def test_long_lines_are_broken_between_words_but_not_those_of_code():
    text = "one two three four\n- five six seven\n```\nwide wide wide wide\n```\nshort"
    assert (
        wrapped(text, 10)
        == "one two\nthree four\n- five six\n  seven\n```\nwide wide wide wide\n```\nshort"
    )
    assert wrapped(text, 0) == text


def test_on_a_terminal_a_line_fits_its_width_and_its_id_is_whole(monkeypatch, capsys):
    monkeypatch.setattr("cortex.families.team.commands.render.columns", lambda: 80)
    number = "thread_01ARZ3NDEKTSV4RRFFQ69G5FAV"
    say_rows(
        [
            (number, "open", "a very long cell of a name", "Wörter " * 30),
            (number, "resolved", "x", "short"),
        ]
    )
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith(f"{number} open     a very long")
    assert (len(first) <= 80, first.endswith("…")) == (True, True)
    assert second == f"{number} resolved x              short"


# -- observations
# ------------------------------------------------------------------------------------------------------


def test_a_person_sees_what_agents_observed(cortex, auth, thread):
    with opened() as library:
        seen = [
            Observation(
                "Tokens live 60 minutes",
                "Measured twice.",
                "test_result",
                ("tokens",),
                auth,
                thread,
            ),
            Observation("The cache is cold after a restart"),
        ]
        done = create_observations(library, seen, actor=agent(library.settings), key="seen")
        first, second = (outcome.id for outcome in done.outcomes)
    listed = answer(cortex, "team", "observation", "list")
    assert [one["id"] for one in listed["observations"]] == [second, first]
    assert not listed["more"]
    for options in (
        ("--type", "test_result"),
        ("--thread", thread),
        ("--tag", "tokens"),
        ("--subcortex", "auth"),
    ):
        assert [
            one["id"]
            for one in answer(cortex, "team", "observation", "list", *options)["observations"]
        ] == [first]
    whole = answer(cortex, "team", "observation", "show", first)
    assert (whole["summary"], whole["author"]) == ("Measured twice.", "agent")
    text = cortex("team", "observation", "show", first)[1]
    assert "Measured twice." in text and "How long do tokens live?" in text and "auth" in text
    assert refusal(cortex, "team", "observation", "show", thread)["code"] == "RECORD_UNKNOWN"


def test_the_audit_log_says_who_did_what_when_and_under_which_key(cortex, thread):
    assert cortex("team", "audit", thread)[1].count("\n") == 1
    cortex("team", "thread", "comment", thread, "Fifteen minutes.", "--key", "my-key")
    cortex("team", "thread", "resolve", thread)
    log = answer(cortex, "team", "audit")["audit"]
    assert [one["action"] for one in log] == [
        "resolve_thread",
        "summarize",
        "create_comment",
        "create_thread",
    ]
    assert [(one["record"], one["version"]) for one in log if one["record"] == thread] == [
        (thread, 3),
        (thread, 2),
        (thread, 1),
    ]
    assert log[2]["key"] == "my-key"
    assert {(one["actor"], one["tier"], one["via"]) for one in log} == {("person", 4, "terminal")}
    some = answer(cortex, "team", "audit", thread[:20], "--limit", "2")
    assert ([one["version"] for one in some["audit"]], some["more"]) == ([3, 2], True)
    _, out, err = cortex("team", "audit", "-n", "1")
    assert (
        f"person (4) terminal resolve thread: {thread} version 3, key " in out,
        "--limit" in err,
    ) == (True, True)
    assert (
        refusal(cortex, "team", "audit", "thread_01ARZ3NDEKTSV4RRFFQ69G5FAV")["code"]
        == "RECORD_UNKNOWN"
    )


def test_an_audit_log_of_nothing_says_so(cortex):
    assert cortex("team", "audit") == (0, "", "Nothing was written yet.\n")
    assert answer(cortex, "team", "audit") == {"audit": [], "more": False}


def test_a_link_opens_the_record_that_it_names_whatever_its_kind(cortex, thread):
    comment = answer(cortex, "team", "thread", "comment", thread, "Fifteen minutes.")["id"]
    artifact = answer(cortex, "team", "artifact", "create", "Ports", "--body", "8080.")["id"]
    answer(cortex, "team", "subcortex", "create", "billing", "--name", "Billing")
    for kind, number in (("thread", thread), ("comment", comment), ("artifact", artifact)):
        assert answer(cortex, "show", f"cortex://{kind}/{number}")["id"] == number
        assert answer(cortex, "show", number[:20])["id"] == number
    assert answer(cortex, "show", "cortex://subcortex/billing")["slug"] == "billing"
    assert "Fifteen minutes." in cortex("show", f"cortex://comment/{comment}")[1]
    assert f"cortex://thread/{thread}" in cortex("show", comment)[1]
    assert answer(cortex, "team", "thread", "show", f"cortex://thread/{thread}")["id"] == thread
    assert (
        refusal(cortex, "show", "cortex://thread/thread_01ARZ3NDEKTSV4RRFFQ69G5FAV")["code"]
        == "RECORD_UNKNOWN"
    )
