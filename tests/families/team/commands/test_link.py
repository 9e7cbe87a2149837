"""`cortex team link`: links, contradictions and supersession."""

import pytest

from families.team.commands.command_answers import answer, refusal

pytestmark = pytest.mark.usefixtures("shop", "at_terminal")


def test_contradiction_is_a_candidate_until_judged(cortex, thread):
    first = answer(
        cortex, "team", "artifact", "create", "Token lifetime", "--body", "Tokens live 15 minutes."
    )["id"]
    second = answer(
        cortex, "team", "artifact", "create", "Token lifetime", "--body", "Tokens live 60 minutes."
    )["id"]
    (link,) = answer(cortex, "team", "link", "list", "--state", "candidate")["links"]
    assert {link["source"], link["target"]} == {first, second}
    assert any(
        "maybe contradicted by" in warning
        for warning in answer(cortex, "team", "artifact", "show", first)["warnings"]
    )
    assert "candidate" in cortex("team", "artifact", "show", second)[1]
    assert cortex("team", "link", "confirm", link["id"])[1].startswith(
        f"✓ Confirmed {link['id']}: "
    )
    assert any(
        warning.startswith("contradicted by")
        for warning in answer(cortex, "team", "artifact", "show", first)["warnings"]
    )
    assert answer(cortex, "team", "link", "dismiss", link["id"])["links"][0]["state"] == "dismissed"
    assert answer(cortex, "team", "artifact", "show", first)["warnings"] == []
    assert answer(cortex, "team", "link", "list", first)["links"] == []
    made = answer(cortex, "team", "link", "add", thread, "supports", second, "--note", "measured")
    assert (made["relation"], made["ends"]["target"]["title"]) == ("supports", "Token lifetime")
    assert "Links:\n  is supported by" in cortex("team", "artifact", "show", second)[1]
    assert [
        link["id"]
        for link in answer(cortex, "team", "link", "list", second, "--relation", "supports")[
            "links"
        ]
    ] == [made["id"]]


def test_supersession_by_a_draft_artifact_says_how_to_accept_it(cortex):
    old, new = (
        answer(cortex, "team", "artifact", "create", title)["id"] for title in ("Old", "New")
    )
    for arguments in (
        ("team", "artifact", "supersede", old, new),
        ("team", "link", "add", new, "supersedes", old),
    ):
        error = refusal(cortex, *arguments)
        assert "accept it first" in error["message"]
        assert f"cortex team artifact accept {new} --evidence" in error["suggestions"][0]
