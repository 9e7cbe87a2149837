"""Checks and notes of commands that write a record."""

import pytest

from families.team.commands.command_answers import answer, refusal, run_tool

pytestmark = pytest.mark.usefixtures("shop", "at_terminal")


def test_write_beyond_the_known_tier_is_refused_before_it_is_sent(
    cortex, core, joined, at_terminal
):
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
    error = refusal(cortex, *made, "--state", "accepted")
    assert (
        error["code"] == "RIGHTS_MISSING"
        and "tier 2" in error["message"]
        and "propose it" in error["suggestions"][0]
    )
    assert answer(cortex, "team", "artifact", "list", "--all")["artifacts"] == []
    answer(cortex, *made, "--state", "proposed")
    assert answer(cortex, "sync")["flushed"] == 1
    core.ledger.principals.change(core.ledger.principals.named("ada").id, tier=3)
    answer(cortex, "sync")
    answer(cortex, *made, "--state", "accepted")
    assert answer(cortex, "sync")["flushed"] == 1


def test_unknown_name_prints_a_note_with_a_similar_one(cortex, core, joined, monkeypatch):
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
    drafted = run_tool(
        "cortex_create_draft", draft_type="thread", body_md="@zed?", idempotency_key="k"
    )
    assert any("no one called zed" in warning for warning in drafted["warnings"])


def test_code_link_to_a_missing_file_is_kept_with_a_warning(cortex):
    code, _, err = cortex("team", "thread", "create", "A typo", "--code", "src/nope.py#f")
    assert code == 0 and "there is no file src/nope.py here" in err


@pytest.mark.parametrize("kind", ["thread", "artifact"])
def test_duplicate_title_prints_a_note_with_the_first_record(cortex, auth, kind):
    first = answer(cortex, "team", kind, "create", "Größe of tokens?")["id"]
    assert cortex("team", kind, "create", "grösse of TOKENS?", "--subcortex", "auth")[2] == ""
    code, out, err = cortex("team", kind, "create", "grösse of TOKENS?", "--key", "twice")
    assert (code, "✓" in out, f"note: {first} has the same title" in err) == (0, True, True)
    assert (
        f"note: {first} has the same title"
        in cortex("team", kind, "create", "grösse of TOKENS?", "--key", "twice")[2]
    )
    assert "same title" not in cortex("team", kind, "create", "?!")[2]


def test_possible_contradiction_prints_a_note(cortex, thread):
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
