"""Classification of a single value: random, chosen by a person, a variable, or an example.

A value is random where it has too many pairs of characters that identifiers don't have. Not taken:
entropy, which says too little about a dozen characters.
"""

from __future__ import annotations

import base64
import binascii
import itertools
import math
from collections import Counter

import regex as re

# Bits per character after a key's prefix; 32 characters of hex have at least 3.3.
MIN_ENTROPY = 2.5
# Turns (see is_random) per character; random keys have .27 to .6, identifiers up to .2.
MIN_RANDOM_TURNS = 0.22
# Letters and digits of the shortest value that is classified by its pairs of them.
MIN_ODD = 12
# Share of odd pairs; random letters and digits have .35 to .9, identifiers up to .28.
MIN_ODD_PAIRS = 0.3
# Steps from digit to digit and letter to letter, and the share of them that counts up by one.
MIN_STEPS, MIN_COUNTED = 6, 0.75

# UUIDs that standards use as examples.
KNOWN_UUIDS = frozenset(
    {"550e8400-e29b-41d4-a716-446655440000", "123e4567-e89b-12d3-a456-426614174000"}
)
UUID = re.compile(r"(?i)[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}")
_NOT_RANDOM = re.compile(
    # A date, version, path, address, hash.
    r"\d{4}-\d\d-\d\d|v?\d{1,5}+(?:\.\d{1,5}+){1,3}+|[./~\\]|\w{1,20}+://|"
    r"(?i:sha\d{1,3}+|md5)[-:]|(?:magnet|urn|data):"
    # An attribute.
    r"|[A-Za-z_]\w{0,60}+(?:(?:\.|::|->)[A-Za-z_]\w{0,60}+){1,8}+$"
    # A name of words: utf8_to_utf16.
    r"|[a-z]{2,20}+\d{0,2}+(?:_[a-z]{2,20}+\d{0,2}+){1,6}+$",
    re.ASCII,
)
_VARIABLE = re.compile(
    r"^[$%]\w|[$%#][({]|\{[^}]{0,99}+\}|<[^>]{0,99}+>|\[[^]]{0,99}+\]|\([^)]{0,99}+\)|"
    r"%s|\*\*|\.\.\.|…|•|\\[ux]"
)
# The name of a variable: refreshTokenV2Key
_NAMES_ONE = re.compile(r"(?i)(?:token|secret|key)\d{0,2}+\Z")
MADE_UP_WORDS = (
    "example", "xxxx", "your", "changeme", "change-me", "change_me", "placeholder", "redacted",
    "dummy", "fake", "sample", "password", "passwd", "secret", "token", "apikey", "api_key",
    "api-key", "insert", "hunter2", "foobar", "123456", "abcdef", "qwerty", "0000000", "1111111",
    "aaaaaa", "s3cr3t", "pass", "user", "admin", "test", "gx1fbat3bv",
)  # fmt: skip
# Whole example values from RFC 5849 and 6749, oauthlib and the manual of AWS IAM.
_DOCUMENTED = (
    "h480djs93hd8", "2YotnFZFEjr1zCsicMWpAA", "tGzv3JOkF0XG5Qx2TlKWIA", "mF_9.B5f-4.1JqM",
    "kkk9d7dh3k39sjv7", "ad180jjd733klru7", "askfjh234as9sd8", "sdf0o9823sjdfsdf",
    "2kjshdfp92i34asdasd", "3s0K_;xh4~8XXI", "]35d/{pB9Fo9wJ", "h]6EszR}vJ*m", "&1-3a6u:RA0djs",
)  # fmt: skip
_SURELY_MADE_UP = re.compile(
    r"(?i)example|xxxx|your[_-]|changeme|placeholder|redacted|dummy|1234567890|0123456789|abcdefgh|"
    r"(.)\1{7}|" + "|".join(map(re.escape, _DOCUMENTED))
)
# The example token of jwt.io. Another token with the same claims is a real one.
_SAMPLE_TOKEN = ".".join(
    (
        "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9",
        "eyJzdWIiOiIxMjM0NTY3ODkwIiwibmFtZSI6IkpvaG4gRG9lIiwiaWF0IjoxNTE2MjM5MDIyfQ",
        "SflKxwRJSMeKKF2QT4fwpMeJf36POk6yJV_adQssw5c",
    )
)
# The letters that follow each letter in 95 % of all places, in 21,597 words of programs and
# documents.
_FOLLOWERS = {
    "a": "bcdgiklmnprstuvy", "b": "aeilorsu", "c": "acehiklorstuy", "d": "abdeilorsu",
    "e": "abcdefgilmnopqrstvwxy", "f": "aefiloru", "g": "aehilnorsu", "h": "aeiort",
    "i": "abcdefglmnoprstvxz", "j": "e", "k": "eis", "l": "adeilostuy", "m": "abeimopsu",
    "n": "acdefgiklnostuv", "o": "abcdfgiklmnoprstuvw", "p": "acehiloprstuy", "q": "u",
    "r": "acdegiklmnoprstuvy", "s": "acehiklopstuy", "t": "acehiloprstuy", "u": "abcdegilmnprst",
    "v": "aei", "w": "aeior", "x": "ceipt", "y": "npst", "z": "e",
}  # fmt: skip
_USUAL_PAIRS = frozenset(
    letter + follower for letter, followers in _FOLLOWERS.items() for follower in followers
)


def is_random(value: str) -> bool:
    """Return whether a value looks generated rather than written by a person.

    Letters and digits take turns in it, or follow each other oddly. A turn is from a letter to a
    digit or back, or from a lower-case letter to a capital: identifiers have few of them.
    """
    if _NOT_RANDOM.match(value) or UUID.fullmatch(value) or is_variable(value) or is_made_up(value):
        return False
    if "password" in value.lower() or _NAMES_ONE.search(value) or _encodes_a_placeholder(value):
        return False
    letters = [character for character in value if character.isalnum()]
    changes = sum(
        first.isdigit() != second.isdigit() for first, second in itertools.pairwise(letters)
    )
    capitals = sum(
        first.islower() and second.isupper() for first, second in itertools.pairwise(letters)
    )
    if changes and changes + capitals >= max(3, MIN_RANDOM_TURNS * len(letters)):
        return True
    return capitals > 0 and len(letters) >= MIN_ODD and _odd_pairs(value) >= MIN_ODD_PAIRS


def _odd_pairs(value: str) -> float:
    """Return the share of neighbours that identifiers don't have; 0 for non-ASCII text."""
    pairs = [
        first + second
        for first, second in itertools.pairwise(value.lower())
        if first.isalnum() and second.isalnum()
    ]
    odd = sum(pair not in _USUAL_PAIRS and not pair.isdigit() for pair in pairs)
    return odd / len(pairs) if pairs and value.isascii() else 0.0


def _encodes_a_placeholder(value: str) -> bool:
    """Return whether a value is base64 of words about a password: "not my real password"."""
    words = decoded(value).lower()
    return words.replace(" ", "").isalpha() and has_placeholder_word(words)


def is_chosen(value: str) -> bool:
    """Return whether a quoted value is a password that a person made.

    Such a password has letters, digits and signs, and no placeholder word.
    """
    signs = any(not character.isalnum() and character not in "_-./:" for character in value)
    return (
        signs
        and any(map(str.isdigit, value))
        and any(map(str.isalpha, value))
        and not has_placeholder_word(value.lower())
        and not is_variable(value)
        and not is_made_up(value, 2.0)
        and not _NOT_RANDOM.match(value)
    )


def is_sample_token(value: str) -> bool:
    """Return whether a value is exactly the example token of jwt.io."""
    return value == _SAMPLE_TOKEN


def has_placeholder_word(value: str) -> bool:
    """Return whether a value in lower case contains a placeholder word."""
    return any(word in value for word in MADE_UP_WORDS)


def is_variable(value: str) -> bool:
    """Return whether a value is a variable: ${TOKEN}, %s, <token>, os.environ["TOKEN"], ***."""
    return _VARIABLE.search(value) is not None


def is_made_up(value: str, least: float = MIN_ENTROPY) -> bool:
    """Return whether a value is an example: by a word, counting up, or few distinct characters."""
    return (
        _SURELY_MADE_UP.search(value) is not None
        or is_sample_token(value)
        or _entropy(value) < least
        or _counts_up(value)
    )


def _counts_up(value: str) -> bool:
    """Return whether digits and letters, each on their own, count up: a1b2c3d4, a123b45c6d."""
    steps = [
        (ord(second) - ord(first)) % base == 1
        for kind, base in ((str.isdigit, 10), (str.isalpha, 26))
        for first, second in itertools.pairwise(filter(kind, value.lower()))
    ]
    return len(steps) >= MIN_STEPS and sum(steps) >= MIN_COUNTED * len(steps)


def _entropy(value: str) -> float:
    """Return the Shannon entropy in bits per character."""
    size = len(value)
    return -sum(count / size * math.log2(count / size) for count in Counter(value).values())


def decoded(part: str) -> str:
    """Decode a part of a token from base64 to ASCII text; "" where it isn't."""
    try:
        return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)).decode("ascii")
    except (binascii.Error, ValueError):
        return ""
