"""Principals over HTTP: grants, tokens and the audit log, for administrators; and `/me`.

An idempotency key makes a retry safe here, too. A token is returned once: the response to a retry
leaves it out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Annotated, Literal

from pydantic import Field

from cortex.base.errors import InputError
from cortex.engine.store import AuditEntry, TransactionOptions
from cortex.engine.store.records.principals import Principal, Token
from cortex.families.team.index_text import wording
from cortex.families.team.validation import refusal
from cortex.interfaces.team_server import access_policy, principals
from cortex.interfaces.team_server.cursors import Paged, number_in, page_of, question_of
from cortex.interfaces.team_server.responses import RouteResult
from cortex.interfaces.team_server.router import Route, RouteContext
from cortex.interfaces.team_server.schemas import Row, moment
from cortex.toolkit.tool import Arguments, Whole

# Tier of administrators.
ALL = 4
# Entries of the audit log that are read at once.
_BATCH = 200
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


def who_am_i(context: RouteContext) -> RouteResult:
    """Read the principal of the request."""
    return RouteResult(
        {**_principal_row(context.principal), "view": access_policy.stamp_of(context.viewer)}
    )


def list_principals(context: RouteContext) -> RouteResult:
    """Everybody, by name."""
    return RouteResult([_principal_row(principal) for principal in context.ledger.principals.all()])


def get_principal(context: RouteContext) -> RouteResult:
    """One, by name or id."""
    return RouteResult(_principal_row(_principal(context)))


def add_principal(context: RouteContext) -> RouteResult:
    """Add a principal."""
    body: NewPrincipal = context.body
    ledger = context.ledger

    def add() -> str:
        grants = _scopes(context, body.grants)
        return principals.add(
            ledger, body.name, int(body.tier), body.sensitive, grants, by=context.actor
        ).name

    return RouteResult(
        _principal_row(principals.find(ledger, _once(context, "add_principal", add))), status=201
    )


def change_principal(context: RouteContext) -> RouteResult:
    """Change the tier or the permissions of a principal."""
    body: ChangePrincipal = context.body
    ledger = context.ledger
    if not body.model_fields_set:
        raise refusal("body", "there is nothing to change")

    def change() -> str:
        principal = _principal(context)
        grants = None if body.grants is None else _scopes(context, body.grants)
        tier = None if body.tier is None else int(body.tier)
        principals.change(
            ledger,
            principal,
            tier=tier,
            sensitive=body.sensitive,
            state=body.status,
            grants=grants,
            by=context.actor,
        )
        return principal.name

    return RouteResult(
        _principal_row(principals.find(ledger, _once(context, "change_principal", change)))
    )


def list_tokens(context: RouteContext) -> RouteResult:
    """All tokens, the newest first, without what makes them tokens."""
    return RouteResult([_token_row(token) for token in context.ledger.principals.tokens()])


def make_token(context: RouteContext) -> RouteResult:
    """Create a token; its text is only in this answer."""
    principal, ledger, secret = _principal(context), context.ledger, ""
    expires = _expiry(context.body.expires_at)

    def make() -> str:
        nonlocal secret
        token, secret = ledger.principals.make_token(
            principal.id, context.body.label, expires, by=context.actor
        )
        return token.id

    token_id = _once(context, "make_token", make)
    return RouteResult(
        {**_token_row(_token(context, token_id)), "token": secret or None}, status=201
    )


def revoke_token(context: RouteContext) -> RouteResult:
    """Let a token count no more."""
    token_id = _token(context, context.path["id"]).id

    def revoke() -> str:
        context.ledger.principals.revoke(token_id, by=context.actor)
        return token_id

    return RouteResult(_token_row(_token(context, _once(context, "revoke_token", revoke))))


def read_audit(context: RouteContext) -> RouteResult:
    """Read the audit log of visible records and of principals, newest first."""
    question = question_of("/audit", context.query)
    before = number_in(question, context.query.cursor)
    entries: list[AuditEntry] = []
    while len(entries) <= context.query.limit:
        batch = context.ledger.records.deeds(context.query.record or "", _BATCH, before)
        visible = context.records.get(entry.record for entry in batch)
        entries += [
            entry
            for entry in batch
            if entry.record in visible or entry.record.startswith(principals.PREFIX)
        ]
        if len(batch) < _BATCH:
            break
        before = batch[-1].id
    shown, pagination = page_of(question, context.query, entries, lambda entry: entry.id)
    return RouteResult([_audit_row(entry) for entry in shown], pagination)


# -- shared


def _once(context: RouteContext, action: str, work: Callable[[], str]) -> str:
    """Run a change of principals or tokens once per key, in one transaction.

    Raises: NetworkError AUTH_EXPIRED, InputError RIGHTS_MISSING, where the permissions of the actor
    changed since the request began.
    """
    ledger = context.ledger
    # No other writer can change the permissions from here on.
    with ledger.together():
        access = context.replica.present.look(context.principal.name)
        if access is not None and access[0].tier < ALL:
            raise InputError(
                "RIGHTS_MISSING", f"{context.principal.name} has tier {access[0].tier} now"
            )
        known = ledger.records.known(context.actor, context.key, action, context.payload)
        result = known.result if known is not None else work()
        done = ledger.records.perform(
            lambda step: result,
            TransactionOptions(
                actor=context.actor,
                key=context.key,
                action=action,
                payload=context.payload,
                wording=wording(context.replica.settings),
            ),
        )
    context.visit.replayed = done.replayed
    return done.result


def _principal(context: RouteContext) -> Principal:
    return principals.find(context.ledger, context.path["id"])


def _scopes(context: RouteContext, grants: Mapping[str, bool]) -> dict[str, bool]:
    """Resolve granted subcortexes to ids, visible or not; errors suggest no similar ones.

    Raises: InputError SCOPE_NOT_FOUND.
    """
    try:
        return {
            principals.scope_named(context.ledger, ref): writes for ref, writes in grants.items()
        }
    except InputError as error:
        raise access_policy.scope_not_found(str(error.context.get("subcortex", ""))) from None


def _token(context: RouteContext, token_id: str) -> Token:
    for token in context.ledger.principals.tokens():
        if token.id == token_id:
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


def _principal_row(principal: Principal) -> Row:
    return {
        "id": principal.id,
        "name": principal.name,
        "tier": principal.tier,
        "sensitive": principal.sensitive,
        "status": principal.state,
        "created_at": moment(principal.created),
        "grants": dict(principal.grants),
    }


def _token_row(token: Token) -> Row:
    return {
        "id": token.id,
        "principal_id": token.principal,
        "label": token.label,
        "created_at": moment(token.created),
        "expires_at": moment(token.expires) if token.expires else None,
        "used_at": moment(token.used) if token.used else None,
        "revoked_at": moment(token.revoked) if token.revoked else None,
    }


def _audit_row(entry: AuditEntry) -> Row:
    return {
        "id": entry.id,
        "at": moment(entry.at),
        "actor_id": entry.actor,
        "tier": entry.tier,
        "action": entry.action,
        "record_id": entry.record,
        "version": entry.version,
        "idempotency_key": entry.key,
        "via": entry.via,
    }


_OBJECT: Mapping[str, object] = {"type": "object"}
_LIST: Mapping[str, object] = {"type": "array", "items": {"type": "object"}}

ROUTES: tuple[Route, ...] = (
    Route("GET", "/me", "whoAmI", "Read who one is", who_am_i, "principals", _OBJECT),
    Route("GET", "/principals", "listPrincipals", "List principals", list_principals, "principals",
          _LIST, tier=ALL),
    Route("POST", "/principals", "addPrincipal", "Add a principal", add_principal, "principals",
          _OBJECT, body=NewPrincipal, keyed=True, status=201, tier=ALL),
    Route("GET", "/principals/{id}", "getPrincipal", "Read a principal", get_principal,
          "principals", _OBJECT, tier=ALL),
    Route("PATCH", "/principals/{id}", "changePrincipal", "Change what a principal may do",
          change_principal, "principals", _OBJECT, body=ChangePrincipal, keyed=True, tier=ALL),
    Route("POST", "/principals/{id}/tokens", "makeToken", "Make a token", make_token, "tokens",
          _OBJECT, body=NewToken, keyed=True, status=201, tier=ALL),
    Route("GET", "/tokens", "listTokens", "List tokens", list_tokens, "tokens", _LIST, tier=ALL),
    Route("POST", "/tokens/{id}/revoke", "revokeToken", "Revoke a token", revoke_token, "tokens",
          _OBJECT, body=Arguments, keyed=True, tier=ALL),
    Route("GET", "/audit", "readAudit", "Read who wrote what", read_audit, "audit", _LIST,
          query=Audit, listed=True, tier=ALL),
)  # fmt: skip
