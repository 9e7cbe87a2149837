"""The operation log and the requests to the lease holder."""

import time

import pytest

from cortex.base.types import Progress
from cortex.engine.store.operation_log import LINE_BYTES


def test_operation_log_lists_last_lines_first_and_drops_old_ones(folder):
    log = folder.store.log
    log.record("index", {"added": 3})
    log.record("config", {"changed": {"chunkSize": 100}})
    assert [(line.what, dict(line.detail)) for line in log.recent()] == [
        ("config", {"changed": {"chunkSize": 100}}),
        ("index", {"added": 3}),
    ]
    assert len(log.recent(1)) == 1
    assert log.purge(int(time.time()) - 10) == 0
    assert log.purge(int(time.time()) + 1) == 2


@pytest.mark.parametrize(("lines", "left"), [(100, 10), (10, 10), (3.5, 3), (0.9, 0), (0, 0)])
def test_operation_log_drops_oldest_lines_above_its_size(folder, lines, left):
    log = folder.store.log
    for number in range(10):
        log.record("index", {"number": number})
    line = len('{"number": 0}') + LINE_BYTES
    assert log.purge(0, int(lines * line)) == 10 - left
    assert [line.detail["number"] for line in log.recent()] == list(range(9, 9 - left, -1))


def test_a_request_is_seen_until_it_is_answered_or_withdrawn(folder):
    log, now = folder.store.log, int(time.time())
    first = log.ask(folder.source.id, True, False, ["src"])
    second = log.ask(folder.source.id + 1, False, True, None)
    assert [
        (request.id, request.source, request.force, request.limited, request.paths)
        for request in log.asked(now - 1)
    ] == [
        (first, folder.source.id, True, False, ("src",)),
        (second, folder.source.id + 1, False, True, None),
    ]
    assert log.progress_of(first) is None
    log.tell(first, Progress("reading", 3, 9))
    assert log.progress_of(first) == Progress("reading", 3, 9)
    assert log.answered(first) is None
    log.answer(first, "done")
    assert log.answered(first) == "done"
    log.withdraw(second)
    assert log.asked(0) == []


def test_old_requests_are_not_seen(folder):
    folder.store.log.ask(folder.source.id, False, False, None)
    assert folder.store.log.asked(int(time.time()) + 60) == []
