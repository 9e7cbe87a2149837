"""`cortex doctor` on files and folders."""

import json
import os
import shutil

import pytest

from protocol.code_server import make_repository


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
def test_doctor_explains_whether_a_file_is_in_the_index(cortex, indexed, file, known, word):
    code, out, _ = cortex("doctor", indexed / file, "--json")
    assert code == 0
    body = json.loads(out)
    assert set(body) == {"file", "workspace", "indexed", "reason"}
    assert (body["file"], body["indexed"]) == (file, known)
    assert word in body["reason"]
    text = cortex("doctor", indexed / file)[1]
    assert text.startswith(f"{indexed / file}: {'in the index' if known else 'not in the index'}")


def test_doctor_explains_large_and_binary_files_before_indexing(cortex, tmp_path):
    root = make_repository(
        tmp_path / "unseen", {"large.py": "x = 1\n" * 400_000, "small.py": "x = 1\n"}
    )
    (root / "odd.dat2").write_bytes(bytes(range(256)) * 10)
    assert "too large" in cortex("doctor", root / "large.py")[1]
    assert "binary" in cortex("doctor", root / "odd.dat2")[1]
    assert "not in the index" in cortex("doctor", root / "small.py")[1]


def test_doctor_finds_the_index_of_a_file_and_creates_none(cortex, tmp_path):
    root = make_repository(tmp_path / "outer", {"sub/a.py": "x = 1\n", "other/b.py": "x = 2\n"})
    assert cortex("index", root / "sub")[0] == 0
    body = json.loads(cortex("doctor", root / "sub" / "a.py", "--json")[1])
    assert (body["file"], body["workspace"], body["indexed"]) == ("a.py", str(root / "sub"), True)
    body = json.loads(cortex("doctor", root / "other" / "b.py", "--json")[1])
    assert (body["file"], body["workspace"], body["indexed"]) == ("other/b.py", str(root), False)
    assert not (root / ".cortex").exists()


def test_doctor_json_lists_every_excluded_file(cortex, tmp_path):
    root = make_repository(tmp_path / "pictures", {f"p{number}.png": "x" for number in range(15)})
    cortex("index", root)
    assert len(json.loads(cortex("doctor", root, "--json")[1])["leftOut"]) == 15
    assert "and 5 more" in cortex("doctor", root)[1]


def test_doctor_counts_excluded_secret_files_and_redacted_ones(cortex, tmp_path):
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


def test_doctor_examines_a_folder(cortex, indexed, tmp_path):
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
def test_doctor_suggests_safe_directory_for_a_repository_of_another_user(
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
