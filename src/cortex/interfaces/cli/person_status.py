"""The user's documents, memories and records for `cortex status` and `cortex mcp status`.

Read-only.
"""

from __future__ import annotations

from collections.abc import Mapping

from cortex.base.errors import CortexError
from cortex.base.text import rfc3339
from cortex.families.memory.commands.render import counted
from cortex.toolkit.terminal.library import settings_of
from cortex.toolkit.terminal.output import many, rows, say

# Drafts that are counted at most.
MAX_DRAFTS = 1_000


def documents(profile: str | None) -> dict[str, object]:
    """Describe the user's document sources, and how they can be searched."""
    from cortex.engine.home_store import has_folders
    from cortex.engine.library import Library
    from cortex.families.documents.status import overview_of, states_of

    settings = settings_of(profile)
    provider = settings.indexing.embedding_provider
    if not has_folders(settings.home):
        wanted = None if provider == "none" else {"provider": provider}
        return {
            "capabilities": {"words": True, "meaning": False, "embedder": wanted},
            "sources": [],
        }
    try:
        with Library(settings, read_only=True) as library:
            states, overview = states_of(library, library.folders()), overview_of(library)
    except CortexError as error:
        return {
            "capabilities": {"words": False, "meaning": False, "embedder": None},
            "sources": [],
            "problem": error.message,
        }
    embedder = overview.embedding.as_json() if overview.embedding else None
    capabilities = {"words": True, "meaning": overview.meaning, "embedder": embedder}
    return {"capabilities": capabilities, "sources": [state.as_json(root=True) for state in states]}


def memories(profile: str | None) -> dict[str, object]:
    """Describe the databases of memories: their size, and how far they are indexed."""
    from cortex.engine.home_store import has_own_memories
    from cortex.engine.library import Library
    from cortex.engine.store import OWN, STORE_NAME, MemoryFilter
    from cortex.families.memory.databases import databases
    from cortex.families.memory.mirror import copied

    settings = settings_of(profile)
    present = databases(settings)
    if not (settings.home / STORE_NAME).is_file():
        return {
            "own": 0,
            "databases": [{"path": str(database.path), "memories": None} for database in present],
            "waiting": None,
        }
    try:
        with Library(settings, read_only=True) as library:
            count = library.store.memories.count
            own = count(MemoryFilter(origins=(OWN,))) if has_own_memories(settings.home) else 0
            counts = [
                {
                    "path": str(database.path),
                    "memories": count(MemoryFilter(origins=(database.origin,))),
                }
                for database in present
            ]
            state = copied(library)
    except CortexError as error:
        return {
            "own": None,
            "databases": [{"path": str(database.path)} for database in present],
            "problem": error.message,
        }
    body: dict[str, object] = {"own": own, "databases": counts, "waiting": state.left}
    return {**body, "problem": "; ".join(state.problems)} if state.problems else body


def records(profile: str | None) -> dict[str, object]:
    """Count the records by kind, those missing at the Core, and the drafts to decide about."""
    from cortex.base.actors import person
    from cortex.base.record_model import FOUND_KINDS, RecordFilter
    from cortex.engine.home_store import has_records
    from cortex.engine.library import Library
    from cortex.families.team.permissions import may
    from cortex.families.team.sync.state import URL
    from cortex.families.team.writes.drafts import PENDING, listed
    from cortex.families.team.writes.transactions import effective_actor

    settings = settings_of(profile)
    if not has_records(settings.home):
        return {"records": dict.fromkeys(FOUND_KINDS, 0), "refused": 0, "onlyHere": 0, "drafts": 0}
    try:
        with Library(settings, read_only=True) as library:
            count = library.store.records.count
            counts = {kind: count(RecordFilter(kinds=(kind,))) for kind in FOUND_KINDS}
            decides = may(effective_actor(library, person()), "approve_draft")
            waiting = len(listed(library, (PENDING,), MAX_DRAFTS)) if decides else 0
            # A store of an older version has no outbox to look at.
            absent = library.store.outbox.absent() if library.store.content.get(URL) else {}
            absent_records = library.store.records.get(absent)
            reasons = [
                absent[record_id]
                for record_id, record in absent_records.items()
                if record.kind in FOUND_KINDS
            ]
    except CortexError as error:
        return {
            "records": None,
            "refused": None,
            "onlyHere": None,
            "drafts": None,
            "problem": error.message,
        }
    here = reasons.count("")
    return {"records": counts, "refused": len(reasons) - here, "onlyHere": here, "drafts": waiting}


def backups(profile: str | None) -> dict[str, object]:
    """Describe the snapshots of the home, and the problem of a lost database."""
    from cortex.engine.store import check_present
    from cortex.engine.store.snapshots import list_snapshots

    home = settings_of(profile).home
    snapshots = list_snapshots(home)
    body: dict[str, object] = {
        "count": len(snapshots),
        "last": rfc3339(snapshots[0].at) if snapshots else None,
    }
    try:
        check_present(home)
    except CortexError as error:
        body["problem"] = error.message
    return body


def print_documents(body: Mapping[str, object]) -> None:
    """Print the document sources for people."""
    can, sources = body["capabilities"], rows(body["sources"])
    if body.get("problem"):
        say(f"documents    can't be read: {body['problem']}")
        return
    if not sources:
        say("documents    no sources; add one with `cortex kb add PATH`")
        return
    assert isinstance(can, Mapping)
    embedder = can["embedder"] if isinstance(can["embedder"], Mapping) else {}
    name = embedder.get("answering") or " ".join(
        str(embedder[key]) for key in ("provider", "model") if embedder.get(key)
    )
    meaning = (
        f"words and meaning ({name})"
        if can["meaning"]
        else "words only" + (f"; {name} has not embedded them" if name else "")
    )
    say(f"documents    {many(len(sources), 'source')}, searched by {meaning}")
    for source in sources:
        synced = f"synced {source['lastSync']}" if source["lastSync"] else "not synced yet"
        away = "" if source["present"] else ", the folder is not there now"
        unread = (
            f", {many(len(rows(source['unread'])), 'file')} could not be read"
            if source["unread"]
            else ""
        )
        say(
            f"  {source['name']} (ID: {source['id']}): {source['documents']} documents, "
            f"{synced}{unread}{away}: {source['path']}"
        )


def print_memories(body: Mapping[str, object]) -> None:
    """Print the memories for people."""
    databases = rows(body["databases"])
    if not body["own"] and not databases and not body.get("problem"):
        say("memories     none; write one with `cortex memory add TITLE`")
        return
    waiting = (
        f", at most {body['waiting']:,} rows are not indexed yet" if body.get("waiting") else ""
    )
    files = "database" if len(databases) == 1 else "databases"
    say(
        f"memories     {body['own'] or 0} of your own, {len(databases)} {files} of "
        f"claude-mem{waiting}"
    )
    for database in databases:
        count = database.get("memories")
        say(f"  {database['path']}: {counted(count) if isinstance(count, int) else 'not read yet'}")
    if body.get("problem"):
        say(f"  {body['problem']}")


def print_records(body: Mapping[str, object]) -> None:
    """Print the record counts for people."""
    from cortex.families.team.caveats import NOT_ACCEPTED, ONLY_HERE

    counts = body["records"]
    if not isinstance(counts, Mapping):
        say(f"team         can't be read: {body['problem']}")
        return
    there = [many(count, kind) for kind, count in counts.items() if count]
    if not there and not body["drafts"]:
        say("team         nothing yet; begin with `cortex team subcortex create SLUG --name NAME`")
        return
    drafts = body["drafts"]
    assert isinstance(drafts, int)
    waiting = (
        f"; {many(drafts, 'draft')} for you to decide about: `cortex team drafts list`"
        if drafts
        else ""
    )
    marks = ((body["refused"], NOT_ACCEPTED), (body["onlyHere"], ONLY_HERE))
    marked = "".join(f"; {count} of them {mark}" for count, mark in marks if count)
    say(f"team         {', '.join(there) or 'no records'}{marked}{waiting}")


def print_backups(body: object) -> None:
    """Print the snapshots for people."""
    assert isinstance(body, Mapping)
    kept = (
        f"{many(body['count'], 'snapshot')}, the last of {body['last']}"
        if body["count"]
        else "none yet"
    )
    say(f"backups      {body.get('problem') or kept}")
