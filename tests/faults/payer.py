"""Indexes a folder and has it embedded in the background by an embedder that counts what it is
asked for.

Says "ready", then the first line of every text that the embedder is asked for, and "kept" once
these are kept.
"""

import sys
import time
from pathlib import Path

from cortex.base.settings import load
from cortex.base.types import Stamp
from cortex.engine.auto_indexer import AutoIndexer
from cortex.engine.embedders.circuit_breaker import Embedders
from cortex.engine.embedders.hash_embedder import HashingEmbedder
from cortex.engine.engine import Engine


class Costly(HashingEmbedder):
    """As in test_sequences.py, but that it tells."""

    def __init__(self) -> None:
        super().__init__()
        self.costly = True
        self.stamp = Stamp("test", "costly", 64)

    def embed(self, texts, mode):
        for text in texts:
            say("asks", text.strip().partition("\n")[0])
        time.sleep(0.02 * len(texts))  # so that batches stay small
        return super().embed(texts, mode)


def say(*words: str) -> None:
    sys.stdout.write(" ".join(words) + "\n")
    sys.stdout.flush()


root, home = Path(sys.argv[1]), Path(sys.argv[2])
settings = load(root, environment={"CORTEX_HOME": str(home)}, flags={"indexing.workers": 1})
with Engine(root, settings, embedders=Embedders(Costly(), lambda: HashingEmbedder(32))) as engine:
    pay = engine.store.indexes.sets.pay

    def pay_and_tell(stamp, model, hashes, rows, known):
        pay(stamp, model, hashes, rows, known)
        say("kept")

    engine.store.indexes.sets.pay = pay_and_tell  # type: ignore[method-assign]
    say("ready")
    keeper = AutoIndexer(engine)
    while engine.stats().embedding.answering != "test costly":
        time.sleep(0.01)
    say("done")
    sys.stdin.read()
    keeper.close()
