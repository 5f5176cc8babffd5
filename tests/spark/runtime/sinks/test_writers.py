"""Writers on Spark: the console writer, and a user's writer behind a sink with two replicas."""

import json
import time

from holdfast import console
from holdfast.documents.history import HistoryEvent
from holdfast.documents.job import Feed, Job
from holdfast.engine.trace_reader import open_trace
from holdfast.job_layout import layout_of
from holdfast.protocol.messages import AssignedReplica
from holdfast.runtime.replica_factory import ReplicaFactory
from holdfast.trace import write_market
from holdfast.trial.checkers import check_run
from holdfast.trial.second_law import differences

LIMIT_S = 60.0

APPLICATION = """
import json
from pathlib import Path

from holdfast import App

app = App("trades")
market = app.source("market", "seq long, time timestamp, kind string, volume long")


@app.operator(inputs=market)
def trades(events):
    return events.where("kind = 'trade'").select("seq", "volume")


def write(rows, epoch, quality):
    with (Path(__file__).parent / "written.jsonl").open("a") as file:
        file.write(json.dumps([epoch, quality, [row.seq for row in rows.orderBy("seq").collect()]]) + "\\n")


app.sink("out", trades, writer=write)
app.sink("files", trades)
"""


def test_console_prints_the_rows_of_an_epoch(spark, capfd):
    console(spark.createDataFrame([(1, "abc")], "seq long, ticker string"), 7, "tentative")
    printed = capfd.readouterr().out
    assert "epoch 7, tentative, 1 rows" in printed
    assert "|1  |abc   |" in printed


def test_two_replicas_and_a_restart_call_the_writer_once_per_epoch(spark, tmp_path):
    application = tmp_path / "trades.py"
    application.write_text(APPLICATION)
    write_market(tmp_path / "market.parquet", events=600, seed=1, tickers=5, rate=150.0, peak=300.0)
    feed = Feed(trace=str(tmp_path / "market.parquet"), speed=1e9)
    job = Job(job="trades", application=str(application), feed=feed, log=str(tmp_path / "log"), out=str(tmp_path / "out"))
    layout = layout_of(job)
    events = []

    def emit(kind, about):
        events.append(HistoryEvent(len(events), "n", kind, about))

    factory = ReplicaFactory(spark, 1, layout.settings, node="n", emit=emit, scratch=tmp_path / "scratch")
    factory._await_readers = lambda is_stopping: None

    def start(name, replica=0):
        return factory.create(AssignedReplica(job=1, pe=name, task=0, replica=replica), lambda: False)

    (source, timeline), (pe, _) = start("market"), start("trades")
    while not pe.finished:
        source.step()
        pe.step()
    sinks = [start("out")[0], start("out", 1)[0]]
    assert sinks[0].step() and sinks[1].step()
    sinks[1] = start("out", 1)[0]
    deadline_s = time.monotonic() + LIMIT_S
    while not all(sink.finished for sink in sinks) and time.monotonic() < deadline_s:
        for sink in sinks:
            sink.step()
    assert all(sink.finished for sink in sinks)
    written = [json.loads(line) for line in (tmp_path / "written.jsonl").read_text().splitlines()]
    assert [epoch for epoch, *_ in written] == list(range(timeline.first, timeline.last + 1))
    assert {quality for _, quality, _ in written} == {"exact"}
    seqs = [seq for *_, each in written for seq in each]
    assert seqs == sorted(set(seqs)) and seqs
    assert all(verdict.holds for verdict in check_run(events, timeline, sinks=["out"]))
    files, _ = start("files")
    while not files.finished:
        assert files.step()
    sources = open_trace(spark, factory.graph, feed.trace)
    assert differences(spark, factory.app, sources, out=factory.out, timeline=timeline) == {"files": None}
