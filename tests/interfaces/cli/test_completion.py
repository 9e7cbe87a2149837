"""Completion of commands and options, requested by variables as a shell does it."""

import subprocess
import sys

import pytest


@pytest.fixture
def completed(isolated):
    """`completed(shell, words)`: exit code and candidates of a command line that ends in a word."""

    def ask(shell: str, words: str) -> tuple[int, list[str]]:
        variables = {"_CORTEX_COMPLETE": f"complete_{shell}"}
        if shell == "bash":
            variables |= {"COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
        else:
            variables |= {"_TYPER_COMPLETE_ARGS": words, "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
        done = subprocess.run(
            [sys.executable, "-m", "cortex"],
            env=isolated.environment(**variables),
            capture_output=True,
            encoding="utf-8",
            timeout=60,
            check=False,
        )
        assert done.stderr == ""
        return done.returncode, _candidates(shell, done.stdout)

    return ask


def _candidates(shell: str, answer: str) -> list[str]:
    """Names without the descriptions that zsh and fish show."""
    if shell == "zsh":
        inside = answer.partition("((")[2].rpartition("))")[0]
        return [line.split('"')[1] for line in inside.splitlines()]
    return [line.partition("\t")[0] for line in answer.splitlines()]


SHELLS = pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])


@SHELLS
def test_shell_completes_commands_groups_subcommands_and_options(completed, shell):
    for words, expected in {
        "cortex me": {"memory"},
        "cortex st": {"status", "start", "stop"},
        "cortex team a": {"artifact", "audit"},
        "cortex team artifact acc": {"accept"},
        "cortex kb import c": {"conduit"},
        "cortex models se": {"serve"},
        "cortex team artifact create --su": {"--summary", "--supersedes", "--subcortex"},
        "cortex search --expl": {"--explain"},
        "cortex --vers": {"--version"},
    }.items():
        code, found = completed(shell, words)
        assert (code, set(found)) == (0, expected), words


@SHELLS
def test_commands_of_two_words_are_completed_after_the_first(completed, shell):
    assert set(completed(shell, "cortex mcp st")[1]) == {"status"}
    assert set(completed(shell, "cortex mcp co")[1]) == {"code"}
    assert set(completed(shell, "cortex inbox d")[1]) == {"done"}
    assert "--profile" in completed(shell, "cortex mcp logs --pro")[1]


def test_completion_of_names_imports_no_family(isolated):
    asked = (
        "import sys\n"
        "from cortex.interfaces.cli import run\n"
        "code = run([])\n"
        "loaded = [name for name in sys.modules if name.startswith('cortex.families')]\n"
        "sys.exit(3 if loaded else code)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", asked],
        env=isolated.environment(
            _CORTEX_COMPLETE="complete_bash", COMP_WORDS="cortex ", COMP_CWORD="1"
        ),
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )
    assert done.returncode == 0
    assert {"search", "team", "kb"} <= set(done.stdout.split())


@pytest.mark.parametrize(("words", "code"), [("cortex tea", 0), ("cortex team show", 1)])
def test_exit_code_tells_fish_whether_to_complete_files(isolated, words, code):
    done = subprocess.run(
        [sys.executable, "-m", "cortex"],
        env=isolated.environment(
            _CORTEX_COMPLETE="complete_fish",
            _TYPER_COMPLETE_ARGS=words,
            _TYPER_COMPLETE_FISH_ACTION="is-args",
        ),
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == code


def test_completion_script_uses_the_name_of_the_command(isolated):
    done = subprocess.run(
        [sys.executable, "-m", "cortex"],
        env=isolated.environment(_CORTEX_COMPLETE="source_zsh"),
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )
    assert done.returncode == 0
    assert "#compdef cortex" in done.stdout
    assert "_CORTEX_COMPLETE=complete_zsh" in done.stdout
