"""Output fidelity and its kin against the paper's equations written out substream by substream."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.documents.topology import TaskOperator, Topology
from holdfast.errors import DocumentError, HoldfastError
from holdfast.planning.ppa import Measure, internal_completeness, measured_criticality, output_fidelity
from holdfast_papers.ppa.generator import Ranges, generate

topologies = st.builds(
    lambda seed, kind, zipf, joins, forks: generate(
        np.random.default_rng(seed),
        ranges=Ranges(operators=(1, 6), parallelism=(1, 6), kind=kind, zipf=zipf, joins=joins, forks=forks),
    ),
    seed=st.integers(0, 10**6),
    kind=st.sampled_from(["general", "structured", "full"]),
    zipf=st.sampled_from([0.0, 0.1, 1.0]),
    joins=st.sampled_from([0.0, 0.5, 1.0]),
    forks=st.sampled_from([0.0, 0.5]),
)


def figure_2(*, correlated: bool) -> Topology:
    return Topology(
        topology="figure 2",
        operators={
            "o1": TaskOperator(parallelism=2, rates=(1.0, 2.0)),
            "o2": TaskOperator(parallelism=2, rates=(3.0, 2.0)),
            "o3": TaskOperator(inputs={"o1": "full", "o2": "full"}, correlated=correlated),
        },
    )


def losses(topology: Topology, failed: set[str], *, joins: bool = True) -> dict[str, float]:
    """IL of every task's output: Eq. 1 to 3 as the paper writes them, one substream at a time."""
    loss: dict[str, float] = {}
    for name in topology.order:
        operator = topology.operators[name]
        streams: dict[str, dict[str, list[tuple[float, float]]]] = {}
        for up in operator.inputs:
            for a, b, rate in topology.substreams(up, name):
                streams.setdefault(b, {}).setdefault(up, []).append((rate, loss[a]))
        for i in range(operator.parallelism):
            task = f"{name}/{i}"
            inputs = [
                (sum(r for r, _ in parts), sum(r * il for r, il in parts) / sum(r for r, _ in parts))
                for parts in streams.get(task, {}).values()
            ]
            if task in failed:
                loss[task] = 1.0
            elif not inputs:
                loss[task] = 0.0
            elif operator.correlated and joins:
                loss[task] = 1 - float(np.prod([1 - il for _, il in inputs]))
            else:
                loss[task] = sum(r * il for r, il in inputs) / sum(r for r, _ in inputs)
    return loss


def chosen(topology: Topology, seed: int, share: float = 0.6) -> set[int]:
    rng = np.random.default_rng(seed)
    return {i for i in range(len(topology.tasks)) if rng.random() < share}


@pytest.mark.parametrize(("correlated", "loss"), [(True, 2 / 5), (False, 1 / 4)])
def test_figure_2_has_the_papers_losses(correlated, loss):
    t = figure_2(correlated=correlated)
    alive = {t.number[task] for task in t.tasks if task != "o2/1"}
    assert 1 - output_fidelity(t).of(alive) == pytest.approx(loss, abs=1e-12)


@given(topologies, st.integers(0, 10**6))
def test_output_fidelity_follows_the_equations(t, seed):
    alive = chosen(t, seed)
    il = losses(t, {t.tasks[i] for i in range(len(t.tasks)) if i not in alive})
    sink = [task for at in t.sinks for task in t.tasks[t.spans[at]]]
    rates = {task: float(t.rates[t.number[task]]) for task in sink}
    wanted = 1 - sum(rates[task] * il[task] for task in sink) / sum(rates.values())
    assert output_fidelity(t).of(alive) == pytest.approx(wanted, abs=1e-9)


@given(topologies, st.integers(0, 10**6))
def test_internal_completeness_is_the_share_of_tuples_still_processed(t, seed):
    alive = chosen(t, seed)
    il = losses(t, {t.tasks[i] for i in range(len(t.tasks)) if i not in alive}, joins=False)
    processed = sum(float(t.input_rates[i]) * (1 - il[task]) for i, task in enumerate(t.tasks))
    assert internal_completeness(t).of(alive) == pytest.approx(processed / float(t.input_rates.sum()), abs=1e-9)


def measures(t: Topology) -> list[Measure]:
    impact = {name: 1.0 + i for i, name in enumerate(sorted(t.operators))}
    return [output_fidelity(t), internal_completeness(t), measured_criticality(t, impact)]


@given(topologies, st.integers(0, 10**6))
def test_every_measure_is_monotone_from_0_to_1(t, seed):
    for m in measures(t):
        fewer = chosen(t, seed, 0.5)
        more = fewer | chosen(t, seed + 1, 0.5)
        assert m.of(fewer) <= m.of(more) + 1e-12
        assert m.of(()) == 0
        assert m.of(range(len(t.tasks))) == pytest.approx(1)


@given(topologies, st.integers(0, 10**6))
def test_batched_values_equal_single_values(t, seed):
    m = output_fidelity(t)
    sets = [chosen(t, seed + i) for i in range(5)]
    matrix = np.zeros((len(t.tasks), len(sets)), dtype=bool)
    for column, tasks in enumerate(sets):
        matrix[sorted(tasks), column] = True
    assert m.values(matrix).tolist() == pytest.approx([m.of(tasks) for tasks in sets])


@settings(max_examples=50)
@given(topologies, st.integers(0, 10**6))
def test_slopes_are_derivatives(t, seed):
    for m in measures(t):
        alive = np.random.default_rng(seed).uniform(0.1, 0.9, len(t.tasks))
        seen, worth = m.slopes(alive)
        step = 1e-6
        for i in range(len(t.tasks)):
            ahead, behind = alive.copy(), alive.copy()
            ahead[i] += step
            behind[i] -= step
            a, b = m.values(np.array([ahead, behind]).T)
            assert (a - b) / (2 * step) == pytest.approx(seen[i] * worth[i], abs=1e-6)


def test_task_without_rate_loses_only_itself():
    t = Topology(
        topology="idle",
        operators={
            "a": TaskOperator(parallelism=2, rates=(0.0, 0.0)),
            "b": TaskOperator(parallelism=2, inputs={"a": "one-to-one"}),
        },
    )
    assert output_fidelity(t).of({0, 2}) == 0.5


def test_invalid_weights_are_an_error():
    t = figure_2(correlated=False)
    with pytest.raises(HoldfastError, match="wants one weight per task, with sum 1; got sum 2"):
        Measure("odd", t, np.array([2.0, 0, 0, 0, 0]))


def test_criticality_requires_exactly_the_operators():
    with pytest.raises(DocumentError) as caught:
        measured_criticality(figure_2(correlated=False), {"o1": -1.0, "o9": 2.0})
    assert list(caught.value.errors) == [
        "o2: gives no quality impact",
        "o3: gives no quality impact",
        "o9: is not an operator of topology 'figure 2'; operators are: o1, o2, o3",
        "o1: wanted a quality impact of at least 0, got -1",
    ]
    with pytest.raises(DocumentError, match="all impacts are 0"):
        measured_criticality(figure_2(correlated=False), {"o1": 0.0, "o2": 0.0, "o3": 0.0})


def test_critical_operator_gets_the_replicas():
    t = Topology(
        topology="two ends",
        operators={
            "read": TaskOperator(parallelism=2, rate=1.0),
            "left": TaskOperator(parallelism=2, inputs={"read": "one-to-one"}),
            "right": TaskOperator(parallelism=2, inputs={"read": "one-to-one"}),
        },
    )
    by_impact = measured_criticality(t, {"read": 0.0, "left": 0.1, "right": 0.9})
    plan = {t.number[task] for task in ("read/0", "read/1", "right/0", "right/1")}
    assert by_impact.of(plan) == pytest.approx(0.9)


@pytest.mark.parametrize("measure", [output_fidelity, internal_completeness])
def test_overflowing_rates_are_an_error(measure):
    operators = {
        "a": TaskOperator(parallelism=2, rate=1e308),
        "b": TaskOperator(selectivity=1e308, inputs={"a": "full"}),
        "c": TaskOperator(inputs={"b": "full"}),
    }
    with pytest.raises(HoldfastError, match="rates of topology 't' grow beyond what can be counted"):
        measure(Topology(topology="t", operators=operators))
