"""Qdrant over HTTP: real requests and statuses, passed on to the client's local mode."""

from __future__ import annotations

import json
import threading
import warnings
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from qdrant_client import QdrantClient, models

from cortex.base.settings import load
from cortex.engine.library import Library
from cortex.families.documents.search import find, query_of

KEY = "a-very-secret-key"


class StandIn(BaseHTTPRequestHandler):
    """The requests that Cortex sends, each checked by the client's own models."""

    protocol_version = "HTTP/1.1"
    local: QdrantClient
    turn = threading.Lock()

    def answer(self) -> None:
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        with self.turn, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it always searches exactly, and says so
            result = self.result(json.loads(raw) if raw else {})
        status = 401 if self.headers.get("api-key") != KEY else 404 if result is None else 200
        body = json.dumps({"result": result, "status": "ok", "time": 0.0}).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_PUT = do_POST = do_DELETE = answer

    def result(self, body: dict) -> object:
        _, _, name, *rest = [*self.path.partition("?")[0].split("/"), ""]
        local = self.local
        if not name:
            return {
                "collections": [
                    {"name": collection.name} for collection in local.get_collections().collections
                ]
            }
        match self.command, "/".join(rest).strip("/"):
            case "PUT", "":
                return local.create_collection(name, models.CreateCollection(**body).vectors)
            case _ if not local.collection_exists(name):
                return None
            case "DELETE", "":
                return local.delete_collection(name)
            case "PUT", "points":
                points = (
                    models.PointsBatch(**body).batch
                    if "batch" in body
                    else models.PointsList(**body).points
                )
                return as_json(local.upsert(name, points))
            case "POST", "points":
                asked = models.PointRequest(**body)
                return [
                    as_json(point)
                    for point in local.retrieve(
                        name, asked.ids, with_vectors=bool(asked.with_vector)
                    )
                ]
            case "POST", "points/delete":
                return as_json(local.delete(name, models.PointIdsList(**body)))
            case "POST", "points/query":
                asked = models.QueryRequest(**body)
                assert asked.params is not None
                assert asked.params.exact
                return as_json(
                    local.query_points(
                        name,
                        query=asked.query,
                        using=asked.using,
                        query_filter=asked.filter,
                        limit=asked.limit,
                    )
                )
            case "POST", "points/scroll":
                asked = models.ScrollRequest(**body)
                points, offset = local.scroll(name, limit=asked.limit, offset=asked.offset)
                return {"points": [as_json(point) for point in points], "next_page_offset": offset}
            case "POST", "points/count":
                return as_json(local.count(name, models.CountRequest(**body).filter))
        return None

    def log_message(self, format: str, *args: object) -> None:
        pass


def as_json(answer) -> object:
    return json.loads(answer.model_dump_json())


@pytest.fixture
def url() -> Iterator[str]:
    handler = type("Here", (StandIn,), {"local": QdrantClient(":memory:")})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()
    handler.local.close()


def test_library_is_filled_searched_emptied_and_purged_over_http(tmp_path: Path, url: str):
    notes = tmp_path / "notes"
    notes.mkdir()
    for number in range(30):
        (notes / f"{number}.md").write_text(
            f"# Lamp {number}\n\nThe owner may switch lamp {number}.\n", "utf-8"
        )
    (notes / "desk.md").write_text("# Desk\n\nThe desk has three drawers.\n", "utf-8")
    flags = {"kb.qdrant.url": url, "kb.qdrant.api_key": KEY, "indexing.workers": 1}
    settings = load(
        None, environment={"CORTEX_HOME": str(tmp_path / "home")}, flags=flags, user_home=tmp_path
    )
    with Library(settings) as library:
        folder = library.add_folder(notes)
        library.index(source=folder.source)
        library.embedding.work()
        assert library.store.check() == []
        found = find(
            library.reader,
            query_of(settings, "how many drawers has the desk", "semantic", 10),
            None,
        )
        assert (found.mode, found.degraded, found.results[0].path) == ("semantic", False, "desk.md")
        server = library._vector_server
        assert server is not None
        (collection,) = server.collections()
        assert (collection.points, collection.mark is not None) == (31, True)
        library.remove_folder(folder)
        (collection,) = server.collections()
        assert collection.points == 0
        server.drop([collection.name])
        assert server.collections() == []
        assert server.look(collection.name) == (False, None)
        assert server.away == ""
