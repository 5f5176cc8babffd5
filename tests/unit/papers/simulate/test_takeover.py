"""Takeovers: a secondary replaces a dead primary."""

import pytest

from holdfast.documents.fault_schedule import Schedule
from holdfast_papers.simulate import (
    Control,
    FailureHandling,
    SimulationSettings,
    simulate,
    steady_rates,
)

from .pipeline import crash, pipeline, run


def test_takeover_loses_only_tuples_before_detection():
    outcome = run(pipeline(replicated=True), crash("pe1.0"), detect_s=1.0)
    (taken,) = outcome.recoveries()
    assert (taken.pe, taken.by, taken.failed_s, taken.detected_s) == ("pe1", "takeover", 20.0, 21.0)
    assert outcome.output("sink").sum() == pytest.approx(4 * 59, abs=0.5)


@pytest.mark.parametrize(("at_s", "since_s"), [(20.0, 7.0), (22.0, 9.0), (24.0, 11.0), (25.0, 7.0)])
def test_takeover_resends_output_since_last_synchronisation(at_s, since_s):
    outcome = run(pipeline(replicated=True), crash("pe1.0", at_s=at_s), detect_s=7.0, scheme="checkpoint", sync_s=5.0, resend_s=0.1)
    (taken,) = outcome.recoveries()
    # Four tuples per second since the last synchronisation, including the detection time.
    assert taken.latency_s == pytest.approx(0.1 * 4 * since_s, abs=0.11)


def test_takeover_loses_nothing_if_outputs_are_kept():
    outcome = run(pipeline(replicated=True), crash("pe1.0"), detect_s=1.0, scheme="checkpoint")
    assert outcome.output("sink").sum() == pytest.approx(4 * 60)


def test_recovery_latency_counts_from_its_own_failure():
    faults = (*crash("pe1.1", at_s=5).faults, *crash("pe1.0", at_s=45).faults)  # the first fault hits an idle replica
    settings = SimulationSettings(
        drain_s=30, control=Control(replace_dead=True), failure_handling=FailureHandling(scheme="checkpoint", detect_s=1.0)
    )
    deployment = pipeline(replicated=False)
    outcome = simulate(
        deployment, steady_rates(deployment.descriptor, "low", seconds=60), schedule=Schedule(faults=faults), settings=settings
    )
    (back,) = outcome.recoveries()
    assert (back.pe, back.failed_s, back.detected_s) == ("pe1", 45, 46)
    assert back.latency_s < 5
