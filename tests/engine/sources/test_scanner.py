"""Files of a folder that belong in the index, in repositories and elsewhere."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cortex.base.errors import Cancelled
from cortex.base.types import Cancel, Scan, UnreadableFile
from cortex.engine.sources import git as git_module
from cortex.engine.sources.scanner import Rules, explain, read_bytes, scan, scan_paths
from cortex.engine.sources.secret_filenames import READ, is_secret


def git(folder: Path, *arguments: str) -> None:
    subprocess.run(
        ["git", "-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "protocol.file.allow=always", "-C", str(folder), *arguments],
        check=True,
        capture_output=True,
    )  # fmt: skip


def write(root: Path, *names: str, text: str = "x = 1\n") -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")


def make_deep_file(root: Path, name: str, depth: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make folders within folders, with a file in the innermost."""
    monkeypatch.chdir(root)
    for _ in range(depth):
        os.mkdir(name)
        os.chdir(name)
    Path("bottom.txt").touch()
    monkeypatch.undo()


def commit(root: Path) -> None:
    git(root, "add", "-A")
    git(root, "commit", "-qm", "all")


def found(answer: Scan) -> list[str]:
    return [file.path for file in answer.files]


def skipped(answer: Scan) -> dict[str, str]:
    return {skip.path: skip.reason for skip in answer.skipped}


@pytest.fixture(params=["walked", "git"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """An empty folder, once plain and once a repository: the answers are the same."""
    folder = tmp_path / "root"
    folder.mkdir()
    if request.param == "git":
        git(folder, "init", "-q")
    return folder


def test_nested_and_negated_ignore_patterns_count(root: Path) -> None:
    write(
        root, "a.py", "a.log", "keep.log", "sub/b.log", "sub/c.py", "sub/gen/d.py", "sub/gen/e.txt"
    )
    (root / ".gitignore").write_text("*.log\n!keep.log\n", encoding="utf-8")
    (root / "sub" / ".gitignore").write_text("!b.log\ngen/*.py\n", encoding="utf-8")
    assert found(scan(root, Rules())) == [
        ".gitignore", "a.py", "keep.log", "sub/.gitignore", "sub/b.log", "sub/c.py", "sub/gen/e.txt"
    ]  # fmt: skip


def test_cortexignore_counts_also_for_tracked_files(root: Path) -> None:
    write(root, "a.py", "data/x.csv", "data/keep.csv", "deep/data/y.csv", "b.py")
    (root / ".cortexignore").write_text("data/*\n!data/keep.csv\n", encoding="utf-8")
    (root / "deep" / ".cortexignore").write_text("data/\n", encoding="utf-8")
    assert found(scan(root, Rules())) == [
        ".cortexignore",
        "a.py",
        "b.py",
        "data/keep.csv",
        "deep/.cortexignore",
    ]


def test_include_and_exclude_patterns_narrow_the_scan(root: Path) -> None:
    write(
        root,
        "src/a.py",
        "src/a.log",
        "src/build/x.py",
        "build/y.py",
        "docs/b.md",
        "node_modules/m.js",
        "p/node_modules/m.js",
    )
    exclude = ("node_modules/**", ".git/**", "dist/**", "build/**", "*.log")
    assert found(scan(root, Rules(exclude=exclude))) == ["docs/b.md", "src/a.py", "src/build/x.py"]
    assert found(scan(root, Rules(include=("src/**",)))) == [
        "src/a.log",
        "src/a.py",
        "src/build/x.py",
    ]
    assert found(scan(root, Rules(include=("./src",), exclude=("**/build/**",)))) == [
        "src/a.log",
        "src/a.py",
    ]
    assert found(scan(root, Rules(include=("*.md", "/build/")))) == ["build/y.py", "docs/b.md"]
    assert found(scan(root, Rules(include=("*.py",), exclude=("src/**", "!src/a.py")))) == [
        "build/y.py",
        "src/a.py",
    ]


def test_folders_of_tools_are_never_indexed(root: Path) -> None:
    write(
        root,
        "a.py",
        ".cortex/notes.md",
        "__pycache__/a.py",
        "env/pyvenv.cfg",
        "env/lib/b.py",
        "sub/.venv/c.py",
    )
    assert found(scan(root, Rules())) == ["a.py"]


def test_secrets_are_left_out_by_name(root: Path) -> None:
    secret = [
        ".env", ".env.local", "prod.env", "server.pem", "tls.key", "id_rsa", "id_ed25519.pub", "store.p12", "x.jks", "credentials.json",
        ".npmrc", ".aws/credentials", ".ssh/config", "service-account-prod.json", "secrets.yaml", "main.tfstate", "x.tfvars", "ca.crt",
        ".git-credentials", ".htpasswd", "KEYS.KDBX", ".env-production", ".env_local", ".env~", ".env.default", ".env.py", ".envrc",
        ".envs/.local/.django", ".aws/config", "credentials.toml", "config/credentials.yml.enc", "credentials.ini", "secrets.properties",
        "a/.secrets", ".secret", "secrets.txt", "secrets.json", "secrets.toml", "secrets.ini", "secrets.env", ".secrets/any.py", "secrets/db.txt",
        "secrets/db_password", "deploy/Secrets/app.yml", "app.secrets.yml", "prod-secrets.yaml", "prod_secrets.yaml", ".vault_pass",
        ".vault_pass.txt", ".env.d/local", "env.local", "ENV.Production", ".ENV.Staging", ".bash_history", ".zsh_history", ".psql_history",
        ".mysql_history", ".python_history", ".node_repl_history", ".rediscli_history", ".irb-history", "ssh_host_rsa_key",
        "x-firebase-adminsdk-1a2b.json", "auth.json", ".dockerconfigjson", ".docker/config.json", ".config/gh/hosts.yml", ".m2/settings.xml",
        "credentials.tfrc.json", ".terraformrc", "rclone.conf", "wg0.conf", "private.asc", "my-private-key.asc", "secring.kbx", "putty.ppk",
        "kubeconfig.yaml", "kube-config.yml", "config/kubeconfig-prod", "backup_id_rsa", "deploy_key", "mykey.pem.txt", "environment.prod",
        "dotenv", "local.settings.json", "wp-config.php.bak", "netrc", "sa-key.json", "firebase-key.json", "aws_credentials.csv",
        "rootkey.csv", "accessKeys.csv", "bob_accessKeys.csv", "vault.yml", "docker-config.json", "password.txt", "passwords.txt", "token.txt",
        "keystore.properties", "secrets.enc.yaml", "prod.secrets.enc.json", "x.tfvars.json",
    ]  # fmt: skip
    plain = [
        ".env.example", ".env.sample", ".env.template", ".env-dist", "credentials.py", "environment.py", "id_rsa.py", "keys.py", "secrets.py",
        "tokens.md", "src/secrets/vault.py", "src/secrets/README", "src/secrets/notes.md", "secrets/example.json", "env.py", "env.d.ts",
        "env.yml", "history.md", "history", "auth.ts", "locales/en/auth.json", "config.json", "docker/config.json", "settings.xml",
        "hosts.yml", "key.asc", "wgpu.toml", "secretary.txt", "secrets-store.go",
        "tokens.py", "password.py", "credentials.go", "kubeconfig.go", "kubeconfig_test.go", "kubeconfig.md", "environment.prod.ts",
        "wp-config-sample.php", "deploy_key.sh", "token.ts", "vault.go", "lang/en/passwords.php", "env", "tokens.json", "database.yml",
        "appsettings.Production.json", "application-prod.properties", "google-services.json",
    ]  # fmt: skip
    write(root, *secret, *plain)
    answer = scan(root, Rules())
    assert found(answer) == sorted(plain)
    assert skipped(answer) == dict.fromkeys(secret, "secret")


def test_files_that_only_might_hold_secrets_are_read() -> None:
    names = [name for _, row in READ for name in row.split()]
    assert len(names) > 10
    assert [name for name in names if is_secret(name.replace("*", "production"))] == []


def test_binary_lock_and_minified_files_are_known_by_name(root: Path) -> None:
    write(
        root,
        "a.PNG",
        "b.zip",
        "package-lock.json",
        "Cargo.lock",
        "app.min.js",
        "app.js.map",
        "png",
        "package.json",
    )
    answer = scan(root, Rules())
    assert found(answer) == ["package.json", "png"]
    assert skipped(answer) == {
        "a.PNG": "binary", "b.zip": "binary", "package-lock.json": "lock file", "Cargo.lock": "lock file",
        "app.min.js": "minified", "app.js.map": "minified",
    }  # fmt: skip


def test_documents_are_scanned_only_on_request(root: Path) -> None:
    documents = ["a.pdf", "b.DOCX", "c.pptx", "d.xlsx", "e.epub"]
    write(root, *documents, "f.doc", "g.png", "h.md", "secrets/id_rsa", "package-lock.json")
    answer = scan(root, Rules(documents=True))
    assert found(answer) == [*documents, "h.md"]
    assert skipped(answer) == {
        "f.doc": "binary", "g.png": "binary", "secrets/id_rsa": "secret", "package-lock.json": "lock file",
    }  # fmt: skip
    plain = scan(root, Rules())
    assert found(plain) == ["h.md"] and skipped(plain)["a.pdf"] == "binary"


def test_limits_on_size_and_number_are_reported(root: Path) -> None:
    write(root, "a.py", "b.py", "c.py")
    write(root, "big.py", text="x" * 100)
    answer = scan(root, Rules(max_file_size=99, max_files=2))
    assert found(answer) == ["a.py", "b.py"]
    assert skipped(answer) == {"big.py": "too large", "c.py": "over maxFiles"}


@pytest.mark.skipif(os.name == "nt", reason="makes links and pipes")
def test_links_and_pipes_are_never_followed_or_opened(root: Path, tmp_path: Path) -> None:
    write(tmp_path, "outside/secret.py")
    write(root, "a/real.py")
    (root / "a" / "loop").symlink_to("..")
    (root / "out").symlink_to(tmp_path / "outside")
    (root / "alias.py").symlink_to("a/real.py")
    (root / "dangling.py").symlink_to("nowhere")
    os.mkfifo(root / "pipe.py")
    answer = scan(root, Rules())
    assert found(answer) == ["a/real.py"]
    links = {"a/loop": "symlink", "out": "symlink", "alias.py": "symlink", "dangling.py": "symlink"}
    assert {path: reason for path, reason in skipped(answer).items() if path != "pipe.py"} == links
    assert (
        found(
            scan_paths(root, Rules(), ["out/secret.py", "a/loop/a/real.py", "../outside/secret.py"])
        )
        == []
    )


@pytest.mark.skipif(os.name == "nt", reason="such names can't be made there")
def test_strange_names_are_kept_and_names_that_are_not_utf8_reported(root: Path) -> None:
    names = ["with space.py", "new\nline.py", "ünï/cödé.py", "quote'\".py", "-dash.py", "日本.py"]
    write(root, *names)
    (root / os.fsdecode(b"bad\xff.py")).touch()
    answer = scan(root, Rules())
    assert found(answer) == sorted(names)
    assert skipped(answer) == {"bad\\udcff.py": "name not UTF-8"}
    assert found(scan_paths(root, Rules(), names)) == sorted(names)


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="permissions don't bind root")
def test_a_folder_that_cannot_be_read_is_reported(tmp_path: Path) -> None:
    write(tmp_path, "a.py", "closed/b.py")
    (tmp_path / "closed").chmod(0)
    answer = scan(tmp_path, Rules())
    (tmp_path / "closed").chmod(0o700)
    assert (found(answer), skipped(answer)) == (["a.py"], {"closed": "unreadable"})


@pytest.mark.skipif(os.name == "nt", reason="such depths can't be made there")
def test_a_tree_of_any_depth_is_scanned(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(root, "a.py", ".cortexignore", text="*.log\n")
    deep = "d/" * 1_200
    make_deep_file(root, "d", 1_200, monkeypatch)
    write(root, "low.py", "low.log")
    for name in ("low.py", "low.log"):
        os.rename(root / name, f"{root}/{deep}{name}")
    make_deep_file(root, "n" * 200, 40, monkeypatch)  # no call takes this path as a whole
    answer = scan(root, Rules(include=("*.py", ".cortexignore")))
    assert found(answer) == [".cortexignore", "a.py", f"{deep}low.py"]
    assert set(skipped(answer).values()) <= {"path too long"}
    assert found(scan_paths(root, Rules(), [f"{deep}low.py", f"{deep}low.log"])) == [
        f"{deep}low.py"
    ]
    assert explain(root, Rules(), f"{deep}low.py") == "belongs in the index by its name and size"
    subprocess.run(["rm", "-rf", str(root)], check=True)  # pytest can't: it goes down by recursion


def test_a_cancelled_scan_stops(root: Path) -> None:
    write(root, "a.py")
    cancel = Cancel()
    cancel.cancel()
    with pytest.raises(Cancelled):
        scan(root, Rules(), cancel)


def test_scan_of_a_path_judges_it_as_a_full_scan_does(root: Path) -> None:
    write(
        root, "a.py", "x.log", "sub/b.py", "sub/c.py", "sub/.env", "ign/d.py", "node_modules/e.js"
    )
    (root / ".gitignore").write_text("*.log\nign/\n", encoding="utf-8")
    part = scan_paths(
        root,
        Rules(),
        ["sub", "sub/b.py", "x.log", "ign/d.py", "gone.py", "node_modules/e.js", "a.py"],
    )
    assert found(part) == ["a.py", "sub/b.py", "sub/c.py"]
    assert skipped(part) == {"sub/.env": "secret"}
    assert scan_paths(root, Rules(), [""]) == scan(root, Rules())
    many = [f"none{number}" for number in range(300)]
    assert scan_paths(root, Rules(), [*many, "sub"]) == scan_paths(root, Rules(), ["sub"])


@settings(max_examples=25)
@given(
    st.sets(
        st.sampled_from(
            [
                "a.py",
                "n/b.py",
                "n/ign.py",
                "n/m/c.py",
                "s",
                "n",
                "n/m",
                "ign.py",
                "s/d.py",
                "gone",
                "n/gone.py",
            ]
        )
    )
)
def test_scan_of_any_path_equals_that_part_of_a_full_scan(nested: Path, paths: set[str]) -> None:
    whole = found(scan(nested, Rules()))
    expected = [
        path for path in whole if any(path == part or path.startswith(part + "/") for part in paths)
    ]
    assert found(scan_paths(nested, Rules(), paths)) == expected


@pytest.fixture(scope="module")
def nested(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with an untracked repository in it, and another inside that."""
    root = tmp_path_factory.mktemp("nested")
    write(root, "a.py", "ign.py", "s/d.py", "n/b.py", "n/ign.py", "n/m/c.py")
    for folder in (root / "n" / "m", root / "n", root):
        git(folder, "init", "-q")
    write(root, ".gitignore", text="ign.py\n")
    return root


def test_repositories_within_are_listed_by_their_own_rules(nested: Path) -> None:
    assert found(scan(nested, Rules())) == [
        ".gitignore",
        "a.py",
        "n/b.py",
        "n/ign.py",
        "n/m/c.py",
        "s/d.py",
    ]


def test_repositories_in_a_plain_folder_are_listed_by_git(tmp_path: Path) -> None:
    write(tmp_path, "notes.md", "one/a.py", "one/out.log", "two/b.py", "three/c.py")
    write(tmp_path, ".gitignore", text="three/\n")
    for name in ("one", "two", "three"):
        git(tmp_path / name, "init", "-q")
    write(tmp_path / "one" / ".git" / "info", "exclude", text="*.log\n")
    assert found(scan(tmp_path, Rules())) == [".gitignore", "notes.md", "one/a.py", "two/b.py"]
    assert found(scan_paths(tmp_path, Rules(), ["one/out.log", "one/a.py", "three/c.py"])) == [
        "one/a.py"
    ]


def test_submodules_are_listed(tmp_path: Path) -> None:
    write(tmp_path, "lib/inner.py", "main/outer.py")
    for name in ("lib", "main"):
        git(tmp_path / name, "init", "-q")
        commit(tmp_path / name)
    main = tmp_path / "main"
    git(main, "submodule", "add", "-q", str(tmp_path / "lib"), "vendor/lib")
    commit(main)
    assert found(scan(main, Rules())) == [".gitmodules", "outer.py", "vendor/lib/inner.py"]
    assert found(scan_paths(main, Rules(), ["vendor/lib/inner.py"])) == ["vendor/lib/inner.py"]
    git(main, "submodule", "deinit", "-q", "-f", "vendor/lib")
    assert found(scan(main, Rules())) == [".gitmodules", "outer.py"]


def test_worktrees_and_folders_of_a_repository_are_listed_by_git(tmp_path: Path) -> None:
    main = tmp_path / "main"
    write(main, "a.py", "sub/b.py", "out/gen.py")
    write(main, ".gitignore", text="*.log\nout/\n")
    git(main, "init", "-q")
    commit(main)
    git(main, "worktree", "add", "-q", str(tmp_path / "linked"))
    write(tmp_path / "linked", "new.py", "x.log")
    assert found(scan(tmp_path / "linked", Rules())) == [".gitignore", "a.py", "new.py", "sub/b.py"]
    write(main, "sub/x.log", "sub/c.py")
    assert found(scan(main / "sub", Rules())) == ["b.py", "c.py"]
    # Ignored by its repository: a plain folder
    assert found(scan(main / "out", Rules())) == ["gen.py"]


def test_tracked_files_count_although_ignored_and_deleted_ones_do_not(tmp_path: Path) -> None:
    write(tmp_path, "a.py", "forced.log", "gone.py")
    write(tmp_path, ".gitignore", text="*.log\n")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "-f", ".")
    (tmp_path / "gone.py").unlink()
    assert found(scan(tmp_path, Rules())) == [".gitignore", "a.py", "forced.log"]


def test_a_repository_that_git_refuses_is_walked(tmp_path: Path) -> None:
    write(tmp_path, "a.py", "x.log")
    write(tmp_path, ".gitignore", text="*.log\n")
    git(tmp_path, "init", "-q")
    (tmp_path / ".git" / "config").write_text("[broken", encoding="utf-8")
    assert found(scan(tmp_path, Rules())) == [".gitignore", "a.py"]


def test_foreign_repository_starts_no_program_and_stays_untouched(tmp_path: Path) -> None:
    root = tmp_path / "root"
    write(root, "a.py")
    git(root, "init", "-q")
    commit(root)
    witness = tmp_path / "witness"
    git(root, "config", "core.fsmonitor", f"touch {witness}; false")
    os.utime(root / "a.py", (1, 1))
    before = (root / ".git" / "index").stat().st_mtime_ns
    assert found(scan(root, Rules())) == ["a.py"]
    assert not witness.exists()
    assert (root / ".git" / "index").stat().st_mtime_ns == before


def test_environment_variables_of_a_git_hook_are_ignored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "two"):
        write(tmp_path, f"{name}/{name}.py")
        git(tmp_path / name, "init", "-q")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "two" / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(tmp_path / "two"))
    assert found(scan(tmp_path / "one", Rules())) == ["one.py"]


def test_repository_is_walked_where_git_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, "a.py", "x.log")
    write(tmp_path, ".gitignore", text="*.log\n")
    git(tmp_path, "init", "-q")
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    git_module._program.cache_clear()
    try:
        assert found(scan(tmp_path, Rules())) == [".gitignore", "a.py"]
    finally:
        monkeypatch.undo()
        git_module._program.cache_clear()


def put_first(tmp_path: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a program called git before the real one on the path."""
    program = tmp_path / "bin" / "git"
    write(tmp_path, "bin/git", text=f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setattr(git_module, "_program", lambda: str(program))


@pytest.mark.skipif(os.name == "nt", reason="uses a shell script")
def test_repository_of_another_user_is_walked_and_reported_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    root = tmp_path / "theirs"
    write(root, "a.py", "x.log", "sub/b.py")
    write(root, ".gitignore", text="*.log\n")
    git(root, "init", "-q")
    put_first(
        tmp_path,
        f'GIT_TEST_ASSUME_DIFFERENT_OWNER=1 exec "{shutil.which("git")}" "$@"',
        monkeypatch,
    )
    caplog.set_level("INFO")
    for _ in range(2):
        assert found(scan(root, Rules())) == [".gitignore", "a.py", "sub/b.py"]
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert record.getMessage().endswith(f"git config --global --add safe.directory {root}")
    assert "\n" not in record.getMessage()
    assert git_module.refusal(root) == record.getMessage()
    assert git_module.refusal(tmp_path) == ""


@pytest.mark.skipif(os.name == "nt", reason="makes pipes")
@pytest.mark.timeout(20)
def test_git_that_hangs_is_given_up_and_not_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path, "a.py", "sub/b.py")
    git(tmp_path, "init", "-q")
    os.mkfifo(tmp_path / "sub" / ".gitignore")
    monkeypatch.setattr(git_module, "TIMEOUT_SECONDS", 0.5)
    for _ in range(3):
        answer = scan(tmp_path, Rules())
        assert found(answer) == ["a.py", "sub/b.py"]
    assert skipped(answer) == {"sub/.gitignore": "not a regular file"}
    assert len(caplog.records) == 1


@pytest.mark.parametrize("worktree", ["/", "../sub", "../../elsewhere"])
def test_a_configured_worktree_elsewhere_is_not_listed_in_place_of_the_folder(
    tmp_path: Path, worktree: str
) -> None:
    write(tmp_path, "root/a.py", "root/b.py", "root/sub/a.py", "elsewhere/a.py")
    root = tmp_path / "root"
    git(root, "init", "-q")
    git(root, "config", "core.worktree", worktree)
    assert found(scan(root, Rules())) == ["a.py", "b.py", "sub/a.py"]


def test_explain_names_the_rule_that_ignores(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path, "x.log", "sub/y.tmp")
    write(tmp_path, ".gitignore", text="# logs\n*.log\n")
    write(tmp_path, "sub/.gitignore", text="y.*\n")
    git(tmp_path, "init", "-q")
    caplog.set_level("INFO")
    assert explain(tmp_path, Rules(), "x.log") == "left out: .gitignore:2: *.log"
    assert explain(tmp_path, Rules(), "sub/y.tmp") == "left out: sub/.gitignore:1: y.*"
    assert caplog.records == []


def test_explain_names_the_reason_for_each_file(root: Path) -> None:
    write(root, "a.py", "x.log", ".env", "node_modules/m.js", "dist/d.js", "c/i.py", "sub/s.txt")
    write(root, ".gitignore", text="*.log\n")
    write(root, ".cortexignore", text="c/\n")
    rules = Rules(include=("*.py", ".env", "*.log", "*.js"), exclude=("dist/**",))
    assert explain(root, rules, "a.py") == "belongs in the index by its name and size"
    assert explain(root, rules, ".env") == "left out: secret"
    assert "*.log" in explain(root, rules, "x.log") or ".gitignore" in explain(root, rules, "x.log")
    assert "node_modules" in explain(root, rules, "node_modules/m.js")
    assert explain(root, rules, "dist/d.js") == "left out: excluded by a pattern in the settings"
    assert explain(root, rules, "c/i.py") == "left out: ignored by a .cortexignore"
    assert (
        explain(root, rules, "sub/s.txt") == "left out: no include pattern in the settings matches"
    )
    assert explain(root, rules, "nowhere.py") == "there is no such file"
    assert explain(root, rules, "sub").startswith("a folder: 0 files")


def test_bytes_are_read_up_to_the_limit(tmp_path: Path) -> None:
    write(tmp_path, "a/b.py", text="abc")
    assert read_bytes(tmp_path, "a/b.py", 3) == b"abc"
    assert read_bytes(tmp_path, "a/b.py", 2) == UnreadableFile("too large")
    assert read_bytes(tmp_path, "a/none.py", 3) == UnreadableFile("vanished")
    assert read_bytes(tmp_path, "none/b.py", 3) == UnreadableFile("vanished")
    assert read_bytes(tmp_path, "a", 3) == UnreadableFile("not a regular file")
    for path in ("../x", "/etc/passwd", "a/../a/b.py", "a//b.py", "", "a\0b"):
        assert read_bytes(tmp_path / "a", path, 3) == UnreadableFile("outside the root")


@pytest.mark.skipif(os.name == "nt", reason="makes links and pipes")
@pytest.mark.timeout(10)
def test_bytes_are_never_read_through_a_link_a_pipe_or_a_device(tmp_path: Path) -> None:
    write(tmp_path, "outside/s.py", "root/a.py")
    root = tmp_path / "root"
    (root / "folder").symlink_to(tmp_path / "outside")
    (root / "link.py").symlink_to(tmp_path / "outside" / "s.py")
    os.mkfifo(root / "pipe")
    (root / "null").symlink_to("/dev/zero")
    assert read_bytes(root, "link.py", 100) == UnreadableFile("symlink")
    assert isinstance(read_bytes(root, "folder/s.py", 100), UnreadableFile)
    assert read_bytes(root, "pipe", 100) == UnreadableFile("not a regular file")
    assert read_bytes(root, "null", 100) == UnreadableFile("symlink")
    assert read_bytes(Path("/dev"), "zero", 100) == UnreadableFile("not a regular file")


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="permissions don't bind root")
def test_a_file_without_permission_is_unreadable(tmp_path: Path) -> None:
    write(tmp_path, "a.py")
    (tmp_path / "a.py").chmod(0)
    assert read_bytes(tmp_path, "a.py", 100) == UnreadableFile("unreadable")


def test_git_lists_recently_changed_files_newest_first(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    for name in ("in/a.py", "in/b c.py", "out.py", "in/ä.py", "in/a.py"):
        write(tmp_path, name, text=f"# {name} {time.time_ns()}\n")
        git(tmp_path, "add", "-A")
        git(tmp_path, "commit", "-qm", name)
    assert git_module.recent_files(tmp_path) == ["in/a.py", "in/ä.py", "out.py", "in/b c.py"]
    assert git_module.recent_files(tmp_path / "in") == ["a.py", "ä.py", "b c.py"]
    assert len(git_module.head(tmp_path)) == 40


def test_very_long_git_history_is_read_to_a_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(tmp_path, "init", "-q")
    for name in ("older.py", "newer.py"):
        write(tmp_path, name, text=f"# {name}\n")
        git(tmp_path, "add", "-A")
        git(tmp_path, "commit", "-qm", name)
    monkeypatch.setattr(git_module, "RECENT_BYTES", len("newer.py\0old"))
    assert git_module.recent_files(tmp_path) == ["newer.py"]


def test_repository_without_a_commit_has_no_recent_changes(tmp_path: Path) -> None:
    assert (git_module.head(tmp_path), git_module.recent_files(tmp_path)) == ("", [])
    git(tmp_path, "init", "-q")
    assert (git_module.head(tmp_path), git_module.recent_files(tmp_path)) == ("", [])


@pytest.mark.skipif(os.name == "nt" or sys.platform == "darwin", reason="names are Unicode there")
def test_file_name_in_the_history_that_is_not_utf8_is_left_out(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    for name in (b"a.py", b"caf\xe9.py"):
        (tmp_path / os.fsdecode(name)).write_text("x = 1\n", encoding="utf-8")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-qm", "all")
    assert git_module.recent_files(tmp_path) == ["a.py"]


def test_document_folder_is_read_though_the_repository_around_ignores_it(root: Path) -> None:
    git(root, "init", "-q")
    (root / ".gitignore").write_text("*.pdf\n/notes/deep/\n", encoding="utf-8")
    write(
        root, "notes/a.md", "notes/b.pdf", "notes/deep/c.md", "notes/drafts/d.md", "notes/tmp/e.md"
    )
    (root / "notes" / ".gitignore").write_text("tmp/\n", encoding="utf-8")
    (root / "notes" / ".cortexignore").write_text("drafts/\n", encoding="utf-8")
    notes, rules = root / "notes", Rules(documents=True)
    expected = [".cortexignore", ".gitignore", "a.md", "b.pdf", "deep/c.md"]
    assert found(scan(notes, rules)) == expected
    assert (
        found(scan_paths(notes, rules, ["a.md", "b.pdf", "deep", "drafts/d.md", "tmp/e.md"]))
        == expected[2:]
    )
    (root / ".gitignore").write_text("notes/\n*.pdf\n", encoding="utf-8")
    assert found(scan(notes, rules)) == expected
    # What is added is the repository: its own rules count
    assert found(scan(root, rules)) == [".gitignore"]


def test_gzipped_document_is_judged_by_its_inner_name(tmp_path):
    names = (
        "changelog.gz",
        "notes.txt.gz",
        "paper.pdf.gz",
        "source.tar.gz",
        "disk.img.gz",
        "id_rsa.gz",
        "app.min.js.gz",
    )
    for name in names:
        (tmp_path / name).write_bytes(b"\x1f\x8b")
    documents = scan(tmp_path, Rules(documents=True))
    assert {file.path for file in documents.files} == {
        "changelog.gz",
        "notes.txt.gz",
        "paper.pdf.gz",
    }
    assert {skip.path: skip.reason for skip in documents.skipped}["id_rsa.gz"] == "secret"
    assert scan(tmp_path, Rules()).files == ()
