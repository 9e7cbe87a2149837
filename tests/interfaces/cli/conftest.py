"""Fixtures of the commands, for those that belong to no family, and of their homes and projects."""

import json

import pytest

from command_fixtures import cortex, foreign, impatient, in_window, on_terminal, shop, typed
from cortex.interfaces.cli import run as run_command
from interfaces.cli.home_memories import TITLES
from protocol.code_server import make_repository

__all__ = ["cortex", "foreign", "impatient", "in_window", "on_terminal", "shop", "typed"]


@pytest.fixture
def home(isolated, monkeypatch, tmp_path):
    """A home with two memories and the snapshot of the day, for a person outside any project."""
    monkeypatch.chdir(tmp_path)
    for title in TITLES:
        assert run_command(["memory", "add", title]) == 0
    return isolated.cortex


@pytest.fixture
def memory_titles(cortex):
    """The titles of all memories, as the command lists them."""
    return lambda: {
        memory["title"] for memory in json.loads(cortex("memory", "list", "--json")[1])["memories"]
    }


@pytest.fixture
def findings(cortex, tmp_path):
    """Exit code of the doctor, and its findings on home and backup by check."""

    def look(*arguments):
        code, out, _ = cortex("doctor", "--json", *arguments)
        rows = {
            finding["check"]: finding
            for finding in json.loads(out)["findings"]
            if finding["check"] in ("home", "backup")
        }
        return code, rows

    return look


@pytest.fixture(scope="module")
def indexed(tmp_path_factory, strangers_environment):
    """An indexed repository of a shop."""
    root = make_repository(tmp_path_factory.mktemp("commands") / "shop")
    assert run_command(["index", str(root), "--json"]) == 0
    return root
