"""Fault schedules: random faults and repeated stalls are drawn by a seed, and errors in them are reported."""

import pytest

from holdfast.documents.document import check_document
from holdfast.documents.fault_schedule import LASTING, VICTIMS, Schedule, Stalls
from holdfast.errors import DocumentError

NODES, TASKS = ["n1", "n2"], ["a/0", "b/0", "c/0"]


def drawn(seed=1, **more):
    schedule = check_document({"seed": seed, "random": {"count": 40, "from_s": 5, "to_s": 30, **more}}, Schedule, thing="schedule")
    return schedule.drawn(tasks=TASKS, nodes=NODES)


def test_only_crashes_are_drawn_by_default():
    faults = drawn()
    assert {fault.kind for fault in faults} == {"crash"}
    assert {fault.what for fault in faults} == {"pe", "host", "node", "orchestrator"}
    assert all((fault.for_s, fault.by_s, fault.back_after_s) == (None, None, 1.0) for fault in faults)


def test_mix_pairs_each_kind_with_its_possible_targets():
    faults = drawn(kinds=["crash", "stall", "slow", "cut"], for_s=3, by_s=0.2)
    assert {fault.kind for fault in faults} == {"crash", "stall", "slow", "cut"}
    for fault in faults:
        assert fault.what in VICTIMS[fault.kind] and 5 <= fault.at_s <= 30
        assert set(fault.target) <= set(TASKS if fault.what == "pe" else NODES)
        assert len(fault.target) == (0 if fault.what == "orchestrator" else 1)
        assert fault.for_s == (3 if fault.kind in LASTING else None)
        assert fault.by_s == (0.2 if fault.kind == "slow" else None)
    check_document({"faults": [fault.model_dump() for fault in faults]}, Schedule, thing="schedule")


def test_seed_determines_the_drawn_faults():
    mix = {"kinds": ["crash", "stall", "hog"]}
    assert drawn(**mix) == drawn(**mix)
    assert drawn(**mix) != drawn(seed=2, **mix)


def test_fill_is_drawn_for_the_disk():
    assert {(fault.kind, fault.target) for fault in drawn(kinds=["fill"], what=["disk"])} == {("fill", ())}


@pytest.mark.parametrize(
    ("random", "message"),
    [
        ({"what": ["disk"]}, 'random.what[0]: wanted one of pe, host, node, controller, orchestrator, got "disk"'),
        ({"kinds": ["slow", "cut"], "what": ["pe"]}, "random.kinds[1]: a cut affects node, and 'what' has none of them"),
        ({"kinds": ["fill"]}, "random.kinds[0]: a fill affects disk, and 'what' has none of them"),
        ({"kinds": ["slow"], "what": ["pe", "node"]}, 'random.what[1]: wanted one of pe, got "node"'),
        ({"kinds": []}, "random.kinds: is empty; give the kinds of fault, such as crash"),
        ({"what": []}, "random.what: is empty; give what the faults may affect, such as pe"),
        ({"for_s": -1}, "random.for_s: wanted a number of at least 0"),
    ],
)
def test_impossible_random_faults_are_reported(random, message):
    with pytest.raises(DocumentError) as caught:
        drawn(**random)
    assert message in str(caught.value)


PES = [f"pe{number}/0" for number in range(10)]


def drawn_stalls(seed=1, **stalls):
    return Schedule(seed=seed, stalls=Stalls(**stalls)).drawn(tasks=["src/0", *PES], nodes=["n1", "n2", "n3"], pes=PES)


@pytest.mark.parametrize(("share", "count"), [(0.1, 1), (0.5, 5), (0.01, 1), (1.0, 10)])
def test_a_share_of_pes_stalls_periodically(share, count):
    faults = drawn_stalls(share=share, from_s=10, to_s=75)
    assert [(fault.at_s, fault.for_s) for fault in faults] == [(10, 8), (40, 8), (70, 8)]
    assert all((fault.kind, fault.what) == ("stall", "pe") for fault in faults)
    assert all(len(fault.target) == count and set(fault.target) <= set(PES) for fault in faults)


def test_share_of_stalled_pes_is_rounded_up():
    faults = Schedule(stalls=Stalls(share=0.5, to_s=0)).drawn(tasks=[], nodes=[], pes=PES[:5])
    assert len(faults[0].target) == 3


def test_seed_determines_the_stalled_pes():
    assert drawn_stalls(share=0.5, to_s=60) == drawn_stalls(share=0.5, to_s=60)
    assert drawn_stalls(share=0.5, to_s=60) != drawn_stalls(seed=2, share=0.5, to_s=60)


@pytest.mark.parametrize(("how", "kind", "what"), [("stop", "stall", "host"), ("hog", "hog", "node")])
def test_stopped_hosts_and_hogged_cpus_are_drawn_by_node(how, kind, what):
    (fault,) = drawn_stalls(share=0.5, to_s=0, how=how)
    assert (fault.kind, fault.what, len(fault.target)) == (kind, what, 2)


def test_all_errors_in_stalls_are_reported_together():
    with pytest.raises(DocumentError) as caught:
        check_document({"stalls": {"share": 1.5, "every_s": 5, "for_s": 8, "to_s": 60}}, Schedule, thing="schedule")
    assert "stalls.share: wanted a share above 0 and at most 1" in str(caught.value)
    assert "stalls.every_s: wanted more than for_s, 8: a stall ends before the next begins" in str(caught.value)
