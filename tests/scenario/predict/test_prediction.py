"""Prediction and correction on real processes: PE hosts are stopped, an agent is killed, and in the end all is as it should be."""

import json
import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from holdfast.manage.agent_processes import FOLDER
from holdfast.manage.hosts import living_host
from holdfast.run.history import read_history
from holdfast.trace import write_servers

HOLDFAST = [sys.executable, "-m", "holdfast.cli.main"]
LIMIT_S = 420
EPOCHS = 40
APP = """
from pyspark.sql import Window
from pyspark.sql import functions as F

from holdfast import App, last_rows

app = App("rack-monitor", epoch_s=5.0)
servers = app.source(
    "servers",
    "seq long, time timestamp, server string, rack string, cpu double, memory double, disk double, network double, "
    "requests long, errors long",
    key="server",
)


@app.operator(inputs=servers, keep=last_rows(5, by="server"), key="server", pe="racks")
def smooth(servers):
    recent = Window.partitionBy("server").orderBy("seq").rowsBetween(-5, 0)
    return servers.select("seq", "epoch", "rack", "server", F.avg("cpu").over(recent).alias("cpu"))


@app.operator(inputs=smooth, key="rack", pe="racks")
def racks(smooth):
    return smooth.groupBy("epoch", "rack").agg(F.max("seq").alias("seq"), F.avg("cpu").alias("cpu"))


@app.operator(inputs=racks, keep=last_rows(11, by="rack"), key="rack")
def heat(racks):
    minute = Window.partitionBy("rack").orderBy("seq").rowsBetween(-11, 0)
    return racks.select("seq", "epoch", "rack", "cpu", (F.col("cpu") - F.avg("cpu").over(minute)).alias("rise"))


app.sink("out", heat)
"""


def agents(work):
    """The process numbers of living agents, by folder."""
    found = {folder: living_host(folder) for folder in sorted(work.glob(f"n*/{FOLDER}/*"))}
    return {folder: pid for folder, pid in found.items() if pid is not None}


def wait_until(condition, process):
    ends = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < ends
        with pytest.raises(subprocess.TimeoutExpired):  # raises unless the run has ended before
            process.wait(0.05)


def left_behind(tmp_path):
    lines = [process.info["cmdline"] or [] for process in psutil.process_iter(["cmdline"])]
    return [line for line in lines if any(str(tmp_path) in word for word in line)]


@pytest.mark.long
def test_stopped_hosts_are_covered_for_and_corrected_and_a_killed_agent_is_started_again(tmp_path):
    app, trace, faults, work = (tmp_path / name for name in ("app.py", "servers.parquet", "faults.yaml", "run"))
    app.write_text(APP)
    write_servers(trace, events=60 * EPOCHS, seed=1, servers=60)
    stalls = {"share": 0.5, "how": "stop", "every_s": 12, "for_s": 5, "from_s": 14, "to_s": 30}
    faults.write_text(json.dumps({"seed": 1, "stalls": stalls}))
    options = ["--speed", "5", "--nodes", "2", "--protection", "prediction", "--deadline", "1", "--checkpoint-epochs", "5"]
    command = ["run", str(app), "--trace", str(trace), "--faults", str(faults), "--work", str(work), "--json", *options]
    with (tmp_path / "said").open("w") as said:
        process = subprocess.Popen([*HOLDFAST, *command], stdout=subprocess.PIPE, stderr=said, text=True)
    try:
        wait_until(lambda: len(agents(work)) == 2, process)
        folder, pid = sorted(agents(work).items())[0]
        os.killpg(pid, signal.SIGKILL)
        wait_until(lambda: agents(work).get(folder) not in (None, pid), process)
        stdout, _ = process.communicate(timeout=LIMIT_S)
    finally:
        process.kill()
        process.wait()
    said = (tmp_path / "said").read_text()[-3000:]
    assert stdout, said
    document = json.loads(stdout)
    assert document["state"] == "completed", said
    assert {verdict["name"]: verdict["holds"] for verdict in document["verdicts"]} == {
        "nothing lost": True,
        "nothing duplicated": True,
        "replicas agree": True,
        "every tentative result corrected": True,
        "second law at 'out'": True,
    }
    commits = [event.about for event in read_history(work) if event.kind == "commit"]
    assert any(about["quality"] == "predicted" and about["producer"].startswith("agent of ") for about in commits)
    assert len(document["faults"]) == 2
    assert not left_behind(tmp_path)
