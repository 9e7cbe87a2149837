"""The state of a Core and of waiting writes in status, doctor, records and tools."""

import json

import pytest

from cortex.base.runtime.file_lock import exclusive_lock
from cortex.base.runtime.rendezvous import meet_at
from cortex.interfaces.cli.checks.sync import check_sync
from families.team.commands.command_answers import answer, exits, run_tool

pytestmark = pytest.mark.usefixtures("isolated")


def test_doctor_reports_the_connection_to_the_core(cortex, core, joined):
    (found,) = check_sync()
    assert found.level == "ok" and "no Core" in found.text
    joined()
    (found,) = check_sync()
    assert found.level == "ok" and core.url in found.text and "as ada" in found.text
    core.stop()
    cortex("sync")
    (found,) = check_sync()
    assert (found.level, found.fix) == ("warning", "cortex sync")


@pytest.mark.parametrize("whose", ["nobody", "bob"])
def test_status_says_that_waiting_writes_need_another_token(
    cortex, core, joined, monkeypatch, whose
):
    joined()
    answer(cortex, "team", "thread", "create", "Waits")
    monkeypatch.setenv(
        "CORTEX_CORE_TOKEN", "ctx_0000_wrong" if whose == "nobody" else core.let_in(whose)
    )
    assert cortex("sync")[0] == 2
    text = cortex("status")[1]
    assert (
        f"queue        1 waiting; with a new token `cortex connect {core.url}` sends them\n" in text
    )
    (found,) = check_sync()
    assert found.level == "warning" and found.fix == f"cortex connect {core.url}, with a new token"
    monkeypatch.setenv("CORTEX_CORE_TOKEN", core.let_in("ada"))
    assert answer(cortex, "connect", core.url)["sync"]["waiting"] == 0 and core.titles() == {
        "Waits"
    }


def test_write_without_cortexd_says_that_it_waits(cortex, core, joined):
    assert "waiting" not in cortex("team", "thread", "create", "Alone")[2]
    joined()
    code, out, err = cortex("team", "thread", "create", "With others")
    assert code == 0 and "✓ Opened" in out
    assert (
        err
        == "waiting to be sent: 1 write; CORTEX_NO_SIDECAR is set here: they are sent by `cortex sync`\n"
    )
    assert cortex("team", "thread", "list")[2] == ""


def test_write_with_cortexd_says_that_it_waits_for_the_server(cortex, joined, isolated):
    joined()
    # cortexd runs as long as its lock is held.
    with exclusive_lock(meet_at(str(isolated.cortex)).lock, 5, lambda: False) as locked:
        assert locked
        err = cortex("team", "thread", "create", "The server may be gone")[2]
    assert (
        err
        == "waiting to be sent: 1 write; cortexd sends what waits as soon as the team server answers\n"
    )


def test_tools_warn_of_waiting_and_refused_writes(cortex, lowered):
    def warnings(tool):
        return run_tool(tool).get("warnings", [])

    lowered("Not for tier one")
    (waits,) = warnings("cortex_get_inbox")
    assert waits == "1 write waits for the Core: others don't see that yet"
    cortex("sync")
    (refused,) = warnings("cortex_get_inbox")
    assert refused == "the Core refused 1 write; a person sees why: `cortex inbox`"
    assert refused in warnings("cortex_get_bootstrap_pack")


def test_refused_record_is_marked_for_people_and_hidden_from_agents(cortex, lowered):
    mark = "not accepted by the team server: "
    lowered("Falcon deploys on Friday")
    assert exits(cortex, "sync")[0] == 1
    (row,) = answer(cortex, "team", "thread", "list")["threads"]
    assert row["warnings"][0].startswith(mark) and "[RIGHTS_MISSING]" in row["warnings"][0]
    assert (
        mark in cortex("team", "thread", "list")[1]
        and mark in cortex("team", "thread", "show", row["id"])[1]
    )
    assert mark in cortex("search", "Falcon deploys", "--in", "team")[1]
    found = run_tool("cortex_search", query="Falcon deploys", types=["threads"])
    assert (
        found.get("results", []) == []
        and run_tool("cortex_get_thread", thread_id=row["id"])["warnings"] == row["warnings"]
    )
    seen = {"title": "Seen", "type": "test_result", "links": [row["id"]]}
    error = run_tool("cortex_create_observations", observations=[seen], idempotency_key="k1")
    assert "was not accepted by the team server" in json.dumps(error)
    assert answer(cortex, "team", "observation", "list")["observations"] == []


def test_record_kept_on_this_machine_is_marked_and_not_canon(
    cortex, core, at_terminal, monkeypatch
):
    core.let_in("root")
    answer(
        cortex, "team", "subcortex", "create", "ops", "--name", "Ops", "--charter", "Falcons only."
    )
    why = answer(cortex, "team", "thread", "create", "Falcon deploys why")["id"]
    create = ("team", "artifact", "create", "Falcon deploys on Friday", "--body", "Always.")
    made = answer(cortex, *create, "--state", "accepted", "--evidence", f"thread:{why}")["id"]
    mark = "only on this machine, not at the team server"
    assert mark not in cortex("team", "artifact", "list")[1]
    monkeypatch.setenv("CORTEX_CORE_TOKEN", core.let_in("ada", 2))
    code, out, _ = cortex("connect", core.url, "--dry-run")
    assert code == 0 and out.endswith(
        "; 2 would be refused at tier 2: create subcortex (1), accept artifact (1)\n"
    )
    assert exits(cortex, "connect", core.url, "--upload", "mine")[0] == 1
    assert "not accepted" in cortex("team", "artifact", "list")[1]
    assert "; 2 of them not accepted by the team server\n" in cortex("status")[1]
    exits(cortex, "sync", "--give-up")
    assert f"; 2 of them {mark}\n" in cortex("status")[1]
    (row,) = answer(cortex, "team", "artifact", "list")["artifacts"]
    assert row["warnings"] == [mark] and mark in cortex("team", "artifact", "show", made)[1]
    assert mark in cortex("search", "Falcon deploys Friday", "--in", "team")[1]
    assert run_tool("cortex_get_artifact", artifact_id=made)["warnings"] == [mark]
    found = run_tool("cortex_search", query="Falcon deploys")["results"]
    assert [hit["id"] for hit in found] == [why]
    pack = json.dumps(run_tool("cortex_get_bootstrap_pack"))
    assert made not in pack and "Falcons" not in pack
    (topic,) = run_tool("cortex_get_bootstrap_pack", scope="subcortex:ops")["subcortexes"]
    assert topic["warnings"] == [mark]
    answer(cortex, "disconnect")
    assert "warnings" not in answer(cortex, "team", "artifact", "list")["artifacts"][0]
    pack = json.dumps(run_tool("cortex_get_bootstrap_pack"))
    assert made in pack and "Falcons" in pack
