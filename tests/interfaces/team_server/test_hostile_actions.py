"""Random actions sent to a Core: all are answered, nothing hidden is changed or shown."""

from __future__ import annotations

import random
from dataclasses import MISSING, fields, replace
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import pytest

from cortex.base.actors import person
from cortex.base.record_model import KINDS, PREFIXES, SENSITIVE, Comment, Record, Subcortex, Thread
from cortex.base.record_spec import choices_of
from cortex.engine.store import RecordChange
from cortex.families.team.ids import new_id
from cortex.families.team.wire.codec import APPLIED, REFUSED, REPLAYED, Action
from cortex.families.team.writes.create import create
from interfaces.team_server.team import Team, acting, open_team

ROUNDS, SOAKED = 2, 40
ACTIONS = 60
TEXTS = [
    "", "x", "Timeouts", "@bob and @agent", "\x00", "a\nb", "\ud800", "\u202e", "x" * 301, "😀", "person", "agent", "ada", "zoe/agent", "bob",
    "hush", "api", "no-such", "https://example.com/a", "AKIA" + "IOSFODNN7EXAMPLQ", "2027-01-31", "%_'\";--", "0123456789AB",
]  # fmt: skip


REFS = (
    "subcortex",
    "thread",
    "task",
    "parent",
    "target",
    "about",
    "source",
    "supersedes",
    "superseded_by",
    "ref",
)
SEVERAL_REFS = (
    "pinned_threads",
    "pinned_artifacts",
    "pinned_tasks",
    "citations",
    "summary_sources",
)


class Maker:
    """A maker of random changes, of existing and of missing records."""

    def __init__(self, team: Team, seed: int) -> None:
        self.team, self.chance = team, random.Random(seed)
        self.known: dict[str, Record[Any]] = {}

    def action(self, number: int) -> Action:
        self.known = self.team.records()
        changes = [self.changed() for _ in range(self.chance.choice((1, 1, 1, 2, 4)))]
        name = self.chance.choice(("edit", "edit", "upload", "approve_draft"))
        actor = self.chance.choice(("person", "person", "person", "agent"))
        return acting(
            *changes,
            key=f"{number}",
            action=name,
            actor=actor,
            tier=self.chance.choice((1, 2, 4, 4, 4, 9)),
        )

    def changed(self) -> RecordChange:
        cls = self.chance.choice(list(KINDS.values()))
        of_kind = [record for record in self.known.values() if type(record.body) is cls]
        if of_kind and self.chance.random() < 0.6:
            record = self.chance.choice(of_kind)
            number, now = record.id, record.body
            before, after = (
                self.chance.choice((now, now, now, None, self.body(cls))),
                self.twisted(now),
            )
        else:
            number, before, after = (
                new_id(cls),
                self.chance.choice((None, None, None, self.body(cls))),
                self.body(cls),
            )
        author = self.chance.choice(
            ("zoe", "zoe", "zoe", "zoe", "zoe/agent", "person", "ada", "nobody")
        )
        return RecordChange(
            number, cls.__name__.lower(), author, self.chance.choice((0, 1, 1 << 52)), before, after
        )

    def twisted(self, body: Any) -> Any:
        names = self.chance.sample(
            [field.name for field in fields(body)], k=self.chance.choice((1, 1, 2))
        )
        return replace(body, **{name: self.value(type(body), name) for name in names})

    def body(self, cls: type) -> Any:
        """A plausible body; most fields keep their defaults."""
        needed = {field.name for field in fields(cls) if field.default is MISSING}
        chosen = {
            field.name
            for field in fields(cls)
            if field.name in needed or self.chance.random() < 0.15
        }
        return cls(**{name: self.value(cls, name) for name in chosen})

    def value(self, cls: type, name: str) -> Any:
        hint = get_type_hints(cls)[name]
        if get_origin(hint) is not tuple:
            return self.part(hint, name, cls)
        return tuple(
            self.part(get_args(hint)[0], name, cls) for _ in range(self.chance.choice((0, 1, 1, 2)))
        )

    def part(self, hint: Any, name: str, cls: type) -> Any:
        if hint is int:
            return self.chance.choice((0, 1, 99, 1 << 50))
        if get_origin(hint) is tuple:
            return tuple(self.text() for _ in get_args(hint))
        if hint is not str:
            return self.body(hint)
        allowed = choices_of(cls, name)
        if name == "sensitivity":
            allowed = ("normal", "normal", "normal", SENSITIVE)
        if allowed and self.chance.random() < 0.9:
            return self.chance.choice(allowed)
        if name in REFS or name in SEVERAL_REFS:
            return self.ref(name, cls)
        return self.text()

    def ref(self, name: str, cls: type) -> str:
        kind = next((kind for kind in KINDS if name in (kind, f"pinned_{kind}s")), "")
        fitting = [ref for ref in self.known if not kind or ref.startswith(PREFIXES[KINDS[kind]])]
        if fitting and self.chance.random() < 0.8:
            return self.chance.choice(fitting)
        return self.chance.choice((self.text(), "thread_", "subcortex_1"))

    def text(self) -> str:
        return "said" if self.chance.random() < 0.7 else self.chance.choice(TEXTS)


def furnish(team: Team) -> None:
    """Write records that everyone may see, and records that only some may see."""
    ada = team.home("ada")
    for slug, visibility in (("api", "internal"), ("hush", "private")):
        create(ada.library, Subcortex(slug, slug, visibility=visibility), actor=person())
        thread = create(
            ada.library, Thread(f"About {slug}", "@zoe, look", subcortex=slug), actor=person()
        )
        create(
            ada.library,
            Comment(thread.id, "We wait 30 seconds because the gateway does."),
            actor=person(),
        )
        create(ada.library, Thread("Keys", subcortex=slug, sensitivity=SENSITIVE), actor=person())
    assert all(outcome.status == APPLIED for outcome in ada.flush())


@pytest.mark.soak
@pytest.mark.parametrize(("tier", "sensitive"), [(3, False), (4, True)])
def test_random_actions_are_answered_and_never_change_hidden_records(
    tmp_path: Path, campaign, tier, sensitive
):
    for seed in range(campaign(ROUNDS, SOAKED)):
        with open_team(tmp_path / str(seed)) as team:
            send_strange_things(team, seed, tier, sensitive)


@pytest.mark.parametrize("tier", [4])
def test_random_actions_are_answered_on_postgresql(tmp_path: Path, database: str, tier):
    with open_team(tmp_path, database) as team:
        send_strange_things(team, 7, tier, True)


def send_strange_things(team: Team, seed: int, tier: int, sensitive: bool) -> None:
    furnish(team)
    zoe = team.home("zoe", tier, sensitive)
    maker, applied = Maker(team, seed), 0
    for number in range(ACTIONS):
        before = team.records()
        viewer = team.viewer(zoe.principal)
        hidden = {ref: record for ref, record in before.items() if not team.sees(viewer, record)}
        accepted = team.accept(zoe.principal, maker.action(number))
        assert accepted.status in (APPLIED, REPLAYED, REFUSED), accepted.error
        after = team.records()
        if accepted.status == REFUSED:
            assert after == before
        applied += accepted.status == APPLIED
        unseen = [
            record
            for record in hidden.values()
            if record.kind not in ("notification", "link", "draft")
        ]
        for record in unseen:
            assert after[record.id] == record, "what isn't seen isn't changed"
        viewer = team.viewer(zoe.principal)
        assert all(team.sees(viewer, record.record) for record in accepted.records)
    assert applied
    team.check()
