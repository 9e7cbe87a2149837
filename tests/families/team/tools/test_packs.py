"""Pack tools: bootstrap packs, context packs, code context, and their budgets."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cortex.base.actors import person
from cortex.base.record_model import (
    Artifact,
    Comment,
    Evidence,
    Link,
    Observation,
    Subcortex,
    Task,
    Term,
    Thread,
)
from cortex.base.text import TOKEN_CHARACTERS
from cortex.engine.library import Library
from cortex.engine.store import RecordTransaction
from cortex.families.team.writes.create import add_body, create
from cortex.families.team.writes.update import revise_in
from families.team.tools.conftest import (
    CODE,
    ToolCaller,
    World,
    ids_of,
    in_one_step,
    make_world,
    open_caller,
    steady,
)
from protocol.golden import check_golden

# -- bootstrap packs
# --------------------------------------------------------------------------------------------------


def test_bootstrap_pack_has_rules_subcortexes_pins_terms_and_priorities(caller, world):
    answer = caller.ask("get_bootstrap_pack")
    check_golden("team-answer-bootstrap", steady(answer))
    data = answer["data"]
    assert (
        [row["slug"] for row in data["subcortexes"]] == ["auth"]
        and data["glossary"]
        and data["naming"]
    )
    assert ids_of(data["pinned"]) == [world.ids["adr"], world.ids["thread"]]
    assert ids_of(data["priorities"]) == [world.ids["task"]] and ids_of(data["incidents"]) == [
        world.ids["incident"]
    ]
    assert any("cortex team context set" in warning for warning in data["warnings"])
    assert not answer["meta"]["truncated"]


def test_scope_narrows_the_bootstrap_pack_and_an_unknown_one_is_an_error(caller):
    assert caller.data("get_bootstrap_pack", scope="subcortex:auth")["subcortexes"][0][
        "charter"
    ].startswith("How people")
    assert caller.data("get_bootstrap_pack", scope="global")["scope"] == "global"
    assert (
        caller.fault("get_bootstrap_pack", scope="subcortex:nothing")["code"] == "SCOPE_NOT_FOUND"
    )
    assert caller.fault("get_bootstrap_pack", scope="everything")["code"] == "VALIDATION_ERROR"


def test_bootstrap_pack_of_an_empty_store_says_how_to_start(
    tmp_path, strangers_environment, caller_of
):
    world = World(tmp_path)
    (world.repository / "src").mkdir(parents=True)
    data = caller_of(world).data("get_bootstrap_pack")
    assert data["rules"] and any(
        "cortex team subcortex create" in warning for warning in data["warnings"]
    )
    assert caller_of(world).data("get_inbox") == {"note": "nothing waits"}
    with Library(world.settings()) as library:
        decided = Evidence("url", "https://example.com")
        create(
            library,
            Artifact("Use WAL", "So.", state="accepted", evidence=(decided,)),
            actor=person(),
        )
    (row,) = caller_of(world).data("get_bootstrap_pack")["accepted"]
    assert row["title"] == "Use WAL" and row["why"].startswith("not pinned")


# -- context packs
# -------------------------------------------------------------------------------------------------


def test_context_pack_of_a_task_has_its_thread_and_decisions(caller, world):
    answer = caller.ask("get_context_pack", subject={"task_id": world.ids["task"]})
    check_golden("team-answer-context-task", steady(answer))
    data = answer["data"]
    assert data["id"] == world.ids["task"] and data["thread"][0]["id"] == world.ids["thread"]
    assert "15 minutes" in data["thread"][0]["summary"] and data["comments"]
    assert world.ids["adr"] in ids_of(data["canon_artifacts"]) and world.ids["result"] in ids_of(
        data["recent_observations"]
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
def test_context_pack_is_about_the_named_record(caller, world, name, kind):
    assert caller.data("get_context_pack", subject={kind: world.ids[name]})["id"] == world.ids[name]


def test_context_pack_accepts_the_slug_of_a_subcortex(caller, world):
    data = caller.data("get_context_pack", subject={"subcortex_slug": "auth"})
    assert (
        data["slug"] == "auth" and "How people log in" in data["text"] and data["canon_artifacts"]
    )


@pytest.mark.parametrize(
    "slot", ["canon_artifacts", "recent_threads", "recent_observations", "in_progress_tasks"]
)
def test_excluded_slot_is_left_out(caller, slot):
    whole = caller.data("get_context_pack", subject={"subcortex_slug": "auth"})
    less = caller.data(
        "get_context_pack", subject={"subcortex_slug": "auth"}, include={slot: False}
    )
    assert slot in whole and slot not in less


@pytest.mark.parametrize(
    "subject",
    [{}, {"thread_id": "a", "task_id": "b"}, {"thread_id": "  "}, {"code_link": {"path": ""}}],
)
def test_context_pack_refuses_several_subjects(caller, subject):
    assert caller.fault("get_context_pack", subject=subject)["code"] == "VALIDATION_ERROR"


def test_context_pack_of_an_unknown_record_is_not_found(caller):
    for subject in (
        {"thread_id": "thread_x"},
        {"subcortex_slug": "nothing"},
        {"ref": "memories:x"},
        {"ref": "documents:x"},
    ):
        assert caller.fault("get_context_pack", subject=subject)["code"] == "NOT_FOUND"


# -- hits
# -----------------------------------------------------------------------------------------------


def test_search_hit_opens_by_its_ref(caller, world):
    found = caller.data("get_context_pack", subject=CODE)
    for name, words in (("memories", "It ends the session"), ("documents", "A session lives")):
        data = caller.data("get_context_pack", subject={"ref": f"{name}:{found[name][0]['id']}"})
        assert words in data["text"] and data["title"]
    data = caller.data("get_context_pack", subject={"ref": world.ids["comment0"]})
    assert data["text"].startswith("We decided") and data["thread"] == world.ids["thread"]


# -- budgets
# -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def crowd(tmp_path_factory, strangers_environment):
    """A store with texts of maximum length, full of characters that JSON escapes."""
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
    caller = open_caller(world)
    yield world, caller
    caller.family.close()


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
def test_every_answer_keeps_to_its_budget_and_states_its_cost(crowd, called, budget, characters):
    world, caller = crowd
    name, arguments = called
    asked = {"max_chars": budget * TOKEN_CHARACTERS + 3} if characters else {"budget": budget}
    answer = caller.answer(name, **named(world, arguments), **asked)
    assert not answer.failed, answer.text
    envelope = json.loads(answer.text)
    assert len(answer.text) <= budget * TOKEN_CHARACTERS
    assert envelope["meta"]["budget_used"] == -(-len(answer.text) // TOKEN_CHARACTERS)
    if "more" in envelope["data"] or "next_cursor" in envelope["data"]:
        assert envelope["meta"]["next_recommended_call"]


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
    caller = open_caller(world)
    yield world, caller
    caller.family.close()


@settings(max_examples=20)  # each writes
@given(st.data(), st.lists(BODIES, max_size=4), st.integers(200, 3_000))
def test_answers_keep_to_their_budget_with_any_records(growing, data, bodies, budget):
    world, caller = growing

    def work(step: RecordTransaction) -> None:
        for body in bodies:
            record = add_body(step, replace(body, subcortex=world.ids["auth"]))
            if isinstance(body, Thread):
                add_body(step, Comment(record.id, body.body or "x"))
            world.ids[f"last_{record.kind}"] = record.id

    with caller.family.context.writing() as library:
        in_one_step(library, work)
    kind = data.draw(
        st.sampled_from([name for name in world.ids if name.startswith("last_")] or ["thread"])
    )
    subject = {"ref": world.ids[kind]}
    calls = [*CALLS[:1], *CALLS[9:], ("get_context_pack", {"subject": subject})]
    name, arguments = data.draw(st.sampled_from(calls))
    answer = caller.answer(name, **arguments, budget=budget)
    assert not answer.failed, answer.text
    assert len(answer.text) <= budget * TOKEN_CHARACTERS
    assert json.loads(answer.text)["meta"]["budget_used"] == -(
        -len(answer.text) // TOKEN_CHARACTERS
    )


def test_small_pack_has_an_entry_of_every_slot(crowd):
    _, caller = crowd
    envelope = caller.ask("get_bootstrap_pack", budget=1_000)
    slots = {"rules", "incidents", "priorities", "pinned", "subcortexes", "glossary", "naming"}
    assert envelope["meta"]["truncated"] and slots - set(envelope["data"]) == set()


def test_default_answers_are_small(caller: ToolCaller, world: World):
    costs = {
        name: caller.ask(name, **arguments)["meta"]["budget_used"]
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


def test_draft_and_link_name_their_records(tmp_path, strangers_environment):
    world = make_world(tmp_path)

    def work(step: RecordTransaction) -> None:
        ends = [
            add_body(step, Artifact(f"The timeout is {number} seconds", "So be it.")).id
            for number in (10, 30)
        ]
        world.ids["link"] = add_body(step, Link(ends[0], "contradicts", ends[1], "10 or 30")).id

    with Library(world.settings()) as library:
        in_one_step(library, work)
    caller = open_caller(world)
    made = caller.data(
        "update_task", idempotency_key="said-of-it", task_id=world.ids["task"], status="blocked"
    )
    data = caller.data("get_context_pack", subject={"ref": made["draft_id"]})
    assert (data["target"], data["changes"]) == (world.ids["task"], ["state: blocked"])
    data = caller.data("get_context_pack", subject={"ref": world.ids["link"]})
    assert [row["title"] for row in data["linked"]] == [
        "The timeout is 10 seconds",
        "The timeout is 30 seconds",
    ]
    assert data["text"] == "10 or 30"
    assert caller.data("search", query="zzzz qqqq xxxx")["note"] == "nothing found"
    assert (
        "say a status"
        in caller.fault("update_task", idempotency_key="none", task_id=world.ids["task"])["message"]
    )
    caller.family.close()


def test_bootstrap_pack_of_an_empty_home_quotes_the_projects_own_files(tmp_path, caller_of):
    world = World(tmp_path)
    world.repository.mkdir(parents=True)
    (world.repository / "README.md").write_text("# Shop\n\nSells lamps.\n", encoding="utf-8")
    plain, cold = (
        caller_of(world, keep=True),
        caller_of(world, keep=True, **{"team.plugins": ["git", "coldstart"]}),
    )
    assert "sections" not in plain.data("get_bootstrap_pack")
    (section,) = cold.data("get_bootstrap_pack")["sections"]
    assert section == {
        "title": "What the README says",
        "plugin": "coldstart",
        "lines": ["Shop", "Sells lamps."],
    }
    with Library(world.settings()) as library:
        create(library, Subcortex("auth", "Who comes in"), actor=person())
    assert "sections" not in cold.data("get_bootstrap_pack")
