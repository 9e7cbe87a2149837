"""Environment variables by which other programs name their folders; none is a setting."""

from __future__ import annotations

import os
from collections.abc import Iterable


def variables_of_others(names: Iterable[str]) -> dict[str, str]:
    """Return the named variables that are set and not empty."""
    return {name: value for name in names if (value := os.environ.get(name, ""))}
