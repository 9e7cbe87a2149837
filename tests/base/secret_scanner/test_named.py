"""Secrets recognised by context: passwords in addresses and commands, values next to a name."""

from __future__ import annotations

import base64

import pytest

from base.secret_scanner.examples import found, made

UUID = "f47ac10b-58cc-4372-a567-0e02b2c3d479"


def basic(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


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
def test_password_in_an_address_is_no_placeholder(address: str, password: str):
    assert found(address) == ([password] if password else [])


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
def test_password_in_a_command_follows_its_user(command: str, password: str):
    assert found(command) == ([password] if password else [])


@pytest.mark.parametrize(
    "text", [f"api_key={UUID}", f"client_secret: {UUID}", f"say app-secret={UUID}"]
)
def test_uuid_is_a_secret_after_a_name_at_any_position(text: str):
    assert found(text) == [UUID]


@pytest.mark.parametrize("text", [f"secret={UUID}", f"api_key_id={UUID}", f"key={UUID}"])
def test_uuid_of_another_name_is_an_id(text: str):
    assert found(text) == []


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
def test_basic_authentication_needs_a_user_and_a_password(user: str, is_found: bool):
    assert found(f"Authorization: Basic {basic(user)}") == ([basic(user)] if is_found else [])


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
def test_name_decides_whether_a_value_is_a_secret(name: str, is_found: bool):
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
def test_bearer_must_be_a_whole_word(text: str, is_found: bool):
    value = made(24)
    assert found(text.format(value)) == ([value] if is_found else [])
