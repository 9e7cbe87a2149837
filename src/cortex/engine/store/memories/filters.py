"""Which memories are asked for, as SQL that walks an index in the order of time instead of sorting
all that match.

Of what is asked for, one part drives and the rest is looked at row by row: a rare tag, else a
project, a scope or a state, else time alone; each for every source by itself, since an index is in
order only below a fixed beginning. Left to itself SQLite takes whichever index it thinks narrow and
sorts: 300 ms for the newest ten of 100,000. Knows no connection.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cortex.engine.store.sql import marks

MAX_WAYS = 200  # SQLite joins 500 questions at most, and takes its time for so many
# Rows of the same moment: the later one in its database first
ORDER = "created DESC, number DESC, id DESC"


@dataclass(frozen=True, slots=True)
class MemoryFilter:
    """Which memories are asked for; what is empty doesn't narrow."""

    sources: tuple[int, ...] | None = None  # in these; None: in whatever, also in none
    origins: tuple[str, ...] | None = None
    states: tuple[str, ...] = ()  # as they are written; "" is unjudged
    projects: tuple[str, ...] = ()  # one of these, or promoted
    scope: str = ""  # or promoted
    tags: tuple[str, ...] = ()  # all of them
    kind: str = ""
    not_projects: tuple[str, ...] = ()
    promoted: bool = True  # what counts in every project counts in this one
    before: int = 0  # made before that millisecond


Part = tuple[str, tuple[object, ...]]  # a condition with its values


def ids_of(wanted: MemoryFilter, rare: str = "", limit: int = -1) -> Part:
    """The numbers of those that are wanted, as a SELECT of id, created and number: in no order, and
    of each way only the newest `limit`.

    `rare` is a tag of those asked for that few memories have.
    """
    ways = _ways(wanted, rare)
    parts, values = list[str](), list[object]()
    for where, given in ways:
        one = f"SELECT id, created, number FROM memories WHERE {where}"
        parts.append(f"SELECT * FROM ({one} ORDER BY {ORDER} LIMIT ?)" if limit >= 0 else one)
        values += [*given, limit] if limit >= 0 else given
    return " UNION ".join(parts) or "SELECT 0 AS id, 0 AS created, 0 AS number WHERE 0", tuple(
        values
    )


def _ways(wanted: MemoryFilter, rare: str) -> list[Part]:
    """Conditions that all who are wanted meet at least one of."""
    if wanted.sources is None:
        return [_all(_rest(wanted))]
    by_source: list[Part] = [("source = ?", (source,)) for source in wanted.sources]
    places: Part = (f"+source IN ({marks(wanted.sources)})", wanted.sources)
    if rare:
        return [
            _all(
                [
                    ("id IN (SELECT memory FROM concepts WHERE concept = ?)", (rare,)),
                    places,
                    *_rest(wanted),
                ]
            )
        ]
    if wanted.projects or wanted.scope:
        drivers = _of_projects(wanted.projects) if wanted.projects else _of_scope(wanted.scope)
        if wanted.promoted:
            drivers.append(("state = 'promoted'", ()))
        rest = _rest(wanted, driven=True)
    elif wanted.states:
        drivers: list[Part] = [("state = ?", (state,)) for state in wanted.states]
        rest = _rest(wanted, driven=True)
    else:
        drivers, rest = [], _rest(wanted)
    if len(by_source) * max(1, len(drivers)) > MAX_WAYS:  # of somebody who has very many databases
        return [_all([places, *_rest(wanted)])]
    return [
        _all([source, *driver, *rest])
        for source in by_source
        for driver in ([[one] for one in drivers] or [[]])
    ]


def _of_projects(projects: Sequence[str]) -> list[Part]:
    return [
        part
        for name in projects
        for part in (
            ("project = ?", (name,)),
            ("other_project = ? AND other_project <> ''", (name,)),
        )
        if name or part[0] == "project = ?"
    ]


def _of_scope(scope: str) -> list[Part]:
    return [("scope = ?", (scope,)), ("project = ?", (scope,))]


def _rest(wanted: MemoryFilter, *, driven: bool = False) -> list[Part]:
    """What is looked at in each row: a plus keeps SQLite from using an index for it.

    `driven`: without what _ways drives by.
    """
    parts: list[Part] = []
    promoted = " OR state = 'promoted'" if wanted.promoted else ""
    if wanted.origins is not None:
        parts.append((f"+origin IN ({marks(wanted.origins)})", wanted.origins))
    by_place = bool(wanted.projects or wanted.scope)
    if wanted.states and not (driven and not by_place):
        parts.append((f"+state IN ({marks(wanted.states)})", wanted.states))
    if wanted.projects and not driven:
        names = marks(wanted.projects)
        either = f"(+project IN ({names}) OR +other_project IN ({names}){promoted})"
        parts.append((either, (*wanted.projects, *wanted.projects)))
    if wanted.scope and not (driven and not wanted.projects):
        parts.append((f"(+scope = ? OR +project = ?{promoted})", (wanted.scope, wanted.scope)))
    if wanted.not_projects:
        names = marks(wanted.not_projects)
        neither = f"+project NOT IN ({names}) AND +other_project NOT IN ({names})"
        parts.append((neither, (*wanted.not_projects, *wanted.not_projects)))
    if wanted.kind:
        parts.append(("kind = ? COLLATE NOCASE", (wanted.kind,)))
    if wanted.before:
        parts.append(("created < ?", (wanted.before,)))
    parts += [
        ("EXISTS (SELECT 1 FROM concepts WHERE concept = ? AND memory = id)", (tag.strip(),))
        for tag in wanted.tags
    ]
    return parts


def _all(parts: Sequence[Part]) -> Part:
    return " AND ".join(where for where, _ in parts) or "1", tuple(
        value for _, values in parts for value in values
    )
