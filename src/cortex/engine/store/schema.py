"""Tables of a store and their migrations, one per version.

`blobs` own text, chunks and symbols and are addressed by content; `docs` give a blob a name in a
source. A doc never changes to another text: a new text is a new doc with a new id, so that an id
stands for the same thing in SQLite and in both indexes for ever. `gone` lists removed docs until
the indexes have dropped them. `vectors` are the paid ones, keyed by the hash of their text: no text
is paid for twice while it is kept, which is some days longer than the last file that has it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

from cortex.base.errors import StoreError

_FIRST = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE sources (
  id INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT NOT NULL, name TEXT NOT NULL,\
 root TEXT NOT NULL, UNIQUE (kind, name, root));
CREATE TABLE blobs (
  id INTEGER PRIMARY KEY AUTOINCREMENT, hash BLOB NOT NULL UNIQUE, language TEXT NOT NULL,\
 characters INTEGER NOT NULL,
  lines INTEGER NOT NULL, first_chunk INTEGER NOT NULL, last_chunk INTEGER NOT NULL,\
 orphaned_at INTEGER, text BLOB NOT NULL);
CREATE INDEX blobs_orphaned ON blobs (orphaned_at) WHERE orphaned_at IS NOT NULL;
CREATE TABLE chunks (
  id INTEGER PRIMARY KEY AUTOINCREMENT, blob INTEGER NOT NULL REFERENCES blobs ON DELETE CASCADE,\
 ordinal INTEGER NOT NULL,
  start INTEGER NOT NULL, end INTEGER NOT NULL, start_line INTEGER NOT NULL,\
 end_line INTEGER NOT NULL,
  kind TEXT NOT NULL, name TEXT NOT NULL, qualified TEXT NOT NULL, signature TEXT NOT NULL,\
 doc TEXT NOT NULL);
CREATE INDEX chunks_blob ON chunks (blob);
CREATE TABLE symbols (
  blob INTEGER NOT NULL REFERENCES blobs ON DELETE CASCADE, name TEXT NOT NULL COLLATE NOCASE,
  qualified TEXT NOT NULL, kind TEXT NOT NULL, start_line INTEGER NOT NULL,\
 end_line INTEGER NOT NULL);
CREATE INDEX symbols_name ON symbols (name);
CREATE INDEX symbols_blob ON symbols (blob);
CREATE TABLE docs (
  id INTEGER PRIMARY KEY AUTOINCREMENT, source INTEGER NOT NULL REFERENCES sources\
 ON DELETE CASCADE, path TEXT NOT NULL,
  blob INTEGER NOT NULL REFERENCES blobs, size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL,\
 role TEXT NOT NULL,
  seq INTEGER NOT NULL, checked_at INTEGER NOT NULL, UNIQUE (source, path));
CREATE INDEX docs_blob ON docs (blob);
CREATE INDEX docs_seq ON docs (seq);
CREATE TABLE gone (
  doc INTEGER PRIMARY KEY, first_chunk INTEGER NOT NULL, last_chunk INTEGER NOT NULL,\
 seq INTEGER NOT NULL);
CREATE INDEX gone_seq ON gone (seq);
CREATE TABLE skips (
  source INTEGER NOT NULL REFERENCES sources ON DELETE CASCADE, path TEXT NOT NULL,\
 size INTEGER NOT NULL,
  mtime_ns INTEGER NOT NULL, reason TEXT NOT NULL, PRIMARY KEY (source, path)) WITHOUT ROWID;
CREATE TABLE left_out (
  source INTEGER NOT NULL REFERENCES sources ON DELETE CASCADE, path TEXT NOT NULL,\
 reason TEXT NOT NULL,
  PRIMARY KEY (source, path)) WITHOUT ROWID;
CREATE TABLE operations (id INTEGER PRIMARY KEY AUTOINCREMENT, at INTEGER NOT NULL,\
 what TEXT NOT NULL, detail TEXT NOT NULL);
CREATE TABLE requests (
  id INTEGER PRIMARY KEY AUTOINCREMENT, at INTEGER NOT NULL, source INTEGER NOT NULL,\
 force INTEGER NOT NULL,
  limited INTEGER NOT NULL, paths TEXT, progress TEXT, answer TEXT);
INSERT INTO meta VALUES ('seq', '0'), ('identity', lower(hex(randomblob(6))));
"""

# A chunk's hash is only filled in for paid models; the others don't need it.
_PAID_VECTORS = """
ALTER TABLE chunks ADD COLUMN hash BLOB;
CREATE INDEX chunks_hash ON chunks (hash) WHERE hash IS NOT NULL;
CREATE TABLE models (
  id INTEGER PRIMARY KEY AUTOINCREMENT, provider TEXT NOT NULL, model TEXT NOT NULL,\
 dimensions INTEGER NOT NULL,
  prefix TEXT NOT NULL, complete INTEGER NOT NULL, used_at INTEGER NOT NULL,\
 UNIQUE (provider, model, dimensions, prefix));
CREATE TABLE vectors (
  id INTEGER PRIMARY KEY, model INTEGER NOT NULL REFERENCES models ON DELETE CASCADE,\
 hash BLOB NOT NULL, vector BLOB NOT NULL,
  UNIQUE (model, hash));
CREATE INDEX vectors_hash ON vectors (hash);
"""

# Folders of documents that the user added, with their patterns; fields of the entries of chunk
# files besides the text.
_FOLDERS = """
CREATE TABLE folders (
  source INTEGER PRIMARY KEY REFERENCES sources ON DELETE CASCADE, key TEXT NOT NULL UNIQUE,\
 include TEXT NOT NULL,
  exclude TEXT NOT NULL, watch INTEGER NOT NULL, added_at INTEGER NOT NULL);
CREATE TABLE entries (
  doc INTEGER PRIMARY KEY REFERENCES docs ON DELETE CASCADE, file TEXT NOT NULL,\
 fields TEXT NOT NULL);
CREATE INDEX entries_file ON entries (file);
CREATE TABLE tags (
  tag TEXT NOT NULL, doc INTEGER NOT NULL REFERENCES docs ON DELETE CASCADE,\
 PRIMARY KEY (tag, doc)) WITHOUT ROWID;
CREATE INDEX tags_doc ON tags (doc);
"""

# `memories` are our own (origin "") and a mirror of every row of other products' databases, which
# can be recreated. The user's decisions about either are in `judgements`, which can't (`made` is
# the time of the row: a recreated database has other rows with the same key). `mirrors` has the
# progress of each mirror.
_MEMORIES = """
CREATE TABLE memories (
  id INTEGER PRIMARY KEY AUTOINCREMENT, origin TEXT NOT NULL, key TEXT NOT NULL,\
 number INTEGER NOT NULL, source INTEGER,
  state TEXT NOT NULL, title TEXT NOT NULL, subtitle TEXT NOT NULL, facts TEXT NOT NULL,\
 concepts TEXT NOT NULL, files TEXT NOT NULL,
  text TEXT NOT NULL, project TEXT NOT NULL COLLATE NOCASE, session TEXT NOT NULL,\
 date TEXT NOT NULL, created INTEGER NOT NULL,
  kind TEXT NOT NULL, provenance TEXT NOT NULL, other_project TEXT NOT NULL COLLATE NOCASE,\
 scope TEXT NOT NULL COLLATE NOCASE,
  fingerprint BLOB NOT NULL, signature BLOB NOT NULL, UNIQUE (origin, key));
CREATE INDEX memories_created ON memories (created, number);
CREATE INDEX memories_newest ON memories (source, created, number, id, project, other_project);
CREATE INDEX memories_project ON memories (source, project, created, number);
CREATE INDEX memories_other ON memories (source, other_project, created,\
 number) WHERE other_project <> '';
CREATE INDEX memories_scope ON memories (source, scope, created, number);
CREATE INDEX memories_key ON memories (key);
CREATE INDEX memories_number ON memories (origin, number);
CREATE INDEX memories_session ON memories (origin, session, number, id);
CREATE INDEX memories_fingerprint ON memories (fingerprint);
CREATE INDEX memories_source ON memories (source, key);
CREATE INDEX memories_state ON memories (source, state, created, number);
CREATE TABLE concepts (
  concept TEXT NOT NULL COLLATE NOCASE, memory INTEGER NOT NULL REFERENCES memories\
 ON DELETE CASCADE,
  PRIMARY KEY (concept, memory)) WITHOUT ROWID;
CREATE INDEX concepts_memory ON concepts (memory);
CREATE TABLE citations (
  memory INTEGER NOT NULL REFERENCES memories ON DELETE CASCADE, root TEXT NOT NULL,\
 path TEXT NOT NULL, symbol TEXT NOT NULL,
  file_hash BLOB NOT NULL, body_hash BLOB NOT NULL, revision TEXT NOT NULL);
CREATE INDEX citations_memory ON citations (memory);
CREATE TABLE judgements (
  origin TEXT NOT NULL, key TEXT NOT NULL, state TEXT NOT NULL, actor TEXT NOT NULL,\
 at INTEGER NOT NULL, successor TEXT NOT NULL,
  made INTEGER NOT NULL, PRIMARY KEY (origin, key)) WITHOUT ROWID;
CREATE TABLE forgotten (
  origin TEXT NOT NULL, key TEXT NOT NULL, made INTEGER NOT NULL,\
 PRIMARY KEY (origin, key)) WITHOUT ROWID;
CREATE TABLE decisions (
  id INTEGER PRIMARY KEY AUTOINCREMENT, batch INTEGER NOT NULL, at INTEGER NOT NULL,\
 origin TEXT NOT NULL, key TEXT NOT NULL,
  action TEXT NOT NULL, before TEXT NOT NULL, after TEXT NOT NULL, actor TEXT NOT NULL,\
 reason TEXT NOT NULL, undone INTEGER NOT NULL);
CREATE INDEX decisions_memory ON decisions (origin, key);
CREATE INDEX decisions_batch ON decisions (batch);
CREATE TABLE mirrors (
  origin TEXT PRIMARY KEY, scope TEXT NOT NULL, seen TEXT NOT NULL, begun TEXT NOT NULL,\
 high INTEGER NOT NULL, cursor INTEGER NOT NULL,
  total INTEGER NOT NULL, compared_at INTEGER NOT NULL, wanted_at INTEGER NOT NULL,\
 tried_at INTEGER NOT NULL, shown_as TEXT NOT NULL,
  problem TEXT NOT NULL);
"""

# Team records of every kind in one table, their references (`refs`), their history (`versions`),
# idempotency keys, and an audit log that can't be changed. `private` blobs get no vectors.
_RECORDS = """
CREATE TABLE records (
  id TEXT PRIMARY KEY, kind TEXT NOT NULL, version INTEGER NOT NULL, state TEXT NOT NULL,\
 sensitivity TEXT NOT NULL, body TEXT NOT NULL,
  author TEXT NOT NULL, created INTEGER NOT NULL, updated INTEGER NOT NULL, made TEXT NOT NULL,\
 source INTEGER);
CREATE INDEX records_made ON records (kind, made, state);
CREATE INDEX records_state ON records (kind, state, made);
CREATE INDEX records_updated ON records (kind, updated, made, state);
CREATE INDEX records_source ON records (source, id);
CREATE TABLE refs (
  role TEXT NOT NULL, target TEXT NOT NULL,\
 record TEXT NOT NULL REFERENCES records ON DELETE CASCADE,
  PRIMARY KEY (role, target, record)) WITHOUT ROWID;
CREATE INDEX refs_record ON refs (record, role, target);
CREATE INDEX refs_target ON refs (target);
CREATE TABLE versions (
  record TEXT NOT NULL REFERENCES records ON DELETE CASCADE, version INTEGER NOT NULL,\
 kind TEXT NOT NULL, body TEXT NOT NULL,
  author TEXT NOT NULL, created INTEGER NOT NULL, at INTEGER NOT NULL,\
 PRIMARY KEY (record, version)) WITHOUT ROWID;
CREATE TABLE keys (
  actor TEXT NOT NULL, key TEXT NOT NULL, payload BLOB NOT NULL, result TEXT NOT NULL,\
 at INTEGER NOT NULL,
  PRIMARY KEY (actor, key)) WITHOUT ROWID;
CREATE TABLE audit (
  id INTEGER PRIMARY KEY AUTOINCREMENT, at INTEGER NOT NULL, actor TEXT NOT NULL,\
 tier INTEGER NOT NULL, key TEXT NOT NULL,
  action TEXT NOT NULL, record TEXT NOT NULL, version INTEGER NOT NULL);
CREATE INDEX audit_record ON audit (record);
CREATE TRIGGER audit_kept BEFORE DELETE ON audit BEGIN SELECT RAISE(ABORT,\
 'the audit log is kept'); END;
CREATE TRIGGER audit_unchanged BEFORE UPDATE ON audit BEGIN SELECT RAISE(ABORT,\
 'the audit log is kept'); END;
ALTER TABLE blobs ADD COLUMN private INTEGER NOT NULL DEFAULT 0;
"""

# Scope of records written before it was stored: their subcortex, or that of their subject, which is
# of a kind migrated before. Valid in both SQL dialects.
_SCOPE = """
UPDATE records SET scope = coalesce((
  SELECT other.scope FROM refs AS way JOIN records AS other
    ON other.id = coalesce((SELECT min(record) FROM refs\
 WHERE role = 'slug' AND target = way.target), way.target)
  WHERE way.record = records.id AND way.role = {role}), '') WHERE kind = '{kind}' AND scope = '';
"""
_ABOVE = "(SELECT max(role) FROM refs WHERE record = records.id AND role IN ('thread', 'task'))"
SCOPES = """
UPDATE records SET scope = CASE kind WHEN 'subcortex' THEN id ELSE coalesce(
  (SELECT min(target) FROM refs WHERE record = records.id AND role = 'subcortex'), '') END;
""" + "".join(
    _SCOPE.format(kind=kind, role=role)
    for kind, role in (
        ("observation", _ABOVE),
        ("draft", "'target'"),
        ("link", "'source'"),
        ("notification", "'about'"),
    )
)

# Order of the writes for the change feed: each write takes the next number. Existing records are
# numbered in the order of their creation. Also the scope of each, as in `visibility.scope_of`.
_CHANGES = f"""
CREATE TABLE counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
ALTER TABLE records ADD COLUMN change INTEGER NOT NULL DEFAULT 0;
ALTER TABLE records ADD COLUMN scope TEXT NOT NULL DEFAULT '';
CREATE TEMP TABLE numbered (number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE);
INSERT INTO numbered (id) SELECT id FROM records ORDER BY made, id;
UPDATE records SET change = (SELECT number FROM numbered WHERE numbered.id = records.id);
DROP TABLE numbered;
{SCOPES}
INSERT INTO counters SELECT 'change', count(*) FROM records;
INSERT INTO counters VALUES ('applied', 0);
CREATE INDEX records_change ON records (change);
"""

# Principals of a team server, their grants, and the hashes of their tokens. `facts` has the epoch
# of the change history. For a store connected to such a server: changes to send (`outbox`, with the
# records of each entry), the records that the server has, and those that are never sent.
_PRINCIPALS = """
CREATE TABLE principals (
  id TEXT PRIMARY KEY, name TEXT NOT NULL UNIQUE, tier INTEGER NOT NULL,\
 sensitive INTEGER NOT NULL, state TEXT NOT NULL,
  created INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE grants (
  principal TEXT NOT NULL REFERENCES principals ON DELETE CASCADE, subcortex TEXT NOT NULL,\
 writes INTEGER NOT NULL,
  PRIMARY KEY (principal, subcortex)) WITHOUT ROWID;
CREATE TABLE tokens (
  id TEXT PRIMARY KEY, principal TEXT NOT NULL REFERENCES principals ON DELETE CASCADE,\
 hash BLOB NOT NULL, label TEXT NOT NULL,
  created INTEGER NOT NULL, expires INTEGER NOT NULL, used INTEGER NOT NULL,\
 revoked INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE facts (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
INSERT INTO facts VALUES ('epoch', lower(hex(randomblob(16))));
CREATE TABLE outbox (
  id INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT NOT NULL, actor TEXT NOT NULL,\
 tier INTEGER NOT NULL, action TEXT NOT NULL,
  at INTEGER NOT NULL, changes TEXT NOT NULL, state TEXT NOT NULL, attempts INTEGER NOT NULL,\
 code TEXT NOT NULL, reason TEXT NOT NULL);
CREATE INDEX outbox_state ON outbox (state, id);
CREATE TABLE outbox_records (
  record TEXT NOT NULL, entry INTEGER NOT NULL REFERENCES outbox ON DELETE CASCADE,\
 PRIMARY KEY (record, entry)) WITHOUT ROWID;
CREATE INDEX outbox_records_entry ON outbox_records (entry);
CREATE TABLE replica (record TEXT PRIMARY KEY, version INTEGER NOT NULL,\
 change INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE local_only (record TEXT PRIMARY KEY) WITHOUT ROWID;
"""

# Accepted entries stay in the outbox for a while, with the time of acceptance: a server restored
# from a backup receives them again.
_JOURNAL = "ALTER TABLE outbox ADD COLUMN taken INTEGER NOT NULL DEFAULT 0;"

# Records of former servers: the epoch and address of each server, and its version of the record. A
# store disconnected before this table existed has them in `replica`.
_ELSEWHERE = """
CREATE TABLE elsewhere (
  record TEXT NOT NULL, epoch TEXT NOT NULL, url TEXT NOT NULL, version INTEGER NOT NULL,\
 PRIMARY KEY (record, epoch)) WITHOUT ROWID;
INSERT INTO elsewhere SELECT record, substr(value, 1, instr(value, '/') - 1), '', version
  FROM replica JOIN meta ON key = 'left.core' AND value <> '';
DELETE FROM replica WHERE EXISTS (SELECT 1 FROM meta WHERE key = 'left.core' AND value <> '');
DELETE FROM meta WHERE key = 'left.core';
"""

# Secrets in a text, as found by that version of the detector: the text in `blobs` contains them,
# no answer does.
_LEAKS = """
CREATE TABLE leaks (
  blob INTEGER PRIMARY KEY REFERENCES blobs ON DELETE CASCADE, version INTEGER NOT NULL,\
 found TEXT NOT NULL);
"""

# Interface of a write: an agent, a person at a terminal, or a command without one.
_VIA = "ALTER TABLE audit ADD COLUMN via TEXT NOT NULL DEFAULT '';"


def _execute(statements: str) -> Callable[[sqlite3.Connection], None]:
    def migrate_one(connection: sqlite3.Connection) -> None:
        statement = ""
        # A trigger contains more than one semicolon.
        for part in statements.split(";"):
            statement += part + ";"
            if sqlite3.complete_statement(statement):
                connection.execute(statement)
                statement = ""

    return migrate_one


_STATEMENTS = (
    _FIRST,
    _PAID_VECTORS,
    _FOLDERS,
    _MEMORIES,
    _RECORDS,
    _CHANGES,
    _PRINCIPALS,
    _JOURNAL,
    _ELSEWHERE,
    _LEAKS,
    _VIA,
)
MIGRATIONS: tuple[Callable[[sqlite3.Connection], None], ...] = tuple(
    _execute(statements) for statements in _STATEMENTS
)


def migrate(connection: sqlite3.Connection, version: int | None = None) -> None:
    """Migrate the schema to the latest or a given version, inside the caller's transaction."""
    for index in range(version_of(connection), len(MIGRATIONS) if version is None else version):
        MIGRATIONS[index](connection)
        connection.execute(f"PRAGMA user_version = {index + 1}")


def is_current(connection: sqlite3.Connection) -> bool:
    """True if there is nothing to migrate.

    Raises: StoreError STORE_NEWER if a newer Cortex wrote the store.
    """
    version = version_of(connection)
    if version > len(MIGRATIONS):
        raise StoreError(
            "STORE_NEWER",
            f"this store has schema {version}, this Cortex knows {len(MIGRATIONS)}",
            context={"schema": version, "known": len(MIGRATIONS)},
        )
    return version == len(MIGRATIONS)


def is_outdated(connection: sqlite3.Connection) -> bool:
    """True if an earlier version of Cortex made these tables; false if there are none yet."""
    return 0 < version_of(connection) < len(MIGRATIONS)


def version_of(connection: sqlite3.Connection) -> int:
    return connection.execute("PRAGMA user_version").fetchone()[0]
