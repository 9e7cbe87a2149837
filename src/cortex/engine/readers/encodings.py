"""Encoding detection and decoding of files.

Nearly every file is UTF-8. Of the rest, text in a western language is recognized by its letters: a
source file with one accented comment has too few of them for statistics. Everything else is
detected by chardet from the lines that aren't ASCII; it is imported only then (100 ms, once in a
worker).
"""

from __future__ import annotations

import codecs
import re

# UTF-32 comes first: its little-endian mark begins with that of UTF-16.
_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_COOKIE = re.compile(rb"(?:coding[:=]|charset=|encoding=)[ \t]*[\"']?([-\w.]{3,20})", re.IGNORECASE)
_TRUSTED = re.compile(
    r"(?:iso-?8859|latin|windows|cp\d|koi8|gb|big5|hz$|shift|sjis|s-jis|euc|mac|tis|ks_c|ascii|"
    r"utf-?8)"
)
_SURROGATE = re.compile("[\ud800-\udfff]")
_HIGH_LINE = re.compile(rb"[^\n]*[\x80-\xff][^\n]*")
DETECTED_BYTES = 20_000

# Letters beyond ASCII by language: German, French, Spanish, Portuguese, the Nordic ones, Italian,
# Dutch. A text with letters outside of each set isn't western.
_WESTERN_LETTERS = tuple(
    frozenset(letters)
    for letters in (
        "äöüß",
        "éèêëàâçîïôùûœüæ",
        "áéíóúñü",
        "áàâãéêíóôõúçü",
        "åäöæøéüè",
        "àèéìòùî",
        "ëïéèüöáóí",
    )
)
_WESTERN_SIGNS = frozenset("¿¡«»°§£€–—‘’“”„…·´²³µ©®ºª×÷±•\xa0")
# Inside a word such a sign is a letter of another code page: "³" is the Polish "ł".
_SIGN_IN_WORD = re.compile(r"[a-zß-ÿ][¹²³¿¡«»°§£·´µ©®º×÷±][a-zß-ÿ]")
_WORD = re.compile(r"[^\W\d_]+")


def decode(raw: bytes) -> str | None:
    """Decode `raw`, without a byte order mark and without surrogates.

    Returns None if it has NUL bytes and is no UTF-16.
    """
    for mark, encoding in _BOMS:
        if raw.startswith(mark):
            return raw[len(mark) :].decode(encoding, errors="replace")
    if b"\0" in raw:
        return _decode_wide(raw)
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return _decode_legacy(raw)


def _decode_wide(raw: bytes) -> str | None:
    """Decode UTF-16 without a mark: mostly ASCII, so nearly every second byte is NUL."""
    if len(raw) % 2:
        return None
    even, odd = raw[::2].count(0), raw[1::2].count(0)
    half = len(raw) // 2
    for encoding, zeros, others in (("utf-16-le", odd, even), ("utf-16-be", even, odd)):
        if zeros > 0.6 * half and others == 0:
            return raw.decode(encoding, errors="replace")
    return None


def _decode_legacy(raw: bytes) -> str:
    return (
        _decode_declared(raw)
        or _decode_damaged(raw)
        or _decode_western(raw)
        or _decode_detected(raw)
    )


def _decode_declared(raw: bytes) -> str | None:
    """Decode as declared, such as by `coding: latin-1` in the first lines, if that fits.

    Only plain encodings are accepted.
    """
    cookie = _COOKIE.search(raw, 0, 400)
    if cookie is None:
        return None
    name = cookie[1].decode("ascii", "replace").lower()
    # Codecs such as unicode_escape produce surrogates, and some aren't for text at all.
    if not _TRUSTED.match(name):
        return None
    try:
        text = raw.decode(name)
    except (UnicodeDecodeError, LookupError):
        return None
    return None if _SURROGATE.search(text) else text


def _decode_damaged(raw: bytes) -> str | None:
    """Decode UTF-8 with few broken bytes."""
    text = raw.decode("utf-8", errors="replace")
    broken = text.count("\ufffd")
    intact = sum(1 for character in text if character > "\x7f") - broken
    return text if broken * 5 <= intact else None


def _decode_western(raw: bytes) -> str | None:
    """Decode Windows-1252 if the letters are those of one western language."""
    try:
        text = raw.decode("cp1252")
    except UnicodeDecodeError:
        return None
    beyond = {character for character in text if character > "\x7f"} - _WESTERN_SIGNS
    letters = {character.lower() for character in beyond}
    if not any(letters <= known for known in _WESTERN_LETTERS) or _SIGN_IN_WORD.search(text):
        return None
    # Words made only of high bytes belong to another script.
    words = [word for word in _WORD.findall(text) if not word.isascii()]
    foreign = sum(1 for word in words if len(word) > 1 and min(word) > "\x7f")
    return text if 2 * foreign <= len(words) else None


def _decode_detected(raw: bytes) -> str:
    """Decode with the encoding that chardet finds most likely, else Latin-1, which never fails."""
    import chardet
    from chardet.enums import EncodingEra

    eras = EncodingEra.MODERN_WEB | EncodingEra.LEGACY_ISO | EncodingEra.DOS
    lines = b"\n".join(_HIGH_LINE.findall(raw))[:DETECTED_BYTES]
    name = chardet.detect(lines, encoding_era=eras)["encoding"]
    try:
        text = raw.decode(name or "cp1252")
    except (UnicodeDecodeError, LookupError):
        return raw.decode("latin-1")
    return raw.decode("latin-1") if _SURROGATE.search(text) else text
