"""The pool of engines that a server shares between its clients.

Opening the user's library here also starts the background work of memories, which the engine itself
doesn't know.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from cortex.base.settings import Settings
from cortex.engine.engine import Engine
from cortex.engine.library import Library
from cortex.engine.pool import EnginePool
from cortex.engine.pool import open_engine as open_plain_engine
from cortex.families.memory.background import begin, tend


def engine_pool(*, keep: bool, linger: float = 0.0, rest: float = 0.0) -> EnginePool:
    """Return a pool with a library that imports other products' memories and the hooks' inbox."""
    return EnginePool(keep=keep, linger=linger, rest=rest, opener=open_engine)


def open_engine(root: Path, settings: Settings) -> Engine:
    """Open the engine of a folder; the home's library gets the background work of memories."""
    engine = open_plain_engine(root, settings)
    if isinstance(engine, Library):
        engine.chores.append(partial(tend, engine))
        begin(engine)
    return engine
