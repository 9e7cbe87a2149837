"""`cortex kb`, alone and beside a server; `cortex mcp kb` as a foreign client meets it."""

import itertools
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from cortex.base.settings import environment, load
from cortex.engine.library import Library
from cortex.engine.store import Store
from protocol.client import Client
from protocol.code_server import CORTEX, check_envelope
from protocol.golden import check_golden

pytestmark = pytest.mark.usefixtures("isolated")

FILES = {
    "guide.md": "# Guide\n\n## Tokens\n\nTokens expire after fifteen minutes.\n\n## Lamps\n\nA lamp is switched by its owner.\n",
    "sub/desk.txt": "The desk has three drawers.\n",
}
KEYS = "document_id source path startLine endLine section page score snippet".split()


@pytest.fixture
def notes(tmp_path):
    return write(tmp_path / "notes", FILES)


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8", newline="\n")
    return folder


def tables(home: Path) -> dict[str, int]:
    """The number of rows of each table of documents."""
    names = ("folders", "docs", "blobs", "chunks", "symbols", "vectors", "skips", "left_out")
    with closing(sqlite3.connect(home / "cortex.db")) as connection:
        return {
            name: connection.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in names
        }


class KbServer(Client):
    """A running `cortex mcp kb` that holds the library."""

    def __init__(self, *more: str, **options: object) -> None:
        super().__init__([*CORTEX, "mcp", "kb", "--no-sidecar", *more], **options)
        self.initialize()

    def text(self, tool: str, **arguments: object) -> str:
        result = self.call(tool, arguments)["result"]
        assert not result.get("isError")
        return result["content"][0]["text"]


@pytest.fixture
def server(isolated):
    with KbServer() as running:
        running.text("kb_list_sources")
        yield running


# -- add, list, sync, remove
# -------------------------------------------------------------------------------------------


def test_a_folder_that_is_added_can_be_searched_at_once(cortex, notes):
    code, out, err = cortex("kb", "add", notes, "--name", "My notes")
    assert (code, err) == (0, "")
    lines = out.split("\n")
    assert lines[0] == "✓ Added source: My notes"
    assert re.fullmatch(r"  ID: [0-9a-f]{8}", lines[1])
    assert lines[2] == f"  Path: {os.path.realpath(notes)}"
    assert lines[4] == "Indexed 2 documents, 2 chunks"
    code, out, _ = cortex("kb", "search", "how do tokens expire", "--json")
    assert code == 0
    assert json.loads(out)["results"][0]["path"] == "guide.md"


def test_a_folder_can_be_added_without_reading_it(cortex, notes):
    code, out, _ = cortex(
        "kb", "add", notes, "--no-sync", "--no-watch", "--include", "*.md", "--exclude", "sub/"
    )
    assert code == 0
    assert out.endswith("\n\nRun 'cortex kb sync' to index documents\n")
    (source,) = json.loads(cortex("kb", "list", "--json")[1])["sources"]
    assert (source["documents"], source["lastSync"], source["watch"]) == (0, None, False)
    assert (source["include"], source["exclude"]) == (["*.md"], ["sub/"])
    assert "not synced completely yet: notes" in cortex("kb", "search", "tokens")[2]
    assert "Not watched" in cortex("kb", "list")[1]
    code, out, _ = cortex("kb", "sync", "notes", "--json")
    assert code == 0
    body = json.loads(out)
    assert (body["status"], body["sources"][0]["added"], body["sources"][0]["documents"]) == (
        "completed",
        1,
        1,
    )


@pytest.mark.parametrize(
    ("place", "reason"),
    [
        ("~/.ssh", "keys"),
        ("~/.ssh/inner", "keys"),
        ("~", "all that you have"),
        ("/", "whole disk"),
        ("/etc", "the system's"),
        ("{notes}/sub", "one already"),
        ("{notes}", "one already"),
        ("{notes}/..", "which lies in it"),
        ("{home}", "its own files"),
        ("{notes}/guide.md", "no folder"),
        ("{notes}/missing", "no such folder"),
    ],
)
def test_forbidden_source_is_refused_with_the_reason(cortex, isolated, notes, place, reason):
    if place == "/etc" and os.name == "nt":
        pytest.skip("there is no /etc")
    (isolated.user / ".ssh" / "inner").mkdir(parents=True)
    assert cortex("kb", "add", notes)[0] == 0
    path = place.format(notes=notes, home=isolated.cortex)
    code, out, err = cortex("kb", "add", path.replace("~", str(isolated.user)))
    assert (code, out) == (1, "")
    assert "SOURCE_REFUSED" in err
    assert reason in err
    code, out, _ = cortex("kb", "add", path.replace("~", str(isolated.user)), "--json")
    assert check_envelope(json.loads(out))["code"] == "SOURCE_REFUSED"
    assert len(json.loads(cortex("kb", "list", "--json")[1])["sources"]) == 1


def test_folder_of_unreadable_files_ends_an_add_with_2(cortex, tmp_path):
    write(tmp_path / "old", {"broken.docx": "no archive"})
    code, out, err = cortex("kb", "add", tmp_path / "old")
    assert code == 2 and "broken.docx: damaged: no docx" in out + err


def test_unreadable_files_are_named_and_end_a_sync_with_2(cortex, notes):
    write(notes, {"broken.docx": "no archive", "old.doc": "old", "picture.png": "no text"})
    code, out, err = cortex("kb", "add", notes)
    assert code == 0 and "Files that could not be read: 2" in out + err
    named = "Files that could not be read: 2\n    broken.docx: damaged: no docx\n    old.doc: nothing reads .doc files\n"
    for command in ("list", "stats", "sync"):
        code, out, _ = cortex("kb", command)
        assert named.replace("    ", "") in out.replace("    ", "").replace("\n  ", "\n"), command
        assert code == (2 if command == "sync" else 0)
    stats = json.loads(cortex("kb", "stats", "notes", "--json")[1])
    assert [stat["path"] for stat in stats["sources"][0]["unread"]] == ["broken.docx", "old.doc"]
    assert stats["sources"][0]["leftOut"] == {"binary": 1}
    (notes / "broken.docx").unlink()
    (notes / "old.doc").unlink()
    assert cortex("kb", "sync")[0] == 0


def test_words_only_ends_a_sync_with_2_unless_configured(cortex, notes, monkeypatch):
    monkeypatch.setenv("CORTEX_INDEXING_EMBEDDING_PROVIDER", "none")
    assert cortex("kb", "add", notes)[0] == 0
    monkeypatch.setenv("CORTEX_INDEXING_EMBEDDING_PROVIDER", "local")
    monkeypatch.setenv("CORTEX_LIMITS_MEMORY_EMBEDDINGS", "1B")
    code, _, err = cortex("kb", "sync")
    assert code == 2
    assert "words only" in err
    body = json.loads(cortex("kb", "search", "tokens", "--json")[1])
    assert (body["mode"], body["degraded"]) == ("fts5", True)
    (note,) = cortex("kb", "search", "tokens")[2].splitlines()
    assert note.startswith("note: answered by words: ")
    monkeypatch.setenv("CORTEX_MCP_KB_SEARCH_SEMANTIC_FALLBACK", "false")
    code, out, err = cortex("kb", "search", "tokens")
    assert (code, out) == (1, "")
    assert "semantic_fallback" in err
    assert cortex("kb", "search", "tokens", "--fts5")[0] == 0


def test_missing_folder_is_an_error_and_the_others_are_synced(cortex, notes, tmp_path):
    more = write(tmp_path / "more", {"a.md": "# A\n"})
    assert cortex("kb", "add", notes)[0] == cortex("kb", "add", more)[0] == 0
    notes.rename(tmp_path / "away")
    write(more, {"b.md": "# B\n"})
    code, out, err = cortex("kb", "sync")
    assert code == 1
    assert "more: 1 added" in out
    assert "error: notes: there is no folder" in err
    assert "The folder is not there now" in cortex("kb", "list")[1]
    # What it held is still found
    assert json.loads(cortex("kb", "search", "tokens", "--json")[1])["total"] == 1
    assert cortex("kb", "remove", "notes")[0] == 0


def test_no_file_keeps_a_word_of_a_removed_source(cortex, isolated, notes, tmp_path):
    write(notes, {"quokkaxx.md": "# Zanzibarqq\n\nThe quokkaxx sleeps.\n"})
    assert cortex("kb", "add", notes)[0] == 0
    assert cortex("kb", "add", write(tmp_path / "more", {"a.md": "# Kept\n"}))[0] == 0
    write(notes, {"quokkaxx.md": "# Zanzibarqq\n\nThe quokkaxx is awake.\n"})
    assert cortex("kb", "sync")[0] == 0

    def files_with(word: bytes) -> list[str]:
        files = (path for path in isolated.cortex.rglob("*") if path.is_file())
        return [path.name for path in files if word in path.read_bytes().lower()]

    assert files_with(b"zanzibarqq")
    assert cortex("kb", "remove", "notes")[0] == 0
    assert files_with(b"zanzibarqq") + files_with(b"quokkaxx") == []
    assert json.loads(cortex("kb", "search", "kept", "--json")[1])["total"] == 1


def test_removed_source_is_gone_from_every_table_and_index(cortex, isolated, notes):
    assert cortex("kb", "add", notes)[0] == 0
    code, out, _ = cortex("kb", "remove", "NOTES")
    assert code == 0
    assert "2 documents forgotten" in out
    assert set(tables(isolated.cortex).values()) == {0}
    with closing(Store(isolated.cortex)) as store:
        words = store.indexes.words()
        assert words is not None
        assert words.frequency("tokens") == 0
        assert store.check() == []
    assert json.loads(cortex("kb", "search", "tokens", "--json")[1])["results"] == []
    assert (notes / "guide.md").exists()
    code, out, _ = cortex("kb", "remove", "notes", "--json")
    assert code == 1
    assert check_envelope(json.loads(out))["code"] == "SOURCE_UNKNOWN"


def test_a_repository_and_a_folder_that_it_ignores_can_be_sources(cortex, tmp_path):
    root = write(tmp_path / "project", {".gitignore": "private/\n*.txt\n", "a.md": "# Alpha\n"})
    private = write(root / "private", {"b.txt": "Beta lies in a folder that git ignores.\n"})
    subprocess.run(["git", "init", "-q", str(root)], check=True, timeout=30)
    assert cortex("kb", "add", private)[0] == 0
    assert json.loads(cortex("kb", "search", "beta", "--json")[1])["results"][0]["path"] == "b.txt"
    cortex("kb", "remove", "private")
    assert cortex("kb", "add", root)[0] == 0
    assert json.loads(cortex("kb", "search", "alpha", "--json")[1])["results"][0]["path"] == "a.md"


# -- search
# ------------------------------------------------------------------------------------------------------------


def test_search_as_json_has_exactly_the_promised_keys(cortex, notes):
    cortex("kb", "add", notes)
    code, out, err = cortex("kb", "search", "tokens", "--source", "notes", "--limit", "1", "--json")
    body = json.loads(out)
    assert (code, err) == (0, "")
    assert list(body) == ["results", "total", "mode", "degraded"]
    (result,) = body["results"]
    assert list(result) == KEYS
    assert (result["source"], result["path"], result["page"]) == ("notes", "guide.md", None)
    assert (body["mode"], body["degraded"]) == ("hybrid", False)
    assert 0 < result["score"] <= 1


def test_search_prints_path_and_text_of_a_result(cortex, notes):
    cortex("kb", "add", notes)
    code, out, _ = cortex("kb", "search", "three drawers")
    assert code == 0
    assert out.startswith("Found 1 result for: three drawers\n\n1. desk (score: ")
    assert "   Path: notes/sub/desk.txt:1\n" in out
    assert "   | The desk has three drawers.\n" in out
    assert cortex("kb", "search", "zyxwv")[1] == "Found 0 results for: zyxwv\n"


def test_wrong_usage_of_a_search_is_reported(cortex, notes):
    cortex("kb", "add", notes)
    for arguments, code, words in (
        (["tokens", "--fts5", "--mode", "semantic"], 2, "contradict"),
        (["tokens", "--limit", "0"], 2, "--limit"),
        (["tokens", "--mode", "nonsense"], 2, "nonsense"),
        (["tokens", "--source", "nonsense"], 1, "SOURCE_UNKNOWN"),
        ([" "], 1, "QUERY_EMPTY"),
    ):
        seen = cortex("kb", "search", *arguments)
        assert (seen[0], seen[1]) == (code, "")
        assert words in seen[2]


def test_the_command_and_the_tool_rank_alike(cortex, tmp_path):
    files = {
        f"{number}.md": f"# Note {number}\n\nTokens {'expire ' * (number % 5)} lamps {'owner ' * (number % 7)}.\n"
        for number in range(30)
    }
    assert cortex("kb", "add", write(tmp_path / "many", files))[0] == 0
    with KbServer() as server:
        for query, mode in itertools.product(
            ("how do tokens expire", "lamp owner"), ("hybrid", "semantic", "fts5")
        ):
            answer = server.text(
                "kb_search", query=query, limit=20, mode=mode, source_id="many", budget=20_000
            )
            ids = re.findall(r"^document_id: (.+)$", answer, re.MULTILINE)
            scores = re.findall(r"\(score: (.+)\)$", answer, re.MULTILINE)
            out = cortex(
                "kb", "search", query, "--limit", "20", "--mode", mode, "--source", "many", "--json"
            )[1]
            results = json.loads(out)["results"]
            assert ids == [result["document_id"] for result in results]
            assert scores == [f"{result['score']:.2f}" for result in results]
            assert ids


# -- beside a server
# ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("more", [(), ("--no-watch",)])
def test_commands_work_while_a_server_holds_the_library(
    cortex, isolated, notes, server, until, more
):
    holder = server.process.pid
    code, out, _ = cortex("kb", "add", notes, *more)
    assert code == 0
    assert "Indexed 2 documents" in out
    with closing(Store(isolated.cortex)) as store:
        assert store.lease.holder() == holder
    assert "guide.md" in server.text("kb_search", query="tokens")
    write(notes, {"new.md": "# News\n\nA comet was seen.\n"})
    if not more:
        until(lambda: "new.md" in server.text("kb_search", query="comet"), 15)
    assert cortex("kb", "sync")[0] == 0
    assert "new.md" in server.text("kb_search", query="comet")
    assert json.loads(cortex("kb", "stats", "--json")[1])["documents"] == 3
    code, out, err = cortex("kb", "remove", "notes")
    assert (code, err) == (0, "")
    assert set(tables(isolated.cortex).values()) == {0}
    with closing(Store(isolated.cortex)) as store:
        assert store.lease.holder() == holder
        words = store.indexes.words()
        assert words is not None
        assert words.frequency("tokens") == 0
        until(lambda: store.check() == [], 10)
    assert server.text("kb_search", query="tokens comet").startswith("Found 0 results")


@pytest.mark.skipif(
    sys.platform == "win32", reason="Ctrl-C goes to every process of the console there"
)
def test_ctrl_c_ends_a_sync_that_waits_for_another_process(isolated, notes, until):
    with Library(load(None, environment=environment())) as library:
        library.add_folder(notes)
        # It serves no other process
        assert library.holds_lease()
        waiting = subprocess.Popen(
            [*CORTEX, "kb", "sync"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
            # Tests that a shell runs in the background ignore Ctrl-C, and so would whatever they
            # start.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler) and None,
        )
        until(lambda: library.store.log.asked(0), 20)
        waiting.send_signal(signal.SIGINT)
        assert waiting.wait(20) == 130
        assert waiting.stderr is not None
        assert b"Traceback" not in waiting.stderr.read()
        waiting.stderr.close()
        assert library.store.log.asked(0) == []


# -- `cortex mcp kb`
# ---------------------------------------------------------------------------------------------------


def test_the_server_offers_the_tools_the_resource_and_the_prompt(server, cortex, notes):
    cortex("kb", "add", notes)
    tools = server.request("tools/list")["result"]["tools"]
    assert [tool["name"] for tool in tools] == [
        "kb_search",
        "kb_search_with_context",
        "kb_list_sources",
        "kb_get_document",
        "kb_stats",
    ]
    assert all(tool["annotations"]["readOnlyHint"] for tool in tools)
    check_golden("kb-tools", tools)
    templates = server.request("resources/templates/list")["result"]["resourceTemplates"]
    assert [template["uriTemplate"] for template in templates] == ["kb://source/{id}"]
    read = server.request("resources/read", {"uri": "kb://source/notes"})["result"]["contents"][0]
    assert json.loads(read["text"])["documents"] == 2
    prompt = server.request("prompts/get", {"name": "kb_context", "arguments": {"topic": "lamps"}})[
        "result"
    ]
    assert "lamps" in prompt["messages"][0]["content"]["text"]


def test_a_failed_search_is_a_json_rpc_error_with_the_reason(server):
    failed = server.call("kb_search", {"query": "a", "source_id": "none"})["error"]
    assert failed["code"] == -32000
    assert failed["message"].startswith("Search failed: there is no source 'none'")
    assert server.call("kb_search", {"query": ""})["error"]["code"] == -32000
    assert server.call("kb_search", {"query": "a", "limit": 51})["error"]["code"] == -32602
    assert server.call("kb_search", {})["error"]["code"] == -32602


def test_documents_are_served_without_any_project(isolated, cortex, notes, tmp_path):
    cortex("kb", "add", notes)
    (tmp_path / "elsewhere").mkdir()
    with KbServer(cwd=tmp_path / "elsewhere") as server:
        assert "guide.md" in server.text("kb_search", query="tokens")
        assert server.garbage == []


def test_mcp_status_shows_capabilities_and_sources_of_documents(cortex, notes, monkeypatch):
    assert "documents    no sources" in cortex("mcp", "status")[1]
    write(notes, {"broken.docx": "no archive"})
    cortex("kb", "add", notes)
    out = cortex("mcp", "status")[1]
    assert "documents    1 source, searched by words and meaning (local" in out
    assert re.search(
        r"  notes \(ID: \w+\): 2 documents, synced .*, 1 file could not be read: .*notes", out
    )
    status = json.loads(cortex("mcp", "status", "--json")[1])["documents"]
    assert (status["capabilities"]["words"], status["capabilities"]["meaning"]) == (True, True)
    assert status["capabilities"]["embedder"]["provider"] == "local"
    assert [source["name"] for source in status["sources"]] == ["notes"]
    monkeypatch.setenv("CORTEX_INDEXING_EMBEDDING_PROVIDER", "none")
    assert "searched by words only\n" in cortex("mcp", "status")[1]
