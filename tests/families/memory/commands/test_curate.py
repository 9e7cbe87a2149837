"""`cortex memory approve|reject|promote|supersede|delete|undo|log` as a person types them."""

import json
import os
from contextlib import closing

import pytest

from cortex.engine.store import Store
from families.memory.adapters.claude_mem_databases import make_claude_mem
from families.memory.commands.memory_answers import answer, titles
from protocol.code_server import check_envelope

pytestmark = pytest.mark.usefixtures("shop", "at_terminal")

posix = pytest.mark.skipif(os.name == "nt", reason="there is no pty")
RAILWAY, SQLITE = "Railway env vars need a prefix", "SQLite over Postgres"


@pytest.fixture
def lamps(cortex, shop, tmp_path):
    """Thirty memories in staging, of the project `lamps`."""
    (tmp_path / "lamps").mkdir()
    for number in range(30):
        (tmp_path / "lamps" / f"{number}.md").write_text(
            f"# Lamp {number}\n\nIt burns {number} hours.\n", encoding="utf-8"
        )
    assert answer(cortex, "import", tmp_path / "lamps")["added"] == 30


# -- judging
# -----------------------------------------------------------------------------------------------------------


def test_memories_are_judged_by_their_ids_and_the_log_says_why(cortex, foreign):
    own = answer(cortex, "add", "Lamps burn", "--state", "staging")["id"]
    done = answer(cortex, "approve", own, "obs_1", "--reason", "seen myself")
    assert done == {
        "action": "approve",
        "chosen": 2,
        "changed": 2,
        "dry_run": False,
        "memories": [own, "obs_1"],
    }
    assert titles(cortex, "--state", "uncurated") == [SQLITE]
    shown = answer(cortex, "show", "obs_1")
    assert (shown["state"], shown["curated"], shown["reviewed_by"]) == ("approved", True, "person")
    assert [
        (decision["action"], decision["before"], decision["after"], decision["reason"])
        for decision in shown["history"]
    ] == [("approve", "", "approved", "seen myself")]
    code, out, _ = cortex("memory", "approve", own)
    assert (code, out) == (0, "1 memory had that state already\n")


def test_rejected_memory_opens_only_by_its_id(cortex, foreign):
    code, out, _ = cortex("memory", "reject", "obs_2")
    assert code == 0
    assert out == f"✓ Rejected obs_2: {SQLITE}\n"
    assert titles(cortex) == [RAILWAY]
    assert SQLITE not in [
        result["title"]
        for result in answer(cortex, "search", "sqlite postgres", "--status", "all")["results"]
    ]
    assert titles(cortex, "--state", "rejected") == [SQLITE]
    assert answer(cortex, "show", "obs_2")["state"] == "rejected"


def test_promoted_memory_is_found_in_every_project(cortex, foreign):
    assert answer(cortex, "search", "railway prefix", "--project", "shop")["results"] == []
    assert answer(cortex, "promote", "obs_1")["changed"] == 1
    assert [
        result["id"]
        for result in answer(cortex, "search", "railway prefix", "--project", "shop")["results"]
    ] == ["obs_1"]
    # It belongs to another project
    assert titles(cortex, "--project", "shop") == []


def test_filters_choose_uncurated_memories(cortex, foreign):
    answer(cortex, "add", "Lamps burn", "--project", "ack", "--state", "staging", "--tag", "light")
    kept = answer(cortex, "add", "Desks stand", "--project", "ack")["id"]
    seen = answer(cortex, "reject", "--all", "--project", "ack", "--dry-run")
    assert (seen["changed"], seen["dry_run"], kept in seen["memories"]) == (3, True, False)
    assert len(titles(cortex)) == 4
    assert answer(cortex, "reject", "--all", "--project", "ack", "--kind", "bugfix")[
        "memories"
    ] == ["obs_1"]
    assert (
        answer(cortex, "approve", "--all", "--matching", "LAMPS", "--tag", "light")["changed"] == 1
    )
    assert (
        answer(cortex, "promote", "--all", "--state", "approved", "--project", "ack")["changed"]
        == 3
    )
    assert titles(cortex, "--state", "promoted") == ["Desks stand", "Lamps burn", SQLITE]
    code, out, _ = cortex("memory", "approve", "--all", "--project", "nobody's")
    assert (code, out) == (0, "")


@pytest.mark.parametrize(
    "arguments",
    [
        ["approve"],
        ["approve", "--project", "ack"],
        ["delete"],
        ["reject", "obs_1", "--all"],
        ["reject", "obs_1", "--project", "ack"],
        ["delete", "obs_1", "--older-than", "1d"],
    ],
)
def test_unclear_choice_of_memories_is_refused(cortex, foreign, arguments):
    code, out, err = cortex("memory", *arguments)
    assert (code, out) == (2, "")
    assert "ARGUMENT_INVALID" in err
    assert titles(cortex) == [RAILWAY, SQLITE]


def test_an_unknown_id_among_others_changes_nothing(cortex, foreign):
    code, out, _ = cortex("memory", "reject", "obs_1", "obs_77", "--json")
    assert code == 1
    assert check_envelope(json.loads(out))["code"] == "MEMORY_UNKNOWN"
    assert titles(cortex) == [RAILWAY, SQLITE]


@pytest.mark.usefixtures("lamps")
def test_many_memories_are_judged_after_a_question_and_undone_in_one_step(cortex, at_terminal):
    at_terminal.answer = "n"
    code, out, err = cortex("memory", "approve", "--all")
    assert (code, out, err) == (1, "", "nothing was changed\n")
    assert at_terminal.questions[-1].endswith("… and 20 more\nApprove 30 memories? [y/N]:")
    assert answer(cortex, "list", "--state", "staging")["total"] == 30
    at_terminal.answer = "y"
    code, out, _ = cortex("memory", "approve", "--all")
    assert code == 0
    assert out.startswith("✓ Approved 30 memories:\n")
    assert out.endswith("… and 20 more\n")
    assert answer(cortex, "undo")["undone"] == 30
    assert answer(cortex, "list", "--state", "staging")["total"] == 30


# -- supersede
# ---------------------------------------------------------------------------------------------------------


def test_memory_supersedes_another_but_not_in_a_circle(cortex, foreign):
    new = answer(cortex, "add", "Railway needs nothing any more", "--state", "staging")["id"]
    assert answer(cortex, "supersede", "obs_1", "--by", new) == {"superseded": "obs_1", "by": new}
    assert titles(cortex, "--state", "approved") == ["Railway needs nothing any more", SQLITE]
    assert answer(cortex, "show", "obs_1")["superseded_by"] == new
    assert f"Replaced: by {new}" in cortex("memory", "show", "obs_1")[1]
    for old, by in ((new, "obs_1"), (new, new)):
        code, out, _ = cortex("memory", "supersede", old, "--by", by, "--json")
        assert (code, check_envelope(json.loads(out))["code"]) == (2, "ARGUMENT_INVALID")


# -- undo and log
# ------------------------------------------------------------------------------------------------------


def test_undo_asks_with_the_step_that_it_takes_back(cortex, foreign, at_terminal):
    cortex("memory", "reject", "obs_1")
    at_terminal.answer = "n"
    assert cortex("memory", "undo")[0] == 1
    assert (
        at_terminal.questions[-1]
        == f"obs_1: {RAILWAY}\nTake the last step (reject, 1 memory) back? [y/N]:"
    )
    assert titles(cortex) == [SQLITE]


def test_undo_takes_back_every_step_in_turn(cortex, foreign):
    own = answer(cortex, "add", "Lamps burn", "--supersedes", "obs_1")["id"]
    cortex("memory", "edit", own, "--title", "Lamps glow")
    cortex("memory", "promote", own)
    cortex("memory", "reject", "obs_2")
    cortex("memory", "supersede", "obs_1", "--by", own)
    assert [answer(cortex, "undo")["undone"] for _ in range(3)] == [1, 1, 1]
    assert titles(cortex) == ["Lamps glow", SQLITE]
    code, out, _ = cortex("memory", "undo")
    assert (code, out) == (
        0,
        f"✓ Undo of edit, 1 memory:\n  {own} is as it was before: Lamps burn\n",
    )
    code, out, _ = cortex("memory", "undo")
    assert code == 0
    assert f"{own} is rejected now: Lamps burn" in out
    assert "obs_1 is unjudged now" in out
    assert titles(cortex) == [RAILWAY, SQLITE]
    assert titles(cortex, "--state", "rejected") == ["Lamps burn"]
    code, out, err = cortex("memory", "undo")
    assert (code, out, err) == (0, "", "There is nothing to undo.\n")
    assert answer(cortex, "undo") == {"undone": 0, "decisions": []}


def test_the_log_has_every_decision_newest_first(cortex, foreign):
    assert cortex("memory", "log")[2] == "Nothing has been decided yet.\n"
    own = answer(cortex, "add", "Lamps burn")["id"]
    cortex("memory", "reject", own, "--reason", "they don't")
    cortex("memory", "approve", "obs_1")
    cortex("memory", "undo")
    rows = answer(cortex, "log")["decisions"]
    assert [
        (row["action"], row["id"], row["before"], row["after"], row["undone"]) for row in rows
    ] == [
        ("undo", "obs_1", "approved", "", True),
        ("approve", "obs_1", "", "approved", True),
        ("reject", own, "approved", "rejected", False),
        ("add", own, "", "approved", False),
    ]
    assert {row["origin"] for row in rows} == {"own", os.path.realpath(foreign.path)}
    assert [
        decision["action"]
        for decision in answer(cortex, "log", own[:9], "--limit", "1")["decisions"]
    ] == ["reject"]
    _, out, _ = cortex("memory", "log")
    lines = [line.split(" ", 1)[1] for line in out.splitlines()]
    assert lines == [
        f"undo      obs_1 “{RAILWAY}” approved → unjudged (undo of approve)",
        f"approve   obs_1 “{RAILWAY}” unjudged → approved (undone)",
        f"reject    {own} “Lamps burn” approved → rejected (they don't)",
        f"add       {own} “Lamps burn” approved",
    ]


# -- delete
# ------------------------------------------------------------------------------------------------------------


def test_deleted_memory_is_in_no_file_or_answer(cortex, isolated):
    own = answer(
        cortex, "add", "Zanzibar lamps burn", "--fact", "quetzalcoatl", "--text", "ornithorhynchus"
    )["id"]
    answer(cortex, "edit", own, "--title", "Zanzibar lamps glow", "--text", "archaeopteryx")
    assert answer(cortex, "delete", own, "--dry-run") == {
        "deleted": 0,
        "copies": 0,
        "stay_in": [],
        "memories": [own],
        "dry_run": True,
    }
    code, out, err = cortex("memory", "delete", own)
    assert (code, out, err) == (0, "✓ Forgot 1 memory for good\n", "")
    assert cortex("memory", "show", own)[0] == 1
    assert answer(cortex, "undo")["undone"] == 0
    (row,) = answer(cortex, "log")["decisions"]
    assert (row["action"], row["id"], row["title"]) == ("delete", own, "")
    with closing(Store(isolated.cortex)) as store:
        store.checkpoint()
    for file in isolated.cortex.rglob("*"):
        if file.is_file():
            content = file.read_bytes().lower()
            for word in (b"quetzalcoatl", b"ornithorhynchus", b"archaeopteryx"):
                assert word not in content, file


def test_deleted_foreign_row_stays_in_its_file_and_is_not_read_again(cortex, foreign):
    before = sorted(os.listdir(foreign.path.parent))
    code, out, err = cortex("memory", "delete", "obs_1")
    assert (code, out) == (0, "✓ Forgot 1 memory for good\n")
    assert f"1 row stays in {os.path.realpath(foreign.path)}" in err
    foreign.observation(foreign.session("s9"), "A third thing")
    assert titles(cortex, "--state", "any") == ["A third thing", SQLITE]
    assert cortex("memory", "show", "obs_1")[0] == 1
    rows = foreign.connection.execute("SELECT count(*) FROM observations").fetchone()
    assert (rows, sorted(os.listdir(foreign.path.parent))) == ((3,), before)


@pytest.mark.usefixtures("lamps")
def test_delete_with_filters_reaches_every_state(cortex, foreign):
    cortex("memory", "reject", "--all", "--project", "lamps", "--yes")
    own = answer(cortex, "add", "A lamp of the shop")["id"]
    code, out, _ = cortex("memory", "delete", "--all", "--project", "lamps", "--dry-run")
    assert (code, out.startswith("Would forget 30 memories:\n")) == (0, True)
    assert answer(cortex, "delete", "--all", "--project", "lamps")["deleted"] == 30
    assert {memory["id"] for memory in answer(cortex, "list", "--state", "any")["memories"]} == {
        own,
        "obs_1",
        "obs_2",
    }


@posix
def test_deleting_asks_on_a_terminal_and_says_what_stays(cortex, foreign, in_window):
    code, _, shown = in_window("n\n", "memory", "delete", "obs_1")
    assert code == 1
    assert "Forget 1 memory for good?" in shown
    assert "never written to" in shown
    assert in_window("y\n", "memory", "delete", "obs_1")[0] == 0
    assert titles(cortex) == [SQLITE]


def test_judgement_of_an_uncopied_row_holds(cortex, isolated):
    with closing(make_claude_mem(isolated.user / ".claude-mem" / "claude-mem.db")) as made:
        made.many(30, projects=["big"])
        assert answer(cortex, "reject", "obs_7")["changed"] == 1
        assert answer(cortex, "list", "--state", "all")["total"] == 29


def test_decision_about_all_waits_until_every_row_is_read(cortex, isolated, monkeypatch):
    # Each look takes one batch
    monkeypatch.setattr("cortex.families.memory.background.COPY_SECONDS", 0.0)
    monkeypatch.setattr("cortex.families.memory.commands.options.SYNC_SECONDS", 0.0)
    with closing(make_claude_mem(isolated.user / ".claude-mem" / "claude-mem.db")) as made:
        made.many(1_800, projects=["big"])
        code, _, err = cortex("memory", "list")
        assert code == 0
        assert "of 1,800 rows of other products are not read yet" in err
        assert answer(cortex, "reject", "--all")["changed"] == 1_800
        assert titles(cortex) == []
        assert answer(cortex, "undo")["undone"] == 1_800
