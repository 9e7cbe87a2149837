"""Query the memories read-only for a while; prints the number of answers and of hits."""

import re
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from cortex.base.errors import InputError
from cortex.base.types import Memory
from cortex.families.memory.ids import display_id, find_memory
from cortex.families.memory.search import MemoryQuery, find
from cortex.families.memory.session_context import context_of
from families.memory.libraries import open_library, settings_of

root, home = Path(sys.argv[1]), Path(sys.argv[2])
seconds = float(sys.stdin.readline())


def check(memory: Memory) -> None:
    """Assert that all parts of a memory are of the same version."""
    marks = {
        re.sub(r"\D+", "-", part) for part in (memory.title, *memory.facts, memory.text) if part
    }
    assert len(marks) == 1 and memory.facts and memory.text, memory


with open_library(
    settings_of(home, ACK_MEM_DB=str(root / "mem" / "claude-mem.db")), read_only=True
) as library:
    queries = hits = 0
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        query = ("", "lamp lit", "row seen")[queries % 3]
        found = find(library, MemoryQuery(query, limit=50, status="all"))
        for hit in found.hits:
            check(hit.record.memory)
        for hit in found.hits[:2]:
            try:
                check(find_memory(library, display_id(hit.record, found.present)).memory)
            except InputError as error:  # deleted meanwhile
                assert error.code == "MEMORY_UNKNOWN"
        for record in context_of(library, root, most=5).memories:
            check(record.memory)
        queries, hits = queries + 1, hits + len(found.hits)
    print("asked", queries, hits, flush=True)
