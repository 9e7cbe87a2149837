"""Install and uninstall for every client and any file that existed before."""

from __future__ import annotations

import json
import tempfile
import tomllib
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cortex.interfaces.install import jsonc_edit
from cortex.interfaces.install.clients import CLIENTS, Client, ConfigFormat, entry_file, hooks_file
from cortex.interfaces.install.config_entries import ServerEntry, is_ours, read_entry
from cortex.interfaces.install.plans import (
    InstallOptions,
    install,
    plan_install,
    plan_uninstall,
    uninstall,
)
from interfaces.install.documents import jsonc_documents, toml_documents
from interfaces.install.machines import make_place

SERVER = ServerEntry("/opt/my tools/cortex", ("mcp", "code"))
# Every example is files and their copies on a disk
FEWER = settings(max_examples=settings.default.max_examples // 5)
WITH_PROJECT = [client for client in CLIENTS if client.project]


@contextmanager
def machine():
    with tempfile.TemporaryDirectory() as folder:
        yield make_place(Path(folder))


def documents(client: Client):
    if client.format is ConfigFormat.TOML:
        return toml_documents()
    hooks = client.hooks.events if client.hooks else ()
    return jsonc_documents(client.key, hooks)


def parse(file: Path) -> object:
    text = file.read_bytes().decode()
    if file.suffix == ".toml":
        return tomllib.loads(text.removeprefix("\ufeff"))
    top = jsonc_edit.read(text)
    return {} if top is None else jsonc_edit.value_of(text, top)


def write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(text.encode())


def tree(folder: Path) -> dict[str, bytes | None]:
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
    }


def connect(place, client: Client, root: Path | None, *, hooks: bool) -> None:
    for edit in plan_install([client], place.machine, root, InstallOptions(SERVER, hooks=hooks)):
        install(edit, place.home)


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
@FEWER
@given(choice=st.data())
def test_uninstall_restores_the_file_byte_for_byte(client: Client, choice: st.DataObject):
    with machine() as place:
        files = {
            entry_file(client, place.machine, None),
            hooks_file(client, place.machine, None),
        } - {None}
        for file in sorted(files):
            if choice.draw(st.booleans()):
                text = (
                    choice.draw(documents(client))
                    if file.suffix == entry_file(client, place.machine, None).suffix
                    else "{}"
                )
                write(file, text)
        before = tree(place.machine.home)
        others = {file: parse(file) for file in files if file.exists()}
        connect(place, client, None, hooks=True)
        entry = read_entry(entry_file(client, place.machine, None).read_bytes().decode(), client)
        assert is_ours(entry)
        for file, content in others.items():
            assert without_ours(parse(file), client) == without_ours(content, client)
        once = tree(place.machine.home)
        connect(place, client, None, hooks=True)
        assert tree(place.machine.home) == once
        uninstall(plan_uninstall([client], place.machine, None, place.home, []), place.home)
        assert tree(place.machine.home) == before
        assert tree(place.home) == {}


def without_ours(content: object, client: Client) -> object:
    """A parsed file without our entry, our hooks, and what may be left around them."""
    assert isinstance(content, dict)
    content = json.loads(json.dumps(content, default=str))
    servers = content.get(client.key)
    if isinstance(servers, dict):
        servers.pop("cortex", None)
        if not servers:
            content.pop(client.key)
    hooks = content.get("hooks")
    for event in client.hooks.events if client.hooks else ():
        if isinstance(hooks, dict) and isinstance(hooks.get(event), list):
            hooks[event] = [hook for hook in hooks[event] if "cortex' hook" not in json.dumps(hook)]
            if not hooks[event]:
                hooks.pop(event)
    if hooks == {}:
        content.pop("hooks")
    if client.hooks and client.hooks.version:
        content.pop("version", None)
    return content


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
@FEWER
@given(choice=st.data())
def test_uninstall_after_foreign_changes_removes_only_our_entry(
    client: Client, choice: st.DataObject
):
    with machine() as place:
        file = entry_file(client, place.machine, None)
        write(file, choice.draw(documents(client)))
        original = parse(file)
        connect(place, client, None, hooks=True)
        text = file.read_bytes().decode()
        if client.format is ConfigFormat.TOML:
            text += "\n[added]\nlater = 1\n"
        else:
            text, _ = jsonc_edit.put(text, ("added",), {"later": 1})
        write(file, text)
        uninstall(plan_uninstall([client], place.machine, None, place.home, []), place.home)
        assert parse(file) == original | {"added": {"later": 1}}
        assert comments_of(text) == comments_of(file.read_bytes().decode())
        assert tree(place.home) == {}


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
@FEWER
@given(choice=st.data())
def test_uninstall_after_edits_elsewhere_keeps_every_foreign_byte(
    client: Client, choice: st.DataObject
):
    """The same edits, made to the file with our entry and hooks and to one that never had them, end
    alike.
    """
    with machine() as place:
        entries, hooks = (
            entry_file(client, place.machine, None),
            hooks_file(client, place.machine, None),
        )
        originals: dict[Path, str] = {}
        for file in sorted({entries, hooks or entries}):
            toml = file.suffix == ".toml"
            events = client.hooks.events if client.hooks and not toml else ()
            originals[file] = choice.draw(
                toml_documents() if toml else jsonc_documents(client.key, events)
            )
            if file == hooks and client.hooks and client.hooks.version:
                # A file of hooks needs one: what was added is left to the hooks that others put
                # there since.
                originals[file], _ = jsonc_edit.put(originals[file], ("version",), 1)
            write(file, originals[file])
        connect(place, client, None, hooks=True)
        edits = choice.draw(
            st.lists(st.sampled_from(["head", "tail", "inside", "member"]), min_size=1, unique=True)
        )
        for file in originals:
            write(file, edited(file.read_bytes().decode(), edits, file.suffix))
        uninstall(plan_uninstall([client], place.machine, None, place.home, []), place.home)
        for file, text in originals.items():
            assert squeezed(file.read_bytes().decode()) == squeezed(
                edited(text, edits, file.suffix)
            )
        assert tree(place.home) == {}


def edited(text: str, edits: list[str], suffix: str) -> str:
    """A file as a person or a client leaves it: a comment above and below, another value, one more
    member.
    """
    mark, text = ("\ufeff", text[1:]) if text.startswith("\ufeff") else ("", text)
    note = "# mine" if suffix == ".toml" else "// mine"
    if "inside" in edits:
        text = (
            text.replace("theirs", "changed")
            .replace('"x"', '"y"')
            .replace("a note", "another remark")
        )
    if "member" in edits:
        text = (
            f"{text}\n[added]\nlater = 1\n"
            if suffix == ".toml"
            else jsonc_edit.put(text, ("added",), {"later": 1})[0]
        )
    if "head" in edits:
        text = f"{note} above\n{text}"
    if "tail" in edits:
        text = f"{text}\n{note} below\n"
    return mark + text


def squeezed(text: str) -> str:
    """A text without blank space, which an entry that goes may leave behind."""
    return "".join(text.split())


def comments_of(text: str) -> int:
    return text.count("a note") + text.count("empty */") + text.count("// empty")


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
@FEWER
@given(choice=st.data())
def test_uninstall_without_an_undo_record_cuts_out_our_entry(client: Client, choice: st.DataObject):
    with machine() as place:
        file = entry_file(client, place.machine, None)
        write(file, choice.draw(documents(client)))
        original = parse(file)
        connect(place, client, None, hooks=False)
        uninstall(
            plan_uninstall([client], place.machine, None, place.home / "another", []),
            place.home / "another",
        )
        left = parse(file)
        assert left == original or left == original | {client.key: {}}


@pytest.mark.parametrize("client", WITH_PROJECT, ids=lambda client: client.name)
def test_project_files_are_removed_by_uninstall(client: Client, place):
    (place.root / ".git").mkdir()
    before = tree(place.root)
    connect(place, client, place.root, hooks=True)
    assert tree(place.root) != before
    uninstall(plan_uninstall([client], place.machine, place.root, place.home, []), place.home)
    assert tree(place.root) == before


def test_uninstalling_all_clients_leaves_no_folder_behind(place):
    for edit in plan_install(CLIENTS, place.machine, None, InstallOptions(SERVER, hooks=True)):
        install(edit, place.home)
    for client in CLIENTS:  # one after the other, although some share a folder or a file
        uninstall(plan_uninstall([client], place.machine, None, place.home, []), place.home)
    assert tree(place.machine.home) == {}
    assert tree(place.home) == {}


def test_file_shared_by_two_clients_stays_for_the_other(place):
    vscode, copilot = (
        next(client for client in CLIENTS if client.name == name) for name in ("vscode", "copilot")
    )
    for client in (vscode, copilot):
        connect(place, client, None, hooks=True)
    shared = hooks_file(vscode, place.machine, None)
    assert shared == hooks_file(copilot, place.machine, None)
    uninstall(plan_uninstall([vscode], place.machine, None, place.home, []), place.home)
    assert shared.exists()
    uninstall(plan_uninstall([copilot], place.machine, None, place.home, []), place.home)
    assert tree(place.machine.home) == {}


def test_hooks_added_later_are_uninstalled_with_the_entry(place):
    gemini = next(client for client in CLIENTS if client.name == "gemini")
    file = entry_file(gemini, place.machine, None)
    write(file, '{\n\t"theme": "dark" // mine\n}')
    before = tree(place.machine.home)
    connect(place, gemini, None, hooks=False)
    connect(place, gemini, None, hooks=True)
    assert "AfterAgent" in file.read_text("utf-8")
    uninstall(plan_uninstall([gemini], place.machine, None, place.home, []), place.home)
    assert tree(place.machine.home) == before


def test_change_between_two_installations_is_kept(place):
    cursor = next(client for client in CLIENTS if client.name == "cursor")
    file = entry_file(cursor, place.machine, None)
    write(file, "{}")
    connect(place, cursor, None, hooks=False)
    changed, _ = jsonc_edit.put(file.read_text("utf-8"), ("mcpServers", "theirs"), {"command": "t"})
    write(file, changed)
    other = InstallOptions(ServerEntry("/elsewhere/cortex", ("mcp",)))
    for edit in plan_install([cursor], place.machine, None, other):
        install(edit, place.home)
    uninstall(plan_uninstall([cursor], place.machine, None, place.home, []), place.home)
    assert parse(file) == {"mcpServers": {"theirs": {"command": "t"}}}
