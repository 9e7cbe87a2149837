"""The contract of the code family: schemas, resources, prompts, instructions, golden answers.

CORTEX_GOLDEN=write renews the golden files; then look at the difference before it is committed.
"""

import pytest

from protocol.golden import check_golden

CONTRACT = {
    "search_code": {
        "properties": {
            "query": {"type": "string"},
            "maxResults": {"type": "number", "default": 50, "minimum": 1, "maximum": 200},
            "strategy": {
                "type": "string",
                "enum": ["auto", "embeddings", "tfidf", "fullworkspace"],
                "default": "auto",
            },
            "threshold": {"type": "number", "default": 0.65, "minimum": 0.0, "maximum": 1.0},
            "fileTypes": {
                "type": "array",
                "items": {"type": "string"},
                "examples": [["ts", "js"], ["py"], ["*"]],
            },
        },
        "required": ["query"],
    },
    "reindex_workspace": {
        "properties": {
            "force": {"type": "boolean", "default": False},
            "path": {"type": "string", "default": None},
            "strategy": {
                "type": "string",
                "enum": ["embeddings", "tfidf", "both"],
                "default": "both",
            },
        }
    },
    "update_config": {
        "properties": {
            "settings": {
                "type": "object",
                "additionalProperties": False,
                "properties": {
                    "chunkSize": {"type": "number", "minimum": 50, "maximum": 1000},
                    "embeddingProvider": {"type": "string", "enum": ["openai", "ollama", "local"]},
                    "maxFiles": {"type": "number", "minimum": 100, "maximum": 100000},
                    "cacheSize": {"type": "string", "pattern": "^\\d+[KMGT]B$"},
                },
            },
            "restart": {"type": "boolean", "default": False},
        },
        "required": ["settings"],
    },
    "get_file_context": {
        "properties": {
            "path": {"type": "string"},
            "lineRange": {
                "type": "object",
                "additionalProperties": False,
                "properties": {
                    "start": {"type": "number", "minimum": 1},
                    "end": {"type": "number", "minimum": 1},
                },
            },
            "contextLines": {"type": "number", "default": 10, "minimum": 0, "maximum": 100},
        },
        "required": ["path"],
    },
    "find_similar_code": {
        "properties": {
            "code": {"type": "string"},
            "language": {
                "type": "string",
                "examples": ["typescript", "python", "javascript", "go"],
            },
            "maxResults": {"type": "number", "default": 20, "minimum": 1, "maximum": 100},
        },
        "required": ["code"],
    },
}
OUTPUT = {
    "type": "object",
    "properties": {
        "results": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "file": {"type": "string"},
                    "chunk": {
                        "type": "object",
                        "properties": {
                            "text": {"type": "string"},
                            "startLine": {"type": "number"},
                            "endLine": {"type": "number"},
                        },
                    },
                    "relevance": {"type": "number"},
                    "context": {"type": "object"},
                },
            },
        },
        "metadata": {
            "type": "object",
            "properties": {
                "strategy": {"type": "string"},
                "executionTime": {"type": "number"},
                "totalResults": {"type": "number"},
            },
        },
    },
}
OURS = {"workspace", "budget", "cursor"}


def tools_of(server) -> dict:
    return {tool["name"]: tool for tool in server.request("tools/list")["result"]["tools"]}


def without_descriptions(schema):
    if isinstance(schema, dict):
        return {
            key: without_descriptions(value)
            for key, value in schema.items()
            if key != "description"
        }
    return schema


def test_five_tools_are_listed_in_order_of_use(server):
    assert list(tools_of(server)) == list(CONTRACT)


@pytest.mark.parametrize("name", list(CONTRACT))
def test_input_schema_is_the_contract_plus_optional_arguments(server, name):
    schema = without_descriptions(tools_of(server)[name]["inputSchema"])
    assert schema["type"] == "object"
    assert schema.get("required", []) == CONTRACT[name].get("required", [])
    own = {key: schema["properties"][key] for key in schema["properties"] if key not in OURS}
    assert own == CONTRACT[name]["properties"]


def test_every_argument_is_described_and_every_tool_has_all_four_annotations(server):
    for tool in tools_of(server).values():
        for name, schema in tool["inputSchema"]["properties"].items():
            assert schema.get("description"), (tool["name"], name)
        hints = {key: value for key, value in tool["annotations"].items() if key != "title"}
        assert set(hints) == {"readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"}
        assert hints["readOnlyHint"] is (tool["name"] not in ("reindex_workspace", "update_config"))
        assert hints["openWorldHint"] is False
        assert tool["description"].split()[:2] == ["Use", "this"]


def test_search_tools_declare_their_output_schema(server):
    tools = tools_of(server)
    assert tools["search_code"]["outputSchema"] == OUTPUT
    assert tools["find_similar_code"]["outputSchema"] == OUTPUT


def test_instructions_are_under_two_kilobytes_and_name_the_tools(server):
    instructions = server.initialize()["result"]["instructions"]
    assert len(instructions.encode()) < 2048
    for name in ("search_code", "get_file_context", "find_similar_code", "reindex_workspace"):
        assert name in instructions
    check_golden("code-instructions", {"instructions": instructions})


def test_lists_match_their_golden_files(server):
    check_golden("code-tools", server.request("tools/list")["result"]["tools"])
    check_golden("code-resources", server.request("resources/list")["result"]["resources"])
    check_golden(
        "code-resource-templates",
        server.request("resources/templates/list")["result"]["resourceTemplates"],
    )
    check_golden("code-prompts", server.request("prompts/list")["result"]["prompts"])


def test_resources_and_templates_have_the_addresses_of_the_contract(server):
    fixed = {
        resource["uri"] for resource in server.request("resources/list")["result"]["resources"]
    }
    assert fixed == {"codeindex://workspace/status", "codeindex://workspace/stats"}
    templates = {
        template["uriTemplate"]
        for template in server.request("resources/templates/list")["result"]["resourceTemplates"]
    }
    assert templates == {
        "codeindex://workspace/status{?workspace,cursor}",
        "codeindex://workspace/stats{?workspace}",
        "codeindex://search/{query}{?maxResults,strategy,threshold,workspace}",
        "codeindex://file/{+path}/chunks{?workspace,cursor}",
    }


@pytest.mark.parametrize(
    ("name", "tool", "arguments"),
    [
        ("search", "search_code", {"query": "parse an invoice number", "maxResults": 1}),
        ("search-small-budget", "search_code", {"query": '"article"', "budget": 250}),
        ("search-exact", "search_code", {"query": '"please pay"'}),
        (
            "similar",
            "find_similar_code",
            {"code": "sum(prices[a] * n for a, n in lines)", "maxResults": 1},
        ),
        ("file", "get_file_context", {"path": "shop/basket.py"}),
        (
            "file-range",
            "get_file_context",
            {"path": "web/cart.ts", "lineRange": {"start": 4}, "contextLines": 1},
        ),
    ],
)
def test_answer_matches_its_golden_file(server, name, tool, arguments):
    check_golden(f"code-answer-{name}", server.tool(tool, **arguments))


@pytest.mark.parametrize(
    ("name", "tool", "arguments"),
    [
        ("outside", "get_file_context", {"path": "../secret"}),
        ("unknown-workspace", "search_code", {"query": "a", "workspace": "nowhere"}),
        ("empty-query", "search_code", {"query": " "}),
    ],
)
def test_error_matches_its_golden_file(server, name, tool, arguments):
    check_golden(f"code-error-{name}", server.failure(tool, **arguments))


@pytest.mark.parametrize(
    ("name", "uri"),
    [
        ("status", "codeindex://workspace/status"),
        ("stats", "codeindex://workspace/stats"),
        ("search", "codeindex://search/parse%20an%20invoice%20number?maxResults=1"),
        ("chunks", "codeindex://file/shop/payment/invoice.py/chunks"),
    ],
)
def test_resource_matches_its_golden_file(server, name, uri):
    check_golden(f"code-resource-{name}", server.read(uri))


def test_prompts_fill_in_the_templates_of_the_contract(server):
    def render(name, **arguments):
        result = server.request("prompts/get", {"name": name, "arguments": arguments})["result"]
        (message,) = result["messages"]
        assert message["role"] == "user"
        return message["content"]["text"]

    assert render("code-search", intent="find the login") == (
        "Search the codebase for: find the login\n\nPlease provide relevant code snippets that help with this task."
    )
    assert render("code-search", intent="find it", context="a shop", language="Go") == (
        "Search the codebase for: find it\n\nAdditional context: a shop\n\nFocus on Go code.\n\n"
        "Please provide relevant code snippets that help with this task."
    )
    plain = render("workspace-overview")
    assert plain.startswith("Analyze this workspace and provide:\n\n1. **Project Structure**")
    assert "5." not in plain
    assert "\n5. **Security Analysis**: Detailed analysis of Security\n" in render(
        "workspace-overview", focus="Security"
    )
    assert (
        server.request("prompts/get", {"name": "code-search", "arguments": {}})["error"]["code"]
        == -32602
    )
    listed = {
        prompt["name"]: prompt["arguments"]
        for prompt in server.request("prompts/list")["result"]["prompts"]
    }
    assert [(argument["name"], argument["required"]) for argument in listed["code-search"]] == [
        ("intent", True),
        ("context", False),
        ("language", False),
    ]
    assert [
        (argument["name"], argument["required"]) for argument in listed["workspace-overview"]
    ] == [("focus", False)]
