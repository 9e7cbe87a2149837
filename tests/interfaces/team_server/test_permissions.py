"""Who is told what at a Core: everybody of `PEOPLE`, by every way of reading, row by row; and
nothing of the rest, not by a word.

What somebody may not see is answered as what isn't there: the same status, the same words.
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
    """What is called almost like this, and isn't there."""
    return ref[:-1] + ("0" if ref[-1] != "0" else "1") if "_" in ref else f"{ref[:-1]}w"


def alike(response: Any, ref: str) -> tuple[int, Any]:
    """An answer without what is another one in each: when, and what was asked for."""
    told = json.loads(response.text.replace(ref, "REF")) if response.text else {}
    for part in ("meta", "error"):
        for name in ("request_id", "timestamp"):
            told.get(part, {}).pop(name, None)
    return response.status_code, told


def answered_as_nothing(
    reader: Reader, method: str, path: str, body: Any, ref: str, **more: Any
) -> tuple[int, Any]:
    """Ask for what is hidden, in place of REF, and for what isn't there; the answers are the same."""
    answers = []
    for one in (ref, twin_of(ref)):
        sent = None if body is None else json.loads(json.dumps(body).replace("REF", one))
        params = {name: str(value).replace("REF", one) for name, value in more.items()}
        answers.append(
            alike(reader.ask(method, path.replace("REF", one), sent, params=params), one)
        )
    assert answers[0] == answers[1], (reader.name, method, path, body)
    return answers[0]


# -- reading, row by row
# -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", EVERYBODY)
def test_lists_tell_what_their_reader_may_see_and_nothing_else(world, reader, name):
    for kind in REST:
        path = f"/{spec_of(kind).plural}"
        assert {one["id"] for one in reader.all(path)} == world.ids(name, kind), kind
        private = [
            one
            for one in reader.all(path, sensitivity="sensitive")
            if one["id"] not in world.ids(name, kind)
        ]
        assert private == []
    told = {one["id"] for one in reader.all("/notifications")}
    assert told == {
        id_ for id_ in world.ids(name, "notification") if world.planted[id_].recipient == name
    }


@pytest.mark.parametrize("name", ["one-read", "all-write", "reviewer-s", "chief"])
def test_pages_of_one_have_as_many_as_may_be_seen(world, reader, name):
    for kind in REST:
        assert {one["id"] for one in reader.all(f"/{spec_of(kind).plural}", limit=1)} == world.ids(
            name, kind
        )


@pytest.mark.parametrize("name", SOME)
def test_one_by_its_id_is_told_or_is_not_there(world, reader, name):
    notices = [world.of("notification", place) for place in PLACES]
    for one in [*(one for one in world.planted.values() if one.kind != "notification"), *notices]:
        response = reader.ask("GET", f"/{spec_of(one.kind).plural}/{one.id}")
        assert response.status_code == (200 if one.is_for(name) else 404), one
        if not one.is_for(name):
            error = response.json()["error"]
            assert error["code"] == "NOT_FOUND" and one.id in error["message"]


@pytest.mark.parametrize(
    "name", ["nobody", "one-write", "all-write", "reviewer", "closed-write", "chief", "chief-one"]
)
def test_what_is_hidden_is_answered_as_what_is_not_there(world, reader, name):
    asked = 0
    for kind in (*REST, "notification"):
        hidden = [
            one for one in world.planted.values() if one.kind == kind and not one.is_for(name)
        ]
        for ref in [one.id for one in hidden[:2]]:
            path = f"/{spec_of(kind).plural}/REF"
            assert answered_as_nothing(reader, "GET", path, None, ref)[0] == 404
            asked += 1
        for ref in [one.id for one in hidden[:1]]:
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
def test_filters_by_something_hidden_find_what_filters_by_nothing_find(world, reader, name):
    rows = [
        ("/threads", "task", "task"), ("/comments", "thread", "thread"), ("/observations", "thread", "thread"), ("/observations", "task", "task"),
        ("/tasks", "thread", "thread"), ("/drafts", "target", "thread"), ("/links", "source", "thread"), ("/links", "target", "artifact"),
        ("/notifications", "about", "task"),
    ]  # fmt: skip
    for place in ("vault", "harbor!", "crypt!", "attic", "none"):
        if place in PEOPLE[name].sees:
            continue
        for path, parameter, kind in rows:
            status, told = answered_as_nothing(
                reader, "GET", path, None, world.of(kind, place).id, **{parameter: "REF"}
            )
            assert (status, told["data"]) == (200, [])
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
def test_versions_of_when_it_was_elsewhere_are_for_those_who_see_there(world, reader, name):
    response = reader.ask("GET", f"/artifacts/{world.moved}/versions")
    if "harbor" not in PEOPLE[name].sees:
        assert response.status_code == 404
        return
    versions = [one["version"] for one in response.json()["data"]]
    assert versions == ([2, 1] if "vault" in PEOPLE[name].sees else [2])


# -- searches
# ----------------------------------------------------------------------------------------------------------


def search(reader: Reader, query: str, **more: Any) -> tuple[list[str], int]:
    """The ids of all pages, and how many there are said to be."""
    found: list[str] = []
    cursor, total = None, 0
    while True:
        body = {"query": query, "limit": 50, "budget": 16_000, "cursor": cursor, **more}
        response = reader.ask("POST", "/search", body, key=None)
        told = reader.client.told(response)
        found += [one["id"] for one in told.get("results", [])]
        total = told.get("total", total)
        cursor = response.json()["pagination"]["cursor"]
        if not cursor:
            return found, total


@pytest.mark.parametrize("name", EVERYBODY)
def test_a_search_finds_and_counts_what_may_be_seen(world, reader, name):
    found, total = search(reader, COMMON)
    assert set(found) == world.ids(name, *FOUND) and len(found) == len(set(found)) == total
    for kind in FOUND:
        expected = world.ids(name, kind)
        found, total = search(reader, COMMON, types=[SEVERAL[kind]])
        assert (set(found), total) == (expected, len(expected)), kind


@pytest.mark.parametrize("name", SOME)
def test_words_of_what_is_hidden_find_nothing_and_are_answered_as_words_of_nobody(
    world, reader, name
):
    for place in PLACES:
        one = world.of("thread", place)
        for query in (one.words[0], f'"{one.words[1]}" {one.words[2]}'):
            answers = [search(reader, text) for text in (query, query.replace("zq", "zqzz"))]
            assert (answers[0] == answers[1]) == (not one.is_for(name)), query
        if one.is_for(name):
            continue
        assert search(reader, COMMON, filters={"tags": [one.words[2]]}) == ([], 0)
        if place in ("vault", "none!"):
            assert (
                answered_as_nothing(reader, "POST", "/search", {"query": "REF"}, one.words[0])[0]
                == 200
            )
            found = [search(reader, ref) for ref in (one.id, twin_of(one.id))]
            assert (set(found[0][0]), found[0][1]) == (set(found[1][0]), found[1][1])
        slug = place.rstrip("!")
        if slug != "none" and not {slug, f"{slug}!"} & set(PEOPLE[name].sees):
            body = {"query": COMMON, "filters": {"subcortex": "REF"}}
            assert answered_as_nothing(reader, "POST", "/search", body, slug)[0] == 404


@pytest.mark.parametrize("name", ["all-write", "reviewer-s", "chief"])
def test_filters_of_a_search_count_what_may_be_seen(world, reader, name):
    private = {id_ for id_ in world.ids(name, *FOUND) if world.planted[id_].place.endswith("!")}
    assert set(search(reader, COMMON, filters={"sensitivity": "sensitive"})[0]) == private
    kinds = ("thread", "comment", "artifact", "task")
    here = {
        one for one in world.ids(name, *kinds) if world.planted[one].place.rstrip("!") == "harbor"
    }
    types = [SEVERAL[kind] for kind in kinds]
    assert set(search(reader, COMMON, types=types, filters={"subcortex": "harbor"})[0]) == here
    assert set(
        search(reader, COMMON, filters={"since": "1d", "status": "blocked"})[0]
    ) == world.ids(name, "task")


def test_a_cursor_of_somebody_else_shows_nothing_more(world):
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
            one["id"] for one in mate.ask("GET", path, params={"cursor": place}).json()["data"]
        }
        assert found <= world.ids("mate")


# -- packs
# -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", EVERYBODY)
def test_packs_have_what_may_be_seen(world, reader, name):
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
    for switched in ((), *((one,) for one in SWITCHES)):
        include = {switch: switch not in switched for switch in SWITCHES}
        body = {
            "subject": {"code_link": {"path": PATH, "symbol": "light"}},
            "include": include,
            "budget": 64_000,
        }
        assert reader.ask("POST", "/packs/context", body, key=None).status_code == 200


@pytest.mark.parametrize("name", SOME)
def test_a_subject_that_may_not_be_seen_is_none(world, reader, name):
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
            one = world.of(kind, place)
            body = {"subject": {argument: "REF"}, "budget": 64_000}
            if not one.is_for(name):
                assert answered_as_nothing(reader, "POST", "/packs/context", body, one.id)[0] in (
                    400,
                    404,
                ), one
            elif kind != "notification":
                told = {"subject": {argument: one.id}, "budget": 64_000}
                assert reader.ask("POST", "/packs/context", told, key=None).status_code == 200, one
    for slug in ("harbor", "vault", "attic", "crypt"):
        visible = world.of("subcortex", "crypt!" if slug == "crypt" else slug).is_for(name)
        if not visible:
            body = {"subject": {"subcortex_slug": "REF"}}
            assert answered_as_nothing(reader, "POST", "/packs/context", body, slug)[0] == 404
        else:
            for switched in SWITCHES:
                told = {
                    "subject": {"subcortex_slug": slug},
                    "include": {switched: False},
                    "budget": 64_000,
                }
                assert reader.ask("POST", "/packs/context", told, key=None).status_code == 200


# -- what waits, who did what, and what is synced
# ----------------------------------------------------------------------


@pytest.mark.parametrize("name", EVERYBODY)
def test_an_inbox_has_what_its_owner_may_see(world, reader, name):
    told = {one["id"] for one in reader.all("/inbox")}
    assert told <= world.ids(name)
    assert {one for one in told if one.startswith("task_")} == world.ids(name, "task")
    decides = PEOPLE[name].tier >= 3
    assert {one for one in told if one.startswith("draft_")} == (
        world.ids(name, "draft") if decides else set()
    )
    due = {
        one["id"]
        for one in reader.all("/inbox", include="reviews")
        if one["type"] == "review_overdue"
    }
    seen = world.ids(name, "artifact") if decides else set()
    assert due == {one for one in seen if world.planted[one].words[-1:] and _is_due(world, one)}
    notices = {one["id"] for one in reader.all("/inbox", include="notifications")}
    open_ones = reader.all("/notifications", status="new")
    assert notices == {one["id"] for one in open_ones if decides or one["type"] != "review_needed"}


def _is_due(world: World, number: str) -> bool:
    record = world.place.ledger.records.one(number)
    return record is not None and bool(record.body.review_by)


@pytest.mark.parametrize("name", ["chief", "chief-one", "root"])
def test_the_audit_log_has_what_may_be_seen(world, reader, name):
    told = {one["record_id"] for one in reader.all("/audit")}
    assert {one for one in told if not one.startswith("principal_")} == world.ids(name)
    hidden = [one.id for one in world.planted.values() if not one.is_for(name)][:3]
    for number in hidden:
        assert (
            answered_as_nothing(reader, "GET", "/audit", None, number, record="REF")[1]["data"]
            == []
        )


@pytest.mark.parametrize("name", [name for name, one in PEOPLE.items() if one.tier < 4])
def test_what_is_for_tier_4_is_refused_to_all_others_whatever_they_name(world, reader, name):
    for route in ROUTES:
        if route.tier:
            for who in ("root", "no-such"):
                response = reader.ask(route.method, route.path.replace("{id}", who), {})
                assert (
                    response.status_code == 403
                    and response.json()["error"]["code"] == "PERMISSION_DENIED"
                )


@pytest.mark.parametrize("name", EVERYBODY)
def test_a_replica_gets_what_may_be_seen_and_learns_of_nothing_else(world, reader, name):
    updates, gone, cursor = set[str](), set[str](), ""
    while True:
        page = reader.client.get("/sync/deltas", since=cursor, limit=50)
        world.look_through(name, json.dumps(page["updates"]))
        updates |= {one["id"] for one in page["updates"]}
        gone |= set(page["invalidations"])
        cursor = page["next_cursor"]
        if not page["has_more"]:
            break
    assert updates == world.ids(name)
    assert gone == set(), "who begins at the start has nothing that could leave"
    sees = PEOPLE[name].sees
    left = {world.moved} if "vault" in sees and "harbor" not in sees else set()
    later = reader.client.get("/sync/deltas", since=f"{page['epoch']}:0", limit=1_000)
    assert set(later["invalidations"]) == left, "what was moved from where it could be seen"
    assert page["notifications_count"] == sum(
        world.planted[id_].recipient == name for id_ in world.ids(name, "notification")
    )
    begun = reader.read("GET", "/sync/bootstrap")
    assert {one["id"] for one in begun["subcortexes"]} == world.ids(name, "subcortex")
    assert {one["subcortex"] for one in begun["glossary"]} == {
        one["body"]["slug"] for one in begun["subcortexes"]
    }


@pytest.mark.parametrize("name", EVERYBODY)
def test_ids_that_may_not_be_seen_are_not_visible_and_told_by_nothing_else(world, reader, name):
    """That an id is known is told to who has it: nobody guesses 80 random bits, and copies of what
    is lost here must stay.
    """
    ids = [one.id for one in world.planted.values()]
    strange = [twin_of(id_) for id_ in ids]
    told = reader.client.post("/sync/visible", {"ids": [*ids, *strange]}, key=None)
    assert set(told["visible"]) == world.ids(name) and set(told["unknown"]) == set(strange)


# -- who comes in
# ------------------------------------------------------------------------------------------------------


def test_without_a_token_that_counts_every_way_is_closed_alike(world):
    principals = world.place.ledger.principals
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
            response = world.place.http.request(route.method, path, headers=headers, json={})
            assert (response.status_code, response.json()["error"]["code"]) == (401, code), (
                route.path,
                authorization,
            )


def test_who_is_revoked_gets_nothing_from_the_next_request_on(world):
    someone = world.place.person("leaver", 3, {"*": True})
    assert someone.get("/threads")
    principal = world.place.ledger.principals.named("leaver")
    assert principal is not None
    world.place.ledger.principals.change(principal.id, state="revoked")
    for route in ROUTES:
        response = someone.ask(
            route.method, route.path.replace("{id}", world.of("thread", "harbor").id), {}
        )
        assert response.status_code == 401
