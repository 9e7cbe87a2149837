"""Packs: what somebody new gets, what a subject gathers, and that no budget is exceeded whatever
there is.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import replace
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cortex.base.actors import person
from cortex.base.record_model import (
    SENSITIVE,
    Artifact,
    Comment,
    Evidence,
    Link,
    Observation,
    Record,
    Subcortex,
    Task,
    Term,
    Thread,
)
from cortex.base.text import TOKEN_CHARACTERS
from cortex.engine.library import Library
from cortex.engine.store import RecordTransaction
from cortex.families.team import context_pack
from cortex.families.team.tools.packs import plugin_view
from cortex.families.team.writes.create import add_body, create
from cortex.families.team.writes.update import revise_in
from families.team.tools.conftest import (
    TOKENS,
    Desk,
    World,
    git,
    in_one_step,
    make_world,
    open_desk,
    steady,
)
from protocol.golden import check_golden

CODE = {"code_link": {"path": "src/tokens.py", "symbol": "refresh_token"}}


def ids_of(rows: list[dict]) -> list[str]:
    return [row["id"] for row in rows]


# -- for somebody new
# --------------------------------------------------------------------------------------------------


def test_the_bootstrap_pack_has_rules_topics_pins_words_and_priorities(desk, world):
    answer = desk.ask("get_bootstrap_pack")
    check_golden("team-answer-bootstrap", steady(answer))
    told = answer["data"]
    assert (
        [row["slug"] for row in told["subcortexes"]] == ["auth"]
        and told["glossary"]
        and told["naming"]
    )
    assert ids_of(told["pinned"]) == [world.ids["adr"], world.ids["thread"]]
    assert ids_of(told["priorities"]) == [world.ids["task"]] and ids_of(told["incidents"]) == [
        world.ids["incident"]
    ]
    assert any("cortex team context set" in one for one in told["warnings"])
    assert not answer["meta"]["truncated"]


def test_a_scope_narrows_it_and_an_unknown_one_is_an_error(desk):
    assert desk.told("get_bootstrap_pack", scope="subcortex:auth")["subcortexes"][0][
        "charter"
    ].startswith("How people")
    assert desk.told("get_bootstrap_pack", scope="global")["scope"] == "global"
    assert desk.fault("get_bootstrap_pack", scope="subcortex:nothing")["code"] == "SCOPE_NOT_FOUND"
    assert desk.fault("get_bootstrap_pack", scope="everything")["code"] == "VALIDATION_ERROR"


def test_where_there_is_nothing_it_says_what_comes_first(tmp_path, strangers_environment, desk_of):
    world = World(tmp_path)
    (world.repository / "src").mkdir(parents=True)
    told = desk_of(world).told("get_bootstrap_pack")
    assert told["rules"] and any("cortex team subcortex create" in one for one in told["warnings"])
    assert desk_of(world).told("get_inbox") == {"note": "nothing waits"}
    with Library(world.settings()) as library:
        decided = Evidence("url", "https://example.com")
        create(
            library,
            Artifact("Use WAL", "So.", state="accepted", evidence=(decided,)),
            actor=person(),
        )
    (row,) = desk_of(world).told("get_bootstrap_pack")["accepted"]
    assert row["title"] == "Use WAL" and row["why"].startswith("not pinned")


# -- about one subject
# -------------------------------------------------------------------------------------------------


def test_a_pack_about_a_task_has_its_thread_and_what_was_decided(desk, world):
    answer = desk.ask("get_context_pack", subject={"task_id": world.ids["task"]})
    check_golden("team-answer-context-task", steady(answer))
    told = answer["data"]
    assert told["id"] == world.ids["task"] and told["thread"][0]["id"] == world.ids["thread"]
    assert "15 minutes" in told["thread"][0]["summary"] and told["comments"]
    assert world.ids["adr"] in ids_of(told["canon_artifacts"]) and world.ids["result"] in ids_of(
        told["recent_observations"]
    )


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("thread", "thread_id"),
        ("adr", "artifact_id"),
        ("task", "task_id"),
        ("result", "ref"),
        ("thread", "ref"),
    ],
)
def test_a_pack_is_about_what_is_named(desk, world, name, kind):
    assert desk.told("get_context_pack", subject={kind: world.ids[name]})["id"] == world.ids[name]


def test_a_topic_is_named_by_its_slug(desk, world):
    told = desk.told("get_context_pack", subject={"subcortex_slug": "auth"})
    assert (
        told["slug"] == "auth" and "How people log in" in told["text"] and told["canon_artifacts"]
    )


@pytest.mark.parametrize(
    "slot", ["canon_artifacts", "recent_threads", "recent_observations", "in_progress_tasks"]
)
def test_a_slot_that_nobody_wants_is_left_out(desk, slot):
    whole = desk.told("get_context_pack", subject={"subcortex_slug": "auth"})
    less = desk.told("get_context_pack", subject={"subcortex_slug": "auth"}, include={slot: False})
    assert slot in whole and slot not in less


@pytest.mark.parametrize(
    "subject",
    [{}, {"thread_id": "a", "task_id": "b"}, {"thread_id": "  "}, {"code_link": {"path": ""}}],
)
def test_a_subject_is_one_thing(desk, subject):
    assert desk.fault("get_context_pack", subject=subject)["code"] == "VALIDATION_ERROR"


def test_what_is_unknown_is_not_found(desk):
    for subject in (
        {"thread_id": "thread_x"},
        {"subcortex_slug": "nothing"},
        {"ref": "memories:x"},
        {"ref": "documents:x"},
    ):
        assert desk.fault("get_context_pack", subject=subject)["code"] == "NOT_FOUND"


# -- about code
# --------------------------------------------------------------------------------------------------------


def test_a_pack_about_code_joins_the_code_its_history_and_who_speaks_of_it(desk, world):
    answer = desk.ask("get_context_pack", subject=CODE)
    told = answer["data"]
    # What is alike is a matter of the ranking.
    check_golden(
        "team-answer-context-code",
        steady({key: rows for key, rows in told.items() if key != "related"}),
    )
    assert "def refresh_token" in told["code"][0]["code"] and told["code"][0]["lines"] == "6-8"
    assert told["callers"] == [
        {"path": "src/login.py:5", "in": "log_in", "text": "return refresh_token(user)"}
    ]
    assert "Tokens that are refreshed" in json.dumps(told["sections"])
    assert world.ids["adr"] in ids_of(told["canon_artifacts"]) and world.ids["result"] in ids_of(
        told["recent_observations"]
    )
    assert [row["title"] for row in told["memories"]] == ["refresh_token must not be called twice"]
    assert (
        "sessions.md" in told["documents"][0]["title"]
        and "fifteen minutes" in told["documents"][0]["text"]
    )
    assert "maybe_stale" not in json.dumps(told)


def test_code_is_named_by_its_symbol_alone_and_by_the_id_of_a_hit(desk):
    told = desk.told("get_context_pack", subject={"code_link": {"symbol": "refresh_token"}})
    assert (told["path"], told["symbol"], told["code"][0]["lines"]) == (
        "src/tokens.py",
        "refresh_token",
        "6-8",
    )
    unknown = desk.told("get_context_pack", subject={"code_link": {"symbol": "no_such_name"}})
    assert unknown["notes"] == ["no open project defines no_such_name"]
    (hit, *_) = desk.told("search", query="refresh_token", types=["code"])["results"]
    told = desk.told("get_context_pack", subject={"code_link": {"path": hit["id"]}})
    assert (told["path"], told["code"][0]["lines"]) == (hit["path"], hit["lines"])


def test_plugins_hear_nothing_that_is_sensitive():
    records = [
        Record("artifact_1", Artifact("Open")),
        Record("artifact_2", Artifact("Lena earns 90,000", sensitivity=SENSITIVE)),
    ]
    slot = context_pack.PackSlot(
        context_pack.CANON,
        tuple(context_pack.PackEntry(record, record.body.title) for record in records),
    )
    pack = context_pack.ContextPack(
        context_pack.PackSubject("task", "task_1"), None, None, (), (slot,)
    )
    assert [line.text for section in plugin_view(pack) for line in section.lines] == ["Open"]


def test_lines_and_whole_files_are_code_too(desk):
    told = desk.told(
        "get_context_pack",
        subject={"code_link": {"path": "src/tokens.py", "line_start": 3, "line_end": 3}},
    )
    assert told["code"][0]["code"] == "LIFETIME = 900"
    told = desk.told("get_context_pack", subject={"code_link": {"path": "src/tokens.py"}})
    assert any("refresh_token" in name for name in told["code"][0]["defines"])
    told = desk.told(
        "get_context_pack", subject={"code_link": {"path": "src/tokens.py", "symbol": "gone"}}
    )
    assert "there is no gone" in told["notes"][0]


@pytest.mark.parametrize(
    "path", ["../../home/cortex.db", "/etc/passwd", "src/../../../x", "C:\\x", "link.py"]
)
def test_nothing_outside_the_project_is_read(desk, world, path):
    link = world.repository / "link.py"
    if not link.is_symlink():
        secret = world.place / "secret.py"
        secret.write_text("SECRET = 1\n", encoding="utf-8")
        link.symlink_to(secret)
    answer = desk.answer("get_context_pack", subject={"code_link": {"path": path}})
    assert (
        "SECRET" not in answer.text and "SQLite" not in answer.text and "root:" not in answer.text
    )
    if path == "link.py":
        link.unlink()
    assert answer.failed and json.loads(answer.text)["error"]["code"] == "PERMISSION_DENIED"


def test_what_was_written_before_the_code_changed_may_be_stale(
    tmp_path, strangers_environment, desk_of
):
    world = make_world(tmp_path)
    changed = TOKENS.replace("{session}:{lifetime}", "{lifetime}/{session}")
    (world.repository / "src" / "tokens.py").write_text(changed, encoding="utf-8", newline="\n")
    git(world.repository, "commit", "-aqm", "Another form")
    desk = desk_of(world)
    told = desk.told("get_context_pack", subject=CODE)
    rows = {row["id"]: row for row in (*told["canon_artifacts"], *told["recent_observations"])}
    for name in ("adr", "result"):
        assert any(
            one.startswith("maybe_stale: the body of refresh_token")
            for one in rows[world.ids[name]]["warnings"]
        )
    (world.repository / "src" / "tokens.py").write_text(
        changed + "# more\n", encoding="utf-8", newline="\n"
    )
    later = time.time() + 3_600
    os.utime(world.repository / "src" / "tokens.py", (later, later))
    told = desk.told("get_context_pack", subject=CODE)
    assert told["memories"][0]["maybe_stale"] and told["documents"][0]["maybe_stale"]


def test_code_that_no_open_project_has_is_still_spoken_of(desk, world):
    told = desk.told(
        "get_context_pack", subject={"code_link": {"path": "src/tokens.py", "repo": "elsewhere"}}
    )
    assert told["notes"] and "code" not in told


# -- what a search found
# -----------------------------------------------------------------------------------------------


def test_what_a_search_found_opens_by_its_ref(desk, world):
    found = desk.told("get_context_pack", subject=CODE)
    for name, words in (("memories", "It ends the session"), ("documents", "A session lives")):
        told = desk.told("get_context_pack", subject={"ref": f"{name}:{found[name][0]['id']}"})
        assert words in told["text"] and told["title"]
    told = desk.told("get_context_pack", subject={"ref": world.ids["comment0"]})
    assert told["text"].startswith("We decided") and told["thread"] == world.ids["thread"]


# -- budgets
# -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def crowd(tmp_path_factory, strangers_environment):
    """A store in which everything is as long as it may be, and full of what JSON has to escape."""
    world = make_world(tmp_path_factory.mktemp("crowd"))
    nasty = ('"quoted" \\ path\tand\nlines 日本 😀 ' * 400)[:9_000]

    def work(step: RecordTransaction) -> None:
        for number in range(6):
            words = tuple(Term(f"t{n}", nasty[:900]) for n in range(9))
            scope = add_body(step, Subcortex(f"topic-{number}", "N" * 100, nasty[:1_999], nasty, glossary=words, naming=(nasty[:400],))).id  # fmt: skip
            thread = add_body(step, Thread("T" * 300, nasty, "incident", subcortex=scope, tags=tuple(f"tag{n}" for n in range(10)))).id  # fmt: skip
            add_body(step, Comment(thread, nasty))
            add_body(step, Observation("O" * 300, nasty, subcortex=scope, thread=thread))
            proof = tuple(Evidence("url", f"https://example.com/{n}", "n" * 200) for n in range(20))
            artifact = add_body(step, Artifact("A" * 300, nasty, nasty[:1_999], "adr", "accepted", review_by="2020-01-01", subcortex=scope, evidence=proof)).id  # fmt: skip
            task = add_body(step, Task("K" * 300, nasty, "in_progress", "urgent", ("agent",), thread=thread, subcortex=scope)).id  # fmt: skip
            pins = {
                "pinned_artifacts": (artifact,),
                "pinned_threads": (thread,),
                "pinned_tasks": (task,),
            }
            revise_in(step, scope, partial(replace, **pins), "edit_subcortex")
            world.ids |= {"big_thread": thread, "big_artifact": artifact, "big_task": task}

    with Library(world.settings()) as library:
        in_one_step(library, work)
    desk = open_desk(world)
    yield world, desk
    desk.family.close()


CALLS = (
    ("get_bootstrap_pack", {}),
    ("get_bootstrap_pack", {"scope": "subcortex:topic-3"}),
    ("get_context_pack", {"subject": {"task_id": "big_task"}}),
    ("get_context_pack", {"subject": {"thread_id": "big_thread"}}),
    ("get_context_pack", {"subject": {"artifact_id": "big_artifact"}}),
    ("get_context_pack", {"subject": {"subcortex_slug": "topic-5"}}),
    ("get_context_pack", {"subject": CODE}),
    ("get_thread", {"thread_id": "big_thread"}),
    ("get_artifact", {"artifact_id": "big_artifact"}),
    ("get_inbox", {"limit": 100}),
    ("search", {"query": "quoted path and lines", "limit": 50}),
)


def named(world: World, value: object) -> object:
    """Arguments with ids instead of names."""
    if isinstance(value, dict):
        return {name: named(world, part) for name, part in value.items()}
    return world.ids.get(value, value) if isinstance(value, str) else value


@given(st.sampled_from(CALLS), st.integers(200, 9_000), st.booleans())
def test_no_answer_costs_more_than_its_budget_and_each_says_what_it_cost(
    crowd, called, budget, characters
):
    world, desk = crowd
    name, arguments = called
    asked = {"max_chars": budget * TOKEN_CHARACTERS + 3} if characters else {"budget": budget}
    answer = desk.answer(name, **named(world, arguments), **asked)
    assert not answer.failed, answer.text
    told = json.loads(answer.text)
    assert len(answer.text) <= budget * TOKEN_CHARACTERS
    assert told["meta"]["budget_used"] == -(-len(answer.text) // TOKEN_CHARACTERS)
    if "more" in told["data"] or "next_cursor" in told["data"]:
        assert told["meta"]["next_recommended_call"]


def said(most: int) -> st.SearchStrategy[str]:
    part = st.sampled_from(["a", "lamp ", '"', "\\", "é", "日", "\n", "😀", "We decided it so. "])
    return st.builds(
        lambda one, times: f"x{one * times}"[:most], part, st.sampled_from([0, 1, 30, most])
    )


BODIES = st.one_of(
    st.builds(Thread, said(300), said(5_000), st.sampled_from(["incident", "decision"])),
    st.builds(Observation, said(300), said(5_000)),
    st.builds(Artifact, said(300), said(9_000), said(2_000), review_by=st.sampled_from(["", "2020-01-01"])),
    st.builds(Task, said(300), said(5_000), st.just("blocked"), st.sampled_from(["urgent", "low"]), st.just(("agent",)), blocked_reason=said(500)),
)  # fmt: skip


@pytest.fixture(scope="module")
def growing(tmp_path_factory, strangers_environment):
    world = make_world(tmp_path_factory.mktemp("growing"))
    desk = open_desk(world)
    yield world, desk
    desk.family.close()


@settings(max_examples=20)  # each writes
@given(st.data(), st.lists(BODIES, max_size=4), st.integers(200, 3_000))
def test_whatever_a_store_holds_no_answer_costs_more_than_its_budget(growing, data, bodies, budget):
    world, desk = growing

    def work(step: RecordTransaction) -> None:
        for body in bodies:
            record = add_body(step, replace(body, subcortex=world.ids["auth"]))
            if isinstance(body, Thread):
                add_body(step, Comment(record.id, body.body or "x"))
            world.ids[f"last_{record.kind}"] = record.id

    with desk.family.context.writing() as library:
        in_one_step(library, work)
    kind = data.draw(
        st.sampled_from([name for name in world.ids if name.startswith("last_")] or ["thread"])
    )
    subject = {"ref": world.ids[kind]}
    calls = [*CALLS[:1], *CALLS[9:], ("get_context_pack", {"subject": subject})]
    name, arguments = data.draw(st.sampled_from(calls))
    answer = desk.answer(name, **arguments, budget=budget)
    assert not answer.failed, answer.text
    assert len(answer.text) <= budget * TOKEN_CHARACTERS
    assert json.loads(answer.text)["meta"]["budget_used"] == -(
        -len(answer.text) // TOKEN_CHARACTERS
    )


def test_small_packs_still_have_something_of_everything(crowd):
    _, desk = crowd
    told = desk.ask("get_bootstrap_pack", budget=1_000)
    slots = {"rules", "incidents", "priorities", "pinned", "subcortexes", "glossary", "naming"}
    assert told["meta"]["truncated"] and slots - set(told["data"]) == set()


def test_default_answers_are_small(desk: Desk, world: World):
    costs = {
        name: desk.ask(name, **arguments)["meta"]["budget_used"]
        for name, arguments in (
            ("get_bootstrap_pack", {}),
            ("get_context_pack", {"subject": {"task_id": world.ids["task"]}}),
            ("get_thread", {"thread_id": world.ids["thread"]}),
            ("get_artifact", {"artifact_id": world.ids["adr"]}),
            ("get_inbox", {}),
        )
    }
    most = {
        "get_bootstrap_pack": 800,
        "get_context_pack": 700,
        "get_thread": 400,
        "get_artifact": 350,
        "get_inbox": 250,
    }
    assert {name: cost for name, cost in costs.items() if cost > most[name]} == {}


def test_a_draft_and_a_link_say_what_they_are_about(tmp_path, strangers_environment):
    world = make_world(tmp_path)

    def work(step: RecordTransaction) -> None:
        ends = [
            add_body(step, Artifact(f"The timeout is {number} seconds", "So be it.")).id
            for number in (10, 30)
        ]
        world.ids["link"] = add_body(step, Link(ends[0], "contradicts", ends[1], "10 or 30")).id

    with Library(world.settings()) as library:
        in_one_step(library, work)
    desk = open_desk(world)
    made = desk.told(
        "update_task", idempotency_key="said-of-it", task_id=world.ids["task"], status="blocked"
    )
    told = desk.told("get_context_pack", subject={"ref": made["draft_id"]})
    assert (told["target"], told["changes"]) == (world.ids["task"], ["state: blocked"])
    told = desk.told("get_context_pack", subject={"ref": world.ids["link"]})
    assert [one["title"] for one in told["linked"]] == [
        "The timeout is 10 seconds",
        "The timeout is 30 seconds",
    ]
    assert told["text"] == "10 or 30"
    assert desk.told("search", query="zzzz qqqq xxxx")["note"] == "nothing found"
    assert (
        "say a status"
        in desk.fault("update_task", idempotency_key="none", task_id=world.ids["task"])["message"]
    )
    desk.family.close()


def test_a_home_that_knows_nothing_begins_with_what_the_project_says_of_itself(tmp_path, desk_of):
    world = World(tmp_path)
    world.repository.mkdir(parents=True)
    (world.repository / "README.md").write_text("# Shop\n\nSells lamps.\n", encoding="utf-8")
    plain, cold = (
        desk_of(world, keep=True),
        desk_of(world, keep=True, **{"team.plugins": ["git", "coldstart"]}),
    )
    assert "sections" not in plain.told("get_bootstrap_pack")
    (section,) = cold.told("get_bootstrap_pack")["sections"]
    assert section == {
        "title": "What the README says",
        "plugin": "coldstart",
        "lines": ["Shop", "Sells lamps."],
    }
    with Library(world.settings()) as library:
        create(library, Subcortex("auth", "Who comes in"), actor=person())
    assert "sections" not in cold.told("get_bootstrap_pack")
