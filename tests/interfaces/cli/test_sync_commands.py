"""`cortex connect`, `sync`, `disconnect` and `pack pull` against a real Core; what status, doctor
and inbox say about it.
"""

import io
import json
import re
import sys

import pytest

from cortex.base.actors import agent
from cortex.base.errors import CortexError
from cortex.base.record_model import Draft
from cortex.base.settings import environment, load
from cortex.families.team import tools
from cortex.families.team.writes.drafts import create_draft
from cortex.interfaces.assembly.pool import engine_pool
from cortex.interfaces.cli.checks.sync import check_sync
from cortex.toolkit.tool import Call, bind, find_tool, perform
from interfaces.cli.team_answers import answer, opened, refusal
from interfaces.team_server.commands.core_server import core_at

pytestmark = pytest.mark.usefixtures("isolated")


@pytest.fixture
def core(tmp_path, monkeypatch):
    # Nobody searches by meaning here
    monkeypatch.setenv("CORTEX_INDEXING_EMBEDDING_PROVIDER", "none")
    with core_at(tmp_path / "core") as served:
        yield served


@pytest.fixture
def lowered(cortex, core, joined):
    """A home that joined as ada with tier 4; her tier is 1 since she wrote a thread."""

    def lower(title, *more):
        core.let_in("root")  # somebody has to keep tier 4
        joined()
        answer(cortex, "team", "thread", "create", title, *more)
        core.ledger.principals.change(core.ledger.principals.named("ada").id, tier=1)

    return lower


@pytest.fixture
def joined(cortex, core, monkeypatch):
    """Commands in a home that was connected as ada, who may do what her tier allows."""

    def join(name="ada", tier=4, *more):
        monkeypatch.setattr(sys, "stdin", io.StringIO(core.let_in(name, tier) + "\n"))
        return answer(cortex, "connect", core.url, "--token-file", "-", *more)

    return join


def told(cortex, tool, **arguments):
    """What an agent's tool answers."""
    engines = engine_pool(keep=False)
    family = tools.open_family(load(None, environment=environment()), engines, ())
    try:
        opened_family, found = find_tool([family], tool)
        try:
            answered = json.loads(
                perform(opened_family, found, bind(found, arguments), Call()).text
            )
        except CortexError as error:
            return {"message": error.message}
        return answered.get("data", answered)
    finally:
        family.close()
        engines.close()


def exits(cortex, *arguments):
    """The exit code, and the answer for programs."""
    code, out, err = cortex(*arguments, "--json")
    return code, json.loads(out), err


def test_what_is_here_is_sent_once_when_a_core_is_joined(cortex, core, joined):
    answer(cortex, "team", "subcortex", "create", "payments", "--name", "Payments")
    answer(cortex, "team", "thread", "create", "Which currency?", "--subcortex", "payments")
    told = joined("ada", 4, "--upload", "mine")
    assert (told["name"], told["tier"], told["again"], told["queued"]) == ("ada", 4, False, 2)
    assert told["sync"]["status"] == "ok" and told["sync"]["waiting"] == 0
    assert core.titles() == {"Payments", "Which currency?"}
    again = joined()
    assert (again["again"], again["queued"], again["sync"]["flushed"]) == (True, 0, 0)


def test_without_a_terminal_nothing_is_sent_that_nobody_asked_for(cortex, core, joined):
    answer(cortex, "team", "thread", "create", "Private diary")
    told = joined("ada", 4, "--dry-run")
    assert (told["dryRun"], told["upload"]["mine"]["kinds"], core.titles()) == (
        True,
        {"thread": 1},
        set(),
    )
    assert answer(cortex, "status")["server"] is None
    told = joined()
    assert (told["queued"], told["upload"]["choice"], core.titles()) == (0, "none", set())
    answer(
        cortex,
        "team",
        "thread",
        "edit",
        answer(cortex, "team", "thread", "list")["threads"][0]["id"],
        "--title",
        "Still private",
    )
    assert answer(cortex, "sync")["flushed"] == 0 and core.titles() == set()
    assert joined("ada", 4, "--upload", "mine")["queued"] == 1 and core.titles() == {
        "Still private"
    }


def test_what_another_core_had_is_shown_and_stays_here(cortex, core, joined, tmp_path, monkeypatch):
    joined()
    answer(cortex, "team", "thread", "create", "Of the first team")
    answer(cortex, "sync")
    answer(cortex, "disconnect")
    answer(cortex, "team", "thread", "create", "Mine", "--sensitive")
    with core_at(tmp_path / "second") as second:
        monkeypatch.setenv("CORTEX_CORE_TOKEN", second.let_in("ada"))
        code, out, err = cortex("connect", second.url, "--upload", "mine")
        assert code == 0 and f"{second.url} doesn't have 2 records of this home:" in out
        assert (
            "mine: 1 record (1 thread, 1 of them private), written here, never sent elsewhere"
            in out
        )
        assert (
            f"all adds: 1 record (1 thread), by you (1), once at {core.url} (1)\n" in out
            and ": 1 sent, " in out
        )
        assert "note: not sent, only kept here: 1 record;" in err and second.titles() == {"Mine"}
        assert (
            refusal(cortex, "connect", second.url, "--upload", "some")["code"] == "ARGUMENT_INVALID"
        )
        monkeypatch.setenv("CORTEX_CORE_TOKEN", core.let_in("ada"))
        elsewhere = refusal(cortex, "connect", core.url)
        assert (elsewhere["code"], refusal(cortex, "connect", core.url, "--dry-run")) == (
            "CORE_CONNECTED",
            elsewhere,
        )


def test_a_person_is_asked_what_is_sent(cortex, core, typed):
    for title in ("One", "Two"):
        answer(cortex, "team", "thread", "create", title)
    token = core.let_in("ada")
    code, out, err = typed("none\n", "connect", core.url, CORTEX_CORE_TOKEN=token)
    assert (
        code == 0
        and "2 records of this home" in out
        and "Send which? mine (2), all (2) or none [mine]: " in err
    )
    assert core.titles() == set()
    assert "`cortex connect --upload mine`" in err
    code, _, err = typed("", "connect", "--upload", "mine")  # the address and the token are known
    assert code == 0, err
    assert core.titles() == {"One", "Two"}
    answer(cortex, "disconnect")
    assert typed("\n", "connect", core.url, CORTEX_CORE_TOKEN=token)[0] == 0


def test_the_token_is_kept_for_its_owner_alone_and_said_nowhere(
    cortex, core, isolated, monkeypatch
):
    token = core.let_in("ada")
    file = isolated.user / "token"
    file.write_text(token + "\n", encoding="utf-8")
    code, out, err = cortex("connect", core.url, "--token-file", file)
    assert code == 0, err
    kept = isolated.cortex / "core-token"
    assert kept.read_text(encoding="utf-8").strip() == token
    assert sys.platform == "win32" or kept.stat().st_mode & 0o077 == 0
    shown = out + err + "".join(map(str, cortex("status")))
    assert token not in shown and token.split("_", 2)[2] not in shown


def test_a_token_that_does_not_count_is_refused_and_nothing_is_connected(cortex, core, monkeypatch):
    monkeypatch.setenv("CORTEX_CORE_TOKEN", "ctx_0000_wrong")
    assert refusal(cortex, "connect", core.url)["code"] == "CORE_DENIED"
    assert answer(cortex, "status")["server"] is None


def test_a_token_that_counts_no_more_is_told_with_the_way_out(cortex, core, joined, monkeypatch):
    joined()
    monkeypatch.setenv("CORTEX_CORE_TOKEN", "ctx_0000_wrong")
    code, _, err = cortex("sync")
    assert code == 2 and "doesn't accept the token" in err and "`cortex connect URL`" in err


@pytest.mark.parametrize("whose", ["nobody", "bob"])
def test_what_waits_for_another_token_is_not_said_to_be_sent_by_a_sync(
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


def test_without_a_terminal_a_token_has_to_come_from_somewhere(cortex, core, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    assert "terminal" in refusal(cortex, "connect", core.url)["message"]
    assert "which Core" in refusal(cortex, "connect")["message"]


def test_a_sync_without_a_core_fails_with_2_and_says_what_to_do(cortex):
    code, body, _ = exits(cortex, "sync")
    assert (code, body["error"]["code"]) == (2, "CORE_MISSING")
    assert "cortex connect URL" in cortex("sync")[2]


def test_the_core_of_the_settings_is_joined_by_the_first_sync(cortex, core, monkeypatch):
    monkeypatch.setenv("CORTEX_TEAM_SERVER", core.url)
    monkeypatch.setenv("CORTEX_CORE_TOKEN", core.let_in("ada"))
    code, body, err = exits(cortex, "sync")
    assert (code, body["status"], body["server"]) == (0, "ok", core.url)
    assert "connected to" in err


def test_what_is_written_while_the_core_is_away_waits_and_is_sent_when_it_is_back(
    cortex, core, joined
):
    joined()
    core.stop()
    answer(cortex, "team", "thread", "create", "Written offline")
    code, body, _ = exits(cortex, "sync")
    assert (code, body["status"], body["waiting"]) == (3, "offline", 1)
    status = answer(cortex, "status")
    assert (status["queue"], status["server"], status["name"]) == (1, core.url, "ada")
    assert (
        "can't be reached" in status["syncError"] and status["syncErrorCode"] == "CORE_UNAVAILABLE"
    )
    text = cortex("status")[1]
    assert (
        "queue        1 waiting; CORTEX_NO_SIDECAR is set here: they are sent by `cortex sync`"
        in text
    )
    core.start()
    code, out, _ = cortex("sync")
    assert (code, out) == (0, f"✓ Synced with {core.url}: 1 sent, 0 records came\n")
    assert core.titles() == {"Written offline"}
    status = answer(cortex, "status")
    assert (status["queue"], status["syncError"], status["replica"]["records"]) == (0, None, 1)
    assert re.search(
        r"^replica      1 record of the Core, 0\.\d kB$", cortex("status")[1], re.MULTILINE
    )
    assert status["lastSync"]


def test_what_the_core_refuses_ends_with_1_and_is_in_the_inbox_until_it_is_sent_again(
    cortex, core, lowered
):
    lowered("Not for tier one")
    code, body, _ = exits(cortex, "sync")
    assert (code, body["status"], body["waiting"]) == (1, "partial", 0)
    (refused,) = body["refused"]
    assert refused["title"] == "Not for tier one" and refused["code"] and refused["reason"]
    code, out, err = cortex("sync")
    assert code == 1 and f"Synced in part with {core.url}: 0 sent, 1 refused, " in out
    assert "refused: Not for tier one" in err and "cortex sync --refused" in err
    (entry,) = answer(cortex, "inbox")["entries"]
    assert entry["type"] == "system_alert" and entry["title"] == "Not for tier one"
    assert "did not take" in entry["why"] and "You wrote" in entry["why"]
    assert "refused      1" in cortex("status")[1]
    assert exits(cortex, "sync", "--retry", "--give-up")[0] == 2
    core.ledger.principals.change(core.ledger.principals.named("ada").id, tier=4)
    code, body, _ = exits(cortex, "sync", "--retry")
    assert (code, body["flushed"], body["refused"]) == (0, 1, [])
    assert core.titles() == {"Not for tier one"}


def test_what_the_tier_does_not_allow_is_refused_at_once(cortex, core, joined, at_terminal):
    joined(tier=2)
    made = (
        "team",
        "artifact",
        "create",
        "All deploys on Friday",
        "--type",
        "adr",
        "--evidence",
        "url:https://x.example",
    )
    told = refusal(cortex, *made, "--state", "accepted")
    assert (
        told["code"] == "RIGHTS_MISSING"
        and "tier 2" in told["message"]
        and "propose it" in told["suggestions"][0]
    )
    assert answer(cortex, "team", "artifact", "list", "--all")["artifacts"] == []
    answer(cortex, *made, "--state", "proposed")
    assert answer(cortex, "sync")["flushed"] == 1
    core.ledger.principals.change(core.ledger.principals.named("ada").id, tier=3)
    answer(cortex, "sync")
    answer(cortex, *made, "--state", "accepted")
    assert answer(cortex, "sync")["flushed"] == 1


def test_what_was_refused_is_shown_whole_and_can_be_given_up(cortex, core, lowered, isolated):
    lowered("Only mine", "--body", "Why not")
    assert exits(cortex, "sync")[0] == 1
    text = cortex("sync", "--refused")[1]
    assert (
        "Only mine" in text
        and "RIGHTS_MISSING" in text
        and "body: Why not" in text
        and "--retry" in text
    )
    (told,) = answer(cortex, "sync", "--refused")["refused"]
    assert (
        told["typed"][0]["fields"]["body"] == "Why not"
        and told["became"] == "It stays on this machine"
    )
    code, body, err = exits(cortex, "sync", "--give-up")
    (file,) = (isolated.cortex / "refused").iterdir()
    assert f"given up: 1 refused write; all that you wrote is in {file}" in err
    assert (
        body["givenUp"] == {"writes": 1, "file": str(file)}
        and answer(cortex, "sync")["givenUp"] is None
    )
    assert json.loads(file.read_text(encoding="utf-8"))[0]["title"] == "Only mine"
    assert (code, body["refused"], answer(cortex, "status")["refused"]) == (0, [], 0)
    assert (
        answer(cortex, "inbox")["entries"] == []
        and "refused nothing" in cortex("sync", "--refused")[1]
    )
    assert answer(cortex, "team", "thread", "list")["threads"] == []
    assert answer(cortex, "disconnect")["server"] == core.url


def test_two_homes_have_the_same_after_a_sync_each(cortex, core, joined, monkeypatch):
    joined()
    answer(cortex, "team", "subcortex", "create", "payments", "--name", "Payments")
    answer(cortex, "sync")
    monkeypatch.setenv("CORTEX_PROFILE", "bob")
    assert joined("bob")["sync"]["pulled"] == 1
    assert [one["slug"] for one in answer(cortex, "team", "subcortex", "list")["subcortexes"]] == [
        "payments"
    ]


def test_a_home_is_left_with_all_that_it_has_and_not_while_something_waits(
    cortex, core, joined, isolated
):
    joined()
    answer(cortex, "team", "thread", "create", "Mine")
    told = refusal(cortex, "disconnect")
    assert (
        told["code"] == "CORE_CONNECTED"
        and "--refused" in told["suggestions"][0]
        and len(told["suggestions"]) == 2
    )
    answer(cortex, "sync")
    assert answer(cortex, "disconnect")["server"] == core.url
    assert not (isolated.cortex / "core-token").exists()
    assert len(answer(cortex, "team", "thread", "list")["threads"]) == 1
    assert answer(cortex, "disconnect")["server"] is None
    assert exits(cortex, "sync")[0] == 2


@pytest.mark.parametrize("as_json", [True, False])
def test_who_leaves_by_force_is_told_where_what_was_refused_is(
    cortex, core, lowered, isolated, as_json
):
    lowered("Only mine")
    assert exits(cortex, "sync")[0] == 1 and exits(cortex, "disconnect")[0] == 1
    code, out, err = cortex("disconnect", "--force", *(["--json"] if as_json else ()))
    (file,) = (isolated.cortex / "refused").iterdir()
    assert code == 0
    if as_json:
        assert json.loads(out) == {"server": core.url, "givenUp": {"writes": 1, "file": str(file)}}
    else:
        assert out == f"✓ Left {core.url}; all records stay here\n" and str(file) in err
    assert answer(cortex, "disconnect", "--force") == {"server": None, "givenUp": None}


def test_an_alert_is_put_away_and_what_was_refused_is_kept(cortex, core, lowered):
    lowered("Only mine")
    assert exits(cortex, "sync")[0] == 1
    (entry,) = answer(cortex, "inbox")["entries"]
    answer(cortex, "inbox", "done", entry["id"])
    assert exits(cortex, "sync")[0] == 1
    assert answer(cortex, "inbox")["entries"] == [] and answer(cortex, "status")["refused"] == 1


def test_a_core_that_begins_another_history_elsewhere_is_the_same_where_somebody_says_so(
    cortex, core, monkeypatch
):
    monkeypatch.setenv("CORTEX_CORE_TOKEN", core.let_in("ada"))
    answer(cortex, "connect", core.url)
    there = core.url.replace("127.0.0.1", "localhost")
    # With the same history nothing has to be said
    assert answer(cortex, "connect", there)["movedFrom"] == core.url
    core.ledger.renew_epoch()
    assert "--moved" in refusal(cortex, "connect", core.url)["suggestions"][0]
    code, out, err = cortex("connect", core.url, "--moved")
    assert code == 0 and f"✓ Moved from {there} to {core.url} as ada" in out, err
    assert "✓ Still connected to" in cortex("connect", core.url)[1]


def test_who_joins_under_another_name_is_told_of_both_ways(cortex, core, joined, monkeypatch):
    joined()
    monkeypatch.setenv("CORTEX_CORE_TOKEN", core.let_in("bob"))
    (advice,) = refusal(cortex, "connect", core.url)["suggestions"]
    assert "`cortex disconnect`" in advice and "`cortex --profile NAME connect URL`" in advice


def test_a_file_without_a_token_is_told_without_advice_for_projects(cortex, core, isolated):
    told = refusal(cortex, "connect", core.url, "--token-file", isolated.user / "nope")
    assert (told["code"], told["suggestions"]) == (
        "FILE_NOT_FOUND",
        ["Check the name after --token-file."],
    )


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (("", "/api/v2"), "without /api/v2"),
        (("http://", "https://"), "does it speak http://?"),
        (("127.0.0.1", "core.example.org"), "--plain-http"),
    ],
    ids=["with a path", "with TLS", "in the open"],
)
def test_an_address_that_is_nearly_right_is_told_with_what_is_wrong(
    cortex, core, monkeypatch, change, told
):
    monkeypatch.setenv("CORTEX_CORE_TOKEN", core.let_in("ada"))
    url = core.url.replace(*change) if change[0] else core.url + change[1]
    error = refusal(cortex, "connect", url)
    assert (
        told in error["message"] + "".join(error["suggestions"]) and len(error["suggestions"]) == 1
    )


def test_a_pack_is_pulled_fresh_and_offline_from_what_is_here(
    cortex, core, joined, tmp_path, monkeypatch
):
    joined()
    answer(
        cortex,
        "team",
        "subcortex",
        "create",
        "payments",
        "--name",
        "Payments",
        "--charter",
        "All about money.",
    )
    monkeypatch.setenv("CORTEX_PROFILE", "bob")
    joined("bob")
    file = tmp_path / "pack.md"
    monkeypatch.setenv("CORTEX_PROFILE", "")
    answer(cortex, "sync")
    monkeypatch.setenv("CORTEX_PROFILE", "bob")
    code, _, err = cortex("pack", "pull", "--scope", "subcortex:payments", "-o", file)
    assert code == 0, err
    assert "All about money." in file.read_text(encoding="utf-8")
    core.stop()
    code, _, err = cortex("pack", "pull", "--scope", "global", "--no-pinned", "-o", file)
    assert code == 3 and "warning:" in err and "can't be reached" in err
    assert "Payments" in file.read_text(encoding="utf-8")
    code, body, _ = exits(cortex, "pack", "pull", "--scope", "global", "-o", file)
    assert (code, body["synced"]["status"]) == (3, "offline") and "can't be reached" in body[
        "synced"
    ]["error"]


def test_doctor_says_how_it_stands_to_the_core(cortex, core, joined):
    (found,) = check_sync()
    assert found.level == "ok" and "no Core" in found.text
    joined()
    (found,) = check_sync()
    assert found.level == "ok" and core.url in found.text and "as ada" in found.text
    core.stop()
    cortex("sync")
    (found,) = check_sync()
    assert (found.level, found.fix) == ("warning", "cortex sync")


def test_agents_are_told_what_waits_and_what_was_refused(cortex, lowered):
    def warnings(tool):
        return told(cortex, tool).get("warnings", [])

    lowered("Not for tier one")
    (waits,) = warnings("cortex_get_inbox")
    assert waits == "1 write waits for the Core: others don't see that yet"
    cortex("sync")
    (refused,) = warnings("cortex_get_inbox")
    assert refused == "the Core refused 1 write; a person sees why: `cortex inbox`"
    assert refused in warnings("cortex_get_bootstrap_pack")


def test_what_was_refused_is_marked_for_people_and_kept_from_agents(cortex, lowered):
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
    found = told(cortex, "cortex_search", query="Falcon deploys", types=["threads"])
    assert (
        found.get("results", []) == []
        and told(cortex, "cortex_get_thread", thread_id=row["id"])["warnings"] == row["warnings"]
    )
    seen = {"title": "Seen", "type": "test_result", "links": [row["id"]]}
    error = told(cortex, "cortex_create_observations", observations=[seen], idempotency_key="k1")
    assert "was not accepted by the team server" in json.dumps(error)
    assert answer(cortex, "team", "observation", "list")["observations"] == []


def test_what_stays_on_this_machine_is_marked_and_speaks_for_no_team(
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
    assert told(cortex, "cortex_get_artifact", artifact_id=made)["warnings"] == [mark]
    found = told(cortex, "cortex_search", query="Falcon deploys")["results"]
    assert [one["id"] for one in found] == [why]
    pack = json.dumps(told(cortex, "cortex_get_bootstrap_pack"))
    assert made not in pack and "Falcons" not in pack
    (topic,) = told(cortex, "cortex_get_bootstrap_pack", scope="subcortex:ops")["subcortexes"]
    assert topic["warnings"] == [mark]
    answer(cortex, "disconnect")
    assert "warnings" not in answer(cortex, "team", "artifact", "list")["artifacts"][0]
    pack = json.dumps(told(cortex, "cortex_get_bootstrap_pack"))
    assert made in pack and "Falcons" in pack


def test_a_subcortex_that_was_refused_is_in_no_pack(cortex, core, joined):
    core.let_in("root")
    joined()
    answer(cortex, "team", "subcortex", "create", "ops", "--name", "Ops", "--charter", "Falcon")
    core.ledger.principals.change(core.ledger.principals.named("ada").id, tier=3)
    assert exits(cortex, "sync")[0] == 1
    assert "Falcon" not in json.dumps(told(cortex, "cortex_get_bootstrap_pack"))
    exits(cortex, "sync", "--give-up")
    assert answer(cortex, "team", "subcortex", "list", "--all")["subcortexes"] == []


def test_a_write_that_nobody_sends_says_that_it_waits(cortex, core, joined):
    assert "waiting" not in cortex("team", "thread", "create", "Alone")[2]
    joined()
    code, out, err = cortex("team", "thread", "create", "With others")
    assert code == 0 and "✓ Opened" in out
    assert (
        err
        == "waiting to be sent: 1 write; CORTEX_NO_SIDECAR is set here: they are sent by `cortex sync`\n"
    )
    assert cortex("team", "thread", "list")[2] == ""


def test_a_write_that_cortexd_sends_says_that_it_waits_for_an_answer(cortex, joined, monkeypatch):
    joined()
    monkeypatch.setattr("cortex.base.runtime.file_lock.is_held", lambda lock: True)
    err = cortex("team", "thread", "create", "The server may be gone")[2]
    assert (
        err
        == "waiting to be sent: 1 write; cortexd sends what waits as soon as the team server answers\n"
    )


def test_a_name_that_nobody_here_has_is_asked_about(cortex, core, joined, monkeypatch):
    monkeypatch.setenv("CORTEX_PROFILE", "zoe")
    joined("zoe")
    answer(cortex, "team", "thread", "create", "Of Zoe")
    answer(cortex, "sync")
    monkeypatch.setenv("CORTEX_PROFILE", "")
    joined()
    answer(cortex, "sync")
    strange = "note: no one called {} has written anything here, so maybe no one hears of this; did you mean zoe?\n"
    assert (
        strange.format("zeo")
        in cortex("team", "task", "create", "Typo", "--assign", "zeo", "--watcher", "me")[2]
    )
    assert (
        strange.format("zed")
        in cortex("team", "thread", "create", "Mention", "--body", "@zed and @zoe, see `@oops`")[2]
    )
    assert (
        "no one called"
        not in cortex("team", "task", "create", "Right", "--assign", "zoe", "--body", "@me @agent")[
            2
        ]
    )
    drafted = told(
        cortex, "cortex_create_draft", draft_type="thread", body_md="@zed?", idempotency_key="k"
    )
    assert any("no one called zed" in one for one in drafted["warnings"])


def test_who_may_not_decide_is_not_asked_to(cortex, core, joined, monkeypatch):
    joined(tier=1)
    with opened() as library:
        for place in range(3):
            draft = Draft("thread", f"Draft {place}", "text")
            number = create_draft(library, draft, actor=agent(library.settings))[0].id
    assert answer(cortex, "inbox")["entries"] == []
    assert "to decide" not in cortex("status")[1]
    told = refusal(cortex, "team", "drafts", "approve", number)
    assert told["code"] == "RIGHTS_MISSING" and "may not approve draft" in told["message"]
    core.ledger.principals.change(core.ledger.principals.named("ada").id, tier=3)
    answer(cortex, "sync")
    assert len(answer(cortex, "inbox")["entries"]) == 3
    assert "3 drafts for you to decide about" in cortex("status")[1]


def test_the_library_of_a_home_without_a_core_queues_nothing(cortex):
    answer(cortex, "team", "thread", "create", "Mine")
    with opened() as library:
        assert library.store.outbox.count() == (0, 0)
