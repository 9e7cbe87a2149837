"""Validation of bodies: limits, allowed values, and secrets, which errors never repeat."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cortex.base.errors import CortexError
from cortex.base.record_model import (
    PREFIXES,
    Artifact,
    Attachment,
    Body,
    CodeLink,
    Comment,
    Draft,
    Evidence,
    Link,
    Notification,
    Observation,
    Subcortex,
    Task,
    Term,
    Thread,
    kind_of,
)
from cortex.base.record_spec import fields_of, spec_of
from cortex.families.team.validation import check_first, check_move, checked, texts_of

TOKEN = "ghp_" + "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3z5A"
PLAIN: tuple[Body, ...] = (
    Subcortex("billing", "Billing"),
    Thread("T"),
    Comment("thread_1", "B"),
    Observation("T"),
    Artifact("T"),
    Task("T"),
    Draft("comment", "T", "B"),
    Notification("mention", "lena", "thread_1", "T", "R"),
    Link("task_1", "supports", "task_2"),
)
FULL: tuple[Body, ...] = (
    Subcortex(
        "billing",
        "Billing",
        "D",
        "C",
        stewards=("lena",),
        glossary=(Term("a", "b"),),
        naming=("snake_case",),
    ),
    Thread(
        "T",
        "B",
        tags=("x",),
        summary="S",
        resolution="R",
        code_links=(CodeLink("a.py", "shop", "f"),),
    ),
    Comment("thread_1", "B", citations=("thread_2",)),
    Observation(
        "T", "S", session="s", commit_id="c", attachments=(Attachment("log", "file:///log"),)
    ),
    Artifact("T", "B", "S", owner="lena", evidence=(Evidence("url", "https://example.com/", "N"),)),
    Task("T", "B", assignees=("lena",), watchers=("omar",), blocked_reason="R", notes="N"),
    Draft("comment", "T", "B", patch=(("notes", "N"),), reason="R", summary="S", review_notes="N"),
    Notification("mention", "lena", "thread_1", "T", "R"),
    Link("task_1", "supports", "task_2", "N"),
)


def refused(body: Body, work: Callable[[Any], object] = checked) -> CortexError:
    with pytest.raises(CortexError) as caught:
        work(body)
    return caught.value


@pytest.mark.parametrize("body", [*PLAIN, *FULL], ids=kind_of)
def test_valid_body_is_unchanged(body: Body) -> None:
    assert checked(body) == body == checked(checked(body))


def limits() -> list[tuple[Body, str, int]]:
    return [
        (body, field, spec.most)
        for body in FULL
        for field, spec in fields_of(type(body)).items()
        if spec.most and isinstance(getattr(body, field), str)
    ]


@pytest.mark.parametrize(("body", "field", "most"), limits(), ids=lambda value: str(value)[:20])
def test_text_beyond_its_limit_is_refused(body: Body, field: str, most: int) -> None:
    text = ("word " * most)[: most - 1] + "x"
    assert getattr(checked(replace(body, **{field: text})), field) == text
    error = refused(replace(body, **{field: text + "y"}))
    assert (
        error.code == "RECORD_INVALID"
        and error.context["field"] == field
        and f"{most:,}" in error.message
    )


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (Thread("T", tags=tuple(f"t{number}" for number in range(11))), "tags"),
        (Observation("T", tags=tuple(f"t{number}" for number in range(21))), "tags"),
        (Thread("T", tags=("x" * 51,)), "tags[0]"),
        (Task("T", assignees=tuple(f"n{number}" for number in range(21))), "assignees"),
        (Subcortex("billing", "B", glossary=(Term("", "b"),)), "glossary[0].term"),
        (
            Artifact("T", evidence=(Evidence("url", "https://example.com/", "n" * 201),)),
            "evidence[0].note",
        ),
        (Artifact("T", evidence=(Evidence("rumour", "x"),)), "evidence[0].kind"),
        (Artifact("T", evidence=(Evidence("url", "ftp://example.com"),)), "evidence[0].ref"),
        (Artifact("T", review_by="31.1.2027"), "review_by"),
        (Artifact("T", review_by="2027-02-30"), "review_by"),
        (Artifact("T", state="accepted"), "evidence"),
        (Artifact("T", verification="maybe"), "verification"),
        (Thread("T", code_links=(CodeLink("../a.py"),)), "code_links[0].path"),
        (Thread("T", code_links=(CodeLink("a/..\\..\\b.py"),)), "code_links[0].path"),
        (Thread("T", code_links=(CodeLink("/etc/passwd"),)), "code_links[0].path"),
        (Thread("T", code_links=(CodeLink("C:\\a.py"),)), "code_links[0].path"),
        (
            Thread("T", code_links=(CodeLink("a.py", line_start=9, line_end=3),)),
            "code_links[0].line_end",
        ),
        (Thread("T", code_links=(CodeLink("a.py", line_start=-1),)), "code_links[0].line_start"),
        (Thread("T", code_links=(CodeLink("a.py", commit="HEAD~1"),)), "code_links[0].commit"),
        (Subcortex("Billing Team", "B"), "slug"),
        (Subcortex("ab", "B"), "slug"),
        (Subcortex("-ab", "B"), "slug"),
        (Subcortex("billing", "B", visibility="public"), "visibility"),
        (Task("T", priority="soon"), "priority"),
        (Observation("T", source_type="rumour"), "source_type"),
        (Link("task_1", "likes", "task_2"), "relation"),
        (Link("task_1", "supports", "task_1"), "target"),
        (Thread(" \n "), "title"),
        (Comment("thread_1", " "), "body"),
        (Comment("", "B"), "thread"),
        (Draft("comment", "T", ""), "body"),
        (Draft("thread", "", "B"), "title"),
        (Draft("task_update", "T", "B"), "patch"),
        (Draft("poem", "T", "B"), "type"),
        (Draft("comment", "T", "B", target_kind="memory"), "target_kind"),
        (Thread("T", sensitivity="public"), "sensitivity"),
    ],
    ids=lambda value: value if isinstance(value, str) else kind_of(value),
)
def test_invalid_value_is_refused_with_its_field(body: Body, field: str) -> None:
    error = refused(body)
    assert (error.code, error.context["field"]) == ("RECORD_INVALID", field) and field.split("[")[
        0
    ] in error.message


@pytest.mark.parametrize("body", PLAIN, ids=kind_of)
def test_types_and_states_of_other_kinds_are_refused(body: Body) -> None:
    for state in spec_of(type(body)).states:
        if "state" in {field.name for field in fields(body)} and state != "accepted":
            assert checked(replace(body, state=state)).state == state
    if types := getattr(fields_of(type(body)).get("type"), "choices", ()):
        error = refused(replace(body, type="nonsense"))
        assert error.context == {"field": "type", "allowed": list(types)}
    if "state" in {field.name for field in fields(body)}:
        assert refused(replace(body, state="nonsense")).context["field"] == "state"


@pytest.mark.parametrize(
    "character", ["\0", "\x1b", "\x07", "\x0b", "\x9b", "\ud800", "\u202e"], ids=ascii
)
@pytest.mark.parametrize("field", ["title", "body", "tags"])
def test_control_characters_and_lone_surrogates_are_refused(character: str, field: str) -> None:
    value: object = (f"a{character}b",) if field == "tags" else f"a\n{character}b"
    error = refused(replace(Thread("T"), **{field: value}))
    assert error.code == "RECORD_INVALID" and character not in error.message


def test_white_space_and_duplicates_are_normalized() -> None:
    body = Thread(
        "  Lamps \t are\r\nblue ", "\r\none\r\n\n  two\n", tags=("Red", "red", " ", "Blue"), code_links=(CodeLink(".\\src\\a.py"),) * 2
    )  # fmt: skip
    assert checked(body) == Thread(
        "Lamps are blue", "one\n\n  two", tags=("Red", "Blue"), code_links=(CodeLink("src/a.py"),)
    )


def planted(noun: Any, prefix: str = "") -> list[tuple[str, Callable[[str], Any]]]:
    """Every text field of a body, with a function that replaces its text."""
    found: list[tuple[str, Callable[[str], Any]]] = []
    for field in fields(noun):
        value = getattr(noun, field.name)
        if isinstance(value, str) and value:
            found.append(
                (prefix + field.name, lambda text, name=field.name: replace(noun, **{name: text}))
            )
        elif isinstance(value, tuple) and value and is_dataclass(value[0]):
            found += [
                (
                    place,
                    lambda text, name=field.name, put=put: replace(noun, **{name: (put(text),)}),
                )
                for place, put in planted(value[0], f"{prefix}{field.name}[0].")
            ]
        elif isinstance(value, tuple) and value and isinstance(value[0], str):
            found.append(
                (
                    f"{prefix}{field.name}[0]",
                    lambda text, name=field.name: replace(noun, **{name: (text,)}),
                )
            )
    return found


SKIPPED = (
    "slug",
    "state",
    "type",
    "sensitivity",
    "visibility",
    "verification",
    "priority",
    "source_type",
    "relation",
    "kind",
)


@pytest.mark.parametrize(
    ("field", "put"),
    [
        pytest.param(field, put, id=f"{kind_of(body)}-{field}")
        for body in FULL
        for field, put in planted(body)
        if field.rpartition(".")[2] not in SKIPPED
    ],
)
def test_secret_is_refused_in_any_field_and_never_repeated(
    field: str, put: Callable[[str], Any]
) -> None:
    long = field in ("body", "charter", "description", "summary", "notes")
    address = field == "evidence[0].ref"
    text = (
        f"first\nuse {TOKEN} there"
        if long
        else f"https://example.com/{TOKEN}"
        if address
        else TOKEN
    )
    error = refused(put(text))
    assert error.code == "SENSITIVE_BLOCKED" and "GitHub token" in error.message
    assert str(error.context["field"]).split("[")[0] == field.split("[")[0]
    assert error.context["line"] == (2 if long else 1)
    assert TOKEN not in f"{error.message}{error.context}{error.suggestions}"


def test_secret_named_by_its_key_is_refused_in_pairs_too() -> None:
    value = "xK9" + "mQ2vL7pR4tZ8"
    for body in (
        Subcortex("billing", "B", glossary=(Term("api_key", value),)),
        Draft("task_update", "T", "", patch=(("password", value),)),
    ):
        error = refused(body)
        assert error.code == "SENSITIVE_BLOCKED" and value not in error.message


def test_secret_is_not_stored() -> None:
    assert refused(Thread("T", sensitivity="secret")).code == "SENSITIVE_BLOCKED"


def test_error_does_not_repeat_an_invalid_value_that_is_a_secret() -> None:
    assert TOKEN not in refused(Thread("T", type=TOKEN)).message


def test_hashes_and_commits_are_not_secrets() -> None:
    link = CodeLink(
        "a.py",
        commit="9f8a7b6c5d4e3f2a1b0c9d8e7f6a5b4c3d2e1f0a",
        file_hash="ab" * 16,
        body_hash="cd" * 16,
    )
    assert checked(Thread("T", code_links=(link,))).code_links == (link,)


def test_every_text_of_a_body_is_scanned() -> None:
    texts = dict(texts_of(FULL[0]))
    assert (
        texts["glossary[0]"] == "a: b"
        and texts["naming[0]"] == "snake_case"
        and texts["charter"] == "C"
    )


@pytest.mark.parametrize("cls", list(PREFIXES), ids=lambda cls: cls.__name__)
def test_every_state_leads_only_to_states_of_its_kind(cls: type) -> None:
    states = set(spec_of(cls).states)
    assert set(spec_of(cls).first) <= states
    assert all(set(after) <= states - {before} for before, after in spec_of(cls).moves.items())


@given(
    st.sampled_from([Thread("T"), Task("T"), Artifact("T"), Link("task_1", "supports", "task_2")]),
    st.data(),
)
def test_forbidden_state_transition_is_refused(body: Body, data: st.DataObject) -> None:
    before = data.draw(st.sampled_from(spec_of(type(body)).states))
    after = data.draw(st.sampled_from(spec_of(type(body)).states))
    current, other = replace(body, state=before), replace(body, state=after)
    if before == after or after in spec_of(type(body)).moves[before]:
        check_move(current, other)
    else:
        error = refused(other, lambda new: check_move(current, new))
        assert (
            error.code == "RECORD_INVALID"
            and error.context["field"] == "state"
            and before in error.message
        )


def test_new_record_begins_in_an_initial_state() -> None:
    check_first(Artifact("T", state="proposed"))
    for body in (
        Artifact("T", state="superseded"),
        Thread("T", state="archived"),
        Link("a", "supports", "b", state="dismissed"),
    ):
        assert refused(body, check_first).context["field"] == "state"
