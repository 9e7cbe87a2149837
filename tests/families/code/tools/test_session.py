"""Several workspaces in one server, and stores that can't be opened."""

import json
import sqlite3

import pytest

from cortex.engine.store.lease import Lease
from protocol.client import Client
from protocol.code_server import CORTEX, CodeServer, make_repository, wait_for

ALPHA = {"app/main.py": "def start_alpha():\n    return 'shared wording'\n"}
BETA = {
    "app/main.py": "def start_beta():\n    return 'shared wording'\n",
    "only/beta.py": "beta_only = 1\n",
}


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """A server on two folders, given by two flags."""
    folder = tmp_path_factory.mktemp("two")
    roots = (
        make_repository(folder / "alpha", ALPHA),
        make_repository(folder / "beta", BETA, git=False),
    )
    with CodeServer(*roots) as server:
        server.initialize()
        server.wait_until_ready()
        yield server, *roots
        assert server.garbage == []


def places(body):
    return {(result["workspace"], result["file"]) for result in body["results"]}


def test_all_workspaces_are_searched_and_each_result_names_its_own(two):
    server, _, _ = two
    body = server.tool("search_code", query="shared wording")
    assert places(body) == {("alpha", "app/main.py"), ("beta", "app/main.py")}
    assert places(server.tool("search_code", query='"shared wording"')) == places(body)
    assert places(server.tool("search_code", query="start_beta", maxResults=1)) == {
        ("beta", "app/main.py")
    }
    assert places(
        server.tool("find_similar_code", code="def start_alpha(): ...", maxResults=1)
    ) == {("alpha", "app/main.py")}


def test_one_workspace_is_chosen_by_name_or_path(two):
    server, alpha, _ = two
    for name in ("alpha", str(alpha), f"{alpha}/"):
        assert places(server.tool("search_code", query="shared wording", workspace=name)) == {
            ("alpha", "app/main.py")
        }
        assert (
            server.read(f"codeindex://workspace/status?workspace={name}")["workspace"]["name"]
            == "alpha"
        )


def test_an_unknown_workspace_is_an_error_that_names_the_known(two):
    server, _, _ = two
    for tool, arguments in (
        ("search_code", {"query": "a"}),
        ("find_similar_code", {"code": "a"}),
        ("get_file_context", {"path": "app/main.py"}),
        ("reindex_workspace", {}),
        ("update_config", {"settings": {}}),
    ):
        failure = server.failure(tool, **arguments, workspace="gamma")
        assert (failure["code"], failure["category"]) == ("WORKSPACE_UNKNOWN", "configuration")
        assert failure["context"] == {"workspace": "gamma", "known": ["alpha", "beta"]}
        assert "alpha, beta" in failure["message"]


def test_a_file_is_relative_to_its_workspace(two):
    server, _, beta = two
    failure = server.failure("get_file_context", path="app/main.py")
    assert (failure["code"], failure["context"]["candidates"]) == (
        "WORKSPACE_AMBIGUOUS",
        ["alpha", "beta"],
    )
    assert "alpha, beta" in failure["message"]
    assert (
        "start_beta"
        in server.tool("get_file_context", path="app/main.py", workspace="beta")["text"]
    )
    assert server.tool("get_file_context", path="only/beta.py")["workspace"] == "beta"
    assert (
        server.tool("get_file_context", path=str(beta / "only/beta.py"))["file"] == "only/beta.py"
    )
    assert server.failure("get_file_context", path="nowhere.py")["code"] == "FILE_NOT_FOUND"
    assert server.failure("get_file_context", path="../beta/only/beta.py")["code"] == "PATH_OUTSIDE"
    chunks = server.read("codeindex://file/app/main.py/chunks?workspace=beta")["chunks"]
    assert "start_beta" in chunks[0]["text"]
    assert server.read("codeindex://file/only/beta.py/chunks")["file"] == "only/beta.py"


def test_status_and_statistics_sum_up_and_show_each(two):
    server, _, _ = two
    status = server.read("codeindex://workspace/status")
    assert status["indexing"]["indexedFiles"] == 3
    assert [workspace["workspace"]["name"] for workspace in status["workspaces"]] == [
        "alpha",
        "beta",
    ]
    assert server.read("codeindex://workspace/stats")["files"]["total"] == 3
    assert server.read("codeindex://workspace/stats?workspace=alpha")["files"]["total"] == 1


def test_reindexing_reaches_all_or_the_one_that_has_the_path(two):
    server, _, beta = two
    body = server.tool("reindex_workspace")
    assert body["unchanged"] == 3
    assert [workspace["workspace"] for workspace in body["workspaces"]] == ["alpha", "beta"]
    assert server.tool("reindex_workspace", path="only")["unchanged"] == 1
    assert server.tool("reindex_workspace", path=str(beta / "only"))["unchanged"] == 1
    assert server.tool("reindex_workspace", path="app")["unchanged"] == 2


def test_every_page_of_several_workspaces_has_hits_with_text(tmp_path):
    body = "".join(f"    basket_{line} = 'common wording {line}'\n" for line in range(40))
    texts = {f"m{number}.py": f"def shelf_{number}():\n{body}" for number in range(6)}
    with CodeServer(
        make_repository(tmp_path / "a", texts), make_repository(tmp_path / "b", texts)
    ) as server:
        server.initialize()
        server.wait_until_ready()
        cursor, pages = {}, 0
        while cursor is not None:
            answer = server.tool(
                "search_code", query="common wording", budget=1500, maxResults=4, **cursor
            )
            chunks = [result["chunk"] for result in answer["results"]]
            assert chunks[0]["text"]
            assert all(chunk.get("text") != "" for chunk in chunks)
            if not all("text" in chunk for chunk in chunks):
                assert answer["metadata"]["truncated"]
            cursor = (
                {"cursor": answer["metadata"]["cursor"]} if "cursor" in answer["metadata"] else None
            )
            pages += 1
        assert pages > 1
        found = server.read("codeindex://search/common%20wording?maxResults=200")["results"]
        assert [result["chunk"]["tokens"] > 0 for result in found if "text" in result["chunk"]]
        assert not any(result["chunk"].get("text") == "" for result in found)


def test_folders_of_the_same_name_are_called_by_their_paths(tmp_path):
    first, two = (
        make_repository(tmp_path / "a" / "web", ALPHA),
        make_repository(tmp_path / "b" / "web", BETA),
    )
    with CodeServer(first, two) as server:
        server.initialize()
        server.wait_until_ready()
        found = places(server.tool("search_code", query="shared wording"))
        assert found == {(str(first), "app/main.py"), (str(two), "app/main.py")}
        assert (
            "start_beta"
            in server.tool("get_file_context", path="app/main.py", workspace=str(two))["text"]
        )
        assert server.failure("search_code", query="a", workspace="x")["context"]["known"] == [
            str(first),
            str(two),
        ]
        failure = server.failure("search_code", query="shared wording", workspace="web")
        assert (failure["code"], failure["context"]["candidates"]) == (
            "WORKSPACE_AMBIGUOUS",
            [str(first), str(two)],
        )


def test_workspaces_may_come_from_the_projects_configuration(tmp_path):
    root = make_repository(
        tmp_path / "mono",
        {"one/a.py": "first = 1\n", "two/b.py": "second = 2\n", "c.py": "third = 3\n"},
    )
    config = {"workspace": {"paths": ["one", "two", "/etc"]}}
    (root / "codeindex.config.json").write_text(json.dumps(config), encoding="utf-8")
    with CodeServer(cwd=root) as server:
        server.initialize()
        server.wait_until_ready()
        status = server.read("codeindex://workspace/status")
        assert [workspace["workspace"]["name"] for workspace in status["workspaces"]] == [
            "one",
            "two",
        ]
        assert any("/etc" in warning for warning in status["warnings"])
        assert places(server.tool("search_code", query="first second third", threshold=0)) == {
            ("one", "a.py"),
            ("two", "b.py"),
        }


# -- stores that can't be opened
# --------------------------------------------------------------------------------------------


def damage(root):
    """Overwrite the store of a repository with what is no database."""
    (root / ".cortex").mkdir(exist_ok=True)
    (root / ".cortex" / "cortex.db").write_bytes(b"this is no database" * 500)


def test_a_damaged_store_is_built_anew_and_the_answer_says_so(tmp_path):
    root = make_repository(tmp_path / "broken", ALPHA)
    damage(root)
    with CodeServer(root) as server:
        server.initialize()
        assert server.tool("search_code", query="alpha")["results"]
        assert "start_alpha" in server.tool("get_file_context", path="app/main.py")["text"]
        assert server.close() == 0
        assert server.garbage == []


def test_one_store_that_can_not_be_replaced_does_not_silence_the_others(tmp_path):
    good, bad = make_repository(tmp_path / "good", ALPHA), make_repository(tmp_path / "bad", BETA)
    damage(bad)
    lease = Lease(bad / ".cortex")
    assert lease.take()
    with CodeServer(good, bad) as server:
        server.initialize()
        body = server.tool("search_code", query="shared wording")
        assert places(body) == {("good", "app/main.py")}
        assert any("bad is left out" in note for note in body["metadata"]["notes"])
        failure = server.failure("search_code", query="a", workspace="bad")
        assert failure["code"] == "STORE_CORRUPT"
        assert "cortex.db" not in " ".join(failure["suggestions"])
        answer = server.tool(
            "search_code", query="shared wording", workspace="good", strategy="tfidf"
        )
        assert "notes" not in answer["metadata"]
        lease.release()
        wait_for(
            lambda: server.tool("search_code", query="shared wording", workspace="bad")["results"]
        )


def test_an_index_of_a_newer_version_is_built_anew(tmp_path):
    root = make_repository(tmp_path / "newer", ALPHA)
    (root / ".cortex").mkdir()
    with sqlite3.connect(root / ".cortex" / "cortex.db") as connection:
        connection.execute("PRAGMA user_version = 9999")
    connection.close()
    with CodeServer(root) as server:
        assert server.tool("search_code", query="alpha")["results"]
    assert list((root / ".cortex").glob("cortex.db.damaged-*"))


def test_a_project_that_can_not_be_written_is_indexed_elsewhere(tmp_path):
    root = make_repository(tmp_path / "frozen", ALPHA)
    (root / ".cortex").write_text("a file is in the way", encoding="utf-8")
    with CodeServer(root) as server:
        server.initialize()
        server.wait_until_ready()
        assert server.tool("search_code", query="alpha")["results"]


def test_a_server_without_any_workspace_ends_with_an_explanation(tmp_path, isolated):
    import subprocess

    done = subprocess.run(
        [*CORTEX, "mcp"],
        cwd=isolated.user,
        input=b"",
        capture_output=True,
        timeout=30,
        env=isolated.environment(),
    )
    assert done.returncode == 1
    assert done.stdout == b""
    assert b"--workspace" in done.stderr
    with Client([*CORTEX, "mcp", "--workspace", str(tmp_path / "nowhere")]) as client:
        assert client.process.wait(20) == 1
