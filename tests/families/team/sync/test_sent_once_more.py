"""What was refused for something that the Core didn't have, or show, is sent once more when that
comes, and nobody has to ask for it.
"""

from __future__ import annotations

from contextlib import closing

from cortex.base.record_model import Comment, Observation, Subcortex, Thread
from cortex.engine.store.records import outbox
from cortex.engine.store.records.backup import dump
from cortex.families.team.sync.cycle import SyncOutcome
from cortex.interfaces.team_server import principals
from families.team.sync.homes import alerts, edit, make
from families.team.sync.members import Member, at_core, put_back
from interfaces.team_server.commands.core_server import core_at


def test_what_was_refused_for_what_nobody_showed_is_sent_when_that_comes(member, team):
    ada, bob = member("ada"), member("bob", tier=3)
    private = ada.write(Subcortex("payroll", "Payroll", visibility="private"))
    thread = ada.write(Thread("Plan", subcortex=private))
    ada.sync()

    def who():
        return principals.find(team.ledger, "bob")

    principals.grant(team.ledger, who(), private, writes=True)
    bob.sync()
    comment = bob.write(Comment(thread, "a long argument"))
    principals.ungrant(team.ledger, who(), private)
    assert bob.sync().refused == 1 and bob.get(thread) is None
    assert bob.sync().status == "ok" and bob.library.store.outbox.count() == (0, 1)
    principals.grant(team.ledger, who(), private, writes=True)
    assert bob.sync().status == "ok" and comment in at_core(team) and not alerts(bob.library)


def test_what_was_moved_to_a_place_that_is_sent_later_comes_with_it(
    homes, team, memory, monkeypatch
):
    monkeypatch.setattr(outbox, "MOST_UPLOADED", 2)
    library = homes("ada")
    thread = make(library, Thread("Plan"))
    make(library, Observation("Seen"))
    edit(library, thread, subcortex=make(library, Subcortex("ops", "Operations")))
    dump(team.ledger, memory / "backup")
    ada = Member(team, "ada", library)
    with closing(ada.remote):
        assert (
            ada.sync() == SyncOutcome("ok", flushed=3)
            and thread in at_core(team)
            and not alerts(library)
        )
    with core_at(put_back(team, memory / "backup", memory / "restored")) as core:
        ada.token = core.let_in("ada")
        assert (ada.sync_at(core).status, library.store.outbox.count()) == ("ok", (0, 0))
        assert thread in at_core(core) and not alerts(library)
