"""The access policy: principals, grants, stewards, private subcortexes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cortex.base.errors import InputError
from cortex.base.record_model import (
    SENSITIVE,
    Body,
    Draft,
    Link,
    Notification,
    Observation,
    Record,
    Subcortex,
    Thread,
)
from cortex.base.visibility import sees
from cortex.engine.store.records.principals import Principal
from cortex.families.team.ids import new_id
from cortex.interfaces.team_server.access_policy import guard_of, stamp_of, viewer_of

OPEN = Record(new_id(Subcortex), Subcortex("open", "Open"), "root")
SECRET = Record(new_id(Subcortex), Subcortex("hush", "Hush", visibility="private"), "root")
OTHER = Record(
    new_id(Subcortex), Subcortex("other", "Other", visibility="private", stewards=("ada",)), "root"
)
SCOPES = (OPEN, SECRET, OTHER)


def principal(tier: int = 2, sensitive: bool = False, **grants: bool) -> Principal:
    named = {"everywhere": "*", "open": OPEN.id, "hush": SECRET.id, "other": OTHER.id}
    granted = {named[name]: writes for name, writes in grants.items()}
    return Principal("principal_1", "ada", tier, sensitive, "active", 1, granted)


def made(body: Body, author: str = "ada") -> Record:
    return Record(new_id(type(body)), body, author, version=1)


def getting(*records: Record):
    known = {scope.id: scope for scope in (*SCOPES, *records)} | {
        scope.body.slug: scope for scope in SCOPES
    }
    return known.get


def refusal(
    who: Principal, before: Record | None, after: Record, *others: Record
) -> InputError | None:
    try:
        guard_of(viewer_of(who, SCOPES))(before, after, getting(*others))
    except InputError as error:
        return error
    return None


def test_grant_for_everywhere_excludes_private_subcortexes():
    viewer = viewer_of(principal(everywhere=True), SCOPES)
    assert viewer.may_write("") and viewer.may_write(OPEN.id) and not viewer.may_write(SECRET.id)
    assert not viewer.may_read(SECRET.id) and viewer.may_write(OTHER.id), "a steward writes"
    assert viewer_of(principal(4, everywhere=False), SCOPES).may_read(SECRET.id), (
        "tier 4 with a grant for everywhere sees all"
    )
    assert not viewer_of(principal(4, open=True), SCOPES).may_read(SECRET.id)


def test_grants_are_read_or_write():
    viewer = viewer_of(principal(open=False, hush=True), SCOPES)
    assert (
        viewer.may_read(OPEN.id) and not viewer.may_write(OPEN.id) and viewer.may_write(SECRET.id)
    )
    assert not viewer.may_read("") and not viewer.may_write("")
    stranger = viewer_of(replace(principal(), name="zoe"), SCOPES)
    assert not stranger.reads and not stranger.writes


def test_read_grant_in_a_private_subcortex_outranks_write_everywhere():
    who = principal(3, everywhere=True, hush=False)
    viewer = viewer_of(who, SCOPES)
    assert (
        viewer.may_read(SECRET.id) and not viewer.may_write(SECRET.id) and viewer.may_write(OPEN.id)
    )
    error = refusal(who, None, made(Thread("A title", "", subcortex=SECRET.id)))
    assert error is not None and error.code == "RIGHTS_MISSING"


def test_stamp_changes_with_the_rights_of_the_viewer():
    stamps = [
        stamp_of(viewer_of(who, SCOPES))
        for who in (
            principal(),
            principal(3),
            principal(sensitive=True),
            principal(open=True),
            principal(everywhere=True),
            replace(principal(), name="zoe"),
        )
    ]
    assert len(set(stamps)) == len(stamps)
    assert stamp_of(viewer_of(principal(open=True), SCOPES)) == stamp_of(
        viewer_of(principal(open=False), SCOPES)
    )
    fewer = (OPEN, SECRET, replace(OTHER, body=replace(OTHER.body, stewards=())))
    assert stamp_of(viewer_of(principal(), fewer)) != stamps[0], "a steward no more"


@pytest.mark.parametrize(
    ("grants", "code"), [({"open": True}, None), ({"everywhere": True}, None), ({"open": False}, "RIGHTS_MISSING"), ({}, "SCOPE_NOT_FOUND")]
)  # fmt: skip
def test_a_write_needs_its_scope(grants, code):
    error = refusal(principal(**grants), None, made(Thread("x", subcortex=OPEN.id)))
    assert (error and error.code) == code
    unfiled = refusal(principal(**grants), None, made(Thread("x")))
    assert (unfiled is None) == ("everywhere" in grants)


def test_move_needs_both_scopes():
    before = made(Thread("x", subcortex=OPEN.id))
    after = replace(before, body=replace(before.body, subcortex=OTHER.id))
    assert refusal(principal(open=True, other=True), before, after) is None
    assert (
        refusal(replace(principal(open=True), name="zoe"), before, after).code == "SCOPE_NOT_FOUND"
    )
    assert (
        refusal(replace(principal(other=True), name="zoe"), before, after).code
        == "TARGET_NOT_FOUND"
    )


def test_hidden_scope_is_answered_as_a_missing_one():
    """But for the name that was used, the answers are the same, and tell of nothing near."""
    gone = "subcortex_" + "0" * 26
    errors = []
    for scope in (SECRET.id, gone):
        error = refusal(principal(open=True), None, made(Thread("x", subcortex=scope)))
        assert error is not None and error.context["near"] == []
        errors.append(
            (
                error.code,
                error.message.replace(scope, "X"),
                str(error.context).replace(scope, "X"),
                error.suggestions,
            )
        )
    assert errors[0] == errors[1]


def test_refusal_names_the_target_but_not_its_scope():
    thread = made(Thread("x", subcortex=SECRET.id))
    for body in (
        Observation("x", thread=thread.id),
        Draft("comment", "x", "y", target=thread.id),
        Draft("thread", "x", "y", target="hush"),
    ):
        error = refusal(principal(everywhere=True), None, made(body), thread)
        assert error is not None and error.code == "TARGET_NOT_FOUND"
        assert SECRET.id not in error.message + repr(error.context)  # fmt: skip
    link = made(Link(thread.id, "supports", OPEN.id))
    assert refusal(principal(everywhere=True), None, link, thread).context["id"] == thread.id


def test_hidden_record_cannot_be_changed():
    for thread in (
        made(Thread("x", subcortex=SECRET.id)),
        made(Thread("x", sensitivity=SENSITIVE)),
    ):
        error = refusal(principal(everywhere=True), thread, thread)
        assert error.code == "TARGET_NOT_FOUND" and error.context["id"] == thread.id
    draft = made(Draft("thread", "x", "y"), "bob")
    assert refusal(principal(everywhere=True), draft, draft).code == "TARGET_NOT_FOUND"
    assert refusal(principal(3, everywhere=True), draft, draft) is None


def test_sensitive_record_is_written_by_its_viewers_and_drafted_by_all():
    said = made(Observation("x", sensitivity=SENSITIVE))
    assert refusal(principal(everywhere=True), None, said).code == "RIGHTS_MISSING"
    assert refusal(principal(everywhere=True, sensitive=True), None, said) is None
    draft = made(Draft("thread", "x", "y", sensitivity=SENSITIVE), "ada/agent")
    assert refusal(principal(everywhere=True), None, draft) is None
    assert not sees(viewer_of(principal(everywhere=True), SCOPES), draft, getting())
    assert (
        refusal(principal(everywhere=True), None, replace(draft, author="bob")).code
        == "RIGHTS_MISSING"
    )


def test_subcortex_is_created_only_with_write_everywhere():
    new = made(Subcortex("new-one", "New"))
    assert refusal(principal(4, everywhere=True), None, new) is None
    assert refusal(principal(4, everywhere=False, open=True), None, new).code == "RIGHTS_MISSING"
    assert (
        refusal(
            principal(4, everywhere=True), OPEN, replace(OPEN, body=replace(OPEN.body, name="x"))
        )
        is None
    )
    assert refusal(principal(4, open=False), OPEN, OPEN).code == "RIGHTS_MISSING"


def test_notification_needs_no_right_of_its_own():
    sent = made(Notification("mention", "bob", OPEN.id, "x", "y"))
    assert refusal(principal(), None, sent) is None
