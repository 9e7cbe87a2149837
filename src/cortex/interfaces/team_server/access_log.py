"""Logging of a Core to stderr: a line per request and per event, as JSON or as text.

A line never has a token, a body, a query or text of a record: it names the principal, the route,
the status and the duration.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from dataclasses import asdict, dataclass
from datetime import UTC, datetime

LOGGER = "cortex.core.requests"
# Attribute of a log record that holds the request.
FIELDS = "request"
# Logged in place of a route for an unknown path.
UNKNOWN = "unknown"
# Shortest time between two equal lines of the database driver.
SELDOM_SECONDS = 60.0
# Lines of the driver that are remembered.
MOST_TOLD = 1_000

log = logging.getLogger(LOGGER)


@dataclass(slots=True)
class ServedRequest:
    """Access log entry of a request, filled in while it is answered."""

    request_id: str
    # Empty for an unauthenticated client.
    principal: str = ""
    method: str = ""
    # The path of the route with its placeholders, never the requested path.
    route: str = UNKNOWN
    status: int = 0
    ms: float = 0.0


def note(served: ServedRequest) -> None:
    """Write a line about a request."""
    level = logging.ERROR if served.status >= 500 else logging.INFO
    text = (
        f"{served.method} {served.route} {served.status} {served.ms:.1f}ms "
        f"{served.principal or '-'} {served.request_id}"
    )
    log.log(level, text, extra={FIELDS: served})


class JsonLines(logging.Formatter):
    """Formatter that writes one JSON object per line."""

    def format(self, record: logging.LogRecord) -> str:
        """Format a log record."""
        entry: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
        }
        served = getattr(record, FIELDS, None)
        if isinstance(served, ServedRequest):
            entry |= asdict(served)
        else:
            entry |= {"logger": record.name, "message": record.getMessage()}
        if record.exc_info:
            entry["traceback"] = self.formatException(record.exc_info)
        return json.dumps(entry, ensure_ascii=False, default=str)


class Seldom(logging.Filter):
    """Filter that drops a line repeated within a minute.

    While a database is down, each attempt to connect logs the same line.
    """

    def __init__(self) -> None:
        super().__init__()
        self._last_written: dict[tuple[str, str], float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """True if the line wasn't written recently."""
        # The message template, without its arguments.
        line, now = (record.name, str(record.msg)), time.monotonic()
        if now - self._last_written.get(line, -SELDOM_SECONDS) < SELDOM_SECONDS:
            return False
        if len(self._last_written) >= MOST_TOLD:
            self._last_written.clear()
        self._last_written[line] = now
        return True


def write_logs(form: str, level: str = "info") -> None:
    """Send the logs of Cortex, uvicorn and psycopg to stderr, as "json" or "text"."""
    plain = logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s")
    wanted = {"warn": "WARNING"}.get(level, level.upper())
    for name, least in (("cortex", wanted), ("uvicorn", "WARNING"), ("psycopg", "WARNING")):
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(JsonLines() if form == "json" else plain)
        if name == "psycopg":
            handler.addFilter(Seldom())
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.setLevel(least)
        logger.propagate = False
