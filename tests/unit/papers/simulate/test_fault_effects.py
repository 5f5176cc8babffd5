"""Effects of stalls, slow PEs, hogs, racks and a dead orchestrator."""

import pytest

from holdfast.documents.fault_schedule import Schedule, ScheduledFault
from holdfast.planning.laar import Instance
from holdfast_papers.simulate import (
    Control,
    Deployment,
    FailureHandling,
    SimulationSettings,
    simulate,
    steady_rates,
)

from .pipeline import crash, pipeline, run


def test_detected_stall_ends_with_restored_event():
    stall = ScheduledFault(at_s=5, kind="stall", what="pe", target=("pe1.1",), for_s=3.0)
    settings = SimulationSettings(
        drain_s=30, control=Control(replace_dead=True), failure_handling=FailureHandling(scheme="checkpoint", detect_s=1.0)
    )
    deployment = pipeline(replicated=False)
    schedule = Schedule(faults=(stall, *crash("pe1.0", at_s=45).faults))
    outcome = simulate(deployment, steady_rates(deployment.descriptor, "low", seconds=60), schedule=schedule, settings=settings)
    events = [(event.at_s, event.kind) for event in outcome.history() if event.about["replica"] == 1]
    assert events[:2] == [(6.0, "detected"), (8.0, "restored")]
    assert [back.detected_s for back in outcome.recoveries()] == [46]


def test_nothing_is_detected_while_the_orchestrator_is_dead():
    faults = (
        ScheduledFault(at_s=10, kind="crash", what="orchestrator", back_after_s=20),
        ScheduledFault(at_s=15, kind="crash", what="pe", target=("pe1.0",)),
    )
    outcome = run(pipeline(replicated=True), Schedule(faults=faults))
    (taken,) = outcome.recoveries()
    assert taken.detected_s == pytest.approx(30)


def test_stalled_replica_continues_where_it_was():
    stall = ScheduledFault(at_s=20, kind="stall", what="pe", target=("pe1",), for_s=1.0)
    outcome = run(pipeline(replicated=False), Schedule(faults=(stall,)))
    assert outcome.output("sink").sum() == pytest.approx(4 * 60)


def test_overlapping_stalls_end_with_the_last():
    faults = tuple(ScheduledFault(at_s=at, kind="stall", what="pe", target=("pe1",), for_s=5) for at in (20, 24))
    outcome = run(pipeline(replicated=False), Schedule(faults=faults), scheme="checkpoint")
    output = outcome.output("sink")
    assert output[21:29].sum() == 0
    assert output[29:].sum() == pytest.approx(4 * 60 - output[:21].sum())


def test_restart_ends_slowness():
    slow = ScheduledFault(at_s=10, kind="slow", what="pe", target=("pe1",), for_s=40, by_s=9.0)
    killed = crash("pe1", at_s=20).faults
    while_dead = ScheduledFault(at_s=21, kind="slow", what="pe", target=("pe1",), for_s=40, by_s=9.0)
    outcome = run(pipeline(replicated=False), Schedule(faults=(slow, *killed, while_dead)), scheme="checkpoint")
    assert outcome.output("sink")[12:20].mean() == pytest.approx(1, abs=0.1)
    assert outcome.output("sink")[45:50].mean() == pytest.approx(4)


def test_killed_orchestrator_restarts_in_any_case():
    faults = (
        ScheduledFault(at_s=10, kind="crash", what="orchestrator"),
        ScheduledFault(at_s=20, kind="crash", what="pe", target=("pe1.0",)),
    )
    (taken,) = run(pipeline(replicated=True), Schedule(faults=faults), detect_s=1.0).recoveries()
    assert taken.detected_s == pytest.approx(21)


def test_slow_pe_falls_behind():
    slow = ScheduledFault(at_s=0, kind="slow", what="pe", target=("pe1",), for_s=60, by_s=9.0)
    outcome = run(pipeline(replicated=False), Schedule(faults=(slow,)))
    assert outcome.dropped > 0  # a tenth of a core processes one tuple per second, and four arrive


def test_hogged_node_falls_behind():
    hog = ScheduledFault(at_s=10, kind="hog", what="node", target=("node1",), for_s=20)
    deployment = pipeline(replicated=False)
    descriptor = deployment.descriptor
    tight = descriptor.model_copy(update={"nodes": {h: x.model_copy(update={"cores": 1.0}) for h, x in descriptor.nodes.items()}})
    lone = Deployment.planned(tight, Instance.of(tight), deployment.active)
    outcome = run(lone, Schedule(faults=(hog,)), scheme="checkpoint")
    # Two PEs need 0.4 of a core each. Two hogs use all CPU that they get, so each of the four gets a quarter.
    assert outcome.ledger.cpu[15, 0] == pytest.approx(0.5)
    assert outcome.ledger.queued[29].sum() > 10
    assert outcome.output("sink").sum() == pytest.approx(4 * 60)


def test_rack_fails_as_a_whole():
    deployment = pipeline(replicated=False)
    nodes = {h: x.model_copy(update={"rack": "r1"}) for h, x in deployment.descriptor.nodes.items()}
    descriptor = deployment.descriptor.model_copy(update={"nodes": nodes})
    instance = Instance.of(descriptor)
    racked = Deployment.planned(descriptor, instance, deployment.active)
    outcome = run(racked, crash("rack=r1", what="node"))
    assert outcome.output("sink").sum() == pytest.approx(4 * 20, abs=0.5)
