"""List numbers as they are printed: 3, c, III."""

from __future__ import annotations

_ROMAN = (
    (1000, "m"), (900, "cm"), (500, "d"), (400, "cd"), (100, "c"), (90, "xc"), (50, "l"),
    (40, "xl"), (10, "x"), (9, "ix"), (5, "v"), (4, "iv"), (1, "i"),
)  # fmt: skip
MAX_ROMAN = 5_000


def counted(value: int, form: str) -> str:
    """Format `value` in a number format of Word; unknown formats are printed in digits."""
    if form in ("lowerLetter", "upperLetter") and value > 0:
        letter = chr(ord("a") + (value - 1) % 26) * min((value - 1) // 26 + 1, 10)
        return letter if form == "lowerLetter" else letter.upper()
    if form in ("lowerRoman", "upperRoman") and 0 < value < MAX_ROMAN:
        roman = _roman(value)
        return roman if form == "lowerRoman" else roman.upper()
    return f"{value:02}" if form == "decimalZero" else str(value)


def _roman(value: int) -> str:
    out = ""
    for worth, letters in _ROMAN:
        out += letters * (value // worth)
        value %= worth
    return out
