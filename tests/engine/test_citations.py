"""Citations: reports of changes to the cited code, and of nothing else."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cortex.base.errors import CortexError, InputError
from cortex.base.settings import load
from cortex.base.types import FileView
from cortex.engine.citations import View, check, cite
from cortex.engine.embedders.hash_embedder import HashingEmbedder
from cortex.engine.engine import Engine

CODE = '''"""Accounts."""


class Account:
    """Money."""

    def deposit(self, amount: int) -> None:
        if amount < 0:
            raise ValueError("negative")
        self.balance += amount

    def withdraw(self, amount: int) -> None:
        self.balance -= amount


def transfer(one, other, amount):
    one.withdraw(amount)
    other.deposit(amount)
'''


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    (root / "src").mkdir(parents=True)
    (root / "src/accounts.py").write_text(CODE, encoding="utf-8")
    (root / "README.md").write_text(
        "# Project\n\n## Install\nRun it.\n\n## Use\nUse it.\n", encoding="utf-8"
    )
    return root


@pytest.fixture
def view(root: Path, tmp_path: Path) -> Iterator[View]:
    settings = load(root, user_home=tmp_path, environment={"CORTEX_HOME": str(tmp_path / "home")})
    with Engine(root, settings, in_memory=True, embedder=HashingEmbedder()) as engine:
        yield engine.view


Git = Callable[..., str]


@pytest.fixture
def git(root: Path) -> Git:
    def run(*arguments: str) -> str:
        dates = {
            "GIT_AUTHOR_DATE": "2026-11-02T12:00:00Z",
            "GIT_COMMITTER_DATE": "2026-11-02T12:00:00Z",
        }
        done = subprocess.run(
            ["git", *arguments],
            cwd=root,
            check=True,
            capture_output=True,
            text=True,
            env=os.environ | dates,
        )
        return done.stdout.strip()

    run("init", "-q")
    run("add", ".")
    run("commit", "-q", "-m", "first")
    return run


def commit(git: Git) -> str:
    """Commit everything; gives the commit as answers name it."""
    git("add", "-A")
    git("commit", "-q", "-m", "change")
    return f"(commit {git('rev-parse', 'HEAD')[:7]}, 2026-11-02)"


def rewrite(root: Path, old: str, new: str, path: str = "src/accounts.py") -> None:
    text = (root / path).read_text(encoding="utf-8")
    assert old in text
    (root / path).write_text(text.replace(old, new), encoding="utf-8")


def refuse_to_read(path: str) -> FileView:
    raise AssertionError(f"{path} was parsed")


def test_unchanged_citation_reports_nothing_and_is_not_parsed(
    root: Path, view: View, git: Git
) -> None:
    whole, part = (
        cite(root, "src/accounts.py", view),
        cite(root, "src/accounts.py#Account.deposit", view),
    )
    assert (whole.path, whole.symbol, whole.body_hash) == ("src/accounts.py", "", b"")
    assert (part.path, part.symbol) == ("src/accounts.py", "Account.deposit")
    assert whole.commit == part.commit == git("rev-parse", "HEAD")
    assert check(whole, refuse_to_read) == check(part, refuse_to_read) == ""


@pytest.mark.parametrize(
    "target",
    [
        "src/accounts.py:Account.deposit",
        "src/accounts.py#deposit",
        "src/accounts.py#Account::deposit",
        "src/accounts.py#deposit()",
    ],
)
def test_cited_symbol_can_be_written_in_several_ways(root: Path, view: View, target: str) -> None:
    assert cite(root, target, view) == cite(root, "src/accounts.py#Account.deposit", view)


def test_absolute_path_inside_the_root_can_be_cited(root: Path, view: View) -> None:
    assert cite(root, f"{root}/src/accounts.py:transfer", view) == cite(
        root, "src/accounts.py#transfer", view
    )


def test_a_heading_of_a_document_can_be_cited(root: Path, view: View) -> None:
    install = cite(root, "README.md#Install", view)
    rewrite(root, "Use it.", "Use it well.", "README.md")
    assert check(install, view) == ""
    rewrite(root, "Run it.", "Run it twice.", "README.md")
    assert check(install, view) == f"the body of {install.symbol} in README.md changed"


def test_file_name_with_a_hash_can_be_cited(root: Path, view: View) -> None:
    (root / "a#b.py").write_text("def f():\n    return 1\n", encoding="utf-8")
    assert cite(root, "a#b.py", view).path == "a#b.py"
    named = cite(root, "a#b.py#f", view)
    assert (named.path, named.symbol) == ("a#b.py", "f")


def test_changed_citation_is_reported_with_its_commit(root: Path, view: View, git: Git) -> None:
    whole, part = (
        cite(root, "src/accounts.py", view),
        cite(root, "src/accounts.py#Account.deposit", view),
    )
    rewrite(root, "self.balance += amount", "self.balance += amount * 2")
    assert check(whole, view) == "src/accounts.py changed"  # not committed yet
    assert check(part, view) == "the body of Account.deposit in src/accounts.py changed"
    named = commit(git)
    assert check(whole, view) == f"src/accounts.py changed {named}"
    assert check(part, view) == f"the body of Account.deposit in src/accounts.py changed {named}"


def test_change_elsewhere_in_the_file_leaves_a_cited_symbol_unchanged(
    root: Path, view: View, git: Git
) -> None:
    part = cite(root, "src/accounts.py#Account.deposit", view)
    rewrite(root, "self.balance -= amount", "self.balance -= amount + self.fee")
    rewrite(root, '"""Accounts."""', '"""Accounts."""\n\nimport os')
    commit(git)
    assert check(part, view) == ""


def test_white_space_change_is_not_reported(root: Path, view: View) -> None:
    whole, part = (
        cite(root, "src/accounts.py", view),
        cite(root, "src/accounts.py#Account.deposit", view),
    )
    (root / "src/accounts.py").write_bytes(
        CODE.replace("\n", "\r\n").replace("    ", "\t").encode()
    )
    assert check(whole, view) == check(part, view) == ""
    rewrite(root, "def transfer", "x = 1\n\n\ndef transfer")
    assert check(part, view) == ""
    assert check(whole, view) == "src/accounts.py changed"


def test_missing_symbol_is_reported(root: Path, view: View, git: Git) -> None:
    part = cite(root, "src/accounts.py#Account.withdraw", view)
    rewrite(root, "def withdraw", "def take_out")
    named = commit(git)
    assert check(part, view) == f"Account.withdraw is gone from src/accounts.py {named}"


def test_missing_file_is_reported(root: Path, view: View, git: Git) -> None:
    part = cite(root, "src/accounts.py#transfer", view)
    (root / "src/accounts.py").unlink()
    assert check(part, view) == "src/accounts.py is gone"
    assert check(part, view) + " " + commit(git) == check(part, view)


def test_moved_file_is_reported(root: Path, view: View, git: Git) -> None:
    whole, part = cite(root, "src/accounts.py", view), cite(root, "src/accounts.py#transfer", view)
    (root / "other").mkdir()
    (root / "other/accounts.py").write_text("def other():\n    pass\n", encoding="utf-8")
    (root / "lib/money").mkdir(parents=True)
    (root / "src/accounts.py").rename(root / "lib/money/accounts.py")
    # Nothing is staged yet
    assert check(whole, view) == "src/accounts.py moved to lib/money/accounts.py"
    named = commit(git)
    assert check(part, view) == f"src/accounts.py moved to lib/money/accounts.py {named}"
    rewrite(root, "self.balance -= amount", "self.balance = 0", "lib/money/accounts.py")
    assert check(part, view) == f"src/accounts.py moved to lib/money/accounts.py {named}"
    assert check(whole, view) == f"src/accounts.py is gone {named}"


def test_moved_file_is_found_without_git(root: Path, view: View) -> None:
    whole = cite(root, "src/accounts.py", view)
    assert whole.commit == ""
    (root / "src").rename(root / "lib")
    assert check(whole, view) == "src/accounts.py moved to lib/accounts.py"
    (root / "lib/accounts.py").unlink()
    assert check(whole, view) == "src/accounts.py is gone"


def test_rewritten_history_still_gives_the_last_commit(root: Path, view: View, git: Git) -> None:
    whole = cite(root, "src/accounts.py", view)
    rewrite(root, "negative", "below zero")
    git("checkout", "-q", "--orphan", "new")
    named = commit(git)
    git("branch", "-D", "main")
    git("reflog", "expire", "--expire=now", "--all")
    git("gc", "-q", "--prune=now")
    assert check(whole, view) == f"src/accounts.py changed {named}"


def test_citation_in_a_missing_root_reports_nothing(root: Path, view: View) -> None:
    whole = cite(root, "src/accounts.py", view)
    for path in list(root.iterdir()):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert check(whole, view) == ""  # as where a drive isn't mounted
    root.rmdir()
    assert check(whole, refuse_to_read) == ""


def test_file_that_is_no_longer_readable_counts_as_changed(root: Path, view: View) -> None:
    part = cite(root, "src/accounts.py#transfer", view)
    (root / "src/accounts.py").write_bytes(b"\0\1\2" * 100)
    assert check(part, view) == "src/accounts.py changed"


@pytest.mark.skipif(os.name == "nt", reason="links need a privilege there")
def test_a_link_in_the_place_of_a_file_is_not_followed(
    root: Path, view: View, tmp_path: Path
) -> None:
    whole = cite(root, "src/accounts.py", view)
    (root / "src/accounts.py").rename(tmp_path / "outside.py")
    (root / "src/accounts.py").symlink_to(tmp_path / "outside.py")
    assert check(whole, refuse_to_read) == ""


@pytest.mark.parametrize(
    ("target", "code"),
    [
        ("../outside.py", "PATH_OUTSIDE"),
        ("../outside.py#f", "PATH_OUTSIDE"),
        ("/etc/passwd", "PATH_OUTSIDE"),
        ("src/missing.py", "FILE_NOT_FOUND"),
        ("src/missing.py#f", "FILE_NOT_FOUND"),
        ("src", "FILE_NOT_FOUND"),
        ("", "ARGUMENT_INVALID"),
        ("a" * 5000, "ARGUMENT_INVALID"),
        ("src/accounts.py#nothing", "ARGUMENT_INVALID"),
        ("src/accounts.py:12", "ARGUMENT_INVALID"),
    ],
)
def test_uncitable_place_is_refused(root: Path, view: View, target: str, code: str) -> None:
    with pytest.raises(CortexError) as caught:
        cite(root, target, view)
    assert caught.value.code == code


def test_an_unknown_symbol_is_answered_with_near_ones(root: Path, view: View) -> None:
    with pytest.raises(
        InputError,
        match=re.escape("there is no Account.depositt in src/accounts.py: Account.deposit"),
    ):
        cite(root, "src/accounts.py#Account.depositt", view)
    (root / "two.py").write_text(
        "class A:\n    def f(self): ...\n\n\nclass B:\n    def f(self): ...\n", encoding="utf-8"
    )
    with pytest.raises(InputError, match=re.escape("f is one of several in two.py: A.f, B.f")):
        cite(root, "two.py#f", view)


@pytest.mark.skipif(os.name == "nt", reason="no such names there")
def test_file_names_special_to_git_are_taken_literally(root: Path, view: View, git: Git) -> None:
    (root / "src/[a]*.py").write_text("x = 1\n", encoding="utf-8")
    commit(git)
    odd = cite(root, "src/[a]*.py", view)
    (root / "lib").mkdir()
    (root / "src/[a]*.py").rename(root / "lib/[a]*.py")
    named = commit(git)
    assert check(odd, view) == f"src/[a]*.py moved to lib/[a]*.py {named}"
