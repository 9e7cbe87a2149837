"""Checks of `cortex doctor`, one module for each part.

A finding says what it means and how to fix it; some have an automatic repair.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """Severity of a finding: an error breaks something, a warning may."""

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Finding:
    """Result of one check."""

    check: str
    level: Level
    text: str
    # Instruction for the user.
    fix: str = ""
    # Safe without a confirmation; returns a description of the repair.
    repair: Callable[[], str] | None = None


def ok(check: str, text: str) -> Finding:
    """Build a finding without a problem."""
    return Finding(check, Level.OK, text)


def warning(check: str, text: str, fix: str, repair: Callable[[], str] | None = None) -> Finding:
    """Build a finding about a possible problem."""
    return Finding(check, Level.WARNING, text, fix, repair)


def error(check: str, text: str, fix: str, repair: Callable[[], str] | None = None) -> Finding:
    """Build a finding about a failure."""
    return Finding(check, Level.ERROR, text, fix, repair)
