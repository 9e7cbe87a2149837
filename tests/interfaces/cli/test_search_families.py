"""`cortex search` over several families: code, documents, memories, chunk files."""

import json
from contextlib import closing
from pathlib import Path

import pytest

from families.memory.adapters.claude_mem_databases import make_claude_mem

pytestmark = pytest.mark.usefixtures("isolated")

QUESTION = "how do tokens expire"


@pytest.fixture
def project(tmp_path: Path, cortex) -> Path:
    """A folder of code, beside a folder of documents that the person has."""
    for path, text in {
        "project/tokens.py": "def expire(tokens):\n    return [token for token in tokens if token.age < LIMIT]\n",
        "handbook/guide.md": "# Guide\n\n## Tokens\n\nTokens expire after fifteen minutes.\n",
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text, encoding="utf-8", newline="\n")
    assert cortex("kb", "add", tmp_path / "handbook")[0] == 0
    return tmp_path / "project"


def test_code_and_documents_are_merged_by_relevance_with_their_origin(cortex, project):
    code, out, _ = cortex("search", QUESTION, "--in", "code,kb", "--path", project, "--json")
    results = json.loads(out)["results"]
    assert code == 0
    assert {(result["family"], result["source"], result["file"]) for result in results} == {
        ("code", "project", "tokens.py"),
        ("kb", "handbook", "guide.md"),
    }
    assert [result["relevance"] for result in results] == sorted(
        (result["relevance"] for result in results), reverse=True
    )
    assert (
        "handbook/guide.md:1"
        in cortex("search", QUESTION, "--in", "kb, code", "--path", project)[1]
    )


def test_search_in_a_named_folder_names_no_family(cortex, project):
    (one,) = json.loads(cortex("search", QUESTION, "--path", project, "--json")[1])["results"]
    assert one["file"] == "tokens.py"
    assert not {"family", "source", "workspace"} & set(one)


@pytest.mark.parametrize("within", [(), ("--in", "all"), ("--in", "code,kb,memory,team")])
def test_plain_search_answers_from_every_available_family(
    cortex, project, isolated, monkeypatch, within
):
    monkeypatch.chdir(project)
    (project / ".git").mkdir()
    assert cortex("memory", "add", "Tokens expire in tests", "--text", "Freeze the clock.")[0] == 0
    made = cortex("team", "artifact", "create", "Tokens expire after 15 minutes", "--json")[1]
    results = json.loads(cortex("search", QUESTION, *within, "--json")[1])["results"]
    assert {result["family"] for result in results} == {"code", "kb", "memory", "team"}
    assert json.loads(made)["id"] in {result.get("id") for result in results}
    assert [result["relevance"] for result in results] == sorted(
        (result["relevance"] for result in results), reverse=True
    )


def test_plain_search_finds_text_of_chunk_files(cortex, project, monkeypatch):
    monkeypatch.chdir(project)
    (project / ".git").mkdir()
    assert cortex("chunks", "export")[0] == 0
    (project / "tokens.py").unlink()
    results = json.loads(cortex("search", "expire tokens", "--json")[1])["results"]
    assert {result["family"] for result in results} == {"chunks", "kb"}


def test_plain_search_with_code_alone_is_a_code_search(cortex, tmp_path, monkeypatch):
    (tmp_path / "lone" / ".git").mkdir(parents=True)
    (tmp_path / "lone" / "tokens.py").write_text("def expire(): pass\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path / "lone")
    plain, code = (
        json.loads(cortex("search", "expire", *more, "--json")[1])
        for more in ((), ("--in", "code"))
    )
    assert plain["results"] == code["results"]
    assert not {"family", "source"} & set(plain["results"][0])
    assert cortex("search", "expire")[1].startswith("tokens.py:1  ")


@pytest.mark.parametrize("more", [("--mode", "exact"), ("--in", "all", "--mode", "exact")])
def test_exact_search_covers_code_alone(cortex, project, monkeypatch, more):
    monkeypatch.chdir(project)
    (project / ".git").mkdir()
    (one,) = json.loads(cortex("search", "expire", *more, "--json")[1])["results"]
    assert one["file"] == "tokens.py" and "family" not in one


def test_plain_search_outside_a_project_answers_from_personal_sources(
    cortex, project, tmp_path, monkeypatch
):
    (tmp_path / "nowhere").mkdir()
    monkeypatch.chdir(tmp_path / "nowhere")
    code, out, err = cortex("search", QUESTION)
    assert code == 0
    assert "handbook/guide.md:1" in out
    assert "only what is yours is searched" in err


def test_document_search_finds_what_the_kb_tool_finds(cortex, project):
    results = json.loads(cortex("search", QUESTION, "--in", "kb", "--json")[1])["results"]
    asked = json.loads(cortex("kb", "search", QUESTION, "--json")[1])["results"]
    assert [(result["file"], result["startLine"], result["relevance"]) for result in results] == [
        (hit["path"], hit["startLine"], hit["score"]) for hit in asked
    ]
    cited = ("document_id", "section", "page")
    assert [[result[name] for name in cited] for result in results] == [
        [hit[name] for name in cited] for hit in asked
    ]


def test_document_search_without_documents_explains_how_to_add_them(cortex, tmp_path):
    code, out, err = cortex("search", QUESTION, "--in", "kb")
    assert (code, out) == (0, "")
    assert "cortex kb add" in err


@pytest.mark.parametrize("given", ["", "code,mail", ","])
def test_unknown_family_of_a_search_is_rejected(cortex, given):
    code, _, err = cortex("search", QUESTION, "--in", given)
    assert code == 2
    assert "code, kb" in err


def test_document_search_has_no_exact_mode(cortex, project):
    code, _, err = cortex(
        "search", "tokens", "--in", "code,kb", "--mode", "exact", "--path", project
    )
    assert code == 2
    assert "exact" in err


def test_memory_hits_have_the_ids_that_open_them(cortex, isolated, foreign):
    with closing(
        make_claude_mem(isolated.user / ".ack-mem" / "scopes" / "dev" / "memory.db")
    ) as made:
        made.observation(made.session("d"), "Desks stand on oak", project="desk")
    assert "memories/dev:obs_1:1" in cortex("search", "desks of oak", "--in", "memory")[1]
    assert cortex("memory", "show", "dev:obs_1")[0] == 0


def test_unapproved_memories_are_searched_only_when_they_count(cortex, foreign, monkeypatch):
    assert "SQLite over Postgres" in cortex("search", "sqlite or postgres", "--in", "memory")[1]
    monkeypatch.setenv("CORTEX_MEMORY_UNCURATED", "staging")
    assert "SQLite" not in cortex("search", "sqlite or postgres", "--in", "memory")[1]
