"""Enabled plugins: their sections, verdicts and observations, and failures that cost only those."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from cortex.plugins import Line, Plugins, Section, Subject, enabled_by
from plugins.plugin_site import about, children, opened

pytestmark = pytest.mark.usefixtures("plugin_site")


# -- what works
# ------------------------------------------------------------------------------------------------------------


def test_plugin_adds_sections_that_carry_its_name(tmp_path: Path) -> None:
    with opened(root=tmp_path, good={"word": "about"}) as plugins:
        subject = Subject(
            "code", "thread_1", "locks", "a.py", "lock", str(tmp_path / "repository"), (3, 9)
        )
        sections, warnings = plugins.enrich(subject, [Section("First", (Line("x"),))])
        assert warnings == []
        assert sections == [
            Section("Mine", (Line("about locks, call 1", "thread_1"),), "good"),
            Section(
                "Root", (Line(f"{tmp_path} {tmp_path / 'repository'} (3, 9) after First"),), "good"
            ),
        ]
        again, _ = plugins.enrich(subject)
        assert again[0].lines[0].text == "about locks, call 2"  # the process is kept


def test_plugin_redacts_and_vetoes_texts_before_they_are_written() -> None:
    with opened(good={"word": ""}) as plugins:
        fine = plugins.preflight("Zeus meets ZeuZeus")
        assert (fine.allowed, fine.text) == (
            True,
            "[redacted: code name] meets Zeu[redacted: code name]",
        )
        assert fine.warnings == ("plugin good: read it",)
        refused = plugins.preflight("a forbidden text")
        assert not refused.allowed
        assert refused.reason == "the plugin good refuses it: a forbidden word"
        assert plugins.preflight("\ud800 \x00 é\n").text == "\ud800 \x00 é\n"


def test_plugin_adds_observations_at_start_and_stop(tmp_path: Path) -> None:
    with opened(root=tmp_path, good={"word": ""}) as plugins:
        ((started,), _) = plugins.start()
        assert (started.title, started.tags, started.plugin) == ("Started", ("ci",), "good")
        assert started.summary == f"in {tmp_path}"
        assert plugins.periodic() == ([], [])
        ((stopped,), warnings) = plugins.stop()
        assert (stopped.title, stopped.summary, warnings) == ("Stopped", "plain JSON", [])


def test_plugin_without_permissions_is_not_called_and_sees_no_path(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with opened(root=tmp_path, modest={"log": str(log)}) as plugins:
        assert plugins.start() == ([], [])
        assert plugins.preflight("x").allowed
        sections, _ = plugins.enrich(Subject("code", path="a.py", repo_root=str(tmp_path)))
        assert sections[0].lines[0].text == "root None, repository ''"
    assert not log.exists()


def test_plugin_works_without_our_base_class_and_with_a_single_hook() -> None:
    with opened(plain={}) as plugins:
        ((section,), warnings) = plugins.enrich(about("x"))
        assert section.lines == (Line("a text"), Line("with an id", "obs_1"))
        assert (plugins.start(), plugins.preflight("x").allowed, warnings) == (([], []), True, [])


def test_plugins_not_named_in_the_settings_do_not_run() -> None:
    with opened() as plugins:
        assert (plugins.names(), plugins.enrich(about("x")), plugins.preflight("x").allowed) == (
            (),
            ([], []),
            True,
        )
        assert children() == []


def test_settings_select_plugins_their_order_and_their_configuration() -> None:
    assert enabled_by(("git",)) == {"git": {}}
    configuration = {
        "b": {"word": "x", "enabled": True},
        "a": {"enabled": False, "word": "y"},
        "git": {"commits": 2},
        "d": 5,
    }
    assert list(enabled_by(("d", "git", "a", "b", "c"), configuration).items()) == [
        ("d", 5),
        ("git", {"commits": 2}),
        ("b", {"word": "x"}),
        ("c", {}),
    ]
    assert enabled_by(("a",), "nonsense") == {"a": {}}
    with Plugins(enabled_by(("git", "good"))) as plugins:
        assert plugins.names() == ("git", "good")


# -- unusable plugins
# ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "config", "why"),
    [
        (
            "missing",
            {},
            "it isn't installed; installed: broken, good, greedy, misnamed, modest, plain, unbuilt, wrong",
        ),
        ("broken", {}, "ModuleNotFoundError: No module named 'no_such_module'"),
        ("misnamed", {}, "it calls itself 'another'; `name` must be the name of its entry point"),
        ("greedy", {}, "permission 'everything' is none of context, preflight, observe, files"),
        ("unbuilt", {}, "OSError: no licence"),
        ("good", {}, "its settings don't fit: the settings: 'word' is a required property"),
        ("good", 5, "its settings don't fit: 5 is no object"),
        ("good", {"word": 5}, "its settings don't fit: word: 5 is not of type 'string'"),
        (
            "good",
            {"word": "", "wrod": ""},
            "its settings don't fit: the settings: Additional properties are not allowed ('wrod' was unexpected)",
        ),
    ],
)
def test_unusable_plugin_gives_its_reason_at_once_and_is_not_retried(
    name: str, config: object, why: str
) -> None:
    with opened(**{name: config}) as plugins:
        assert plugins.enrich(about("x")) == ([], [f"plugin {name}: {why}"])
        assert children() == []
        assert plugins.start() == ([], [f"plugin {name}: {why}"])
        assert plugins.standing()[0].resting == why


def test_write_is_refused_when_a_plugin_cannot_be_loaded() -> None:
    with opened(missing={}) as plugins:
        screening = plugins.preflight("x")
        assert not screening.allowed
        assert "missing can't be used" in screening.reason and screening.unusable == "missing"


# -- what goes wrong
# -------------------------------------------------------------------------------------------------------

FAILURES = {
    "raise": "LookupError: no such thing",
    "exit": "its process ended",
    "leave": "its process ended",
    "flood": "it answered with more than 65,536 bytes",
    "garble": "its answer isn't JSON",
    "nest": "its answer isn't JSON",
    "swell": "ValueError: an answer of 70,0",
    "mistake": "a wrong answer: `title` of section 1 is of type int where a text is expected",
    "speak": "a wrong answer: the answer is of type str where a list is expected",
    "object": "TypeError: object can't be said in JSON",
    "number": "a wrong answer: a line of section 1 is of type int where an object is expected",
}
if sys.platform != "win32":
    FAILURES["crash"] = "its process ended"
if sys.platform == "linux":
    FAILURES["eat"] = "MemoryError: "


def test_failing_plugin_loses_only_its_own_answer(tmp_path: Path) -> None:
    with opened(wrong={"log": str(tmp_path / "log")}, plain={}) as plugins:
        for act, why in FAILURES.items():
            sections, (warning,) = plugins.enrich(about(act))
            assert [section.title for section in sections] == ["Plain"]
            assert warning.startswith(f"plugin wrong: {why}"), act
            assert plugins.enrich(about("well"))[1] == []


def test_plugin_that_fails_at_an_event_adds_no_observation() -> None:
    with opened(wrong={"act": "mistake"}, good={"word": ""}) as plugins:
        observations, (warning,) = plugins.periodic()
        assert observations == []
        assert warning.startswith("plugin wrong: a wrong answer: ")


def test_text_that_a_policy_plugin_fails_to_judge_is_refused(tmp_path: Path) -> None:
    with opened(wrong={"log": str(tmp_path / "log")}) as plugins:
        for act in ("raise", "exit", "garble", "maybe", "overreach", "speak", "well"):
            screening = plugins.preflight(act)
            assert not screening.allowed
            assert screening.reason.startswith("the plugin wrong can't be used ("), act
            assert "rests" not in screening.reason
            assert plugins.preflight("approve").allowed


def test_plugin_that_fails_three_times_in_a_row_is_disabled() -> None:
    with opened(wrong={}) as plugins:
        for act in ("exit", "raise", "well", "exit", "raise", "mistake"):
            assert "rests" not in str(plugins.enrich(about(act)))
        assert plugins.standing()[0].resting
        _, (warning,) = plugins.enrich(about("well"))
        assert warning.startswith(
            "plugin wrong: it failed 3 times in a row and rests until Cortex is restarted; last: a wrong"
        )
        assert "rests until" in plugins.preflight("well").reason
    with opened(wrong={}) as plugins:
        assert plugins.enrich(about("well")) == ([], [])
