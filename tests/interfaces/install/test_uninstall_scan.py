"""Everything of ours on a machine, and nothing else, goes."""

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
    return sorted(str(one.relative_to(folder)) for one in folder.rglob("*") if not one.is_dir())


def remove(place, projects=(), others=()):
    stopped = []
    found = find_traces(place.machine, place.home, projects, others)
    failed = remove_traces(found, place.home, lambda: stopped.append(True))
    assert stopped == [True]
    assert failed == []
    return found


def test_a_full_machine_is_empty_afterwards(place):
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
    assert {one.kind for one in found.places} == {"home", "store"}
    assert not place.home.exists()
    assert files_in(place.machine.home) == []
    assert [file for file in files_in(place.root) if not file.startswith(".git/")] == []
    assert not (place.root / ".cortex").exists()


@pytest.mark.parametrize("name", ["config.yml", TOKEN_FILE, "cortexd-1.json"])
def test_what_a_killed_process_left_of_a_write_goes_too(place, name):
    fill(place.home, "cortex.db")
    with atomic_write(place.home / name) as temporary:
        left = temporary.name
    fill(place.home, left)
    remove(place)
    assert not place.home.exists()


def test_what_a_core_has_here_is_a_teams_and_stays(place):
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


def test_a_folder_of_that_name_without_records_is_somebody_elses(place):
    fill(place.home, "cortex.db", f"{FOLDER}/main.c")
    assert remove(place).kept == ()
    assert files_in(place.home) == [f"{FOLDER}/main.c"]


def test_files_of_others_stay(place):
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
def test_links_are_not_followed(place, tmp_path):
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


def test_a_home_that_is_the_persons_own_keeps_all_but_the_store(tmp_path):
    fill(tmp_path, "cortex.db", "config.yml", "words/essay", f"projects/{'0' * 32}/x", "lease")
    found = find_traces(Machine(tmp_path, System.LINUX), tmp_path)
    assert [place.path.name for place in found.places] == ["cortex.db"]
    assert found.folders == ()


def test_other_places_go_too(place, tmp_path):
    fill(tmp_path, "run/cortexd.sock")
    socket = tmp_path / "run" / "cortexd.sock"
    found = remove(place, others=[socket, tmp_path / "never"])
    assert [one.kind for one in found.places] == ["other"]
    assert not socket.exists()


def test_lines_of_a_list_that_changed_since_are_cut_out(place):
    subprocess.run(["git", "init", "--quiet", str(place.root)], check=True, timeout=30)
    write_project_files(place.root, mcp=False, gitignore=True, home=place.home)
    file = place.root / ".gitignore"
    file.write_text("*.o\n" + file.read_text("utf-8") + "*.a\n", encoding="utf-8")
    remove(place)
    assert file.read_text("utf-8") == "*.o\n*.a\n"


def test_on_a_clean_machine_there_is_nothing(place):
    found = find_traces(place.machine, place.home)
    assert (found.edits, found.places) == ((), ())


def make_list(place, text):
    subprocess.run(["git", "init", "--quiet", str(place.root)], check=True, timeout=30)
    file = place.root / ".gitignore"
    file.write_text(text, encoding="utf-8")
    write_project_files(place.root, mcp=False, gitignore=True, home=place.home)
    return file


def test_a_list_whose_copy_is_lost_keeps_the_lines_of_others(place):
    file = make_list(place, "*.o\n")
    for copy in place.home.rglob("*.backup"):
        copy.unlink()
    remove(place)
    assert file.read_text("utf-8") == "*.o\n"


def test_lines_that_came_to_a_list_after_it_was_planned_stay(place):
    file = make_list(place, "*.o\n")
    found = find_traces(place.machine, place.home)
    file.write_text(file.read_text("utf-8") + "*.a\n", encoding="utf-8")
    assert remove_traces(found, place.home, lambda: None) == []
    assert file.read_text("utf-8") == "*.o\n*.a\n"


def test_a_list_that_cant_be_read_doesnt_keep_us_in_everything_else(place):
    file = make_list(place, "*.o\n")
    for edit in plan_install([find_client("cursor")], place.machine, None, WISH):
        install(edit, place.home)
    file.unlink()
    file.mkdir()
    found = find_traces(place.machine, place.home)
    (told,) = remove_traces(found, place.home, lambda: None)
    assert str(file) in told
    assert files_in(place.machine.home) == []
    assert not place.home.exists()


def test_a_file_that_broke_after_it_was_found_doesnt_keep_us_in_everything_else(place):
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
    (told,) = remove_traces(found, place.home, lambda: None)
    assert str(broken) in told
    assert files_in(place.machine.home) == [os.path.join(".cursor", "mcp.json")]
