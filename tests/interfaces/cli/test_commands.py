"""`cortex index`, `search`, `doctor` and `mcp` as a person or a script runs them."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import cortex as cortex_package
import forking
from cortex.base.settings import environment, load
from cortex.engine.engine import Engine
from cortex.interfaces.cli import app, run
from cortex.toolkit.terminal.workspace import nearest
from protocol.code_server import CORTEX, check_envelope, make_repository, wait_for
from protocol.golden import check_golden


@pytest.fixture(scope="module")
def indexed(tmp_path_factory, strangers_environment):
    root = make_repository(tmp_path_factory.mktemp("commands") / "shop")
    assert run(["index", str(root), "--json"]) == 0
    return root


def process(*arguments, **options):
    return forking.run(
        [*CORTEX, *map(str, arguments)],
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=60,
        **options,
    )


# -- help and usage
# ----------------------------------------------------------------------------------------------------


COMMANDS = [
    "",
    "index",
    "search",
    "mcp",
    "mcp status",
    "mcp logs",
    "start",
    "stop",
    "restart",
    "status",
    "doctor",
    "hook",
]


@pytest.mark.parametrize(
    "command",
    [
        *COMMANDS,
        *("chunks", "chunks export", "chunks reembed"),
        *(
            "kb",
            "kb add",
            "kb remove",
            "kb list",
            "kb sync",
            "kb search",
            "kb stats",
            "kb import conduit",
        ),
        *(
            "config",
            "config show",
            "config get",
            "config set",
            "models",
            "models list",
            "models use",
        ),
    ],
)
def test_the_help_is_as_it_was(command):
    seen = CliRunner().invoke(
        app,
        [*command.split(), "--help"],
        env={"COLUMNS": "100", "TERM": "dumb"},
        terminal_width=100,
    )
    assert seen.exit_code == 0
    check_golden(
        f"help-{command.replace(' ', '-') or 'cortex'}",
        {"help": [line.rstrip() for line in seen.output.splitlines()]},
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ["index", "--nonsense"],
        ["search"],
        ["search", "a", "--limit", "0"],
        ["search", "a", "--limit", "many"],
        ["search", "a", "--threshold", "2"],
        ["doctor", "a", "b"],
        ["nonsense"],
        ["mcp", "--workspaces", "."],
    ],
)
def test_wrong_usage_ends_with_2_and_says_what_is_wrong(cortex, arguments):
    code, out, err = cortex(*arguments)
    assert code == 2
    assert out == ""
    assert "Usage" in err or "Error" in err


def test_no_command_shows_the_help_and_version_says_the_version(cortex):
    assert "search" in process().stdout + process().stderr
    code, out, _ = cortex("--version")
    assert code == 0
    assert out == f"cortex {cortex_package.__version__}\n"


@pytest.mark.parametrize(
    "arguments", [["index", "{}"], ["search", "a", "--path", "{}"], ["mcp", "--workspace", "{}"]]
)
def test_a_path_that_does_not_exist_is_an_error_that_is_explained(cortex, tmp_path, arguments):
    missing = str(tmp_path / "missing")
    code, out, err = cortex(*(argument.format(missing) for argument in arguments))
    assert code == 1
    assert out == ""
    assert missing in err
    assert "WORKSPACE_UNKNOWN" in err
    assert "command line" in err


def test_errors_for_programs_are_the_envelope(cortex, tmp_path):
    for expected, arguments in (
        (1, ["index", tmp_path / "missing", "--json"]),
        (1, ["search", " ", "--path", tmp_path, "--json"]),
        (1, ["doctor", tmp_path / "missing", "--json"]),
        (2, ["search", "a", "--mode", "magic", "--json"]),
        (2, ["search", "a", "--lang", "klingon", "--json"]),
    ):
        code, out, _ = cortex(*arguments)
        assert (arguments, code) == (arguments, expected)
        check_envelope(json.loads(out))


@pytest.mark.parametrize(
    ("failure", "code"),
    [
        (ValueError("nobody thought of this"), "INTERNAL_ERROR"),
        (OSError(5, "Input/output error"), "STORE_IO"),
        (PermissionError(13, "Permission denied"), "PERMISSION_DENIED"),
        (OSError(28, "No space left on device"), "DISK_FULL"),
    ],
)
def test_an_unforeseen_error_is_one_clear_message(cortex, monkeypatch, failure, code):
    def fail(*_, **__):
        raise failure

    monkeypatch.setattr("cortex.toolkit.terminal.workspace.find", fail)
    done, out, err = cortex("index")
    assert (done, out) == (1, "")
    assert f"[{code}]" in err
    assert "Traceback" not in err
    assert check_envelope(json.loads(cortex("index", "--json")[1]))["code"] == code


def test_the_traceback_of_an_unforeseen_error_is_for_who_asks(tmp_path, isolated):
    broken = "import cortex.toolkit.terminal.workspace as w, sys; w.find = None; from cortex.interfaces.cli import run; sys.exit(run(['index']))"
    for level, shown in (("debug", True), ("info", False)):
        done = subprocess.run(
            [sys.executable, "-c", broken],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
            env=isolated.environment(CORTEX_LOG_LEVEL=level),
        )
        assert done.returncode == 1
        assert "INTERNAL_ERROR" in done.stderr
        assert ("Traceback" in done.stderr) is shown


def test_an_unknown_family_is_named(cortex):
    code, _, err = cortex("mcp", "cooking")
    assert code == 2
    assert "known: code" in err


# -- index
# -------------------------------------------------------------------------------------------------------------


def test_indexing_says_what_it_did(cortex, tmp_path):
    root = make_repository(
        tmp_path / "fresh", {"a.py": "x = 1\n", "b.py": "y = 2\n", ".env": "S=1\n"}
    )
    code, out, _ = cortex("index", root)
    assert code == 0
    assert "2 added, 0 changed, 0 deleted, 0 unchanged, 1 skipped" in out
    assert "2 files, 2 chunks" in out
    (root / "a.py").write_text("x = 11\n", encoding="utf-8")
    (root / "b.py").unlink()
    code, out, _ = cortex("index", root, "--json")
    body = json.loads(out)
    assert set(body) == {
        "workspace", "status", "added", "changed", "deleted", "unchanged", "skipped", "seconds", "files", "chunks",
        "embedding", "over_max_files",
    }  # fmt: skip
    assert (body["added"], body["changed"], body["deleted"], body["skipped"]) == (0, 1, 1, 1)
    assert (body["files"], body["workspace"], body["status"]) == (1, str(root), "completed")


def test_a_python_that_can_not_be_run_is_an_error(cortex, tmp_path, monkeypatch):
    root = make_repository(tmp_path / "work", {"a.py": "x = 1\n"}, git=False)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "no-python"))
    code, out, err = cortex("index", root)
    assert (code, out) == (1, "")
    assert "can't be started" in err
    assert "no-python" in err
    assert "[WORKER_FAILED]" in err


def test_force_builds_everything_anew_as_often_as_one_likes(cortex, indexed):
    for _ in range(2):
        body = json.loads(cortex("index", indexed, "--force", "--json")[1])
        assert body["unchanged"] == 0
        assert body["changed"] >= 6


def test_several_workspaces_of_a_configuration_are_all_indexed(cortex, tmp_path, monkeypatch):
    root = make_repository(tmp_path / "mono", {"one/a.py": "x = 1\n", "two/b.py": "y = 1\n"})
    (root / "codeindex.config.json").write_text(
        '{"workspace": {"paths": ["one", "two"]}}', encoding="utf-8"
    )
    monkeypatch.chdir(root)
    body = json.loads(cortex("index", "--json")[1])
    assert [one["added"] for one in body["workspaces"]] == [1, 1]
    found = json.loads(cortex("search", "x", "--mode", "exact", "--json")[1])["results"]
    assert [(one["workspace"], one["file"]) for one in found] == [("one", "a.py")]


def test_a_damaged_store_is_kept_aside_and_built_anew_by_any_command(cortex, tmp_path, caplog):
    root = make_repository(tmp_path / "broken", {"a.py": "x = 1\n"})
    (root / ".cortex").mkdir()
    for arguments in (["index", root], ["search", "x", "--path", root], ["index", root, "--force"]):
        (root / ".cortex" / "cortex.db").write_bytes(b"no database" * 1_000)
        code, out, _ = cortex("doctor", root)
        assert code == 1 and "STORE_CORRUPT" in out
        caplog.clear()
        assert cortex(*arguments)[0] == 0
        assert "the index was damaged and is built anew" in caplog.text
    assert list((root / ".cortex").glob("cortex.db.damaged-*"))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_watching_follows_changes_until_a_signal(tmp_path, number):
    root = make_repository(tmp_path / "watched", {"a.py": "x = 1\n"})
    watching = forking.Popen(
        [*CORTEX, "index", str(root), "--watch"], stdout=subprocess.PIPE, text=True
    )
    try:
        assert any("watching" in line for line in iter(watching.stdout.readline, ""))
        (root / "b.py").write_text("def came_later():\n    pass\n", encoding="utf-8")
        wait_for(lambda: "came_later" in process("search", "came_later", "--path", root).stdout)
        watching.send_signal(number)
        assert watching.wait(10) == 0
    finally:
        watching.kill()
        watching.stdout.close()


# -- search
# ------------------------------------------------------------------------------------------------------------


def test_a_search_shows_place_relevance_name_and_lines(cortex, indexed):
    code, out, _ = cortex("search", "parse_invoice_number", "--path", indexed)
    assert code == 0
    first, *rest = out.splitlines()
    assert first.startswith("shop/payment/invoice.py:6  ")
    assert first.endswith("parse_invoice_number")
    assert rest[0] == "     6  def parse_invoice_number(text):"


def test_people_get_a_few_lines_of_each_hit_and_programs_all(cortex, tmp_path):
    long = "def long_story():\n" + "".join(
        f"    print({n}, 'and so it goes on')\n" for n in range(30)
    )
    root = make_repository(tmp_path / "long", {"a.py": long}, git=False)
    title, *lines = cortex("search", "long_story", "--path", root)[1].splitlines()
    assert title.startswith("a.py:1")
    assert 5 < len(lines) < 20
    assert lines == [f"{n:>6}  {line}" for n, line in enumerate(long.splitlines(), 1)][: len(lines)]
    (hit,) = json.loads(cortex("search", "long_story", "--path", root, "--json")[1])["results"]
    assert "print(29," in hit["text"]


def test_lines_from_further_down_have_their_own_numbers(cortex, tmp_path):
    long = (
        "def story():\n"
        + "".join(f"    print({n}, 'and so it goes on')\n" for n in range(30))
        + "    needle()\n"
    )
    root = make_repository(tmp_path / "long", {"a.py": long}, git=False)
    _, first, *_, last = cortex("search", "needle", "--path", root)[1].splitlines()
    assert first == "     1  def story():"
    assert last == "    32      needle()"


def test_an_explanation_stands_below_each_hit_and_is_a_field_for_programs(cortex, indexed):
    out = cortex("search", "parse_invoice_number", "-n", 1, "--explain", "--path", indexed)[1]
    assert re.fullmatch(r" {8}[\d.]+ = words \+1, .*definition \+2.*", out.splitlines()[-1])
    (hit,) = json.loads(
        cortex("search", "parse_invoice_number", "-n", 1, "--explain", "--json", "--path", indexed)[
            1
        ]
    )["results"]
    assert hit["evidence"]["definition"] == 2


def test_a_search_for_programs_has_the_shape_of_the_contract(cortex, indexed):
    body = json.loads(
        cortex("search", "parse an invoice number", "-n", 1, "--path", indexed, "--json")[1]
    )
    assert set(body) == {"results", "metadata"}
    assert set(body["results"][0]) == {
        "file",
        "startLine",
        "endLine",
        "relevance",
        "text",
        "context",
    }
    assert {"strategy", "executionTime", "totalResults", "index"} <= set(body["metadata"])
    check_golden("search-json", body)


def test_limit_language_threshold_and_modes_do_what_they_say(cortex, indexed):
    def files(*more):
        code, out, _ = cortex("search", "article", "--path", indexed, "--json", *more)
        assert code == 0
        return [one["file"] for one in json.loads(out)["results"]]

    assert len(files("--limit", "1")) == len(files("-n", "1")) == 1
    assert set(files("--lang", "typescript")) == set(files("--lang", "ts")) == {"web/cart.ts"}
    assert {file.rsplit(".")[-1] for file in files("--lang", "python", "--lang", "ts")} == {
        "py",
        "ts",
    }
    assert len(files("--threshold", "0.9")) < len(files())
    for mode in (
        "auto",
        "hybrid",
        "meaning",
        "embeddings",
        "semantic",
        "words",
        "tfidf",
        "fullworkspace",
        "exact",
    ):
        assert "web/cart.ts" in files("--mode", mode), mode
    body = json.loads(
        cortex("search", r"def \w+_invoice", "--regex", "--path", indexed, "--json")[1]
    )
    assert body["metadata"]["strategy"] == "exact"
    assert {one["file"] for one in body["results"]} == {"shop/payment/invoice.py"}
    assert cortex("search", "(", "--regex", "--path", indexed)[0] == 1


@pytest.mark.parametrize("mode", ["hybrid", "auto", "words", "meaning", "fullworkspace"])
def test_a_query_in_quotes_or_slashes_is_exact_in_every_mode(cortex, indexed, mode):
    for query in ('"voice_num"', "/voice_n[a-z]m/"):
        body = json.loads(cortex("search", query, "--mode", mode, "--path", indexed, "--json")[1])
        assert body["metadata"]["strategy"] == "exact"
        assert {one["file"] for one in body["results"]} == {"shop/payment/invoice.py"}
    quoted = json.loads(
        cortex("search", '"voice_num"', "--mode", "exact", "--path", indexed, "--json")[1]
    )
    assert quoted["results"] == []


def test_nothing_found_is_no_error(cortex, indexed):
    code, out, err = cortex("search", "zzzz_nowhere", "--path", indexed)
    assert (code, out) == (0, "")
    assert "nothing found" in err
    assert (
        json.loads(cortex("search", "zzzz_nowhere", "--path", indexed, "--json")[1])["results"]
        == []
    )


def test_a_folder_that_was_never_indexed_is_indexed_first_and_a_change_is_seen(cortex, tmp_path):
    root = make_repository(tmp_path / "new", {"a.py": "def first_one():\n    pass\n"}, git=False)
    assert "a.py:1" in cortex("search", "first_one", "--path", root)[1]
    (root / "b.py").write_text("def second_one():\n    pass\n", encoding="utf-8")
    assert "b.py:1" in cortex("search", "second_one", "--path", root)[1]


def test_a_search_in_an_incomplete_index_says_so_without_being_asked(cortex, tmp_path, isolated):
    root = make_repository(tmp_path / "young")
    with Engine(root, load(root, environment=environment())) as holder:
        holder.index(paths=["shop"])
        code, out, err = cortex("search", "basket", "--path", root)
        assert code == 0
        assert "shop/basket.py" in out
        assert "the first index is under way: some files are not read yet" in err


def test_a_search_without_an_embedder_says_so_where_meaning_was_asked_for(
    cortex, tmp_path, isolated, monkeypatch
):
    monkeypatch.setenv("CORTEX_INDEXING_EMBEDDING_PROVIDER", "none")
    root = make_repository(tmp_path / "plain")
    assert "no embedder" not in cortex("search", "basket", "--path", root)[2]
    assert "no embedder" in cortex("search", "basket", "--path", root, "--mode", "meaning")[2]


@pytest.mark.parametrize("mode", ["exact", "fullworkspace"])
def test_a_search_in_the_files_themselves_indexes_nothing(cortex, tmp_path, mode):
    root = make_repository(tmp_path / "fresh")
    code, out, err = cortex("search", "total_price", "--path", root, "--mode", mode)
    assert (code, err) == (0, "")
    assert "shop/basket.py" in out
    with Engine(root, load(root, environment=environment())) as engine:
        assert not engine.knows("shop/basket.py")


@pytest.mark.skipif(os.name == "nt", reason="there is no pty")
def test_a_folder_that_is_no_project_is_not_indexed_without_a_yes(
    cortex, typed, tmp_path, isolated, monkeypatch
):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    (scratch / "a.txt").write_text("the needle is here\n", encoding="utf-8")
    monkeypatch.chdir(scratch)
    code, out, err = cortex("search", "needle")
    assert (code, out) == (1, "")
    assert "no project and has no index" in err
    assert f"cortex index {scratch}" in err
    assert not (isolated.cortex / "projects").exists()
    # Its files are read for an exact search, which keeps nothing.
    assert "needle" in cortex("search", '"needle"')[1]
    code, out, err = typed("n\n", "search", "needle")
    assert (code, out) == (1, "")
    assert "is no project" in err
    code, out, err = typed("y\n", "search", "needle")
    assert (code, "a.txt:1" in out) == (0, True)
    # What has an index is searched as ever.
    assert "a.txt:1" in cortex("search", "needle")[1]


def test_a_hit_that_tools_would_leave_out_is_marked_as_weak(cortex, tmp_path):
    root = make_repository(
        tmp_path / "work", {"a.py": "def parse_invoice(text):\n    return text\n"}
    )
    _, out, err = cortex("search", "kafka consumer offset of an invoice commit", "--path", root)
    first = out.splitlines()[0]
    assert re.match(r"a\.py:1  0\.\d\d weak  ", first)
    assert "all of these are weak" in err
    (row,) = json.loads(
        cortex("search", "kafka consumer offset of an invoice", "--path", root, "--json")[1]
    )["results"]
    assert row["weak"] is True
    _, out, err = cortex("search", "parse_invoice", "--path", root)
    assert "weak" not in out + err
    assert (
        "weak"
        not in json.loads(cortex("search", "parse_invoice", "--path", root, "--json")[1])[
            "results"
        ][0]
    )


def test_several_folders_are_searched_and_named(cortex, tmp_path, indexed):
    other = make_repository(tmp_path / "other", {"a.py": "def merge_baskets():\n    pass\n"})
    code, out, _ = cortex("search", "merge_baskets", "--path", indexed, "--path", other)
    assert code == 0
    assert {"shop/shop/basket.py:21", "other/a.py:1"} <= {
        line.split("  ")[0] for line in out.splitlines()
    }


def test_a_reader_that_goes_away_is_no_error(indexed):
    for arguments in (
        ["search", "article", "--path", str(indexed)],
        ["search", "article", "--path", str(indexed), "--json"],
    ):
        running = subprocess.Popen(
            [*CORTEX, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        running.stdout.close()
        assert running.wait(30) == 0
        assert b"BrokenPipe" not in running.stderr.read()
        running.stderr.close()


def test_colours_and_line_numbers_are_for_a_terminal(indexed, on_terminal):
    shown = on_terminal(
        "search", "parse_invoice_number", "--path", str(indexed), "--limit", "1"
    ).encode()
    assert b"\x1b[" in shown
    assert b"invoice.py:6" in shown


def test_a_character_that_can_not_be_shown_ends_nothing(tmp_path):
    root = make_repository(tmp_path / "snow", {"a.py": "snow = '☃'\n"})
    done = process(
        "search",
        "snow",
        "--path",
        root,
        env=os.environ | {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"},
    )
    assert done.returncode == 0
    assert "snow = '?'" in done.stdout


# -- doctor
# ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("file", "known", "word"),
    [
        ("shop/basket.py", True, "belongs"),
        ("ignored/draft.py", False, "ignore"),
        (".env", False, "secret"),
        ("logo.png", False, "binary"),
        ("blob.dat2", False, "binary"),
        (".git/config", False, ".git"),
    ],
)
def test_the_doctor_says_why_a_file_is_or_is_not_in_the_index(cortex, indexed, file, known, word):
    code, out, _ = cortex("doctor", indexed / file, "--json")
    assert code == 0
    body = json.loads(out)
    assert set(body) == {"file", "workspace", "indexed", "reason"}
    assert (body["file"], body["indexed"]) == (file, known)
    assert word in body["reason"]
    text = cortex("doctor", indexed / file)[1]
    assert text.startswith(f"{indexed / file}: {'in the index' if known else 'not in the index'}")


def test_the_doctor_sees_content_and_size_before_anything_is_indexed(cortex, tmp_path):
    root = make_repository(
        tmp_path / "unseen", {"large.py": "x = 1\n" * 400_000, "small.py": "x = 1\n"}
    )
    (root / "odd.dat2").write_bytes(bytes(range(256)) * 10)
    assert "too large" in cortex("doctor", root / "large.py")[1]
    assert "binary" in cortex("doctor", root / "odd.dat2")[1]
    assert "not in the index" in cortex("doctor", root / "small.py")[1]


def test_the_doctor_finds_the_index_that_a_file_is_in_and_makes_none(cortex, tmp_path):
    root = make_repository(tmp_path / "outer", {"sub/a.py": "x = 1\n", "other/b.py": "x = 2\n"})
    assert cortex("index", root / "sub")[0] == 0
    body = json.loads(cortex("doctor", root / "sub" / "a.py", "--json")[1])
    assert (body["file"], body["workspace"], body["indexed"]) == ("a.py", str(root / "sub"), True)
    body = json.loads(cortex("doctor", root / "other" / "b.py", "--json")[1])
    assert (body["file"], body["workspace"], body["indexed"]) == ("other/b.py", str(root), False)
    assert not (root / ".cortex").exists()


def test_the_doctor_lists_every_file_that_is_left_out_for_programs(cortex, tmp_path):
    root = make_repository(tmp_path / "pictures", {f"p{number}.png": "x" for number in range(15)})
    cortex("index", root)
    assert len(json.loads(cortex("doctor", root, "--json")[1])["leftOut"]) == 15
    assert "and 5 more" in cortex("doctor", root)[1]


def test_the_doctor_counts_what_is_left_out_as_a_secret_and_what_is_redacted(cortex, tmp_path):
    key = "AKIA" + "QWERTYUIOP234567"
    root = make_repository(
        tmp_path / "keys", {".env": "A=1\n", "deploy_key": "x\n", "a.py": f"KEY = '{key}'\n"}
    )
    cortex("index", root)
    assert json.loads(cortex("doctor", root, "--json")[1])["secrets"] == {
        "leftOut": 2,
        "redacted": 1,
    }
    assert "2 files are left out, 1 have some that answers redact" in cortex("doctor", root)[1]
    _, out, error = cortex("search", "KEY", "--path", root)
    assert "KEY = '[redacted: AWS key]'" in out
    assert (
        "note: secrets are redacted, don't copy these lines into a file: a.py:1 (AWS key)" in error
    )
    assert key not in out + cortex("search", "KEY", "--path", root, "--json")[1]


def test_the_doctor_examines_a_folder(cortex, indexed, tmp_path):
    code, out, _ = cortex("doctor", indexed, "--json")
    body = json.loads(out)
    assert code == 0, body
    assert body["problems"] == []
    assert body["files"] >= 6
    assert body["operations"][0]["what"] == "index"
    assert "no problems found" in cortex("doctor", indexed)[1]
    code, out, _ = cortex("doctor", make_repository(tmp_path / "never", {"a.py": "x = 1\n"}))
    assert code == 1
    assert "cortex index" in out


@pytest.mark.skipif(os.name == "nt", reason="uses a shell script")
def test_the_doctor_says_what_to_do_about_a_repository_of_another_user(
    cortex, tmp_path, monkeypatch
):
    root = make_repository(tmp_path / "theirs", {"a.py": "x = 1\n"})
    program = tmp_path / "git"
    program.write_text(
        f'#!/bin/sh\nGIT_TEST_ASSUME_DIFFERENT_OWNER=1 exec "{shutil.which("git")}" "$@"\n',
        encoding="utf-8",
    )
    program.chmod(0o755)
    monkeypatch.setattr("cortex.engine.sources.git._program", lambda: str(program))
    cortex("index", root)
    code, out, _ = cortex("doctor", root, "--json")
    assert code == 1
    assert f"git config --global --add safe.directory {root}" in json.loads(out)["problems"][0]


def test_commands_run_from_a_module_and_a_script_alike(indexed):
    script = shutil.which("cortex", path=os.path.dirname(sys.executable))
    if script is None:
        pytest.skip("the command isn't installed beside this Python")
    done = subprocess.run(
        [script, "search", "basket", "--json"],
        cwd=indexed / "shop",
        capture_output=True,
        timeout=60,
    )
    assert done.returncode == 0
    assert json.loads(done.stdout)["results"][0]["file"].startswith("shop/")


def test_the_nearest_folder_is_found_where_one_cant_be_looked_at_and_where_there_is_none(
    tmp_path, monkeypatch
):
    # Which an operating system refuses to look at
    assert nearest(tmp_path / ("x" * 300) / "y") == tmp_path
    monkeypatch.setattr(Path, "exists", lambda self: False)  # a drive that isn't there
    assert nearest(tmp_path) == Path(tmp_path.anchor)
