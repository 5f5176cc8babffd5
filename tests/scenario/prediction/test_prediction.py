"""Late PEs on real processes: PE hosts are stopped, an agent is killed, a PE stalls, and the final output is exact."""

import json
import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from holdfast.documents.history import read_history
from holdfast.node.agent_processes import FOLDER
from holdfast.node.pe_hosts import living_host
from holdfast.trace import write_servers

HOLDFAST = [sys.executable, "-m", "holdfast.cli.main"]
LIMIT_S = 420
EPOCHS = 40
STALL_S = 25
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
    """Return the process ids of running agents, by folder."""
    pids = {folder: living_host(folder) for folder in sorted(work.glob(f"n*/{FOLDER}/*"))}
    return {folder: pid for folder, pid in pids.items() if pid is not None}


def wait_until(condition, process):
    ends = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < ends
        with pytest.raises(subprocess.TimeoutExpired):  # fails if the run has ended
            process.wait(0.05)


WHOLE = {
    "every fault injected": True,
    "nothing lost": True,
    "nothing duplicated": True,
    "replicas agree": True,
    "every tentative result corrected": True,
    "second law at 'out'": True,
}


def verdicts(document):
    return {verdict["name"]: verdict["holds"] for verdict in document["verdicts"]}


INPUT_OF = {"racks": "servers", "heat": "racks"}
ACCURACY = 0.75
"""The accuracy of the paper's system, at most."""


def predictions_in_time(events, *, deadline_s):
    """Return, for each predicted record, whether it was committed before the deadline of its epoch."""
    commits = [(event.at_s, event.about) for event in events if event.kind == "commit"]
    first_s = {}
    for at_s, about in sorted(commits, key=lambda commit: commit[0]):
        first_s.setdefault((about["stream"], about["epoch"]), at_s)
    predicted = [(at_s, about) for at_s, about in commits if about["quality"] == "predicted"]
    return [at_s <= first_s[INPUT_OF[about["stream"]], about["epoch"]] + deadline_s for at_s, about in predicted]


def predicted_shares(work):
    """Return the share of predicted numbers within 5 % of the truth, by column, as the agents computed it."""
    streams = [json.loads(path.read_text())["about"]["streams"] for path in work.glob(f"n*/{FOLDER}/*/host.json")]
    return {name: stream["by_column"] for each in streams for name, stream in each.items() if stream["scored_epochs"]}


def remaining_processes(tmp_path):
    lines = [process.info["cmdline"] or [] for process in psutil.process_iter(["cmdline"])]
    return [line for line in lines if any(str(tmp_path) in word for word in line)]


@pytest.mark.long
def test_stopped_hosts_are_predicted_and_killed_agent_restarts(tmp_path):
    app, trace, faults, work = (tmp_path / name for name in ("app.py", "servers.parquet", "faults.yaml", "run"))
    app.write_text(APP)
    write_servers(trace, events=60 * EPOCHS, seed=1, servers=60)
    stalls = {"share": 0.5, "how": "stop", "every_s": 12, "for_s": 5, "from_s": 14, "to_s": 30}
    faults.write_text(json.dumps({"seed": 1, "stalls": stalls}))
    options = ["--speed", "5", "--nodes", "2", "--protection", "prediction", "--deadline", "1", "--checkpoint-epochs", "5"]
    command = ["run", str(app), "--trace", str(trace), "--faults", str(faults), "--work", str(work), "--json", *options]
    with (tmp_path / "stderr").open("w") as stderr:
        process = subprocess.Popen([*HOLDFAST, *command], stdout=subprocess.PIPE, stderr=stderr, text=True)
    try:
        wait_until(lambda: len(agents(work)) == 2, process)
        folder, pid = sorted(agents(work).items())[0]
        os.killpg(pid, signal.SIGKILL)
        wait_until(lambda: agents(work).get(folder) not in (None, pid), process)
        stdout, _ = process.communicate(timeout=LIMIT_S)
    finally:
        process.kill()
        process.wait()
    errors = (tmp_path / "stderr").read_text()[-3000:]
    assert stdout, errors
    document = json.loads(stdout)
    assert document["state"] == "completed", errors
    assert verdicts(document) == WHOLE
    events = read_history(work)
    commits = [event.about for event in events if event.kind == "commit"]
    predicted = [about for about in commits if about["quality"] == "predicted"]
    assert len(predicted) >= 4 and all(about["producer"].startswith("agent of ") for about in predicted)
    in_time = predictions_in_time(events, deadline_s=1.0)
    assert sum(in_time) >= 0.75 * len(in_time), f"{sum(in_time)} of {len(in_time)} predictions came before their deadline"
    shares = predicted_shares(work)
    assert shares and min(columns["cpu"] for columns in shares.values()) > ACCURACY, shares
    assert len(document["faults"]) == 2
    assert not remaining_processes(tmp_path)


def run_through_stall(tmp_path, *, epochs, stall, options):
    """Run the application through a stall, check that its output is exact, and return its history."""
    app, trace, faults, work = (tmp_path / name for name in ("app.py", "servers.parquet", "faults.yaml", "run"))
    app.write_text(APP)
    write_servers(trace, events=60 * epochs, seed=1, servers=60)
    faults.write_text(json.dumps({"faults": [{"kind": "stall", "what": "pe", **stall}]}))
    command = ["run", str(app), "--trace", str(trace), "--faults", str(faults), "--work", str(work), "--json"]
    always = ["--speed", "5", "--checkpoint-epochs", "5"]
    run = subprocess.run([*HOLDFAST, *command, *always, *options], capture_output=True, text=True, timeout=LIMIT_S)
    assert run.stdout, run.stderr[-3000:]
    document = json.loads(run.stdout)
    assert document["state"] == "completed", run.stderr[-3000:]
    assert verdicts(document) == WHOLE
    assert not remaining_processes(tmp_path)
    return read_history(work)


@pytest.mark.long
def test_input_of_stalled_pe_is_rerouted_until_it_is_back(tmp_path):
    stall = {"at_s": 8, "target": ["racks/0.0"], "for_s": STALL_S}
    events = run_through_stall(
        tmp_path, epochs=65, stall=stall, options=["--nodes", "2", "--protection", "upstream", "--reroute-after", "2"]
    )
    (fault,) = (event for event in events if event.kind == "fault")
    commits = [event for event in events if event.kind == "commit" and event.about["stream"] == "racks"]
    assert {event.about["quality"] for event in commits} == {"exact"}
    producers = [event.about["producer"].split(" on ")[0] for event in commits if fault.at_s < event.at_s < fault.at_s + STALL_S]
    assert "racks/0.1" in producers, "no record was committed while the primary was stalled"
    assert set(producers[producers.index("racks/0.1") :]) == {"racks/0.1"}  # the primary may finish what it had begun
    assert commits[-1].about["producer"].startswith("racks/0.0 on ")
    texts = [event.about["text"] for event in events if event.kind == "orchestrator"]
    assert any(text.startswith("racks/0 is late by ") and "its input is re-routed to " in text for text in texts)
    assert any(text.startswith("racks/0 is back on ") for text in texts)


@pytest.mark.long
def test_pe_that_stalls_too_long_is_restarted_on_the_only_node(tmp_path):
    stall = {"at_s": 10, "target": ["racks/0"], "for_s": 10 * LIMIT_S}  # it never ends by itself
    events = run_through_stall(
        tmp_path, epochs=75, stall=stall, options=["--nodes", "1", "--protection", "prediction", "--deadline", "2"]
    )
    commits = [event.about for event in events if event.kind == "commit" and event.about["stream"] == "racks"]
    assert any(about["quality"] == "predicted" for about in commits)
    texts = [event.about["text"] for event in events if event.kind == "orchestrator"]
    assert any("was predicted for as long as its contract allows" in text for text in texts), texts
