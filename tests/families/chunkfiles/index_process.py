"""A process that serves chunk files until it is killed: python index_process.py FOLDER HOME
[VARIABLE=VALUE ...]
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from cortex.base.settings import load
from cortex.families.chunkfiles.index import ChunkIndex, ChunkQuery


def main() -> None:
    variables = dict(given.split("=", 1) for given in sys.argv[3:])
    index = ChunkIndex(
        Path(sys.argv[1]), load(None, environment={"CORTEX_HOME": sys.argv[2], **variables})
    )
    index.start()
    index.search(ChunkQuery("anything"))
    print(index.state().generation, flush=True)
    time.sleep(600)


if __name__ == "__main__":
    main()
