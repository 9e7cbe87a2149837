"""`cortex core token …`: tokens are created and revoked."""

from __future__ import annotations

import pytest

from interfaces.team_server.commands.conftest import owner_of

pytestmark = pytest.mark.usefixtures("isolated")


def test_revoked_token_is_rejected(core):
    made = core("token", "create", "root", "--days", "30")
    assert made["expires_at"] and owner_of(made["token"])
    core("token", "revoke", made["id"])
    assert owner_of(made["token"]) is None
    assert "before" in core.refused("token", "revoke", made["id"])["message"]
    assert "no token" in core.refused("token", "revoke", "nope")["message"]
    listed = {token["id"]: token for token in core("token", "list")["tokens"]}
    assert listed[made["id"]]["revoked_at"] and not listed[core.made["tokenId"]]["revoked_at"]
