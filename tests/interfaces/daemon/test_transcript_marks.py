"""Marked lines of a message, and the last message of a transcript."""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cortex.interfaces.daemon.transcript_marks import (
    MOST,
    MOST_CHARACTERS,
    TAIL_BYTES,
    find_candidates,
    last_message,
    marked_lines,
)


def lines(message: str) -> list[tuple[str, str]]:
    return list(marked_lines(message))


def titles(**said: object) -> list[object]:
    return [candidate["title"] for candidate in find_candidates(said)]


@pytest.mark.parametrize(
    "line",
    [
        "remember: use uv",
        "Remember: use uv",
        "REMEMBER:use uv",
        "  remember : use uv",
        "- remember: use uv",
        "* Remember: use uv",
        "    - Remember: use uv",
        "1. Remember: use uv",
        "2) Remember: use uv",
        "- [ ] Remember: use uv",
        "**Remember:** use uv",
        "**Remember**: use uv",
        "**Remember: use uv**",
        "- **Remember:** use uv",
        "*Remember:* use uv",
        "__Remember__: use uv",
        "### Remember: use uv",
        "• remember: use uv\r",
    ],
)
def test_line_that_begins_with_a_mark_is_a_candidate_in_any_spelling(line):
    assert lines(f"Done.\n{line}\nBye.") == [("remember", "use uv")]


@pytest.mark.parametrize(
    "line",
    [
        "Please remember: use uv",
        "I remember: no",
        "remember to use uv",
        "remembered: yes",
        "remember:",
        "**Remember:**",
        "> remember: a quoted line",
        "`remember: code`",
        "    remember: a line of code",
        "decisions: many",
        "| decision: | a table |",
    ],
)
def test_line_without_a_leading_mark_is_no_candidate(line):
    assert lines(line) == []


def test_mark_gives_the_kind_and_bold_text_stays():
    found = find_candidates(
        {
            "last_assistant_message": "Decision: **A** over *B*\nGotcha: `x`\n**Remember:** the **key**"
        }
    )
    assert [(candidate["kind"], candidate["title"]) for candidate in found] == [
        ("decision", "**A** over *B*"),
        ("gotcha", "`x`"),
        ("note", "the **key**"),
    ]


def test_marks_in_fenced_code_are_ignored():
    message = "```\nremember: a\n```\nremember: b\n~~~~ md\nremember: c\n~~~\nremember: d\n~~~~\ngotcha: e\n- ```py\n  remember: f\n  ```\n"
    assert [text for _, text in lines(message)] == ["b", "e"]
    assert lines("```\nremember: in a fence that is never closed") == []
    assert lines("a ``` in a line\nremember: b") == [("remember", "b")]


def test_repeated_line_is_one_candidate_and_a_message_has_a_limit():
    assert titles(last_assistant_message="remember: a\n- **Remember:** a\n") == ["a"]
    assert len(titles(last_assistant_message="\n".join(f"gotcha: {n}" for n in range(100)))) == MOST


def test_long_marked_line_becomes_a_title_and_the_whole_text():
    said = "word " * 100
    (one,) = find_candidates({"last_assistant_message": f"decision: {said}"})
    assert len(str(one["title"])) <= 160 and str(one["title"]).endswith("word…")
    assert one["text"] == said.strip()
    (one,) = find_candidates({"last_assistant_message": f"decision: {'x' * 10_000}"})
    assert 3_000 < len(str(one["title"])) + len(str(one["text"])) <= MOST_CHARACTERS


def test_candidates_may_be_listed_as_texts_or_objects():
    whole = {
        "title": "t",
        "text": "x",
        "facts": ["f"],
        "concepts": ["c"],
        "files": ["a.py"],
        "kind": "bugfix",
    }
    found = find_candidates(
        {"candidates": ["one", {**whole, "more": 1}, {"text": "only text"}, {"facts": ["a fact"]}]}
    )
    assert [candidate["title"] for candidate in found] == ["one", "t", "only text", "a fact"]
    assert found[1] == whole
    assert (
        titles(
            candidates=["", " ", {}, {"title": 5}, 7, None, ["x"], {"concepts": ["c"]}],
            last_assistant_message="",
        )
        == []
    )
    assert titles(candidates={"title": "no list"}) == []
    assert titles(candidates=["a"], last_assistant_message="remember: b") == ["a", "b"]


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(max_size=9_000),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(
                st.sampled_from(["title", "text", "facts", "candidates", "last_assistant_message"]),
                inner,
            )
        ),
        max_leaves=20,
    )
)
def test_any_message_gives_bounded_candidates(said):
    found = find_candidates(
        {"candidates": said, "last_assistant_message": said, "transcript_path": said}
    )
    assert len(found) <= MOST
    for candidate in found:
        strings = [
            candidate["title"],
            candidate["text"],
            *(text for name in ("facts", "concepts", "files") for text in candidate[name]),
        ]  # type: ignore[misc]
        assert candidate["title"] and "\n" not in str(candidate["title"])
        assert sum(map(len, strings)) <= MOST_CHARACTERS
        json.dumps(candidate)


# -- transcripts
# -------------------------------------------------------------------------------------------------------


def block(id: str, *blocks: dict, **more: object) -> dict:
    return {
        "type": "assistant",
        "message": {"id": id, "role": "assistant", "content": list(blocks)},
        **more,
    }


def text(said: str) -> dict:
    return {"type": "text", "text": said}


CLAUDE = [
    {"type": "user", "message": {"role": "user", "content": "remember: of the person"}},
    block("m1", text("remember: earlier")),
    block("m2", {"type": "thinking", "thinking": "remember: thought"}),
    block("m2", text("remember: a")),
    {"type": "progress"},
    block("m2", text("remember: b")),
    block("m2", {"type": "tool_use", "name": "Bash", "input": {}}),
    {
        "type": "user",
        "message": {
            "role": "user",
            "content": [{"type": "tool_result", "content": "remember: output"}],
        },
    },
    block("m3", text("remember: of another"), isSidechain=True),
    {"type": "system", "content": "assistant"},
]
CODEX = [
    {"type": "session_meta", "payload": {"id": "x"}},
    {
        "type": "response_item",
        "payload": {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "remember: earlier"}],
        },
    },
    {
        "type": "event_msg",
        "payload": {"type": "agent_message", "message": "remember: a\nremember: b"},
    },
    {
        "type": "response_item",
        "payload": {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "remember: a\nremember: b"}],
        },
    },
    {"type": "response_item", "payload": {"type": "function_call", "name": "assistant"}},
    {"type": "event_msg", "payload": {"type": "token_count"}},
]
OLD_CODEX = [
    {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "remember: a\nremember: b"}],
    }
]
CURSOR = [
    {"role": "user", "message": {"content": [text("remember: of the person")]}},
    {
        "role": "assistant",
        "message": {"content": [text("remember: a"), {"type": "tool_use"}, text("remember: b")]},
    },
    {"type": "turn_ended", "status": "success"},
]
COPILOT = [
    {
        "type": "assistant.message",
        "data": {"messageId": "1", "content": "remember: a\nremember: b"},
    },
    {"type": "assistant.turn_end", "data": {}},
]
EVENTS = [
    {
        "type": "event_msg",
        "payload": {"type": "agent_message", "message": "remember: a\nremember: b"},
    }
]


def write(path: Path, records: list) -> str:
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("records", [CLAUDE, CODEX, OLD_CODEX, CURSOR, COPILOT, EVENTS])
def test_last_message_is_found_in_the_transcript_of_every_client(tmp_path, records):
    assert titles(transcript_path=write(tmp_path / "t.jsonl", records)) == ["a", "b"]


def test_message_from_the_client_wins_over_its_transcript(tmp_path):
    path = write(tmp_path / "t.jsonl", CLAUDE)
    assert titles(last_assistant_message="remember: handed over", transcript_path=path) == [
        "handed over"
    ]
    assert titles(prompt_response="gotcha: g", transcript_path=path) == ["g"]
    assert titles(last_assistant_message=None, transcript_path=path) == ["a", "b"]
    assert titles(last_assistant_message="nothing marked", transcript_path=path) == []


def test_subagent_has_a_transcript_of_its_own(tmp_path):
    own = write(tmp_path / "agent.jsonl", [block("m9", text("remember: aside"), isSidechain=True)])
    path = write(tmp_path / "t.jsonl", CLAUDE)
    assert titles(agent_transcript_path=own, transcript_path=path) == ["aside"]


UNFINISHED = {
    "the question": [{"type": "user.message", "data": {"content": "hello"}}],
    "a call of a tool": [
        {
            "type": "assistant.message",
            "data": {"content": "remember: too early", "toolRequests": [{"name": "bash"}]},
        },
        {"type": "tool.execution_complete", "data": {}},
    ],
    "the answer of the turn before": [
        *COPILOT[:1],
        {"type": "user.message", "data": {"content": "more"}},
    ],
    "nothing": [],
}


@pytest.mark.parametrize("name", UNFINISHED)
def test_transcript_is_reread_until_it_has_the_last_message(tmp_path, name):
    path = tmp_path / "events.jsonl"
    write(path, UNFINISHED[name])
    last = json.dumps({"type": "assistant.message", "data": {"content": "remember: the last"}})

    def finish() -> None:
        with path.open("a", encoding="utf-8") as file:
            file.write(last[:20])
            file.flush()
            file.write(last[20:] + "\n")

    later = threading.Timer(0.15, finish)
    later.start()
    found = find_candidates({"transcript_path": str(path)}, seconds=20)
    later.join()
    assert [candidate["title"] for candidate in found] == ["the last"]


def test_rereading_a_transcript_ends_without_a_message(tmp_path):
    path = write(tmp_path / "t.jsonl", [*COPILOT, {"type": "user.message", "data": {}}])
    assert last_message({"transcript_path": path}, seconds=0.2) == "remember: a\nremember: b"
    assert last_message({"transcript_path": str(tmp_path / "missing")}, seconds=0.2) == ""


def test_large_transcript_is_read_from_its_end_only(tmp_path):
    large = {"type": "user", "message": {"content": "assistant " * 100_000}}
    path = write(tmp_path / "t.jsonl", [*[large] * 3, *CLAUDE])
    assert os.path.getsize(path) > TAIL_BYTES
    assert titles(transcript_path=path) == ["a", "b"]
    assert titles(transcript_path=write(tmp_path / "u.jsonl", [*CLAUDE, *[large] * 3])) == []


def test_transcript_of_any_content_is_survived(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    broken = tmp_path / "broken.jsonl"
    broken.write_bytes(
        b'\xff\n{"type": "assistant"\n'
        + b"[" * 100_000
        + b'"assistant"\n{"role":"assistant","message":7}\n'
    )
    for path in (folder, broken, tmp_path / "missing", "", "\0", "/dev/zero"):
        assert last_message({"transcript_path": str(path)}) == ""
    if sys.platform != "win32":
        os.mkfifo(tmp_path / "pipe")
        assert last_message({"transcript_path": str(tmp_path / "pipe")}) == ""
