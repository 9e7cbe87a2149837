"""Machines that exist only in a test."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from cortex.interfaces.install.clients import Machine, System


@dataclass(frozen=True, slots=True)
class Place:
    """A person's machine, Cortex's home on it, and a project."""

    machine: Machine
    home: Path
    root: Path


def make_place(folder: Path, system: System = System.LINUX) -> Place:
    """A machine below a folder, with nothing on it."""
    for name in ("person", "project"):
        (folder / name).mkdir(parents=True)
    return Place(Machine(folder / "person", system), folder / "cortex", folder / "project")
