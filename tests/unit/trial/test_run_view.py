"""The live view of a run."""

import io

from rich.console import Console

from holdfast.log.timeline import Timeline
from holdfast.trial.run_view import RunView, one_line, replica_errors, tasks_table

LINE = Timeline(first=10, last=19, epoch_s=1.0, opened_s=0.0)
FULL = "waits for the log: the log at 'x' cannot be written: No space left on device; free space"


def replica(state="running", *, error=None, waits_for=None, node="n1", live=14):
    status = {"live": live, "quality": "exact", "lag_s": 1.0, "rows_s": 20.0, "latency_s": 0.5, "error": waits_for}
    return {"node": node, "state": state, "error": error, "status": status if state != "lost" else None}


def job_document(**tasks):
    documents = [
        {"task": f"{pe}/0", "kind": "sink" if pe == "out" else "operators", "replicas": replicas} for pe, replicas in tasks.items()
    ]
    return {"name": "shop", "state": "running", "tasks": documents}


def test_full_log_is_shown_once_for_all_tasks_that_wait():
    document = job_document(large=[replica(waits_for=FULL), replica(waits_for=FULL, node="n2")], out=[replica(waits_for=FULL)])
    assert replica_errors(document) == [f"large/0, out/0: {FULL}"]
    line = one_line(document, [{"name": "n2", "state": "lost"}], LINE)
    sink = "out/0: exact output of epoch 5, 0.5 s after its close"
    assert line == f"shop: running, epoch 10 of 10; {sink}; lost nodes: n2; large/0, out/0: {FULL}"
    assert replica_errors(job_document(large=[replica()], out=[replica()])) == []


def test_line_of_a_job_without_output():
    document = {**job_document(out=[replica("placed", live=None)]), "state": "dispatching"}
    assert one_line(document, [], None) == "shop: dispatching, 0 of 1 replica started; out/0: no output yet"
    assert one_line(document, [], LINE) == "shop: dispatching, epoch 10 of 10; out/0: no output yet"


def test_view_prints_the_name_of_the_application():
    console = Console(file=io.StringIO(), width=120, record=True)
    with RunView(console, "hot-sensors") as view:
        view.show(job_document(out=[replica(live=None)]), [], None)
    assert console.export_text() == "hot-sensors: running, 1 of 1 replica started; out/0: no output yet\n"


def test_failure_is_shown_in_one_line_until_the_replica_is_back():
    error = "operator 'large' (shop.py:8) raised ValueError: boo\nand a stack of it"
    document = job_document(
        large=[replica("failed", error=error), replica("placed", error="an earlier one")], out=[replica("lost", error="no beat")]
    )
    assert replica_errors(document) == ["large/0: operator 'large' (shop.py:8) raised ValueError: boo", "out/0: no beat"]


def test_table_has_a_line_per_task_with_all_replicas():
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(
        tasks_table(job_document(large=[replica(), replica("idle", node="n2")], out=[replica("starting", live=None)]), LINE)
    )
    text = console.export_text()
    assert "large/0  5      1.0 s  20      0.5 s    exact    n1:running n2:idle" in text
    assert "n1:starting" in text
