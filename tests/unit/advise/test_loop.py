"""The loop of an advice on prepared outcomes: the budget that a goal needs, and goals that cannot be reached."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from holdfast.advise import loop as advise_loop
from holdfast.advise.candidates import Candidate
from holdfast.advise.loop import AdviceLoop
from holdfast.app import App
from holdfast.app.task_topology import topology_of
from holdfast.assess.assessment import Assessment, CaseView, OffsetView
from holdfast.assess.campaign_fit import require_room_for_outages
from holdfast.assess.campaign_setup import build_campaign
from holdfast.assess.case import OutageLocator, Tempo, unreachable_errors
from holdfast.assess.injection import injected_edges
from holdfast.assess.metrics import Dependency
from holdfast.assess.output_score import score_of
from holdfast.assess.targets import Choice
from holdfast.cli.advise import _print_advice, _sla
from holdfast.errors import HoldfastError

TUPLES = 20_000
ALONE = {"read": 10.0, "count": 60.0, "sum": 30.0}
CPU = {"read": 1.0, "count": 2.0, "sum": 1.0}


def line():
    app = App("line")
    read = app.source("read", "seq long, time timestamp, x double")
    app.sink("out", operator(app, "sum", operator(app, "count", read)))
    return app


def operator(app, name, *inputs, **options):
    return app.operator(inputs=list(inputs), name=name, **options)(lambda *frames: frames[0])


class Recorded:
    """As much of a context as choosing cases takes: every stream has all tuples but those that are empty, or end early."""

    def __init__(self, app, empty=(), ends=None):
        self.app, self.graph, self.sink, self.scores = app, app.graph(), "out", [score_of("out", "sum(x)")]
        self.rows = SimpleNamespace(seq=np.arange(TUPLES), tempo=Tempo(100.0, 100.0))
        self._ends = dict.fromkeys(empty, 0) | (ends or {})

    def stream_seqs(self, names):
        return {name: self.rows.seq[: self._ends.get(name, TUPLES)] for name in names}

    def injected_edges(self, case):
        return injected_edges(self.graph, case.target, case.side)

    def locator(self, cases, seqs):
        return OutageLocator(
            self.rows.seq, {name: seqs[name] for case in cases for name in self.injected_edges(case)}, self.rows.tempo
        )


class Told(AdviceLoop):
    """Its trials are told: a failure costs what it costs alone, a failover a tenth of that, and all else at once 100."""

    def __init__(self, app=None, empty=(), ends=None, costs=ALONE, **options):
        app = app or line()
        given = {"budget": None, "ic": None, "loss": None, "failover_s": None, "outage_s": 8.0, "repetitions": 1, "seed": 1}
        topology = topology_of(app.graph(), name=app.name)
        super().__init__(
            Recorded(app, empty, ends), {}, topology, {**given, **options}, None, write_reports=lambda results, choices: None
        )
        self.costs, self.tried = costs, []

    def assess(self, cases, folder, *, fitting):
        """What is told of the cases that are really tried; it is refused as a campaign would be."""
        self.tried.append(folder)
        campaign = build_campaign(self.context, cases, self.subject, self._campaign_options(folder, fitting))
        require_room_for_outages(self.context, campaign, {})
        assert not unreachable_errors(self.context.graph, campaign.cases, self.context.sink)
        return campaign, assessment([view(case.name, self._impact(case, folder)) for case in campaign.cases])

    def _impact(self, case, folder):
        name = "+".join(case.target)
        if case.failover_s is not None:
            return sum(cost for unit, cost in self.costs.items() if set(self.units[unit]) <= set(case.target)) / 10
        return self.costs.get(name, 0.0) if folder == advise_loop.SINGLE else 100.0


def view(case, impact):
    ones = np.ones(4)
    offset = OffsetView(1000, (0.5,), ones + impact / len(ones), ones, 0, ones * 0.5, 2, impact)
    return CaseView(case, ((8.0, "peak"),), (4000,), 1.0, Dependency(0.1, True, 0.9), 2, impact, (offset,), ((0.5,),), 1, (0.5,))


def assessment(views):
    return Assessment(score_of("out", "sum(x)"), tuple(views), (1.0,), 0.0, False)


@pytest.fixture
def apart(monkeypatch):
    """Every operator of the line is a target of its own."""
    monkeypatch.setattr("holdfast.advise.loop.choices_of", lambda graph: tuple(Choice(name, ("it is one",)) for name in ALONE))


def test_loss_goal_uses_the_fewest_replicas(apart):
    loop = Told(loss=0.5)
    advice, _ = loop.run(CPU)
    assert advice.chosen.candidate.protected == ("count",)
    assert advice.remaining == pytest.approx(0.46)
    assert loop.tried == ["assessment", "with-plan-3", "with-plan-1"], "whether it can be kept at all is tried first"


def test_unreachable_loss_goal_is_rejected_with_the_best_value(apart):
    loop = Told(loss=0.000001)
    with pytest.raises(
        HoldfastError, match=r"even with a replica of everything 10% of the loss .* remains; expected at most 0.0001% "
    ):
        loop.run(CPU)
    assert loop.tried == ["assessment", "with-plan-3"], "no other plan can be better, so none is tried"


def test_completeness_goal_uses_the_fewest_replicas(apart):
    advice, _ = Told(ic=1.0).run(CPU)
    assert advice.chosen.candidate.protected == ("count", "sum", "read")
    assert advice.next_unit() is None
    assert advice.completeness == "an internal completeness of 1 (requested: 1)"


def test_default_budget_is_half_of_the_cpu(apart):
    advice, _ = Told().run(CPU)
    assert (str(advice.budget), advice.chosen.candidate.protected) == ("50%", ("count",))
    assert advice.next_unit().operator == "sum"


def test_budget_with_the_same_plans_is_skipped():
    """Four tasks of count can only be protected together."""
    app = App("line")
    read = app.source("read", "seq long, time timestamp, x double, key string", key="key", parallelism=4)
    app.sink("out", operator(app, "sum", operator(app, "count", read, key="key", parallelism=4)))
    loop = Told(app, loss=0.34)
    loop.run(CPU)
    assert loop.tried[:4] == ["assessment", "with-plan-9", "with-plan-1", "with-plan-4"]


def test_budget_without_visible_effect_is_rejected(apart):
    with pytest.raises(HoldfastError, match=r"25% buys no replica of anything whose failure changes .* count, takes 50.0%"):
        Told(costs={"count": 60.0}, budget="25%").run(CPU)


def branched():
    """Beside the line: audit leads to another sink, and quiet, which total also reads, never says anything."""
    app = App("branched")
    read = app.source("read", "seq long, time timestamp, x double")
    count, quiet = operator(app, "count", read), operator(app, "quiet", read)
    app.sink("out", operator(app, "total", count, quiet))
    app.sink("log", operator(app, "audit", read))
    return app


COSTS = {"read": 10.0, "count": 60.0, "total": 30.0}


@pytest.mark.parametrize("options", [{"budget": "5"}, {"budget": "1"}, {"budget": "50%"}, {"ic": 0.9}, {"loss": 0.2}])
def test_operators_without_scored_output_cost_nothing(options):
    advice, _ = Told(branched(), empty=["quiet"], costs=COSTS, **options).run(dict.fromkeys([*COSTS, "quiet", "audit"], 1.0))
    assert advice.ranking == ("count", "total", "read", "audit", "quiet")
    assert (advice.single["audit"].mean, advice.single["quiet"].mean) == (0.0, 0.0)
    assert all(advice.failing_over[name].mean == 0 for name in ("audit", "quiet") if name in advice.failing_over)
    assert "nothing of it reaches the scored output" in advice.why("audit")


def test_offsets_leave_room_for_a_stream_that_ends_early():
    loop = Told(branched(), ends={"quiet": 5000}, costs=COSTS, budget="5")
    _, tried = loop.run(dict.fromkeys([*COSTS, "quiet", "audit"], 1.0))
    assert all(max(campaign.offsets) < 5000 for campaign, _ in tried.values())


def test_operators_of_one_pe_are_tried_together():
    app = App("fused")
    read = app.source("read", "seq long, time timestamp, x double")
    count = operator(app, "count", read, pe="both")
    app.sink("out", operator(app, "total", operator(app, "sum", count, pe="both")))
    loop = Told(app, costs={"read": 10.0, "count+sum": 60.0}, budget="1")
    advice, tried = loop.run({"read": 1.0, "count+sum": 2.0, "total": 1.0})
    assert [case.name for case in tried["assessment"][0].cases] == ["read", "count+sum"]
    assert advice.ranking == ("count+sum", "read", "total"), "total behaves like read"
    assert advice.chosen.candidate.protected == ("count+sum",)
    assert advice.document()["cost"] == {"replicas": 1, "cpu_s_per_s": 2.0, "share_of_full": 0.5}
    assert advice.failing_over["count+sum"].case == "count+sum (replica, 1 s)"


def test_terminal_output_names_plans_like_the_page(apart, capsys):
    advice, _ = Told(repetitions=1).run(CPU)
    empty = replace(advice.plans[-1], candidate=Candidate("of", ()))
    _print_advice(replace(advice, plans=(*advice.plans, empty)), "no strategy", [])
    message = capsys.readouterr().out
    assert "between arrival orders" not in message
    assert "plan by measured losses: count; one failure" in message
    assert (
        "plan by output fidelity (PPA): nothing: none of its best plans within the budget keeps an output alive; one failure"
        in message
    )
    assert "The next: sum, 1 replica, for 25% more of full replication's CPU" in message


def test_default_completeness_is_not_called_requested():
    assert _sla(None, 0.7) == "at least 0.70, unless --ic asks for another"
    assert _sla(0.5, 0.5) == "asked for: 0.50"
