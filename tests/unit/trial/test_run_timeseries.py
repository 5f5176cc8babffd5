"""Time series of small histories."""

import pytest

from holdfast.documents.history import HistoryEvent
from holdfast.documents.job import Reading, Task
from holdfast.log.timeline import Timeline
from holdfast.trial.run_timeseries import Placement, Usage, cpu_of_nodes, decisions, lags, output_rates, placements, sink_outputs

TIMELINE = Timeline(first=1, last=9, epoch_s=1.0, opened_s=100.0)
TASKS = (
    Task(pe="trades", kind="source", makes=("trades",)),
    Task(pe="vwap", task=0, reads=(Reading(stream="trades"),), makes=("vwap",)),
    Task(pe="vwap", task=1, reads=(Reading(stream="trades"),), makes=("vwap",)),
    Task(pe="out", kind="sink", reads=(Reading(stream="vwap"),)),
)


def output(at_s, epoch, rows, kind="first", quality="exact", sink="out"):
    about = {"sink": sink, "epoch": epoch, "as": kind, "quality": quality, "rows": rows}
    return HistoryEvent(at_s, "n1", "output", {**about, "latency_s": at_s - TIMELINE.closes_s(epoch)})


def commit(at_s, stream, epoch, task=0, kind="first", quality="exact", producer="its own replica"):
    about = {"stream": stream, "task": task, "epoch": epoch, "as": kind, "quality": quality, "rows": 1, "producer": producer}
    return HistoryEvent(at_s, "n1", "commit", about)


def orchestrator_event(at_s, what, text, **who):
    return HistoryEvent(at_s + 0.05, "run", "orchestrator", {"what": what, "text": text, "reported_s": at_s, **who})


def test_output_is_counted_by_interval_and_kind():
    events = [
        output(101.2, 1, 30),
        output(101.8, 2, 10, quality="tentative"),
        output(103.1, 2, 12, "final"),
        output(101.5, 1, 9, sink="b"),
    ]
    rates = output_rates(events, "out", from_s=100.0, every_s=2.0, count=2)
    assert rates["exact"] == [15.0, 0.0] and rates["tentative"] == [5.0, 0.0] and rates["corrected"] == [0.0, 6.0]
    assert rates["predicted"] == rates["absent"] == [0.0, 0.0]


def test_output_outside_the_intervals_is_ignored():
    rates = output_rates([output(99.0, 1, 5), output(110.0, 2, 5)], "out", from_s=100.0, every_s=1.0, count=4)
    assert not any(any(row) for row in rates.values())


def test_sink_outputs_have_closing_time_and_latency():
    outputs = sink_outputs(
        [output(101.5, 1, 0, quality="absent"), output(106.0, 1, 7, "final"), output(102.5, 2, 1, sink="b")], "out"
    )
    assert [(output.kind, output.closed_s, output.latency_s) for output in outputs] == [
        ("absent", 101.0, 0.5),
        ("corrected", 101.0, 5.0),
    ]


def test_lag_of_pe_is_that_of_its_slowest_task():
    events = [
        commit(101.1, "trades", 1),
        commit(101.3, "vwap", 1),
        commit(101.4, "vwap", 1, task=1),
        commit(102.3, "vwap", 2),
        commit(104.5, "vwap", 2, task=1, kind="final"),  # its first record was absent
    ]
    lag_of_pe = lags(events, TASKS, TIMELINE, at_s=[99.0, 100.5, 101.2, 101.9, 102.9, 104.9])
    assert lag_of_pe["vwap"] == [None, 0.0, 1.0, 0.0, 1.0, 2.0]
    assert lag_of_pe["trades"] == [None, 0.0, 0.0, 0.0, 1.0, 3.0]
    assert lag_of_pe["out"][-1] == 4.0


def test_absent_epoch_does_not_reduce_lag():
    absent = commit(101.5, "trades", 1, quality="absent", producer="recovery manager")
    assert lags([absent], TASKS, TIMELINE, at_s=[101.9])["trades"] == [1.0]


def test_predicted_epoch_does_not_reduce_lag():
    predicted = commit(101.5, "trades", 1, producer="agent of trades/0 on n2")
    assert lags([predicted], TASKS, TIMELINE, at_s=[101.9])["trades"] == [1.0]


def test_lag_is_in_wall_clock_seconds():
    fast = Timeline(first=1, last=9, epoch_s=1.0, opened_s=100.0, speed=2.0)
    assert lags([], TASKS, fast, at_s=[101.0])["trades"] == [1.0]


def usage(at_s, cpu_s, pid=1, node="n1"):
    return HistoryEvent(at_s, node, "usage", {"node": node, "pid": pid, "cpu_s": cpu_s, "memory_bytes": 7})


def test_cpu_is_used_since_last_report_and_unknown_for_new_process():
    used = cpu_of_nodes([usage(10, 1.0), usage(12, 4.0), usage(13, 0.2, pid=2), usage(14, 0.7, pid=2), usage(11, 0.0, node="n0")])
    assert list(used) == ["n0", "n1"]
    assert used["n1"] == [(10, None), (12, 1.5), (13, None), (14, pytest.approx(0.5))]


def test_usage_holds_last_reported_memory():
    usage_of_host = Usage()
    usage_of_host.update(1.0, {"pid": 1, "cpu_s": 0.0, "memory_bytes": 9})
    assert (usage_of_host.share, usage_of_host.memory_bytes) == (None, 9)


def test_placement_ends_when_its_replica_fails_or_moves():
    def start(at_s, key, node):
        return HistoryEvent(at_s, node, "start", {"replica": key, "incarnation": 1, "node": node})

    events = [
        start(90, "1:vwap/0.0", "n1"),
        start(90, "1:vwap/0.1", "n2"),
        orchestrator_event(105.0, "replica", "failed: killed by a fault", node="n1", replica="1:vwap/0.0"),
        start(107.0, "1:vwap/0.0", "n3"),
        start(109.0, "1:vwap/0.1", "n1"),
    ]
    assert placements(events) == [
        Placement("vwap/0", 0, "n1", 90, 105.0),
        Placement("vwap/0", 0, "n3", 107.0),
        Placement("vwap/0", 1, "n2", 90, 109.0),
        Placement("vwap/0", 1, "n1", 109.0),
    ]


def test_equal_decisions_merge_and_absent_epochs_are_summed():
    events = [
        orchestrator_event(105.0, "replica", "moved from n1 to n2: restarted after failure 1", replica="1:vwap/0.0"),
        orchestrator_event(105.1, "replica", "moved from n1 to n2: restarted after failure 1", replica="1:trades/0.0"),
        orchestrator_event(106.0, "decision", "committed 2 absent epochs for vwap/0", task="vwap/0", epochs=2),
        orchestrator_event(107.0, "decision", "committed 1 absent epoch for trades/0", task="trades/0", epochs=1),
        orchestrator_event(107.5, "decision", "vwap/0 is back", task="vwap/0"),
        orchestrator_event(108.0, "decision", "committed 1 absent epoch for trades/0", task="trades/0", epochs=1),
        orchestrator_event(108.2, "replica", "running", replica="1:vwap/0.0"),
        orchestrator_event(130.0, "decision", "committed 5 absent epochs for trades/0", task="trades/0", epochs=5),
        orchestrator_event(131.0, "node", "node n1 is lost: it does not answer"),
        orchestrator_event(131.5, "node", "node n1 is up"),
        orchestrator_event(140.0, "decision", "input configuration is now high"),
        orchestrator_event(140.1, "replica", "activated", replica="1:vwap/0.1"),
    ]
    merged = decisions(events)
    assert [(each.from_s, each.to_s, each.about, each.epochs) for each in merged[:4]] == [
        (105.0, 105.1, ("vwap/0 replica 0", "trades/0 replica 0"), 0),
        (106.0, 108.0, ("vwap/0", "trades/0"), 4),
        (107.5, 107.5, ("vwap/0",), 0),
        (130.0, 130.0, ("trades/0",), 5),
    ]
    assert merged[2].what == "is back"
    assert [each.what for each in merged[4:]] == [
        "node n1 is lost: it does not answer",
        "input configuration is now high",
        "activated",
    ]


def test_unprotected_task_is_listed_as_decision():
    (decision,) = decisions([HistoryEvent(101.0, "run", "unprotected", {"task": "vwap/0", "why": "no column to predict"})])
    assert (decision.what, decision.about) == ("not protected by prediction: no column to predict", ("vwap/0",))
