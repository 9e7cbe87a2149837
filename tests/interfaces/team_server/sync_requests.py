"""Requests with which a home syncs, as tests send them."""

from __future__ import annotations

from typing import Any

from cortex.base.record_model import Thread
from cortex.families.team.ids import new_id


def change(title: str, number: str = "", **body: Any) -> dict[str, Any]:
    """A new thread, as a home sends it."""
    return {
        "id": number or new_id(Thread),
        "kind": "thread",
        "author": "person",
        "created": 1,
        "before": None,
        "after": {"title": title, **body},
    }


def action(key: str, *changes: dict[str, Any], **payload: Any) -> dict[str, Any]:
    sent = {"actor": "person", "tier": 4, "at": 1, "changes": list(changes), **payload}
    return {"idempotency_key": f"{key}@home/person", "action": "create_thread", "payload": sent}


def pull(
    client, cursor: str = "", view: str = "", **more: Any
) -> tuple[list[dict], list[str], str]:
    """All pages of deltas from a cursor on: updates, invalidated ids, the next cursor."""
    updates, gone = [], []
    while True:
        page = client.get("/sync/deltas", since=cursor, view=view, **more)
        updates += page["updates"]
        gone += page["invalidations"]
        cursor = page["next_cursor"]
        if not page["has_more"]:
            return updates, gone, cursor
