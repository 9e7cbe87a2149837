"""Which encoding bytes are in, and the text they spell.

Nearly every file is UTF-8; the rest is found by trial, each multi-byte encoding being asked whether the result looks like its
language. Not taken: charset-normalizer, whose import alone costs more than a thousand UTF-8 files, for encodings nobody keeps code in.
"""

from __future__ import annotations

import codecs
import re

_BOMS = (  # UTF-32 first: its little-endian mark begins with that of UTF-16
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_COOKIE = re.compile(rb"(?:coding[:=]|charset=|encoding=)[ \t]*[\"']?([-\w.]{3,20})", re.IGNORECASE)
_TRUSTED = re.compile(
    r"(?:iso-?8859|latin|windows|cp\d|koi8|gb|big5|hz$|shift|sjis|s-jis|euc|mac|tis|ks_c|ascii|utf-?8)"
)
_SURROGATE = re.compile("[\ud800-\udfff]")
_HIGH_RUN = re.compile(rb"[\x80-\xff]+")

# Characters that text of the language is made of, and the share of all beyond ASCII that they must have.
_HANGUL = re.compile(r"[\uac00-\ud7a3]")
_KANA = re.compile(r"[\u3041-\u3096\u30a1-\u30fc]")
_CYRILLIC = re.compile(r"[а-яё]")
_GB_COMMON = re.compile(rb"[\xb0-\xd7][\xa1-\xfe]")
_BIG5_COMMON = re.compile(rb"[\xa4-\xc6][\x40-\x7e\xa1-\xfe]")
_BY_CHARACTER = (
    ("cp932", _KANA, 0.2),
    ("euc_jp", _KANA, 0.2),
    ("cp949", _HANGUL, 0.8),
    ("cp1251", _CYRILLIC, 0.6),
    ("koi8_r", _CYRILLIC, 0.6),
)
_BY_PAIR = (("gb18030", _GB_COMMON, 0.6), ("big5", _BIG5_COMMON, 0.6))


def decode(raw: bytes) -> str | None:
    """The text of `raw`, without a byte order mark and without surrogates; None where it has NUL bytes and is no UTF-16."""
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
    """UTF-16 without a mark: mostly ASCII, so that nearly every second byte is NUL."""
    if len(raw) % 2:
        return None
    even, odd = raw[::2].count(0), raw[1::2].count(0)
    half = len(raw) // 2
    for encoding, zeros, others in (("utf-16-le", odd, even), ("utf-16-be", even, odd)):
        if zeros > 0.6 * half and others == 0:
            return raw.decode(encoding, errors="replace")
    return None


def _decode_legacy(raw: bytes) -> str:
    return _decode_declared(raw) or _decode_damaged(raw) or _decode_by_trial(raw) or _decode_western(raw)


def _decode_declared(raw: bytes) -> str | None:
    """What a cookie such as `coding: latin-1` in the first lines says, if it is a plain encoding and fits."""
    cookie = _COOKIE.search(raw, 0, 400)
    if cookie is None:
        return None
    name = cookie[1].decode("ascii", "replace").lower()
    if not _TRUSTED.match(name):  # codecs such as unicode_escape give surrogates, and some aren't text at all
        return None
    try:
        text = raw.decode(name)
    except (UnicodeDecodeError, LookupError):
        return None
    return None if _SURROGATE.search(text) else text


def _decode_damaged(raw: bytes) -> str | None:
    """UTF-8 in which few bytes are broken."""
    text = raw.decode("utf-8", errors="replace")
    broken = text.count("\ufffd")
    whole = sum(1 for character in text if character > "\x7f") - broken
    return text if broken * 5 <= whole else None


def _decode_by_trial(raw: bytes) -> str | None:
    """Scripts other than the Latin one: their high bytes come in runs, while accented letters stand alone."""
    runs = _HIGH_RUN.findall(raw)
    high = sum(map(len, runs))
    if sum(len(run) for run in runs if len(run) > 1) < high / 2:
        return None
    for encoding, expected, share in _BY_CHARACTER:
        text = _decode_strictly(raw, encoding)
        if text is None:
            continue
        beyond = sum(1 for character in text if character > "\x7f")
        if len(expected.findall(text)) >= share * beyond:
            return text
    for encoding, common, share in _BY_PAIR:
        text = _decode_strictly(raw, encoding)
        if text is not None and sum(2 * len(common.findall(run)) for run in runs) >= share * high:
            return text
    return None


def _decode_strictly(raw: bytes, encoding: str) -> str | None:
    try:
        text = raw.decode(encoding)
    except UnicodeDecodeError:
        return None
    return None if _SURROGATE.search(text) else text


def _decode_western(raw: bytes) -> str:
    """Windows' western code page, and Latin-1 for the five bytes that it lacks: never fails."""
    try:
        return raw.decode("cp1252")
    except UnicodeDecodeError:
        return raw.decode("latin-1")
