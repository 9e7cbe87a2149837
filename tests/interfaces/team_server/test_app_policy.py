"""The plugins of a Core judge what is written there: over REST, and by what homes send."""

from collections.abc import Callable
from pathlib import Path

import pytest

from cortex.base.record_model import Thread
from cortex.base.settings import load
from cortex.families.team.ids import new_id
from interfaces.team_server.conftest import Client, Place
from interfaces.team_server.test_app_sync import action


@pytest.fixture
def judged(open_place: Callable[..., Place], folder: Path, censor: str) -> Client:
    """Somebody at a Core whose plugin refuses and redacts."""
    environment = {
        "CORTEX_HOME": str(folder / "home"),
        "CORTEX_CORE_RATES": "0,0,0,0,0",
        "CORTEX_TEAM_PLUGINS": f'["{censor}"]',
    }
    settings = load(None, environment=environment, flags={"indexing.workers": 1}, user_home=folder)
    return open_place(settings=settings).person("ada", 4)


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


def test_a_core_judges_what_is_posted_and_what_homes_send(judged: Client) -> None:
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
    assert [one["title"] for one in judged.get("/threads")] == [
        "Fine",
        "To [redacted: code name]",
        "Of [redacted: code name]",
    ]


def test_the_log_of_a_core_says_that_it_saw_a_token(judged: Client) -> None:
    judged.post("/threads", {"title": "T"})
    told = action("a", changed("Fine"), actor="agent", tier=2)
    told["payload"]["changes"][0]["author"] = "ada/agent"
    assert (
        judged.post("/sync/flush", {"actions": [told]}, key=None)["results"][0]["status"]
        == "applied"
    )
    lines = [
        (one["actor_id"], one["via"])
        for one in judged.get("/audit")
        if one["action"] == "create_thread"
    ]
    assert lines == [("ada/agent", "agent"), ("ada", "server")]
