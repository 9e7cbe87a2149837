"""A Core answers as its OpenAPI document says, to valid and invalid requests made of it.

`make test` sends a few requests for each operation, always the same, `make soak` thousands. Ids of
existing records stand in some of them, so that not every request ends in a 404.
"""

from __future__ import annotations

import json
from typing import Any

import hypothesis
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from cortex.families.team.ids import fresh_key
from cortex.families.team.wire.codec import body_to
from cortex.interfaces.team_server.app import ROUTES, SCHEMAS
from cortex.interfaces.team_server.openapi import describe
from interfaces.team_server.guarded_world import World

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
EXAMPLES, SOAKED = 3, 150  # for each operation and reader
DOCUMENT = schemathesis.openapi.from_dict(json.loads(json.dumps(describe(ROUTES, SCHEMAS))))
ALL: Any = DOCUMENT.get_all_operations()
OPERATIONS: dict[str, Any] = {operation.ok().label: operation.ok() for operation in ALL}
KINDS = {"subcortexes": "subcortex", "threads": "thread", "comments": "comment", "observations": "observation", "drafts": "draft",
         "artifacts": "artifact", "tasks": "task", "links": "link", "notifications": "notification"}  # fmt: skip
REFS = {"subcortex_id": "subcortex", "linked_subcortex_id": "subcortex", "linked_thread_id": "thread", "linked_task_id": "task",
        "target_id": "thread", "source_id": "artifact", "superseded_by_id": "artifact", "supersedes_id": "artifact", "thread_id": "thread",
        "task_id": "task", "artifact_id": "artifact", "subcortex": "subcortex", "thread": "thread", "task": "task"}  # fmt: skip


def known(world: World, path: str) -> str:
    """An id for a path, of a record that may be changed without harm to other tests."""
    kind = path.split("/")[3]
    if kind in KINDS:
        return world.of(KINDS[kind], "harbor").id
    if kind == "principals":
        return "nobody"
    principals = world.core.ledger.principals
    nobody = principals.named("nobody")
    assert nobody is not None
    return next(token.id for token in principals.tokens() if token.principal == nobody.id)


# Values that follow rules which a schema can't express.
PLAUSIBLE: dict[str, Any] = {"budget": 4_000, "max_chars": None, "review_by_date": "2027-01-31", "expires_at": "2099-01-01", "since": "7d",
                             "until": "2099-01-01", "cursor": None, "patch": {"status": "done"}, "evidence_links": [], "parent_comment_id": None,
                             "pinned_threads": [], "pinned_artifacts": [], "pinned_tasks": [], "code_links": [], "version": None, "scope": "global",
                             "grants": {"*": False}, "target_type": None, "status": None, "attachments": [], "tags": ["a", "b"]}  # fmt: skip


def grounded(world: World, name: str, value: Any) -> Any:
    """A generated value with ids of existing records and plausible fields."""
    if name in PLAUSIBLE:
        return PLAUSIBLE[name]
    if name in REFS and isinstance(value, str):
        return world.of(REFS[name], "harbor").id
    match value:
        case dict():
            parts = list(value.items())[:1] if name == "subject" else value.items()
            return {part: grounded(world, part, inner) for part, inner in parts}
        case list():
            return [grounded(world, "", item) for item in value]
        case str() if name in ("slug", "name"):
            return fresh_key().lower().replace("_", "-")
        case str():
            return "".join(character for character in value if character.isprintable()) or "a"
    return value


def flushed(world: World) -> st.SearchStrategy[Any]:
    """Actions of homes, which the document leaves open: records with one value replaced."""
    bodies = [
        (record.kind, record.id, body_to(world.kept(record.id)))
        for record in world.planted.values()
        if record.place == "harbor"
    ]
    value = st.one_of(
        st.text(max_size=20),
        st.integers(),
        st.none(),
        st.lists(st.text(max_size=5), max_size=3),
        st.floats(allow_nan=False, allow_infinity=False),
    )

    @st.composite
    def action(draw: Any) -> Any:
        kind, number, body = draw(st.sampled_from(bodies))
        after = {**body, draw(st.sampled_from([*body, "state", "sensitivity", "x"])): draw(value)}
        change = {
            "id": number,
            "kind": kind,
            "author": "person",
            "created": 1,
            "before": draw(st.sampled_from([None, body])),
            "after": after,
        }
        if draw(st.booleans()):
            change[draw(st.sampled_from(sorted(change)))] = draw(value)
        payload = {"actor": "person", "tier": 4, "at": 1, "changes": [change]}
        return {
            "idempotency_key": fresh_key(),
            "action": draw(st.sampled_from(["edit", "upload", "approve_draft"])),
            "payload": payload,
        }

    return st.lists(action(), min_size=1, max_size=3)


def test_every_documented_operation_is_tested():
    assert len(OPERATIONS) == len(ROUTES) + 3


@pytest.mark.soak
@pytest.mark.parametrize("name", ["root", "mate"])
@pytest.mark.parametrize("label", list(OPERATIONS))
def test_answers_conform_to_the_openapi_document(world, campaign, label, name):
    operation, client = OPERATIONS[label], world.clients[name]
    actions, answered = flushed(world), []

    @hypothesis.settings(
        max_examples=campaign(EXAMPLES, SOAKED),
        deadline=None,
        database=None,
        derandomize=bool(campaign(1, 0)),
        print_blob=True,
        phases=[Phase.generate],
        suppress_health_check=[
            HealthCheck.too_slow,
            HealthCheck.filter_too_much,
            HealthCheck.data_too_large,
            HealthCheck.large_base_example,
        ],
    )
    @hypothesis.given(st.data())
    def ask(data: Any) -> None:
        mode = data.draw(st.sampled_from([GenerationMode.POSITIVE, GenerationMode.NEGATIVE]))
        case = data.draw(operation.as_strategy(mode))
        if "id" in (case.path_parameters or {}) and data.draw(st.booleans()):
            case.path_parameters["id"] = known(world, operation.path)
        if (
            isinstance(case.body, dict)
            and mode is GenerationMode.POSITIVE
            and data.draw(st.integers(0, 2))
        ):
            case.body = grounded(world, "", case.body)
            case.headers["Idempotency-Key"] = fresh_key()
        if label.endswith("/sync/flush") and data.draw(st.booleans()):
            case.body = {"actions": data.draw(actions)}
        sent = case.as_transport_kwargs(base_url="http://127.0.0.1")
        sent["headers"] = {**sent["headers"], "Authorization": f"Bearer {client.token}"}
        sent.pop("cookies", None)
        if "data" in sent:
            sent["content"] = sent.pop("data")
        response = client.http.request(**sent)
        answered.append(response.status_code)
        case.validate_response(response, checks=CHECKS)

    ask()
    assert answered and client.get("/me")["name"] == name
