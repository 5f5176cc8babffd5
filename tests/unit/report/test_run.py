"""The report of a run."""

import re
from pathlib import Path

import pytest

from holdfast.documents.history import HistoryEvent
from holdfast.documents.job import Job, Reading, Task
from holdfast.log.timeline import Timeline
from holdfast.report.run import MEANINGS, run_page
from holdfast.trial.checkers import check_run
from holdfast.trial.completeness import check_promised_completeness
from holdfast.trial.job_run import JobRun
from holdfast.trial.run_document import describe_run

TIMELINE = Timeline(first=1, last=6, epoch_s=1.0, opened_s=100.0)
TASKS = (
    Task(pe="trades", kind="source", makes=("trades",)),
    Task(pe="vwap", operators=("vwap",), reads=(Reading(stream="trades"),), makes=("vwap",), replicas=2),
    Task(pe="index<i>", operators=("index",), reads=(Reading(stream="vwap"),), makes=("index",)),
    Task(pe="out", kind="sink", reads=(Reading(stream="index"),)),
)
DOCUMENT = {
    "application": "/apps/bargains.py",
    "state": "completed",
    "reason": "",
    "seconds": 31.4,
    "epochs": 6,
    "rows": {"out": 1234},
    "latency_s": {"median": 0.52, "worst": 7.25},
    "gap_s": {"out": 3.5},
    "internal_completeness": {"share": 0.875, "unknown": 0},
    "faults": [],
    "switches": [{"configuration": "high", "chosen_s": 7.0, "on_s": 0.5, "off_s": 1.2}],
    "recoveries": [],
    "verdicts": [
        {"name": "nothing lost", "holds": True, "reason": "all 6 epochs left every sink", "figures": {}},
        {"name": "second law at 'out'", "holds": False, "reason": "'out' differs at seq 7: <a> & <b>", "figures": {}},
        {"name": "of another kind", "holds": None, "reason": "nobody knows", "figures": {}},
    ],
    "log": "/runs/log",
    "out": "s3://bucket/out",
}


def decision(at_s, what, text, **who):
    return HistoryEvent(at_s, "run", "orchestrator", {"what": what, "text": text, "reported_s": at_s, **who})


def history():
    for node, key in (("n1", "trades/0.0"), ("n1", "vwap/0.0"), ("n2", "vwap/0.1"), ("n2", "index<i>/0.0"), ("n1", "out/0.0")):
        yield HistoryEvent(95.0, node, "start", {"replica": f"1:{key}", "incarnation": 1, "node": node})
    for second in range(98, 108, 2):
        yield HistoryEvent(second, "n1", "usage", {"node": "n1", "pid": 1, "cpu_s": second * 0.5, "memory_bytes": 1})
    yield HistoryEvent(102.5, "run", "fault", {"what": "crash node n2", "tasks": ["index<i>/0", "vwap/0"], "for_s": None})
    yield HistoryEvent(103.0, "run", "detected", {"tasks": ["index<i>/0"], "node": "n2"})
    yield decision(103.0, "replica", "lost: its node is", node="n2", replica="1:index<i>/0.0")
    yield decision(103.1, "replica", "moved from n2 to n1: restarted after failure 1", node="n1", replica="1:index<i>/0.0")
    yield decision(103.5, "decision", "committed 2 absent epochs for index<i>/0", task="index<i>/0", epochs=2)
    yield HistoryEvent(104.5, "n1", "start", {"replica": "1:index<i>/0.0", "incarnation": 2, "node": "n1"})
    yield HistoryEvent(104.6, "n1", "restored", {"task": "index<i>/0", "from": 2, "to": 4})
    yield HistoryEvent(106.7, "n1", "recovered", {"task": "index<i>/0", "epoch": 4})
    for epoch in range(1, 7):
        for stream in ("trades", "vwap", "index"):
            commit = {"stream": stream, "task": 0, "epoch": epoch, "as": "first", "quality": "exact", "rows": 9}
            yield HistoryEvent(100.3 + epoch, "n1", "commit", {**commit, "closed_s": 100.0 + epoch, "producer": "a replica"})
        quality = {3: "absent", 4: "tentative", 5: "predicted"}.get(epoch, "exact")
        about = {"sink": "out", "epoch": epoch, "rows": 0 if epoch == 3 else 9}
        yield HistoryEvent(100.5 + epoch, "n1", "output", {**about, "as": "first", "quality": quality, "latency_s": 0.5})
        if quality != "exact":
            yield HistoryEvent(107.5, "n1", "output", {**about, "as": "final", "quality": "exact", "latency_s": 6.5 - epoch + 1})


@pytest.fixture(scope="module")
def text() -> str:
    events = sorted(history(), key=lambda event: event.at_s)
    return run_page(DOCUMENT, events=events, tasks=TASKS, timeline=TIMELINE, history=Path("/runs/one"))


def cells(text, first):
    """Return the cells of the table row whose first cell is `first`."""
    row = next(row for row in re.findall(r"<tr>(.*?)</tr>", text) if re.match(rf"<td[^>]*>{re.escape(first)}</td>", row))
    return re.findall(r"<td[^>]*>(.*?)</td>", row)


def test_verdicts_come_first_with_their_meanings(text):
    assert text.index("Verdicts") < text.index("Over time")
    assert "Broken: second law at &#x27;out&#x27;. Unknown: of another kind." in text
    lost = "nothing lost: every sink has output every epoch of the job"
    assert cells(text, lost)[1:] == ["true", "all 6 epochs left every sink"]
    law = next(row for row in re.findall(r"<tr>(.*?)</tr>", text) if "second law" in row)
    assert "after all faults" in law and ">false<" in law and "seq 7: &lt;a&gt; &amp; &lt;b&gt;" in law
    assert cells(text, "of another kind")[1] == "unknown"


def test_every_verdict_has_a_meaning():
    events = sorted(history(), key=lambda event: event.at_s)
    verdicts = [*check_run(events, TIMELINE, sinks=["out"], scheduled=1), check_promised_completeness(None, promised=0.5)]
    for verdict in verdicts:
        assert any(verdict.name.startswith(start) for start in MEANINGS), verdict.name


def test_summary_has_the_figures_of_the_run(text):
    for figure in (
        "Completed after 31 s",
        "1,234 rows at out",
        "0.52 s (median), 7.25 s at worst",
        "3.50 s at out",
        "(internal completeness): 0.8750",
        "Switched to high: replicas on after 0.5 s, replicas off after 1.2 s",
    ):
        assert figure in text


def test_output_is_drawn_in_the_colours_of_its_qualities(text):
    for name in ("Output at out", "From an epoch's close to its output at out", "Lag of PEs", "CPU of nodes"):
        assert name in text.replace("&#x27;", "'")
    assert all(f"var(--{quality})" in text for quality in ("exact", "tentative", "predicted", "absent"))


def test_recoveries_are_listed_step_by_step(text):
    assert cells(text, "1") == ["1", "2.5", "-", "crash node n2", "index&lt;i&gt;/0, vwap/0"]
    assert cells(text, "index&lt;i&gt;/0") == ["index&lt;i&gt;/0", "2.5", "0.5", "1.6", "2.1", "4.2", "from its checkpoint"]
    assert cells(text, "vwap/0")[-1] == "another replica continued"


def test_replicas_are_listed_by_node_with_times(text):
    places = text[text.index("Replicas by node") :]
    assert cells(places, "vwap/0") == ["vwap/0", "0", "1"]
    assert cells(places, "index&lt;i&gt;/0") == ["index&lt;i&gt;/0", "0 from 4.5 s", "0 until 3.0 s"]


def test_decisions_are_listed_with_their_subjects(text):
    assert cells(text, "3.1")[1:] == ["moved from n2 to n1: restarted after failure 1", "index&lt;i&gt;/0 replica 0"]
    assert cells(text, "3.5")[1:] == ["committed 2 absent epochs until they were back", "index&lt;i&gt;/0"]


def test_locations_of_output_and_history_are_listed(text):
    assert cells(text, "output of the sinks")[1] == "s3://bucket/out"
    assert "holdfast ui /runs/one plays the run back" in text


def test_page_is_self_contained_and_escapes_names(text):
    assert not re.search(r'(src|href)="(?!#)', text) and "<script" not in text
    assert "<i>" not in text and "<a>" not in text


def test_page_of_a_run_that_never_began_has_the_reason():
    failed = {**DOCUMENT, "state": "failed", "reason": "no node has room", "epochs": None, "latency_s": None, "verdicts": []}
    failed |= {"gap_s": {"out": None}, "internal_completeness": None, "out": None, "log": None}
    text = run_page(failed, events=[], tasks=TASKS, timeline=None)
    assert "Failed after 31 s: no node has room." in text and "before there was anything to check" in text
    assert "<svg" not in text


def test_page_accepts_the_document_of_a_run():
    events = sorted(history(), key=lambda event: event.at_s)
    job = Job(job="bargains", application="bargains.py", type="finite", log="/runs/log", out="/runs/out")
    ran = JobRun("completed", "", TASKS, TIMELINE, events, seconds=12.0, scheduled=1)
    document = describe_run(job, ran, verify=False)
    text = run_page(document, events=ran.events, tasks=ran.tasks, timeline=ran.timeline)
    assert "Completed after 12 s" in text and "internal completeness" in text
    assert all(verdict["reason"] in text.replace("&#x27;", "'") for verdict in document["verdicts"])


def test_page_of_a_long_run_is_small_but_shows_worst_latency():
    day_s, worst_s = 86_400, 777.0
    timeline = Timeline(first=1, last=day_s, epoch_s=1.0, opened_s=0.0)
    about = {"sink": "out", "as": "first", "quality": "exact", "rows": 9}
    events = [
        HistoryEvent(epoch + 0.5, "n1", "output", {**about, "epoch": epoch, "latency_s": worst_s if epoch == 40_006 else 0.5})
        for epoch in range(1, day_s + 1, 7)
    ]
    text = run_page(DOCUMENT, events=events, tasks=TASKS, timeline=timeline)
    assert len(text) < 300_000
    assert ">800<" in text, "the axis reaches the one epoch that was late"


def test_page_of_a_run_without_faults():
    events = [event for event in history() if event.kind in ("output", "start") and event.at_s < 103]
    text = run_page({**DOCUMENT, "verdicts": DOCUMENT["verdicts"][:1]}, events=events, tasks=TASKS, timeline=TIMELINE)
    assert (
        "All verdicts hold." in text
        and "Nothing failed." in text
        and "The orchestrator made no decisions." in text
        and "CPU of nodes" not in text
    )


def test_long_table_says_how_many_rows_it_omits():
    faults = [
        HistoryEvent(102.0 + k / 100, "run", "fault", {"what": f"crash pe vwap/0 ({k})", "tasks": ["vwap/0"], "for_s": None})
        for k in range(99)
    ]
    events = sorted([*history(), *faults], key=lambda event: event.at_s)
    text = run_page(DOCUMENT, events=events, tasks=TASKS, timeline=TIMELINE)
    assert "And 20 more, in the history." in text
