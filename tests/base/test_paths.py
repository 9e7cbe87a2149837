"""Roots, store folders, and paths that never leave a root."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cortex.base import paths
from cortex.base.errors import FileError


def git(folder: Path, *arguments: str) -> None:
    subprocess.run(
        [
            "git",
            "-c",
            "user.name=t",
            "-c",
            "user.email=t@example.com",
            "-C",
            str(folder),
            *arguments,
        ],
        check=True,
        capture_output=True,
    )


def repository(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    git(folder, "init", "-q")
    (folder / "a.py").write_text("a = 1\n", encoding="utf-8")
    git(folder, "add", "a.py")
    git(folder, "commit", "-qm", "first")
    return folder


def test_enclosing_repository_wins_over_an_inner_package(tmp_path: Path) -> None:
    root = tmp_path / "mono"
    inner = root / "packages" / "web" / "src"
    inner.mkdir(parents=True)
    (root / ".git").mkdir()
    (inner.parent / "package.json").touch()
    assert paths.find_project_root(inner, tmp_path) == root.resolve()


def test_without_a_repository_the_nearest_marker_wins(tmp_path: Path) -> None:
    inner = tmp_path / "outer" / "inner" / "src"
    inner.mkdir(parents=True)
    (tmp_path / "outer" / "pyproject.toml").touch()
    (tmp_path / "outer" / "inner" / "app.sln").touch()
    assert paths.find_project_root(inner, tmp_path) == (tmp_path / "outer" / "inner").resolve()


def test_home_folder_is_never_guessed_as_project(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "notes").mkdir()
    assert paths.find_project_root(tmp_path, tmp_path) is None
    assert paths.find_project_root(tmp_path / "notes", tmp_path) is None
    assert paths.find_project_root(Path("/"), tmp_path) is None


def test_project_store_is_inside_and_a_plain_folders_store_in_the_home(tmp_path: Path) -> None:
    home = tmp_path / "home"
    project, plain = tmp_path / "project", tmp_path / "plain"
    project.mkdir()
    plain.mkdir()
    (project / "go.mod").touch()
    assert paths.store_dir(project, home) == project.resolve() / ".cortex"
    assert paths.store_dir(plain, home).parent == home / "projects"
    assert paths.store_dir(plain, home) == paths.store_dir(plain / ".." / "plain", home)


def test_read_only_store_is_used_if_no_other_can_be_made(tmp_path, monkeypatch) -> None:
    project, home = tmp_path / "project", tmp_path / "home"
    (project / ".cortex").mkdir(parents=True)
    (project / "go.mod").touch()
    (project / ".cortex" / "cortex.db").write_bytes(b"something")
    frozen = {project / ".cortex"}
    monkeypatch.setattr(paths.os, "access", lambda path, mode: Path(path) not in frozen)
    assert home in paths.store_dir(project, home).parents
    frozen.add(tmp_path)
    assert paths.store_dir(project, home) == project.resolve() / ".cortex"
    (project / ".cortex" / "cortex.db").write_bytes(b"")
    assert home in paths.store_dir(project, home).parents


def test_store_folder_that_is_a_link_or_file_is_not_used(tmp_path: Path) -> None:
    home = tmp_path / "home"
    for name in ("linked", "filed"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "go.mod").touch()
    (tmp_path / "linked" / ".cortex").symlink_to(tmp_path)
    (tmp_path / "filed" / ".cortex").touch()
    assert home in paths.store_dir(tmp_path / "linked", home).parents
    assert home in paths.store_dir(tmp_path / "filed", home).parents


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="permissions don't bind root")
def test_read_only_project_has_its_store_in_the_home(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "go.mod").touch()
    project.chmod(0o500)
    assert tmp_path / "home" in paths.store_dir(project, tmp_path / "home").parents


def test_linked_worktree_shares_the_store_of_its_main_worktree(tmp_path: Path) -> None:
    main = repository(tmp_path / "main")
    git(main, "worktree", "add", "-q", str(tmp_path / "linked"))
    assert paths.main_worktree(tmp_path / "linked") == main.resolve()
    assert paths.store_dir(tmp_path / "linked", tmp_path / "home") == main.resolve() / ".cortex"
    assert paths.main_worktree(main) is None


def test_forged_worktree_pointer_is_ignored(tmp_path: Path) -> None:
    main = repository(tmp_path / "main")
    git(main, "worktree", "add", "-q", str(tmp_path / "linked"))
    stranger = tmp_path / "stranger"
    stranger.mkdir()
    (stranger / ".git").write_bytes((tmp_path / "linked" / ".git").read_bytes())
    assert paths.store_dir(stranger, tmp_path / "home") == stranger.resolve() / ".cortex"


def test_store_folder_keeps_its_own_files_out_of_git(tmp_path: Path) -> None:
    root = repository(tmp_path / "r")
    folder = paths.store_dir(root, tmp_path / "home")
    paths.ensure_store_dir(folder)
    paths.ensure_store_dir(folder)
    for name in ("cortex.db", "cortex.db-wal", "lease", "server.log"):
        (folder / name).touch()
    (folder / "config.yml").touch()
    seen = subprocess.run(
        ["git", "-C", str(root), "status", "--porcelain", "-uall"], capture_output=True, check=True
    )
    assert seen.stdout.decode() == "?? .cortex/config.yml\n"
    if os.name != "nt":
        assert folder.stat().st_mode & 0o777 == 0o700


def test_home_inside_a_project_is_never_its_store(tmp_path: Path) -> None:
    root = repository(tmp_path / "r").resolve()
    own = root / ".cortex"
    other = paths.store_dir(root, own)
    assert other.parent == own / "projects"
    own.mkdir()
    (tmp_path / "link").symlink_to(own)
    assert paths.store_dir(root, tmp_path / "link").name == other.name
    # The home of another profile, which has snapshots.
    (own / "backups").mkdir()
    assert paths.store_dir(root, tmp_path / "home").parent == tmp_path / "home" / "projects"


@pytest.mark.skipif(os.name == "nt", reason="folders have no such modes there")
def test_new_folders_are_private_and_existing_ones_keep_their_mode(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir(mode=0o755)
    home = tmp_path / "there" / "home"
    paths.ensure_store_dir(paths.store_dir(tmp_path, home))
    assert [path.stat().st_mode & 0o777 for path in (home, home / "projects")] == [0o700, 0o700]
    assert (tmp_path / "there").stat().st_mode & 0o777 == 0o755
    paths.ensure_store_dir(tmp_path / "there")
    assert (tmp_path / "there").stat().st_mode & 0o777 == 0o755


def test_foreign_ignore_file_in_the_store_folder_stays(tmp_path: Path) -> None:
    root = repository(tmp_path / "r")
    (root / ".cortex").mkdir()
    (root / ".cortex" / ".gitignore").write_text("*\n", encoding="utf-8")
    paths.ensure_store_dir(root / ".cortex")
    assert (root / ".cortex" / ".gitignore").read_text(encoding="utf-8") == "*\n"


@pytest.mark.skipif(os.name == "nt", reason="makes pipes")
@pytest.mark.timeout(10)
def test_named_pipe_instead_of_a_file_is_never_opened(tmp_path: Path) -> None:
    root = repository(tmp_path / "r")
    (root / ".cortex").mkdir()
    os.mkfifo(root / ".cortex" / ".gitignore")
    paths.ensure_store_dir(root / ".cortex")
    linked = tmp_path / "linked"
    linked.mkdir()
    (linked / ".git").write_text(f"gitdir: {tmp_path / 'elsewhere'}\n", encoding="utf-8")
    (tmp_path / "elsewhere").mkdir()
    os.mkfifo(tmp_path / "elsewhere" / "commondir")
    (tmp_path / "elsewhere" / "gitdir").symlink_to("/dev/zero")
    assert paths.main_worktree(linked) is None


def test_store_folder_that_cannot_be_made_is_a_file_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(FileError) as caught:
        paths.ensure_store_dir(tmp_path / "file" / "store")
    assert caught.value.code == "PERMISSION_DENIED"


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root with links of every kind, beside something that must not be reached."""
    top = tmp_path_factory.mktemp("tree")
    root = top / "root"
    (root / "a" / "b").mkdir(parents=True)
    (root / "a" / "file.py").touch()
    (top / "outside").mkdir()
    (top / "outside" / "secret").touch()
    (top / "root2").mkdir()  # shares the root's name as a prefix
    (root / "out").symlink_to(top / "outside")
    (root / "up").symlink_to("..")
    (root / "loop").symlink_to("loop")
    (root / "in").symlink_to("a")
    return root


@pytest.mark.parametrize(
    "path",
    ["..", "../root2", "a/../../outside", "/etc/passwd", "out/secret", "up/outside", "up", "a\0b", "x" * 5000, "C:\\Windows", "C:/x",
     "\\\\server\\share", "//server/share", "..\\outside", "a\\..\\..\\x", "\\etc", "\ud800"],
)  # fmt: skip
def test_paths_that_leave_the_root_are_refused(tree: Path, path: str) -> None:
    with pytest.raises(FileError) as caught:
        paths.resolve_inside(tree, path)
    assert caught.value.code == "PATH_OUTSIDE"
    caught.value.message.encode("utf-8")


def test_sibling_with_the_roots_name_as_prefix_is_outside(tree: Path) -> None:
    with pytest.raises(FileError):
        paths.resolve_inside(tree, str(tree) + "2")


def test_paths_inside_are_resolved_through_links(tree: Path) -> None:
    expected = tree.resolve() / "a" / "file.py"
    for path in ("a/file.py", "./a//file.py", "in/file.py", str(tree / "a" / "file.py")):
        assert paths.resolve_inside(tree, path) == expected
    assert paths.relative_of(tree, expected) == "a/file.py"
    assert paths.relative_of(tree, tree) == ""


_parts = st.sampled_from(
    [
        "..",
        ".",
        "",
        "a",
        "b",
        "out",
        "up",
        "in",
        "loop",
        "~",
        "secret",
        "root2",
        "C:",
        "\\",
        "é",
        "‥",
        "．．",
        "\x00",
        " ",
    ]
) | st.text(max_size=4)


@settings(
    max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    parts=st.lists(_parts, max_size=6),
    separator=st.sampled_from(["/", "\\", "//"]),
    absolute=st.booleans(),
)
def test_no_path_resolves_outside_the_root(
    tree: Path, parts: list[str], separator: str, absolute: bool
) -> None:
    path = separator.join(parts)
    real = os.path.realpath(tree)
    try:
        resolved = paths.resolve_inside(tree, f"{tree}/{path}" if absolute else path)
    except FileError:
        return
    assert str(resolved) == real or str(resolved).startswith(real + os.sep)
    assert os.path.realpath(resolved) == str(resolved) or "loop" in parts
    assert ".." not in paths.relative_of(tree, resolved).split("/")


def test_remembered_project_is_listed_in_the_home_once(tmp_path: Path) -> None:
    from cortex.base.paths import known_projects, remember_project

    home, root = tmp_path / "home", tmp_path / "project"
    assert known_projects(home) == []
    for _ in range(2):
        remember_project(home, root)
    assert known_projects(home) == [root]
    assert (home / "projects.txt").read_text(encoding="utf-8").count("\n") == 1
