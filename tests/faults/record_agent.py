"""Write and search records on command, a line each.

Answers with JSON: the result, or the code of an error.
"""

import json
import resource
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from cortex.base.actors import person
from cortex.base.errors import CortexError, explained
from cortex.base.record_model import Observation
from cortex.base.runtime.process_stats import memory_bytes
from cortex.base.settings import load
from cortex.base.types import Query
from cortex.engine.auto_indexer import AutoIndexer
from cortex.engine.embedders.hash_embedder import HashingEmbedder
from cortex.engine.engine import Engine
from cortex.families.team.search import RecordQuery, find
from cortex.families.team.writes.create import create
from families.memory.libraries import open_library, settings_of
from faults.write_plan import key_of

LIMITS = {"memory": resource.RLIMIT_AS, "file": resource.RLIMIT_FSIZE}

root, home = Path(sys.argv[1]), Path(sys.argv[2])
settings = load(root, environment={"CORTEX_HOME": str(home)}, flags={"indexing.workers": 1})


def used_addresses() -> int:
    """The size of this process's address space."""
    return (
        int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[0])
        * resource.getpagesize()
    )


def limit(kind: str, size: str) -> str:
    """Limit the process to more memory, or to files, of so many bytes; "" lifts the limit."""
    _, hard = resource.getrlimit(LIMITS[kind])
    maximum = int(size) + (used_addresses() if kind == "memory" else 0) if size else hard
    resource.setrlimit(LIMITS[kind], (maximum, hard))
    return f"{memory_bytes()}"


with (
    open_library(settings_of(home)) as library,
    Engine(root, settings, embedder=HashingEmbedder()) as engine,
):

    def write(number: str) -> str:
        """Write one record, under a key that follows from its number."""
        body = Observation(f"Lamp {number}", f"the lamp{number} flickers")
        return create(library, body, actor=person(), key=key_of(int(number))).id

    def ask() -> list[str]:
        """Search the project and the records."""
        engine.index()
        found = engine.search(Query("switch lamp")).hits[:1]
        return [
            *(hit.path for hit in found),
            *(hit.record.id for hit in find(library.reader, RecordQuery("lamp flickers")).hits[:1]),
        ]

    def check() -> list[str]:
        """Problems of both stores, once their indexes are up to date."""
        library.follow()
        engine.catch_up()
        return library.store.check() + engine.store.check()

    indexers = [AutoIndexer(library), AutoIndexer(engine)]
    COMMANDS = {"write": write, "ask": ask, "check": check, "limit": limit}
    print("ready", flush=True)
    for line in sys.stdin:
        name, *arguments = line.rstrip("\n").split(" ")
        try:
            answer = COMMANDS[name](*arguments)
        except Exception as error:  # answered as a caller would see it
            answer = {
                "error": explained(error, name).code,
                "message": f"{type(error).__name__}: {error}"[:300],
            }
            assert not isinstance(error, CortexError) or "cortex.db" not in " ".join(
                error.suggestions
            )
        print(json.dumps(answer), flush=True)
    for indexer in indexers:
        indexer.close()
