"""Who may use a server that a team shares: people and programs by name, what each may see and do,
and their tokens.

A token is told once, when it is made; here is its hash. What a tier allows is not known here.
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
from cortex.engine.store.connections import Connected

PREFIX = "ctx_"
CONSOLE = Actor("console", 4, "command")  # whoever runs commands on the server
USED_MS = 60_000  # how exactly it is known when a token was last used
NOBODY = bytes(32)  # the hash of no secret

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Principal:
    """Somebody whom the server knows; `grants` are the subcortexes that they see, and whether they
    write there.
    """

    id: str
    name: str
    tier: int
    sensitive: bool
    state: str  # active or revoked
    created: int
    grants: Mapping[str, bool] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Token:
    """A token, without what makes it one."""

    id: str
    principal: str
    label: str
    created: int
    expires: int  # 0: never
    used: int
    revoked: int  # 0: it counts


class Principals:
    """The principals of a ledger."""

    def __init__(self, connections: Connected) -> None:
        self._connections = connections

    def add(
        self,
        number: str,
        name: str,
        tier: int,
        sensitive: bool,
        grants: Mapping[str, bool],
        *,
        by: Actor = CONSOLE,
    ) -> Principal:
        """Make somebody known. Raises: InputError RECORD_INVALID, where the name is taken."""
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
                (number, name, tier, int(sensitive), "active", now),
            )
            _put_grants(connection, number, grants)
            _note(connection, by, "add_principal", number)
        return Principal(number, name, tier, sensitive, "active", now, dict(grants))

    def change(
        self,
        number: str,
        *,
        tier: int | None = None,
        sensitive: bool | None = None,
        state: str | None = None,
        grants: Mapping[str, bool] | None = None,
        by: Actor = CONSOLE,
    ) -> None:
        """Let somebody do more or less from now on. Raises: InputError RECORD_UNKNOWN."""
        with self._connections.write(durable=True) as connection:
            _need(connection, number)
            for column, value in (("tier", tier), ("sensitive", sensitive), ("state", state)):
                if value is not None:
                    told = int(value) if isinstance(value, bool) else value
                    connection.execute(
                        f"UPDATE principals SET {column} = ? WHERE id = ?", (told, number)
                    )
            if grants is not None:
                connection.execute("DELETE FROM grants WHERE principal = ?", (number,))
                _put_grants(connection, number, grants)
            _note(connection, by, "change_principal", number)

    def grant(self, number: str, scope: str, writes: bool | None, *, by: Actor = CONSOLE) -> None:
        """Let somebody read, or also write, in a scope; None: not even read. Raises: InputError
        RECORD_UNKNOWN.
        """
        with self._connections.write(durable=True) as connection:
            _need(connection, number)
            connection.execute(
                "DELETE FROM grants WHERE principal = ? AND subcortex = ?", (number, scope)
            )
            if writes is not None:
                _put_grants(connection, number, {scope: writes})
            _note(connection, by, "change_principal", number)

    def all(self) -> list[Principal]:
        """Everybody, by name."""
        with self._connections.read() as connection:
            grants: dict[str, list[Sequence[Any]]] = {}
            for owner, *told in connection.execute(
                "SELECT principal, subcortex, writes FROM grants ORDER BY subcortex"
            ):
                grants.setdefault(owner, []).append(told)
            rows = connection.execute(f"{_PRINCIPAL} ORDER BY name").fetchall()
            return [_made(row, grants.get(row[0], ())) for row in rows]

    def named(self, name: str) -> Principal | None:
        """Whoever has this name."""
        with self._connections.read() as connection:
            row = connection.execute(f"{_PRINCIPAL} WHERE name = ?", (name,)).fetchone()
            return None if row is None else _principal(connection, row)

    # -- tokens
    # --------------------------------------------------------------------------------------------------------

    def make_token(
        self, principal: str, label: str = "", expires: int = 0, *, by: Actor = CONSOLE
    ) -> tuple[Token, str]:
        """A new token, and what to send to the server: that is never told again.

        Raises: InputError RECORD_UNKNOWN.
        """
        number, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
        one = Token(number, principal, label, _now(), expires, 0, 0)
        with self._connections.write(durable=True) as connection:
            _need(connection, principal)
            connection.execute(
                "INSERT INTO tokens VALUES (?, ?, ?, ?, ?, ?, 0, 0)",
                (number, principal, _hash(secret), label, one.created, expires),
            )
            _note(connection, by, f"make_token {number}", principal)
        return one, f"{PREFIX}{number}_{secret}"

    def revoke(self, number: str, *, by: Actor = CONSOLE) -> bool:
        """Let a token count no more; false where there is none that does."""
        with self._connections.write(durable=True) as connection:
            ask = "SELECT principal FROM tokens WHERE id = ? AND revoked = 0"
            owner = connection.execute(ask, (number,)).fetchone()
            if owner is None:
                return False
            connection.execute("UPDATE tokens SET revoked = ? WHERE id = ?", (_now(), number))
            _note(connection, by, f"revoke_token {number}", owner[0])
            return True

    def tokens(self) -> list[Token]:
        """All tokens, the newest first."""
        with self._connections.read() as connection:
            return [
                Token(*row) for row in connection.execute(f"{_TOKEN} ORDER BY created DESC, id")
            ]

    def good(self) -> frozenset[bytes]:
        """The hashes of all tokens that count, as `hash_of` makes them."""
        ask = (
            "SELECT hash FROM tokens JOIN principals ON principals.id = tokens.principal"
            " WHERE revoked = 0 AND (expires = 0 OR expires > ?) AND state = 'active'"
        )
        with self._connections.read() as connection:
            return frozenset(bytes(row[0]) for row in connection.execute(ask, (_now(),)))

    def whose(self, told: str) -> Principal | None:
        """Whose token that is; nobody's where it is unknown, revoked or over, or they are."""
        now = _now()
        with self._connections.read() as connection:
            found = _token(connection, told)
            if found is None:
                return None
            number, owner, expires, used, revoked = found
            row = connection.execute(
                f"{_PRINCIPAL} WHERE id = ? AND state = 'active'", (owner,)
            ).fetchone()
            if row is None or revoked or (expires and expires <= now):
                return None
            principal = _principal(connection, row)
        if now - used > USED_MS:
            self._remember_use(number, now)
        return principal

    def is_known(self, told: str) -> bool:
        """Whether that is a token, or was one: it may count no more."""
        with self._connections.read() as connection:
            return _token(connection, told) is not None

    def put_out(self, told: str) -> str:
        """The name of the token's owner where they may not come in any more, whichever token they
        take; else "".
        """
        with self._connections.read() as connection:
            found = _token(connection, told)
            ask = "SELECT name FROM principals WHERE id = ? AND state <> 'active'"
            row = connection.execute(ask, (found[1],)).fetchone() if found is not None else None
            return row[0] if row else ""

    def _remember_use(self, number: str, now: int) -> None:
        """Who may come in does so, whether or not it can be written down."""
        try:
            self._connections.jot("UPDATE tokens SET used = ? WHERE id = ?", (now, number))
        except CortexError as error:  # a full disk, too
            log.warning("that the token %s was used isn't written down: %s", number, error.message)


_PRINCIPAL = "SELECT id, name, tier, sensitive, state, created FROM principals"
_TOKEN = "SELECT id, principal, label, created, expires, used, revoked FROM tokens"


def is_token(told: str) -> bool:
    """Whether a text has the form of a token; whose it is, if anybody's, only the database knows."""
    number, _, secret = told.removeprefix(PREFIX).partition("_")
    return told.startswith(PREFIX) and number.isascii() and number.isalnum() and bool(secret)


def hash_of(told: str) -> bytes:
    """What is kept of a token."""
    return _hash(told.removeprefix(PREFIX).partition("_")[2])


def _token(connection: Any, told: str) -> tuple[str, str, int, int, int] | None:
    """The row of a token: its id, whose it is, until when, when it was used and revoked."""
    if not is_token(told):
        return None
    number, _, secret = told.removeprefix(PREFIX).partition("_")
    ask = "SELECT hash, principal, expires, used, revoked FROM tokens WHERE id = ?"
    found = connection.execute(ask, (number,)).fetchone()
    kept, owner, expires, used, revoked = found or (NOBODY, "", 0, 0, 0)
    # It takes as long for a token that there isn't
    if not hmac.compare_digest(bytes(kept), _hash(secret)):
        return None
    return number, owner, expires, used, revoked


def _principal(connection: Any, row: Sequence[Any]) -> Principal:
    ask = "SELECT subcortex, writes FROM grants WHERE principal = ? ORDER BY subcortex"
    return _made(row, connection.execute(ask, (row[0],)))


def _made(row: Sequence[Any], grants: Iterable[Sequence[Any]]) -> Principal:
    number, name, tier, sensitive, state, created = row
    may = {scope: bool(writes) for scope, writes in grants}
    return Principal(number, name, tier, bool(sensitive), state, created, may)


def _put_grants(connection: Any, number: str, grants: Mapping[str, bool]) -> None:
    rows = [(number, scope, int(writes)) for scope, writes in grants.items()]
    connection.executemany("INSERT INTO grants VALUES (?, ?, ?)", rows)


def _note(connection: Any, by: Actor, action: str, principal: str) -> None:
    """Write it into the audit log, in the same transaction."""
    columns = "at, actor, tier, key, action, record, version, via"
    put = f"INSERT INTO audit ({columns}) VALUES (?, ?, ?, '', ?, ?, 0, ?)"
    connection.execute(put, (_now(), by.name, by.tier, action, principal, by.via))


def _need(connection: Any, number: str) -> None:
    if connection.execute("SELECT 1 FROM principals WHERE id = ?", (number,)).fetchone() is None:
        raise InputError(
            "RECORD_UNKNOWN", f"there is no principal {number!r}", context={"id": number}
        )


def _hash(secret: str) -> bytes:
    """A secret of 256 bits needs no salt and no slow hash: there is nothing to guess."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()


def _now() -> int:
    return int(time.time() * 1000)
