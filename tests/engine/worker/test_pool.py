"""The worker pool: processes that die, hang, eat memory or send nonsense."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import psutil
import pytest

from cortex.base.types import Cancel, Cut, UnreadableFile
from cortex.engine.worker import pool as pool_module
from cortex.engine.worker.pool import Pool

CHILD = str(Path(__file__).with_name("misbehaving_child.py"))


def misbehaving_command(memory_bytes: int = 1 << 30) -> list[str]:
    return [sys.executable, "-P", CHILD, str(memory_bytes)]


def files_with(*troubles: str, count: int = 60) -> list[tuple[int, str, bytes]]:
    names = [f"file{number}.txt" for number in range(count)]
    for place, trouble in enumerate(troubles):
        names.insert((place + 1) * 13, f"{trouble}.txt")
    return [(key, name, f"text of {name}".encode()) for key, name in enumerate(names)]


def run(pool: Pool, files: list[tuple[int, str, bytes]]) -> dict[int, Cut | UnreadableFile]:
    answers = list(pool.cut_all(files, 250, 0, Cancel()))
    assert len(answers) == len(files)
    return dict(answers)


def refused(
    files: list[tuple[int, str, bytes]], answers: dict[int, Cut | UnreadableFile]
) -> dict[str, str]:
    assert set(answers) == {key for key, _, _ in files}
    for key, _, raw in files:
        answer = answers[key]
        assert isinstance(answer, UnreadableFile) or answer.text == raw.decode()
    paths = {key: path for key, path, _ in files}
    return {
        paths[key]: answer.reason
        for key, answer in answers.items()
        if isinstance(answer, UnreadableFile)
    }


def children_of(pid: int) -> list[psutil.Process]:
    try:
        return [
            child
            for child in psutil.Process(pid).children(recursive=True)
            if CHILD in child.cmdline()
        ]
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return []


@pytest.fixture
def pool():
    with Pool(2, command=misbehaving_command(512 << 20)) as made:
        yield made


def test_a_worker_that_dies_costs_one_file(pool):
    files = files_with("dies")
    assert refused(files, run(pool, files)) == {"dies.txt": "worker died"}


@pytest.mark.skipif(sys.platform == "win32", reason="reading address 0 is an exception there")
def test_a_crash_in_native_code_costs_one_file(pool):
    files = files_with("crashes", "dies")
    assert refused(files, run(pool, files)) == {
        "crashes.txt": "worker died",
        "dies.txt": "worker died",
    }


def test_a_worker_that_hangs_costs_one_file():
    files = files_with("hangs")
    with Pool(2, timeout_seconds=3, command=misbehaving_command()) as pool:
        assert refused(files, run(pool, files)) == {"hangs.txt": "timed out"}


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits a process's memory here")
def test_a_file_that_eats_memory_costs_one_file(pool):
    files = files_with("eats")
    answers = refused(files, run(pool, files))
    assert list(answers) == ["eats.txt"]
    assert answers["eats.txt"] in ("memory", "worker died")


BAD_FRAMES = {
    "no length": "b'\\xff' * 8 + b'x'",
    "a length beyond all memory": "(1 << 45).to_bytes(8, 'little') + b'x'",
    "no marshal": "frame(b'garbage')",
    "no list": "frame(marshal.dumps(5))",
    "too few": "frame(marshal.dumps([]))",
    "too many": "frame(marshal.dumps(['failed', 'failed']))",
    "no answer": "frame(marshal.dumps([5]))",
    "half an answer": "frame(marshal.dumps([('text', None)]))",
    "chunks that are none": "frame(marshal.dumps([('text', None, [(1, 2)], [])]))",
}


@pytest.mark.parametrize("greets", [True, False])
@pytest.mark.parametrize("frame", BAD_FRAMES)
def test_malformed_answer_costs_one_file_and_the_run_goes_on(frame, greets):
    code = f"""
import marshal, sys
def frame(body):
    return len(body).to_bytes(8, "little") + body
if {greets}:
    sys.stdout.buffer.write(frame(marshal.dumps("ready")))
sys.stdout.buffer.write({BAD_FRAMES[frame]})
sys.stdout.flush()
sys.stdin.read()
"""
    files = [(1, "a.py", b"x = 1\n")]
    with Pool(1, command=[sys.executable, "-c", code]) as pool:
        reason = refused(files, run(pool, files))["a.py"]
        assert reason == "worker died" if greets else reason.startswith(pool_module.NOT_STARTED)


def test_a_program_that_can_not_be_started_is_named_in_each_refusal(tmp_path):
    files = files_with(count=3)
    with Pool(1, command=[str(tmp_path / "missing")]) as pool:
        reasons = set(refused(files, run(pool, files)).values())
    assert all(
        reason.startswith(pool_module.NOT_STARTED) and "missing" in reason for reason in reasons
    )
    assert reasons


def test_start_of_a_worker_does_not_count_against_the_file_timeout(tmp_path):
    slow = f"import runpy, sys, time; time.sleep(1); sys.argv = ['child', '0']; runpy.run_path({CHILD!r}, run_name='__main__')"
    files = files_with(count=3)
    with Pool(1, timeout_seconds=0.8, command=[sys.executable, "-c", slow]) as pool:
        assert refused(files, run(pool, files)) == {}


def test_a_process_that_never_gets_ready_is_given_up(monkeypatch):
    monkeypatch.setattr(pool_module, "START_SECONDS", 0.2)
    files = [(1, "a.py", b"x = 1\n")]
    with Pool(1, command=[sys.executable, "-c", "import sys; sys.stdin.read()"]) as pool:
        assert refused(files, run(pool, files)) == {"a.py": pool_module.NOT_STARTED}


def test_an_exception_costs_one_file_and_names_itself(pool):
    files = files_with("raises")
    assert refused(files, run(pool, files)) == {"raises.txt": "failed: RuntimeError: no such thing"}


def test_output_printed_by_a_cutter_does_not_disturb_the_answers(pool):
    files = files_with("prints")
    assert refused(files, run(pool, files)) == {}


def test_a_worker_killed_from_outside_is_replaced(pool):
    first = files_with(count=10)
    run(pool, first)
    for process in children_of(os.getpid()):
        process.kill()
        process.wait(5)
    assert refused(first, run(pool, first)) == {}


def test_500_files_come_back_as_they_were_cut():
    files = [
        (
            n,
            f"pkg/m{n}.py",
            f"def f{n}(x):\n    '''Does {n}. More.'''\n    return 'é{n}'\n".encode(),
        )
        for n in range(500)
    ]
    with Pool(2) as pool:
        answers = run(pool, files)
    for key, _, raw in files:
        answer = answers[key]
        assert isinstance(answer, Cut)
        assert (answer.language, answer.text) == ("python", raw.decode())
        assert [(s.name, s.kind, s.start_line, s.end_line) for s in answer.symbols] == [
            (f"f{key}", "function", 1, 3)
        ]
        assert [(c.name, c.signature, c.doc) for c in answer.chunks] == [
            (f"f{key}", f"def f{key}(x)", f"Does {key}.")
        ]


def test_no_files_give_no_answers(pool):
    assert list(pool.cut_all([], 250, 0, Cancel())) == []
    assert children_of(os.getpid()) == []


def test_no_worker_is_left_after_close(pool):
    run(pool, files_with(count=40))
    assert children_of(os.getpid())
    begun = time.monotonic()
    pool.close()
    assert time.monotonic() - begun < 1.5
    assert children_of(os.getpid()) == []
    pool.close()


def test_close_while_a_file_hangs_ends_the_run_early(pool, until):
    closer = threading.Thread(
        target=lambda: (until(lambda: bool(children_of(os.getpid()))), pool.close())
    )
    closer.start()
    answers = list(pool.cut_all([(1, "hangs.txt", b"x")], 250, 0, Cancel()))
    closer.join(10)
    assert answers == []
    until(lambda: children_of(os.getpid()) == [])


def test_cancel_ends_the_run_early_and_the_pool_works_again(pool):
    cancel = Cancel()
    taken = []
    for answer in pool.cut_all(files_with(count=500), 250, 0, cancel):
        taken.append(answer)
        cancel.cancel()
    assert len(taken) < 500
    again = files_with(count=5)
    assert refused(again, run(pool, again)) == {}


def test_files_are_read_lazily(pool):
    read = 0

    def endless():
        nonlocal read
        while True:
            read += 1
            yield read, "file.txt", b"x" * 200_000

    answers = pool.cut_all(endless(), 250, 0, Cancel())
    for _ in range(20):
        next(answers)
    answers.close()
    assert read < 200


def test_idle_workers_end_only_after_the_time_given(pool):
    run(pool, files_with(count=3))
    assert not pool.close_if_idle(3600)
    assert children_of(os.getpid())
    assert pool.close_if_idle(0)
    assert children_of(os.getpid()) == []
    again = files_with(count=3)
    assert refused(again, run(pool, again)) == {}


def test_an_error_while_listing_files_reaches_the_caller(pool):
    def failing():
        yield 1, "file.txt", b"x"
        raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        list(pool.cut_all(failing(), 250, 0, Cancel()))


@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL")
def test_a_killed_parent_leaves_no_worker(until):
    script = textwrap.dedent(
        f"""
        import sys
        from cortex.base.types import Cancel
        from cortex.engine.worker.pool import Pool
        pool = Pool(2, timeout_seconds=60, command={misbehaving_command()!r})
        list(pool.cut_all([(n, "file.txt", b"x" * 200_000) for n in range(8)], 250, 0, Cancel()))
        sys.stdout.write("ready\\n")
        sys.stdout.flush()
        sys.stdin.read()
        """
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"ready\n"
        workers = children_of(parent.pid)
        assert workers
        os.kill(parent.pid, signal.SIGKILL)
        parent.wait(10)
        until(
            lambda: (
                not any(
                    worker.is_running() and worker.status() != psutil.STATUS_ZOMBIE
                    for worker in workers
                )
            )
        )


def test_a_worker_that_hangs_without_a_parent_ends_itself(tmp_path):
    from cortex.engine.worker.frames import write_frame

    patience = (
        "from cortex.engine.worker import child; child.GRACE_SECONDS = 0.1; import runpy, sys; "
    )
    code = patience + f"sys.argv = ['child', '0']; runpy.run_path({CHILD!r}, run_name='__main__')"
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with process:
        assert process.stdin is not None
        write_frame(process.stdin, (250, 0, 0.2, [("hangs.txt", b"x")]))
        process.stdin.close()
        assert process.wait(10) != 0
