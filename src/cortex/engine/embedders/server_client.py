"""HTTP client of one embedding server: sends JSON, parses JSON, retries where that may help.

Knows no dialect and no vectors; the connection itself is `base/runtime/http_client.py`. The key
never appears in an error, even if the server's message repeats it.
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

# Before the second try; doubled before each further one.
FIRST_WAIT_SECONDS = 0.5
# A server that asks for a longer wait is given up.
MAX_WAIT_SECONDS = 60.0
MAX_ANSWER_BYTES = 64_000_000
# Statuses that may pass.
LATER = frozenset((408, 425, 429, 500, 502, 503, 504))
_TOO_LONG = re.compile(
    r"too (long|large)|context (length|size|window)|maximum (context|input|sequence)|max\w*[ "
    r"_](tokens|length)|input length|exceed"
    r"|physical batch",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class EmbeddingServer:
    """Address of an embedding server, with its key and timeout."""

    provider: str
    url: str
    key: str = field(default="", repr=False)
    # Per request.
    timeout: float = 30.0


class TooMuch(Exception):
    """The server rejects so much text at once, or is too `slow` for it."""

    def __init__(self, what: str, *, slow: bool = False) -> None:
        super().__init__(what)
        self.slow = slow


class _Later(Exception):
    """A failed request that is worth a retry, after `seconds` if the server says so.

    `slow` means that the server was still working on it.
    """

    def __init__(self, error: NetworkError, seconds: float = 0.0, *, slow: bool = False) -> None:
        super().__init__(error.message)
        self.error = error
        self.seconds = seconds
        self.slow = slow


class EmbeddingClient:
    """Connections to one server; safe to use from several threads."""

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
        """Return the server's parsed answer to a POST of `body`, or to a GET without one.

        A `divisible` request that took too long is not repeated: a part of it may be in time.
        Between tries it waits within `resting`.

        Raises: NetworkError EMBEDDER_UNAVAILABLE, EMBEDDER_REFUSED or EMBEDDER_ANSWER; TooMuch.
        """
        content = (
            None
            if body is None
            else json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")
        )
        for attempt in range(1, tries + 1):
            try:
                return self._parse(self._send(path, content, timeout))
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
        """Build an error about this server."""
        about = {"provider": self.server.provider, "url": shown(self._connections.url), **context}
        message = (
            f"{self.server.provider} at {shown(self._connections.url)} "
            f"{self._connections.redacted(what)}"
        )
        return NetworkError(code, message, context=about, suggestions=suggestions)

    def close(self) -> None:
        """Close all connections; calls that wait for a retry fail with an error."""
        self._connections.close()

    def _send(self, path: str, content: bytes | None, timeout: float) -> bytes:
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
        self._check_status(answer)
        return answer.body

    def _check_status(self, answer: HttpResponse) -> None:
        """Check the status of an answer.

        Raises: TooMuch, _Later, NetworkError EMBEDDER_REFUSED.
        """
        status = answer.status
        if 200 <= status < 300:
            return
        detail = _error_text(answer.body)
        if status == 413 or (status in (400, 422, 500) and _TOO_LONG.search(detail)):
            raise TooMuch(detail)
        is_out_of_quota = status == 429 and "insufficient_quota" in detail
        if status in LATER and not is_out_of_quota:
            seconds = answer.retry_after
            error = self.error(
                "EMBEDDER_UNAVAILABLE", f"can't answer now: status {status}", status=status
            )
            if seconds:
                error.context["retry_after_seconds"] = round(seconds)
            raise _Later(error, seconds)
        # The server's message may contain a part of the key.
        if status in (401, 403):
            what = "refuses the key" if self.server.key else "wants a key"
            raise self.error("EMBEDDER_REFUSED", f"{what}: status {status}", status=status)
        if 300 <= status < 400:
            what = (
                "answers with a redirect, which is not followed; set baseUrl to the address "
                "that it leads to"
            )
            raise self.error("EMBEDDER_REFUSED", what, status=status)
        what = f"refuses the request: status {status}" + (
            f", {short(self._connections.redacted(detail))}" if detail else ""
        )
        raise self.error("EMBEDDER_REFUSED", what, status=status)

    def _parse(self, body: bytes) -> object:
        try:
            return json.loads(body)
        except (ValueError, RecursionError):
            raise self.error("EMBEDDER_ANSWER", "answers with something that is no JSON") from None


def _error_text(body: bytes) -> str:
    """Extract the error message from a body, in the shapes that servers use."""
    text = body[:10_000].decode("utf-8", "replace")
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return json.dumps(
        parsed.get("error", parsed) if isinstance(parsed, dict) else parsed, ensure_ascii=False
    )
