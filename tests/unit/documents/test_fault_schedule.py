"""Fault schedules: what is drawn by a seed, and everything that can be wrong with what is to be drawn."""

import pytest

from holdfast.documents.document import check_document
from holdfast.documents.fault_schedule import LASTING, VICTIMS, Schedule
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
    ("random", "said"),
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
def test_impossible_random_faults_are_reported(random, said):
    with pytest.raises(DocumentError) as caught:
        drawn(**random)
    assert said in str(caught.value)
