"""`cortex team subcortex`: charter, glossary, naming rules, pins and state."""

import re

import pytest

from families.team.commands.command_answers import SECRET, answer, refusal

pytestmark = pytest.mark.usefixtures("shop", "at_terminal")


def test_charter_terms_and_naming_rules_of_a_subcortex_are_edited(cortex, tmp_path):
    file = tmp_path / "charter.md"
    file.write_bytes("\ufeff# Größe\r\n\r\nWho may come in.\r\n".encode())
    made = answer(
        cortex,
        *(
            "team",
            "subcortex",
            "create",
            "auth",
            "--name",
            "Who comes in",
            "--charter-file",
            file,
            "--steward",
            "me",
        ),
        *("--term", "Token: proves who you are", "--naming", "Tables are plural"),
    )
    assert (made["slug"], made["charter"], made["stewards"]) == (
        "auth",
        "# Größe\n\nWho may come in.",
        ["person"],
    )
    assert made["glossary"] == [{"term": "Token", "meaning": "proves who you are"}]
    changed = answer(
        cortex,
        *(
            "team",
            "subcortex",
            "edit",
            "auth",
            "--name",
            "Who may come in",
            "--term",
            "token: a ticket",
            "--naming",
            "No verbs",
        ),
        *("--remove-naming", "tables are plural", "--remove-steward", "me"),
    )
    assert (changed["name"], changed["naming"], changed["stewards"]) == (
        "Who may come in",
        ["No verbs"],
        [],
    )
    assert changed["glossary"] == [{"term": "token", "meaning": "a ticket"}]
    assert (changed["charter"], changed["version"]) == (made["charter"], 2)
    assert (
        cortex("team", "subcortex", "edit", "auth", "--name", "Who may come in")[1]
        == "Nothing was changed.\n"
    )
    _, out, _ = cortex("team", "subcortex", "show", "auth")
    assert "Charter:\n# Größe" in out
    assert "token: a ticket" in out


def test_subcortex_shows_its_pins_and_returns_from_the_archive(cortex, auth, thread):
    assert answer(cortex, "team", "subcortex", "pin", "auth", thread[:20])["pinned_threads"] == [
        thread
    ]
    shown = answer(cortex, "team", "subcortex", "show", auth)
    assert [pin["id"] for pin in shown["pinned"]] == [thread]
    assert "1 pinned" in cortex("team", "subcortex", "list")[1]
    assert answer(cortex, "team", "subcortex", "unpin", "auth", thread)["pinned_threads"] == []
    assert answer(cortex, "team", "subcortex", "archive", "auth")["state"] == "archived"
    assert answer(cortex, "team", "subcortex", "list")["subcortexes"] == []
    assert cortex("team", "subcortex", "list")[2] == "nothing found\n"
    assert [
        subcortex["slug"]
        for subcortex in answer(cortex, "team", "subcortex", "list", "--all")["subcortexes"]
    ] == ["auth"]
    assert (
        answer(cortex, "team", "subcortex", "edit", "auth", "--state", "active")["state"]
        == "active"
    )


def test_charter_is_edited_and_kept_when_refused(cortex, auth, editor):
    editor("text = 'Only who has a ticket.\\n'")
    assert (
        answer(cortex, "team", "subcortex", "edit", "auth")["charter"] == "Only who has a ticket."
    )
    editor("pass")
    assert cortex("team", "subcortex", "edit", "auth")[1] == "Nothing was changed.\n"
    editor(f"text = 'The key is {SECRET}'")
    error = refusal(cortex, "team", "subcortex", "edit", "auth")
    assert error["code"] == "SENSITIVE_BLOCKED"
    advice = " ".join(error["suggestions"])
    found = re.search(
        r"What you wrote is in (\S+): `cortex team subcortex edit auth --charter-file \S+` takes it",
        advice,
    )
    assert found
    assert SECRET not in advice
    with open(found[1], encoding="utf-8") as kept:
        assert SECRET in kept.read()
