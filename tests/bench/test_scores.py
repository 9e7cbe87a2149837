"""Pure parts of the ranker's benchmarks: intervals, folds, switches, fits and JSON results."""

from __future__ import annotations

import json

import numpy as np
import pytest
from bench.common import figures, intervals
from bench.quality import ablation, cross_validation, relevance_fit, tokens


def test_interval_contains_its_mean_and_is_reproducible():
    values = [0.0, 1.0, 0.5, 0.25] * 10
    interval, again = intervals.mean_of(values, 7), intervals.mean_of(values, 7)
    assert interval == again
    assert interval.low < interval.mean < interval.high
    assert interval.mean == pytest.approx(0.4375)


def test_difference_is_bold_only_if_its_interval_excludes_zero():
    assert intervals.mean_of([0.1] * 20, 7).signed() == "**+0.100 [+0.100, +0.100]**"
    assert not intervals.mean_of([0.1, -0.1] * 20, 7).signed().startswith("**")


def test_share_is_the_ratio_of_sums():
    assert intervals.share_of([1, 0], [1, 9], 7).mean == pytest.approx(0.1)


def test_score_is_met_from_its_target_upwards():
    section = figures.Section("x", "X")
    section.at_least("good", 0.86, 0.86)
    section.at_least("bad", 0.85, 0.86)
    section.add("fast", "ms", 3.0, 10.0)
    assert [figure.met for figure in section.figures] == [True, False, True]
    assert "| bad | 0.850 |  | at least 0.86 | **no** |" in section.render()


def test_fold_chooses_by_its_own_queries_and_keeps_an_unbeaten_constant():
    seen, hidden = np.array([True, False]), np.array([False, True])
    fold = cross_validation.Fold("x", {"a": seen}, {"a": hidden})
    by_value = {
        0.3: {"a": np.array([0.5, 0.9])},
        0.4: {"a": np.array([0.6, 0.1])},
        0.5: {"a": np.array([0.5, 1.0])},
    }
    assert cross_validation.choose(fold, 0.3, by_value) == 0.4
    assert cross_validation.judged(fold, by_value[0.4]).tolist() == [0.1]
    del by_value[0.4]
    assert cross_validation.choose(fold, 0.3, by_value) == 0.3


def test_every_switch_changes_a_constant_and_restores_it():
    rules = ablation
    modules = (
        rules.SEARCH,
        rules.CANDIDATES,
        rules.TABLE,
        rules.EVIDENCE,
        rules.PARSE,
        rules.SNIPPET,
    )

    def state() -> list[object]:
        return [dict(vars(module)) for module in modules]

    before = state()
    changes = {**rules.WITHOUT, **rules.LEFT_OUT}
    turns = {f"{knob.name} {value}": (knob, value) for knob in rules.KNOBS for value in knob.grid}
    for name, change in changes.items():
        with change():
            assert state() != before, name
        assert state() == before, name
    for name, (knob, value) in turns.items():
        with knob.turn(value):
            assert (state() == before) == (value == knob.chosen), name
        assert state() == before, name


def test_chosen_constant_is_on_every_grid():
    assert [knob.name for knob in ablation.KNOBS if knob.chosen not in knob.grid] == []


def test_fit_recovers_the_constants_behind_the_labels():
    draw = np.random.default_rng(1)
    rows = np.c_[draw.normal(size=(20_000, 2)), np.ones(20_000)]
    shares = 1 / (1 + np.exp(-rows @ np.array([2.0, -1.0, 0.5])))
    labels = (draw.random(20_000) < shares).astype(float)
    assert relevance_fit.fit(rows, labels, np.ones(20_000)) == pytest.approx(
        [2.0, -1.0, 0.5], abs=0.1
    )


@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")])
def test_result_ends_at_the_end_of_its_json(separators):
    results = [{"file": "a.py", "text": 'x = [1, "results": []]'}, {"file": "b.py", "text": "]}"}]
    text = json.dumps(
        {"query": '"results": [', "results": results, "more": [1]}, separators=separators
    )
    found = list(tokens.results_in(text))
    assert [result for result, _ in found] == results
    assert [text[end] for _, end in found] == [",", "]"]


@pytest.mark.parametrize("text", ['{"error": "No results found."}', '{"results":[],"metadata":{}}'])
def test_answer_without_results_gives_none(text):
    assert list(tokens.results_in(text)) == []
