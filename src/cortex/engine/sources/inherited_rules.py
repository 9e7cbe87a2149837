"""Verdicts that a folder takes over from the folder that it is in, remembered.

One loop up and one down instead of recursion: a stranger's tree may be two thousand folders deep.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

Verdict = TypeVar("Verdict")


def inherit(
    known: dict[str, Verdict], folder: str, decide: Callable[[str, Verdict], Verdict]
) -> Verdict:
    """The verdict on `folder`: known, or decided from its parent's; the root's ("") must be known."""
    missing: list[str] = []
    while folder not in known:
        missing.append(folder)
        folder = folder.rpartition("/")[0]
    verdict = known[folder]
    while missing:
        folder = missing.pop()
        verdict = known[folder] = decide(folder, verdict)
    return verdict
