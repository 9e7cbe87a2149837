"""Writes of two team members: the shape of each action, and a seeded plan of a round."""

from __future__ import annotations

import random
import string
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

PERSON, AGENT = "person", "agent"
# Decided already, linked already: not acknowledged
LOCAL_REFUSALS = ("RECORD_CHANGED", "RECORD_INVALID")


@dataclass(frozen=True, slots=True)
class Shape:
    """Subject and effect of an action: a new record of a kind, or a mark in a field of a record."""

    about: str = ""  # the pool that the record is chosen from
    makes: str = ""  # kind
    count: int = 1
    sets: str = ""  # field
    by: tuple[str, ...] = (PERSON,)
    refusable: bool = False  # if the other member did the same, or decided already
    weight: int = 2


SHAPES = {
    "thread": Shape(makes="thread"),
    "secret thread": Shape(makes="thread", weight=1),
    "comment": Shape("thread", makes="comment", weight=6),
    "observation": Shape("thread", makes="observation", by=(PERSON, AGENT, AGENT), weight=4),
    "batch": Shape("thread", makes="observation", count=2, by=(AGENT,)),
    "draft": Shape("thread", makes="draft", by=(AGENT,), weight=6),
    "drafted change": Shape("task", makes="draft", by=(AGENT,), weight=1),
    "approve": Shape("draft", sets="review_notes", refusable=True, weight=7),
    "reject": Shape("draft", sets="review_notes", refusable=True, weight=1),
    "task": Shape("thread", makes="task"),
    "note": Shape("task", sets="notes", by=(PERSON, AGENT), refusable=True, weight=8),
    "block": Shape("task", sets="blocked_reason", refusable=True, weight=4),
    "tag": Shape("thread", sets="tags", weight=3),
    "watch": Shape("task", sets="watchers"),
    "retitle": Shape("thread", sets="title", refusable=True, weight=4),
    "rewrite": Shape("comment", sets="body", refusable=True, weight=4),
    "artifact": Shape("thread", makes="artifact"),
    "accept": Shape("artifact", sets="evidence", refusable=True, weight=4),
    "supersede": Shape("artifact", makes="link", refusable=True, weight=3),
    "link": Shape("observation", makes="link"),
    "describe": Shape("subcortex", sets="description", refusable=True, weight=3),
    "term": Shape("subcortex", sets="glossary"),
    "pin": Shape("thread", sets="pinned_threads", weight=1),
    "resolve": Shape("thread", sets="resolution", refusable=True, weight=1),
    "reopen": Shape("thread", refusable=True, weight=1),
    "done with": Shape(weight=1, refusable=True),
}
# Actions about two records
PAIR_ACTIONS = ("supersede", "link")
# Actions before there is a Core
FIRST = ("thread", "comment", "task", "secret thread", "draft", "artifact", "observation", "batch")


@dataclass(slots=True)
class MemberWrite:
    """A write of a team member, and its outcome."""

    action: str
    mark: str
    member: str
    by: str
    about: str = ""
    and_also: str = ""
    number: int = 0
    retried: bool = True  # if no answer came
    dies: bool = False  # the member ends after the write, before its answer
    made: str = ""  # ids, once it is acknowledged
    acknowledged: bool = False
    refused_here: str = ""  # code

    @property
    def shape(self) -> Shape:
        return SHAPES[self.action]

    @property
    def refusable(self) -> bool:
        # Refused if its writer may not see sensitive records
        return self.shape.refusable or self.action == "secret thread"

    @property
    def key(self) -> str:
        return f"key-{self.mark}"

    def request(self, other: str, scope: str) -> dict[str, object]:
        """The write as a member's process is asked for it."""
        return {
            "action": self.action,
            "mark": self.mark,
            "key": self.key,
            "by": self.by,
            "about": self.about,
            "and": self.and_also,
            "number": self.number,
            "other": other,
            "scope": scope,
        }


@dataclass(slots=True)
class Pools:
    """Records that a write may be about: of earlier rounds, or of the same member and round."""

    known: dict[str, list[str]] = field(default_factory=dict)
    # A record of each kind that both members know, so that they collide there
    common: dict[str, str] = field(default_factory=dict)

    def add(self, write: MemberWrite) -> None:
        if write.made and write.shape.makes and write.action != "secret thread":
            self.known.setdefault(write.shape.makes, []).extend(write.made.split())

    def forget(self, ids: Iterable[str]) -> None:
        """Remove records that the Core refused."""
        gone = set(ids)
        for kind, known in self.known.items():
            self.known[kind] = [record_id for record_id in known if record_id not in gone]

    def copy(self) -> Pools:
        """The pools at the start of a member's round."""
        return Pools(
            {kind: list(known) for kind, known in self.known.items()},
            {kind: known[-1] for kind, known in self.known.items() if known},
        )

    def choose(self, kind: str, chance: random.Random) -> str:
        """Choose a recent record, often the one that the other member chooses, too."""
        recent = self.known.get(kind, [])[-6:]
        if kind in self.common and chance.random() < 0.6:
            return self.common[kind]
        return chance.choice(recent) if recent else ""


def mark_of(world: int, number: int) -> str:
    """A unique word that is no part of another mark."""
    letters = string.ascii_lowercase
    parts = [letters[number // 26**place % 26] for place in range(4)]
    return f"qz{letters[world // 26 % 26]}{letters[world % 26]}{''.join(parts)}x"


def plan_writes(
    chance: random.Random,
    member: str,
    marks: Iterable[str],
    count: int,
    names: Sequence[str] = tuple(SHAPES),
) -> list[MemberWrite]:
    """Plan a member's round; `aim` chooses the records later, since the round makes new ones."""
    weights = [SHAPES[name].weight for name in names]
    writes: list[MemberWrite] = []
    for mark in marks:
        if len(writes) == count:
            break
        name = chance.choices(names, weights)[0]
        shape = SHAPES[name]
        crash = chance.random()
        writes.append(
            MemberWrite(
                name,
                mark,
                member,
                chance.choice(shape.by),
                number=chance.randrange(5, 9),
                retried=crash > 0.03,
                dies=crash < 0.06,
            )
        )
    return writes


def aim(write: MemberWrite, pools: Pools, chance: random.Random) -> bool:
    """Choose the records that a write is about; returns whether there are any."""
    if write.shape.about:
        write.about = pools.choose(write.shape.about, chance)
        if not write.about:
            return False
    if write.action in PAIR_ACTIONS:
        recent = pools.known.get(write.shape.about, [])[-6:]
        others = [record_id for record_id in recent if record_id != write.about]
        if not others:
            return False
        write.and_also = chance.choice(others)
    return True
