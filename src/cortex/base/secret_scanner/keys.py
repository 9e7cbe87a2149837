"""Secrets recognised by shape: private keys, service keys, and tokens that decode to JSON."""

from __future__ import annotations

import itertools
import json

# Four times as fast as `regex` for patterns without repetition.
import re as literals
from collections.abc import Iterator, Sequence
from functools import cache

import regex as re

from cortex.base.secret_scanner.values import decoded, is_made_up, is_random, is_sample_token
from cortex.base.types import Leak

# Characters of one private key; RSA with 16,384 bits takes 13,000.
MAX_KEY_BLOCK = 20_000
# Characters of a private key that is abbreviated with dots.
MAX_SHORTENED = 300
# Characters of headers before the base64 of a private key.
KEY_BLOCK_HEAD = 400

# -- private keys

_KEY_HEAD = re.compile(
    r"-----BEGIN (?:(?!PRIVATE)[A-Z0-9]{1,20}+ ){0,3}+PRIVATE KEY(?: BLOCK)?-----"
)
# A block and not a mention has base64 after its head, also with line ends written as \n in a
# string, or in narrow columns.
_KEY_BODY = re.compile(r"[A-Za-z0-9+/=]{40}|(?:[A-Za-z0-9+/=]{16,39}+\s{1,4}+){3}")
_KEY_REST = re.compile(r"(?:(?:\s|\\[nr]){0,8}+[A-Za-z0-9+/=]{16,200}+){0,500}+")
_KEY_TAIL = re.compile(r"-----END [A-Z0-9 ]{3,60}+-----")
_OTHER_KEYS = tuple(
    (mark, re.compile(pattern))
    for mark, pattern in (
        # Kubernetes
        (
            "client-key-data",
            r"client-key-data[\"']?:\s{0,4}+[\"']?(LS0tLS1[A-Za-z0-9+/=]{40,20000}+)",
        ),
        ("AGE-SECRET-KEY-", r"(AGE-SECRET-KEY-(?:PQ-)?1[02-9AC-HJ-NP-Z]{58,2000}+)"),
        (
            "PuTTY-User-Key-File-",
            r"(Private-Lines: \d{1,4}+(?:\s|\\[nr]){1,4}+[A-Za-z0-9+/=]{40}"
            r"(?:(?:\s|\\[nr]){0,8}+[A-Za-z0-9+/=]{16,200}+){0,500}+)",
        ),
    )
)


_ENCODED_HEAD = "LS0tLS1CRUdJTi"  # base64 of "-----BEGIN "
_ENCODED_KEY = re.compile(
    r"LS0tLS1CRUdJTi[A-Za-z0-9+/=]{40,20000}+(?:(?:\s|\\[nr]){1,8}+[A-Za-z0-9+/=]{16,200}+){0,400}+"
    r"(?:(?:\s|\\[nr]){1,8}+[A-Za-z0-9+/]{1,15}+={1,2}+)?"
)


def private_keys(text: str) -> Iterator[Leak]:
    """Find private keys, whole or cut off, also in base64."""
    if "PRIVATE KEY" in text:
        for head in _KEY_HEAD.finditer(text):
            end = _end_of_key(text, head.end())
            if end and not _is_example(text[head.start() : end]):
                yield Leak("private key", head.start(), end)
    if _ENCODED_HEAD in text:
        for match in _ENCODED_KEY.finditer(text):
            if "PRIVATE KEY" in decoded(match[0][:56]):
                yield Leak("private key", *match.span())
    for mark, pattern in _OTHER_KEYS:
        if mark in text:
            for match in pattern.finditer(text):
                yield Leak("private key", *match.span(1))


def _is_example(block: str) -> bool:
    """Return whether a key is from a manual: marked as an example, or mostly left out.

    By chance one in 10^9 keys contains the mark.
    """
    return "EXAMPLE" in block or ("..." in block and len(block) < MAX_SHORTENED)


def _end_of_key(text: str, start: int) -> int:
    """Return the end of the key that has its first line end at `start`; 0 where no key follows."""
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


# -- keys of known shape


def _edge(word: str = "A-Za-z0-9") -> str:
    r"""Build a pattern for the beginning of a word of these characters.

    A word also begins after an escape such as \n or %3D; a key may follow "thread_" or "x-".
    """
    return rf"(?:(?<![{word}])|(?<=\\[nrt])|(?<=%[0-9A-F][0-9A-F]))"


_EDGE = _edge()
# Prefixes that are words themselves: "retry_key-…" is not a key of Mailgun, and "messages-sk-…"
# (in Slovak) not one of OpenAI.
_WORDS = {
    "key-": _edge("A-Za-z0-9_-"),
    "secret_": _edge("A-Za-z0-9_-"),
    "sk-[": _edge("A-Za-z0-9-"),
}
_END = r"(?![A-Za-z0-9_-])"
# Kind, marks (text that every such key contains; alternatives are separated by spaces), shape.
_SHAPES = (
    ("AWS key", "AKIA ASIA ABIA ACCA", r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}"),
    ("AWS key", "ABSK", r"ABSK[A-Za-z0-9+/]{100,280}+={0,2}+"),
    ("GitHub token", "ghp_ gho_ ghu_ ghs_ ghr_", r"gh[pousr]_[A-Za-z0-9]{36,255}+"),
    ("GitHub token", "ghu_ ghs_", r"gh[us]_[\w-]{10,200}+\.[\w-]{20,2000}+\.[\w-]{20,2000}+"),
    ("GitHub token", "github_pat_", r"github_pat_\w{82,255}+"),
    (
        "GitLab token",
        "glpat- gldt- glft- glrt- glptt- glcbt- glagent- gloas- glimt- "
        "glsoat- glffct- glrtr- glwt-",
        r"gl(?:pat|dt|ft|rt|ptt|cbt|agent|oas|imt|soat|ffct|rtr|wt)-"
        r"[\w-]{20,300}+(?:\.[\w-]{2,20}+){0,2}+",
    ),
    ("GitLab token", "GR1348941", r"GR1348941[\w-]{20}"),
    ("Slack token", "xox",
     r"xox[abcdeoprs](?:\.xox[bp])?-(?=[a-zA-Z-]{0,12}+\d)[A-Za-z0-9-]{20,400}+"),
    ("Slack token", "xapp-", r"xapp-\d-[A-Z0-9]{6,20}+-\d{6,20}+-[a-z0-9]{20,100}+"),
    ("Slack webhook", "hooks.slack.com/",
     r"hooks\.slack\.com/(?:services|workflows|triggers)/[A-Za-z0-9/]{30,100}+"),
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
    ("Discord webhook", "/api/webhooks/",
     r"discord(?:app)?\.com/api/webhooks/\d{17,20}+/[\w-]{60,80}+"),
    ("Telegram token", ":AA", r"\d{8,10}+:AA[\w-]{33}"),
    ("Twilio key", "SK", r"SK[0-9a-f]{32}"),
    ("SendGrid key", "SG.", r"SG\.[\w-]{22}\.[\w-]{43}"),
    ("Shopify token", "shpat_ shpca_ shppa_ shpss_ shpua_",
     r"shp(?:at|ca|pa|ss|ua)_[0-9a-fA-F]{32}"),
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
    ("Grafana token", "glsa_ glc_eyJ",
     r"(?:glsa_[A-Za-z0-9]{32}_[0-9a-fA-F]{8}|glc_eyJ[A-Za-z0-9+/]{30,400}+={0,2}+)"),
    ("Sentry token", "sntryu_ sntrys_eyJ", r"(?:sntryu_[0-9a-f]{64}|sntrys_eyJ[\w+/=-]{60,500}+)"),
    ("Pulumi token", "pul-", r"pul-[0-9a-f]{40}"),
    ("Postman key", "PMAK-", r"PMAK-[0-9a-f]{24}-[0-9a-f]{34}"),
    ("Doppler token", "dp.",
     r"dp\.(?:pt|st|ct|sa|scim|audit)\.(?:[a-z0-9_-]{2,35}+\.)?[A-Za-z0-9]{40,44}+"),
    ("PlanetScale token", "pscale_", r"pscale_(?:tkn|oauth|pw)_[\w-]{32,64}+"),
    ("Atlassian token", "ATATT3", r"ATATT3[\w=-]{100,300}+"),
    ("Airtable token", "pat", r"pat[A-Za-z0-9]{14}\.[0-9a-f]{64}"),
    ("New Relic key", "NRAK-", r"NRAK-[A-Z0-9]{27}"),
    ("Figma token", "figd_", r"figd_[\w-]{38,50}+"),
    ("Netlify token", "nfp_", r"nfp_[A-Za-z0-9]{36}"),
    ("Cortex token", "ctx_", r"ctx_[0-9a-f]{12}_[\w-]{32,64}+"),
    ("1Password token", "ops_eyJ", r"ops_eyJ[A-Za-z0-9+/_-]{200,2000}+={0,3}+"),
)  # fmt: skip


AWS_SECRET_SIZE = 40
# Characters between the id of an AWS key and its secret, where the secret has no name.
NEAR_ID = 400
_AWS_SECRET_ALONE = re.compile(
    rf"{_edge('A-Za-z0-9+/_-')}[A-Za-z0-9+/]{{{AWS_SECRET_SIZE}}}(?![A-Za-z0-9+/=_-])"
)


def keys_of_known_shape(text: str, long: str) -> Iterator[Leak]:
    """Find keys of known shape in a text; `long` are its long words."""
    pattern, by_mark = _marks()
    candidates = {shape for mark in set(pattern.findall(long)) for shape in by_mark[mark]}
    for name, _, shape in _SHAPES if candidates else ():
        if shape in candidates and _compiled(shape).search(long):
            matches = [
                match for match in _compiled(shape).finditer(text) if not is_made_up(match[0])
            ]
            yield from (Leak(name, *match.span()) for match in matches)
            if name == "AWS key":
                yield from _aws_secrets_near(text, matches)


def _aws_secrets_near(text: str, ids: Sequence[re.Match[str]]) -> Iterator[Leak]:
    """Find secret access keys within some lines of their ids."""
    start = 0
    for key_id in ids:
        start, end = max(start, key_id.start() - NEAR_ID), key_id.end() + NEAR_ID
        for match in _AWS_SECRET_ALONE.finditer(text, start, end):
            start = match.end()
            if (
                not match[0].islower()
                and not match[0].isupper()
                and is_random(match[0].lstrip("/"))
            ):
                yield Leak("AWS secret key", *match.span())
        start = max(start, end - AWS_SECRET_SIZE)


@cache
def _marks() -> tuple[literals.Pattern[str], dict[str, list[str]]]:
    """Return a pattern that finds all marks in one pass, and the candidate shapes per mark.

    A mark is found by the shortest mark that is its prefix, and hides those that begin within it.
    """
    shapes = [(mark, shape) for _, marks, shape in _SHAPES for mark in marks.split()]
    marks = {mark for mark, _ in shapes}
    shortest = sorted(
        mark
        for mark in marks
        if not any(mark != other and mark.startswith(other) for other in marks)
    )
    by_mark = {
        prefix: [
            shape
            for mark, shape in shapes
            if mark.startswith(prefix) or _begins_within(mark, prefix)
        ]
        for prefix in shortest
    }
    return literals.compile(_alternation(shortest)), by_mark


def _begins_within(mark: str, other: str) -> bool:
    return any(
        mark.startswith(other[start:]) or other.startswith(mark, start)
        for start in range(1, len(other))
    )


def _alternation(words: Sequence[str]) -> str:
    """Build a pattern for sorted words, none a prefix of another.

    Shared prefixes are matched once.
    """
    if words == [""]:
        return ""
    starts = itertools.groupby(words, key=lambda word: word[0])
    branches = [
        literals.escape(first) + _alternation([word[1:] for word in group])
        for first, group in starts
    ]
    return branches[0] if len(branches) == 1 else f"(?:{'|'.join(branches)})"


# Cached and not compiled at import: sixty patterns take 30 ms, and few texts need more than one.
@cache
def _compiled(shape: str) -> re.Pattern[str]:
    edge = next((edge for word, edge in _WORDS.items() if shape.startswith(word)), _EDGE)
    return re.compile(f"{edge}(?:{shape}){_END}", re.ASCII)


# -- tokens that decode to JSON or to an id

# With at most one word before the token: its parts are long, and every hyphen in them would start
# a new attempt.
_JWT = re.compile(
    rf"{_WORDS['key-']}(?:[A-Za-z]{{0,16}}+[_-]{{1,2}}+)?"
    r"(?P<token>(eyJ[\w-]{10,2000}+)\.(eyJ[\w-]{8,8000}+)\.([\w-]{16,2000}+))",
    re.ASCII,
)
# Registered claims; a real token has at least one of them.
_CLAIM = re.compile(r"\"(?:iss|sub|aud|exp|nbf|iat|jti)\"")
# Characters of other claims; a token with fewer is an example.
MIN_CLAIMS = 60
# Searching for the tail is ten times as fast as for the whole token.
_DISCORD_TAIL = re.compile(r"\.[\w-]{6}\.[\w-]{27}", re.ASCII)
_DISCORD = re.compile(
    rf"{_EDGE}([MNO][\w-]{{22,27}}+)\.[\w-]{{6}}\.[\w-]{{27,40}}+{_END}", re.ASCII
)


def self_describing_tokens(text: str, long: str) -> Iterator[Leak]:
    """Find tokens that are recognised by decoding them; `long` are the long words of the text."""
    if "eyJ" in long:
        for match in _JWT.finditer(text):
            head, body = _json_of(match[2]), _json_of(match[3])
            if head is None or "alg" not in head or body is None or is_sample_token(match["token"]):
                continue
            if len(body) >= MIN_CLAIMS or _CLAIM.search(body):
                yield Leak("JSON web token", *match.span("token"))
    for match in _DISCORD.finditer(text) if _DISCORD_TAIL.search(long) else ():
        # A Discord token begins with the id of its user.
        if decoded(match[1]).isdigit():
            yield Leak("Discord token", *match.span())


def _json_of(part: str) -> str | None:
    """Decode the JSON object in a part of a token, as text; None where there is none."""
    try:
        content = json.loads(decoded(part))
    except ValueError:
        return None
    return json.dumps(content) if isinstance(content, dict) else None
