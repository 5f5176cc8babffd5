"""Recovery of crashed replicas, scheme by scheme."""

import numpy as np
import pytest

from holdfast.documents.fault_schedule import Schedule
from holdfast.errors import HoldfastError
from holdfast_papers.simulate import (
    Control,
    FailureHandling,
    SimulationSettings,
    simulate,
    steady_rates,
)

from .pipeline import crash, pipeline, run


def test_sources_replay_whole_window_after_long_outage():
    def replayed(detect_s: float) -> float:
        lost = crash("node1", what="node", at_s=40)
        return float(run(pipeline(replicated=False), lost, scheme="source", window_s=5.0, detect_s=detect_s).state.replayed.sum())

    # Twenty tuples through both PEs.
    assert replayed(15.0) == pytest.approx(replayed(1.0), rel=1e-3) == pytest.approx(2 * 4 * 5, rel=1e-3)


def test_loaded_state_is_that_before_upstream_died():
    def used(load_tuple_s: float, detect_s: float) -> float:
        lost = crash("node1", what="node", at_s=40)
        handling = {"scheme": "checkpoint", "window_s": 5.0, "load_tuple_s": load_tuple_s, "detect_s": detect_s}
        return float(run(pipeline(replicated=False), lost, **handling).cpu_s.sum())

    for detect_s in (1.0, 15.0):
        assert used(0.01, detect_s) - used(0.0, detect_s) == pytest.approx(0.01 * 2 * 4 * 5, abs=0.01)


@pytest.mark.parametrize("replicated", [False, True])
def test_restart_takes_cpu_time_of_the_node(replicated):
    def after(restart_cost_s: float):
        handling = {"scheme": "checkpoint", "restart_cost_s": restart_cost_s}
        return run(pipeline(replicated=replicated), crash("node1", what="node"), **handling)

    free, costly = after(0.0), after(3.0)
    assert costly.cpu_s.sum() - free.cpu_s.sum() == pytest.approx(2 * 3.0)  # node1 had one replica of each PE
    assert costly.output("sink").sum() == pytest.approx(free.output("sink").sum())
    for cheap, dear in zip(free.recoveries(), costly.recoveries(), strict=True):
        assert dear.latency_s - cheap.latency_s == pytest.approx(0.0 if replicated else 2 * 3.0 / 4, abs=0.1)


def test_returning_lone_replica_misses_tuples_of_the_outage():
    outcome = run(pipeline(replicated=False), crash("node1", what="node", back_after_s=16), detect_s=1.0)
    missing = 60 * 4 - outcome.output("sink").sum()
    assert missing == pytest.approx(4 * 16.5, abs=1.0)  # including half a second of synchronisation
    assert outcome.internal_completeness == pytest.approx(1 - 16.5 / 60, abs=0.02)


def test_no_output_after_permanent_loss():
    outcome = run(pipeline(replicated=False), crash("pe2"))
    assert outcome.output("sink").sum() == pytest.approx(4 * 20, abs=0.5)


@pytest.mark.parametrize("scheme", ["checkpoint", "source"])
def test_replay_loses_nothing_and_takes_longer_for_more_tuples(scheme):
    def latency(**handling: float) -> float:
        outcome = run(pipeline(replicated=False), crash("pe2"), scheme=scheme, **handling)
        (back,) = outcome.recoveries()
        assert back.by == scheme
        assert outcome.output("sink").sum() == pytest.approx(4 * 60)
        return back.latency_s

    if scheme == "checkpoint":
        assert latency(checkpoint_s=2) < latency(checkpoint_s=17)
    else:
        assert latency(window_s=5) < latency(window_s=20)


def test_correlated_failure_takes_longer_than_single_one():
    alone = run(pipeline(replicated=False), crash("pe2"), scheme="checkpoint", checkpoint_s=15)
    together = run(pipeline(replicated=False), crash("node1", what="node"), scheme="checkpoint", checkpoint_s=15)
    last = max(back.recovered_s for back in together.recoveries())
    assert last >= alone.recoveries()[0].recovered_s
    assert len(together.recoveries()) == 2
    assert together.output("sink").sum() == pytest.approx(4 * 60)


def test_pe_waits_for_upstream_with_older_checkpoint():
    outcome = run(pipeline(replicated=False), crash("node1", what="node", at_s=25), scheme="checkpoint", checkpoint_s=15)
    back = {recovery.pe: recovery.recovered_s for recovery in outcome.recoveries()}
    assert back["pe1"] > 25 + 1 + 2 + 0.9  # detection, restart, and the replay of ten seconds of tuples on four cores
    assert back["pe2"] >= back["pe1"]


def test_without_spares_replicas_return_with_their_node():
    lost = crash("node1", what="node", back_after_s=30)
    deployment = pipeline(replicated=False)
    trace = steady_rates(deployment.descriptor, "low", seconds=60)
    handling = FailureHandling(scheme="checkpoint", detect_s=1.0, restart_s=2.0, spares=False)

    def output(schedule: Schedule, **control: object) -> np.ndarray:
        settings = SimulationSettings(drain_s=30, failure_handling=handling, control=Control(**control))
        outcome = simulate(deployment, trace, schedule=schedule, settings=settings)
        assert outcome.output("sink").sum() == pytest.approx(4 * 60)  # inputs are kept
        return outcome.output("sink")

    waits, goes_on = output(lost), output(lost, replace_dead=True, replace_s=4.0)
    assert waits[22:49].sum() == 0
    assert goes_on[22:24].sum() == 0
    assert goes_on[27:49].mean() > 3.99
    # A PE that crashes is restarted, because its node still works.
    assert output(crash("pe1"))[27:49].mean() > 3.99


def test_replica_with_two_faults_returns_after_both():
    deployment = pipeline(replicated=False)
    both = (*crash("node1", what="node", at_s=10, back_after_s=30).faults, *crash("pe1", at_s=20, back_after_s=5).faults)
    outcome = run(deployment, Schedule(faults=both))
    wanted = {"pe": "pe1", "replica": 0}
    (restored,) = [event.at_s for event in outcome.history() if event.kind == "restored" and wanted.items() <= event.about.items()]
    assert restored == 40


def test_pe_crash_around_node_loss_ends_with_the_node():
    node = crash("node1", what="node", at_s=12, back_after_s=20).faults
    for at_s in (10, 20):
        both = Schedule(faults=(*node, *crash("pe1.0", at_s=at_s).faults))
        outcome = run(pipeline(replicated=False), both, scheme="checkpoint", spares=False, detect_s=5.0)
        wanted = {"pe": "pe1", "replica": 0}
        restored = [e.at_s for e in outcome.history() if e.kind == "restored" and wanted.items() <= e.about.items()]
        assert restored == [32]
        assert outcome.output("sink").sum() == pytest.approx(4 * 60)


def test_scheme_for_unknown_pe_is_an_error():
    with pytest.raises(HoldfastError, match="the failure handling has a scheme for PE 'vwap', which the descriptor does not have"):
        run(pipeline(replicated=False), Schedule(), schemes={"vwap": "checkpoint"})
