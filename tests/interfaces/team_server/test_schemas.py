"""Records as rows of JSON."""

from __future__ import annotations

import pytest

from cortex.interfaces.team_server.schemas import moment


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (1_800_000_000_007, "2027-01-15T08:00:00.007Z"),
        (1 << 62, "9999-12-31T23:59:59.999Z"),
    ],
)
def test_moment_is_utc_with_milliseconds_and_ends_with_the_year_9999(milliseconds, text):
    assert moment(milliseconds) == text
