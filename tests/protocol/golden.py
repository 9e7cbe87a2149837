"""Answers kept in tests/golden.

CORTEX_GOLDEN=write renews them; what differs from run to run, or by the tuning of the ranking, is
replaced by its name.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

FOLDER = Path(__file__).parent.parent / "golden"
WRITE = os.environ.get("CORTEX_GOLDEN") == "write"
CHANGING = {
    "executionTime", "lastIndexed", "lastModified", "lastCleanup", "timestamp", "seconds", "memoryUsage", "diskUsage",
    "averageSearchTime", "indexingTime", "cacheHitRate", "hitRate", "cacheHit", "pid", "cursor", "relevance",
    "totalResults", "generated", "model", "answering",
}  # fmt: skip


def check_golden(name: str, value: object) -> None:
    """Compare with the golden file of that name, or write it."""
    file = FOLDER / f"{name}.json"
    shown = _steady(value)
    if WRITE:
        file.write_text(
            json.dumps(shown, indent=2, ensure_ascii=False) + "\n", encoding="utf-8", newline="\n"
        )
    assert file.exists(), f"no golden file {file.name}: run with CORTEX_GOLDEN=write"
    assert shown == json.loads(file.read_text(encoding="utf-8")), (
        f"{file.name} differs; CORTEX_GOLDEN=write renews it"
    )


def _steady(value: object, key: str = "") -> object:
    if isinstance(value, dict):
        return {name: _steady(part, name) for name, part in value.items()}
    if isinstance(value, list):
        return [_steady(part) for part in value]
    if key in CHANGING:
        return f"<{key}>"
    if key == "path" and isinstance(value, str) and Path(value).is_absolute():
        return "<path>"
    return value
