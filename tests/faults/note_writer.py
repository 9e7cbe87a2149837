"""Put notes and save and index files for ever, and print each after it is done."""

import sys
from itertools import count
from pathlib import Path

from cortex.base.settings import load
from cortex.base.types import Note
from cortex.engine.engine import Engine

root, home = Path(sys.argv[1]), Path(sys.argv[2])
settings = load(root, environment={"CORTEX_HOME": str(home)}, flags={"indexing.workers": 1})


def word(number: int) -> str:
    """A word that is no part of another: digits would be split off."""
    return "".join("abcdefghij"[int(digit)] for digit in str(number)) + "zz"


with Engine(root, settings) as engine:
    first = engine.store.content.seq() * 1000
    for number in count(first):
        (doc,) = engine.put(
            [Note("notes", f"note{number}", f"# Note\n\nremember {word(number)}\n")]
        )
        print("put", doc, word(number), flush=True)
        (root / f"f{number}.py").write_text(
            f"value_{number} = '{word(number)}'\n", encoding="utf-8"
        )
        (root / "shared.py").write_text(f"shared = {number}\n", encoding="utf-8")
        engine.index(
            paths=[f"f{number}.py", "shared.py"] if number % 3 else None, force=number % 11 == 10
        )
        print("file", f"f{number}.py", word(number), flush=True)
