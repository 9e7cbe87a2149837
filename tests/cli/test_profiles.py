"""Profiles: homes of their own, chosen for a whole command line."""

import json
import sys
from contextlib import closing

import pytest

from cortex.__main__ import main
from cortex.home import split_profile
from cortex.store import Store


@pytest.fixture
def typed_line(isolated, monkeypatch, capsys):
    """Runs a whole command line, as the program does; gives its exit code and stdout."""

    def call(*words):
        monkeypatch.setenv("CORTEX_PROFILE", "")
        monkeypatch.setattr(sys, "argv", ["cortex", *words])
        capsys.readouterr()
        return main(), capsys.readouterr().out

    return call


@pytest.mark.parametrize("spelled", [["--profile", "work"], ["--profile=work"]])
def test_a_command_line_with_a_profile_is_about_its_home_alone(isolated, typed_line, spelled):
    code, out = typed_line(*spelled, "subcortex", "create", "payments", "--name", "Payments", "--json")
    assert code == 0, out
    assert (isolated.cortex / "profiles" / "work" / "cortex.db").is_file()
    assert "payments" in typed_line(*spelled, "subcortex", "list", "--json")[1]
    assert "payments" not in typed_line("subcortex", "list", "--json")[1]


def test_profiles_are_listed_with_the_one_that_counts(isolated, typed_line):
    assert json.loads(typed_line("profile", "list", "--json")[1])["profiles"][0]["current"]
    work = isolated.cortex / "profiles" / "work"
    (isolated.cortex / "profiles" / ".trash").mkdir(parents=True)
    work.mkdir()
    with closing(Store(work)) as store:
        store.truth.set({"core.url": "https://core.example"})
    own, other = json.loads(typed_line("--profile", "work", "profile", "list", "--json")[1])["profiles"]
    assert (own["name"], own["current"], own["server"]) == ("", False, None)
    assert other == {
        "name": "work",
        "current": True,
        "home": str(work),
        "server": "https://core.example",
        "running": False,
    }
    assert "* work: https://core.example" in typed_line("--profile", "work", "profile", "list")[1]


def test_only_what_stands_before_the_command_is_the_command_lines_profile():
    assert split_profile(["search", "--profile", "x"]) == ("", ["search", "--profile", "x"])
    assert split_profile(["--profile"]) == ("", ["--profile"])
    assert split_profile(["--profile=x", "--profile=y"]) == ("x", ["--profile=y"])
