"""The MCP Inspector's command line as a foreign client: both transports, both eras of the protocol."""

import json
import os

import pytest

from conformance.node import install, run
from protocol.code_server import CORTEX, make_repository
from protocol.http_client import serving

PACKAGE, VERSION = "@modelcontextprotocol/inspector", "2.12.0"
TOOLS = [
    "search_code",
    "reindex_workspace",
    "update_config",
    "get_file_context",
    "find_similar_code",
]
SEARCH = ("--tool-name", "search_code", "--tool-arg", "query=parse_invoice_number")

pytestmark = [pytest.mark.soak, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def command(tmp_path_factory):
    root = make_repository(tmp_path_factory.mktemp("inspected") / "shop")
    return [*CORTEX, "mcp", "code", "--workspace", str(root)]


@pytest.fixture(scope="module", params=["stdio", "http"])
def target(request, command):
    if request.param == "stdio":
        # The Inspector hands on few variables to the server that it starts: where Cortex is at home
        # must be said.
        yield [
            *command,
            *(
                part
                for name in ("HOME", "CORTEX_HOME", "CORTEX_NO_SIDECAR")
                for part in ("-e", f"{name}={os.environ[name]}")
            ),
        ]
    else:
        with serving([*command, "--http", "127.0.0.1:0"]) as server:
            yield [server.url, "--transport", "http"]


@pytest.fixture(params=["legacy", "modern"])
def inspect(request, target):
    """Ask one method; gives the result."""
    node, folder = install(PACKAGE, VERSION)
    script = folder / "clients" / "launcher" / "build" / "index.js"

    def ask(method: str, *more: str) -> dict:
        flags = ("--protocol-era", request.param, "--format", "json", "--quiet", "--method", method)
        done = run([node, script, "--cli", *target, *flags, *more])
        assert done.returncode == 0, done.stderr + done.stdout
        body = json.loads(done.stdout)
        return body.get("result", body)

    return ask


def test_tools_are_listed_and_called(inspect):
    assert [tool["name"] for tool in inspect("tools/list", "--strict")["tools"]] == TOOLS
    answer = json.loads(inspect("tools/call", *SEARCH)["content"][0]["text"])
    assert answer["results"][0]["file"] == "shop/payment/invoice.py"


def test_resources_are_listed_and_read(inspect):
    assert "codeindex://workspace/status" in [
        resource["uri"] for resource in inspect("resources/list")["resources"]
    ]
    contents = inspect("resources/read", "--uri", "codeindex://workspace/status")["contents"]
    assert "indexing" in json.loads(contents[0]["text"])
    assert inspect("resources/templates/list")["resourceTemplates"]


def test_prompts_are_listed_and_got(inspect):
    assert "code-search" in [prompt["name"] for prompt in inspect("prompts/list")["prompts"]]
    assert inspect("prompts/get", "--prompt-name", "workspace-overview")["messages"]
