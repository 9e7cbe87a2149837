"""Sizes, durations and lists as people write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as some

from cortex.base.settings.values import (
    format_duration,
    format_size,
    parse_duration,
    parse_list,
    parse_size,
)


@pytest.mark.parametrize(
    ("written", "size"),
    [
        ("1.5MB", 1_500_000),
        ("500MB", 500_000_000),
        ("1 GB", 10**9),
        ("1GiB", 2**30),
        ("512k", 512_000),
        ("7", 7),
        (7, 7),
        ("0B", 0),
        (1.5e3, 1500),
        ("2tb", 2 * 10**12),
    ],
)
def test_size_is_parsed(written: object, size: int) -> None:
    assert parse_size(written) == size


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        ("60s", 60),
        ("30m", 1800),
        ("500ms", 0.5),
        ("1h", 3600),
        ("2d", 172_800),
        (3, 3),
        ("0.5", 0.5),
    ],
)
def test_duration_is_parsed(written: object, seconds: float) -> None:
    assert parse_duration(written) == seconds


@pytest.mark.parametrize(
    "written",
    [
        "",
        "MB",
        "-1MB",
        "1XB",
        "1e9",
        "nan",
        float("nan"),
        float("inf"),
        -1,
        True,
        None,
        [],
        "٣MB",
        "1.5.5",
    ],
)
def test_invalid_amount_is_refused(written: object) -> None:
    with pytest.raises(ValueError, match="a size"):
        parse_size(written)
    with pytest.raises(ValueError, match="a duration"):
        parse_duration(written)


@given(some.integers(min_value=0, max_value=10**15 - 1))
def test_formatted_size_is_parsed_back(size: int) -> None:
    assert parse_size(format_size(size)) == size


@given(some.integers(min_value=0, max_value=10**9).map(lambda milliseconds: milliseconds / 1000))
def test_formatted_duration_is_parsed_back(seconds: float) -> None:
    assert parse_duration(format_duration(seconds)) == seconds


def test_list_is_parsed_from_commas_or_json() -> None:
    assert parse_list("a, b,,c") == ["a", "b", "c"]
    assert parse_list('["a,b"]') == ["a,b"]
    assert parse_list(["a"]) == ["a"]
