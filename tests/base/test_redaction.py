"""Secrets of files stay out of every answer and export, and lines keep their numbers."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from base.secret_scanner.examples import KEYS, LETTERS, made
from cortex.base.redaction import WARNING, redact_entry, redaction_of
from cortex.base.settings import Settings, Workspace, load
from cortex.base.types import Entry, Mode, Note, Query
from cortex.engine.engine import Engine
from cortex.engine.library import Library
from cortex.families.chunkfiles.exporter import Exporter
from cortex.families.code.tools import open_family as open_code
from cortex.families.documents.tools import open_family as open_kb
from cortex.interfaces.assembly.pool import engine_pool
from cortex.toolkit.tool import Call, Family, bind, find_tool, perform

AWS, GITHUB = KEYS["AWS key"][0], KEYS["GitHub token"][0]
PEM = [
    "-----BEGIN RSA PRIVATE KEY-----",
    *(made(64, LETTERS + "+/", seed) for seed in range(8)),
    "-----END RSA PRIVATE KEY-----",
]
CODE = f'''"""Connects to the lighthouse."""

LAMP_KEY = "{AWS}"


def lighthouse(lamp, token="{GITHUB}"):
    """Turns the lamp on, with {GITHUB}."""
    return lamp.connect(LAMP_KEY, token)


KEEPER = """
{chr(10).join(PEM)}
"""


def after(beacon):
    return beacon.signal()
'''
SECRETS = (AWS, GITHUB, *PEM[1:-1])


def open_engine(root: Path, home: Path, redact: str) -> Engine:
    return Engine(root, settings_of(home, redact))


def settings_of(home: Path, redact: str) -> Settings:
    return load(None, environment={"CORTEX_HOME": str(home), "CORTEX_SECURITY_REDACT": redact})


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "lamp.py").write_text(CODE, encoding="utf-8")
    (folder / "plain.py").write_text("def plain(lamp):\n    return lamp\n", encoding="utf-8")
    return folder


def leaked(answer: object) -> list[str]:
    text = repr(answer)
    return [secret for secret in SECRETS if secret in text]


QUERIES = [
    Query("lighthouse lamp token", snippets=(2000,)),
    Query("lighthouse", mode=Mode.WORDS),
    Query("lamp", mode=Mode.EXACT),
    Query(r"LAMP_KEY = .*", mode=Mode.EXACT, regex=True),
    Query("keeper key lamp", mode=Mode.FULL),
]


@pytest.mark.parametrize("redact", ["answers", "index"])
def test_secret_is_in_no_search_view_or_export(root: Path, tmp_path: Path, redact: str) -> None:
    with open_engine(root, tmp_path / "home", redact) as engine:
        engine.index()
        for query in QUERIES:
            page = engine.search(query)
            assert any(hit.path == "lamp.py" for hit in page.hits), query
            assert leaked(page) == [], query
        view = engine.view("lamp.py")
        assert leaked(view) == []
        Exporter(engine, tmp_path / "chunks").export()
    exported = _exported(tmp_path / "chunks")
    assert "lighthouse" in exported
    assert leaked(exported) == []


GUESSES = [
    Query(AWS, mode=Mode.EXACT),
    Query(f'LAMP_KEY = "{AWS[:6]}', mode=Mode.EXACT),
    *(
        Query(expression, mode=Mode.EXACT, regex=True)
        for expression in (
            AWS[:6],
            f"LAMP_KEY.*{AWS[:6]}",
            f"LAMP_KEY(?=.*{AWS[:6]})",
            f"(?<={AWS})",
            "AWS key",
            r"\w{32,}",
        )
    ),
]


@pytest.mark.parametrize("query", GUESSES, ids=lambda query: query.text[:20])
def test_expression_cannot_probe_a_secret_letter_by_letter(
    root: Path, tmp_path: Path, query: Query
) -> None:
    with open_engine(root, tmp_path / "home", "answers") as engine:
        page = engine.search(query)
        assert (page.total, page.hits) == (0, ())


def test_answer_lists_redacted_lines_with_advice_not_to_copy_them(
    root: Path, tmp_path: Path
) -> None:
    with open_engine(root, tmp_path / "home", "answers") as engine:
        engine.index()
        page = engine.search(Query("LAMP_KEY", mode=Mode.EXACT))
        (note,) = page.notes
        assert note == (
            "secrets are redacted, don't copy these lines into a file: "
            "lamp.py:3 (AWS key), lamp.py:6 (GitHub token), lamp.py:7 (GitHub token)"
        )
        page = engine.search(Query("lighthouse"))
        assert any("lamp.py:6 (GitHub token)" in note for note in page.notes)
        assert '"[redacted: GitHub token]"' in page.hits[0].text
        assert "[redacted: GitHub token]" in page.hits[0].signature
        assert not any("redacted" in note for note in engine.search(Query("plain")).notes)


def test_lines_and_chunks_after_a_redacted_key_keep_their_positions(
    root: Path, tmp_path: Path
) -> None:
    with open_engine(root, tmp_path / "home", "answers") as engine:
        for _ in range(2):  # cut for the view, then from the store
            view = engine.view("lamp.py")
            lines, original = view.text.split("\n"), CODE.split("\n")
            assert len(lines) == len(original)
            assert [line for line in lines if line == "[redacted: private key]"] == [
                "[redacted: private key]"
            ] * len(PEM)
            for chunk in view.chunks:
                assert view.text[: chunk.start].count("\n") == chunk.start_line - 1
                assert view.text[chunk.start : chunk.end].startswith(lines[chunk.start_line - 1])
            assert (
                view.text[view.chunks[-1].start : view.chunks[-1].end]
                .strip()
                .endswith("return beacon.signal()")
            )
            engine.index()


def test_redaction_setting_applies_at_once_to_searches_and_views(
    root: Path, tmp_path: Path
) -> None:
    with open_engine(root, tmp_path / "home", "off") as engine:
        engine.index()
        query = Query("lighthouse lamp token")
        assert GITHUB in engine.search(query).hits[0].text
        assert engine.view("lamp.py").text == CODE
        everything = replace(query, mode=Mode.FULL)
        assert leaked(engine.search(everything)) != []
        engine.reconfigure(settings_of(tmp_path / "home", "answers"))
        assert leaked(engine.search(query)) == leaked(engine.search(everything)) == []
        engine.reconfigure(settings_of(tmp_path / "home", "off"))
        assert GITHUB in engine.search(query).hits[0].text


def test_open_exporter_follows_the_redaction_setting(root: Path, tmp_path: Path) -> None:
    with open_engine(root, tmp_path / "home", "off") as engine:
        engine.index()
        exporter = Exporter(engine, tmp_path / "chunks")
        exporter.export()
        assert leaked(_exported(tmp_path / "chunks")) != []
        engine.reconfigure(settings_of(tmp_path / "home", "answers"))
        assert exporter.is_due()
        exporter.export()
    assert leaked(_exported(tmp_path / "chunks")) == []


def _exported(folder: Path) -> str:
    return "".join(path.read_text(encoding="utf-8") for path in folder.rglob("*.json"))


def test_definition_named_like_a_secret_is_redacted(root: Path, tmp_path: Path) -> None:
    (root / "notes.md").write_text(f"# {GITHUB} of the lamp\n\nAsk the keeper.\n", encoding="utf-8")
    with open_engine(root, tmp_path / "home", "answers") as engine:
        engine.index()
        for prefix in (GITHUB[:8], "lamp"):
            assert (
                leaked(engine.store.content.definitions_beginning([engine.source.id], prefix)) == []
            )
        (found,) = engine.store.content.definitions_beginning([engine.source.id], GITHUB[:8])
        assert found.name.startswith("[redacted: GitHub token]")


def test_index_mode_stores_no_secret_on_disk(root: Path, tmp_path: Path) -> None:
    with open_engine(root, tmp_path / "home", "answers") as engine:
        engine.index()
        assert _stored(engine) == CODE
        engine.reconfigure(settings_of(tmp_path / "home", "index"))
        engine.index()
        assert leaked(_stored(engine)) == []
        assert any(
            "lamp.py:3 (AWS key)" in note
            for note in engine.search(Query("LAMP_KEY lighthouse")).notes
        )


def _stored(engine: Engine) -> str:
    engine.store.content.redacts(False)
    doc = engine.store.content.doc(engine.source.id, "lamp.py")
    assert doc is not None
    text = engine.store.content.text(doc.blob)
    engine.store.content.redacts(True)
    return text


def test_text_stored_by_an_older_version_is_scanned_when_read(root: Path, tmp_path: Path) -> None:
    with open_engine(root, tmp_path / "home", "answers") as engine:
        engine.index()
        with engine.store._connections.write() as connection:
            connection.execute("DELETE FROM leaks")
        engine.store.content.drop_recent()
        assert leaked(engine.search(Query("lighthouse lamp token"))) == []


def test_put_note_is_redacted(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with open_engine(tmp_path / "empty", tmp_path / "home", "answers") as engine:
        engine.put([Note("notes", "a", f"# The lamp\n\nconnects with {GITHUB}\n")])
        source = engine.store.content.source("records", "notes", "")
        assert leaked(engine.search(Query("lamp connects"), sources=[source])) == []


def test_project_file_cannot_turn_redaction_off(tmp_path: Path) -> None:
    (tmp_path / ".cortex").mkdir()
    (tmp_path / ".cortex" / "config.yml").write_text("security:\n  redact: off\n", encoding="utf-8")
    settings = load(tmp_path, environment={"CORTEX_HOME": str(tmp_path / "home")})
    assert settings.security.redact == "answers"
    assert any("security.redact" in warning for warning in settings.warnings)


def test_home_file_can_turn_redaction_off(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "config.yml").write_text("security:\n  redact: off\n", encoding="utf-8")
    assert load(None, environment={"CORTEX_HOME": str(tmp_path / "home")}).security.redact == "off"


def test_offset_inside_a_secret_maps_to_the_end_of_its_placeholder() -> None:
    text = f"a {AWS} b {GITHUB} c"
    redaction = redaction_of(text)
    assert redaction.text == "a [redacted: AWS key] b [redacted: GitHub token] c"
    for word in ("a", "b", "c"):
        at = text.index(f" {word}" if word != "a" else "a")
        assert redaction.text[redaction.offset(at) :].lstrip().startswith(word)
    assert redaction.text[: redaction.offset(5)] == "a [redacted: AWS key]"
    assert redaction.text[redaction.offset(5) :].startswith(" b ")


def test_cut_signature_shows_no_part_of_a_secret() -> None:
    redaction = redaction_of(f'def f(token="{GITHUB}"):\n')
    assert redaction.field(f'def f(token="{GITHUB[:14]}') == 'def f(token="[redacted: GitHub token]'


def test_chunk_entry_is_redacted_in_text_title_and_metadata() -> None:
    metadata = {
        "file": "a.py",
        "auth": {"password": "Xk9$" + "mQ2vL8!t"},
        "lines": [1, 2],
        "see": f"with {AWS}",
    }
    entry = Entry(
        "one", "data", f"key {AWS}", f"first\nuses {GITHUB}", ("lamp",), metadata, None, None
    )
    shown, lines = redact_entry(entry)
    assert lines == ((2, "GitHub token"),)
    assert shown.text == "first\nuses [redacted: GitHub token]"
    assert shown.title == "key [redacted: AWS key]"
    assert shown.tags == ("lamp",)
    assert shown.metadata == {
        "file": "a.py",
        "auth": {"password": "[redacted: password]"},
        "lines": [1, 2],
        "see": "with [redacted: AWS key]",
    }
    assert (
        redact_entry(Entry("two", None, None, "plain", None, None, None, None))[0].text == "plain"
    )


def call_tool(family: Family, name: str, **arguments: object) -> str:
    _, tool = find_tool([family], name)
    answer = perform(family, tool, bind(tool, arguments), Call())
    assert not answer.failed, answer.text
    assert leaked((answer.text, answer.structured)) == []
    return answer.text


def test_code_tools_and_resources_redact_secrets_and_list_their_lines(
    root: Path, tmp_path: Path
) -> None:
    settings = settings_of(tmp_path / "home", "answers")
    with Engine(root, settings) as engine:
        engine.index()
    family = open_code([Workspace(root, settings)], engine_pool(keep=False))
    try:
        for query in ("lighthouse token", '"LAMP_KEY"', "/LAMP_KEY = .*|token=.*/"):
            body = json.loads(call_tool(family, "search_code", query=query))
            assert any(WARNING in note for note in body["metadata"]["notes"]), query
        body = json.loads(
            call_tool(
                family,
                "get_file_context",
                path="lamp.py",
                lineRange={"start": 1, "end": 4},
                contextLines=0,
            )
        )
        assert body["notes"] == [f"{WARNING}: lamp.py:3 (AWS key)"]
        assert body["text"].split("\n")[2] == 'LAMP_KEY = "[redacted: AWS key]"'
        assert "notes" not in json.loads(call_tool(family, "get_file_context", path="plain.py"))
        resources = {resource.name: resource.read for resource in family.resources}
        for name, variables in (
            ("file-chunks", {"path": "lamp.py"}),
            ("search", {"query": "lighthouse"}),
            ("search", {"query": "lighthouse", "strategy": "fullworkspace"}),
        ):
            text = resources[name](family.context, variables, Call())
            assert leaked(text) == []
            assert WARNING in text
    finally:
        family.close()


def test_document_tools_redact_secrets_and_list_their_lines(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "lamp.md").write_text(
        f"# The lamp\n\nIt is switched on with\n{GITHUB} every night.\n", encoding="utf-8"
    )
    settings = settings_of(tmp_path / "home", "answers")
    with Library(settings) as library:
        library.index(source=library.add_folder(notes).source)
    family = open_kb(settings, engine_pool(keep=False))
    try:
        found = call_tool(family, "kb_search", query="lamp switched on")
        number = re.search(r"document_id: (\S+)", found)
        assert number
        answers = [
            found,
            call_tool(family, "kb_search_with_context", query="lamp switched on"),
            call_tool(family, "kb_get_document", document_id=number[1]),
        ]
        for answer in answers:
            assert "[redacted: GitHub token] every night" in answer
            assert f"{WARNING}: lamp.md:4 (GitHub token)" in answer
    finally:
        family.close()
