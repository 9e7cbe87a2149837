"""Supersession: in both artifacts and a link, by accepted artifacts only."""

from __future__ import annotations

from cortex.base.record_model import Artifact, Evidence, Link, RecordFilter
from cortex.engine.library import Library
from cortex.families.team.writes.actions import accept_artifact, supersede_artifact
from families.team.writes.record_writes import PERSON, WRITER, edit, make, now, refused

EVIDENCE = (Evidence("url", "https://example.com/"),)


def test_acceptance_supersedes_the_named_artifact(library: Library) -> None:
    old = make(library, Artifact("Old", state="accepted", evidence=EVIDENCE))
    new = make(library, Artifact("New", state="proposed", evidence=EVIDENCE, supersedes=old.id))
    accept_artifact(library, new.id, actor=PERSON)
    assert (now(library, old).body.state, now(library, old).body.superseded_by) == (
        "superseded",
        new.id,
    )


def test_supersession_is_in_both_artifacts_and_never_circular(library: Library) -> None:
    made = (
        Artifact(title, state="accepted", evidence=EVIDENCE) for title in ("One", "Two", "Three")
    )
    one, two, three = (make(library, body) for body in made)
    old = supersede_artifact(library, one.id, two.id, actor=PERSON, note="newer")
    assert (old.body.state, old.body.superseded_by, now(library, two).body.supersedes) == (
        "superseded",
        two.id,
        one.id,
    )
    (link,) = library.store.records.select(RecordFilter(kinds=("link",)))
    assert (link.body.source, link.body.target, link.body.note) == (two.id, one.id, "newer")
    supersede_artifact(library, two.id, three.id, actor=PERSON)
    for before, after in ((three, one), (three, three), (one, three)):
        error = refused(
            lambda before=before, after=after: supersede_artifact(
                library, before.id, after.id, actor=PERSON
            )
        )
        assert error.code == "RECORD_INVALID"
    assert (
        refused(lambda: supersede_artifact(library, three.id, two.id, actor=WRITER)).code
        == "RIGHTS_MISSING"
    )
    assert refused(lambda: edit(library, one, state="proposed")).code == "RECORD_INVALID"


def test_only_an_accepted_artifact_supersedes_another(library: Library) -> None:
    old, new = (
        make(library, Artifact("Old", state="accepted", evidence=EVIDENCE)),
        make(library, Artifact("New")),
    )
    for call in (
        lambda: supersede_artifact(library, old.id, new.id, actor=PERSON),
        lambda: make(library, Link(new.id, "supersedes", old.id)),
    ):
        error = refused(call)
        assert (error.code, error.context["accept"]) == ("RECORD_INVALID", new.id)
        assert "accept it first" in error.message
    assert (now(library, old), now(library, new)) == (old, new)
    accept_artifact(library, new.id, actor=PERSON, evidence=EVIDENCE)
    assert supersede_artifact(library, old.id, new.id, actor=PERSON).body.superseded_by == new.id


def test_superseded_artifact_can_still_be_edited(library: Library) -> None:
    one, two = (
        make(library, Artifact("One")),
        make(library, Artifact("Two", state="accepted", evidence=EVIDENCE)),
    )
    supersede_artifact(library, one.id, two.id, actor=PERSON)
    assert edit(library, one, tags=("old",)).body.state == "superseded"
    assert refused(lambda: edit(library, two, supersedes="")).context["field"] == "supersedes"
