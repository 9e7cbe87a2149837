"""HTTP client of the Core's sync API, which validates every response before it is used.

Knows the paths and envelopes of `/api/v2/sync`, but not what is done with the data. There are four
kinds of failure, because each needs another reaction: wait (`Offline`), get another token
(`Denied`), compare everything again (`Resync`), or check the address and the versions
(`ServerRejected`). The token is sent in one header and never appears in an error.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from cortex.base.errors import InputError, NetworkError
from cortex.base.runtime.http_client import (
    HttpConnections,
    HttpResponse,
    NoAnswer,
    TooLarge,
    Unsendable,
    Untrusted,
    short,
    shown,
)
from cortex.base.settings import stays_here
from cortex.base.settings.values import parse_url
from cortex.base.text import holds_more
from cortex.engine.store import VersionedRecord
from cortex.families.team.wire.codec import STATUSES, record_from

BASE = "/api/v2/sync"
ANSWER_SECONDS = 60.0
# A page of 500 artifacts of 100,000 characters has 51 MB; a larger one is requested in parts.
MAX_ANSWER_BYTES = 64_000_000
# JSON values of one response. A page of 500 drafts with every field filled has 535,500; parsing
# this many takes at most 150 MB besides their text.
MAX_VALUES = 600_000
MAX_MESSAGE = 1_000  # characters of a rejection's reason
MOST_IDS = 1_000  # ids of one visibility request
# Statuses that ask the client to retry later, like every 5xx.
LATER = frozenset((408, 425, 429))


class Offline(NetworkError):
    """The Core is unreachable or overloaded; `retry_after` is in seconds, 0 if not given."""

    def __init__(
        self, message: str, retry_after: float = 0.0, *, context: Mapping[str, object] | None = None
    ) -> None:
        super().__init__("CORE_UNAVAILABLE", message, context=context)
        self.retry_after = retry_after


class Denied(NetworkError):
    """The Core doesn't accept the token."""


class AccessRevoked(Denied):
    """The Core revoked the token of a known principal.

    `epoch` identifies the ledger, `name` the principal. `trusted` is false if a third party on the
    network could have forged the response.
    """

    def __init__(self, message: str, epoch: str, name: str, *, trusted: bool) -> None:
        super().__init__("CORE_DENIED", message)
        self.epoch, self.name, self.trusted = epoch, name, trusted


class ServerRejected(NetworkError):
    """The server at this address rejected the request, or isn't a compatible Core."""

    def __init__(
        self,
        code: str,
        message: str,
        *,
        status: int = 0,
        said: str = "",
        context: Mapping[str, object] | None = None,
        suggestions: tuple[str, ...] = (),
        instead: tuple[str, ...] = (),
    ) -> None:
        super().__init__(code, message, context=context, suggestions=suggestions, instead=instead)
        self.status = status
        self.said = said  # error code from the response


class Oversized(ServerRejected):
    """The response exceeds the size limit; request less."""


class Resync(ServerRejected):
    """The cursor is no longer valid: another ledger ("epoch") or other access rights ("view")."""

    def __init__(self, reason: str) -> None:
        super().__init__("CORE_REFUSED", f"the Core wants everything to be compared: {reason}")
        self.reason = reason


@dataclass(frozen=True, slots=True)
class CoreGreeting:
    """Identity of the token's principal at a Core, and of its ledger."""

    name: str
    tier: int
    sensitive: bool
    epoch: str
    view: str


@dataclass(frozen=True, slots=True)
class ChangePage:
    """Page of the change feed."""

    records: tuple[VersionedRecord, ...]
    invalidations: tuple[str, ...]
    cursor: str
    more: bool
    epoch: str
    view: str


@dataclass(frozen=True, slots=True)
class ActionResult:
    """Result of one outbox entry."""

    key: str
    status: str
    code: str
    message: str
    field: str  # rejected field, "" if none is named
    clashes: tuple[tuple[str, str], ...]  # (record id, field) pairs with a concurrent change
    records: tuple[VersionedRecord, ...]  # current state at the Core


class Remote:
    """Client of one Core with one token."""

    def __init__(self, url: str, token: str, *, plain: bool = False) -> None:
        """Check the address; `plain` permits http:// beyond this machine.

        Raises: InputError ARGUMENT_INVALID for an invalid address; NetworkError ADDRESS_REFUSED for
        one that would send the token unencrypted.
        """
        try:
            if not parse_url(url):
                raise ValueError("not empty")
        except ValueError as error:
            raise InputError("ARGUMENT_INVALID", f"the address of a Core is {error}") from None
        if not url.lower().startswith("https://") and not plain and not stays_here(url):
            raise NetworkError(
                "ADDRESS_REFUSED",
                f"{shown(url)} would get the token and all records over http://, "
                "readable by everybody in between",
                instead=(
                    "Use the https:// address of the Core, or `cortex connect URL --plain-http` "
                    "where that may be.",
                ),
            )
        self.url = url.rstrip("/")
        self._connections = HttpConnections(
            self.url, token, max_bytes=MAX_ANSWER_BYTES, own_certificates=True
        )

    def bootstrap(self) -> CoreGreeting:
        """Fetch the principal and the ledger. Raises: Offline, Denied, ServerRejected."""
        data = self._request("GET", "/bootstrap")
        with self._reading():
            principal = data["principal"]
            return CoreGreeting(
                _text(principal, "name"),
                int(principal["tier"]),
                bool(principal["sensitive"]),
                _text(data, "epoch"),
                _text(data, "view"),
            )

    def deltas(self, since: str, view: str, limit: int) -> ChangePage:
        """Fetch a page of changes since a cursor, "" for the beginning.

        Raises: Resync, Offline, Denied, ServerRejected.
        """
        data = self._page(since, view, limit)
        with self._reading():
            return ChangePage(
                tuple(self._record(update) for update in data["updates"]),
                tuple(_texts(data["invalidations"])),
                _text(data, "next_cursor"),
                bool(data["has_more"]),
                _text(data, "epoch"),
                _text(data, "view"),
            )

    def flush(self, actions: Sequence[Mapping[str, object]]) -> list[ActionResult]:
        """Send actions and return their results in order; the last ones may be missing.

        Raises: Offline, Denied, ServerRejected.
        """
        data = self._request("POST", "/flush", {"actions": list(actions)})
        with self._reading():
            results = [self._result(result) for result in data["results"]]
            sent_keys = [action["idempotency_key"] for action in actions]
            if [result.key for result in results] != sent_keys[: len(results)]:
                raise ValueError("keys")
            return results

    def visible(self, ids: Sequence[str]) -> tuple[frozenset[str], frozenset[str]]:
        """Return which of at most 1,000 records are visible, and which the Core doesn't know.

        Raises: Offline, Denied, ServerRejected.
        """
        data = self._request("POST", "/visible", {"ids": list(ids)})
        with self._reading():
            return frozenset(_texts(data["visible"])), frozenset(_texts(data["unknown"]))

    def close(self) -> None:
        """Close all connections and abort their requests."""
        self._connections.close()

    # -- requests

    @contextmanager
    def _reading(self) -> Generator[None]:
        """Read a response. Raises: ServerRejected if it has another form."""
        try:
            yield
        except (KeyError, TypeError, ValueError, AttributeError):
            raise self._unexpected() from None

    def _page(self, since: str, view: str, limit: int) -> Any:
        """Fetch a page, halving the limit while the response is too large."""
        while True:
            query = urlencode({"since": since, "limit": limit, "view": view})
            try:
                return self._request("GET", f"/deltas?{query}")
            except Oversized:
                if limit == 1:
                    raise
                limit //= 2

    def _request(self, method: str, path: str, body: Mapping[str, object] | None = None) -> Any:
        """Return the `data` of a response. Raises: Offline, Denied, ServerRejected, Resync."""
        content = (
            None
            if body is None
            else json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")
        )
        try:
            answer = self._connections.ask(method, BASE + path, content, ANSWER_SECONDS)
        except Unsendable as error:
            raise self._error("CORE_REFUSED", str(error)) from None
        except Untrusted as error:
            hint = (
                "For a certificate of your own, set SSL_CERT_FILE to the file of the authority "
                "that signed it."
            )
            raise self._error("CORE_REFUSED", str(error), suggestions=(hint,)) from None
        except TooLarge as error:
            raise self._oversized(str(error)) from None
        except NoAnswer as error:
            raise Offline(self._sentence(str(error)), context={"url": shown(self.url)}) from None
        too_much = holds_more(answer.body, MAX_VALUES)
        if too_much and answer.status == 200:
            raise self._oversized(f"answers with more than {MAX_VALUES:,} values")
        envelope = None if too_much else _parse(answer.body)
        data = envelope.get("data") if isinstance(envelope, dict) else None
        if answer.status == 200 and isinstance(data, dict):
            return data
        raise self._error_of(answer, envelope)

    def _error_of(self, answer: HttpResponse, envelope: object) -> Exception:
        """Build the error of an unsuccessful response; its class says what to do."""
        status = answer.status
        error = envelope.get("error") if isinstance(envelope, dict) else None
        error = error if isinstance(error, dict) else {}
        code, message = (short(str(error.get(name) or "")) for name in ("code", "message"))
        about = _first_detail(error.get("details"))
        if status in LATER or status >= 500:
            sentence = self._sentence(f"can't answer now: status {status}")
            context = {"url": shown(self.url), "status": status}
            return Offline(sentence, answer.retry_after, context=context)
        if status == 410 and code == "RESYNC_NEEDED":
            return Resync(str(about.get("reason", "")))
        if status == 401 and code == "AUTH_EXPIRED" and about.get("reason") == "revoked":
            said = self._sentence(
                "says that your access was revoked: it no longer accepts the token"
            )
            epoch, name = (short(str(about.get(key) or "")) for key in ("epoch", "name"))
            trusted = self.url.lower().startswith("https://") or stays_here(self.url)
            return AccessRevoked(said, epoch, name, trusted=trusted)
        # The message may contain a part of the token, so it is left out.
        if status in (401, 403):
            return Denied(
                "CORE_DENIED", self._sentence(f"doesn't accept the token: status {status}")
            )
        if 300 <= status < 400:
            return self._error(
                "CORE_REFUSED", "answers with a redirect, which is not followed", status=status
            )
        if not code:
            return self._unexpected(status)
        sentence = f"refuses the request: {', '.join(filter(None, (code, message)))}"
        alone = (
            "Name the address alone, such as https://core.example.org, without /api/v2 behind it."
        )
        instead = (alone,) if status == 404 else ()
        return self._error("CORE_REFUSED", sentence, status=status, said=code, instead=instead)

    def _result(self, data: Mapping[str, Any]) -> ActionResult:
        error = data.get("error") or {}
        if data["status"] not in STATUSES:
            raise ValueError(data["status"])
        return ActionResult(
            _text(data, "idempotency_key"),
            _text(data, "status"),
            short(str(error.get("code") or "")),
            str(error.get("message") or "")[:MAX_MESSAGE],
            short(str(_first_detail(error.get("details")).get("field") or "")),
            _clashes(error.get("details")),
            tuple(self._record(record) for record in data.get("records") or ()),
        )

    def _record(self, data: object) -> VersionedRecord:
        try:
            return record_from(data)
        # Skipping the record would lose it for good, so the whole response fails.
        except InputError as error:
            newer = "Upgrade Cortex, if the Core is of a newer version."
            raise self._error(
                "CORE_ANSWER", f"sends what can't be read: {error.message}", suggestions=(newer,)
            ) from None

    def _unexpected(self, status: int = 200) -> ServerRejected:
        return self._error(
            "CORE_ANSWER",
            f"answers with something that no Core says (status {status})",
            status=status,
        )

    def _oversized(self, what: str) -> Oversized:
        return Oversized("CORE_ANSWER", self._sentence(what), context={"url": shown(self.url)})

    def _error(
        self, code: str, what: str, *, status: int = 0, said: str = "", **advice: tuple[str, ...]
    ) -> ServerRejected:
        about: dict[str, object] = {"url": shown(self.url)}
        if status:
            about["status"] = status
        return ServerRejected(
            code, self._sentence(what), status=status, said=said, context=about, **advice
        )

    def _sentence(self, what: str) -> str:
        return f"the Core at {shown(self.url)} {self._connections.redacted(what)}"


def _parse(body: bytes) -> object:
    try:
        # Strictly UTF-8, because the values were counted as UTF-8.
        return json.loads(body.decode())
    except (ValueError, RecursionError):
        return None


def _first_detail(details: object) -> Mapping[str, Any]:
    first = details[0] if isinstance(details, list) and details else None
    return first if isinstance(first, dict) else {}


def _clashes(details: object) -> tuple[tuple[str, str], ...]:
    """Return the (record id, field) pairs of a conflict."""
    return tuple(
        (str(detail["id"]), str(detail["field"]))
        for detail in (details if isinstance(details, list) else ())
        if isinstance(detail, dict) and {"id", "field", "theirs"} <= detail.keys()
    )


def _text(data: Mapping[str, Any], name: str) -> str:
    value = data[name]
    if not isinstance(value, str):
        raise ValueError(name)
    return value


def _texts(values: Sequence[object]) -> list[str]:
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise ValueError("texts")
    return [str(value) for value in values]
