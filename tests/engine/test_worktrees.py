"""Linked worktrees: sources of one store, with shared content and their own files."""

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cortex.base.settings import load
from cortex.base.types import Mode, Query
from cortex.engine.auto_indexer import AutoIndexer
from cortex.engine.engine import Engine


def git(root: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=A", "-c", "user.email=a@example.org")
    subprocess.run(
        ["git", *identity, *arguments], cwd=root, check=True, capture_output=True, timeout=60
    )


def open_engine(root: Path, home: Path) -> Engine:
    return Engine(root, load(root, environment={"CORTEX_HOME": str(home)}))


def finds(engine: Engine, word: str) -> set[str]:
    return {hit.path for hit in engine.search(Query(word, mode=Mode.WORDS)).hits}


@pytest.fixture
def trees(tmp_path: Path) -> Iterator[tuple[Path, Path, Path]]:
    main, linked = tmp_path / "main", tmp_path / "linked"
    main.mkdir()
    git(main, "init", "-q")
    for number in range(5):
        (main / f"shared{number}.py").write_text(f"def shared{number}():\n    return {number}\n")
    git(main, "add", ".")
    git(main, "commit", "-qm", "first")
    git(main, "worktree", "add", "-q", "-b", "feature", str(linked))
    yield main, linked, tmp_path / "home"


def test_worktrees_share_one_store_and_its_blobs(trees: tuple[Path, Path, Path]):
    main, linked, home = trees
    with open_engine(main, home) as first:
        first.index()
    with open_engine(linked, home) as second:
        assert second.store.directory == main / ".cortex"
        report = second.index()
        assert report.added == 5
        blobs = {second.store.content.doc(source, "shared1.py").blob for source in (1, 2)}  # type: ignore[union-attr]
        assert len(blobs) == 1
    assert not (linked / ".cortex").exists()


def test_each_worktree_answers_from_its_own_files(trees: tuple[Path, Path, Path]):
    main, linked, home = trees
    (linked / "only_here.py").write_text("def feature_branch_only():\n    pass\n")
    with open_engine(main, home) as first:
        first.index()
    with open_engine(linked, home) as second:
        second.index()
        assert finds(second, "feature_branch_only") == {"only_here.py"}
    with open_engine(main, home) as first:
        assert finds(first, "feature_branch_only") == set()
        assert finds(first, "shared1")


def test_lease_holder_keeps_both_worktrees_fresh(
    trees: tuple[Path, Path, Path], until: Callable[..., float]
):
    main, linked, home = trees
    first, second = open_engine(main, home), open_engine(linked, home)
    keepers = [AutoIndexer(first)]
    try:
        until(lambda: "shared1.py" in finds(first, "shared1"))
        keepers.append(AutoIndexer(second))
        until(lambda: "shared1.py" in finds(second, "shared1"))
        (linked / "new.py").write_text("def written_in_the_worktree():\n    pass\n")
        until(lambda: "new.py" in finds(second, "written_in_the_worktree"))
        assert not second.store.lease.held
        keepers[0].close()
        first.close()
        until(lambda: second.store.lease.held)
        (linked / "newer.py").write_text("def written_after_the_holder_left():\n    pass\n")
        until(lambda: "newer.py" in finds(second, "written_after_the_holder_left"))
    finally:
        for keeper in keepers:
            keeper.close()
        first.close()
        second.close()
