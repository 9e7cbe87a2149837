"""One embedding server over HTTP: send JSON, read JSON, again where that may help.

Knows no dialect and no vectors; the connection itself is `base/runtime/http_client.py`'s. The key
stands in no error: what a server says may hold it.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

from cortex.base.errors import NetworkError
from cortex.base.runtime.http_client import (
    Closed,
    HttpConnections,
    HttpResponse,
    Late,
    NoAnswer,
    TooLarge,
    Unsendable,
    short,
    shown,
)

FIRST_WAIT_SECONDS = 0.5  # before the second try; twice as long before each further one
MAX_WAIT_SECONDS = 60.0  # a server that wants more time is given up
MAX_ANSWER_BYTES = 64_000_000
LATER = frozenset((408, 425, 429, 500, 502, 503, 504))  # statuses that may be others in a moment
_TOO_LONG = re.compile(
    r"too (long|large)|context (length|size|window)|maximum (context|input|sequence)|max\w*[ _](tokens|length)|input length|exceed"
    r"|physical batch",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class EmbeddingServer:
    """Where an embedding server is, and what it may take."""

    provider: str
    url: str
    key: str = field(default="", repr=False)
    timeout: float = 30.0  # of one request


class TooMuch(Exception):
    """The server can't take so much text at once: it says so, or it is too `slow` for it."""

    def __init__(self, what: str, *, slow: bool = False) -> None:
        super().__init__(what)
        self.slow = slow


class _Later(Exception):
    """It did not work, and may in a moment: after `seconds`, where the server says so; `slow` where
    it was at work on it.
    """

    def __init__(self, error: NetworkError, seconds: float = 0.0, *, slow: bool = False) -> None:
        super().__init__(error.message)
        self.error = error
        self.seconds = seconds
        self.slow = slow


class EmbeddingClient:
    """Connections to one server; threads may use it at once."""

    def __init__(self, server: EmbeddingServer) -> None:
        self.server = server
        self._connections = HttpConnections(server.url, server.key, max_bytes=MAX_ANSWER_BYTES)

    def ask(
        self,
        path: str,
        body: Mapping[str, object] | None,
        *,
        tries: int,
        timeout: float,
        divisible: bool = False,
        resting: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> object:
        """The server's answer, parsed: to a POST of `body`, to a GET without one.

        What is `divisible` is not asked again when it took too long: less of it may be in time.
        Between tries it waits within `resting`. Raises: NetworkError EMBEDDER_UNAVAILABLE,
        EMBEDDER_REFUSED or EMBEDDER_ANSWER; TooMuch.
        """
        content = (
            None
            if body is None
            else json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")
        )
        for attempt in range(1, tries + 1):
            try:
                return self._parsed(self._once(path, content, timeout))
            except _Later as later:
                if later.slow and divisible:
                    raise TooMuch(later.error.message, slow=True) from None
                wait = max(
                    later.seconds,
                    FIRST_WAIT_SECONDS * 2 ** (attempt - 1) * random.uniform(0.8, 1.2),
                )
                if attempt == tries or wait > MAX_WAIT_SECONDS:
                    raise later.error from None
                with resting():
                    open_still = self._connections.wait(wait)
                if not open_still:
                    break
        raise self.error("EMBEDDER_UNAVAILABLE", "was closed")

    def error(self, code: str, what: str, *suggestions: str, **context: object) -> NetworkError:
        """An error about this server."""
        about = {"provider": self.server.provider, "url": shown(self._connections.url), **context}
        message = f"{self.server.provider} at {shown(self._connections.url)} {self._connections.redacted(what)}"
        return NetworkError(code, message, context=about, suggestions=suggestions)

    def close(self) -> None:
        """End all connections; whoever waits for the next try is told so."""
        self._connections.close()

    def _once(self, path: str, content: bytes | None, timeout: float) -> bytes:
        try:
            answer = self._connections.ask(
                "GET" if content is None else "POST", path, content, timeout
            )
        except Unsendable as error:
            raise self.error("EMBEDDER_REFUSED", str(error)) from None
        except TooLarge as error:
            raise self.error("EMBEDDER_ANSWER", str(error)) from None
        except Closed as error:
            raise self.error("EMBEDDER_UNAVAILABLE", str(error)) from None
        except NoAnswer as error:
            slow = isinstance(error, Late) and error.slow
            raise _Later(self.error("EMBEDDER_UNAVAILABLE", str(error)), slow=slow) from None
        self._judge(answer)
        return answer.body

    def _judge(self, answer: HttpResponse) -> None:
        """Go on only with an answer that can be used.

        Raises: TooMuch, _Later, NetworkError EMBEDDER_REFUSED.
        """
        status = answer.status
        if 200 <= status < 300:
            return
        said = _said(answer.body)
        if status == 413 or (status in (400, 422, 500) and _TOO_LONG.search(said)):
            raise TooMuch(said)
        spent = status == 429 and "insufficient_quota" in said
        if status in LATER and not spent:
            seconds = answer.retry_after
            error = self.error(
                "EMBEDDER_UNAVAILABLE", f"can't answer now: status {status}", status=status
            )
            if seconds:
                error.context["retry_after_seconds"] = round(seconds)
            raise _Later(error, seconds)
        if status in (401, 403):  # what it says may hold a part of the key
            what = "refuses the key" if self.server.key else "wants a key"
            raise self.error("EMBEDDER_REFUSED", f"{what}: status {status}", status=status)
        if 300 <= status < 400:
            what = "answers with a redirect, which is not followed; set baseUrl to the address that it leads to"
            raise self.error("EMBEDDER_REFUSED", what, status=status)
        what = f"refuses the request: status {status}" + (
            f", {short(self._connections.redacted(said))}" if said else ""
        )
        raise self.error("EMBEDDER_REFUSED", what, status=status)

    def _parsed(self, body: bytes) -> object:
        try:
            return json.loads(body)
        except (ValueError, RecursionError):
            raise self.error("EMBEDDER_ANSWER", "answers with something that is no JSON") from None


def _said(body: bytes) -> str:
    """What an error's body says, wherever servers put it."""
    text = body[:10_000].decode("utf-8", "replace")
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return json.dumps(
        said.get("error", said) if isinstance(said, dict) else said, ensure_ascii=False
    )
