"""A Core with something hidden from everybody: people of every tier and grant, records of every
kind in every place.

Each record says words of its own that nothing else says, and what an answer tells is looked through
for those of what its reader may not see. Who sees what is told by hand in `PEOPLE`, not taken from
the rule that is tested.
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
from interfaces.team_server.conftest import Client, Clock, Place

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
class Somebody:
    """A principal, and the places that they see."""

    tier: int
    grants: dict[str, bool]  # true: writes, too
    sensitive: bool
    sees: tuple[str, ...]


EVERYWHERE_READ, EVERYWHERE = {"*": False}, {"*": True}
PEOPLE: dict[str, Somebody] = {
    #                       tier  grants                           sensitive  sees
    "nobody":       Somebody(2, {},                                False, ()),
    "one-read":     Somebody(0, {"harbor": False},                 False, ("harbor",)),
    "one-read-s":   Somebody(1, {"harbor": False},                 True,  ("harbor", "harbor!")),
    "one-write":    Somebody(2, {"harbor": True},                  False, ("harbor",)),
    "all-read":     Somebody(1, EVERYWHERE_READ,                   False, NORMAL),
    "mate":         Somebody(1, EVERYWHERE,                        False, NORMAL),
    "all-write":    Somebody(2, EVERYWHERE,                        False, NORMAL),
    "all-write-s":  Somebody(2, EVERYWHERE,                        True,  (*NORMAL, "harbor!", "meadow!", "none!", "crypt!")),
    "reviewer":     Somebody(3, EVERYWHERE,                        False, NORMAL),
    "reviewer-s":   Somebody(3, EVERYWHERE,                        True,  (*NORMAL, "harbor!", "meadow!", "none!", "crypt!")),
    "granted":      Somebody(2, {"*": True, "vault": False},       False, (*NORMAL, "vault")),
    "closed-write":Somebody(3, {"vault": True},                   False, ("vault",)),
    "closed-s":     Somebody(3, {"vault": True},                   True,  ("vault", "vault!")),
    "steward":      Somebody(2, {},                                False, ("attic",)),
    "deep-plain":   Somebody(3, {"crypt": True},                   False, ()),
    "deep-s":       Somebody(3, {"crypt": True},                   True,  ("crypt!",)),
    "chief":        Somebody(4, EVERYWHERE,                        False, (*NORMAL, "vault", "attic")),
    "chief-one":    Somebody(4, {"harbor": True},                  False, ("harbor",)),
    "root":         Somebody(4, EVERYWHERE,                        True,  PLACES),
}  # fmt: skip
_WORD = re.compile("zq[a-z]+")
_ID = re.compile(
    "(?:subcortex|thread|comment|obs|artifact|task|draft|notif|link)_[0-9A-HJKMNP-TV-Z]{26}"
)


@dataclass(slots=True)
class Planted:
    """A record that is there, and what only it says."""

    id: str
    kind: str
    place: str
    author: str = "root"
    recipient: str = ""  # of a notification
    places: tuple[str, ...] = ()  # of both ends of a link
    words: list[str] = field(default_factory=list)

    def is_for(self, name: str) -> bool:
        """Whether somebody may know of it."""
        one = PEOPLE[name]
        if any(place not in one.sees for place in self.places or (self.place,)):
            return False
        if self.kind == "draft":
            return self.author == name or one.tier >= 3
        return self.kind != "notification" or name in (self.recipient, self.author)


class World:
    """What is there, and everybody's client."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.planted: dict[str, Planted] = {}
        self.clients: dict[str, Client] = {}
        self.gone: dict[str, tuple[str, ...]] = {}  # words of versions before, and where they were
        self.moved = ""  # an artifact that was in the vault and is in the harbor
        self.pointed: set[str] = set()  # ids that what anybody sees names
        self._count = 0
        self._fresh: list[str] = []
        self._hidden: dict[str, set[str]] = {}

    # -- making it
    # -----------------------------------------------------------------------------------------------------

    def word(self) -> str:
        """A word that nobody has said yet."""
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
        told = self.clients[by].post(path, body)
        one = Planted(told["id"], told["kind"], place, by, words=self._fresh, **more)
        self._fresh = []
        self.planted[one.id] = one
        return one

    def of(self, kind: str, place: str) -> Planted:
        """The first record of a kind in a place."""
        return next(one for one in self.planted.values() if (one.kind, one.place) == (kind, place))

    def kept(self, number: str) -> Any:
        """What a record says."""
        record = self.place.ledger.records.one(number)
        assert record is not None
        return record.body

    def ids(self, name: str, *kinds: str) -> set[str]:
        """The ids that somebody may see."""
        return {
            one.id
            for one in self.planted.values()
            if one.is_for(name) and (not kinds or one.kind in kinds)
        }

    # -- looking through answers
    # ---------------------------------------------------------------------------------------

    def look_through(self, name: str, text: str, told: str = "") -> None:
        """What somebody is told has no word and no id of what they may not see, but for what they
        said themselves.
        """
        said = (
            set(_WORD.findall(text))
            | set(_ID.findall(text))
            | {slug for slug in SCOPES if slug in text}
        )
        leaked = [one for one in said & self.hidden(name) if one not in told]
        assert not leaked, (name, leaked, text[:2_000])

    def hidden(self, name: str) -> set[str]:
        """Words, ids and slugs that somebody may not be told."""
        if name not in self._hidden:
            away = [one for one in self.planted.values() if not one.is_for(name)]
            words = {word for one in away for word in one.words}
            words |= {
                word for word, places in self.gone.items() if set(places) - set(PEOPLE[name].sees)
            }
            ids = {one.id for one in away} - self.pointed
            slugs = {slug for slug in SCOPES if _own(slug) not in PEOPLE[name].sees}
            self._hidden[name] = words | ids | slugs
        return self._hidden[name]


def _own(slug: str) -> str:
    return "crypt!" if slug == "crypt" else slug


class Reader:
    """Somebody whose answers are looked through."""

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
        """What is told."""
        return self.client.told(self.ask(method, path, body, params=params))

    def all(self, path: str, **params: Any) -> list[dict[str, Any]]:
        """All pages of a list."""
        found: list[dict[str, Any]] = []
        cursor = ""
        while True:
            told = self.ask("GET", path, params={"limit": 100, "cursor": cursor, **params}).json()
            found += told["data"]
            assert told["pagination"]["has_more"] == bool(told["pagination"]["cursor"])
            cursor = told["pagination"]["cursor"]
            if not cursor:
                return found


# -- what there is
# -----------------------------------------------------------------------------------------------------


@contextmanager
def open_world(folder: Path) -> Iterator[World]:
    """A Core in which all of it is there; nothing of it was changed since, but for what `furnish`
    changes.
    """
    environment = {"CORTEX_HOME": str(folder / "home"), "CORTEX_CORE_RATES": "0,0,0,0,0"}
    settings = load(None, environment=environment, flags={"indexing.workers": 1}, user_home=folder)
    (folder / "ledger").mkdir()
    with ExitStack() as stack:
        ledger = stack.enter_context(open_ledger(f"sqlite:///{folder / 'ledger'}"))
        replica = stack.enter_context(
            ReadReplica(settings, ledger, folder / "ledger", embedders=Embedders(None))
        )
        place = Place(settings, ledger, replica, Clock())
        stack.enter_context(place.http)
        world = World(place)
        furnish(world)
        yield world


def furnish(world: World) -> None:
    world.clients["root"] = world.place.person("root", 4, sensitive=True)
    scopes = {slug: _scope(world, slug, more) for slug, more in SCOPES.items()}
    for name, one in PEOPLE.items():
        if name != "root":
            grants = {
                scopes[slug].id if slug != "*" else slug: writes
                for slug, writes in one.grants.items()
            }
            world.clients[name] = world.place.person(
                name, one.tier, grants, sensitive=one.sensitive
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
    """What lies in two places, what somebody else drafted, and what was somewhere else before."""
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
    """Notifications, and the links of what seems to contradict, are made on the way."""
    for kept in world.place.ledger.records.changes(0, 100_000):
        record = kept.record
        if record.id in world.planted:
            continue
        if record.kind == "notification":
            place = world.planted[record.body.about].place
            one = Planted(
                record.id, "notification", place, record.author, recipient=record.body.recipient
            )
        else:
            places = tuple(
                world.planted[end].place for end in (record.body.source, record.body.target)
            )
            one = Planted(record.id, "link", places[0], places=places)
        world.planted[record.id] = one
