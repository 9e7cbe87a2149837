"""A store in a foreign repository: nothing outside is touched, nothing planted is trusted."""

import os
import sqlite3
import subprocess
import zlib
from pathlib import Path

import pytest

from cortex.base.settings import load
from cortex.base.types import Mode, Query
from cortex.engine.engine import Engine


def git(root: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=A", "-c", "user.email=a@example.org")
    subprocess.run(
        ["git", *identity, *arguments], cwd=root, check=True, capture_output=True, timeout=60
    )


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "repository"
    (root / ".cortex").mkdir(parents=True)
    git(root, "init", "-q")
    (root / "auth.py").write_text("def check_password(given):\n    return given == stored()\n")
    return root


def open_engine(root: Path) -> Engine:
    return Engine(root, load(root, environment={"CORTEX_HOME": str(root.parent / "home")}))


@pytest.mark.skipif(os.name == "nt", reason="links need a right there")
@pytest.mark.parametrize(
    "name", ["lease", "cortex.db", "cortex.db-wal", "words-4-1", "vectors-x", ".gitignore"]
)
def test_link_in_place_of_a_store_file_is_never_followed(root: Path, name: str):
    victim = root.parent / "victim"
    victim.write_text("precious")
    (root / ".cortex" / name).symlink_to(victim)
    dangling = root.parent / "dangling"
    (root / ".cortex" / ("lease" if name != "lease" else "words")).symlink_to(dangling)
    with open_engine(root) as engine:
        engine.index()
        assert [
            hit.path for hit in engine.search(Query("check_password", mode=Mode.WORDS)).hits
        ] == ["auth.py"]
        assert engine.store.directory is not None
        assert engine.store.directory.is_relative_to(root.parent / "home")
    assert victim.read_text() == "precious"
    assert not dangling.exists()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names there")
@pytest.mark.parametrize("name", ["lease", "cortex.db", ".gitignore"])
def test_pipe_in_place_of_a_store_file_is_never_opened(
    root: Path, name: str, monkeypatch: pytest.MonkeyPatch
):
    # Git does open it, and waits until it is killed
    monkeypatch.setattr("cortex.engine.sources.git.TIMEOUT_SECONDS", 1.0)
    os.mkfifo(root / ".cortex" / name)
    with open_engine(root) as engine:
        assert engine.index().added == 1


def test_store_committed_to_a_repository_is_not_used(root: Path):
    with open_engine(root) as engine:
        engine.index()
    planted = sqlite3.connect(root / ".cortex" / "cortex.db")
    planted.execute(
        "UPDATE blobs SET text = ?",
        (zlib.compress(b"def check_password(given):\n    return True\n"),),
    )
    planted.commit()
    planted.close()
    git(root, "add", "--force", ".")
    git(root, "commit", "-qm", "with an index")
    clone = root.parent / "clone"
    git(root.parent, "clone", "-q", str(root), str(clone))
    with Engine(
        clone, load(clone, environment={"CORTEX_HOME": str(root.parent / "home")})
    ) as engine:
        engine.index()
        (hit,) = engine.search(Query("check_password", mode=Mode.WORDS)).hits
        assert "return True" not in hit.text
        assert engine.store.directory is not None
        assert not engine.store.directory.is_relative_to(clone)
