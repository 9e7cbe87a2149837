"""A Core as a process, as `cortex core serve` runs it, at a free port sent on the link.

Ends with the other end of the link.
"""

from __future__ import annotations

import json
import os
import socket
import threading
from pathlib import Path
from typing import Any

from cortex.engine.store.records.ledger import open_ledger
from cortex.interfaces.team_server.runner import serve_core
from families.memory.libraries import settings_of


def main(link: socket.socket, asked: dict[str, Any]) -> None:
    threading.Thread(target=_end_with, args=(link,), daemon=True).start()
    home = Path(asked["home"])
    settings = settings_of(home, {"core.rates": [0] * 5})
    with open_ledger(asked["url"]) as ledger:
        serve_core(
            ledger,
            settings,
            home,
            host="127.0.0.1",
            port=0,
            ready=lambda address: link.sendall(json.dumps({"address": address}).encode() + b"\n"),
        )


def _end_with(link: socket.socket) -> None:
    while link.recv(1024):
        pass
    os._exit(0)
