"""Faults that a schedule draws, as a simulation takes them: those that it has no meaning for are refused whatever the seed."""

import numpy as np
import pytest

from holdfast.documents.fault_schedule import RandomFaults, Schedule
from holdfast.errors import DocumentError
from holdfast.simulate.faults import Places, drawn_faults

PLACES = Places(("pe1", "pe2"), 2, ("node1", "node2"), (None, None), (1.0, 1.0), np.array([[0, 1], [1, 0]]))


def drawn(*kinds, count=30):
    return drawn_faults(Schedule(seed=3, random=RandomFaults(count=count, to_s=20, kinds=kinds)), PLACES)


def test_a_mix_of_what_a_simulation_knows_is_drawn_among_its_pes_and_nodes():
    faults = drawn("crash", "stall", "slow", "hog")
    assert {fault.kind for fault in faults} == {"crash", "stall", "slow", "hog"}
    assert {target for fault in faults for target in fault.target} == {"pe1", "pe2", "node1", "node2"}


@pytest.mark.parametrize("count", [0, 30])
def test_what_a_simulation_lacks_is_not_drawn(count):
    with pytest.raises(
        DocumentError, match="random may draw a cut; a simulation has no messages: give a crash, stall, slow or hog"
    ):
        drawn("crash", "cut", count=count)
