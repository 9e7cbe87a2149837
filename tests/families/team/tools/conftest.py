"""A small company: a repository, a document, a memory and records about them; a tool caller."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from cortex.base.actors import person
from cortex.base.record_model import (
    Artifact,
    Body,
    CodeLink,
    Comment,
    Evidence,
    Observation,
    Subcortex,
    Task,
    Term,
    Thread,
)
from cortex.base.settings import Settings, Workspace, load
from cortex.base.types import Memory
from cortex.engine.engine import Engine
from cortex.engine.library import Library
from cortex.engine.store import RecordTransaction
from cortex.families.code import tools as code
from cortex.families.documents import tools as kb
from cortex.families.memory import tools as memory
from cortex.families.memory.writer import add
from cortex.families.team import tools as team
from cortex.families.team.code_links import cited
from cortex.families.team.ids import fresh_key
from cortex.families.team.writes.create import add_body
from cortex.families.team.writes.transactions import perform
from cortex.families.team.writes.update import revise_in
from cortex.interfaces.assembly.pool import engine_pool
from cortex.toolkit.tool import Answer, Call, Family, bind, find_tool
from cortex.toolkit.tool import perform as run

TOKENS = '''"""Tokens of sessions."""

LIFETIME = 900


def refresh_token(session: str, lifetime: int = LIFETIME) -> str:
    """A new token for a session that still lives."""
    return f"{session}:{lifetime}"
'''
LOGIN = """from tokens import refresh_token


def log_in(user: str) -> str:
    return refresh_token(user)
"""
GUIDE = "# Sessions\n\nA session lives as long as somebody calls `refresh_token` within fifteen minutes.\n"
DECISION = "# Decision\n\nA token lives 15 minutes, then it is refreshed.\n"
COMMENTS = (
    "We decided that a token lives 15 minutes.",
    "The mobile app refreshes it in the background.",
    "Thanks!",
)
CODE = {"code_link": {"path": "src/tokens.py", "symbol": "refresh_token"}}
MOMENT = "2026-01-05T10:00:00+00:00"


@dataclass(slots=True)
class World:
    """The folders of the company, and ids of its records by name."""

    place: Path
    ids: dict[str, str] = field(default_factory=dict)

    @property
    def repository(self) -> Path:
        return self.place / "code" / "shop"

    def settings(self, **flags: object) -> Settings:
        variables = {
            "CORTEX_HOME": str(self.place / "home"),
            "ACK_MEM_PATH": str(self.place / "ack"),
        }
        return load(
            None,
            environment=variables,
            flags={"indexing.workers": 1, **flags},
            user_home=self.place,
        )

    def workspace(self) -> Workspace:
        variables = {"CORTEX_HOME": str(self.place / "home")}
        settings = load(
            self.repository,
            environment=variables,
            flags={"indexing.workers": 1},
            user_home=self.place,
        )
        return Workspace(self.repository, settings)


@dataclass(frozen=True, slots=True)
class ToolCaller:
    """A caller of the tools of one family."""

    family: Family

    def answer(self, name: str, **arguments: object) -> Answer:
        family, tool = find_tool([self.family], f"cortex_{name}")
        return run(family, tool, bind(tool, arguments), Call())

    def ask(self, name: str, **arguments: object) -> dict[str, Any]:
        """The whole answer, which must not be an error."""
        answer = self.answer(name, **arguments)
        assert not answer.failed, answer.text
        return json.loads(answer.text)

    def data(self, name: str, **arguments: object) -> dict[str, Any]:
        """The data of an answer."""
        return self.ask(name, **arguments)["data"]

    def fault(self, name: str, **arguments: object) -> dict[str, Any]:
        answer = self.answer(name, **arguments)
        assert answer.failed, answer.text
        return json.loads(answer.text)["error"]


def git(folder: Path, *words: str) -> None:
    moment = {"GIT_AUTHOR_DATE": MOMENT, "GIT_COMMITTER_DATE": MOMENT}
    subprocess.run(
        ["git", "-C", str(folder), *words],
        check=True,
        capture_output=True,
        env={**os.environ, **moment},
    )


def make_repository(folder: Path) -> None:
    (folder / "src").mkdir(parents=True)
    git(folder.parent, "init", "-q", str(folder))
    for name, text in (("tokens.py", TOKENS), ("login.py", LOGIN)):
        (folder / "src" / name).write_text(text, encoding="utf-8", newline="\n")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "Tokens that are refreshed")


def make_world(place: Path) -> World:
    world = World(place)
    make_repository(world.repository)
    with Engine(world.repository, world.workspace().settings) as engine:
        engine.index()
    papers = place / "papers"
    papers.mkdir()
    (papers / "sessions.md").write_text(GUIDE, encoding="utf-8")
    with Library(world.settings()) as library:
        library.index(source=library.add_folder(papers).source)
        note = Memory(
            "",
            "refresh_token must not be called twice",
            "",
            ("It ends the session",),
            project="shop",
        )
        add(library, replace(note, date="2026-11-16", created=int(time.time() * 1000)))
        fill(library, world)
    return world


def in_one_step(library: Library, work: Callable[[RecordTransaction], None]) -> None:
    """Write much at once: one transaction, indexed once."""

    def done(step: RecordTransaction) -> str:
        work(step)
        return ""

    perform(library, done, actor=person(), key=fresh_key(), action="fill", payload="")


def fill(library: Library, world: World) -> None:
    """Write the team's records."""
    code_link = cited(
        library, world.repository, [CodeLink("src/tokens.py", symbol="refresh_token")]
    )

    def work(step: RecordTransaction) -> None:
        def keep(name: str, body: Body) -> str:
            world.ids[name] = add_body(step, body).id
            return world.ids[name]

        charter, words = (
            "How people log in, and for how long.",
            (Term("session", "what begins with a login"),),
        )
        auth = keep("auth", Subcortex("auth", "Authentication", charter=charter, glossary=words, naming=("Tokens are nouns.",)))  # fmt: skip
        thread = keep(
            "thread",
            Thread("How long does a token live?", "We have to decide.", "decision", subcortex=auth),
        )
        for number, text in enumerate(COMMENTS):
            keep(f"comment{number}", Comment(thread, text))
        keep(
            "incident",
            Thread("Logins fail at noon", "Since the release.", "incident", subcortex=auth),
        )
        keep("result", Observation("Refreshing takes 3 ms", "Measured.", "test_result", subcortex=auth, code_links=code_link))  # fmt: skip
        decided = Evidence("thread", thread, "where it was decided")
        old = keep("old", Artifact("Tokens live for an hour", "An hour.", type="adr", state="accepted", subcortex=auth, evidence=(decided,)))  # fmt: skip
        new = keep("adr", Artifact("Tokens live for 15 minutes", DECISION, "Tokens live 15 minutes.", "adr", "accepted", review_by="2026-01-31", evidence=(decided,), subcortex=auth, code_links=code_link, supersedes=old))  # fmt: skip
        task = keep("task", Task("Shorten the lifetime", "In tokens.py.", "in_progress", "high", ("agent",), thread=thread, subcortex=auth, code_links=code_link))  # fmt: skip
        pins = {"pinned_artifacts": (new,), "pinned_threads": (thread,), "pinned_tasks": (task,)}
        revise_in(step, auth, lambda body: replace(body, **pins), "edit_subcortex")

    in_one_step(library, work)


def open_caller(
    world: World, *, read_only: bool = False, keep: bool = False, **flags: object
) -> ToolCaller:
    settings, found = world.settings(**flags), [world.workspace()]
    engines = engine_pool(keep=keep)
    beside = [
        code.open_family(found, engines, read_only=True),
        kb.open_family(settings, engines),
        memory.open_family(settings, engines, world.repository, ""),
    ]
    return ToolCaller(team.open_family(settings, engines, found, (), beside, read_only=read_only))


@pytest.fixture
def tmp_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder on the disk: a folder in memory can't be a source of documents."""
    return tmp_path_factory.mktemp("place")


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory, strangers_environment: object) -> World:
    """A shared company, for tests whose writes no other test sees."""
    return make_world(tmp_path_factory.mktemp("team"))


@pytest.fixture(scope="session")
def caller(world: World) -> Iterator[ToolCaller]:
    opened = open_caller(world)
    yield opened
    opened.family.close()


@pytest.fixture
def caller_of() -> Iterator[Callable[..., ToolCaller]]:
    opened: list[ToolCaller] = []

    def open_for(world: World, **flags: Any) -> ToolCaller:
        opened.append(open_caller(world, **flags))
        return opened[-1]

    yield open_for
    for caller in opened:
        caller.family.close()


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory, strangers_environment: object) -> World:
    """A company that the tests of one module write into."""
    return make_world(tmp_path_factory.mktemp("writes"))


@pytest.fixture
def agent(shop: World, caller_of: Callable[..., ToolCaller]) -> ToolCaller:
    return caller_of(shop, keep=True)


def steady(value: object) -> object:
    """An answer with ids numbered in order and without ages in minutes."""
    known: dict[str, str] = {}
    text = re.sub(r'"age": "\d+m"', '"age": "now"', json.dumps(value, ensure_ascii=False))
    for ids in (r"(?<=_)[0-9A-HJKMNP-TV-Z]{26}", r"(?<=mem_|doc_)[0-9a-f]{10,16}"):
        text = re.sub(ids, lambda match: known.setdefault(match[0], f"#{len(known) + 1}"), text)
    return json.loads(text)


def ids_of(rows: list[dict[str, Any]]) -> list[str]:
    return [row["id"] for row in rows]
