"""Records of a study: stored at once, by one writer; worker processes end with their parent."""

import json
import os
import subprocess
import sys
import time

import psutil
import pytest

from holdfast.errors import HoldfastError
from holdfast_papers.records import Records, in_processes

WAITING = """
import time
from holdfast_papers.records import in_processes
if __name__ == "__main__":
    list(in_processes(time.sleep, [600, 600], workers=2))
"""


def doubled(number: int) -> dict[str, object]:
    return {"key": str(number), "twice": 2 * number}


def test_missing_and_truncated_records_are_computed(tmp_path):
    tasks = {str(n): n for n in range(4)}
    records = Records(tmp_path, {"seed": 1})
    records.fill(doubled, {"0": 0, "1": 1})
    records.close()
    with (tmp_path / "records.jsonl").open("a") as file:
        file.write('{"key": "2", "tw')
    seen = []
    again = Records(tmp_path, {"seed": 1})
    results = again.fill(lambda n: (seen.append(n), doubled(n))[1], tasks)
    assert seen == [2, 3]
    assert [record["twice"] for record in results] == [0, 2, 4, 6]
    lines = (tmp_path / "records.jsonl").read_text().splitlines()
    assert [json.loads(line)["key"] for line in lines] == ["0", "1", "2", "3"]


def test_records_from_a_cluster_are_stored_as_they_arrive(tmp_path):
    asked = []

    def run(function, tasks):
        for task in tasks:
            yield function(task)
            asked.append((tmp_path / "records.jsonl").read_text().count("\n"))

    records = Records(tmp_path, {"seed": 1})
    tasks = {str(n): n for n in range(3)}
    assert [record["twice"] for record in records.fill(doubled, tasks, run=run)] == [0, 2, 4]
    assert asked == [1, 2, 3]
    records.fill(doubled, tasks, run=lambda function, missing: pytest.fail("nothing is missing"))


@pytest.mark.parametrize("text", ["garbage}\n", "[1]\n", '{"no": "key"}\n'])
def test_foreign_file_is_refused_and_left_unchanged(tmp_path, text):
    (tmp_path / "records.jsonl").write_text(text)
    with pytest.raises(HoldfastError, match=r"records\.jsonl' holds no records of this command; give another --out"):
        Records(tmp_path, {"seed": 1})
    assert (tmp_path / "records.jsonl").read_text() == text


def test_invalid_settings_file_is_refused(tmp_path):
    (tmp_path / "settings.json").write_text("garbage")
    with pytest.raises(HoldfastError, match=r"settings\.json' was not written by this command; give another --out, or remove it"):
        Records(tmp_path, {"seed": 1})


def test_folder_has_one_writer(tmp_path):
    first = Records(tmp_path, {"seed": 1})
    with pytest.raises(HoldfastError, match=r"another command works in .*; wait until it ends, or give another --out"):
        Records(tmp_path, {"seed": 1})
    first.close()
    Records(tmp_path, {"seed": 1})


def test_workers_end_when_their_parent_is_killed(tmp_path):
    script = tmp_path / "waiting.py"
    script.write_text(WAITING)
    parent = subprocess.Popen([sys.executable, str(script)])
    try:
        deadline = time.monotonic() + 60
        started: list[psutil.Process] = []
        while len(started) < 3 and time.monotonic() < deadline:  # two that work, and Python's tracker of resources
            started = psutil.Process(parent.pid).children(recursive=True)
            time.sleep(0.05)
        assert len(started) == 3
    finally:
        parent.kill()
        parent.wait()
    _, alive = psutil.wait_procs(started, timeout=60)
    assert not alive


def test_killed_worker_is_reported():
    with pytest.raises(HoldfastError, match="a worker process was killed, perhaps because memory ran out; finished records"):
        list(in_processes(os._exit, [1, 1], workers=2))
