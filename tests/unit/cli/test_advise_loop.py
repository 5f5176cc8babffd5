"""The loop of an advice on told outcomes: which budget a promise takes, and what is said of one that cannot be kept."""

from types import SimpleNamespace

import numpy as np
import pytest

from holdfast.advise.loss import alone, losses_of
from holdfast.assess.assessment import Assessment, CaseView, OffsetView
from holdfast.assess.metrics import Dependency
from holdfast.assess.score import score_of
from holdfast.assess.target import Choice
from holdfast.cli.advise_loop import Loop
from holdfast.errors import HoldfastError
from holdfast.model.topology import TaskOperator, Topology

LINE = Topology(
    topology="line",
    operators={
        "read": TaskOperator(rate=10.0),
        "count": TaskOperator(inputs={"read": "one-to-one"}),
        "sum": TaskOperator(inputs={"count": "one-to-one"}),
    },
)
CHOICES = [Choice(name, ("it is one",)) for name in LINE.operators]
ALONE = {"read": 10.0, "count": 60.0, "sum": 30.0}
CPU = {"read": 1.0, "count": 2.0, "sum": 1.0}


class Told(Loop):
    """Its trials are told: a failure costs what it costs alone, a failover a tenth of that, and all else at once 100."""

    def __init__(self, **options):
        setting = SimpleNamespace(graph=SimpleNamespace(order=tuple(LINE.operators)), app=SimpleNamespace(name="line", epoch_s=1.0))
        given = {"budget": None, "ic": None, "loss": None, "failover_s": None, **options}
        super().__init__(setting, {}, CHOICES, LINE, given, None)
        self.tried = []

    def singles(self):
        views = [view(name, impact) for name, impact in ALONE.items()]
        return SimpleNamespace(offsets=(1000,), outages_s=(8.0,)), assessment(views), alone(CHOICES, losses_of(views))

    def assessed(self, cases, folder, *, offsets):
        self.tried.append(folder)
        views = [view(case.name, 100.0 if case.failover_s is None else sum(ALONE[n] for n in case.target) / 10) for case in cases]
        return SimpleNamespace(seed=1), assessment(views)


def view(case, impact):
    none = np.zeros(1)
    offset = OffsetView(1000, (0.5,), none, none, 0, none, 2, impact)
    return CaseView(case, ((8.0, "peak"),), (4000,), 1.0, Dependency(0.1, True, 0.9), 2, impact, (offset,), ((0.5,),), 1)


def assessment(views):
    return Assessment(score_of("out", "sum(x)"), tuple(views), (1.0,), 0.0, False)


def test_a_share_of_the_loss_takes_as_few_replicas_as_keep_it():
    loop = Told(loss=0.5)
    advice, _ = loop.run(CPU)
    assert advice.chosen.candidate.protected == ("count",)
    assert advice.left == pytest.approx(0.46)
    assert loop.tried == ["with-plan-1"]


def test_a_share_of_the_loss_that_nothing_keeps_is_refused_with_the_best_that_can_be():
    loop = Told(loss=0.05)
    with pytest.raises(
        HoldfastError, match=r"even with a replica of everything 10.0% of the loss .* is the best there is; wanted 5.0%"
    ):
        loop.run(CPU)
    assert loop.tried == ["with-plan-1", "with-plan-2", "with-plan-3"]


def test_a_completeness_takes_as_few_replicas_as_keep_it():
    advice, _ = Told(ic=1.0).run(CPU)
    assert advice.chosen.candidate.protected == ("count", "read", "sum")
    assert advice.next_unit() is None


def test_half_of_the_cpu_is_the_budget_where_none_is_given():
    advice, _ = Told().run(CPU)
    assert (str(advice.budget), advice.chosen.candidate.protected) == ("50%", ("count",))
    assert advice.next_unit().operator == "sum"
