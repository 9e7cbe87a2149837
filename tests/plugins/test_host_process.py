"""Processes of plugins: started, limited, restarted and ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from cortex.plugins import ProcessLimits
from plugins.plugin_site import HASTY, about, children, lines, opened

pytestmark = pytest.mark.usefixtures("plugin_site")


def test_plugin_process_starts_at_first_use_and_its_standing_is_known_then() -> None:
    with opened(good={"word": ""}) as plugins:
        assert children() == []
        assert [(state.name, state.category) for state in plugins.standing()] == [("good", "")]
        plugins.preflight("x")
        (standing,) = plugins.standing()
        assert (standing.category, standing.permissions) == (
            "ingestion",
            ("context", "files", "observe", "preflight"),
        )
        assert len(children()) == 1
    assert children() == []


def test_idle_plugin_process_ends_and_restarts_at_the_next_use(until: Callable[..., float]) -> None:
    with opened(ProcessLimits(idle_seconds=0.2), good={"word": ""}) as plugins:
        plugins.preflight("x")
        until(lambda: children() == [])
        assert plugins.enrich(about("x"))[0][0].lines[0].text.endswith("call 1")


@pytest.mark.skipif(
    not hasattr(os, "waitid"),
    reason="there is no way to know that it ended without taking note of it",
)
def test_plugin_process_that_died_between_calls_is_restarted_without_a_warning(
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


@pytest.mark.parametrize("act", ["hang", "hold"])
def test_plugin_that_exceeds_the_time_limit_is_killed(act: str, tmp_path: Path) -> None:
    if act == "hold" and sys.platform == "win32":
        pytest.skip("there is no such function in the process there")
    with opened(HASTY, wrong={"log": str(tmp_path / "log"), "act": act}) as plugins:
        late = "plugin wrong: it took longer than 0.3 s"
        assert plugins.enrich(about(act)) == ([], [late])
        assert children() == []
        assert plugins.periodic() == ([], [late])
        assert "it took longer than 0.3 s" in plugins.preflight(act).reason


@pytest.mark.skipif(sys.platform == "win32", reason="there are no groups of processes there")
def test_processes_started_by_a_plugin_end_with_it(
    tmp_path: Path, until: Callable[..., float]
) -> None:
    log = tmp_path / "log"
    with opened(wrong={"log": str(log)}) as plugins:
        assert len(plugins.enrich(about("start"))[1]) == 1
        (pid,) = map(int, lines(log))
        until(lambda: gone(pid))


def test_concurrent_calls_share_one_plugin_process() -> None:
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


def test_close_ends_a_running_plugin_call(tmp_path: Path, until: Callable[..., float]) -> None:
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
def test_no_plugin_process_is_left_when_cortex_is_killed(
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
