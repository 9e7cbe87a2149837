"""Processes of `cortex` in the time of a fork, for tests that don't test how a server starts.

`Popen` is that of the standard library, but forks a process with loaded modules if it can: loading
them takes most of the time of a small process. The forked process has the requested environment,
folder, arguments and pipes, runs the program from its beginning, and ends as any other; only /proc
shows the command line of the fork server. Other programs, processes that need a cortexd, and those
with variables for Python itself are started as usual.
"""

from __future__ import annotations

import contextlib
import inspect
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parent
LOADED = (
    "cortex.families.chunkfiles.tools",
    "cortex.families.code.tools",
    "cortex.families.documents.tools",
    "cortex.families.memory.tools",
    "cortex.families.team.tools",
    "cortex.interfaces.transports.http.uvicorn_server",
    "cortex.interfaces.transports.http.mcp_site",
    "cortex.interfaces.transports.mcp.stdio",
)
# Options of a process that can be forked
DEFAULTS = {
    "executable": None,
    "preexec_fn": None,
    "pass_fds": (),
    "shell": False,
    "start_new_session": False,
    "process_group": -1,
    "gid": None,
    "gids": None,
    "uid": None,
    "umask": -1,
}
END_SECONDS = 20.0
# Of a request
MAX_REQUEST_BYTES = 100_000


class Popen(subprocess.Popen):
    """A process, forked if that makes no difference."""

    # Receives the exit status
    _link: socket.socket | None = None

    def _execute_child(self, *given: Any) -> None:
        names = [
            name
            for name in inspect.signature(subprocess.Popen._execute_child).parameters
            if name != "self"
        ]  # type: ignore[attr-defined]
        asked = dict(zip(names, given, strict=True))
        if not _is_forkable(asked):
            super()._execute_child(*given)  # type: ignore[misc]
            return
        pipes = [
            asked[name]
            for name in ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
        ]
        try:
            ends = [
                pipes[place] if pipes[place] != -1 else number
                for number, place in enumerate((0, 3, 5))
            ]
            self._link, self.pid = _fork_server().start(
                asked["args"], asked["env"], asked["cwd"], ends
            )
            self._child_created = True
        finally:
            self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]

    def _try_wait(self, wait_flags: int) -> tuple[int, int]:
        if self._link is None:
            return super()._try_wait(wait_flags)  # type: ignore[misc]
        if wait_flags & os.WNOHANG and not select.select([self._link], [], [], 0)[0]:
            return 0, 0
        status = int(self._link.recv(32))
        self._link.close()
        return self.pid, status

    def _internal_poll(self, *given: Any, **options: Any) -> int | None:
        if self._link is None:
            return super()._internal_poll(*given, **options)  # type: ignore[misc]
        if self.returncode is None and self._waitpid_lock.acquire(False):  # type: ignore[attr-defined]
            try:
                if self.returncode is None:
                    pid, status = self._try_wait(os.WNOHANG)
                    if pid:
                        self._handle_exitstatus(status)  # type: ignore[attr-defined]
            finally:
                self._waitpid_lock.release()  # type: ignore[attr-defined]
        return self.returncode


def run(
    argv: Sequence[str],
    *,
    timeout: float,
    input: Any = None,
    capture_output: bool = False,
    check: bool = False,
    **options: Any,
) -> subprocess.CompletedProcess:
    """Run a command to its end, like `subprocess.run`."""
    if capture_output:
        options |= {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    if input is not None:
        options["stdin"] = subprocess.PIPE
    with Popen([*argv], **options) as process:
        try:
            out, err = process.communicate(input, timeout=timeout)
        except BaseException:
            process.kill()
            raise
    done = subprocess.CompletedProcess(process.args, process.returncode, out, err)
    if check:
        done.check_returncode()
    return done


def _is_forkable(asked: Mapping[str, Any]) -> bool:
    if sys.platform != "linux" or any(
        asked.get(name, value) != value for name, value in DEFAULTS.items()
    ):
        return False
    argv, environment = asked["args"], os.environ if asked["env"] is None else asked["env"]
    if (
        not isinstance(argv, list)
        or argv[:1] != [sys.executable]
        or environment.get("CORTEX_NO_SIDECAR") != "1"
    ):
        return False
    is_ours = argv[1:3] == ["-m", "cortex"] or argv[1:2] == [str(TESTS / "protocol" / "family.py")]
    return is_ours and _of_python(environment) == _of_python(os.environ)


def _of_python(environment: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in environment.items()
        if name.startswith(("PYTHON", "LC_", "LANG", "MALLOC_"))
    }


class _ForkServer:
    """The process that forks the others; it has no threads, which would not survive a fork."""

    def __init__(self) -> None:
        self._control, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._turn = threading.Lock()
        with other:
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(other.fileno())],
                stdin=subprocess.DEVNULL,
                pass_fds=(other.fileno(),),
                env={
                    **os.environ,
                    "OPENBLAS_NUM_THREADS": "1",
                    "OMP_NUM_THREADS": "1",
                    "RAYON_NUM_THREADS": "1",
                },
            )

    def start(
        self,
        argv: Sequence[str],
        environment: Mapping[str, str] | None,
        folder: Any,
        ends: Sequence[int],
    ) -> tuple[socket.socket, int]:
        """Start a process; returns the link for its exit status, and its id.

        `ends` are its stdin, stdout and stderr.
        """
        place = os.path.abspath(os.fsdecode(folder or os.getcwd()))
        if not os.path.isdir(place):
            raise FileNotFoundError(place)
        asked = json.dumps(
            [[*argv], dict(os.environ if environment is None else environment), place]
        ).encode()
        assert len(asked) < MAX_REQUEST_BYTES, "the environment is too large for a request"
        link, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with other, self._turn:
            socket.send_fds(self._control, [asked], [other.fileno(), *ends])
        return link, int(link.recv(32))

    def end(self) -> None:
        self._control.close()
        self._process.wait(END_SECONDS)


_started: list[_ForkServer] = []
_starting = threading.Lock()


def _fork_server() -> _ForkServer:
    with _starting:
        if not _started:
            _started.append(_ForkServer())
        return _started[0]


def end() -> None:
    """End the fork server."""
    while _started:
        _started.pop().end()


# -- as a program


def _serve(control: socket.socket) -> list[str] | None:
    """Fork for each request; returns the arguments in a forked process, and None at the end."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        asked, files, _, _ = socket.recv_fds(control, MAX_REQUEST_BYTES, 4)
        if not asked:
            return None
        if os.fork():
            for file in files:
                os.close(file)
            continue
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        control.close()
        child = os.fork()
        if child:
            _watch(child, files)
        return _become(json.loads(asked), files)


def _watch(child: int, files: Sequence[int]) -> None:
    """Report the exit status of a process."""
    link, *ends = files
    for file in (*ends, 0, 1, 2):
        os.close(file)
    with socket.socket(fileno=link) as report:
        report.send(str(child).encode())
        _, status = os.waitpid(child, 0)
        with contextlib.suppress(OSError):  # the test is over
            report.send(str(status).encode())
    os._exit(0)


def _become(asked: Sequence[Any], files: Sequence[int]) -> list[str]:
    argv, environment, folder = asked
    for number, file in enumerate(files[1:]):
        os.dup2(file, number)
    os.closerange(3, max(files) + 1)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        old = getattr(sys, name)
        file = open(number, old.mode, encoding=old.encoding, errors=old.errors, closefd=False)  # noqa: SIM115
        file.reconfigure(line_buffering=file.line_buffering or name == "stderr")
        setattr(sys, name, file)
        setattr(sys, f"__{name}__", file)
    return argv[1:]


def _load() -> None:
    import gc
    import pkgutil
    from importlib import import_module

    for name in LOADED:
        import_module(name)
    for command in pkgutil.iter_modules(
        import_module("cortex.interfaces.cli").__path__, "cortex.interfaces.cli."
    ):
        import_module(command.name)
    tasks = os.listdir("/proc/self/task")
    assert len(tasks) == 1, "threads don't outlive a fork"
    gc.collect()
    gc.freeze()


def _run(arguments: list[str]) -> None:
    """Run the program as Python would have started it."""
    import runpy

    if arguments[:1] == ["-m"]:
        sys.argv, sys.path[0] = ["cortex", *arguments[2:]], os.getcwd()
        runpy.run_module("cortex", run_name="__main__", alter_sys=True)
    else:
        sys.argv, sys.path[0] = arguments, os.path.dirname(arguments[0])
        runpy.run_path(arguments[0], run_name="__main__")


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as _control:
        _load()
        _arguments = _serve(_control)
    if _arguments is not None:
        _run(_arguments)
