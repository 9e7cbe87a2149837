"""Where the scanner draws its lines: how near, how long and how much beside."""

from __future__ import annotations

import base64
import json
import random
import string

import pytest

from cortex.base.secret_scanner import find_leaks, find_leaks_by_line, is_key, redact

LETTERS = string.ascii_letters + string.digits
HEAD, TAIL = "-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----"


def made(size: int, alphabet: str = LETTERS, seed: int = 7) -> str:
    chance = random.Random(seed)
    return "".join(chance.choice(alphabet) for _ in range(size))


BLOCK = "\n".join([HEAD, *[made(64)] * 8, TAIL])
KEY_ID = "AKIA" + made(16, string.ascii_uppercase + "234567")
SECRET = "wJ" + made(38, seed=3)


def found(text: str) -> list[str]:
    return [text[leak.start : leak.end] for leak in find_leaks(text)]


def names(text: str) -> list[str]:
    return [leak.name for leak in find_leaks(text)]


def filler(size: int) -> str:
    """Text of this size in which nothing looks like a key."""
    return ("\n" + "- - " * size)[:size]


# -- private keys


@pytest.mark.parametrize(("size", "is_found"), [(0, True), (399, True), (400, False)])
def test_a_key_begins_within_four_hundred_characters_of_its_head(size: int, is_found: bool):
    text = HEAD + filler(size) + "\n" + made(64) + "\n" + made(64)
    assert names(text) == (["private key"] if is_found else [])


@pytest.mark.parametrize(("size", "is_found"), [(150, False), (299, False), (300, True)])
def test_a_key_that_is_mostly_left_out_is_an_example(size: int, is_found: bool):
    text = f"{HEAD}\n{made(64)}...\n"
    text += "." * (size - len(text) - len(TAIL)) + TAIL
    assert len(text) == size
    assert (found(text) == [text]) is is_found


def test_a_key_that_is_marked_as_an_example_is_none_however_long():
    assert found(BLOCK.replace(made(64)[:9], "EXAMPLE12", 1)) == []


@pytest.mark.parametrize(("beside", "is_one"), [(0, True), (150, True), (201, False)])
def test_a_text_is_a_key_with_little_beside_it(beside: int, is_one: bool):
    assert is_key(f"{'x ' * beside}\n{BLOCK}") is is_one


def test_a_text_without_a_key_is_none():
    assert is_key("") is False
    assert is_key("no key") is False


def test_two_keys_that_touch_are_two():
    assert found(BLOCK + BLOCK) == [BLOCK, BLOCK]
    assert redact(f"a {BLOCK}{BLOCK} b") == (
        "a [redacted: private key][redacted: private key] b",
        ("private key",),
    )


def test_a_key_without_its_end_goes_as_far_as_its_lines():
    text = "\n".join([HEAD, made(64), made(64, seed=8), "", "That was it."])
    assert found(text) == ["\n".join([HEAD, made(64), made(64, seed=8)])]


def test_a_key_of_an_encoded_block_is_found_and_an_encoded_certificate_is_not():
    key = base64.b64encode(BLOCK.encode()).decode()
    certificate = base64.b64encode(BLOCK.replace("PRIVATE KEY", "CERTIFICATE").encode()).decode()
    assert names(f"a: {key}\nb: {certificate}") == ["private key"]


# -- the secret beside the id of a key


@pytest.mark.parametrize(("size", "is_found"), [(1, True), (358, True), (359, False)])
@pytest.mark.parametrize("is_before", [True, False])
def test_a_secret_belongs_to_an_id_within_four_hundred_characters(
    size: int, is_found: bool, is_before: bool
):
    """The secret with its 40 characters, and the ends of two lines."""
    parts = (SECRET, KEY_ID) if is_before else (KEY_ID, SECRET)
    text = ("\n" + filler(size) + "\n").join(parts)
    assert (SECRET in found(text)) is is_found
    assert KEY_ID in found(text)


@pytest.mark.parametrize("value", [SECRET.lower(), SECRET.upper(), "a" * 20 + "B1" * 10])
def test_near_an_id_only_what_is_random_is_a_secret(value: str):
    assert found(f"{KEY_ID}\n{value}\n") == [KEY_ID]


def test_each_of_several_ids_has_its_secret():
    secrets = [made(40, seed=seed) for seed in range(20, 24)]
    ids = ["AKIA" + made(16, string.ascii_uppercase, seed) for seed in range(20, 24)]
    text = "\n".join(part for pair in zip(ids, secrets, strict=True) for part in pair)
    assert found(text) == text.split("\n")


def test_a_secret_at_the_edge_of_one_id_belongs_to_the_next():
    other = "AKIA" + made(16, string.ascii_uppercase, 30)
    text = f"{KEY_ID}\n{filler(340)}\n{other}\n{SECRET}"
    assert found(text) == [KEY_ID, other, SECRET]


# -- tokens


def jwt(claims: dict[str, object], head: object = None) -> str:
    parts = [{"alg": "HS256", "typ": "JWT"} if head is None else head, claims]
    coded = [base64.urlsafe_b64encode(json.dumps(one).encode()).decode() for one in parts]
    return ".".join([*(one.rstrip("=") for one in coded), made(43)])


def claims_of(size: int) -> dict[str, object]:
    """Claims that nobody registered, whose JSON has this many characters."""
    return {"note": "n" * (size - len(json.dumps({"note": ""})))}


@pytest.mark.parametrize(
    ("claims", "is_found"),
    [
        ({"sub": "1"}, True),
        ({"exp": 1}, True),
        (claims_of(59), False),
        (claims_of(60), True),
        (claims_of(61), True),
        ({"a": 1, "b": "some"}, False),
    ],
)
def test_a_token_has_a_registered_claim_or_much_to_say(claims: dict[str, object], is_found: bool):
    assert names(f"x {jwt(claims)} y") == (["JSON web token"] if is_found else [])


@pytest.mark.parametrize("head", [{"typ": "JWT", "kid": "abc"}, ["alg", "HS256", "typ"]])
def test_what_has_no_head_of_a_token_is_none(head: object):
    assert names(jwt({"sub": "1"}, head)) == []


# -- passwords in addresses


@pytest.mark.parametrize(
    ("address", "password"),
    [
        ("postgres://shop:Xk9mQ2@db.shop.org/x", "Xk9mQ2"),
        ("postgres://shop:Xk9mQ@db.shop.org/x", ""),
        ("postgres://shop:shop12@db.shop.org/x", "shop12"),
        ("postgres://shop12:shop12@db.shop.org/x", ""),
        ("postgres://shop:lantern@db.shop.org/x", "lantern"),
        ("postgres://shop:lantern@localhost/x", ""),
        ("postgres://shop:lantern@127.0.0.1/x", ""),
        ("postgres://shop:lantern@localhost.shop.org/x", "lantern"),
        ("postgres://shop:p4ssw0rd@localhost/x", ""),
        ("postgres://shop:p4ssw0rd@db.shop.org/x", "p4ssw0rd"),
        ("postgres://shop:lantern7@localhost/x", "lantern7"),
        ("postgres://shop:mypassword@db.shop.org/x", ""),
        ("postgres://shop:changeme@db.shop.org/x", ""),
        ("postgres://shop:placeholder@db.shop.org/x", ""),
        ("https://shop:x-oauth-basic@git.shop.org/x", ""),
        ("postgres://shop:${PASSWORD}@db.shop.org/x", ""),
        ("postgres://shop:aaaabbbb@db.shop.org/x", ""),
        ("postgres://shop:lantern@db.example/x", ""),
        ("postgres://shop:lantern@db.example.com/x", ""),
        ("postgres://shop:lantern@example.com/x", ""),
        ("postgres://shop:lantern@example.db.com/x", "lantern"),
        ("postgres://shop:lantern@shop.test/x", ""),
        ("postgres://shop:lantern@test.org/x", "lantern"),
        ("postgres://shop:lantern@hostname/x", ""),
        ("postgres://shop:Xk9mQ2vL8tR4@hostname/x", "Xk9mQ2vL8tR4"),
        ("postgres://shop:Xk9mQ2vL8tR4@db.example.com/x", ""),
        ("mongodb://shop:27017,two:27017@db.shop.org/x", ""),
    ],
)
def test_a_password_in_an_address_is_what_could_be_one(address: str, password: str):
    assert found(address) == ([password] if password else [])


# -- passwords in commands


@pytest.mark.parametrize(
    ("command", "password"),
    [
        ("curl -u shop:lantern https://shop.org", "lantern"),
        ("curl -u shop:changeme https://shop.org", ""),
        ('curl --user "shop:lantern" https://shop.org', "lantern"),
        ('["curl", "-u", "shop:lantern"]', "lantern"),
        ("http -u shop:lantern shop.org", ""),
        ("http -u shop:Xk9mQ2vL8tR4 shop.org", "Xk9mQ2vL8tR4"),
        ("http -u shop:lantern7! shop.org", "lantern7!"),
        ("curl -x y \\\n  -u shop:lantern https://shop.org", "lantern"),
        ("curl x\nother -u shop:lantern shop.org", ""),
        (f"curl {'x ' * 190}-u shop:lantern shop.org", "lantern"),
        (f"curl {'x ' * 210}-u shop:lantern shop.org", ""),
        ("see docs-u shop:lantern7!", ""),
        ("curl -u shop:lantern, and then", "lantern"),
    ],
)
def test_a_password_in_a_command_is_what_follows_its_user(command: str, password: str):
    assert found(command) == ([password] if password else [])


# -- lines


def test_each_line_of_a_secret_is_marked_without_the_white_space_around_it():
    text = "a: |\n" + "\n".join(f"    {line}  " for line in BLOCK.split("\n")) + "\nb: 1\n"
    leaks = find_leaks_by_line(text)
    assert [text[leak.start : leak.end] for leak in leaks] == BLOCK.split("\n")
    assert {leak.name for leak in leaks} == {"private key"}


def test_secrets_that_overlap_are_one_from_the_first_to_the_last():
    key = "ghp_" + made(36)
    for text in (f"password={key}", f"https://shop:{key}@shop.org/x", f'token: "{key}"'):
        (leak,) = find_leaks(text)
        assert text[leak.start : leak.end] == key
    assert found(f"{key} and {key[::-1]} and password: {SECRET}") == [key, SECRET]


# -- values


UUID = "f47ac10b-58cc-4372-a567-0e02b2c3d479"


@pytest.mark.parametrize(
    "text", [f"api_key={UUID}", f"client_secret: {UUID}", f"say app-secret={UUID}"]
)
def test_a_uuid_is_a_secret_wherever_its_name_begins(text: str):
    assert found(text) == [UUID]


@pytest.mark.parametrize("text", [f"secret={UUID}", f"api_key_id={UUID}", f"key={UUID}"])
def test_a_uuid_of_another_name_is_an_id(text: str):
    assert found(text) == []


def basic(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


@pytest.mark.parametrize(
    ("user", "is_found"),
    [
        ("somebody:lantern", True),
        ("somebody:lantern7", True),
        ("somebody:lamp12", True),
        ("somebody-else:lamp1", False),
        ("somebody:somebody", False),
        ("somebody:changeme", False),
        ("somebody-lantern", False),
        ("somebody, who says much", False),
    ],
)
def test_basic_authentication_is_a_user_and_a_password(user: str, is_found: bool):
    assert found(f"Authorization: Basic {basic(user)}") == ([basic(user)] if is_found else [])


@pytest.mark.parametrize(
    "value", ["wxyzab" * 8, "xyzaxyzaxyzaxyzaxyza", "789012" * 6, "a1b2c3d4e5f6g7h8i9j0"]
)
def test_what_counts_up_also_past_its_end_is_made_up(value: str):
    assert found(f"glpat-{value}") == []
    assert found(f"glpat-{made(20)}") == [f"glpat-{made(20)}"]


@pytest.mark.parametrize(
    ("value", "is_found"),
    [
        ("Xk9mQ2vL8tR4", True),
        ("FüßeÜberÄrmelÖl", False),
        ("readTheManualFirst", False),
        ("qXzKvWjQpZrBtG", True),
        ("qXzKvWj", False),
        ("2024-11-18T20:44:56", False),
        ("v1.22.333", False),
        ("utf8_to_utf16_le", False),
        ("refreshTokenV2Key", False),
        ("store.tokens.Default", False),
        ("sha256-Xk9mQ2vL8tR4", False),
        ("/etc/Xk9mQ2vL8tR4", False),
        ("https://Xk9mQ2vL8tR4", False),
        ("${Xk9mQ2vL8tR4}", False),
        ("<Xk9mQ2vL8tR4>", False),
        ("XXXXxxxx1111XXXX", False),
        ("password-Xk9mQ2vL8t", False),
        (basic("not my real password"), False),
    ],
)
def test_a_token_is_what_looks_generated(value: str, is_found: bool):
    assert found(f'token = "{value}"') == ([value] if is_found else [])


@pytest.mark.parametrize(
    ("value", "is_found"),
    [
        ("lantern-7!", True),
        ("lantern!!", False),
        ("1234567!", False),
        ("lantern_7", False),
        ("changeme7!", False),
        ("${lantern7!}", False),
        ("aaaaaaa7!", False),
    ],
)
def test_a_quoted_password_is_one_with_letters_digits_and_signs(value: str, is_found: bool):
    assert found(f'password = "{value}"') == ([value] if is_found else [])
    assert found(f'token = "{value}"') == []


@pytest.mark.parametrize(
    ("name", "is_found"),
    [
        ("api_key", True),
        ("account-key", True),
        ("signing key", True),
        ("sort_key", False),
        ("key", False),
        ("next_token", False),
        ("pageToken", False),
        ("public_key", False),
        ("auth_token", True),
        ("AWS::IAM::AccessKey", False),
        ("arn:aws:secretsmanager:eu:1:secret:", False),
        ("x.svg?token", False),
        ("nextSecret", True),
    ],
)
def test_a_value_is_a_secret_by_its_name(name: str, is_found: bool):
    value = "Xk9mQ2vL8tR4"
    assert found(f"{name}={value}") == ([value] if is_found else [])


@pytest.mark.parametrize(
    ("text", "is_found"),
    [
        ("Authorization: Bearer {}", True),
        ("bearer {}", True),
        ("forbearer {}", False),
        ("_bearer {}", False),
        ("-bearer {}", True),
        ("2bearer {}", False),
    ],
)
def test_a_bearer_is_a_word_of_its_own(text: str, is_found: bool):
    value = made(24)
    assert found(text.format(value)) == ([value] if is_found else [])


def test_the_secret_of_an_example_is_none_and_of_a_real_key_behind_it_is_one():
    example = "AKIAIOSFODNN7EXAMPLE"
    named = f"aws_secret_access_key = {SECRET}"
    assert found(f"aws_access_key_id = {example}\n{named}") == []
    assert found(f"aws_access_key_id = {example}\nid = {KEY_ID}\n{named}") == [KEY_ID, SECRET]
    assert found(f"{example}\n{named}") == []
    assert found(f"aws_access_key_id = {example}\n{'- ' * 90}\n{named}") == [SECRET]
    assert found(f"id = {example}\npassword = {SECRET}") == [SECRET]
