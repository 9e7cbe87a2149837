"""Memory candidates from the end of a turn: the marked lines of the agent's last message.

Standard library only, and no judgement: a line counts if it begins with `remember:`, `decision:` or
`gotcha:`, also in a list or in bold. A client may also list `candidates` itself. The message is in
the client's event, or at the end of its transcript, in the formats of several clients. Road not
taken: asking a model for the important parts.
"""

from __future__ import annotations

import json
import os
import re
import stat
import time

# Type checkers know the name. Importing `typing` takes longer than everything else here.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

MOST = 20  # candidates per event
MOST_CHARACTERS = 4_000  # per candidate
MOST_STRINGS = 50  # per list of a candidate
TITLE_CHARACTERS = 160
TAIL_BYTES = 2 << 20  # of a transcript
READ_AGAIN_SECONDS = 0.05
# Keys of an event that contain the last message.
MESSAGES = ("last_assistant_message", "prompt_response")
# Keys with a transcript's path: first of the subagent that stopped, then of the session.
TRANSCRIPTS = ("agent_transcript_path", "transcript_path", "transcriptPath")
KINDS = {"remember": "note", "decision": "decision", "gotcha": "gotcha"}
_MARKED = re.compile(
    r"(?:\s*(?:[-*+•]|\d{1,3}[.)])\s+(?:\[[ xX]\]\s+)?|\s{0,3}#{1,6}\s+|\s{0,3})"
    r"(?P<bold>\*{0,3}|_{0,3})(?P<mark>remember|decision|gotcha)(?P<ended>\*{0,3}|_{0,3})"
    r"[ \t]*:(?P<said>.*)",
    re.IGNORECASE,
)
_FENCE = re.compile(r"\s*(?:[-*+]\s+|\d{1,3}[.)]\s+|>\s?)*(`{3,}|~{3,})(.*)")


def find_candidates(payload: Mapping[str, object], seconds: float = 0.0) -> list[dict[str, object]]:
    """Find at most MOST distinct candidates in a client's event, each of bounded size.

    `seconds` is as in `last_message`.
    """
    listed = payload.get("candidates")
    candidates = (
        [_from_list(item) for item in listed[: 10 * MOST]] if isinstance(listed, list) else []
    )
    candidates += [
        _from_mark(mark, text) for mark, text in marked_lines(last_message(payload, seconds))
    ]
    distinct: list[dict[str, object]] = []
    for candidate in candidates:
        if candidate and candidate not in distinct and len(distinct) < MOST:
            distinct.append(candidate)
    return distinct


def marked_lines(message: str) -> Iterator[tuple[str, str]]:
    """Yield the mark and the text of every marked line outside of fenced code."""
    fence = ""
    for line in message.splitlines():
        fence_mark = _FENCE.match(line)
        if fence_mark and not fence:
            fence = fence_mark[1] if "`" not in fence_mark[2] else ""
        elif (
            fence_mark
            and fence_mark[1][0] == fence[0]
            and len(fence_mark[1]) >= len(fence)
            and not fence_mark[2].strip()
        ):
            fence = ""
        elif not fence and (marked := _MARKED.match(line)):
            text = marked["said"].strip()
            # The colon, or the whole line, is in bold.
            if marked["bold"] and not marked["ended"]:
                text = (
                    text.removeprefix(marked["bold"]) if text.startswith(marked["bold"]) else text
                )
                text = text.removesuffix(marked["bold"]) if text.count(marked["bold"]) % 2 else text
            if text.strip():
                yield marked["mark"].lower(), text.strip()


def last_message(payload: Mapping[str, object], seconds: float = 0.0) -> str:
    """Return the agent's last message from the event, else from its transcript; "" for none.

    A transcript that doesn't end with a message of the agent is read again for at most `seconds`:
    Copilot CLI writes the last one while the hook runs.
    """
    for name in MESSAGES:
        message = payload.get(name)
        if isinstance(message, str) and message.strip():
            return message
    for name in TRANSCRIPTS:
        path = payload.get(name)
        if isinstance(path, str) and path:
            # The whole transcript is of the subagent that stopped.
            whole = name == "agent_transcript_path"
            deadline = time.monotonic() + seconds
            lines = _tail(os.path.expanduser(path))
            while not _ends_with_message(lines) and time.monotonic() < deadline:
                time.sleep(READ_AGAIN_SECONDS)
                lines = _tail(os.path.expanduser(path))
            return _last_of(lines, aside=whole)
    return ""


def _from_mark(mark: str, text: str) -> dict[str, object]:
    return _bounded({"title": text, "text": "", "kind": KINDS[mark]})


def _from_list(item: object) -> dict[str, object]:
    """Parse a listed candidate: a text, or an object with known keys; empty for others."""
    if isinstance(item, str):
        item = {"title": item}
    if not isinstance(item, dict):
        return {}
    parts: dict[str, object] = {}
    for name in ("title", "text", "kind"):
        value = item.get(name)
        parts[name] = value.strip() if isinstance(value, str) else ""
    for name in ("facts", "concepts", "files"):
        value = item.get(name)
        strings = value[:MOST_STRINGS] if isinstance(value, list) else []
        parts[name] = [text.strip() for text in strings if isinstance(text, str) and text.strip()]
    return _bounded(parts) if parts["title"] or parts["text"] or parts["facts"] else {}


def _bounded(parts: Mapping[str, object]) -> dict[str, object]:
    """Cut the parts to the size of one candidate; a title that is too long becomes the text."""
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
        for item in value if isinstance(value, list) else ():
            if room > 0:
                strings.append(_cut(item, room))
                room -= len(item)
        kept[name] = strings
    return kept


def _cut(text: str, most: int) -> str:
    """Return the text, or its beginning up to a word's end with an ellipsis."""
    if len(text) <= most:
        return text
    part = text[: max(most - 1, 0)]
    # End of the last word, if it is within 40 characters.
    end = part.rfind(" ", max(0, len(part) - 40))
    return (part[:end] if end > 0 else part) + "…"


# -- transcripts


def _tail(path: str) -> list[bytes]:
    """Read the last lines of a transcript; none if it isn't a readable regular file."""
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
    # The first line may be cut off.
    return lines[1:] if start else lines


def _ends_with_message(lines: Sequence[bytes]) -> bool:
    """True if a Copilot CLI transcript ends with an answer that calls no tools."""
    for line in reversed(lines):
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            # An incomplete line is still being written.
            if line.strip():
                return False
            continue
        kind = record.get("type") if isinstance(record, dict) else None
        if kind == "assistant.message":
            data = _object_at(record, "data")
            return bool(_text_of(data.get("content")).strip()) and not data.get("toolRequests")
        if isinstance(kind, str) and kind.startswith(
            ("user.message", "tool.", "assistant.turn_start")
        ):
            return False
    return False


def _last_of(lines: Sequence[bytes], *, aside: bool) -> str:
    """Return the last message with text; some clients write each block as a line with its id."""
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
    """Return the id and text of an agent's message in several clients' formats, else no text."""
    if not isinstance(record, dict) or (record.get("isSidechain") is True and not aside):
        return "", ""
    kind, body = record.get("type"), record
    if kind in ("response_item", "event_msg"):
        body = record.get("payload")
    elif kind == "assistant.message":
        body = {"role": "assistant", "content": _object_at(record, "data").get("content")}
    elif kind == "assistant" or record.get("role") == "assistant":
        body = (
            {"role": "assistant", **_object_at(record, "message")}
            if "message" in record
            else record
        )
    if not isinstance(body, dict):
        return "", ""
    if body.get("type") == "agent_message":
        return "", _text_of(body.get("message"))
    if body.get("role") != "assistant":
        return "", ""
    id = body.get("id")
    return id if isinstance(id, str) else "", _text_of(body.get("content"))


def _object_at(record: Mapping[str, object], name: str) -> dict[str, object]:
    inner = record.get(name)
    return inner if isinstance(inner, dict) else {}


def _text_of(content: object) -> str:
    """Text of a message: a string, or its text blocks."""
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else []
    texts = [
        block.get("text")
        for block in blocks
        if isinstance(block, dict) and block.get("type") in ("text", "output_text", None)
    ]
    return "\n".join(text for text in texts if isinstance(text, str))
