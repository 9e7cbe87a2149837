"""Servers that may keep the vectors of documents instead of files, by the settings.

A new one is an opener here, its settings, and a module with a `VectorServer`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from cortex.base.settings import Settings
from cortex.base.settings.values import stays_here

if TYPE_CHECKING:
    from cortex.engine.store.index.qdrant_index import QdrantServer
    from cortex.engine.store.index.vector_index import VectorServer

log = logging.getLogger(__name__)


def open_qdrant(settings: Settings) -> QdrantServer | None:
    """Connect to the Qdrant server that keeps the vectors; None where files do."""
    qdrant = settings.kb.qdrant
    if not qdrant.url or not _is_allowed(qdrant.url, settings):
        return None
    # It needs numpy.
    from cortex.engine.store.index.qdrant_index import QdrantServer

    return QdrantServer(qdrant.url, qdrant.api_key, qdrant.collection)


OPENERS: tuple[Callable[[Settings], VectorServer | None], ...] = (open_qdrant,)


def open_vector_server(settings: Settings) -> VectorServer | None:
    """Connect to the server that keeps the vectors; None where files do.

    With server.localOnly a server on another machine is not used.
    """
    servers = (opener(settings) for opener in OPENERS)
    return next((server for server in servers if server is not None), None)


def _is_allowed(url: str, settings: Settings) -> bool:
    allowed = not settings.server.local_only or stays_here(url)
    if not allowed:
        log.warning("server.localOnly: %s is not used, the vectors are kept in files", url)
    return allowed
