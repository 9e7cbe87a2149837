"""10,000 Markdown documents: added, synced unchanged, and with one changed.

The whole commands, and a process that runs already; with vectors, as installed. The documents are
made of the docstrings of the standard library, in sections with headings, with a fixed seed.
"""

from __future__ import annotations

import random
import re
import sysconfig
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

from bench.common.figures import Section, Setup
from bench.common.process_cost import Cost, run
from cortex.base.settings import load
from cortex.base.types import Query, Source
from cortex.engine.library import Library

AVERAGE_WORDS = 500
SECTIONS = 5
RUNS = 5
_DOCSTRING = re.compile(r'"""(.{80,4000}?)"""', re.DOTALL)
_INDENT = re.compile(r"^[ \t]+", re.MULTILINE)


def measure(setup: Setup) -> Section:
    """Add, sync, change one, sync; and a question."""
    section = Section("documents", "Documents")
    count = setup.large
    folder = setup.work / "documents"
    size = _write(folder, count, setup.seed)
    environment = {
        **setup.environment(provider="local"),
        "CORTEX_HOME": str(setup.work / "documents-home"),
    }

    def cortex(*arguments: str) -> Cost:
        return run([*setup.cortex, "kb", *arguments, "--json"], environment, setup.bare_kb)

    added = cortex("add", str(folder), "--name", "made", "--no-watch")
    section.add(f"{count:,} documents added and synced, wall", "s", added.wall)
    section.add(f"{count:,} documents added and synced, CPU", "s", added.cpu)
    section.add("peak RssAnon above a bare Python", "MB", added.rss_anon_mb)
    disk = sum(
        path.stat().st_size for path in (setup.work / "documents-home").rglob("*") if path.is_file()
    )
    section.add("index on disk / text", "x", disk / size)
    paths = sorted(folder.rglob("*.md"))
    again = [cortex("sync", "made").wall for _ in range(setup.repeat)]
    section.add("`cortex kb sync`, nothing changed, the whole command", "s", again, 2.0)
    changed = [
        1000 * _changed(path, lambda: cortex("sync", "made")) for path in paths[: setup.repeat]
    ]
    section.add("`cortex kb sync`, one document changed, the whole command", "ms", changed)
    with closing(Library(load(None, environment=environment))) as library:
        source = library.folder("made").source
        _changed(paths[-1], lambda: library.index(source=source))  # which starts the worker process
        unchanged = [_took(lambda: library.index(source=source)) for _ in range(RUNS)]
        section.add(
            "nothing changed, in a server that runs, the whole folder compared", "s", unchanged, 2.0
        )
        whole = [
            1000 * _changed(path, lambda: library.index(source=source))
            for path in paths[10 : 10 + RUNS]
        ]
        section.add(
            "one changed, in a server that runs, the whole folder compared", "ms", whole, 500
        )
        watched: list[float] = []
        for path in paths[20 : 20 + RUNS]:
            named = [path.relative_to(folder).as_posix()]
            watched.append(
                1000 * _changed(path, partial(library.index, source=source, paths=named))
            )
        section.add("one changed, in a server that runs, told by the watcher", "ms", watched, 500)
        section.add(
            "a question, p50",
            "ms",
            [1000 * _took(lambda: _ask(library, source)) for _ in range(RUNS)],
        )
    section.text = f"{count:,} Markdown documents, {size / 1e6:.0f} MB, {SECTIONS} sections each, with vectors."
    return section


def _ask(library: Library, source: Source) -> None:
    library.search(Query("how are the arguments of a command parsed", limit=10), sources=(source,))


def _took(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def _changed(path: Path, work: Callable[[], object]) -> float:
    path.write_text(f"{path.read_text(encoding='utf-8')}\nOne more sentence.\n", encoding="utf-8")
    return _took(work)


def _write(folder: Path, count: int, seed: int) -> int:
    """Documents of prose, and how many bytes they are."""
    draw = random.Random(seed)
    known = passages()
    total = 0
    for number in range(count):
        parts = [f"# Document {number} about {_title(draw, known)}\n"]
        for _ in range(SECTIONS):
            words: list[str] = []
            while len(words) < AVERAGE_WORDS // SECTIONS:
                words += draw.choice(known).split(" ")
            parts.append(f"## {_title(draw, known)}\n\n{' '.join(words)}\n")
        text = "\n".join(parts)
        path = folder / f"part{number % 50:02d}" / f"document{number:05d}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        total += len(text.encode("utf-8"))
    return total


def passages() -> list[str]:
    """The docstrings of the standard library."""
    found: list[str] = []
    for path in sorted(Path(sysconfig.get_paths()["stdlib"]).rglob("*.py")):
        if "site-packages" not in path.parts and "test" not in path.parts:
            found += _DOCSTRING.findall(path.read_text(encoding="utf-8", errors="replace"))
    return [_INDENT.sub("", passage).strip() for passage in dict.fromkeys(found)]


def _title(draw: random.Random, passages: list[str]) -> str:
    return " ".join(re.findall(r"[A-Za-z]{3,}", draw.choice(passages))[:4]) or "nothing"
