"""Plugins of a Core judge records that are posted and those that homes send."""

from collections.abc import Callable
from pathlib import Path

import pytest

from cortex.base.record_model import Thread
from cortex.base.settings import load
from cortex.families.team.ids import new_id
from interfaces.team_server.conftest import Client, RunningCore
from interfaces.team_server.sync_requests import action


@pytest.fixture
def judged(open_core: Callable[..., RunningCore], folder: Path, censor: str) -> Client:
    """A client of a Core whose plugin refuses and redacts."""
    environment = {
        "CORTEX_HOME": str(folder / "home"),
        "CORTEX_CORE_RATES": "0,0,0,0,0",
        "CORTEX_TEAM_PLUGINS": f'["{censor}"]',
    }
    settings = load(None, environment=environment, flags={"indexing.workers": 1}, user_home=folder)
    return open_core(settings=settings).person("ada", 4)


def changed(title: str) -> dict[str, object]:
    body = {"title": title}
    return {
        "id": new_id(Thread),
        "kind": "thread",
        "author": "ada",
        "created": 1,
        "before": None,
        "after": body,
    }


def test_plugin_refuses_and_redacts_posted_records_and_those_that_homes_send(
    judged: Client,
) -> None:
    judged.refused(
        403, "SENSITIVE_BLOCKED", judged.ask("POST", "/threads", {"title": "forbidden"}, key="k")
    )
    assert judged.post("/threads", {"title": "Of Zeus"})["title"] == "Of [redacted: code name]"
    sent = [
        action("a", changed("forbidden")),
        action("b", changed("To Zeus")),
        action("c", changed("Fine")),
    ]
    results = judged.post("/sync/flush", {"actions": sent}, key=None)["results"]
    assert [result["status"] for result in results] == ["refused", "applied", "applied"]
    assert results[0]["error"]["code"] == "SENSITIVE_BLOCKED"
    assert results[1]["records"][0]["body"]["title"] == "To [redacted: code name]"
    assert [row["title"] for row in judged.get("/threads")] == [
        "Fine",
        "To [redacted: code name]",
        "Of [redacted: code name]",
    ]


def test_audit_log_names_the_way_by_which_a_write_came(judged: Client) -> None:
    judged.post("/threads", {"title": "T"})
    sent = action("a", changed("Fine"), actor="agent", tier=2)
    sent["payload"]["changes"][0]["author"] = "ada/agent"
    assert (
        judged.post("/sync/flush", {"actions": [sent]}, key=None)["results"][0]["status"]
        == "applied"
    )
    lines = [
        (entry["actor_id"], entry["via"])
        for entry in judged.get("/audit")
        if entry["action"] == "create_thread"
    ]
    assert lines == [("ada/agent", "agent"), ("ada", "server")]
