"""Results of a measurement as a Markdown table with targets, and the common set-up."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.common import corpus
from bench.common.process_cost import bare_python_kb, clean_environment, run, run_task

# Module of the tasks that open an engine.
ENGINE_TASKS = "bench.common.engine_tasks"


@dataclass(frozen=True, slots=True)
class Figure:
    """A number: the median of its values, at most its target, or with `least` at least it."""

    what: str
    unit: str
    values: tuple[float, ...]
    target: float | None = None
    least: bool = False

    @property
    def value(self) -> float:
        return statistics.median(self.values)

    @property
    def met(self) -> bool:
        return self.target is None or (
            self.value >= self.target if self.least else self.value <= self.target
        )

    def row(self, mixed: bool = False) -> str:
        """The figure as a row of its table; `mixed` where the table has targets of both kinds."""
        ends = (
            f"{_text(min(self.values))} to {_text(max(self.values))}"
            if len(self.values) > 1
            else ""
        )
        verdict = "" if self.target is None else "yes" if self.met else "**no**"
        target = (
            "" if self.target is None else f"{self.target:g}" if self.least else _text(self.target)
        )
        if mixed and target:
            target = f"{'at least' if self.least else 'at most'} {target}"
        value = f"{self.value:.3f}" if self.least else f"{_text(self.value)} {self.unit}"
        return f"| {self.what} | {value} | {ends} | {target} | {verdict} |"


@dataclass(slots=True)
class Section:
    """The figures of one measurement, and what has to be said about them."""

    name: str
    title: str
    figures: list[Figure] = field(default_factory=list)
    text: str = ""  # Markdown, before the table

    def add(
        self, what: str, unit: str, values: Sequence[float] | float, target: float | None = None
    ) -> None:
        """Add a figure; several values are runs of the same thing."""
        given = (values,) if isinstance(values, int | float) else tuple(values)
        self.figures.append(Figure(what, unit, given, target))

    def at_least(self, what: str, value: float, target: float | None) -> None:
        """Add a score, which should not be below its target."""
        self.figures.append(Figure(what, "", (float(value),), target, least=True))

    def render(self, heading: str = "") -> str:
        """The section as Markdown."""
        kinds = {figure.least for figure in self.figures}
        limit = "target" if len(kinds) > 1 else "at least" if True in kinds else "at most"
        head = [f"| | measured | runs | {limit} | met |", "|---|---:|---:|---:|---|"]
        table = (
            [*head, *(figure.row(len(kinds) > 1) for figure in self.figures)]
            if self.figures
            else []
        )
        parts = [f"### {self.title}", heading, self.text.strip(), "\n".join(table)]
        return "\n\n".join(part for part in parts if part) + "\n"


@dataclass(slots=True)
class Setup:
    """Set-up of a measurement: the command, a folder to work in, and the amount of work."""

    work: Path
    quick: bool
    repeat: int
    seed: int = corpus.SEED
    cortex: tuple[str, ...] = (sys.executable, "-m", "cortex")
    bare_kb: int = field(default_factory=bare_python_kb)
    text_bytes: dict[int, int] = field(default_factory=dict)

    @property
    def small(self) -> int:
        """Files of the small repository."""
        return 300 if self.quick else 1_000

    @property
    def large(self) -> int:
        """Files of the large one, of about 100,000 chunks."""
        return 1_500 if self.quick else 10_000

    def repository(self, files: int) -> Path:
        """A repository of that many files, made when first asked for."""
        folder = self.work / f"files{files}"
        if files not in self.text_bytes:
            folder.mkdir()
            self.text_bytes[files] = corpus.make_repository(folder, files, self.seed)
        return folder

    def environment(self, provider: str = "none", **more: str) -> dict[str, str]:
        """Variables for a Cortex with a new home and no answer cache.

        It has no vectors unless a provider is named.
        """
        home = str(self.work / "home")
        more["CODEINDEX_EMBEDDING_PROVIDER"] = provider
        return clean_environment(CORTEX_HOME=home, CORTEX_SEARCH_ENABLE_CACHING="false", **more)

    def indexed(self, files: int) -> Path:
        """A repository with its index, up to date."""
        folder = self.repository(files)
        if not (folder / ".cortex" / "cortex.db").exists():
            run([*self.cortex, "index", str(folder), "--json"], self.environment(), self.bare_kb)
        return folder

    def inside(self, task: str, **arguments: object) -> dict:
        """Run a task of `engine_tasks` in a fresh process."""
        given = {"home": str(self.work / "home"), **arguments}
        return run_task(ENGINE_TASKS, task, given, self.environment(), self.bare_kb)


def _text(value: float) -> str:
    if value >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"
