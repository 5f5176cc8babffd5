"""Scores: which parts they are made of, and how stretches combine."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.app import App
from holdfast.assess.campaign_setup import select_scores
from holdfast.assess.output_score import own_affected, own_scores, part_value, parts_of, ready_made, score_of
from holdfast.errors import ApplicationError, HoldfastError


def app_with(score):
    app = App("shop")
    app.sink("out", app.source("orders", "seq long, amount double"))
    if score:
        app.score("out", score)
    return app


@pytest.mark.parametrize(
    ("expression", "combination"),
    [
        ("sum(amount)", "total"),
        ("SUM( amount * (1 + tax) )", "total"),
        ("count(*)", "total"),
        ("avg(amount)", "ratio"),
        ("mean(amount)", "ratio"),
        ("max(amount)", "mean"),
        ("sum(a) / sum(b)", "mean"),
        ("sum(a) + sum(b)", "mean"),
        ("count(distinct a)", "mean"),
        ("percentile(a, 0.5)", "mean"),
    ],
)
def test_combination_follows_from_the_expression(expression, combination):
    assert score_of("out", expression).combination == combination


@given(st.lists(st.tuples(st.floats(-10, 10), st.integers(1, 5)), min_size=1, max_size=8))
def test_average_over_sections_equals_average_over_rows(sections):
    rows = np.concatenate([np.full(count, value) for value, count in sections])
    parts = {
        "sum(x)": np.array([value * count for value, count in sections]),
        "count(x)": np.array([float(count) for _, count in sections]),
    }
    assert score_of("out", "avg(x)").over(parts) == pytest.approx(rows.mean(), abs=1e-9)


def test_section_without_rows_scores_zero():
    score = score_of("out", "avg(x)")
    assert score.local({"sum(x)": np.array([0.0, 6.0]), "count(x)": np.array([0.0, 2.0])}).tolist() == [0.0, 3.0]
    assert score.over({"sum(x)": np.array([0.0]), "count(x)": np.array([0.0])}) == 0.0


def test_other_aggregates_are_averaged_over_sections():
    assert score_of("out", "max(x)").over({"max(x)": np.array([2.0, np.nan, 4.0])}) == 3.0


def test_ready_made_scores_derive_from_the_applications_score():
    app = app_with("sum(amount)")
    assert [ready_made(app, kind).expression for kind in ("sum", "mean", "count")] == ["sum(amount)", "avg(amount)", "count(*)"]
    assert parts_of([ready_made(app, kind) for kind in ("sum", "mean")]) == ("sum(amount)", "count(amount)")


def test_default_score_is_the_number_of_tuples():
    assert own_scores(app_with(None))[0].expression == "count(*)"


def test_score_belongs_to_the_requested_sink():
    app = app_with("sum(amount)")
    app.sink("rest", "orders")
    app.sink("late", "orders")
    app.score("rest", "avg(amount)")
    app.score("rest", "count(amount)", affected=300)

    def scored(*texts, sink):
        return [(score.sink, score.expression) for score in select_scores(app, texts, sink)]

    assert scored(sink=None) == [("out", "sum(amount)")]
    assert scored(sink="rest") == [("rest", "avg(amount)"), ("rest", "count(amount)")]
    assert scored(sink="late") == [("late", "count(*)")]
    assert scored("count", "sum", "max(amount)", sink="rest") == [
        ("rest", "count(*)"),
        ("rest", "sum(amount)"),
        ("rest", "max(amount)"),
    ]
    assert (own_affected(app, "out"), own_affected(app, "rest")) == (None, 300)
    with pytest.raises(HoldfastError, match="application 'shop' has no sink 'lost'; sinks are: late, out, rest"):
        scored(sink="lost")


@pytest.mark.parametrize("affected", [0, 2.5, "many"])
def test_score_declares_affected_tuples_or_none(affected):
    app = app_with(None)
    app.score("out", "count(*)", affected=affected)
    with pytest.raises(ApplicationError, match=r"the score at .* has affected=.*; it must be a number of source tuples, a whole"):
        app.graph()


def test_score_without_argument_has_no_ready_made_variant():
    with pytest.raises(HoldfastError, match=r"'max\(amount\)' of application 'shop' is not a sum or average"):
        ready_made(app_with("max(amount)"), "mean")
    with pytest.raises(HoldfastError, match="no ready-made score 'median'; ready-made scores are: sum, mean, count"):
        ready_made(app_with("max(amount)"), "median")


def test_part_value_is_the_contribution_of_a_row():
    assert part_value("count(1)") == "1D"
    assert part_value("sum(a - b)") == "cast(a - b as double)"
