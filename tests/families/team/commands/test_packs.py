"""`cortex pack build` and `cortex pack pull`: one content in both formats, within its budget."""

import json
import re

import pytest

from cortex.base.text import estimate_tokens
from families.team.commands.command_answers import answer, exits, refusal, run_tool

pytestmark = pytest.mark.usefixtures("isolated")

ID = re.compile(r"\b(?:thread|artifact|task)_[0-9A-Z]{26}\b")


@pytest.fixture
def team(cortex, shop, at_terminal):
    """A subcortex with what a pack has, and another one."""
    answer(
        cortex,
        *(
            "team",
            "subcortex",
            "create",
            "auth",
            "--name",
            "Who comes in",
            "--charter",
            "# Charter\n\nNobody without a ticket.",
        ),
        *("--term", "Token: proves who you are", "--naming", "Tables are plural"),
    )
    answer(
        cortex,
        "team",
        "subcortex",
        "create",
        "shipping",
        "--name",
        "What goes out",
        "--charter",
        "Boxes.",
    )
    link = "https://example.org/why"
    made = {
        "runbook": answer(
            cortex,
            *(
                "team",
                "artifact",
                "create",
                "Renewing keys",
                "--body",
                "## First\n\n```\n# not a heading\n",
                "--type",
                "runbook",
            ),
            *(
                "--subcortex",
                "auth",
                "--state",
                "accepted",
                "--evidence",
                link,
                "--review-by",
                "2020-01-31",
            ),
        )["id"],
        "incident": answer(
            cortex,
            "team",
            "thread",
            "create",
            "Nobody can log in",
            "--type",
            "incident",
            "--subcortex",
            "auth",
            "--body",
            "Since 9.",
        )["id"],
        "urgent": answer(
            cortex,
            *(
                "team",
                "task",
                "create",
                "Call the vault",
                "--priority",
                "urgent",
                "--subcortex",
                "auth",
                "--assign",
                "me",
            ),
        )["id"],
        "secret": answer(
            cortex,
            "team",
            "artifact",
            "create",
            "Salaries",
            "--body",
            "Much.",
            "--subcortex",
            "auth",
            "--sensitive",
        )["id"],
    }
    answer(cortex, "team", "subcortex", "pin", "auth", made["runbook"], made["secret"])
    return made


def built(cortex, *options):
    """The pack that goes to stdout."""
    code, out, err = cortex("pack", "build", "--output", "-", *options)
    assert code == 0, err
    return out


@pytest.mark.parametrize(
    "options", [(), ("--scope", "global"), ("--scope", "subcortex:auth"), ("--budget", "450")]
)
def test_both_pack_formats_have_the_same_content(cortex, team, options):
    body = json.loads(built(cortex, "--format", "json", *options))
    text = built(cortex, *options)
    assert body["cortex_pack"] == 1
    assert set(ID.findall(json.dumps(body))) == set(ID.findall(text))
    for name in ("rules", "glossary", "naming"):
        assert all(f"- {entry}" in text for entry in body.get(name, []))
    for name in ("incidents", "priorities", "pinned", "subcortexes"):
        titles = [entry.get("title") or entry["slug"] for entry in body.get(name, [])]
        assert all(title in text for title in titles)
    headings = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert len(headings) == len(
        [name for name, value in body.items() if isinstance(value, list) and name != "notes"]
    )


def test_pack_has_rules_charters_pins_terms_priorities_and_incidents(cortex, team):
    body = json.loads(built(cortex, "--format", "json", "--scope", "subcortex:auth"))
    assert [subcortex["slug"] for subcortex in body["subcortexes"]] == ["auth"]
    assert body["subcortexes"][0]["charter"].endswith("Nobody without a ticket.")
    assert [pin["id"] for pin in body["pinned"]] == [team["runbook"]]
    assert body["pinned"][0]["text"].startswith("## First")
    assert body["pinned"][0]["warnings"] == ["review overdue since 2020-01-31"]
    assert [incident["id"] for incident in body["incidents"]] == [team["incident"]]
    assert [(task["id"], task["assignees"]) for task in body["priorities"]] == [
        (team["urgent"], ["person"])
    ]
    assert body["glossary"] == ["Token (auth): proves who you are"]
    assert (body["naming"], body["truncated"]) == (["Tables are plural"], False)
    text = built(cortex, "--scope", "subcortex:auth")
    assert "#### Charter" in text
    assert "Warning: review overdue since 2020-01-31" in text
    assert "```\n# not a heading\n```" in text  # what a text leaves open is closed


def test_pack_without_pins_has_the_latest_accepted_artifacts(cortex, team):
    assert "Accepted lately" not in built(cortex)
    answer(cortex, "team", "subcortex", "unpin", "auth", team["runbook"], team["secret"])
    text = built(cortex)
    assert (
        "## Accepted lately (nothing is pinned)" in text
        and "# not a heading" in text
        and "Salaries" not in text
    )


def test_pack_leaves_out_sensitive_records_unless_requested(cortex, team):
    assert team["secret"] not in built(cortex)
    assert "1 sensitive record left out" in built(cortex)
    assert team["secret"] in built(cortex, "--sensitive")


@pytest.mark.parametrize("budget", [200, 260, 330, 500, 800, 16_000])
def test_both_pack_formats_keep_to_the_budget(cortex, team, budget):
    for name in ("markdown", "json"):
        text = built(cortex, "--format", name, "--budget", budget)
        assert estimate_tokens(text) <= budget
    if budget < 400:
        assert json.loads(built(cortex, "--format", "json", "--budget", budget))["truncated"]
        assert "Left out for want of room" in built(cortex, "--budget", budget)


def test_project_with_a_subcortex_gets_its_pack(cortex, team):
    answer(cortex, "team", "context", "set", "--subcortex", "auth", "--task", team["urgent"])
    body = json.loads(built(cortex, "--format", "json"))
    assert (body["scope"], body["subcortexes"][0]["slug"]) == ("workspace", "auth")
    assert [task["id"] for task in body["here"]] == [team["urgent"]]


def test_pack_overwrites_packs_only_unless_forced(cortex, team, shop):
    code, out, _ = cortex("pack", "build")
    file = shop / "cortex-pack.md"
    assert (code, out.startswith("✓ Wrote cortex-pack.md: workspace, ")) == (0, True)
    assert file.read_text(encoding="utf-8").startswith("<!-- cortex pack 1: scope workspace")
    done = answer(cortex, "pack", "build", "--scope", "global")
    assert (done["output"], done["format"], done["counts"]["pinned"]) == (str(file), "markdown", 1)
    assert "scope global" in file.read_text(encoding="utf-8")
    assert answer(cortex, "pack", "build", "--out", "team.json")["format"] == "json"
    assert answer(cortex, "pack", "build", "-o", "team.json")["format"] == "json"
    mine = shop / "mine.md"
    mine.write_text("# Mine\n", encoding="utf-8")
    assert refusal(cortex, "pack", "build", "--output", mine)["code"] == "ARGUMENT_INVALID"
    assert mine.read_text(encoding="utf-8") == "# Mine\n"
    assert cortex("pack", "build", "--output", mine, "--force")[0] == 0
    assert sorted(path.name for path in shop.iterdir() if "pack" in path.name) == ["cortex-pack.md"]


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (("--scope", "everything"), "ARGUMENT_INVALID"),
        (("--scope", "subcortex:nowhere"), "SCOPE_NOT_FOUND"),
        (("--budget", "10"), "BUDGET_TOO_SMALL"),
        (("--output", "nowhere/pack.md"), "FILE_NOT_FOUND"),
        (("--output", "src"), "PERMISSION_DENIED"),
    ],
)
def test_invalid_pack_options_are_refused_and_write_nothing(cortex, shop, options, code):
    before = sorted(shop.iterdir())
    assert refusal(cortex, "pack", "build", *options)["code"] == code
    assert sorted(shop.iterdir()) == before


def test_pack_of_an_empty_store_has_the_rules(cortex, shop):
    body = json.loads(built(cortex, "--format", "json"))
    assert body["rules"]
    assert "subcortexes" not in body
    assert cortex("pack", "build", "--output", "-", "--json")[0] == 2


def test_pack_is_pulled_fresh_or_from_the_replica_when_offline(
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


def test_refused_subcortex_is_in_no_pack(cortex, core, joined):
    core.let_in("root")
    joined()
    answer(cortex, "team", "subcortex", "create", "ops", "--name", "Ops", "--charter", "Falcon")
    core.ledger.principals.change(core.ledger.principals.named("ada").id, tier=3)
    assert exits(cortex, "sync")[0] == 1
    assert "Falcon" not in json.dumps(run_tool("cortex_get_bootstrap_pack"))
    exits(cortex, "sync", "--give-up")
    assert answer(cortex, "team", "subcortex", "list", "--all")["subcortexes"] == []
