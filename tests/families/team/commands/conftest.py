"""A home, an editor and a Core for commands about a team's records."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from command_fixtures import cortex, shop, typed
from families.team.commands.command_answers import Run, answer
from interfaces.team_server.commands.core_server import CoreServer, core_at

__all__ = ["cortex", "shop", "typed"]


@pytest.fixture
def tmp_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder on the disk: a folder in memory can't be indexed."""
    return tmp_path_factory.mktemp("commands")


@pytest.fixture
def auth(cortex: Run) -> str:
    """The id of a subcortex with the slug auth."""
    return answer(cortex, "team", "subcortex", "create", "auth", "--name", "Who comes in")["id"]


@pytest.fixture
def thread(cortex: Run) -> str:
    """The id of an open question."""
    title = "How long do tokens live?"
    return answer(cortex, "team", "thread", "create", title, "--type", "question")["id"]


@pytest.fixture
def editor(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str], None]:
    """`editor(code)` makes stdin a terminal and runs that Python on the text to edit."""

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    def make(code: str) -> None:
        script = tmp_path / "my editor.py"
        script.write_text(
            f"import sys\npath = sys.argv[1]\ntext = open(path, encoding='utf-8').read()\n{code}\n"
            "open(path, 'w', encoding='utf-8').write(text)\n",
            encoding="utf-8",
        )
        monkeypatch.setattr("sys.stdin", Terminal())
        quote = '"' if sys.platform == "win32" else "'"
        monkeypatch.setenv("EDITOR", f"{quote}{sys.executable}{quote} -S {quote}{script}{quote}")
        monkeypatch.delenv("VISUAL", raising=False)

    return make


@pytest.fixture
def core(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[CoreServer]:
    # No test of these searches by meaning.
    monkeypatch.setenv("CORTEX_INDEXING_EMBEDDING_PROVIDER", "none")
    with core_at(tmp_path / "core") as server:
        yield server


@pytest.fixture
def joined(
    cortex: Run, core: CoreServer, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., dict[str, Any]]:
    """`joined(name, tier, *options)` connects the home to the Core: the answer of `connect`."""

    def join(name: str = "ada", tier: int = 4, *options: str) -> dict[str, Any]:
        monkeypatch.setattr(sys, "stdin", io.StringIO(core.let_in(name, tier) + "\n"))
        return answer(cortex, "connect", core.url, "--token-file", "-", *options)

    return join


@pytest.fixture
def lowered(
    cortex: Run, core: CoreServer, joined: Callable[..., dict[str, Any]]
) -> Callable[..., None]:
    """`lowered(title)` writes a thread as ada with tier 4, then lowers her tier to 1."""

    def lower(title: str, *options: str) -> None:
        # A Core keeps at least one principal of tier 4.
        core.let_in("root")
        joined()
        answer(cortex, "team", "thread", "create", title, *options)
        core.ledger.principals.change(core.ledger.principals.named("ada").id, tier=1)

    return lower
