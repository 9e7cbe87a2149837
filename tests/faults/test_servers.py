"""Several servers on one folder: one holds the lease, and another takes over at its end."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from faults.conftest import Program

SERVERS = 8
# Half a second by design; the rest is for a busy machine
TAKE_OVER_SECONDS = 5.0


@pytest.fixture
def servers(start, root, until):
    """Servers that were started at once, with the first index there."""
    (root / "lamp.py").write_text("def switch_lamp():\n    return 1\n", encoding="utf-8")
    started = [start("index_server.py") for _ in range(SERVERS)]
    with ThreadPoolExecutor(SERVERS) as threads:
        assert list(threads.map(lambda server: server.read(), started)) == ["ready"] * SERVERS
    until(lambda: all(found(server, "switch_lamp") == ["lamp.py"] for server in started))
    return started


def found(server: Program, text: str) -> list[str]:
    return json.loads(server.ask(f"search {text}"))


def holders(servers: list[Program]) -> list[int]:
    return [number for number, server in enumerate(servers) if server.ask("holds") == "1"]


def test_another_server_takes_over_when_the_lease_holder_is_killed(
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

    # A server without the lease passes the request on to the holder.
    (other,) = [server for number, server in enumerate(servers) if number not in holders(servers)][
        :1
    ]
    (root / "asked.py").write_text("def sconce():\n    return 3\n", encoding="utf-8")
    assert other.ask("index asked.py") == "completed"
    assert found(other, "sconce") == ["asked.py"]
    assert len(holders(servers)) == 1

    # The holders end one after another, and another server takes the lease each time.
    while len(servers) > 1:
        (holder,) = holders(servers)
        assert servers.pop(holder).end() == 0
        until(lambda: len(holders(servers)) == 1, TAKE_OVER_SECONDS)
    assert found(servers[0], "chandelier") == ["new.py"]


def test_two_concurrent_index_commands_both_succeed(root, home, isolated):
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
def test_servers_rebuild_a_store_that_is_removed_while_they_run(start, root, until):
    (root / "lamp.py").write_text("def switch_lamp():\n    return 1\n", encoding="utf-8")
    first = start("index_server.py")
    assert first.read() == "ready"
    until(lambda: found(first, "switch_lamp") == ["lamp.py"])
    shutil.rmtree(root / ".cortex", ignore_errors=True)
    second = start("index_server.py")
    assert second.read() == "ready"
    servers = [first, second]
    until(lambda: all(found(server, "switch_lamp") == ["lamp.py"] for server in servers))
    until(lambda: len(holders(servers)) == 1)
    for name in ("chandelier", "sconce", "lantern"):
        (root / "new.py").write_text(f"def {name}():\n    return 2\n", encoding="utf-8")
        until(lambda name=name: all(found(server, name) == ["new.py"] for server in servers))
        assert len(holders(servers)) == 1
    assert len(list((root / ".cortex").glob("words-*"))) == 1
    shutil.rmtree(root / ".cortex", ignore_errors=True)  # without a new server
    until(lambda: all(found(server, "switch_lamp") == ["lamp.py"] for server in servers))
    until(lambda: len(holders(servers)) == 1)
    assert [server.end() for server in servers] == [0, 0]
