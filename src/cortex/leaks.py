r"""Secrets inside a text: keys of known shape, private keys, passwords in addresses and assignments.

A pure function of the text: nobody is asked whether a key still works. A shape says whose key it is; where a name alone speaks
for a value ("password = …"), the value must look random too, so that prose about passwords, placeholders, hashes and identifiers
pass. Every repetition is bounded and possessive and starts at the edge of a word, so that the time is linear in the text;
`regex`, not `re`, which misses possessive groups before Python 3.11.5 and takes twice as long.
Not taken: high entropy anywhere (checksums and minified code are full of it), and lists of words to allow.
"""

from __future__ import annotations

import base64
import binascii
import itertools
import json
import math
import re as literals  # four times as fast as `regex` where no repetition is to be looked for
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache

import regex as re

from cortex.types import Leak

MIN_ENTROPY = 2.5  # bits per character of what follows a key's prefix; hex of 32 characters has 3.3 at least
MIN_RANDOM_TURNS = 0.22  # of its characters: see _is_random; random keys have .27 to .6, names in programs up to .2
MIN_KEY = 20  # characters of the shortest key that is told by its shape
MAX_KEY_BLOCK = 20_000  # characters of one private key; RSA with 16,384 bits takes 13,000
KEY_BLOCK_HEAD = 400  # characters of headers before the base64 of a private key
VERSION = 1  # grows whenever the same text has other secrets


_DIGIT = literals.compile("[0-9]").search


def find_leaks(text: str) -> list[Leak]:
    """The secrets in a text, in order, none over another."""
    # Most texts have nothing that could be one: a look at their longest words, and for the names of secrets, is a tenth of all these.
    # A key of small letters alone is none: names in programs are.
    long = " ".join({word for word in text.split() if len(word) >= MIN_KEY and (not word.islower() or _DIGIT(word))})
    by_shape = (*_of_known_shape(text, long), *_tokens(text, long)) if long else ()
    found = (*_private_keys(text), *by_shape, *_in_addresses(text), *_named(text))
    merged: list[Leak] = []
    for leak in sorted(
        found, key=lambda leak: leak.start
    ):  # stable: of two at the same place the better known is first
        if merged and leak.start < merged[-1].end:
            last = merged.pop()
            leak = Leak(last.name, last.start, max(last.end, leak.end))
        merged.append(leak)
    return merged


def redact(text: str) -> tuple[str, tuple[str, ...]]:
    """The text with what it leaks replaced by the name of the secret, and these names."""
    leaks = find_leaks(text)
    return blot(text, leaks), tuple(dict.fromkeys(leak.name for leak in leaks))


def find_leaks_by_line(text: str) -> tuple[Leak, ...]:
    """The secrets in a text, each line of one by itself, so that redacting moves no line."""
    return tuple(part for leak in find_leaks(text) for part in _lines_of(text, leak))


def _lines_of(text: str, leak: Leak) -> Iterator[Leak]:
    start = leak.start
    for line in text[leak.start : leak.end].split("\n"):
        inner = line.strip()
        if inner:
            begin = start + line.index(inner)
            yield Leak(leak.name, begin, begin + len(inner))
        start += len(line) + 1


def blot(text: str, leaks: Sequence[Leak]) -> str:
    """The text with each of these secrets, which come in order, replaced by its name."""
    parts, at = [], 0
    for leak in leaks:
        parts += [text[at : leak.start], placeholder(leak.name)]
        at = leak.end
    return "".join([*parts, text[at:]])


def placeholder(name: str) -> str:
    """What stands in the place of a secret of this name."""
    return f"[redacted: {name}]"


# -- private keys ------------------------------------------------------------------------------------------------------

_KEY_HEAD = re.compile(r"-----BEGIN (?:(?!PRIVATE)[A-Z0-9]{1,20}+ ){0,3}+PRIVATE KEY(?: BLOCK)?-----")
# A block, not a mention: the base64 follows, also where line ends are written as \n in a string, or a column is narrow.
_KEY_BODY = re.compile(r"[A-Za-z0-9+/=]{40}|(?:[A-Za-z0-9+/=]{16,39}+\s{1,4}+){3}")
_KEY_REST = re.compile(r"(?:(?:\s|\\[nr]){0,8}+[A-Za-z0-9+/=]{16,200}+){0,500}+")
_KEY_TAIL = re.compile(r"-----END [A-Z0-9 ]{3,60}+-----")
_OTHER_KEYS = tuple(
    (mark, re.compile(pattern))
    for mark, pattern in (
        ("client-key-data", r"client-key-data[\"']?:\s{0,4}+[\"']?(LS0tLS1[A-Za-z0-9+/=]{40,20000}+)"),  # of Kubernetes
        ("AGE-SECRET-KEY-", r"(AGE-SECRET-KEY-(?:PQ-)?1[02-9AC-HJ-NP-Z]{58,2000}+)"),
        (
            "PuTTY-User-Key-File-",
            r"(Private-Lines: \d{1,4}+(?:\s|\\[nr]){1,4}+[A-Za-z0-9+/=]{40}(?:(?:\s|\\[nr]){0,8}+[A-Za-z0-9+/=]{16,200}+){0,500}+)",
        ),
    )
)


_ENCODED_HEAD = "LS0tLS1CRUdJTi"  # base64 of "-----BEGIN "
_ENCODED_KEY = re.compile(
    r"LS0tLS1CRUdJTi[A-Za-z0-9+/=]{40,20000}+(?:(?:\s|\\[nr]){1,8}+[A-Za-z0-9+/=]{16,200}+){0,400}+"
    r"(?:(?:\s|\\[nr]){1,8}+[A-Za-z0-9+/]{1,15}+={1,2}+)?"
)
_CERTIFICATE = re.compile(r"-----BEGIN [A-Z0-9 ]{3,60}+-----[A-Za-z0-9+/=\s]{0,20000}+-----END [A-Z0-9 ]{3,60}+-----")
MAX_BESIDE_KEY = 200  # characters, besides white space, of a file that is nothing but a key


def is_key(text: str) -> bool:
    """Whether a text is private keys, perhaps with certificates, and hardly anything else."""
    keys = sorted(_private_keys(text), key=lambda leak: leak.start)
    if not keys:
        return False
    rest = _CERTIFICATE.sub("", blot(text, keys))
    return len("".join(rest.split())) <= MAX_BESIDE_KEY


def _private_keys(text: str) -> Iterator[Leak]:
    if "PRIVATE KEY" in text:
        for head in _KEY_HEAD.finditer(text):
            end = _end_of_key(text, head.end())
            if end:
                yield Leak("private key", head.start(), end)
    if _ENCODED_HEAD in text:
        for match in _ENCODED_KEY.finditer(text):
            if "PRIVATE KEY" in _decoded(match[0][:56]):
                yield Leak("private key", *match.span())
    for mark, pattern in _OTHER_KEYS:
        if mark in text:
            for match in pattern.finditer(text):
                yield Leak("private key", *match.span(1))


def _end_of_key(text: str, start: int) -> int:
    """Where the key ends whose first line ends at `start`; 0 where none follows."""
    end = text.find("-----", start, start + MAX_KEY_BLOCK)
    limit = end if end >= 0 else start + MAX_KEY_BLOCK
    body = _KEY_BODY.search(text, start, min(limit, start + KEY_BLOCK_HEAD + 160))
    if body is None or body.start() > start + KEY_BLOCK_HEAD:
        return 0
    tail = _KEY_TAIL.match(text, end) if end >= 0 else None
    if tail:
        return tail.end()
    rest = _KEY_REST.match(text, body.end(), limit)
    return rest.end() if rest else body.end()


# -- keys of known shape -----------------------------------------------------------------------------------------------


def _edge(word: str = "A-Za-z0-9") -> str:
    r"""What begins a word of these characters, also after an escape such as \n or %3D; a key may follow on "thread_" or "x-"."""
    return rf"(?:(?<![{word}])|(?<=\\[nrt])|(?<=%[0-9A-F][0-9A-F]))"


_EDGE = _edge()
# Beginnings that are words themselves: "retry_key-…" is no key of Mailgun's, nor "messages-sk-…" (in Slovak) one of OpenAI's.
_WORDS = {"key-": _edge("A-Za-z0-9_-"), "secret_": _edge("A-Za-z0-9_-"), "sk-[": _edge("A-Za-z0-9-")}
_END = r"(?![A-Za-z0-9_-])"
# Whose key, a piece of text that each has (or one of several, with spaces between), the shape.
_SHAPES = (
    ("AWS key", "AKIA ASIA ABIA ACCA", r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}"),
    ("AWS key", "ABSK", r"ABSK[A-Za-z0-9+/]{100,280}+={0,2}+"),
    ("GitHub token", "ghp_ gho_ ghu_ ghs_ ghr_", r"gh[pousr]_[A-Za-z0-9]{36,255}+"),
    ("GitHub token", "ghu_ ghs_", r"gh[us]_[\w-]{10,200}+\.[\w-]{20,2000}+\.[\w-]{20,2000}+"),
    ("GitHub token", "github_pat_", r"github_pat_\w{82,255}+"),
    ("GitLab token", "glpat- gldt- glft- glrt- glptt- glcbt- glagent- gloas- glimt- glsoat- glffct- glrtr- glwt-", r"gl(?:pat|dt|ft|rt|ptt|cbt|agent|oas|imt|soat|ffct|rtr|wt)-[\w-]{20,300}+(?:\.[\w-]{2,20}+){0,2}+"),
    ("GitLab token", "GR1348941", r"GR1348941[\w-]{20}"),
    ("Slack token", "xox", r"xox[abcdeoprs](?:\.xox[bp])?-(?=[a-zA-Z-]{0,12}+\d)[A-Za-z0-9-]{20,400}+"),
    ("Slack token", "xapp-", r"xapp-\d-[A-Z0-9]{6,20}+-\d{6,20}+-[a-z0-9]{20,100}+"),
    ("Slack webhook", "hooks.slack.com/", r"hooks\.slack\.com/(?:services|workflows|triggers)/[A-Za-z0-9/]{30,100}+"),
    ("Stripe key", "sk_live_ rk_live_", r"[sr]k_live_[A-Za-z0-9]{16,250}+"),
    ("Stripe key", "whsec_", r"whsec_[A-Za-z0-9+/]{32,64}+={0,2}+"),
    ("Anthropic key", "sk-ant-", r"sk-ant-[a-z]{2,12}+\d\d-[\w-]{40,200}+"),
    ("OpenRouter key", "sk-or-", r"sk-or-v1-[0-9a-f]{64}"),
    ("OpenAI key", "sk-", r"sk-(?:proj|svcacct|admin|None)-[\w-]{40,250}+"),
    ("OpenAI key", "sk-", r"sk-[A-Za-z0-9]{32,64}+"),
    ("Google key", "AIza", r"AIza[\w-]{35}"),
    ("Google token", "ya29.", r"ya29\.[\w-]{30,500}+"),
    ("Google client secret", "GOCSPX-", r"GOCSPX-[\w-]{28}"),
    ("npm token", "npm_", r"npm_[A-Za-z0-9]{36}"),
    ("PyPI token", "pypi-AgE", r"pypi-AgE[\w-]{50,1000}+"),
    ("RubyGems key", "rubygems_", r"rubygems_[0-9a-f]{48}"),
    ("crates.io token", "cio", r"cio[A-Za-z0-9]{32}"),
    ("Docker token", "dckr_", r"dckr_(?:pat|oat)_[\w-]{27,64}+"),
    ("Hugging Face token", "hf_", r"hf_[A-Za-z0-9]{34}"),
    ("Groq key", "gsk_", r"gsk_[A-Za-z0-9]{52}"),
    ("xAI key", "xai-", r"xai-[A-Za-z0-9]{80}"),
    ("Perplexity key", "pplx-", r"pplx-[A-Za-z0-9]{40,64}+"),
    ("Replicate token", "r8_", r"r8_[A-Za-z0-9]{37}"),
    ("LangSmith key", "lsv2_", r"lsv2_(?:pt|sk)_[0-9a-f]{32}_[0-9a-f]{10}"),
    ("Tavily key", "tvly-", r"tvly-(?:dev-|prod-)?[A-Za-z0-9]{32}"),
    ("Azure key", "Q~", r"[\w~.]{3}[0-9]Q~[\w~.-]{31,34}+"),
    ("Databricks token", "dapi", r"dapi[0-9a-f]{32}(?:-\d)?"),
    ("DigitalOcean token", "doo_v1_ dop_v1_ dor_v1_", r"do[opr]_v1_[0-9a-f]{64}"),
    ("Discord webhook", "/api/webhooks/", r"discord(?:app)?\.com/api/webhooks/\d{17,20}+/[\w-]{60,80}+"),
    ("Telegram token", ":AA", r"\d{8,10}+:AA[\w-]{33}"),
    ("Twilio key", "SK", r"SK[0-9a-f]{32}"),
    ("SendGrid key", "SG.", r"SG\.[\w-]{22}\.[\w-]{43}"),
    ("Shopify token", "shpat_ shpca_ shppa_ shpss_ shpua_", r"shp(?:at|ca|pa|ss|ua)_[0-9a-fA-F]{32}"),
    ("Mailgun key", "key-", r"key-[0-9a-f]{32}"),
    ("Linear key", "lin_", r"lin_(?:api|oauth)_[A-Za-z0-9]{40,64}+"),
    ("Notion token", "ntn_", r"ntn_\d{11}[A-Za-z0-9]{35}"),
    ("Notion token", "secret_", r"secret_[A-Za-z0-9]{43}"),
    ("Vault token", "hvb. hvs. hvr.", r"hv[bsr]\.[\w-]{24,300}+"),
    ("Terraform token", ".atlasv1.", r"[A-Za-z0-9]{14}\.atlasv1\.[\w=-]{60,70}+"),
    ("Supabase key", "sbp_ sb_secret_", r"(?:sbp_(?:oauth_)?[0-9a-f]{40}|sb_secret_[\w-]{24,64}+)"),
    ("Fly token", "fo1_ fm1 fm2", r"(?:fo1_[\w-]{43}|fm[12][ar]?_[A-Za-z0-9+/]{60,2000}+={0,3}+)"),
    ("Cloudflare token", "cfk_ cfut_ cfat_", r"cf(?:k|ut|at)_[A-Za-z0-9_-]{40,64}+"),
    ("Cloudflare key", "v1.0-", r"v1\.0-[0-9a-f]{24}-[0-9a-f]{146}"),
    ("Grafana token", "glsa_ glc_eyJ", r"(?:glsa_[A-Za-z0-9]{32}_[0-9a-fA-F]{8}|glc_eyJ[A-Za-z0-9+/]{30,400}+={0,2}+)"),
    ("Sentry token", "sntryu_ sntrys_eyJ", r"(?:sntryu_[0-9a-f]{64}|sntrys_eyJ[\w+/=-]{60,500}+)"),
    ("Pulumi token", "pul-", r"pul-[0-9a-f]{40}"),
    ("Postman key", "PMAK-", r"PMAK-[0-9a-f]{24}-[0-9a-f]{34}"),
    ("Doppler token", "dp.", r"dp\.(?:pt|st|ct|sa|scim|audit)\.(?:[a-z0-9_-]{2,35}+\.)?[A-Za-z0-9]{40,44}+"),
    ("PlanetScale token", "pscale_", r"pscale_(?:tkn|oauth|pw)_[\w-]{32,64}+"),
    ("Atlassian token", "ATATT3", r"ATATT3[\w=-]{100,300}+"),
    ("Airtable token", "pat", r"pat[A-Za-z0-9]{14}\.[0-9a-f]{64}"),
    ("New Relic key", "NRAK-", r"NRAK-[A-Z0-9]{27}"),
    ("Figma token", "figd_", r"figd_[\w-]{38,50}+"),
    ("Netlify token", "nfp_", r"nfp_[A-Za-z0-9]{36}"),
    ("Cortex token", "ctx_", r"ctx_[0-9a-f]{12}_[\w-]{32,64}+"),
    ("1Password token", "ops_eyJ", r"ops_eyJ[A-Za-z0-9+/_-]{200,2000}+={0,3}+"),
)  # fmt: skip


def _of_known_shape(text: str, long: str) -> Iterator[Leak]:
    """Keys of known shape in a text whose longest words are these."""
    pattern, by_mark = _marks()
    found = {shape for mark in set(pattern.findall(long)) for shape in by_mark[mark]}
    for name, _, shape in _SHAPES if found else ():
        if shape in found and _compiled(shape).search(long):
            for match in _compiled(shape).finditer(text):
                if not _is_made_up(match[0]):
                    yield Leak(name, *match.span())


@cache
def _marks() -> tuple[literals.Pattern[str], dict[str, list[str]]]:
    """What finds all marks in one pass, and the shapes that each found one may be of.

    A mark is found by its shortest beginning that is one, and hides those that begin within it.
    """
    shapes = [(mark, shape) for _, marks, shape in _SHAPES for mark in marks.split()]
    marks = {mark for mark, _ in shapes}
    shortest = sorted(mark for mark in marks if not any(mark != other and mark.startswith(other) for other in marks))
    by_mark = {
        found: [shape for mark, shape in shapes if mark.startswith(found) or _begins_within(mark, found)]
        for found in shortest
    }
    return literals.compile(_any_of(shortest)), by_mark


def _begins_within(mark: str, found: str) -> bool:
    return any(mark.startswith(found[start:]) or found.startswith(mark, start) for start in range(1, len(found)))


def _any_of(words: Sequence[str]) -> str:
    """An expression for sorted words, none of which begins another: what they have in common is looked at once."""
    if words == [""]:
        return ""
    starts = itertools.groupby(words, key=lambda word: word[0])
    branches = [literals.escape(first) + _any_of([word[1:] for word in group]) for first, group in starts]
    return branches[0] if len(branches) == 1 else f"(?:{'|'.join(branches)})"


@cache  # and not at import: sixty expressions take 30 ms, and few texts need more than one
def _compiled(shape: str) -> re.Pattern[str]:
    edge = next((edge for word, edge in _WORDS.items() if shape.startswith(word)), _EDGE)
    return re.compile(f"{edge}(?:{shape}){_END}", re.ASCII)


# -- tokens that say themselves what they are --------------------------------------------------------------------------

_JWT = re.compile(  # with one word before it at most: its parts are long, and every hyphen in one would be a new attempt
    rf"{_WORDS['key-']}(?:[A-Za-z]{{0,16}}+[_-]{{1,2}}+)?(?P<token>(eyJ[\w-]{{10,2000}}+)\.(eyJ[\w-]{{8,8000}}+)\.([\w-]{{16,2000}}+))",
    re.ASCII,
)
_CLAIM = re.compile(r"\"(?:iss|sub|aud|exp|nbf|iat|jti)\"")  # one of which a token has that is used
MIN_CLAIMS = 60  # characters of claims that are none of these: less is an example
_DISCORD_TAIL = re.compile(r"\.[\w-]{6}\.[\w-]{27}", re.ASCII)  # ten times as fast to look for as the whole
_DISCORD = re.compile(rf"{_EDGE}([MNO][\w-]{{22,27}}+)\.[\w-]{{6}}\.[\w-]{{27,40}}+{_END}", re.ASCII)


def _tokens(text: str, long: str) -> Iterator[Leak]:
    if "eyJ" in long:
        for match in _JWT.finditer(text):
            head, body = _json_of(match[2]), _json_of(match[3])
            # The example of every tutorial is of John Doe, 1234567890.
            if head is None or "alg" not in head or body is None or "1234567890" in body:
                continue
            if len(body) >= MIN_CLAIMS or _CLAIM.search(body):
                yield Leak("JSON web token", *match.span("token"))
    for match in _DISCORD.finditer(text) if _DISCORD_TAIL.search(long) else ():
        if _decoded(match[1]).isdigit():  # a Discord token begins with its user's number
            yield Leak("Discord token", *match.span())


def _json_of(part: str) -> str | None:
    """The JSON object that is encoded in a part of a token, as text; None where there is none."""
    try:
        found = json.loads(_decoded(part))
    except ValueError:
        return None
    return json.dumps(found) if isinstance(found, dict) else None


def _decoded(part: str) -> str:
    try:
        return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)).decode("ascii")
    except (binascii.Error, ValueError):
        return ""


# -- passwords in addresses --------------------------------------------------------------------------------------------

_ADDRESS = re.compile(r"://([^\s:/@\"'<>`]{0,100}+):([^\s/@\"'<>`]{6,200}+)@([\w.-]{1,100}+)")
_NO_HOSTS = frozenset("host hostname your-host your_host myhost db-host dbhost server domain".split())
_NO_DOMAINS = frozenset({"example", "test", "invalid"})  # kept free for examples


def _in_addresses(text: str) -> Iterator[Leak]:
    if "://" not in text:
        return
    for match in _ADDRESS.finditer(text):
        user, password, host = match.groups()
        told, near = password.lower(), host == "localhost" or host.startswith("127.")
        plain = told.isalpha() and (near or told in _MADE_UP_WORDS)
        nowhere = _is_nowhere(host.lower()) and not (host.lower() in _NO_HOSTS and _is_random(password))
        if not (
            plain or told in (user.lower(), "x-oauth-basic") or nowhere or _is_variable(told) or _is_made_up(told, 1.5)
        ):
            yield Leak("password in an address", *match.span(2))


def _is_nowhere(host: str) -> bool:
    labels = host.split(".")
    return host in _NO_HOSTS or labels[-1] in _NO_DOMAINS or (len(labels) > 1 and labels[-2] == "example")


# -- values that only their name gives away ----------------------------------------------------------------------------

_OWNERS = "api access auth account client private secret signing encryption master sharedaccess shared_access shared-access".split()
# Names of secrets, their case folded. A key is one only behind whose it is.
_KEYWORDS = ("passw", "passphrase", "pwd", "secret", "token", "credential", "key")
_OWNED = tuple(f"{owner}{sign}" for owner in _OWNERS for sign in ("", "_", " ", "-"))
_NAME = r"(?i:pass(?:word|wd|phrase)|pwd|secret|token|credential|key)"
_QUALIFIED = r"(?i:[_ -]?(?:access[_ -]?key|key|secret|token|value|prod|production|staging|live|dev)){0,2}+"
_TYPE = r"(?:: ?(?:str|[Ss]tring)(?: \| None)? ?(?==))?"
_VALUE = r"(?:(?P<quote>[\"'`])(?P<quoted>[^\s\"'`]{8,500}+)(?=(?P=quote))|\\?[\"'`*]{0,3}+(?P<plain>[^\s\"'`,;<>(){}\[\]|\\*]{8,500}+))"
_ASSIGNED = re.compile(
    rf"(?P<name>{_NAME}{_QUALIFIED})\\?[\"'`\])*]{{0,4}}+[ \t]{{0,8}}+{_TYPE}"
    rf"(?:=>|:=|={{1,3}}|:|->|(?<=\s)(?:is|was):?(?=\s))\\?[ \t]{{0,8}}+{_VALUE}"
)
_FLAG = re.compile(rf"(?P<name>{_NAME})[ =]{_VALUE}")
_FLAG_BEFORE = re.compile(r"--(?:[a-z]{3,10}+[_ -]?){0,2}+$")
_BEARER = re.compile(r"(?P<name>(?i:bearer|basic)) \\?[\"'`]?(?P<quoted>[A-Za-z0-9+/=._~-]{16,2000}+)")
_CONNECTION = re.compile(r"(?P<name>(?:Account|SharedAccess)Key)=(?P<quoted>[A-Za-z0-9+/]{40,100}+={0,2}+)")
_AWS_SECRET = re.compile(
    r"(?P<name>(?i:secret[_ -]?access[_ -]?key|(?<=aws|aws[_ -])secret(?:[_ -]?key)?))[\"'` \t:=>\\|]{1,12}+"
    r"(?P<quoted>[A-Za-z0-9+/]{40})(?![A-Za-z0-9+/=])"
)
_KEY_ID = re.compile(
    r"(?<=private_)(?P<name>key_id)\\?[\"']?\s{0,4}+[:=]\s{0,4}+\\?[\"']?(?P<quoted>[0-9a-f]{40})(?![0-9a-f])"
)
# Secrets that are UUIDs, of names behind which nothing else is one.
_UUID_SECRET = re.compile(
    r"(?P<name>(?i:(?:(?<=client[_-]|client|app[_-]|consumer[_-])secret|(?<=api|api[_-])key)(?:[_-]?value)?))"
    r"\\?[\"'`]{0,2}+[ \t]{0,8}+(?:=>|:=|=|:)\\?[ \t]{0,8}+\\?[\"'`]{0,2}+"
    r"(?P<quoted>[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12})(?![\w-])"
)
# What makes a name another one: a type (AWS::IAM::AccessKey), where to go on (nextToken), a badge.
_NO_NAME = re.compile(
    r"(?:::\w{0,40}+|\.svg\?|(?:next|page|pagination|continuation|change|update|sync|resume|start|unit|verification)[_-]?)\Z"
)
_PATTERNS = {
    word: (
        *((("AWS secret key", _AWS_SECRET),) if word == "secret" else ()),
        *((("private key id", _KEY_ID),) if word == "key" else ()),
        *((("secret", _UUID_SECRET),) if word in ("secret", "key") else ()),
        ("", _ASSIGNED),
    )
    for word in _KEYWORDS
}


def _named(text: str) -> Iterator[Leak]:
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
            # An ARN has its own word for a secret's name.
            if _NO_NAME.search(folded, max(0, start - 60), start) or folded.startswith(":secret:", max(0, start - 1)):
                continue
            for name, pattern in _PATTERNS[word]:
                if match := pattern.match(text, start):
                    yield from _judged(match, name)
                    after = match.end()
            if _FLAG_BEFORE.search(text, max(0, start - 24), start) and (match := _FLAG.match(text, start)):
                yield from _judged(match, "")
                after = match.end()


def _judged(match: re.Match[str] | None, name: str) -> Iterator[Leak]:
    """The value beside a name, where it looks like a secret."""
    if match is None:
        return
    group = "quoted" if match["quoted"] else "plain"
    value = match[group].rstrip(".:!?") if group == "plain" else match[group]
    word = match["name"].lower()
    is_password = word.startswith(("pass", "pwd"))
    if word == "basic":
        told = _of_a_person(value)
    elif _UUID.fullmatch(value):
        told = match.re is _UUID_SECRET and not _is_made_up(value, 3.0) and value.lower() not in _KNOWN_UUIDS
    else:
        told = _is_random(value) or (is_password and group == "quoted" and _is_chosen(value))
    if told:
        start = match.start(group)
        yield Leak(name or ("password" if is_password else "secret"), start, start + len(value))


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
    return "".join(lower if len(lower := character.lower()) == 1 else character for character in text)


def _of_a_person(value: str) -> bool:
    """Whether a value is the base64 of a name and a password."""
    user, colon, password = _decoded(value).lower().partition(":")
    return bool(colon) and password != user and len(password) >= 6 and not _speaks_of_itself(password)


_KNOWN_UUIDS = frozenset(
    {"550e8400-e29b-41d4-a716-446655440000", "123e4567-e89b-12d3-a456-426614174000"}
)  # of standards
_UUID = re.compile(r"(?i)[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}")
_NOT_RANDOM = re.compile(
    r"\d{4}-\d\d-\d\d|v?\d{1,5}+(?:\.\d{1,5}+){1,3}+|[./~\\]|\w{1,20}+://|(?i:sha\d{1,3}+|md5)[-:]"  # a date, version, path, address, hash
    r"|[A-Za-z_]\w{0,60}+(?:(?:\.|::|->)[A-Za-z_]\w{0,60}+){1,8}+$"  # or an attribute
    r"|[a-z]{2,20}+\d{0,2}+(?:_[a-z]{2,20}+\d{0,2}+){1,6}+$",  # or a name of words: utf8_to_utf16
    re.ASCII,
)
_VARIABLE = re.compile(
    r"^[$%]\w|[$%#][({]|\{[^}]{0,99}+\}|<[^>]{0,99}+>|\[[^]]{0,99}+\]|\([^)]{0,99}+\)|%s|\*\*|\.\.\.|…|•|\\[ux]"
)
_MADE_UP_WORDS = (
    "example", "xxxx", "your", "changeme", "change-me", "change_me", "placeholder", "redacted", "dummy", "fake", "sample", "password",
    "passwd", "secret", "token", "apikey", "api_key", "api-key", "insert", "hunter2", "foobar", "123456", "abcdef", "qwerty", "0000000",
    "1111111", "aaaaaa", "s3cr3t", "pass", "user", "admin", "test", "gx1fbat3bv",
)  # fmt: skip
_SURELY_MADE_UP = re.compile(
    r"(?i)example|xxxx|your[_-]|changeme|placeholder|redacted|dummy|1234567890|0123456789|abcdefgh|(.)\1{7}"
    r"|h480djs93hd8|2YotnFZFEjr1zCsicMWpAA|tGzv3JOkF0XG5Qx2TlKWIA|mF_9\.B5f-4\.1JqM"  # of the standards of OAuth
)


def _is_random(value: str) -> bool:
    """Whether a value is nothing that a person would write: letters and digits take turns in it.

    A turn is from a letter to a digit or back, or from a small letter to a capital: names in programs have few of them.
    """
    if _NOT_RANDOM.match(value) or _UUID.fullmatch(value) or _is_variable(value) or _is_made_up(value):
        return False
    if "password" in value.lower():
        return False
    letters = [character for character in value if character.isalnum()]
    if not any(map(str.isdigit, letters)) or not any(map(str.isalpha, letters)):
        return False
    turns = sum(
        one.isdigit() != two.isdigit() or (one.islower() and two.isupper()) for one, two in itertools.pairwise(letters)
    )
    return turns >= 3 and turns >= MIN_RANDOM_TURNS * len(letters)


def _is_chosen(value: str) -> bool:
    """Whether a quoted value is a password that a person made: letters, digits and signs, and no word that stands for one."""
    signs = any(not character.isalnum() and character not in "_-./:" for character in value)
    return (
        signs
        and any(map(str.isdigit, value))
        and any(map(str.isalpha, value))
        and not _speaks_of_itself(value.lower())
        and not _is_variable(value)
        and not _NOT_RANDOM.match(value)
    )


def _speaks_of_itself(value: str) -> bool:
    return any(word in value for word in _MADE_UP_WORDS)


def _is_variable(value: str) -> bool:
    """Whether a value stands for one: ${TOKEN}, %s, <token>, os.environ["TOKEN"], ***."""
    return _VARIABLE.search(value) is not None


def _is_made_up(value: str, least: float = MIN_ENTROPY) -> bool:
    """Whether a value is an example's: it says so, counts up, or has few different characters."""
    return _SURELY_MADE_UP.search(value) is not None or _entropy(value) < least


def _entropy(value: str) -> float:
    """Bits per character, by how often each occurs."""
    size = len(value)
    return -sum(count / size * math.log2(count / size) for count in Counter(value).values())
