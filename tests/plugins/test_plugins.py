"""Plugins of strangers: asked, believed in what they may do, and survived in whatever they do
wrong.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from cortex.plugins import Line, Plugins, ProcessLimits, Section, Subject, enabled_by
from cortex.plugins.configuration import misfit
from cortex.plugins.results import LINES, OBSERVATIONS, SECTIONS, observations_of, sections_of

# A busy machine must not look like a plugin that hangs
PATIENT = ProcessLimits(answer_seconds=30, event_seconds=30, start_seconds=30)
HASTY = ProcessLimits(answer_seconds=0.3, event_seconds=0.3, start_seconds=30)
ENTRIES = {
    "good": "strange_plugins:Good",
    "modest": "strange_plugins:Modest",
    "plain": "strange_plugins:Plain",
    "wrong": "strange_plugins:Wrong",
    "misnamed": "strange_plugins:Misnamed",
    "greedy": "strange_plugins:Greedy",
    "unbuilt": "strange_plugins:Unbuilt",
    "broken": "no_such_module:Plugin",
}


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which a package with plugins is installed."""
    folder = tmp_path_factory.mktemp("site")
    source = Path(__file__).with_name("strange_plugins.py")
    (folder / source.name).write_bytes(source.read_bytes())
    about = folder / "strange_plugins-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: strange-plugins\nVersion: 1.0\n", encoding="utf-8"
    )
    entries = "".join(f"{name} = {target}\n" for name, target in ENTRIES.items())
    (about / "entry_points.txt").write_text(f"[cortex.plugins]\n{entries}", encoding="utf-8")
    return folder


@pytest.fixture(autouse=True)
def path(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(installed))


def opened(limits: ProcessLimits = PATIENT, root: Path | None = None, **enabled: object) -> Plugins:
    return Plugins(enabled, root, limits)


def children() -> list[psutil.Process]:
    found = []
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if "cortex.plugins.child_process" in child.cmdline():
                found.append(child)
    return found


def about(what: str) -> Subject:
    return Subject("thread", title=what)


def lines(text: Path) -> list[str]:
    return text.read_text(encoding="utf-8").split() if text.exists() else []


# -- what works
# ------------------------------------------------------------------------------------------------------------


def test_a_plugin_adds_sections_that_carry_its_name(tmp_path: Path) -> None:
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


def test_a_plugin_redacts_and_vetoes_what_is_written() -> None:
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


def test_a_plugin_brings_observations_at_start_and_stop(tmp_path: Path) -> None:
    with opened(root=tmp_path, good={"word": ""}) as plugins:
        ((started,), _) = plugins.start()
        assert (started.title, started.tags, started.plugin) == ("Started", ("ci",), "good")
        assert started.summary == f"in {tmp_path}"
        assert plugins.periodic() == ([], [])
        ((stopped,), warnings) = plugins.stop()
        assert (stopped.title, stopped.summary, warnings) == ("Stopped", "told as plain JSON", [])


def test_what_a_plugin_may_not_do_is_never_asked_of_it_and_what_it_may_not_see_is_not_told(
    tmp_path: Path,
) -> None:
    log = tmp_path / "log"
    with opened(root=tmp_path, modest={"log": str(log)}) as plugins:
        assert plugins.start() == ([], [])
        assert plugins.preflight("x").allowed
        sections, _ = plugins.enrich(Subject("code", path="a.py", repo_root=str(tmp_path)))
        assert sections[0].lines[0].text == "root None, repository ''"
    assert not log.exists()


def test_a_plugin_needs_no_class_of_ours_and_no_hook_that_it_does_not_use() -> None:
    with opened(plain={}) as plugins:
        ((section,), warnings) = plugins.enrich(about("x"))
        assert section.lines == (Line("a text"), Line("with an id", "obs_1"))
        assert (plugins.start(), plugins.preflight("x").allowed, warnings) == (([], []), True, [])


def test_nothing_runs_that_the_settings_do_not_name() -> None:
    with opened() as plugins:
        assert (plugins.names(), plugins.enrich(about("x")), plugins.preflight("x").allowed) == (
            (),
            ([], []),
            True,
        )
        assert children() == []


def test_the_settings_say_which_plugins_are_on_in_which_order_and_what_they_are_told() -> None:
    assert enabled_by(("git",)) == {"git": {}}
    told = {
        "b": {"word": "x", "enabled": True},
        "a": {"enabled": False, "word": "y"},
        "git": {"commits": 2},
        "d": 5,
    }
    assert list(enabled_by(("d", "git", "a", "b", "c"), told).items()) == [
        ("d", 5),
        ("git", {"commits": 2}),
        ("b", {"word": "x"}),
        ("c", {}),
    ]
    assert enabled_by(("a",), "nonsense") == {"a": {}}
    with Plugins(enabled_by(("git", "good"))) as plugins:
        assert plugins.names() == ("git", "good")


def test_a_plugin_is_started_when_it_is_first_used_and_its_standing_is_known_then() -> None:
    with opened(good={"word": ""}) as plugins:
        assert children() == []
        assert [(one.name, one.category) for one in plugins.standing()] == [("good", "")]
        plugins.preflight("x")
        (standing,) = plugins.standing()
        assert (standing.category, standing.permissions) == (
            "ingestion",
            ("context", "files", "observe", "preflight"),
        )
        assert len(children()) == 1
    assert children() == []


def test_a_plugin_that_is_idle_is_ended_and_started_again_when_it_is_used(
    until: Callable[..., float],
) -> None:
    with opened(ProcessLimits(idle_seconds=0.2), good={"word": ""}) as plugins:
        plugins.preflight("x")
        until(lambda: children() == [])
        assert plugins.enrich(about("x"))[0][0].lines[0].text.endswith("call 1")


@pytest.mark.skipif(
    not hasattr(os, "waitid"),
    reason="there is no way to know that it ended without taking note of it",
)
def test_a_process_that_ended_while_nobody_asked_is_started_again_and_nobody_notices(
    until: Callable[..., float],
) -> None:
    with opened(good={"word": ""}) as plugins:
        assert plugins.preflight("x").allowed
        (child,) = children()
        child.kill()
        # With all its threads
        until(lambda: os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT))
        assert plugins.preflight("x").allowed
        assert plugins.enrich(about("x"))[1] == []


# -- what can't be used
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
def test_a_plugin_that_can_not_be_used_says_why_at_once_and_is_not_tried_again(
    name: str, config: object, why: str
) -> None:
    with opened(**{name: config}) as plugins:
        assert plugins.enrich(about("x")) == ([], [f"plugin {name}: {why}"])
        assert children() == []
        assert plugins.start() == ([], [f"plugin {name}: {why}"])
        assert plugins.standing()[0].resting == why


def test_nothing_is_written_while_it_is_unknown_whether_a_plugin_has_a_say() -> None:
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


def test_whatever_a_plugin_does_wrong_costs_its_own_answer_only(tmp_path: Path) -> None:
    with opened(wrong={"log": str(tmp_path / "log")}, plain={}) as plugins:
        for act, why in FAILURES.items():
            sections, (warning,) = plugins.enrich(about(act))
            assert [section.title for section in sections] == ["Plain"]
            assert warning.startswith(f"plugin wrong: {why}"), act
            assert plugins.enrich(about("well"))[1] == []


@pytest.mark.parametrize("act", ["hang", "hold"])
def test_a_plugin_that_does_not_answer_in_time_is_ended(act: str, tmp_path: Path) -> None:
    if act == "hold" and sys.platform == "win32":
        pytest.skip("there is no such function in the process there")
    with opened(HASTY, wrong={"log": str(tmp_path / "log"), "act": act}) as plugins:
        late = "plugin wrong: it took longer than 0.3 s"
        assert plugins.enrich(about(act)) == ([], [late])
        assert children() == []
        assert plugins.periodic() == ([], [late])
        assert "it took longer than 0.3 s" in plugins.preflight(act).reason


def test_a_plugin_that_fails_at_an_event_brings_nothing() -> None:
    with opened(wrong={"act": "mistake"}, good={"word": ""}) as plugins:
        observations, (warning,) = plugins.periodic()
        assert observations == []
        assert warning.startswith("plugin wrong: a wrong answer: ")


def test_what_a_policy_can_not_judge_is_not_written(tmp_path: Path) -> None:
    with opened(wrong={"log": str(tmp_path / "log")}) as plugins:
        for act in ("raise", "exit", "garble", "maybe", "overreach", "speak", "well"):
            screening = plugins.preflight(act)
            assert not screening.allowed
            assert screening.reason.startswith("the plugin wrong can't be used ("), act
            assert "rests" not in screening.reason
            assert plugins.preflight("approve").allowed


def test_a_plugin_that_fails_three_times_in_a_row_rests() -> None:
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


@pytest.mark.skipif(sys.platform == "win32", reason="there are no groups of processes there")
def test_what_a_plugin_started_ends_with_it(tmp_path: Path, until: Callable[..., float]) -> None:
    log = tmp_path / "log"
    with opened(wrong={"log": str(log)}) as plugins:
        assert len(plugins.enrich(about("start"))[1]) == 1
        (pid,) = map(int, lines(log))
        until(lambda: gone(pid))


def test_many_may_ask_at_once() -> None:
    answers: list[str] = []
    with opened(good={"word": "x"}) as plugins:

        def ask(number: int) -> None:
            (section, *_), _ = plugins.enrich(about(str(number)))
            answers.append(section.lines[0].text.partition(",")[0])

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        assert len(children()) == 1
    assert sorted(answers) == sorted(f"x {number}" for number in range(20))


def test_closing_ends_a_call_under_way(tmp_path: Path, until: Callable[..., float]) -> None:
    log = tmp_path / "log"
    answers: list[object] = []
    plugins = opened(ProcessLimits(answer_seconds=60), wrong={"log": str(log)})
    asking = threading.Thread(target=lambda: answers.append(plugins.enrich(about("hang"))))
    asking.start()
    until(lambda: lines(log))
    started = time.monotonic()
    plugins.close()
    asking.join(10)
    assert time.monotonic() - started < 5
    assert answers == [([], ["plugin wrong: its process ended"])]
    assert children() == []
    assert plugins.enrich(about("well")) == ([], ["plugin wrong: Cortex is ending"])


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL there")
@pytest.mark.parametrize("act", ["well", "hang", "hold"])
def test_no_process_is_left_when_cortex_is_killed(
    act: str, tmp_path: Path, until: Callable[..., float]
) -> None:
    log = tmp_path / "log"
    code = f"""
        import sys
        from cortex.plugins import Plugins, ProcessLimits, Subject
        own = {{"log": {str(log)!r}, "act": {act!r}}}
        plugins = Plugins({{"wrong": own}}, None, ProcessLimits(answer_seconds=30, event_seconds=1))
        print(plugins.enrich(Subject("thread", title="well")), flush=True)
        plugins.periodic()
        sys.stdin.read()
    """
    parent = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"([], [])\n"
        (child,) = psutil.Process(parent.pid).children()
        until(lambda: act == "well" or lines(log))
        os.kill(parent.pid, signal.SIGKILL)
    until(lambda: gone(child.pid), 10)


def gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@pytest.mark.parametrize(
    ("value", "schema", "said"),
    [
        ({}, {}, ""),
        ({}, True, ""),
        ({"a": "abc"}, {"properties": {"a": {"pattern": "^a", "minLength": 3}}}, ""),
        (
            {"a": [1, "b"]},
            {"properties": {"a": {"items": {"type": "integer"}}}},
            "a[1]: 'b' is not of type 'integer'",
        ),
        ({"a": "b"}, {"properties": {"a": {"pattern": "^a"}}}, "a: 'b' does not match '^a'"),
        ({"a": "b"}, {"properties": {"a": {"minLength": 2}}}, "a: 'b' is too short"),
        (
            {"a": 1},
            {"oneOf": [{"required": ["b"]}, {"required": ["c"]}]},
            "the settings: {'a': 1} is not valid under any",
        ),
        (
            {"a": 1},
            {"properties": {"a": {"$ref": "#/$defs/t"}}, "$defs": {"t": {"type": "string"}}},
            "a: 1 is not of type",
        ),
        (
            {"a": 1},
            {"properties": {"a": {"$ref": "#/$defs/nowhere"}}},
            "refers to what isn't in it",
        ),
        (
            {"a": 1},
            {"properties": {"a": {"type": "nonsense"}}},
            "its config_schema is no JSON schema",
        ),
        (
            {"a": 1},
            {"additionalProperties": False},
            "the settings: Additional properties are not allowed ('a'",
        ),
    ],
)
def test_settings_are_compared_with_the_schema(
    value: object, schema: dict[str, object] | bool, said: str
) -> None:
    found = misfit(value, schema)
    assert said in found and bool(found) == bool(said)


def test_a_schema_that_names_another_address_fetches_nothing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        address = f"http://127.0.0.1:{server.getsockname()[1]}/schema.json"
        assert address in misfit({"a": 1}, {"properties": {"a": {"$ref": address}}})
        with pytest.raises(BlockingIOError):  # nobody came
            server.accept()


def test_of_a_flood_the_beginning_counts() -> None:
    sections = sections_of(
        [{"title": str(number), "lines": ["x"] * 15_000} for number in range(100)], "flood"
    )
    assert [section.title for section in sections] == [str(number) for number in range(SECTIONS)]
    assert {len(one.lines) for one in sections} == {LINES}
    brought = observations_of(
        [{"title": str(number), "summary": ""} for number in range(1_000)], "flood"
    )
    assert [one.title for one in brought] == [str(number) for number in range(OBSERVATIONS)]
