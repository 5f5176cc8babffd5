"""Baselines, contracts, explanations and errors of planning."""

import time
from itertools import pairwise, product
from types import SimpleNamespace

import numpy as np
import pytest

from holdfast.documents.descriptor import DescriptorNode, Input, Pe, Pricing
from holdfast.errors import HoldfastError
from holdfast.planning.laar import (
    Exhaustive,
    FailureModelSolver,
    FTSearch,
    Independent,
    InfeasibleError,
    Instance,
    Milp,
    NodeCrash,
    Outcome,
    Pessimistic,
    Ranges,
    Solution,
    account,
    baseline,
    cost,
    generate,
    greedy,
    infeasible_error,
    negotiate,
    next_steps,
    node_load,
    non_replicated,
    plan_strategy,
    solver_named,
    violations,
)
from holdfast.planning.laar.examples import figure_1
from holdfast.planning.laar.packing import cores, pack

SMALL = Ranges(nodes=(2, 3), pes_per_node=(3, 5))


def small(seed):
    return Instance.of(generate(np.random.default_rng(seed), ranges=SMALL), sla=0.5)


def test_no_replication_is_one_replica_everywhere_and_never_overloads():
    for seed in range(3):
        instance = small(seed)
        if Milp().solve(instance.at(0.0)).outcome is Outcome.NUL:
            continue
        active = non_replicated(instance)
        assert (active.sum(axis=2) == 1).all() and (active[0] == active[1]).all()
        assert not list(violations(instance, active, sla=False))


def test_greedy_takes_the_replica_that_uses_most_from_the_fullest_node():
    instance = small(3)
    active = greedy(instance)
    assert active[0].all()
    assert not active[1].all()
    over = node_load(instance, active)[1] > instance.limit
    for node in np.flatnonzero(over):  # nothing redundant is left there
        assert (active[1].sum(axis=1)[(active[1] & (instance.node_of == node)).any(axis=1)] == 1).all()


def test_baselines_go_by_their_names_in_the_paper():
    instance = Instance.of(figure_1())
    assert baseline("SR", instance).all()
    assert baseline("GRD", instance).sum() == 6
    assert baseline("NR", instance).sum() == 4
    with pytest.raises(HoldfastError, match="no baseline 'XX'; baselines are: NR, SR, GRD"):
        baseline("XX", instance)


def test_an_unknown_solver_is_told_the_names():
    with pytest.raises(HoldfastError, match="no solver 'cplex'; solvers are: best, ft-search, milp, exhaustive"):
        solver_named("cplex")


def test_the_exhaustive_solver_refuses_what_it_could_not_finish():
    with pytest.raises(HoldfastError, match="takes at most 2000000; use ft-search or milp"):
        Exhaustive().solve(small(1))


def test_a_search_wants_a_worker():
    with pytest.raises(HoldfastError, match="at least 1 worker, got 0"):
        FTSearch(workers=0)


def test_an_sla_that_no_strategy_meets_says_the_best_and_what_blocks_it():
    with pytest.raises(InfeasibleError) as caught:
        plan_strategy(figure_1(), sla=0.9)
    said = str(caught.value)
    assert "meets an internal completeness of 0.9: the best that can be met is 0.6667; what blocks more: " in said
    assert "in configuration 'high' 'node1' (all replicas need 1.6 of 1 cores" in said
    assert "cannot carry all replicas of pe1, pe2" in said
    assert "lower the SLA, or add nodes or cores" in said


def test_explaining_why_there_is_no_strategy_is_part_of_the_time_limit(monkeypatch):
    granted = []

    def recorded(instance, *, seconds):
        granted.append(seconds)
        return infeasible_error(instance, seconds=seconds)

    monkeypatch.setattr("holdfast.planning.laar.planner.infeasible_error", recorded)
    with pytest.raises(InfeasibleError):
        plan_strategy(figure_1(), sla=0.9, seconds=9.0)
    assert granted[0] <= 9.0


class Helpless:
    """A solver that finds out nothing."""

    name = "best"

    def solve(self, instance, *, seconds=60.0):
        return Solution(self.name, Outcome.TMO, seconds)


def test_a_search_that_found_nothing_says_the_best_that_is_known_and_advises_only_what_was_not_done():
    with pytest.raises(HoldfastError) as caught:
        plan_strategy(figure_1(), sla=0.9, solver=Helpless(), seconds=10.0)
    said = str(caught.value)
    assert "that meets 0.9 was found by best in 10 s, nor a proof that there is none" in said
    assert "the highest internal completeness of those found is 0.6667, and none exceeds 0.6667" in said
    assert said.endswith("give more seconds, or lower the SLA")


def test_a_search_that_found_nothing_is_rescued_by_the_most_complete_strategy_where_that_will_do():
    planned = plan_strategy(figure_1(), sla=0.6, solver=Helpless(), seconds=10.0)
    assert planned.solution.outcome is Outcome.SOL
    assert planned.strategy.internal_completeness == pytest.approx(2 / 3)
    assert planned.strategy.breaks == ()


def test_a_rescued_strategy_has_no_replica_that_brings_nothing(monkeypatch):
    monkeypatch.setattr("holdfast.planning.laar.explanation.most_complete", lambda instance, *, seconds: (None, 1.0))
    descriptor = generate(np.random.default_rng(4), ranges=Ranges(nodes=(3, 3), pes_per_node=(4, 4), replicas=3))
    planned = plan_strategy(descriptor, sla=0.1, solver=Helpless(), seconds=1.0)
    assert set(planned.active.sum(axis=2).ravel()) == {1, 3}
    assert planned.strategy.breaks == ()


def test_nodes_that_were_not_looked_at_in_time_are_not_said_to_be_too_small(monkeypatch):
    monkeypatch.setattr("holdfast.planning.laar.explanation.most_complete", lambda instance, *, seconds: (None, 1.0))
    said = str(infeasible_error(Instance.of(figure_1(sla=0.9)), seconds=0.1))
    assert "the best found in time reaches 0.6667, which may not be the best possible; what blocks" in said
    crowded = figure_1(sla=0.9).model_copy(
        update={"nodes": {"node1": DescriptorNode(cores=0.5), "node2": DescriptorNode(cores=0.5)}}
    )
    assert "was not determined in the 0.1 s left" in str(infeasible_error(Instance.of(crowded), seconds=0.1))


def test_an_application_without_tuples_is_complete_whatever_is_promised():
    silent = figure_1(sla=0.9)
    rates = tuple(rate.model_copy(update={"rate": 0.0}) for rate in silent.sources["source"].rates)
    silent = silent.model_copy(update={"sources": {"source": silent.sources["source"].model_copy(update={"rates": rates})}})
    planned = plan_strategy(silent)
    assert (planned.strategy.sla, planned.strategy.internal_completeness, planned.strategy.cost) == (0.9, 1.0, 0.0)
    assert "more would add nothing, since nothing arrives" in planned.why()[-2]


def test_rates_that_grow_beyond_counting_are_told():
    edge = Input(selectivity=1e200, cost=1e200)
    bare = figure_1()
    pes = {"pe1": Pe(inputs={"source": edge}), "pe2": Pe(inputs={"pe1": edge})}
    with pytest.raises(HoldfastError, match="rates of 'figure-1' grow beyond what can be counted"):
        Instance.of(bare.model_copy(update={"pes": pes}))


def brute_force(instance, model):
    """The least cost of a strategy that fits and meets the SLA under the model; None if there is none."""
    sets = [bits for bits in product((False, True), repeat=instance.shape[2]) if any(bits)]
    found = []
    for chosen in product(sets, repeat=instance.shape[0] * instance.shape[1]):
        active = np.array(chosen).reshape(instance.shape)
        if not any(violations(instance, active, failure=model)):
            found.append(cost(instance, active))
    return min(found, default=None)


@pytest.mark.parametrize("model", [Independent(0.1), NodeCrash(), NodeCrash("node1"), Pessimistic()])
@pytest.mark.parametrize("sla", [0.3, 0.6, 0.9, 0.99])
def test_strategies_under_any_failure_model_cost_least_where_all_can_be_looked_at(model, sla):
    instance = Instance.of(figure_1(sla=sla))
    least = brute_force(instance, model)
    solution = FailureModelSolver(model).solve(instance)
    assert solution.outcome is (Outcome.NUL if least is None else Outcome.BST)
    assert solution.cost == (None if least is None else pytest.approx(least))


@pytest.mark.parametrize("model", [Independent(0.05), NodeCrash()])
def test_strategies_of_larger_applications_keep_the_sla_under_the_chosen_model(model):
    instance = small(3).at(0.7)
    solution = FailureModelSolver(model, most=0).solve(instance, seconds=20.0)
    assert solution.active is not None and solution.outcome is Outcome.SOL
    assert not list(violations(instance, solution.active, failure=model))
    assert solution.bound <= solution.cost


def test_nodes_too_small_for_one_replica_each_are_told():
    tiny = figure_1().model_copy(update={"nodes": {"node1": DescriptorNode(cores=0.5), "node2": DescriptorNode(cores=0.5)}})
    with pytest.raises(InfeasibleError) as caught:
        plan_strategy(tiny)
    said = str(caught.value)
    assert "fits its nodes with any SLA" in said
    assert "in configuration 'high' one replica of 'pe1' needs 0.8 cores, more than any of its nodes has" in said
    assert "in configuration 'high' one replica of each PE needs 1.6 cores, all nodes together have 1" in said


def test_nodes_that_cannot_be_packed_are_told():
    """Three PEs of 0.6 need 1.8 of 2 cores, but no two share a node."""
    descriptor = figure_1()
    pe = descriptor.pes["pe2"].inputs["pe1"].model_copy(update={"cost": 0.075})
    pes = {
        "pe1": descriptor.pes["pe1"].model_copy(update={"inputs": {"source": pe}}),
        "pe2": descriptor.pes["pe2"].model_copy(update={"inputs": {"pe1": pe}}),
        "pe3": descriptor.pes["pe2"].model_copy(update={"inputs": {"pe1": pe}}),
    }
    crowded = descriptor.model_copy(update={"pes": pes, "placement": dict.fromkeys(pes, ("node1", "node2"))})
    assert "no choice of replicas keeps every single node below its capacity" in str(infeasible_error(Instance.of(crowded)))


def test_a_plan_says_why_each_replica_is_there_and_what_comes_next():
    lines = plan_strategy(figure_1(), sla=0.6, solver="milp").why()
    assert lines[0].startswith("IC 0.6667 for an SLA of 0.6, at 4.1472e+06 CPU s per billing period (optimal, by milp")
    assert "pe1 in 'low': all replicas active; with one, IC would fall from 0.6667 to 0.0000, below the SLA of 0.6" in lines
    assert any(line.startswith("pe1 in 'high': replica") and "alone; all would add 0.1667 IC" in line for line in lines)
    assert any("pe2 in 'high'" in line and "more would add nothing, since its inputs are not full" in line for line in lines)
    assert lines[-1].startswith("next: no PE fits with all its replicas")


def test_the_next_step_is_the_one_that_brings_most_for_its_cost_and_fits():
    descriptor = generate(np.random.default_rng(5), ranges=SMALL)
    planned = plan_strategy(descriptor, sla=0.5)
    steps = next_steps(planned.instance, planned.active)
    fitting = [step for step in steps if step.fits]
    assert steps and steps[: len(fitting)] == fitting
    assert all(a.ic / a.cost >= b.ic / b.cost for a, b in pairwise(fitting))


def test_a_small_penalty_is_paid_and_a_large_one_is_avoided():
    instance = Instance.of(figure_1(sla=0.6))
    saving = 0.64 * 2592000 * 0.01  # second replicas at Low, at 0.01 a CPU second
    for penalty, meets in ((saving * 0.9, False), (saving * 1.1, True)):
        deal = negotiate(instance, Pricing(cpu_second=0.01, penalty=penalty))
        assert deal.meets_sla is meets and deal.optimal
    unlikely = Pricing(cpu_second=0.01, penalty=saving * 1.1, failure_probability=0.5)
    assert not negotiate(instance, unlikely).meets_sla


def test_a_penalty_by_shortfall_buys_what_is_worth_it():
    instance = Instance.of(figure_1(sla=0.8))
    pricing = Pricing(cpu_second=0.01, penalty=1e9, penalty_basis="shortfall")
    deal = negotiate(instance, pricing)
    assert deal.ic == pytest.approx(2 / 3) and not deal.meets_sla
    assert deal.account.penalty == pytest.approx(1e9 * (0.8 - 2 / 3) / 0.8)
    free = negotiate(instance.at(0.6), Pricing(cpu_second=0.0, penalty=10.0, penalty_basis="shortfall"))
    assert free.meets_sla and free.account.spending == 0.0
    cheap = negotiate(instance, Pricing(cpu_second=0.01, penalty=1.0, penalty_basis="shortfall"))
    assert cheap.ic == 0.0 and cheap.account.penalty == pytest.approx(1.0)


def test_profit_is_what_is_left_of_the_fare():
    instance = Instance.of(figure_1(sla=0.0))
    alone = non_replicated(instance)
    deal = account(instance, alone, Pricing(fare=50000.0, cpu_second=0.01))
    assert deal.profit == pytest.approx(50000 - 0.01 * 2592000 * 0.96)


def test_a_core_is_a_minimal_set_that_cannot_be_full():
    instance = small(3)
    full = np.ones(instance.shape[1], dtype=bool)
    assert pack(instance, 1, full) is None
    found = list(cores(instance, 1, full, rng=np.random.default_rng(0)))
    assert found
    for core in found:
        assert pack(instance, 1, core) is None
        for i in np.flatnonzero(core):
            less = core.copy()
            less[i] = False
            assert pack(instance, 1, less) is not None


def test_every_pruning_is_counted_with_its_height():
    instance = small(3)
    solution = FTSearch(workers=1, bounds="paper").solve(instance)
    levels = instance.shape[0] * instance.shape[1]
    assert set(solution.prunings) == {"CPU", "COMPL", "COST", "DOM"}
    assert sum(cut.count for cut in solution.prunings.values()) < solution.tree_nodes
    assert all(0 <= cut.height < levels for cut in solution.prunings.values())
    assert solution.prunings["CPU"].count > 0 and solution.prunings["COMPL"].count > 0
    assert solution.first is not None and solution.last is not None
    assert solution.first.cost >= solution.last.cost == pytest.approx(solution.cost)
    assert solution.first.seconds <= solution.last.seconds <= solution.seconds


def test_duals_cut_the_paper_s_tree():
    instance = small(3)
    plain, sharp = (FTSearch(workers=1, bounds=bounds).solve(instance) for bounds in ("paper", "dual"))
    assert plain.cost == pytest.approx(sharp.cost)
    assert sharp.tree_nodes < plain.tree_nodes


@pytest.mark.parametrize("application", [3, 8, 12])
def test_one_process_and_two_find_the_same_optimum(application):
    ranges = Ranges(nodes=(3, 3), pes_per_node=(4, 4))
    instance = Instance.of(generate(np.random.default_rng(application), ranges=ranges), sla=0.5)
    one, two = Milp(workers=1).solve(instance), Milp(workers=2).solve(instance)
    assert one.outcome is two.outcome
    assert one.outcome.decided
    assert one.cost == (two.cost if two.cost is None else pytest.approx(two.cost, rel=1e-6))


def test_the_exact_solver_refuses_a_number_of_processes_it_has_no_use_for():
    with pytest.raises(HoldfastError, match="runs in 1 or 2 processes, got 3"):
        Milp(workers=3)


@pytest.mark.parametrize(
    ("solver", "module", "prepares"), [(Milp(), "milp", "milp.ready"), (FTSearch(workers=1), "ftsearch", "ftsearch._load")]
)
def test_what_a_search_needs_to_start_is_no_part_of_its_time(monkeypatch, solver, module, prepares):
    hour_s, late = 3600.0, []
    clock = SimpleNamespace(perf_counter=lambda: time.perf_counter() + hour_s * len(late), monotonic=time.monotonic)
    monkeypatch.setattr(f"holdfast.planning.laar.{module}.time", clock)
    monkeypatch.setattr(f"holdfast.planning.laar.{prepares}", lambda *_: late or late.append(True))
    solution = solver.solve(Instance.of(figure_1()))
    assert late and solution.outcome is Outcome.BST
    assert solution.seconds < hour_s


@pytest.mark.parametrize(
    ("pricing", "complete"),
    [
        (Pricing(penalty=1, penalty_basis="shortfall", failure_probability=0.0), False),
        (Pricing(penalty=1, penalty_basis="shortfall"), True),
        (Pricing(penalty=1e60, cpu_second=1e-60, penalty_basis="shortfall"), True),
        (Pricing(penalty=1e-60, cpu_second=1e60, penalty_basis="shortfall"), False),
    ],
)
def test_prices_as_far_apart_as_can_be_are_weighed(pricing, complete):
    instance = Instance.of(figure_1(sla=0.6))
    deal = negotiate(instance, pricing)
    assert deal.ic == pytest.approx(2 / 3 if complete else 0.0)
    assert deal.account.penalty == pytest.approx(0.0 if complete else pricing.penalty * pricing.failure_probability)
