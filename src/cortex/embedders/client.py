"""One embedding server over HTTP: send JSON, read JSON, within time and size, again where that may help.

Knows no dialect and no vectors. The key goes into one header and nowhere else: not into errors, logs or another host, since no redirect
is followed and no proxy, netrc or other variable of the environment is looked at. Road not taken: an SDK for each provider; the three
dialects differ by a few lines.
"""

from __future__ import annotations

import json
import logging
import random
import re
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from cortex.errors import NetworkError

if TYPE_CHECKING:  # 70 ms, needed once something is asked
    import httpx2

CONNECT_SECONDS = 5.0
FIRST_WAIT_SECONDS = 0.5  # before the second try; twice as long before each further one
MAX_WAIT_SECONDS = 60.0  # a server that wants more time is given up
MAX_ANSWER_BYTES = 64_000_000
MAX_SHOWN_CHARACTERS = 200
LATER = frozenset((408, 425, 429, 500, 502, 503, 504))  # statuses that may be others in a moment
_TOO_LONG = re.compile(
    r"too (long|large)|context (length|size|window)|maximum (context|input|sequence)|max\w*[ _](tokens|length)|input length|exceed"
    r"|physical batch",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Server:
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
    """It did not work, and may in a moment: after `seconds`, where the server says so; `slow` where it was at work on it."""

    def __init__(self, error: NetworkError, seconds: float = 0.0, *, slow: bool = False) -> None:
        super().__init__(error.message)
        self.error = error
        self.seconds = seconds
        self.slow = slow


class Client:
    """Connections to one server; threads may use it at once."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self._base = server.url.rstrip("/")
        self._lock = threading.Lock()
        self._http: httpx2.Client | None = None
        self._closed = threading.Event()

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

        What is `divisible` is not asked again when it took too long: less of it may be in time. Between tries it waits within
        `resting`. Raises: NetworkError EMBEDDER_UNAVAILABLE, EMBEDDER_REFUSED or EMBEDDER_ANSWER; TooMuch.
        """
        content = None if body is None else json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")
        for attempt in range(1, tries + 1):
            try:
                return self._parsed(self._once(path, content, timeout))
            except _Later as later:
                if later.slow and divisible:
                    raise TooMuch(later.error.message, slow=True) from None
                wait = max(later.seconds, FIRST_WAIT_SECONDS * 2 ** (attempt - 1) * random.uniform(0.8, 1.2))
                if attempt == tries or wait > MAX_WAIT_SECONDS:
                    raise later.error from None
                with resting():
                    closed = self._closed.wait(wait)
                if closed:
                    break
        raise self.error("EMBEDDER_UNAVAILABLE", "was closed")

    def error(self, code: str, what: str, *suggestions: str, **context: object) -> NetworkError:
        """An error about this server."""
        about = {"provider": self.server.provider, "url": shown(self._base), **context}
        message = f"{self.server.provider} at {shown(self._base)} {self._redacted(what)}"
        return NetworkError(code, message, context=about, suggestions=suggestions)

    def close(self) -> None:
        """End all connections; whoever waits for the next try is told so."""
        self._closed.set()
        with self._lock:
            if self._http is not None:
                self._http.close()

    def _once(self, path: str, content: bytes | None, timeout: float) -> bytes:
        import httpx2

        limits = httpx2.Timeout(timeout, connect=min(timeout, CONNECT_SECONDS))
        deadline = time.monotonic() + timeout
        method = "GET" if content is None else "POST"
        try:
            with self._connections().stream(method, self._base + path, content=content, timeout=limits) as response:
                body = self._read(response, deadline)
                self._judge(response.status_code, response.headers.get("retry-after", ""), body)
                return body
        except httpx2.ReadTimeout:
            raise self._late(timeout, slow=True) from None
        except httpx2.TimeoutException:
            raise self._late(timeout) from None
        except (httpx2.InvalidURL, httpx2.UnsupportedProtocol, httpx2.LocalProtocolError):
            raise self.error("EMBEDDER_REFUSED", "has an address or a key that can't be used") from None
        except (httpx2.HTTPError, httpx2.StreamError, OSError, RuntimeError) as error:  # the last: closed meanwhile
            reason = str(error) or type(error).__name__
            raise _Later(self.error("EMBEDDER_UNAVAILABLE", f"can't be reached: {reason}")) from None

    def _connections(self) -> httpx2.Client:
        import httpx2

        with self._lock:
            if self._closed.is_set():
                raise self.error("EMBEDDER_UNAVAILABLE", "was closed")
            if self._http is None:
                headers = {
                    "Content-Type": "application/json",
                    "Accept": "application/json",
                    "Accept-Encoding": "identity",
                }
                if self.server.key:
                    headers["Authorization"] = f"Bearer {_sendable(self.server.key, self)}"
                logging.getLogger("httpx2").setLevel(logging.WARNING)  # every request would be a line
                self._http = httpx2.Client(headers=headers, trust_env=False, follow_redirects=False)
            return self._http

    def _read(self, response: httpx2.Response, deadline: float) -> bytes:
        """The body, as far as there is time and room for it."""
        parts, size = [], 0
        for part in response.iter_bytes():
            size += len(part)
            if size > MAX_ANSWER_BYTES:
                raise self.error("EMBEDDER_ANSWER", f"answers with more than {MAX_ANSWER_BYTES >> 20} MB")
            if time.monotonic() > deadline:
                raise self._late(self.server.timeout, slow=True)
            parts.append(part)
        return b"".join(parts)

    def _late(self, timeout: float, *, slow: bool = False) -> _Later:
        return _Later(self.error("EMBEDDER_UNAVAILABLE", f"did not answer within {round(timeout, 2):g} s"), slow=slow)

    def _judge(self, status: int, retry_after: str, body: bytes) -> None:
        """Go on only with an answer. Raises: TooMuch, _Later, NetworkError EMBEDDER_REFUSED."""
        if 200 <= status < 300:
            return
        said = _said(body)
        if status == 413 or (status in (400, 422, 500) and _TOO_LONG.search(said)):
            raise TooMuch(said)
        spent = status == 429 and "insufficient_quota" in said
        if status in LATER and not spent:
            seconds = _seconds(retry_after)
            error = self.error("EMBEDDER_UNAVAILABLE", f"can't answer now: status {status}", status=status)
            if seconds:
                error.context["retry_after_seconds"] = round(seconds)
            raise _Later(error, seconds)
        if status in (401, 403):  # what it says may hold a part of the key
            what = "refuses the key" if self.server.key else "wants a key"
            raise self.error("EMBEDDER_REFUSED", f"{what}: status {status}", status=status)
        if 300 <= status < 400:
            what = "answers with a redirect, which is not followed; set baseUrl to the address that it leads to"
            raise self.error("EMBEDDER_REFUSED", what, status=status)
        what = f"refuses the request: status {status}" + (f", {_short(self._redacted(said))}" if said else "")
        raise self.error("EMBEDDER_REFUSED", what, status=status)

    def _parsed(self, body: bytes) -> object:
        try:
            return json.loads(body)
        except (ValueError, RecursionError):
            raise self.error("EMBEDDER_ANSWER", "answers with something that is no JSON") from None

    def _redacted(self, text: str) -> str:
        return text.replace(self.server.key, "***") if self.server.key else text


def shown(url: str) -> str:
    """An address without the secrets that it may hold."""
    try:
        parts = urlsplit(url)
        port = "" if parts.port is None else f":{parts.port}"
    except ValueError:
        return "an address that can't be read"
    host = parts.hostname or ""
    return f"{parts.scheme}://{f'[{host}]' if ':' in host else host}{port}{parts.path}"


def _sendable(key: str, client: Client) -> str:
    if not key.isascii() or not key.isprintable() or key != key.strip():
        raise client.error("EMBEDDER_REFUSED", "has a key with characters that can't be sent")
    return key


def _said(body: bytes) -> str:
    """What an error's body says, wherever servers put it."""
    text = body[:10_000].decode("utf-8", "replace")
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return json.dumps(said.get("error", said) if isinstance(said, dict) else said, ensure_ascii=False)


def _short(text: str) -> str:
    line = " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())
    return line if len(line) <= MAX_SHOWN_CHARACTERS else line[:MAX_SHOWN_CHARACTERS] + "..."


def _seconds(retry_after: str) -> float:
    """How long a Retry-After header says to wait: seconds, or until a date."""
    if retry_after.strip().isdecimal():
        return float(retry_after.strip()[:9])
    try:
        until = parsedate_to_datetime(retry_after)
    except (ValueError, TypeError):
        return 0.0
    return max(0.0, ((until if until.tzinfo else until.replace(tzinfo=UTC)) - datetime.now(UTC)).total_seconds())
