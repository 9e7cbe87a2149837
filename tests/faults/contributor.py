"""Contributes to what a team keeps for ever, each write under a key that follows from its number;
says number and id after it is done.

Begins with the first one each time, so that all that came before, acknowledged or not, is tried
again.
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
from faults.plan import ROUND, key_of


class Contributor:
    """One who knows what was written: whoever tries again is told the same ids."""

    def __init__(self, library: Library) -> None:
        self.library, self.person, self.agent = library, person(), agent(library.settings)
        self.known: dict[int, str] = {}

    def write(self, number: int) -> str:
        """One write; gives the id of what came of it."""
        turn, place = divmod(number, len(ROUND))
        at = {
            name: self.known.get(turn * len(ROUND) + index, "")
            for index, (name, _) in enumerate(ROUND)
        }
        before = self.known.get(number - len(ROUND), "")
        self.known[number] = self._write(ROUND[place][0], at, turn, before, key_of(number))
        return self.known[number]

    def _write(self, name: str, at: dict[str, str], turn: int, before: str, key: str) -> str:
        library, me, it = (
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
                # From the second on it contradicts those before
                return create(library, body, **it).id
            case "open":
                return create(
                    library,
                    Thread(f"Why does lamp {turn} blink?", "@agent, look.", subcortex="lamps"),
                    **me,
                ).id
            case "say":
                return create(
                    library,
                    Comment(at["open"], f"Its fuse {turn} was loose. We decided to solder it."),
                    **me,
                ).id
            case "draft":
                body = Draft(
                    "comment",
                    "",
                    f"It takes {turn} minutes, cc @lena.",
                    target=at["open"],
                    target_kind="thread",
                )
                return create_draft(library, body, **it)[0].id
            case "approve":
                return approve(library, at["draft"], **me).record.id
            case "plan":
                return create(
                    library,
                    Task(f"Solder fuse {turn}", assignees=("agent",), thread=at["open"]),
                    **me,
                ).id
            case "block":
                return update_task(
                    library, at["plan"], {"state": "blocked", "blocked_reason": "no solder"}, **me
                ).id
            case "batch":
                some = [
                    Observation(f"Fuse {turn} seen {part}", thread=at["open"])
                    for part in ("cold", "warm")
                ]
                done = create_observations(library, [some[0], Observation(""), some[1]], **it)
                return ",".join(outcome.id or "-" for outcome in done.outcomes)
            case "sum up":
                return create(
                    library,
                    Comment(at["open"], f"Lamp {turn} is done."),
                    summary=f"Fuse {turn}.",
                    **me,
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
                return create(library, body, **me).id
            case "propose":
                return create_draft(
                    library, Draft("artifact", f"Rule {turn}", "No lamp blinks."), **it
                )[0].id
            case "reject":
                return reject(library, at["propose"], notes="no", **me).id
            case _:
                return resolve_thread(library, at["open"], f"Fuse {turn} is soldered.", **me).id


def main(home: Path) -> None:
    with open_library(settings_of(home)) as library:
        create(library, Subcortex("lamps", "Lamps"), actor=person(), key="scope")
        contributor = Contributor(library)
        for number in count():
            print(number, contributor.write(number), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[2]))
