"""Configuration of an MCP server: the log level of one family or of several."""

import pytest

from cortex.interfaces.assembly.families import resolve_request
from cortex.interfaces.assembly.mcp_server import log_level
from protocol.code_server import make_repository


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    return make_repository(tmp_path_factory.mktemp("shop"))


@pytest.mark.parametrize(
    ("variables", "level"),
    [
        ({}, "error"),
        ({"CONDUIT_MCP_LOG_LEVEL": "debug"}, "error"),
        ({"CONDUIT_MCP_LOG_LEVEL": "debug", "CORTEX_MCP_KB_LOGGING_TO_STDERR": "true"}, "debug"),
        ({"CONDUIT_MCP_LOG_LEVEL": "debug", "CORTEX_LOG_LEVEL": "warn"}, "warn"),
    ],
)
def test_documents_log_settings_apply_when_served_alone(tmp_path, variables, level):
    variables = {"CORTEX_HOME": str(tmp_path), **variables}
    assert log_level(resolve_request(["kb"], [], variables, tmp_path)) == level


def test_documents_log_settings_are_ignored_beside_other_families(repository, tmp_path):
    variables = {
        "CORTEX_HOME": str(tmp_path),
        "CORTEX_MCP_KB_LOGGING_TO_STDERR": "true",
        "CONDUIT_MCP_LOG_LEVEL": "debug",
    }
    assert log_level(resolve_request(["code", "kb"], [repository], variables, tmp_path)) == "info"
