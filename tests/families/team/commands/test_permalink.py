"""Permalinks in place of ids."""

import pytest

from families.team.commands.command_answers import answer, refusal

pytestmark = pytest.mark.usefixtures("shop", "at_terminal")


def test_permalink_opens_a_record_of_any_kind(cortex, thread):
    comment = answer(cortex, "team", "thread", "comment", thread, "Fifteen minutes.")["id"]
    artifact = answer(cortex, "team", "artifact", "create", "Ports", "--body", "8080.")["id"]
    answer(cortex, "team", "subcortex", "create", "billing", "--name", "Billing")
    for kind, number in (("thread", thread), ("comment", comment), ("artifact", artifact)):
        assert answer(cortex, "show", f"cortex://{kind}/{number}")["id"] == number
        assert answer(cortex, "show", number[:20])["id"] == number
    assert answer(cortex, "show", "cortex://subcortex/billing")["slug"] == "billing"
    assert "Fifteen minutes." in cortex("show", f"cortex://comment/{comment}")[1]
    assert f"cortex://thread/{thread}" in cortex("show", comment)[1]
    assert answer(cortex, "team", "thread", "show", f"cortex://thread/{thread}")["id"] == thread
    assert (
        refusal(cortex, "show", "cortex://thread/thread_01ARZ3NDEKTSV4RRFFQ69G5FAV")["code"]
        == "RECORD_UNKNOWN"
    )
