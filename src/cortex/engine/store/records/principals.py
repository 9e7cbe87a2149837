"""Principals of a team server: people and programs, their permissions and their tokens.

A token is only returned once, when it is made; its hash is stored. Doesn't know what a tier allows.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import secrets
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cortex.base.errors import CortexError, InputError
from cortex.base.record_model import Actor
from cortex.engine.store.connection import Connected

PREFIX = "ctx_"
# Actor of commands run on the server.
CONSOLE = Actor("console", 4, "command")
# Precision of the time at which a token was last used.
USED_MS = 60_000
# Not the hash of any secret.
NO_HASH = bytes(32)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Principal:
    """Known user or program; `grants` maps visible subcortexes to whether it may write there."""

    id: str
    name: str
    tier: int
    sensitive: bool
    state: str  # active or revoked
    created: int
    grants: Mapping[str, bool] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Token:
    """Token without its secret."""

    id: str
    principal: str
    label: str
    created: int
    expires: int  # 0: never
    used: int
    revoked: int  # 0: valid


class Principals:
    """Principals of a ledger."""

    def __init__(self, connections: Connected) -> None:
        self._connections = connections

    def add(
        self,
        principal_id: str,
        name: str,
        tier: int,
        sensitive: bool,
        grants: Mapping[str, bool],
        *,
        by: Actor = CONSOLE,
    ) -> Principal:
        """Add a principal.

        Raises: InputError RECORD_INVALID if the name is taken.
        """
        now = _now()
        with self._connections.write(durable=True) as connection:
            if connection.execute("SELECT 1 FROM principals WHERE name = ?", (name,)).fetchone():
                raise InputError(
                    "RECORD_INVALID",
                    f"there is a principal {name!r} already",
                    context={"field": "name"},
                )
            connection.execute(
                "INSERT INTO principals VALUES (?, ?, ?, ?, ?, ?)",
                (principal_id, name, tier, int(sensitive), "active", now),
            )
            _put_grants(connection, principal_id, grants)
            _audit(connection, by, "add_principal", principal_id)
        return Principal(principal_id, name, tier, sensitive, "active", now, dict(grants))

    def change(
        self,
        principal_id: str,
        *,
        tier: int | None = None,
        sensitive: bool | None = None,
        state: str | None = None,
        grants: Mapping[str, bool] | None = None,
        by: Actor = CONSOLE,
    ) -> None:
        """Change the permissions of a principal from now on.

        Raises: InputError RECORD_UNKNOWN.
        """
        with self._connections.write(durable=True) as connection:
            _check_exists(connection, principal_id)
            for column, value in (("tier", tier), ("sensitive", sensitive), ("state", state)):
                if value is not None:
                    stored = int(value) if isinstance(value, bool) else value
                    connection.execute(
                        f"UPDATE principals SET {column} = ? WHERE id = ?", (stored, principal_id)
                    )
            if grants is not None:
                connection.execute("DELETE FROM grants WHERE principal = ?", (principal_id,))
                _put_grants(connection, principal_id, grants)
            _audit(connection, by, "change_principal", principal_id)

    def grant(
        self, principal_id: str, scope: str, writes: bool | None, *, by: Actor = CONSOLE
    ) -> None:
        """Grant a principal read or write access to a scope; None revokes it.

        Raises: InputError RECORD_UNKNOWN.
        """
        with self._connections.write(durable=True) as connection:
            _check_exists(connection, principal_id)
            connection.execute(
                "DELETE FROM grants WHERE principal = ? AND subcortex = ?", (principal_id, scope)
            )
            if writes is not None:
                _put_grants(connection, principal_id, {scope: writes})
            _audit(connection, by, "change_principal", principal_id)

    def all(self) -> list[Principal]:
        """All principals, by name."""
        with self._connections.read() as connection:
            grants: dict[str, list[Sequence[Any]]] = {}
            for owner, *grant in connection.execute(
                "SELECT principal, subcortex, writes FROM grants ORDER BY subcortex"
            ):
                grants.setdefault(owner, []).append(grant)
            rows = connection.execute(f"{_PRINCIPAL} ORDER BY name").fetchall()
            return [_build_principal(row, grants.get(row[0], ())) for row in rows]

    def named(self, name: str) -> Principal | None:
        """Principal with this name, None if there is none."""
        with self._connections.read() as connection:
            row = connection.execute(f"{_PRINCIPAL} WHERE name = ?", (name,)).fetchone()
            return None if row is None else _principal(connection, row)

    # Tokens.

    def make_token(
        self, principal: str, label: str = "", expires: int = 0, *, by: Actor = CONSOLE
    ) -> tuple[Token, str]:
        """Create a token; returns it with the text to send to the server, which isn't stored.

        Raises: InputError RECORD_UNKNOWN.
        """
        token_id, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
        token = Token(token_id, principal, label, _now(), expires, 0, 0)
        with self._connections.write(durable=True) as connection:
            _check_exists(connection, principal)
            connection.execute(
                "INSERT INTO tokens VALUES (?, ?, ?, ?, ?, ?, 0, 0)",
                (token_id, principal, _hash(secret), label, token.created, expires),
            )
            _audit(connection, by, f"make_token {token_id}", principal)
        return token, f"{PREFIX}{token_id}_{secret}"

    def revoke(self, token_id: str, *, by: Actor = CONSOLE) -> bool:
        """Revoke a token; false if there is no valid one with this id."""
        with self._connections.write(durable=True) as connection:
            query = "SELECT principal FROM tokens WHERE id = ? AND revoked = 0"
            owner = connection.execute(query, (token_id,)).fetchone()
            if owner is None:
                return False
            connection.execute("UPDATE tokens SET revoked = ? WHERE id = ?", (_now(), token_id))
            _audit(connection, by, f"revoke_token {token_id}", owner[0])
            return True

    def tokens(self) -> list[Token]:
        """All tokens, newest first."""
        return [
            Token(*row) for row in self._connections.rows(f"{_TOKEN} ORDER BY created DESC, id")
        ]

    def good(self) -> frozenset[bytes]:
        """Hashes of all valid tokens, as `hash_of` makes them."""
        query = (
            "SELECT hash FROM tokens JOIN principals ON principals.id = tokens.principal"
            " WHERE revoked = 0 AND (expires = 0 OR expires > ?) AND state = 'active'"
        )
        return frozenset(bytes(row[0]) for row in self._connections.rows(query, (_now(),)))

    def by_token(self, token: str) -> Principal | None:
        """Principal of a token; None if either is unknown, revoked or expired."""
        now = _now()
        with self._connections.read() as connection:
            row_of_token = _token(connection, token)
            if row_of_token is None:
                return None
            token_id, owner, expires, used, revoked = row_of_token
            row = connection.execute(
                f"{_PRINCIPAL} WHERE id = ? AND state = 'active'", (owner,)
            ).fetchone()
            if row is None or revoked or (expires and expires <= now):
                return None
            principal = _principal(connection, row)
        if now - used > USED_MS:
            self._remember_use(token_id, now)
        return principal

    def is_known(self, token: str) -> bool:
        """True if the text is a token of this server, even if it is no longer valid."""
        with self._connections.read() as connection:
            return _token(connection, token) is not None

    def name_of_revoked(self, token: str) -> str:
        """Name of the token's owner if that principal is no longer active, else ""."""
        with self._connections.read() as connection:
            row_of_token = _token(connection, token)
            query = "SELECT name FROM principals WHERE id = ? AND state <> 'active'"
            row = (
                connection.execute(query, (row_of_token[1],)).fetchone()
                if row_of_token is not None
                else None
            )
            return row[0] if row else ""

    def _remember_use(self, token_id: str, now: int) -> None:
        """Store the time of use; failing to do so doesn't deny access."""
        try:
            self._connections.jot("UPDATE tokens SET used = ? WHERE id = ?", (now, token_id))
        except CortexError as error:
            # Including a full disk.
            log.warning(
                "that the token %s was used isn't written down: %s", token_id, error.message
            )


_PRINCIPAL = "SELECT id, name, tier, sensitive, state, created FROM principals"
_TOKEN = "SELECT id, principal, label, created, expires, used, revoked FROM tokens"


def is_token(text: str) -> bool:
    """True if a text has the form of a token; only the database knows if it is one."""
    token_id, _, secret = text.removeprefix(PREFIX).partition("_")
    return text.startswith(PREFIX) and token_id.isascii() and token_id.isalnum() and bool(secret)


def hash_of(token: str) -> bytes:
    """Stored hash of a token."""
    return _hash(token.removeprefix(PREFIX).partition("_")[2])


def _token(connection: Any, token: str) -> tuple[str, str, int, int, int] | None:
    """Row of a token: (id, principal, expires, used, revoked)."""
    if not is_token(token):
        return None
    token_id, _, secret = token.removeprefix(PREFIX).partition("_")
    query = "SELECT hash, principal, expires, used, revoked FROM tokens WHERE id = ?"
    row = connection.execute(query, (token_id,)).fetchone()
    stored_hash, owner, expires, used, revoked = row or (NO_HASH, "", 0, 0, 0)
    # An unknown token takes as long as a wrong one.
    if not hmac.compare_digest(bytes(stored_hash), _hash(secret)):
        return None
    return token_id, owner, expires, used, revoked


def _principal(connection: Any, row: Sequence[Any]) -> Principal:
    query = "SELECT subcortex, writes FROM grants WHERE principal = ? ORDER BY subcortex"
    return _build_principal(row, connection.execute(query, (row[0],)))


def _build_principal(row: Sequence[Any], grants: Iterable[Sequence[Any]]) -> Principal:
    principal_id, name, tier, sensitive, state, created = row
    permissions = {scope: bool(writes) for scope, writes in grants}
    return Principal(principal_id, name, tier, bool(sensitive), state, created, permissions)


def _put_grants(connection: Any, principal_id: str, grants: Mapping[str, bool]) -> None:
    rows = [(principal_id, scope, int(writes)) for scope, writes in grants.items()]
    connection.executemany("INSERT INTO grants VALUES (?, ?, ?)", rows)


def _audit(connection: Any, by: Actor, action: str, principal: str) -> None:
    """Add an entry to the audit log, in the same transaction."""
    columns = "at, actor, tier, key, action, record, version, via"
    insert = f"INSERT INTO audit ({columns}) VALUES (?, ?, ?, '', ?, ?, 0, ?)"
    connection.execute(insert, (_now(), by.name, by.tier, action, principal, by.via))


def _check_exists(connection: Any, principal_id: str) -> None:
    if (
        connection.execute("SELECT 1 FROM principals WHERE id = ?", (principal_id,)).fetchone()
        is None
    ):
        raise InputError(
            "RECORD_UNKNOWN",
            f"there is no principal {principal_id!r}",
            context={"id": principal_id},
        )


def _hash(secret: str) -> bytes:
    """Hash a secret; with 256 random bits it needs no salt and no slow hash."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()


def _now() -> int:
    return int(time.time() * 1000)
