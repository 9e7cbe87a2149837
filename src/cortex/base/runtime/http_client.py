"""HTTP requests to one server, bounded in time and size.

The only module that knows the HTTP library. The caller interprets the response and decides about
retries. The key is sent in one header and appears nowhere else: not in errors, logs or requests to
another host. No redirect is followed; proxies, netrc and other environment variables are ignored,
except for the certificates to trust where `own_certificates` is set.

Each request has one deadline that everything but name resolution respects. The library's own
timeouts apply to each read: a server that sent one header line a second could hold a request of 3 s
for as long as it liked. Roads not taken: a timer that closes the socket, which is a thread for each
request; an SDK for each server, as they differ by a few lines.
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

# Importing it takes 50 ms, so it is imported with the first request.
if TYPE_CHECKING:
    import httpcore2

CONNECT_SECONDS = 5.0
# Limit for the heads of all responses to a request, informational ones included; the library
# itself refuses a single head of 100 KB.
MAX_HEAD_BYTES = 256 * 1024
MAX_SHOWN_CHARACTERS = 200
MAX_CONNECTIONS = 100
# Time that an unused connection is kept open.
IDLE_SECONDS = 5.0
UNUSABLE = "has an address or a key that can't be used"
# Characters of a URL that stay as they are; all others are percent-encoded.
ADDRESS_SIGNS = "/%:@!$&'(),;=~?+*"


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """A server's response, with any status."""

    status: int
    body: bytes
    retry_after: float  # seconds to wait by its Retry-After header, 0 without one


class NoAnswer(Exception):
    """No usable response; the message says why and is meant to follow the server's name."""


class Late(NoAnswer):
    """The request timed out; `slow` where the server had received it."""

    def __init__(self, seconds: float, *, slow: bool) -> None:
        super().__init__(f"did not answer within {round(seconds, 2):g} s")
        self.slow = slow


class Unsendable(NoAnswer):
    """The URL or the key can't be used."""


class Untrusted(NoAnswer):
    """The server's certificate isn't signed by a trusted authority."""


class TooLarge(NoAnswer):
    """The response exceeds the size limit."""


class Closed(NoAnswer):
    """The connections were closed."""

    def __init__(self) -> None:
        super().__init__("was closed")


class HttpConnections:
    """A pool of connections to one server; safe for use by several threads."""

    def __init__(
        self, url: str, key: str = "", *, max_bytes: int, own_certificates: bool = False
    ) -> None:
        """Create the pool; the first request opens a connection.

        `max_bytes` is the largest response body. With `own_certificates` the file that
        SSL_CERT_FILE names is trusted, where it is set.
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
        """Send a request and return the response.

        Raises: NoAnswer, in the subclass that names the cause.
        """
        import httpcore2

        timeouts = dict.fromkeys(("read", "write", "pool"), timeout)
        limits = {"timeout": {**timeouts, "connect": min(timeout, CONNECT_SECONDS)}}
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
            # The pool raises RuntimeError and TLS raises ValueError when closed during a request.
            if self._closed.is_set():
                raise Closed from None
            why = self.redacted(str(error)) or type(error).__name__
            # OpenSSL reports this where the response isn't TLS at all.
            if "WRONG_VERSION_NUMBER" in why:
                why = "it answers, but not over TLS; does it speak http://?"
            kind = Untrusted if "CERTIFICATE_VERIFY_FAILED" in why else NoAnswer
            raise kind(f"can't be reached: {why}") from None

    def wait(self, seconds: float) -> bool:
        """Wait before another attempt; False where the connections were closed meanwhile."""
        return not self._closed.wait(seconds)

    def close(self) -> None:
        """Close all connections; requests under way raise Closed."""
        self._closed.set()
        with self._lock:
            if self._pool is not None:
                self._pool.close()

    def redacted(self, text: str) -> str:
        """Return a text with the key masked."""
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
        """Load the certificates to trust; None where the URL has no TLS."""
        if not self.url.lower().startswith("https:"):
            return None
        import httpx2

        try:
            return httpx2.create_ssl_context(trust_env=self._own_certificates)
        # A file named by the environment can't be read; no request is sent.
        except OSError as error:
            why = f"the certificates to trust can't be read: {error}"
            raise Untrusted(f"can't be asked: {why}") from None

    def _read(self, response: httpcore2.Response) -> bytes:
        """Read the body, up to the size limit."""
        parts, size = [], 0
        for part in response.iter_stream():
            size += len(part)
            if size > self._max_bytes:
                raise TooLarge(f"answers with more than {self._max_bytes >> 20} MB")
            parts.append(part)
        return b"".join(parts)


class _UnderWay(threading.local):
    """Time and head size that the current thread's request has left.

    Thread-local, because the library connects, sends and reads in the caller's thread.
    """

    until = 0.0
    room = 0

    def __init__(self, closed: threading.Event) -> None:
        self._closed = closed

    def begin(self, seconds: float) -> None:
        self.until, self.room = time.monotonic() + seconds, MAX_HEAD_BYTES

    def head_is_read(self) -> None:
        """Stop counting head bytes: the reader of the body has a limit of its own."""
        self.room = sys.maxsize

    def left(self) -> float:
        """Return the seconds left, always more than 0.

        Raises: TimeoutError; OSError, where the connections were closed meanwhile.
        """
        if self._closed.is_set():
            raise OSError("closed")
        left = self.until - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left


class _Network:
    """Network backend of the library.

    This class and `_Stream` match its interfaces without inheriting, so that it needn't be
    imported.
    """

    def __init__(self, under_way: _UnderWay) -> None:
        self._under_way = under_way

    def connect_tcp(self, host: str, port: int, timeout: float, **options: Any) -> _Stream:
        """Connect to the first address of a host that answers.

        The addresses not tried yet share the time that the request has left.
        """
        import httpcore2

        resolved = dict.fromkeys(
            str(info[4][0]) for info in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        )
        failed: Exception = OSError("it has no address")
        addresses = list(resolved) if len(resolved) > 1 else [host]
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
    """A connection that limits every wait by the deadline of the current request.

    The timeout that the library passes for a single wait is ignored: it is never shorter.
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
        # The library ignores a WriteError: there may be a response nonetheless.
        except OSError as error:
            raise httpcore2.WriteError(str(error)) from None

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str, timeout: float
    ) -> _Stream:
        limit = min(timeout, self._under_way.left())
        return _Stream(self._stream.start_tls(ssl_context, server_hostname, limit), self._under_way)

    def close(self) -> None:
        # A thread that waits in recv wakes up on shutdown, but not on close alone.
        with suppress(OSError):
            socket.socket.shutdown(self._socket, socket.SHUT_RDWR)
        self._stream.close()


def shown(url: str) -> str:
    """Return a URL without the secrets that it may hold."""
    try:
        parts = urlsplit(url)
        port = "" if parts.port is None else f":{parts.port}"
    except ValueError:
        return "an address that can't be read"
    host = parts.hostname or ""
    return f"{parts.scheme}://{f'[{host}]' if ':' in host else host}{port}{parts.path}"


def short(text: str) -> str:
    """Shorten a server's message to one line that fits into an error."""
    line = " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())
    return line if len(line) <= MAX_SHOWN_CHARACTERS else line[:MAX_SHOWN_CHARACTERS] + "..."


def _address(url: str) -> httpcore2.URL:
    """Parse and encode a URL for sending. Raises: Unsendable."""
    import httpcore2

    try:
        parts = urlsplit(url)
        host = (parts.hostname or "").encode("idna" if parts.hostname else "ascii")
        port = parts.port
    # Includes UnicodeError, for a host name that isn't valid.
    except ValueError:
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
    """Return the seconds of a Retry-After header, given as a number or a date; 0 without one."""
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
