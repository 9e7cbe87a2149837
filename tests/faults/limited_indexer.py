"""Index a folder with and without a limit on file sizes; prints the outcome of each run."""

import json
import resource
import sys
from pathlib import Path

from cortex.base.errors import CortexError
from cortex.base.settings import load
from cortex.base.types import Mode, Query
from cortex.engine.engine import Engine

root, home, limit = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.stdin.readline())
settings = load(root, environment={"CORTEX_HOME": str(home)}, flags={"indexing.workers": 1})


def attempt(engine: Engine) -> str:
    try:
        return engine.index().status
    except CortexError as error:
        return error.code


with Engine(root, settings) as engine:
    (root / "a.py").write_text("kept = 'before'\n", encoding="utf-8")
    outcomes = [attempt(engine)]
    for number in range(120):
        (root / f"f{number}.txt").write_text(
            "".join(f"word{number}x{line} {number * line}\n" for line in range(400)),
            encoding="utf-8",
        )
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    outcomes.append(attempt(engine))
    found = [hit.path for hit in engine.search(Query("before", mode=Mode.WORDS)).hits]
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    outcomes.append(attempt(engine))
    last = [hit.path for hit in engine.search(Query("word119x7", mode=Mode.WORDS)).hits]
    print(json.dumps([outcomes, found, last[:1], engine.store.check()]), flush=True)
