"""Tools: schema and binding from one definition."""

import json
from dataclasses import replace
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ConfigDict, Field
from pydantic.alias_generators import to_camel

from cortex.base.errors import FileError, InputError
from cortex.toolkit.tool import (
    Answer,
    Arguments,
    Call,
    Family,
    Tool,
    Whole,
    bind,
    find_tool,
    input_schema,
    perform,
)


class Range(Arguments):
    start: Whole = Field(ge=1)
    end: Whole | None = Field(None, ge=1)


class Search(Arguments):
    """Not for the schema."""

    model_config = ConfigDict(alias_generator=to_camel)

    query: str
    max_results: Whole = Field(50, ge=1, le=200, description="Maximum")
    threshold: float = Field(0.65, ge=0.0, le=1.0)
    strategy: Literal["auto", "words"] = "auto"
    file_types: tuple[str, ...] | None = Field(None, examples=[["py"]])
    line_range: Range | None = Field(None, description="Lines")
    path: str | None = Field(None, json_schema_extra={"default": None})
    title: str = ""


def run(context: object, arguments: Search, call: Call) -> Answer:
    if arguments.query == "known":
        raise FileError("FILE_NOT_FOUND", "gone")
    return Answer(str(1 / arguments.max_results))


SEARCH = Tool(
    "test", "search", "Search", "Use it to find.", Search, run, writes=False, idempotent=True
)
FAMILY = Family("test", "", None, (SEARCH,))


def test_a_schema_is_plain_and_keeps_defaults_and_ranges():
    assert input_schema(SEARCH) == {
        "type": "object",
        "additionalProperties": False,
        "required": ["query"],
        "properties": {
            "query": {"type": "string"},
            "maxResults": {
                "type": "number",
                "default": 50,
                "minimum": 1,
                "maximum": 200,
                "description": "Maximum",
            },
            "threshold": {"type": "number", "default": 0.65, "minimum": 0.0, "maximum": 1.0},
            "strategy": {"type": "string", "enum": ["auto", "words"], "default": "auto"},
            "fileTypes": {"type": "array", "items": {"type": "string"}, "examples": [["py"]]},
            "lineRange": {
                "type": "object",
                "additionalProperties": False,
                "required": ["start"],
                "properties": {
                    "start": {"type": "number", "minimum": 1},
                    "end": {"type": "number", "minimum": 1},
                },
                "description": "Lines",
            },
            "path": {"type": "string", "default": None},
            "title": {"type": "string", "default": ""},
        },
    }


def test_arguments_are_bound_with_jsons_types():
    given = {
        "query": "x",
        "maxResults": 7.0,
        "fileTypes": ["py"],
        "lineRange": {"start": 2},
        "path": None,
    }
    bound = bind(SEARCH, given)
    assert isinstance(bound, Search)
    assert (bound.max_results, bound.file_types, bound.line_range) == (7, ("py",), Range(start=2))


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (None, "`query` is required"),
        ({"query": None}, "`query`"),
        ({"query": "x", "maxresult": 1}, "did you mean `maxResults`?"),
        ({"query": "x", "zzz": 1}, "known: query"),
        ({"query": "x", "lineRange": {"strat": 1}}, "did you mean `start`?"),
        ({"query": "x", "lineRange": {"start": 1, "end": 0}}, "`lineRange.end`"),
        ({"query": "x", "maxResults": True}, "`maxResults`"),
        ({"query": "x", "maxResults": float("inf")}, "`maxResults`"),
        ({"query": "x", "maxResults": 1.5}, "`maxResults`"),
        ({"query": "x", "maxResults": 0}, "greater than or equal to 1"),
        ({"query": "x", "threshold": float("nan")}, "`threshold`"),
        ({"query": "\ud800"}, "Unicode"),
    ],
)
def test_invalid_arguments_are_rejected_with_a_hint(arguments, hint):
    with pytest.raises(InputError) as refused:
        bind(SEARCH, arguments)
    assert refused.value.code == "ARGUMENT_INVALID"
    assert hint in refused.value.message


VALUES = (
    st.none()
    | st.booleans()
    | st.floats()
    | st.text(max_size=200)
    | st.lists(st.text(max_size=5), max_size=3)
)


@given(
    st.dictionaries(
        st.sampled_from(["query", "maxResults", "fileTypes"]) | st.text(max_size=200),
        VALUES,
        max_size=8,
    )
)
def test_any_arguments_are_bound_or_refused_briefly(arguments):
    try:
        bind(SEARCH, arguments)
    except InputError as refused:
        assert len(refused.message) < 2000


def test_an_unknown_tool_names_the_nearest():
    with pytest.raises(InputError, match="did you mean `search`"):
        find_tool([FAMILY], "serch")


def test_messages_name_a_tool_without_dots():
    dotted = replace(SEARCH, name="cortex.search")
    with pytest.raises(InputError, match="did you mean `cortex_search`"):
        find_tool([replace(FAMILY, tools=(dotted,))], "cortex.serch")
    with pytest.raises(InputError, match=r"known: cortex_search$"):
        find_tool([replace(FAMILY, tools=(dotted,))], "zzz")
    with pytest.raises(InputError, match=r"^cortex_search: ") as refused:
        bind(dotted, {})
    assert refused.value.context == {"tool": "cortex_search"}


def test_error_of_a_tool_is_rendered_by_its_family():
    assert perform(FAMILY, SEARCH, Search(query="x", maxResults=2), Call()) == Answer("0.5")
    failed = perform(FAMILY, SEARCH, Search(query="known"), Call())
    assert failed.failed
    assert json.loads(failed.text)["error"]["code"] == "FILE_NOT_FOUND"
    broken = perform(FAMILY, SEARCH, Search.model_construct(query="x", max_results=0), Call())
    assert json.loads(broken.text)["error"]["code"] == "INTERNAL_ERROR"
