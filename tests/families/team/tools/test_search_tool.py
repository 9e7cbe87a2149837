"""The search tool: recommended calls, filters and families."""

from __future__ import annotations

import ast
import base64
import re
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime

import pytest

from cortex.base.errors import LimitError
from cortex.base.types import Cancel, Page, Query
from cortex.engine.search.federated import SearchTarget
from cortex.families.team import tools
from cortex.families.team.tools.search_tool import moment
from cortex.interfaces.assembly.pool import engine_pool
from cortex.toolkit.pagination import MAX_OFFSET
from cortex.toolkit.tool import Family
from families.team.tools.conftest import ToolCaller


def called(caller, text: str):
    """The answer to a call as an answer recommends it."""
    name, arguments = re.fullmatch(r"cortex_(\w+)\((.*)\)", text).groups()
    parsed = ast.parse(f"f({arguments})", mode="eval").body
    assert isinstance(parsed, ast.Call)
    return caller.ask(
        name,
        **{
            keyword.arg: ast.literal_eval(keyword.value)
            for keyword in parsed.keywords
            if keyword.arg
        },
    )


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("search", {"query": "token", "types": ["threads", "artifacts"], "limit": 1}),
        ("search", {"query": "token", "filters": {"subcortex": "auth", "since": "30d"}, "limit": 1}),
        ("get_inbox", {"include": ["tasks", "reviews"], "limit": 1}),
        ("get_bootstrap_pack", {"scope": "subcortex:auth", "budget": 300}),
        ("get_context_pack", {"subject": {"subcortex_slug": "auth"}, "include": {"contradictions": False}, "budget": 200}),
    ],
)  # fmt: skip
def test_recommended_next_call_repeats_the_query(caller, name, arguments):
    text = caller.ask(name, **arguments)["meta"]["next_recommended_call"]
    assert all(
        f"{argument}=" in text for argument in arguments if argument not in ("limit", "budget")
    ), text
    called(caller, text)


def test_long_query_is_not_truncated_in_the_next_call(caller):
    text = caller.ask("search", query="how long does a token live " * 6, limit=1)["meta"][
        "next_recommended_call"
    ]
    assert text.startswith("cortex_search(query=…, cursor='")


@pytest.mark.parametrize("types", [None, ["threads", "artifacts"]])
@pytest.mark.parametrize("offset", [20_000_000, MAX_OFFSET - 1])
def test_cursor_beyond_the_last_hit_gives_no_results(caller, types, offset):
    asked = {"query": "token", "limit": 1, **({"types": types} if types else {})}
    _, _, question = base64.urlsafe_b64decode(
        caller.data("search", **asked)["next_cursor"]
    ).partition(b":")
    data = caller.data(
        "search", **asked, cursor=base64.urlsafe_b64encode(b"%d:%s" % (offset, question)).decode()
    )
    assert data["note"] == "nothing found" and not data.get("results")


def test_unknown_state_is_refused_with_the_known_ones(caller):
    error = caller.fault("search", query="token", types=["tasks"], filters={"status": "open"})
    assert error["code"] == "INVALID_FILTER" and "in_progress" in error["message"]
    assert caller.data(
        "search", query="lifetime", types=["tasks"], filters={"status": "in_progress"}
    )["results"]


def test_failing_family_does_not_hide_results_of_others(world):
    def busy() -> AbstractContextManager[list[SearchTarget]]:
        def ask(query: Query, cancel: Cancel) -> Page:
            raise LimitError("INDEX_BUSY", "it is being built")

        return nullcontext([SearchTarget("chunks", "chunks", ask)])

    family = Family("chunks", "", None, (), places=busy)
    caller = ToolCaller(
        tools.open_family(world.settings(), engine_pool(keep=False), [world.workspace()], (family,))
    )
    try:
        data = caller.data("search", query="token")
        assert (
            data["notes"] == ["chunks could not be searched: it is being built"] and data["results"]
        )
        assert caller.fault("search", query="token", types=["chunks"])["code"] == "SERVER_ERROR"
    finally:
        caller.family.close()


def test_until_includes_its_day_in_utc():
    assert (
        moment("2026-01-31", "until")
        == moment("2026-02-01", "since")
        == moment("2026-02-01T00:00Z", "until")
    )
    assert moment("2026-01-31T12:00", "until") == moment("2026-01-31T14:00+02:00", "since")
    assert moment("", "until") == 0
    assert moment("9999-12-31", "until") > moment("9999-12-31", "since")


def test_record_changed_today_is_found_until_today(caller):
    today = datetime.now(UTC).strftime("%Y-%m-%d")
    assert caller.data("search", query="token lives", filters={"until": today})["results"]
