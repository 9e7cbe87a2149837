"""One request to another machine over HTTP: within time and size, to that server and no other. The only room that knows the library for it.

What an answer means is up to whoever asks, and so is trying again. The key goes into one header and nowhere else: not into errors,
logs or another host, since no redirect is followed and no proxy, netrc or other variable of the environment is looked at, but for the
certificates to trust where that is wanted. Road not taken: an SDK for each server; they differ by a few lines.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:  # 70 ms, needed once something is asked
    import httpx2

CONNECT_SECONDS = 5.0
MAX_SHOWN_CHARACTERS = 200


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server answered, whatever it is."""

    status: int
    body: bytes
    retry_after: float  # seconds that it asks to wait, 0 where it doesn't


class NoAnswer(Exception):
    """There is no answer, and the text says why; the server's name goes before it."""


class Late(NoAnswer):
    """It took too long; `slow` where the server was at work on it."""

    def __init__(self, seconds: float, *, slow: bool) -> None:
        super().__init__(f"did not answer within {round(seconds, 2):g} s")
        self.slow = slow


class Unsendable(NoAnswer):
    """The address or the key can't be used."""


class Untrusted(NoAnswer):
    """Nobody that is trusted vouches for the server's certificate."""


class TooLarge(NoAnswer):
    """The answer is larger than anything that is read."""


class Closed(NoAnswer):
    """These connections were closed."""

    def __init__(self) -> None:
        super().__init__("was closed")


class Connections:
    """Connections to one server; threads may use them at once."""

    def __init__(self, url: str, key: str = "", *, max_bytes: int, own_certificates: bool = False) -> None:
        """`max_bytes` is the largest answer; with `own_certificates` SSL_CERT_FILE says whom to trust, where it is set."""
        self.url = url.rstrip("/")
        self._key = key
        self._max_bytes = max_bytes
        self._own_certificates = own_certificates
        self._lock = threading.Lock()
        self._http: httpx2.Client | None = None
        self._closed = threading.Event()

    def ask(self, method: str, path: str, content: bytes | None, timeout: float) -> Answer:
        """The server's answer. Raises: NoAnswer, in the class that says why."""
        import httpx2

        limits = httpx2.Timeout(timeout, connect=min(timeout, CONNECT_SECONDS))
        deadline = time.monotonic() + timeout
        try:
            with self._open().stream(method, self.url + path, content=content, timeout=limits) as response:
                body = self._read(response, deadline, timeout)
                return Answer(response.status_code, body, _seconds(response.headers.get("retry-after", "")))
        except httpx2.ReadTimeout:
            raise Late(timeout, slow=True) from None
        except httpx2.TimeoutException:
            raise Late(timeout, slow=False) from None
        except (httpx2.InvalidURL, httpx2.UnsupportedProtocol, httpx2.LocalProtocolError):
            raise Unsendable("has an address or a key that can't be used") from None
        except (httpx2.HTTPError, httpx2.StreamError, OSError, RuntimeError) as error:  # the last: closed meanwhile
            kind = Untrusted if "CERTIFICATE_VERIFY_FAILED" in str(error) else NoAnswer
            raise kind(f"can't be reached: {self.redacted(str(error)) or type(error).__name__}") from None

    def wait(self, seconds: float) -> bool:
        """Wait before another try; false where they were closed meanwhile."""
        return not self._closed.wait(seconds)

    def close(self) -> None:
        """End all connections; whoever waits is told so."""
        self._closed.set()
        with self._lock:
            if self._http is not None:
                self._http.close()

    def redacted(self, text: str) -> str:
        """A text without the key."""
        return text.replace(self._key, "***") if self._key else text

    def _open(self) -> httpx2.Client:
        import httpx2

        with self._lock:
            if self._closed.is_set():
                raise Closed
            if self._http is None:
                headers = {
                    "Content-Type": "application/json",
                    "Accept": "application/json",
                    "Accept-Encoding": "identity",
                }
                if self._key:
                    headers["Authorization"] = f"Bearer {_sendable(self._key)}"
                logging.getLogger("httpx2").setLevel(logging.WARNING)  # every request would be a line
                try:
                    trusted = httpx2.create_ssl_context(trust_env=self._own_certificates)
                except OSError as error:  # a file that somebody named: no server is asked
                    raise Untrusted(f"can't be asked: the certificates to trust can't be read: {error}") from None
                self._http = httpx2.Client(headers=headers, verify=trusted, trust_env=False, follow_redirects=False)
            return self._http

    def _read(self, response: httpx2.Response, deadline: float, timeout: float) -> bytes:
        """The body, as far as there is time and room for it."""
        parts, size = [], 0
        for part in response.iter_bytes():
            size += len(part)
            if size > self._max_bytes:
                raise TooLarge(f"answers with more than {self._max_bytes >> 20} MB")
            if time.monotonic() > deadline:
                raise Late(timeout, slow=True)
            parts.append(part)
        return b"".join(parts)


def shown(url: str) -> str:
    """An address without the secrets that it may hold."""
    try:
        parts = urlsplit(url)
        port = "" if parts.port is None else f":{parts.port}"
    except ValueError:
        return "an address that can't be read"
    host = parts.hostname or ""
    return f"{parts.scheme}://{f'[{host}]' if ':' in host else host}{port}{parts.path}"


def short(text: str) -> str:
    """What a server said, in a line that fits into an error."""
    line = " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())
    return line if len(line) <= MAX_SHOWN_CHARACTERS else line[:MAX_SHOWN_CHARACTERS] + "..."


def _sendable(key: str) -> str:
    if not key.isascii() or not key.isprintable() or key != key.strip():
        raise Unsendable("has a key with characters that can't be sent")
    return key


def _seconds(retry_after: str) -> float:
    """How long a Retry-After header says to wait: seconds, or until a date."""
    if retry_after.strip().isdecimal():
        return float(retry_after.strip()[:9])
    try:
        until = parsedate_to_datetime(retry_after)
    except (ValueError, TypeError):
        return 0.0
    return max(0.0, ((until if until.tzinfo else until.replace(tzinfo=UTC)) - datetime.now(UTC)).total_seconds())
