"""Where contributions belong: what is named, what the project's file says, and how that file is
written.
"""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cortex.base.actors import person
from cortex.base.errors import ConfigError, FileError
from cortex.base.record_model import Record, Subcortex, Task, Thread
from cortex.base.settings import load
from cortex.engine.library import Library
from cortex.families.team.project_context import MAX_FILE_BYTES
from cortex.families.team.writes.actions import archive, update_task
from cortex.families.team.writes.create import create
from cortex.families.team.writes.placement import (
    Placement,
    ProjectContext,
    clear_context,
    context_file,
    read_context,
    route,
    write_context,
)

PERSON = person()
NOWHERE = "thread_01K00000000000000000000000"


def make(library: Library, body: object) -> Record:
    return create(library, body, actor=PERSON)  # type: ignore[arg-type]


def way(library: Library, families: dict[str, object] | None = None, **told: str) -> Placement:
    return route(library.store.records, families or {}, **told)


# -- routes
# ------------------------------------------------------------------------------------------------------------


def test_nothing_said_is_drafts_only(library: Library) -> None:
    assert way(library) == Placement()
    assert "drafts only" in way(library).why


def test_the_order_is_what_is_named_then_the_projects_thread_then_its_tasks_then_its_subcortex(
    library: Library,
) -> None:
    payments, other = (
        make(library, Subcortex("payments", "Payments")),
        make(library, Subcortex("other", "Other")),
    )
    named, projects, tasks = (
        make(library, Thread(title, subcortex=scope))
        for title, scope in (("Named", "other"), ("Project's", "payments"), ("Task's", "payments"))
    )
    task = make(library, Task("Measure", thread=tasks.id))
    said: dict[str, object] = {
        "default_thread_id": projects.id,
        "default_task_id": task.id,
        "default_subcortex_slug": "payments",
    }
    told = way(library, said, thread=named.id)
    assert (told.thread, told.task, told.subcortex) == (
        named.id,
        "",
        other.id,
    ) and "named" in told.why
    first = way(library, said)
    assert (first.thread, first.task, first.subcortex) == (projects.id, task.id, payments.id)
    assert "default_thread_id" in first.why
    del said["default_thread_id"]
    second = way(library, said)
    assert (second.thread, second.task) == (tasks.id, task.id) and "default_task_id" in second.why
    del said["default_task_id"]
    third = way(library, said)
    assert (third.thread, third.task, third.subcortex) == ("", "", payments.id)
    assert "default_subcortex_slug" in third.why


def test_what_is_named_and_not_there_is_not_replaced_by_something_else(library: Library) -> None:
    thread = make(library, Thread("Project's"))
    task = make(library, Task("Measure", thread=thread.id))
    said: dict[str, object] = {"default_thread_id": thread.id}
    for told in (
        way(library, said, thread=NOWHERE),
        way(library, said, thread=NOWHERE, task=task.id),
    ):
        assert told.thread == "" and NOWHERE in told.missing[0]
    assert way(library, said, subcortex="nowhere").missing
    assert way(library, said, subcortex="nowhere") == Placement(
        missing=way(library, said, subcortex="nowhere").missing
    )


def test_a_named_task_leads_to_its_thread_also_when_it_is_done(library: Library) -> None:
    thread = make(library, Thread("Project's"))
    task = make(library, Task("Measure", thread=thread.id))
    update_task(library, task.id, {"state": "done"}, actor=PERSON)
    told = way(library, task=task.id)
    assert (told.thread, told.task, told.missing) == (thread.id, task.id, ())


def test_what_the_projects_file_names_and_is_gone_is_told_and_does_not_count(
    library: Library,
) -> None:
    thread = make(library, Thread("Old"))
    task = make(library, Task("Measure", thread=thread.id))
    scope = make(library, Subcortex("payments", "Payments"))
    archive(library, thread.id, actor=PERSON)
    update_task(library, task.id, {"state": "cancelled"}, actor=PERSON)
    said: dict[str, object] = {
        "default_thread_id": thread.id,
        "default_task_id": task.id,
        "default_subcortex_slug": "payments",
    }
    told = way(library, said)
    assert (told.thread, told.task, told.subcortex) == ("", "", scope.id)
    assert "archived" in told.missing[0] and "cancelled" in told.missing[1]
    archive(library, "payments", actor=PERSON, kind="subcortex")
    assert way(library, said).subcortex == "" and len(way(library, said).missing) == 3


@pytest.mark.parametrize("value", [5, ["x"], {"a": 1}, True, "   ", "\x00", "x" * 10_000])
def test_whatever_a_file_says_breaks_nothing(library: Library, value: object) -> None:
    told = way(library, {"default_thread_id": value, "default_subcortex_slug": value})
    assert (told.thread, told.subcortex) == ("", "")
    assert len(told.missing) == 2 and all(len(one) < 500 for one in told.missing)


def test_a_task_whose_thread_was_archived_is_told(library: Library) -> None:
    thread = make(library, Thread("Old"))
    task = make(library, Task("Measure", thread=thread.id))
    archive(library, thread.id, actor=PERSON)
    told = way(library, {"default_task_id": task.id})
    assert (told.thread, told.task) == ("", task.id)
    assert "archived" in told.missing[0] and "default_task_id" in told.why


# -- the project's file
# ------------------------------------------------------------------------------------------------


def write(root: Path, text: str) -> Path:
    file = context_file(root)
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(text.encode("utf-8"))
    return file


def test_what_is_written_is_read_again_and_counts_as_a_setting(tmp_path: Path) -> None:
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


def test_all_else_in_the_file_and_beside_it_stays(tmp_path: Path) -> None:
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


def test_a_file_that_says_it_already_is_not_touched(tmp_path: Path) -> None:
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
def test_any_other_key_survives(
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


def test_texts_that_are_no_unicode_survive_too(tmp_path: Path) -> None:
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
def test_a_file_that_is_no_object_is_refused_and_stays(tmp_path: Path, text: str) -> None:
    file = write(tmp_path, text)
    with pytest.raises(ConfigError) as raised:
        write_context(tmp_path, thread="thread_1")
    assert raised.value.code == "CONFIG_INVALID" and raised.value.context["file"] == str(file)
    with pytest.raises(ConfigError):
        read_context(tmp_path)
    assert file.read_text(encoding="utf-8") == text
    assert os.listdir(file.parent) == ["config.json"]


def test_a_file_in_another_encoding_or_too_large_is_refused(tmp_path: Path) -> None:
    file = write(tmp_path, "")
    for content in (b'{"a": "\xe4"}', b"{" + b" " * MAX_FILE_BYTES + b"}"):
        file.write_bytes(content)
        with pytest.raises(ConfigError):
            write_context(tmp_path, thread="thread_1")
        assert file.read_bytes() == content


@pytest.mark.parametrize("before", ["", "  \n", "{}", "{\n}\n"])
def test_an_empty_file_becomes_one_that_is_easy_to_read(tmp_path: Path, before: str) -> None:
    file = write(tmp_path, before)
    write_context(tmp_path, thread="thread_1")
    assert file.read_text(encoding="utf-8").rstrip() == '{\n  "default_thread_id": "thread_1"\n}'


def test_line_ends_and_a_byte_order_mark_stay(tmp_path: Path) -> None:
    file = write(tmp_path, '\ufeff{\r\n  "a": 1\r\n}\r\n')
    write_context(tmp_path, task="task_1")
    assert (
        file.read_bytes().decode("utf-8")
        == '\ufeff{\r\n  "a": 1,\r\n  "default_task_id": "task_1"\r\n}\r\n'
    )


@pytest.mark.skipif(os.name == "nt", reason="links need rights there")
@pytest.mark.parametrize("which", ["file", "folder"])
def test_a_link_that_leaves_the_project_is_refused(tmp_path: Path, which: str) -> None:
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
def test_a_link_within_the_project_is_read_and_never_written_through(tmp_path: Path) -> None:
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
def test_who_may_read_the_file_stays(tmp_path: Path) -> None:
    file = write(tmp_path, "{}")
    file.chmod(0o640)
    write_context(tmp_path, thread="thread_1")
    assert file.stat().st_mode & 0o777 == 0o640


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="permissions don't bind root")
def test_a_folder_that_may_not_be_written_is_told(tmp_path: Path) -> None:
    file = write(tmp_path, "{}")
    file.parent.chmod(0o500)
    try:
        with pytest.raises(FileError) as raised:
            write_context(tmp_path, thread="thread_1")
    finally:
        file.parent.chmod(0o700)
    assert raised.value.code == "PERMISSION_DENIED"
    assert file.read_text(encoding="utf-8") == "{}" and os.listdir(file.parent) == ["config.json"]


def test_what_stands_in_the_way_is_told(tmp_path: Path) -> None:
    (tmp_path / ".cortex").write_text("a file", encoding="utf-8")
    with pytest.raises(FileError):
        write_context(tmp_path, thread="thread_1")
    assert (tmp_path / ".cortex").read_text(encoding="utf-8") == "a file"


@pytest.mark.skipif(os.name == "nt", reason="a file that somebody reads can't be replaced there")
def test_whoever_reads_meanwhile_sees_a_whole_file(tmp_path: Path) -> None:
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
        one.subcortex == "payments" and one.thread.startswith("thread_") for one in seen
    )
    assert os.listdir(tmp_path / ".cortex") == ["config.json"]
