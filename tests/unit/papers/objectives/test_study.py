"""Sets of operators that fail together, and how well objectives predict their damage."""

import json
from dataclasses import asdict
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import App
from holdfast.advise.losses import Loss
from holdfast.documents.topology import TaskOperator, Topology
from holdfast.report.plot import standalone_svg
from holdfast_papers.objectives.command import _document
from holdfast_papers.objectives.report import correlation_picture, objectives_page, objectives_tables
from holdfast_papers.objectives.study import (
    ApplicationStudy,
    Damage,
    FailureSet,
    PlanOutcome,
    agreement,
    chosen,
    damage,
    effective_failures,
    failure_sets,
    findings,
    predict_loss,
    read_study,
    shortfall,
    worse,
)

LINE = Topology(
    topology="line",
    operators={
        "read": TaskOperator(rate=10.0),
        "count": TaskOperator(inputs={"read": "one-to-one"}),
        "sum": TaskOperator(inputs={"count": "one-to-one"}),
    },
)
SINGLE = {name: Loss(name, (impact,)) for name, impact in {"read": 1.0, "count": 9.0, "sum": 2.0}.items()}


def joined():
    """Two sources, each through an operator of its own, into a join, and what follows it."""
    app = App("joined")
    left = app.source("left", "seq long")
    right = app.source("right", "seq long")
    one = app.operator(inputs=left, name="one")(lambda rows: rows)
    two = app.operator(inputs=right, name="two")(lambda rows: rows)
    both = app.operator(inputs=[one, two], name="both")(lambda rows, others: rows)
    last = app.operator(inputs=both, name="last")(lambda rows: rows)
    app.sink("out", last)
    return app.graph()


EVERYTHING = ("left", "right", "one", "two", "both", "last")


@pytest.mark.parametrize(
    ("failed", "effective"),
    [
        ({"left", "one"}, {"left"}),
        ({"left", "both"}, {"left", "both"}),
        ({"left", "last"}, {"left", "last"}),
        ({"left", "two", "both", "last"}, {"left", "two"}),
        ({"both", "last"}, {"both"}),
        (set(EVERYTHING), {"left", "right"}),
    ],
)
def test_failure_of_a_starved_operator_has_no_effect(failed, effective):
    assert set(effective_failures(joined(), failed)) == effective


@given(st.sets(st.sampled_from(EVERYTHING), min_size=1))
def test_effective_failures_are_idempotent(failed):
    once = effective_failures(joined(), failed)
    assert once and set(once) <= failed
    assert effective_failures(joined(), once) == once


def test_failure_sets_are_distinct_and_follow_the_seed():
    graph = joined()
    sets = failure_sets(graph, EVERYTHING, count=100, seed=1)
    assert len(set(sets)) == len(sets) > 10
    assert all(effective_failures(graph, failed) == failed for failed in sets)
    assert failure_sets(graph, EVERYTHING, count=5, seed=1) == failure_sets(graph, EVERYTHING, count=5, seed=1)
    assert failure_sets(graph, EVERYTHING, count=5, seed=1) != failure_sets(graph, EVERYTHING, count=5, seed=2)


def test_losing_the_source_loses_everything():
    seen = predict_loss(LINE, SINGLE, ("read", "sum"), measured=Damage(3.0, 1.0))
    assert seen.foretold["of"] == pytest.approx(1.0)
    assert seen.foretold["alone"] == 2.0
    assert seen.measured == Damage(3.0, 1.0)


def test_damage_is_impact_and_wrong_output_in_outages():
    golden = np.array([10.0, 10.0, 10.0, 10.0])
    offsets = [
        SimpleNamespace(impact=4.0, local_golden=golden, local_faulty=np.array([0.0, 0.0, 10.0, 10.0])),
        SimpleNamespace(impact=2.0, local_golden=golden, local_faulty=np.array([0.0, 0.0, 20.0, 10.0])),
        SimpleNamespace(impact=0.0, local_golden=golden * 0, local_faulty=golden * 0),
    ]
    assert damage(SimpleNamespace(offsets=offsets, outage_sections=2)) == Damage(2.0, pytest.approx(2.5 / 3))


def test_agreement_ignores_rounding():
    def seen(n: int) -> FailureSet:
        objectives = {"of": -n, "ic": 1.0, "criticality": n * n, "alone": n}
        return FailureSet((str(n),), objectives, Damage(float(n), 7.0 + n * 1e-12))

    sets = [seen(n) for n in range(5)]
    assert agreement(sets) == pytest.approx({"criticality": 1.0, "ic": 0.0, "of": -1.0, "alone": 1.0})
    assert agreement(sets, "wrong") == dict.fromkeys(("criticality", "ic", "of", "alone"), 0.0)


def plans(budget: int, **lost: float) -> tuple[PlanOutcome, ...]:
    return tuple(PlanOutcome(budget, objective, ("read",), Damage(value, value / 10)) for objective, value in lost.items())


def test_worse_lists_budgets_where_measured_plans_lose_more():
    same = plans(1, measured=9.0, criticality=5.0 + 1e-12, of=5.0, ic=7.0)
    behind = plans(2, measured=5.0, criticality=6.0, of=5.0, ic=7.0)
    assert worse(same + behind, "criticality") == ["with 2 protected the plan by criticality loses 6, the better of the others 5"]
    assert worse(same + behind, "measured", "wrong") == [
        "with 1 protected the plan by measured loses 0.9, the better of the others 0.5"
    ]


def test_objective_closest_to_the_best_plan_is_chosen():
    alike = ApplicationStudy((), plans(1, measured=5.0, criticality=5.0, of=5.0 + 1e-12, ic=5.0))
    study = ApplicationStudy((), plans(1, measured=1.0, criticality=4.0, of=5.0, ic=3.0))
    assert shortfall([alike]) == {"advised": 0.0, "criticality": 0.0, "measured": 0.0, "of": 0.0, "ic": 0.0}
    assert chosen([alike]) == "criticality"
    assert shortfall([study, alike]) == {"advised": 0.0, "criticality": 0.375, "measured": 0.0, "of": 0.5, "ic": 0.25}
    assert chosen([study, alike]) == "measured"


def test_failed_finding_names_application_and_budget():
    study = ApplicationStudy((), plans(2, measured=9.0, criticality=6.0, of=5.0, ic=7.0))
    first, second = findings({"shop": study})
    assert not first.holds
    assert first.ours == "shop: with 2 protected the plan by advised loses 6, the better of the others 5"
    assert not second.holds


def test_study_survives_writing_and_reading():
    study = ApplicationStudy(
        (predict_loss(LINE, SINGLE, ("sum",), measured=Damage(2.0, 1.0)),), plans(1, measured=5.0, criticality=4.0, of=6.0, ic=5.0)
    )
    assert read_study(json.loads(json.dumps(asdict(study)))) == study


def test_report_covers_every_application():
    sets = tuple(predict_loss(LINE, SINGLE, failed, measured=Damage(2.0, 1.0)) for failed in (("read",), ("count",), ("sum",)))
    study = ApplicationStudy(sets, plans(1, measured=5.0, criticality=4.0, of=5.0, ic=6.0))
    document = {"command": "holdfast reproduce objectives", "seed": 1, **_document({"shop": study})}
    assert document["default"] == "criticality"
    page, tables = objectives_page(document, {"shop": study}), objectives_tables(document, {"shop": study})
    assert "plan by &#x27;measured, weighed along the graph&#x27;: its plans are closest" in page
    assert "| shop | 1 | 4, 0.40 | 5, 0.50 | 5, 0.50 | 6, 0.60 |" in tables
    assert tables.startswith("`holdfast reproduce objectives`\n")
    assert "var(" not in standalone_svg(correlation_picture(document))
