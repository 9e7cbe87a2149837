"""Commands and calls of the team page, run in its order and answered as it says.

Ids are made anew each time, so the page has some of its own, which stand for the first, the second,
... of a kind. CORTEX_GOLDEN=write puts the answers of today into the page; then look at the
difference before it is committed.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest

import cortex
from cortex.interfaces.cli import run

PAGE = Path(__file__).parents[2] / "docs" / "team.md"
ID = re.compile(
    r"\b(thread|task|artifact|draft|obs|comment|link|notif|subcortex)_(01[0-9A-Z]{6,24})\b"
)
# Characters of a whole ULID
ULID_SIZE = 26
WIDTH = 165
# Read at import: tests run without the variables of Cortex
WRITE = os.environ.get("CORTEX_GOLDEN") == "write"
MOMENT = "2026-11-16T09:00:00+00:00"
TOKENS = '''\
"""Tokens: who may come in, and for how long."""

LIFETIME_SECONDS = 900


class Tokens:
    """Gives out tokens, and checks them."""

    def refresh(self, token: str) -> str:
        """A new token for an old one."""
        return self.give(check(token))

    def give(self, user: str) -> str:
        return f"{user}.{LIFETIME_SECONDS}"


def check(token: str) -> str:
    """The user of a token."""
    return token.split(".")[0]
'''


class Ids:
    """Ids of the page and of this run, each kind in the order of their appearance."""

    def __init__(self, text: str) -> None:
        found = [match[0] for match in ID.finditer(text) if len(match[2]) == ULID_SIZE]
        self._page = list(dict.fromkeys(found))
        self._today: list[str] = []

    def add(self, text: str) -> None:
        """Add the ids of a text of this run."""
        for match in ID.finditer(text):
            if len(match[2]) == ULID_SIZE and match[0] not in self._today:
                self._today.append(match[0])

    def to_today(self, text: str) -> str:
        return ID.sub(lambda match: self._other(match[0], self._page, self._today), text)

    def to_page(self, text: str) -> str:
        return ID.sub(lambda match: self._other(match[0], self._today, self._page), text)

    def _other(self, id_: str, here: list[str], there: list[str]) -> str:
        kind = id_.partition("_")[0] + "_"
        ours = [number for number in here if number.startswith(kind)]
        theirs = [number for number in there if number.startswith(kind)]
        place = next(
            (place for place, number in enumerate(ours) if number.startswith(id_)), len(theirs)
        )
        return theirs[place] if place < len(theirs) else id_


def rendered(value: object, depth: int = 0) -> str:
    """JSON in the layout of the page: on a single line if it fits."""
    line = json.dumps(value, ensure_ascii=False)
    if len(line) + depth <= WIDTH or not isinstance(value, dict | list) or not value:
        return line
    blanks = " " * (depth + 2)
    if isinstance(value, dict):
        parts = [
            f"{blanks}{json.dumps(key)}: {rendered(part, depth + 2)}" for key, part in value.items()
        ]
    else:
        parts = [blanks + rendered(part, depth + 2) for part in value]
    ends = "{}" if isinstance(value, dict) else "[]"
    return ends[0] + "\n" + ",\n".join(parts) + "\n" + " " * depth + ends[1]


def shape(value: object, place: str = "") -> set[str]:
    """Every key of an answer by its place."""
    if isinstance(value, list):
        return {key for item in value for key in shape(item, f"{place}[]")}
    if not isinstance(value, dict):
        return set()
    return {f"{place}.{key}" for key in value} | {
        key for name, part in value.items() for key in shape(part, f"{place}.{name}")
    }


def make_shop(folder: Path) -> Path:
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "tokens.py").write_text(TOKENS, encoding="utf-8", newline="\n")
    moment = {"GIT_AUTHOR_DATE": MOMENT, "GIT_COMMITTER_DATE": MOMENT}
    for words in (
        ["init", "-q"],
        ["add", "-A"],
        ["commit", "-qm", "Give out tokens, and check them"],
    ):
        subprocess.run(
            ["git", "-C", str(folder), *words], check=True, env={**os.environ, **moment}, timeout=30
        )
    return folder


@pytest.mark.usefixtures("at_terminal", "unhurried")
def test_commands_and_calls_of_the_team_page_run_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = PAGE.read_text(encoding="utf-8")
    ids, shop = Ids(text), make_shop(tmp_path / "shop")
    monkeypatch.setenv("CORTEX_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(shop)

    def run_lines(lines: list[str]) -> None:
        for line in lines:
            capsys.readouterr()
            assert run([*shlex.split(ids.to_today(line))[1:], "--json"]) == 0, line
            ids.add(capsys.readouterr().out)

    day = re.findall(r"<!-- a day -->\n```console\n(.*?)```", text, re.DOTALL)[0]
    commands = [
        line.removeprefix("$ ") for line in day.splitlines() if line.startswith("$ cortex ")
    ]
    agent = commands.index("cortex install")
    run_lines(commands[:agent])
    calls = re.findall(r"<!-- call of cortex\.(\w+) -->\n```json\n(.*?)```", text, re.DOTALL)
    wrong = []
    with cortex.open_tools("code", "team", root=shop, writes=True) as tools:
        listed = [str(definition["name"]) for definition in tools.definitions()]
        assert [f"cortex_{name}" for name, _ in calls] == [
            name for name in listed if name.startswith("cortex_")
        ]
        tools.call("reindex_workspace", {})
        for name, arguments in calls:
            answer = tools.call(f"cortex_{name}", json.loads(ids.to_today(arguments)))
            assert not answer.is_error, answer.text
            ids.add(answer.text)
            block = re.compile(
                rf"(<!-- answer of cortex\.{name} -->\n```json\n)(.*?)(```)", re.DOTALL
            )
            example = block.search(text)
            assert example is not None, name
            if WRITE:
                today = rendered(json.loads(ids.to_page(answer.text)))
                text = text.replace(example[0], f"{example[1]}{today}\n{example[3]}")
                PAGE.write_text(text, encoding="utf-8", newline="\n")
            elif shape(json.loads(example[2])) != shape(json.loads(answer.text)):
                wrong.append(name)
    run_lines(commands[agent + 1 :])
    assert wrong == []
