"""Lines out of the bytes of a client and of a server, however they are split."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hypothesis import given
from hypothesis import strategies as st

from cortex.interfaces.daemon.channels import MAX_LINE_BYTES, client_lines, server_lines

LINES = st.lists(st.binary(max_size=8).map(lambda line: line.replace(b"\n", b"")))


def reader(chunks: Sequence[bytes]) -> Callable[[], bytes]:
    rest = iter([*chunks, b""])
    return lambda: next(rest)


def split(raw: bytes, size: int) -> list[bytes]:
    return [raw[start : start + size] for start in range(0, len(raw), size)]


@given(lines=LINES, rest=st.binary(max_size=8), size=st.integers(1, 9))
def test_lines_are_the_same_however_the_bytes_are_split(lines: list[bytes], rest: bytes, size: int):
    rest = rest.replace(b"\n", b"")
    chunks = split(b"".join(line + b"\n" for line in lines) + rest, size)
    unfinished = [(rest, True)] if rest else []
    assert list(client_lines(reader(chunks))) == [(line, True) for line in lines] + unfinished
    assert list(server_lines(reader(chunks))) == lines


def test_line_of_a_client_above_the_limit_comes_in_parts_and_the_next_one_whole():
    long = b"x" * (MAX_LINE_BYTES + 1)
    found = list(client_lines(reader([long, b"yz\nnext\n"])))
    assert found == [(long, False), (b"yz\n", False), (b"next", True)]


def test_connection_error_ends_the_lines():
    def fail() -> bytes:
        raise ConnectionResetError

    assert list(client_lines(fail)) == list(server_lines(fail)) == []
