"""Supersession of artifacts: the check, and writing both artifacts and their link."""

from __future__ import annotations

from dataclasses import replace

from cortex.base.errors import InputError
from cortex.base.record_model import SENSITIVE, Artifact, Link, Record, RecordFilter
from cortex.engine.store import RecordTransaction
from cortex.families.team.ids import new_id
from cortex.families.team.permissions import need
from cortex.families.team.validation import checked, refusal


def linked(step: RecordTransaction, source: str, relation: str, target: str) -> Record[Link] | None:
    """Return the link that states this already, unless it was dismissed."""
    refs = (("source", source), ("relation", relation), ("target", target))
    links = step.select(
        RecordFilter(kinds=("link",), states=("candidate", "confirmed"), refs=refs), 1
    )
    return links[0] if links else None


def check_supersedes(
    step: RecordTransaction, old: Record[Artifact], new: Record[Artifact] | None = None
) -> None:
    """Check that `new` may supersede `old`: it is accepted, and there is no cycle.

    Raises: InputError RIGHTS_MISSING, RECORD_INVALID.
    """
    need(step.actor, "supersede_artifact")
    if old.body.superseded_by or old.body.state == "superseded":
        raise refusal("supersedes", f"{old.id} is superseded already, by {old.body.superseded_by}")
    seen: set[str] = set()
    successor = new
    while successor is not None and successor.id not in seen:
        seen.add(successor.id)
        if successor.id == old.id:
            raise refusal(
                "supersedes",
                f"{old.id} can't be superseded by itself, or by an artifact that it supersedes",
            )
        successor = step.get(successor.body.superseded_by) if successor.body.superseded_by else None
    if new is not None and new.body.state != "accepted":
        raise InputError(
            "RECORD_INVALID",
            f"{new.id} is {new.body.state}, and only an accepted artifact can supersede another: "
            "accept it first",
            context={"field": "supersedes", "accept": new.id},
        )


def write_superseded(
    step: RecordTransaction, old: Record[Artifact], new: Record[Artifact], note: str = ""
) -> Record[Link]:
    """Mark `old` as superseded by `new`, and return the link between them."""
    step.put(
        replace(old, body=replace(old.body, state="superseded", superseded_by=new.id)),
        "supersede_artifact",
    )
    if (known := linked(step, new.id, "supersedes", old.id)) is not None:
        return known
    private = SENSITIVE in (old.body.sensitivity, new.body.sensitivity)
    body = checked(Link(new.id, "supersedes", old.id, note))
    return step.make(
        new_id(Link),
        replace(body, sensitivity=SENSITIVE) if private else body,
        "supersede_artifact",
    )
