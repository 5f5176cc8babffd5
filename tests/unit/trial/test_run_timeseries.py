"""How a run went, told from small histories."""

import pytest

from holdfast.documents.history import HistoryEvent
from holdfast.documents.job import Reading, Task
from holdfast.log.timeline import Timeline
from holdfast.trial.run_timeseries import Stay, Usage, cpu_of_nodes, decisions, lags, leavings, output_rates, stays

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


def said(at_s, what, text, **who):
    return HistoryEvent(at_s + 0.05, "run", "orchestrator", {"what": what, "said": text, "told_s": at_s, **who})


def test_output_is_counted_by_the_second_and_by_what_it_was():
    events = [
        output(101.2, 1, 30),
        output(101.8, 2, 10, quality="tentative"),
        output(103.1, 2, 12, "final"),
        output(101.5, 1, 9, sink="b"),
    ]
    rates = output_rates(events, "out", from_s=100.0, every_s=2.0, count=2)
    assert rates["exact"] == [15.0, 0.0] and rates["tentative"] == [5.0, 0.0] and rates["corrected"] == [0.0, 6.0]
    assert rates["predicted"] == rates["absent"] == [0.0, 0.0]


def test_output_before_and_after_the_time_looked_at_is_left_out():
    rates = output_rates([output(99.0, 1, 5), output(110.0, 2, 5)], "out", from_s=100.0, every_s=1.0, count=4)
    assert not any(any(row) for row in rates.values())


def test_epochs_leave_a_sink_with_their_close_and_their_lateness():
    found = leavings([output(101.5, 1, 0, quality="absent"), output(106.0, 1, 7, "final"), output(102.5, 2, 1, sink="b")], "out")
    assert [(left.kind, left.closed_s, left.latency_s) for left in found] == [("absent", 101.0, 0.5), ("corrected", 101.0, 5.0)]


def test_a_pe_is_as_late_as_its_latest_task_and_a_correction_makes_up_for_it():
    events = [
        commit(101.1, "trades", 1),
        commit(101.3, "vwap", 1),
        commit(101.4, "vwap", 1, task=1),
        commit(102.3, "vwap", 2),
        commit(104.5, "vwap", 2, task=1, kind="final"),  # another had stood in for it
    ]
    late = lags(events, TASKS, TIMELINE, at_s=[99.0, 100.5, 101.2, 101.9, 102.9, 104.9])
    assert late["vwap"] == [None, 0.0, 1.0, 0.0, 1.0, 2.0]
    assert late["trades"] == [None, 0.0, 0.0, 0.0, 1.0, 3.0]
    assert late["out"][-1] == 4.0


def test_an_absent_epoch_does_not_make_a_dead_pe_less_late():
    absent = commit(101.5, "trades", 1, quality="absent", producer="recovery manager")
    assert lags([absent], TASKS, TIMELINE, at_s=[101.9])["trades"] == [1.0]


def test_what_an_agent_predicts_does_not_make_a_late_pe_less_late():
    predicted = commit(101.5, "trades", 1, producer="agent of trades/0 on n2")
    assert lags([predicted], TASKS, TIMELINE, at_s=[101.9])["trades"] == [1.0]


def test_lag_is_in_seconds_of_the_wall_clock():
    fast = Timeline(first=1, last=9, epoch_s=1.0, opened_s=100.0, speed=2.0)
    assert lags([], TASKS, fast, at_s=[101.0])["trades"] == [1.0]


def usage(at_s, cpu_s, pid=1, node="n1"):
    return HistoryEvent(at_s, node, "usage", {"node": node, "pid": pid, "cpu_s": cpu_s, "memory_bytes": 7})


def test_cpu_is_what_was_used_since_the_node_spoke_last_and_unknown_of_a_new_host():
    used = cpu_of_nodes([usage(10, 1.0), usage(12, 4.0), usage(13, 0.2, pid=2), usage(14, 0.7, pid=2), usage(11, 0.0, node="n0")])
    assert list(used) == ["n0", "n1"]
    assert used["n1"] == [(10, None), (12, 1.5), (13, None), (14, pytest.approx(0.5))]


def test_usage_remembers_memory():
    told = Usage()
    told.take(1.0, {"pid": 1, "cpu_s": 0.0, "memory_bytes": 9})
    assert (told.share, told.memory_bytes) == (None, 9)


def test_a_replica_stays_until_it_dies_and_is_elsewhere_afterwards():
    def start(at_s, key, node):
        return HistoryEvent(at_s, node, "start", {"replica": key, "incarnation": 1, "node": node})

    events = [
        start(90, "1:vwap/0.0", "n1"),
        start(90, "1:vwap/0.1", "n2"),
        said(105.0, "replica", "failed: killed by a fault", node="n1", replica="1:vwap/0.0"),
        start(107.0, "1:vwap/0.0", "n3"),
        start(109.0, "1:vwap/0.1", "n1"),
    ]
    assert stays(events) == [
        Stay("vwap/0", 0, "n1", 90, 105.0),
        Stay("vwap/0", 0, "n3", 107.0),
        Stay("vwap/0", 1, "n2", 90, 109.0),
        Stay("vwap/0", 1, "n1", 109.0),
    ]


def test_the_same_decision_about_several_is_one_and_standing_in_is_summed():
    events = [
        said(105.0, "replica", "moved from n1 to n2: restarted after failure 1", replica="1:vwap/0.0"),
        said(105.1, "replica", "moved from n1 to n2: restarted after failure 1", replica="1:trades/0.0"),
        said(106.0, "decision", "stood in for vwap/0: 2 epochs absent"),
        said(107.0, "decision", "stood in for trades/0: 1 epochs absent"),
        said(107.5, "decision", "vwap/0 is back; nothing stands in for it any more"),
        said(108.0, "decision", "stood in for trades/0: 1 epochs absent"),
        said(108.2, "replica", "running", replica="1:vwap/0.0"),
        said(130.0, "decision", "stood in for trades/0: 5 epochs absent"),
        said(131.0, "node", "node n1 is lost: it does not answer"),
        said(131.5, "node", "node n1 is up"),
        said(140.0, "decision", "input configuration is now high"),
        said(140.1, "replica", "activated", replica="1:vwap/0.1"),
    ]
    found = decisions(events)
    assert [(each.from_s, each.to_s, each.who, each.epochs) for each in found[:4]] == [
        (105.0, 105.1, ("vwap/0 replica 0", "trades/0 replica 0"), 0),
        (106.0, 108.0, ("vwap/0", "trades/0"), 4),
        (107.5, 107.5, ("vwap/0",), 0),
        (130.0, 130.0, ("trades/0",), 5),
    ]
    assert [each.what for each in found[4:]] == [
        "node n1 is lost: it does not answer",
        "input configuration is now high",
        "activated",
    ]


def test_a_pe_that_prediction_cannot_protect_is_told_among_the_decisions():
    (found,) = decisions([HistoryEvent(101.0, "run", "unprotected", {"task": "vwap/0", "why": "no column to predict"})])
    assert (found.what, found.who) == ("not protected by prediction: no column to predict", ("vwap/0",))
