"""`cortex team observation`: observations of agents, listed and shown."""

import pytest

from cortex.base.actors import agent
from cortex.base.record_model import Observation
from cortex.families.team.writes.create import create_observations
from families.team.commands.command_answers import answer, opened, refusal

pytestmark = pytest.mark.usefixtures("shop", "at_terminal")


def test_observations_are_listed_filtered_and_shown(cortex, auth, thread):
    with opened() as library:
        seen = [
            Observation(
                "Tokens live 60 minutes",
                "Measured twice.",
                "test_result",
                ("tokens",),
                auth,
                thread,
            ),
            Observation("The cache is cold after a restart"),
        ]
        done = create_observations(library, seen, actor=agent(library.settings), key="seen")
        first, second = (outcome.id for outcome in done.outcomes)
    listed = answer(cortex, "team", "observation", "list")
    assert [observation["id"] for observation in listed["observations"]] == [second, first]
    assert not listed["more"]
    for options in (
        ("--type", "test_result"),
        ("--thread", thread),
        ("--tag", "tokens"),
        ("--subcortex", "auth"),
    ):
        assert [
            observation["id"]
            for observation in answer(cortex, "team", "observation", "list", *options)[
                "observations"
            ]
        ] == [first]
    whole = answer(cortex, "team", "observation", "show", first)
    assert (whole["summary"], whole["author"]) == ("Measured twice.", "agent")
    text = cortex("team", "observation", "show", first)[1]
    assert "Measured twice." in text and "How long do tokens live?" in text and "auth" in text
    assert refusal(cortex, "team", "observation", "show", thread)["code"] == "RECORD_UNKNOWN"
