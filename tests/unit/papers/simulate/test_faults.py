"""Fault schedules of a simulation: targets, random faults and errors."""

import numpy as np
import pytest

from holdfast.documents.fault_schedule import RandomFaults, Schedule, ScheduledFault
from holdfast.errors import DocumentError
from holdfast_papers.ppa.recovery_simulation import deployed, figure_6
from holdfast_papers.simulate.faults import FaultTargets, drawn_faults

from .pipeline import pipeline, run

TARGETS = FaultTargets(("pe1", "pe2"), 2, ("node1", "node2"), (None, None), (1.0, 1.0), np.array([[0, 1], [1, 0]]))


def drawn(*kinds, count=30):
    return drawn_faults(Schedule(seed=3, random=RandomFaults(count=count, to_s=20, kinds=kinds)), TARGETS)


def test_random_faults_hit_pes_and_nodes():
    faults = drawn("crash", "stall", "slow", "hog")
    assert {fault.kind for fault in faults} == {"crash", "stall", "slow", "hog"}
    assert {target for fault in faults for target in fault.target} == {"pe1", "pe2", "node1", "node2"}


@pytest.mark.parametrize("count", [0, 30])
def test_random_faults_that_are_not_modelled_are_an_error(count):
    with pytest.raises(
        DocumentError, match="random may draw a cut; a simulation has no messages: give a crash, stall, slow or hog"
    ):
        drawn("crash", "cut", count=count)


def test_all_errors_of_a_schedule_are_reported():
    faults = (
        ScheduledFault(at_s=1, kind="crash", what="pe", target=("vwap",)),
        ScheduledFault(at_s=1, kind="crash", what="node", target=("rack=r9",)),
        ScheduledFault(at_s=1, kind="crash", what="pe", target=("source/0", "sink.1", "pe1/3", "pe1.2")),
        ScheduledFault(at_s=1, kind="cut", what="node", target=("node1",), for_s=3),
        ScheduledFault(at_s=1, kind="fill", what="disk", for_s=3),
    )
    with pytest.raises(DocumentError) as error:
        run(pipeline(replicated=False), Schedule(faults=faults))
    text = str(error.value)
    assert "targets 'vwap', which is not a PE of the descriptor; there are: pe1, pe2" in text
    assert "targets 'rack=r9', which is not a node or rack of the descriptor; there are: node1, node2" in text
    assert "targets 'source/0'; sources and sinks do not fail in a simulation: leave the fault out" in text
    assert "targets 'sink.1'; sources and sinks do not fail in a simulation: leave the fault out" in text
    assert "targets 'pe1/3', which is not a PE of the descriptor" in text
    assert "targets 'pe1.2', which is not a PE of the descriptor" in text
    assert "is a cut of a node; a simulation has no messages: give a crash, stall, slow or hog" in text
    assert "is a fill of a disk; a simulation has no disks: give a crash, stall, slow or hog" in text


def test_target_names_pe_task_or_replica():
    descriptor = figure_6(1000.0)
    targets = deployed(descriptor, descriptor.pes).fault_targets
    first = 2 * targets.pes.index("O1/3")
    assert targets.of_pe("O1/3") == [first, first + 1]
    assert targets.of_pe("O1/3.1") == targets.of_pe("O1/3/0.1") == [first + 1]
    assert targets.of_pe("O1") is None
