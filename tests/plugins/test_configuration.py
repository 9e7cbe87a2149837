"""Settings of a plugin against its schema."""

from __future__ import annotations

import socket

import pytest

from cortex.plugins.configuration import misfit


@pytest.mark.parametrize(
    ("value", "schema", "said"),
    [
        ({}, {}, ""),
        ({}, True, ""),
        ({"a": "abc"}, {"properties": {"a": {"pattern": "^a", "minLength": 3}}}, ""),
        (
            {"a": [1, "b"]},
            {"properties": {"a": {"items": {"type": "integer"}}}},
            "a[1]: 'b' is not of type 'integer'",
        ),
        ({"a": "b"}, {"properties": {"a": {"pattern": "^a"}}}, "a: 'b' does not match '^a'"),
        ({"a": "b"}, {"properties": {"a": {"minLength": 2}}}, "a: 'b' is too short"),
        (
            {"a": 1},
            {"oneOf": [{"required": ["b"]}, {"required": ["c"]}]},
            "the settings: {'a': 1} is not valid under any",
        ),
        (
            {"a": 1},
            {"properties": {"a": {"$ref": "#/$defs/t"}}, "$defs": {"t": {"type": "string"}}},
            "a: 1 is not of type",
        ),
        (
            {"a": 1},
            {"properties": {"a": {"$ref": "#/$defs/nowhere"}}},
            "refers to what isn't in it",
        ),
        (
            {"a": 1},
            {"properties": {"a": {"type": "nonsense"}}},
            "its config_schema is no JSON schema",
        ),
        (
            {"a": 1},
            {"additionalProperties": False},
            "the settings: Additional properties are not allowed ('a'",
        ),
    ],
)
def test_plugin_settings_are_validated_against_the_schema(
    value: object, schema: dict[str, object] | bool, said: str
) -> None:
    found = misfit(value, schema)
    assert said in found and bool(found) == bool(said)


def test_schema_that_refers_to_another_address_fetches_nothing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        address = f"http://127.0.0.1:{server.getsockname()[1]}/schema.json"
        assert address in misfit({"a": 1}, {"properties": {"a": {"$ref": address}}})
        with pytest.raises(BlockingIOError):  # no connection came
            server.accept()
