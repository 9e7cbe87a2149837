"""`cortex team artifact`: evidence, acceptance, supersession, deprecation and versions."""

import json
import os
import sys

import pytest

from families.team.commands.command_answers import answer, refusal

pytestmark = pytest.mark.usefixtures("shop", "at_terminal")


def test_artifact_is_accepted_with_evidence_and_keeps_its_versions(cortex, thread, tmp_path):
    file = tmp_path / "adr.md"
    file.write_text("Tokens live 15 minutes.\n", encoding="utf-8")
    made = answer(
        cortex,
        "team",
        "artifact",
        "create",
        "Lives of tokens",
        "--body-file",
        file,
        "--type",
        "adr",
        "--owner",
        "me",
    )
    number = made["id"]
    assert (made["state"], made["body"], made["owner"]) == (
        "draft",
        "Tokens live 15 minutes.",
        "person",
    )
    error = refusal(cortex, "team", "artifact", "accept", number)
    assert (
        error["code"],
        f"cortex team artifact accept {number} --evidence" in str(error["suggestions"]),
    ) == ("RECORD_INVALID", True)
    answer(
        cortex,
        "team",
        "artifact",
        "edit",
        number,
        "--body",
        "Tokens live an hour.",
        "--tag",
        "tokens",
        "--review-by",
        "2020-01-31",
    )
    accepted = answer(
        cortex, "team", "artifact", "accept", number[:18], "--evidence", f"thread:{thread}=the talk"
    )
    assert accepted["state"] == "accepted"
    assert accepted["evidence"] == [{"kind": "thread", "ref": thread, "note": "the talk"}]
    assert accepted["last_reviewed"]
    shown = answer(cortex, "team", "artifact", "show", number)
    assert "review overdue since 2020-01-31" in shown["warnings"]
    assert [event["action"] for event in shown["history"]][-2:] == ["edit", "create_artifact"]
    assert (
        answer(cortex, "team", "artifact", "show", number, "--version", "1")["body"]
        == "Tokens live 15 minutes."
    )
    _, out, _ = cortex("team", "artifact", "show", number)
    assert "warning: review overdue since 2020-01-31" in out
    assert f"{thread}: How long do tokens live? (the talk)" in out
    assert "create artifact" in cortex("team", "artifact", "show", number, "--history")[1]
    assert [
        artifact["id"]
        for artifact in answer(cortex, "team", "artifact", "list", "--overdue")["artifacts"]
    ] == [number]
    done = answer(
        cortex,
        "team",
        "artifact",
        "edit",
        number,
        "--reviewed",
        "--review-by",
        "2999-01-31",
        "--untag",
        "TOKENS",
    )
    assert (done["tags"], done["review_by"]) == ([], "2999-01-31")
    assert answer(cortex, "team", "artifact", "list", "--overdue")["artifacts"] == []


def test_supersession_is_shown_in_both_artifacts(cortex):
    page = "https://example.org/a?b=c"
    make = (
        "team",
        "artifact",
        "create",
        "--state",
        "accepted",
        "--evidence",
        f"url:{page} =a page",
    )
    old, new = (answer(cortex, *make, title)["id"] for title in ("Ports", "Ports again"))
    assert answer(cortex, "team", "artifact", "show", old)["evidence"] == [
        {"kind": "url", "ref": page, "note": "a page"}
    ]
    assert answer(cortex, "team", "artifact", "supersede", old, new)["superseded_by"] == new
    shown = answer(cortex, "team", "artifact", "show", new)
    assert shown["supersedes"] == old
    assert [link["relation"] for link in shown["links"]] == ["supersedes"]
    assert [
        artifact["id"] for artifact in answer(cortex, "team", "artifact", "list")["artifacts"]
    ] == [new]
    assert f"Replaced by: {new}" in cortex("team", "artifact", "show", old)[1].replace(
        "Replaced by:", "Replaced by: "
    ).replace("  ", " ")


def test_deprecated_artifact_shows_its_note(cortex):
    number = answer(cortex, "team", "artifact", "create", "Ports", "--body", "Port 80.")["id"]
    assert (
        cortex("team", "artifact", "deprecate", number, "--note", "We have no ports.")[1]
        == f"✓ Deprecated {number}: Ports\n"
    )
    assert (
        "**Deprecated:** We have no ports.\n\nPort 80."
        in cortex("team", "artifact", "show", number)[1]
    )


def test_evidence_is_removed_by_its_id_or_address(cortex, thread):
    number = answer(
        cortex,
        *(
            "team",
            "artifact",
            "create",
            "Ports",
            "--evidence",
            f"thread:{thread}",
            "--evidence",
            "https://example.org/x",
        ),
    )["id"]
    left = answer(cortex, "team", "artifact", "edit", number, "--remove-evidence", thread[:20])[
        "evidence"
    ]
    assert [evidence["ref"] for evidence in left] == ["https://example.org/x"]
    assert (
        answer(
            cortex, "team", "artifact", "edit", number, "--remove-evidence", "https://example.org/x"
        )["evidence"]
        == []
    )
    assert (
        refusal(cortex, "team", "artifact", "edit", number, "--remove-evidence", thread)["code"]
        == "ARGUMENT_INVALID"
    )


def test_edit_during_a_concurrent_change_overwrites_nothing(cortex, editor, monkeypatch):
    number = answer(cortex, "team", "artifact", "create", "Ports", "--body", "8080")["id"]
    editor("text = '9090\\n'")
    assert answer(cortex, "team", "artifact", "edit", number)["body"] == "9090"
    run = "import subprocess\nsubprocess.run([sys.executable, '-m', 'cortex', 'team', 'artifact', 'edit', '%s', '--body', '7070'])"
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    editor(f"{run % number}\ntext = '6060'")
    monkeypatch.setenv("EDITOR", os.environ["EDITOR"].replace(" -S ", " "))
    code, out, _ = cortex("team", "artifact", "edit", number, "--json")
    error = json.loads(out)["error"] if code else None
    assert error is not None
    assert error["code"] == "RECORD_CHANGED"
    assert "--body-file" in str(error["suggestions"])
    assert answer(cortex, "team", "artifact", "show", number)["body"] == "7070"
