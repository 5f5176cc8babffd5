"""Stalls that come again: who is struck, and when."""

import pytest

from holdfast.documents.document import check_document
from holdfast.documents.fault_schedule import Schedule, Stalls
from holdfast.errors import DocumentError

PES = [f"pe{number}/0" for number in range(10)]


def drawn(seed=1, **stalls):
    return Schedule(seed=seed, stalls=Stalls(**stalls)).drawn(tasks=["src/0", *PES], nodes=["n1", "n2", "n3"], pes=PES)


@pytest.mark.parametrize(("share", "struck"), [(0.1, 1), (0.5, 5), (0.01, 1), (1.0, 10)])
def test_every_30_s_a_share_of_the_pes_stalls_for_8_s(share, struck):
    faults = drawn(share=share, from_s=10, to_s=75)
    assert [(fault.at_s, fault.for_s) for fault in faults] == [(10, 8), (40, 8), (70, 8)]
    assert all((fault.kind, fault.what) == ("stall", "pe") for fault in faults)
    assert all(len(fault.target) == struck and set(fault.target) <= set(PES) for fault in faults)


def test_half_of_an_odd_number_is_the_larger_half():
    faults = Schedule(stalls=Stalls(share=0.5, to_s=0)).drawn(tasks=[], nodes=[], pes=PES[:5])
    assert len(faults[0].target) == 3


def test_the_same_seed_strikes_the_same_and_another_others():
    assert drawn(share=0.5, to_s=60) == drawn(share=0.5, to_s=60)
    assert drawn(share=0.5, to_s=60) != drawn(seed=2, share=0.5, to_s=60)


@pytest.mark.parametrize(("how", "kind", "what"), [("stop", "stall", "host"), ("hog", "hog", "node")])
def test_processes_and_cpus_are_struck_by_node(how, kind, what):
    (fault,) = drawn(share=0.5, to_s=0, how=how)
    assert (fault.kind, fault.what, len(fault.target)) == (kind, what, 2)


def test_what_is_wrong_with_stalls_is_told_at_once():
    with pytest.raises(DocumentError) as found:
        check_document({"stalls": {"share": 1.5, "every_s": 5, "for_s": 8, "to_s": 60}}, Schedule, thing="schedule")
    assert "stalls.share: wanted a share above 0 and at most 1" in str(found.value)
    assert "stalls.every_s: wanted more than for_s, 8: a stall ends before the next begins" in str(found.value)
