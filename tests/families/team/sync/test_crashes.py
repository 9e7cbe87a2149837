"""A sync that dies before any of its writes: the next one continues and repeats nothing."""

from __future__ import annotations

import pytest

from cortex.base.record_model import Comment, Observation, Thread
from cortex.engine.store.connections import Connections
from cortex.families.team.ids import new_id
from cortex.families.team.sync import pull, state
from cortex.families.team.sync.connection import connect
from families.team.sync.fake_core import TOKEN
from families.team.sync.homes import alerts, edit, here, make, once


class Died(BaseException):
    """The process ended here."""


@pytest.fixture
def dying(monkeypatch):
    """`dying(n)`: end before the n-th write from now on."""
    write = Connections.write
    left = [10**9]

    def counted(self, *, durable: bool = False, erase: bool = False):
        left[0] -= 1
        if left[0] < 0:
            raise Died
        return write(self, durable=durable, erase=erase)

    monkeypatch.setattr(Connections, "write", counted)

    def after(writes: int) -> None:
        left[0] = writes

    return after


def once_or_dead(library, core, dying, writes: int) -> bool:
    """One sync that may die; true where it did."""
    dying(writes)
    try:
        once(library, core)
    except Died:
        return True
    finally:
        dying(10**9)
    return False


@pytest.mark.soak
def test_sync_continues_after_a_crash_before_any_write(homes, core, dying, monkeypatch, campaign):
    monkeypatch.setattr(pull, "PAGE", 3)
    deaths = 0
    for writes in range(0, 100, campaign(9, 1)):
        library = homes(f"home{writes}")
        connect(library, core.url, TOKEN)
        once(library, core)
        thread = make(library, Thread("Mine"))
        comment = make(library, Comment(thread, "said"))
        once(library, core)
        core.edit(thread, body="of Bob")
        edit(library, thread, body="of Ada")
        refused = make(library, Observation("not wanted"))
        core.refuses = {refused}
        own = make(library, Observation("wanted"))
        for place in range(4):
            core.write(new_id(Thread), Thread(f"Topic {place}"))
        core.hide(comment)
        died = once_or_dead(library, core, dying, writes)
        outcome = once(library, core)
        assert outcome.waiting == 0 and outcome.error == ""
        assert len(alerts(library)) == 2 and len(library.store.outbox.refused()) == 2
        assert own in core.kept and refused not in core.kept
        seen = {number: body for number, body in core.bodies().items() if number not in core.hidden}
        assert here(library) == seen and library.store.records.one(refused) is not None
        assert len(set(core.done)) == len(core.done)
        deaths += died
        if not died:
            break
        core.kept = {}
        core.change += 1
        core.epoch += "x"
    assert deaths >= 1


@pytest.mark.soak
def test_resync_continues_after_a_crash_before_any_write(homes, core, dying, monkeypatch, campaign):
    monkeypatch.setattr(pull, "PAGE", 4)
    monkeypatch.setattr(pull, "MOST_IDS", 4)
    deaths = 0
    for writes in range(0, 100, campaign(9, 1)):
        library = homes(f"home{writes}")
        connect(library, core.url, TOKEN)
        mine = [make(library, Thread(f"Mine {place}")) for place in range(3)]
        core.write(theirs := new_id(Thread), Thread("Theirs"))
        core.write(lost := new_id(Thread), Thread("Lost"))
        once(library, core)
        backup = dict(core.kept)
        edit(library, mine[0], body="since the backup")
        once(library, core)
        edit(library, mine[0], title="offline")
        edit(library, mine[1], body="offline")
        core.put_back([mine[0], theirs, lost], core.epoch + "x", backup)
        core.hidden = {lost}
        died = once_or_dead(library, core, dying, writes)
        outcome = once(library, core)
        assert outcome.waiting == 0 and outcome.error == "" and not alerts(library)
        assert set(core.kept) == {*mine, theirs, lost} and core.bodies()[mine[1]].body == "offline"
        assert core.bodies()[mine[0]] == Thread("offline", body="since the backup")
        assert here(library) == {
            number: body for number, body in core.bodies().items() if number != lost
        }
        assert library.store.content.get(state.RESYNC) == ""
        deaths += died
        if not died:
            break
        core.put_back([], core.epoch + "y")
    assert deaths >= 1
