"""Who may use a Core, over HTTP: principals, grants and tokens for whoever may do everything, the
audit log, and who one is oneself.

A key makes a retry harmless here, too; but a token is told once, so that a retry gives all of it
but that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Annotated, Literal

from pydantic import Field

from cortex.base.errors import InputError
from cortex.engine.store import AuditEntry
from cortex.engine.store.records.principals import Principal, Token
from cortex.families.team.index_text import wording
from cortex.families.team.validation import refusal
from cortex.interfaces.team_server import access_policy, principals
from cortex.interfaces.team_server.cursors import Paged, number_in, page_of, question_of
from cortex.interfaces.team_server.responses import RouteResult
from cortex.interfaces.team_server.router import Route, RouteContext
from cortex.interfaces.team_server.schemas import Row, moment
from cortex.toolkit.tool import Arguments, Whole

ALL = 4  # the tier of whoever may do everything
_BATCH = 200  # lines of the audit log that are looked at at once
_Name = Annotated[str, Field(min_length=1, max_length=100)]
_Line = Annotated[str, Field(max_length=200, pattern=r"^[^\x00-\x1f\x7f-\x9f]*$")]
_Grants = Annotated[
    dict[_Line, bool],
    Field(
        max_length=1_000, description='Subcortexes by id or slug, or "*"; true: writes there, too'
    ),
]


class NewPrincipal(Arguments):
    name: _Name
    tier: Annotated[Whole, Field(ge=0, le=ALL)]
    sensitive: bool = False
    grants: _Grants = Field(default_factory=lambda: {"*": True})


class ChangePrincipal(Arguments):
    tier: Annotated[Whole | None, Field(ge=0, le=ALL)] = None
    sensitive: bool | None = None
    status: Literal["active", "revoked"] | None = None
    grants: _Grants | None = None


class NewToken(Arguments):
    label: _Line = ""
    expires_at: Annotated[
        str | None, Field(max_length=40, description="A moment; left out: never")
    ] = None


class Audit(Paged):
    record: Annotated[str | None, Field(pattern=r"^[A-Za-z0-9_]{1,100}$")] = None


def who_am_i(asked: RouteContext) -> RouteResult:
    """Whoever asks."""
    return RouteResult({**_row(asked.principal), "view": access_policy.stamp_of(asked.viewer)})


def list_principals(asked: RouteContext) -> RouteResult:
    """Everybody, by name."""
    return RouteResult([_row(one) for one in asked.core.ledger.principals.all()])


def get_principal(asked: RouteContext) -> RouteResult:
    """One, by name or id."""
    return RouteResult(_row(_principal(asked)))


def add_principal(asked: RouteContext) -> RouteResult:
    """Make somebody known."""
    body: NewPrincipal = asked.body
    ledger = asked.core.ledger

    def add() -> str:
        grants = _scopes(asked, body.grants)
        return principals.add(
            ledger, body.name, int(body.tier), body.sensitive, grants, by=asked.actor
        ).name

    return RouteResult(
        _row(principals.find(ledger, _once(asked, "add_principal", add))), status=201
    )


def change_principal(asked: RouteContext) -> RouteResult:
    """Let somebody do more or less from now on."""
    body: ChangePrincipal = asked.body
    ledger = asked.core.ledger
    if not body.model_fields_set:
        raise refusal("body", "there is nothing to change")

    def change() -> str:
        principal = _principal(asked)
        grants = None if body.grants is None else _scopes(asked, body.grants)
        tier = None if body.tier is None else int(body.tier)
        principals.change(
            ledger,
            principal,
            tier=tier,
            sensitive=body.sensitive,
            state=body.status,
            grants=grants,
            by=asked.actor,
        )
        return principal.name

    return RouteResult(_row(principals.find(ledger, _once(asked, "change_principal", change))))


def list_tokens(asked: RouteContext) -> RouteResult:
    """All tokens, the newest first, without what makes them tokens."""
    return RouteResult([_token_row(token) for token in asked.core.ledger.principals.tokens()])


def make_token(asked: RouteContext) -> RouteResult:
    """A new token; it is told this once."""
    principal, ledger, secret = _principal(asked), asked.core.ledger, ""
    expires = _expiry(asked.body.expires_at)

    def make() -> str:
        nonlocal secret
        one, secret = ledger.principals.make_token(
            principal.id, asked.body.label, expires, by=asked.actor
        )
        return one.id

    number = _once(asked, "make_token", make)
    return RouteResult({**_token_row(_token(asked, number)), "token": secret or None}, status=201)


def revoke_token(asked: RouteContext) -> RouteResult:
    """Let a token count no more."""
    number = _token(asked, asked.path["id"]).id

    def revoke() -> str:
        asked.core.ledger.principals.revoke(number, by=asked.actor)
        return number

    return RouteResult(_token_row(_token(asked, _once(asked, "revoke_token", revoke))))


def read_audit(asked: RouteContext) -> RouteResult:
    """Who did what, the newest first: of records that whoever asks may see, and of principals."""
    question = question_of("/audit", asked.query)
    before = number_in(question, asked.query.cursor)
    found: list[AuditEntry] = []
    while len(found) <= asked.query.limit:
        lines = asked.core.ledger.recorded.deeds(asked.query.record or "", _BATCH, before)
        visible = asked.hall.store.recorded.get(one.record for one in lines)
        found += [
            line
            for line in lines
            if line.record in visible or line.record.startswith(principals.PREFIX)
        ]
        if len(lines) < _BATCH:
            break
        before = lines[-1].id
    shown, pagination = page_of(question, asked.query, found, lambda one: one.id)
    return RouteResult([_deed_row(one) for one in shown], pagination)


# -- in common
# ---------------------------------------------------------------------------------------------------------


def _once(asked: RouteContext, action: str, work: Callable[[], str]) -> str:
    """Do something that isn't about records once for its key, in one transaction, by who may at
    that moment.

    Raises: NetworkError AUTH_EXPIRED, InputError RIGHTS_MISSING, where that has changed since they
    came.
    """
    ledger = asked.core.ledger
    with ledger.together():  # nobody else writes from here on
        found = asked.hall.present.look(asked.principal.name)
        if found is not None and found[0].tier < ALL:
            raise InputError(
                "RIGHTS_MISSING", f"{asked.principal.name} has tier {found[0].tier} now"
            )
        known = ledger.records.known(asked.actor, asked.key, action, asked.payload)
        result = known.result if known is not None else work()
        done = ledger.records.perform(
            lambda step: result,
            actor=asked.actor,
            key=asked.key,
            action=action,
            payload=asked.payload,
            wording=wording(asked.hall.settings),
        )
    asked.visit.replayed = done.replayed
    return done.result


def _principal(asked: RouteContext) -> Principal:
    return principals.find(asked.core.ledger, asked.path["id"])


def _scopes(asked: RouteContext, grants: Mapping[str, bool]) -> dict[str, bool]:
    """The ids of subcortexes, whoever may see them; of what isn't there nothing near is told.

    Raises: InputError SCOPE_NOT_FOUND.
    """
    try:
        return {
            principals.scope_named(asked.core.ledger, ref): writes for ref, writes in grants.items()
        }
    except InputError as error:
        raise access_policy.scope_not_found(str(error.context.get("subcortex", ""))) from None


def _token(asked: RouteContext, number: str) -> Token:
    for token in asked.core.ledger.principals.tokens():
        if token.id == number:
            return token
    raise InputError("RECORD_UNKNOWN", "there is no such token", context={"type": "token"})


def _expiry(text: str | None) -> int:
    if not text:
        return 0
    try:
        at = datetime.fromisoformat(text)
        milliseconds = int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, OverflowError):
        raise refusal("expires_at", "expires_at is a moment such as 2027-01-31T12:00:00Z") from None
    if milliseconds <= datetime.now(UTC).timestamp() * 1000:
        raise refusal("expires_at", "expires_at is over already")
    return milliseconds


def _row(one: Principal) -> Row:
    return {
        "id": one.id,
        "name": one.name,
        "tier": one.tier,
        "sensitive": one.sensitive,
        "status": one.state,
        "created_at": moment(one.created),
        "grants": dict(one.grants),
    }


def _token_row(one: Token) -> Row:
    return {
        "id": one.id,
        "principal_id": one.principal,
        "label": one.label,
        "created_at": moment(one.created),
        "expires_at": moment(one.expires) if one.expires else None,
        "used_at": moment(one.used) if one.used else None,
        "revoked_at": moment(one.revoked) if one.revoked else None,
    }


def _deed_row(one: AuditEntry) -> Row:
    return {
        "id": one.id,
        "at": moment(one.at),
        "actor_id": one.actor,
        "tier": one.tier,
        "action": one.action,
        "record_id": one.record,
        "version": one.version,
        "idempotency_key": one.key,
        "via": one.via,
    }


_OBJECT: Mapping[str, object] = {"type": "object"}
_LIST: Mapping[str, object] = {"type": "array", "items": {"type": "object"}}

ROUTES: tuple[Route, ...] = (
    Route("GET", "/me", "whoAmI", "Read who one is", who_am_i, "principals", _OBJECT),
    Route("GET", "/principals", "listPrincipals", "List principals", list_principals, "principals", _LIST, tier=ALL),
    Route("POST", "/principals", "addPrincipal", "Make somebody known", add_principal, "principals", _OBJECT,
          body=NewPrincipal, keyed=True, status=201, tier=ALL),
    Route("GET", "/principals/{id}", "getPrincipal", "Read a principal", get_principal, "principals", _OBJECT, tier=ALL),
    Route("PATCH", "/principals/{id}", "changePrincipal", "Change what a principal may do", change_principal, "principals",
          _OBJECT, body=ChangePrincipal, keyed=True, tier=ALL),
    Route("POST", "/principals/{id}/tokens", "makeToken", "Make a token", make_token, "tokens", _OBJECT, body=NewToken,
          keyed=True, status=201, tier=ALL),
    Route("GET", "/tokens", "listTokens", "List tokens", list_tokens, "tokens", _LIST, tier=ALL),
    Route("POST", "/tokens/{id}/revoke", "revokeToken", "Revoke a token", revoke_token, "tokens", _OBJECT, body=Arguments,
          keyed=True, tier=ALL),
    Route("GET", "/audit", "readAudit", "Read who wrote what", read_audit, "audit", _LIST, query=Audit, listed=True, tier=ALL),
)  # fmt: skip
