"""Limits on what a plugin answers."""

from __future__ import annotations

from cortex.plugins.results import LINES, OBSERVATIONS, SECTIONS, observations_of, sections_of


def test_excess_sections_and_observations_are_cut_off() -> None:
    sections = sections_of(
        [{"title": str(number), "lines": ["x"] * 15_000} for number in range(100)], "flood"
    )
    assert [section.title for section in sections] == [str(number) for number in range(SECTIONS)]
    assert {len(section.lines) for section in sections} == {LINES}
    brought = observations_of(
        [{"title": str(number), "summary": ""} for number in range(1_000)], "flood"
    )
    assert [observation.title for observation in brought] == [
        str(number) for number in range(OBSERVATIONS)
    ]
