"""Changes in the code that a memory cites."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from cortex.base.types import Memory
from cortex.engine.citations import cite
from cortex.engine.library import Library
from cortex.families.memory.staleness import changes_in
from cortex.families.memory.writer import add
from families.memory.libraries import hold, one_of, open_library, settings_of


@pytest.fixture
def library(memory: Path) -> Iterator[Library]:
    with open_library(settings_of(memory / "home")) as opened:
        yield hold(opened)


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    folder = tmp_path / "shop"
    folder.mkdir()
    for number in range(7):
        write(folder, number, "return 1")
    return folder


def write(folder: Path, number: int, body: str) -> None:
    text = f"def jam():\n    {body}\n\n\ndef other():\n    return 2\n"
    (folder / f"till{number}.py").write_text(text, encoding="utf-8")


def remember(library: Library, shop: Path, *targets: str) -> str:
    cited = [cite(shop, target, library.view_in(shop)) for target in targets]
    return add(library, Memory("", "The till jams", project="shop"), citations=cited).key


def test_a_change_of_each_cited_symbol_or_file_is_a_line(library: Library, shop: Path):
    key = remember(library, shop, "till0.py#jam", "till1.py#jam", "till2.py")
    assert changes_in(library)(one_of(library, key)) == ()
    write(shop, 0, "return 7")
    (shop / "till2.py").unlink()
    assert changes_in(library)(one_of(library, key)) == (
        "the body of jam in till0.py changed",
        "till2.py is gone",
    )


def test_only_five_citations_of_a_memory_are_checked(library: Library, shop: Path):
    key = remember(library, shop, *(f"till{number}.py#jam" for number in range(7)))
    for number in range(7):
        write(shop, number, "return 7")
    assert changes_in(library)(one_of(library, key)) == tuple(
        f"the body of jam in till{number}.py changed" for number in range(5)
    )


def test_check_without_time_reports_only_the_changed_file(library: Library, shop: Path):
    key = remember(library, shop, "till0.py#jam", "till1.py#jam")
    write(shop, 0, "return 7")
    assert changes_in(library, 0.0)(one_of(library, key)) == ("till0.py changed",)
    assert changes_in(library, 60.0)(one_of(library, key)) == (
        "the body of jam in till0.py changed",
    )


def test_unreadable_citation_does_not_hide_the_others(library: Library, shop: Path):
    key = remember(library, shop, "till0.py#jam", "till1.py#jam")
    write(shop, 1, "return 7")
    (shop / "till0.py").unlink()
    (shop / "till0.py").mkdir()
    found = changes_in(library)(one_of(library, key))
    assert found[-1] == "the body of jam in till1.py changed"
    shutil.rmtree(shop)
    assert changes_in(library)(one_of(library, key)) == ()
