"""update_config, and that each setting of searching, caching, retention and limits does what it
says; in this process.
"""

import json
import sqlite3
import threading
import time
from contextlib import closing, contextmanager

import pytest

from cortex.base.errors import FileError, InputError
from cortex.base.settings import Workspace, load
from cortex.base.types import Cancel, Chunk, FileView, Progress
from cortex.engine import indexer
from cortex.engine.engine import Engine
from cortex.engine.store import connections
from cortex.families.code.tools import definitions, open_family
from cortex.families.code.tools import render as answers
from cortex.interfaces.assembly.pool import engine_pool
from cortex.toolkit.pagination import dump
from cortex.toolkit.tool import Call, bind, find_tool, perform
from protocol.code_server import check_envelope, make_repository, wait_for

MANY = {
    f"src/m{number:03}.py": f"def function_{number}():\n    return {number}\n"
    for number in range(30)
}


class InProcess:
    """The family on one folder, called as a surface calls it."""

    def __init__(self, root, *, keep=False, environment=None, **flags):
        names = {name.replace("__", "."): value for name, value in flags.items()}
        self.root = root
        self.settings = load(
            root, environment=environment or {"CORTEX_HOME": str(root.parent / "home")}, flags=names
        )
        self.family = open_family([Workspace(root, self.settings)], engine_pool(keep=keep))

    def call(self, name, call=None, /, **arguments):
        family, tool = find_tool([self.family], name)
        return perform(family, tool, bind(tool, arguments), call or Call())

    def tool(self, name, **arguments):
        answer = self.call(name, **arguments)
        assert not answer.failed, answer.text
        return json.loads(answer.text)

    def failure(self, name, **arguments):
        answer = self.call(name, **arguments)
        assert answer.failed, answer.text
        return check_envelope(json.loads(answer.text))

    def status(self, part="status", **variables):
        names = (part, f"workspace-{part}")
        (resource,) = (one for one in self.family.resources if one.name in names)
        return json.loads(resource.read(self.family.context, variables, Call()))

    @property
    def engine(self) -> Engine:
        with self.family.context.open() as engines:  # it stays open as long as the family
            return engines[0][1]


@contextmanager
def opened(root, **options):
    family = InProcess(root, **options)
    try:
        yield family
    finally:
        family.family.close()


@pytest.fixture
def many(tmp_path):
    return make_repository(tmp_path / "many", MANY, git=False)


# -- update_config
# -----------------------------------------------------------------------------------------------------


def test_a_change_says_old_and_new_and_is_written_to_no_file(many):
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


def test_what_changes_the_index_says_who_changed_it(many):
    with opened(many) as code:
        code.call("update_config", Call(client="editor 1.2"), settings={"chunkSize": 100})
        assert code.status()["settings"]["override"]["by"] == "editor 1.2"
        assert code.engine.operations(1)[0].detail["by"] == "editor 1.2"


def test_a_change_of_nothing_needs_nothing(many):
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


def test_a_restart_cuts_everything_anew_with_the_new_size(tmp_path):
    text = "\n".join(f"line number {number} of a long text" for number in range(400))
    root = make_repository(tmp_path / "long", {"long.txt": text}, git=False)
    with opened(root, keep=True) as code:
        wait_for(lambda: code.status()["indexing"]["status"] == "ready")
        before = code.status()["indexing"]["totalChunks"]
        body = code.tool("update_config", settings={"chunkSize": 50}, restart=True)
        assert (body["restartNeeded"], body["reindexing"]) == (False, True)
        wait_for(lambda: code.status()["indexing"]["totalChunks"] > 2 * before)


@pytest.mark.parametrize("provider", ["openai", "ollama"])
def test_a_provider_can_be_chosen_where_the_person_configured_it(many, provider):
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


def test_a_change_counts_for_whoever_keeps_the_index(many):
    with opened(many, keep=True) as keeping, opened(many) as other:
        wait_for(lambda: keeping.status()["indexing"]["status"] == "ready")
        body = other.tool("update_config", settings={"chunkSize": 100})
        assert (body["reindexing"], body["restartNeeded"]) == (True, False)
        wait_for(lambda: other.engine.state.made_with()["indexing.chunkSize"] == 100)
        assert keeping.engine.settings.indexing.chunk_size == 100


# -- search.*
# ----------------------------------------------------------------------------------------------------------


def test_answers_are_remembered_until_something_changes(many):
    with opened(many) as code:
        code.tool("reindex_workspace")
        for _ in range(4):
            code.tool("search_code", query="function_7")
        assert code.status()["cache"]["hitRate"] == 0.75
        (many / "src" / "m007.py").write_text("def another():\n    return None\n", encoding="utf-8")
        code.tool("reindex_workspace", path="src/m007.py")
        files = [one["file"] for one in code.tool("search_code", query="function_7")["results"]]
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
            assert code.engine.stats().cache_bytes <= 20_000
        code.tool("update_config", settings={"cacheSize": "0KB"})
        for _ in range(3):
            code.tool("search_code", query="function_7")
        assert code.status()["cache"]["hitRate"] == 0


def test_a_search_that_takes_too_long_ends_with_an_error(many):
    with opened(many, search__timeout="1ms") as code:
        code.tool("reindex_workspace")
        failure = code.failure("search_code", query='"function"')
        assert (failure["code"], failure["retryable"]) == ("SEARCH_TIMEOUT", True)
        assert "search.timeout" in failure["suggestions"][0]


def test_an_exploding_expression_is_stopped(tmp_path):
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
        assert all(one["relevance"] >= 0.3 for one in body["results"])
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
        assert [one.what for one in code.engine.operations()] == ["config"]
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
        named = {one["file"]: one["reason"] for one in code.status(cursor="0")["skipped"]["files"]}
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
            named += [one["file"] for one in status["skipped"]["files"]]
            cursor = status["skipped"].get("cursor")
            assert (len(status["notes"]) == 2) is bool(cursor)  # the first one: the index is full
        assert (len(named), len(set(named)), set(named[:80])) == (140, 140, over)


def test_an_index_run_that_takes_too_long_keeps_what_it_has(many):
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


def test_a_first_question_waits_for_the_first_look(many):
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


def test_a_chunk_larger_than_the_budget_comes_in_part():
    text = 'say "yes"\n' * 2_000
    chunks = (Chunk(0, 0, len(text), 1, 2_000, "block"), Chunk(1, 0, 4, 1, 1, "block"))
    view = FileView("wide.txt", "text", len(text), "", text, chunks, ())
    body = answers.chunks_answer(view, None, 0, 500)
    assert [chunk.get("truncated") for chunk in body["chunks"]] == [True]
    assert len(dump(body)) <= 500 * 4 + 100
    assert answers.chunks_answer(view, None, 1, 500)["chunks"][0]["text"] == "say "


# -- runs that meet each other
# -----------------------------------------------------------------------------------------


@contextmanager
def held_run(engine):
    """A run that stands still after its first step until the block ends."""
    begun, go_on = threading.Event(), threading.Event()

    def stop(step: Progress) -> None:
        begun.set()
        go_on.wait(20)

    thread = threading.Thread(target=lambda: engine.index(progress=stop), daemon=True)
    thread.start()
    assert begun.wait(20)
    try:
        yield
    finally:
        go_on.set()
        thread.join(20)


def test_a_forced_run_that_takes_long_is_a_job_and_searching_goes_on(many, monkeypatch, until):
    monkeypatch.setattr(definitions, "FORCE_ANSWER_SECONDS", 0.05)
    with opened(many) as code:
        code.tool("reindex_workspace")
        steps = []
        with held_run(code.engine):
            call = Call(report=lambda *step: steps.append(step))
            body = json.loads(code.call("reindex_workspace", call, force=True).text)
            assert (body["status"], body["job"]["status"]) == ("indexing", "running")
            assert body["index"]["indexing"]["status"] == "indexing"
            assert "codeindex://workspace/status" in body["notes"][0]
            # The same request again is the same job.
            assert code.tool("reindex_workspace", force=True)["job"]["id"] == body["job"]["id"]
            found = code.tool("search_code", query="function_7")
            assert found["results"]
            assert found["metadata"]["index"]["status"] == "indexing"
        until(lambda: code.status()["job"]["status"] == "completed")
        done = code.status()
        assert done["job"]["reports"][0]["changed"] == 30
        assert done["job"]["id"] == body["job"]["id"]
        assert done["indexing"]["status"] == "ready"
        assert code.failure("reindex_workspace", force=True)["code"] == "RATE_LIMITED"


def test_a_request_that_was_refused_leaves_no_job(many, monkeypatch):
    monkeypatch.setattr(definitions, "FORCE_ANSWER_SECONDS", 60)
    with opened(many) as code:
        assert (
            code.failure("reindex_workspace", force=True, path="nowhere")["code"]
            == "FILE_NOT_FOUND"
        )
        assert "job" not in code.tool("reindex_workspace")["index"]
        done = code.tool("reindex_workspace", force=True)["index"]["job"]
        assert code.failure("reindex_workspace", force=True)["code"] == "RATE_LIMITED"
        assert code.tool("reindex_workspace")["index"]["job"] == done
        assert code.status()["job"] == done


def test_a_job_that_fails_says_so_in_the_status(many, monkeypatch, until):
    monkeypatch.setattr(definitions, "FORCE_ANSWER_SECONDS", 0.05)
    with opened(many) as code:
        code.tool("reindex_workspace")
        with held_run(code.engine):
            code.tool("reindex_workspace", force=True)
            outcomes = iter((indexer.scan, full_disk))
            monkeypatch.setattr(indexer, "scan", lambda *arguments: next(outcomes)(*arguments))
        until(lambda: code.status()["job"]["status"] == "failed")
        assert code.status()["job"]["error"]["code"] == "DISK_FULL"
        assert code.status()["indexing"]["status"] == "error"


def full_disk(*_):
    raise FileError("DISK_FULL", "the disk is full")


def test_a_cancelled_call_takes_its_own_job_along(many, until):
    with opened(many) as code:
        code.tool("reindex_workspace")
        cancel = Cancel()
        cancel.cancel()
        with held_run(code.engine):
            answer = code.call("reindex_workspace", Call(cancel=cancel), force=True)
            assert json.loads(answer.text)["error"]["code"] == "CANCELLED"
        assert code.tool("reindex_workspace", force=True)["changed"] == 30


def test_a_strategy_that_has_no_effect_is_said(many):
    with opened(many, indexing__strategies=["embeddings"]) as code:
        body = code.tool("reindex_workspace", strategy="tfidf")
        assert body["notes"] == [f"strategy `tfidf` {definitions.STRATEGY_IS_BOTH}"]
        assert definitions.WORDS_ARE_KEPT in body["index"]["warnings"]
        assert "notes" not in code.tool("reindex_workspace")
    with opened(many) as code:
        assert "warnings" not in code.tool("reindex_workspace")["index"]


def test_waiting_for_another_run_can_be_cancelled_and_the_index_is_no_failure(many):
    with opened(many) as code:
        code.tool("reindex_workspace")
        cancel = Cancel()
        with held_run(code.engine):
            cancel.cancel()
            answer = code.call("reindex_workspace", Call(cancel=cancel))
            assert json.loads(answer.text)["error"]["code"] == "CANCELLED"
        assert code.status()["indexing"]["status"] == "ready"


def test_only_a_few_runs_wait_for_another_and_the_others_are_told(many):
    with opened(many) as code:
        code.tool("reindex_workspace")
        answers = []
        with held_run(code.engine):
            threads = [
                threading.Thread(
                    target=lambda: answers.append(code.call("reindex_workspace")), daemon=True
                )
                for _ in range(12)
            ]
            for thread in threads:
                thread.start()
            wait_for(lambda: len(answers) >= 8)
            assert {json.loads(answer.text)["error"]["code"] for answer in answers} == {
                "INDEX_BUSY"
            }
        for thread in threads:
            thread.join(20)
        assert sorted(answer.failed for answer in answers) == [False] * 4 + [True] * 8


def test_a_cancelled_run_stops_and_the_next_goes_on_from_there(many):
    with opened(many) as code:
        cancel = Cancel()
        answer = code.call(
            "reindex_workspace", Call(cancel=cancel, report=lambda *step: cancel.cancel())
        )
        stopped = json.loads(answer.text)
        assert answer.failed or stopped["status"] == "cancelled"
        assert code.status()["indexing"]["indexedFiles"] < 30
        code.tool("reindex_workspace")
        assert code.status()["indexing"]["indexedFiles"] == 30


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
            # Reading waits for nobody
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
