"""`holdfast run` with faults: real Spark, real processes, SIGKILL."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, nullcontext
from pathlib import Path

import httpx
import psutil
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from holdfast.documents.document import write_document
from holdfast.documents.history import read_history
from holdfast.planning.ppa.plan_document import PlanDocument, PlannedReplica
from holdfast.trace import write_market

EXAMPLE = Path(__file__).parents[3] / "examples" / "bargain_discovery.py"
HOLDFAST = [sys.executable, "-m", "holdfast.cli.main"]
LIMIT_S = 600
SERVER = """
import sys
from moto.server import ThreadedMotoServer

server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.read()
"""
"""An object store that prints its port, and ends when its standard input is closed."""


def wait_until(condition, *, limit_s):
    deadline_s = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline_s, f"not within {limit_s} s"
        time.sleep(0.02)


@contextmanager
def object_store(tmp_path):
    """Start an object store with conditional puts in a process of its own; yield the environment that points to it."""
    with (tmp_path / "store.log").open("wb") as log:
        server = subprocess.Popen(
            [sys.executable, "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
        )
    assert server.stdout is not None
    port = server.stdout.readline().strip()
    assert port, (tmp_path / "store.log").read_text()
    endpoint = f"http://127.0.0.1:{port}"

    def answers():
        try:
            return httpx.put(f"{endpoint}/logs").status_code == 200
        except httpx.TransportError:
            return False

    try:
        wait_until(answers, limit_s=60)
        yield {
            "AWS_ENDPOINT": endpoint,
            "AWS_ALLOW_HTTP": "true",
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_REGION": "us-east-1",
        }
    finally:
        server.kill()
        server.communicate()


def run(tmp_path, *, faults, seconds=None, options=(), environment=None, application=EXAMPLE, trace=True):
    """Run an application on a new market trace of this many seconds, on the existing trace, or with its readers."""
    market, schedule = tmp_path / "market.parquet", tmp_path / "faults.yaml"
    if seconds is not None:
        write_market(market, events=200 * seconds, seed=1, tickers=50, rate=200.0, peak=400.0)
    schedule.write_text(json.dumps(faults))
    command = [
        "run",
        str(application),
        *(["--trace", str(market)] if trace else []),
        "--faults",
        str(schedule),
        "--work",
        str(tmp_path / "run"),
        "--json",
    ]
    process = subprocess.run(
        [*HOLDFAST, *command, *options], capture_output=True, text=True, timeout=LIMIT_S, env={**os.environ, **(environment or {})}
    )
    assert process.stdout, process.stderr[-3000:]
    return json.loads(process.stdout), process


def remaining_processes(tmp_path):
    """Return the command lines of processes that still work in the run's folder."""
    lines = [process.info["cmdline"] or [] for process in psutil.process_iter(["cmdline"])]
    return [line for line in lines if any(str(tmp_path) in word for word in line)]


def require_no_processes(tmp_path):
    """Wait until no process works in the run's folder: killed processes may take a moment to end."""
    wait_until(lambda: not remaining_processes(tmp_path), limit_s=60)


LAW = {
    "nothing lost": True,
    "nothing duplicated": True,
    "replicas agree": True,
    "every tentative result corrected": True,
    "second law at 'bargains'": True,
}
ANYTHING = ["pe", "host", "node", "orchestrator"]
FAULT_OPTIONS = ["--nodes", "2", "--tentative-after", "1", "--checkpoint-epochs", "5"]
STORE_OPTIONS = ["--log", "s3://logs/log", "--out", "s3://logs/out"]


def require_second_law(document, process, *, faults):
    assert document["state"] == "completed", (document, process.stderr[-3000:])
    verdicts = {verdict["name"]: verdict["holds"] for verdict in document["verdicts"]}
    assert verdicts.pop("every fault injected") is not False  # the chosen target may be dead already
    assert verdicts == LAW, document["verdicts"]
    assert len(document["faults"]) == faults
    assert process.returncode == 0


def test_second_law_holds_after_random_kills(tmp_path):
    faults = {
        "seed": 3,
        "random": {"count": 3, "from_s": 3, "to_s": 12, "what": ["pe", "host", "node"], "back_after_s": 2},
        "faults": [{"at_s": 8, "kind": "crash", "what": "orchestrator"}],
    }
    document, process = run(tmp_path, seconds=18, faults=faults, options=FAULT_OPTIONS)
    require_second_law(document, process, faults=4)
    require_no_processes(tmp_path)
    assert f"report: {document['report']}" in process.stderr
    report = Path(document["report"]).read_text()
    assert "crash orchestrator" in report and document["verdicts"][0]["reason"] in report


def test_second_law_holds_with_the_log_on_an_object_store(tmp_path):
    faults = {"seed": 4, "random": {"count": 3, "from_s": 3, "to_s": 8, "what": ANYTHING, "back_after_s": 2}}
    with object_store(tmp_path) as environment:
        document, process = run(
            tmp_path, seconds=12, faults=faults, options=[*FAULT_OPTIONS, *STORE_OPTIONS], environment=environment
        )
    require_second_law(document, process, faults=3)


@pytest.mark.long
@pytest.mark.parametrize("stored", [False, True], ids=["path", "object store"])
@pytest.mark.parametrize(
    ("seed", "kinds"), [(5, ["crash"]), (7, ["crash"]), (12, ["crash"]), (8, ["crash", "stall", "slow", "cut"])]
)
def test_second_law_holds_for_more_random_faults(tmp_path, seed, kinds, stored):
    random_faults = {"count": 5, "from_s": 3, "to_s": 15, "kinds": kinds, "what": ANYTHING, "back_after_s": 2, "for_s": 4}
    with object_store(tmp_path) if stored else nullcontext({}) as environment:
        options = [*FAULT_OPTIONS, *(STORE_OPTIONS if stored else [])]
        faults = {"seed": seed, "random": random_faults}
        document, process = run(tmp_path, seconds=20, faults=faults, options=options, environment=environment)
    require_second_law(document, process, faults=5)
    require_no_processes(tmp_path)


PICKY = """
from pyspark.sql import functions as F

from holdfast import App

app = App("picky")
market = app.source("market", "seq long, time timestamp, ticker string, kind string, price double", key="ticker")


@app.operator(inputs=market)
def picky(events):
    return events.select("seq", F.expr("if(seq = 700, raise_error('unlucky'), price)").alias("price"))


@app.operator(inputs=market)
def calm(events):
    return events.select("seq", "ticker")


app.sink("broken", picky)
app.sink("whole", calm)
"""


def test_failing_operator_is_named_and_the_rest_finishes(tmp_path):
    application = tmp_path / "picky.py"
    application.write_text(PICKY)
    document, process = run(tmp_path, seconds=10, faults={}, options=["--nodes", "2", "--no-verify"], application=application)
    assert (document["state"], process.returncode) == ("failed", 1)
    message = r"picky/0 abandoned, last: .*operator 'picky' \(picky\.py:\d+\).*unlucky.*seq (\d+) to (\d+), tried 3 times"
    match = re.search(message, document["reason"], re.DOTALL)
    assert match, document["reason"]
    assert int(match[1]) <= 700 <= int(match[2])
    events = read_history(tmp_path / "run")
    epochs = {
        sink: {e.about["epoch"] for e in events if e.kind == "output" and e.about["sink"] == sink} for sink in ("whole", "broken")
    }
    assert len(epochs["whole"]) == document["epochs"]
    assert 0 < len(epochs["broken"]) < document["epochs"]
    assert document["rows"]["whole"] == 2000
    require_no_processes(tmp_path)


def write_turning_market(tmp_path, *, trades_s, quotes_s):
    """Write a market trace that has mostly trades first and mostly quotes later."""
    parts = []
    for seed, (seconds, quotes) in enumerate([(trades_s, 0.2), (quotes_s, 0.8)]):
        path = tmp_path / f"part-{seed}.parquet"
        write_market(path, events=200 * seconds, seed=seed, tickers=50, rate=200.0, peak=300.0, quotes=quotes)
        parts.append(pq.read_table(path))
    first, second = parts
    shift = pc.add(pc.subtract(pc.max(first["time"]), pc.min(second["time"])), pa.scalar(1_000_000, pa.duration("us")))
    moved = {"seq": pc.add(second["seq"], pc.max(first["seq"])), "time": pc.add(second["time"], shift)}
    columns = [moved[name] if name in moved else second[name] for name in second.column_names]
    pq.write_table(pa.concat_tables([first, pa.table(columns, schema=second.schema)]), tmp_path / "market.parquet")


@pytest.mark.long
def test_plan_follows_the_rates_despite_an_orchestrator_crash(tmp_path):
    write_turning_market(tmp_path, trades_s=40, quotes_s=120)
    mostly_trades = ("aggregator", "market", "quote_filter", "trade_filter", "trade_quote")
    plan = PlanDocument(
        topology="bargain-discovery",
        objective="ic",
        budget=5,
        replicated=tuple(PlannedReplica(task=f"{name}/0") for name in mostly_trades),
    )
    write_document(tmp_path / "plan.json", plan)
    faults = {
        "faults": [
            {"at_s": 35, "kind": "crash", "what": "orchestrator"},
            {"at_s": 45, "kind": "crash", "what": "pe", "target": ["bargain_index/0.0"]},
        ]
    }
    options = ["--nodes", "2", "--plan", str(tmp_path / "plan.json"), "--adapt", "5", "--speed", "3", "--checkpoint-epochs", "10"]
    document, process = run(tmp_path, faults=faults, options=options)
    assert document["state"] == "completed", (document, process.stderr[-3000:])
    assert all(verdict["holds"] for verdict in document["verdicts"]), document["verdicts"]
    texts = [event.about["text"] for event in read_history(tmp_path / "run") if event.kind == "orchestrator"]
    (moved,) = [text for text in texts if text.startswith("the plan follows the rates")]
    assert "starts bargain_index/0, stops aggregator/0" in moved


@pytest.mark.long
def test_standalone_cluster_survives_the_kill_of_a_node(tmp_path, standalone_master, on_loopback):
    faults = {"faults": [{"at_s": 4, "kind": "crash", "what": "node", "target": ["n2"]}]}
    options = ["--nodes", "2", "--master", standalone_master, "--memory", "512m", "--checkpoint-epochs", "5"]
    document, process = run(tmp_path, seconds=10, faults=faults, options=options, environment=on_loopback)
    assert document["state"] == "completed", (document, process.stderr[-3000:])
    assert all(verdict["holds"] for verdict in document["verdicts"]), document["verdicts"]
    require_no_processes(tmp_path)


def test_orchestrator_kills_at_transitions_do_not_affect_spark():
    command = ["inject", "--beside-spark", "--sample", "4", "--seed", "6", "--json"]
    process = subprocess.run([*HOLDFAST, *command], capture_output=True, text=True, timeout=LIMIT_S)
    assert process.stdout, process.stderr[-3000:]
    document = json.loads(process.stdout)
    assert document["healed"], document["tests"]
    assert {test["machine"] for test in document["tests"]} == {"streaming", "finite"}
    assert {test["moment"] for test in document["tests"]} == {"before", "after", "done"}
    assert document["bystander"]["errors"] == []
    assert document["bystander"]["epochs"] >= 10
    assert process.returncode == 0


@pytest.mark.long
def test_interrupted_run_leaves_a_report_and_can_be_resumed(tmp_path):
    market, work = tmp_path / "market.parquet", tmp_path / "run"
    write_market(market, events=200 * 30, seed=1, tickers=50, rate=200.0, peak=400.0)
    command = [*HOLDFAST, "run", str(EXAMPLE), "--trace", str(market), "--work", str(work), "--nodes", "2", "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        wait_until(lambda: len(list(work.glob("out/**/*.parquet"))) >= 3 or process.poll() is not None, limit_s=LIMIT_S)
        process.send_signal(signal.SIGINT)
        out, errors = process.communicate(timeout=LIMIT_S)
    finally:
        process.kill()
    assert process.returncode == 130, errors[-3000:]
    partial = json.loads(out)
    assert partial["state"] == "interrupted"
    assert not any(verdict["holds"] is False for verdict in partial["verdicts"])
    assert "interrupted" in (work / "run.html").read_text()
    require_no_processes(tmp_path)
    resumed = subprocess.run([*command, "--resume"], capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert resumed.returncode == 0, resumed.stderr[-3000:]
    document = json.loads(resumed.stdout)
    assert document["state"] == "completed"
    assert {verdict["name"]: verdict["holds"] for verdict in document["verdicts"]} == LAW
    again = subprocess.run([*command, "--resume"], capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert again.returncode == 2
    assert "cannot be resumed: its job is completed" in again.stderr
