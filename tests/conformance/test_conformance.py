"""The official conformance suite against our server, and against our surface with the suite's own
fixtures.

`expected-*.yml` name what can't pass and why, one line each; docs/conformance.md has the same as a
table. The suite fails where a scenario fails that is not listed, and where a listed one passes.
"""

import re
import sys
from pathlib import Path

import pytest

from conformance.node import install, run
from protocol.code_server import CORTEX, make_repository
from protocol.http_client import serving

HERE = Path(__file__).parent
DOCUMENT = HERE.parents[1] / "docs" / "conformance.md"
PACKAGE = "@modelcontextprotocol/conformance"
RELEASED = "0.1.16"  # the newest release: up to 2025-11-25
AHEAD = "0.2.0-alpha.12"  # knows 2026-07-28 too
LINE = re.compile(r"^  - ([a-z0-9-]+)  # (.+)$")


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.parametrize("version", [RELEASED, AHEAD])
@pytest.mark.parametrize("target", ["code", "fixtures"])
def test_every_scenario_that_applies_passes(isolated, tmp_path, target, version):
    node, folder = install(PACKAGE, version)
    argv = [sys.executable, str(HERE / "fixtures.py")]
    if target == "code":
        root = make_repository(tmp_path / "shop")
        argv = [*CORTEX, "mcp", "code", "--workspace", str(root), "--http", "127.0.0.1:0"]
    with serving(argv) as server:
        expected = [
            "--expected-failures",
            HERE / f"expected-{target}.yml",
            "-o",
            tmp_path / "results",
        ]
        script = folder / "dist" / "index.js"
        done = run([node, script, "server", "--url", server.url, "--suite", "all", *expected], 600)
    summary = done.stdout[done.stdout.find("=== SUMMARY") :]
    print(summary)
    assert done.returncode == 0, summary + done.stderr


@pytest.mark.parametrize("target", ["code", "fixtures"])
def test_handbook_lists_each_expected_conformance_failure_with_its_reason(target):
    lines = (HERE / f"expected-{target}.yml").read_text(encoding="utf-8").splitlines()
    expected = [found for line in lines if (found := LINE.match(line))]
    assert lines[0] == "server:"
    assert len(expected) == len(lines) - 1
    rows = DOCUMENT.read_text(encoding="utf-8")
    for scenario, reason in (row.groups() for row in expected):
        assert re.search(rf"^\| `{scenario}` \|.*\| {re.escape(reason)} \|$", rows, re.MULTILINE), (
            scenario
        )
