"""What a run shows while it goes on."""

import io

from rich.console import Console

from holdfast.log.timeline import Timeline
from holdfast.trial.run_view import one_line, replica_errors, tasks_table

LINE = Timeline(first=10, last=19, epoch_s=1.0, opened_s=0.0)
FULL = "waits for the log: the log at 'x' cannot be written: No space left on device; free space"


def replica(state="running", *, error=None, said=None, node="n1", live=14):
    status = {"live": live, "quality": "exact", "lag_s": 1.0, "rows_s": 20.0, "latency_s": 0.5, "error": said}
    return {"node": node, "state": state, "error": error, "status": status if state != "lost" else None}


def story(**tasks):
    listed = [{"task": f"{pe}/0", "kind": "sink" if pe == "out" else "operators", "replicas": each} for pe, each in tasks.items()]
    return {"name": "shop", "state": "running", "tasks": listed}


def test_a_log_that_is_full_is_told_while_it_is_and_once_for_all_who_wait():
    seen = story(large=[replica(said=FULL), replica(said=FULL, node="n2")], out=[replica(said=FULL)])
    assert replica_errors(seen) == [f"large/0, out/0: {FULL}"]
    line = one_line(seen, [{"name": "n2", "state": "lost"}], LINE)
    assert line == f"shop running, epoch 10 of 10, out/0 at 5 (exact, 0.5 s after its close), lost: n2; large/0, out/0: {FULL}"
    assert replica_errors(story(large=[replica()], out=[replica()])) == []


def test_why_a_replica_failed_is_told_in_a_line_until_it_is_back():
    error = "operator 'large' (shop.py:8) raised ValueError: boo\nand a stack of it"
    seen = story(
        large=[replica("failed", error=error), replica("placed", error="an earlier one")], out=[replica("lost", error="no beat")]
    )
    assert replica_errors(seen) == ["large/0: operator 'large' (shop.py:8) raised ValueError: boo", "out/0: no beat"]


def test_the_table_has_a_line_for_each_pe_with_all_its_replicas():
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(tasks_table(story(large=[replica(), replica("idle", node="n2")], out=[replica("starting", live=None)]), LINE))
    text = console.export_text()
    assert "large/0  5      1.0 s  20      0.5 s    exact    n1:running n2:idle" in text
    assert "n1:starting" in text
