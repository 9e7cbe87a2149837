"""Start processes by forking this one, which has their modules loaded and no threads.

Each line of JSON on stdin asks for a program with its arguments and the socket to answer on; the
line of the answer is its process id. Each child ends with the other end of its socket.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from sync_faults import core_process, member_process

PROGRAMS = {"core": core_process.main, "member": member_process.main}


def main() -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # killed children need no wait
    for line in sys.stdin:
        asked = json.loads(line)
        child = os.fork()
        if not child:
            run(asked)
        print(child, flush=True)


def run(asked: dict[str, object]) -> None:
    """Run the program and exit."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    output = os.open(str(asked["log"]), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    no_input = os.open(os.devnull, os.O_RDONLY)
    for number, file in ((0, no_input), (1, output), (2, output)):
        os.dup2(file, number)
    code = 1
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as link:
            link.connect(str(asked["socket"]))
            PROGRAMS[str(asked["program"])](link, asked)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    main()
