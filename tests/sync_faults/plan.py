"""Which deeds there are, what each leaves behind, and a seeded choice of what two members do in a
round.
"""

from __future__ import annotations

import random
import string
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

PERSON, AGENT = "person", "agent"
# Decided already, linked already: nothing was acknowledged
LOCAL_REFUSALS = ("RECORD_CHANGED", "RECORD_INVALID")


@dataclass(frozen=True, slots=True)
class Shape:
    """What a deed is about and what it leaves: a record of a kind, or a mark in a field of one."""

    about: str = ""  # the pool that the record is chosen from
    makes: str = ""  # kind
    count: int = 1
    sets: str = ""  # field
    by: tuple[str, ...] = (PERSON,)
    refusable: bool = False  # where the other one does the same, or decided already
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
TWO = ("supersede", "link")  # that are about two records
# Before there is a Core
FIRST = ("thread", "comment", "task", "secret thread", "draft", "artifact", "observation", "batch")


@dataclass(slots=True)
class Deed:
    """One write of a member, and what became of it."""

    deed: str
    mark: str
    member: str
    by: str
    about: str = ""
    and_also: str = ""
    number: int = 0
    retried: bool = True  # where no answer came
    dies: bool = False  # the member ends when it is written, before it says so
    made: str = ""  # ids, once it is acknowledged
    acknowledged: bool = False
    refused_here: str = ""  # code

    @property
    def shape(self) -> Shape:
        return SHAPES[self.deed]

    @property
    def refusable(self) -> bool:
        # Where its writer may not see such
        return self.shape.refusable or self.deed == "secret thread"

    @property
    def key(self) -> str:
        return f"key-{self.mark}"

    def told(self, other: str, scope: str) -> dict[str, object]:
        """As a member's process is told of it."""
        return {
            "deed": self.deed,
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
    """The records that a deed may be about: those that everybody knows, and those that a member
    made since.
    """

    known: dict[str, list[str]] = field(default_factory=dict)
    # Of each kind one that both know, so that they meet there
    common: dict[str, str] = field(default_factory=dict)

    def add(self, deed: Deed) -> None:
        if deed.made and deed.shape.makes and deed.deed != "secret thread":
            self.known.setdefault(deed.shape.makes, []).extend(deed.made.split())

    def forget(self, ids: Iterable[str]) -> None:
        """What the Core refused is nowhere."""
        gone = set(ids)
        for kind, some in self.known.items():
            self.known[kind] = [one for one in some if one not in gone]

    def copy(self) -> Pools:
        """What a member begins a round with."""
        return Pools(
            {kind: list(some) for kind, some in self.known.items()},
            {kind: some[-1] for kind, some in self.known.items() if some},
        )

    def choose(self, kind: str, chance: random.Random) -> str:
        """One of the last made; often the one that the other chooses, too."""
        some = self.known.get(kind, [])[-6:]
        if kind in self.common and chance.random() < 0.6:
            return self.common[kind]
        return chance.choice(some) if some else ""


def mark_of(world: int, number: int) -> str:
    """A word that nothing else says, and of which no other one is a part."""
    letters = string.ascii_lowercase
    parts = [letters[number // 26**place % 26] for place in range(4)]
    return f"qz{letters[world // 26 % 26]}{letters[world % 26]}{''.join(parts)}x"


def plan_deeds(
    chance: random.Random,
    member: str,
    marks: Iterable[str],
    count: int,
    names: Sequence[str] = tuple(SHAPES),
) -> list[Deed]:
    """What a member does in a round; a record is chosen when its turn comes, since the round makes
    new ones.
    """
    weights = [SHAPES[name].weight for name in names]
    deeds: list[Deed] = []
    for mark in marks:
        if len(deeds) == count:
            break
        name = chance.choices(names, weights)[0]
        shape = SHAPES[name]
        crash = chance.random()
        deeds.append(
            Deed(
                name,
                mark,
                member,
                chance.choice(shape.by),
                number=chance.randrange(5, 9),
                retried=crash > 0.03,
                dies=crash < 0.06,
            )
        )
    return deeds


def aim(deed: Deed, pools: Pools, chance: random.Random) -> bool:
    """Choose what a deed is about; gives whether there is something."""
    if deed.shape.about:
        deed.about = pools.choose(deed.shape.about, chance)
        if not deed.about:
            return False
    if deed.deed in TWO:
        others = [one for one in pools.known.get(deed.shape.about, [])[-6:] if one != deed.about]
        if not others:
            return False
        deed.and_also = chance.choice(others)
    return True
