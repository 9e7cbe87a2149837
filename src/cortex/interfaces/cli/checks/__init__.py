"""What `cortex doctor` looks at, one module for each part; a finding says what it means and what to
do, and some can do it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """How bad it is: an error keeps something from working, a warning may."""

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Finding:
    """What a look at one thing gave."""

    check: str
    level: Level
    text: str
    fix: str = ""  # for a person
    # Does what is safe to do without asking; gives what was done
    repair: Callable[[], str] | None = None


def ok(check: str, text: str) -> Finding:
    """All is well."""
    return Finding(check, Level.OK, text)


def warning(check: str, text: str, fix: str, repair: Callable[[], str] | None = None) -> Finding:
    """Something may go wrong."""
    return Finding(check, Level.WARNING, text, fix, repair)


def error(check: str, text: str, fix: str, repair: Callable[[], str] | None = None) -> Finding:
    """Something doesn't work."""
    return Finding(check, Level.ERROR, text, fix, repair)
