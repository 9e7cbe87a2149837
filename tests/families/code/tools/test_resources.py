"""The resources of the code family over MCP."""

import time

import pytest

from protocol.code_server import check_envelope


def test_the_status_has_the_fields_of_the_contract(server, repository):
    status = server.read("codeindex://workspace/status")
    assert status["workspace"]["path"] == str(repository)
    assert status["workspace"]["name"] == "shop"
    indexing = status["indexing"]
    assert set(indexing) == {
        "status", "totalFiles", "indexedFiles", "skippedFiles", "totalChunks", "embeddedChunks", "progress",
    }  # fmt: skip
    assert (indexing["status"], indexing["progress"]) == ("ready", 1.0)
    assert indexing["embeddedChunks"] == indexing["totalChunks"]
    assert set(status["embedding"]) == {"provider", "model", "dimensions", "share", "answering"}
    assert (status["embedding"]["provider"], status["embedding"]["share"]) == ("local", 1.0)
    assert indexing["totalFiles"] == indexing["indexedFiles"] > 5
    assert set(status["strategies"]) == {"available", "preferred", "fallback"}
    assert set(status["cache"]) == {"memoryUsage", "diskUsage", "hitRate", "lastCleanup"}
    named = {skipped["file"]: skipped["reason"] for skipped in status["skipped"]["files"]}
    assert named == {".env": "secret", "logo.png": "binary", "blob.dat2": "binary"}
    assert indexing["skippedFiles"] == 3


def test_the_statistics_have_the_fields_of_the_contract(server):
    stats = server.read("codeindex://workspace/stats")
    assert set(stats) == {"files", "chunks", "performance"}
    assert set(stats["files"]["bySize"]) == {"small", "medium", "large"}
    assert (
        stats["files"]["total"]
        == sum(stats["files"]["byLanguage"].values())
        == sum(stats["files"]["bySize"].values())
    )
    assert set(stats["chunks"]) == {"total", "averageSize", "embedded", "tfidfIndexed"}
    assert stats["chunks"]["tfidfIndexed"] == stats["chunks"]["total"] > 5
    assert set(stats["performance"]) == {
        "averageSearchTime",
        "indexingTime",
        "cacheHitRate",
        "memoryUsage",
    }


def test_search_resource_takes_the_parameters_of_its_address(server):
    body = server.read(
        "codeindex://search/overdue%20reminder?maxResults=1&strategy=tfidf&threshold=0.1"
    )
    assert set(body) == {
        "query",
        "strategy",
        "executionTime",
        "totalResults",
        "results",
        "metadata",
    }
    assert (body["query"], body["strategy"]) == ("overdue reminder", "tfidf")
    (result,) = body["results"]
    assert set(result) == {"file", "fileName", "chunk", "relevance", "context"}
    assert (result["file"], result["fileName"]) == ("shop/payment/invoice.py", "invoice.py")
    assert set(result["chunk"]) == {"text", "startLine", "endLine", "tokens"}
    assert {"searchedFiles", "searchedChunks", "cacheHit"} <= set(body["metadata"])
    assert server.read("codeindex://search/shop/basket.py")["results"]
    again = server.read(
        "codeindex://search/overdue%20reminder?maxResults=1&strategy=tfidf&threshold=0.1"
    )
    assert again["metadata"]["cacheHit"] is True


@pytest.mark.parametrize(
    "parameter",
    [
        "maxResults=0",
        "maxResults=x",
        "maxResults=nan",
        "maxResults=1.5",
        "threshold=2",
        "strategy=magic",
        "limit=3",
    ],
)
def test_invalid_parameter_of_a_search_address_is_named(server, parameter):
    error = server.request("resources/read", {"uri": f"codeindex://search/a?{parameter}"})["error"]
    assert error["code"] == -32602
    assert parameter.split("=")[0] in error["message"]


def test_the_chunks_of_a_file_in_nested_folders_come_with_their_text(server, repository):
    for path in ("shop/payment/invoice.py", "shop%2Fpayment%2Finvoice.py"):
        body = server.read(f"codeindex://file/{path}/chunks")
        assert set(body) == {"file", "language", "size", "lastModified", "chunks"}
        assert body["file"] == "shop/payment/invoice.py"
        assert body["size"] == (repository / "shop/payment/invoice.py").stat().st_size
        time.strptime(body["lastModified"], "%Y-%m-%dT%H:%M:%SZ")
        for index, chunk in enumerate(body["chunks"]):
            assert set(chunk) == {"index", "text", "startLine", "endLine", "tokens", "embedding"}
            assert chunk["index"] == index
            assert chunk["text"].count("\n") == chunk["endLine"] - chunk["startLine"]
            assert set(chunk["embedding"]) == {"provider", "model", "generated"}


def test_a_resource_that_fails_carries_the_envelope(server):
    error = server.request("resources/read", {"uri": "codeindex://file/missing.py/chunks"})["error"]
    assert error["code"] == -32002
    assert check_envelope(error["data"])["code"] == "FILE_NOT_FOUND"
    assert (
        server.request("resources/read", {"uri": "codeindex://nothing"})["error"]["code"] == -32002
    )
    error = server.request(
        "resources/read", {"uri": "codeindex://workspace/status?workspace=nowhere"}
    )["error"]
    assert error["code"] == -32602
    assert check_envelope(error["data"])["code"] == "WORKSPACE_UNKNOWN"
