"""Parsing and formatting of values: sizes ("1.5MB"), durations ("60s"), lists ("a,b").

Pure functions; knows no key and no file. Formatted values parse back to the same value. Sizes are
decimal (1 MB = 1,000,000 bytes) as storage is sold and as the defaults are meant; the binary units
are spelled KiB, MiB, ... A value that can't be parsed raises ValueError saying what is allowed.
"""

from __future__ import annotations

import json
import math
import re

_SIZE_UNITS = {"": 1, "B": 1}
for _power, _letter in enumerate("KMGT", start=1):
    _SIZE_UNITS |= {
        _letter: 1000**_power,
        f"{_letter}B": 1000**_power,
        f"{_letter}IB": 1024**_power,
    }
_SECONDS = {"ms": 0.001, "": 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_AMOUNT = re.compile(r"\s*(\d{1,15}(?:\.\d{1,9})?)\s*([A-Za-z]*)\s*", re.ASCII)
_LOOPBACK = re.compile(
    r"https?://(localhost|127(\.\d{1,3}){3}|\[::1\])(:\d{1,5})?(/[^\\@\s]*)?",
    re.ASCII | re.IGNORECASE,
)
# Paths of servers that speak a supported embedding protocol.
_EMBEDDING_PATHS = ("", "/embed", "/v1", "/v1/embeddings")
_URL = re.compile(r"https?://[^\s\\/?#@]+(/[^\s\\?#]*)?", re.IGNORECASE)


def parse_size(value: object) -> int:
    """Parse "1.5MB", "512 KiB" or a plain number to bytes."""
    amount, unit = _amount(value, "a size such as 1.5MB, 512KiB or a number of bytes")
    if unit.upper() not in _SIZE_UNITS:
        raise ValueError("a size such as 1.5MB, 512KiB or a number of bytes")
    return round(amount * _SIZE_UNITS[unit.upper()])


def parse_duration(value: object) -> float:
    """Parse "60s", "30m", "500ms" or a plain number to seconds."""
    amount, unit = _amount(value, "a duration such as 500ms, 60s, 30m or a number of seconds")
    if unit.lower() not in _SECONDS:
        raise ValueError("a duration such as 500ms, 60s, 30m or a number of seconds")
    return amount * _SECONDS[unit.lower()]


def parse_list(value: object) -> object:
    """Parse a list from text: a JSON array, or parts between commas.

    Anything else is returned as it is.
    """
    if not isinstance(value, str):
        return value
    if value.lstrip().startswith("["):
        return json.loads(value)
    return [part.strip() for part in value.split(",") if part.strip()]


def parse_paths(value: object) -> object:
    """Parse like `parse_list`, but text that isn't a JSON array is one path: paths have commas."""
    if isinstance(value, str) and not value.lstrip().startswith("["):
        return [value]
    return parse_list(value)


def parse_url(value: object) -> object:
    """Return `value` if it is an http or https URL, or empty.

    A user, ? and # are rejected: URLs are shown, and must not hold a secret.
    """
    if isinstance(value, str) and value and not _URL.fullmatch(value):
        raise ValueError(
            "an address that starts with http:// or https://, without user, password, ? and #"
        )
    return value


def refuse_boolean(value: object) -> object:
    """Return `value` unless it is a boolean: `maxFiles: true` is a mistake, not one file."""
    if isinstance(value, bool):
        raise ValueError("a number")
    return value


def stays_here(url: str) -> bool:
    """Return whether `url` certainly stays on this machine.

    Strict on purpose: a spelling that parsers read differently doesn't count.
    """
    return _LOOPBACK.fullmatch(url) is not None


def is_embedding_address(url: str) -> bool:
    """Return whether `url` stays on this machine and has a documented path of embedding servers."""
    match = _LOOPBACK.fullmatch(url)
    return match is not None and (match[4] or "").rstrip("/") in _EMBEDDING_PATHS


def format_size(size: int) -> str:
    """Return the shortest spelling of `size` that parses back to the same number."""
    for unit in ("TB", "GB", "MB", "KB"):
        text = f"{size / _SIZE_UNITS[unit]:.3f}".rstrip("0").rstrip(".")
        if size >= _SIZE_UNITS[unit] and parse_size(text + unit) == size:
            return text + unit
    return f"{size}B"


def format_duration(seconds: float) -> str:
    """Return a spelling of `seconds` that parses back to the same number."""
    for unit in ("h", "m"):
        whole, rest = divmod(seconds, _SECONDS[unit])
        if whole and not rest:
            return f"{whole:.0f}{unit}"
    return f"{seconds!r}".removesuffix(".0") + "s"


def _amount(value: object, allowed: str) -> tuple[float, str]:
    if isinstance(value, str):
        match = _AMOUNT.fullmatch(value)
        if match:
            return float(match[1]), match[2]
    elif (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and math.isfinite(value)
        and 0 <= value < 1e18
    ):
        return value, ""
    raise ValueError(allowed)
