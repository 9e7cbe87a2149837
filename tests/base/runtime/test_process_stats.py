"""Memory of a process."""

import mmap
import sys

import pytest

from cortex.base.runtime import process_stats


def test_memory_bytes_follow_allocation_and_release():
    before = process_stats.memory_bytes()
    hoard = bytearray(b"x" * (200 << 20))
    full = process_stats.memory_bytes()
    del hoard
    assert before > 0
    assert full - before > 150 << 20
    assert full - process_stats.memory_bytes() > 150 << 20


@pytest.mark.skipif(sys.platform != "linux", reason="macOS counts mapped pages as its own")
def test_mapped_file_counts_as_resident_and_not_as_own_memory(tmp_path):
    (tmp_path / "index").write_bytes(b"x" * (100 << 20))
    own, resident = process_stats.memory_bytes(), process_stats.resident_bytes()
    with (
        open(tmp_path / "index", "rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped,
    ):
        assert mapped.find(b"y") == -1  # read to its end
        assert process_stats.resident_bytes() - resident > 90 << 20
        assert process_stats.memory_bytes() - own < 10 << 20
