"""The reasons why a plan does not protect a unit never contradict the plan."""

from dataclasses import replace

import pytest

from holdfast.advise.advice import Advice, measured_plan
from holdfast.advise.budget import Budget, Prices
from holdfast.advise.candidates import Candidate
from holdfast.advise.losses import Loss, protected_case, together_case

UNITS = {name: (name,) for name in ("read", "join", "sum", "idle")}
SINGLE = {"read": Loss("read", (9.0, 11.0)), "join": Loss("join", (11.0, 11.0)), "sum": Loss("sum", (6.0, 8.0))}
SINGLE["idle"] = Loss("idle", (0.0, 0.0))
OVER = {name: Loss(protected_case(target, failover_s=1.0).name, (1.0, 1.0)) for name, target in UNITS.items()}
PRICES = Prices({"read": 1, "join": 8, "sum": 1, "idle": 1}, {"read": 0.3, "join": 0.4, "sum": 0.15, "idle": 0.15})


def weighed(objective, *protected, together=3.0):
    case = together_case(UNITS, protected, failover_s=1.0).name
    measured = {loss.case: loss for loss in (*OVER.values(), Loss(case, (together, together)))}
    return measured_plan(Candidate(objective, protected), SINGLE, measured, units=UNITS, failover_s=1.0, completeness=0.5)


def advised(budget, *plans, **asked):
    return Advice(
        application="line",
        budget=budget,
        outage_s=8.0,
        failover_s=1.0,
        single=SINGLE,
        plans=plans,
        because=dict.fromkeys(UNITS, "it was seen"),
        prices=PRICES,
        units=UNITS,
        reaching_goal=frozenset(plan.candidate.objective for plan in plans),
        failing_over=OVER,
        **asked,
    )


SHARE = advised(Budget(share=0.5), weighed("measured", "read", "sum"))
LEFT = "Leave it without a replica: "


def test_protected_unit_states_loss_and_price():
    assert SHARE.why("read") == (
        "Protect it: its failure costs 10 s of output without a replica and 1 s with one; its replica takes 30% of "
        "full replication's CPU. Measured: it was seen."
    )


@pytest.mark.parametrize(
    ("advice", "why"),
    [
        (SHARE, "its 8 replicas take 40% of full replication's CPU, and only 5% of the budget of 50% remains"),
        (
            advised(Budget(replicas=4), weighed("measured", "read", "sum")),
            "its 8 replicas take 40% of full replication's CPU, and 2 of the budget of 4 replicas remain",
        ),
        (
            advised(Budget(replicas=2), weighed("measured", "read", "sum")),
            "its 8 replicas take 40% of full replication's CPU, and none of the budget of 2 replicas remains",
        ),
        (
            advised(Budget(replicas=12), weighed("measured", "join", together=9.0), weighed("ic", "read", "sum")),
            "the plan by measured losses, which includes it, lost more when all others failed at once (9 s against 3 s)",
        ),
        (
            advised(Budget(replicas=12), weighed("measured", "read", "sum"), weighed("of", "join")),
            "the plan by output fidelity (PPA), which includes it, lost more when one failed (4.5 s against 3.25 s on average)",
        ),
        (
            advised(Budget(share=0.9), weighed("ic", "read", "sum")),
            "its 8 replicas take 40% of full replication's CPU, which would fit, but no plan that was tried includes it",
        ),
        (
            replace(SHARE, goal_loss=0.000001),
            "a loss of at most 0.0001% is reached without it, and its 8 replicas take 40% of full replication's CPU",
        ),
        (
            replace(SHARE, goal_ic=0.25),
            "an internal completeness of 0.25 is reached without it, and its 8 replicas take 40% of full replication's CPU",
        ),
    ],
)
def test_unprotected_costly_unit_states_why(advice, why):
    assert advice.ranking[0] == "join"
    assert advice.why("join") == f"{LEFT}{why}. Measured: it was seen."


def test_unit_without_effect_is_left_unprotected():
    assert SHARE.why("idle") == f"{LEFT}its failure alone does not change the output. Measured: it was seen."


def test_unaffordable_unit_also_names_a_rival_plan():
    advice = advised(Budget(share=0.5), weighed("measured", "read", "sum"), weighed("criticality", "join", together=9.0))
    assert "only 5% of the budget of 50% remains; the plan by measured losses, weighed along the graph," in advice.why("join")
