"""The one error that the front end words itself is the one of the error tree."""

import json

from cortex.base.errors import CODES
from cortex.interfaces.daemon import shim


def test_a_lost_call_is_told_as_the_error_tree_has_it():
    answer = shim._lost(7, True)
    body = json.loads(answer["result"]["content"][0]["text"])["error"]
    code = CODES[body["code"]]
    assert (body["category"], body["severity"], body["retryable"]) == (
        code.category,
        code.severity,
        code.retryable,
    )
    assert body["suggestions"] == [code.suggestion]
