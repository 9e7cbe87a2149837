"""The permissions of each tier, as the handbook documents them."""

from __future__ import annotations

import pytest

from cortex.base.actors import COMMAND, DECISIONS, SERVER, agent
from cortex.base.errors import InputError
from cortex.base.record_model import Actor
from cortex.base.settings import Settings
from cortex.families.team.permissions import TIERS, describe_action, may, need

# What each tier may do beside what the tiers below it may.
MORE_BY_TIER = {
    0: {"acknowledge"},
    1: {"observe", "draft"},
    2: {"create_thread", "comment", "create_task", "update_task", "propose_artifact", "link"},
    3: {
        "edit",
        "approve_draft",
        "reject_draft",
        "accept_artifact",
        "supersede_artifact",
        "judge_link",
        "resolve_thread",
        "sensitive",
    },
    4: {"create_subcortex", "edit_subcortex"},
}
EVERY_ACTION = set().union(*MORE_BY_TIER.values())


@pytest.mark.parametrize("tier", range(5))
def test_each_tier_has_exactly_its_documented_permissions(tier: int):
    actor = Actor("ada", tier, SERVER)
    allowed = set().union(*(MORE_BY_TIER[below] for below in range(tier + 1)))
    for action in EVERY_ACTION:
        assert may(actor, action) is (action in allowed), action
        if action in allowed:
            need(actor, action)
        else:
            with pytest.raises(InputError) as refused:
                need(actor, action)
            assert refused.value.code == "RIGHTS_MISSING"


def test_every_action_belongs_to_some_tier():
    assert set(TIERS) == EVERY_ACTION


def test_refusal_names_the_action_and_the_tier_that_may_do_it():
    with pytest.raises(InputError) as refused:
        need(Actor("ada", 1, SERVER), "create_thread")
    assert refused.value.message == "ada (tier 1) may not create thread: that needs tier 2"
    assert refused.value.context == {"action": "create_thread", "tier": 1, "needed": 2}
    with pytest.raises(InputError, match="may not write what is sensitive: that needs tier 3"):
        need(Actor("ada", 2, SERVER), "sensitive")
    assert describe_action("edit_subcortex") == "edit subcortex"


@pytest.mark.parametrize("action", sorted(set(DECISIONS) & EVERY_ACTION))
def test_decision_without_a_terminal_is_refused_at_any_tier(action: str):
    with pytest.raises(InputError) as refused:
        need(Actor("person", 4, COMMAND), action)
    assert refused.value.code == "APPROVAL_NEEDED"


@pytest.mark.parametrize(("wished", "given"), [(1, 1), (2, 2), (3, 2), (4, 2)])
def test_agent_never_gets_more_than_tier_2(wished: int, given: int):
    settings = Settings()
    settings.team.__dict__["agent_tier"] = wished  # past the check of its range
    assert (agent(settings).name, agent(settings).tier) == ("agent", given)
