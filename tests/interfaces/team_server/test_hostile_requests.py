"""Hostile requests, byte by byte: each is answered with an error code, nothing is written."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest

from cortex.families.team.ids import new_ulid
from cortex.interfaces.team_server.app import ROUTES

SURROGATE = "\ud800"
HOST = (b"host", b"127.0.0.1")
BODIES = (
    "/threads",
    "/observations",
    "/search",
    "/sync/flush",
    "/sync/visible",
    "/principals",
    "/packs/context",
)


class Raw:
    """A sender of requests as a server hands them over, byte by byte."""

    def __init__(self, core: Any, token: str, loop: asyncio.Runner) -> None:
        self.core, self.token, self.loop = core, token, loop

    def ask(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        *,
        query: bytes = b"",
        headers: list[tuple[bytes, bytes]] | None = None,
        kind: bytes | None = b"application/json",
        key: str = "",
    ) -> tuple[int, dict[str, str], str]:
        all_headers = [
            HOST,
            (b"authorization", f"Bearer {self.token}".encode()),
            (b"content-length", str(len(body)).encode()),
        ]
        all_headers += [(b"content-type", kind)] if kind is not None and body else []
        if method in ("POST", "PATCH"):
            all_headers.append((b"idempotency-key", (key or f"k{new_ulid()}").encode("latin-1")))
        own = headers or []
        all_headers = [
            header for header in all_headers if header[0] not in {name for name, _ in own}
        ] + own
        scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "scheme": "http", "method": method, "path": path,
            "raw_path": path.encode("utf-8", "surrogatepass"), "root_path": "", "query_string": query, "headers": all_headers,
            "client": ("127.0.0.1", 5), "server": ("127.0.0.1", 80),
        }  # fmt: skip
        return self.loop.run(self._send(scope, body))

    async def _send(self, scope: dict[str, Any], body: bytes) -> tuple[int, dict[str, str], str]:
        parts = [{"type": "http.request", "body": body, "more_body": False}]
        sent: list[Any] = []

        async def receive() -> Any:
            return parts.pop(0) if parts else {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            sent.append(message)

        await self.core.app(scope, receive, send)
        start = sent[0]
        headers = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in start["headers"]
        }
        text = b"".join(message.get("body", b"") for message in sent[1:]).decode("utf-8")
        return start["status"], headers, text


@pytest.fixture
def raw(core, ada) -> Iterator[Raw]:
    with asyncio.Runner() as loop:
        yield Raw(core, ada.token, loop)


def refused(answer: tuple[int, dict[str, str], str], *statuses: int) -> dict[str, Any]:
    """The error of an answer that must have one of these statuses, by default any of a client's."""
    status, headers, text = answer
    assert status in (statuses or (400, 404, 405, 413, 415)), text[:500]
    error = json.loads(text)["error"]
    assert error["code"] and headers["x-request-id"] == error["request_id"]
    return error


def nothing_is_there(core: Any) -> bool:
    return core.ledger.records.last_change() == 0


NUMBERS = [
    "1e400",
    "-1e400",
    "NaN",
    "Infinity",
    "9" * 400,
    "9" * 5_000,
    "-1",
    "0",
    "1.5",
    "1e2",
    "0x10",
    "true",
    "null",
    '"1"',
    "[]",
]


def test_malformed_numbers_are_never_a_server_error(core, raw):
    for number in NUMBERS:
        for path, field in (("/principals", "tier"), ("/search", "limit"), ("/search", "budget")):
            more = '"name": "zz", ' if path == "/principals" else '"query": "zz", '
            status, _, text = raw.ask(
                "POST", f"/api/v2{path}", f'{{{more}"{field}": {number}}}'.encode()
            )
            assert status < 500, (path, number, text)
        refused(
            raw.ask(
                "PATCH",
                "/api/v2/threads/thread_x",
                f'{{"title": "a", "version": {number}}}'.encode(),
            )
        )
        for name in ("limit", "cursor"):
            status, _, text = raw.ask("GET", "/api/v2/threads", query=f"{name}={number}".encode())
            assert status in (200, 400), text
    assert nothing_is_there(core)


TEXTS = [
    SURROGATE,
    f"a{SURROGATE}b",
    "\x00",
    "a\x00b",
    "\u202e\u2066",
    "\x1b[31m",
    "\r\nX-Evil: 1",
    "a" * 100_000,
    "💥" * 301,
    "\uffff",
]


def test_malformed_texts_are_refused(core, raw):
    for text in TEXTS:
        sent = json.dumps(text).encode()
        refused(raw.ask("POST", "/api/v2/threads", b'{"title": "a", "colour": %s}' % sent))
        refused(raw.ask("POST", "/api/v2/threads", b'{"title": "a", %s: 1}' % sent))
        refused(raw.ask("POST", "/api/v2/principals", b'{"name": %s, "tier": 1}' % sent))
        refused(raw.ask("POST", "/api/v2/threads", b'{"title": "a", "subcortex_id": %s}' % sent))
        refused(
            raw.ask(
                "POST",
                "/api/v2/links",
                b'{"source_id": %s, "relation": "supports", "target_id": "a"}' % sent,
            )
        )
        for body in (
            b'{"query": %s}',
            b'{"query": "a", "filters": {"tags": [%s]}}',
            b'{"query": "a", "cursor": %s}',
        ):
            status, _, answer = raw.ask("POST", "/api/v2/search", body % sent)
            assert status in (200, 400), answer
        for subject in ("thread_id", "ref", "subcortex_slug"):
            refused(
                raw.ask(
                    "POST",
                    "/api/v2/packs/context",
                    b'{"subject": {"%s": %s}}' % (subject.encode(), sent),
                )
            )
        status, _, answer = raw.ask("POST", "/api/v2/sync/visible", b'{"ids": [%s]}' % sent)
        assert status in (200, 400), answer
        action = {
            "idempotency_key": text,
            "action": text,
            "payload": {"actor": text, "tier": 1, "at": 1, "changes": []},
        }
        status, _, answer = raw.ask(
            "POST", "/api/v2/sync/flush", json.dumps({"actions": [action]}).encode()
        )
        assert status in (200, 400) and "applied" not in answer
    assert nothing_is_there(core)


def test_title_that_is_no_text_is_refused_and_any_other_unicode_is_kept(ada, raw):
    for text in ("\x00", "a\x00b"):
        refused(raw.ask("POST", "/api/v2/threads", b'{"title": %s}' % json.dumps(text).encode()))
    # Half of a character is none
    for body in (b'{"title": "a\\ud800b"}', b'{"title": "a", "body_md": "\\udfff"}'):
        status, _, text = raw.ask("POST", "/api/v2/threads", body)
        assert status == 400 and "half of a character" in text
    thread = ada.post("/threads", {"title": "💥 é 漢", "body_md": "a\tb\n👩‍👩‍👧"})
    assert ada.get(f"/threads/{thread['id']}") == thread


SHAPES = [
    b"", b" ", b"null", b"[]", b"5", b'"a"', b"{", b"}", b"{}x", b"{}{}", b'{"title": }', b"{'title': 'a'}", b'{"title": "a",}', b"\xff\xfe{}",
    b"\xef\xbb\xbf5", b"\x00", b"\x80\x81", '{"title": "a"}'.encode("utf-16"), b'{"title": "\xff"}', b"[" * 100_000, b'{"a":' * 100_000,
    b'{"title": ' + b"[" * 50_000 + b"]" * 50_000 + b"}", b'{"title": "a", "tags": ' + b'{"a": ' * 2_000 + b"1" + b"}" * 2_000 + b"}",
]  # fmt: skip


def test_bodies_that_are_no_object_are_refused(core, raw):
    for body in SHAPES:
        for path in BODIES:
            refused(raw.ask("POST", f"/api/v2{path}", body), 400, 415)
    assert nothing_is_there(core)


def test_repeated_parameters_and_headers_are_refused(core, raw):
    status, _, text = raw.ask("POST", "/api/v2/threads", b'{"title": "first", "title": "second"}')
    assert status == 400 or json.loads(text)["data"]["title"] == "second"
    refused(raw.ask("GET", "/api/v2/threads", query=b"limit=1&limit=2"), 400)
    two = [(b"idempotency-key", b"a"), (b"idempotency-key", b"b")]
    refused(raw.ask("POST", "/api/v2/threads", b'{"title": "a"}', headers=two), 400)


def test_bodies_of_another_content_type_or_length_are_refused(core, raw):
    for kind in (b"text/plain", b"text/html", b"application/x-www-form-urlencoded", b"multipart/form-data; boundary=a", b"application/jsonx",
                 b"*/*", b"", b"\xff", b"application/json, text/plain", None):  # fmt: skip
        refused(raw.ask("POST", "/api/v2/threads", b'{"title": "a"}', kind=kind), 415)
    for length in (b"-1", b"x", b"9" * 40, b"1_0", b"99999999999"):
        status, _, text = raw.ask(
            "POST", "/api/v2/threads", b'{"title": 5}', headers=[(b"content-length", length)]
        )
        assert status in (400, 413), text
    refused(raw.ask("POST", "/api/v2/threads", b'{"title": "' + b"a" * 5_000_000 + b'"}'), 413)
    assert nothing_is_there(core)


PATHS = [
    "", "/", "//", "/api", "/api/", "/api/v2", "/api/v2/", "/api/v2//threads", "//api/v2/threads", "/API/V2/THREADS", "/api/v2/Threads", "/api/v2/threads/",
    "/api/v2/threads//", "/api/v2/threads/../principals", "/api/v2/./threads", "/api/v2/threads;a=b", "/api/v2/threads\x00", "/api/v2/threads\n",
    "/api/v2/threads%2fx", "/api/v1/threads", "/api/v2/threads/a/b/c", "/api/v2/threads/{id}", "/api/v2/\u2028threads", "/api/v2/th\u0280eads",
    "/api/v2/" + "a/" * 50_000, "/api/v2/threads/" + "a" * 1_000_000, "/api/v2/threads/" + "%00" * 1_000, f"/api/v2/threads/{SURROGATE}",
    "/api/v2/threads/..", "/api/v2/threads/%2e%2e%2fprincipals", "/api/v2/threads/' OR 1=1 --", "/api/v2/threads/thread_%", "/api/v2/threads/*",
    "/api/v2/subcortexes/\x00", "/api/v2/principals/\ud800", "/health/", "/metrics/x", "http://evil.example/api/v2/threads", "api/v2/threads",
]  # fmt: skip


def test_unknown_paths_are_not_found(core, raw):
    for path in PATHS:
        refused(raw.ask("GET", path), 404)
        status, _, text = raw.ask("POST", path, b"{}")
        assert status in (400, 404, 405), (path[:80], text[:200])
    assert nothing_is_there(core)


def test_path_traversal_does_not_bypass_the_tier(core, raw):
    raw.token = core.person("bob", 3).token
    for path in (
        "/api/v2/threads/../principals",
        "/api/v2/threads/%2e%2e/principals",
        "/api/v2/principals/",
        "/api/v2/./principals",
    ):
        assert raw.ask("GET", path)[0] in (403, 404)


VERBS = [
    "PUT",
    "DELETE",
    "TRACE",
    "CONNECT",
    "PROPFIND",
    "get",
    "post",
    "",
    "G\x00T",
    "X" * 10_000,
    "HEAD",
    "OPTIONS",
]


def test_unknown_methods_are_refused(core, raw):
    for route in ROUTES[:4]:
        path = f"/api/v2{route.path}".replace("{id}", "a")
        for verb in VERBS:
            status, headers, text = raw.ask(verb, path)
            allowed = {"HEAD": (200, 404), "OPTIONS": (204,)}.get(verb, (405,))
            assert status in allowed, (verb[:20], path, text)
            assert verb not in ("HEAD", "OPTIONS") or text == ""
            assert status != 405 or "GET" in headers["allow"]
    for path in ("/health", "/metrics", "/api/v2/openapi.json"):
        refused(raw.ask("POST", path, b"{}"), 405)
    assert nothing_is_there(core)


HEADERS = [
    [(b"x-request-id", b"a\r\nX-Evil: 1")],
    [(b"x-request-id", b"a" * 10_000)],
    [(b"x-request-id", b"\xff\x00")],
    [(b"x-request-id", b"a"), (b"x-request-id", b"b")],
    [
        (b"x-forwarded-for", b"1.2.3.4"),
        (b"x-original-url", b"/api/v2/principals"),
        (b"x-http-method-override", b"DELETE"),
    ],
    [(b"accept", b"\x00" * 100), (b"cookie", b"a" * 50_000)],
    [(b"x-a%d" % number, b"b") for number in range(10_000)],
    [(b"range", b"bytes=0-1"), (b"if-none-match", b"*"), (b"expect", b"100-continue")],
]


def test_hostile_headers_are_ignored(core, raw):
    for headers in HEADERS:
        status, received, text = raw.ask("GET", "/api/v2/threads", headers=headers)
        assert status == 200 and json.loads(text)["data"] == []
        assert not any(
            "evil" in f"{name}{value}".lower() or "\n" in value or "\r" in value
            for name, value in received.items()
        )
        assert (
            "etag" not in received
            and received["x-request-id"].isprintable()
            and len(received["x-request-id"]) < 100
        )


@pytest.mark.parametrize("header", [
    [(b"host", b"evil.example")], [(b"host", b"127.0.0.1.evil.example")], [(b"host", b"")], [(b"host", b"127.0.0.1\r\nx: y")], [(b"host", b"\xff")],
    [(b"origin", b"https://evil.example")], [(b"origin", b"null")], [(b"origin", b"\x00")],
])  # fmt: skip
def test_another_host_or_origin_is_refused(raw, header):
    refused(raw.ask("GET", "/api/v2/threads", headers=header), 403, 421, 400)


@pytest.mark.parametrize("value", [
    b"Bearer \xff\xfe", b"Bearer ctx_\x00_a", b"Bearer " + b"ctx_" + b"a" * 100_000, b"Bearer ctx_a_b_c", b"\x00", b"Bearer\tctx_a_b", b"bearer ' OR 1=1",
    b"Bearer ctx_%_%", b"Bearer ctx__", b"Digest a", b"Bearer " + "ctx_\u0661_a".encode(),
])  # fmt: skip
def test_malformed_token_is_rejected(raw, value):
    refused(raw.ask("GET", "/api/v2/threads", headers=[(b"authorization", value)]), 401)


def test_two_tokens_give_no_more_rights_than_one(core, ada, raw):
    bob = core.person("bob", 0)
    both = [
        (b"authorization", f"Bearer {bob.token}".encode()),
        (b"authorization", f"Bearer {ada.token}".encode()),
    ]
    assert raw.ask("GET", "/api/v2/principals", headers=both)[0] in (401, 403)
    both.reverse()
    assert raw.ask("GET", "/api/v2/me", headers=both)[0] in (200, 401)


KEYS = [b"", b" ", b"\x00", b"a\nb", b"\xff", b"a" * 201, b"a b", "é".encode(), b"\x7f"]


def test_malformed_idempotency_keys_are_refused(core, raw):
    for key in KEYS:
        refused(
            raw.ask(
                "POST", "/api/v2/threads", b'{"title": "a"}', headers=[(b"idempotency-key", key)]
            ),
            400,
        )
    assert nothing_is_there(core)


# -- cursors


def test_tampered_cursors_are_refused(ada, raw):
    for number in range(5):
        ada.post("/threads", {"title": f"retry {number}"})
    good = ada.ask("GET", "/threads", params={"limit": 2}).json()["pagination"]["cursor"]
    plain = base64.urlsafe_b64decode(good).decode()
    place, _, digest = plain.partition(":")
    strange = [
        good[:-1],
        good[1:],
        good + "A",
        good.lower(),
        good * 2,
        "=",
        "====",
        "A" * 500,
        "\x00",
        "../..",
        "%00",
        "-1",
        "0",
    ]
    strange += [
        good[:number] + ("A" if good[number] != "A" else "B") + good[number + 1 :]
        for number in range(40, len(good), 3)
    ]
    made = [
        f"{place}:",
        f":{digest}",
        f"{place}",
        f"{place};:{digest}",
        f"a' OR 1:{digest}",
        f"\x00:{digest}",
        f"{'a' * 101}:{digest}",
    ]
    strange += [base64.urlsafe_b64encode(plain_cursor.encode()).decode() for plain_cursor in made]
    for cursor in strange:
        refused(raw.ask("GET", "/api/v2/threads", query=f"cursor={quote(cursor)}".encode()), 400)
    # A place that isn't there is one between others
    for other in ("zzzz", "thread_", "9", place[:-1]):
        forged = base64.urlsafe_b64encode(f"{other}:{digest}".encode()).decode()
        assert raw.ask("GET", "/api/v2/threads", query=f"cursor={quote(forged)}".encode())[0] in (
            200,
            400,
        )
    found = ada.ask("POST", "/search", {"query": "retry", "limit": 2}, key=None).json()[
        "pagination"
    ]["cursor"]
    for cursor in (found[:-1], found + "A", found[::-1], "x", "-5", "9" * 400, SURROGATE):
        status, _, text = raw.ask(
            "POST",
            "/api/v2/search",
            json.dumps({"query": "retry", "limit": 2, "cursor": cursor}).encode(),
        )
        assert status in (200, 400), text


def test_forged_cursor_numbers_are_refused(ada):
    artifact = ada.post("/artifacts", {"title": "a"})["id"]
    for title in "bcd":
        ada.patch(f"/artifacts/{artifact}", {"title": title})
    for path in ("/audit", f"/artifacts/{artifact}/versions"):
        good = ada.ask("GET", path, params={"limit": 2}).json()["pagination"]["cursor"]
        digest = base64.urlsafe_b64decode(good).decode().partition(":")[2]
        for place in ("9" * 19, "9" * 100, "0", "x"):
            cursor = base64.urlsafe_b64encode(f"{place}:{digest}".encode()).decode()
            ada.refused(
                400, "VALIDATION_ERROR", ada.ask("GET", path, params={"limit": 2, "cursor": cursor})
            )
        assert ada.ask("GET", path, params={"limit": 2, "cursor": good}).json()["data"]


def test_forged_sync_cursors_are_refused(core, ada, raw):
    epoch = core.ledger.epoch()
    ada.post("/threads", {"title": "a"})
    for since in (f"{epoch}:-1", f"{epoch}:", f"{epoch}:1.5", f"{epoch}:{'9' * 19}", f"{epoch}:\u0661", f"{epoch}", ":1", f"{epoch}:1:1", "x" * 101, "%00",
                  f"{epoch}:1\n", f" {epoch}:1"):  # fmt: skip
        refused(ask_since(raw, since), 400, 410)
    good = ada.get("/sync/deltas")["next_cursor"]
    for since, status in (
        (f"{epoch}:{'9' * 18}", 410),
        (f"{'0' * 32}:1", 410),
        (good, 200),
        (good[:-1] + "x", 400),
    ):
        assert ask_since(raw, since)[0] == status


def ask_since(raw: Raw, since: str) -> tuple[int, dict[str, str], str]:
    return raw.ask("GET", "/api/v2/sync/deltas", query=f"since={quote(since)}".encode())


QUERIES = [b"limit=%00", b"tag=%ED%A0%80", b"tag=%FF", b"tag=%", b"tag=%zz", b"\xff=\xff", b"&&&&", b"=", b"a", b"tag", b"tag=a&tag=b", b"limit=1;limit=2",
           b"status=open%00", b"author=%27%20OR%201=1", b"since=9999999999d", b"until=-1d", b"since=%2B1", b"subcortex=%00", b"cursor=%00"]  # fmt: skip


def test_odd_queries_are_never_a_server_error(raw):
    for query in QUERIES:
        status, _, text = raw.ask("GET", "/api/v2/threads", query=query)
        assert status in (200, 400, 404), (query, text)


# -- too many values


def test_requests_with_too_many_values_are_refused(core, ada, raw):
    many = [f"thread_{new_ulid()}" for _ in range(10_000)]
    refused(raw.ask("POST", "/api/v2/sync/visible", json.dumps({"ids": many}).encode()), 400)
    refused(raw.ask("POST", "/api/v2/notifications/ack", json.dumps({"ids": many}).encode()), 400)
    refused(
        raw.ask(
            "POST",
            "/api/v2/observations/batch",
            json.dumps({"observations": [{"title": "a"}] * 10_000}).encode(),
        ),
        400,
    )
    refused(
        raw.ask("POST", "/api/v2/sync/flush", json.dumps({"actions": [{}] * 10_000}).encode()), 400
    )
    refused(
        raw.ask(
            "POST", "/api/v2/threads", json.dumps({"title": "a", "tags": ["a"] * 10_000}).encode()
        ),
        400,
    )
    refused(raw.ask("POST", "/api/v2/threads", json.dumps(dict.fromkeys(many, 1)).encode()), 400)
    tags = ",".join(map(str, range(1_500))).encode()
    for kind in ("threads", "observations", "drafts", "artifacts", "tasks"):
        refused(raw.ask("GET", f"/api/v2/{kind}", query=b"tag=" + tags), 400)
    grants = {"name": "zz", "tier": 1, "grants": dict.fromkeys(many, True)}
    refused(raw.ask("POST", "/api/v2/principals", json.dumps(grants).encode()), 400)
    refused(
        raw.ask("GET", "/api/v2/threads", query=b"&".join(b"tag=a" for _ in range(10_000))), 400
    )
    answer = json.loads(
        raw.ask("POST", "/api/v2/sync/visible", json.dumps({"ids": many[:1_000]}).encode())[2]
    )
    assert len(answer["data"]["unknown"]) == 1_000
    assert nothing_is_there(core)


def test_search_for_too_many_distinct_tags_is_refused(ada):
    ada.post("/artifacts", {"title": "retry", "tags": ["a"]})
    for tags, status in ((["a"] * 2_000, 200), (["a", *map(str, range(2_000))], 400)):
        assert (
            ada.ask(
                "POST", "/search", {"query": "retry", "filters": {"tags": tags}}, key=None
            ).status_code
            == status
        )


def test_body_with_countless_values_is_refused_with_one_problem(ada, raw):
    nested = b'{"a":' + b"[" * 40 + b"]" * 40 + b"}"
    for path, body in (
        ("/sync/visible", b'{"ids":[' + b"1," * 100_000 + b"1]}"),
        (
            "/observations/batch",
            b'{"observations":[{"title":"a","tags":[' + b"1," * 100_000 + b"1]}]}",
        ),
        ("/threads", b"{" + b",".join(b'"%d":1' % number for number in range(100_001)) + b"}"),
        ("/sync/flush", b"{" + b",".join(b'"%d":1' % number for number in range(101)) + b"}"),
        ("/sync/flush", b'{"actions":[' + b"1," * 100_000 + b"1]}"),
        ("/sync/flush", b'{"actions":[' + b",".join([nested] * 4_000) + b"]}"),
    ):
        error = refused(raw.ask("POST", f"/api/v2{path}", body), 400)
        assert len(error["details"]) == 1, "problems aren't counted one by one"
    text = "[,{" * 33_000
    assert (
        ada.post("/artifacts", {"title": "a", "body_md": text, "summary_md": ",[" * 900})["body_md"]
        == text
    )
    assert len(ada.get("/artifacts")) == 1


def test_invalid_list_is_reported_as_few_problems(raw):
    for path, body in (
        ("/threads", {"title": "t", "tags": [0] * 10_000}),
        (
            "/observations/batch",
            {"observations": [{"title": "t", "code_links": [{"a": 1}] * 40}] * 100},
        ),
        ("/sync/visible", {"ids": [0] * 10_000}),
    ):
        error = refused(raw.ask("POST", f"/api/v2{path}", json.dumps(body).encode()), 400)
        # A missing field, an unknown field, and that nothing is left then
        assert len(error["details"]) <= 3, error


def test_body_with_too_many_values_is_refused_unread(raw):
    for path, inner in (("/threads", "0," * 30_000), ("/sync/flush", "0," * 1_100_000)):
        error = refused(
            raw.ask("POST", f"/api/v2{path}", f'{{"actions":[{inner}0]}}'.encode()), 400
        )
        assert "values" in error["message"]


@pytest.mark.parametrize("path", ["~", "/etc/passwd", "../x", "C:\\x"])
def test_context_pack_for_code_outside_a_project_is_a_bad_request(raw, path):
    body = json.dumps({"subject": {"code_link": {"path": path}}}).encode()
    refused(raw.ask("POST", "/api/v2/packs/context", body), 400)


def test_largest_documented_batch_is_accepted(raw):
    link = {
        "path": "a.py",
        "repo": "r",
        "symbol": "s",
        "line_start": 1,
        "line_end": 2,
        "commit_sha": "c" * 40,
    }
    several = [{"title": f"seen {number}", "code_links": [link] * 16} for number in range(200)]
    status, _, text = raw.ask(
        "POST", "/api/v2/observations/batch", json.dumps({"observations": several}).encode()
    )
    assert status == 201, text[:300]


def test_object_with_too_many_names_is_one_problem(raw):
    several = [{"title": "t", **dict.fromkeys(map(str, range(20_000)), 1)}]
    error = refused(
        raw.ask(
            "POST", "/api/v2/observations/batch", json.dumps({"observations": several}).encode()
        ),
        400,
    )
    assert "names" in error["message"]
