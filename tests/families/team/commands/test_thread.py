"""`cortex team thread`: opening, commenting, changing and resolving threads."""

import io

import pytest

from families.team.commands.command_answers import answer, opened, refusal

pytestmark = pytest.mark.usefixtures("shop", "at_terminal")


HEADER = {
    "id",
    "kind",
    "version",
    "author",
    "created_at",
    "updated_at",
    "title",
    "state",
    "sensitivity",
}


def test_thread_is_opened_commented_shown_and_resolved(cortex, auth, shop, monkeypatch):
    made = answer(
        cortex,
        *(
            "team",
            "thread",
            "create",
            "How long do tokens live?",
            "--body",
            "We saw logouts.",
            "--type",
            "question",
        ),
        *(
            "--subcortex",
            "auth",
            "--tag",
            "tokens",
            "--tag",
            "Tokens",
            "--code",
            "src/login.py#check",
        ),
    )
    assert set(made) >= HEADER
    assert (made["subcortex"], made["tags"], made["author"]) == (auth, ["Tokens"], "person")
    (link,) = made["code_links"]
    assert (link["path"], link["symbol"], link["repo"]) == ("src/login.py", "check", "shop")
    assert link["body_hash"]
    first = answer(
        cortex, "team", "thread", "comment", made["id"], "Tokens live 15 minutes. I measured it."
    )
    monkeypatch.setattr(
        "sys.stdin", io.TextIOWrapper(io.BytesIO(b"And refresh tokens a day.\n"), "utf-8")
    )
    second = answer(
        cortex, "team", "thread", "comment", made["id"][:22], "-", "--reply-to", first["id"]
    )
    assert (second["body"], second["parent"]) == ("And refresh tokens a day.", first["id"])
    (shop / "src" / "login.py").write_text("def check(user):\n    return 1\n", encoding="utf-8")
    shown = answer(cortex, "team", "thread", "show", made["id"])
    assert [comment["id"] for comment in shown["comments"]] == [first["id"], second["id"]]
    assert shown["summary"]
    assert any("maybe_stale" in warning for warning in shown["warnings"])
    assert (
        answer(cortex, "team", "thread", "show", made["id"], "--comments", "1")["comments"][0]["id"]
        == second["id"]
    )
    _, out, _ = cortex("team", "thread", "show", made["id"])
    assert "Subcortex:  auth" in out
    assert f"{second['id']}, person, " in out
    assert (
        answer(cortex, "team", "thread", "resolve", made["id"], "--resolution", "15 minutes")[
            "resolution"
        ]
        == "15 minutes"
    )
    assert answer(cortex, "team", "thread", "list")["threads"] == []
    assert (
        len(
            answer(cortex, "team", "thread", "list", "--state", "resolved", "--type", "question")[
                "threads"
            ]
        )
        == 1
    )


def test_thread_is_moved_with_its_comments_archived_and_reopened(cortex, auth, thread):
    said = answer(cortex, "team", "thread", "comment", thread, "Fifteen minutes.")["id"]
    change = (
        "--title",
        "Lifetimes",
        "--type",
        "Decision",
        "--tag",
        "a",
        "--tag",
        "b",
        "--subcortex",
        "auth",
    )
    after = answer(cortex, "team", "thread", "edit", thread[:20], *change, "--body", "Decided.")
    assert (after["title"], after["type"], after["tags"], after["body"]) == (
        "Lifetimes",
        "decision",
        ["a", "b"],
        "Decided.",
    )
    assert answer(cortex, "team", "thread", "edit", thread, "--untag", "A")["tags"] == ["b"]
    with opened() as library:
        assert library.store.records.one(said).body.subcortex == auth
    assert (
        cortex("team", "thread", "edit", thread, "--title", "Lifetimes")[1]
        == "Nothing was changed.\n"
    )
    assert answer(cortex, "team", "thread", "archive", thread)["state"] == "archived"
    assert refusal(cortex, "team", "thread", "comment", thread, "Late.")["code"] == "RECORD_INVALID"
    assert answer(cortex, "team", "thread", "reopen", thread)["state"] == "open"
    assert answer(cortex, "team", "thread", "edit", thread, "--subcortex", "")["subcortex"] == ""


def test_supplied_summary_replaces_the_generated_one(cortex, thread):
    cortex(
        "team",
        "thread",
        "comment",
        thread,
        "Some say a day, some an hour.",
        "--summary",
        "Nobody knows yet.",
    )
    shown = answer(cortex, "team", "thread", "show", thread)
    assert (shown["summary"], shown["summary_by"]) == ("Nobody knows yet.", "person")
    assert "Summary, by person:\nNobody knows yet." in cortex("team", "thread", "show", thread)[1]


def test_comment_without_text_comes_from_the_editor(cortex, thread, editor):
    editor("text = 'From the editor.\\n\\nReally.\\n'")
    assert (
        answer(cortex, "team", "thread", "comment", thread)["body"] == "From the editor.\n\nReally."
    )
    editor("pass")
    assert refusal(cortex, "team", "thread", "comment", thread)["code"] == "ARGUMENT_INVALID"


def test_empty_text_from_the_editor_writes_nothing_and_leaves_no_file(
    cortex, editor, tmp_path, monkeypatch
):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    for code in ("pass", "sys.exit(1)"):
        editor(code)
        assert "What you wrote" not in str(
            refusal(cortex, "team", "thread", "create", "Never mind", "--edit")
        )
    assert answer(cortex, "team", "thread", "list")["threads"] == [] and not list(
        tmp_path.glob("cortex-thread-*")
    )


def test_comment_on_a_resolved_thread_prints_how_to_reopen_it(cortex, thread):
    assert cortex("team", "thread", "comment", thread, "Fifteen minutes.")[2] == ""
    answer(cortex, "team", "thread", "resolve", thread)
    code, _, err = cortex("team", "thread", "comment", thread, "Or sixteen.")
    assert (code, f"is resolved; `cortex team thread reopen {thread}`" in err) == (0, True)
