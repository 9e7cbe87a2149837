"""Families that a client gets, by its names, its folder and the content of its home."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import pytest

from cortex.base.errors import ConfigError, InputError
from cortex.families.chunkfiles.pool import ChunkIndexPool
from cortex.interfaces.assembly.families import SharedResources, open_families, resolve_request
from cortex.interfaces.assembly.pool import engine_pool


class Homes(Protocol):
    user: Path


@pytest.fixture
def resources() -> Iterator[SharedResources]:
    shared = SharedResources(engine_pool(keep=False), ChunkIndexPool())
    yield shared
    shared.close()


@pytest.fixture
def variables(tmp_path: Path) -> dict[str, str]:
    return {"CORTEX_HOME": str(tmp_path / "home"), "CORTEX_INDEXING_EMBEDDING_PROVIDER": "none"}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "work" / ".git").mkdir(parents=True)
    return tmp_path / "work"


def names(request_names: list[str], cwd: Path, variables: dict[str, str], resources) -> list[str]:
    request = resolve_request(request_names, [], variables, cwd)
    families, _ = open_families(request, resources, read_only=False)
    for family in families:
        family.close()
    return [family.name for family in families]


def test_client_without_names_gets_code_memory_and_team_of_an_empty_home(
    project: Path, variables: dict[str, str], resources: SharedResources
):
    assert set(names([], project, variables, resources)) == {"code", "memory", "team"}


def test_named_families_are_the_only_ones_opened(
    project: Path, variables: dict[str, str], resources: SharedResources
):
    assert names(["memory"], project, variables, resources) == ["memory"]


def test_unknown_family_is_rejected_with_the_known_ones(project: Path, variables: dict[str, str]):
    with pytest.raises(InputError, match="unknown family 'cooking'; known: code, ") as raised:
        resolve_request(["code", "cooking"], [], variables, project)
    assert raised.value.code == "ARGUMENT_INVALID"


def test_code_outside_a_project_is_an_error_and_memory_is_not(
    isolated: Homes, variables: dict[str, str]
):
    for requested in (["code"], []):
        with pytest.raises(ConfigError) as raised:
            resolve_request(requested, [], variables, isolated.user)
        assert raised.value.code == "WORKSPACE_MISSING"
    assert resolve_request(["memory"], [], variables, isolated.user).found == ()
