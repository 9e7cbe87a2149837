"""Check the index of a folder: integrity, freshness, vectors and the writing process."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

from cortex.base.errors import FileError, StoreError
from cortex.base.settings import Workspace
from cortex.base.types import Cancel
from cortex.engine.embedders.circuit_breaker import name_of
from cortex.engine.engine import Engine
from cortex.engine.index_repair import DISCARDED
from cortex.engine.sources import git
from cortex.engine.store_folder import rebuild_damaged
from cortex.interfaces.cli.checks import Finding, error, ok, warning
from cortex.interfaces.daemon import control

SHOWN = 3
SAME = "Give all the same indexing.embeddingProvider, then `cortex restart`, or end that process."


def check_index(engine: Engine) -> Iterator[Finding]:
    """Check an index that could be opened."""
    yield from _integrity(engine)
    yield from _freshness(engine)
    yield from _vectors(engine)
    yield _writer(engine)
    if refused := git.refusal(engine.root):
        yield error("repository", refused, refused.rpartition(": ")[2])
    yield from _settings(engine)
    for text in engine.settings.warnings:
        yield warning("settings", text, "Correct it; `cortex config show` says what counts.")


def _settings(engine: Engine) -> Iterator[Finding]:
    """Check that the index has all files, and report the settings that it was built with."""
    for text in engine.state.shortcomings():
        yield warning("settings", text, "cortex index", lambda: _update(engine))
    description = engine.state.describe()
    if special := description.get("madeWith"):
        yield ok(
            "settings", f"the index was made with {json.dumps(special)}; all else is the default"
        )
    if (override := engine.state.override) is not None:
        text = f"the tool update_config changed them for all clients: {override.in_words()}"
        yield warning("settings", text, "cortex config end-override")


def unusable(target: Workspace, broken: StoreError | FileError) -> Finding:
    """Build the finding for an index that can't be opened."""
    if broken.code not in DISCARDED:
        return error("store", f"{broken.message} [{broken.code}]", broken.suggestions[0])
    fix = (
        "Search or `cortex index`: a project's index is built anew by itself, and the old one kept."
    )
    return error("store", f"{broken.message} [{broken.code}]", fix, lambda: _replace(target))


def _integrity(engine: Engine) -> Iterator[Finding]:
    problems = engine.store.check()
    for problem in problems:
        yield error("store", problem, "cortex index --force", lambda: _rebuild(engine))
    if not problems:
        yield ok(
            "store",
            f"{engine.store.directory} is sound" if engine.store.directory else "there is none yet",
        )


def _freshness(engine: Engine) -> Iterator[Finding]:
    """Check the last run, and compare the files by size and time."""
    state = engine.freshness()
    if not state.last_indexed:
        text = "the folder was never indexed completely: run `cortex index`"
        yield error("freshness", text, "cortex index", lambda: _update(engine))
        return
    content, source = engine.store.content, engine.source.id
    known, skips = content.known(source), content.skips(source)
    seen = {file.path: (file.size, file.mtime_ns) for file in engine.files()}
    before = {path: (file.size, file.mtime_ns) for path, file in known.items()}
    before |= {path: (size, mtime) for path, (size, mtime, _) in skips.items()}
    behind = sorted(path for path in {*seen, *before} if seen.get(path) != before.get(path))
    if not behind:
        yield ok(
            "freshness", f"{len(known)} files as they are on disk, indexed {state.last_indexed}"
        )
        return
    shown = ", ".join(behind[:SHOWN]) + (", …" if len(behind) > SHOWN else "")
    text = f"{len(behind)} files have changed since they were indexed ({shown})"
    if engine.store.lease.holder() not in (0, os.getpid()):
        yield ok("freshness", f"{text}; the process that keeps it is about to see them")
    else:
        yield warning("freshness", text, "cortex index", lambda: _update(engine))


def _vectors(engine: Engine) -> Iterator[Finding]:
    """Check that the vectors are of the configured embedder, and complete."""
    state = engine.embedding.status()
    made = _embedders_on_disk(engine)
    if state is None:
        if made:
            yield _unwanted(engine, made)
        return
    name = f"{state.provider} {state.model}".strip()
    if state.problem:
        yield warning(
            "vectors",
            f"{name}: {state.problem}",
            "Correct it, or choose another with `cortex models use`.",
        )
    elif state.share == 1.0 and made <= {name}:
        yield ok("vectors", f"made by {name}")
    else:
        others = "".join(f", and there are vectors of {other}" for other in sorted(made - {name}))
        text = (
            f"{state.share:.0%} is embedded by {name}; now {state.answering or 'words'} "
            f"answer{others}"
        )
        clash = _clash(engine, name)
        fix = SAME if clash else "cortex index"
        yield warning("vectors", f"{text}; {clash}" if clash else text, fix, lambda: _embed(engine))


def _embedders_on_disk(engine: Engine) -> set[str]:
    """Return the names of the embedders that have vectors on disk."""
    return {
        name_of(vectors.stamp)
        for vectors in engine.store.indexes.sets.on_disk()
        if vectors is not None
    }


def _unwanted(engine: Engine, made: set[str]) -> Finding:
    """Build the finding for vectors where no embedder is configured."""
    text = (
        f"there are vectors of {', '.join(sorted(made))}, and nothing embeds now: search goes "
        "by words"
    )
    if writer := _other_writer(engine):
        return warning("vectors", f"{text}; {writer} keeps them", SAME)
    fix = "Choose an embedder with `cortex models use`, or remove them with `cortex doctor --fix`."
    return warning("vectors", text, fix, lambda: _remove_vectors(engine))


def _other_writer(engine: Engine) -> str:
    """Return a description of another writing process, "" where there is none."""
    pid = engine.store.lease.holder()
    return "" if pid in (0, os.getpid()) else f"process {pid}" if pid > 0 else "another process"


def _clash(engine: Engine, name: str) -> str:
    """Explain why the vectors of an embedder aren't made: another process writes others."""
    writer, made = _other_writer(engine), sorted(_embedders_on_disk(engine))
    if not writer or any(f"{other} ".startswith(f"{name} ") for other in made):
        return ""
    others = f"vectors of {', '.join(made)}" if made else "no vectors"
    return f"{writer} alone writes to this store, and there are {others}, none of {name}"


def _writer(engine: Engine) -> Finding:
    """Report the holder of the lease."""
    pid = engine.store.lease.holder()
    if pid in (0, os.getpid()):
        return ok("writer", "no other process writes to this store")
    words = control.command_line(pid) if pid > 0 else []
    if control.is_cortexd(pid):
        return ok("writer", f"cortexd, process {pid}")
    if pid < 0:
        text = "a process holds the store's lease and hasn't said which it is"
        return warning(
            "writer",
            text,
            f"Look who has {engine.store.directory}/lease open: lsof, fuser or handle.",
        )
    what = " ".join(words)[:200] or "its command line can't be seen"
    return ok("writer", f"process {pid} ({what}) writes to this store; all others read it")


def _rebuild(engine: Engine) -> str:
    report = engine.index(force=True)
    if engine.holds_lease():
        engine.embedding.embed(cancel=Cancel())
    return f"built anew: {report.added + report.changed + report.unchanged} files"


def _update(engine: Engine) -> str:
    report = engine.index()
    return f"indexed: {report.added} added, {report.changed} changed, {report.deleted} deleted"


def _embed(engine: Engine) -> str:
    engine.index()
    if engine.holds_lease():
        return (
            "everything is embedded"
            if engine.embedding.embed(cancel=Cancel())
            else "not everything is embedded yet"
        )
    state = engine.embedding.status()
    if state is None or state.share == 1.0:
        return "everything is embedded"
    if clash := _clash(engine, f"{state.provider} {state.model}".strip()):
        raise StoreError("STORE_LOCKED", clash)
    return (
        f"{_other_writer(engine) or 'another process'} embeds in the background: "
        f"{state.share:.0%} is done"
    )


def _remove_vectors(engine: Engine) -> str:
    if not engine.holds_lease():
        raise StoreError(
            "STORE_LOCKED", f"{_other_writer(engine) or 'another process'} writes to this store"
        )
    engine.store.indexes.sets.keep_only(())
    return (
        "they are removed; what was paid for is kept for a while, should you choose its "
        "embedder again"
    )


def _replace(target: Workspace) -> str:
    kept = rebuild_damaged(target.root, target.settings)
    with Engine(target.root, target.settings) as engine:
        return f"the damaged store was kept as {kept.name}; {_rebuild(engine)}"
