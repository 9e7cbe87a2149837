from __future__ import annotations

import pytest

from cortex.families.team.contradictions.units import NUMBER, Amount, amount_after, end_of_unit


def amount(text: str) -> Amount:
    """The first amount of a text."""
    found = NUMBER.search(text)
    assert found
    return amount_after(text, found["n"], found.end(), (found["money"] or "").strip())[0]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("30 s", "30,000 ms"),
        ("90 minutes", "1.5 h"),
        ("1 GB", "1000 MB"),
        ("1 GB", "1024 MB"),
        ("2 GiB", "2GB"),
        ("100 requests per second", "100 rps"),
        ("100 requests/s", "6,000 requests per minute"),
        ("three replicas", "3 replicas"),
        ("10_000 rows", "10,000 rows"),
        ("80 %", "80 percent"),
    ],
)
def test_equal_amounts_in_different_units_are_equal(one: str, other: str):
    assert amount(one).dimension == amount(other).dimension
    assert amount(one).equals(amount(other))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("30 s", "30 MB"),
        ("3 replicas", "3 shards"),
        ("5 %", "5"),
        ("$5", "€5"),
        ("10 MB", "10 MB/s"),
    ],
)
def test_amounts_of_different_things_have_different_dimensions(one: str, other: str):
    assert amount(one).dimension != amount(other).dimension


def test_amounts_of_the_same_unit_are_compared_exactly():
    assert not amount("1.00 GB").equals(amount("1.05 GB"))
    assert not amount("30 s").equals(amount("31 s"))


@pytest.mark.parametrize(
    "text",
    [
        "#12",
        "PAY-812",
        "2026-01-03",
        "14:30",
        "10.0.0.1",
        "file.py:42",
        "a1b2",
        "the 3rd",
        "v1.2.3",
    ],
)
def test_dates_ids_places_and_versions_are_not_amounts(text: str):
    assert not NUMBER.search(text)


def test_unit_of_measure_is_recognized_among_other_words():
    assert end_of_unit("30 ms later", 2) == 5
    assert end_of_unit("30 days", 2) == 7
    assert end_of_unit("30 replicas", 2) == 2
