"""Ages and choices of memories as the options of the commands give them."""

from __future__ import annotations

import time

import pytest

from cortex.base.errors import InputError
from cortex.families.memory.commands.options import seconds_of

DAY = 86_400


@pytest.mark.parametrize(
    ("age", "seconds"),
    [
        ("12h", DAY / 2),
        ("30d", 30 * DAY),
        (" 8W ", 56 * DAY),
        ("90m", 5_400),
        ("1y", 365 * DAY),
        ("0d", 0),
    ],
)
def test_age_is_given_in_minutes_to_years(age, seconds):
    assert seconds_of(age) == seconds


def test_age_beyond_1970_ends_there():
    before = time.time()
    assert before <= seconds_of("999y") <= time.time()


@pytest.mark.parametrize("age", ["", "30", "soon", "-1d", "1.5", "d", "1 fortnight"])
def test_age_without_number_or_unit_is_refused(age):
    with pytest.raises(InputError, match="is no age"):
        seconds_of(age)
