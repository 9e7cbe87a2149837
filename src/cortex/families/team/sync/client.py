"""A team's Core over HTTP: what it says in answer to each question of a sync, checked before any of
it is used.

Knows the addresses and envelopes of `/api/v2/sync`, nothing of what is done with the answers. Four
ways to fail are told apart, because each asks for something else: wait (`Offline`), get another
token (`Denied`), start from the beginning (`Resync`), or look at the address and the versions
(`ServerRejected`). The token stands in one header and in no error.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
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
from cortex.families.team.wire.codec import record_from

BASE = "/api/v2/sync"
ANSWER_SECONDS = 60.0
# A page of 500 artifacts of 100,000 letters has 51 MB; one that has more is asked for in parts.
MAX_ANSWER_BYTES = 64_000_000
# A page of 500 drafts with all that a draft can hold has 535,500. However they are chosen, so many
# take 150 MB besides their text.
MAX_VALUES = 600_000
MAX_MESSAGE = 1_000  # characters of why an entry was refused
MOST_IDS = 1_000  # of one question what is visible
LATER = frozenset((408, 425, 429))  # and every 5xx
APPLIED, REPLAYED, REFUSED, RETRY = "applied", "replayed", "refused", "retry"


class Offline(NetworkError):
    """The Core can't be reached, or can't answer now; `retry_after` seconds where it says so."""

    def __init__(
        self, message: str, retry_after: float = 0.0, *, context: Mapping[str, object] | None = None
    ) -> None:
        super().__init__("CORE_UNAVAILABLE", message, context=context)
        self.retry_after = retry_after


class Denied(NetworkError):
    """The token doesn't count, or no longer."""


class PutOut(Denied):
    """The Core knows the token, and says that its owner may not come in any more; `epoch` is the
    ledger that says so, `name` the owner, and `trusted` is false where something between could have
    said it.
    """

    def __init__(self, message: str, epoch: str, name: str, *, trusted: bool) -> None:
        super().__init__("CORE_DENIED", message)
        self.epoch, self.name, self.trusted = epoch, name, trusted


class ServerRejected(NetworkError):
    """The Core, or what stands at its address, can't be talked to like this."""

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
        self.said = said  # the code of the Core's error


class Oversized(ServerRejected):
    """The answer is larger than what is read: less should be asked for."""


class Resync(ServerRejected):
    """What is here can't be gone on from: the ledger is another one ("epoch"), or what may be seen
    changed ("view").
    """

    def __init__(self, reason: str) -> None:
        super().__init__("CORE_REFUSED", f"the Core wants everything to be compared: {reason}")
        self.reason = reason


@dataclass(frozen=True, slots=True)
class CoreGreeting:
    """Who one is at a Core, and which ledger it has."""

    name: str
    tier: int
    sensitive: bool
    epoch: str
    view: str


@dataclass(frozen=True, slots=True)
class ChangePage:
    """A page of what changed."""

    records: tuple[VersionedRecord, ...]
    invalidations: tuple[str, ...]
    cursor: str
    more: bool
    epoch: str
    view: str


@dataclass(frozen=True, slots=True)
class ActionResult:
    """What became of an entry of the outbox."""

    key: str
    status: str
    code: str
    message: str
    field: str  # that the refusal is about, "" where none is named
    clashes: tuple[tuple[str, str], ...]  # records and fields that somebody else changed meanwhile
    records: tuple[VersionedRecord, ...]  # as the Core has them now


class Remote:
    """A Core, as the holder of one token talks to it."""

    def __init__(self, url: str, token: str, *, plain: bool = False) -> None:
        """`plain` is the person's word that http:// may be used beyond this machine.

        Raises: InputError ARGUMENT_INVALID for what is no address, NetworkError ADDRESS_REFUSED for
        one that sends the token readable.
        """
        try:
            if not parse_url(url):
                raise ValueError("not empty")
        except ValueError as error:
            raise InputError("ARGUMENT_INVALID", f"the address of a Core is {error}") from None
        if not url.lower().startswith("https://") and not plain and not stays_here(url):
            raise NetworkError(
                "ADDRESS_REFUSED",
                f"{shown(url)} would get the token and all records over http://, readable by everybody in between",
                instead=(
                    "Use the https:// address of the Core, or `cortex connect URL --plain-http` where that may be.",
                ),
            )
        self.url = url.rstrip("/")
        self._connections = HttpConnections(
            self.url, token, max_bytes=MAX_ANSWER_BYTES, own_certificates=True
        )

    def bootstrap(self) -> CoreGreeting:
        """Who the token's holder is, and which ledger this is. Raises: Offline, Denied, Refused."""
        told = self._ask("GET", "/bootstrap")
        try:
            who = told["principal"]
            return CoreGreeting(
                _text(who, "name"),
                int(who["tier"]),
                bool(who["sensitive"]),
                _text(told, "epoch"),
                _text(told, "view"),
            )
        except (KeyError, TypeError, ValueError, AttributeError):
            raise self._strange() from None

    def deltas(self, since: str, view: str, limit: int) -> ChangePage:
        """What changed since a cursor, "" from the beginning.

        Raises: Resync, Offline, Denied, Refused.
        """
        told = self._page(since, view, limit)
        try:
            return ChangePage(
                tuple(self._record(one) for one in told["updates"]),
                tuple(_texts(told["invalidations"])),
                _text(told, "next_cursor"),
                bool(told["has_more"]),
                _text(told, "epoch"),
                _text(told, "view"),
            )
        except (KeyError, TypeError, ValueError, AttributeError):
            raise self._strange() from None

    def flush(self, actions: Sequence[Mapping[str, object]]) -> list[ActionResult]:
        """What became of each of these actions, in order; fewer where the Core says nothing of the
        last ones.

        Raises: Offline, Denied, Refused.
        """
        told = self._ask("POST", "/flush", {"actions": list(actions)})
        try:
            results = [self._result(one) for one in told["results"]]
        except (KeyError, TypeError, ValueError, AttributeError):
            raise self._strange() from None
        asked = [action["idempotency_key"] for action in actions]
        if [result.key for result in results] != asked[: len(results)]:
            raise self._strange()
        return results

    def visible(self, ids: Sequence[str]) -> tuple[frozenset[str], frozenset[str]]:
        """Which of at most 1,000 records may be seen, and which the Core doesn't know at all.

        Raises: Offline, Denied, Refused.
        """
        told = self._ask("POST", "/visible", {"ids": list(ids)})
        try:
            return frozenset(_texts(told["visible"])), frozenset(_texts(told["unknown"]))
        except (KeyError, TypeError, ValueError, AttributeError):
            raise self._strange() from None

    def close(self) -> None:
        """End all connections, and what is asked over them."""
        self._connections.close()

    # -- one question
    # --------------------------------------------------------------------------------------------------

    def _page(self, since: str, view: str, limit: int) -> Any:
        """A page, a smaller one where it is larger than what is read."""
        while True:
            query = urlencode({"since": since, "limit": limit, "view": view})
            try:
                return self._ask("GET", f"/deltas?{query}")
            except Oversized:
                if limit == 1:
                    raise
                limit //= 2

    def _ask(self, method: str, path: str, body: Mapping[str, object] | None = None) -> Any:
        """The `data` of an answer. Raises: Offline, Denied, Refused, Resync."""
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
            hint = "For a certificate of your own, set SSL_CERT_FILE to the file of the authority that signed it."
            raise self._error("CORE_REFUSED", str(error), suggestions=(hint,)) from None
        except TooLarge as error:
            raise self._oversized(str(error)) from None
        except NoAnswer as error:
            raise Offline(self._sentence(str(error)), context={"url": shown(self.url)}) from None
        too_much = holds_more(answer.body, MAX_VALUES)
        if too_much and answer.status == 200:
            raise self._oversized(f"answers with more than {MAX_VALUES:,} values")
        told = None if too_much else _parsed(answer.body)
        if answer.status == 200 and isinstance(told, dict) and isinstance(told.get("data"), dict):
            return told["data"]
        raise self._failure(answer, told)

    def _failure(self, answer: HttpResponse, told: object) -> Exception:
        """Why an answer isn't one, in the class that says what to do."""
        status = answer.status
        error = told.get("error") if isinstance(told, dict) else None
        error = error if isinstance(error, dict) else {}
        code, message = (short(str(error.get(name) or "")) for name in ("code", "message"))
        if status in LATER or status >= 500:
            about = {"url": shown(self.url), "status": status}
            return Offline(
                self._sentence(f"can't answer now: status {status}"),
                answer.retry_after,
                context=about,
            )
        if status == 410 and code == "RESYNC_NEEDED":
            return Resync(str(_first(error.get("details")).get("reason", "")))
        about = _first(error.get("details"))
        if status == 401 and code == "AUTH_EXPIRED" and about.get("reason") == "revoked":
            said = self._sentence(
                "says that you were put out: it doesn't accept the token any more"
            )
            epoch, name = (short(str(about.get(key) or "")) for key in ("epoch", "name"))
            trusted = self.url.lower().startswith("https://") or stays_here(self.url)
            return PutOut(said, epoch, name, trusted=trusted)
        if status in (401, 403):  # what it says may hold a part of the token
            return Denied(
                "CORE_DENIED", self._sentence(f"doesn't accept the token: status {status}")
            )
        if 300 <= status < 400:
            return self._error(
                "CORE_REFUSED", "answers with a redirect, which is not followed", status=status
            )
        if not code:
            return self._strange(status)
        what = (
            f"refuses the request: {code}, {message}" if message else f"refuses the request: {code}"
        )
        alone = (
            "Name the address alone, such as https://core.example.org, without /api/v2 behind it.",
        )
        return self._error(
            "CORE_REFUSED", what, status=status, said=code, instead=alone if status == 404 else ()
        )

    def _result(self, told: Mapping[str, Any]) -> ActionResult:
        error = told.get("error") or {}
        if told["status"] not in (APPLIED, REPLAYED, REFUSED, RETRY):
            raise ValueError(told["status"])
        return ActionResult(
            _text(told, "idempotency_key"),
            _text(told, "status"),
            short(str(error.get("code") or "")),
            str(error.get("message") or "")[:MAX_MESSAGE],
            short(str(_first(error.get("details")).get("field") or "")),
            _clashes(error.get("details")),
            tuple(self._record(one) for one in told.get("records") or ()),
        )

    def _record(self, told: object) -> VersionedRecord:
        try:
            return record_from(told)
        except InputError as error:  # left out it would be missing for good
            newer = "Upgrade Cortex, if the Core is of a newer version."
            raise self._error(
                "CORE_ANSWER", f"tells what can't be read: {error.message}", suggestions=(newer,)
            ) from None

    def _strange(self, status: int = 200) -> ServerRejected:
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


def _parsed(body: bytes) -> object:
    try:
        return json.loads(body.decode())  # in nothing but UTF-8, as it was counted
    except (ValueError, RecursionError):
        return None


def _first(details: object) -> Mapping[str, Any]:
    return (
        details[0] if isinstance(details, list) and details and isinstance(details[0], dict) else {}
    )


def _clashes(details: object) -> tuple[tuple[str, str], ...]:
    """Records and fields that details of a conflict name."""
    told = (
        [detail for detail in details if isinstance(detail, dict)]
        if isinstance(details, list)
        else []
    )
    return tuple(
        (str(one["id"]), str(one["field"]))
        for one in told
        if "theirs" in one and {"id", "field"} <= one.keys()
    )


def _text(told: Mapping[str, Any], name: str) -> str:
    value = told[name]
    if not isinstance(value, str):
        raise ValueError(name)
    return value


def _texts(values: Sequence[object]) -> list[str]:
    if not isinstance(values, list) or not all(isinstance(one, str) for one in values):
        raise ValueError("texts")
    return [str(value) for value in values]
