"""Starts processes in the time of a fork: what they need is imported once, here, where no thread
runs.

Asked by lines of JSON on its stdin: which program, with what arguments, and the socket on which it
is to be spoken to; answers with the process id. The children are those of this process, which
leaves none behind: each ends when whoever speaks to it does.
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

from sync_faults import core_program, member_program

PROGRAMS = {"core": core_program.main, "member": member_program.main}


def main() -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # whoever was killed is gone
    for line in sys.stdin:
        asked = json.loads(line)
        child = os.fork()
        if not child:
            run(asked)
        print(child, flush=True)


def run(asked: dict[str, object]) -> None:
    """Be the program that is asked for, and nothing else afterwards."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    said = os.open(str(asked["log"]), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for number, file in ((0, nothing), (1, said), (2, said)):
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
