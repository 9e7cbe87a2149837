"""Secrets recognised by context: passwords in addresses and commands, values next to a name."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import unquote

import regex as re

from cortex.base.secret_scanner.values import (
    KNOWN_UUIDS,
    MADE_UP_WORDS,
    UUID,
    decoded,
    has_placeholder_word,
    is_chosen,
    is_made_up,
    is_random,
    is_variable,
)
from cortex.base.types import Leak

# Characters of the shortest password after a user name.
MIN_PASSWORD = 6

# -- passwords in addresses

_ADDRESS = re.compile(r"://([^\s:/@\"'<>`]{0,100}+):([^\s/@\"'<>`]{6,200}+)@([\w.-]{1,100}+)")
_NO_HOSTS = frozenset(
    "host hostname your-host your_host myhost db-host dbhost server domain".split()
)
# Reserved for examples.
_NO_DOMAINS = frozenset({"example", "test", "invalid"})
_PLACEHOLDER = re.compile(
    r"(?:my|the|a(?!dmin|pi)|your|some|super|very|pass(?:word|wd|phrase)?|secret|user|name|admin|"
    r"test|api|key|token|foo|bar){1,6}+"
)
_AS_LETTERS = str.maketrans("01345@$", "oieasas")  # p4ssw0rd
_HOSTS = re.compile(r"\d{1,5}+,")  # a port and the next of several hosts


def passwords_in_addresses(text: str) -> Iterator[Leak]:
    """Find passwords between a user and a host; user and host are not redacted."""
    if "://" not in text:
        return
    for match in _ADDRESS.finditer(text):
        user, password, host = match.groups()
        is_local = host == "localhost" or host.startswith("127.")
        is_example = _is_example_host(host.lower()) and not (
            host.lower() in _NO_HOSTS and is_random(password)
        )
        if not (is_example or _HOSTS.match(password) or _is_no_password(user, password, is_local)):
            yield Leak("password in an address", *match.span(2))


def _is_no_password(user: str, password: str, near: bool = False) -> bool:
    """Return whether the text after a user name is a placeholder.

    For a server on this machine (`near`) any word counts as one.
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


def _is_example_host(host: str) -> bool:
    labels = host.split(".")
    return (
        host in _NO_HOSTS
        or labels[-1] in _NO_DOMAINS
        or (len(labels) > 1 and labels[-2] == "example")
    )


# -- passwords in commands

_USER_OPTION = re.compile(
    r"(?:-u|--(?:proxy-)?user(?=[ =\"']))(?:[\"'],)?[ =]{0,2}+\\?[\"']?"
    r"(?P<user>[^\s:\"'/$]{1,100}+):(?P<password>[^\s\"'`]{6,200}+)"
)
_LINE_BEGIN = re.compile(r"(?<!\\)\n")
# Characters between the name of a program and its option.
MAX_COMMAND = 400


def command_passwords(text: str) -> Iterator[Leak]:
    """Find the password in `curl -u user:password`.

    For other programs only a value that looks like a password counts.
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


# -- values recognised by their name alone

_OWNERS = (
    "api access auth account client private secret signing encryption master "
    "sharedaccess shared_access shared-access"
).split()
# Names of secrets in lower case. "key" counts only after one of the owners.
_KEYWORDS = ("passw", "passphrase", "pwd", "secret", "token", "credential", "key")
_OWNED = tuple(f"{owner}{sign}" for owner in _OWNERS for sign in ("", "_", " ", "-"))
_NAME = r"(?i:pass(?:word|wd|phrase)|pwd|secret|token|credential|key)"
_QUALIFIED = (
    r"(?i:[_ -]?(?:access[_ -]?key|key|secret|token|value|prod|production|staging|live|dev)){0,2}+"
)
_TYPE = r"(?:: ?(?:str|[Ss]tring)(?: \| None)? ?(?==))?"
_VALUE = (
    r"(?:[bBuUL@]?+(?P<quote>[\"'`])(?P<quoted>[^\s\"'`]{8,500}+)(?=(?P=quote))|"
    r"\\?[\"'`*]{0,3}+(?P<plain>[^\s\"'`,;<>(){}\[\]|\\*]{8,500}+))"
)
# A default value: getenv("API_KEY", "…"), process.env.API_KEY || "…".
_DEFAULT = (
    r"(?:(?:(?<=[\"']),(?:\s{0,8}+default[ =]{1,3}+)?|\|\||\?\?|\?:|(?<=\s)or)"
    r"\s{0,40}+(?=\\?[bBuUL@]?[\"']))"
)
_ASSIGNED = re.compile(
    rf"(?P<name>{_NAME}{_QUALIFIED})\\?[\"'`\])*]{{0,4}}+[ \t]{{0,8}}+{_TYPE}"
    rf"(?:=>|:=|={{1,3}}|:|->|(?<=\s)(?:is|was):?(?=\s)|{_DEFAULT}|(?i:value[ \t]{{0,2}}+=))"
    rf"\\?[ \t]{{0,8}}+{_VALUE}"
)
_OPTION = re.compile(rf"(?P<name>{_NAME}{_QUALIFIED})[ =]{_VALUE.replace('{8,', '{6,')}")
_OPTION_BEFORE = re.compile(r"--(?:[A-Za-z0-9]{1,16}+[_-]?){0,4}+\Z")
# The whole text of an element, and a block of YAML below its name.
_ELEMENT = re.compile(
    rf"(?P<name>{_NAME}{_QUALIFIED})(?:\s[^<>]{{0,200}}+){{0,1}}+>\s{{0,40}}+(?:<!\[CDATA\[)?"
    r"(?P<quoted>(?:[^\s<>\]]|\](?!\]>)){8,500}+)(?=\s{0,40}+(?:</|\]\]>))"
)
_ELEMENT_BEFORE = re.compile(r"<[\w.:-]{0,40}+\Z")
_LINE_END = r"(?=[ \t]{0,8}+(?:[\r\n]|\Z))"
_BLOCK = re.compile(
    rf"(?P<name>{_NAME}{_QUALIFIED})[\"']?[ \t]{{0,8}}+:[ \t]{{1,8}}+[>|][-+1-9]{{0,2}}+"
    r"[ \t]{0,8}+(?:\#[^\n]{0,200}+){0,1}+\r?\n"
    rf"(?P<indent>[ \t]{{1,40}}+)(?P<quoted>\S{{8,500}}+{_LINE_END}"
    rf"(?:\r?\n(?P=indent)\S{{1,500}}+{_LINE_END}){{0,40}}+)"
)
_BEARER = re.compile(
    r"(?P<name>(?i:bearer|basic)) \\?[\"'`]?(?P<quoted>[A-Za-z0-9+/=._~-]{16,2000}+)"
)
_CONNECTION = re.compile(
    r"(?P<name>(?:Account|SharedAccess)Key)=(?P<quoted>[A-Za-z0-9+/]{40,100}+={0,2}+)"
)
_AWS_SECRET = re.compile(
    r"(?P<name>(?i:secret[_ -]?access[_ -]?key|(?<=aws|aws[_ -])secret(?:[_ -]?key)?))"
    r"[\"'` \t:=>\\|]{1,12}+"
    r"(?P<quoted>[A-Za-z0-9+/]{40})(?![A-Za-z0-9+/=])"
)
_KEY_ID = re.compile(
    r"(?<=private_)(?P<name>key_id)\\?[\"']?\s{0,4}+[:=]\s{0,4}+\\?[\"']?"
    r"(?P<quoted>[0-9a-f]{40})(?![0-9a-f])"
)
# Names of secrets that may be UUIDs; after other names a UUID is an id.
_UUID_NAME = re.compile(r"(?:(?:client|app|consumer)[_-]?secret|api[_-]?key)\Z")
# Prefixes after which a name isn't that of a secret: a type (AWS::IAM::AccessKey), a badge, a
# file; for a token or key also a position in a list (nextToken).
_NO_NAME = re.compile(r"(?:::\w{0,40}+|\.svg\?|/etc/)\Z")
_NO_SECRET = re.compile(
    r"(?:public[_-]?key|page |(?:next|page|pagination|continuation|change|update|sync|resume|start|"
    r"starting|unit|verification|confirmation|idempotency))[_-]?\Z"
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
# Characters from the id of an AWS key to the secret next to it.
MAX_PAIR = 160


def named_values(text: str) -> Iterator[Leak]:
    """Find values that only their name marks as secrets."""
    folded = _folded(text)
    for word in ("bearer ", "basic "):
        for start in _places(folded, word):
            if not (start and (text[start - 1].isalnum() or text[start - 1] == "_")):
                yield from _leak_of(_BEARER.match(text, start), "bearer token")
    if "Key=" in text:
        for match in _CONNECTION.finditer(text):
            yield from _leak_of(match, "Azure key")
    for word in _KEYWORDS:
        # Names inside a value that was already matched are skipped.
        after = 0
        for start in _places(folded, word):
            # Most occurrences of "key" are about dictionaries and sorting.
            if start < after or (word == "key" and not folded.endswith(_OWNED, 0, start)):
                continue
            for name, match in _matches(text, start, word):
                if _is_other_name(folded, start, word):
                    break
                yield from _leak_of(match, name)
                after = match.end()


def _is_other_name(folded: str, start: int, word: str) -> bool:
    """Return whether the text before a name makes it something other than a secret's name.

    An ARN contains ":secret:" before the name of a secret.
    """
    begin = max(0, start - 60)
    return (
        _NO_NAME.search(folded, begin, start) is not None
        or (word in ("token", "key") and _NO_SECRET.search(folded, begin, start) is not None)
        or folded.startswith(":secret:", max(0, start - 1))
    )


def _matches(text: str, start: int, word: str) -> Iterator[tuple[str, re.Match[str]]]:
    """Find the values next to a name at this place, in all the ways they are written."""
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


def _leak_of(match: re.Match[str] | None, name: str) -> Iterator[Leak]:
    """Yield the value next to a name, where it looks like a secret."""
    if match is None:
        return
    group = "quoted" if match["quoted"] else "plain"
    ends = ".:" if match.re is _OPTION else ".:!?"
    value = match[group].rstrip(ends) if group == "plain" else match[group]
    word = match["name"].lower()
    is_password = word.startswith(("pass", "pwd"))
    if word == "basic":
        is_secret = _is_basic_auth(value)
    elif UUID.fullmatch(value):
        is_secret = (
            _may_be_uuid(match) and not is_made_up(value, 3.0) and value.lower() not in KNOWN_UUIDS
        )
    else:
        compact = "".join(value.split())
        typed = is_password and (group == "quoted" or match.re is _OPTION)
        is_secret = (
            is_random(compact) or (typed and is_chosen(compact))
        ) and not _belongs_to_example(match)
    if is_secret:
        start = match.start(group)
        yield Leak(name or ("password" if is_password else "secret"), start, start + len(value))


def _may_be_uuid(match: re.Match[str]) -> bool:
    start = match.start("name")
    end = start + len("key" if match["name"].lower().startswith("key") else "secret")
    return _UUID_NAME.search(match.string[max(0, start - 9) : end].lower()) is not None


def _belongs_to_example(match: re.Match[str]) -> bool:
    """Return whether a secret access key or session token follows the id of an example key.

    An id of a real key in between makes it real.
    """
    start = match.start("name")
    before = match.string[max(0, start - MAX_PAIR) : start]
    name = (before[-8:] + match["name"]).lower().replace("_", "")
    _, example, between = before.rpartition("EXAMPLE")
    return (
        bool(example and _PAIRED.search(name)) and "AKIA" not in between and "ASIA" not in between
    )


def _places(text: str, word: str) -> Iterator[int]:
    position = text.find(word)
    while position >= 0:
        yield position
        position = text.find(word, position + 1)


def _folded(text: str) -> str:
    """Return the text in lower case, with every character at its place."""
    folded = text.lower()
    if len(folded) == len(text):
        return folded
    return "".join(
        lower if len(lower := character.lower()) == 1 else character for character in text
    )


def _is_basic_auth(value: str) -> bool:
    """Return whether a value is the base64 of a user name and a password."""
    user, colon, password = decoded(value).lower().partition(":")
    return (
        bool(colon)
        and password != user
        and len(password) >= 6
        and not has_placeholder_word(password)
    )
