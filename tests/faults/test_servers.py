"""Several servers on one folder: one holds the lease, all answer, and the next takes over when it
dies.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

SERVERS = 8
TAKE_OVER_SECONDS = 5.0  # half a second by design; the rest is for a busy machine


@pytest.fixture
def servers(start, root, until):
    """Eight of them, started at once, when the first index is there."""
    (root / "lamp.py").write_text("def switch_lamp():\n    return 1\n", encoding="utf-8")
    started = [start("server.py") for _ in range(SERVERS)]
    with ThreadPoolExecutor(SERVERS) as threads:
        assert list(threads.map(lambda one: one.read(), started)) == ["ready"] * SERVERS
    until(lambda: all(found(server, "switch_lamp") == ["lamp.py"] for server in started))
    return started


def found(server, text: str) -> list[str]:
    return json.loads(server.ask(f"search {text}"))


def holders(servers) -> list[int]:
    return [number for number, server in enumerate(servers) if server.ask("holds") == "1"]


def test_eight_servers_share_a_folder_and_survive_the_death_of_the_one_that_indexes(
    servers, root, until, record_property
):
    (holder,) = holders(servers)
    victim, killed = servers.pop(holder), time.monotonic()
    victim.kill()
    (root / "new.py").write_text("def chandelier():\n    return 2\n", encoding="utf-8")
    assert all(found(server, "switch_lamp") == ["lamp.py"] for server in servers)
    until(lambda: len(holders(servers)) == 1, TAKE_OVER_SECONDS)
    taken = time.monotonic() - killed
    until(
        lambda: all(found(server, "chandelier") == ["new.py"] for server in servers),
        TAKE_OVER_SECONDS,
    )
    record_property("seconds to take over", round(taken, 3))
    record_property("seconds until all found the new file", round(time.monotonic() - killed, 3))
    assert len(holders(servers)) == 1

    # A server without the lease has the holder do what it is asked for.
    (other,) = [server for number, server in enumerate(servers) if number not in holders(servers)][
        :1
    ]
    (root / "asked.py").write_text("def sconce():\n    return 3\n", encoding="utf-8")
    assert other.ask("index asked.py") == "completed"
    assert found(other, "sconce") == ["asked.py"]
    assert len(holders(servers)) == 1

    # One after the other goes in peace; somebody always holds the lease.
    while len(servers) > 1:
        (holder,) = holders(servers)
        assert servers.pop(holder).end() == 0
        until(lambda: len(holders(servers)) == 1, TAKE_OVER_SECONDS)
    assert found(servers[0], "chandelier") == ["new.py"]


def test_two_commands_that_index_at_once_both_succeed(root, home, isolated):
    for number in range(60):
        (root / f"f{number}.py").write_text(f"value_{number} = {number}\n", encoding="utf-8")
    command = [sys.executable, "-m", "cortex", "index", str(root), "--json"]
    environment = isolated.environment(CORTEX_HOME=str(home))
    both = [
        subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    reports = []
    for process in both:
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
        reports.append(json.loads(out))
    assert [report["files"] for report in reports] == [61, 61]
    assert sum(report["added"] for report in reports) == 61


@pytest.mark.skipif(
    sys.platform == "win32", reason="Windows doesn't remove a folder whose files are open"
)
def test_servers_go_on_when_the_store_is_removed_under_them(start, root, until):
    (root / "lamp.py").write_text("def switch_lamp():\n    return 1\n", encoding="utf-8")
    first = start("server.py")
    assert first.read() == "ready"
    until(lambda: found(first, "switch_lamp") == ["lamp.py"])
    shutil.rmtree(root / ".cortex", ignore_errors=True)
    second = start("server.py")
    assert second.read() == "ready"
    servers = [first, second]
    until(lambda: all(found(server, "switch_lamp") == ["lamp.py"] for server in servers))
    until(lambda: len(holders(servers)) == 1)
    for name in ("chandelier", "sconce", "lantern"):
        (root / "new.py").write_text(f"def {name}():\n    return 2\n", encoding="utf-8")
        until(lambda name=name: all(found(server, name) == ["new.py"] for server in servers))
        assert len(holders(servers)) == 1
    assert len(list((root / ".cortex").glob("words-*"))) == 1
    shutil.rmtree(root / ".cortex", ignore_errors=True)  # nobody new comes
    until(lambda: all(found(server, "switch_lamp") == ["lamp.py"] for server in servers))
    until(lambda: len(holders(servers)) == 1)
    assert [server.end() for server in servers] == [0, 0]
