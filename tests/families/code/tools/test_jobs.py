"""Index runs that meet each other: jobs of forced runs, waiting, cancelling."""

import json
import threading
from contextlib import contextmanager

from cortex.base.errors import FileError
from cortex.base.types import Cancel, Progress
from cortex.engine import indexer
from cortex.families.code.tools import definitions
from cortex.toolkit.tool import Call
from families.code.tools.code_family import opened
from protocol.code_server import wait_for


@contextmanager
def held_run(engine):
    """A run that stands still after its first step until the block ends."""
    begun, go_on = threading.Event(), threading.Event()

    def stop(step: Progress) -> None:
        begun.set()
        go_on.wait(20)

    thread = threading.Thread(target=lambda: engine.index(progress=stop), daemon=True)
    thread.start()
    assert begun.wait(20)
    try:
        yield
    finally:
        go_on.set()
        thread.join(20)


def test_long_forced_run_becomes_a_job_and_searches_go_on(many, monkeypatch, until):
    monkeypatch.setattr(definitions, "FORCE_ANSWER_SECONDS", 0.05)
    with opened(many) as code:
        code.tool("reindex_workspace")
        steps = []
        with held_run(code.engine):
            call = Call(report=lambda *step: steps.append(step))
            body = json.loads(code.call("reindex_workspace", call, force=True).text)
            assert (body["status"], body["job"]["status"]) == ("indexing", "running")
            assert body["index"]["indexing"]["status"] == "indexing"
            assert "codeindex://workspace/status" in body["notes"][0]
            # The same request again is the same job.
            assert code.tool("reindex_workspace", force=True)["job"]["id"] == body["job"]["id"]
            found = code.tool("search_code", query="function_7")
            assert found["results"]
            assert found["metadata"]["index"]["status"] == "indexing"
        until(lambda: code.status()["job"]["status"] == "completed")
        done = code.status()
        assert done["job"]["reports"][0]["changed"] == 30
        assert done["job"]["id"] == body["job"]["id"]
        assert done["indexing"]["status"] == "ready"
        assert code.failure("reindex_workspace", force=True)["code"] == "RATE_LIMITED"


def test_a_request_that_was_refused_leaves_no_job(many, monkeypatch):
    monkeypatch.setattr(definitions, "FORCE_ANSWER_SECONDS", 60)
    with opened(many) as code:
        assert (
            code.failure("reindex_workspace", force=True, path="nowhere")["code"]
            == "FILE_NOT_FOUND"
        )
        assert "job" not in code.tool("reindex_workspace")["index"]
        done = code.tool("reindex_workspace", force=True)["index"]["job"]
        assert code.failure("reindex_workspace", force=True)["code"] == "RATE_LIMITED"
        assert code.tool("reindex_workspace")["index"]["job"] == done
        assert code.status()["job"] == done


def test_a_job_that_fails_says_so_in_the_status(many, monkeypatch, until):
    monkeypatch.setattr(definitions, "FORCE_ANSWER_SECONDS", 0.05)
    with opened(many) as code:
        code.tool("reindex_workspace")
        with held_run(code.engine):
            code.tool("reindex_workspace", force=True)
            outcomes = iter((indexer.scan, full_disk))
            monkeypatch.setattr(indexer, "scan", lambda *arguments: next(outcomes)(*arguments))
        until(lambda: code.status()["job"]["status"] == "failed")
        assert code.status()["job"]["error"]["code"] == "DISK_FULL"
        assert code.status()["indexing"]["status"] == "error"


def full_disk(*_):
    raise FileError("DISK_FULL", "the disk is full")


def test_cancelled_call_cancels_its_own_job(many, until):
    with opened(many) as code:
        code.tool("reindex_workspace")
        cancel = Cancel()
        cancel.cancel()
        with held_run(code.engine):
            answer = code.call("reindex_workspace", Call(cancel=cancel), force=True)
            assert json.loads(answer.text)["error"]["code"] == "CANCELLED"
        assert code.tool("reindex_workspace", force=True)["changed"] == 30


def test_cancelled_wait_for_another_run_leaves_the_index_ready(many):
    with opened(many) as code:
        code.tool("reindex_workspace")
        cancel = Cancel()
        with held_run(code.engine):
            cancel.cancel()
            answer = code.call("reindex_workspace", Call(cancel=cancel))
            assert json.loads(answer.text)["error"]["code"] == "CANCELLED"
        assert code.status()["indexing"]["status"] == "ready"


def test_runs_beyond_the_waiting_limit_are_refused_as_busy(many):
    with opened(many) as code:
        code.tool("reindex_workspace")
        answers = []
        with held_run(code.engine):
            threads = [
                threading.Thread(
                    target=lambda: answers.append(code.call("reindex_workspace")), daemon=True
                )
                for _ in range(12)
            ]
            for thread in threads:
                thread.start()
            wait_for(lambda: len(answers) >= 8)
            assert {json.loads(answer.text)["error"]["code"] for answer in answers} == {
                "INDEX_BUSY"
            }
        for thread in threads:
            thread.join(20)
        assert sorted(answer.failed for answer in answers) == [False] * 4 + [True] * 8


def test_a_cancelled_run_stops_and_the_next_goes_on_from_there(many):
    with opened(many) as code:
        cancel = Cancel()
        answer = code.call(
            "reindex_workspace", Call(cancel=cancel, report=lambda *step: cancel.cancel())
        )
        stopped = json.loads(answer.text)
        assert answer.failed or stopped["status"] == "cancelled"
        assert code.status()["indexing"]["indexedFiles"] < 30
        code.tool("reindex_workspace")
        assert code.status()["indexing"]["indexedFiles"] == 30
