"""Verdicts that folders inherit from their parents, cached.

Two loops instead of recursion: a hostile tree may be two thousand folders deep.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

Verdict = TypeVar("Verdict")


def inherit(
    known: dict[str, Verdict], folder: str, decide: Callable[[str, Verdict], Verdict]
) -> Verdict:
    """Verdict on `folder`: cached, or decided from its parent's; that of the root is cached."""
    missing: list[str] = []
    while folder not in known:
        missing.append(folder)
        folder = folder.rpartition("/")[0]
    verdict = known[folder]
    while missing:
        folder = missing.pop()
        verdict = known[folder] = decide(folder, verdict)
    return verdict
