"""update_config, and the settings of searching, caching, retention and limits."""

import json
import sqlite3
import time
from contextlib import closing

import pytest

from cortex.base.errors import InputError
from cortex.engine.store import connections
from cortex.families.code.tools import definitions
from cortex.families.code.tools import render as answers
from cortex.toolkit.pagination import dump
from cortex.toolkit.tool import Call
from families.code.tools.code_family import opened
from protocol.code_server import make_repository, wait_for

# -- update_config
# -----------------------------------------------------------------------------------------------------


def test_update_config_reports_old_and_new_values_and_writes_no_file(many):
    with opened(many) as code:
        code.tool("reindex_workspace")
        before = {path: path.read_bytes() for path in many.parent.rglob("*.y*ml")}
        body = code.tool(
            "update_config", settings={"chunkSize": 100, "cacheSize": "10MB", "maxFiles": 25000}
        )
        assert body == {
            "changed": {
                "chunkSize": {"old": 250, "new": 100},
                "cacheSize": {"old": "500MB", "new": "10MB"},
            },
            "restartNeeded": True,
            "reindexing": False,
        }
        assert code.engine.settings.origin("indexing.chunkSize") == "runtime"
        assert code.engine.settings.origin("search.timeout") == "default"
        assert {path: path.read_bytes() for path in many.parent.rglob("*.y*ml")} == before
        assert not list(many.rglob("*.json"))
        assert code.engine.operations(1)[0].what == "config"
        override = code.status()["settings"]["override"]
        assert override["settings"] == {
            "indexing.chunkSize": 100,
            "workspace.maxFiles": 25_000,
            "search.cacheSize": "10MB",
        }
        assert (override["by"], override["end"]) == ("an agent", "cortex config end-override")
        assert override["since"].startswith("20")
    with opened(many) as again:
        assert again.engine.settings.indexing.chunk_size == 100
        again.tool("reindex_workspace")
        assert again.status()["settings"]["madeWith"] == {"indexing.chunkSize": 100}


def test_update_config_records_the_client_that_made_the_change(many):
    with opened(many) as code:
        code.call("update_config", Call(client="editor 1.2"), settings={"chunkSize": 100})
        assert code.status()["settings"]["override"]["by"] == "editor 1.2"
        assert code.engine.operations(1)[0].detail["by"] == "editor 1.2"


def test_unchanged_settings_need_no_restart(many):
    with opened(many) as code:
        assert code.tool("update_config", settings={}) == {
            "changed": {},
            "restartNeeded": False,
            "reindexing": False,
        }
        same = code.tool("update_config", settings={"chunkSize": 250}, restart=True)
        assert same == {"changed": {}, "restartNeeded": False, "reindexing": False}
        cache = code.tool("update_config", settings={"cacheSize": "1KB"})
        assert (cache["restartNeeded"], cache["reindexing"]) == (False, False)


def test_restart_rechunks_everything_with_the_new_size(tmp_path):
    text = "\n".join(f"line number {number} of a long text" for number in range(400))
    root = make_repository(tmp_path / "long", {"long.txt": text}, git=False)
    with opened(root, keep=True) as code:
        wait_for(lambda: code.status()["indexing"]["status"] == "ready")
        before = code.status()["indexing"]["totalChunks"]
        body = code.tool("update_config", settings={"chunkSize": 50}, restart=True)
        assert (body["restartNeeded"], body["reindexing"]) == (False, True)
        wait_for(lambda: code.status()["indexing"]["totalChunks"] > 2 * before)


@pytest.mark.parametrize("provider", ["openai", "ollama"])
def test_provider_can_be_chosen_only_where_the_person_configured_it(many, provider):
    own = {
        "CORTEX_HOME": str(many.parent / "home"),
        "CODEINDEX_OPENAI_API_KEY": "sk-mine",
        "CORTEX_PROVIDERS_OPENAI_BASE_URL": "http://127.0.0.1:9/v1",
        "CODEINDEX_OLLAMA_BASE_URL": "http://127.0.0.1:9",
    }
    with opened(many, environment={"CORTEX_HOME": own["CORTEX_HOME"]}) as code:
        failure = code.failure(
            "update_config", settings={"embeddingProvider": provider, "chunkSize": 100}
        )
        assert (failure["code"], failure["category"]) == ("CONFIG_INVALID", "configuration")
        assert provider in failure["message"]
        assert code.engine.settings.indexing.chunk_size == 250
    with opened(many, environment=own) as code:
        code.engine.index()
        body = code.tool("update_config", settings={"embeddingProvider": provider})
        assert body["changed"]["embeddingProvider"] == {"old": "local", "new": provider}
        embedding = code.status()["embedding"]
        assert (embedding["provider"], embedding["share"], embedding["answering"] != provider) == (
            provider,
            0.0,
            True,
        )
        body = code.tool("update_config", settings={"embeddingProvider": "local"})
        assert body["changed"]["embeddingProvider"] == {"old": provider, "new": "local"}


def test_local_only_allows_no_provider_beyond_this_machine(many):
    key = {"CORTEX_HOME": str(many.parent / "home"), "CODEINDEX_OPENAI_API_KEY": "sk-mine"}
    with opened(many, environment=key, server__localOnly=True) as code:
        failure = code.failure("update_config", settings={"embeddingProvider": "openai"})
        assert "localOnly" in failure["message"]
        assert code.engine.settings.indexing.embedding_provider == "local"
    with opened(
        many, environment=key, server__localOnly=True, indexing__embeddingProvider="openai"
    ) as code:
        assert (code.status()["embedding"] or {}).get("provider") != "openai"


def test_changed_settings_reach_the_session_that_keeps_the_index(many):
    with opened(many, keep=True) as keeping, opened(many) as other:
        wait_for(lambda: keeping.status()["indexing"]["status"] == "ready")
        body = other.tool("update_config", settings={"chunkSize": 100})
        assert (body["reindexing"], body["restartNeeded"]) == (True, False)
        wait_for(lambda: other.engine.state.made_with()["indexing.chunkSize"] == 100)
        assert keeping.engine.settings.indexing.chunk_size == 100


# -- search.*
# ----------------------------------------------------------------------------------------------------------


def test_answers_are_cached_until_something_changes(many):
    with opened(many) as code:
        code.tool("reindex_workspace")
        for _ in range(4):
            code.tool("search_code", query="function_7")
        assert code.status()["cache"]["hitRate"] == 0.75
        (many / "src" / "m007.py").write_text("def another():\n    return None\n", encoding="utf-8")
        code.tool("reindex_workspace", path="src/m007.py")
        files = [
            result["file"] for result in code.tool("search_code", query="function_7")["results"]
        ]
        assert "src/m007.py" not in files[:1]
        assert code.status()["cache"]["hitRate"] == 0.6
        assert code.status("stats")["performance"]["cacheHitRate"] == 0.6


def test_caching_can_be_turned_off(many):
    with opened(many, search__enableCaching=False) as code:
        code.tool("reindex_workspace")
        for _ in range(3):
            code.tool("search_code", query="function_7")
        assert code.status()["cache"]["hitRate"] == 0
        assert code.status()["cache"]["memoryUsage"] == "0B"


def test_the_cache_keeps_to_its_size(many):
    with opened(many, search__cacheSize="20KB") as code:
        code.tool("reindex_workspace")
        for number in range(30):
            code.tool("search_code", query=f"function_{number} return", maxResults=5)
            assert code.engine.vitals().cache_bytes <= 20_000
        code.tool("update_config", settings={"cacheSize": "0KB"})
        for _ in range(3):
            code.tool("search_code", query="function_7")
        assert code.status()["cache"]["hitRate"] == 0


def test_search_beyond_its_timeout_is_an_error(many):
    with opened(many, search__timeout="1ms") as code:
        code.tool("reindex_workspace")
        failure = code.failure("search_code", query='"function"')
        assert (failure["code"], failure["retryable"]) == ("SEARCH_TIMEOUT", True)
        assert "search.timeout" in failure["suggestions"][0]


def test_exploding_regular_expression_is_stopped(tmp_path):
    root = make_repository(tmp_path / "explode", {"a.py": "a" * 60 + "!\n"}, git=False)
    with opened(root, search__timeout="500ms") as code:
        started = time.monotonic()
        failure = code.failure("search_code", query="/(a|aa)+$/")
        assert time.monotonic() - started < 5
        assert (failure["code"], failure["category"]) == ("REGEX_TIMEOUT", "resource")
        assert "nested repetitions" in failure["suggestions"][0]


def test_defaults_of_results_threshold_and_budget_come_from_the_settings(many):
    with opened(
        many, search__defaultMaxResults=3, search__relevanceThreshold=0.3, search__budget=200
    ) as code:
        code.tool("reindex_workspace")
        answer = code.call("search_code", query="function_7 return")
        body = json.loads(answer.text)
        assert len(answer.text) <= 800
        assert 0 < len(body["results"]) <= 3
        assert all(result["relevance"] >= 0.3 for result in body["results"])
        assert (
            len(
                code.tool("search_code", query="return", maxResults=9, threshold=0, budget=4000)[
                    "results"
                ]
            )
            == 9
        )


# -- retention, limits, watching
# ---------------------------------------------------------------------------------------


def test_the_operations_log_forgets_what_is_older_than_retention(many):
    with opened(many, retention__days=2) as code:
        code.tool("reindex_workspace")
        code.tool("update_config", settings={"cacheSize": "1MB"})
        assert [operation.what for operation in code.engine.operations()] == ["config", "index"]
        with (
            closing(sqlite3.connect(code.engine.store.directory / "cortex.db")) as connection,
            connection,
        ):
            connection.execute("UPDATE operations SET at = at - 3 * 86400 WHERE what = 'index'")
        code.engine.clean_up()
        assert [operation.what for operation in code.engine.operations()] == ["config"]
        assert code.status()["cache"]["lastCleanup"]


def test_files_over_the_limits_are_counted_and_named(many):
    (many / "src" / "large.py").write_text("x = 1\n" * 2_000, encoding="utf-8")
    with opened(many, workspace__maxFiles=10, workspace__maxFileSize="5KB") as code:
        body = code.tool("reindex_workspace")
        assert body["added"] == 10
        assert body["skipped"] == 21
        status = body["index"]
        assert status["indexing"]["indexedFiles"] == 10
        assert status["indexing"]["skippedFiles"] == 21
        assert status["skipped"]["byReason"] == {"over maxFiles": 20, "too large": 1}
        assert status["skipped"]["total"] == 21
        assert status["notes"][0] == (
            "20 files are not indexed, because workspace.maxFiles is 10 (set by flag --max-files): "
            "raise it to 30 there, or exclude some files"
        )
        assert status["skipped"]["cursor"] == "0"
        named = {
            skipped["file"]: skipped["reason"]
            for skipped in code.status(cursor="0")["skipped"]["files"]
        }
        assert named["src/large.py"] == "too large"
        assert named["src/m029.py"] == "over maxFiles"
        assert "too large" in code.failure("get_file_context", path="src/large.py")["message"]


def test_a_status_that_does_not_name_every_skipped_file_says_where_to_see_them(many):
    for number in range(60):
        (many / "src" / f"picture{number}.png").write_bytes(b"\0")
    with opened(many) as code:
        status = code.tool("reindex_workspace")["index"]
        assert (status["skipped"]["total"], len(status["skipped"]["files"])) == (60, 3)
        assert status["skipped"]["byReason"] == {"binary": 60}
        assert "cortex doctor --json" in status["notes"][0]


def test_the_status_resource_names_every_skipped_file_in_pages(many, monkeypatch):
    for number in range(60):
        (many / "src" / f"a{number:02}.png").write_bytes(b"\0")
        (many / "src" / f"z{number:02}.py").write_text(f"x = {number}\n" * 2_000, encoding="utf-8")
    with opened(many, workspace__maxFiles=10, workspace__maxFileSize="5KB") as code:
        examples = code.tool("reindex_workspace")["index"]["skipped"]
        assert [example["reason"] for example in examples["files"]] == [
            *["over maxFiles"] * 3,
            *["too large"] * 3,
            *["binary"] * 3,
        ]
        assert (examples["total"], examples["cursor"]) == (140, "0")
        assert code.status()["skipped"] == examples
        over = {f"src/m{number:03}.py" for number in range(10, 30)} | {
            f"src/z{number:02}.py" for number in range(60)
        }
        assert code.status(cursor="9999")["skipped"]["files"] == []
        for wrong in ("-1", "x", "١", "9" * 30):
            with pytest.raises(InputError) as caught:
                code.status(cursor=wrong)
            assert caught.value.code == "CURSOR_INVALID"
        monkeypatch.setattr(answers, "SKIPPED_PAGE", 30)
        named, cursor = [], "0"
        while cursor:
            status = code.status(cursor=cursor)
            named += [skipped["file"] for skipped in status["skipped"]["files"]]
            cursor = status["skipped"].get("cursor")
            # The first one: the index is full
            assert (len(status["notes"]) == 2) is bool(cursor)
        assert (len(named), len(set(named)), set(named[:80])) == (140, 140, over)


def test_index_run_beyond_its_timeout_is_a_retryable_error(many):
    with opened(many, limits__processing__index_timeout="1ms") as code:
        failure = code.failure("reindex_workspace")
        assert (failure["code"], failure["category"], failure["retryable"]) == (
            "INDEX_TIMEOUT",
            "processing",
            True,
        )
        assert {"operation", "workspace", "files_processed", "files_remaining"} <= set(
            failure["context"]
        )
        assert code.status()["indexing"]["status"] == "error"


def test_without_watching_the_folder_is_compared_every_interval(many):
    with opened(
        many, keep=True, workspace__watchFiles=False, indexing__updateInterval="1s"
    ) as code:
        wait_for(lambda: code.status()["indexing"]["status"] == "ready")
        (many / "src" / "later.py").write_text("def came_later():\n    pass\n", encoding="utf-8")
        wait_for(lambda: code.tool("search_code", query="came_later", strategy="tfidf")["results"])


def test_first_search_waits_for_the_first_scan(many):
    with opened(many, keep=True) as code:
        assert code.tool("search_code", query="function_7")["results"][0]["file"] == "src/m007.py"


def test_above_its_file_limit_the_full_workspace_is_answered_from_the_index(many, monkeypatch):
    monkeypatch.setattr("cortex.engine.searcher.FULL_MODE_FILES", 20)
    with opened(many) as code:
        code.tool("reindex_workspace")
        metadata = code.tool("search_code", query="function_7", strategy="fullworkspace")[
            "metadata"
        ]
        assert metadata["strategy"] == "hybrid"
        assert any("fullworkspace reads at most 20 files" in note for note in metadata["notes"])


@pytest.mark.parametrize("strategy", ["auto", "embeddings"])
def test_without_an_embedder_meaning_is_answered_by_words_and_says_so(many, strategy):
    with opened(many, indexing__embeddingProvider="none") as code:
        body = code.tool("reindex_workspace", strategy="embeddings")
        assert "no embedder" in body["notes"][-1]
        assert (body["index"]["embedding"], body["index"]["strategies"]["preferred"]) == (
            None,
            "tfidf",
        )
        metadata = code.tool("search_code", query="function_7", strategy=strategy)["metadata"]
        assert metadata["strategy"] == "tfidf"
        assert any("no embedder" in note for note in metadata["notes"])


def test_the_chunks_of_a_file_keep_to_the_budget_and_the_cursor_leads_through_all(many):
    long = "".join(
        f"def step_{number}():\n    return 'wording {number}' * {number}\n\n"
        for number in range(200)
    )
    (many / "long.py").write_text(long, encoding="utf-8")
    with opened(many, search__budget=500) as code:
        code.tool("reindex_workspace")
        indexes, cursor = [], {}
        while True:
            body = code.status("file-chunks", path="long.py", **cursor)
            assert len(dump(body)) <= 500 * 4 + 100
            indexes += [chunk["index"] for chunk in body["chunks"]]
            if "cursor" not in body:
                break
            assert (body["truncated"], body["totalChunks"] > len(body["chunks"])) == (True, True)
            cursor = {"cursor": body["cursor"]}
        assert indexes == list(range(len(indexes)))
        assert len(indexes) > 5
        with pytest.raises(InputError):
            code.status("file-chunks", path="long.py", cursor="x")


# -- strategies
# -----------------------------------------------------------------------------------------


def test_strategy_without_effect_is_noted(many):
    with opened(many, indexing__strategies=["embeddings"]) as code:
        body = code.tool("reindex_workspace", strategy="tfidf")
        assert body["notes"] == [f"strategy `tfidf` {definitions.STRATEGY_IS_BOTH}"]
        assert definitions.WORDS_ARE_KEPT in body["index"]["warnings"]
        assert "notes" not in code.tool("reindex_workspace")
    with opened(many) as code:
        assert "warnings" not in code.tool("reindex_workspace")["index"]


# -- disks and locks
# ---------------------------------------------------------------------------------------------------


def test_a_full_disk_is_an_error_that_can_be_retried(many):
    with opened(many) as code:
        code.tool("reindex_workspace")
        for number in range(300):
            (many / f"extra{number}.py").write_text(
                "".join(f"v{n * number} = {n}\n" for n in range(200)), encoding="utf-8"
            )
        writer = code.engine.store._connections._writer
        pages = writer.execute("PRAGMA page_count").fetchone()[0]
        writer.execute(f"PRAGMA max_page_count = {pages + 5}")
        failure = code.failure("reindex_workspace")
        assert (failure["code"], failure["category"], failure["retryable"]) == (
            "DISK_FULL",
            "filesystem",
            True,
        )
        assert "disk space" in failure["suggestions"][0]
        assert code.tool("search_code", query="function_7")["results"]
        writer.execute("PRAGMA max_page_count = 1000000")
        assert code.tool("reindex_workspace")["status"] == "completed"
        assert code.status()["indexing"]["status"] == "ready"


def test_a_locked_store_is_an_error_that_can_be_retried(many, monkeypatch):
    with opened(many) as code:
        code.tool("reindex_workspace")
        directory = code.engine.store.directory
    monkeypatch.setattr(connections, "BUSY_TIMEOUT_MS", 50)
    with closing(sqlite3.connect(directory / "cortex.db")) as other:
        other.execute("BEGIN EXCLUSIVE")
        with opened(many) as code:
            # Reading waits for no writer
            assert code.tool("search_code", query="function_7")["results"]
            failure = code.failure("reindex_workspace")
            assert (failure["code"], failure["category"], failure["retryable"]) == (
                "STORE_LOCKED",
                "filesystem",
                True,
            )
            assert "try again" in failure["suggestions"][0]
            other.rollback()
            assert code.tool("reindex_workspace")["status"] == "completed"
