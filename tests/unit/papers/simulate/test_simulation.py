"""Length of a simulation and its queues."""

import pytest

from holdfast.documents.fault_schedule import Schedule, ScheduledFault
from holdfast.errors import HoldfastError
from holdfast_papers.simulate import (
    SimulationSettings,
    simulate,
    steady_rates,
)

from .pipeline import crash, pipeline, run


def test_trace_shorter_than_a_step_is_an_error():
    deployment = pipeline(replicated=False)
    with pytest.raises(HoldfastError, match=r"a trace of 10 s and 0 s after it have 0 steps of 100 s, wanted 1 to 50,000,000"):
        simulate(deployment, steady_rates(deployment.descriptor, "low", seconds=10), settings=SimulationSettings(step_s=100))


def test_faults_and_detection_beyond_the_run_never_happen():
    late = ScheduledFault(at_s=1e300, kind="crash", what="pe", target=("pe1",))
    outcome = run(pipeline(replicated=True), Schedule(faults=(*crash("pe1.0").faults, late)), detect_s=1e300)
    assert (outcome.recoveries(), len(outcome.injected_faults())) == ([], 1)


def test_unbounded_queue_drops_nothing():
    slow = ScheduledFault(at_s=0, kind="slow", what="pe", target=("pe1",), for_s=60, by_s=9.0)
    deployment = pipeline(replicated=False)
    trace = steady_rates(deployment.descriptor, "low", seconds=60)
    outcome = simulate(deployment, trace, schedule=Schedule(faults=(slow,)), settings=SimulationSettings(queue_s=float("inf")))
    assert outcome.dropped == 0
    assert outcome.ledger.queued[-1].sum() > 100
