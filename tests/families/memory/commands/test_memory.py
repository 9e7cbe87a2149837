"""`cortex memory add|list|show|search|scopes`, alone and beside another process."""

import io
import json
import os
import re
from contextlib import closing

import pytest
from typer.testing import CliRunner

from cortex.engine.store import Store
from cortex.interfaces.cli import app
from cortex.interfaces.daemon.hook import keep
from cortex.toolkit.terminal.output import width_of
from families.memory.adapters.claude_mem_databases import make_claude_mem
from families.memory.commands.memory_answers import answer, titles
from protocol.client import Client
from protocol.code_server import CORTEX, check_envelope
from protocol.golden import check_golden

pytestmark = pytest.mark.usefixtures("shop", "at_terminal")

COMMANDS = (
    "add list show search scopes edit approve reject promote supersede delete undo log import export"
).split()
ROW = set(
    "id title subtitle facts concepts files text kind project scope session date created_at "
    "provenance origin state curated reviewed_by reviewed_at superseded_by".split()
)


@pytest.mark.parametrize("command", ["memory", *(f"memory {name}" for name in COMMANDS)])
def test_help_matches_its_golden_file(command):
    seen = CliRunner().invoke(
        app,
        [*command.split(), "--help"],
        env={"COLUMNS": "100", "TERM": "dumb"},
        terminal_width=100,
    )
    assert seen.exit_code == 0
    check_golden(
        f"help-{command.replace(' ', '-')}",
        {"help": [line.rstrip() for line in seen.output.splitlines()]},
    )


# -- add
# ---------------------------------------------------------------------------------------------------------------


def test_added_memory_is_found_at_once_in_the_current_project(cortex):
    code, out, err = cortex(
        "memory", "add", "Tokens live 15 minutes", "--fact", "refresh lives a day", "--tag", "auth"
    )
    assert (code, err) == (0, "")
    key = re.match(
        r"✓ Added (mem_[0-9a-f]{10}): Tokens live 15 minutes\n  approved, project shop\n$", out
    )
    assert key
    (found,) = answer(cortex, "search", "how long does a refresh token live")["results"]
    assert set(found) == ROW | {"relevance", "maybe_stale"}
    assert (found["id"], found["facts"], found["concepts"]) == (
        key[1],
        ["refresh lives a day"],
        ["auth"],
    )
    assert (found["project"], found["scope"], found["state"], found["curated"]) == (
        "shop",
        "shop",
        "approved",
        True,
    )
    assert found["provenance"] == "person"


def test_add_reports_duplicate_and_similar_memories(cortex):
    first = answer(
        cortex,
        "add",
        "Tokens live 15 minutes",
        "--fact",
        "refresh lives a day",
        "--state",
        "staging",
    )
    assert (first["created"], first["state"], first["duplicate_of"], first["similar_to"]) == (
        True,
        "staging",
        None,
        [],
    )
    code, out, _ = cortex(
        "memory", "add", "**tokens** live 15 minutes.", "--fact", "Refresh lives a day"
    )
    assert (code, out) == (
        0,
        f"Known already as {first['id']}: Tokens live 15 minutes\n  It is approved now\n",
    )
    again = answer(cortex, "add", "Tokens live 15 minutes", "--fact", "refresh lives a day")
    assert (again["created"], again["id"], again["duplicate_of"]) == (
        False,
        first["id"],
        first["id"],
    )
    near = answer(cortex, "add", "Tokens live 15 minutes now", "--fact", "refresh lives a day")
    assert near["similar_to"] == [{"id": first["id"], "title": "Tokens live 15 minutes"}]
    assert answer(cortex, "list")["total"] == 2


@pytest.mark.parametrize(
    ("title", "more", "reason"),
    [
        ("  ", (), "needs a title"),
        ("x" * 301, (), "at most 300 characters"),
        ("The key", ("--fact", "ghp_" + "aZ3dE5fG7hJ9kL1mN2pQ4rS6tU8vW0xY1zB3"), "holds a secret"),
    ],
)
def test_invalid_memory_is_refused_with_the_reason(cortex, title, more, reason):
    code, out, err = cortex("memory", "add", title, *more)
    assert (code, out) == (1, "")
    assert "MEMORY_REFUSED" in err
    assert reason in err
    code, out, _ = cortex("memory", "add", title, *more, "--json")
    assert (code, check_envelope(json.loads(out))["code"]) == (1, "MEMORY_REFUSED")
    assert answer(cortex, "list", "--state", "any")["total"] == 0


def test_text_of_a_memory_is_read_from_stdin(cortex, monkeypatch):
    monkeypatch.setattr(
        "sys.stdin", io.TextIOWrapper(io.BytesIO("Größe zählt.\nWirklich.\n".encode()), "utf-8")
    )
    key = answer(cortex, "add", "Size", "--text", "-")["id"]
    assert answer(cortex, "show", key)["text"] == "Größe zählt.\nWirklich."
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"\xff\xfe\x00"), "utf-8"))
    assert cortex("memory", "add", "Noise", "--text", "-")[0] == 2


def test_superseded_memory_is_no_longer_found(cortex):
    old = answer(cortex, "add", "The port is 8080")["id"]
    new = answer(cortex, "add", "The port is 9090", "--supersedes", old)
    assert new["superseded"] == [old]
    assert [result["id"] for result in answer(cortex, "search", "port")["results"]] == [new["id"]]
    assert answer(cortex, "show", old)["superseded_by"] == new["id"]
    code, _, err = cortex("memory", "add", "The port is 7070", "--supersedes", "mem_ffffffffff")
    assert (code, "MEMORY_UNKNOWN" in err) == (1, True)
    assert answer(cortex, "list")["total"] == 1


# -- list and show
# -----------------------------------------------------------------------------------------------------


def test_empty_library_says_where_memories_would_be(cortex, isolated):
    for command in (("list",), ("search", "lamps"), ("scopes",)):
        code, out, err = cortex("memory", *command)
        assert (code, out) == (0, "")
        assert "cortex memory add" in err
        assert str(isolated.user / ".ack-mem" / "claude-mem.db") in err
    assert answer(cortex, "list") == {"memories": [], "total": 0}


def test_list_is_newest_first_and_marks_uncurated_memories(cortex, foreign):
    cortex("memory", "add", "Tokens live 15 minutes", "--kind", "gotcha")
    code, out, err = cortex("memory", "list")
    assert code == 0
    assert [
        re.sub(r"mem_\w+|\d{4}-\d\d-\d\d", "x", line).split(maxsplit=5) for line in out.splitlines()
    ] == [
        ["x", "x", "✓", "gotcha", "shop", "Tokens live 15 minutes"],
        ["obs_2", "x", "·", "decision", "ack", "SQLite over Postgres"],
        ["obs_1", "x", "·", "bugfix", "ack", "Railway env vars need a prefix"],
    ]
    assert err == "marks: ✓ approved, · uncurated (counts as approved)\n"
    rows = answer(cortex, "list")["memories"]
    assert [(row["state"], row["curated"]) for row in rows] == [
        ("approved", True),
        *[("approved", False)] * 2,
    ]
    code, out, err = cortex("memory", "list", "--limit", "1")
    assert len(out.splitlines()) == 1
    assert "1 of 3; more with --limit" in err


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        (["--project", "SHOP"], ["Lamp", "Token"]),
        (["--scope", "dev"], ["Lamp"]),
        (["--tag", "auth", "--tag", "Web"], ["Token"]),
        (["--kind", "DECISION"], ["SQLite over Postgres", "Token"]),
        (["--origin", "own"], ["Lamp", "Token"]),
        (
            ["--origin", "~/.claude-mem/claude-mem.db"],
            ["Railway env vars need a prefix", "SQLite over Postgres"],
        ),
        (["--state", "staging"], ["Lamp"]),
        (
            ["--state", "uncurated", "--state", "staging"],
            ["Lamp", "Railway env vars need a prefix", "SQLite over Postgres"],
        ),
        (["--matching", "prefixes railway"], ["Railway env vars need a prefix"]),
        (["--older-than", "12h"], ["Railway env vars need a prefix", "SQLite over Postgres"]),
        (["--older-than", "99y"], []),
        (["--state", "rejected"], []),
    ],
)
def test_list_is_narrowed_by_its_filters(cortex, isolated, foreign, monkeypatch, options, wanted):
    monkeypatch.setenv("HOME", str(isolated.user))
    foreign.connection.execute("UPDATE observations SET created_at_epoch = 1700000000000")
    foreign.connection.commit()
    answer(cortex, "add", "Lamp", "--state", "staging", "--scope", "dev")
    answer(
        cortex,
        "add",
        "Token",
        "--tag",
        "auth",
        "--tag",
        "web",
        "--kind",
        "decision",
        "--state",
        "promoted",
    )
    assert titles(cortex, *options) == wanted


@pytest.mark.parametrize(
    "arguments",
    [
        ["list", "--older-than", "soon"],
        ["list", "--older-than", "30"],
        ["list", "--origin", "/nowhere.db"],
        ["list", "--matching", "the"],
        ["list", "--state", "lost"],
        ["list", "--limit", "0"],
        ["show"],
        ["add"],
        ["add", "x", "--state", "rejected"],
        ["search", "x", "--status", "rejected"],
        ["supersede", "x"],
        ["nonsense"],
    ],
)
def test_wrong_usage_ends_with_2_and_the_reason(cortex, arguments):
    code, out, err = cortex("memory", *arguments)
    assert (code, out) == (2, "")
    assert "rror" in err or "Usage" in err


def test_show_prints_all_of_a_memory(cortex, foreign):
    code, out, err = cortex("memory", "show", "obs_1")
    assert (code, err) == (0, "")
    for line in (
        "Railway env vars need a prefix",
        "ID:       obs_1",
        "Kind:     bugfix",
        "Tags:     railway",
        "- NIXPACKS_ is the prefix",
    ):
        assert line in out.splitlines()
    assert "State:    not judged, it counts as approved" in out
    assert f"claude-mem · {os.path.realpath(foreign.path)}" in out
    assert "only read" in out
    shown = answer(cortex, "show", "obs_1")
    assert set(shown) == ROW | {"citations", "maybe_stale", "session_context", "history"}
    assert shown["session_context"]["title"] == "Deploying"
    assert shown["origin"] == os.path.realpath(foreign.path)
    assert shown["history"] == []


def test_unique_prefix_of_an_id_is_enough(cortex):
    key = answer(cortex, "add", "Lamps burn")["id"]
    assert answer(cortex, "show", key[:8])["id"] == key
    assert answer(cortex, "show", f" {key} ")["id"] == key
    for unknown in (key[:7], "mem_", "obs_1", key + "0", "mem_zzzz"):
        code, _, err = cortex("memory", "show", unknown)
        assert (code, "MEMORY_UNKNOWN" in err) == (1, True)


def test_prefix_of_several_ids_is_ambiguous(cortex, monkeypatch):
    tokens = iter(["abcd000001", "abcd000002"])
    monkeypatch.setattr("secrets.token_hex", lambda size: next(tokens))
    keys = [answer(cortex, "add", title)["id"] for title in ("Lamps burn", "Desks stand")]
    code, _, err = cortex("memory", "show", "mem_abcd")
    assert (code, "MEMORY_AMBIGUOUS" in err) == (1, True)
    assert all(key in err for key in keys)
    assert answer(cortex, "show", "mem_abcd000002")["title"] == "Desks stand"


def test_rows_of_two_databases_are_named_by_scope(cortex, isolated, foreign):
    with closing(
        make_claude_mem(isolated.user / ".ack-mem" / "scopes" / "dev" / "memory.db")
    ) as made:
        made.observation(made.session("d"), "Desks stand", project="desk")
    assert {memory["id"] for memory in answer(cortex, "list")["memories"]} == {
        "ack:obs_1",
        "ack:obs_2",
        "dev:obs_1",
    }
    assert answer(cortex, "show", "dev:obs_1")["title"] == "Desks stand"
    assert answer(cortex, "show", "obs_2")["title"] == "SQLite over Postgres"
    code, _, err = cortex("memory", "approve", "obs_1")
    assert (code, "MEMORY_AMBIGUOUS" in err) == (1, True)
    make_claude_mem(isolated.user / ".ack-mem" / "scopes" / "new" / "memory.db").close()
    answer(cortex, "add", "Nails hold", "--project", "ack")
    scopes = answer(cortex, "scopes")
    assert [(scope["name"], scope["memory_count"]) for scope in scopes["scopes"]] == [
        ("ack", 3),
        ("dev", 1),
        ("new", 0),
    ]
    # The folder of most of them
    assert scopes["scopes"][0]["path"].endswith(".claude-mem")
    assert (scopes["scopes"][2]["last_updated"], scopes["scopes"][0]["last_updated"] > "2026") == (
        "",
        True,
    )
    assert scopes["current_scope"] == "shop"
    code, out, err = cortex("memory", "scopes")
    assert (code, err) == (0, "current scope: shop\n")
    assert "~/.ack-mem/scopes/dev" in out.replace(os.sep, "/")


def test_changed_cited_code_is_reported(cortex, shop, monkeypatch):
    monkeypatch.chdir(shop / "src")
    key = answer(
        cortex, "add", "Anyone may come in", "--cite", "login.py#check", "--file", "login.py"
    )["id"]
    shown = answer(cortex, "show", key)
    assert shown["files"] == ["src/login.py"]
    assert [
        (citation["path"], citation["symbol"], citation["changed"])
        for citation in shown["citations"]
    ] == [("src/login.py", "check", "")]
    assert "src/login.py#check: as it was" in cortex("memory", "show", key)[1]
    text = (shop / "src" / "login.py").read_text(encoding="utf-8")
    (shop / "src" / "login.py").write_text(
        text.replace("return user", "return not user"), encoding="utf-8"
    )
    assert answer(cortex, "show", key)["maybe_stale"] == [
        "the body of check in src/login.py changed"
    ]
    assert (
        "maybe stale: the body of check in src/login.py changed" in cortex("memory", "show", key)[1]
    )
    assert (
        "\n  maybe stale: the body of check in src/login.py changed"
        in cortex("memory", "search", "anyone")[1]
    )
    assert (
        answer(cortex, "search", "anyone")["results"][0]["maybe_stale"]
        == answer(cortex, "show", key)["maybe_stale"]
    )
    for target, wrong in (
        ("login.py#nobody", "ARGUMENT_INVALID"),
        ("gone.py", "FILE_NOT_FOUND"),
        ("../../x", "PATH_OUTSIDE"),
    ):
        code, out, _ = cortex("memory", "add", "Nobody", "--cite", target, "--json")
        assert code != 0
        assert check_envelope(json.loads(out))["code"] == wrong


@pytest.mark.skipif(os.name == "nt", reason="there is no pty")
def test_a_list_fits_the_terminal(cortex, on_terminal):
    cortex(
        "memory",
        "add",
        "A title that says quite a lot about lamps, desks, chairs and 東京の長い題名 and so on "
        * 3,
        "--kind",
        "gotcha",
    )
    shown = on_terminal("memory", "list")
    (line,) = shown.replace("\r\n", "\n").splitlines()
    assert line.endswith("…")
    assert width_of(line) <= 200


def test_control_characters_are_never_printed(cortex, foreign):
    foreign.observation(
        foreign.session("s2"),
        "Evil \x1b]0;owned\x07\u202e title",
        facts=["\x1b[2J gone"],
        narrative="a\x9b31m",
    )
    key = next(
        memory["id"]
        for memory in answer(cortex, "list")["memories"]
        if memory["title"].startswith("Evil")
    )
    for command in (
        ["list"],
        ["show", key],
        ["search", "evil"],
        ["approve", key],
        ["log"],
        ["undo"],
        ["export"],
    ):
        code, out, err = cortex("memory", *command)
        assert code == 0
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", out + err), command


# -- search
# ------------------------------------------------------------------------------------------------------------


def test_search_takes_the_filters_of_the_tool(cortex, foreign):
    answer(
        cortex,
        "add",
        "Postgres is slow on the staging machine",
        "--tag",
        "db",
        "--state",
        "staging",
    )
    found = answer(cortex, "search", "postgres")
    assert found["results"][0]["title"] == "SQLite over Postgres"
    assert "Postgres is slow on the staging machine" not in [
        result["title"] for result in found["results"]
    ]
    both = answer(cortex, "search", "postgres", "--status", "all", "--mode", "words")["results"]
    assert {result["title"] for result in both} >= {
        "SQLite over Postgres",
        "Postgres is slow on the staging machine",
    }
    assert [
        result["scope"]
        for result in answer(cortex, "search", "postgres", "--status", "staging")["results"]
    ] == ["shop"]
    assert (
        answer(cortex, "search", "postgres", "--status", "all", "--tag", "db", "--mode", "words")[
            "total"
        ]
        == 1
    )
    assert answer(cortex, "search", "postgres", "--project", "desk")["results"] == []
    code, out, err = cortex("memory", "search", "nothing-like-this", "--project", "desk")
    assert (code, out) == (0, "")
    assert "nothing found" in err
    # A blank query gives the newest
    assert cortex("memory", "search", "  ")[0] == 0


# -- other processes
# ---------------------------------------------------------------------------------------------------


def test_new_claude_mem_rows_are_found_by_the_next_command(cortex, foreign):
    assert answer(cortex, "list")["total"] == 2
    foreign.observation(foreign.session("s9"), "A third thing")
    assert answer(cortex, "search", "third thing")["results"][0]["id"] == "obs_3"


def test_unreadable_database_is_reported_and_the_rest_answers(cortex, isolated):
    place = isolated.user / ".claude-mem" / "claude-mem.db"
    place.parent.mkdir()
    place.write_bytes(b"no database at all" * 100)
    code, out, err = cortex("memory", "add", "Lamps burn")
    assert (code, out.startswith("✓ Added")) == (0, True)
    assert "claude-mem.db" in err
    assert "Traceback" not in err
    code, out, err = cortex("memory", "list")
    assert (code, "Lamps burn" in out, "claude-mem.db" in err) == (0, True, True)


def test_hook_note_is_in_staging_with_the_next_command(cortex, isolated, shop):
    brought = {
        "format": 1,
        "at": 1_790_000_000,
        "cwd": str(shop),
        "candidates": [{"title": "Queues must be drained first"}],
    }
    keep(str(isolated.cortex), brought)
    (found,) = answer(cortex, "list", "--state", "staging")["memories"]
    assert (found["title"], found["project"]) == ("Queues must be drained first", "shop")
    answer(cortex, "add", "Lamps burn")
    assert answer(cortex, "undo")["undone"] == 1
    # A note of a hook is no step of a person
    assert answer(cortex, "undo")["undone"] == 0
    assert answer(cortex, "list", "--state", "staging")["total"] == 1


def test_commands_work_while_a_server_holds_the_library(cortex, isolated, foreign, until):
    with Client([*CORTEX, "mcp", "memory", "--no-sidecar"]) as server:
        server.initialize()
        assert "Railway" in server.call("query_memories", {})["result"]["content"][0]["text"]
        with closing(Store(isolated.cortex)) as store:
            assert store.lease.holder()
        assert answer(cortex, "list")["total"] == 2
        key = answer(cortex, "add", "Lamps burn")["id"]
        assert answer(cortex, "search", "lamps burn")["results"][0]["id"] == key
        assert (
            key
            in server.call("query_memories", {"query": "lamps burn"})["result"]["content"][0][
                "text"
            ]
        )
        assert answer(cortex, "reject", key)["changed"] == 1
        assert answer(cortex, "search", "lamps burn", "--mode", "words")["results"] == []
        assert answer(cortex, "undo")["undone"] == 1
        foreign.observation(foreign.session("s9"), "A third thing")
        # The server reads it
        until(lambda: "A third thing" in titles(cortex))
        assert answer(cortex, "approve", "obs_3")["changed"] == 1
        deleted = answer(cortex, "delete", key, "obs_1")
        assert (deleted["deleted"], deleted["copies"]) == (1, 1)
        rows = answer(cortex, "list", "--state", "any")["memories"]
        assert {row["id"]: row["curated"] for row in rows} == {"obs_2": False, "obs_3": True}
