"""get_file_context and reindex_workspace over MCP; no path leaves the root."""

import json
import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.code_server import CodeServer, make_repository, wait_for

SECRET = "outside-the-root"
INDEX_KEYS = {"status", "added", "changed", "deleted", "unchanged", "skipped", "seconds"}


@pytest.fixture(scope="module")
def fenced(tmp_path_factory):
    """A server on a repository with a secret beside it and links that lead there."""
    folder = tmp_path_factory.mktemp("fenced")
    (folder / "secret.py").write_text(f"# {SECRET}\n", encoding="utf-8")
    (folder / "inner-secret").mkdir()
    (folder / "inner-secret" / "a.py").write_text(f"# {SECRET}\n", encoding="utf-8")
    root = make_repository(
        folder / "root", {"a.py": "x = 1\n", "deep/b c.py": "y = 2\n", "ü/ñ.py": "z = 3\n"}
    )
    os.symlink(folder / "secret.py", root / "link.py")
    os.symlink(folder / "inner-secret", root / "linked")
    os.symlink(root / "deep", root / "inside")
    with CodeServer(root) as server:
        server.initialize()
        server.wait_until_ready()
        yield server, root


# -- get_file_context
# --------------------------------------------------------------------------------------------------


def test_a_whole_file_comes_with_its_definitions_and_chunks(server):
    body = server.tool("get_file_context", path="shop/payment/invoice.py")
    assert set(body) == {
        "file",
        "language",
        "startLine",
        "endLine",
        "totalLines",
        "text",
        "symbols",
        "chunks",
    }
    assert (body["file"], body["language"]) == ("shop/payment/invoice.py", "python")
    assert (body["startLine"], body["endLine"], body["totalLines"]) == (1, 17, 17)
    assert body["text"].startswith('"""Invoices')
    symbol = next(symbol for symbol in body["symbols"] if symbol["name"] == "parse_invoice_number")
    assert symbol == {
        "name": "parse_invoice_number",
        "kind": "function",
        "startLine": 6,
        "endLine": 11,
    }
    assert [chunk["index"] for chunk in body["chunks"]] == list(range(len(body["chunks"])))
    assert {"index", "startLine", "endLine", "kind", "name"} == set(body["chunks"][0])


@pytest.mark.parametrize(
    ("arguments", "lines"),
    [
        ({"lineRange": {"start": 6, "end": 8}, "contextLines": 0}, (6, 8)),
        ({"lineRange": {"start": 6, "end": 8}, "contextLines": 2}, (4, 10)),
        ({"lineRange": {"start": 12}}, (2, 17)),
        ({"lineRange": {"end": 3}, "contextLines": 1}, (1, 4)),
        ({"lineRange": {"start": 16, "end": 500}, "contextLines": 0}, (16, 17)),
        ({"lineRange": {}}, (1, 17)),
        ({"contextLines": 100}, (1, 17)),
    ],
)
def test_a_line_range_comes_with_the_lines_around_it(server, arguments, lines):
    body = server.tool("get_file_context", path="shop/payment/invoice.py", **arguments)
    assert (body["startLine"], body["endLine"]) == lines
    assert body["text"].count("\n") == lines[1] - lines[0]


def test_an_impossible_line_range_is_an_error_and_a_malformed_one_a_bad_request(server):
    path = "shop/payment/invoice.py"
    assert (
        server.failure("get_file_context", path=path, lineRange={"start": 9, "end": 3})["code"]
        == "ARGUMENT_INVALID"
    )
    too_far = server.failure("get_file_context", path=path, lineRange={"start": 500})
    assert "17 lines" in too_far["message"]
    for wrong in ({"start": 0}, {"start": "1"}, {"from": 1}, [1, 2]):
        answer = server.call("get_file_context", {"path": path, "lineRange": wrong})
        assert answer["error"]["code"] == -32602
    assert (
        server.call("get_file_context", {"path": path, "contextLines": 101})["error"]["code"]
        == -32602
    )


def test_an_empty_file_is_no_error(server):
    body = server.tool("get_file_context", path="shop/empty.py")
    assert (body["text"], body["totalLines"], body["chunks"]) == ("", 0, [])


def test_a_long_file_comes_in_parts(fenced):
    server, root = fenced
    lines = [f'value_{number} = "{number}"' for number in range(2_000)]
    (root / "long.py").write_text("\n".join(lines) + "\n", encoding="utf-8")
    taken, at = [], 1
    while at:
        body = server.tool(
            "get_file_context",
            path="long.py",
            lineRange={"start": at, "end": 2_000},
            contextLines=0,
        )
        assert len(json.dumps(body, ensure_ascii=False, separators=(",", ":"))) <= 16_000
        taken.append(body["text"])
        assert body.get("truncated", False) == ("nextLine" in body)
        at = body.get("nextLine")
    assert len(taken) > 2
    assert "\n".join(taken) == "\n".join(lines)


def test_a_file_is_shown_as_it_is_now(fenced):
    server, root = fenced
    (root / "fresh.py").write_text("def first():\n    pass\n", encoding="utf-8")
    assert server.tool("get_file_context", path="fresh.py")["symbols"][0]["name"] == "first"
    (root / "fresh.py").write_text("def second():\n    pass\n", encoding="utf-8")
    assert server.tool("get_file_context", path="fresh.py")["symbols"][0]["name"] == "second"
    (root / "fresh.py").unlink()
    failure = server.failure("get_file_context", path="fresh.py")
    assert (failure["code"], failure["context"]["path"]) == ("FILE_NOT_FOUND", "fresh.py")


@pytest.mark.parametrize(
    ("path", "code", "word"),
    [
        ("missing.py", "FILE_NOT_FOUND", "no such file"),
        ("shop", "FILE_NOT_FOUND", "folder"),
        ("", "FILE_NOT_FOUND", "folder"),
        (".env", "FILE_UNREADABLE", "secret"),
        ("ignored/draft.py", "FILE_UNREADABLE", "ignore"),
        ("logo.png", "FILE_UNREADABLE", "binary"),
        ("blob.dat2", "FILE_UNREADABLE", "binary"),
        (".git/config", "FILE_UNREADABLE", ".git"),
    ],
)
def test_hidden_file_is_refused_with_the_reason(server, path, code, word):
    failure = server.failure("get_file_context", path=path)
    assert failure["code"] == code
    assert word in failure["message"]
    assert "do-not-show" not in json.dumps(failure)
    assert server.request("resources/read", {"uri": f"codeindex://file/{path}/chunks"})["error"][
        "code"
    ] in (-32602, -32002)


# -- no path leaves the root
# ---------------------------------------------------------------------------------------------

OUTSIDE = [
    "../secret.py",
    "deep/../../secret.py",
    "deep/../../root/../secret.py",
    "/etc/passwd",
    "//etc/passwd",
    "\\\\server\\share\\a.py",
    "..\\secret.py",
    "deep\\..\\..\\secret.py",
    "C:\\Windows\\win.ini",
    "C:/Windows/win.ini",
    "link.py",
    "linked/a.py",
    "linked",
    "a.py\0",
    "../root/../secret.py",
    "./../secret.py",
    "~/../secret.py",
    "x" * 5_000,
]


@pytest.mark.parametrize("path", OUTSIDE)
def test_a_path_outside_the_root_is_refused_however_it_is_spelled(fenced, path):
    server, _ = fenced
    for tool in ("get_file_context", "reindex_workspace"):
        failure = server.failure(tool, path=path)
        assert failure["code"] == "PATH_OUTSIDE", (tool, failure)
        assert failure["category"] == "filesystem"
        assert "relative" in failure["suggestions"][0]
        assert SECRET not in json.dumps(failure)


def test_spellings_of_a_path_inside_the_root_are_understood(fenced):
    server, root = fenced
    for path in (
        "a.py",
        "./a.py",
        "deep/b c.py",
        "deep//b c.py",
        str(root / "a.py"),
        "ü/ñ.py",
        "inside/b c.py",
    ):
        assert server.tool("get_file_context", path=path)["totalLines"] == 1


parts = st.sampled_from(
    ["..", ".", "a.py", "deep", "b c.py", "link.py", "linked", "secret.py", "", "inside", "root", "inner-secret", "%2e%2e",
     "etc", "passwd", "~", "C:", "\0", "ü", "ñ.py", "...", " "]
)  # fmt: skip
paths = st.builds(
    lambda start, middle, separator: start + separator.join(middle),
    st.sampled_from(["", "/", "//", "\\", "./", "../"]),
    st.lists(parts, min_size=1, max_size=6),
    st.sampled_from(["/", "\\", "//", "%2f"]),
)


@settings(max_examples=60)
@given(path=paths)
def test_no_path_ever_reads_outside_the_root(fenced, path):
    server, _ = fenced
    answers = [
        server.call("get_file_context", {"path": path}),
        server.call("reindex_workspace", {"path": path}),
        server.request("resources/read", {"uri": f"codeindex://file/{path}/chunks"}),
    ]
    for answer in answers:
        assert SECRET not in json.dumps(answer)
        assert "root:x:" not in json.dumps(answer)
        assert answer.get("error", {}).get("code", -32602) in (-32602, -32002)


# -- reindex_workspace
# ----------------------------------------------------------------------------------------------------


def test_reindex_answer_holds_changes_status_and_statistics(fenced):
    server, _ = fenced
    server.tool("reindex_workspace")
    body = server.tool("reindex_workspace")
    assert set(body) >= INDEX_KEYS
    assert body["status"] == "completed"
    assert (body["added"], body["changed"], body["deleted"]) == (0, 0, 0)
    assert body["unchanged"] >= 3
    assert set(body["index"]) == set(server.read("codeindex://workspace/status"))
    assert set(body["stats"]) == {"files", "chunks", "performance"}
    assert "counts as `both`" in server.tool("reindex_workspace", strategy="embeddings")["notes"][0]


def test_one_path_is_reindexed_alone(fenced):
    server, root = fenced
    (root / "deep" / "more.py").write_text("deeper = 1\n", encoding="utf-8")
    body = server.tool("reindex_workspace", path="deep")
    # The watcher may have been first
    assert body["added"] + body["unchanged"] == 2
    assert server.tool("reindex_workspace", path="a.py")["unchanged"] == 1
    (root / "deep" / "more.py").unlink()
    wait_for(lambda: not server.tool("search_code", query="deeper", fileTypes=["py"])["results"])
    assert server.failure("reindex_workspace", path="nowhere/at/all")["code"] == "FILE_NOT_FOUND"


def test_second_forced_run_within_a_minute_is_rate_limited(fenced):
    server, _ = fenced
    wait_for(lambda: server.read("codeindex://workspace/status")["indexing"]["status"] == "ready")
    token = {"progressToken": "p1"}
    answer = server.call("reindex_workspace", {"force": True}, **token)
    body = json.loads(answer["result"]["content"][0]["text"])
    # On a busy machine it goes on as a job, which the same call joins
    while body["status"] == "indexing":
        answer = server.call("reindex_workspace", {"force": True}, **token)
        body = json.loads(answer["result"]["content"][0]["text"])
    assert body["status"] == "completed"
    assert body["changed"] >= 3
    assert body["unchanged"] == 0
    failure = server.failure("reindex_workspace", force=True)
    assert (failure["code"], failure["category"], failure["retryable"]) == (
        "RATE_LIMITED",
        "resource",
        True,
    )
    assert 0 < failure["context"]["retry_after_seconds"] <= 60
    assert server.read("codeindex://workspace/status")["indexing"]["status"] == "ready"
    notes = [
        message["params"]
        for message in server.aside
        if message.get("method") == "notifications/progress"
    ]
    assert {note["progressToken"] for note in notes} == {"p1"}
    steps = [note["progress"] for note in notes]
    assert steps == sorted(set(steps))
