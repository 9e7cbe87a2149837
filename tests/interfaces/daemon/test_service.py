"""Variables of clients that reach cortexd: each takes effect, or a warning names what does."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from cortex.base.errors import ConfigError
from cortex.base.runtime.home import own_variables
from cortex.base.settings import KEYS, Key, Settings
from cortex.families.chunkfiles.pool import ChunkIndexPool
from cortex.interfaces.assembly.families import SharedResources
from cortex.interfaces.assembly.pool import engine_pool
from cortex.interfaces.cli.mcp import read_arguments
from cortex.interfaces.daemon.server import ClientSession, Hello
from cortex.interfaces.daemon.service import opener
from cortex.toolkit.tool import Call, bind, find_tool, perform

# A value that isn't the default, where the kind of a setting doesn't give one.
SPECIAL = {
    "workspace.excludePatterns": "a,b",
    "indexing.strategies": "tfidf",
    "search.relevanceThreshold": "0.5",
    "server.httpToken": "a token of a test",
    "chunking.strategies": "data",
    "core.rates": "1,2,3,4,5",
    "team.agent_tier": "2",
    "mcp.kb.search.default_limit": "7",
    "kb.rag.mmr_lambda": "0.5",
    "kb.rag.semantic_weight": "0.25",
    "search.budget": "900",
    "embedding.allowed_projects": "/there",
}
KINDS = {
    "whole number": "60",
    "number": "0.5",
    "size": "1MB",
    "duration": "7s",
    "list": "x,y",
    "text": "words",
    "line of text": "words",
    "address": "http://127.0.0.1:9/v1",
    "letters, digits, _ and -": "other",
}
# They name a folder, which decides what else is found.
PLACES = ("workspace.paths",)


class Cortexd:
    """The sessions of cortexd in this process, with one set of engines for all clients."""

    def __init__(self, folder: Path) -> None:
        self.home, self.root = folder / "home", folder / "work"
        self.root.mkdir()
        (self.root / "lamp.py").write_text("def switch_lamp():\n    return 1\n", encoding="utf-8")
        self.lenders = SharedResources(engine_pool(keep=False), ChunkIndexPool())
        self._open = opener(self.lenders, read_arguments)

    def open(self, *arguments: str, **variables: str) -> ClientSession:
        """The session of a client whose variables a shim has passed on."""
        passed = own_variables({"CORTEX_HOME": str(self.home), "PATH": "/bin", **variables})
        return self._open(Hello(arguments, str(self.root), passed, "0.1.0", 1, 1))


@pytest.fixture(scope="module")
def cortexd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cortexd]:
    made = Cortexd(tmp_path_factory.mktemp("variables"))
    yield made
    made.lenders.close()


@pytest.fixture
def open_client(cortexd: Cortexd) -> Iterator[Callable[..., ClientSession]]:
    """`open_client(*arguments, NAME=value)`: a client of cortexd that ends with the test."""
    with ExitStack() as opened:

        def open_one(*arguments: str, **variables: str) -> ClientSession:
            served = cortexd.open(*arguments, **variables)
            for family in served.families:
                opened.callback(family.close)
            return served

        yield open_one


def settings_of(served: ClientSession) -> Settings:
    """The settings that a client's code tools work with."""
    (code,) = [family for family in served.families if family.name == "code"]
    return code.context.settings


def call(served: ClientSession, name: str, client: str = "", **arguments: object) -> Any:
    family, tool = find_tool(served.families, name)
    answer = perform(
        family, tool, bind(tool, arguments), Call(client=client, trace=served.identity.trace)
    )
    assert not answer.failed, answer.text
    return answer


def other_value(key: Key) -> str:
    if key.name in SPECIAL:
        return SPECIAL[key.name]
    if key.kind == "true or false":
        return "false" if key.default else "true"
    if key.kind == "choice":
        return next(choice for choice in re.split(", | or ", key.allowed) if choice != key.default)
    return KINDS[key.kind]


@pytest.mark.parametrize("place", range(max(len(key.variables) for key in KEYS)))
def test_each_variable_takes_effect_through_cortexd_or_is_warned_about(
    open_client: Callable[..., ClientSession], place: int
) -> None:
    """The first variable of every setting at once, then the second of those that have one, then the
    third.
    """
    chosen = {
        key.variables[place]: key
        for key in KEYS
        if len(key.variables) > place and key.name not in PLACES
    }
    served = open_client("code", **{variable: other_value(key) for variable, key in chosen.items()})
    settings = settings_of(served)
    for variable, key in chosen.items():
        if key.index:
            assert settings.value(key.name) == key.default
            (warning,) = [text for text in served.messages if f"{variable}:" in text]
            assert f"{key.name} is the same for all clients of an index" in warning
            assert f"`cortex config set {key.name} " in warning
        else:
            assert settings.value(key.name) == key.parse(other_value(key)), variable
            assert settings.origin(key.name) == f"environment {variable}"


@pytest.mark.parametrize(
    "variable", ["CORTEX_WORKSPACE_PATHS", "CODEINDEX_WORKSPACE_PATH", "CLAUDE_PROJECT_DIR"]
)
def test_variable_selects_the_project_through_cortexd(
    open_client: Callable[..., ClientSession], tmp_path: Path, variable: str
) -> None:
    (tmp_path / "there").mkdir()
    served = open_client("code", **{variable: str(tmp_path / "there")})
    assert [family.context.names for family in served.families] == [("there",)]


def test_index_setting_of_one_client_does_not_reach_another(
    open_client: Callable[..., ClientSession],
) -> None:
    first = open_client("code", CODEINDEX_CHUNK_SIZE="50")
    second = open_client("code")
    call(first, "reindex_workspace")
    notes = json.loads(call(first, "search_code", query="switch_lamp").text)["metadata"]["notes"]
    assert [
        note for note in notes if "CODEINDEX_CHUNK_SIZE" in note and "250 counts" in note
    ] == notes
    answer = json.loads(call(second, "search_code", query="switch_lamp").text)
    assert "notes" not in answer["metadata"]
    assert [
        family.context.settings.indexing.chunk_size
        for session in (first, second)
        for family in session.families
    ] == [250] * 2
    with (
        first.families[0].context.open() as [(_, one)],
        second.families[0].context.open() as [(_, two)],
    ):
        assert one is two


def test_documents_limit_variable_reaches_cortexd(
    open_client: Callable[..., ClientSession],
) -> None:
    (kb,) = open_client("kb", CONDUIT_MCP_MAX_LIMIT="6").families
    (tool,) = [tool for tool in kb.tools if tool.name == "kb_search"]
    with pytest.raises(Exception, match="6"):
        bind(tool, {"query": "x", "limit": 7})
    with pytest.raises(ConfigError, match="CONDUIT_MCP_MAX_LIMIT"):
        open_client("kb", CONDUIT_MCP_MAX_LIMIT="junk")


def lines(caplog: pytest.LogCaptureFixture) -> Sequence[str]:
    return [record.getMessage() for record in caplog.records if record.name == "cortex.calls"]


def test_debug_client_has_its_calls_logged_without_content(
    open_client: Callable[..., ClientSession], caplog: pytest.LogCaptureFixture
) -> None:
    quiet, loud = open_client("code"), open_client("code", CODEINDEX_LOG_LEVEL="debug")
    call(loud, "reindex_workspace")
    call(quiet, "search_code", query="switch_lamp")
    caplog.clear()
    call(loud, "search_code", client="editor 1.2", query="switch_lamp")
    (line,) = lines(caplog)
    assert line.startswith("editor 1.2: search_code: ")
    assert line.endswith(" ms, 1 hits")
    assert "lamp" not in line


def test_documents_log_level_applies_to_their_tools_only(
    open_client: Callable[..., ClientSession], caplog: pytest.LogCaptureFixture
) -> None:
    messages: list[str] = []
    for variables in (
        {"CONDUIT_MCP_LOG_LEVEL": "debug"},
        {"CONDUIT_MCP_LOG_LEVEL": "debug", "CORTEX_MCP_KB_LOGGING_TO_STDERR": "true"},
        {"CONDUIT_MCP_LOG_LEVEL": "debug", "CORTEX_LOG_LEVEL": "info"},  # which counts for all
        {},
    ):
        caplog.clear()
        messages.clear()
        served = open_client("kb", **variables)
        assert served.log_sink is not None
        served.log_sink.pass_on = messages.append
        call(served, "kb_stats")
        wanted = (
            variables.get("CONDUIT_MCP_LOG_LEVEL") == "debug"
            and "CORTEX_LOG_LEVEL" not in variables
        )
        assert [line.partition(" ms")[0].rpartition(":")[0] for line in lines(caplog)] == (
            ["a client: kb_stats"] if wanted else []
        )
        assert bool(messages) is ("CORTEX_MCP_KB_LOGGING_TO_STDERR" in variables)
