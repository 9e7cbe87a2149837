"""Reading and chunking in child processes: a grammar that hangs or crashes costs one file.

`Pool` is the parent's side (pool.py), child.py the process, frames.py their protocol. Roads not
taken: threads, because a hang in native code can't be stopped inside a process; `multiprocessing`,
which forks, and has queues that break when a worker is killed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cortex.engine.worker.pool import Pool

__all__ = ["Pool"]


def __getattr__(name: str) -> object:
    # The child imports this package too and needs none of the parent's side.
    if name in __all__:
        from cortex.engine.worker import pool

        return getattr(pool, name)
    raise AttributeError(name)
