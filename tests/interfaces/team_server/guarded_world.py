"""A Core with hidden records: people of every tier and grant, records of all kinds and places.

Each record has words of its own, and answers are searched for those of records hidden from their
reader. `PEOPLE` says by hand who sees what; it isn't derived from the rule under test.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cortex.base.settings import load
from cortex.engine.embedders.circuit_breaker import Embedders
from cortex.engine.store.records.ledger import open_ledger
from cortex.interfaces.team_server.read_replica import ReadReplica
from interfaces.team_server.conftest import Client, Clock, RunningCore

SCOPES = {
    "harbor": {},
    "meadow": {},
    "vault": {"visibility": "private"},
    "attic": {"visibility": "private", "steward_ids": ["steward"]},
    "crypt": {"sensitivity": "sensitive"},
}
# Where something is: a subcortex or none, and with "!" what is sensitive there. All of the crypt
# is.
PLACES = (
    "harbor",
    "harbor!",
    "meadow",
    "meadow!",
    "vault",
    "vault!",
    "attic",
    "attic!",
    "none",
    "none!",
    "crypt!",
)
NORMAL = ("harbor", "meadow", "none")
COMMON = "lighthouse"  # that every record speaks of
PATH = "src/lamp.py"


@dataclass(frozen=True, slots=True)
class Person:
    """A principal, and the places that they see."""

    tier: int
    grants: dict[str, bool]  # true: writes, too
    sensitive: bool
    sees: tuple[str, ...]


EVERYWHERE_READ, EVERYWHERE = {"*": False}, {"*": True}
PEOPLE: dict[str, Person] = {
    #                       tier  grants                           sensitive  sees
    "nobody":       Person(2, {},                                False, ()),
    "one-read":     Person(0, {"harbor": False},                 False, ("harbor",)),
    "one-read-s":   Person(1, {"harbor": False},                 True,  ("harbor", "harbor!")),
    "one-write":    Person(2, {"harbor": True},                  False, ("harbor",)),
    "all-read":     Person(1, EVERYWHERE_READ,                   False, NORMAL),
    "mate":         Person(1, EVERYWHERE,                        False, NORMAL),
    "all-write":    Person(2, EVERYWHERE,                        False, NORMAL),
    "all-write-s":  Person(2, EVERYWHERE,                        True,  (*NORMAL, "harbor!", "meadow!", "none!", "crypt!")),
    "reviewer":     Person(3, EVERYWHERE,                        False, NORMAL),
    "reviewer-s":   Person(3, EVERYWHERE,                        True,  (*NORMAL, "harbor!", "meadow!", "none!", "crypt!")),
    "granted":      Person(2, {"*": True, "vault": False},       False, (*NORMAL, "vault")),
    "closed-write":Person(3, {"vault": True},                   False, ("vault",)),
    "closed-s":     Person(3, {"vault": True},                   True,  ("vault", "vault!")),
    "steward":      Person(2, {},                                False, ("attic",)),
    "deep-plain":   Person(3, {"crypt": True},                   False, ()),
    "deep-s":       Person(3, {"crypt": True},                   True,  ("crypt!",)),
    "chief":        Person(4, EVERYWHERE,                        False, (*NORMAL, "vault", "attic")),
    "chief-one":    Person(4, {"harbor": True},                  False, ("harbor",)),
    "root":         Person(4, EVERYWHERE,                        True,  PLACES),
}  # fmt: skip
_WORD = re.compile("zq[a-z]+")
_ID = re.compile(
    "(?:subcortex|thread|comment|obs|artifact|task|draft|notif|link)_[0-9A-HJKMNP-TV-Z]{26}"
)


@dataclass(slots=True)
class Planted:
    """A record that exists, and the words that only it has."""

    id: str
    kind: str
    place: str
    author: str = "root"
    recipient: str = ""  # of a notification
    places: tuple[str, ...] = ()  # of both ends of a link
    words: list[str] = field(default_factory=list)

    def is_for(self, name: str) -> bool:
        """Whether a person may know of this record."""
        person = PEOPLE[name]
        if any(place not in person.sees for place in self.places or (self.place,)):
            return False
        if self.kind == "draft":
            return self.author == name or person.tier >= 3
        return self.kind != "notification" or name in (self.recipient, self.author)


class World:
    """A Core's records, and a client for each person."""

    def __init__(self, core: RunningCore) -> None:
        self.core = core
        self.planted: dict[str, Planted] = {}
        self.clients: dict[str, Client] = {}
        self.gone: dict[str, tuple[str, ...]] = {}  # words of versions before, and where they were
        self.moved = ""  # an artifact that was in the vault and is in the harbor
        self.pointed: set[str] = set()  # ids named by a record that others may see
        self._count = 0
        self._fresh: list[str] = []
        self._hidden: dict[str, set[str]] = {}

    # -- making records

    def word(self) -> str:
        """A word that no record has yet."""
        self._count += 1
        letters = "".join("abcdefghij"[int(digit)] for digit in f"{self._count:04d}")
        self._fresh.append(f"zq{letters}")
        return self._fresh[-1]

    def said(self) -> str:
        return f"{self.word()} {COMMON}"

    def plant(
        self, path: str, body: dict[str, Any], place: str, by: str = "root", **more: Any
    ) -> Planted:
        """Write a record."""
        answer = self.clients[by].post(path, body)
        planted = Planted(answer["id"], answer["kind"], place, by, words=self._fresh, **more)
        self._fresh = []
        self.planted[planted.id] = planted
        return planted

    def of(self, kind: str, place: str) -> Planted:
        """The first record of a kind in a place."""
        return next(
            record
            for record in self.planted.values()
            if (record.kind, record.place) == (kind, place)
        )

    def kept(self, number: str) -> Any:
        """The present body of a record."""
        record = self.core.ledger.records.one(number)
        assert record is not None
        return record.body

    def ids(self, name: str, *kinds: str) -> set[str]:
        """The ids that a person may see."""
        return {
            record.id
            for record in self.planted.values()
            if record.is_for(name) and (not kinds or record.kind in kinds)
        }

    # -- checking answers

    def look_through(self, name: str, text: str, allowed: str = "") -> None:
        """Check that a text has no word or id hidden from a person, but for those that they sent."""
        said = (
            set(_WORD.findall(text))
            | set(_ID.findall(text))
            | {slug for slug in SCOPES if slug in text}
        )
        leaked = [word for word in said & self.hidden(name) if word not in allowed]
        assert not leaked, (name, leaked, text[:2_000])

    def hidden(self, name: str) -> set[str]:
        """Words, ids and slugs hidden from a person."""
        if name not in self._hidden:
            away = [record for record in self.planted.values() if not record.is_for(name)]
            words = {word for record in away for word in record.words}
            words |= {
                word for word, places in self.gone.items() if set(places) - set(PEOPLE[name].sees)
            }
            ids = {record.id for record in away} - self.pointed
            slugs = {slug for slug in SCOPES if _own(slug) not in PEOPLE[name].sees}
            self._hidden[name] = words | ids | slugs
        return self._hidden[name]


def _own(slug: str) -> str:
    return "crypt!" if slug == "crypt" else slug


class Reader:
    """A client whose answers are all checked for hidden words and ids."""

    def __init__(self, world: World, name: str) -> None:
        self.world, self.name = world, name
        self.client = world.clients[name]

    def ask(
        self, method: str, path: str, body: Any = None, *, key: str | None = "", **more: Any
    ) -> Any:
        response = self.client.ask(method, path, body, key=key, **more)
        assert response.status_code < 500, response.text
        self.world.look_through(self.name, response.text, f"{path} {body} {more}")
        return response

    def read(self, method: str, path: str, body: Any = None, **params: Any) -> Any:
        """The data of an answer."""
        return self.client.data_of(self.ask(method, path, body, params=params))

    def all(self, path: str, **params: Any) -> list[dict[str, Any]]:
        """All pages of a list."""
        found: list[dict[str, Any]] = []
        cursor = ""
        while True:
            answer = self.ask("GET", path, params={"limit": 100, "cursor": cursor, **params}).json()
            found += answer["data"]
            assert answer["pagination"]["has_more"] == bool(answer["pagination"]["cursor"])
            cursor = answer["pagination"]["cursor"]
            if not cursor:
                return found


# -- the records


@contextmanager
def open_world(folder: Path) -> Iterator[World]:
    """A Core with all records; tests change only records that they write themselves."""
    environment = {"CORTEX_HOME": str(folder / "home"), "CORTEX_CORE_RATES": "0,0,0,0,0"}
    settings = load(None, environment=environment, flags={"indexing.workers": 1}, user_home=folder)
    (folder / "ledger").mkdir()
    with ExitStack() as stack:
        ledger = stack.enter_context(open_ledger(f"sqlite:///{folder / 'ledger'}"))
        replica = stack.enter_context(
            ReadReplica(settings, ledger, folder / "ledger", embedders=Embedders(None))
        )
        core = RunningCore(settings, ledger, replica, Clock())
        stack.enter_context(core.http)
        world = World(core)
        furnish(world)
        yield world


def furnish(world: World) -> None:
    world.clients["root"] = world.core.person("root", 4, sensitive=True)
    scopes = {slug: _scope(world, slug, more) for slug, more in SCOPES.items()}
    for name, person in PEOPLE.items():
        if name != "root":
            grants = {
                scopes[slug].id if slug != "*" else slug: writes
                for slug, writes in person.grants.items()
            }
            world.clients[name] = world.core.person(
                name, person.tier, grants, sensitive=person.sensitive
            )
    for place in PLACES:
        _fill(world, place)
    _cross(world)
    _take_stock(world)


def _scope(world: World, slug: str, more: dict[str, Any]) -> Planted:
    body = {
        "slug": slug,
        "name": world.said(),
        "description_md": world.said(),
        "charter_md": world.said(),
        "glossary": [{"term": world.word(), "meaning": world.said()}],
        "naming": [world.said()],
        **more,
    }
    return world.plant("/subcortexes", body, _own(slug))


def _fill(world: World, place: str) -> None:
    slug, sensitive = place.rstrip("!"), place.endswith("!")
    private = {"sensitivity": "sensitive"} if sensitive else {}
    here = {**private, **({} if slug == "none" else {"subcortex_id": slug})}
    said, links = world.said, [{"path": PATH, "symbol": "light"}]
    thread = world.plant(
        "/threads",
        {"title": said(), "body_md": said(), "tags": [world.word()], "code_links": links, **here},
        place,
    )
    world.plant(
        f"/threads/{thread.id}/comments", {"body_md": f"We decided on {said()}.", **private}, place
    )
    observed = {**private, **({} if slug == "none" else {"linked_subcortex_id": slug})}
    world.plant(
        "/observations",
        {
            "title": said(),
            "summary_md": said(),
            "tags": [world.word()],
            "code_links": links,
            **observed,
        },
        place,
    )
    world.plant("/observations", {"title": said(), "linked_thread_id": thread.id, **private}, place)
    evidence = [{"type": "thread", "ref": thread.id, "note": world.word()}]
    artifact = world.plant(
        "/artifacts",
        {"title": said(), "body_md": said(), "summary_md": said(), "tags": [world.word()], "evidence_links": evidence,
         "review_by_date": "2020-01-01", "code_links": links, **here},
        place,
    )  # fmt: skip
    world.clients["root"].post(f"/artifacts/{artifact.id}/accept")
    task = {"title": said(), "body_md": said(), "notes_md": said(), "tags": [world.word()], "status": "blocked",
            "blocked_reason": world.word(), "assignee_ids": list(PEOPLE), "linked_thread_id": thread.id, **here}  # fmt: skip
    world.plant("/tasks", task, place)
    draft = {
        "type": "comment",
        "title": said(),
        "body_md": said(),
        "reason": said(),
        "tags": [world.word()],
        **private,
    }
    world.plant("/drafts", {**draft, "target_id": thread.id}, place)
    world.plant(
        "/links",
        {"source_id": thread.id, "relation": "supports", "target_id": artifact.id, "note": said()},
        place,
    )


def _cross(world: World) -> None:
    """Write records that lie in two places, belong to other authors, or were moved."""
    root, said = world.clients["root"], world.said
    home = world.of("thread", "harbor")
    for place in ("meadow", "harbor!", "vault", "none"):
        ends = {
            "source_id": home.id,
            "relation": "depends_on",
            "target_id": world.of("thread", place).id,
        }
        world.plant("/links", {**ends, "note": said()}, "harbor", places=("harbor", place))
    world.plant(
        "/drafts",
        {
            "type": "comment",
            "title": said(),
            "body_md": said(),
            "target_id": home.id,
            "reason": said(),
        },
        "harbor",
        by="mate",
    )
    world.plant(
        f"/threads/{home.id}/comments",
        {"body_md": f"We decided on {said()}.", "sensitivity": "sensitive"},
        "harbor!",
    )
    moved = world.plant(
        "/artifacts", {"title": said(), "body_md": said(), "subcortex_id": "vault"}, "harbor"
    )
    world.moved = moved.id
    world.gone |= dict.fromkeys(moved.words, ("harbor", "vault"))
    root.patch(
        f"/artifacts/{moved.id}", {"subcortex_id": "harbor", "title": said(), "body_md": said()}
    )
    moved.words, world._fresh = world._fresh, []
    cited = world.of("thread", "vault")
    pointing = {
        "title": said(),
        "subcortex_id": "harbor",
        "evidence_links": [{"type": "thread", "ref": cited.id}],
    }
    world.plant("/artifacts", pointing, "harbor")
    root.patch("/subcortexes/harbor", {"pinned_threads": [cited.id]})
    world.pointed.add(cited.id)


def _take_stock(world: World) -> None:
    """Register the notifications and contradiction links that other writes caused."""
    for kept in world.core.ledger.records.changes(0, 100_000):
        record = kept.record
        if record.id in world.planted:
            continue
        if record.kind == "notification":
            place = world.planted[record.body.about].place
            planted = Planted(
                record.id, "notification", place, record.author, recipient=record.body.recipient
            )
        else:
            places = tuple(
                world.planted[end].place for end in (record.body.source, record.body.target)
            )
            planted = Planted(record.id, "link", places[0], places=places)
        world.planted[record.id] = planted
