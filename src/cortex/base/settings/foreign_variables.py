"""Variables by which other programs say where their files are; none of them is a setting of ours."""

from __future__ import annotations

import os
from collections.abc import Iterable


def variables_of_others(names: Iterable[str]) -> dict[str, str]:
    """Those of the named variables that are set and not empty."""
    return {name: value for name in names if (value := os.environ.get(name, ""))}
