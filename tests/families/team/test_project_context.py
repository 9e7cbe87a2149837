"""The project's file: its defaults are read and written, everything else in it is kept."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cortex.base.errors import ConfigError, FileError
from cortex.base.settings import load
from cortex.families.team.project_context import MAX_FILE_BYTES
from cortex.families.team.writes.placement import (
    ProjectContext,
    clear_context,
    context_file,
    read_context,
    write_context,
)


def write(root: Path, text: str) -> Path:
    file = context_file(root)
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(text.encode("utf-8"))
    return file


def test_written_project_defaults_are_read_as_settings(tmp_path: Path) -> None:
    assert read_context(tmp_path) == ProjectContext()
    assert write_context(tmp_path, thread="thread_1", subcortex="payments") == ProjectContext(
        "thread_1", "", "payments"
    )
    assert (
        write_context(tmp_path, task="task_1")
        == ProjectContext("thread_1", "task_1", "payments")
        == read_context(tmp_path)
    )
    settings = load(
        tmp_path, environment={"CORTEX_HOME": str(tmp_path / "home")}, user_home=tmp_path
    )
    assert settings.families == {
        "default_thread_id": "thread_1",
        "default_task_id": "task_1",
        "default_subcortex_slug": "payments",
    }
    assert not settings.warnings
    assert clear_context(tmp_path, thread=True, task=False, subcortex=False) == ProjectContext(
        "", "task_1", "payments"
    )
    assert clear_context(tmp_path) == ProjectContext() == read_context(tmp_path)


def test_writing_defaults_keeps_everything_else(tmp_path: Path) -> None:
    text = '{\n\t"zz": {"deep": [1, 2.5, null]},\n\t"defaultThreadId": "old",\n\t"sensitivity_mode": "\u00e4"\n}\n'
    file = write(tmp_path, text)
    for name in ("cache.db", "queue.jsonl", "config.yml"):
        (file.parent / name).write_text("theirs", encoding="utf-8")
    write_context(tmp_path, thread="thread_1")
    assert file.read_text(encoding="utf-8") == (
        '{\n\t"zz": {\n\t\t"deep": [\n\t\t\t1,\n\t\t\t2.5,\n\t\t\tnull\n\t\t]\n\t},\n\t"defaultThreadId": "thread_1",\n'
        '\t"sensitivity_mode": "\u00e4"\n}\n'
    )
    clear_context(tmp_path)
    assert json.loads(file.read_bytes()) == {
        "zz": {"deep": [1, 2.5, None]},
        "sensitivity_mode": "\u00e4",
    }
    assert sorted(os.listdir(file.parent)) == [
        "cache.db",
        "config.json",
        "config.yml",
        "queue.jsonl",
    ]
    assert (file.parent / "queue.jsonl").read_text(encoding="utf-8") == "theirs"


def test_unchanged_project_file_is_not_rewritten(tmp_path: Path) -> None:
    file = write(tmp_path, '{ "default_thread_id" :"thread_1"}')
    write_context(tmp_path, thread="thread_1")
    clear_context(tmp_path, thread=False)
    assert file.read_bytes() == b'{ "default_thread_id" :"thread_1"}'
    clear_context(tmp_path / "nothing")
    assert not (tmp_path / "nothing").exists()


@given(
    st.dictionaries(
        st.text(max_size=8),
        st.recursive(
            st.none()
            | st.booleans()
            | st.integers()
            | st.floats(allow_nan=False, allow_infinity=False)
            | st.text(),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(st.text(max_size=4), inner, max_size=3)
            ),
            max_leaves=6,
        ),
        max_size=5,
    ),
    st.sampled_from([None, 2, "\t"]),
    st.booleans(),
)
def test_any_other_key_of_the_project_file_survives(
    tmp_path_factory: pytest.TempPathFactory,
    content: dict[str, object],
    indent: int | str | None,
    ascii: bool,
) -> None:
    root = tmp_path_factory.mktemp("project")
    (root / ".cortex").mkdir()
    text = json.dumps(content, indent=indent, ensure_ascii=ascii)
    context_file(root).write_bytes(text.encode("utf-8"))
    write_context(root, thread="thread_1")
    assert json.loads(context_file(root).read_bytes()) == {
        **content,
        "default_thread_id": "thread_1",
    }
    clear_context(root)
    assert json.loads(context_file(root).read_bytes()) == content


def test_lone_surrogates_in_the_project_file_survive(tmp_path: Path) -> None:
    file = write(tmp_path, '{"name": "\u00e4", "broken": "\\ud800"}')
    write_context(tmp_path, thread="thread_1")
    assert json.loads(file.read_bytes()) == {
        "name": "\u00e4",
        "broken": "\ud800",
        "default_thread_id": "thread_1",
    }


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '"x"',
        "{} x",
        '{"a": NaN}',
        '{"a": 1e999}',
        "\u00e4",
        "[" * 100_000,
        '{"a": ' * 30_000,
    ],
)
def test_project_file_without_an_object_is_refused_and_kept(tmp_path: Path, text: str) -> None:
    file = write(tmp_path, text)
    with pytest.raises(ConfigError) as raised:
        write_context(tmp_path, thread="thread_1")
    assert raised.value.code == "CONFIG_INVALID" and raised.value.context["file"] == str(file)
    with pytest.raises(ConfigError):
        read_context(tmp_path)
    assert file.read_text(encoding="utf-8") == text
    assert os.listdir(file.parent) == ["config.json"]


def test_project_file_in_another_encoding_or_too_large_is_refused(tmp_path: Path) -> None:
    file = write(tmp_path, "")
    for content in (b'{"a": "\xe4"}', b"{" + b" " * MAX_FILE_BYTES + b"}"):
        file.write_bytes(content)
        with pytest.raises(ConfigError):
            write_context(tmp_path, thread="thread_1")
        assert file.read_bytes() == content


@pytest.mark.parametrize("before", ["", "  \n", "{}", "{\n}\n"])
def test_empty_project_file_is_written_indented(tmp_path: Path, before: str) -> None:
    file = write(tmp_path, before)
    write_context(tmp_path, thread="thread_1")
    assert file.read_text(encoding="utf-8").rstrip() == '{\n  "default_thread_id": "thread_1"\n}'


def test_line_endings_and_byte_order_mark_are_kept(tmp_path: Path) -> None:
    file = write(tmp_path, '\ufeff{\r\n  "a": 1\r\n}\r\n')
    write_context(tmp_path, task="task_1")
    assert (
        file.read_bytes().decode("utf-8")
        == '\ufeff{\r\n  "a": 1,\r\n  "default_task_id": "task_1"\r\n}\r\n'
    )


@pytest.mark.skipif(os.name == "nt", reason="links need rights there")
@pytest.mark.parametrize("which", ["file", "folder"])
def test_project_file_linked_out_of_the_project_is_refused(tmp_path: Path, which: str) -> None:
    root, outside = tmp_path / "project", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    (outside / "config.json").write_text("{}", encoding="utf-8")
    if which == "file":
        (root / ".cortex").mkdir()
        (root / ".cortex" / "config.json").symlink_to(outside / "config.json")
    else:
        (root / ".cortex").symlink_to(outside)
    for call in (lambda: write_context(root, thread="thread_1"), lambda: read_context(root)):
        with pytest.raises(ConfigError) as raised:
            call()
        assert "leaves the project" in raised.value.message
    assert (outside / "config.json").read_text(encoding="utf-8") == "{}" and os.listdir(
        outside
    ) == ["config.json"]


@pytest.mark.skipif(os.name == "nt", reason="links need rights there")
def test_project_file_linked_within_the_project_is_read_only(tmp_path: Path) -> None:
    (tmp_path / ".cortex").mkdir()
    real = tmp_path / "team.json"
    real.write_text('{"default_thread_id": "thread_1"}', encoding="utf-8")
    context_file(tmp_path).symlink_to(real)
    assert (
        read_context(tmp_path).thread
        == write_context(tmp_path, thread="thread_1").thread
        == "thread_1"
    )
    for call in (
        lambda: write_context(tmp_path, thread="thread_2"),
        lambda: clear_context(tmp_path),
    ):
        with pytest.raises(ConfigError) as raised:
            call()
        assert raised.value.code == "CONFIG_INVALID" and "is a link" in raised.value.message
    assert (
        context_file(tmp_path).is_symlink()
        and real.read_text(encoding="utf-8") == '{"default_thread_id": "thread_1"}'
    )
    assert sorted(os.listdir(tmp_path)) == [".cortex", "team.json"]


@pytest.mark.skipif(os.name == "nt", reason="there are no such permissions there")
def test_mode_of_the_project_file_is_kept(tmp_path: Path) -> None:
    file = write(tmp_path, "{}")
    file.chmod(0o640)
    write_context(tmp_path, thread="thread_1")
    assert file.stat().st_mode & 0o777 == 0o640


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="permissions don't bind root")
def test_unwritable_folder_is_reported(tmp_path: Path) -> None:
    file = write(tmp_path, "{}")
    file.parent.chmod(0o500)
    try:
        with pytest.raises(FileError) as raised:
            write_context(tmp_path, thread="thread_1")
    finally:
        file.parent.chmod(0o700)
    assert raised.value.code == "PERMISSION_DENIED"
    assert file.read_text(encoding="utf-8") == "{}" and os.listdir(file.parent) == ["config.json"]


def test_obstacle_in_place_of_the_project_file_is_reported(tmp_path: Path) -> None:
    (tmp_path / ".cortex").write_text("a file", encoding="utf-8")
    with pytest.raises(FileError):
        write_context(tmp_path, thread="thread_1")
    assert (tmp_path / ".cortex").read_text(encoding="utf-8") == "a file"


@pytest.mark.skipif(os.name == "nt", reason="a file that somebody reads can't be replaced there")
def test_concurrent_reader_sees_a_whole_project_file(tmp_path: Path) -> None:
    write_context(tmp_path, thread="thread_0", subcortex="payments")
    done = threading.Event()
    seen: list[ProjectContext] = []

    def look() -> None:
        while not done.is_set():
            seen.append(read_context(tmp_path))

    reader = threading.Thread(target=look)
    reader.start()
    for number in range(30):
        write_context(tmp_path, thread=f"thread_{number}" * 50)
    done.set()
    reader.join(10)
    assert seen and all(
        placement.subcortex == "payments" and placement.thread.startswith("thread_")
        for placement in seen
    )
    assert os.listdir(tmp_path / ".cortex") == ["config.json"]
