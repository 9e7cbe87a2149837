"""Answers of a Core are checked before use and fail with the class that says what to do."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import fields, is_dataclass
from typing import Any, get_args, get_origin, get_type_hints

import pytest

from cortex.base.errors import CortexError, InputError, NetworkError
from cortex.base.record_model import KINDS, Artifact, Record, Thread
from cortex.base.record_spec import fields_of
from cortex.base.text import holds_more
from cortex.engine.store import VersionedRecord
from cortex.families.team.ids import new_id
from cortex.families.team.sync import client as remotes
from cortex.families.team.sync import pull
from cortex.families.team.sync.client import (
    Denied,
    Offline,
    Oversized,
    Remote,
    Resync,
    ServerRejected,
)
from cortex.families.team.wire.codec import record_to
from engine.embedders.stub import Reply
from families.team.sync.fake_core import LOST, TOKEN, FakeCore


@pytest.fixture
def remote(core: FakeCore) -> Iterator[Remote]:
    remote = Remote(core.url, TOKEN)
    yield remote
    remote.close()


def refusal(ask: Callable[[], object]) -> CortexError:
    with pytest.raises(CortexError) as caught:
        ask()
    error = caught.value
    assert TOKEN not in f"{error.message} {error.context} {error.suggestions}"
    return error


def error_reply(status: int, code: str, **detail: str) -> Reply:
    return Reply(
        {"error": {"code": code, "message": f"because of {TOKEN}", "details": [detail]}}, status
    )


def test_bootstrap_names_the_principal(remote):
    greeting = remote.bootstrap()
    assert (greeting.name, greeting.tier, greeting.epoch, greeting.view) == ("ada", 4, "e1", "v1")


def test_page_has_changed_and_removed_records(core, remote):
    core.write(first := new_id(Thread), Thread("One"))
    core.write(second := new_id(Thread), Thread("Two"))
    core.hide(first)
    page = remote.deltas("", "", 500)
    assert [record.record.id for record in page.records] == [second] and page.invalidations == (
        first,
    )
    assert (page.cursor, page.more) == ("e1:3", False)


@pytest.mark.parametrize(
    ("reply", "kind", "code"),
    [
        (LOST, Offline, "CORE_UNAVAILABLE"),
        (Reply({}, 500), Offline, "CORE_UNAVAILABLE"),
        (Reply(raw=b"<html>", status=502), Offline, "CORE_UNAVAILABLE"),
        (Reply({}, 429), Offline, "CORE_UNAVAILABLE"),
        (error_reply(401, "AUTH_REQUIRED"), Denied, "CORE_DENIED"),
        (error_reply(403, "PERMISSION_DENIED"), Denied, "CORE_DENIED"),
        (error_reply(400, "VALIDATION_ERROR"), ServerRejected, "CORE_REFUSED"),
        (Reply({}, 307, {"Location": "https://elsewhere.example"}), ServerRejected, "CORE_REFUSED"),
        (Reply(raw=b"<html>Log in to the network</html>"), ServerRejected, "CORE_ANSWER"),
        (Reply({"hello": "world"}), ServerRejected, "CORE_ANSWER"),
        (Reply({"data": {"principal": {"name": 1}}}), ServerRejected, "CORE_ANSWER"),
        (Reply({"data": []}), ServerRejected, "CORE_ANSWER"),
        (Reply({}, 404), ServerRejected, "CORE_ANSWER"),
        (Reply(raw=b"[" * 100_000), ServerRejected, "CORE_ANSWER"),
        (
            Reply(raw=b'{"data": {"principal": {"name": "ada", "tier": "x"}}}'),
            ServerRejected,
            "CORE_ANSWER",
        ),
    ],
)
def test_every_bad_answer_has_its_error_class(core, remote, reply, kind, code):
    core.faults.append(reply)
    error = refusal(remote.bootstrap)
    assert (type(error), error.code) == (kind, code)
    assert remote.bootstrap().name == "ada"


@pytest.mark.parametrize(
    "page",
    [
        {},
        {"updates": 1},
        {
            "updates": [],
            "invalidations": [1],
            "next_cursor": "",
            "has_more": 0,
            "epoch": "",
            "view": "",
        },
        {
            "updates": [{"id": "../x"}],
            "invalidations": [],
            "next_cursor": "",
            "has_more": 0,
            "epoch": "",
            "view": "",
        },
        {
            "updates": [],
            "invalidations": [],
            "next_cursor": None,
            "has_more": 0,
            "epoch": "",
            "view": "",
        },
    ],
)
def test_unreadable_page_is_refused(core, remote, page):
    core.faults.append(Reply({"data": page}))
    assert refusal(lambda: remote.deltas("", "", 500)).code == "CORE_ANSWER"


def test_results_of_unsent_actions_are_refused(core, remote):
    for results in (
        [{"idempotency_key": "other", "status": "applied", "records": []}],
        [{"idempotency_key": "a", "status": "done", "records": []}],
        [
            {"idempotency_key": "a", "status": "applied"},
            {"idempotency_key": "a", "status": "applied"},
        ],
        [None],
    ):
        core.faults.append(Reply({"data": {"results": results}}))
        assert refusal(lambda: remote.flush([{"idempotency_key": "a"}])).code == "CORE_ANSWER"


@pytest.mark.parametrize("reason", ["epoch", "view"])
def test_resync_demand_carries_its_reason(core, remote, reason):
    core.faults.append(error_reply(410, "RESYNC_NEEDED", reason=reason))
    with pytest.raises(Resync) as caught:
        remote.deltas("e0:1", "", 500)
    assert caught.value.reason == reason


def test_retry_after_is_read(core, remote):
    core.faults.append(Reply({}, 503, {"Retry-After": "17"}))
    with pytest.raises(Offline) as caught:
        remote.bootstrap()
    assert caught.value.retry_after == 17


def test_page_with_too_many_bytes_is_requested_in_smaller_ones(core, monkeypatch):
    monkeypatch.setattr(remotes, "MAX_ANSWER_BYTES", 10_000)
    for place in range(20):
        core.write(new_id(Thread), Thread(f"Topic {place}", body="x" * 1_000))
    remote = Remote(core.url, TOKEN)
    page = remote.deltas("", "", 500)
    assert 0 < len(page.records) < 10 and page.more
    core.write(new_id(Thread), Thread("Large", body="x" * 20_000))
    assert refusal(lambda: remote.deltas("e1:20", "v1", 500)).code == "CORE_ANSWER"
    remote.close()


def test_page_with_too_many_values_is_requested_in_smaller_ones(core, remote, monkeypatch):
    monkeypatch.setattr(remotes, "MAX_VALUES", 200)
    for place in range(20):
        # Which is one value
        core.write(new_id(Thread), Thread(f"Topic {place}", body="[{,}]" * 1_000))
    page = remote.deltas("", "", 500)
    assert 0 < len(page.records) < 20 and page.more
    core.write(new_id(Thread), Thread("Large", tags=("tag",) * 200))
    assert refusal(lambda: remote.deltas("e1:20", "v1", 500)).code == "CORE_ANSWER"


@pytest.mark.parametrize("unit", ['{"":[]}', "0", '""'])
def test_answer_with_too_many_values_is_not_parsed(core, remote, unit):
    many = f'{{"data": {{"principal": [{",".join([unit] * 700_000)}]}}}}'.encode()
    core.faults.append(Reply(raw=many))
    error = refusal(remote.bootstrap)
    assert isinstance(error, Oversized) and "more than 600,000 values" in error.message
    core.faults.append(Reply(raw=many, status=503))
    assert isinstance(refusal(remote.bootstrap), Offline)


def test_answer_is_decoded_as_utf_8(core, remote):
    body = {
        "data": {
            "principal": {"name": "ada", "tier": 4, "sensitive": True},
            "epoch": "e1",
            "view": "v1",
        }
    }
    for encoding, code in (("utf-8", ""), ("utf-16", "CORE_ANSWER"), ("utf-32", "CORE_ANSWER")):
        core.faults.append(Reply(raw=json.dumps(body).encode(encoding)))
        assert (refusal(remote.bootstrap).code if code else remote.bootstrap().name) == (
            code or "ada"
        )


def test_page_of_the_largest_records_is_read_whole():
    """By all values that they may hold; by their size with texts that are plain and long, as the
    longest are.
    """
    artifact = Artifact(
        "Runbook",
        body="x" * fields_of(Artifact)["body"].limit,
        summary="x" * fields_of(Artifact)["summary"].limit,
    )
    assert pull.PAGE * len(encoded(artifact)) < remotes.MAX_ANSWER_BYTES
    for kind in KINDS.values():
        assert not holds_more(encoded(fullest(kind)) * pull.PAGE, remotes.MAX_VALUES)


def encoded(body: Any) -> bytes:
    record = Record(new_id(type(body)), body, "ada", 1, 1, 1)
    return (
        json.dumps(
            record_to(VersionedRecord(record, 1)), ensure_ascii=False, separators=(",", ":")
        ).encode()
        + b","
    )


def fullest(kind: type) -> Any:
    """An object with every field set and as many values as allowed.

    The sources of a summary: one for 20 letters.
    """
    hints, values = get_type_hints(kind), {}
    for name in (field.name for field in fields(kind)):
        inner = next(iter(get_args(hints[name])), None)
        one = (
            fullest(inner)
            if is_dataclass(inner)
            else ("x", "x")
            if get_origin(inner) is tuple
            else "x"
        )
        most = fields_of(kind)[name].most or fields_of(Thread)["summary"].limit // 20
        values[name] = 1 if hints[name] is int else "x" if inner is None else (one,) * most
    return kind(**values)


def test_silent_core_times_out(monkeypatch):
    monkeypatch.setattr(remotes, "ANSWER_SECONDS", 0.1)
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        remote = Remote(f"http://127.0.0.1:{listener.getsockname()[1]}", TOKEN)
        error = refusal(remote.bootstrap)
        remote.close()
    assert isinstance(error, Offline) and "0.1 s" in error.message


def test_close_ends_a_running_request():
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        remote = Remote(f"http://127.0.0.1:{listener.getsockname()[1]}", TOKEN)
        errors: list[CortexError] = []
        asking = threading.Thread(target=lambda: errors.append(refusal(remote.bootstrap)))
        asking.start()
        connection, _ = listener.accept()
        connection.recv(1)
        started = time.monotonic()
        remote.close()
        asking.join(10)
        connection.close()
    assert [type(error) for error in errors] == [Offline] and time.monotonic() - started < 5


@pytest.mark.parametrize(
    "url", ["http://core.example", "http://192.168.1.2:8790", "http://localhost.example"]
)
def test_token_is_sent_over_http_to_this_machine_only(url):
    error = refusal(lambda: Remote(url, TOKEN))
    assert isinstance(error, NetworkError) and error.code == "ADDRESS_REFUSED"
    Remote(url, TOKEN, plain=True).close()
    Remote(url.replace("http:", "https:"), TOKEN).close()


@pytest.mark.parametrize(
    "url", ["", "core.example", "ftp://core.example", "https://ada:secret@core.example"]
)
def test_malformed_address_is_refused(url):
    error = refusal(lambda: Remote(url, TOKEN))
    assert isinstance(error, InputError) and "secret" not in error.message


def test_token_is_in_one_header_only(core, remote):
    remote.bootstrap()
    (asked,) = core.stub.asked
    assert asked.headers["Authorization"] == f"Bearer {TOKEN}"
    assert TOKEN not in asked.path and TOKEN not in json.dumps(
        {**asked.headers, "Authorization": ""}
    )


def test_unreadable_certificates_are_not_reported_as_offline(core, monkeypatch, tmp_path):
    (empty := tmp_path / "empty.pem").write_text("nothing")
    for file in (tmp_path / "nowhere.pem", empty):
        monkeypatch.setenv("SSL_CERT_FILE", str(file))
        remote = Remote(core.url.replace("http:", "https:"), TOKEN)
        error = refusal(remote.bootstrap)
        remote.close()
        assert (
            isinstance(error, ServerRejected)
            and error.code == "CORE_REFUSED"
            and "SSL_CERT_FILE" in error.suggestions[0]
        )
    assert not core.stub.asked


@pytest.mark.skipif(shutil.which("openssl") is None, reason="nothing makes a certificate here")
def test_configured_certificate_is_trusted(tmp_path, monkeypatch):
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    make = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-days",
        "1",
    ]
    names = ["-subj", "/CN=core", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run(
        [*make, *names, "-keyout", str(key), "-out", str(certificate)],
        check=True,
        capture_output=True,
    )
    core = FakeCore(tls=(certificate, key))
    remote = Remote(core.url, TOKEN)
    error = refusal(remote.bootstrap)
    remote.close()
    assert (
        isinstance(error, ServerRejected)
        and error.code == "CORE_REFUSED"
        and "SSL_CERT_FILE" in error.suggestions[0]
    )
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    remote = Remote(core.url, TOKEN)
    assert remote.bootstrap().name == "ada"
    remote.close()
    core.close()
