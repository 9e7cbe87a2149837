"""Deployment files of a Core: their commands, options, paths and routes exist.

No container is started here: what Docker would do with the compose file is read, beside the
Dockerfile that its image is made of.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
import typer
from ruamel.yaml import YAML

from cortex.base.runtime.home import OTHER_VARIABLES
from cortex.base.settings import KEYS
from cortex.interfaces.cli import app
from cortex.interfaces.team_server.app import HEALTH

ROOT = Path(__file__).parents[2]
COMPOSE = ROOT / "docs" / "examples" / "core-compose.yaml"
UNIT = ROOT / "docs" / "examples" / "cortex-core.service"
PORT = next(key.default for key in KEYS if key.name == "core.port")
SECONDS = 30


def served(words: list[str]) -> dict[str, Any]:
    """Options of `cortex core serve` as parsed from these words."""
    assert words[:2] == ["core", "serve"], words
    command: Any = typer.main.get_command(app)
    return command.commands["core"].commands["serve"].make_context("serve", words[2:]).params


def parsed(file: Path) -> Any:
    return YAML(typ="safe").load(file.read_text(encoding="utf-8"))


def settings_of_the_image() -> dict[str, str]:
    """The environment of the Dockerfile."""
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    return dict(re.findall(r"^(?:ENV| {3}) ([A-Z_]+)=(\S+)", text, re.MULTILINE))


def test_compose_file_exposes_the_core_to_the_proxy_only() -> None:
    core = parsed(COMPOSE)["services"]["core"]
    assert core["entrypoint"] == ["cortex"]
    options = served(core["command"])
    assert options["host"] == "0.0.0.0" and options["behind_proxy"] and not options["db"]
    assert core["ports"] == [f"127.0.0.1:{PORT}:{PORT}"]
    route = re.search(rf"http://127\.0\.0\.1:{PORT}(/\w+)", core["healthcheck"]["test"][-1])
    assert route is not None and route[1] == HEALTH


def test_container_data_is_on_a_volume_of_the_image() -> None:
    compose = parsed(COMPOSE)
    core, database = compose["services"]["core"], compose["services"]["db"]
    (volume, place), *others = (mount.split(":") for mount in core["volumes"])
    assert not others and core["read_only"] and place == settings_of_the_image()["CORTEX_HOME"]
    assert PurePosixPath(served(core["command"])["data"]).is_relative_to(place)
    named = {volume, *(mount.partition(":")[0] for mount in database["volumes"])}
    assert named == set(compose["volumes"]) and set(database["secrets"]) == set(compose["secrets"])
    assert "healthcheck" in compose["services"][next(iter(core["depends_on"]))]


def test_files_and_names_in_the_compose_file_exist() -> None:
    text, compose = COMPOSE.read_text(encoding="utf-8"), parsed(COMPOSE)
    beside = re.findall(r"^# {3}(\S+) ", text, re.MULTILINE)
    assert beside == [
        compose["services"]["core"]["env_file"],
        compose["secrets"]["password"]["file"],
    ]
    variable, user, host, name = re.search(
        r"(\w+)=postgresql://(\w+):PASSWORD@(\w+)/(\w+)", text
    ).groups()  # pyright: ignore[reportOptionalMemberAccess]
    database = compose["services"][host]["environment"]
    assert variable in OTHER_VARIABLES and (user, name) == (
        database["POSTGRES_USER"],
        database["POSTGRES_DB"],
    )
    argument, extra = re.search(r"--build-arg (\w+)=(\w+)", text).groups()  # pyright: ignore[reportOptionalMemberAccess]
    assert f"ARG {argument}=" in (ROOT / "Dockerfile").read_text(encoding="utf-8")
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
        "optional-dependencies"
    ]
    assert extra in extras


def test_systemd_unit_serves_on_loopback_from_its_own_directory() -> None:
    text = UNIT.read_text(encoding="utf-8")
    said = dict(re.findall(r"^(\w+)=(.*)$", text, re.MULTILINE))
    program, *words = shlex.split(said["ExecStart"])
    options = served(words)
    assert program == "/opt/cortex/bin/cortex" and (options["host"], options["port"]) == (
        "127.0.0.1",
        PORT,
    )
    # Otherwise it refuses requests of a proxy under the public name
    assert options["behind_proxy"]
    assert said["Environment"] == f"CORTEX_HOME=/var/lib/{said['StateDirectory']}"
    file = said["EnvironmentFile"].removeprefix("-")
    assert f"{file} (mode 0600): CORTEX_CORE_DB=" in re.sub(r"\n# ", " ", text)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze isn't here")
def test_systemd_verifies_the_unit(tmp_path: Path) -> None:
    unit = tmp_path / UNIT.name
    unit.write_text(
        UNIT.read_text(encoding="utf-8").replace("/opt/cortex/bin/cortex", sys.executable),
        encoding="utf-8",
    )
    done = subprocess.run(
        ["systemd-analyze", "verify", str(unit)],
        capture_output=True,
        encoding="utf-8",
        timeout=SECONDS,
        check=False,
    )
    assert (done.returncode, [line for line in done.stderr.splitlines() if UNIT.name in line]) == (
        0,
        [],
    )
