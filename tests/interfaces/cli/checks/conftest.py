"""Doctor of an indexed project on a machine with its own home."""

import json

import pytest

from cortex.interfaces.cli import run
from cortex.interfaces.daemon import control
from protocol.code_server import make_repository


@pytest.fixture
def root(isolated, tmp_path, monkeypatch):
    """An indexed project on a machine without any other use of Cortex."""
    monkeypatch.delenv("CORTEX_NO_SIDECAR")
    folder = make_repository(tmp_path / "shop", {"a.py": "x = 1\n", "b.py": "y = 2\n"})
    assert run(["index", str(folder), "--json"]) == 0
    yield folder
    control.stop_all(str(isolated.cortex))


@pytest.fixture
def doctor(capsys, root):
    """`doctor(*arguments)`: exit code, findings that aren't ok by check, and the whole answer."""

    def call(*arguments, path=root):
        capsys.readouterr()
        code = run(["doctor", str(path), "--json", *arguments])
        body = json.loads(capsys.readouterr().out)
        return (
            code,
            {
                finding["check"]: finding
                for finding in body["findings"]
                if finding["level"] != "ok" or finding["done"]
            },
            body,
        )

    return call


@pytest.fixture
def start(capsys, root, isolated, monkeypatch):
    """`start()`: start cortexd; gives its process id."""

    def call():
        capsys.readouterr()
        with monkeypatch.context() as patch:
            patch.chdir(isolated.user)
            assert run(["start", "--json"]) == 0
        return json.loads(capsys.readouterr().out)["pid"]

    return call
