"""Stub of an embedding server: real HTTP on a loopback port, with answers that a test sets."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from cortex.engine.embedders.hash_embedder import HashingEmbedder

DIMENSIONS = 16


@dataclass(frozen=True, slots=True)
class Asked:
    """A request as it arrived."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: Any


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer to send back."""

    body: object = None
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    raw: bytes | None = None


class Stub:
    """A server that keeps each request and answers with the result of `answer`."""

    def __init__(self, tls: tuple[Path, Path] | None = None) -> None:
        """`tls` are a certificate and its key."""
        self.asked: list[Asked] = []
        self.most_at_once = 0
        self._at_once = 0
        self._lock = threading.Lock()
        self.answer: Callable[[Asked], Reply] = embeddings
        stub = self

        class Listener(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = 65536  # head and body in one write: two of them wait for one another

            def do_POST(self) -> None:
                stub._respond(self)

            def do_GET(self) -> None:
                stub._respond(self)

            def log_message(self, format: str, *args: object) -> None:
                """Print nothing to stderr."""

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request: object, client_address: object) -> None:
                """Ignore a client that goes away."""

        self._server = Server(("127.0.0.1", 0), Listener)
        if tls is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*tls)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.01,), daemon=True
        )
        self._thread.start()

    def _respond(self, listener: BaseHTTPRequestHandler) -> None:
        length = int(listener.headers.get("content-length", "0"))
        content = listener.rfile.read(length)
        asked = Asked(
            listener.command,
            listener.path,
            dict(listener.headers.items()),
            json.loads(content) if content else None,
        )
        with self._lock:
            self.asked.append(asked)
            self._at_once += 1
            self.most_at_once = max(self.most_at_once, self._at_once)
        try:
            reply = self.answer(asked)
        finally:
            with self._lock:
                self._at_once -= 1
        body = json.dumps(reply.body).encode() if reply.raw is None else reply.raw
        listener.send_response(reply.status)
        for name, value in reply.headers.items():
            listener.send_header(name, value)
        listener.send_header("Content-Length", str(len(body)))
        listener.end_headers()
        listener.wfile.write(body)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)


def texts_of(asked: Asked) -> list[str]:
    return asked.body.get("input") or asked.body.get("texts") or []


def vectors_of(texts: list[str], dimensions: int = DIMENSIONS) -> list[list[float]]:
    return (3 * HashingEmbedder(dimensions).embed(texts, "passage")).tolist()  # not of length 1


def embeddings(asked: Asked) -> Reply:
    """Answer a request as a working server of its kind."""
    if asked.method == "GET":
        return Reply({"status": "ok", "model": "stub", "dimensions": DIMENSIONS, "max_tokens": 512})
    vectors = vectors_of(texts_of(asked))
    match asked.path:
        case "/v1/embeddings":
            rows = [
                {"object": "embedding", "index": i, "embedding": v} for i, v in enumerate(vectors)
            ]
            return Reply({"object": "list", "data": rows[::-1], "model": asked.body["model"]})
        case "/api/embed":
            return Reply({"model": asked.body["model"], "embeddings": vectors})
        case "/embed":
            return Reply({"embeddings": vectors})
    return Reply({"error": "no such path"}, 404)
