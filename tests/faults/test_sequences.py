"""After any sequence of changes and kills the store equals one that is built afresh."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from cortex.base.types import Cancel, Mode, Query, Stamp
from cortex.engine.embedders.hash_embedder import HashingEmbedder
from cortex.engine.engine import Engine
from faults.conftest import Program

STEPS = 14
WORDS = "lamp desk chair shelf window garden river bridge tower cellar attic mirror".split()
FOLDERS = ("", "src/", "src/inner/", "tests/", "docs/")
QUERIES = (*WORDS[:6], "lamp desk", "Garden.river", "def bridge", "how does the tower work")


class CostlyEmbedder(HashingEmbedder):
    """An embedder that is charged for, as in costly_indexer.py."""

    def __init__(self) -> None:
        super().__init__()
        self.costly = True
        self.stamp = Stamp("test", "costly", self.dimensions)


class Folder:
    """A git repository with random changes."""

    def __init__(self, root: Path, chance: random.Random) -> None:
        self.root, self.chance = root, chance
        self.branches = ["main"]
        self._git("init", "-q")
        self.add()
        self.add()
        self.commit()

    def steps(self) -> list[Callable[[], None]]:
        rare = [
            self.commit,
            self.ignore,
            self.new_branch,
            self.switch,
            self.touch,
            self.remove_folder,
        ]
        return [
            self.add,
            self.add,
            self.edit,
            self.edit,
            self.delete,
            self.rename,
            self.copy,
            *rare,
        ]

    def add(self) -> None:
        for _ in range(self.chance.randrange(1, 4)):
            extension = self.chance.choice(["py", "py", "md", "txt", "js"])
            name = f"{self.chance.choice(FOLDERS)}{self.chance.choice(WORDS)}{self.chance.randrange(30)}.{extension}"
            self._write(name, self._text(extension))

    def edit(self) -> None:
        if (path := self._any()) is not None:
            self._write(path, self._text(path.rpartition(".")[2]))

    def delete(self) -> None:
        if (path := self._any()) is not None:
            (self.root / path).unlink()

    def rename(self) -> None:
        if (path := self._any()) is not None:
            target = (
                self.root / f"{self.chance.choice(FOLDERS)}renamed{self.chance.randrange(9)}.py"
            )
            target.parent.mkdir(parents=True, exist_ok=True)
            os.replace(self.root / path, target)

    def copy(self) -> None:
        if (path := self._any()) is not None:
            self._write(
                f"{self.chance.choice(FOLDERS)}copy{self.chance.randrange(9)}.py",
                (self.root / path).read_text("utf-8"),
            )

    def touch(self) -> None:
        if (path := self._any()) is not None:
            os.utime(
                self.root / path, (1_600_000_000, 1_600_000_000 + self.chance.randrange(10**6))
            )

    def remove_folder(self) -> None:
        shutil.rmtree(self.root / "src" / "inner", ignore_errors=True)

    def ignore(self) -> None:
        lines = self.chance.sample(
            ["tests/", "*.md", "docs/*.txt", "!docs/lamp*.md", "copy*", "/src/inner/"], 2
        )
        self._write(
            self.chance.choice([".gitignore", "src/.gitignore", ".cortexignore"]),
            "\n".join(lines) + "\n",
        )

    def commit(self) -> None:
        self._git("add", "-A")
        self._git("commit", "-q", "--allow-empty", "-m", "a step")

    def new_branch(self) -> None:
        self.commit()
        self.branches.append(f"branch{len(self.branches)}")
        self._git("checkout", "-q", "-b", self.branches[-1])

    def switch(self) -> None:
        self.commit()
        self._git("checkout", "-q", "-f", self.chance.choice(self.branches))

    def _any(self) -> str | None:
        files = sorted(
            path.relative_to(self.root).as_posix()
            for path in self.root.rglob("*.*")
            if path.is_file() and not {".git", ".cortex"} & set(path.relative_to(self.root).parts)
        )
        files = [file for file in files if not file.endswith(("ignore", ".toml"))]
        return self.chance.choice(files) if files else None

    def _write(self, path: str, text: str) -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text, encoding="utf-8")

    def _text(self, extension: str) -> str:
        first, second, third = self.chance.sample(WORDS, 3)
        # Few, so that the same text comes up again
        number = self.chance.randrange(4)
        if extension == "md":
            return f"# {first.title()}\n\nThe {second} near the {third}.\n\n## {second.title()} {number}\n\nMore of it.\n"
        if extension == "py":
            return f'class {first.title()}:\n    """A {second}."""\n\n    def {second}(self):\n        return {number}\n\n\ndef {third}():\n    return {first.title()}\n'
        return f"{first} {second}\n{third} {number}\n"

    def _git(self, *arguments: str) -> None:
        subprocess.run(
            ["git", *arguments], cwd=self.root, check=True, capture_output=True, timeout=30
        )


def content(engine: Engine) -> dict[str, tuple[object, ...]]:
    """Everything in the store about the folder, without ids."""
    lookup = engine.store.content
    return {
        doc.path: (
            doc.language,
            doc.role,
            lookup.text(doc.blob),
            [chunk for _, chunk in lookup.chunks(doc.blob)],
            lookup.symbols(doc.blob),
        )
        for doc in lookup.docs(engine.source.id)
    }


def check_ids(engine: Engine, embedder: HashingEmbedder) -> None:
    lookup, indexes = engine.store.content, engine.store.indexes
    expected = {
        (doc.id, chunk)
        for doc in lookup.docs(engine.source.id)
        for chunk, _ in lookup.chunks(doc.blob)
    }
    words = indexes.words()
    assert words is not None
    assert words.identities() == expected
    assert set(indexes.vectors(embedder.stamp).ids().tolist()) == {chunk for _, chunk in expected}


def answers(engine: Engine) -> list[list[tuple[object, ...]]]:
    engine.store.indexes.rebuild()
    return [
        [
            (hit.path, hit.start_line, hit.end_line, hit.score, hit.relevance)
            for hit in engine.search(Query(text, mode=mode, limit=10)).hits
        ]
        for text in QUERIES
        for mode in (Mode.WORDS, Mode.HYBRID)
    ]


@pytest.mark.soak
def test_store_equals_a_fresh_build_after_any_changes_and_kills(
    tmp_path, home, settings, open_engine, start, campaign
):
    for seed in range(campaign(2, 150)):
        root = settings.root
        shutil.rmtree(root)
        root.mkdir()
        (root / "pyproject.toml").write_text("[project]\n", encoding="utf-8")
        play(seed, Folder(root, random.Random(seed)), open_engine, start)


def play(
    seed: int, folder: Folder, open_engine: Callable[..., Engine], start: Callable[[str], Program]
) -> None:
    embedder = CostlyEmbedder() if seed % 2 else HashingEmbedder()
    engine = open_engine(embedder=embedder)
    done: list[str] = []
    for _ in range(STEPS):
        step = folder.chance.choice(folder.steps())
        done.append(step.__name__)
        step()
        match folder.chance.randrange(6):
            case 0:
                engine.close()
                kill_at_random(
                    start("costly_indexer.py" if seed % 2 else "indexer.py"), folder.chance
                )
                engine = open_engine(embedder=embedder)
                done.append("kill")
            case 1 | 2:
                done.append("index")
                engine.index()
            case 3:
                engine.index(paths=[folder.chance.choice(FOLDERS)])
                done.append("index a part")
            case 4:
                engine.holds_lease()
                engine.embedding.embed(cancel=Cancel())
                done.append("embed")
    engine.index()
    engine.embedding.embed(cancel=Cancel())
    with engine, open_engine(embedder=embedder, in_memory=True) as fresh:
        fresh.index()
        fresh.embedding.embed(cancel=Cancel())
        story = f"seed {seed}: {', '.join(done)}"
        assert content(engine) == content(fresh), story
        assert engine.store.check() == [], story
        check_ids(engine, embedder)
        assert answers(engine) == answers(fresh), story


def kill_at_random(indexer: Program, chance: random.Random) -> None:
    assert indexer.read() == "ready"
    threading.Event().wait(chance.random() * 0.4)  # from before the first file to after the last
    indexer.kill()
