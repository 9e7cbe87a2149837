"""Generated team records of real lengths, with a fixed seed.

Words are drawn as in bench/memories/generated.py. Of a hundred records 40 are comments, 34 observations, 12
tasks, 8 threads, 5 artifacts and the rest topics and links; they are spread over a year and 200
topics. Pure but for the ids and the moment that the year ends.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from bench.memories.generated import words
from cortex.base.record_model import (
    Artifact,
    Body,
    CodeLink,
    Comment,
    Evidence,
    Link,
    Observation,
    Subcortex,
    Task,
    Thread,
)
from cortex.families.team.ids import new_id

SUBCORTEXES, TAGS = 200, 300
TITLE, THREAD, COMMENT, SUMMARY, ARTIFACT, TASK, CHARTER = 8, 80, 50, 60, 200, 40, 100  # words
SHARES = (
    ("comment", 40),
    ("observation", 34),
    ("task", 12),
    ("thread", 8),
    ("artifact", 5),
    ("link", 1),
)
STATES = (
    "inbox",
    "assigned",
    "in_progress",
    "review",
    "blocked",
    "done",
    "done",
    "done",
    "done",
    "cancelled",
)
PRIORITIES = ("low", "normal", "normal", "normal", "high", "urgent")
THREAD_TYPES = ("question", "research", "proposal", "update", "decision", "incident")
THREAD_STATES = ("open", "open", "resolved", "resolved", "resolved", "archived")
ARTIFACT_STATES = (
    "draft",
    "proposed",
    "accepted",
    "accepted",
    "accepted",
    "superseded",
    "deprecated",
)
YEAR = 365 * 86_400_000  # milliseconds
RECENT = 500  # threads that still get comments

Made = tuple[str, Body, int]  # id, body, and milliseconds since the year began


@dataclass(slots=True)
class Drawn:
    """The records made so far, to point to."""

    subcortexes: list[str] = field(default_factory=list)
    threads: list[str] = field(default_factory=list)
    artifacts: list[str] = field(default_factory=list)


def make(count: int, seed: int) -> Iterator[Made]:
    """Records, oldest first; the same ones each time, but for their ids."""
    draw, known = random.Random(seed), words()
    tags = tuple(
        dict.fromkeys(word.lower() for word in draw.choices(known, k=8 * TAGS) if len(word) > 3)
    )[:TAGS]
    drawn = Drawn()

    def say(length: int) -> str:
        return " ".join(draw.choices(known, k=length))

    kinds, weights = zip(*SHARES, strict=True)
    topics = min(SUBCORTEXES, count // 10)
    for number in range(count):
        if number < topics:
            kind = "subcortex"
        elif len(drawn.threads) < 10 or len(drawn.artifacts) < 2:
            kind = draw.choice(("thread", "artifact"))
        else:
            (kind,) = draw.choices(kinds, weights)
        body = _body(kind, draw, say, tags, drawn, number)
        made = new_id(type(body))
        match body:
            case Subcortex():
                drawn.subcortexes.append(made)
            case Thread():
                drawn.threads.append(made)
            case Artifact():
                drawn.artifacts.append(made)
        yield made, body, number * YEAR // count


def _body(
    kind: str,
    draw: random.Random,
    say: Callable[[int], str],
    tags: Sequence[str],
    drawn: Drawn,
    number: int,
) -> Body:
    chosen = tuple(dict.fromkeys(draw.choices(tags, k=2)))
    where = draw.choice(drawn.subcortexes) if drawn.subcortexes else ""
    title = f"{say(TITLE)} {number}"
    link = (CodeLink(f"src/{'/'.join(say(2).lower().split())}.py"),) if draw.random() < 0.3 else ()
    match kind:
        case "subcortex":
            slug = f"topic-{number:03d}"
            return Subcortex(
                slug, f"{say(2)} {number}", f"{say(12)}.", f"{say(CHARTER)}.", stewards=("person",)
            )
        case "thread":
            type_, state = draw.choice(THREAD_TYPES), draw.choice(THREAD_STATES)
            return Thread(
                title,
                f"{say(THREAD)}.",
                type_,
                state,
                where,
                tags=chosen,
                summary=f"{say(60)}.",
                code_links=link,
            )
        case "comment":
            return Comment(
                draw.choice(drawn.threads[-RECENT:]), f"{say(COMMENT)}.", subcortex=where
            )
        case "observation":
            return Observation(
                title, f"{say(SUMMARY)}.", "research_note", chosen, where, code_links=link
            )
        case "artifact":
            seen = (Evidence("thread", draw.choice(drawn.threads)),) if drawn.threads else ()
            state = draw.choice(ARTIFACT_STATES) if seen else "draft"
            text = "\n\n".join(f"## {say(3)}\n\n{say(ARTIFACT // 4)}." for _ in range(4))
            return Artifact(
                title,
                text,
                f"{say(20)}.",
                "spec",
                state,
                "person",
                evidence=seen,
                subcortex=where,
                tags=chosen,
                code_links=link,
            )
        case "task":
            thread = draw.choice(drawn.threads[-RECENT:])
            state, priority = draw.choice(STATES), draw.choice(PRIORITIES)
            return Task(
                title,
                f"{say(TASK)}.",
                state,
                priority,
                thread=thread,
                subcortex=where,
                tags=chosen,
                code_links=link,
            )
    source, target = draw.choice(drawn.artifacts), draw.choice(drawn.threads)
    return Link(source, draw.choice(("supports", "depends_on", "contradicts")), target, say(6))


def questions(count: int, made: Iterable[Made], seed: int) -> list[str]:
    """Queries of two to eight words, each of the words of a record's title and text."""
    draw = random.Random(seed)
    candidates = [body for _, body, _ in made if isinstance(body, Thread | Observation | Task)]
    asked = []
    for body in draw.sample(candidates, count):
        said = (
            f"{body.title} {body.summary if isinstance(body, Observation) else body.body}".split()[
                :40
            ]
        )
        asked.append(" ".join(draw.sample(said, draw.randint(2, 8))))
    return asked
