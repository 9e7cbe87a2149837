"""`cortex team context`: where contributions of a project are posted."""

import json

import pytest

from cortex.base.settings import environment, load
from cortex.families.team.writes.placement import route
from families.team.commands.command_answers import answer, opened, refusal

pytestmark = pytest.mark.usefixtures("shop", "at_terminal")


def test_context_of_a_project_is_set_shown_and_cleared(cortex, shop, thread):
    assert cortex("team", "context", "show")[2].startswith("This project says nothing")
    answer(cortex, "team", "subcortex", "create", "auth", "--name", "Who comes in")
    file = shop / ".cortex" / "config.json"
    file.parent.mkdir()
    file.write_text('{"auto_observations": true}\n', encoding="utf-8")
    said = answer(cortex, "team", "context", "set", "--subcortex", "auth", "--thread", thread[:20])
    assert said["context"] == {"subcortex": "auth", "thread": thread, "task": ""}
    assert said["route"]["thread"] == thread
    assert json.loads(file.read_text(encoding="utf-8")) == {
        "auto_observations": True,
        "default_subcortex_slug": "auth",
        "default_thread_id": thread,
    }
    with opened() as library:
        where = route(library.store.records, load(shop, environment=environment()).families)
    assert where.thread == thread
    _, out, _ = cortex("team", "context", "show")
    assert f"Thread:     {thread}: How long do tokens live?" in out
    assert "default_thread_id" in out
    cleared = answer(cortex, "team", "context", "clear", "--thread")
    assert cleared["context"] == {"subcortex": "auth", "thread": "", "task": ""}
    answer(cortex, "team", "context", "clear")
    assert json.loads(file.read_text(encoding="utf-8")) == {"auto_observations": True}


def test_closed_task_of_a_project_is_ignored_with_a_warning(cortex, shop):
    task = answer(cortex, "team", "task", "create", "Renew keys")["id"]
    answer(cortex, "team", "context", "set", "--task", task)
    answer(cortex, "team", "task", "update", task, "--state", "done")
    assert answer(cortex, "team", "context", "show")["route"]["task"] == ""
    assert "is done" in cortex("team", "context", "show")[2]
    assert refusal(cortex, "team", "context", "set", "--task", task)["code"] == "TARGET_NOT_FOUND"


def test_project_file_without_json_is_kept(cortex, shop, thread):
    file = shop / ".cortex" / "config.json"
    file.parent.mkdir()
    file.write_text("{broken", encoding="utf-8")
    assert refusal(cortex, "team", "context", "set", "--thread", thread)["code"] == "CONFIG_INVALID"
    assert file.read_text(encoding="utf-8") == "{broken"


def test_context_prints_each_settings_warning_once(cortex, shop, isolated):
    auth = answer(cortex, "team", "subcortex", "create", "auth", "--name", "Who comes in")["id"]
    for place in (isolated.cortex, shop / ".cortex"):
        place.mkdir(parents=True, exist_ok=True)
        (place / "config.yml").write_text(f"unheard_of_{len(str(place))}: 1\n", encoding="utf-8")
    for command in (("set", "--subcortex", "auth"), ("show",), ("clear",)):
        lines = cortex("team", "context", *command)[2].splitlines()
        assert (
            sum("unheard_of" in line for line in lines)
            == len({line for line in lines if "unheard_of" in line})
            == 2
        )
    cortex("team", "context", "set", "--subcortex", "auth")
    assert f"auth ({auth}: " in cortex("team", "context", "show")[1]
