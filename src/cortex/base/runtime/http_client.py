"""One request to another machine over HTTP: within time and size, to that server and no other.

The only room that knows the library for it.

What an answer means is up to whoever asks, and so is trying again. The key goes into one header and
nowhere else: not into errors, logs or another host, since no redirect is followed and no proxy,
netrc or other variable of the environment is looked at, but for the certificates to trust where
that is wanted. A request has one deadline, and but for looking up a name nothing of it waits
longer: the library's own limits are for each read, so that a head of a line a second held a request
of 3 s for as long as the server liked. Roads not taken: a timer that closes the socket, which is a
thread for each request; an SDK for each server, they differ by a few lines.
"""

from __future__ import annotations

import socket
import ssl
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote, urlsplit

if TYPE_CHECKING:  # 50 ms, needed once something is asked
    import httpcore2

CONNECT_SECONDS = 5.0
# Of one answer, with all that come before the last; the library refuses one of 100 KB
MAX_HEAD_BYTES = 256 * 1024
MAX_SHOWN_CHARACTERS = 200
MAX_CONNECTIONS = 100
IDLE_SECONDS = 5.0  # that an unused connection is kept
UNUSABLE = "has an address or a key that can't be used"
# What an address may hold as it is; everything else is percent-encoded.
ADDRESS_SIGNS = "/%:@!$&'(),;=~?+*"


@dataclass(frozen=True, slots=True)
class HttpResponse:
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


class HttpConnections:
    """Connections to one server; threads may use them at once."""

    def __init__(
        self, url: str, key: str = "", *, max_bytes: int, own_certificates: bool = False
    ) -> None:
        """`max_bytes` is the largest answer; with `own_certificates` SSL_CERT_FILE says whom to
        trust, where it is set.
        """
        self.url = url.rstrip("/")
        self._key = key
        self._max_bytes = max_bytes
        self._own_certificates = own_certificates
        self._lock = threading.Lock()
        self._pool: httpcore2.ConnectionPool | None = None
        self._headers: list[tuple[str, str]] = []
        self._closed = threading.Event()
        self._under_way = _UnderWay(self._closed)

    def ask(self, method: str, path: str, content: bytes | None, timeout: float) -> HttpResponse:
        """The server's answer. Raises: NoAnswer, in the class that says why."""
        import httpcore2

        waits = dict.fromkeys(("read", "write", "pool"), timeout)
        limits = {"timeout": {**waits, "connect": min(timeout, CONNECT_SECONDS)}}
        self._under_way.begin(timeout)
        try:
            address = _address(self.url + path)
            with self._open().stream(
                method, address, headers=self._headers, content=content, extensions=limits
            ) as response:
                self._under_way.head_is_read()
                return HttpResponse(response.status, self._read(response), _retry_after(response))
        except httpcore2.ReadTimeout:
            raise Late(timeout, slow=True) from None
        except (httpcore2.TimeoutException, TimeoutError):
            raise Late(timeout, slow=False) from None
        except (httpcore2.UnsupportedProtocol, httpcore2.LocalProtocolError):
            raise Unsendable(UNUSABLE) from None
        except (
            httpcore2.NetworkError,
            httpcore2.ProtocolError,
            httpcore2.ConnectionNotAvailable,
            OSError,
            RuntimeError,
            ValueError,
        ) as error:
            # The last two: what is closed meanwhile, in the pool or in TLS.
            if self._closed.is_set():
                raise Closed from None
            why = self.redacted(str(error)) or type(error).__name__
            if "WRONG_VERSION_NUMBER" in why:  # how the library for TLS reads an answer without it
                why = "it answers, but not over TLS; does it speak http://?"
            kind = Untrusted if "CERTIFICATE_VERIFY_FAILED" in why else NoAnswer
            raise kind(f"can't be reached: {why}") from None

    def wait(self, seconds: float) -> bool:
        """Wait before another try; false where they were closed meanwhile."""
        return not self._closed.wait(seconds)

    def close(self) -> None:
        """End all connections; whoever waits is told so."""
        self._closed.set()
        with self._lock:
            if self._pool is not None:
                self._pool.close()

    def redacted(self, text: str) -> str:
        """A text without the key."""
        return text.replace(self._key, "***") if self._key else text

    def _open(self) -> httpcore2.ConnectionPool:
        import httpcore2

        with self._lock:
            if self._closed.is_set():
                raise Closed
            if self._pool is None:
                self._headers = [
                    ("Content-Type", "application/json"),
                    ("Accept", "application/json"),
                    ("Accept-Encoding", "identity"),
                    ("User-Agent", "cortex"),
                ]
                if self._key:
                    self._headers.append(("Authorization", f"Bearer {_sendable(self._key)}"))
                network = cast("httpcore2.NetworkBackend", _Network(self._under_way))
                self._pool = httpcore2.ConnectionPool(
                    self._trusted(),
                    max_connections=MAX_CONNECTIONS,
                    keepalive_expiry=IDLE_SECONDS,
                    network_backend=network,
                )
            return self._pool

    def _trusted(self) -> ssl.SSLContext | None:
        """The certificates to trust; none are read where the address has no TLS."""
        if not self.url.lower().startswith("https:"):
            return None
        import httpx2

        try:
            return httpx2.create_ssl_context(trust_env=self._own_certificates)
        except OSError as error:  # a file that the environment names: no server is asked
            why = f"the certificates to trust can't be read: {error}"
            raise Untrusted(f"can't be asked: {why}") from None

    def _read(self, response: httpcore2.Response) -> bytes:
        """The body, as far as there is room for it."""
        parts, size = [], 0
        for part in response.iter_stream():
            size += len(part)
            if size > self._max_bytes:
                raise TooLarge(f"answers with more than {self._max_bytes >> 20} MB")
            parts.append(part)
        return b"".join(parts)


class _UnderWay(threading.local):
    """What the request of this thread may still take: the library asks, sends and reads in the
    thread of whoever asks.
    """

    until = 0.0
    room = 0

    def __init__(self, closed: threading.Event) -> None:
        self._closed = closed

    def begin(self, seconds: float) -> None:
        self.until, self.room = time.monotonic() + seconds, MAX_HEAD_BYTES

    def head_is_read(self) -> None:
        """From now on whoever reads the body counts."""
        self.room = sys.maxsize

    def left(self) -> float:
        """The seconds that there are, more than none.

        Raises: TimeoutError; OSError, where it was closed meanwhile.
        """
        if self._closed.is_set():
            raise OSError("closed")
        left = self.until - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left


class _Network:
    """Where the library gets its connections from.

    This and `_Stream` have its shapes without being made of them, see its import.
    """

    def __init__(self, under_way: _UnderWay) -> None:
        self._under_way = under_way

    def connect_tcp(self, host: str, port: int, timeout: float, **options: Any) -> _Stream:
        """A connection to the first address of a name that answers; those not tried yet share what
        is left of the request's time.
        """
        import httpcore2

        found = dict.fromkeys(
            str(one[4][0]) for one in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        )
        failed: Exception = OSError("it has no address")
        addresses = list(found) if len(found) > 1 else [host]
        for tried, address in enumerate(addresses):
            limit = min(timeout, self._under_way.left() / (len(addresses) - tried))
            try:
                stream = httpcore2.SyncBackend().connect_tcp(address, port, limit, **options)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                failed = error
            else:
                return _Stream(stream, self._under_way)
        raise failed


class _Stream:
    """A connection that each request uses up to its deadline; what the library says of a single
    wait is never less.
    """

    def __init__(self, stream: httpcore2.NetworkStream, under_way: _UnderWay) -> None:
        self._stream = stream
        self._socket: socket.socket = stream.get_extra_info("socket")
        self._under_way = under_way
        self.get_extra_info = stream.get_extra_info

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        import httpcore2

        try:
            self._socket.settimeout(self._under_way.left())
            part = self._socket.recv(max_bytes)
        except TimeoutError:
            raise httpcore2.ReadTimeout from None
        self._under_way.room -= len(part)
        if self._under_way.room < 0:
            raise httpcore2.RemoteProtocolError(f"its head has more than {MAX_HEAD_BYTES >> 10} KB")
        return part

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        import httpcore2

        left = memoryview(buffer)
        try:
            while left:
                self._socket.settimeout(self._under_way.left())
                left = left[self._socket.send(left) :]
        except TimeoutError:
            raise httpcore2.WriteTimeout from None
        # Which the library passes over: there may be an answer nonetheless
        except OSError as error:
            raise httpcore2.WriteError(str(error)) from None

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str, timeout: float
    ) -> _Stream:
        limit = min(timeout, self._under_way.left())
        return _Stream(self._stream.start_tls(ssl_context, server_hostname, limit), self._under_way)

    def close(self) -> None:
        with suppress(OSError):  # who waits for it hears of that, and of being closed alone doesn't
            socket.socket.shutdown(self._socket, socket.SHUT_RDWR)
        self._stream.close()


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


def _address(url: str) -> httpcore2.URL:
    """An address as it is sent. Raises: Unsendable."""
    import httpcore2

    try:
        parts = urlsplit(url)
        host = (parts.hostname or "").encode("idna" if parts.hostname else "ascii")
        port = parts.port
    except ValueError:  # UnicodeError, too: a name that can't be one
        raise Unsendable(UNUSABLE) from None
    if not host or parts.scheme not in ("http", "https"):
        raise Unsendable(UNUSABLE)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    encoded = quote(target, safe=ADDRESS_SIGNS)
    return httpcore2.URL(scheme=parts.scheme, host=host, port=port, target=encoded)


def _sendable(key: str) -> str:
    if not key.isascii() or not key.isprintable() or key != key.strip():
        raise Unsendable("has a key with characters that can't be sent")
    return key


def _retry_after(response: httpcore2.Response) -> float:
    """Seconds that a Retry-After header asks to wait, given as a number or as a date; 0 without
    one.
    """
    values = [value for name, value in response.headers if name.lower() == b"retry-after"]
    text = values[0].decode("latin-1").strip() if values else ""
    if text.isdecimal():
        return float(text[:9])
    try:
        until = parsedate_to_datetime(text)
    except (ValueError, TypeError):
        return 0.0
    return max(
        0.0,
        (
            (until if until.tzinfo else until.replace(tzinfo=UTC)) - datetime.now(UTC)
        ).total_seconds(),
    )
