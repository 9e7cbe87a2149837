"""What a Core writes to stderr besides its requests."""

import json
import logging

import pytest

from cortex.interfaces.team_server.access_log import write_logs

NAMES = ("cortex", "uvicorn", "psycopg")


@pytest.fixture
def logs():
    """The loggers of a server; as they were when the test is over."""
    before = {
        name: (one.handlers, one.level, one.propagate)
        for name in NAMES
        for one in [logging.getLogger(name)]
    }
    yield
    for name, (handlers, level, propagate) in before.items():
        one = logging.getLogger(name)
        one.handlers, one.propagate = handlers, propagate
        one.setLevel(level)


@pytest.mark.usefixtures("logs")
def test_a_database_that_is_away_is_told_as_json_and_not_with_each_try(capsys):
    write_logs("json")
    for number in range(5):
        logging.getLogger("psycopg.pool").warning(
            "error connecting in %r: %s", "pool-1", f"refused {number}"
        )
        logging.getLogger("cortex.interfaces.team_server").warning("the same")
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [one["message"] for one in lines if one["logger"] == "psycopg.pool"] == [
        "error connecting in 'pool-1': refused 0"
    ]
    assert len(lines) == 6
