"""Generated memories of real lengths, and claude-mem databases of them, with a seed.

Words are drawn from the docstrings of the standard library, so that some are everywhere and most
are rare. A title has eight, a story sixty, and there are four facts, five of 300 concepts, 40
projects and 20 to 50 memories in a session.
"""

from __future__ import annotations

import json
import random
import re
import sqlite3
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import islice
from pathlib import Path

from bench.documents.sync import passages
from cortex.base.types import Memory

TITLE, SUBTITLE, FACT, STORY = 8, 12, 12, 60  # words
FACTS, CONCEPTS, FILES = 4, 5, 2
ALL_CONCEPTS, PROJECTS, PER_SESSION = 300, 40, 50
KINDS = ("discovery", "bugfix", "feature", "decision", "change", "refactor", "gotcha")
START = 1_700_000_000_000  # milliseconds
APART = 60_000
_WORD = re.compile(r"[A-Za-z][A-Za-z_]{1,20}")

# As version 13 makes them, as far as memories go.
CLAUDE_MEM = """
CREATE TABLE schema_versions (id INTEGER PRIMARY KEY, version INTEGER UNIQUE NOT NULL, applied_at TEXT NOT NULL);
INSERT INTO schema_versions (version, applied_at) VALUES (52, 'then');
CREATE TABLE sdk_sessions (id INTEGER PRIMARY KEY AUTOINCREMENT, content_session_id TEXT UNIQUE NOT NULL, memory_session_id TEXT UNIQUE,
  project TEXT NOT NULL, user_prompt TEXT, started_at TEXT NOT NULL, started_at_epoch INTEGER NOT NULL, completed_at TEXT,
  completed_at_epoch INTEGER, status TEXT NOT NULL DEFAULT 'active', worker_port INTEGER, prompt_counter INTEGER DEFAULT 0,
  platform_source TEXT NOT NULL DEFAULT 'claude', custom_title TEXT);
CREATE TABLE observations (id INTEGER PRIMARY KEY AUTOINCREMENT, memory_session_id TEXT NOT NULL, project TEXT NOT NULL, text TEXT,
  type TEXT NOT NULL, title TEXT, subtitle TEXT, facts TEXT, narrative TEXT, concepts TEXT, files_read TEXT, files_modified TEXT,
  prompt_number INTEGER, created_at TEXT NOT NULL, created_at_epoch INTEGER NOT NULL, discovery_tokens INTEGER DEFAULT 0,
  content_hash TEXT, merged_into_project TEXT, metadata TEXT);
CREATE TABLE session_summaries (id INTEGER PRIMARY KEY AUTOINCREMENT, memory_session_id TEXT NOT NULL, project TEXT NOT NULL, request TEXT,
  investigated TEXT, learned TEXT, completed TEXT, next_steps TEXT, files_read TEXT, files_edited TEXT, notes TEXT, prompt_number INTEGER,
  created_at TEXT NOT NULL, created_at_epoch INTEGER NOT NULL, discovery_tokens INTEGER DEFAULT 0, merged_into_project TEXT);
CREATE INDEX idx_observations_sdk_session ON observations(memory_session_id);
CREATE INDEX idx_observations_project ON observations(project);
CREATE INDEX idx_observations_created ON observations(created_at_epoch DESC);
CREATE INDEX idx_observations_merged_into ON observations(merged_into_project);
CREATE INDEX idx_session_summaries_sdk_session ON session_summaries(memory_session_id);
CREATE INDEX idx_session_summaries_project ON session_summaries(project);
"""
OBSERVATION = (
    "INSERT INTO observations (memory_session_id, project, type, title, subtitle, facts, narrative, concepts, files_read, files_modified, "
    "created_at, created_at_epoch) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, '[]', '', ?)"
)


@cache
def words() -> tuple[str, ...]:
    """Running text as words: a drawn word is drawn by frequency."""
    return tuple(word for passage in passages() for word in _WORD.findall(passage))


def make(count: int, seed: int) -> Iterator[Memory]:
    """Memories, oldest first; the same ones each time."""
    draw, known = random.Random(seed), words()
    tags = tuple(
        dict.fromkeys(
            word.lower() for word in draw.choices(known, k=8 * ALL_CONCEPTS) if len(word) > 3
        )
    )
    concepts = tags[:ALL_CONCEPTS]

    def say(length: int) -> str:
        return " ".join(draw.choices(known, k=length))

    for number in range(count):
        session = number // PER_SESSION
        yield Memory(
            key="",
            title=f"{say(TITLE)} {number}",
            subtitle=say(SUBTITLE),
            facts=tuple(say(FACT) for _ in range(FACTS)),
            concepts=tuple(dict.fromkeys(draw.choices(concepts, k=CONCEPTS))),
            files=tuple(
                f"src/{'/'.join(draw.choices(known, k=2)).lower()}.py" for _ in range(FILES)
            ),
            text=say(STORY) + ".",
            project=f"project-{session % PROJECTS:02d}",
            session=f"session-{session:05d}",
            created=START + number * APART,
            kind=draw.choice(KINDS),
        )


def questions(count: int, made: Iterable[Memory], seed: int) -> list[str]:
    """Queries of two to eight words, each of the words of a memory's title and facts."""
    draw = random.Random(seed)
    asked = []
    for memory in draw.sample(list(made), count):
        said = " ".join((memory.title, *memory.facts)).split()
        asked.append(" ".join(draw.sample(said, draw.randint(2, 8))))
    return asked


def make_claude_mem(path: Path, count: int, seed: int) -> None:
    """Make a closed claude-mem database with that many observations, without a journal."""
    path.parent.mkdir(parents=True, exist_ok=True)
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = OFF")
    connection.executescript(CLAUDE_MEM)
    made = make(count, seed)
    while part := list(islice(made, 10_000)):
        sessions = {memory.session: memory for memory in reversed(part)}
        connection.executemany(
            "INSERT OR IGNORE INTO sdk_sessions (content_session_id, memory_session_id, project, started_at, started_at_epoch) VALUES (?, ?, ?, '', ?)",
            [
                (name, f"inner-{name}", memory.project, memory.created)
                for name, memory in sessions.items()
            ],
        )
        connection.executemany(
            "INSERT INTO session_summaries (memory_session_id, project, request, learned, created_at, created_at_epoch) VALUES (?, ?, ?, ?, '', ?)",
            [
                (f"inner-{name}", memory.project, memory.subtitle, memory.text, memory.created)
                for name, memory in sessions.items()
            ],
        )
        connection.executemany(OBSERVATION, map(row_of, part))
        connection.commit()
    connection.close()


def row_of(memory: Memory) -> tuple[object, ...]:
    """A memory as OBSERVATION takes it."""
    facts, concepts, files = (
        json.dumps(part) for part in (memory.facts, memory.concepts, memory.files)
    )
    said = (memory.title, memory.subtitle, facts, memory.text, concepts, files)
    return (f"inner-{memory.session}", memory.project, memory.kind, *said, memory.created)
