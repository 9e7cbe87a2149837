"""What a Core writes to stderr: a line for each request and for whatever else happens, as JSON or as text.

Never a token, a body, a query or a text that somebody wrote: a line tells who asked for which route, and how that went.
"""

from __future__ import annotations

import json
import logging
import sys
from dataclasses import asdict, dataclass
from datetime import UTC, datetime

LOGGER = "cortex.core.requests"
FIELDS = "request"  # of a line about a request

log = logging.getLogger(LOGGER)


@dataclass(frozen=True, slots=True)
class Served:
    """How a request went."""

    request_id: str
    principal: str  # "" for nobody who is known
    method: str
    route: str  # as the table has it, never as it was asked for
    status: int
    ms: float


def note(served: Served) -> None:
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
        if isinstance(served, Served):
            told |= asdict(served)
        else:
            told |= {"logger": record.name, "message": record.getMessage()}
        if record.exc_info:
            told["traceback"] = self.formatException(record.exc_info)
        return json.dumps(told, ensure_ascii=False, default=str)


def write_logs(form: str, level: str = "info") -> None:
    """Have all of Cortex, and the server below it, log to stderr, as "json" or "text"."""
    to_stderr = logging.StreamHandler(sys.stderr)
    plain = logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s")
    to_stderr.setFormatter(JsonLines() if form == "json" else plain)
    for name, least in (("cortex", {"warn": "WARNING"}.get(level, level.upper())), ("uvicorn", "WARNING")):
        one = logging.getLogger(name)
        one.handlers = [to_stderr]
        one.setLevel(least)
        one.propagate = False
