"""Documents with vectors in Qdrant: the same answers as with files, words while down.

The server is the official client's local mode (`local_qdrant`), or a plain HTTP server that behaves
badly.
"""

from __future__ import annotations

import logging
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from cortex.base.settings import Settings, load
from cortex.base.types import Cancel, Stamp
from cortex.engine.auto_indexer import AutoIndexer
from cortex.engine.embedders.hash_embedder import HashingEmbedder
from cortex.engine.library import Library
from cortex.engine.store.index import qdrant
from cortex.engine.store.index.qdrant import Qdrant
from cortex.engine.store.index.vector_servers import open_qdrant
from cortex.families.documents.search import DocumentResults, find, query_of

URL = "http://127.0.0.1:6333"
KEY = "a-very-secret-key"
HANDBOOK = Path(__file__).parents[2] / "docs"
GUIDE = "# Guide\n\n## Tokens\n\nTokens expire after fifteen minutes.\n\n## Lamps\n\nA lamp is switched by its owner.\n"
QUESTIONS = (
    "how do tokens expire",
    "which file holds the settings",
    "where are vectors kept",
    "lamp",
    "uninstall a client",
    "who may read my documents",
)
Open = Callable[..., Library]


class Costly(HashingEmbedder):
    """An embedder that keeps the texts that it was paid for."""

    def __init__(self) -> None:
        super().__init__(32)
        self.costly = True
        self.stamp = Stamp("test", "costly", 32)
        self.paid: list[str] = []

    def embed(self, texts, mode):
        if mode == "passage":
            self.paid += texts
        return super().embed(texts, mode)


def settings_of(tmp_path: Path, home: str = "home", **flags: object) -> Settings:
    named = {f"kb.qdrant.{name}": value for name, value in {"url": URL, **flags}.items()}
    environment = {"CORTEX_HOME": str(tmp_path / home)}
    return load(
        None, environment=environment, flags={"indexing.workers": 1, **named}, user_home=tmp_path
    )


@pytest.fixture
def open_library(tmp_path: Path) -> Iterator[Open]:
    with ExitStack() as opened:

        def open_one(home: str = "home", *, url: str = URL, **more: object) -> Library:
            return opened.enter_context(Library(settings_of(tmp_path, home, url=url), **more))

        yield open_one


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "guide.md").write_text(GUIDE, encoding="utf-8")
    (folder / "desk.txt").write_text("The desk has three drawers.\n", encoding="utf-8")
    return folder


@pytest.fixture
def server(local_qdrant):
    return local_qdrant


def add(library: Library, *places: Path) -> None:
    for place in places:
        library.index(source=library.add_folder(place).source)
    library.embedding.embed(cancel=Cancel())


def ask(
    library: Library, text: str, mode: str = "semantic", source: str | None = None, limit: int = 10
) -> DocumentResults:
    return find(library.reader, query_of(library.settings, text, mode, limit), source)


def result_rows(found: DocumentResults) -> list[tuple[str, int, float]]:
    return [(result.path, result.start_line, result.score) for result in found.results]


def end_rest(library: Library) -> None:
    """End the rest after a failure at once."""
    assert library._vector_server is not None
    library._vector_server._rests_until = 0.0


def points(server) -> int:
    """The points of all collections, without marks."""
    return sum(server.client.count(name, exact=True).count - 1 for name in server.names())


def chunks(library: Library) -> int:
    return library.store.indexes.sets.count()


def assert_follows(library: Library, server) -> None:
    """Check for one collection with exactly the chunks of the store, marked as complete."""
    (name,) = server.names()
    stamp = library.embedding.wanted.stamp
    sets = library.store.indexes.sets
    assert (sets.state(stamp).watermark, sets.size(stamp)) == (
        library.store.content.seq(),
        chunks(library),
    )
    assert points(server) == chunks(library)
    assert name == library._vector_server.name_of(library.store.content.get("identity"), stamp)
    assert library.store.check() == []


# -- the same answers
# --------------------------------------------------------------------------------------------------


def test_qdrant_answers_equal_those_of_the_embedded_index(open_library, notes, server):
    embedded, remote = open_library("embedded", url=""), open_library("remote")
    for library in (embedded, remote):
        add(library, HANDBOOK, notes)
    assert_follows(remote, server)
    for text in QUESTIONS:
        for mode in ("hybrid", "semantic"):
            for source in (None, "notes"):
                one, other = (
                    ask(library, text, mode, source, 20) for library in (embedded, remote)
                )
                assert (other.mode, other.degraded, other.total) == (mode, False, one.total)
                # Within ties: a score may fall to the other side of its last digit, and change
                # places with its equal.
                assert [score for *_, score in result_rows(other)] == pytest.approx(
                    [score for *_, score in result_rows(one)], abs=2e-3
                )
                assert {place[:2] for place in result_rows(other)[:10]} <= {
                    place[:2] for place in result_rows(one)
                }


def test_qdrant_gets_ids_and_numbers_and_no_text(open_library, notes, server):
    add(open_library(), notes)
    (name,) = server.names()
    found, _ = server.client.scroll(name, limit=100, with_payload=True, with_vectors=False)
    assert len(found) > 2
    for point in found:
        assert set(point.payload) == (
            {"store", "stamp", "watermark", "version"} if point.id == qdrant.MARK else set()
        )
    assert "guide" not in str(found)
    assert "drawers" not in str(found)


def test_qdrant_answer_is_cached_until_a_change(open_library, notes, server):
    library = open_library()
    add(library, notes)
    ask(library, "drawers")
    server.asked.clear()
    ask(library, "drawers")
    assert "query_points" not in server.asked
    (notes / "desk.txt").write_text("The desk has five drawers.\n", encoding="utf-8")
    library.index(source=library.folder("notes").source)
    assert "five" in ask(library, "drawers").results[0].snippet
    assert_follows(library, server)


def test_libraries_and_models_sharing_a_qdrant_server_never_mix(
    open_library, notes, tmp_path, server
):
    other = tmp_path / "other"
    other.mkdir()
    (other / "a.md").write_text("# Chairs\n\nA chair has four legs.\n", encoding="utf-8")
    one, two = open_library("one"), open_library("two")
    add(one, notes)
    add(two, other)
    assert len(server.names()) == 2
    assert [result.path for result in ask(two, "chair").results] == ["a.md"]
    assert "a.md" not in [result.path for result in ask(one, "chair legs").results]
    three = open_library("one", embedder=HashingEmbedder(32))
    one.close()
    # Nothing is embedded by that one yet, and the other one's don't count
    assert ask(three, "lamp").degraded
    three.index(source=three.folder("notes").source)
    assert ask(three, "lamp").mode == "semantic"
    three.embedding.work()  # which removes the first one's
    assert len(server.names()) == 2


@pytest.mark.parametrize("url", ["", URL])
def test_source_filter_applies_before_the_nearest_points_are_taken(
    open_library, notes, tmp_path, server, url
):
    crowd = tmp_path / "crowd"
    crowd.mkdir()
    for number in range(200):
        (crowd / f"{number}.md").write_text(
            f"# Lamp {number}\n\nThe owner of lamp {number} may switch it.\n", "utf-8"
        )
    library = open_library(url=url)
    add(library, notes, crowd)
    assert "guide.md" not in [
        result.path for result in ask(library, "the owner may switch the lamp", limit=200).results
    ]
    found = ask(library, "the owner may switch the lamp", source="notes")
    assert [result.path for result in found.results] == ["guide.md"]


# -- a server that is down and back
# -----------------------------------------------------------------------------------------------------


def test_words_answer_with_the_reason_while_qdrant_is_down(open_library, notes, server):
    library = open_library()
    add(library, notes)
    server.away = True
    found = ask(library, "how do tokens expire", "hybrid")
    assert (found.mode, found.degraded, found.results[0].path) == ("fts5", True, "guide.md")
    assert any(f"Qdrant at {URL} can't be reached" in note for note in found.notes)
    state = library.embedding.status()
    assert state is not None
    assert (state.answering, "Connection refused" in state.problem) == ("", True)
    server.asked.clear()
    ask(library, "where is the lamp", "hybrid")
    assert server.asked == []  # it is left alone for a while
    server.away = False
    end_rest(library)
    assert ask(library, "how do tokens expire", "hybrid").mode == "hybrid"


def test_qdrant_failing_within_a_search_is_answered_by_words(
    open_library, notes, server, monkeypatch
):
    library = open_library()
    add(library, notes)
    calls = server.client.query_points

    def fail(*arguments, **options):
        server.away = True
        return calls("no such collection")

    monkeypatch.setattr(server.client, "query_points", fail)
    found = ask(library, "how do tokens expire", "hybrid")
    assert (found.mode, found.degraded) == ("fts5", True)


def test_qdrant_catches_up_with_documents_added_while_it_was_down(open_library, notes, server):
    library = open_library()
    server.away = True
    add(library, notes)
    assert ask(library, "drawers", "hybrid").results[0].path == "desk.txt"
    server.away = False
    assert server.names() == []
    end_rest(library)
    library.index(source=library.folder("notes").source)
    assert_follows(library, server)
    assert ask(library, "drawers").mode == "semantic"


def test_running_auto_indexer_updates_a_returned_or_emptied_qdrant(
    open_library, notes, server, until, monkeypatch
):
    monkeypatch.setattr(qdrant, "REST_SECONDS", 0.05)
    monkeypatch.setattr(qdrant, "LONGEST_REST", 0.05)
    monkeypatch.setattr("cortex.engine.embedding_coordinator.LOOK_SECONDS", 0.05)
    server.away = True
    library = open_library()
    library.add_folder(notes)
    with closing(AutoIndexer(library)):
        until(lambda: ask(library, "drawers", "fts5").results)
        server.away = False
        until(lambda: not ask(library, "drawers", "hybrid").degraded)
        for name in server.names():
            server.client.delete_collection(name)
        until(lambda: server.names() and points(server) == chunks(library))
        until(lambda: not ask(library, "drawers", "hybrid").degraded)
    assert_follows(library, server)


def test_collection_deleted_while_it_is_filled_is_never_complete(
    open_library, notes, server, monkeypatch
):
    library = open_library()
    upsert = server.client.upsert

    def upsert_once(name, *arguments, **options):
        monkeypatch.setattr(server.client, "upsert", upsert)
        upsert(name, *arguments, **options)
        server.client.delete_collection(name)

    monkeypatch.setattr(server.client, "upsert", upsert_once)
    add(library, notes)
    assert ask(library, "drawers", "hybrid").degraded
    end_rest(library)
    library.index(source=library.folder("notes").source)
    assert_follows(library, server)


def test_restored_collection_catches_up_from_its_own_watermark(open_library, notes, server):
    library = open_library()
    add(library, notes)
    (name,) = server.names()
    saved, _ = server.client.scroll(name, limit=100, with_payload=True, with_vectors=True)
    (notes / "desk.txt").write_text("The desk is gone.\n", encoding="utf-8")
    library.index(source=library.folder("notes").source)
    server.client.delete_collection(name)  # and a snapshot is restored
    library._vector_server.make(name, library.embedding.wanted.stamp.dimensions)
    from qdrant_client import models

    server.client.upsert(
        name,
        [
            models.PointStruct(**point.model_dump(include={"id", "payload", "vector"}))
            for point in saved
        ],
    )
    (notes / "new.md").write_text("# Chairs\n\nA chair.\n", encoding="utf-8")
    library.index(source=library.folder("notes").source)
    assert_follows(library, server)


def test_paid_vectors_are_copied_to_qdrant_again_without_cost(open_library, notes, server):
    costly = Costly()
    library = open_library(embedder=costly)
    add(library, notes)
    assert ask(library, "drawers").mode == "semantic"
    paid = list(costly.paid)
    for name in server.names():
        server.client.delete_collection(name)
    assert ask(library, "drawer", "hybrid").degraded
    end_rest(library)
    for _ in range(2):  # the first one finds out that it has to begin anew
        library.embedding.embed(cancel=Cancel())
        end_rest(library)
    assert_follows(library, server)
    server.away = True
    (notes / "new.md").write_text("# Chairs\n\nA chair.\n", encoding="utf-8")
    library.index(source=library.folder("notes").source)
    library.embedding.embed(cancel=Cancel())
    server.away = False
    end_rest(library)
    library.embedding.embed(cancel=Cancel())
    assert_follows(library, server)
    assert len(costly.paid) == len(paid) + 1


# -- removing
# ----------------------------------------------------------------------------------------------------------


def test_removed_folder_leaves_qdrant_at_once(open_library, notes, tmp_path, server):
    other = tmp_path / "other"
    other.mkdir()
    (other / "a.md").write_text("# Chairs\n\nA chair has four legs.\n", encoding="utf-8")
    library = open_library()
    add(library, notes, other)
    before = points(server)
    library.remove_folder(library.folder("notes"))
    assert 0 < points(server) < before
    assert_follows(library, server)
    library.remove_folder(library.folder("other"))
    assert points(server) == 0


def test_folder_removed_while_qdrant_is_down_is_removed_when_it_is_back(
    open_library, notes, tmp_path, server
):
    other = tmp_path / "other"
    other.mkdir()
    (other / "a.md").write_text("# Chairs\n\nA chair has four legs.\n", encoding="utf-8")
    library = open_library()
    add(library, notes, other)
    server.away = True
    library.remove_folder(library.folder("notes"))
    server.away = False
    end_rest(library)
    server.asked.clear()
    found = ask(library, "chair", "hybrid")
    assert (found.mode, [result.path for result in found.results]) == ("fts5", ["a.md"])
    assert any("still has to remove" in note for note in found.notes)
    assert "query_points" not in server.asked
    library.embedding.catch_up()
    assert_follows(library, server)
    assert ask(library, "chair", "hybrid").mode == "hybrid"


def test_vectors_move_between_files_and_qdrant(open_library, notes, tmp_path, server):
    library = open_library(url="")
    add(library, notes)
    library.close()
    assert list((tmp_path / "home").glob("vectors-*/*"))
    library = open_library()
    add(library)
    library.index(source=library.folder("notes").source)
    library.embedding.work()
    assert_follows(library, server)
    assert not list((tmp_path / "home").glob("vectors-*/*"))
    library.close()
    library = open_library(url="")
    library.index(source=library.folder("notes").source)
    assert ask(library, "drawers").mode == "semantic"


# -- a server that can't be used
# ---------------------------------------------------------------------------------------


@pytest.fixture
def answers_with() -> Iterator[Callable[[int], str]]:
    """Servers with one answer: `answers_with(status)` gives an address."""
    with ExitStack() as running:

        def start(status: int) -> str:
            class Answer(BaseHTTPRequestHandler):
                def do_GET(self) -> None:
                    body = f'{{"status": "{self.headers.get("api-key")}"}}'.encode()
                    self.send_response(status)
                    self.send_header("Content-Length", str(len(body)))
                    self.end_headers()
                    self.wfile.write(body)

                do_POST = do_PUT = do_DELETE = do_GET

                def log_message(self, format: str, *args: object) -> None:
                    pass

            server = running.enter_context(closing(HTTPServer(("127.0.0.1", 0), Answer)))
            server.close = server.server_close
            thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
            thread.start()
            running.callback(thread.join)
            running.callback(server.shutdown)
            return f"http://127.0.0.1:{server.server_port}"

        yield start


def problem_of(url: str) -> str:
    with closing(Qdrant(url, KEY)) as server, pytest.raises(qdrant.NetworkError) as failed:
        server.collections()
    assert failed.value.code == "QDRANT_UNAVAILABLE"
    assert (
        KEY not in f"{failed.value.message}{failed.value.context}{server.away}{vars(failed.value)}"
    )
    assert server.away == failed.value.message
    return failed.value.message


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (401, "refuses the key"),
        (403, "refuses the key"),
        (500, "the status 500"),
        (200, "can't be reached or understood"),
    ],
)
def test_failing_qdrant_is_named_with_the_reason(answers_with, status, reason):
    assert reason in problem_of(answers_with(status))


def test_unreachable_qdrant_is_named_with_the_reason():
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    assert f"http://127.0.0.1:{port} can't be reached" in problem_of(f"http://127.0.0.1:{port}")


def test_silent_qdrant_is_given_up_soon(monkeypatch):
    monkeypatch.setattr(qdrant, "TIMEOUT_SECONDS", 1)
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        assert "did not answer within 1 s" in problem_of(
            f"http://127.0.0.1:{silent.getsockname()[1]}"
        )


def test_missing_qdrant_client_is_answered_by_words_with_the_command(
    open_library, notes, monkeypatch
):
    monkeypatch.setitem(sys.modules, "qdrant_client", None)
    library = open_library()
    add(library, notes)
    found = ask(library, "drawers", "hybrid")
    assert (found.mode, found.degraded, found.results[0].path) == ("fts5", True, "desk.txt")
    assert any('pip install "cortex-context[qdrant]"' in note for note in found.notes)


def test_rest_after_a_qdrant_failure_grows_and_ends_with_a_success(server):
    with closing(Qdrant(URL)) as qdrant_server:
        server.away = True
        rests = []
        for _ in range(6):
            qdrant_server._rests_until = 0.0
            with pytest.raises(qdrant.NetworkError):
                qdrant_server.collections()
            rests.append(round(qdrant_server._rests_until - qdrant.time.monotonic()))
        assert rests == [5, 10, 20, 40, 60, 60]
        server.away, qdrant_server._rests_until = False, 0.0
        assert qdrant_server.collections() == []
        assert qdrant_server.away == ""


# -- settings
# ----------------------------------------------------------------------------------------------------------


def test_project_settings_cannot_choose_the_qdrant_server(tmp_path):
    root = tmp_path / "project"
    (root / ".cortex").mkdir(parents=True)
    (root / ".cortex" / "config.yml").write_text(
        "kb:\n  qdrant:\n    url: http://127.0.0.1:1\n", encoding="utf-8"
    )
    settings = load(root, environment={"CORTEX_HOME": str(tmp_path / "home")}, user_home=tmp_path)
    assert settings.kb.qdrant.url == ""
    assert any("kb.qdrant.url" in warning for warning in settings.warnings)
    assert open_qdrant(settings) is None


def test_local_only_mode_uses_no_remote_qdrant(tmp_path, caplog):
    flags = {"kb.qdrant.url": "https://example.com:6333", "server.localOnly": True}
    settings = load(
        None, environment={"CORTEX_HOME": str(tmp_path)}, flags=flags, user_home=tmp_path
    )
    with caplog.at_level(logging.WARNING):
        assert open_qdrant(settings) is None
    assert "kept in files" in caplog.text
    assert open_qdrant(settings_of(tmp_path)) is not None


def test_qdrant_key_is_shown_nowhere(tmp_path):
    settings = settings_of(tmp_path, api_key=KEY)
    qdrant_server = open_qdrant(settings)
    assert KEY not in f"{settings!r}{qdrant_server!r}"
