"""What a Core writes to stderr: a line for each request and for whatever else happens, as JSON or
as text.

Never a token, a body, a query or a text that somebody wrote: a line tells who asked for which
route, and how that went.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from dataclasses import asdict, dataclass
from datetime import UTC, datetime

LOGGER = "cortex.core.requests"
FIELDS = "request"  # of a line about a request
SELDOM_SECONDS = 60.0  # between two lines of the database's driver that say the same
MOST_TOLD = 1_000  # of them that are remembered

log = logging.getLogger(LOGGER)


@dataclass(frozen=True, slots=True)
class ServedRequest:
    """How a request went."""

    request_id: str
    principal: str  # "" for nobody who is known
    method: str
    route: str  # as the table has it, never as it was asked for
    status: int
    ms: float


def note(served: ServedRequest) -> None:
    """Write a line about a request."""
    level = logging.ERROR if served.status >= 500 else logging.INFO
    text = f"{served.method} {served.route} {served.status} {served.ms:.1f}ms {served.principal or '-'} {served.request_id}"
    log.log(level, text, extra={FIELDS: served})


class JsonLines(logging.Formatter):
    """One JSON object for each line."""

    def format(self, record: logging.LogRecord) -> str:
        """A line."""
        told: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
        }
        served = getattr(record, FIELDS, None)
        if isinstance(served, ServedRequest):
            told |= asdict(served)
        else:
            told |= {"logger": record.name, "message": record.getMessage()}
        if record.exc_info:
            told["traceback"] = self.formatException(record.exc_info)
        return json.dumps(told, ensure_ascii=False, default=str)


class Seldom(logging.Filter):
    """Lets a line through that wasn't written a moment ago: while a database is away, each try to
    reach it is one.
    """

    def __init__(self) -> None:
        super().__init__()
        self._told: dict[tuple[str, str], float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether it is new."""
        # As its writer has it, without what varies
        line, now = (record.name, str(record.msg)), time.monotonic()
        if now - self._told.get(line, -SELDOM_SECONDS) < SELDOM_SECONDS:
            return False
        if len(self._told) >= MOST_TOLD:
            self._told.clear()
        self._told[line] = now
        return True


def write_logs(form: str, level: str = "info") -> None:
    """Have all of Cortex, the server and the driver below it log to stderr, as "json" or "text"."""
    plain = logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s")
    wanted = {"warn": "WARNING"}.get(level, level.upper())
    for name, least in (("cortex", wanted), ("uvicorn", "WARNING"), ("psycopg", "WARNING")):
        to_stderr = logging.StreamHandler(sys.stderr)
        to_stderr.setFormatter(JsonLines() if form == "json" else plain)
        if name == "psycopg":
            to_stderr.addFilter(Seldom())
        one = logging.getLogger(name)
        one.handlers = [to_stderr]
        one.setLevel(least)
        one.propagate = False
