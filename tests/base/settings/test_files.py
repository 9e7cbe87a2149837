"""Changing one key of a YAML file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from cortex.base.errors import ConfigError
from cortex.base.settings import KEYS, Key, load, read_setting, write_setting

VALUES = {
    "whole number": some.integers(0, 10**7),
    "number": some.floats(0, 1),
    "size": some.integers(0, 10**13),
    "duration": some.integers(0, 10**8).map(lambda milliseconds: milliseconds / 1000),
    "true or false": some.booleans(),
    "text": some.text(max_size=60),
    "line of text": some.text(max_size=60),
    "letters, digits, _ and -": some.text(max_size=60),
    "list": some.lists(some.text(max_size=20), max_size=4),
    "list of paths": some.lists(some.text(max_size=20), max_size=4),
    "address": some.sampled_from(
        ["http://localhost:1", "https://a.example/b", "http://[::1]/x: y"]
    ),
    "choice": some.sampled_from(["local", "ollama", "http", "warn", "openai"]),
}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(some.sampled_from(KEYS).flatmap(lambda key: some.tuples(some.just(key), VALUES[key.kind])))
def test_written_setting_is_read_back(tmp_path: Path, pair: tuple[Key, object]) -> None:
    key, value = pair
    try:
        new = load(None, environment={}, user_home=tmp_path).check(key, value, project=None)
    except ConfigError:
        return
    file = tmp_path / "config.yml"
    file.unlink(missing_ok=True)
    write_setting(file, key, new, private=True)
    assert read_setting(file, key) == new


@pytest.mark.parametrize("key", KEYS, ids=lambda key: key.name)
def test_every_default_is_written_and_read_back(tmp_path: Path, key: Key) -> None:
    write_setting(tmp_path / "config.yml", key, key.default, private=True)
    assert read_setting(tmp_path / "config.yml", key) == key.default


@pytest.mark.skipif(os.name == "nt", reason="folders have no such modes there")
@pytest.mark.parametrize("private", [True, False])
def test_folders_of_a_new_settings_file_are_private(tmp_path: Path, private: bool) -> None:
    write_setting(
        tmp_path / "home" / "profiles" / "config.yml", KEYS[0], KEYS[0].default, private=private
    )
    assert (tmp_path / "home").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "home" / "profiles").stat().st_mode & 0o777 == 0o700


def test_writing_a_key_leaves_the_others_unchanged(tmp_path: Path) -> None:
    file = tmp_path / "config.yml"
    some_keys = KEYS[::4]
    for key in some_keys:
        write_setting(file, key, key.default, private=True)
    assert [read_setting(file, key) for key in some_keys] == [key.default for key in some_keys]


def test_dotted_key_is_changed_in_place(tmp_path: Path) -> None:
    file = tmp_path / "config.yml"
    file.write_text("workspace.max_files: 3  # few\n", encoding="utf-8")
    key = next(key for key in KEYS if key.name == "workspace.maxFiles")
    write_setting(file, key, 4, private=False)
    assert file.read_text(encoding="utf-8") == "workspace.max_files: 4  # few\n"
