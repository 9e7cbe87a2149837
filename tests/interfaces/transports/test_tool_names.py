"""How tools are listed: names that every client takes, short texts, one order; dots in names on
wish, both spellings callable.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import forking
from cortex.base.errors import InputError
from cortex.families import FAMILIES
from cortex.toolkit import instructions
from cortex.toolkit.tool import find_tool, input_schema, spell
from protocol import dotted_family
from protocol.client import Client
from protocol.code_server import CORTEX, CodeServer, make_repository
from protocol.golden import FOLDER
from protocol.http_client import serving

PROGRAM = str(Path(dotted_family.__file__))
NAME = re.compile(r"^[a-z][a-z0-9_]{2,31}$")
DEFINED = ["team.search", "team.record.add", "plain_name", "team_status"]
UNDERSCORED = ["team_search", "team_record_add", "plain_name", "team_status"]
MOST_BYTES = 2048  # clients cut longer texts off


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    return make_repository(tmp_path_factory.mktemp("named") / "shop")


@pytest.fixture(scope="module")
def everything(repository):
    """Every family that there is."""
    with CodeServer(repository, more=FAMILIES[1:]) as server:
        yield server


def listed(server) -> list[dict]:
    return server.request("tools/list")["result"]["tools"]


def test_every_tool_name_is_valid_for_all_clients(everything):
    assert [tool["name"] for tool in listed(everything) if not NAME.match(tool["name"])] == []


def test_tool_texts_are_short_enough_for_every_client(everything):
    assert [
        tool["name"]
        for tool in listed(everything)
        if len(tool["description"].encode()) >= MOST_BYTES
    ] == []
    assert len(everything.initialize()["result"]["instructions"].encode()) < MOST_BYTES
    prompts = everything.request("prompts/list")["result"]["prompts"]
    assert all(len(prompt["description"].encode()) < MOST_BYTES for prompt in prompts)


@pytest.mark.parametrize("parts", [[], ["x" * 5000], ["a" * 700] * 20, ["é" * 1000] * 3])
def test_instructions_of_any_families_are_short(parts):
    assert len(instructions.instructions(parts).encode()) < MOST_BYTES


def test_tools_are_listed_in_a_stable_order(everything, repository):
    first = [tool["name"] for tool in listed(everything)]
    assert len(set(first)) == len(first)
    with CodeServer(repository, more=FAMILIES[1:]) as again:
        assert (
            [tool["name"] for tool in listed(again)]
            == [tool["name"] for tool in listed(everything)]
            == first
        )


def test_the_schemas_of_every_family_are_golden():
    assert [name for name in FAMILIES if not (FOLDER / f"{name}-tools.json").exists()] == []


@pytest.mark.parametrize(("spelling", "names"), [("underscore", UNDERSCORED), ("dotted", DEFINED)])
def test_dotted_names_are_listed_on_request_and_both_spellings_can_be_called(spelling, names):
    with Client([sys.executable, PROGRAM, "stdio", spelling]) as server:
        assert [tool["name"] for tool in listed(server)] == names
        assert spelling == "dotted" or all(NAME.match(name) for name in names)
        for called, defined in zip(DEFINED + UNDERSCORED, DEFINED * 2, strict=True):
            assert server.call(called)["result"]["content"][0]["text"] == defined
        for unknown in (
            "team.record_add",
            "team_record.add",
            "plain.name",
            "team.status",
            "Team.search",
        ):
            assert server.call(unknown)["error"]["code"] == -32602


@pytest.mark.parametrize(("spelling", "names"), [("underscore", UNDERSCORED), ("dotted", DEFINED)])
def test_the_api_spells_names_like_mcp(spelling, names):
    with serving([sys.executable, PROGRAM, "http", spelling]) as server:
        assert [
            tool["name"] for tool in json.loads(server.send("GET", path="/api")[1])["tools"]
        ] == names
        paths = json.loads(server.send("GET", path="/api/openapi.json")[1])["paths"]
        assert [path for path, methods in paths.items() if "post" in methods] == [
            f"/api/{name}" for name in names
        ]
        for called, defined in zip(DEFINED + UNDERSCORED, DEFINED * 2, strict=True):
            assert server.api(called, {}) == (200, {"text": defined})


def test_exact_tool_name_comes_before_one_spelled_like_it():
    both = [
        dotted_family.FAMILY,
        dotted_family.Family("other", "", None, (dotted_family._tool("team_search"),)),
    ]
    assert find_tool(both, "team_search")[1].name == "team_search"
    assert find_tool(both, "team.search")[1].name == "team.search"
    assert (spell("a.b.c"), spell("a.b.c", dotted=True)) == ("a_b_c", "a.b.c")
    with pytest.raises(InputError, match=r"team_search"):
        find_tool(both, "team.serch")


def test_tool_names_option_takes_known_spellings_only(repository):
    with CodeServer(repository, more=["--tool-names", "dotted"]) as server:
        assert listed(server)[0]["name"] == "search_code"
    argv = [*CORTEX, "mcp", "--workspace", str(repository), "--tool-names", "camel"]
    done = forking.run(argv, capture_output=True, timeout=30, stdin=subprocess.DEVNULL)
    assert done.returncode == 2
    assert b"underscore" in done.stderr


def test_tool_schemas_contain_no_references(everything):
    for tool in listed(everything):
        assert tool["inputSchema"]["type"] == "object"
        assert "$ref" not in json.dumps(tool["inputSchema"])
    assert input_schema(dotted_family.FAMILY.tools[0])["additionalProperties"] is False
