"""A Core in a process of its own: `python core_process.py LEDGER [CERT KEY]`.

Prints its address and serves until a signal.
"""

from __future__ import annotations

import sys
from pathlib import Path

from cortex.base.settings import load
from cortex.engine.store.records.ledger import open_ledger
from cortex.interfaces.team_server.runner import serve_core


def main() -> int:
    folder, certificate = Path(sys.argv[1]), [Path(path) for path in sys.argv[2:]]
    flags = {"indexing.workers": 1, "indexing.strategies": ["tfidf"]}
    settings = load(
        None, environment={"CORTEX_HOME": str(folder / "home")}, flags=flags, user_home=folder
    )
    cert, key = certificate or (None, None)
    with open_ledger(f"sqlite:///{folder}") as ledger:
        return serve_core(
            ledger,
            settings,
            folder,
            port=0,
            tls_cert=cert,
            tls_key=key,
            ready=lambda address: print(address, flush=True),
        )


if __name__ == "__main__":
    sys.exit(main())
