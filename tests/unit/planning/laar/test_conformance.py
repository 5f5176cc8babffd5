"""Conformance of every solver of LAAR's problem, and laws of completeness, on applications small enough to try all strategies."""

from itertools import product

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from holdfast.documents.descriptor import Descriptor, DescriptorNode, DescriptorSource, Pricing, PricingContract, Rate
from holdfast.planning.laar import (
    Exhaustive,
    Independent,
    Instance,
    Milp,
    NodeCrash,
    Outcome,
    Pessimistic,
    account,
    best_case,
    cost,
    failure_case,
    greedy,
    internal_completeness,
    most_complete,
    negotiate,
    node_load,
    place,
    violations,
)
from holdfast.planning.laar.examples import figure_1
from holdfast.planning.laar.solver import base_cost, spread
from holdfast_papers.laar.ftsearch import FTSearch
from holdfast_papers.laar.generator import Ranges, generate

SOLVERS = [
    pytest.param(FTSearch(workers=1), id="ft-search, one worker"),
    pytest.param(FTSearch(workers=3), id="ft-search, three workers"),
    pytest.param(FTSearch(workers=1, bounds="paper"), id="ft-search as in the paper"),
    pytest.param(Milp(), id="milp"),
    pytest.param(Milp(workers=1), id="milp, one process"),
]


@pytest.mark.parametrize("solver", [*SOLVERS, pytest.param(Exhaustive(), id="exhaustive")])
def test_every_strategy_is_complete_without_tuples(solver):
    descriptor = figure_1(sla=1.0)
    idle = descriptor.model_copy(
        update={
            "sources": {
                name: DescriptorSource(rates=(Rate(name="only", rate=0.0, probability=1.0),)) for name in descriptor.sources
            }
        }
    )
    solution = solver.solve(Instance.of(idle))
    assert (solution.outcome, solution.ic, solution.cost) == (Outcome.BST, 1.0, 0.0)


TINY = Ranges(nodes=(1, 2), pes_per_node=(2, 2))
unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=60)


@st.composite
def descriptors(draw, *, most_strategies=3000):
    """Applications of up to 3 replicas, 2 sources, 4 PEs, and nodes of different sizes."""
    replicas = draw(st.integers(1, 3))
    counts = [draw(st.integers(1, 2)) for _ in range(draw(st.integers(1, 2)))]
    most = 1
    while most < 4 and (2**replicas - 1) ** (int(np.prod(counts)) * (most + 1)) <= most_strategies:
        most += 1
    pes = draw(st.integers(1, most))
    names = [f"s{i}" for i in range(len(counts))] + [f"p{i}" for i in range(pes)]

    def inputs(i):
        chosen = draw(st.sets(st.sampled_from(names[: len(counts) + i]), min_size=1, max_size=3))
        return {n: {"selectivity": draw(st.floats(0.0, 2.0)), "cost": draw(st.floats(0.01, 0.2))} for n in sorted(chosen)}

    return Descriptor.model_validate(
        {
            "application": "small",
            "sources": {f"s{i}": {"rates": draw(rates(count))} for i, count in enumerate(counts)},
            "pes": {f"p{i}": {"inputs": inputs(i)} for i in range(pes)},
            "sinks": {"o": {"inputs": [f"p{pes - 1}"]}},
            "nodes": {f"h{i}": {"cores": draw(st.floats(0.5, 3.0))} for i in range(draw(st.integers(1, 3)))},
            "replicas": replicas,
            "contract": {"sla": {"internal_completeness": draw(st.sampled_from([0.0, 0.3, 0.5, 0.7, 0.9, 1.0]))}},
        }
    )


@st.composite
def rates(draw, count):
    if count == 1:
        return [{"name": "only", "rate": draw(st.floats(0.5, 10.0)), "probability": 1.0}]
    share, low = draw(st.floats(0.1, 0.9)), draw(st.floats(0.5, 5.0))
    return [
        {"name": "low", "rate": low, "probability": share},
        {"name": "high", "rate": low * draw(st.floats(1.1, 4.0)), "probability": 1.0 - share},
    ]


@st.composite
def strategies(draw, instance):
    """Any strategy with an active replica everywhere."""
    bits = draw(st.integers(0, 2 ** int(np.prod(instance.shape)) - 1))
    flat = np.array([bits >> n & 1 for n in range(int(np.prod(instance.shape)))], dtype=np.bool_)
    active = flat.reshape(instance.shape)
    active[:, :, 0] |= ~active.any(axis=2)
    return active


def agrees(solver, instance):
    reference, solution = Exhaustive().solve(instance), solver.solve(instance, seconds=60)
    assert solution.outcome is reference.outcome
    if reference.outcome is Outcome.NUL:
        assert solution.active is None and solution.bound == np.inf
        return
    assert not list(violations(instance, solution.active))
    assert solution.cost == pytest.approx(cost(instance, solution.active))
    assert solution.ic == pytest.approx(internal_completeness(instance, solution.active))
    assert abs(solution.cost - reference.cost) <= 1e-7 * base_cost(instance)
    assert solution.bound <= reference.cost * (1 + 1e-9)


@pytest.mark.parametrize("solver", SOLVERS)
@given(descriptors())
@unhurried
@example(figure_1(sla=0.6))
@example(figure_1(sla=0.7))
@example(figure_1(sla=1.0))
@example(figure_1(sla=2 / 3))
def test_brute_force_agrees_with_every_solver(solver, descriptor):
    agrees(solver, Instance.of(descriptor))


@pytest.mark.parametrize("solver", SOLVERS)
@given(st.integers(0, 10_000), st.sampled_from([0.5, 0.6, 0.7, 0.8, 0.9]))
@settings(deadline=None, max_examples=15)
def test_brute_force_agrees_on_generated_applications(solver, seed, sla):
    agrees(solver, Instance.of(generate(np.random.default_rng(seed), ranges=TINY), sla=sla))


@pytest.mark.parametrize("solver", SOLVERS)
def test_exactly_full_node_is_overloaded(solver):
    """Eq. 11 wants less than K: two PEs of 0.5 fill the node."""
    exact = figure_1(sla=0.0).model_copy(update={"nodes": {"node1": DescriptorNode(cores=0.8), "node2": DescriptorNode(cores=0.8)}})
    agrees(solver, Instance.of(exact))
    whole = Instance.of(exact, sla=0.6)
    agrees(solver, whole)
    assert solver.solve(whole).outcome is Outcome.NUL


@pytest.mark.parametrize("solver", SOLVERS)
def test_solver_out_of_time_returns_only_feasible_strategies(solver):
    for seed in range(5):
        instance = Instance.of(generate(np.random.default_rng(seed)))
        solution = solver.solve(instance, seconds=0.01)
        if solution.active is None:
            assert solution.outcome in (Outcome.NUL, Outcome.TMO)
        else:
            assert not list(violations(instance, solution.active))
            assert solution.bound <= solution.cost
            assert 0 <= solution.gap < 1


@pytest.mark.parametrize("solver", [FTSearch(workers=1), Milp()])
def test_same_instance_gives_same_strategy(solver):
    instance = Instance.of(generate(np.random.default_rng(8), ranges=Ranges(nodes=(3, 3), pes_per_node=(4, 4))), sla=0.6)
    first, again = (solver.solve(instance) for _ in range(2))
    assert first.outcome is Outcome.BST
    assert (first.active == again.active).all()


@given(st.data(), descriptors(), st.sampled_from([Pessimistic(), Independent(0.1), Independent(0.6), NodeCrash(), NodeCrash("h0")]))
@unhurried
def test_completeness_grows_with_active_replicas(data, descriptor, failure):
    instance = Instance.of(descriptor)
    active = data.draw(strategies(instance))
    more = active | data.draw(strategies(instance))
    below, above = (internal_completeness(instance, s, failure=failure) for s in (active, more))
    assert -1e-12 <= below <= above + 1e-12 <= 1 + 1e-9


@given(st.data(), descriptors(), st.sampled_from([Independent(0.0), NodeCrash()]))
@unhurried
def test_pessimistic_model_is_a_lower_bound(data, descriptor, failure):
    instance = Instance.of(descriptor)
    apart = all(len(set(nodes)) > 1 for nodes in instance.node_of.tolist())
    if isinstance(failure, NodeCrash) and not apart:
        return
    active = data.draw(strategies(instance))
    pessimistic = internal_completeness(instance, active)
    assert pessimistic <= internal_completeness(instance, active, failure=failure) + 1e-12


@given(st.data(), descriptors())
@unhurried
def test_spreading_lone_replicas_keeps_cost_and_completeness(data, descriptor):
    instance = Instance.of(descriptor)
    active = data.draw(strategies(instance))
    full = active.all(axis=2)
    active[~full] = active[~full].cumsum(axis=1).cumsum(axis=1) == 1  # the first active replica alone
    balanced = spread(instance, active)
    assert (balanced.all(axis=2) == full).all() and (balanced.sum(axis=2) == active.sum(axis=2)).all()
    assert cost(instance, balanced) == pytest.approx(cost(instance, active))
    fitted = (node_load(instance, active) <= instance.limit).all(axis=1)
    assert (node_load(instance, balanced)[fitted] <= instance.limit).all()


@given(descriptors())
@unhurried
def test_replicas_are_on_different_nodes_if_possible(descriptor):
    for nodes in place(descriptor).values():
        assert len(nodes) == descriptor.replicas
        assert len(set(nodes)) == min(descriptor.replicas, len(descriptor.nodes))


@given(descriptors())
@unhurried
def test_greedy_leaves_an_active_replica_of_each_pe(descriptor):
    assert greedy(Instance.of(descriptor)).any(axis=2).all()


@given(descriptors())
@unhurried
def test_most_complete_strategy_has_highest_feasible_ic(descriptor):
    instance = Instance.of(descriptor)
    best, proven = most_complete(instance)
    if best is None:
        assert Exhaustive().solve(instance.at(0.0)).outcome is Outcome.NUL
        return
    assert not list(violations(instance, best, sla=False))
    reached = internal_completeness(instance, best)
    assert reached <= proven + 1e-6
    assert Exhaustive().solve(instance.at(min(1.0, reached))).outcome is Outcome.BST
    if reached < 0.999:
        assert Exhaustive().solve(instance.at(reached + 1e-3)).outcome is Outcome.NUL


@given(descriptors(most_strategies=300), st.sampled_from(["breach", "shortfall"]), st.floats(0.0, 1e6), st.floats(0.0, 1.0))
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=40)
def test_negotiated_strategy_has_least_spending(descriptor, basis, penalty, p):
    pricing = Pricing(fare=1.0, cpu_second=0.01, penalty=penalty, penalty_basis=basis, failure_probability=p)
    instance = Instance.of(
        descriptor.model_copy(update={"contract": PricingContract(sla=descriptor.contract.sla, pricing=pricing)})
    )
    everything = list(all_feasible(instance))
    if not everything:
        return
    deal = negotiate(instance, pricing, solver=Milp())
    least = min(account(instance, active, pricing).spending for active in everything)
    assert deal.account.spending <= least * (1 + 1e-6) + 1e-6
    assert not list(violations(instance, deal.active, sla=False))


def all_feasible(instance):
    """Every strategy that fits the nodes, SLA or not."""
    sets = [np.array(bits, dtype=bool) for bits in product((False, True), repeat=instance.shape[2]) if any(bits)]
    for choice in product(sets, repeat=instance.shape[0] * instance.shape[1]):
        active = np.array(choice).reshape(instance.shape)
        if (node_load(instance, active) <= instance.limit).all():
            yield active


def test_best_case_counts_every_edge_into_a_pe():
    instance = Instance.of(figure_1())
    assert best_case(instance) == pytest.approx(2592000 * 2 * (0.8 * 4 + 0.2 * 8))
    assert failure_case(instance, np.ones(instance.shape, dtype=bool)) == pytest.approx(best_case(instance))
