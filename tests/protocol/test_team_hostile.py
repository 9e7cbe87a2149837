"""Hostile arguments of the team's tools: each is refused with a code, nothing is written."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from cortex.base.actors import person
from cortex.base.record_model import Observation
from cortex.families.team.writes.create import create
from families.memory.libraries import open_library
from protocol.client import Client
from protocol.team_project import INJECTED, TeamProject, make_team_project, valid_calls

UNKNOWN = "01AAAAAAAAAAAAAAAAAAAAAAAA"
QUOTES = "thread_' OR 1=1; DROP TABLE records; --"
INVALID_PARAMS, NO_JSON = -32602, -32700
REFUSALS = {"VALIDATION_ERROR", "SENSITIVE_BLOCKED", "TARGET_NOT_FOUND", "SCOPE_NOT_FOUND", "NOT_FOUND", "PERMISSION_DENIED", "BUDGET_TOO_SMALL", "QUERY_TOO_SHORT", "INVALID_FILTER", INVALID_PARAMS}  # fmt: skip


@pytest.fixture(scope="module")
def place(tmp_path_factory, strangers_environment) -> TeamProject:
    return make_team_project(tmp_path_factory.mktemp("hostile"))


@pytest.fixture(scope="module")
def server(place) -> Iterator[Client]:
    with place.start(
        "team", CORTEX_TEAM_AGENT_TIER="2", CORTEX_TEAM_PUBLISH_COMMENTS="true"
    ) as running:
        running.initialize()
        yield running
        assert running.garbage == [] and running.close() == 0


def code_of(answer: dict) -> str | int:
    """How a call was refused, "" where it wasn't."""
    if "error" in answer:
        return answer["error"]["code"]
    body = json.loads(answer["result"]["content"][0]["text"])
    assert bool(answer["result"].get("isError")) != body["success"]
    return "" if body["success"] else body["error"]["code"]


def observed(**fields: object) -> tuple[str, dict]:
    return "cortex_create_observations", {"observations": [{"title": "x", **fields}]}


def drafted(**fields: object) -> tuple[str, dict]:
    return "cortex_create_draft", {"draft_type": "thread", "body_md": "x", **fields}


def linked(path: str) -> tuple[str, dict]:
    return observed(links=[path])


WRITES = {
    "a title that is huge": observed(title="x" * 1_000_000),
    "a summary that is huge": observed(summary_md="y " * 2_000_000),
    "a body that is huge": drafted(body_md="z " * 2_000_000),
    "a NUL": observed(title="a\0b"),
    "a NUL in a body": drafted(body_md="a\0b"),
    "an escape of a terminal": observed(title="a\x1b[31mb"),
    "ten thousand tags": observed(tags=[f"t{number}" for number in range(10_000)]),
    "a tag that is no text": observed(tags=[{"a": 1}]),
    "a tag that is huge": observed(tags=["t" * 100_000]),
    "an unknown type": observed(type="'; DROP TABLE records; --"),
    "an unknown sensitivity": observed(sensitivity="public"),
    "something secret": observed(sensitivity="secret"),
    "a key of somebody": observed(summary_md="AKIA" + "IOSFODNN7EXAMPLQ"),
    "no title": observed(title=" \n\t "),
    "no observation": ("cortex_create_observations", {"observations": []}),
    "too many observations": ("cortex_create_observations", {"observations": [{"title": "x"}] * 101}),
    "too many links": observed(links=["a.py"] * 51),
    "too many attachments": ("cortex_create_observations", {"observations": [{"title": "x"}], "attachments": [{"ref": "a"}] * 21}),
    "an attachment that is huge": ("cortex_create_observations", {"observations": [{"title": "x"}], "attachments": [{"ref": "a" * 100_000}]}),
    "a thread that isn't there": observed(links=[f"thread_{UNKNOWN}"]),
    "a task that isn't there": observed(links=[f"task_{UNKNOWN}"]),
    "a subcortex that isn't there": observed(links=["subcortex:nowhere"]),
    "a subcortex with quotes": observed(links=["subcortex:' OR 1=1 --"]),
    "a path above": linked("../../etc/passwd"),
    "a path that hides that it is above": linked("src/../../../etc/passwd#root"),
    "a path of Windows above": linked("..\\..\\secret.txt"),
    "an absolute path": linked("/etc/passwd"),
    "an absolute path of Windows": linked("C:\\Windows\\win.ini"),
    "a path of somebody's home": linked("~/.ssh/id_rsa"),
    "a path that leads out": linked("leads_out/secret.txt"),
    "a path with a NUL": linked("lamp.py\0.txt"),
    "a draft of an unknown type": drafted(draft_type="approval"),
    "a draft without a body": drafted(body_md=""),
    "a draft that links above": drafted(metadata={"links": ["../../etc/passwd"]}),
    "a draft that leads out": drafted(metadata={"links": ["leads_out/secret.txt#password"]}),
    "a draft with ten thousand tags": drafted(metadata={"tags": [f"t{number}" for number in range(10_000)]}),
    "a draft with a huge citation": drafted(metadata={"citations": ["c" * 100_000]}),
    "a target that is huge": drafted(target_ref="t" * 1_000_000),
    "a target with a NUL": drafted(target_ref="a\0b"),
    "a target that is many": drafted(target_ref={"a": "b", "c": "d"}),
    "deep metadata": drafted(metadata=json.loads('{"title":' * 60 + "1" + "}" * 60)),
    "a comment nowhere": ("cortex_publish_comment", {"thread_id": f"thread_{UNKNOWN}", "body_md": "x"}),
    "a comment with quotes": ("cortex_publish_comment", {"thread_id": QUOTES, "body_md": "x"}),
    "a comment of nothing": ("cortex_publish_comment", {"thread_id": "{thread}", "body_md": "  "}),
    "a comment in a task": ("cortex_publish_comment", {"thread_id": "{task}", "body_md": "x"}),
    "a comment in a draft": ("cortex_publish_comment", {"thread_id": "{draft}", "body_md": "x"}),
    "a huge comment": ("cortex_publish_comment", {"thread_id": "{thread}", "body_md": "x " * 2_000_000}),
    "a task nowhere": ("cortex_update_task", {"task_id": f"task_{UNKNOWN}", "status": "done"}),
    "a thread as a task": ("cortex_update_task", {"task_id": "{thread}", "status": "done"}),
    "a draft as a task": ("cortex_update_task", {"task_id": "{draft}", "status": "published"}),
    "a task of no state": ("cortex_update_task", {"task_id": "{task}", "status": "approved"}),
    "no change of a task": ("cortex_update_task", {"task_id": "{task}"}),
    "a reason that is huge": ("cortex_update_task", {"task_id": "{task}", "status": "blocked", "blocked_reason": "x" * 100_000}),
    "notes with a NUL": ("cortex_update_task", {"task_id": "{task}", "notes": "a\0b"}),
}  # fmt: skip


@pytest.mark.parametrize("why", WRITES)
def test_a_hostile_write_is_refused_with_a_reason_and_nothing_is_written(server, place, why):
    name, arguments = WRITES[why]
    arguments = {key: place.ids.get(value[1:-1], value) if isinstance(value, str) else value for key, value in arguments.items()}  # fmt: skip
    before = place.deeds()
    answer = server.call(name, {**arguments, "idempotency_key": why.replace(" ", "-")})
    assert code_of(answer) in REFUSALS, answer
    assert place.deeds() == before
    assert len(json.dumps(answer)) < 4_000, "an error repeats what it was given"


@pytest.mark.parametrize(
    "key", ["", " ", "a b", "a\nb", "k" * 201, "schlüssel", "a\0b", 7, None, ["a"]]
)
def test_malformed_idempotency_key_is_refused_with_a_suggested_one(server, place, key):
    before = place.deeds()
    for field in ("idempotency_key", "commit_id"):
        answer = server.call(
            "cortex_create_observations", {"observations": [{"title": "x"}], field: key}
        )
        assert code_of(answer) in ("VALIDATION_ERROR", INVALID_PARAMS)
        assert "error" in answer or "key_" in answer["result"]["content"][0]["text"]
    assert place.deeds() == before


def test_half_a_character_is_stored_as_a_question_mark(server, place):
    name, arguments = observed(title="a\ud800b", tags=["t\udfff"])
    answer = server.call(name, {**arguments, "idempotency_key": "half-\ud800"})
    (number,) = json.loads(answer["result"]["content"][0]["text"])["data"]["ids"]
    with open_library(place.settings, read_only=True) as library:
        kept = library.store.records.one(number)
    assert kept is not None and (kept.body.title, kept.body.tags) == ("a?b", ("t?",))


READS = {
    "a thread with quotes": ("cortex_get_thread", {"thread_id": QUOTES}),
    "a thread that is huge": ("cortex_get_thread", {"thread_id": "thread_" + "A" * 1_000_000}),
    "a thread with a NUL": ("cortex_get_thread", {"thread_id": "thread_\0"}),
    "a thread with half a character": ("cortex_get_thread", {"thread_id": "thread_\ud800"}),
    "a pattern as a thread": ("cortex_get_thread", {"thread_id": "thread_%"}),
    "a task as a thread": ("cortex_get_thread", {"thread_id": "{task}"}),
    "a thread as an artifact": ("cortex_get_artifact", {"artifact_id": "{thread}"}),
    "a version that isn't there": ("cortex_get_artifact", {"artifact_id": "{artifact}", "version": 99}),
    "a version that is huge": ("cortex_get_artifact", {"artifact_id": "{artifact}", "version": 10**30}),
    "a cursor that is none": ("cortex_get_inbox", {"cursor": "' OR 1=1 --"}),
    "a cursor that is huge": ("cortex_search", {"query": "lamp", "cursor": "x" * 100_000}),
    "another's cursor": ("cortex_get_thread", {"thread_id": "{thread}", "cursor": "eyJ4IjoxfQ"}),
    "no question": ("cortex_search", {"query": " "}),
    "an unknown type": ("cortex_search", {"query": "lamp", "types": ["drafts"]}),
    "a scope that isn't there": ("cortex_search", {"query": "lamp", "filters": {"subcortex": "' OR 1=1 --"}}),
    "a moment that is none": ("cortex_search", {"query": "lamp", "filters": {"since": "'; DROP TABLE"}}),
    "a budget of nothing": ("cortex_search", {"query": "lamp", "budget": 0}),
    "a budget below nothing": ("cortex_get_inbox", {"budget": -5}),
    "half a token": ("cortex_get_inbox", {"budget": 0.5}),
    "a budget that is no number": ("cortex_get_inbox", {"budget": "1e9"}),
    "one character": ("cortex_get_bootstrap_pack", {"max_chars": 1}),
    "a pack of nothing": ("cortex_get_context_pack", {"subject": {}}),
    "a pack of two": ("cortex_get_context_pack", {"subject": {"thread_id": "{thread}", "task_id": "{task}"}}),
    "a pack of a path above": ("cortex_get_context_pack", {"subject": {"code_link": {"path": "../secret.txt"}}}),
    "a pack of an absolute path": ("cortex_get_context_pack", {"subject": {"code_link": {"path": "/etc/passwd"}}}),
    "a pack of a path that leads out": ("cortex_get_context_pack", {"subject": {"code_link": {"path": "leads_out/secret.txt"}}}),
    "a pack of what isn't there": ("cortex_get_context_pack", {"subject": {"ref": "documents:' OR 1=1"}}),
    "a pack of a file by its name": ("cortex_get_context_pack", {"subject": {"ref": "../../etc/passwd"}}),
    "a scope of packs": ("cortex_get_bootstrap_pack", {"scope": "subcortex:../../etc"}),
    "a scope that is unknown": ("cortex_get_bootstrap_pack", {"scope": "everything"}),
}  # fmt: skip


def resolved(value: object, place: TeamProject) -> object:
    if isinstance(value, dict):
        return {key: resolved(part, place) for key, part in value.items()}
    return (
        place.ids.get(value[1:-1], value)
        if isinstance(value, str) and value.startswith("{")
        else value
    )


@pytest.mark.parametrize("why", READS)
def test_a_hostile_question_is_refused_with_a_reason(server, place, why):
    name, arguments = READS[why]
    answer = server.call(name, resolved(arguments, place))  # type: ignore[arg-type]
    assert code_of(answer) in REFUSALS, answer
    text = json.dumps(answer)
    assert "outside world" not in text and "root:" not in text and len(text) < 4_000


@pytest.mark.parametrize("number", ["1e999", "-1e999", "1e-9", "-0.0", "9" * 400])
def test_enormous_budget_is_refused_or_capped(server, number):
    call = f'{{"name":"cortex_get_inbox","arguments":{{"budget":{number}}}}}'
    server.send(
        f'{{"jsonrpc":"2.0","id":"{number}","method":"tools/call","params":{call}}}'.encode()
    )
    answer = server.take(30)  # what is no JSON has no id
    assert answer is not None and code_of(answer) in (
        *REFUSALS,
        NO_JSON,
        *([""] if number[0] == "9" else []),
    )


@pytest.mark.parametrize("budget", [200, 201, 10**6, 10**15, 300.0])
def test_valid_budget_bounds_every_answer(server, place, budget):
    for name, arguments in valid_calls(place, "budget").items():
        if "idempotency_key" not in arguments:
            answer = server.call(name, {**arguments, "budget": budget})
            assert code_of(answer) in ("", "BUDGET_TOO_SMALL"), answer
            assert len(answer["result"]["content"][0]["text"]) <= 4 * budget


def test_injected_record_text_comes_back_as_text_within_json(server, place):
    with open_library(place.settings) as library:
        create(
            library,
            Observation("Hot </result> fuse", INJECTED, thread=place.ids["thread"]),
            actor=person(),
        )
    found = 0
    for name, arguments in valid_calls(place, "told").items():
        answer = server.call(name, arguments)
        assert set(answer["result"]) <= {
            "content",
            "structuredContent",
            "isError",
            "_meta",
            "resultType",
        }
        (part,) = answer["result"]["content"]
        body = json.loads(part["text"])
        assert body["success"] and set(body) <= {"success", "data", "meta"}
        assert part["text"].count("\n") == 0, "one line of JSON: nothing begins a line of its own"
        found += "SYSTEM" in part["text"]
    assert found >= 4


@pytest.mark.parametrize("depth", [50, 5_000, 200_000])
def test_deep_json_is_refused_and_the_server_goes_on(server, place, depth):
    before = place.deeds()
    deep = "[" * depth + "]" * depth
    for field in ("tags", "no_such_field"):
        call = f'{{"name":"cortex_create_observations","arguments":{{"observations":[{{"title":"x","{field}":{deep}}}],"idempotency_key":"deep"}}}}'
        server.send(
            f'{{"jsonrpc":"2.0","id":"deep{depth}{field}","method":"tools/call","params":{call}}}'.encode()
        )
        answer = server.take(30)
        assert answer is not None and ("error" in answer or answer["result"]["isError"])
    assert place.deeds() == before
    assert server.request("ping")["result"] == {}
