"""Passages of documents: hits with the neighbours of their section and page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cortex.base.settings import load
from cortex.engine.embedders.circuit_breaker import Embedders
from cortex.engine.library import Library
from cortex.families.documents.passages import Excerpt, excerpts_of
from cortex.families.documents.search import find, query_of

COINS = "Coins are counted every evening by the owner, and the sum is written into the ledger. " * 8
BILLS = "Bills are sorted every morning by the clerk, and the stack is carried into the vault. " * 8
FILES = {
    "money.md": f"# Money\n\n{COINS}\n\n{BILLS}\n\n## Ledger\n\nThe ledger has two columns.\n",
    "pigeons.txt": "An introduction.\n\fPigeons carry datagrams.\n\fPigeons fear hawks.\n",
}


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    place = tmp_path_factory.mktemp("passages")
    for name, text in FILES.items():
        (place / "notes").mkdir(exist_ok=True)
        (place / "notes" / name).write_text(text, encoding="utf-8", newline="\n")
    home: dict[str, str] = {"CORTEX_HOME": str(place / "home")}
    settings = load(None, environment=home, flags={"indexing.workers": 1}, user_home=place)
    with Library(settings, embedders=Embedders(None)) as library:
        library.index(source=library.add_folder(Path(place / "notes")).source)
        yield library


def excerpts(library: Library, question: str, most: int = 5) -> list[Excerpt]:
    results = find(library, query_of(library.settings, question, "fts5", 10), None).results
    return excerpts_of(library.store.content, results, most)


def test_neighbours_in_a_section_are_one_passage_with_the_hit(library):
    (excerpt,) = excerpts(library, "coins evening")
    (passage,) = excerpt.passages
    assert COINS.strip() in passage.text and BILLS.strip() in passage.text
    assert "two columns" not in passage.text
    assert passage.section == "Money"


def test_passage_keeps_to_the_page_of_its_hit(library):
    (excerpt,) = excerpts(library, "hawks")
    (passage,) = excerpt.passages
    assert passage.page == 3
    assert "hawks" in passage.text and "datagrams" not in passage.text


def test_only_the_first_documents_have_excerpts(library):
    assert len(excerpts(library, "ledger pigeons")) == 2
    assert len(excerpts(library, "ledger pigeons", most=1)) == 1
