"""Simulations in which PEs process whole epochs."""

import pytest

from holdfast.documents.fault_schedule import Schedule
from holdfast.errors import CompoundError, HoldfastError
from holdfast_papers.simulate import (
    FailureHandling,
    SimulationSettings,
    simulate,
    steady_rates,
)

from .pipeline import crash, pipeline


def test_late_pe_processes_missed_epochs_as_one_job():
    deployment = pipeline(replicated=False)
    trace = steady_rates(deployment.descriptor, "low", seconds=60)
    settings = SimulationSettings(
        drain_s=30,
        epoch_s=1.0,
        job_s=0.3,
        queue_s=float("inf"),
        failure_handling=FailureHandling(scheme="checkpoint", detect_s=3.0, restart_s=5.0),
    )
    calm, faulty = (simulate(deployment, trace, schedule=s, settings=settings) for s in (Schedule(), crash("pe2", at_s=20.5)))
    assert faulty.output("sink").sum() == pytest.approx(4 * 60) == pytest.approx(calm.output("sink").sum())
    (back,) = faulty.recoveries()
    assert (back.by, back.detected_s) == ("checkpoint", 23.5)
    # One job replays the tuples since the checkpoint: 0.3 s, plus 0.1 s for each of the 4 tuples of at most 19 epochs.
    assert 5.0 < back.latency_s < 5.0 + 0.3 + 0.1 * 4 * 19 + 0.2
    # Eight epochs were processed within other jobs.
    saved = calm.cpu_s.sum() + 0.1 * faulty.state.replayed.sum() - faulty.cpu_s.sum()
    assert saved == pytest.approx(0.3 * 8, abs=0.7)


def test_output_leaves_when_the_whole_job_is_done():
    deployment = pipeline(replicated=True)
    settings = SimulationSettings(epoch_s=2.0, job_s=0.0, interval_s=0.05, failure_handling=FailureHandling(scheme="checkpoint"))
    outcome = simulate(deployment, steady_rates(deployment.descriptor, "low", seconds=20), settings=settings)
    output = outcome.ledger.output[:, 1]
    assert sorted(set(output.round(6))) == [0.0, 8.0]  # an epoch of two seconds leaves at once: 2 * 4 tuples


def test_epochs_require_checkpoint_scheme_and_known_pes():
    with pytest.raises(CompoundError, match="epoch_s wants the scheme 'checkpoint' for every PE, as an epoch log keeps"):
        SimulationSettings(epoch_s=1.0)
    with pytest.raises(CompoundError, match=r"epoch_s wants at least a step of 0.05 s, got 0.01"):
        SimulationSettings(epoch_s=0.01, failure_handling=FailureHandling(scheme="checkpoint"))
    deployment = pipeline(replicated=False)
    with pytest.raises(HoldfastError, match="the settings have a job cost for PE 'pe9', which the descriptor does not have"):
        deployment.cluster_arrays(SimulationSettings(jobs={"pe9": 1.0}))


def test_trace_shorter_than_an_epoch_is_an_error():
    deployment = pipeline(replicated=False)
    settings = SimulationSettings(epoch_s=90, drain_s=5, failure_handling=FailureHandling(scheme="checkpoint"))
    with pytest.raises(
        HoldfastError, match=r"a trace of 60 s and 5 s after it have no whole epoch of 90 s; give a shorter --epoch"
    ):
        simulate(deployment, steady_rates(deployment.descriptor, "low"), settings=settings)
