"""Plugins for tests, and the registry that runs them."""

from __future__ import annotations

import contextlib
from pathlib import Path

import psutil

from cortex.plugins import Plugins, ProcessLimits, Subject

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
