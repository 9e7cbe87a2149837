"""The user's terminal: detection, and questions that only a person can answer.

Answers are read from the controlling terminal and not from stdin, so that no pipe can answer. It
proves little, as the docs say: a program can open a terminal of its own. It stops a command that
runs where no person is looking.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol

from cortex.base.actors import COMMAND, TERMINAL, approval_needed, person
from cortex.base.record_model import Actor
from cortex.base.settings import Settings
from cortex.toolkit.terminal.output import decline, printable

_INPUT, _OUTPUT = ("CONIN$", "CONOUT$") if sys.platform == "win32" else ("/dev/tty", "/dev/tty")


class Terminal(Protocol):
    """A terminal on which a person reads a question and types an answer."""

    def is_there(self) -> bool:
        """Return whether a person can be asked."""
        ...

    def ask(self, question: str) -> str:
        """Return the line that is typed as an answer; empty where the terminal ends."""
        ...


class ControllingTerminal:
    """The terminal that this process was started on."""

    def is_there(self) -> bool:
        """Return whether a stream is a terminal, and the process is in its foreground.

        A program that captures all three streams shows its user nothing of the question, though its
        terminal may be inherited.
        """
        if not any(
            stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)
        ):
            return False
        try:
            with open(_INPUT, "rb", buffering=0) as typed:
                return sys.platform == "win32" or os.tcgetpgrp(typed.fileno()) == os.getpgrp()
        except OSError:
            return False

    def ask(self, question: str) -> str:
        """Return the line that is typed as an answer; empty where the terminal ends."""
        with open(_OUTPUT, "w", encoding="utf-8", errors="replace") as shown:
            print(printable(question, lines=True), end=" ", file=shown, flush=True)
        with open(_INPUT, encoding="utf-8", errors="replace") as typed:
            return typed.readline()


_terminal: ContextVar[Terminal] = ContextVar("terminal", default=ControllingTerminal())  # noqa: B039


@contextmanager
def using(terminal: Terminal) -> Iterator[None]:
    """Use another terminal for questions inside the block."""
    token = _terminal.set(terminal)
    try:
        yield
    finally:
        _terminal.reset(token)


def writer() -> Actor:
    """Return the actor of this command: the person, at a terminal or without one."""
    return person(TERMINAL if _terminal.get().is_there() else COMMAND)


def decide(settings: Settings, action: str, question: str) -> Actor:
    """Ask a person for a decision of `actors.DECISIONS`; returns the actor for the audit log.

    Raises: InputError APPROVAL_NEEDED where no person can be asked here; typer.Exit where the
    answer is no.
    """
    terminal = _terminal.get()
    if settings.team.approval == "studio":
        raise approval_needed(
            action, "your setting team.approval is studio: a page that comes with a later version"
        )
    if not terminal.is_there():
        raise approval_needed(action, "this command has no terminal on which to ask one")
    if terminal.ask(f"{question} [y/N]:").strip().lower() not in ("y", "yes"):
        decline()
    return person(TERMINAL)
