"""`cortex mcp` as the settings have it: what it calls itself, and how it speaks where no flag says."""

import os
import socket
import subprocess
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

import pytest

import forking
from cortex.interfaces.assembly.families import resolve_request
from cortex.interfaces.assembly.mcp_server import log_level
from cortex.toolkit.terminal.workspace import find_for
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
def test_a_client_is_told_the_name_and_version_that_are_set(repository, environment, name, number):
    with CodeServer(repository, env=os.environ | environment) as server:
        told = server.initialize()["result"]["serverInfo"]
        assert (told["name"], told["version"]) == (name, number)


def test_with_transport_http_it_listens_on_this_machine_without_a_flag(repository):
    # By us, or by whoever has it now: either way the server says where it wanted to be
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


def test_a_project_can_not_make_the_server_listen(tmp_path):
    root = make_repository(
        tmp_path, {"codeindex.config.json": '{"server": {"name": "Theirs", "transport": "http"}}'}
    )
    with CodeServer(root) as server:
        assert server.initialize()["result"]["serverInfo"]["name"] == "Theirs"
        assert server.close() == 0


def test_a_clients_variable_that_nobody_filled_in_names_no_folder(repository):
    found, warnings = find_for([Path("${workspaceFolder}")], {}, repository)
    assert ([one.root for one in found], warnings) == ([repository.resolve()], [])


@pytest.mark.parametrize(
    ("variables", "level"),
    [
        ({}, "error"),
        ({"CONDUIT_MCP_LOG_LEVEL": "debug"}, "error"),
        ({"CONDUIT_MCP_LOG_LEVEL": "debug", "CORTEX_MCP_KB_LOGGING_TO_STDERR": "true"}, "debug"),
        ({"CONDUIT_MCP_LOG_LEVEL": "debug", "CORTEX_LOG_LEVEL": "warn"}, "warn"),
    ],
)
def test_where_documents_alone_are_served_their_own_settings_say_what_is_logged(
    tmp_path, variables, level
):
    variables = {"CORTEX_HOME": str(tmp_path), **variables}
    assert log_level(resolve_request(["kb"], [], variables, tmp_path)) == level


def test_beside_other_families_documents_have_no_say_in_what_is_logged(repository, tmp_path):
    variables = {
        "CORTEX_HOME": str(tmp_path),
        "CORTEX_MCP_KB_LOGGING_TO_STDERR": "true",
        "CONDUIT_MCP_LOG_LEVEL": "debug",
    }
    assert log_level(resolve_request(["code", "kb"], [repository], variables, tmp_path)) == "info"
