"""Third-party plugins for tests, most of which misbehave.

Imported only in the processes of plugins.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from typing import Any, ClassVar

from cortex.plugins import Context, Line, Observation, Plugin, Redaction, Section, Subject, Verdict


def announce(place: object, what: str) -> None:
    with open(str(place), "a", encoding="utf-8") as file:
        file.write(what + "\n")


class Good(Plugin):
    """Everything right; prints, and reads from a stdin that isn't its own."""

    name = "good"
    category = "ingestion"
    permissions = ("context", "preflight", "observe", "files")
    config_schema: ClassVar[Mapping[str, object]] = {
        "type": "object",
        "properties": {"word": {"type": "string"}, "log": {"type": "string"}},
        "required": ["word"],
        "additionalProperties": False,
    }

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        print("a plugin may print")
        os.write(1, b"in any way\n")
        self.calls = 0

    def enrich_context_pack(self, subject, partial):
        self.calls += 1
        assert sys.stdin.read() == ""
        titles = " and ".join(section.title for section in partial)
        yield Section(
            "Mine",
            (
                Line(
                    f"{self.context.config['word']} {subject.title}, call {self.calls}", subject.id
                ),
            ),
        )
        yield Section(
            "Root",
            (Line(f"{self.context.root} {subject.repo_root} {subject.lines} after {titles}"),),
        )
        yield Section("Nothing to say", ())

    def preflight_upload(self, text):
        redactions = tuple(
            Redaction(at, at + 4, "code name")
            for at in range(len(text))
            if text.startswith("Zeus", at)
        )
        return Verdict(
            "forbidden" not in text,
            redactions,
            ("read it",),
            "a forbidden word" if "forbidden" in text else "",
        )

    def on_start(self, context):
        return [Observation("Started", f"in {context.root}", ("ci",))]

    def on_stop(self, context):
        return [{"title": "Stopped", "summary": "plain JSON"}]


class Modest(Plugin):
    """Has every hook, but no permission to be asked for most."""

    name = "modest"
    permissions = ("context",)
    config_schema: ClassVar[Mapping[str, object]] = {}

    def enrich_context_pack(self, subject, partial):
        return [
            Section(
                "Modest", (Line(f"root {self.context.root!r}, repository {subject.repo_root!r}"),)
            )
        ]

    def preflight_upload(self, text):
        announce(self.context.config["log"], "preflight")
        return Verdict(allowed=False)

    def on_start(self, context):
        announce(self.context.config["log"], "on_start")
        return [Observation("Seen", "what it shouldn't")]


class Plain:
    """Without our base class, and with a single hook."""

    name = "plain"
    permissions = ("context", "observe", "preflight")

    def __init__(self, context: Any) -> None:
        pass

    def enrich_context_pack(self, subject: Subject, partial: object) -> Any:
        return [{"title": "Plain", "lines": ["a text", {"text": "with an id", "id": "obs_1"}]}]


class Wrong(Plugin):
    """Does what its settings say, all of it wrong."""

    name = "wrong"
    permissions = ("context", "preflight", "observe")
    config_schema: ClassVar[Mapping[str, object]] = {"type": "object"}

    def enrich_context_pack(self, subject: Subject, partial: object) -> Any:
        return self.act(subject.title)

    def preflight_upload(self, text: str) -> Any:
        return self.act(text)

    def on_periodic(self, context: Context) -> Any:
        return self.act(str(context.config.get("act")))

    def act(self, what: str) -> Any:
        return getattr(self, "act_" + what)()

    def act_well(self):
        return None

    def act_approve(self):
        return Verdict()

    def act_raise(self):
        raise LookupError("no such thing")

    def act_leave(self):
        sys.exit(0)

    def act_exit(self):
        os._exit(3)

    def act_crash(self):
        ctypes.string_at(0)

    def act_hang(self):
        announce(self.context.config["log"], str(os.getpid()))
        time.sleep(3600)

    def act_hold(self):
        """Hang with Python's lock held, as native code does."""
        announce(self.context.config["log"], str(os.getpid()))
        ctypes.PyDLL(None).sleep(3600)

    def act_start(self):
        """Leave a process behind that holds every pipe."""
        child = subprocess.Popen(
            [sys.executable, "-c", "import time; time.sleep(3600)"], close_fds=False
        )
        announce(self.context.config["log"], str(child.pid))
        os._exit(0)

    def act_garble(self):
        for pipe in range(3, 20):
            try:
                os.write(pipe, b"\xffnot JSON\n")
            except OSError:
                continue
        return []

    def act_nest(self):
        for pipe in range(3, 20):
            try:
                os.write(pipe, b"[" * 60_000 + b"\n")
            except OSError:
                continue
        return []

    def act_flood(self):
        while True:
            for pipe in range(3, 20):
                try:
                    os.write(pipe, b"x" * 4096)
                except OSError:
                    continue

    def act_eat(self):
        return bytes(4 << 30)

    def act_swell(self):
        return [Section("x" * 70_000, (Line("x"),))]

    def act_mistake(self):
        return [{"title": 5, "lines": ["x"]}]

    def act_speak(self):
        return "sections"

    def act_object(self):
        return object()

    def act_number(self):
        return [Section("x", (5,))]  # pyright: ignore[reportArgumentType]

    def act_overreach(self):
        return Verdict(redactions=(Redaction(0, 10_000, "all"),))

    def act_maybe(self):
        return {"allowed": "yes"}


class Misnamed(Plugin):
    name = "another"


class Greedy(Plugin):
    name = "greedy"
    permissions = ("everything",)


class Unbuilt(Plugin):
    name = "unbuilt"
    permissions = ("context", "observe")

    def __init__(self, context: Context) -> None:
        raise OSError("no licence")
