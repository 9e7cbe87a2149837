"""Check of a folder of chunk files at the start of an index."""

import shutil

import pytest

from cortex.base.errors import ConfigError, FileError
from families.chunkfiles.chunk_files import ask, ids, make_chunk, write_chunks


def test_start_without_folder_chunk_or_configured_dimensions_is_refused(folder, opened):
    shutil.rmtree(folder)
    with pytest.raises(FileError, match="there is no folder of chunk files") as caught:
        opened()
    assert [
        advice for advice in caught.value.suggestions if "cortex chunks export" not in advice
    ] == []
    folder.mkdir()
    with pytest.raises(FileError, match="no chunk in the files") as caught:
        opened()
    assert [
        advice for advice in caught.value.suggestions if "cortex chunks export" not in advice
    ] == []
    (folder / "a.json").write_text('{"chunks": [{"id": "x"}]}', encoding="utf-8")
    with pytest.raises(FileError, match=r"chunk 1 \(x\) has no text"):
        opened()
    write_chunks(folder / "b.json", make_chunk("b", "apple"))
    with pytest.raises(ConfigError, match=r"embedding\.dimensions is 384 .* b\.json have 16"):
        opened(CORTEX_EMBEDDING_DIMENSIONS="384")
    assert ids(ask(opened(CORTEX_EMBEDDING_DIMENSIONS="16"), "apple")) == ["b"]


def test_missing_folder_error_names_the_rejected_project_setting(folder, opened, tmp_path):
    root = folder.parent.parent
    shutil.rmtree(folder)
    (root / ".cortex" / "config.yml").write_text(
        f"server:\n  chunks_dir: {tmp_path.parent}\n", encoding="utf-8"
    )
    with pytest.raises(FileError, match="there is no folder of chunk files") as caught:
        opened(root=root)
    assert (
        "server.chunksDir" in caught.value.suggestions[0]
        and "outside the project" in caught.value.suggestions[0]
    )
