"""Secrets are found and redacted; text that only looks like one, or is about one, stays."""

from __future__ import annotations

import base64
import itertools
import random
import re

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from base.secret_scanner.examples import HEX, KEYS, LETTERS, found, made, token
from cortex.base import secret_scanner
from cortex.base.secret_scanner import find_leaks, keys, named, redact, values

SECRETS = [(name, key) for name, keys in KEYS.items() for key in keys]


def body_of(key: str) -> str:
    """The secret part of a key, without the name before it."""
    return re.sub(r"^(?:AccountKey=|SharedAccessKey=|FlyV1 )", "", key)


@pytest.mark.parametrize(("name", "key"), SECRETS)
def test_key_of_known_shape_is_found_in_any_context(name: str, key: str) -> None:
    for text in (
        key,
        f"use {key}, then go on.",
        f'{{"value":"{key}"}}',
        f"one\\n{key}\\ntwo",
        f"`{key}`",
        f"- **{key}**",
    ):
        clean, names = redact(text)
        assert names == (name,), text
        assert body_of(key) not in clean
        assert f"[redacted: {name}]" in clean
        assert find_leaks(clean) == []


WORDS = ("key-", "secret_", "sk-" + made(20))  # names begin with these, too


@pytest.mark.parametrize(
    ("name", "key"),
    [secret for secret in SECRETS if not secret[1].startswith((*WORDS, "FlyV1", "Acc", "Sha"))],
)
def test_key_of_known_shape_is_found_after_a_name_prefix(name: str, key: str) -> None:
    for before in ("thread_", "x-", "obs__", "--"):
        assert redact(f"see {before}{key}.") == (f"see {before}[redacted: {name}].", (name,))


def test_key_with_a_common_word_as_prefix_must_begin_a_word() -> None:
    assert redact("thread_" + KEYS["OpenAI key"][0])[1] == ("OpenAI key",)
    for name in (
        "messages-sk-" + made(32, HEX),
        "idempotency_key-" + made(32, HEX),
        "retry-key-" + made(32, HEX),
    ):
        assert find_leaks(f"see {name}.js") == []


def test_the_text_around_a_secret_stays() -> None:
    key = KEYS["GitHub token"][0]
    assert redact(f"deploys with {key}.\nNever in CI.") == (
        "deploys with [redacted: GitHub token].\nNever in CI.",
        ("GitHub token",),
    )


def test_each_kind_is_named_once_and_each_place_is_redacted() -> None:
    first, second, other = "ghp_" + made(36, seed=1), "gho_" + made(36, seed=2), "npm_" + made(36)
    clean, names = redact(f"{first} {other} {second}")
    assert clean == "[redacted: GitHub token] [redacted: npm token] [redacted: GitHub token]"
    assert names == ("GitHub token", "npm token")


PASSWORD = "Xk9$" + "mQ2vL8!t"
VALUE = made(24)


@pytest.mark.parametrize(
    "text",
    [
        f'password = "{PASSWORD}"',
        f"DB_PASSWORD={made(14)}",
        f'{{"password": "{PASSWORD}"}}',
        '"{\\"dbPassword\\": \\"' + VALUE + '\\"}"',
        f"The staging database's password is {made(14)}.",
        f"**Password**: {made(14)}",
        f"login with --password {made(14)} then",
        'password: str = "Winter' + '2024!"',
        "passwd = 'Tr0ub4" + "dor&3'",
    ],
)
def test_password_next_to_its_name_is_found(text: str) -> None:
    clean, names = redact(text)
    assert names == ("password",)
    assert find_leaks(clean) == []


@pytest.mark.parametrize(
    "text",
    [
        f"api_key: {VALUE}",
        f"API_KEY_PROD={VALUE}",
        f"client-secret => '{VALUE}'",
        f'x-api-key: "{made(32, HEX)}"',
        f"the token is: {VALUE}",
        f"SECRET_KEY = '{made(50, LETTERS + '!@#%^&*+')}'",
    ],
)
def test_secret_next_to_its_name_is_found(text: str) -> None:
    assert redact(text)[1] == ("secret",)


UUID = "-".join([made(8, HEX), made(4, HEX), "4" + made(3, HEX), "a" + made(3, HEX), made(12, HEX)])


@pytest.mark.parametrize(
    "text",
    [
        f"client_secret: {UUID}",
        f"HEROKU_API_KEY={UUID}",
        f'"clientSecret": "{UUID}"',
        f"app_secret = '{UUID}'",
        "api-key: " + UUID.upper(),
    ],
)
def test_uuid_is_a_secret_only_next_to_an_unambiguous_name(text: str) -> None:
    assert redact(text)[1] == ("secret",)
    assert find_leaks(f"tenant_id: {UUID}, token: {UUID}, secret: {UUID}") == []


AWS_ID, AWS_SECRET = KEYS["AWS key"][0], made(40, LETTERS + "+/")


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("<password>{}</password>", PASSWORD),
        ('<db:clientSecret type="text">\n  {}\n</db:clientSecret>', VALUE),
        ("<password><![CDATA[{}]]></password>", PASSWORD),
        ('<add key="DbPassword" value="{}"/>', VALUE),
        ("az login --client-secret {} --tenant x", UUID),
        ("mysql --password {} app", PASSWORD),
        ("tool --db-password={}", "S3cr" + "et!"),
        ("curl -u admin:{} https://acme.io", "S3cr" + "et!"),
        ("curl --user admin:{} https://acme.io", "hunter" + "7even"),
        ("curl -X POST \\\n  -u 'deploy:{}' \\\n  https://acme.io", PASSWORD),
        ('["curl", "-u", "admin:{}"]', PASSWORD),
        ('os.environ.get("CLIENT_SECRET","{}")', UUID),
        ('getenv("API_KEY", "{}")', VALUE),
        ('setenv("DB_PASSWORD",\n       "{}", 1)', PASSWORD),
        ('os.getenv("API_KEY", default="{}")', VALUE),
        ('process.env.API_KEY || "{}"', VALUE),
        ('subprocess.run(["login", "--password", "{}"])', PASSWORD),
        ('SECRET_KEY = b"{}"', VALUE),
        ("secret_key: >-\n  {}\nnext: 1", VALUE),
        ("app:\n  password: |  # of the database\r\n    {}\r\n  other:\r\n", PASSWORD),
        (f"The id is {AWS_ID}, and\nwhat belongs to it:\n\n{{}}, as you know", AWS_SECRET),
        (f"{AWS_ID}:{{}}", AWS_SECRET),
    ],
)
def test_secrets_are_found_in_elements_options_calls_and_blocks(text: str, secret: str) -> None:
    clean, names = redact(text.format(secret))
    assert secret not in clean
    assert clean.endswith(text.rpartition("{}")[2])
    assert "[redacted: " + names[-1] + "]" in clean
    assert find_leaks(clean) == []


@pytest.mark.parametrize(
    "text",
    [
        "<password>${db.password}</password>",
        "<password>changeme</password>",
        f"<secretName>{VALUE}</secretName>",
        f"login --password-file {VALUE} --token-ttl {VALUE}",
        "curl -u $USER:$PASS https://acme.io",
        'curl -u "${USER}:${PASS}" https://acme.io; curl -u user:password x; curl -u user:my_api_token x',
        "docker run -u 1000:100000 -u nobody:nogroup --user app:developers image",
        'getenv("API_KEY")',
        'getenv("API_KEY", "")',
        'names = ["password", "username", "refreshTokenV2Key", "ApiKey2Handler"]',
        f'getenv("REQUEST_ID", "{VALUE}"), getenv("TENANT", "{UUID}")',
        "password: >-\n  {{ vault_db_password2 }}\n",
        "password: |\n  ${DB_PASSWORD_2}\nsecret: |\n  first line of a text\n",
        "secret_name: my-app",
        f"commit {made(40, HEX)} of {made(40, LETTERS)} is near no id",
        "AKIAIOSFODNN7" + "EXAMPLE and " + AWS_SECRET,
    ],
)
def test_templates_and_names_in_elements_options_and_calls_are_no_secrets(text: str) -> None:
    assert find_leaks(text) == []


def test_only_a_value_shaped_like_its_secret_is_taken_near_an_aws_key() -> None:
    for other in (
        made(40, HEX),
        "src/cortex/engine/store/content/index/abc",
        "A" * 40,
        made(41),
        "x" * 400 + " " + AWS_SECRET,
    ):
        assert redact(f"{AWS_ID} {other}")[0] == f"[redacted: AWS key] {other}"


def test_aws_secret_is_found_after_an_example_pair() -> None:
    example = (
        "aws_access_key_id = AKIAIOSFODNN7"
        + "EXAMPLE\naws_secret_access_key = wJalrXUtnFEMI/EXAMPLEKEY\n"
    )
    for text in (
        f"aws_access_key_id = {AWS_ID}\naws_secret_access_key = {{}}",
        "access_token = {}",
        "password = {}",
    ):
        assert AWS_SECRET not in redact(example + text.format(AWS_SECRET))[0]


def test_password_is_found_after_a_verb_in_its_name() -> None:
    assert redact(f"update_password={VALUE}")[1] == ("password",)


def test_multi_line_block_is_redacted_to_its_end() -> None:
    block = "\n".join(
        [
            "token: >-",
            *(f"    {made(40, seed=seed)}" for seed in range(3)),
            "    and words",
            "next: 1",
        ]
    )
    clean = secret_scanner.replace_leaks(block, secret_scanner.find_leaks_by_line(block))
    assert clean.split("\n") == [
        "token: >-",
        *["    [redacted: secret]"] * 3,
        "    and words",
        "next: 1",
    ]


STYLES = (
    "{}={}",
    '{} = "{}"',
    "{}: '{}'",
    '"{}": "{}"',
    "{}: {}",
    "--{} {}",
    "<{}>{}</x>",
    'getenv("{}", "{}")',
)
NAMES = (
    "password",
    "DB_PASSWORD",
    "pwd",
    "client_secret",
    "apiKey",
    "API_TOKEN",
    "secret_key",
    "auth_token",
)


def test_at_most_two_percent_of_random_passwords_are_missed() -> None:
    chance = random.Random(11)
    missed = []
    for name, style, size in itertools.product(NAMES, STYLES, [12, 13, 14, 15, 16] * 6):
        secret = "".join(chance.choices(LETTERS, k=size))
        text = style.format(name, secret)
        if [text[leak.start : leak.end] for leak in find_leaks(text)] != [secret]:
            missed.append(text)
    assert len(missed) <= 0.02 * len(NAMES) * len(STYLES) * 30, missed


SAMPLE = ".".join(
    [
        "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9",
        "eyJzdWIiOiIxMjM0NTY3ODkwIiwibmFtZSI6IkpvaG4gRG9lIiwiaWF0IjoxNTE2MjM5MDIyfQ",
        "SflKxwRJSMeKKF2QT4fwpMeJf36POk6yJV_adQssw5c",
    ]
)


def test_only_the_well_known_sample_token_is_no_secret() -> None:
    assert find_leaks(f"see {SAMPLE}; token: {SAMPLE}") == []
    assert redact(f"see {SAMPLE[:-3]}w5d")[1] == ("JSON web token",)
    assert redact(token({"alg": "HS256"}, {"sub": "1234567890", "name": "John Doe"}))[1] == (
        "JSON web token",
    )


def test_private_key_id_is_found() -> None:
    number = made(40, HEX)
    for text in (f'"private_key_id": "{number}"', f"private_key_id = {number}"):
        assert redact(text) == (
            text.replace(number, "[redacted: private key id]"),
            ("private key id",),
        )
    assert find_leaks(f"key_id: {number}, public_key_id: {number}") == []


@pytest.mark.parametrize("width", [0, 64, 76])
def test_private_key_in_base64_is_redacted_and_a_certificate_stays(width: int) -> None:
    def encoded(kind: str) -> str:
        lines = [made(64, LETTERS + "+/", seed) for seed in range(12)]
        pem = "\n".join([f"-----BEGIN {kind}-----", *lines, f"-----END {kind}-----", ""])
        flat = base64.b64encode(pem.encode()).decode()
        return (
            "\n".join(flat[at : at + width] for at in range(0, len(flat), width)) if width else flat
        )

    assert redact(f"key: {encoded('RSA PRIVATE KEY')}\nnext: 1") == (
        "key: [redacted: private key]\nnext: 1",
        ("private key",),
    )
    assert find_leaks(encoded("CERTIFICATE")) == []


BLOCK = "\n".join(["-----BEGIN PRIVATE KEY-----", *[made(64)] * 8, "-----END PRIVATE KEY-----"])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (BLOCK, True),
        (f"# of the test server\n{BLOCK[:-26]}", True),
        ("def lamp():\n    return 1\n" * 20 + BLOCK, False),
        ("no key at all", False),
    ],
)
def test_text_is_a_key_if_it_has_hardly_anything_else(text: str, expected: bool) -> None:
    certificate = "\n".join(
        ["-----BEGIN CERTIFICATE-----", *[made(64)] * 20, "-----END CERTIFICATE-----"]
    )
    assert (
        secret_scanner.is_key(text) is secret_scanner.is_key(f"{certificate}\n{text}") is expected
    )


@pytest.mark.parametrize(("beside", "expected"), [(0, True), (150, True), (201, False)])
def test_text_is_a_key_with_at_most_200_characters_beside_it(beside: int, expected: bool):
    assert secret_scanner.is_key(f"{'x ' * beside}\n{BLOCK}") is expected


def test_text_without_a_key_is_no_key():
    assert secret_scanner.is_key("") is False
    assert secret_scanner.is_key("no key") is False


def test_each_line_of_a_secret_is_marked_without_surrounding_white_space():
    text = "a: |\n" + "\n".join(f"    {line}  " for line in BLOCK.split("\n")) + "\nb: 1\n"
    leaks = secret_scanner.find_leaks_by_line(text)
    assert [text[leak.start : leak.end] for leak in leaks] == BLOCK.split("\n")
    assert {leak.name for leak in leaks} == {"private key"}


def test_overlapping_secrets_are_merged():
    key = "ghp_" + made(36)
    for text in (f"password={key}", f"https://shop:{key}@shop.org/x", f'token: "{key}"'):
        (leak,) = find_leaks(text)
        assert text[leak.start : leak.end] == key
    assert found(f"{key} and {key[::-1]} and password: {AWS_SECRET}") == [key, AWS_SECRET]


def test_each_line_of_a_key_is_redacted_separately() -> None:
    lines = [
        "before",
        "-----BEGIN PRIVATE KEY-----",
        *[made(64)] * 3,
        "",
        "-----END PRIVATE KEY-----",
        "after",
    ]
    found = secret_scanner.find_leaks_by_line("\n".join(lines))
    clean = secret_scanner.replace_leaks("\n".join(lines), found).split("\n")
    assert clean == [
        "before",
        *["[redacted: private key]"] * 4,
        "",
        "[redacted: private key]",
        "after",
    ]


def test_secrets_in_headers_connections_and_aws_files_are_found() -> None:
    assert redact(f"curl -H 'Authorization: Bearer {made(40)}'")[1] == ("bearer token",)
    basic = base64.b64encode(b"deploy:" + made(14).encode()).decode()
    assert redact(f"Authorization: Basic {basic}")[1] == ("bearer token",)
    secret = made(40, LETTERS + "+/")
    for text in (
        f"aws_secret_access_key = {secret}",
        f'"SecretAccessKey": "{secret}"',
        f"AWS_SECRET={secret}",
    ):
        clean, names = redact(text)
        assert names == ("AWS secret key",)
        assert secret not in clean


@pytest.mark.parametrize(
    ("text", "password"),
    [
        ("postgres://app:hunter" + "7even@db.internal:5432/app", "hunter" + "7even"),
        ("https://deploy:" + VALUE + "@git.acme.io/repo.git", VALUE),
        ("redis://:" + VALUE + "@10.0.0.4:6379", VALUE),
        ("amqp://worker:correct" + "horse@mq.acme.io", "correct" + "horse"),
    ],
)
def test_password_in_an_address_is_redacted_and_the_address_stays(text: str, password: str) -> None:
    clean, names = redact(f"connects to {text} at night")
    assert names == ("password in an address",)
    assert (
        clean
        == f"connects to {text.replace(password, '[redacted: password in an address]')} at night"
    )


@pytest.mark.parametrize(
    "kind", ["RSA PRIVATE KEY", "PRIVATE KEY", "OPENSSH PRIVATE KEY", "PGP PRIVATE KEY BLOCK"]
)
@pytest.mark.parametrize("line_end", ["\n", "\\n", "\r\n"])
def test_whole_private_key_is_redacted(kind: str, line_end: str) -> None:
    lines = [made(64, LETTERS + "+/", seed) for seed in range(20)]
    block = line_end.join([f"-----BEGIN {kind}-----", *lines, f"-----END {kind}-----"])
    assert redact(f"before {block} after") == (
        "before [redacted: private key] after",
        ("private key",),
    )


def test_cut_off_private_key_is_redacted_to_its_end() -> None:
    lines = [made(64, LETTERS + "+/", seed) for seed in range(20)]
    cut = "\n".join(["-----BEGIN PRIVATE KEY-----", *lines])
    assert redact(f"{cut}\n\nIt ended here.")[0] == "[redacted: private key]\n\nIt ended here."


@pytest.mark.parametrize(
    "text",
    [
        "AKIAIOSFODNN7" + "EXAMPLE",
        "aws_secret_access_key = wJalr" + "XUtnFEMI/K7MDENG/bPxRfiCY" + "EXAMPLEKEY",
        "export GITHUB_TOKEN=ghp_" + "x" * 36,
        "OPENAI_API_KEY=sk-" + "your-key-here",
        "sk-proj-" + "1234567890" * 5,
        "ANTHROPIC_API_KEY=sk-ant-api03-" + "." * 3,
        "password = <your password>",
        "password: ${DB_PASSWORD}",
        "password = os.environ['DB_PASSWORD_2']",
        'api_key = os.getenv("API_KEY_V2")',
        "token: {{ secrets.NPM_TOKEN_2 }}",
        "token = settings.providers.openai2.api_key",
        "password=changeme1234",
        "password: '********'",
        'password = "%(password)s12a"',
        "secret = [redacted: Stripe key]",
        "Authorization: Bearer <token>",
        "Authorization: Bearer $TOKEN_2024_A1B2C3",
        "Authorization: Bearer YOUR_API_TOKEN_V2_HERE",
        "https://user:password@example.com/path",
        "postgres://postgres:postgres@localhost/test",
        "postgres://app:secret@localhost/test",
        "http://${USER}:${PASSWORD}@db.acme.io/",
        "see https://acme.io:8080/a@b and git@github.com:acme/repo.git",
        "https://me:a%20secret@acme.io smb://me:mypassword@acme.io http://me:he%2F%2Fo@acme.io http://me:p4ssw"
        + "0rd@127.0.0.1",
        "mongodb://one.acme.io:27017,app:other@two.acme.io",
        "--password A1b2c3d4 --token a1b2c3d4567890ab, private_key: a123b45c6d78e9f012a34cd5e6a7890b12c3d45e",
        "password: " + base64.b64encode(b"not my real password").decode(),
        "accessKeyId=ABCDE12345670EXAMPLE, rawSecretAccessKey=" + made(43, LETTERS + "+/") + "=",
        f'"secretAccessKey": "wJalrXUtnFEMI/EXAMPLEKEY",\n "sessionToken": "{made(200, LETTERS)}"',
        "-----BEGIN RSA PRIVATE KEY-----\\nEXAMPLE" + made(60) + "\\n-----END RSA PRIVATE KEY-----",
        "-----BEGIN RSA PRIVATE KEY-----\\n" + made(60) + "...fvY4\\n-----END RSA PRIVATE KEY-----",
        f"publicKeyToken={made(16, HEX)}, Next page token: {VALUE}, --starting-token {VALUE}",
    ],
)
def test_placeholders_and_vendors_examples_are_no_secrets(text: str) -> None:
    assert find_leaks(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "The password is stored as a bcrypt hash, the token is rotated every 30 days and the secret is never logged.",
        "We decided: tokens are 20 characters, passwords at least 12, API key: see the vault.",
        "token: estimate_tokens(text2) counts 4 characters; secret = is_secret2(path)",
        "commit 3f2b8c1d9e0a7f6b5c4d3e2f1a0b9c8d7e6f5a4b fixed it",
        "id 550e8400-e29b-41d4-a716-446655440000; token: 550e8400-e29b-41d4-a716-446655440000",
        '"integrity": "sha512-' + made(86, LETTERS + "+/") + '=="',
        'checksum = "' + made(64, HEX) + '"',
        'sdist = { url = "https://files.acme.io/a.tar.gz", hash = "sha256:' + made(64, HEX) + '" }',
        "data:image/png;base64," + "iVBORw0KGgo" + "A" * 60,
        "secret: 2026-11-16T10:20:30Z, api_key: v1.2.3-beta4, access key: src/auth/key2.py",
        "password: getPasswordFromVault2, token = refreshTokenV2Handler",
        "task-" + made(40) + " is no key, nor is risk-" + made(40),
        "-----BEGIN PRIVATE KEY----- is how it begins",
        "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9 alone is a header",
        f'"AWS::IAM::AccessKey": "{made(16, HEX)}", "NextToken": "{made(40)}", change-token: {made(30)}',
        "arn:aws:secretsmanager:us-west-2:123456789012:secret:MyTestSecret-a1b2c3",
        "badge.svg?token=RXP95LE2XL; password = utf8_to_utf16_dup",
        token({"alg": "HS256"}, {"some": "payload"}),
    ],
)
def test_prose_hashes_and_names_are_no_secrets(text: str) -> None:
    assert find_leaks(text) == []


@given(
    st.lists(
        st.one_of(st.text(max_size=40), st.sampled_from([key for _, key in SECRETS])), max_size=6
    )
)
def test_redacting_any_text_leaves_no_key_of_known_shape(parts: list[str]) -> None:
    clean, names = redact(" ".join(parts))
    for _name, key in SECRETS:
        if key in parts:
            assert body_of(key) not in clean
            assert names
    found = find_leaks(" ".join(parts))
    assert all(before.end <= after.start for before, after in itertools.pairwise(found))


PATTERNS = {
    **{
        f"shape of {name} {number}": keys._compiled(shape)
        for number, (name, _, shape) in enumerate(keys._SHAPES)
    },
    **{
        name: found
        for module in (secret_scanner, keys, named, values)
        for name, found in vars(module).items()
        if isinstance(found, regex.Pattern)
    },
    **dict(keys._OTHER_KEYS),
}
# Of an attempt at one position: the longest private key, counted generously
MAX_STEPS = 150_000


def steps(tree: re._parser.SubPattern) -> int:
    """The most characters that an attempt reads; fails for a pattern that could backtrack."""
    total = 0
    for kind, value in tree:
        match str(kind), value:
            case (("MAX_REPEAT" | "MIN_REPEAT"), (least, most, inner)):
                assert least == most or (most <= 3 and steps(inner) <= 110), "it may backtrack"
                total += most * steps(inner)
            case "POSSESSIVE_REPEAT", (_, most, inner):
                assert most < 50_000, "it has no end"
                total += most * steps(inner)
            case "SUBPATTERN", (_, _, _, inner):
                total += steps(inner)
            case "BRANCH", (_, branches):
                total += sum(map(steps, branches))
            case (("ASSERT" | "ASSERT_NOT"), (_, inner)):
                total += steps(inner)
            case _:
                total += 1
    return total


@pytest.mark.parametrize("name", PATTERNS)
def test_no_pattern_can_backtrack(name: str) -> None:
    pattern = PATTERNS[name]
    assert steps(re._parser.parse(pattern.pattern, pattern.flags)) <= MAX_STEPS


@pytest.mark.timeout(30)
@pytest.mark.parametrize(
    "unit",
    [
        "eyJhbGciOiJ", "eyJhbGciOiJIUzI1NiJ9.", "password", "password=", "secret_key_secret_key_", "://a:", "://aaaa:bbbb", "A" * 50,
        "sk-", "ghp_aaaa", "xoxb-1-", "-----BEGIN PRIVATE KEY-----", "-----BEGIN PRIVATE KEY-----\nabcdefghijklmnop", "AB" * 8 + "\n",
        "Bearer ", "--token=", "LS0tLS1CRUdJTi", "api_key=", "client_secret: ", "private_key_id=", "::accesskey", "MTIz.", "1234567890:AA", "client-key-data: LS0tLS1", "-eyJ", "_ghs_a", "curl -u a:bbbbbb ", "-u", "<password>", "<token a", "token: |\n aaaaaaaaa\n", "'token', 'aaaaaaaa", "--a-b-token ", f"{AWS_ID} ", "PuTTY-User-Key-File-Private-Lines: 8 ", "glpat-.a",
    ],
)  # fmt: skip
def test_long_adversarial_text_is_scanned_in_time(unit: str) -> None:
    text = unit * (300_000 // len(unit))
    assert all(0 <= leak.start < leak.end <= len(text) for leak in find_leaks(text))
