"""Background of the mixed home: up to 1,000 records and 300 memories, the same each time.

Records are made of one-line messages of commits (background.txt), each an engineer's own
sentence about this code: threads with comments, observations, artifacts and tasks, those of one
area together. Memories are made of docstrings of the standard library. Pure.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

from bench.documents.sync import passages
from bench.mixed.texts import MEMORIES, RECORDS, SUBCORTEXES
from cortex.base.record_model import Artifact, Body, Comment, Observation, Task, Thread
from cortex.base.types import Memory

BACKGROUND = Path(__file__).with_name("background.txt")
SUBCORTEX_OF = {
    "storage": (
        "store",
        "engine",
        "indexing",
        "vectors",
        "embedding",
        "words",
        "lookup",
        "library",
        "paths",
    ),
    "search-quality": (
        "search",
        "memories",
        "embedders",
        "shelf",
        "chunkers",
        "readers",
        "sources",
    ),
    "clients": (
        "cli",
        "surfaces",
        "install",
        "hooks",
        "daemon",
        "http",
        "code family",
        "doctor",
        "settings",
    ),
}
THREADS, COMMENTS, ARTIFACTS, TASKS = 90, 330, 60, 80
WHOLE = 1_000
WHOLE_MEMORIES = 300
THREAD_TYPES = ("question", "research", "proposal", "update", "decision")
OBSERVATION_TYPES = ("test_result", "research_note", "code_change", "checkpoint")
ARTIFACT_TYPES = ("adr", "spec", "report")
TASK_STATES = ("inbox", "assigned", "in_progress", "review", "done", "done")
PRIORITIES = ("low", "normal", "normal", "high")
FRAMES = (
    "{}",
    "Changed: {}",
    "I looked at this again: {}",
    "After the last round {}",
    "What came out of it: {}",
)
START, APART = 1_780_000_000_000, 3_600_000  # milliseconds
_SENTENCE = re.compile(r"(?<=[.!?])\s+")
_PROSE = re.compile(r"[A-Z][a-z]+ [\w ,'-]{20,}[.]")


@cache
def messages() -> dict[str, list[str]]:
    """Messages of commits by area, without the area."""
    areas: dict[str, list[str]] = {}
    for line in BACKGROUND.read_text(encoding="utf-8").splitlines():
        area, colon, said = line.partition(": ")
        areas.setdefault(area if colon else "project", []).append(said or line)
    small = [name for name, said in areas.items() if len(said) < 4]
    areas["project"] = areas.get("project", []) + [
        said for name in small for said in areas.pop(name)
    ]
    return areas


def records(seed: int, count: int = WHOLE) -> Iterator[tuple[str, Body]]:
    """Every record with its key: subcortexes first, a thread before its comments.

    A comment's thread is given by its key.
    """
    yield from SUBCORTEXES.items()
    for key, body in RECORDS.items():
        yield key, _placed(body)
    made = list(_background(random.Random(seed)))
    yield from made[: count - len(SUBCORTEXES) - len(RECORDS)]


def memories(seed: int, count: int = WHOLE_MEMORIES) -> Iterator[tuple[str, Memory]]:
    """Every memory with its key; those without a question have none."""
    draw = random.Random(seed)
    at = START
    written = list(MEMORIES.items())
    background = [("", memory) for memory in draw.sample(_notes(), count - len(written))]
    every = [*written, *background]
    draw.shuffle(every)
    for key, memory in every:
        at += APART
        yield key, replace(memory, created=at)


def _placed(body: Body) -> Body:
    """The body with the slug of its subcortex, which the texts name by a key."""
    named = getattr(body, "subcortex", "")
    return replace(body, subcortex=SUBCORTEXES[named].slug) if named else body


def _background(draw: random.Random) -> Iterator[tuple[str, Body]]:
    areas = messages()
    # An area counts for what is said of it
    names = [name for name, said in areas.items() for _ in said]

    def say(area: str, many: int) -> str:
        lines = draw.sample(areas[area], min(many, len(areas[area])))
        return " ".join(draw.choice(FRAMES).format(line).rstrip(".") + "." for line in lines)

    def title(area: str) -> str:
        said = draw.choice(areas[area]).split(";")[0]
        return said[:1].upper() + said[1:]

    threads: list[tuple[str, str]] = []
    for number in range(THREADS):
        area = draw.choice(names)
        threads.append((f"thread {number}", area))
        body = Thread(
            title(area),
            say(area, 2),
            draw.choice(THREAD_TYPES),
            subcortex=_slug(area),
            tags=(_tag(area),),
        )
        yield threads[-1][0], body
    for number in range(COMMENTS):
        thread, area = draw.choice(threads)
        yield f"comment {number}", Comment(thread, say(area, draw.randint(1, 3)))
    for number in range(ARTIFACTS):
        area = draw.choice(names)
        kind = draw.choice(ARTIFACT_TYPES)
        body = Artifact(
            title(area), say(area, 4), say(area, 1), kind, subcortex=_slug(area), tags=(_tag(area),)
        )
        yield f"artifact {number}", body
    for number in range(TASKS):
        area = draw.choice(names)
        state, priority = draw.choice(TASK_STATES), draw.choice(PRIORITIES)
        yield (
            f"task {number}",
            Task(title(area), say(area, 1), state, priority, subcortex=_slug(area)),
        )
    for number in range(WHOLE):
        area = draw.choice(names)
        kind = draw.choice(OBSERVATION_TYPES)
        yield (
            f"observation {number}",
            Observation(title(area), say(area, 2), kind, (_tag(area),), subcortex=_slug(area)),
        )


def _slug(area: str) -> str:
    return next((slug for slug, areas in SUBCORTEX_OF.items() if area in areas), "indexing")


def _tag(area: str) -> str:
    return area.replace(" ", "-").replace(",", "")[:50]


@cache
def _notes() -> list[Memory]:
    """Docstrings that are prose, as notes: the first sentence is the title."""
    notes: dict[str, Memory] = {}
    for passage in passages():
        text = " ".join(passage.split())
        if (
            not 150 <= len(text) <= 900
            or not _PROSE.match(text)
            or any(mark in text for mark in (">>>", '"""'))
        ):
            continue
        first, *rest = _SENTENCE.split(text)
        if rest and len(first) <= 120:
            title = first.rstrip(".")
            notes.setdefault(
                title, Memory("", title, text=" ".join(rest), kind="discovery", project="cortex")
            )
    return list(notes.values())
