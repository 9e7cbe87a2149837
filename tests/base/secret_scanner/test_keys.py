"""Private keys, AWS secrets near their ids, and web tokens: distances, sizes and examples."""

from __future__ import annotations

import base64
import json
import string

import pytest

from base.secret_scanner.examples import found, made
from cortex.base.secret_scanner import find_leaks, redact

HEAD, TAIL = "-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----"
BLOCK = "\n".join([HEAD, *[made(64)] * 8, TAIL])
KEY_ID = "AKIA" + made(16, string.ascii_uppercase + "234567")
SECRET = "wJ" + made(38, seed=3)


def names(text: str) -> list[str]:
    return [leak.name for leak in find_leaks(text)]


def filler(size: int) -> str:
    """Text of this size in which nothing looks like a key."""
    return ("\n" + "- - " * size)[:size]


@pytest.mark.parametrize(("size", "is_found"), [(0, True), (399, True), (400, False)])
def test_private_key_begins_within_400_characters_of_its_head(size: int, is_found: bool):
    text = HEAD + filler(size) + "\n" + made(64) + "\n" + made(64)
    assert names(text) == (["private key"] if is_found else [])


@pytest.mark.parametrize(("size", "is_found"), [(150, False), (299, False), (300, True)])
def test_mostly_elided_private_key_is_an_example(size: int, is_found: bool):
    text = f"{HEAD}\n{made(64)}...\n"
    text += "." * (size - len(text) - len(TAIL)) + TAIL
    assert len(text) == size
    assert (found(text) == [text]) is is_found


def test_private_key_marked_as_an_example_is_no_secret_at_any_length():
    assert found(BLOCK.replace(made(64)[:9], "EXAMPLE12", 1)) == []


def test_adjacent_private_keys_are_two_secrets():
    assert found(BLOCK + BLOCK) == [BLOCK, BLOCK]
    assert redact(f"a {BLOCK}{BLOCK} b") == (
        "a [redacted: private key][redacted: private key] b",
        ("private key",),
    )


def test_private_key_without_its_end_ends_with_its_lines():
    text = "\n".join([HEAD, made(64), made(64, seed=8), "", "That was it."])
    assert found(text) == ["\n".join([HEAD, made(64), made(64, seed=8)])]


def test_encoded_private_key_is_found_and_an_encoded_certificate_is_not():
    key = base64.b64encode(BLOCK.encode()).decode()
    certificate = base64.b64encode(BLOCK.replace("PRIVATE KEY", "CERTIFICATE").encode()).decode()
    assert names(f"a: {key}\nb: {certificate}") == ["private key"]


@pytest.mark.parametrize(("size", "is_found"), [(1, True), (358, True), (359, False)])
@pytest.mark.parametrize("is_before", [True, False])
def test_aws_secret_belongs_to_an_id_within_400_characters(
    size: int, is_found: bool, is_before: bool
):
    """The secret with its 40 characters, and the ends of two lines."""
    parts = (SECRET, KEY_ID) if is_before else (KEY_ID, SECRET)
    text = ("\n" + filler(size) + "\n").join(parts)
    assert (SECRET in found(text)) is is_found
    assert KEY_ID in found(text)


@pytest.mark.parametrize("value", [SECRET.lower(), SECRET.upper(), "a" * 20 + "B1" * 10])
def test_only_a_random_value_near_an_id_is_a_secret(value: str):
    assert found(f"{KEY_ID}\n{value}\n") == [KEY_ID]


def test_each_of_several_ids_has_its_secret():
    secrets = [made(40, seed=seed) for seed in range(20, 24)]
    ids = ["AKIA" + made(16, string.ascii_uppercase, seed) for seed in range(20, 24)]
    text = "\n".join(part for pair in zip(ids, secrets, strict=True) for part in pair)
    assert found(text) == text.split("\n")


def test_secret_at_the_edge_of_an_id_belongs_to_the_next():
    other = "AKIA" + made(16, string.ascii_uppercase, 30)
    text = f"{KEY_ID}\n{filler(340)}\n{other}\n{SECRET}"
    assert found(text) == [KEY_ID, other, SECRET]


def test_secret_of_an_example_id_is_ignored_and_of_a_later_real_id_is_found():
    example = "AKIAIOSFODNN7EXAMPLE"
    named = f"aws_secret_access_key = {SECRET}"
    assert found(f"aws_access_key_id = {example}\n{named}") == []
    assert found(f"aws_access_key_id = {example}\nid = {KEY_ID}\n{named}") == [KEY_ID, SECRET]
    assert found(f"{example}\n{named}") == []
    assert found(f"aws_access_key_id = {example}\n{'- ' * 90}\n{named}") == [SECRET]
    assert found(f"id = {example}\npassword = {SECRET}") == [SECRET]


def jwt(claims: dict[str, object], head: object = None) -> str:
    parts = [{"alg": "HS256", "typ": "JWT"} if head is None else head, claims]
    coded = [base64.urlsafe_b64encode(json.dumps(part).encode()).decode() for part in parts]
    return ".".join([*(text.rstrip("=") for text in coded), made(43)])


def claims_of(size: int) -> dict[str, object]:
    """Unregistered claims with this many characters of JSON."""
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
def test_web_token_has_a_registered_claim_or_60_characters(
    claims: dict[str, object], is_found: bool
):
    assert names(f"x {jwt(claims)} y") == (["JSON web token"] if is_found else [])


@pytest.mark.parametrize("head", [{"typ": "JWT", "kid": "abc"}, ["alg", "HS256", "typ"]])
def test_text_without_the_head_of_a_web_token_is_no_secret(head: object):
    assert names(jwt({"sub": "1"}, head)) == []
