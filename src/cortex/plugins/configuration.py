"""Validation of a plugin's settings against the JSON schema that it declares.

Every keyword of the schema's draft is supported. References lead within the schema, or to a draft
of JSON Schema itself: nothing is fetched.
"""

from __future__ import annotations

from collections.abc import Mapping

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError, best_match
from jsonschema.validators import validator_for
from jsonschema_specifications import REGISTRY
from referencing.exceptions import Unresolvable

# Characters of a message, which quotes the value.
MAX_MESSAGE = 200


def misfit(config: object, schema: Mapping[str, object] | bool) -> str:
    """Return why settings don't fit a schema or can't be checked; "" where they fit."""
    if not isinstance(config, Mapping):
        return f"its settings don't fit: {_cut(repr(config))} is no object"
    rules = dict(schema) if isinstance(schema, Mapping) else {} if schema else {"not": {}}
    validator = validator_for(rules, default=Draft202012Validator)
    try:
        validator.check_schema(rules)
        error = best_match(validator(rules, registry=REGISTRY).iter_errors(config))
    except SchemaError as error:
        return f"its config_schema is no JSON schema: {_cut(error.message)}"
    except Unresolvable as error:
        return (
            "its config_schema refers to what isn't in it, and nothing is fetched: "
            f"{_cut(error.ref)}"
        )
    if error is None:
        return ""
    place = error.json_path.removeprefix("$").removeprefix(".") or "the settings"
    return f"its settings don't fit: {place}: {_cut(error.message)}"


def _cut(text: str) -> str:
    return text if len(text) <= MAX_MESSAGE else text[: MAX_MESSAGE - 1] + "…"
