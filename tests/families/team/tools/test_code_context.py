"""Context packs about code: its text, callers, history, records and documents."""

from __future__ import annotations

import json
import os
import time

import pytest

from cortex.base.record_model import SENSITIVE, Artifact, Record
from cortex.families.team import context_pack
from cortex.families.team.tools.packs import plugin_view
from families.team.tools.conftest import CODE, TOKENS, git, ids_of, make_world, steady
from protocol.golden import check_golden


def test_code_context_has_the_code_its_history_and_citing_records(caller, world):
    answer = caller.ask("get_context_pack", subject=CODE)
    data = answer["data"]
    # What is alike is a matter of the ranking.
    check_golden(
        "team-answer-context-code",
        steady({key: rows for key, rows in data.items() if key != "related"}),
    )
    assert "def refresh_token" in data["code"][0]["code"] and data["code"][0]["lines"] == "6-8"
    assert data["callers"] == [
        {"path": "src/login.py:5", "in": "log_in", "text": "return refresh_token(user)"}
    ]
    assert "Tokens that are refreshed" in json.dumps(data["sections"])
    assert world.ids["adr"] in ids_of(data["canon_artifacts"]) and world.ids["result"] in ids_of(
        data["recent_observations"]
    )
    assert [row["title"] for row in data["memories"]] == ["refresh_token must not be called twice"]
    assert (
        "sessions.md" in data["documents"][0]["title"]
        and "fifteen minutes" in data["documents"][0]["text"]
    )
    assert "maybe_stale" not in json.dumps(data)


def test_code_context_accepts_a_symbol_or_the_id_of_a_hit(caller):
    data = caller.data("get_context_pack", subject={"code_link": {"symbol": "refresh_token"}})
    assert (data["path"], data["symbol"], data["code"][0]["lines"]) == (
        "src/tokens.py",
        "refresh_token",
        "6-8",
    )
    unknown = caller.data("get_context_pack", subject={"code_link": {"symbol": "no_such_name"}})
    assert unknown["notes"] == ["no open project defines no_such_name"]
    (hit, *_) = caller.data("search", query="refresh_token", types=["code"])["results"]
    data = caller.data("get_context_pack", subject={"code_link": {"path": hit["id"]}})
    assert (data["path"], data["code"][0]["lines"]) == (hit["path"], hit["lines"])


def test_plugins_get_no_sensitive_record():
    records = [
        Record("artifact_1", Artifact("Open")),
        Record("artifact_2", Artifact("Lena earns 90,000", sensitivity=SENSITIVE)),
    ]
    slot = context_pack.PackSlot(
        context_pack.CANON,
        tuple(context_pack.PackEntry(record, record.body.title) for record in records),
    )
    pack = context_pack.ContextPack(
        context_pack.PackSubject("task", "task_1"), None, None, (), (slot,)
    )
    assert [line.text for section in plugin_view(pack) for line in section.lines] == ["Open"]


def test_code_context_accepts_lines_and_whole_files(caller):
    data = caller.data(
        "get_context_pack",
        subject={"code_link": {"path": "src/tokens.py", "line_start": 3, "line_end": 3}},
    )
    assert data["code"][0]["code"] == "LIFETIME = 900"
    data = caller.data("get_context_pack", subject={"code_link": {"path": "src/tokens.py"}})
    assert any("refresh_token" in name for name in data["code"][0]["defines"])
    data = caller.data(
        "get_context_pack", subject={"code_link": {"path": "src/tokens.py", "symbol": "gone"}}
    )
    assert "there is no gone" in data["notes"][0]


@pytest.mark.parametrize(
    "path", ["../../home/cortex.db", "/etc/passwd", "src/../../../x", "C:\\x", "link.py"]
)
def test_code_context_reads_no_file_outside_the_project(caller, world, path):
    link = world.repository / "link.py"
    if not link.is_symlink():
        secret = world.place / "secret.py"
        secret.write_text("SECRET = 1\n", encoding="utf-8")
        link.symlink_to(secret)
    answer = caller.answer("get_context_pack", subject={"code_link": {"path": path}})
    assert (
        "SECRET" not in answer.text and "SQLite" not in answer.text and "root:" not in answer.text
    )
    if path == "link.py":
        link.unlink()
    assert answer.failed and json.loads(answer.text)["error"]["code"] == "PERMISSION_DENIED"


def test_record_older_than_its_code_may_be_stale(tmp_path, strangers_environment, caller_of):
    world = make_world(tmp_path)
    changed = TOKENS.replace("{session}:{lifetime}", "{lifetime}/{session}")
    (world.repository / "src" / "tokens.py").write_text(changed, encoding="utf-8", newline="\n")
    git(world.repository, "commit", "-aqm", "Another form")
    caller = caller_of(world)
    data = caller.data("get_context_pack", subject=CODE)
    rows = {row["id"]: row for row in (*data["canon_artifacts"], *data["recent_observations"])}
    for name in ("adr", "result"):
        assert any(
            warning.startswith("maybe_stale: the body of refresh_token")
            for warning in rows[world.ids[name]]["warnings"]
        )
    (world.repository / "src" / "tokens.py").write_text(
        changed + "# more\n", encoding="utf-8", newline="\n"
    )
    later = time.time() + 3_600
    os.utime(world.repository / "src" / "tokens.py", (later, later))
    data = caller.data("get_context_pack", subject=CODE)
    assert data["memories"][0]["maybe_stale"] and data["documents"][0]["maybe_stale"]


def test_code_context_without_an_open_project_still_has_its_records(caller, world):
    data = caller.data(
        "get_context_pack", subject={"code_link": {"path": "src/tokens.py", "repo": "elsewhere"}}
    )
    assert data["notes"] and "code" not in data
