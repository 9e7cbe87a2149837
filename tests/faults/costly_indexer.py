"""Index a folder and embed it in the background with an embedder that is charged for.

Prints "ready", then "asks" with the first line of each text that is embedded, "kept" once these
vectors are stored, and "done" at the end.
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


class LoggedEmbedder(HashingEmbedder):
    """An embedder that is charged for, which prints each text."""

    def __init__(self) -> None:
        super().__init__()
        self.costly = True
        self.stamp = Stamp("test", "costly", 64)

    def embed(self, texts, mode):
        for text in texts:
            say("asks", text.strip().partition("\n")[0])
        # Batches are sized by the time that they take: this keeps them small
        time.sleep(0.02 * len(texts))
        return super().embed(texts, mode)


def say(*words: str) -> None:
    sys.stdout.write(" ".join(words) + "\n")
    sys.stdout.flush()


root, home = Path(sys.argv[1]), Path(sys.argv[2])
settings = load(root, environment={"CORTEX_HOME": str(home)}, flags={"indexing.workers": 1})
with Engine(
    root, settings, embedders=Embedders(LoggedEmbedder(), lambda: HashingEmbedder(32))
) as engine:
    pay = engine.store.indexes.sets.pay

    def pay_and_say(stamp, model, hashes, rows, known):
        pay(stamp, model, hashes, rows, known)
        say("kept")

    engine.store.indexes.sets.pay = pay_and_say  # type: ignore[method-assign]
    say("ready")
    indexer = AutoIndexer(engine)
    while engine.vitals().embedding.answering != "test costly":
        time.sleep(0.01)
    say("done")
    sys.stdin.read()
    indexer.close()
