"""Reading at a Core, row by row: each of `PEOPLE` sees exactly the records visible to them.

A hidden record is answered as a missing one: the same status, the same words.
"""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from cortex.base.record_spec import spec_of
from cortex.interfaces.team_server.app import ROUTES
from interfaces.team_server.guarded_world import COMMON, PATH, PEOPLE, PLACES, Reader, World

FOUND = ("subcortex", "thread", "comment", "observation", "artifact", "task")
REST = (*FOUND, "draft", "link")
SEVERAL = {"thread": "threads", "comment": "comments", "artifact": "artifacts", "observation": "observations",
           "task": "tasks", "subcortex": "subcortexes"}  # fmt: skip
EVERYBODY = list(PEOPLE)
# Where many questions are asked
SOME = [
    "nobody",
    "one-read",
    "all-write",
    "reviewer-s",
    "granted",
    "closed-s",
    "chief",
    "chief-one",
]
SWITCHES = (
    "canon_artifacts",
    "recent_threads",
    "recent_observations",
    "in_progress_tasks",
    "contradictions",
)


@pytest.fixture
def reader(world: World, name: str) -> Reader:
    return Reader(world, name)


def twin_of(ref: str) -> str:
    """A missing id or slug that differs in its last character."""
    return ref[:-1] + ("0" if ref[-1] != "0" else "1") if "_" in ref else f"{ref[:-1]}w"


def alike(response: Any, ref: str) -> tuple[int, Any]:
    """An answer without its request id, its time and the reference that was asked for."""
    answer = json.loads(response.text.replace(ref, "REF")) if response.text else {}
    for part in ("meta", "error"):
        for name in ("request_id", "timestamp"):
            answer.get(part, {}).pop(name, None)
    return response.status_code, answer


def answered_as_nothing(
    reader: Reader, method: str, path: str, body: Any, ref: str, **more: Any
) -> tuple[int, Any]:
    """Ask for a hidden and for a missing record in place of REF; the answers must be equal."""
    answers = []
    for asked_ref in (ref, twin_of(ref)):
        sent = None if body is None else json.loads(json.dumps(body).replace("REF", asked_ref))
        params = {name: str(value).replace("REF", asked_ref) for name, value in more.items()}
        answers.append(
            alike(
                reader.ask(method, path.replace("REF", asked_ref), sent, params=params), asked_ref
            )
        )
    assert answers[0] == answers[1], (reader.name, method, path, body)
    return answers[0]


# -- reading


@pytest.mark.parametrize("name", EVERYBODY)
def test_lists_have_exactly_the_records_visible_to_their_reader(world, reader, name):
    for kind in REST:
        path = f"/{spec_of(kind).plural}"
        assert {row["id"] for row in reader.all(path)} == world.ids(name, kind), kind
        private = [
            row
            for row in reader.all(path, sensitivity="sensitive")
            if row["id"] not in world.ids(name, kind)
        ]
        assert private == []
    listed = {row["id"] for row in reader.all("/notifications")}
    assert listed == {
        id_ for id_ in world.ids(name, "notification") if world.planted[id_].recipient == name
    }


@pytest.mark.parametrize("name", ["one-read", "all-write", "reviewer-s", "chief"])
def test_pages_of_one_record_add_up_to_the_visible_records(world, reader, name):
    for kind in REST:
        assert {row["id"] for row in reader.all(f"/{spec_of(kind).plural}", limit=1)} == world.ids(
            name, kind
        )


@pytest.mark.parametrize("name", SOME)
def test_record_is_read_by_id_where_visible_and_not_found_otherwise(world, reader, name):
    notices = [world.of("notification", place) for place in PLACES]
    for record in [
        *(record for record in world.planted.values() if record.kind != "notification"),
        *notices,
    ]:
        response = reader.ask("GET", f"/{spec_of(record.kind).plural}/{record.id}")
        assert response.status_code == (200 if record.is_for(name) else 404), record
        if not record.is_for(name):
            error = response.json()["error"]
            assert error["code"] == "NOT_FOUND" and record.id in error["message"]


@pytest.mark.parametrize(
    "name", ["nobody", "one-write", "all-write", "reviewer", "closed-write", "chief", "chief-one"]
)
def test_hidden_record_is_answered_as_a_missing_one(world, reader, name):
    asked = 0
    for kind in (*REST, "notification"):
        hidden = [
            record
            for record in world.planted.values()
            if record.kind == kind and not record.is_for(name)
        ]
        for ref in [record.id for record in hidden[:2]]:
            path = f"/{spec_of(kind).plural}/REF"
            assert answered_as_nothing(reader, "GET", path, None, ref)[0] == 404
            asked += 1
        for ref in [record.id for record in hidden[:1]]:
            assert reader.client.ask("HEAD", f"/{spec_of(kind).plural}/{ref}").status_code == 404
            begun = answered_as_nothing(
                reader, "GET", f"/{spec_of(kind).plural}/REF", None, ref[:-4] + "ZZZZ"
            )
            assert begun[0] == 404
            answered_as_nothing(
                reader, "GET", f"/{spec_of(kind).plural}/REF", None, ref.rpartition("_")[2]
            )
    for place in PLACES:
        thread, artifact = world.of("thread", place), world.of("artifact", place)
        if not thread.is_for(name):
            assert (
                answered_as_nothing(reader, "GET", "/threads/REF/comments", None, thread.id)[0]
                == 404
            )
            assert (
                answered_as_nothing(reader, "GET", "/artifacts/REF/versions", None, artifact.id)[0]
                == 404
            )
    assert asked >= 6


@pytest.mark.parametrize("name", SOME)
def test_filter_by_a_hidden_record_finds_what_a_missing_one_finds(world, reader, name):
    rows = [
        ("/threads", "task", "task"), ("/comments", "thread", "thread"), ("/observations", "thread", "thread"), ("/observations", "task", "task"),
        ("/tasks", "thread", "thread"), ("/drafts", "target", "thread"), ("/links", "source", "thread"), ("/links", "target", "artifact"),
        ("/notifications", "about", "task"),
    ]  # fmt: skip
    for place in ("vault", "harbor!", "crypt!", "attic", "none"):
        if place in PEOPLE[name].sees:
            continue
        for path, parameter, kind in rows:
            status, answer = answered_as_nothing(
                reader, "GET", path, None, world.of(kind, place).id, **{parameter: "REF"}
            )
            assert (status, answer["data"]) == (200, [])
        tag = world.of("thread", place).words[2]
        assert reader.read("GET", "/threads", tag=tag) == []
        slug = place.rstrip("!")
        if slug != "none" and f"{slug}!" not in PEOPLE[name].sees and slug not in PEOPLE[name].sees:
            for ref in (slug, world.of("subcortex", "crypt!" if slug == "crypt" else slug).id):
                for path in ("/threads", "/comments", "/observations", "/artifacts", "/tasks"):
                    assert (
                        answered_as_nothing(reader, "GET", path, None, ref, subcortex="REF")[0]
                        == 404
                    )


@pytest.mark.parametrize("name", EVERYBODY)
def test_artifact_versions_from_a_hidden_place_are_not_shown(world, reader, name):
    response = reader.ask("GET", f"/artifacts/{world.moved}/versions")
    if "harbor" not in PEOPLE[name].sees:
        assert response.status_code == 404
        return
    versions = [row["version"] for row in response.json()["data"]]
    assert versions == ([2, 1] if "vault" in PEOPLE[name].sees else [2])


# -- searches


def search(reader: Reader, query: str, **more: Any) -> tuple[list[str], int]:
    """The ids of all pages, and how many there are said to be."""
    found: list[str] = []
    cursor, total = None, 0
    while True:
        body = {"query": query, "limit": 50, "budget": 16_000, "cursor": cursor, **more}
        response = reader.ask("POST", "/search", body, key=None)
        answer = reader.client.data_of(response)
        found += [result["id"] for result in answer.get("results", [])]
        total = answer.get("total", total)
        cursor = response.json()["pagination"]["cursor"]
        if not cursor:
            return found, total


@pytest.mark.parametrize("name", EVERYBODY)
def test_search_finds_and_counts_only_visible_records(world, reader, name):
    found, total = search(reader, COMMON)
    assert set(found) == world.ids(name, *FOUND) and len(found) == len(set(found)) == total
    for kind in FOUND:
        expected = world.ids(name, kind)
        found, total = search(reader, COMMON, types=[SEVERAL[kind]])
        assert (set(found), total) == (expected, len(expected)), kind


@pytest.mark.parametrize("name", SOME)
def test_words_of_a_hidden_record_are_answered_as_words_of_none(world, reader, name):
    for place in PLACES:
        thread = world.of("thread", place)
        for query in (thread.words[0], f'"{thread.words[1]}" {thread.words[2]}'):
            answers = [search(reader, text) for text in (query, query.replace("zq", "zqzz"))]
            assert (answers[0] == answers[1]) == (not thread.is_for(name)), query
        if thread.is_for(name):
            continue
        assert search(reader, COMMON, filters={"tags": [thread.words[2]]}) == ([], 0)
        if place in ("vault", "none!"):
            assert (
                answered_as_nothing(reader, "POST", "/search", {"query": "REF"}, thread.words[0])[0]
                == 200
            )
            found = [search(reader, ref) for ref in (thread.id, twin_of(thread.id))]
            assert (set(found[0][0]), found[0][1]) == (set(found[1][0]), found[1][1])
        slug = place.rstrip("!")
        if slug != "none" and not {slug, f"{slug}!"} & set(PEOPLE[name].sees):
            body = {"query": COMMON, "filters": {"subcortex": "REF"}}
            assert answered_as_nothing(reader, "POST", "/search", body, slug)[0] == 404


@pytest.mark.parametrize("name", ["all-write", "reviewer-s", "chief"])
def test_search_filters_count_only_visible_records(world, reader, name):
    private = {id_ for id_ in world.ids(name, *FOUND) if world.planted[id_].place.endswith("!")}
    assert set(search(reader, COMMON, filters={"sensitivity": "sensitive"})[0]) == private
    kinds = ("thread", "comment", "artifact", "task")
    here = {
        ref for ref in world.ids(name, *kinds) if world.planted[ref].place.rstrip("!") == "harbor"
    }
    types = [SEVERAL[kind] for kind in kinds]
    assert set(search(reader, COMMON, types=types, filters={"subcortex": "harbor"})[0]) == here
    assert set(
        search(reader, COMMON, filters={"since": "1d", "status": "blocked"})[0]
    ) == world.ids(name, "task")


def test_cursor_of_another_principal_shows_nothing_more(world):
    root, mate = Reader(world, "root"), Reader(world, "mate")
    body = {"query": COMMON, "limit": 3}
    cursor = root.ask("POST", "/search", body, key=None).json()["pagination"]["cursor"]
    assert (
        cursor
        and mate.ask("POST", "/search", {**body, "cursor": cursor}, key=None).status_code == 200
    )
    for path in ("/threads", "/drafts", "/artifacts"):
        place = root.ask("GET", path, params={"limit": 2}).json()["pagination"]["cursor"]
        found = {
            row["id"] for row in mate.ask("GET", path, params={"cursor": place}).json()["data"]
        }
        assert found <= world.ids("mate")


# -- packs


@pytest.mark.parametrize("name", EVERYBODY)
def test_packs_have_only_visible_records(world, reader, name):
    for scope in (
        "global",
        "workspace",
        *(f"subcortex:{place}" for place in ("harbor", "vault", "attic", "crypt")),
    ):
        slug = scope.partition(":")[2]
        response = reader.ask(
            "POST", "/packs/bootstrap", {"scope": scope, "budget": 32_000}, key=None
        )
        visible = not slug or world.of("subcortex", "crypt!" if slug == "crypt" else slug).is_for(
            name
        )
        assert (response.status_code == 200) == visible, scope
        if not visible:
            answered_as_nothing(
                reader, "POST", "/packs/bootstrap", {"scope": "subcortex:REF"}, slug
            )
    for switched in ((), *((switch,) for switch in SWITCHES)):
        include = {switch: switch not in switched for switch in SWITCHES}
        body = {
            "subject": {"code_link": {"path": PATH, "symbol": "light"}},
            "include": include,
            "budget": 64_000,
        }
        assert reader.ask("POST", "/packs/context", body, key=None).status_code == 200


@pytest.mark.parametrize("name", SOME)
def test_context_pack_for_a_hidden_subject_is_answered_as_for_a_missing_one(world, reader, name):
    for place in (
        PLACES
        if name in ("all-write", "one-read", "chief", "root")
        else ("harbor", "vault", "none!", "crypt!")
    ):
        subjects = [("thread_id", "thread"), ("task_id", "task"), ("artifact_id", "artifact")]
        subjects += [
            ("ref", kind)
            for kind in ("thread", "comment", "observation", "draft", "link", "notification")
        ]
        for argument, kind in subjects:
            subject = world.of(kind, place)
            body = {"subject": {argument: "REF"}, "budget": 64_000}
            if not subject.is_for(name):
                assert answered_as_nothing(reader, "POST", "/packs/context", body, subject.id)[
                    0
                ] in (400, 404), subject
            elif kind != "notification":
                sent = {"subject": {argument: subject.id}, "budget": 64_000}
                assert reader.ask("POST", "/packs/context", sent, key=None).status_code == 200, (
                    subject
                )
    for slug in ("harbor", "vault", "attic", "crypt"):
        visible = world.of("subcortex", "crypt!" if slug == "crypt" else slug).is_for(name)
        if not visible:
            body = {"subject": {"subcortex_slug": "REF"}}
            assert answered_as_nothing(reader, "POST", "/packs/context", body, slug)[0] == 404
        else:
            for switched in SWITCHES:
                sent = {
                    "subject": {"subcortex_slug": slug},
                    "include": {switched: False},
                    "budget": 64_000,
                }
                assert reader.ask("POST", "/packs/context", sent, key=None).status_code == 200


# -- inbox, audit log, sync


@pytest.mark.parametrize("name", EVERYBODY)
def test_inbox_has_only_records_visible_to_its_owner(world, reader, name):
    listed = {entry["id"] for entry in reader.all("/inbox")}
    assert listed <= world.ids(name)
    assert {ref for ref in listed if ref.startswith("task_")} == world.ids(name, "task")
    decides = PEOPLE[name].tier >= 3
    assert {ref for ref in listed if ref.startswith("draft_")} == (
        world.ids(name, "draft") if decides else set()
    )
    due = {
        entry["id"]
        for entry in reader.all("/inbox", include="reviews")
        if entry["type"] == "review_overdue"
    }
    seen = world.ids(name, "artifact") if decides else set()
    assert due == {ref for ref in seen if world.planted[ref].words[-1:] and _is_due(world, ref)}
    notices = {entry["id"] for entry in reader.all("/inbox", include="notifications")}
    open_ones = reader.all("/notifications", status="new")
    assert notices == {
        notice["id"] for notice in open_ones if decides or notice["type"] != "review_needed"
    }


def _is_due(world: World, number: str) -> bool:
    record = world.core.ledger.records.one(number)
    return record is not None and bool(record.body.review_by)


@pytest.mark.parametrize("name", ["chief", "chief-one", "root"])
def test_audit_log_has_only_records_visible_to_its_reader(world, reader, name):
    listed = {entry["record_id"] for entry in reader.all("/audit")}
    assert {ref for ref in listed if not ref.startswith("principal_")} == world.ids(name)
    hidden = [record.id for record in world.planted.values() if not record.is_for(name)][:3]
    for number in hidden:
        assert (
            answered_as_nothing(reader, "GET", "/audit", None, number, record="REF")[1]["data"]
            == []
        )


@pytest.mark.parametrize("name", [name for name, person in PEOPLE.items() if person.tier < 4])
def test_tier_4_routes_are_refused_to_lower_tiers(world, reader, name):
    for route in ROUTES:
        if route.tier:
            for who in ("root", "no-such"):
                response = reader.ask(route.method, route.path.replace("{id}", who), {})
                assert (
                    response.status_code == 403
                    and response.json()["error"]["code"] == "PERMISSION_DENIED"
                )


@pytest.mark.parametrize("name", EVERYBODY)
def test_sync_deltas_have_exactly_the_visible_records(world, reader, name):
    updates, gone, cursor = set[str](), set[str](), ""
    while True:
        page = reader.client.get("/sync/deltas", since=cursor, limit=50)
        world.look_through(name, json.dumps(page["updates"]))
        updates |= {update["id"] for update in page["updates"]}
        gone |= set(page["invalidations"])
        cursor = page["next_cursor"]
        if not page["has_more"]:
            break
    assert updates == world.ids(name)
    assert gone == set(), "a new replica has no record that could leave"
    sees = PEOPLE[name].sees
    left = {world.moved} if "vault" in sees and "harbor" not in sees else set()
    later = reader.client.get("/sync/deltas", since=f"{page['epoch']}:0", limit=1_000)
    assert set(later["invalidations"]) == left, "a record moved from a visible place"
    assert page["notifications_count"] == sum(
        world.planted[id_].recipient == name for id_ in world.ids(name, "notification")
    )
    begun = reader.read("GET", "/sync/bootstrap")
    assert {scope["id"] for scope in begun["subcortexes"]} == world.ids(name, "subcortex")
    assert {term["subcortex"] for term in begun["glossary"]} == {
        scope["body"]["slug"] for scope in begun["subcortexes"]
    }


@pytest.mark.parametrize("name", EVERYBODY)
def test_hidden_ids_are_neither_visible_nor_unknown(world, reader, name):
    """Let only the holder of an id learn that it exists.

    An id of 80 random bits can't be guessed, and copies of lost records must stay.
    """
    ids = [record.id for record in world.planted.values()]
    strange = [twin_of(id_) for id_ in ids]
    answer = reader.client.post("/sync/visible", {"ids": [*ids, *strange]}, key=None)
    assert set(answer["visible"]) == world.ids(name) and set(answer["unknown"]) == set(strange)


# -- authentication


def test_every_route_refuses_a_missing_or_invalid_token(world):
    principals = world.core.ledger.principals
    root = principals.named("root")
    assert root is not None
    _, over = principals.make_token(root.id, expires=int(time.time() * 1000) - 1)
    token, revoked = principals.make_token(root.id)
    principals.revoke(token.id)
    good = world.clients["root"].token
    rows = [
        (None, "AUTH_REQUIRED"),
        ("", "AUTH_REQUIRED"),
        ("Bearer", "AUTH_REQUIRED"),
        ("Bearer ctx_", "AUTH_REQUIRED"),
        (f"Basic {good}", "AUTH_REQUIRED"),
        (f"Bearer {good[:-1]}", "AUTH_REQUIRED"),
        (f"Bearer {good}x", "AUTH_REQUIRED"),
        (f"Bearer {good.upper()}", "AUTH_REQUIRED"),
        (f"Bearer {good} {good}", "AUTH_REQUIRED"),
        (f"Bearer {'x' * 5_000}", "AUTH_REQUIRED"),
        (f"Bearer {over}", "AUTH_EXPIRED"),
        (f"Bearer {revoked}", "AUTH_EXPIRED"),
    ]
    for route in ROUTES:
        for authorization, code in rows if route.path in ("/threads", "/sync/flush") else rows[-2:]:
            headers = {} if authorization is None else {"Authorization": authorization}
            path = "/api/v2" + route.path.replace("{id}", world.of("thread", "vault").id)
            response = world.core.http.request(route.method, path, headers=headers, json={})
            assert (response.status_code, response.json()["error"]["code"]) == (401, code), (
                route.path,
                authorization,
            )


def test_revoked_principal_is_rejected_on_every_route(world):
    someone = world.core.person("leaver", 3, {"*": True})
    assert someone.get("/threads")
    principal = world.core.ledger.principals.named("leaver")
    assert principal is not None
    world.core.ledger.principals.change(principal.id, state="revoked")
    for route in ROUTES:
        response = someone.ask(
            route.method, route.path.replace("{id}", world.of("thread", "harbor").id), {}
        )
        assert response.status_code == 401
