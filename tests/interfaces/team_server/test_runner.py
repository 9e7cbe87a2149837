"""Serving a Core: addresses, certificates, signals."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from cortex.base.errors import ConfigError, InputError, NetworkError
from cortex.engine.store.records.ledger import open_ledger
from cortex.interfaces.team_server import principals
from cortex.interfaces.team_server.runner import address_of, check_address, serve_core

SERVER = Path(__file__).parent / "core_process.py"


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "core.example"])
def test_address_beyond_this_machine_needs_a_certificate_or_a_proxy(host):
    with pytest.raises(NetworkError) as raised:
        check_address(host, tls=False, behind_proxy=False)
    assert raised.value.code == "ADDRESS_REFUSED" and "--tls-cert" in raised.value.suggestions[0]
    check_address(host, tls=True, behind_proxy=False)
    check_address(host, tls=False, behind_proxy=True)
    with pytest.raises(NetworkError, match="localOnly"):
        check_address(host, tls=True, behind_proxy=True, local_only=True)


def test_loopback_address_needs_no_certificate():
    for host in ("127.0.0.1", "localhost", "::1", "[::1]"):
        check_address(host, tls=False, behind_proxy=False)


def test_unusable_certificate_is_refused_before_serving(settings, folder):
    (folder / "ledger").mkdir()
    (folder / "cert.pem").write_text("nothing", encoding="utf-8")
    with open_ledger(f"sqlite:///{folder / 'ledger'}") as ledger:
        with pytest.raises(InputError, match="give both"):
            serve_core(ledger, settings, folder / "ledger", tls_cert=folder / "cert.pem")
        for name in ("cert.pem", "missing.pem"):
            with pytest.raises(ConfigError, match="can't be used"):
                serve_core(
                    ledger,
                    settings,
                    folder / "ledger",
                    port=0,
                    tls_cert=folder / name,
                    tls_key=folder / name,
                )


def test_taken_address_is_refused(settings, folder):
    (folder / "ledger").mkdir()
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        open_ledger(f"sqlite:///{folder / 'ledger'}") as ledger,
    ):
        assert address_of(taken, secure=True).startswith("https://127.0.0.1:")
        with pytest.raises(NetworkError, match="can't listen"):
            serve_core(ledger, settings, folder / "ledger", port=taken.getsockname()[1])


@contextmanager
def serving(folder: Path, *certificate: Path) -> Iterator[tuple[subprocess.Popen[str], str, str]]:
    """A Core in a process of its own, its address, and a token."""
    with open_ledger(f"sqlite:///{folder}") as ledger:
        ada = principals.add(ledger, "ada", 4, True, {"*": True})
        token = ledger.principals.make_token(ada.id)[1]
    command = [sys.executable, str(SERVER), str(folder), *map(str, certificate)]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8"
    )
    assert process.stdout is not None
    try:
        yield process, process.stdout.readline().strip(), token
    finally:
        process.kill()
        process.communicate(timeout=10)


@pytest.mark.skipif(os.name == "nt", reason="there is no SIGTERM to send")
def test_signal_ends_the_server_after_answering_the_open_request(folder):
    with serving(folder) as (process, address, token):
        where = urlsplit(address)
        connection = http.client.HTTPConnection(where.hostname or "", where.port, timeout=20)
        body = json.dumps({"title": "under way"}).encode()
        connection.putrequest("POST", "/api/v2/threads")
        for name, value in {
            "Authorization": f"Bearer {token}",
            "Idempotency-Key": "one",
            "Content-Type": "application/json",
            "Content-Length": str(len(body)),
            # It is answered when the body is asked for: then the request is under way
            "Expect": "100-continue",
        }.items():
            connection.putheader(name, value)
        connection.endheaders()
        assert connection.sock.recv(100).startswith(b"HTTP/1.1 100")
        process.send_signal(signal.SIGTERM)
        connection.send(body)
        response = connection.getresponse()
        assert (response.status, json.loads(response.read())["data"]["title"]) == (201, "under way")
        connection.close()
        _, log = process.communicate(timeout=20)
        assert process.returncode == 0
        lines = [json.loads(line) for line in log.splitlines()]
        assert [line["status"] for line in lines if line.get("route") == "/api/v2/threads"] == [201]
    with open_ledger(f"sqlite:///{folder}") as ledger:
        assert ledger.records.last_change() == 1


@pytest.mark.skipif(shutil.which("openssl") is None, reason="nothing makes a certificate here")
def test_server_with_a_certificate_speaks_only_tls(folder):
    cert, key = folder / "cert.pem", folder / "key.pem"
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
    name = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run(
        [*make, "-keyout", str(key), "-out", str(cert), *name],
        check=True,
        capture_output=True,
        timeout=30,
    )
    with serving(folder, cert, key) as (_, address, token):
        where = urlsplit(address)
        assert where.scheme == "https"
        trust = ssl.create_default_context(cafile=str(cert))
        connection = http.client.HTTPSConnection(
            where.hostname or "", where.port, timeout=20, context=trust
        )
        connection.request("GET", "/api/v2/me", headers={"Authorization": f"Bearer {token}"})
        assert json.loads(connection.getresponse().read())["data"]["name"] == "ada"
        connection.close()
        plain = http.client.HTTPConnection(where.hostname or "", where.port, timeout=20)
        with pytest.raises((http.client.HTTPException, ConnectionError)):
            plain.request("GET", "/health")
            plain.getresponse()
        plain.close()
