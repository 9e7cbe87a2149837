"""Examples of secrets, generated so that no scanner of secrets stops at these files."""

from __future__ import annotations

import base64
import json
import random
import string

from cortex.base.secret_scanner import find_leaks

LETTERS = string.ascii_letters + string.digits
HEX = "0123456789abcdef"
SAFE = LETTERS + "_-"


def made(size: int, alphabet: str = LETTERS, seed: int = 7) -> str:
    """A random text, the same for the same seed."""
    chance = random.Random(f"{size}{alphabet}{seed}")
    return "".join(chance.choice(alphabet) for _ in range(size))


def token(*parts: object) -> str:
    """A JSON web token of these parts and a signature."""
    encoded = [
        base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts
    ]
    return ".".join([*encoded, made(43, SAFE)])


def found(text: str) -> list[str]:
    return [text[leak.start : leak.end] for leak in find_leaks(text)]


KEYS = {
    "AWS key": ["AKIA" + made(16, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"), "ASIA" + made(16, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567")],
    "GitHub token": [
        *(f"gh{kind}_" + made(36) for kind in "pousr"),
        "github_pat_" + made(22) + "_" + made(59),
        "ghs_" + token({"alg": "RS256"}, {"iss": 1, "n": made(60)}),
    ],
    "GitLab token": ["glpat-" + made(20, SAFE), "gldt-" + made(20), "glrt-t1_" + made(27) + ".01." + made(9), "glptt-" + made(40, HEX)],
    "Slack token": [
        "xoxb-" + "-".join([made(12, "123456789"), made(12, "123456789"), made(24)]),
        "xoxe.xoxp-1-" + made(160),
        "xapp-1-A" + made(10, string.ascii_uppercase) + "-" + made(12, "123456789") + "-" + made(64, HEX),
    ],
    "Slack webhook": ["hooks.slack.com/services/T" + made(8) + "/B" + made(8) + "/" + made(24)],
    "Stripe key": ["sk_live_" + made(24), "rk_live_" + made(99), "whsec_" + made(32)],
    "OpenAI key": ["sk-" + made(20) + "T3Blbk" + "FJ" + made(20), "sk-proj-" + made(120, SAFE), "sk-svcacct-" + made(80, SAFE)],
    "Anthropic key": ["sk-ant-api03-" + made(93, SAFE) + "AA", "sk-ant-oat01-" + made(93, SAFE) + "AA"],
    "OpenRouter key": ["sk-or-v1-" + made(64, HEX)],
    "Google key": ["AIza" + made(35, SAFE)],
    "Google token": ["ya29." + made(120, SAFE)],
    "Google client secret": ["GOCSPX-" + made(28, SAFE)],
    "npm token": ["npm_" + made(36)],
    "PyPI token": ["pypi-AgEI" + "cHlwaS5vcmc" + made(120, SAFE)],
    "Docker token": ["dckr_pat_" + made(27, SAFE)],
    "Hugging Face token": ["hf_" + made(34, string.ascii_letters)],
    "Groq key": ["gsk_" + made(52)],
    "Azure key": [made(3) + "8Q~" + made(34), "AccountKey=" + made(86, LETTERS + "+/") + "==", "SharedAccessKey=" + made(43) + "="],
    "Databricks token": ["dapi" + made(32, HEX)],
    "DigitalOcean token": ["dop_v1_" + made(64, HEX)],
    "Discord token": [base64.b64encode(b"123456789012345678").decode() + "." + made(6, SAFE) + "." + made(38, SAFE)],
    "Discord webhook": ["discord.com/api/webhooks/" + made(18, "123456789") + "/" + made(68, SAFE)],
    "Telegram token": [made(10, "123456789") + ":AA" + made(33, SAFE)],
    "Twilio key": ["SK" + made(32, HEX)],
    "SendGrid key": ["SG." + made(22, SAFE) + "." + made(43, SAFE)],
    "Shopify token": ["shpat_" + made(32, HEX)],
    "Mailgun key": ["key-" + made(32, HEX)],
    "Linear key": ["lin_api_" + made(40)],
    "Notion token": ["ntn_" + made(11, "0123456789") + made(35), "secret_" + made(43)],
    "Vault token": ["hvs." + made(95, SAFE)],
    "Supabase key": ["sbp_" + made(40, HEX), "sb_secret_" + made(31, SAFE)],
    "Fly token": ["fo1_" + made(43, SAFE), "FlyV1 fm2_" + made(300, LETTERS + "+/")],
    "Cloudflare token": ["cfut_" + made(48)],
    "Cloudflare key": ["v1.0-" + made(24, HEX) + "-" + made(146, HEX)],
    "Cortex token": ["ctx_" + made(12, HEX) + "_" + made(43, SAFE)],
    "JSON web token": [token({"alg": "HS256", "typ": "JWT"}, {"sub": "42", "exp": 1767225600})],
    "private key": ["AGE-SECRET-KEY-1" + made(58, "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L")],
}  # fmt: skip
