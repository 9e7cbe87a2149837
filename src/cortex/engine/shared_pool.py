"""Pool of what a process has open for folders: one resource per folder and settings.

A window (a connection, a command) registers a folder once, and gives its handle back at its end.
What has no window is closed after some time, or sooner where memory is short.
"""

from __future__ import annotations

import gc
import logging
import threading
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from cortex.base.errors import ConfigError
from cortex.base.runtime.process_stats import give_memory_back, memory_bytes
from cortex.base.settings import Settings

log = logging.getLogger(__name__)


class Closable(Protocol):
    """A resource that a pool can hold."""

    def close(self) -> None:
        """Release everything."""


Resource = TypeVar("Resource", bound=Closable)


@dataclass(slots=True, eq=False)
class PoolHandle(Generic[Resource]):
    """A folder with its settings: its windows, calls under way, and resource while open."""

    root: Path
    settings: Settings
    windows: int = 0
    # Nothing is closed during a call.
    calls: int = 0
    # Time at which the last call or window ended.
    used: float = 0.0
    resource: Resource | None = None
    # Held to open or close the resource.
    turn: threading.Lock = field(default_factory=threading.Lock)


Handle = TypeVar("Handle", bound=PoolHandle[Any])


class SharedPool(ABC, Generic[Handle]):
    """Opens resources on demand, and closes the unused ones."""

    def __init__(self, handle_type: type[Handle], *, linger: float, rest: float) -> None:
        """A resource without windows stays open for `linger` seconds.

        One with windows may be closed after `rest` unused seconds, where memory is short.
        """
        self._handle_type = handle_type
        self._linger = linger
        self._rest = rest
        # Never held during disk access.
        self._lock = threading.Lock()
        self._handles: list[Handle] = []
        self._closed = False

    @abstractmethod
    def _open(self, handle: Handle) -> Closable:
        """Open the resource of a folder."""

    def _may_close(self, handle: Handle) -> bool:
        """Decide whether an open resource can be closed now; its next call opens it again."""
        return True

    def _register(self, root: Path, settings: Settings) -> Handle:
        """Register a window for a folder, to be given back at its end; opens nothing yet."""
        with self._lock:
            handle = next(
                (
                    handle
                    for handle in self._handles
                    if handle.root == root and handle.settings == settings
                ),
                None,
            )
            if handle is None:
                handle = self._handle_type(root, settings)
                self._handles.append(handle)
            handle.windows += 1
            return handle

    def give_back(self, handle: Handle) -> None:
        """Unregister a window; the resource is closed at once where nothing lingers."""
        with self._lock:
            handle.windows -= 1
            handle.used = time.monotonic()
        self._close_if_last(handle)

    def _close_if_last(self, handle: Handle) -> None:
        if not self._linger and not handle.windows:
            self.close_idle()

    def _ensure_open(self, handle: Handle) -> None:
        """Open the resource where it isn't.

        Not under the pool's lock: a slow disk delays only the calls for its own folder.

        Raises: ConfigError WORKSPACE_MISSING once the pool is closed.
        """
        with handle.turn:
            if handle.resource is None and not self._closed:
                handle.resource = self._open(handle)
                # The pool was closed meanwhile, without this resource.
                if self._closed:
                    _close(handle.root, handle.resource)
            if handle.resource is None or self._closed:
                raise server_ending()

    def close_idle(self, most_bytes: int = 0) -> None:
        """Close what no window has had lately.

        Above `most_bytes` also what is unused longest, until the process is below it.
        """
        with self._lock:
            idle = sorted(
                (handle for handle in self._handles if not handle.calls),
                key=lambda handle: (handle.windows > 0, handle.used),
            )
        for handle in idle:
            unused = time.monotonic() - handle.used
            if (not handle.windows and unused >= self._linger) or (
                most_bytes
                and memory_bytes() > most_bytes
                and (not handle.windows or unused >= self._rest)
            ):
                self._close_unused(handle)
        with self._lock:
            self._handles = [
                handle
                for handle in self._handles
                if handle.windows or handle.calls or handle.resource is not None
            ]

    def _close_unused(self, handle: Handle) -> None:
        """Close a resource, unless a call is under way; one that comes meanwhile opens it again."""
        resource = handle.resource
        if resource is None or not handle.turn.acquire(blocking=False):
            return
        try:
            if not self._may_close(handle):
                return
            with self._lock:
                if handle.calls:
                    return
                handle.resource = None
            _close(handle.root, resource)
        finally:
            handle.turn.release()
        del resource
        # A resource and its parts refer to one another.
        gc.collect()
        give_memory_back()

    def close(self) -> None:
        """Close everything, in use or not."""
        self._closed = True
        with self._lock:
            handles, self._handles = self._handles, []
        for handle in handles:
            if handle.resource is not None:
                _close(handle.root, handle.resource)


def server_ending() -> ConfigError:
    """Build the error for what is asked of a pool that is closed."""
    return ConfigError("WORKSPACE_MISSING", "the server is ending")


def _close(root: Path, resource: Closable) -> None:
    try:
        resource.close()
    except Exception:
        # The others must be closed, too.
        log.exception("closing %s failed", root)
