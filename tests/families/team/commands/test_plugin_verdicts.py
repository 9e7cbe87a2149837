"""Plugins that judge texts: every command that writes asks them and prints what they say."""

import json

import pytest

from cortex.base.errors import InputError
from cortex.families.memory.background import remember
from cortex.families.memory.hook_inbox import HookNote
from families.team.commands.command_answers import answer, comment_draft, drafted, opened, refusal

pytestmark = pytest.mark.usefixtures("shop", "at_terminal")


@pytest.fixture
def thread(cortex):
    return answer(cortex, "team", "thread", "create", "Who are we?")["id"]


@pytest.fixture
def censored(cortex, thread, censor, monkeypatch):
    """A home in which a plugin judges every text."""
    monkeypatch.setenv("CORTEX_TEAM_PLUGINS", f'["git", "{censor}"]')
    return censor


def test_text_refused_by_a_plugin_is_written_by_no_command(cortex, thread, censored):
    before = answer(cortex, "team", "audit")
    for arguments in (
        ("team", "thread", "create", "forbidden"),
        ("team", "thread", "create", "T", "--tag", "forbidden"),
        ("team", "thread", "comment", thread, "It is forbidden."),
        ("team", "thread", "edit", thread, "--title", "forbidden"),
        ("team", "thread", "resolve", thread, "--resolution", "forbidden"),
        ("team", "task", "create", "T", "--body", "forbidden"),
        ("team", "artifact", "create", "T", "--evidence", "https://example.org/x =forbidden"),
        ("team", "subcortex", "create", "auth", "--name", "A", "--term", "Word: forbidden"),
        ("memory", "add", "forbidden"),
        ("memory", "add", "T", "--fact", "forbidden"),
    ):
        error = json.loads(cortex(*arguments, "--json")[1])["error"]
        assert (arguments, error["code"]) == (arguments, "SENSITIVE_BLOCKED")
        assert "the plugin censor refuses it: a forbidden word" in error["message"]
        assert "secret" not in " ".join(error["suggestions"])
    assert answer(cortex, "team", "audit") == before
    assert answer(cortex, "memory", "list")["total"] == 0


def test_text_redacted_by_a_plugin_is_never_stored(cortex, thread, censored):
    code, _, err = cortex("team", "thread", "comment", thread, "Zeus is our god.")
    assert (code, "note: plugin censor: a code name was left out" in err) == (0, True), err
    shown = answer(cortex, "team", "thread", "show", thread)
    assert shown["comments"][0]["body"] == "[redacted: code name] is our god."
    assert "Zeus" not in str(shown)
    (draft,) = drafted(comment_draft(thread, "Old Zeus spoke."))
    answer(cortex, "team", "drafts", "approve", draft, "--notes", "By Zeus!")
    entries = answer(cortex, "inbox", "--all")["entries"]
    assert [entry["type"] for entry in entries] == [
        "draft_approved"
    ] and "By [redacted: code name]!" in entries[0]["why"]
    added = answer(cortex, "memory", "add", "Zeus is Greek")["id"]
    assert answer(cortex, "memory", "show", added)["title"] == "[redacted: code name] is Greek"


def test_plugin_judges_notes_of_hooks(censored):
    with opened() as library:
        with pytest.raises(InputError) as refused:
            remember(library, HookNote("forbidden", text="x"))
        assert refused.value.code == "SENSITIVE_BLOCKED"
        assert not library.store.memories.by_key("")


def test_unusable_plugin_is_named_with_its_setting(cortex, thread, monkeypatch):
    monkeypatch.setenv("CORTEX_TEAM_PLUGINS", '["git", "nosuch"]')
    for arguments in (
        ("team", "thread", "comment", thread, "Hello."),
        ("memory", "add", "Lamps are off"),
    ):
        error = refusal(cortex, *arguments)
        assert error["code"] == "PLUGIN_UNUSABLE" and error["context"]["plugin"] == "nosuch"
        assert (
            "the plugin nosuch can't be used" in error["message"]
            and "nothing was written" in error["message"]
        )
        assert "team.plugins" in error["suggestions"][0] and "secret" not in error["suggestions"][0]
    assert answer(cortex, "team", "thread", "show", thread)["comments"] == []
