"""A folder of installed plugins."""

from __future__ import annotations

from pathlib import Path

import pytest

from plugins.plugin_site import ENTRIES


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which a package with plugins is installed."""
    folder = tmp_path_factory.mktemp("site")
    source = Path(__file__).with_name("strange_plugins.py")
    (folder / source.name).write_bytes(source.read_bytes())
    about = folder / "strange_plugins-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: strange-plugins\nVersion: 1.0\n", encoding="utf-8"
    )
    entries = "".join(f"{name} = {target}\n" for name, target in ENTRIES.items())
    (about / "entry_points.txt").write_text(f"[cortex.plugins]\n{entries}", encoding="utf-8")
    return folder


@pytest.fixture
def plugin_site(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder on the path of the processes of plugins."""
    monkeypatch.setenv("PYTHONPATH", str(installed))
