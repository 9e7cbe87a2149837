"""`cortex mcp` by its settings: name, version and transport of the server."""

import os
import socket
import subprocess
from contextlib import suppress
from importlib.metadata import version

import pytest

import forking
from protocol.code_server import CORTEX, CodeServer, make_repository


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    return make_repository(tmp_path_factory.mktemp("shop"))


@pytest.mark.parametrize(
    ("environment", "name", "number"),
    [
        ({}, "cortex", version("cortex-context")),
        ({"CORTEX_SERVER_NAME": "Shop", "CORTEX_SERVER_VERSION": "2.1"}, "Shop", "2.1"),
    ],
)
def test_server_reports_the_configured_name_and_version(repository, environment, name, number):
    with CodeServer(repository, env=os.environ | environment) as server:
        info = server.initialize()["result"]["serverInfo"]
        assert (info["name"], info["version"]) == (name, number)


def test_transport_setting_http_listens_without_a_flag(repository):
    # The port is taken by us or by another process; the error names it either way
    with socket.socket() as taken:
        with suppress(OSError):
            taken.bind(("127.0.0.1", 8765))
            taken.listen()
        argv = [*CORTEX, "mcp", "--workspace", str(repository)]
        environment = os.environ | {"CORTEX_SERVER_TRANSPORT": "http"}
        done = forking.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=30, env=environment
        )
    assert done.returncode == 1
    assert "8765" in done.stderr.decode()
    assert done.stdout == b""


def test_project_settings_cannot_make_the_server_listen(tmp_path):
    root = make_repository(
        tmp_path, {"codeindex.config.json": '{"server": {"name": "Theirs", "transport": "http"}}'}
    )
    with CodeServer(root) as server:
        assert server.initialize()["result"]["serverInfo"]["name"] == "Theirs"
        assert server.close() == 0
