"""The commands of record kinds follow from the rows of their fields."""

import json

import pytest
import typer

from cortex.base.record_model import RecordFilter
from cortex.base.record_spec import KINDS, fields_of
from cortex.interfaces.cli import app
from families.team.commands.command_answers import SECRET, answer, opened, refusal

pytestmark = pytest.mark.usefixtures("shop", "at_terminal")

GENERATED = ("subcortex", "thread", "artifact")


def options(*names: str) -> set[str]:
    command = typer.main.get_command(app)
    for name in ("team", *names):
        command = command.commands[name]
    return {spelling for parameter in command.params for spelling in parameter.opts}


@pytest.mark.parametrize("kind", GENERATED)
def test_every_option_of_a_field_is_in_create_or_edit(kind):
    offered = options(kind, "create") | options(kind, "edit")
    for spec in fields_of(KINDS[kind]).values():
        if spec.option and spec.option.name.startswith("--"):
            assert spec.option.name in offered, spec.name
            assert not spec.option.remove or spec.option.remove in options(kind, "edit")


def test_field_that_is_set_once_is_not_among_the_options_of_edit():
    assert "--supersedes" in options("artifact", "create") - options("artifact", "edit")
    assert "--task" in options("thread", "create") - options("thread", "edit")
    assert "--verification" in options("artifact", "edit") - options("artifact", "create")


def test_only_kinds_with_states_are_listed_by_them():
    assert "--state" in options("artifact", "list")
    assert "--state" not in options("observation", "list")
    assert {"--tag", "--subcortex"} <= options("observation", "list")
    assert "--tag" not in options("subcortex", "list")


@pytest.mark.parametrize(
    ("command", "start"),
    [
        ("subcortex", "cortex team subcortex create SLUG --name NAME"),
        ("thread", "cortex team thread create TITLE"),
        ("task", "cortex team task create TITLE"),
        ("artifact", "cortex team artifact create TITLE"),
        ("link", "cortex team link add FROM RELATION TO"),
    ],
)
def test_empty_list_says_how_to_start(cortex, command, start):
    code, out, err = cortex("team", command, "list")
    assert (code, out) == (0, "")
    assert start in err
    found = answer(cortex, "team", command, "list")
    assert list(found.values()) == [[], False]


def test_list_has_whole_ids_is_newest_first_and_filtered(cortex, auth):
    ids = [
        answer(cortex, "team", "thread", "create", f"Thread {number}", "--tag", f"t{number}")["id"]
        for number in range(3)
    ]
    answer(
        cortex,
        "team",
        "thread",
        "create",
        "An incident",
        "--type",
        "incident",
        "--subcortex",
        "auth",
    )
    answer(cortex, "team", "thread", "comment", ids[0], "Something was said here.")
    code, out, err = cortex("team", "thread", "list", "--limit", "2")
    assert code == 0
    assert out.split()[0] == ids[0]
    assert "--limit" in err
    assert [
        thread["title"]
        for thread in answer(cortex, "team", "thread", "list", "--tag", "T1")["threads"]
    ] == ["Thread 1"]
    assert [
        thread["type"]
        for thread in answer(cortex, "team", "thread", "list", "--subcortex", "auth")["threads"]
    ] == ["incident"]
    assert [
        thread["title"]
        for thread in answer(cortex, "team", "thread", "list", "--type", "incident")["threads"]
    ] == ["An incident"]


def test_same_key_writes_once_and_refuses_another_write(cortex, shop):
    create = ("team", "thread", "create", "Once", "--code", "src/login.py", "--key", "job-1")
    first = answer(cortex, *create)
    (shop / "src" / "login.py").write_text("changed = True\n", encoding="utf-8")
    assert answer(cortex, *create)["id"] == first["id"]
    assert (
        refusal(cortex, "team", "thread", "create", "Twice", "--key", "job-1")["code"]
        == "IDEMPOTENCY_REPLAY"
    )
    say = ("team", "thread", "comment", first["id"], "Said once.", "--key", "job-2")
    assert answer(cortex, *say)["id"] == answer(cortex, *say)["id"]
    task = answer(cortex, "team", "task", "create", "Renew keys")["id"]
    update = ("team", "task", "update", task, "--note", "Half of them.", "--key", "job-3")
    assert answer(cortex, *update)["notes"] == answer(cortex, *update)["notes"] == "Half of them."
    assert (
        refusal(cortex, *update[:-3], "All of them.", "--key", "job-3")["code"]
        == "IDEMPOTENCY_REPLAY"
    )
    answer(cortex, "team", "task", "update", task, "--assign", "Lena")
    leave = ("team", "task", "update", task, "--unassign", "Lena", "--key", "job-4")
    assert answer(cortex, *leave)["version"] == answer(cortex, *leave)["version"]


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("team", "thread", "create", " "), "RECORD_INVALID", "title"),
        (("team", "thread", "create", "x" * 301), "RECORD_INVALID", "300"),
        (("team", "thread", "create", "T", "--type", "chat"), "RECORD_INVALID", "incident"),
        (
            ("team", "thread", "create", "T", "--body", f"key {SECRET}"),
            "SENSITIVE_BLOCKED",
            "line 1",
        ),
        (("team", "thread", "create", "T", "--subcortex", "nowhere"), "SCOPE_NOT_FOUND", "nowhere"),
        (("team", "thread", "create", "T", "--code", "../out.py"), "RECORD_INVALID", "out.py"),
        (("team", "thread", "create", "T", "--code", "#check"), "ARGUMENT_INVALID", "PATH#SYMBOL"),
        (("team", "thread", "create", "T", "--key", "a b"), "RECORD_INVALID", "key"),
        (
            ("team", "thread", "create", "T", "--body", "x", "--body-file", "y"),
            "ARGUMENT_INVALID",
            "not both",
        ),
        (
            ("team", "thread", "create", "T", "--body-file", "nowhere.md"),
            "FILE_NOT_FOUND",
            "nowhere.md",
        ),
        (("team", "thread", "create", "T", "--edit"), "ARGUMENT_INVALID", "--body"),
        (
            ("team", "thread", "comment", "thread_01ARZ3NDEKTSV4RRFFQ69G5FAV", "hi"),
            "RECORD_UNKNOWN",
            "01ARZ3NDEK",
        ),
        (("team", "thread", "list", "--state", "closed"), "ARGUMENT_INVALID", "resolved"),
        (("team", "thread", "list", "--type", "chat"), "ARGUMENT_INVALID", "incident"),
        (("team", "thread", "list", "--subcortex", "nowhere"), "RECORD_UNKNOWN", "nowhere"),
        (("team", "thread", "show", "auth"), "RECORD_UNKNOWN", "thread"),
        (("team", "subcortex", "create", "No Slug", "--name", "N"), "RECORD_INVALID", "slug"),
        (("team", "subcortex", "create", "auth", "--name", "Again"), "RECORD_INVALID", "already"),
        (
            ("team", "subcortex", "create", "auth2", "--name", "N", "--term", "Token"),
            "ARGUMENT_INVALID",
            "WORD",
        ),
        (
            ("team", "subcortex", "edit", "auth", "--remove-term", "Token"),
            "ARGUMENT_INVALID",
            "Token",
        ),
        (("team", "subcortex", "edit", "auth"), "ARGUMENT_INVALID", "--charter"),
        (("team", "subcortex", "edit", "auth", "--state", "gone"), "RECORD_INVALID", "archived"),
        (("team", "subcortex", "pin", "auth", "auth"), "RECORD_INVALID", "pinned"),
        (
            ("team", "subcortex", "pin", "auth", "auth", "auth", "--key", "k"),
            "ARGUMENT_INVALID",
            "key",
        ),
        (("team", "task", "create", "T", "--priority", "huge"), "RECORD_INVALID", "urgent"),
        (
            ("team", "task", "update", "task_01ARZ3NDEKTSV4RRFFQ69G5FAV", "--state", "done"),
            "RECORD_UNKNOWN",
            "task",
        ),
        (("team", "artifact", "create", "T", "--state", "accepted"), "RECORD_INVALID", "evidence"),
        (
            ("team", "artifact", "create", "T", "--evidence", "song:x"),
            "ARGUMENT_INVALID",
            "thread:ID",
        ),
        (
            ("team", "artifact", "create", "T", "--review-by", "soon"),
            "RECORD_INVALID",
            "2027-01-31",
        ),
        (
            ("team", "artifact", "edit", "artifact_01ARZ3NDEK", "--state", "accepted"),
            "ARGUMENT_INVALID",
            "accept",
        ),
        (("team", "link", "add", "auth", "likes", "auth"), "ARGUMENT_INVALID", "supports"),
        (("team", "link", "add", "auth", "supports", "auth"), "RECORD_INVALID", "itself"),
        (("team", "link", "confirm", "link_01ARZ3NDEKTSV4RRFFQ69G5FAV"), "RECORD_UNKNOWN", "link"),
    ],
)
def test_invalid_record_command_is_refused_and_writes_nothing(cortex, auth, arguments, code, says):
    error = refusal(cortex, *arguments)
    assert (error["code"], says in json.dumps(error)) == (code, True), error
    assert SECRET not in json.dumps(error)
    with opened() as library:
        assert [record.id for record in library.store.records.select(RecordFilter())] == [auth]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("inbox", "done"), "ARGUMENT_INVALID"),
        (("inbox", "done", "notif_01ARZ3NDEKTSV4RRFFQ69G5FAV", "--all"), "ARGUMENT_INVALID"),
        (("inbox", "done", "notif_01ARZ3NDEKTSV4RRFFQ69G5FAV"), "RECORD_UNKNOWN"),
        (("inbox", "--include", "songs"), "ARGUMENT_INVALID"),
        (("team", "drafts", "list", "--state", "lost"), "ARGUMENT_INVALID"),
        (("team", "drafts", "show", "draft_01ARZ3NDEK"), "RECORD_UNKNOWN"),
        (("team", "context", "set"), "ARGUMENT_INVALID"),
        (("team", "context", "set", "--subcortex", "nowhere"), "RECORD_UNKNOWN"),
        (("team", "context", "show", "--path", "nowhere"), "WORKSPACE_UNKNOWN"),
    ],
)
def test_invalid_inbox_draft_or_context_command_is_refused(cortex, arguments, code):
    assert refusal(cortex, *arguments)["code"] == code
    with opened() as library:
        assert library.store.records.count(RecordFilter()) == 0


@pytest.mark.parametrize(
    ("arguments", "first"),
    [
        (
            ("team", "thread", "show", "thread_01ARZ3NDEKTSV4RRFFQ69G5FAV"),
            "cortex team thread list",
        ),
        (("team", "thread", "show", "task_01ARZ3NDEKTSV4RRFFQ69G5FAV"), "cortex team thread list"),
        (
            ("team", "task", "create", "T", "--thread", "thread_01ARZ3NDEKTSV4RRFFQ69G5FAV"),
            "cortex team thread list",
        ),
        (
            ("team", "link", "add", "artifact_01ARZ3NDEKTSV4RRFFQ69G5FAV", "supports", "x"),
            "cortex team artifact list",
        ),
        (("team", "audit", "nothing"), "cortex search"),
        (("team", "thread", "create", "T", "--subcortex", "nowhere"), "cortex team subcortex list"),
        (("team", "artifact", "create", "T", "--state", "accepted"), "--evidence"),
    ],
)
def test_unknown_record_is_refused_with_the_command_that_lists_it(cortex, arguments, first):
    advice = refusal(cortex, *arguments)["suggestions"]
    assert first in advice[0]
    assert "cortex_" not in " ".join(advice)


def test_ambiguous_id_prefix_is_refused(cortex):
    ids = [
        answer(cortex, "team", "thread", "create", f"Thread {number}")["id"] for number in range(2)
    ]
    same = next(
        number for number, (left, right) in enumerate(zip(*ids, strict=True)) if left != right
    )
    error = refusal(cortex, "team", "thread", "show", ids[0][:same])
    assert error["code"] == "RECORD_UNKNOWN"
    assert all(id_ in error["message"] for id_ in ids)
    assert answer(cortex, "team", "thread", "show", ids[0][: same + 1])["id"] == ids[0]


def test_sensitive_record_is_marked(cortex):
    number = answer(cortex, "team", "thread", "create", "Salaries", "--sensitive")["id"]
    assert answer(cortex, "team", "thread", "show", number)["sensitivity"] == "sensitive"
    assert "warning: sensitive" in cortex("team", "thread", "show", number)[1]
