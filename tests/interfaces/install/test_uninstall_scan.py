"""Removal of everything of ours on a machine, and of nothing else."""

from __future__ import annotations

import os
import subprocess

import pytest

from cortex.base.runtime.atomic_file import atomic_write
from cortex.families.chunkfiles.generations import home_of
from cortex.families.team.sync import overwritten, rejections
from cortex.families.team.sync.connection import TOKEN_FILE
from cortex.families.team.sync.cycle import LOCK
from cortex.interfaces.install.clients import CLIENTS, Machine, System, find_client
from cortex.interfaces.install.config_entries import ServerEntry
from cortex.interfaces.install.plans import InstallOptions, install, plan_install
from cortex.interfaces.install.project_files import write_project_files
from cortex.interfaces.install.uninstall_scan import find_traces, remove_traces
from cortex.interfaces.team_server.commands.options import FOLDER, REPLICA

WISH = InstallOptions(ServerEntry("cortex", ("mcp",)), hooks=True)
posix = pytest.mark.skipif(os.name == "nt", reason="links of POSIX")


def fill(folder, *names):
    for name in names:
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("x", encoding="utf-8")


def files_in(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir())


def remove(place, projects=(), others=()):
    stopped = []
    found = find_traces(place.machine, place.home, projects, others)
    failed = remove_traces(found, place.home, lambda: stopped.append(True))
    assert stopped == [True]
    assert failed == []
    return found


def test_removal_leaves_nothing_of_ours_on_a_full_machine(place):
    subprocess.run(["git", "init", "--quiet", str(place.root)], check=True, timeout=30)
    for edit in plan_install(CLIENTS, place.machine, None, WISH):
        install(edit, place.home)
    for edit in plan_install([find_client("vscode")], place.machine, place.root, WISH):
        install(edit, place.home)
    write_project_files(place.root, mcp=True, gitignore=True, home=place.home)
    fill(
        place.home,
        "config.yml",
        "cortex.db",
        "cortex.db-wal",
        "words/a",
        "vectors-2/b",
        "lease",
        "cortexd.log.1",
    )
    fill(place.home, "inbox/1.json", "inbox/refused/2.json")
    fill(
        place.home, TOKEN_FILE, LOCK, f"{rejections.FOLDER}/1.json", f"{overwritten.FOLDER}/1.jsonl"
    )
    fill(place.home, "backups/20261118T134021Z-daily.db.gz", "cortex.db.replaced-1")
    fill(home_of(place.root, place.home) / "1", "cortex.db")
    fill(
        place.home,
        f"projects/{'0a' * 16}/cortex.db",
        "profiles/work/cortex.db",
        "profiles/work/config.yml",
    )
    fill(place.root, ".cortex/cortex.db", ".cortex/words/x", ".cortex/lease")
    (place.root / ".cortex" / ".gitignore").write_text(
        "# Written by Cortex: its own files\n", encoding="utf-8"
    )
    found = remove(place)
    assert {trace.kind for trace in found.places} == {"home", "store"}
    assert not place.home.exists()
    assert files_in(place.machine.home) == []
    assert [file for file in files_in(place.root) if not file.startswith(".git/")] == []
    assert not (place.root / ".cortex").exists()


@pytest.mark.parametrize("name", ["config.yml", TOKEN_FILE, "cortexd-1.json"])
def test_leftover_file_of_a_killed_write_is_removed(place, name):
    fill(place.home, "cortex.db")
    with atomic_write(place.home / name) as temporary:
        left = temporary.name
    fill(place.home, left)
    remove(place)
    assert not place.home.exists()


def test_data_of_a_core_is_kept(place):
    fill(
        place.home,
        "cortex.db",
        f"{FOLDER}/cortex.db",
        f"profiles/blue/{REPLICA}/cortex.db",
        "profiles/blue/cortex.db",
    )
    found = remove(place)
    assert found.kept == (place.home / FOLDER, place.home / "profiles" / "blue" / REPLICA)
    assert files_in(place.home) == [f"{FOLDER}/cortex.db", f"profiles/blue/{REPLICA}/cortex.db"]


def test_folder_named_core_without_records_is_foreign(place):
    fill(place.home, "cortex.db", f"{FOLDER}/main.c")
    assert remove(place).kept == ()
    assert files_in(place.home) == [f"{FOLDER}/main.c"]


def test_foreign_files_are_kept(place):
    fill(place.home, "cortex.db", "notes.txt", "projects/mine/x", "words.txt", "other/words/x")
    fill(
        place.root,
        ".cortex/cortex.db",
        ".cortex/config.yml",
        ".cortex/config.json",
        ".cortex/plan.md",
        ".cortex/.gitignore",
    )
    remove(place, [place.root])
    assert files_in(place.home) == ["notes.txt", "other/words/x", "projects/mine/x", "words.txt"]
    assert files_in(place.root) == [
        ".cortex/.gitignore",
        ".cortex/config.json",
        ".cortex/config.yml",
        ".cortex/plan.md",
    ]


@posix
def test_removal_follows_no_links(place, tmp_path):
    outside = tmp_path / "outside"
    fill(outside, "cortex.db", "words/a")
    place.home.mkdir()
    (place.home / "words").symlink_to(outside / "words")
    (place.home / "projects").symlink_to(outside)
    (place.home / "lease").symlink_to(outside / "cortex.db")
    (place.root / ".cortex").symlink_to(outside)
    fill(place.home, "vectors/v")
    (place.home / "vectors" / "link").symlink_to(outside)
    remove(place, [place.root])
    assert files_in(outside) == ["cortex.db", "words/a"]
    assert not (place.home / "vectors").exists()
    assert (place.home / "lease").is_symlink()
    assert (place.home / "words").is_symlink() and (place.root / ".cortex").is_symlink()


def test_removal_from_a_personal_folder_takes_only_the_store(tmp_path):
    fill(tmp_path, "cortex.db", "config.yml", "words/essay", f"projects/{'0' * 32}/x", "lease")
    found = find_traces(Machine(tmp_path, System.LINUX), tmp_path)
    assert [place.path.name for place in found.places] == ["cortex.db"]
    assert found.folders == ()


def test_other_given_folders_are_removed(place, tmp_path):
    fill(tmp_path, "run/cortexd.sock")
    socket = tmp_path / "run" / "cortexd.sock"
    found = remove(place, others=[socket, tmp_path / "never"])
    assert [trace.kind for trace in found.places] == ["other"]
    assert not socket.exists()


def test_our_lines_are_cut_out_of_a_changed_gitignore(place):
    subprocess.run(["git", "init", "--quiet", str(place.root)], check=True, timeout=30)
    write_project_files(place.root, mcp=False, gitignore=True, home=place.home)
    file = place.root / ".gitignore"
    file.write_text("*.o\n" + file.read_text("utf-8") + "*.a\n", encoding="utf-8")
    remove(place)
    assert file.read_text("utf-8") == "*.o\n*.a\n"


def test_clean_machine_has_nothing_to_remove(place):
    found = find_traces(place.machine, place.home)
    assert (found.edits, found.places) == ((), ())


def make_list(place, text):
    subprocess.run(["git", "init", "--quiet", str(place.root)], check=True, timeout=30)
    file = place.root / ".gitignore"
    file.write_text(text, encoding="utf-8")
    write_project_files(place.root, mcp=False, gitignore=True, home=place.home)
    return file


def test_gitignore_without_its_backup_keeps_foreign_lines(place):
    file = make_list(place, "*.o\n")
    for copy in place.home.rglob("*.backup"):
        copy.unlink()
    remove(place)
    assert file.read_text("utf-8") == "*.o\n"


def test_lines_added_to_a_gitignore_after_the_plan_are_kept(place):
    file = make_list(place, "*.o\n")
    found = find_traces(place.machine, place.home)
    file.write_text(file.read_text("utf-8") + "*.a\n", encoding="utf-8")
    assert remove_traces(found, place.home, lambda: None) == []
    assert file.read_text("utf-8") == "*.o\n*.a\n"


def test_unreadable_gitignore_does_not_stop_the_removal(place):
    file = make_list(place, "*.o\n")
    for edit in plan_install([find_client("cursor")], place.machine, None, WISH):
        install(edit, place.home)
    file.unlink()
    file.mkdir()
    found = find_traces(place.machine, place.home)
    (failure,) = remove_traces(found, place.home, lambda: None)
    assert str(file) in failure
    assert files_in(place.machine.home) == []
    assert not place.home.exists()


def test_file_broken_after_the_scan_does_not_stop_the_removal(place):
    for edit in plan_install(
        [find_client("cursor"), find_client("gemini")],
        place.machine,
        None,
        InstallOptions(WISH.server),
    ):
        install(edit, place.home)
    found = find_traces(place.machine, place.home)
    broken = place.machine.home / ".cursor" / "mcp.json"
    broken.write_text('{"cortex": ]', encoding="utf-8")
    (failure,) = remove_traces(found, place.home, lambda: None)
    assert str(broken) in failure
    assert files_in(place.machine.home) == [os.path.join(".cursor", "mcp.json")]
