"""The memory tools: contract, answers, and no way to write."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from cortex.base.errors import CortexError, InputError
from cortex.base.settings import Settings, load
from cortex.base.types import Memory, MemoryState
from cortex.engine.citations import cite
from cortex.engine.library import Library
from cortex.families.memory.curation import edit, judge
from cortex.families.memory.mirror import sync
from cortex.families.memory.tools import TOOLS, MemorySession, open_family
from cortex.families.memory.tools.definitions import QUERY_BUDGET
from cortex.families.memory.writer import add
from cortex.interfaces.assembly.pool import engine_pool
from cortex.toolkit.tool import Answer, Call, Family, bind, find_tool, input_schema, perform
from families.memory.adapters.claude_mem_databases import START, MadeDatabase, make_claude_mem
from protocol.golden import check_golden

CONTRACT = {
    "query_memories": {
        "description": "Search memories from Tier-2 storage. Use when you encounter a problem or need guidance on a specific technology, pattern, or gotcha.",
        "properties": {
            "query": {
                "type": "string",
                "description": "Free text search across title, subtitle, facts",
            },
            "tags": {
                "type": "array",
                "items": {"type": "string"},
                "description": "Filter by concept tags (e.g., ['deployment', 'railway'])",
            },
            "project": {
                "type": "string",
                "description": "Filter by project name. Omit to search all projects.",
            },
            "scope": {
                "type": "string",
                "description": "Memory scope: 'dev', 'personal', or project name",
            },
            "status": {
                "type": "string",
                "enum": ["staging", "approved", "all"],
                "description": "Filter by curation status (default: approved)",
            },
            "limit": {"type": "number", "description": "Max results (default: 10, max: 50)"},
        },
    },
    "get_memory": {
        "description": "Get full details of a memory by ID. Use after query_memories to get complete context.",
        "properties": {
            "id": {
                "type": "string",
                "description": "Memory ID (e.g., 'ack_abc123_2026-01-04_001')",
            },
            "scope": {"type": "string", "description": "Memory scope if known"},
        },
        "required": ["id"],
    },
    "list_scopes": {
        "description": "List available memory scopes and their statistics.",
        "properties": {},
    },
    "get_context": {
        "description": "Get context for current project including recent memories, decisions, and learnings. Use at session start.",
        "properties": {
            "project_path": {
                "type": "string",
                "description": "Repository path. Defaults to current working directory.",
            },
            "include_cross_project": {
                "type": "boolean",
                "description": "Include cross-project learnings (default: true)",
            },
            "max_memories": {
                "type": "number",
                "description": "Max memories to include (default: 5)",
            },
        },
    },
}
OURS = {"budget", "cursor"}
SUGGESTIONS = [
    "Try broader search terms",
    "Use list_scopes to check available scopes",
    "Recent sessions may not be indexed yet",
]
RAILWAY = {
    "subtitle": "Build-time env vars require NIXPACKS_ prefix for Nixpacks builds",
    "facts": [
        "NIXPACKS_ prefix required for build-time env vars",
        "Runtime vars work without prefix",
    ],
    "concepts": ["railway", "deployment", "env-vars"],
}


def settings_in(place: Path, **flags: object) -> Settings:
    variables = {"CORTEX_HOME": str(place / "home"), "ACK_MEM_PATH": str(place / "ack")}
    return load(
        None, environment=variables, flags={"indexing.workers": 1, **flags}, user_home=place
    )


@dataclass(frozen=True, slots=True)
class Caller:
    """Caller of the tools of one family."""

    family: Family

    def answer(self, name: str, **arguments: object) -> Answer:
        family, tool = find_tool([self.family], name)
        return perform(family, tool, bind(tool, arguments), Call())

    def ask(self, name: str, **arguments: object) -> dict[str, Any]:
        answer = self.answer(name, **arguments)
        assert not answer.failed, answer.text
        return json.loads(answer.text)

    def fault(self, name: str, **arguments: object) -> dict[str, Any]:
        answer = self.answer(name, **arguments)
        assert answer.failed
        return json.loads(answer.text)

    def titles(self, **arguments: object) -> list[str]:
        return [row["title"] for row in self.ask("query_memories", **arguments)["results"]]


def fill(made: MadeDatabase) -> None:
    """A database as the contract's examples have it."""
    made.memory("ack_abc123_2026-01-04_001", "Railway env vars need NIXPACKS_ prefix", session_id="abc123", **RAILWAY, files_touched=["railway.toml", ".env.example"], created_at="2026-01-04T10:30:00Z", created_at_epoch=1_767_522_600_000)  # fmt: skip
    made.memory("lamps_1_2026-01-03_001", "Lamps flicker at noon", "lamps", concepts=["lamp", "deployment"], created_at_epoch=1_767_436_200_000)  # fmt: skip
    made.insert("overviews", session_id="abc123", content="Configured Railway deployment with proper env vars", project="ack", created_at="2026-01-04T11:00:00Z", created_at_epoch=1_767_524_400_000)  # fmt: skip
    made.insert("streaming_sessions", claude_session_id="abc123", sdk_session_id="own", project="ack", title="Railway Deployment Setup", started_at="2026-01-04T10:00:00Z", started_at_epoch=1_767_520_800_000)  # fmt: skip


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("memory")
    made = make_claude_mem(place / "ack" / "claude-mem.db", "3")
    fill(made)
    made.close()
    (place / "code" / "ack" / ".git").mkdir(parents=True)
    with Library(settings_in(place)) as library:
        assert sync(library)
        parts = {"project": "ack", "created": 1_767_000_000_000, "date": "2025-12-29"}
        keep(
            library,
            "Approved by hand",
            "mem_0000000001",
            **parts,
            concepts=("hand",),
            facts=("It was so",),
        )
        keep(library, "Waits for somebody", "mem_0000000002", MemoryState.STAGING, **parts)
        judge(
            library,
            [keep(library, "Counts everywhere", "mem_0000000003", **{**parts, "project": "mill"})],
            "promote",
        )
        judge(
            library, [keep(library, "Was wrong", "mem_0000000004", **parts)], "reject", reason="no"
        )
    return place


def keep(
    library: Library, title: str, key: str, state: MemoryState = MemoryState.APPROVED, **parts: Any
):
    """Add a memory with a given id."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("secrets.token_hex", lambda size: key.removeprefix("mem_"))
        add(library, Memory("", title, **parts), state=state)
    return library.store.memories.by_key(key)[0]


def open_for(settings: Settings, folder: Path, scope: str = "", *, keep: bool = False) -> Family:
    return open_family(settings, engine_pool(keep=keep), folder, scope)


@pytest.fixture(scope="module")
def caller(place: Path) -> Iterator[Caller]:
    family = open_for(settings_in(place), place / "code" / "ack")
    yield Caller(family)
    family.close()


@pytest.fixture
def caller_of() -> Iterator[Callable[..., Caller]]:
    opened: list[Family] = []

    def open_one(settings: Settings, folder: Path, scope: str = "", **more: bool) -> Caller:
        opened.append(open_for(settings, folder, scope, **more))
        return Caller(opened[-1])

    yield open_one
    for family in opened:
        family.close()


# -- the contract
# --------------------------------------------------------------------------------------------------


def test_the_tools_and_their_arguments_are_those_of_the_contract():
    assert [tool.name for tool in TOOLS] == list(CONTRACT)
    for tool in TOOLS:
        promised, schema = CONTRACT[tool.name], input_schema(tool)
        assert tool.description.startswith(promised["description"])
        described = {
            name: {
                key: value
                for key, value in part.items()
                if key in ("type", "items", "enum", "description")
            }
            for name, part in schema["properties"].items()
            if name not in OURS
        }
        assert described == promised["properties"]
        assert schema.get("required", []) == promised.get("required", [])
        assert not tool.writes


@pytest.mark.parametrize("limit", [0, 51, -1, 2.5, "5x", None, [], 10**30])
def test_a_limit_out_of_bounds_is_refused(caller, limit):
    with pytest.raises(InputError):
        caller.answer("query_memories", limit=limit)


@pytest.mark.parametrize("limit", [1, 2.0, 50])
def test_a_limit_within_bounds_counts(caller, limit):
    assert len(caller.ask("query_memories", limit=limit)["results"]) == min(4, limit)


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("query_memories", {"status": "rejected"}),
        ("query_memories", {"tags": "deployment"}),
        ("query_memories", {"tags": ["x"] * 51}),
        ("query_memories", {"unknown": 1}),
        ("get_memory", {}),
        ("get_memory", {"id": 7}),
        ("get_context", {"max_memories": -1}),
        ("get_context", {"include_cross_project": "perhaps"}),
        ("list_scopes", {"x": 1}),
    ],
)
def test_arguments_that_the_contract_does_not_know_are_refused(caller, tool, arguments):
    with pytest.raises(InputError):
        caller.answer(tool, **arguments)


# -- query_memories
# ----------------------------------------------------------------------------------------------------


def test_results_match_their_golden_files(caller):
    check_golden(
        "memory-answer-query", caller.ask("query_memories", tags=["deployment", "railway"])
    )
    check_golden("memory-answer-newest", caller.ask("query_memories"))
    check_golden("memory-answer-all", caller.ask("query_memories", status="all", project="ack"))


@pytest.mark.parametrize(
    ("arguments", "first"),
    [
        ({"query": "nixpacks prefix"}, "Railway env vars need NIXPACKS_ prefix"),
        (
            {"query": "env vars at build time", "project": "ACK"},
            "Railway env vars need NIXPACKS_ prefix",
        ),
        ({"query": "flickering lamp"}, "Lamps flicker at noon"),
        ({"query": "wait for somebody", "status": "staging"}, "Waits for somebody"),
    ],
)
def test_best_match_comes_first(caller, arguments, first):
    assert caller.titles(**arguments)[0] == first


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ("approved", {"Railway env vars need NIXPACKS_ prefix", "Lamps flicker at noon", "Approved by hand", "Counts everywhere"}),
        ("staging", {"Waits for somebody"}),
        ("all", {"Railway env vars need NIXPACKS_ prefix", "Lamps flicker at noon", "Approved by hand", "Counts everywhere", "Waits for somebody"}),
    ],
)  # fmt: skip
def test_status_selects_the_results(caller, status, expected):
    assert set(caller.titles(status=status)) == expected


def test_result_names_its_status_unless_approved(caller):
    rows = {row["title"]: row for row in caller.ask("query_memories", status="all")["results"]}
    standing = {title: (row.get("status"), row.get("curated")) for title, row in rows.items()}
    assert standing == {
        "Railway env vars need NIXPACKS_ prefix": (None, False),
        "Lamps flicker at noon": (None, False),
        "Approved by hand": (None, None),
        "Counts everywhere": ("promoted", None),
        "Waits for somebody": ("staging", None),
    }


def test_uncurated_rows_are_marked_where_they_count_as_staging(place, caller_of, tmp_path):
    made = make_claude_mem(tmp_path / "ack" / "claude-mem.db", "3")
    fill(made)
    made.close()
    settings = settings_in(tmp_path, **{"memory.uncurated": "staging"})
    with Library(settings) as library:
        sync(library)
    caller = caller_of(settings, tmp_path)
    assert caller.titles() == []
    row = caller.ask("query_memories", status="staging")["results"][0]
    assert (row["status"], row["curated"]) == ("staging", False)
    assert caller.ask("get_memory", id="lamps_1_2026-01-03_001")["status"] == "staging"


@pytest.mark.parametrize(
    "arguments",
    [
        {"query": "xylophone"},
        {"tags": ["nothing"]},
        {"query": "railway", "project": "x", "tags": ["y"]},
    ],
)
def test_no_results_come_with_suggestions(caller, arguments):
    assert caller.ask("query_memories", **arguments) == {"results": [], "suggestions": SUGGESTIONS}


def test_a_page_goes_on_where_the_last_one_ended(caller):
    seen, cursor, pages = [], None, 0
    while True:
        page = caller.ask(
            "query_memories", limit=3, status="all", **({"cursor": cursor} if cursor else {})
        )
        seen += [row["id"] for row in page["results"]]
        pages += 1
        cursor = page.get("next_cursor")
        if not cursor:
            break
    assert pages == 2 and len(seen) == len(set(seen)) == page["total"] == 5


@pytest.mark.parametrize("cursor", ["", "x", "MTphYmM=", "é", "A" * 10_000])
def test_invalid_cursor_is_refused(caller, cursor):
    assert caller.fault("query_memories", cursor=cursor)["error"] == "CURSOR_INVALID"


def test_cursor_of_another_query_is_refused(caller):
    cursor = caller.ask("query_memories", limit=1)["next_cursor"]
    assert (
        caller.fault("query_memories", limit=1, project="ack", cursor=cursor)["error"]
        == "CURSOR_INVALID"
    )


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Caller]:
    place = tmp_path_factory.mktemp("crowd")
    made = make_claude_mem(place / "ack" / "claude-mem.db")
    made.many(120)
    made.close()
    with Library(settings_in(place)) as library:
        sync(library)
        keep(library, "A long story", "mem_00000000aa", text='He said "yes".\n' * 2_000, facts=tuple(f"Fact number {n} of many" for n in range(150)), files=tuple(f"src/{n}.py" for n in range(150)))  # fmt: skip
    family = open_for(settings_in(place), place)
    yield Caller(family)
    family.close()


@pytest.mark.parametrize("budget", [200, 400, 1_000, None])
@pytest.mark.parametrize("query", ["", "login fails in staging"])
def test_an_answer_keeps_to_its_budget_and_goes_on_without_losing_any(crowd, budget, query):
    arguments = {"query": query, "limit": 20, **({"budget": budget} if budget else {})}
    seen, cursor = [], None
    for _ in range(60):
        text = crowd.answer(
            "query_memories", **arguments, **({"cursor": cursor} if cursor else {})
        ).text
        assert len(text) <= 4 * (budget or QUERY_BUDGET)
        page = json.loads(text)
        seen += [row["id"] for row in page["results"]]
        cursor = page.get("next_cursor")
        if cursor is None or len(seen) >= 60:
            break
    assert len(seen) == len(set(seen)) >= 60


def test_result_without_room_is_a_short_row(crowd):
    rows = crowd.ask("query_memories", query="login", limit=30)["results"]
    short = [row for row in rows if row.get("more") == "get_memory"]
    assert (
        "facts" in rows[0]
        and short
        and all(set(row) <= {"id", "title", "concepts", "more", "status"} for row in short)
    )
    assert all(len(json.dumps(row)) < 240 for row in short)


@pytest.mark.parametrize("tool", ["query_memories", "get_memory", "get_context"])
def test_a_budget_too_small_for_anything_is_refused(caller, tool):
    arguments = {"id": "mem_0000000001"} if tool == "get_memory" else {}
    assert caller.fault(tool, budget=100, **arguments)["error"] == "BUDGET_TOO_SMALL"


@pytest.mark.parametrize("budget", [200, 500, 4_000])
def test_a_memory_larger_than_the_budget_is_cut_and_says_so(crowd, budget):
    answer = crowd.answer("get_memory", id="mem_00000000aa", budget=budget).text
    assert len(answer) <= budget * 4
    assert json.loads(answer)["truncated"] is True


# -- get_memory
# --------------------------------------------------------------------------------------------------------


def test_memory_matches_its_golden_file(caller):
    whole = caller.ask("get_memory", id="ack_abc123_2026-01-04_001")
    check_golden("memory-answer-memory", whole)
    assert list(whole)[:10] == [
        "id",
        "title",
        "subtitle",
        "facts",
        "concepts",
        "files",
        "project",
        "session",
        "date",
        "created_at",
    ]
    assert whole["session_context"]["title"] == "Railway Deployment Setup"


@pytest.mark.parametrize(
    ("key", "state"),
    [("mem_0000000004", "rejected"), ("mem_0000000002", "staging"), ("mem_0000000003", "promoted")],
)
def test_memory_opens_by_its_id_in_every_state(caller, key, state):
    answer = caller.ask("get_memory", id=key)
    assert (answer["status"], answer["reviewed_by"]) == (state, "person") and answer[
        "reviewed_at"
    ].endswith("Z")


def test_unknown_id_is_an_error_with_suggestions(caller):
    fault = caller.fault("get_memory", id="obs_77")
    assert (fault["error"], fault["context"]) == ("MEMORY_UNKNOWN", {"id": "obs_77"})
    assert fault["suggestions"]


def test_ambiguous_id_is_an_error_with_its_candidates(caller_of, tmp_path):
    for scope in ("dev", "personal"):
        made = make_claude_mem(tmp_path / "ack" / "scopes" / scope / "memory.db")
        made.observation(made.session("s"), f"In {scope}")
        made.close()
    settings = settings_in(tmp_path)
    with Library(settings) as library:
        sync(library)
    caller = caller_of(settings, tmp_path)
    fault = caller.fault("get_memory", id="obs_1")
    assert (fault["error"], fault["context"]["candidates"]) == (
        "MEMORY_AMBIGUOUS",
        ["dev:obs_1", "personal:obs_1"],
    )
    assert caller.ask("get_memory", id="obs_1", scope="personal")["title"] == "In personal"
    wrong = caller.fault("get_memory", id="dev:obs_1", scope="personal")
    assert wrong["error"] == "MEMORY_UNKNOWN" and wrong["message"].endswith(
        "in scope 'personal'; it is in: dev"
    )
    assert {row["id"] for row in caller.ask("query_memories")["results"]} == {
        "dev:obs_1",
        "personal:obs_1",
    }
    assert caller.ask("get_memory", id="dev:obs_1")["title"] == "In dev"
    assert [
        (scope["name"], scope["memory_count"]) for scope in caller.ask("list_scopes")["scopes"]
    ] == [("dev", 1), ("personal", 1)]
    assert caller.titles(scope="DEV") == ["In dev"]


def test_superseded_memory_names_its_successor(caller_of, tmp_path):
    settings = settings_in(tmp_path)
    with Library(settings) as library:
        old = keep(library, "Cut on Monday", "mem_0000000001")
        keep(library, "Cut on Friday", "mem_0000000002")
        from cortex.families.memory.curation import supersede

        supersede(library, old, library.store.memories.by_key("mem_0000000002")[0])
    answer = caller_of(settings, tmp_path).ask("get_memory", id="mem_0000000001")
    assert (answer["status"], answer["superseded_by"]) == ("superseded", "mem_0000000002")


# -- list_scopes and get_context
# ---------------------------------------------------------------------------------------


def test_scopes_match_their_golden_file(caller):
    check_golden("memory-answer-scopes", caller.ask("list_scopes"))


def test_first_list_of_scopes_has_uncopied_rows_and_empty_folders(caller_of, tmp_path):
    made = make_claude_mem(tmp_path / "ack" / "scopes" / "dev" / "memory.db")
    made.observation(made.session("s"), "In dev")
    made.close()
    (tmp_path / "ack" / "scopes" / "personal").mkdir()
    found = caller_of(settings_in(tmp_path), tmp_path, keep=True).ask("list_scopes")
    assert [
        (row["name"], row["memory_count"], bool(row["last_updated"])) for row in found["scopes"]
    ] == [("dev", 1, True), ("personal", 0, False)]
    assert found["scopes"][1]["path"] == str(tmp_path / "ack" / "scopes" / "personal")


def test_current_scope_is_the_named_one_or_the_project(caller, caller_of, place):
    assert caller.ask("list_scopes")["current_scope"] == "ack"
    assert (
        caller_of(settings_in(place), place / "code" / "ack", "dev").ask("list_scopes")[
            "current_scope"
        ]
        == "dev"
    )


def test_context_of_a_project_matches_its_golden_file(caller, place):
    found = caller.ask("get_context")
    assert found["project"] == {"name": "ack", "path": str(place / "code" / "ack")}
    check_golden("memory-answer-context", found)


def test_context_of_another_project_is_found_by_its_path(caller, place):
    (place / "code" / "lamps").mkdir(exist_ok=True)
    for path in ("../lamps", str(place / "code" / "lamps"), "../lamps/../lamps/"):
        found = caller.ask("get_context", project_path=path)
        assert found["project"] == {"name": "lamps", "path": str(place / "code" / "lamps")}
        assert [row["title"] for row in found["recent_memories"]] == ["Lamps flicker at noon"]
    assert caller.ask("get_context", include_cross_project=False)["cross_project_learnings"] == []
    assert len(caller.ask("get_context", max_memories=1)["recent_memories"]) == 1


@pytest.mark.parametrize(
    "path", ["~nobody-at-all/x", "/nowhere/at/all", "x" * 4_000, "~", ".", "", "/"]
)
def test_context_of_a_missing_folder_is_noted(caller, path):
    found = caller.ask("get_context", project_path=path)
    assert found["recent_sessions"] is not None
    assert any("is not a folder here" in note for note in found.get("notes", ())) == (
        path not in ("~", ".", "", "/")
    )


def test_path_with_a_null_character_is_refused(caller):
    assert caller.fault("get_context", project_path="a\0b")["error"] == "ARGUMENT_INVALID"


# -- no database, stale code, fresh rows
# -------------------------------------------------------------------------------


@pytest.mark.parametrize("tool", list(CONTRACT))
def test_missing_database_is_an_error_with_its_path(caller_of, tmp_path, tool):
    caller = caller_of(settings_in(tmp_path), tmp_path)
    fault = caller.fault(tool, **({"id": "x"} if tool == "get_memory" else {}))
    assert fault["error"] == "Memory database not found"
    assert fault["message"] == "Run claude-mem to start capturing memories"
    assert fault["path"] == str(tmp_path / "ack" / "claude-mem.db")


def test_own_memory_answers_without_a_database(caller_of, tmp_path):
    with Library(settings_in(tmp_path)) as library:
        keep(library, "Lamps are blue", "mem_0000000001")
    assert caller_of(settings_in(tmp_path), tmp_path).titles() == ["Lamps are blue"]


def test_memory_with_changed_cited_code_is_marked_maybe_stale(caller_of, tmp_path):
    shop = tmp_path / "shop"
    shop.mkdir()
    (shop / "cart.py").write_text("def total(cart):\n    return sum(cart)\n", encoding="utf-8")
    settings = settings_in(tmp_path)
    with Library(settings) as library:
        record = keep(library, "Carts are summed", "mem_0000000001")
        view = library.view_in(shop)
        edit(library, record, record.memory, citations=[cite(shop, "cart.py:total", view)])
    caller = caller_of(settings, shop)
    assert "maybe_stale" not in caller.ask("get_memory", id="mem_0000000001")
    (shop / "cart.py").write_text("def total(cart):\n    return max(cart)\n", encoding="utf-8")
    assert "total" in caller.ask("get_memory", id="mem_0000000001")["maybe_stale"][0]
    assert "total" in caller.ask("query_memories")["results"][0]["maybe_stale"][0]


def test_new_rows_are_in_the_answers_without_a_restart(caller_of, tmp_path, until):
    made = make_claude_mem(tmp_path / "ack" / "claude-mem.db")
    session = made.session("s1")
    made.observation(session, "Apples")
    caller = caller_of(settings_in(tmp_path), tmp_path, keep=True)
    until(lambda: caller.titles() == ["Apples"])
    made.observation(session, "Pears", created_at_epoch=START + 5)
    until(lambda: caller.titles() == ["Pears", "Apples"])
    made.connection.execute("DELETE FROM observations WHERE title = 'Apples'")
    made.connection.commit()
    until(lambda: caller.titles(query="apples pears") == ["Pears"])
    made.close()


def test_newest_rows_of_an_uncopied_database_answer(caller_of, tmp_path):
    made = make_claude_mem(tmp_path / "ack" / "claude-mem.db")
    made.many(20_000)
    made.observation(made.session("last"), "Zebras count coins", created_at_epoch=START + 10**9)
    made.close()
    with Library(settings_in(tmp_path)) as holder:
        # The holder copies nothing
        assert holder.holds_lease()
        answer = caller_of(settings_in(tmp_path), tmp_path).ask(
            "query_memories", query="count zebras"
        )
        assert (
            answer["results"][0]["title"] == "Zebras count coins"
            and answer["results"][0]["curated"] is False
        )
        assert "are being indexed" in answer["notes"][-1]


def test_unreadable_database_is_a_note(caller_of, tmp_path):
    (tmp_path / "ack").mkdir()
    (tmp_path / "ack" / "claude-mem.db").write_bytes(b"junk" * 1_000)
    with Library(settings_in(tmp_path)) as library:
        sync(library)
    caller = caller_of(settings_in(tmp_path), tmp_path)
    for tool in ("query_memories", "list_scopes", "get_context"):
        assert "claude-mem.db" in caller.ask(tool)["notes"][0]


# -- no way to write
# ----------------------------------------------------------------------------------------------------


def test_library_of_a_tool_is_read_only(caller, place):
    context = caller.family.context
    assert isinstance(context, MemorySession)
    with context.open() as library:
        record = library.store.memories.by_key("mem_0000000001")[0]
        from cortex.families.memory.curation import delete

        for attempt in (
            lambda: add(library, Memory("", "Written by a tool")),
            lambda: judge(library, [record], "reject"),
            lambda: delete(library, [record]),
            lambda: edit(library, record, Memory("", "Changed by a tool")),
            lambda: library.store.memories.want([("/x", "")]),
        ):
            with pytest.raises(CortexError) as refused:
                attempt()
            assert refused.value.code == "STORE_READ_ONLY"
        with (
            library.store._connections.read() as connection,
            pytest.raises(Exception, match=r"readonly|read-only"),
        ):
            connection.execute("DELETE FROM memories")
    assert len(caller.titles()) == 4


@pytest.mark.parametrize("budget", [200, 300, 1_000])
def test_the_context_keeps_to_its_budget_with_its_notes(caller_of, tmp_path, budget):
    (tmp_path / "shop").mkdir()
    settings = settings_in(tmp_path)
    for scope in ("one", "two"):
        folder = tmp_path / "ack" / "scopes" / scope
        folder.mkdir(parents=True)
        (folder / "memory.db").write_bytes(b"junk" * 1_000)
    with Library(settings) as library:
        for number in range(12):
            concepts = tuple(f"concept {part} " * 20 for part in range(4))
            keep(
                library,
                f"Lamp {number} " + "is lit " * 30,
                f"mem_00000000{number:02}",
                project="shop",
                concepts=concepts,
                kind="decision",
            )
    answer = (
        caller_of(settings, tmp_path / "shop")
        .answer("get_context", max_memories=12, budget=budget)
        .text
    )
    assert len(answer) <= 4 * budget
    context = json.loads(answer)
    assert (
        len(context["notes"]) == 2
        and (context["recent_memories"] or budget < 1_000)
        and context["truncated"]
    )
    assert context["left_off"] == {"recent_memories": 12 - len(context["recent_memories"])}
