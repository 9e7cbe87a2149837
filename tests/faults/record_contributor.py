"""Write team records for ever, each under the key of its number; prints number and id.

Starts with the first write each time, so that all earlier ones, acknowledged or not, are retried.
"""

import sys
from itertools import count
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from cortex.base.actors import agent, person
from cortex.base.record_model import (
    Artifact,
    CodeLink,
    Comment,
    Draft,
    Evidence,
    Observation,
    Subcortex,
    Task,
    Thread,
)
from cortex.engine.library import Library
from cortex.families.team.writes.actions import resolve_thread, update_task
from cortex.families.team.writes.create import create, create_observations
from cortex.families.team.writes.drafts import approve, create_draft, reject
from families.memory.libraries import open_library, settings_of
from faults.write_plan import ROUND, key_of


class Contributor:
    """Writes by number, and the ids that they were answered with: a retry has the same id."""

    def __init__(self, library: Library) -> None:
        self.library, self.person, self.agent = library, person(), agent(library.settings)
        self.known: dict[int, str] = {}

    def write(self, number: int) -> str:
        """Do one write and return the id of its record."""
        turn, place = divmod(number, len(ROUND))
        at = {
            name: self.known.get(turn * len(ROUND) + index, "")
            for index, (name, _) in enumerate(ROUND)
        }
        before = self.known.get(number - len(ROUND), "")
        self.known[number] = self._write(ROUND[place][0], at, turn, before, key_of(number))
        return self.known[number]

    def _write(self, name: str, at: dict[str, str], turn: int, before: str, key: str) -> str:
        library, by_person, by_agent = (
            self.library,
            {"actor": self.person, "key": key},
            {"actor": self.agent, "key": key},
        )
        match name:
            case "observe":
                link = CodeLink("src/lamp.py", symbol=f"lamp_{turn}")
                body = Observation(
                    "Limit of the fuse",
                    f"The limit is {turn} ampere.",
                    subcortex="lamps",
                    code_links=(link,),
                )
                # From the second on each contradicts the ones before
                return create(library, body, **by_agent).id
            case "open":
                return create(
                    library,
                    Thread(f"Why does lamp {turn} blink?", "@agent, look.", subcortex="lamps"),
                    **by_person,
                ).id
            case "say":
                return create(
                    library,
                    Comment(at["open"], f"Its fuse {turn} was loose. We decided to solder it."),
                    **by_person,
                ).id
            case "draft":
                body = Draft(
                    "comment",
                    "",
                    f"It takes {turn} minutes, cc @lena.",
                    target=at["open"],
                    target_kind="thread",
                )
                return create_draft(library, body, **by_agent)[0].id
            case "approve":
                return approve(library, at["draft"], **by_person).record.id
            case "plan":
                return create(
                    library,
                    Task(f"Solder fuse {turn}", assignees=("agent",), thread=at["open"]),
                    **by_person,
                ).id
            case "block":
                return update_task(
                    library,
                    at["plan"],
                    {"state": "blocked", "blocked_reason": "no solder"},
                    **by_person,
                ).id
            case "batch":
                observations = [
                    Observation(f"Fuse {turn} seen {part}", thread=at["open"])
                    for part in ("cold", "warm")
                ]
                done = create_observations(
                    library, [observations[0], Observation(""), observations[1]], **by_agent
                )
                return ",".join(outcome.id or "-" for outcome in done.outcomes)
            case "sum up":
                return create(
                    library,
                    Comment(at["open"], f"Lamp {turn} is done."),
                    summary=f"Fuse {turn}.",
                    **by_person,
                ).id
            case "decide":
                rests_on = (Evidence("thread", at["open"]), Evidence("comment", at["approve"]))
                body = Artifact(
                    f"Fuses take {turn} minutes",
                    "Solder.",
                    state="accepted",
                    evidence=rests_on,
                    supersedes=before,
                )
                return create(library, body, **by_person).id
            case "propose":
                return create_draft(
                    library, Draft("artifact", f"Rule {turn}", "No lamp blinks."), **by_agent
                )[0].id
            case "reject":
                return reject(library, at["propose"], notes="no", **by_person).id
            case _:
                return resolve_thread(
                    library, at["open"], f"Fuse {turn} is soldered.", **by_person
                ).id


def main(home: Path) -> None:
    with open_library(settings_of(home)) as library:
        create(library, Subcortex("lamps", "Lamps"), actor=person(), key="scope")
        contributor = Contributor(library)
        for number in count():
            print(number, contributor.write(number), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[2]))
