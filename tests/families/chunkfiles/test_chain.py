"""Index, export, hot reload and search as one chain."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import cortex
from cortex.interfaces.cli import run


@pytest.fixture
def root(tmp_path: Path, strangers_environment: object) -> Path:
    root = tmp_path / "shop"
    (root / ".git").mkdir(parents=True)
    (root / "lamp.py").write_text(
        'def switch_lamp():\n    """Turn the lamp on."""\n', encoding="utf-8"
    )
    return root


def test_changed_file_is_found_after_index_export_and_reload(
    root: Path, until: Callable[..., float]
) -> None:
    assert run(["index", str(root), "--chunks"]) == 0
    watching = subprocess.Popen(
        [sys.executable, "-m", "cortex", "index", str(root), "--chunks", "--watch"],
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )
    assert watching.stdout is not None
    try:
        assert any("watching" in line for line in iter(watching.stdout.readline, ""))
        with cortex.open_chunks(root / ".cortex" / "chunks") as chunks:

            def ids(query: str, **options: object) -> list[str]:
                return [result.chunk.id for result in chunks.search(query, **options)]  # type: ignore[arg-type]

            assert ids("switch lamp")[0] in ("code-definitions-lamp.py", "code-symbols-lamp.py")
            (root / "desk.md").write_text(
                "# Desk\n\nIts drawers are opened with a key. #furniture\n", encoding="utf-8"
            )
            until(
                lambda: ids("drawers opened with a key", tags=["furniture"]) == ["doc-desk.md-s0"]
            )
            (root / "lamp.py").unlink()
            until(lambda: ids("switch lamp", chunk_types=["definitions", "symbols"]) == [])
            assert ids("drawers", tags=["documentation", "markdown"]) == ["doc-desk.md-s0"]
    finally:
        watching.terminate()
        watching.wait(20)
        watching.stdout.close()
