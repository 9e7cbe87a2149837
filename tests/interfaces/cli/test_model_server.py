"""`cortex models serve` until it serves: refusals, warnings and its announcement."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys

import pytest
from typer.testing import CliRunner

import forking
from cortex.interfaces.cli import app
from protocol.golden import check_golden

SERVE = [sys.executable, "-m", "cortex", "models", "serve", "--port", "0"]


def refused(isolated, *arguments: str, **variables: str) -> str:
    done = forking.run(
        [*SERVE, *arguments],
        env=isolated.environment(**variables),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (1, "")
    return done.stderr


@pytest.mark.parametrize("command", ["models serve"])
def test_serve_help_matches_its_golden_file(command):
    seen = CliRunner().invoke(
        app,
        [*command.split(), "--help"],
        env={"COLUMNS": "100", "TERM": "dumb"},
        terminal_width=100,
    )
    assert seen.exit_code == 0
    check_golden(
        f"help-{command.replace(' ', '-')}",
        {"help": [line.rstrip() for line in seen.output.splitlines()]},
    )


def test_other_machines_are_served_only_with_a_token(isolated):
    error = refused(isolated, "--host", "0.0.0.0", CODEINDEX_EMBEDDING_PROVIDER="ollama")
    assert "ADDRESS_REFUSED" in error and "CORTEX_HTTP_TOKEN" in error


def test_local_only_forbids_serving_other_machines_even_with_a_token(isolated):
    variables = {"CORTEX_HTTP_TOKEN": "t", "CORTEX_SERVER_LOCAL_ONLY": "true"}
    error = refused(isolated, "--host", "0.0.0.0", **variables)
    assert "ADDRESS_REFUSED" in error and "server.localOnly" in error


def test_serve_without_an_embedder_is_an_error(isolated):
    assert "no embedder is configured" in refused(isolated, CODEINDEX_EMBEDDING_PROVIDER="none")


def test_missing_model_is_an_error_before_serving(isolated):
    variables = {
        "CODEINDEX_EMBEDDING_PROVIDER": "ollama",
        "CODEINDEX_OLLAMA_BASE_URL": "http://127.0.0.1:9",
    }
    assert "EMBEDDER_UNAVAILABLE" in refused(isolated, **variables)


@pytest.mark.skipif(os.name != "posix", reason="a file's mode says who may read it")
def test_token_in_a_file_readable_by_others_is_warned_about(isolated):
    isolated.cortex.mkdir(exist_ok=True)
    (isolated.cortex / "config.yml").write_text(
        "providers: {openai: {apiKey: sk-hush}}\n", encoding="utf-8"
    )
    (isolated.cortex / "config.yml").chmod(0o644)
    shown = forking.run(
        [sys.executable, "-m", "cortex", "config", "show"],
        env=isolated.environment(),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert "others can read this file" in shown.stdout + shown.stderr
    assert "sk-hush" not in shown.stdout + shown.stderr


def test_taken_port_is_an_error_without_unrelated_advice(isolated):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        error = refused(isolated, "--port", str(taken.getsockname()[1]))
    assert "Choose another address or port" in error
    assert "token" not in error.lower() and "loopback" not in error


def test_serve_announces_its_model_and_address(isolated):
    with forking.Popen(
        SERVE, env=isolated.environment(), stderr=subprocess.PIPE, text=True
    ) as serving:
        assert serving.stderr is not None
        line = serving.stderr.readline()
        serving.terminate()
    assert re.match(r"serving local \S+ at http://127\.0\.0\.1:\d+; ", line)
