"""claude-mem databases of every generation as that product makes them, for tests and measurements."""

from __future__ import annotations

import json
import random
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

VERSIONS = "CREATE TABLE schema_versions (id INTEGER PRIMARY KEY, version INTEGER UNIQUE NOT NULL, applied_at TEXT NOT NULL);"
THIRD = """
CREATE TABLE sessions (id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT UNIQUE NOT NULL, project TEXT NOT NULL, created_at TEXT NOT NULL, created_at_epoch INTEGER NOT NULL,
  source TEXT NOT NULL DEFAULT 'compress', archive_path TEXT, metadata_json TEXT);
CREATE TABLE memories (id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL, text TEXT NOT NULL, document_id TEXT UNIQUE, keywords TEXT, created_at TEXT NOT NULL,
  created_at_epoch INTEGER NOT NULL, project TEXT NOT NULL, archive_basename TEXT, origin TEXT NOT NULL DEFAULT 'transcript', title TEXT, subtitle TEXT, facts TEXT, concepts TEXT, files_touched TEXT);
CREATE TABLE overviews (id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL, content TEXT NOT NULL, created_at TEXT NOT NULL, created_at_epoch INTEGER NOT NULL, project TEXT NOT NULL,
  origin TEXT NOT NULL DEFAULT 'claude');
CREATE TABLE streaming_sessions (id INTEGER PRIMARY KEY AUTOINCREMENT, claude_session_id TEXT UNIQUE NOT NULL, sdk_session_id TEXT, project TEXT NOT NULL, title TEXT, subtitle TEXT, user_prompt TEXT,
  started_at TEXT NOT NULL, started_at_epoch INTEGER NOT NULL, updated_at TEXT, updated_at_epoch INTEGER, completed_at TEXT, completed_at_epoch INTEGER, status TEXT NOT NULL DEFAULT 'active');
CREATE INDEX idx_memories_project ON memories(project);
"""
FOURTH = """
CREATE TABLE sdk_sessions (id INTEGER PRIMARY KEY AUTOINCREMENT, content_session_id TEXT UNIQUE NOT NULL, memory_session_id TEXT UNIQUE, project TEXT NOT NULL, user_prompt TEXT,
  started_at TEXT NOT NULL, started_at_epoch INTEGER NOT NULL, completed_at TEXT, completed_at_epoch INTEGER, status TEXT NOT NULL DEFAULT 'active', worker_port INTEGER, prompt_counter INTEGER DEFAULT 0);
CREATE TABLE observations (id INTEGER PRIMARY KEY AUTOINCREMENT, memory_session_id TEXT NOT NULL, project TEXT NOT NULL, text TEXT, type TEXT NOT NULL, title TEXT, subtitle TEXT, facts TEXT,
  narrative TEXT, concepts TEXT, files_read TEXT, files_modified TEXT, prompt_number INTEGER, created_at TEXT NOT NULL, created_at_epoch INTEGER NOT NULL, discovery_tokens INTEGER DEFAULT 0);
CREATE TABLE session_summaries (id INTEGER PRIMARY KEY AUTOINCREMENT, memory_session_id TEXT NOT NULL, project TEXT NOT NULL, request TEXT, investigated TEXT, learned TEXT, completed TEXT,
  next_steps TEXT, files_read TEXT, files_edited TEXT, notes TEXT, prompt_number INTEGER, created_at TEXT NOT NULL, created_at_epoch INTEGER NOT NULL, discovery_tokens INTEGER DEFAULT 0);
CREATE TABLE user_prompts (id INTEGER PRIMARY KEY AUTOINCREMENT, content_session_id TEXT NOT NULL, prompt_number INTEGER NOT NULL, prompt_text TEXT NOT NULL, created_at TEXT NOT NULL, created_at_epoch INTEGER NOT NULL);
CREATE TABLE pending_messages (id INTEGER PRIMARY KEY AUTOINCREMENT, session_db_id INTEGER NOT NULL, content_session_id TEXT NOT NULL, tool_input TEXT, tool_response TEXT, last_user_message TEXT);
CREATE INDEX idx_observations_sdk_session ON observations(memory_session_id);
CREATE INDEX idx_observations_project ON observations(project);
CREATE INDEX idx_observations_created ON observations(created_at_epoch DESC);
CREATE INDEX idx_session_summaries_sdk_session ON session_summaries(memory_session_id);
CREATE INDEX idx_session_summaries_project ON session_summaries(project);
"""
FOURTH_WORDS = "CREATE VIRTUAL TABLE observations_fts USING fts5(title, subtitle, narrative, text, facts, concepts, content='observations', content_rowid='id');"
THIRTEENTH = """
ALTER TABLE observations ADD COLUMN content_hash TEXT;
ALTER TABLE observations ADD COLUMN merged_into_project TEXT;
ALTER TABLE observations ADD COLUMN metadata TEXT;
ALTER TABLE session_summaries ADD COLUMN merged_into_project TEXT;
ALTER TABLE sdk_sessions ADD COLUMN platform_source TEXT NOT NULL DEFAULT 'claude';
ALTER TABLE sdk_sessions ADD COLUMN custom_title TEXT;
CREATE TABLE tool_uses (id INTEGER PRIMARY KEY, tool_name TEXT, tool_input TEXT, tool_response TEXT);
CREATE TABLE sync_state (key TEXT PRIMARY KEY, value TEXT);
CREATE INDEX idx_observations_merged_into ON observations(merged_into_project);
CREATE INDEX idx_summaries_merged_into ON session_summaries(merged_into_project);
"""
PATCHED = """
CREATE TABLE memories (id TEXT PRIMARY KEY, project TEXT, session TEXT, date TEXT, title TEXT, subtitle TEXT, facts TEXT, concepts TEXT, files TEXT, created_at TEXT, session_id TEXT);
CREATE TABLE overviews (id TEXT PRIMARY KEY, project TEXT, session TEXT, content TEXT, created_at TEXT, session_id TEXT, UNIQUE(project, session));
CREATE TABLE observations (id TEXT PRIMARY KEY, session_id TEXT, type TEXT, concept TEXT, narrative TEXT, file_path TEXT, created_at TEXT, tokens INTEGER);
"""
CURATED = """
ALTER TABLE memories ADD COLUMN status TEXT DEFAULT 'staging';
ALTER TABLE memories ADD COLUMN reviewed_at TEXT;
ALTER TABLE memories ADD COLUMN reviewed_by TEXT;
"""
# Before migration 17
OLD_NAMES = (("content_session_id", "claude_session_id"), ("memory_session_id", "sdk_session_id"))
GENERATIONS = {
    "3": (3, THIRD),
    "4": (16, FOURTH + FOURTH_WORDS),
    "8": (23, FOURTH + FOURTH_WORDS),
    "13": (52, FOURTH + THIRTEENTH),
    # Brought along from 3 to 8
    "carried": (23, THIRD + FOURTH + FOURTH_WORDS),
    "patched": (0, PATCHED),
    "curated": (0, PATCHED + CURATED),
}
# 2026-11-15
START = 1_794_768_000_000
SUBJECTS = (
    "login",
    "cache",
    "deploy",
    "parser",
    "queue",
    "index",
    "invoice",
    "upload",
    "session",
    "scheduler",
)
PLACES = (
    "staging",
    "production",
    "the worker",
    "the test run",
    "Safari",
    "the importer",
    "CI",
    "the gateway",
)
CAUSES = (
    "a stale token",
    "an empty list",
    "two writers",
    "a missing header",
    "clock skew",
    "a retry without limit",
)


@dataclass
class MadeDatabase:
    """A database that is being made."""

    path: Path
    generation: str
    connection: sqlite3.Connection
    _sessions: set[str] = field(default_factory=set)

    def insert(self, table: str, **values: object) -> int:
        """A row of a table; lists become JSON."""
        said = {
            name: json.dumps(value) if isinstance(value, list) else value
            for name, value in values.items()
        }
        marks = ", ".join("?" * len(said))
        cursor = self.connection.execute(
            f"INSERT INTO {table} ({', '.join(said)}) VALUES ({marks})", [*said.values()]
        )
        self.connection.commit()
        return cursor.lastrowid or 0

    def session(
        self, name: str, project: str = "ack", *, moment: int = START, title: str | None = None
    ) -> str:
        """A session as it begins; gives the product's own id of it."""
        own = f"own-{name}"
        when = {"started_at": "2026-11-15T00:00:00.000Z", "started_at_epoch": moment}
        if self.generation == "3":
            self.insert(
                "streaming_sessions",
                claude_session_id=name,
                sdk_session_id=own,
                project=project,
                title=title,
                user_prompt="PRIVATE",
                **when,
            )
            return name
        client, inner = self._names()
        more = {"custom_title": title} if self.generation == "13" else {}
        self.insert(
            "sdk_sessions",
            **{client: name, inner: own},
            project=project,
            user_prompt="PRIVATE",
            **when,
            **more,
        )
        return own  # fmt: skip

    def observation(
        self, session: str, title: str | None, project: str = "ack", **more: object
    ) -> int:
        """A memory of the fourth generation and later."""
        _, inner = self._names()
        values: dict[str, object] = {
            inner: session,
            "project": project,
            "type": "discovery",
            "title": title,
        }
        values |= {"created_at": "2026-11-15T00:00:00.000Z", "created_at_epoch": START}
        return self.insert("observations", **values | more)

    def summary(
        self, session: str, request: str | None, project: str = "ack", **more: object
    ) -> int:
        """A summary of the fourth generation and later."""
        _, inner = self._names()
        values: dict[str, object] = {inner: session, "project": project, "request": request}
        values |= {"created_at": "2026-11-15T00:00:00.000Z", "created_at_epoch": START}
        return self.insert("session_summaries", **values | more)

    def memory(
        self, key: str | None, title: str | None, project: str = "ack", **more: object
    ) -> int:
        """A memory of the third generation, or of the patched shape."""
        values: dict[str, object] = {
            "project": project,
            "title": title,
            "created_at": "2026-11-15T00:00:00.000Z",
        }
        if self.generation in ("patched", "curated"):
            return self.insert("memories", **{"id": key, **values, **more})
        values |= {"document_id": key, "session_id": "s", "text": "", "created_at_epoch": START}
        return self.insert("memories", **values | more)

    def many(
        self,
        count: int,
        *,
        projects: Sequence[str] = ("ack", "shop", "site"),
        per_session: int = 20,
        seed: int = 7,
    ) -> None:
        """Observations like those of people, with their sessions and summaries, in one transaction."""
        client, inner = self._names()
        chance = random.Random(seed)
        sessions, rows, summaries = [], [], []
        for number in range(count):
            session, moment = f"own-{number // per_session}", START + number * 1000
            project = projects[(number // per_session) % len(projects)]
            if number % per_session == 0:
                sessions.append((session[4:], session, project, "PRIVATE", "", moment))
                summaries.append(
                    (
                        session,
                        project,
                        f"Work on {chance.choice(SUBJECTS)}",
                        "It was " + chance.choice(CAUSES),
                        "",
                        moment,
                    )
                )
            subject, place, cause = (
                chance.choice(SUBJECTS),
                chance.choice(PLACES),
                chance.choice(CAUSES),
            )
            facts = [
                f"The {subject} fails in {place}",
                f"{cause} is what makes it fail",
                f"Number {number} was the {chance.randrange(10**6)}th try",
            ]
            narrative = (
                f"While working on the {subject} in {place} it turned out that {cause} was behind it. "
                * chance.randrange(2, 8)
            )
            files = [f"src/{subject}/{chance.choice(SUBJECTS)}.py"]
            rows.append((session, project, chance.choice(("bugfix", "decision", "discovery")), f"{subject.title()} fails in {place} because of {cause} ({number})",
                f"Seen {number} times", json.dumps(facts), narrative, json.dumps(["gotcha", subject]), json.dumps(files), "[]", "", moment))  # fmt: skip
        self.connection.executemany(
            f"INSERT INTO sdk_sessions ({client}, {inner}, project, user_prompt, started_at, started_at_epoch) VALUES (?, ?, ?, ?, ?, ?)",
            sessions,
        )
        self.connection.executemany(
            f"INSERT INTO observations ({inner}, project, type, title, subtitle, facts, narrative, concepts, files_read, files_modified, created_at, created_at_epoch) "
            f"VALUES ({', '.join('?' * 12)})",
            rows,
        )
        self.connection.executemany(
            f"INSERT INTO session_summaries ({inner}, project, request, learned, created_at, created_at_epoch) VALUES (?, ?, ?, ?, ?, ?)",
            summaries,
        )
        self.connection.commit()

    def close(self) -> None:
        """As its owner does when it ends: the journal is gone."""
        self.connection.close()

    def _names(self) -> tuple[str, str]:
        old = self.generation == "4"
        return OLD_NAMES[0][old], OLD_NAMES[1][old]


def make_claude_mem(path: Path, generation: str = "13") -> MadeDatabase:
    """An empty database of one of GENERATIONS, in WAL mode as the product has it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    version, tables = GENERATIONS[generation]
    if generation == "4":
        for now, before in OLD_NAMES:
            tables = tables.replace(now, before)
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.executescript((VERSIONS if version else "") + tables)
    if version:
        connection.execute(
            "INSERT INTO schema_versions (version, applied_at) VALUES (?, 'then')", (version,)
        )
        connection.commit()
    return MadeDatabase(path, generation, connection)
