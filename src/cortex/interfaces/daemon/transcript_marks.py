"""What a client's message at the end of a turn holds that is worth keeping: the lines that were
marked, and nothing else.

Standard library only, and no judgement: a line counts that begins with `remember:`, `decision:` or
`gotcha:`, also in a list or in bold, in the last message of the agent; or what somebody lists as
`candidates`. The message is in what the client says, or else at the end of its transcript, in the
shapes in which clients write those. Not taken: asking a model what was important.
"""

from __future__ import annotations

import json
import os
import re
import stat
import time

TYPE_CHECKING = False  # as checkers know it: loading `typing` takes longer than all else here
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

MOST = 20  # candidates of one event
MOST_CHARACTERS = 4_000  # of one candidate
MOST_STRINGS = 50  # in a list of one
TITLE_CHARACTERS = 160
TAIL_BYTES = 2 << 20  # of a transcript
READ_AGAIN_SECONDS = 0.05
# Under which name clients hand over the last message
MESSAGES = ("last_assistant_message", "prompt_response")
# Of the one who stopped, then of the session
TRANSCRIPTS = (
    "agent_transcript_path",
    "transcript_path",
    "transcriptPath",
)
KINDS = {"remember": "note", "decision": "decision", "gotcha": "gotcha"}
_MARKED = re.compile(
    r"(?:\s*(?:[-*+•]|\d{1,3}[.)])\s+(?:\[[ xX]\]\s+)?|\s{0,3}#{1,6}\s+|\s{0,3})"
    r"(?P<bold>\*{0,3}|_{0,3})(?P<mark>remember|decision|gotcha)(?P<ended>\*{0,3}|_{0,3})[ \t]*:(?P<said>.*)",
    re.IGNORECASE,
)
_FENCE = re.compile(r"\s*(?:[-*+]\s+|\d{1,3}[.)]\s+|>\s?)*(`{3,}|~{3,})(.*)")


def find_candidates(said: Mapping[str, object], seconds: float = 0.0) -> list[dict[str, object]]:
    """The candidates in what a client says, at most so many, each bounded and once; `seconds` as in
    `last_message`.
    """
    listed = said.get("candidates")
    found = [_listed(one) for one in listed[: 10 * MOST]] if isinstance(listed, list) else []
    found += [_of_line(mark, text) for mark, text in marked_lines(last_message(said, seconds))]
    kept: list[dict[str, object]] = []
    for one in found:
        if one and one not in kept and len(kept) < MOST:
            kept.append(one)
    return kept


def marked_lines(message: str) -> Iterator[tuple[str, str]]:
    """The mark and the text of every line that begins with one, outside of fenced code."""
    fence = ""
    for line in message.splitlines():
        found = _FENCE.match(line)
        if found and not fence:
            fence = found[1] if "`" not in found[2] else ""
        elif (
            found
            and found[1][0] == fence[0]
            and len(found[1]) >= len(fence)
            and not found[2].strip()
        ):
            fence = ""
        elif not fence and (marked := _MARKED.match(line)):
            text = marked["said"].strip()
            # The colon, or all of the line, is in bold, too
            if marked["bold"] and not marked["ended"]:
                text = (
                    text.removeprefix(marked["bold"]) if text.startswith(marked["bold"]) else text
                )
                text = text.removesuffix(marked["bold"]) if text.count(marked["bold"]) % 2 else text
            if text.strip():
                yield marked["mark"].lower(), text.strip()


def last_message(said: Mapping[str, object], seconds: float = 0.0) -> str:
    """The last message of the agent: as the client hands it over, else from its transcript; "" for
    none.

    A transcript that doesn't end with a message of the agent is read again, for so many seconds at
    most: Copilot CLI writes the last one while the hook is under way.
    """
    for name in MESSAGES:
        message = said.get(name)
        if isinstance(message, str) and message.strip():
            return message
    for name in TRANSCRIPTS:
        path = said.get(name)
        if isinstance(path, str) and path:
            whole = name == "agent_transcript_path"  # all of it is the agent's that stopped
            deadline = time.monotonic() + seconds
            lines = _tail(os.path.expanduser(path))
            while not _ends_with_message(lines) and time.monotonic() < deadline:
                time.sleep(READ_AGAIN_SECONDS)
                lines = _tail(os.path.expanduser(path))
            return _last_of(lines, aside=whole)
    return ""


def _of_line(mark: str, text: str) -> dict[str, object]:
    return _bounded({"title": text, "text": "", "kind": KINDS[mark]})


def _listed(one: object) -> dict[str, object]:
    """A candidate that somebody listed: a text, or an object with parts that are known; empty for
    anything else.
    """
    if isinstance(one, str):
        one = {"title": one}
    if not isinstance(one, dict):
        return {}
    parts: dict[str, object] = {}
    for name in ("title", "text", "kind"):
        value = one.get(name)
        parts[name] = value.strip() if isinstance(value, str) else ""
    for name in ("facts", "concepts", "files"):
        value = one.get(name)
        strings = value[:MOST_STRINGS] if isinstance(value, list) else []
        parts[name] = [text.strip() for text in strings if isinstance(text, str) and text.strip()]
    return _bounded(parts) if parts["title"] or parts["text"] or parts["facts"] else {}


def _bounded(parts: Mapping[str, object]) -> dict[str, object]:
    """The parts within the room of one candidate, with a title that is a line; a longer one becomes
    the text.
    """
    facts = parts.get("facts")
    first = str(parts["title"] or parts["text"] or (facts[0] if isinstance(facts, list) else ""))
    title = " ".join(first.split())
    text = str(parts["text"] or (first if len(title) > TITLE_CHARACTERS else ""))
    kept: dict[str, object] = {
        "title": _cut(title, TITLE_CHARACTERS),
        "kind": _cut(str(parts["kind"]), 40),
    }
    room = MOST_CHARACTERS - len(str(kept["title"]))
    kept["text"] = _cut(text, room)
    room -= len(str(kept["text"]))
    for name in ("facts", "concepts", "files"):
        strings: list[str] = []
        value = parts.get(name)
        for one in value if isinstance(value, list) else ():
            if room > 0:
                strings.append(_cut(one, room))
                room -= len(one)
        kept[name] = strings
    return kept


def _cut(text: str, most: int) -> str:
    """The text, or its beginning up to the end of a word, with a sign that it was cut."""
    if len(text) <= most:
        return text
    part = text[: max(most - 1, 0)]
    end = part.rfind(" ", max(0, len(part) - 40))  # of a word, if there is one soon
    return (part[:end] if end > 0 else part) + "…"


# -- transcripts
# -------------------------------------------------------------------------------------------------------


def _tail(path: str) -> list[bytes]:
    """The last lines of a transcript, as many as are read; none where it is no regular file or
    can't be read.
    """
    try:
        file = os.open(
            path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
        )
    except (OSError, ValueError):
        return []
    try:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode):
            return []
        start = max(0, status.st_size - TAIL_BYTES)
        os.lseek(file, start, os.SEEK_SET)
        parts: list[bytes] = []
        room = TAIL_BYTES
        while room > 0 and (part := os.read(file, room)):
            parts.append(part)
            room -= len(part)
    except OSError:
        return []
    finally:
        os.close(file)
    lines = b"".join(parts).split(b"\n")
    return lines[1:] if start else lines  # half a line says nothing


def _ends_with_message(lines: Sequence[bytes]) -> bool:
    """Whether the last turn in a transcript of Copilot CLI is over: its last event is an answer
    without calls of tools.
    """
    for line in reversed(lines):
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            # What is being written is half a line.
            if line.strip():
                return False
            continue
        kind = record.get("type") if isinstance(record, dict) else None
        if kind == "assistant.message":
            told = _within(record, "data")
            return bool(_text_of(told.get("content")).strip()) and not told.get("toolRequests")
        if isinstance(kind, str) and kind.startswith(
            ("user.message", "tool.", "assistant.turn_start")
        ):
            return False
    return False


def _last_of(lines: Sequence[bytes], *, aside: bool) -> str:
    """The last message with text among the lines; some clients write each of its blocks as a line,
    with its id.
    """
    texts: list[str] = []
    last = ""
    for line in reversed(lines):
        if b"assistant" not in line and b"agent_message" not in line:
            continue
        try:
            id, text = _message_of(json.loads(line), aside)
        except (ValueError, RecursionError):
            continue
        if texts and id != last:
            break
        if text.strip():
            texts.insert(0, text)
            last = id
            if not id:
                break
    return "\n".join(texts)


def _message_of(record: object, aside: bool) -> tuple[str, str]:
    """The id and the text of an agent's message, in the shapes of several clients; no text for any
    other record.
    """
    if not isinstance(record, dict) or (record.get("isSidechain") is True and not aside):
        return "", ""
    kind, body = record.get("type"), record
    if kind in ("response_item", "event_msg"):
        body = record.get("payload")
    elif kind == "assistant.message":
        body = {"role": "assistant", "content": _within(record, "data").get("content")}
    elif kind == "assistant" or record.get("role") == "assistant":
        body = (
            {"role": "assistant", **_within(record, "message")} if "message" in record else record
        )
    if not isinstance(body, dict):
        return "", ""
    if body.get("type") == "agent_message":
        return "", _text_of(body.get("message"))
    if body.get("role") != "assistant":
        return "", ""
    id = body.get("id")
    return id if isinstance(id, str) else "", _text_of(body.get("content"))


def _within(record: Mapping[str, object], name: str) -> dict[str, object]:
    inner = record.get(name)
    return inner if isinstance(inner, dict) else {}


def _text_of(content: object) -> str:
    """The text of a message: a string, or the blocks of it that are text."""
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else []
    texts = [
        block.get("text")
        for block in blocks
        if isinstance(block, dict) and block.get("type") in ("text", "output_text", None)
    ]
    return "\n".join(text for text in texts if isinstance(text, str))
