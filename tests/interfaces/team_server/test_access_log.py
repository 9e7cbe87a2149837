"""The log of a Core: one JSON line per request, and its own warnings."""

import json
import logging

import pytest

from cortex.interfaces.team_server.access_log import JsonLines, write_logs

NAMES = ("cortex", "uvicorn", "psycopg")


@pytest.fixture
def logs():
    """The loggers of a server; as they were when the test is over."""
    before = {
        name: (logger.handlers, logger.level, logger.propagate)
        for name in NAMES
        for logger in [logging.getLogger(name)]
    }
    yield
    for name, (handlers, level, propagate) in before.items():
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = handlers, propagate
        logger.setLevel(level)


@pytest.mark.usefixtures("logs")
def test_repeated_database_failure_is_logged_once_as_json(capsys):
    write_logs("json")
    for number in range(5):
        logging.getLogger("psycopg.pool").warning(
            "error connecting in %r: %s", "pool-1", f"refused {number}"
        )
        logging.getLogger("cortex.interfaces.team_server").warning("the same")
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [line["message"] for line in lines if line["logger"] == "psycopg.pool"] == [
        "error connecting in 'pool-1': refused 0"
    ]
    assert len(lines) == 6


def test_access_log_names_principal_and_route_but_never_content(core, ada, caplog):
    with caplog.at_level(logging.INFO, "cortex.core.requests"):
        ada.ask("POST", "/threads?x=hush-query", {"title": "hush-title"})
        ada.ask("POST", "/threads", {"title": "hush-title"}, headers={"X-Request-Id": "r-1"})
        core.http.get("/hush-path")
    # The client of the tests logs its own requests.
    lines = [
        JsonLines().format(record)
        for record in caplog.records
        if not record.name.startswith("httpx2")
    ]
    assert "hush" not in "\n".join(lines) and ada.token not in "\n".join(lines)
    logged = json.loads(lines[1])
    assert {
        name: logged[name]
        for name in ("level", "request_id", "principal", "method", "route", "status")
    } == {
        "level": "info",
        "request_id": "r-1",
        "principal": "ada",
        "method": "POST",
        "route": "/api/v2/threads",
        "status": 201,
    }
    assert logged["ms"] > 0 and "time" in logged
    assert json.loads(lines[2])["route"] == "unknown"
