"""Values next to a name: generated ones are secrets, placeholders and words are not."""

from __future__ import annotations

import base64

import pytest

from base.secret_scanner.examples import found, made


@pytest.mark.parametrize(
    "value", ["wxyzab" * 8, "xyzaxyzaxyzaxyzaxyza", "789012" * 6, "a1b2c3d4e5f6g7h8i9j0"]
)
def test_sequential_value_is_a_placeholder(value: str):
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
        (base64.b64encode(b"not my real password").decode(), False),
    ],
)
def test_token_must_look_generated(value: str, is_found: bool):
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
def test_quoted_password_has_letters_digits_and_signs(value: str, is_found: bool):
    assert found(f'password = "{value}"') == ([value] if is_found else [])
    assert found(f'token = "{value}"') == []
