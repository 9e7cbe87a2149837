"""`cortex models serve` before it serves: what it refuses, and what it says."""

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
def test_the_help_of_serving_is_as_it_was(command):
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


def test_with_local_only_not_even_with_a_token(isolated):
    variables = {"CORTEX_HTTP_TOKEN": "t", "CORTEX_SERVER_LOCAL_ONLY": "true"}
    error = refused(isolated, "--host", "0.0.0.0", **variables)
    assert "ADDRESS_REFUSED" in error and "server.localOnly" in error


def test_without_an_embedder_there_is_nothing_to_serve(isolated):
    assert "no embedder is configured" in refused(isolated, CODEINDEX_EMBEDDING_PROVIDER="none")


def test_a_model_that_is_not_there_is_said_before_anything_is_served(isolated):
    variables = {
        "CODEINDEX_EMBEDDING_PROVIDER": "ollama",
        "CODEINDEX_OLLAMA_BASE_URL": "http://127.0.0.1:9",
    }
    assert "EMBEDDER_UNAVAILABLE" in refused(isolated, **variables)


@pytest.mark.skipif(os.name != "posix", reason="a file's mode says who may read it")
def test_a_key_in_a_file_that_others_can_read_is_told(isolated):
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


def test_a_port_that_is_taken_is_told_without_advice_for_other_troubles(isolated):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        error = refused(isolated, "--port", str(taken.getsockname()[1]))
    assert "Choose another address or port" in error
    assert "token" not in error.lower() and "loopback" not in error


def test_it_says_whose_vectors_it_serves_and_where(isolated):
    with forking.Popen(
        SERVE, env=isolated.environment(), stderr=subprocess.PIPE, text=True
    ) as serving:
        assert serving.stderr is not None
        line = serving.stderr.readline()
        serving.terminate()
    assert re.match(r"serving local \S+ at http://127\.0\.0\.1:\d+; ", line)
