"""What a home brings along to a Core that it joins: which of its records may go, and what they are.

`mine` is what this home wrote itself and no other Core ever had. What others wrote, or another Core
had, goes only by the person's word (`all`), and its people are marked with where they are from: a
namesake at the new Core is somebody else. A record that names one that stays, stays too. Pure.
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
KEEPS_AUTHORS = 3  # the tier from which a Core takes what others wrote
UNKNOWN_PLACE = "elsewhere"  # of people whose Core nobody remembers


@dataclass(frozen=True, slots=True)
class UploadPart:
    """Some of the records, by what somebody wants to know of them before they are sent."""

    records: int
    kinds: Mapping[str, int]
    authors: Mapping[str, int]
    origins: Mapping[str, int]  # addresses of Cores that had them
    private: int  # sensitive ones, and those of private subcortexes
    # Actions that the tier doesn't allow, with the records that need them
    refused: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Plan:
    """The records that a Core doesn't have: those that `mine` sends, and those that `all` adds."""

    mine: UploadPart
    others: UploadPart
    kept: int  # by others, which the Core takes from tier 3 on: they stay with every choice
    changes: int  # of records that the Core has, made here since it was left

    def sent(self, choice: str) -> int:
        """How many records a choice sends."""
        return {MINE: self.mine.records, ALL: self.mine.records + self.others.records}.get(
            choice, 0
        )


def plan(candidates: Sequence[UploadCandidate], tier: int, changes: int) -> Plan:
    """What would be sent of these to a Core where the person has this tier."""
    mine = _chosen(candidates, MINE, tier)
    everything = _chosen(candidates, ALL, tier)
    own = {candidate.record.id for candidate in mine}
    others = [candidate for candidate in everything if candidate.record.id not in own]
    kept = sum(_is_counted(candidate) for candidate in candidates)
    kept -= sum(_is_counted(candidate) for candidate in everything)
    private = _private_subcortexes(candidates)
    return Plan(_part(mine, private, tier), _part(others, private, tier), kept, changes)


def records_to_send(
    candidates: Sequence[UploadCandidate], choice: str, tier: int
) -> list[Record[Any]]:
    """The records that a choice sends, with the people of another Core marked as such."""
    return [_marked(candidate) for candidate in _chosen(candidates, choice, tier)]


def _chosen(candidates: Sequence[UploadCandidate], choice: str, tier: int) -> list[UploadCandidate]:
    if choice == NONE:
        return []
    going = {
        candidate.record.id: candidate
        for candidate in candidates
        if _may_go(candidate, choice, tier)
    }
    stay = {candidate.record.id for candidate in candidates}.difference(going)
    while bound := [number for number, one in going.items() if _names_any(one.record, stay)]:
        stay.update(bound)
        for number in bound:
            del going[number]
    return list(going.values())


def _may_go(candidate: UploadCandidate, choice: str, tier: int) -> bool:
    own = candidate.record.author in (PERSON, AGENT)
    return own and not candidate.origin if choice == MINE else own or tier >= KEEPS_AUTHORS


def _names_any(record: Record[Any], ids: set[str]) -> bool:
    return any(target in ids for _, target in refs_of(record.body))


def _marked(candidate: UploadCandidate) -> Record[Any]:
    record = candidate.record
    if not candidate.origin and record.author in (PERSON, AGENT):
        return record
    place = urlsplit(candidate.origin).netloc.rpartition("@")[2].lower() or UNKNOWN_PLACE
    return identity.renamed(record, identity.from_elsewhere(place))


def _part(candidates: Sequence[UploadCandidate], private: set[str], tier: int) -> UploadPart:
    told = [candidate for candidate in candidates if _is_counted(candidate)]
    return UploadPart(
        len(told),
        dict(Counter(candidate.record.kind for candidate in told).most_common()),
        dict(Counter(candidate.record.author for candidate in told).most_common()),
        dict(Counter(candidate.origin for candidate in told if candidate.origin).most_common()),
        sum(_is_private(candidate.record, private) for candidate in told),
        dict(
            Counter(
                right for candidate in told if (right := _missing_right(candidate.record, tier))
            ).most_common()
        ),
    )


def _is_counted(candidate: UploadCandidate) -> bool:
    """Whether a person counts it: a notification only comes with what it tells of."""
    return candidate.record.kind != "notification"


def _missing_right(record: Record[Any], tier: int) -> str:
    """The first action that it takes to send a record and that the tier doesn't allow, "" for none."""
    return next((right for right in rights_of(None, record.body) if tier < TIERS[right]), "")


def _private_subcortexes(candidates: Sequence[UploadCandidate]) -> set[str]:
    bodies = ((candidate.record.id, candidate.record.body) for candidate in candidates)
    return {
        number
        for number, body in bodies
        if isinstance(body, Subcortex) and body.visibility == "private"
    }


def _is_private(record: Record[Any], private: set[str]) -> bool:
    scope = getattr(record.body, "subcortex", record.id)
    return record.body.sensitivity == SENSITIVE or scope in private
