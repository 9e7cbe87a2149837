"""What a process costs."""

import sys

import pytest

from cortex import process


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells")
def test_the_memory_in_use_goes_up_and_down_again():
    before = process.memory_bytes()
    hoard = bytearray(b"x" * (200 << 20))
    full = process.memory_bytes()
    del hoard
    assert before > 0
    assert full - before > 150 << 20
    assert full - process.memory_bytes() > 150 << 20


def test_where_the_memory_in_use_is_not_told_it_is_nothing_and_not_the_peak(monkeypatch, tmp_path):
    monkeypatch.setattr(process, "STATM", str(tmp_path / "missing"))
    assert process.memory_bytes() == 0
