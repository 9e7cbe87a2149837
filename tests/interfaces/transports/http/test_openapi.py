"""Statuses of errors in the OpenAPI document of the tools."""

from cortex.base.errors import CODES
from cortex.interfaces.transports.http.openapi import REFUSALS


def test_every_error_has_a_status_that_the_document_describes():
    statuses = {name: code.api_status for name, code in CODES.items()}
    assert set(statuses.values()) <= set(REFUSALS)
    invalid = {code.status for name, code in CODES.items() if name.endswith(("_INVALID", "_EMPTY"))}
    assert invalid - {0} == {400}
    assert (statuses["STORE_LOCKED"], statuses["STORE_CORRUPT"], statuses["SEARCH_TIMEOUT"]) == (
        503,
        500,
        504,
    )
    assert (statuses["MEMORY_UNKNOWN"], statuses["MEMORY_AMBIGUOUS"]) == (404, 400)
    retried = {statuses[name] for name, code in CODES.items() if code.retryable}
    assert retried <= {409, 429, 503, 504}
