"""Store fixtures: stores that are closed again, and changes made of plain text."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from cortex.base.text import hash_bytes
from cortex.base.types import ScannedFile, Source
from cortex.engine import chunkers
from cortex.engine.store import ContentChange, Store
from cortex.engine.store.records.ledger import Ledger, open_ledger


class Folder:
    """A store with one source that is filled from texts instead of files."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.source: Source = store.content.source("files", "folder", "/folder")

    def write(self, **texts: str) -> int:
        """Put each text under the name of its argument, with `_` for the dot; returns `seq`."""
        return self.write_all({name.replace("_", "."): text for name, text in texts.items()})

    def write_all(self, texts: dict[str, str]) -> int:
        return self.store.content.apply(
            self.source.id, ContentChange(cuts=[_cut(path, text) for path, text in texts.items()])
        )

    def remove(self, *paths: str) -> int:
        return self.store.content.apply(self.source.id, ContentChange(removed=list(paths)))

    def link(self, path: str, like: str) -> int:
        """Give the content of one path to another."""
        blob = self.store.content.known(self.source.id)[like].blob
        return self.store.content.apply(
            self.source.id, ContentChange(links=[(ScannedFile(path, 1, 1), blob)])
        )

    def catch_up(self) -> None:
        self.store.indexes.catch_up()

    def doc(self, path: str) -> int:
        return self.store.content.known(self.source.id)[path].doc

    def blob(self, path: str) -> int:
        return self.store.content.known(self.source.id)[path].blob

    def blobs(self) -> int:
        """The number of stored texts, used or not."""
        with self.store._connections.read() as connection:
            return connection.execute("SELECT count(*) FROM blobs").fetchone()[0]


def _cut(path: str, text: str):
    language = chunkers.language_of(path, text)
    raw = text.encode("utf-8")
    return (
        ScannedFile(path, len(raw), 1),
        hash_bytes(language.encode(), raw),
        chunkers.cut(text, path, language),
    )


@pytest.fixture
def tmp_path(memory: Path) -> Path:
    """The folder in memory: most tests here write durably."""
    return memory


@pytest.fixture
def open_store(tmp_path: Path) -> Iterator[Callable[..., Store]]:
    """Open stores in the test's folder (or in memory), and close them when the test ends."""
    with ExitStack() as opened:

        def open_one(directory: Path | None = tmp_path) -> Store:
            return opened.enter_context(closing(Store(directory)))

        yield open_one


@pytest.fixture
def folder(open_store: Callable[..., Store]) -> Folder:
    return Folder(open_store())


@pytest.fixture
def folder_of() -> type[Folder]:
    return Folder


@pytest.fixture(params=["sqlite", "postgresql"])
def ledger_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a new ledger, in each database."""
    return (
        f"sqlite:///{tmp_path}/ledger"
        if request.param == "sqlite"
        else request.getfixturevalue("database")
    )


@pytest.fixture
def open_one() -> Iterator[Callable[[str], Ledger]]:
    """Open ledgers, and close them when the test ends."""
    with ExitStack() as opened:

        def open_at(url: str) -> Ledger:
            if url.startswith("sqlite:///"):
                Path(url.removeprefix("sqlite:///")).mkdir(parents=True, exist_ok=True)
            return opened.enter_context(open_ledger(url))

        yield open_at


@pytest.fixture
def ledger(ledger_url: str, open_one: Callable[[str], Ledger]) -> Ledger:
    return open_one(ledger_url)
