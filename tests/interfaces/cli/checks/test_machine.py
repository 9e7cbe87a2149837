"""Checks of the machine: permissions, plugins, limits of the system."""

import os
import sys

import pytest

posix = pytest.mark.skipif(os.name == "nt", reason="modes and signals of POSIX")


def test_enabled_unknown_plugin_is_a_warning_that_lists_known_ones(doctor, isolated):
    (isolated.cortex / "config.yml").write_text("team:\n  plugins: [git, gti]\n", encoding="utf-8")
    code, found, _ = doctor()
    assert (code, found["plugins"]["level"]) == (0, "warning")
    assert (
        "has gti; known: git," in found["plugins"]["text"]
        and "config.yml" in found["plugins"]["text"]
    )


@posix
def test_folders_open_to_other_users_are_closed_by_fix(doctor, root, isolated):
    isolated.cortex.mkdir(exist_ok=True)
    for folder in (isolated.cortex, root / ".cortex"):
        folder.chmod(0o755)
    assert doctor()[1]["permissions"]["level"] == "warning"
    assert doctor("--fix")[0] == 0
    assert [folder.stat().st_mode & 0o777 for folder in (isolated.cortex, root / ".cortex")] == [
        0o700,
        0o700,
    ]
    assert doctor()[1] == {}


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux counts watches")
def test_more_folders_than_the_watch_limit_are_reported(doctor, monkeypatch, tmp_path):
    limit = tmp_path / "max_user_watches"
    limit.write_text("2\n", encoding="ascii")
    monkeypatch.setattr("cortex.interfaces.cli.checks.machine.WATCHES", limit)
    assert "max_user_watches" in doctor()[1]["watching"]["fix"]
