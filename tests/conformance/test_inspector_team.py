"""The MCP Inspector's command line with the team's tools: every tool is listed and called."""

import json

import pytest

from conformance.node import install, run
from conformance.test_inspector import PACKAGE, VERSION
from protocol.code_server import CORTEX
from protocol.team_project import NAMES, make_team_project, valid_calls

pytestmark = [pytest.mark.soak, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return make_team_project(tmp_path_factory.mktemp("inspected"))


@pytest.fixture
def inspect(place):
    """Ask one method; gives the result."""
    node, folder = install(PACKAGE, VERSION)
    script = folder / "clients" / "launcher" / "build" / "index.js"
    variables = place.environment()
    variables = [
        part
        for name in ("HOME", "CORTEX_HOME", "CORTEX_NO_SIDECAR")
        for part in ("-e", f"{name}={variables[name]}")
    ]

    def ask(method: str, *more: str) -> dict:
        command = [*CORTEX, "mcp", "team", "--workspace", str(place.root), *variables]
        done = run(
            [
                node,
                script,
                "--cli",
                *command,
                "--format",
                "json",
                "--quiet",
                "--method",
                method,
                *more,
            ]
        )
        assert done.returncode == 0, done.stderr + done.stdout
        body = json.loads(done.stdout)
        return body.get("result", body)

    return ask


def test_every_tool_is_listed_and_called(inspect, place):
    assert [tool["name"] for tool in inspect("tools/list", "--strict")["tools"]] == NAMES
    for name, arguments in valid_calls(place, "inspector").items():
        assignments = [
            f"{key}={value if isinstance(value, str) else json.dumps(value)}"
            for key, value in arguments.items()
        ]
        more = [part for argument in assignments for part in ("--tool-arg", argument)]
        answer = inspect("tools/call", "--tool-name", name, *more)
        assert not answer.get("isError"), answer
        assert json.loads(answer["content"][0]["text"])["success"]
