"""A stand-in for a Core: real HTTP on a loopback port, a ledger in memory, injected faults.

It keeps to the form of `/api/v2/sync` and to its promises (once for each key, changes in order)
and to nothing else: the token permits everything, and a field that both sides changed is a
conflict.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from cortex.base.errors import InputError
from cortex.base.record_model import Body, Record
from cortex.engine.store import RecordChange, VersionedRecord
from cortex.families.team.wire.codec import Action, action_from, canonical, record_to, result_to
from engine.embedders.stub import Asked, Reply, Stub

TOKEN = "ctx_test_0123456789abcdefghijklmnop"
LOST, CUT = "lost", "cut"  # a request that never arrived, an answer that never did


class Cut(Exception):
    """The connection ends here."""


class FakeCore:
    """A Core of one principal, "ada", and the writes of others."""

    def __init__(self, name: str = "ada", tls: tuple[Path, Path] | None = None) -> None:
        self.name, self.tier, self.epoch, self.view = name, 4, "e1", "v1"
        self.kept: dict[str, VersionedRecord] = {}
        self.hidden: set[str] = set()
        self.refuses: set[str] = set()  # ids that may not be written
        self.later: set[str] = set()  # ids that are for later
        self.faults: deque[str | Reply] = deque()  # of the next requests; "" for none
        # By key: the request, its record ids, and the change after it.
        self.keys: dict[str, tuple[str, list[str], int]] = {}
        self.done: list[str] = []  # keys, in the order in which they were first taken
        self.flushed: list[list[str]] = []  # keys of each flush that arrived
        self.change = 0
        self.stub = Stub(tls)
        self.stub.answer = self._answer
        self.url = self.stub.url

    def close(self) -> None:
        self.stub.close()

    # -- writes of others
    # ------------------------------------------------------------------------------------------

    def write(self, number: str, body: Body, author: str = "bob", updated: int = 1) -> Record[Any]:
        self.change += 1
        known = self.kept.get(number)
        version = known.record.version + 1 if known else 1
        record = Record(
            number, body, author=author, created=updated, updated=updated, version=version
        )
        self.kept[number] = VersionedRecord(record, self.change)
        return record

    def edit(self, number: str, **changes: object) -> None:
        record = self.kept[number].record
        self.write(number, replace(record.body, **changes), record.author)

    def hide(self, *ids: str) -> None:
        """Hide records, as a change that syncs see."""
        for number in ids:
            self.change += 1
            self.kept[number] = replace(self.kept[number], change=self.change)
            self.hidden.add(number)

    def put_back(
        self, ids: Iterable[str], epoch: str, backup: Mapping[str, VersionedRecord] | None = None
    ) -> None:
        """Be restored from a backup that had only these; as they are now, or as they were then."""
        self.kept = {number: (backup or self.kept)[number] for number in ids}
        self.done.clear()
        self.change = max((kept.change for kept in self.kept.values()), default=0)
        self.keys = {
            key: known
            for key, known in self.keys.items()
            if known[2] <= self.change and all(number in self.kept for number in known[1])
        }
        self.epoch = epoch

    def bodies(self) -> dict[str, Body]:
        return {number: kept.record.body for number, kept in self.kept.items()}

    # -- requests
    # -------------------------------------------------------------------------------------------------

    def _answer(self, asked: Asked) -> Reply:
        fault = self.faults.popleft() if self.faults else ""
        if fault == LOST:
            raise Cut
        if isinstance(fault, Reply):
            return fault
        if asked.headers.get("Authorization") != f"Bearer {TOKEN}":
            return _error(
                401, "AUTH_REQUIRED", f"no such token: {asked.headers.get('Authorization')}"
            )
        parts = urlsplit(asked.path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        match parts.path.removeprefix("/api/v2/sync"):
            case "/bootstrap":
                who = {"name": self.name, "tier": self.tier, "sensitive": True}
                reply = _data(
                    {"principal": who, "epoch": self.epoch, "view": self.view, "sync_cursor": ""}
                )
            case "/deltas":
                reply = self._deltas(
                    query.get("since", ""), query.get("view", ""), int(query["limit"])
                )
            case "/flush":
                reply = self._flush(asked.body["actions"])
            case "/visible":
                ids = asked.body["ids"]
                seen = [id_ for id_ in ids if id_ in self.kept and id_ not in self.hidden]
                reply = _data(
                    {
                        "visible": seen,
                        "unknown": [number for number in ids if number not in self.kept],
                    }
                )
            case _:
                reply = _error(404, "NOT_FOUND", "there is nothing")
        if fault == CUT:
            raise Cut
        return reply

    def _deltas(self, since: str, view: str, limit: int) -> Reply:
        epoch, _, number = since.rpartition(":")
        if since and epoch != self.epoch:
            return _error(410, "RESYNC_NEEDED", "another ledger", {"reason": "epoch"})
        if since and view != self.view:
            return _error(410, "RESYNC_NEEDED", "other rights", {"reason": "view"})
        after = int(number or 0)
        found = sorted(
            (kept for kept in self.kept.values() if kept.change > after),
            key=lambda kept: kept.change,
        )
        page = found[:limit]
        last = page[-1].change if page else after
        return _data(
            {
                "updates": [record_to(kept) for kept in page if kept.record.id not in self.hidden],
                "invalidations": [kept.record.id for kept in page if kept.record.id in self.hidden],
                "notifications_count": 0,
                "next_cursor": f"{self.epoch}:{last}",
                "has_more": len(found) > limit,
                "epoch": self.epoch,
                "view": self.view,
            }
        )

    def _flush(self, actions: list[dict[str, Any]]) -> Reply:
        self.flushed.append([action["idempotency_key"] for action in actions])
        results: list[dict[str, object]] = []
        later = False
        for sent in actions:
            try:
                action = action_from(sent)
            except InputError as error:
                ids = [change["id"] for change in sent["payload"]["changes"]]
                results.append(
                    result_to(sent["idempotency_key"], "refused", self._seen(ids), error)
                )
                continue
            later = later or any(change.id in self.later for change in action.changes)
            results.append(result_to(action.key, "retry", ()) if later else self._take(action))
        return _data({"results": results})

    def _take(self, action: Action) -> dict[str, object]:
        ids = [change.id for change in action.changes]
        asked = canonical(action.changes)
        if (known := self.keys.get(action.key)) is not None:
            assert known[0] == asked, "a key for something else"
            return result_to(action.key, "replayed", self._seen(known[1]))
        try:
            bodies = [self._merged(change) for change in action.changes]
        except InputError as error:
            return result_to(action.key, "refused", self._seen(ids), error)
        for changed, body in zip(action.changes, bodies, strict=True):
            self.write(
                changed.id,
                body,
                self.kept[changed.id].record.author if changed.id in self.kept else changed.author,
            )
        self.keys[action.key] = (asked, ids, self.change)
        self.done.append(action.key)
        return result_to(action.key, "applied", self._seen(ids))

    def _seen(self, ids: list[str]) -> list[VersionedRecord]:
        return [self.kept[id_] for id_ in ids if id_ in self.kept and id_ not in self.hidden]

    def _merged(self, change: RecordChange) -> Body:
        if change.id in self.refuses or change.id in self.hidden:
            raise InputError("RIGHTS_MISSING", f"nobody may write {change.id}")
        current = self.kept[change.id].record.body if change.id in self.kept else None
        if current is None or change.before is None:
            if (current is None) == (change.before is None) or current == change.after:
                return change.after
            raise InputError(
                "RECORD_UNKNOWN" if current is None else "RECORD_CHANGED",
                f"{change.id} isn't as it was",
            )
        changes: dict[str, object] = {}
        for field in (part.name for part in fields(current)):
            before, after, theirs = (
                getattr(body, field) for body in (change.before, change.after, current)
            )
            if after != before and theirs not in (before, after):
                raise InputError("RECORD_CHANGED", f"{field} was changed by somebody else")
            changes[field] = after if after != before else theirs
        return replace(current, **changes)


def _data(body: object) -> Reply:
    return Reply({"data": body, "meta": {}})


def _error(status: int, code: str, message: str, *details: dict[str, object]) -> Reply:
    return Reply({"error": {"code": code, "message": message, "details": list(details)}}, status)
