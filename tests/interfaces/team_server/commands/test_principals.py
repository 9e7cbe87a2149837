"""`cortex core principal …`: principals are added, changed, granted, revoked."""

from __future__ import annotations

import pytest

from interfaces.team_server.commands.conftest import owner_of

pytestmark = pytest.mark.usefixtures("isolated")


def test_principals_are_added_changed_and_granted(core):
    ada = core("principal", "add", "ada", "--tier", "3", "--read", "*")
    assert (ada["tier"], ada["grants"]) == (3, [{"subcortex": "*", "slug": "*", "writes": False}])
    assert core("principal", "grant", "ada", "*", "--write")["grants"][0]["writes"]
    assert core("principal", "ungrant", "ada", "*")["grants"] == []
    changed = core("principal", "change", "ada", "--tier", "1", "--sensitive")
    assert (changed["tier"], changed["sensitive"]) == (1, True)
    assert core.refused("principal", "grant", "ada", "payments")["code"] == "SCOPE_NOT_FOUND"
    assert core.refused("principal", "ungrant", "ada", "*")["code"] == "RECORD_UNKNOWN"
    assert core.refused("principal", "change", "bob", "--tier", "1")["code"] == "RECORD_UNKNOWN"
    assert core.refused("principal", "change", "ada")["code"] == "ARGUMENT_INVALID"


@pytest.mark.parametrize(
    "name", ["Ada", "a", "me", "person", "agent", "ada/agent", "ada b", ".ada", "a" * 51]
)
def test_reserved_or_malformed_principal_name_is_refused(core, name):
    assert core.refused("principal", "add", name)["code"] == "RECORD_INVALID"


def test_duplicate_principal_name_is_refused_with_alternatives(core):
    error = core.refused("principal", "add", "root")
    assert error["code"] == "RECORD_INVALID" and len(error["suggestions"]) == 1
    assert "cortex core principal change root" in error["suggestions"][0]
    assert "cortex core token create root" in error["suggestions"][0]


def test_token_of_a_revoked_principal_works_again_after_restoring(core):
    core("principal", "add", "ada")
    token = core("token", "create", "ada", "--label", "laptop")["token"]
    assert owner_of(token) == "ada"
    assert core("principal", "change", "ada", "--revoke")["state"] == "revoked"
    assert owner_of(token) is None
    core("principal", "change", "ada", "--restore")
    assert owner_of(token) == "ada"


@pytest.mark.parametrize("how", [["--tier", "3"], ["--revoke"]])
def test_last_admin_can_be_neither_demoted_nor_revoked(core, how):
    assert core.refused("principal", "change", "root", *how)["code"] == "RECORD_INVALID"
    core("principal", "add", "ada", "--tier", "4")
    core("principal", "change", "root", *how)


def test_unknown_principal_or_token_suggests_the_command_that_lists_them(core):
    assert core.refused("token", "create", "nobody")["suggestions"] == [
        "`cortex core principal list` shows all principals of the Core."
    ]
    core("principal", "ungrant", "root", "*")
    (advice,) = core.refused("principal", "ungrant", "root", "*")["suggestions"]
    assert "cortex core principal list" in advice
    assert core.refused("token", "revoke", "nope")["suggestions"] == [
        "`cortex core token list` shows them."
    ]
