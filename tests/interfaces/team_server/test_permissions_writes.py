"""Writing at a Core, row by row: each tier, each place, and references to hidden records.

A refusal for a hidden record is that for a missing one, and changes nothing.
"""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from cortex.base.record_model import KINDS
from cortex.base.record_spec import spec_of
from cortex.families.team.ids import fresh_key, new_id
from cortex.families.team.wire.codec import body_to
from interfaces.team_server.guarded_world import PEOPLE, Reader, World
from interfaces.team_server.test_permissions import twin_of

_ID = re.compile(r"[a-z]+_[0-9A-HJKMNP-TV-Z]{26}")
_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z")


@pytest.fixture
def writer(world: World, name: str) -> Reader:
    return Reader(world, name)


# -- tiers

# The least tier and the request; {thread}, {task}, ... stand for fresh records.
DEEDS = [
    (1, "POST", "/observations", {"title": "a"}),
    (1, "POST", "/observations/batch", {"observations": [{"title": "a"}]}),
    (1, "POST", "/drafts", {"type": "thread", "title": "a", "body_md": "b"}),
    (2, "POST", "/threads", {"title": "a"}),
    (2, "POST", "/threads/{thread}/comments", {"body_md": "a"}),
    (2, "POST", "/tasks", {"title": "a"}),
    (2, "PATCH", "/tasks/{task}", {"status": "in_progress"}),
    (2, "POST", "/artifacts", {"title": "a", "status": "proposed"}),
    (2, "POST", "/links", {"source_id": "{thread}", "relation": "supports", "target_id": "{artifact}"}),
    (3, "PATCH", "/tasks/{task}", {"title": "b"}),
    (3, "PATCH", "/tasks/{hushed}", {"sensitivity": "normal"}),
    (3, "PATCH", "/threads/{thread}", {"title": "b"}),
    (3, "PATCH", "/threads/{thread}", {"status": "resolved"}),
    (3, "PATCH", "/comments/{comment}", {"body_md": "b"}),
    (3, "PATCH", "/observations/{observation}", {"title": "b"}),
    (3, "PATCH", "/artifacts/{artifact}", {"title": "b"}),
    (3, "PATCH", "/links/{link}", {"status": "dismissed"}),
    (3, "PATCH", "/links/{link}", {"note": "b"}),
    (3, "POST", "/drafts/{draft}/approve", {}),
    (3, "POST", "/drafts/{draft}/reject", {}),
    (3, "POST", "/artifacts/{artifact}/accept", {}),
    (3, "POST", "/artifacts/{artifact}/deprecate", {}),
    (3, "POST", "/artifacts/{artifact}/supersede", {"superseded_by_id": "{accepted}"}),
    (3, "POST", "/threads", {"title": "a", "sensitivity": "sensitive"}),
    (4, "POST", "/subcortexes", {"slug": "some-{tier}", "name": "a"}),
    (4, "PATCH", "/subcortexes/{subcortex}", {"name": "b"}),
    (4, "GET", "/audit", None),
    (4, "GET", "/principals", None),
    (4, "GET", "/principals/ada", None),
    (4, "GET", "/tokens", None),
    (4, "POST", "/principals", {"name": "new-{tier}", "tier": 4}),
    (4, "PATCH", "/principals/tier-{tier}", {"tier": 4}),
    (4, "POST", "/principals/ada/tokens", {}),
    (4, "POST", "/principals/tier-{tier}/tokens", {}),
]  # fmt: skip


def fresh(client: Any, kind: str) -> str:
    """A new record of a kind."""
    evidence = {"evidence_links": [{"type": "url", "ref": "https://example.com"}]}
    match kind:
        case "artifact" | "accepted":
            state = "proposed" if kind == "artifact" else kind
            return client.post("/artifacts", {"title": "a", "status": state, **evidence})["id"]
        case "comment":
            return client.post(f"/threads/{fresh(client, 'thread')}/comments", {"body_md": "a"})[
                "id"
            ]
        case "draft":
            thread = fresh(client, "thread")
            return client.post(
                "/drafts", {"type": "comment", "target_id": thread, "title": "b", "body_md": "b"}
            )["id"]
        case "hushed":
            return client.post("/tasks", {"title": "a", "sensitivity": "sensitive"})["id"]
        case "link":
            ends = {"source_id": fresh(client, "thread"), "target_id": fresh(client, "artifact")}
            return client.post("/links", {"relation": "depends_on", **ends})["id"]
    return client.post(f"/{spec_of(kind).plural}", {"title": "a"})["id"]


def filled(client: Any, given: Any, **known: str) -> Any:
    """A request with fresh records in place of {thread}, {task}, ..."""
    return json.loads(
        re.sub(
            r"\{(\w+)\}",
            lambda found: known.get(found[1]) or fresh(client, found[1]),
            json.dumps(given),
        )
    )


@pytest.mark.parametrize("tier", range(5))
def test_each_write_needs_the_tier_of_the_table(core, ada, tier):
    someone = core.person(f"tier-{tier}", tier, sensitive=True)
    ada.post("/subcortexes", {"slug": "queues", "name": "Queues"})
    for least, method, path, body in DEEDS:
        asked, sent = filled(ada, [path, body], subcortex="queues", tier=str(tier))
        response = someone.ask(method, asked, sent)
        assert (response.status_code in (200, 201)) == (tier >= least), (
            method,
            asked,
            response.text,
        )
        if tier < least:  # drafts of others aren't there
            assert response.status_code == (404 if "/drafts/" in path else 403), response.text
    assert someone.get("/me")["tier"] == tier


# The least tier, and what a home tells of it: a new record of a kind (None), or another word of one
# that is there ({}).
CHANGES = [
    (1, "observation", None, {"title": "a"}),
    (1, "draft", None, {"type": "thread", "title": "a", "body": "b"}),
    (2, "thread", None, {"title": "a"}),
    (2, "comment", None, {"thread": "{thread}", "body": "a"}),
    (2, "task", None, {"title": "a"}),
    (2, "artifact", None, {"title": "a", "state": "proposed"}),
    (2, "link", None, {"source": "{thread}", "relation": "supports", "target": "{artifact}"}),
    (2, "task", {}, {"state": "in_progress"}),
    (3, "artifact", None, {"title": "a", "state": "accepted", "evidence": [{"kind": "url", "ref": "https://example.com"}]}),
    (3, "thread", None, {"title": "a", "sensitivity": "sensitive"}),
    (3, "task", {}, {"title": "b"}),
    (3, "thread", {}, {"title": "b"}),
    (3, "thread", {}, {"state": "resolved"}),
    (3, "comment", {}, {"body": "b"}),
    (3, "observation", {}, {"title": "b"}),
    (3, "artifact", {}, {"state": "accepted"}),
    (3, "link", {}, {"state": "dismissed"}),
    (3, "draft", {}, {"state": "rejected"}),
    (4, "subcortex", None, {"slug": "some-{tier}", "name": "a"}),
]  # fmt: skip


def action(
    *changes: dict[str, Any],
    name: str = "edit",
    actor: str = "person",
    tier: int = 4,
    key: str = "",
) -> dict[str, Any]:
    payload = {"actor": actor, "tier": tier, "at": 1, "changes": list(changes)}
    return {
        "idempotency_key": f"{key or fresh_key()}@home/person",
        "action": name,
        "payload": payload,
    }


def change(
    kind: str, after: Any, before: Any = None, number: str = "", author: str = "person", **more: Any
) -> dict[str, Any]:
    number = number or new_id(KINDS[kind])
    return {
        "id": number,
        "kind": kind,
        "author": author,
        "created": 1,
        "before": before,
        "after": after,
        **more,
    }


def flush(client: Any, sent: dict[str, Any]) -> dict[str, Any]:
    return client.post("/sync/flush", {"actions": [sent]}, key=None)["results"][0]


@pytest.mark.parametrize(
    ("tier", "actor"), [*((tier, "person") for tier in range(5)), (1, "agent"), (4, "agent")]
)
def test_flushed_change_needs_the_tier_of_the_table_and_agents_stop_at_tier_2(
    core, ada, tier, actor
):
    someone = core.person(f"tier-{tier}", tier, sensitive=True)
    rank = min(tier, 2) if actor == "agent" else tier
    for least, kind, before, after in CHANGES:
        number = fresh(ada, kind) if before is not None else ""
        kept = body_to(core.ledger.records.one(number).body) if number else {}
        if before is not None:
            before, after = kept, {**kept, **after}
        sent = change(kind, filled(ada, after, tier=str(tier)), before, number, actor)
        for declared in (rank, 4) if rank < least else (4,):  # a home can't claim a higher tier
            result = flush(someone, action(sent, actor=actor, tier=declared))
            assert result["status"] == ("applied" if rank >= least else "refused"), (
                kind,
                before,
                after,
                result,
            )
            code = (
                "TARGET_NOT_FOUND" if kind == "draft" and number and tier < 3 else "RIGHTS_MISSING"
            )
            assert rank >= least or result["error"]["code"] == code, result


# -- places

OK, NO, NOT_THERE = 201, 403, 404
WHERE = [
    #  who              harbor     meadow     vault      attic      crypt      none
    ("nobody",         (NOT_THERE, NOT_THERE, NOT_THERE, NOT_THERE, NOT_THERE, NO)),
    ("one-read",       (NO,        NOT_THERE, NOT_THERE, NOT_THERE, NOT_THERE, NO)),
    ("one-read-s",     (NO,        NOT_THERE, NOT_THERE, NOT_THERE, NOT_THERE, NO)),
    ("one-write",      (OK,        NOT_THERE, NOT_THERE, NOT_THERE, NOT_THERE, NO)),
    ("all-read",       (NO,        NO,        NOT_THERE, NOT_THERE, NOT_THERE, NO)),
    ("mate",           (OK,        OK,        NOT_THERE, NOT_THERE, NOT_THERE, OK)),
    ("all-write",      (OK,        OK,        NOT_THERE, NOT_THERE, NOT_THERE, OK)),
    ("all-write-s",    (OK,        OK,        NOT_THERE, NOT_THERE, NO,        OK)),
    ("reviewer",       (OK,        OK,        NOT_THERE, NOT_THERE, NOT_THERE, OK)),
    ("reviewer-s",     (OK,        OK,        NOT_THERE, NOT_THERE, OK,        OK)),
    ("granted",        (OK,        OK,        NO,        NOT_THERE, NOT_THERE, OK)),
    ("closed-write",   (NOT_THERE, NOT_THERE, OK,        NOT_THERE, NOT_THERE, NO)),
    ("closed-s",       (NOT_THERE, NOT_THERE, OK,        NOT_THERE, NOT_THERE, NO)),
    ("steward",        (NOT_THERE, NOT_THERE, NOT_THERE, OK,        NOT_THERE, NO)),
    ("deep-plain",     (NOT_THERE, NOT_THERE, NOT_THERE, NOT_THERE, NOT_THERE, NO)),
    ("deep-s",         (NOT_THERE, NOT_THERE, NOT_THERE, NOT_THERE, OK,        NO)),
    ("chief",          (OK,        OK,        OK,        OK,        NOT_THERE, OK)),
    ("chief-one",      (OK,        NOT_THERE, NOT_THERE, NOT_THERE, NOT_THERE, NO)),
    ("root",           (OK,        OK,        OK,        OK,        OK,        OK)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "expected"), WHERE)
def test_observation_is_accepted_only_where_its_author_may_write(world, writer, name, expected):
    for slug, status in zip(
        ("harbor", "meadow", "vault", "attic", "crypt", ""), expected, strict=True
    ):
        if PEOPLE[name].tier == 0:
            status = NO  # whatever it names
        ids = (
            [slug, world.of("subcortex", "crypt!" if slug == "crypt" else slug).id]
            if slug
            else [""]
        )
        for ref in ids:
            response = writer.ask(
                "POST", "/observations", {"title": "a", "linked_subcortex_id": ref}
            )
            assert response.status_code == status, (slug, response.text)
            scope = world.of("subcortex", "crypt!" if slug == "crypt" else slug).id if slug else ""
            result = flush(
                writer.client, action(change("observation", {"title": "a", "subcortex": scope}))
            )
            world.look_through(name, json.dumps(result), scope)
            code = {OK: None, NO: "RIGHTS_MISSING", NOT_THERE: "SCOPE_NOT_FOUND"}[status]
            if PEOPLE[name].tier == 0:
                assert result["error"]["code"] in ("RIGHTS_MISSING", "SCOPE_NOT_FOUND")
            else:
                assert (result["error"] and result["error"]["code"]) == code, (slug, result)


MOVES = [
    #  who              from       to         answered
    ("all-write",      "harbor",  "meadow",  NO),  # tier 2 edits nothing
    ("reviewer",       "harbor",  "meadow",  200),
    ("reviewer",       "harbor",  "",        200),
    ("reviewer",       "harbor",  "vault",   NOT_THERE),
    ("reviewer",       "vault",   "harbor",  NOT_THERE),
    ("reviewer",       "harbor!", "meadow",  NOT_THERE),
    ("closed-write",   "vault",   "harbor",  NOT_THERE),
    ("closed-write",   "vault",   "",        NO),
    ("closed-write",   "vault!",  "",        NOT_THERE),
    ("chief",          "harbor",  "vault",   200),
    ("chief",          "vault",   "attic",   200),
    ("chief",          "harbor",  "crypt",   NOT_THERE),
    ("chief-one",      "harbor",  "meadow",  NOT_THERE),
    ("chief-one",      "harbor",  "",        NO),
    ("reviewer-s",     "harbor",  "crypt",   200),
]  # fmt: skip


@pytest.mark.parametrize(("name", "start", "end", "status"), MOVES)
def test_move_needs_write_rights_in_both_places(world, writer, name, start, end, status):
    slug = start.rstrip("!")
    private = {"sensitivity": "sensitive"} if start.endswith("!") else {}
    root = world.clients["root"]
    thread = root.post("/threads", {"title": "moves", "subcortex_id": slug, **private})["id"]
    response = writer.client.ask("PATCH", f"/threads/{thread}", {"subcortex_id": end})
    assert response.status_code == status, response.text
    world.look_through(name, response.text, f"{end} {thread}")
    answer = flush(writer.client, _moved(world, root, slug, end, private))
    assert (answer["status"] == "applied") == (status == 200), answer


def _moved(
    world: World, root: Any, start: str, end: str, private: dict[str, str]
) -> dict[str, Any]:
    """The same, sent from a home."""
    thread = root.post("/threads", {"title": "moves", "subcortex_id": start, **private})["id"]
    scope = world.kept(thread).subcortex
    to = world.of("subcortex", "crypt!" if end == "crypt" else end).id if end else ""
    before = {"title": "moves", "subcortex": scope, **private}
    return action(change("thread", {**before, "subcortex": to}, before, thread))


# -- references to hidden records

# The kind of REF, a hidden record, and the request; {thread}, ... stand for visible records.
NAMING = [
    ("subcortex", "PATCH", "/subcortexes/REF", {"name": "a"}),
    ("thread", "PATCH", "/threads/REF", {"title": "a"}),
    ("thread", "PATCH", "/threads/REF", {"status": "resolved", "version": 7}),
    ("comment", "PATCH", "/comments/REF", {"body_md": "a"}),
    ("observation", "PATCH", "/observations/REF", {"title": "a"}),
    ("artifact", "PATCH", "/artifacts/REF", {"title": "a"}),
    ("task", "PATCH", "/tasks/REF", {"status": "done"}),
    ("link", "PATCH", "/links/REF", {"status": "dismissed"}),
    ("thread", "POST", "/threads/REF/comments", {"body_md": "a"}),
    ("comment", "POST", "/threads/{thread}/comments", {"body_md": "a", "parent_comment_id": "REF"}),
    ("thread", "POST", "/threads/{thread}/comments", {"body_md": "a", "citations": ["REF"]}),
    ("subcortex", "POST", "/threads", {"title": "a", "subcortex_id": "REF"}),
    ("task", "POST", "/threads", {"title": "a", "linked_task_id": "REF"}),
    ("task", "PATCH", "/threads/{thread}", {"linked_task_id": "REF"}),
    ("subcortex", "PATCH", "/threads/{thread}", {"subcortex_id": "REF"}),
    ("subcortex", "POST", "/observations", {"title": "a", "linked_subcortex_id": "REF"}),
    ("thread", "POST", "/observations", {"title": "a", "linked_thread_id": "REF"}),
    ("task", "POST", "/observations", {"title": "a", "linked_task_id": "REF"}),
    ("thread", "POST", "/observations/batch", {"observations": [{"title": "a", "linked_thread_id": "REF"}, {"title": "b"}]}),
    ("thread", "POST", "/artifacts", {"title": "a", "evidence_links": [{"type": "thread", "ref": "REF"}]}),
    ("comment", "POST", "/artifacts", {"title": "a", "evidence_links": [{"type": "comment", "ref": "REF"}]}),
    ("observation", "PATCH", "/artifacts/{artifact}", {"evidence_links": [{"type": "observation", "ref": "REF"}]}),
    ("artifact", "POST", "/artifacts", {"title": "a", "supersedes_id": "REF"}),
    ("artifact", "POST", "/artifacts", {"title": "a", "status": "accepted", "supersedes_id": "REF"}),
    ("thread", "POST", "/tasks", {"title": "a", "linked_thread_id": "REF"}),
    ("thread", "PATCH", "/tasks/{task}", {"linked_thread_id": "REF"}),
    ("thread", "POST", "/drafts", {"type": "comment", "target_id": "REF", "body_md": "a"}),
    ("thread", "POST", "/drafts", {"type": "comment", "target_id": "REF", "target_type": "thread", "body_md": "a"}),
    ("task", "POST", "/drafts", {"type": "task_update", "target_id": "REF", "patch": {"status": "done"}}),
    ("subcortex", "POST", "/drafts", {"type": "thread", "target_id": "REF", "title": "a", "body_md": "a"}),
    ("thread", "POST", "/drafts", {"type": "artifact", "title": "a", "body_md": "a", "citations": ["REF"]}),
    ("thread", "POST", "/links", {"source_id": "{thread}", "relation": "supports", "target_id": "REF"}),
    ("artifact", "POST", "/links", {"source_id": "REF", "relation": "supersedes", "target_id": "{artifact}"}),
    ("draft", "POST", "/drafts/REF/approve", {}),
    ("draft", "POST", "/drafts/REF/reject", {"notes": "a"}),
    ("thread", "POST", "/drafts/{draft}/approve", {"target_id": "REF"}),
    ("artifact", "POST", "/artifacts/REF/accept", {}),
    ("artifact", "POST", "/artifacts/REF/deprecate", {}),
    ("artifact", "POST", "/artifacts/REF/supersede", {"superseded_by_id": "{artifact}"}),
    ("artifact", "POST", "/artifacts/{artifact}/supersede", {"superseded_by_id": "REF"}),
    ("notification", "POST", "/notifications/REF/ack", {}),
    ("notification", "POST", "/notifications/ack", {"ids": ["REF"]}),
    ("thread", "PATCH", "/subcortexes/harbor", {"pinned_threads": ["REF"]}),
]  # fmt: skip
HIDDEN = [("all-write", "vault"), ("all-write", "harbor!"), ("reviewer", "vault"), ("reviewer", "none!"), ("chief", "harbor!"),
          ("chief-one", "none"), ("mate", "vault"), ("closed-write", "harbor")]  # fmt: skip


def alike(response: Any, ref: str) -> tuple[int, Any]:
    """An answer without moments, ids and the reference that was asked for."""
    return response.status_code, _MOMENT.sub("", _ID.sub("ID", response.text.replace(ref, "REF")))


@pytest.mark.parametrize(("name", "where"), HIDDEN)
def test_write_that_names_a_hidden_record_is_answered_as_for_a_missing_one(
    world, writer, name, where
):
    here = "vault" if name == "closed-write" else "harbor"
    seen = {kind: world.of(kind, here).id for kind in ("thread", "task", "artifact")}
    seen["draft"] = next(
        (
            record.id
            for record in world.planted.values()
            if record.kind == "draft" and record.is_for(name)
        ),
        seen["thread"],
    )
    before = _hidden(world, name)
    for kind, method, path, body in NAMING:
        refs = [world.of(kind, where).id] if kind != "subcortex" else _scopes(world, name)
        for ref in refs:
            answers = []
            for asked_ref in (ref, twin_of(ref)):
                payload = re.sub(
                    r"\{(\w+)\}", lambda found: seen[found[1]], json.dumps([path, body])
                ).replace("REF", asked_ref)
                asked, sent = json.loads(payload)
                answers.append(alike(writer.ask(method, asked, sent), asked_ref))
            assert answers[0] == answers[1], (name, method, path, body)
            drafted = path in ("/drafts", "/observations/batch") or "citations" in body
            assert drafted or answers[0][0] in (400, 403, 404), (method, path, body, answers[0])
    assert _hidden(world, name) == before


def _scopes(world: World, name: str) -> list[str]:
    """Subcortexes hidden from a person, by id and by slug."""
    hidden = [
        record.id
        for record in world.planted.values()
        if record.kind == "subcortex" and not record.is_for(name)
    ]
    slugs = [world.kept(number).slug for number in hidden]
    return [hidden[-1], slugs[-1]]


def _hidden(world: World, name: str) -> dict[str, Any]:
    """The records hidden from a person, as they are now."""
    away = {record.id for record in world.planted.values() if not record.is_for(name)}
    return {
        change.record.id: change
        for change in world.core.ledger.records.changes(0, 100_000)
        if change.record.id in away
    }


# The kind of REF, a hidden record, and what a home sends.
SENT = [
    ("subcortex", "thread", {"title": "a", "subcortex": "REF"}),
    ("task", "thread", {"title": "a", "task": "REF"}),
    ("thread", "comment", {"thread": "REF", "body": "a"}),
    ("comment", "comment", {"thread": "{thread}", "body": "a", "parent": "REF"}),
    ("subcortex", "observation", {"title": "a", "subcortex": "REF"}),
    ("thread", "observation", {"title": "a", "thread": "REF"}),
    ("task", "observation", {"title": "a", "task": "REF"}),
    ("thread", "artifact", {"title": "a", "evidence": [{"kind": "thread", "ref": "REF"}]}),
    ("artifact", "artifact", {"title": "a", "supersedes": "REF"}),
    ("thread", "task", {"title": "a", "thread": "REF"}),
    ("thread", "draft", {"type": "comment", "title": "a", "body": "a", "target": "REF"}),
    ("task", "draft", {"type": "task_update", "title": "a", "body": "", "patch": [["status", "done"]], "target": "REF"}),
    ("thread", "link", {"source": "{thread}", "relation": "supports", "target": "REF"}),
    ("thread", "link", {"source": "REF", "relation": "supports", "target": "{thread}"}),
    ("thread", "notification", {"type": "mention", "recipient": "root", "about": "REF", "title": "a", "reason": "b"}),
    ("thread", "subcortex", {"slug": "pins-hidden", "name": "a", "pinned_threads": ["REF"]}),
]  # fmt: skip


@pytest.mark.parametrize("name_of_action", ["create", "upload"])
@pytest.mark.parametrize(("name", "where"), HIDDEN)
def test_flushed_change_that_names_a_hidden_record_is_answered_as_for_a_missing_one(
    world, name, where, name_of_action
):
    client, before = world.clients[name], _hidden(world, name)
    seen = world.of("thread", "vault" if name == "closed-write" else "harbor").id
    for kind, made, after in SENT:
        if name_of_action == "upload" and (made, kind) != ("comment", "thread"):
            continue  # what is uploaded may point to what comes later, but for a comment's thread
        for ref in [world.of(kind, where).id] if kind != "subcortex" else _scopes(world, name)[:1]:
            answers = []
            for asked_ref in (ref, twin_of(ref)):
                answer = json.loads(
                    json.dumps(after).replace("REF", asked_ref).replace("{thread}", seen)
                )
                result = flush(client, action(change(made, answer), name=name_of_action))
                world.look_through(name, json.dumps(result), asked_ref)
                answers.append(
                    (
                        result["status"],
                        _ID.sub("ID", json.dumps(result["error"]).replace(asked_ref, "REF")),
                    )
                )
            assert answers[0] == answers[1], (name, made, after)
            assert made == "draft" or answers[0][0] == "refused", (made, after, answers)
    assert _hidden(world, name) == before


@pytest.mark.parametrize(("name", "where"), HIDDEN)
def test_hidden_record_is_neither_changed_nor_shown_by_its_id(world, name, where):
    client, before = world.clients[name], _hidden(world, name)
    for kind in KINDS:
        if kind == "subcortex" and where.rstrip("!") not in ("vault",):
            continue
        record = world.of(kind, where)
        kept = next(row for row in world.core.ledger.records.kept([record.id]))
        body = body_to(kept.record.body)
        for before_body, after in (
            (None, body),
            (body, {**body, "sensitivity": "sensitive"}),
            (body, {**body, "sensitivity": "normal"}),
        ):
            for name_of_action in ("edit", "upload", "approve_draft"):
                result = flush(
                    client, action(change(kind, after, before_body, record.id), name=name_of_action)
                )
                if kind == "notification":  # it was shown once, and closing it is harmless
                    assert result["records"] == []
                    continue
                assert (result["status"], result["records"], result["id"]) == (
                    "refused",
                    [],
                    None,
                ), (kind, result)
                assert result["error"]["code"] in ("TARGET_NOT_FOUND", "RIGHTS_MISSING"), result
                assert not [word for word in record.words if word in json.dumps(result)]
    assert _hidden(world, name) == before


# -- forged authors and decisions

PRETENDED = [
    # the sender, the action's name, the change, and the code of the refusal
    ("all-write", "create", change("thread", {"title": "a"}, author="root"), "RIGHTS_MISSING"),
    ("chief", "create", change("thread", {"title": "a"}, author="root"), "RIGHTS_MISSING"),
    ("root", "create", change("thread", {"title": "a"}, author="chief"), "RIGHTS_MISSING"),
    ("all-write", "create", change("thread", {"title": "a"}, author="all-write/agent"), "RIGHTS_MISSING"),
    ("all-write", "create", change("thread", {"title": "a"}, author="all-writer"), "RIGHTS_MISSING"),
    ("all-write", "upload", change("thread", {"title": "a"}, author="root"), "RIGHTS_MISSING"),
    ("reviewer", "upload", change("thread", {"title": "a"}, author="root"), "RIGHTS_MISSING"),
    ("mate", "upload", change("thread", {"title": "a"}), "RIGHTS_MISSING"),
    ("all-write", "upload", change("thread", {"title": "a", "state": "resolved"}), "RIGHTS_MISSING"),
    ("all-write", "upload", change("artifact", {"title": "a", "state": "accepted", "evidence": [{"kind": "url", "ref": "https://example.com"}]}), "RIGHTS_MISSING"),
    ("all-write", "upload", change("link", {"source": "{thread}", "relation": "supports", "target": "{artifact}", "state": "dismissed"}), "RIGHTS_MISSING"),
    ("all-write", "upload", change("draft", {"type": "thread", "title": "a", "body": "b", "state": "rejected"}), "RIGHTS_MISSING"),
    ("all-write", "upload", change("subcortex", {"slug": "mine-alone", "name": "a"}), "RIGHTS_MISSING"),
    ("all-write", "upload", change("thread", {"title": "a", "sensitivity": "sensitive"}), "RIGHTS_MISSING"),
    ("all-write", "edit", change("notification", {"type": "mention", "recipient": "root", "about": "{thread}", "title": "a", "reason": "b"}), "RECORD_INVALID"),
    ("root", "edit", change("notification", {"type": "system_alert", "recipient": "chief", "about": "{thread}", "title": "a", "reason": "b"}), "RECORD_INVALID"),
    ("all-write", "edit", change("thread", {"title": "a"}, version=9), "RECORD_INVALID"),
    ("all-write", "edit", change("thread", {"title": "a"}, change=9), "RECORD_INVALID"),
    ("all-write", "edit", change("thread", {"title": "a", "author": "root"}), "RECORD_INVALID"),
    ("root", "edit", change("artifact", {"title": "a", "state": "superseded"}), "RECORD_INVALID"),
    ("root", "edit", change("draft", {"type": "thread", "title": "a", "body": "b", "state": "published", "published": "{thread}"}), "RECORD_INVALID"),
    ("all-write", "edit", change("thread", {"title": "a", "summary": "b", "summary_by": "root", "summary_sources": ["{comment}"]}), None),
]  # fmt: skip


@pytest.mark.parametrize("row", PRETENDED, ids=range(len(PRETENDED)))
def test_forged_author_or_decision_is_refused(world, row):
    name, called, forged, code = row
    seen = {kind: world.of(kind, "harbor").id for kind in ("thread", "artifact", "comment")}
    sent = json.loads(re.sub(r"\{(\w+)\}", lambda found: seen[found[1]], json.dumps(forged)))
    result = flush(world.clients[name], action(sent, name=called))
    assert (result["error"] and result["error"]["code"]) == code, result
    if code is None:
        assert "summary_by" not in result["records"][0]["body"], "a summary comes with a comment"


@pytest.mark.parametrize(("field", "value"), [("author_id", "root"), ("created_at", "2020-01-01"), ("version", 5), ("change", 1),
                                              ("id", "thread_01M7JGCCV6Z6AHT5Y577AMQVTW"), ("rolling_summary_by_id", "root")])  # fmt: skip
def test_fields_set_by_the_server_are_refused_in_a_body(world, field, value):
    root = world.clients["root"]
    root.refused(
        400, "VALIDATION_ERROR", root.ask("POST", "/threads", {"title": "a", field: value})
    )


@pytest.mark.parametrize("type", ["system_alert", "mention", "review_needed"])
def test_uploaded_notification_for_others_is_dropped(world, type):
    body = {
        "type": type,
        "recipient": "chief",
        "about": world.of("thread", "harbor").id,
        "title": "a",
        "reason": "b",
    }
    sent = change("notification", body)
    assert flush(world.clients["root"], action(sent, name="upload"))["records"] == []
    assert world.core.ledger.records.one(sent["id"]) is None


def test_future_creation_time_is_corrected(world):
    result = flush(world.clients["root"], action(change("thread", {"title": "a"}, created=1 << 50)))
    assert result["records"][0]["created"] <= result["records"][0]["updated"]


def test_draft_of_another_is_neither_changed_nor_decided_below_tier_3(world):
    draft = next(
        record
        for record in world.planted.values()
        if record.kind == "draft" and record.author == "mate"
    )
    mate, other = world.clients["mate"], world.clients["all-write"]
    mate.refused(403, "PERMISSION_DENIED", mate.ask("POST", f"/drafts/{draft.id}/approve", {}))
    mate.refused(403, "PERMISSION_DENIED", mate.ask("POST", f"/drafts/{draft.id}/reject", {}))
    for verb in ("approve", "reject"):
        for ref in (draft.id, twin_of(draft.id)):
            assert other.ask("POST", f"/drafts/{ref}/{verb}", {}).status_code in (403, 404)
    assert mate.ask("PATCH", f"/drafts/{draft.id}", {"title": "a"}).status_code == 405
    assert mate.get(f"/drafts/{draft.id}")["status"] == "pending_review"


# -- keys of other principals


def test_idempotency_keys_of_two_principals_are_independent(world):
    writer_client, other_client = world.clients["all-write"], world.clients["reviewer"]
    first = writer_client.ask("POST", "/threads", {"title": "first"}, key="shared-key")
    second = other_client.ask("POST", "/threads", {"title": "second"}, key="shared-key")
    assert [first.status_code, second.status_code] == [
        201,
        201,
    ] and "X-Idempotency-Replayed" not in second.headers
    assert first.json()["data"]["id"] != second.json()["data"]["id"]
    sent = action(change("thread", {"title": "third"}), key="shared")
    results = [flush(client, sent) for client in (writer_client, other_client, writer_client)]
    assert [result["status"] for result in results] == ["applied", "applied", "replayed"]
    assert {result["records"][0]["author"] for result in results} == {"all-write"}, (
        "the author stays"
    )
    other = action(change("thread", {"title": "fourth"}), key="shared")
    assert flush(world.clients["chief"], other)["status"] == "applied"
    assert flush(writer_client, other)["error"]["code"] == "IDEMPOTENCY_REPLAY"


# -- revoked rights


def test_principal_without_grants_sees_nothing_from_the_next_request_on(world):
    root = world.clients["root"]
    someone = world.core.person("former", 3, {"*": True}, sensitive=True)
    own = someone.post("/threads", {"title": "mine", "subcortex_id": "harbor"}, key="my-own")
    page = someone.get("/sync/deltas")
    assert someone.get("/threads") and someone.get("/drafts") and someone.get("/inbox")
    listed = someone.ask("GET", "/threads", params={"limit": 2}).json()["pagination"]["cursor"]
    root.patch("/principals/former", {"grants": {}})
    for path in (
        "subcortexes",
        "threads",
        "comments",
        "observations",
        "artifacts",
        "tasks",
        "drafts",
        "links",
        "inbox",
    ):
        assert someone.get(f"/{path}") == []
    assert someone.get("/threads", cursor=listed) == []
    assert someone.post("/search", {"query": "lighthouse mine"}, key=None).get("results", []) == []
    someone.refused(404, "NOT_FOUND", someone.ask("GET", f"/threads/{own['id']}"))
    body = {"title": "mine", "subcortex_id": "harbor"}
    again = someone.ask("POST", "/threads", body, key="my-own")
    someone.refused(404, "NOT_FOUND", again)
    old = {"since": page["next_cursor"], "view": page["view"]}
    someone.refused(410, "RESYNC_NEEDED", someone.ask("GET", "/sync/deltas", params=old))
    assert (
        someone.get("/sync/deltas")["updates"] == [] == someone.get("/sync/deltas")["invalidations"]
    )
    assert someone.post("/sync/visible", {"ids": [own["id"]]}, key=None) == {
        "visible": [],
        "unknown": [],
    }
    root.patch("/principals/former", {"grants": {"harbor": False}, "sensitive": False, "tier": 0})
    assert someone.get(f"/threads/{own['id']}")["title"] == "mine"
    someone.refused(
        403, "PERMISSION_DENIED", someone.ask("PATCH", f"/threads/{own['id']}", {"title": "a"})
    )


def test_repeated_approval_does_not_show_a_record_hidden_since(world):
    mate, reviewer, root = (world.clients[name] for name in ("mate", "reviewer", "root"))
    draft = mate.post("/drafts", {"type": "thread", "title": "Alone", "body_md": "unfiled"})["id"]
    done = reviewer.post(f"/drafts/{draft}/approve", key="approved")
    root.patch(f"/threads/{done['published']['id']}", {"subcortex_id": "vault"})
    reviewer.refused(
        404, "NOT_FOUND", reviewer.ask("POST", f"/drafts/{draft}/approve", {}, key="approved")
    )


def test_slug_of_a_hidden_subcortex_is_taken(world):
    """The one difference to a missing record: two subcortexes can't share a slug."""
    chief = world.clients["chief"]
    error = chief.refused(
        400, "VALIDATION_ERROR", chief.ask("POST", "/subcortexes", {"slug": "crypt", "name": "a"})
    )
    assert world.of("subcortex", "crypt!").id not in json.dumps(error)


def test_grant_for_a_missing_subcortex_is_not_found(world):
    chief = Reader(world, "chief-one")
    response = chief.ask("PATCH", "/principals/mate", {"grants": {"vaulx": True}})
    assert response.status_code == 404
    response = chief.ask(
        "POST", "/principals", {"name": "somebody", "tier": 1, "grants": {"no-such-place": True}}
    )
    assert response.status_code == 404
