"""Principals and tokens: stored as hashes, valid until revoked or expired."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from cortex.base.errors import CortexError
from cortex.base.record_model import Actor
from cortex.engine.store.records.ledger import Ledger
from cortex.engine.store.records.principals import USED_MS, Principal, Principals, hash_of

ADA = "principal_1"


def refused(work: Callable[[], object]) -> CortexError:
    with pytest.raises(CortexError) as caught:
        work()
    return caught.value


@pytest.fixture
def principals(ledger: Ledger) -> Principals:
    ledger.principals.add(ADA, "ada", 2, False, {"*": True, "subcortex_1": False})
    return ledger.principals


def test_principal_is_found_by_name_with_its_permissions(principals: Principals) -> None:
    ada = principals.named("ada")
    assert ada is not None and 0 < ada.created <= time.time() * 1000
    assert ada == Principal(
        ADA, "ada", 2, False, "active", ada.created, {"*": True, "subcortex_1": False}
    )
    bob = principals.add("principal_2", "bob", 4, True, {})
    assert principals.all() == [ada, bob] and principals.named("Ada") is None and bob.grants == {}


def test_principal_name_is_unique(principals: Principals) -> None:
    error = refused(lambda: principals.add("principal_2", "ada", 1, False, {}))
    assert error.code == "RECORD_INVALID" and error.context == {"field": "name"}
    assert [principal.id for principal in principals.all()] == [ADA]


def test_permissions_of_a_principal_change_one_by_one(principals: Principals) -> None:
    principals.change(ADA, tier=0, sensitive=True)
    principals.change(ADA, grants={"subcortex_2": True})
    ada = principals.named("ada")
    assert ada is not None and (ada.tier, ada.sensitive, ada.state) == (0, True, "active")
    assert ada.grants == {"subcortex_2": True}
    principals.change(ADA, state="revoked", grants={}, sensitive=False)
    ada = principals.named("ada")
    assert ada is not None and (ada.state, ada.grants, ada.sensitive, ada.tier) == (
        "revoked",
        {},
        False,
        0,
    )


def test_unknown_principal_cannot_be_changed_and_gets_no_token(principals: Principals) -> None:
    assert refused(lambda: principals.change("principal_9", tier=4)).code == "RECORD_UNKNOWN"
    assert refused(lambda: principals.make_token("principal_9")).code == "RECORD_UNKNOWN"
    assert principals.tokens() == []


def test_token_identifies_its_principal_and_is_stored_nowhere(
    ledger: Ledger, principals: Principals
) -> None:
    token, secret = principals.make_token(ADA, "laptop")
    assert principals.by_token(secret) == principals.named("ada")
    assert (token.principal, token.label, token.expires, token.revoked) == (ADA, "laptop", 0, 0)
    # ctx, the id, and the secret, which may contain "_" as well.
    _, _, hidden = secret.split("_", 2)
    assert len(hidden) >= 32
    with ledger.connections.read() as connection:
        for table in ("tokens", "principals", "grants", "facts"):
            for row in connection.execute(f"SELECT * FROM {table}"):
                assert hidden.encode() not in b" ".join(
                    bytes(value) if isinstance(value, bytes | memoryview) else str(value).encode()
                    for value in row
                )
        (kept,) = connection.execute("SELECT hash FROM tokens").fetchone()
    assert len(bytes(kept)) == 32 and token.id in secret and principals.make_token(ADA)[1] != secret


def test_malformed_token_identifies_no_principal(principals: Principals) -> None:
    principals.make_token(ADA)
    for secret_text in (
        "",
        "ctx_",
        "ctx__",
        "ctx_abc",
        "ctx_abc_",
        "ctx_abc_def",
        "ctx_\0_x",
        "ctx_ä_ö",
        "ctx_a_\udc80",
        "x" * 9_999,
    ):
        assert principals.by_token(secret_text) is None


def test_token_with_a_wrong_or_partial_secret_is_rejected(principals: Principals) -> None:
    (first, secret_text), (_, other) = principals.make_token(ADA), principals.make_token(ADA)
    swapped = f"ctx_{first.id}_{other.removeprefix('ctx_').partition('_')[2]}"
    for wrong in (
        swapped,
        secret_text[:-1],
        secret_text + "x",
        secret_text.upper(),
        secret_text.removeprefix("ctx_"),
    ):
        assert principals.by_token(wrong) is None


def test_revoked_token_is_rejected(principals: Principals) -> None:
    (token, secret_text), (_, other) = principals.make_token(ADA), principals.make_token(ADA)
    assert (
        principals.revoke(token.id)
        and not principals.revoke(token.id)
        and not principals.revoke("nothing")
    )
    assert principals.by_token(secret_text) is None and principals.by_token(other) is not None
    assert {token.id: token.revoked > 0 for token in principals.tokens()}[token.id]


def test_expired_token_is_rejected(principals: Principals) -> None:
    now = int(time.time() * 1000)
    assert principals.by_token(principals.make_token(ADA, expires=now + 60_000)[1]) is not None
    assert principals.by_token(principals.make_token(ADA, expires=now)[1]) is None


def test_tokens_of_a_revoked_principal_are_rejected_until_reinstated(
    principals: Principals,
) -> None:
    _, secret_text = principals.make_token(ADA)
    principals.change(ADA, state="revoked")
    assert principals.by_token(secret_text) is None
    principals.change(ADA, state="active", tier=1)
    found = principals.by_token(secret_text)
    assert found is not None and found.tier == 1


def test_hashes_of_valid_tokens_are_listed_together(principals: Principals) -> None:
    now = int(time.time() * 1000)
    good, later = principals.make_token(ADA)[1], principals.make_token(ADA, expires=now + 60_000)[1]
    principals.make_token(ADA, expires=now)
    principals.revoke(principals.make_token(ADA)[0].id)
    assert principals.good() == {hash_of(good), hash_of(later)}
    principals.change(ADA, state="revoked")
    assert principals.good() == frozenset()


def test_last_use_of_a_token_is_recorded_now_and_then(
    ledger: Ledger, principals: Principals
) -> None:
    token, secret_text = principals.make_token(ADA)
    assert principals.tokens()[0].used == 0
    principals.by_token(secret_text)
    (used,) = (token.used for token in principals.tokens())
    assert used >= token.created
    with ledger.connections.write() as connection:
        connection.execute("UPDATE tokens SET used = ?", (used - USED_MS // 2,))
    principals.by_token(secret_text)
    assert principals.tokens()[0].used == used - USED_MS // 2  # that is exact enough
    with ledger.connections.write() as connection:
        connection.execute("UPDATE tokens SET used = ?", (used - 2 * USED_MS,))
    principals.by_token(secret_text)
    assert principals.tokens()[0].used >= used


def test_token_is_accepted_while_its_use_cannot_be_recorded(
    database: str, open_one: Callable[[str], Ledger]
) -> None:
    first = open_one(database)
    first.principals.add(ADA, "ada", 2, False, {})
    _, secret_text = first.principals.make_token(ADA)
    other = open_one(database)
    with first.connections.write() as connection:  # somebody writes for long
        assert (
            other.principals.by_token(secret_text) is not None
            and other.principals.tokens()[0].used > 0
        )
        connection.execute("UPDATE tokens SET used = 0")
        found = other.principals.by_token(secret_text)
    assert found is not None and found.name == "ada" and first.principals.tokens()[0].used == 0


FULL = {
    "sqlite": [
        "CREATE TRIGGER full BEFORE UPDATE ON tokens BEGIN SELECT RAISE(ABORT, 'database or disk is full'); END"
    ],
    "postgresql": [
        "CREATE FUNCTION fill() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION USING ERRCODE = 'disk_full'; END $$",
        "CREATE TRIGGER full_disk BEFORE UPDATE ON tokens EXECUTE FUNCTION fill()",
    ],
}


def test_token_is_accepted_on_a_full_disk(ledger: Ledger, principals: Principals) -> None:
    _, secret_text = principals.make_token(ADA)
    with ledger.connections.write() as connection:
        for statement in FULL[ledger.kind]:
            connection.execute(statement)
    found = principals.by_token(secret_text)
    assert found is not None and found.name == "ada" and principals.tokens()[0].used == 0


def test_every_change_of_a_principal_is_in_the_audit_log(
    ledger: Ledger, principals: Principals
) -> None:
    eve = Actor("eve", 4)
    principals.change(ADA, tier=1, by=eve)
    principals.grant(ADA, "subcortex_1", None, by=eve)
    token, _ = principals.make_token(ADA, by=eve)
    assert principals.revoke(token.id, by=eve) and not principals.revoke(token.id, by=eve)
    ada = principals.named("ada")
    assert ada is not None and ada.grants == {"*": True}
    deeds = [
        (deed.actor, deed.tier, deed.action, deed.record)
        for deed in reversed(ledger.records.deeds(ADA))
    ]
    assert deeds == [
        ("console", 4, "add_principal", ADA),
        ("eve", 4, "change_principal", ADA),
        ("eve", 4, "change_principal", ADA),
        ("eve", 4, f"make_token {token.id}", ADA),
        ("eve", 4, f"revoke_token {token.id}", ADA),
    ]
