"""Generated records and the mixed home: reproducible, valid, with every answer."""

from __future__ import annotations

import subprocess
from collections import Counter
from pathlib import Path

import pytest
from bench.mixed import generated, texts
from bench.mixed import home as mixed
from bench.mixed import questions as questions_sets
from bench.team import generated as team_generated

from cortex.base.record_model import Comment, Link, Subcortex, Thread, refs_of
from cortex.families.team.validation import check_first, checked

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture(scope="module")
def tree(tmp_path_factory) -> Path:
    try:
        return mixed.unpack_tree(tmp_path_factory.mktemp("tree"))
    except subprocess.CalledProcessError as error:
        pytest.skip(f"no git history: {error.stderr.decode(errors='replace').strip()}")


@pytest.fixture(scope="module")
def records():
    return list(generated.records(7))


@pytest.fixture(scope="module")
def all_questions():
    return [question for _, questions in questions_sets.SETS for question in questions]


@pytest.mark.parametrize("number", [0, 1])
def test_each_type_has_ten_questions_with_existing_answers(number, tree):
    _, questions = questions_sets.SETS[number]
    assert Counter(question.type for question in questions) == dict.fromkeys(
        questions_sets.TYPES, 10
    )
    assert len({question.text for question in questions}) == 40
    known = {
        "record": {*texts.RECORDS, *texts.SUBCORTEXES},
        "memory": set(texts.MEMORIES),
        "document": {f"{page}.md" for page in mixed.PAGES},
    }
    for question in questions:
        for right in question.right:
            file, _, name = right.partition("#")
            if question.type == "function":
                first, last = mixed.lines_of(tree / "src" / "cortex" / file, name)
                assert first < last
            else:
                assert right in known[question.type]


def test_no_answer_belongs_to_two_questions(all_questions):
    right = Counter(
        (question.type, key)
        for question in all_questions
        for key in set(question.right)
        if question.type != "document"
    )
    assert set(right.values()) == {1}


def test_functions_of_the_questions_are_in_the_copied_code(all_questions, tmp_path, tree):
    mixed.copy_repository(tree, tmp_path)
    for question in all_questions:
        if question.type == "function":
            assert all((tmp_path / right.partition("#")[0]).is_file() for right in question.right)


def test_all_pages_of_the_handbook_are_copied(tmp_path, tree):
    mixed.copy_handbook(tree, tmp_path / "handbook")
    assert len(list((tmp_path / "handbook").glob("*.md"))) == len(mixed.PAGES)


def test_no_question_is_the_title_of_its_answer(all_questions):
    titles = {
        key: found.title.lower()
        for key, found in {**texts.RECORDS, **texts.SUBCORTEXES, **texts.MEMORIES}.items()
    }
    for question in all_questions:
        for right in question.right:
            assert question.text.lower().rstrip("?") not in titles.get(right, "-")


def test_mixed_home_has_1000_records_and_300_memories_the_same_each_time(records):
    assert list(generated.records(7)) == records
    assert len(dict(records)) == 1_000
    kept = list(generated.memories(7))
    assert kept == list(generated.memories(7))
    assert len({memory.title for _, memory in kept}) == 300


def test_generated_records_are_valid(records):
    threads = {key for key, body in records if isinstance(body, Thread)}
    slugs = {body.slug for _, body in records if isinstance(body, Subcortex)}
    for _, body in records:
        check_first(checked(body))
        if isinstance(body, Comment):
            assert body.thread in threads
        elif not isinstance(body, Subcortex):
            assert body.subcortex in slugs


def test_row_is_right_by_its_id_thread_or_function_lines(tmp_path):
    question = questions_sets.Question
    (tmp_path / "src" / "cortex").mkdir(parents=True)
    (tmp_path / "src" / "cortex" / "a.py").write_text(
        "x = 1\n\n\ndef wanted():\n    return 1\n", encoding="utf-8"
    )
    home = mixed.Home(tmp_path, {}, {"record": {"key": "thread_1"}, "memory": {"key": "m1"}})
    record = question("record", "?", ("key",))
    assert mixed.is_right(home, record, {"id": "thread_1"})
    assert mixed.is_right(home, record, {"id": "comment_2", "thread_id": "thread_1"})
    assert not mixed.is_right(home, record, {"id": "thread_2"})
    assert mixed.is_right(home, question("memory", "?", ("key",)), {"id": "memories:m1"})
    function = question("function", "?", ("a.py#wanted",))
    row = {"type": "code", "path": "src/cortex/a.py", "id": "x"}
    assert mixed.is_right(home, function, {**row, "lines": "3-4"})
    assert not mixed.is_right(home, function, {**row, "lines": "1-2"})


def test_generated_team_records_refer_to_earlier_ones_only():
    made = list(team_generated.make(600, 7))
    assert [body for _, body, _ in made if not _has_references(body)] == [
        body for _, body, _ in team_generated.make(600, 7) if not _has_references(body)
    ]
    seen: set[str] = set()
    roles = ("subcortex", "thread", "evidence", "source", "target")
    for number, body, at in made:
        assert all(target in seen for role, target in refs_of(body) if role in roles)
        assert 0 <= at < team_generated.YEAR
        seen.add(number)
    assert {type(body).__name__ for _, body, _ in made} >= {
        "Comment",
        "Observation",
        "Task",
        "Thread",
        "Artifact",
    }


def _has_references(body) -> bool:
    """True for a body that refers to others by ids, which are new each time."""
    return isinstance(body, Comment | Link) or bool(
        getattr(body, "subcortex", "") or getattr(body, "thread", "")
    )
