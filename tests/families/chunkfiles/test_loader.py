"""Reloads of chunk files: under load, after a kill, and the clearing of dead rows."""

import gc
import random
import threading
from pathlib import Path

import psutil
import pytest

from cortex.base.errors import ConfigError
from cortex.engine.store import Store
from cortex.families.chunkfiles import builder, generations
from cortex.families.chunkfiles.index import ChunkIndex, ChunkQuery, ChunkSearchResult
from cortex.families.chunkfiles.loader import GenerationLoader
from families.chunkfiles.chunk_files import another_process, make_chunk, write_chunks

CLIENTS = 8
# In each of two files
CHUNKS = 24
GROWTH_BYTES = 48 << 20


def write_state(folder: Path, rng: random.Random, number: int) -> None:
    """Write a state of two files; every chunk names its state, and some chunks come and go."""
    for name in ("a", "b"):
        write_chunks(
            folder / f"{name}.json",
            *[
                make_chunk(
                    f"{name}{n}",
                    f"basket state{number} part {n}",
                    tags=(f"state{number}",),
                    kind=name,
                )
                for n in range(CHUNKS + rng.randrange(5))
            ],
        )


def states_of(found: ChunkSearchResult) -> set[tuple[str | None, str]]:
    """The files, and their states, of the chunks in an answer."""
    return {(entry.chunk_type, entry.text.split()[1]) for entry, _ in found.results}


class Searcher(threading.Thread):
    """A client that searches until it is stopped, and keeps what was wrong."""

    def __init__(self, index: ChunkIndex, seed: int) -> None:
        super().__init__(daemon=True)
        self._shelf, self._rng = index, random.Random(seed)
        self.stop = threading.Event()
        self.wrong: list[str] = []
        self.asked = 0

    def run(self):
        while not self.stop.is_set():
            kinds = self._rng.choice([(), ("a",), ("a", "b")])
            try:
                found = self._shelf.search(
                    ChunkQuery("basket", limit=self._rng.choice([5, 100]), chunk_types=kinds)
                )
            except Exception as error:
                self.wrong.append(repr(error))
                return
            self.asked += 1
            states = states_of(found)
            # Two states of one file
            if len({name for name, _ in states}) != len(states) or found.notes[1:]:
                self.wrong.append(f"{states} {found.notes}")


def stores() -> int:
    gc.collect()
    return sum(isinstance(value, Store) for value in gc.get_objects())


@pytest.mark.soak
def test_reloads_under_load_never_fail_mix_states_or_leak(folder, home, opened, until, campaign):
    rounds = campaign(4, 100)
    rng = random.Random(6)
    # Stores left by other tests
    before = stores()
    write_state(folder, rng, 0)
    index = opened()
    clients = [Searcher(index, seed) for seed in range(CLIENTS)]
    for client in clients:
        client.start()
    process, sizes = psutil.Process(), []
    for number in range(1, rounds + 1):
        write_state(folder, rng, number)
        until(
            lambda number=number: (
                f"state{number}" in index.search(ChunkQuery("basket")).results[0][0].text
            )
        )
        sizes.append(
            (process.memory_info().rss, process.num_fds() if hasattr(process, "num_fds") else 0)
        )
    asked = [client.asked for client in clients]
    for client in clients:
        client.stop.set()
    for client in clients:
        client.join(30)
    assert [client.wrong for client in clients] == [[]] * CLIENTS
    assert min(asked) > 0
    place = generations.home_of(folder.resolve(), home)
    until(lambda: len(generations.newest_first(place)) == 1)
    assert stores() - before <= 2
    half = len(sizes) // 2
    assert (
        max(size for size, _ in sizes[half:]) - max(size for size, _ in sizes[:half]) < GROWTH_BYTES
    )
    assert max(files for _, files in sizes[half:]) - max(files for _, files in sizes[:half]) < 60


@pytest.mark.soak
def test_next_start_serves_the_files_when_a_process_is_killed_while_loading(
    folder, home, opened, until, campaign
):
    rng = random.Random(7)
    for number in range(campaign(2, 30)):
        write_state(folder, rng, number)
        with another_process(folder, home) as (process, _):
            write_state(folder, rng, number + 1000)
            with pytest.raises(Exception, match="timed out"):
                process.wait(rng.random() * 0.9)
            process.kill()
        index = opened()
        expected = {(name, f"state{number + 1000}") for name in ("a", "b")}
        until(
            lambda index=index, expected=expected: (
                states_of(index.search(ChunkQuery("basket", limit=100))) == expected
            )
        )
        index.close()
    place = generations.home_of(folder.resolve(), home)
    assert (
        len([path for path in generations.newest_first(place) if generations.is_published(path)])
        == 1
    )


def test_dead_rows_are_cleared_away_after_a_reload(folder, home, monkeypatch):
    monkeypatch.setattr(builder, "FEW_ENTRIES", 0)
    chunks = [make_chunk(f"n{n}", f"basket number {n}", embedding=None) for n in range(1500)]
    loading = GenerationLoader(folder, home)
    tidied = []
    # 400 of 1,500 at a time: too few to write the words anew at once
    for turn in range(4):
        changed = [make_chunk(f"n{n}", f"other {turn}", embedding=None) for n in range(400)]
        write_chunks(folder / "a.json", *changed, *chunks[400:])
        assert loading.reload()
        tidied.append(loading.tidy())
    assert tidied == [False, False, False, True]
    assert not loading.tidy()
    with loading.using() as generation:
        assert generation.store.content.get("dead") == "0"
        assert generation.store.check() == []
    loading.close(ConfigError("WORKSPACE_MISSING", "over"))
