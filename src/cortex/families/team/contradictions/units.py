"""Numbers with units: 30 s and 30,000 ms are equal amounts.

Pure. Road not taken: a units library, which knows furlongs but not requests per second.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from cortex.families.team.sentences import STOP_WORDS, stem

_WORDS = {
    word: float(value)
    for value, word in enumerate("two three four five six seven eight nine ten".split(), 2)
}
NUMBER = re.compile(
    r"(?<![\w.,#/\\:@^-])(?P<money>[$€£]\s?)?(?P<n>\d{1,12}(?:[,_]\d{3}){0,4}(?:\.\d{1,9})?"
    r"|\b(?:two|three|four|five|six|seven|eight|nine|ten)\b)"
    r"(?![\d_]|\.\d|-\d|[/:,]\d|st\b|nd\b|rd\b|th\b)",
    re.IGNORECASE,
)
_SECONDS = {
    "ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "msec": 1e-3, "millisecond": 1e-3,
    "milliseconds": 1e-3, "s": 1.0, "sec": 1.0, "secs": 1.0, "second": 1.0, "seconds": 1.0,
    "min": 60.0, "mins": 60.0, "minute": 60.0, "minutes": 60.0, "h": 3600.0, "hr": 3600.0,
    "hrs": 3600.0, "hour": 3600.0, "hours": 3600.0, "d": 86400.0, "day": 86400.0, "days": 86400.0,
    "week": 604800.0, "weeks": 604800.0, "month": 2592000.0, "months": 2592000.0,
    "year": 31536000.0, "years": 31536000.0,
}  # fmt: skip
_BYTES = {"b": 1.0, "byte": 1.0, "bytes": 1.0} | {
    spelled: scale
    for power, letter in enumerate("kmgt", 1)
    for spelled, scale in ((f"{letter}b", 1000.0**power), (f"{letter}ib", 1024.0**power))
}
_RATES = {"rps": "request", "qps": "query", "tps": "transaction"}
_UNIT = re.compile(r"[\s-]?(?:(%|percent\b)|([A-Za-zµ]{1,12}))(?![\w])")
_PER = re.compile(
    r"\s?(?:/|per\s|an?\s(?=second|minute|hour|day))\s?(?:each\s)?([A-Za-z]{1,12})(?!\w)"
)
# Tolerance between powers of 1,000 and 1,024, up to the fourth.
_SLACK = 0.11


@dataclass(frozen=True, slots=True)
class Amount:
    """A number in the base unit of its dimension.

    Dimensions are seconds, bytes, a percentage, money, a count of things, or none.
    """

    value: float
    # "", "time", "bytes", "%", "money:$", "count:<stem>", each with "/time" for a rate.
    dimension: str
    shown: str
    # As written, in lower case.
    unit: str

    @property
    def noun(self) -> str:
        """The counted thing, "" for a measurement."""
        return _RATES.get(self.unit, self.unit) if self.dimension.startswith("count:") else ""

    def equals(self, other: Amount) -> bool:
        """True if both are the same amount in any notation."""
        slack = _SLACK if self.dimension == "bytes" and self.unit != other.unit else 1e-6
        return abs(self.value - other.value) <= slack * max(abs(self.value), abs(other.value))


def end_of_unit(text: str, end: int) -> int:
    """Return the end of the unit that follows at `end`; `end` itself if there is none."""
    match = _UNIT.match(text, end)
    unit = (match[2] or "%").lower() if match else ""
    return (
        match.end()
        if match and (unit == "%" or unit in _SECONDS or unit in _BYTES or unit in _RATES)
        else end
    )


def amount_after(text: str, digits: str, end: int, money: str) -> tuple[Amount, int]:
    """Parse the amount of the number that ends at `end`; returns it and the end of its unit."""
    value = _WORDS.get(digits.lower()) or float(digits.replace(",", "").replace("_", ""))
    match = _UNIT.match(text, end)
    word = (match[2] or "").lower() if match else ""
    factor, dimension, unit = 1.0, "", ""
    if money:
        dimension, match = f"money:{money}", None
    elif match and match[1]:
        dimension, unit = "%", "%"
    elif word in _SECONDS:
        factor, dimension, unit = _SECONDS[word], "time", word
    elif word in _BYTES:
        factor, dimension, unit = _BYTES[word], "bytes", word
    elif word in _RATES:
        dimension, unit = f"count:{_RATES[word]}/time", word
    elif len(word) > 1 and word not in STOP_WORDS:
        dimension, unit = f"count:{stem(word)}", word
    else:
        match = None
    last = match.end() if match else end
    per = _PER.match(text, last)
    if (
        per
        and (dimension.startswith(("count:", "money:", "bytes")))
        and per[1].lower() in _SECONDS
        and "/" not in dimension
    ):
        factor, dimension, last = factor / _SECONDS[per[1].lower()], dimension + "/time", per.end()
    return Amount(value * factor, dimension, (money + digits + text[end:last]).strip(), unit), last
