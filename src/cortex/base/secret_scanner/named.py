"""Secrets that their place tells: passwords in addresses and commands, values beside a secret's
name.
"""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import unquote

import regex as re

from cortex.base.secret_scanner.values import (
    KNOWN_UUIDS,
    MADE_UP_WORDS,
    UUID,
    decoded,
    is_chosen,
    is_made_up,
    is_random,
    is_variable,
    speaks_of_itself,
)
from cortex.base.types import Leak

MIN_PASSWORD = 6  # characters of one behind a user's name

# -- passwords in addresses
# --------------------------------------------------------------------------------------------

_ADDRESS = re.compile(r"://([^\s:/@\"'<>`]{0,100}+):([^\s/@\"'<>`]{6,200}+)@([\w.-]{1,100}+)")
_NO_HOSTS = frozenset(
    "host hostname your-host your_host myhost db-host dbhost server domain".split()
)
_NO_DOMAINS = frozenset({"example", "test", "invalid"})  # kept free for examples
_PLACEHOLDER = re.compile(
    r"(?:my|the|a(?!dmin|pi)|your|some|super|very|pass(?:word|wd|phrase)?|secret|user|name|admin|test|api|key|token|foo|bar){1,6}+"
)
_AS_LETTERS = str.maketrans("01345@$", "oieasas")  # p4ssw0rd
_HOSTS = re.compile(r"\d{1,5}+,")  # a port and the next of several hosts


def passwords_in_addresses(text: str) -> Iterator[Leak]:
    """Passwords between a user and a host, which stay."""
    if "://" not in text:
        return
    for match in _ADDRESS.finditer(text):
        user, password, host = match.groups()
        near = host == "localhost" or host.startswith("127.")
        nowhere = _is_nowhere(host.lower()) and not (
            host.lower() in _NO_HOSTS and is_random(password)
        )
        if not (nowhere or _HOSTS.match(password) or _is_no_password(user, password, near)):
            yield Leak("password in an address", *match.span(2))


def _is_no_password(user: str, password: str, near: bool = False) -> bool:
    """Whether what stands behind a user's name is a placeholder; for a server on this machine any
    word is one.
    """
    folded, written = password.lower(), unquote(password).lower()
    words = "".join(filter(str.isalnum, written))
    plain = words.isalpha() and (
        near or folded in MADE_UP_WORDS or _PLACEHOLDER.fullmatch(words) is not None
    )
    disguised = near and _PLACEHOLDER.fullmatch(folded.translate(_AS_LETTERS)) is not None
    named = folded in (user.lower(), "x-oauth-basic")
    short = len(written) < MIN_PASSWORD
    return short or plain or disguised or named or is_variable(folded) or is_made_up(folded, 1.5)


def _is_nowhere(host: str) -> bool:
    labels = host.split(".")
    return (
        host in _NO_HOSTS
        or labels[-1] in _NO_DOMAINS
        or (len(labels) > 1 and labels[-2] == "example")
    )


# -- passwords in commands
# ---------------------------------------------------------------------------------------------

_USER_OPTION = re.compile(
    r"(?:-u|--(?:proxy-)?user(?=[ =\"']))(?:[\"'],)?[ =]{0,2}+\\?[\"']?(?P<user>[^\s:\"'/$]{1,100}+):(?P<password>[^\s\"'`]{6,200}+)"
)
_LINE_BEGIN = re.compile(r"(?<!\\)\n")
MAX_COMMAND = 400  # characters between the name of a program and an option of it


def command_passwords(text: str) -> Iterator[Leak]:
    """Passwords of `curl -u user:password`; of other programs' users only those that look like
    passwords.
    """
    if "-u" not in text:
        return
    for match in _USER_OPTION.finditer(text):
        user, password, start = match["user"], match["password"].rstrip("\\,;)"), match.start()
        command = _LINE_BEGIN.split(text[max(0, start - MAX_COMMAND) : start])[-1]
        if not command[-1:].strip(" \t\"'[\n") and (
            not _is_no_password(user, password)
            if "curl" in command
            else is_random(password) or is_chosen(password)
        ):
            yield Leak("password", match.start("password"), match.start("password") + len(password))


# -- values that only their name gives away
# ----------------------------------------------------------------------------

_OWNERS = "api access auth account client private secret signing encryption master sharedaccess shared_access shared-access".split()
# Names of secrets, their case folded. A key is one only behind whose it is.
_KEYWORDS = ("passw", "passphrase", "pwd", "secret", "token", "credential", "key")
_OWNED = tuple(f"{owner}{sign}" for owner in _OWNERS for sign in ("", "_", " ", "-"))
_NAME = r"(?i:pass(?:word|wd|phrase)|pwd|secret|token|credential|key)"
_QUALIFIED = (
    r"(?i:[_ -]?(?:access[_ -]?key|key|secret|token|value|prod|production|staging|live|dev)){0,2}+"
)
_TYPE = r"(?:: ?(?:str|[Ss]tring)(?: \| None)? ?(?==))?"
_VALUE = r"(?:[bBuUL@]?+(?P<quote>[\"'`])(?P<quoted>[^\s\"'`]{8,500}+)(?=(?P=quote))|\\?[\"'`*]{0,3}+(?P<plain>[^\s\"'`,;<>(){}\[\]|\\*]{8,500}+))"
# A literal for the case that there is none: getenv("API_KEY", "…"), process.env.API_KEY || "…".
_DEFAULT = r"(?:(?:(?<=[\"']),(?:\s{0,8}+default[ =]{1,3}+)?|\|\||\?\?|\?:|(?<=\s)or)\s{0,40}+(?=\\?[bBuUL@]?[\"']))"
_ASSIGNED = re.compile(
    rf"(?P<name>{_NAME}{_QUALIFIED})\\?[\"'`\])*]{{0,4}}+[ \t]{{0,8}}+{_TYPE}"
    rf"(?:=>|:=|={{1,3}}|:|->|(?<=\s)(?:is|was):?(?=\s)|{_DEFAULT}|(?i:value[ \t]{{0,2}}+=))\\?[ \t]{{0,8}}+{_VALUE}"
)
_OPTION = re.compile(rf"(?P<name>{_NAME}{_QUALIFIED})[ =]{_VALUE.replace('{8,', '{6,')}")
_OPTION_BEFORE = re.compile(r"--(?:[A-Za-z0-9]{1,16}+[_-]?){0,4}+\Z")
# The whole text of an element, and a block of YAML below its name.
_ELEMENT = re.compile(
    rf"(?P<name>{_NAME}{_QUALIFIED})(?:\s[^<>]{{0,200}}+){{0,1}}+>\s{{0,40}}+(?:<!\[CDATA\[)?(?P<quoted>(?:[^\s<>\]]|\](?!\]>)){{8,500}}+)(?=\s{{0,40}}+(?:</|\]\]>))"
)
_ELEMENT_BEFORE = re.compile(r"<[\w.:-]{0,40}+\Z")
_LINE_END = r"(?=[ \t]{0,8}+(?:[\r\n]|\Z))"
_BLOCK = re.compile(
    rf"(?P<name>{_NAME}{_QUALIFIED})[\"']?[ \t]{{0,8}}+:[ \t]{{1,8}}+[>|][-+1-9]{{0,2}}+[ \t]{{0,8}}+(?:\#[^\n]{{0,200}}+){{0,1}}+\r?\n"
    rf"(?P<indent>[ \t]{{1,40}}+)(?P<quoted>\S{{8,500}}+{_LINE_END}(?:\r?\n(?P=indent)\S{{1,500}}+{_LINE_END}){{0,40}}+)"
)
_BEARER = re.compile(
    r"(?P<name>(?i:bearer|basic)) \\?[\"'`]?(?P<quoted>[A-Za-z0-9+/=._~-]{16,2000}+)"
)
_CONNECTION = re.compile(
    r"(?P<name>(?:Account|SharedAccess)Key)=(?P<quoted>[A-Za-z0-9+/]{40,100}+={0,2}+)"
)
_AWS_SECRET = re.compile(
    r"(?P<name>(?i:secret[_ -]?access[_ -]?key|(?<=aws|aws[_ -])secret(?:[_ -]?key)?))[\"'` \t:=>\\|]{1,12}+"
    r"(?P<quoted>[A-Za-z0-9+/]{40})(?![A-Za-z0-9+/=])"
)
_KEY_ID = re.compile(
    r"(?<=private_)(?P<name>key_id)\\?[\"']?\s{0,4}+[:=]\s{0,4}+\\?[\"']?(?P<quoted>[0-9a-f]{40})(?![0-9a-f])"
)
# Names of secrets that may be UUIDs: behind others a UUID names something.
_UUID_NAME = re.compile(r"(?:(?:client|app|consumer)[_-]?secret|api[_-]?key)\Z")
# What makes a name another one: a type (AWS::IAM::AccessKey), a badge, a file; for a token or key
# where to go on (nextToken).
_NO_NAME = re.compile(r"(?:::\w{0,40}+|\.svg\?|/etc/)\Z")
_NO_SECRET = re.compile(
    r"(?:public[_-]?key|page |(?:next|page|pagination|continuation|change|update|sync|resume|start|starting|unit|verification|confirmation|idempotency))[_-]?\Z"
)
_PATTERNS = {
    word: (
        *((("AWS secret key", _AWS_SECRET),) if word == "secret" else ()),
        *((("private key id", _KEY_ID),) if word == "key" else ()),
        ("", _ASSIGNED),
    )
    for word in _KEYWORDS
}
_PAIRED = re.compile(r"(?:access[ -]?key|session[ -]?token)")
MAX_PAIR = 160  # characters from the id of an AWS key to the secret beside it


def named_values(text: str) -> Iterator[Leak]:
    """Values that only their name gives away."""
    folded = _folded(text)
    for word in ("bearer ", "basic "):
        for start in _places(folded, word):
            if not (start and (text[start - 1].isalnum() or text[start - 1] == "_")):
                yield from _judged(_BEARER.match(text, start), "bearer token")
    if "Key=" in text:
        for match in _CONNECTION.finditer(text):
            yield from _judged(match, "Azure key")
    for word in _KEYWORDS:
        after = 0  # what is a value already is read once
        for start in _places(folded, word):
            # Most keys are those of dictionaries and sorting.
            if start < after or (word == "key" and not folded.endswith(_OWNED, 0, start)):
                continue
            for name, match in _matches(text, start, word):
                if _names_another(folded, start, word):
                    break
                yield from _judged(match, name)
                after = match.end()


def _names_another(folded: str, start: int, word: str) -> bool:
    """Whether what stands before a name makes it another one; an ARN has its own word for a
    secret's name.
    """
    begin = max(0, start - 60)
    return (
        _NO_NAME.search(folded, begin, start) is not None
        or (word in ("token", "key") and _NO_SECRET.search(folded, begin, start) is not None)
        or folded.startswith(":secret:", max(0, start - 1))
    )


def _matches(text: str, start: int, word: str) -> Iterator[tuple[str, re.Match[str]]]:
    """The values beside a name at this place, by the ways in which they are written."""
    assigned = False
    for name, pattern in _PATTERNS[word]:
        if match := pattern.match(text, start):
            assigned = True
            yield name, match
    if not assigned and (match := _BLOCK.match(text, start)):
        yield "", match
    for mark, before, pattern in (
        ("--", _OPTION_BEFORE, _OPTION),
        ("<", _ELEMENT_BEFORE, _ELEMENT),
    ):
        if text.rfind(mark, max(0, start - 42), start) >= 0 and before.search(
            text, max(0, start - 80), start
        ):
            match = pattern.match(text, start)
            if match:
                yield "", match


def _judged(match: re.Match[str] | None, name: str) -> Iterator[Leak]:
    """The value beside a name, where it looks like a secret."""
    if match is None:
        return
    group = "quoted" if match["quoted"] else "plain"
    ends = ".:" if match.re is _OPTION else ".:!?"
    value = match[group].rstrip(ends) if group == "plain" else match[group]
    word = match["name"].lower()
    is_password = word.startswith(("pass", "pwd"))
    if word == "basic":
        told = _of_a_person(value)
    elif UUID.fullmatch(value):
        told = (
            _may_be_uuid(match) and not is_made_up(value, 3.0) and value.lower() not in KNOWN_UUIDS
        )
    else:
        one = "".join(value.split())
        typed = is_password and (group == "quoted" or match.re is _OPTION)
        told = (is_random(one) or (typed and is_chosen(one))) and not _of_an_example(match)
    if told:
        start = match.start(group)
        yield Leak(name or ("password" if is_password else "secret"), start, start + len(value))


def _may_be_uuid(match: re.Match[str]) -> bool:
    start = match.start("name")
    end = start + len("key" if match["name"].lower().startswith("key") else "secret")
    return _UUID_NAME.search(match.string[max(0, start - 9) : end].lower()) is not None


def _of_an_example(match: re.Match[str]) -> bool:
    """Whether a secret access key or session token stands beside the id of an example's key, and no
    other id between.
    """
    start = match.start("name")
    before = match.string[max(0, start - MAX_PAIR) : start]
    name = (before[-8:] + match["name"]).lower().replace("_", "")
    _, example, between = before.rpartition("EXAMPLE")
    return (
        bool(example and _PAIRED.search(name)) and "AKIA" not in between and "ASIA" not in between
    )


def _places(text: str, word: str) -> Iterator[int]:
    at = text.find(word)
    while at >= 0:
        yield at
        at = text.find(word, at + 1)


def _folded(text: str) -> str:
    """The text with its case folded, every character in its place."""
    folded = text.lower()
    if len(folded) == len(text):
        return folded
    return "".join(
        lower if len(lower := character.lower()) == 1 else character for character in text
    )


def _of_a_person(value: str) -> bool:
    """Whether a value is the base64 of a name and a password."""
    user, colon, password = decoded(value).lower().partition(":")
    return (
        bool(colon) and password != user and len(password) >= 6 and not speaks_of_itself(password)
    )
