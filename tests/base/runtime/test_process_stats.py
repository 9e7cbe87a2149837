"""What a process costs."""

import mmap
import sys

import pytest

from cortex.base.runtime import process_stats


def test_the_memory_in_use_goes_up_and_down_again():
    before = process_stats.memory_bytes()
    hoard = bytearray(b"x" * (200 << 20))
    full = process_stats.memory_bytes()
    del hoard
    assert before > 0
    assert full - before > 150 << 20
    assert full - process_stats.memory_bytes() > 150 << 20


@pytest.mark.skipif(sys.platform != "linux", reason="macOS counts mapped pages as its own")
def test_files_that_are_mapped_are_in_memory_and_not_its_own(tmp_path):
    (tmp_path / "index").write_bytes(b"x" * (100 << 20))
    own, all_of_it = process_stats.memory_bytes(), process_stats.resident_bytes()
    with (
        open(tmp_path / "index", "rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped,
    ):
        assert mapped.find(b"y") == -1  # read to its end
        assert process_stats.resident_bytes() - all_of_it > 90 << 20
        assert process_stats.memory_bytes() - own < 10 << 20
