"""The real runs of the tree: the plans, the measurements from a history, and the findings."""

import json

import pytest

from holdfast.documents import HistoryEvent
from holdfast.log import Timeline
from holdfast.trial import JobRun
from holdfast_papers.ppa import tree_runs
from holdfast_papers.ppa.tree_findings import findings
from holdfast_papers.ppa.tree_runs import measure, planned


@pytest.fixture
def application(tmp_path):
    path = tmp_path / "tree.py"
    path.write_text(tree_runs.APPLICATION.format(epoch_s=2.0, window=5, folder=str(tmp_path)))
    return path


def test_half_of_the_tasks_promises_half_of_the_output(application):
    assert (planned(application, 0.0).tasks, planned(application, 0.0).quality) == ((), 0.0)
    half = planned(application, 0.5)
    assert len(half.tasks) <= 8 and half.quality == pytest.approx(0.5)
    assert planned(application, 1.0).quality == pytest.approx(1.0)


def output(at_s, epoch, quality, *, rows=2, kind="first"):
    return HistoryEvent(at_s, "n2", "output", {"sink": "out", "epoch": epoch, "as": kind, "quality": quality, "rows": rows})


def test_standby_joins_only_when_every_replica_has_a_node(tmp_path, monkeypatch):
    started = []
    cluster = tree_runs.StandbyCluster(tmp_path)
    monkeypatch.setattr(cluster, "start_node", started.append)
    for replicas in (None, [], [{"node": ""}], [{"node": "n1"}], [{"node": "n1"}]):
        cluster.start_standby({"tasks": [] if replicas is None else [{"replicas": replicas}]})
        assert started == (["n3"] if replicas == [{"node": "n1"}] else [])


def test_times_count_from_the_kill_and_accuracy_compares_the_versions(application, tmp_path):
    events = [
        output(104.5, 2, "exact"),
        HistoryEvent(105.0, "run", "fault", {"what": "crash of node n1", "tasks": ["o1/0"]}),
        output(105.1, 1, "exact", kind="final"),  # an epoch from before the kill
        output(108.0, 3, "absent", rows=0),
        output(109.5, 4, "tentative", rows=1),
        output(115.0, 4, "exact", kind="final"),
        output(115.5, 3, "exact", kind="final"),
    ]
    for name, rows in (("4-1", [[1, 5.0]]), ("4-2", [[1, 5.0], [2, 7.0]])):
        (tmp_path / f"{name}.json").write_text(json.dumps(rows))
    timeline = Timeline(first=1, last=5, epoch_s=2.0, opened_s=100.0)
    run = measure("PPA-0.5", 3, planned(application, 0.5), JobRun("completed", "", (), timeline, events, seconds=20.0), tmp_path)
    assert (run.tentative_s, run.exact_s, run.accuracy, run.fidelity) == (4.5, 10.0, (0.5,), 0.5)


def row(plan, seed, exact_s, *, tentative_s=None, accuracy=()):
    return {
        "plan": plan,
        "seed": seed,
        "exact_s": exact_s + seed / 10,
        "tentative_s": tentative_s,
        "accuracy": list(accuracy),
        "fidelity": 0.5,
    }


def rows(*, active=2.0, half=9.0, passive=12.0, tentative=4.0, accuracy=0.5, seeds=3):
    return [
        each
        for seed in range(seeds)
        for each in (
            row("PPA-1.0", seed, active),
            row("PPA-0.5", seed, half, tentative_s=tentative, accuracy=(accuracy,)),
            row("PPA-0", seed, passive),
        )
    ]


def holds(**changes):
    return [finding.holds for finding in findings(rows(**changes))]


def test_findings_hold_with_the_papers_order():
    assert holds() == [True] * 5


@pytest.mark.parametrize(
    ("changes", "failing"),
    [
        ({"active": 9.5}, [0]),
        ({"passive": 8.5}, [1]),
        ({"tentative": 9.5}, [2]),
        ({"tentative": 13.0}, [2, 3]),
        ({"accuracy": 0.8}, [4]),
        ({"seeds": 1}, [0, 1, 2, 3, 4]),  # one run has no interval
    ],
)
def test_finding_fails_with_other_times(changes, failing):
    assert [n for n, each in enumerate(holds(**changes)) if not each] == failing
