"""What an outcome reports."""

import pytest

from holdfast.documents.fault_schedule import Schedule, ScheduledFault
from holdfast_papers.simulate import (
    SimulationSettings,
    simulate,
    steady_rates,
)

from .pipeline import crash, pipeline, run


def test_injected_faults_name_targets_already_dead():
    faults = (
        *crash("pe1.0", at_s=10).faults,
        ScheduledFault(at_s=12, kind="crash", what="pe", target=("pe1.0", "pe2")),
        ScheduledFault(at_s=20, kind="stall", what="orchestrator", for_s=1),
        *crash("pe2", at_s=1000).faults,
    )
    events = run(pipeline(replicated=True), Schedule(faults=faults)).injected_faults()
    assert [(event.at_s, event.about["what"], event.about["dead"]) for event in events] == [
        (10, "crash pe pe1.0", []),
        (12, "crash pe pe1.0 pe2", ["pe1.0"]),
        (20, "stall orchestrator", []),
    ]


def test_waiting_tuples_count_once_per_pe():
    stall = Schedule(faults=(ScheduledFault(at_s=20, kind="stall", what="pe", target=("pe1",), for_s=1.0),))
    alone, twice = (run(pipeline(replicated=replicated), stall, detect_s=5.0).ledger.waited.sum() for replicated in (False, True))
    assert alone == pytest.approx(twice)
    assert 4 * 0.5 <= alone * 0.05 < 4 * 0.7  # four tuples, half a second each, and the time until they are processed


def test_interval_is_a_whole_number_of_steps():
    deployment = pipeline(replicated=False)
    for step_s, interval_s in ((0.3, 0.9), (2.0, 2.0), (0.05, 1.0)):
        outcome = simulate(deployment, steady_rates(deployment.descriptor, "low"), settings=SimulationSettings(step_s=step_s))
        assert outcome.interval_s == pytest.approx(interval_s)
        assert outcome.output_tuples[20] / outcome.interval_s == pytest.approx(4)
