"""A batch of actions has the results of single ones; a failure of one leaves the others."""

from __future__ import annotations

import random
import string
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from cortex.base.record_model import Comment, Observation, Thread
from cortex.families.team.ids import new_id
from cortex.interfaces.team_server.apply import action as accepting
from cortex.interfaces.team_server.apply import batch
from interfaces.team_server.conftest import Client, RunningCore
from interfaces.team_server.sync_requests import action, change, pull

CURSED = "ALTER TABLE records ADD CONSTRAINT cursed CHECK (body NOT LIKE '%cursed%')"

FULL = """CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE EXCEPTION 'no space left on device' USING ERRCODE = '53100'; END $$"""


@pytest.fixture
def ada(core: RunningCore) -> Client:
    """A client of a principal with all rights."""
    return core.person("ada", 4, sensitive=True)


def actions() -> list[dict[str, Any]]:
    thread, comment, later = new_id(Thread), new_id(Comment), new_id(Thread)
    said = {"id": comment, "kind": "comment", "author": "person", "created": 1, "before": None,
            "after": {"body": "I saw it.", "thread": thread}}  # fmt: skip
    edit = {**change("Talk", thread, body="b"), "before": {"title": "Talk"}}
    stale = {**change("Other", thread), "before": {"title": "Never said"}}
    return [
        action("new", change("Talk", thread)),
        action("said", said),
        action("nowhere", change("Lost", subcortex="nowhere")),
        action("edit", edit),
        action("two", change("One"), change("Two", later)),
        action("stale", stale),
        action("new", change("Talk", thread)),
        action("new", change("Something else")),
        action("half", change("Not kept either"), change("Lost", subcortex="nowhere")),
        action("last", {**change("Two", later, body="now"), "before": {"title": "Two"}}),
    ]


def outcomes_of(results: list[dict[str, Any]]) -> list[object]:
    return [
        (result["status"], (result["error"] or {}).get("code"), [(row["id"], row["version"], row["change"], row["body"]) for row in result["records"]])
        for result in results
    ]  # fmt: skip


def test_batch_has_the_same_results_as_single_actions(
    core: RunningCore, postgres_core: RunningCore
):
    sent = actions()
    alone, together = core.person("ada", 4), postgres_core.person("ada", 4)
    first = [
        result
        for each in sent
        for result in alone.post("/sync/flush", {"actions": [each]}, key=None)["results"]
    ]
    second = together.post("/sync/flush", {"actions": sent}, key=None)["results"]
    statuses = "applied applied refused applied applied refused replayed refused refused applied"
    assert [result["status"] for result in second] == statuses.split()
    # A replayed action returns the present records, which nothing changed since.
    assert outcomes_of(first) == outcomes_of(second)
    assert [row["body"] for row in pull(alone)[0]] == [row["body"] for row in pull(together)[0]]
    assert [row["change"] for row in pull(alone)[0]] == [row["change"] for row in pull(together)[0]]


def test_action_that_violates_a_database_constraint_is_refused_alone(postgres_core: RunningCore):
    ada = postgres_core.person("ada", 4)
    with postgres_core.ledger.connections.write() as connection:
        connection.execute(CURSED)
    sent = [
        action(str(number), change(title)) for number, title in enumerate(("a", "b", "cursed", "c"))
    ]
    # An edit reads its record, so the writes before it are sent first, and fail without it.
    sent.append(
        action(
            "edit",
            {
                **change("a", sent[0]["payload"]["changes"][0]["id"], body="b"),
                "before": {"title": "a"},
            },
        )
    )
    results = ada.post("/sync/flush", {"actions": sent}, key=None)["results"]
    assert [result["status"] for result in results] == [
        "applied",
        "applied",
        "refused",
        "applied",
        "applied",
    ]
    assert titles(ada) == ["a", "b", "c"]
    again = ada.post("/sync/flush", {"actions": [sent[0], sent[3]]}, key=None)["results"]
    assert [result["status"] for result in again] == ["replayed", "replayed"]


def test_full_postgresql_disk_postpones_the_whole_batch_in_order(postgres_core: RunningCore):
    ada = postgres_core.person("ada", 4)
    made = action("new", change("a"))
    assert (
        ada.post("/sync/flush", {"actions": [made]}, key=None)["results"][0]["status"] == "applied"
    )
    edit = {**change("a", made["payload"]["changes"][0]["id"], body="b"), "before": {"title": "a"}}
    sent = [action("edit", edit), action("then", change("c"))]
    with postgres_core.ledger.connections.write() as connection:
        connection.execute(FULL)
        connection.execute(
            "CREATE TRIGGER full_disk BEFORE INSERT ON keys EXECUTE FUNCTION full_disk()"
        )
    results = ada.post("/sync/flush", {"actions": sent}, key=None)["results"]
    assert [result["status"] for result in results] == ["retry", "retry"] and results[0]["error"][
        "code"
    ] == "DISK_FULL"
    with postgres_core.ledger.connections.write() as connection:
        connection.execute("DROP TRIGGER full_disk ON keys")
    results = ada.post("/sync/flush", {"actions": sent}, key=None)["results"]
    assert [result["status"] for result in results] == ["applied", "applied"]


def test_full_sqlite_database_postpones_the_whole_batch_in_order(core: RunningCore):
    ada = core.person("ada", 4)
    with core.ledger.connections.write() as connection:
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        connection.execute(f"PRAGMA max_page_count = {pages + 3}")
    text = "".join(random.Random(1).choices(string.ascii_letters, k=45_000))
    sent = [action("large", change("a", body=text)), action("then", change("c"))]
    results = ada.post("/sync/flush", {"actions": sent}, key=None)["results"]
    assert [result["status"] for result in results] == ["retry", "retry"]
    with core.ledger.connections.write() as connection:
        connection.execute("PRAGMA max_page_count = 1000000")
    results = ada.post("/sync/flush", {"actions": sent}, key=None)["results"]
    assert [result["status"] for result in results] == ["applied", "applied"]


def test_damaged_database_postpones_writes_instead_of_refusing_them(postgres_core: RunningCore):
    ada = postgres_core.person("ada", 4)
    thread = action("new", change("a"))
    assert (
        ada.post("/sync/flush", {"actions": [thread]}, key=None)["results"][0]["status"]
        == "applied"
    )
    number = thread["payload"]["changes"][0]["id"]
    edit = action("edit", {**change("a", number, body="b"), "before": {"title": "a"}})
    connections = postgres_core.ledger.connections
    with connections.write() as connection:
        connection.execute("ALTER TABLE versions RENAME TO elsewhere")
    response = ada.ask("POST", "/sync/flush", {"actions": [edit]}, key=None)
    assert response.status_code == 503 or response.json()["data"]["results"][0]["status"] == "retry"
    with connections.write() as connection:
        connection.execute("ALTER TABLE elsewhere RENAME TO versions")
    assert (
        ada.post("/sync/flush", {"actions": [edit]}, key=None)["results"][0]["status"] == "applied"
    )


def test_unforeseen_failure_refuses_one_action_and_not_the_rest(
    core: RunningCore, ada: Client, monkeypatch: pytest.MonkeyPatch
):
    real = accepting.canonical

    def fail(changes: Any) -> str:
        if changes[0].after.title == "cursed":
            raise ZeroDivisionError
        return real(changes)

    monkeypatch.setattr(accepting, "canonical", fail)
    sent = [action(title, change(title)) for title in ("a", "cursed", "c")]
    results = ada.post("/sync/flush", {"actions": sent}, key=None)["results"]
    assert [result["status"] for result in results] == ["applied", "refused", "applied"] and titles(
        ada
    ) == ["a", "c"]
    assert (
        results[1]["error"]["code"] == "INTERNAL_ERROR"
        and "ZeroDivisionError" in results[1]["error"]["message"]
    )


def strange() -> list[dict[str, Any]]:
    """Actions with values that a database can't hold, or finds hard."""
    letters = "".join(
        random.Random(1).choices([chr(code_point) for code_point in range(0x4E00, 0x9FFF)], k=1_900)
    )
    link = {"name": "a", "ref": f"https://wiki.example/{letters}"}
    return [
        change("nul", body="a\0b"),
        change("large", after={}) | {"created": 2**63},
        change("deep", tags=[[[["a"]]]]),
        change("long tag", tags=[letters]),
        change("path", code_links=[{"path": f"docs/{letters[:950]}.md"}]),
        {
            **change("x", new_id(Observation)),
            "kind": "observation",
            "after": {"title": "x", "attachments": [link]},
        },
        change("state", state=letters),
        change("slug", subcortex=letters),
        change("author") | {"author": letters[:180]},
        change("key"),
    ]


def test_hostile_actions_have_the_same_result_in_sqlite_and_postgresql(
    core: RunningCore, postgres_core: RunningCore
):
    outcomes: list[list[str]] = []
    sent = [action(str(number), strange_action) for number, strange_action in enumerate(strange())]
    sent[-1]["idempotency_key"] = "k" * 400
    sent[-1]["action"] = "a" * 64
    for target in (core, postgres_core):
        results = target.person("ada", 4).post("/sync/flush", {"actions": sent}, key=None)[
            "results"
        ]
        outcomes.append(
            [f"{each['status']} {(each['error'] or {}).get('code', '')}" for each in results]
        )
    assert outcomes[0] == outcomes[1]
    assert not any("retry" in outcome or "INTERNAL" in outcome for outcome in outcomes[0])
    assert outcomes[0].count("applied ") == 3, outcomes[0]  # the path, the attachment and the key


@pytest.mark.parametrize("where", ["core", "postgres_core"])
def test_short_flush_is_applied_between_the_parts_of_a_long_one(
    where: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(batch, "TURN_CHANGES", 50)
    core: RunningCore = request.getfixturevalue(where)
    eve, bob = core.person("eve", 4), core.person("bob", 4)
    sent = [action(str(number), *(change("much") for _ in range(50))) for number in range(8)]
    with ThreadPoolExecutor(1) as pool:
        flushed = pool.submit(eve.post, "/sync/flush", {"actions": sent}, key=None)
        while not flushed.done():
            bob.post("/threads", {"title": "short"})
    assert [result["status"] for result in flushed.result()["results"]] == ["applied"] * 8
    by_title = {
        title: [row["change"] for row in pull(eve)[0] if row["body"]["title"] == title]
        for title in ("much", "short")
    }
    assert len(by_title["much"]) == 400
    assert any(
        min(by_title["much"]) < position < max(by_title["much"]) for position in by_title["short"]
    )


def test_slow_batch_stops_between_two_actions(ada: Client, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(batch, "TURN_SECONDS", 0.0)
    results = ada.post(
        "/sync/flush", {"actions": [action(title, change(title)) for title in "abc"]}, key=None
    )["results"]
    assert [result["status"] for result in results] == ["applied"] * 3 and titles(ada) == [
        "a",
        "b",
        "c",
    ]


def test_oversized_action_is_refused_and_not_the_rest(ada: Client, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(batch, "MOST_MADE", 3)
    made = [change(title) for title in "abc"]
    edits = [
        {
            **made_change,
            "before": made_change["after"],
            "after": {**made_change["after"], "body": "b"},
        }
        for made_change in made
    ]
    sent = [
        action("made", *made),
        action("more", *(change("more") for _ in range(4))),
        action("along", *edits, change("d")),
        action("twice", made[0], made[0]),
        action("last", change("e")),
    ]
    results = ada.post("/sync/flush", {"actions": sent}, key=None)["results"]
    assert [result["status"] for result in results] == [
        "applied",
        "refused",
        "applied",
        "refused",
        "applied",
    ]
    assert results[3]["records"][0]["body"] == {"title": "a", "body": "b"}
    assert titles(ada) == ["a", "b", "c", "d", "e"]


def test_answer_with_enough_records_leaves_the_rest_to_a_retry(
    ada: Client, monkeypatch: pytest.MonkeyPatch
):
    ada.post(
        "/sync/flush",
        {"actions": [action("a", *(made := [change(title) for title in "abc"]))]},
        key=None,
    )
    monkeypatch.setattr(batch, "TURN_CHANGES", 3)
    monkeypatch.setattr(batch, "MAX_RESPONSE_RECORDS", 4)
    unread = [
        action(str(number), *({**made_change, "kind": "none"} for made_change in made))
        for number in range(9)
    ]
    results = ada.post("/sync/flush", {"actions": unread}, key=None)["results"]
    assert [(result["status"], len(result["records"])) for result in results] == [
        ("refused", 3)
    ] * 2


def titles(client: Client) -> list[str]:
    return sorted(row["body"]["title"] for row in pull(client)[0])
