"""Responses of a Core: request ids, and errors without private details."""

from __future__ import annotations

import pytest

from cortex.base.errors import StoreError
from interfaces.team_server.conftest import error_of


def test_request_id_of_the_sender_is_kept_where_it_is_well_formed(core, ada):
    assert (
        ada.ask("GET", "/me", headers={"X-Request-Id": "my-1.2_3"}).json()["meta"]["request_id"]
        == "my-1.2_3"
    )
    assert (
        ada.ask("GET", "/me", headers={"X-Request-Id": "a b"})
        .headers["X-Request-Id"]
        .startswith("req_")
    )


@pytest.mark.parametrize(
    "error", [RuntimeError("private"), StoreError("STORE_LOCKED", "another one writes")]
)
def test_internal_error_is_reported_without_its_message(core, ada, monkeypatch, error):
    def fail(self) -> None:
        raise error

    monkeypatch.setattr("cortex.interfaces.team_server.read_replica.ReadReplica.refresh", fail)
    response = ada.ask("GET", "/threads")
    refusal = error_of(response, 500 if isinstance(error, RuntimeError) else 503, "SERVER_ERROR")
    assert "private" not in response.text
    assert refusal["retry_after"] == (None if response.status_code == 500 else 1)
