"""`holdfast run` of PPA's two queries, whose tasks are parallel, while tasks, PE hosts and nodes are killed."""

from pathlib import Path

import pytest

from .test_run import require_no_processes, run

EXAMPLES = Path(__file__).parents[3] / "examples"
OPTIONS = ["--nodes", "2", "--tentative-after", "1", "--checkpoint-epochs", "3", "--speed", "3"]


def write_pages(path):
    from holdfast_papers.ppa.page_trace import write_pages

    write_pages(path, events=24_000, seed=1, rate=300.0, peak=600.0, pages=2_000)


def write_traffic(path):
    from holdfast_papers.ppa.traffic_trace import write_traffic

    write_traffic(path, events=60_000, seed=1, users=2_000, segments=100, rate=500.0)


def crash(at_s, what, target):
    return {"at_s": at_s, "kind": "crash", "what": what, "target": [target], "back_after_s": 1}


@pytest.mark.long
@pytest.mark.parametrize(
    ("example", "write", "tasks"),
    [
        ("top_pages.py", write_pages, ["slices/3.0", "merged/1.0", "requests/5.0"]),
        ("traffic_incidents.py", write_traffic, ["jams/2.0", "segment_speed/1.0", "locations/3.0"]),
    ],
)
def test_second_law_holds_for_parallel_tasks_under_kills(tmp_path, example, write, tasks):
    write(tmp_path / "market.parquet")
    faults = [crash(4 + 3 * number, "pe", task) for number, task in enumerate(tasks)]
    faults += [crash(13, "host", "n1"), crash(18, "node", "n2")]
    document, process = run(tmp_path, faults={"faults": faults}, options=OPTIONS, application=EXAMPLES / example)
    assert document["state"] == "completed", (document, process.stderr[-3000:])
    assert all(verdict["holds"] for verdict in document["verdicts"]), document["verdicts"]
    assert any(verdict["name"].startswith("second law") for verdict in document["verdicts"])
    assert len(document["faults"]) == len(faults)
    assert process.returncode == 0
    require_no_processes(tmp_path)
