"""Selection of the local records that a home uploads when it connects to a Core.

`mine` selects records that this home wrote itself and no other Core ever had. Records by other
authors, or from another Core, go only if the person chooses `all`; their people are then marked
with their origin, because the same name at the new Core is another person. A record that refers to
one that stays, stays too. Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from cortex.base.actors import AGENT, PERSON
from cortex.base.record_model import SENSITIVE, Record, Subcortex, refs_of
from cortex.engine.store.records.foreign_origins import UploadCandidate
from cortex.families.team.permissions import TIERS
from cortex.families.team.required_permissions import rights_of
from cortex.families.team.wire import identity

MINE, ALL, NONE = CHOICES = ("mine", "all", "none")
# Lowest tier that may upload records by other authors.
KEEPS_AUTHORS = 3
# Origin of people from a Core that is no longer known.
UNKNOWN_PLACE = "elsewhere"


@dataclass(frozen=True, slots=True)
class UploadPart:
    """Summary of a part of an upload, for the person to review before it is sent."""

    records: int
    kinds: Mapping[str, int]
    authors: Mapping[str, int]
    origins: Mapping[str, int]  # addresses of earlier Cores
    private: int  # sensitive records, and records of private subcortexes
    # Permissions that the tier lacks, with the number of records that need them.
    refused: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Plan:
    """Records that a Core doesn't have: those that `mine` sends, and those that `all` adds."""

    mine: UploadPart
    others: UploadPart
    kept: int  # records by others that need tier 3, so they stay with every choice
    changes: int  # local changes, since disconnecting, of records that the Core has

    def sent(self, choice: str) -> int:
        """Count the records that a choice sends."""
        return {MINE: self.mine.records, ALL: self.mine.records + self.others.records}.get(
            choice, 0
        )


def plan(candidates: Sequence[UploadCandidate], tier: int, changes: int) -> Plan:
    """Plan the upload of these candidates to a Core that gives the person this tier."""
    mine = _select(candidates, MINE, tier)
    everything = _select(candidates, ALL, tier)
    own = {candidate.record.id for candidate in mine}
    others = [candidate for candidate in everything if candidate.record.id not in own]
    kept = sum(_is_counted(candidate) for candidate in candidates)
    kept -= sum(_is_counted(candidate) for candidate in everything)
    private = _private_subcortexes(candidates)
    return Plan(_summarize(mine, private, tier), _summarize(others, private, tier), kept, changes)


def records_to_send(
    candidates: Sequence[UploadCandidate], choice: str, tier: int
) -> list[Record[Any]]:
    """Return the records that a choice sends, with people of another Core marked as such."""
    return [_mark_origin(candidate) for candidate in _select(candidates, choice, tier)]


def _select(candidates: Sequence[UploadCandidate], choice: str, tier: int) -> list[UploadCandidate]:
    if choice == NONE:
        return []
    going = {
        candidate.record.id: candidate
        for candidate in candidates
        if _may_go(candidate, choice, tier)
    }
    stay = {candidate.record.id for candidate in candidates}.difference(going)
    while bound := [
        record_id
        for record_id, candidate in going.items()
        if _refers_to_any(candidate.record, stay)
    ]:
        stay.update(bound)
        for record_id in bound:
            del going[record_id]
    return list(going.values())


def _may_go(candidate: UploadCandidate, choice: str, tier: int) -> bool:
    own = candidate.record.author in (PERSON, AGENT)
    return own and not candidate.origin if choice == MINE else own or tier >= KEEPS_AUTHORS


def _refers_to_any(record: Record[Any], ids: set[str]) -> bool:
    return any(target in ids for _, target in refs_of(record.body))


def _mark_origin(candidate: UploadCandidate) -> Record[Any]:
    record = candidate.record
    if not candidate.origin and record.author in (PERSON, AGENT):
        return record
    origin = urlsplit(candidate.origin).netloc.rpartition("@")[2].lower() or UNKNOWN_PLACE
    return identity.renamed(record, identity.from_elsewhere(origin))


def _summarize(candidates: Sequence[UploadCandidate], private: set[str], tier: int) -> UploadPart:
    counted = [candidate for candidate in candidates if _is_counted(candidate)]
    return UploadPart(
        len(counted),
        dict(Counter(candidate.record.kind for candidate in counted).most_common()),
        dict(Counter(candidate.record.author for candidate in counted).most_common()),
        dict(Counter(candidate.origin for candidate in counted if candidate.origin).most_common()),
        sum(_is_private(candidate.record, private) for candidate in counted),
        dict(
            Counter(
                right for candidate in counted if (right := _missing_right(candidate.record, tier))
            ).most_common()
        ),
    )


def _is_counted(candidate: UploadCandidate) -> bool:
    """False for a notification, which only accompanies another record."""
    return candidate.record.kind != "notification"


def _missing_right(record: Record[Any], tier: int) -> str:
    """Return the first permission to send a record that the tier lacks, "" for none."""
    return next((right for right in rights_of(None, record.body) if tier < TIERS[right]), "")


def _private_subcortexes(candidates: Sequence[UploadCandidate]) -> set[str]:
    bodies = ((candidate.record.id, candidate.record.body) for candidate in candidates)
    return {
        record_id
        for record_id, body in bodies
        if isinstance(body, Subcortex) and body.visibility == "private"
    }


def _is_private(record: Record[Any], private: set[str]) -> bool:
    scope = getattr(record.body, "subcortex", record.id)
    return record.body.sensitivity == SENSITIVE or scope in private
