"""Index a folder once, with vectors, after a line on stdout."""

import sys
from pathlib import Path

from cortex.base.settings import load
from cortex.engine.embedders.hash_embedder import HashingEmbedder
from cortex.engine.engine import Engine

root, home = Path(sys.argv[1]), Path(sys.argv[2])
settings = load(root, environment={"CORTEX_HOME": str(home)}, flags={"indexing.workers": 1})
with Engine(root, settings, embedder=HashingEmbedder()) as engine:
    print("ready", flush=True)
    engine.index()
    print("done", flush=True)
    sys.stdin.read()
