"""Applications that run while their parts are killed: real Spark, real processes, SIGKILL."""

import json
import os
import re
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
"""An object store that says which port it has got, and ends with whoever started it."""


def wait_until(condition, *, limit_s):
    ends = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < ends, f"not within {limit_s} s"
        time.sleep(0.02)


@contextmanager
def object_store(tmp_path):
    """An object store behind HTTP, with conditional puts, as a process of its own; gives the URL of a log in it."""
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


def run(tmp_path, *, faults, seconds=None, options=(), environment=None, application=EXAMPLE):
    """Run an application over a market of so many seconds, or over the one that is there."""
    market, schedule = tmp_path / "market.parquet", tmp_path / "faults.yaml"
    if seconds is not None:
        write_market(market, events=200 * seconds, seed=1, tickers=50, rate=200.0, peak=400.0)
    schedule.write_text(json.dumps(faults))
    command = [
        "run",
        str(application),
        "--trace",
        str(market),
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


def left_behind(tmp_path):
    """Processes that still work in the run's folder."""
    lines = [process.info["cmdline"] or [] for process in psutil.process_iter(["cmdline"])]
    return [line for line in lines if any(str(tmp_path) in word for word in line)]


def require_nothing_left(tmp_path):
    """What was killed last may take a moment to be gone."""
    wait_until(lambda: not left_behind(tmp_path), limit_s=60)


LAW = {
    "nothing lost": True,
    "nothing duplicated": True,
    "replicas agree": True,
    "every tentative result corrected": True,
    "second law at 'bargains'": True,
}
ANYTHING = ["pe", "host", "node", "orchestrator"]
STRUCK = ["--nodes", "2", "--tentative-after", "1", "--checkpoint-epochs", "5"]
STORED = ["--log", "s3://logs/log", "--out", "s3://logs/out"]


def require_whole(document, process, *, faults):
    assert document["state"] == "completed", (document, process.stderr[-3000:])
    found = {verdict["name"]: verdict["holds"] for verdict in document["verdicts"]}
    assert found.pop("every fault struck") is not False  # what is drawn may be dead already
    assert found == LAW, document["verdicts"]
    assert len(document["faults"]) == faults
    assert process.returncode == 0


def test_the_output_is_whole_after_pes_hosts_nodes_and_the_orchestrator_were_killed_at_random(tmp_path):
    faults = {
        "seed": 3,
        "random": {"count": 3, "from_s": 3, "to_s": 12, "what": ["pe", "host", "node"], "back_after_s": 2},
        "faults": [{"at_s": 8, "kind": "crash", "what": "orchestrator"}],
    }
    document, process = run(tmp_path, seconds=18, faults=faults, options=STRUCK)
    require_whole(document, process, faults=4)
    require_nothing_left(tmp_path)
    assert f"report: {document['report']}" in process.stderr
    report = Path(document["report"]).read_text()
    assert "crash orchestrator" in report and document["verdicts"][0]["said"] in report


def test_with_its_log_on_an_object_store_random_kills_cost_nothing(tmp_path):
    faults = {"seed": 4, "random": {"count": 3, "from_s": 3, "to_s": 8, "what": ANYTHING, "back_after_s": 2}}
    with object_store(tmp_path) as environment:
        document, process = run(tmp_path, seconds=12, faults=faults, options=[*STRUCK, *STORED], environment=environment)
    require_whole(document, process, faults=3)


@pytest.mark.long
@pytest.mark.parametrize("stored", [False, True], ids=["path", "object store"])
@pytest.mark.parametrize(
    ("seed", "kinds"), [(5, ["crash"]), (7, ["crash"]), (12, ["crash"]), (8, ["crash", "stall", "slow", "cut"])]
)
def test_the_output_is_whole_whatever_is_drawn(tmp_path, seed, kinds, stored):
    drawn = {"count": 5, "from_s": 3, "to_s": 15, "kinds": kinds, "what": ANYTHING, "back_after_s": 2, "for_s": 4}
    with object_store(tmp_path) if stored else nullcontext({}) as environment:
        options = [*STRUCK, *(STORED if stored else [])]
        faults = {"seed": seed, "random": drawn}
        document, process = run(tmp_path, seconds=20, faults=faults, options=options, environment=environment)
    require_whole(document, process, faults=5)
    require_nothing_left(tmp_path)


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


def test_an_operator_that_cannot_bear_a_row_is_named_and_the_rest_goes_on_to_its_end(tmp_path):
    application = tmp_path / "picky.py"
    application.write_text(PICKY)
    document, process = run(tmp_path, seconds=10, faults={}, options=["--nodes", "2", "--no-verify"], application=application)
    assert (document["state"], process.returncode) == ("failed", 1)
    words = r"picky/0 abandoned, last: .*operator 'picky' \(picky\.py:\d+\).*unlucky.*seq (\d+) to (\d+), tried 3 times"
    said = re.search(words, document["reason"], re.DOTALL)
    assert said, document["reason"]
    assert int(said[1]) <= 700 <= int(said[2])
    events = read_history(tmp_path / "run")
    left = {
        sink: {e.about["epoch"] for e in events if e.kind == "output" and e.about["sink"] == sink} for sink in ("whole", "broken")
    }
    assert len(left["whole"]) == document["epochs"]
    assert 0 < len(left["broken"]) < document["epochs"]
    assert document["rows"]["whole"] == 2000
    require_nothing_left(tmp_path)


def write_turning_market(tmp_path, *, trades_s, quotes_s):
    """A market of mostly trades at first and mostly quotes later."""
    parts = []
    for seed, (seconds, quotes) in enumerate([(trades_s, 0.2), (quotes_s, 0.8)]):
        path = tmp_path / f"part-{seed}.parquet"
        write_market(path, events=200 * seconds, seed=seed, tickers=50, rate=200.0, peak=300.0, quotes=quotes)
        parts.append(pq.read_table(path))
    first, then = parts
    between = pc.add(pc.subtract(pc.max(first["time"]), pc.min(then["time"])), pa.scalar(1_000_000, pa.duration("us")))
    moved = {"seq": pc.add(then["seq"], pc.max(first["seq"])), "time": pc.add(then["time"], between)}
    columns = [moved[name] if name in moved else then[name] for name in then.column_names]
    pq.write_table(pa.concat_tables([first, pa.table(columns, schema=then.schema)]), tmp_path / "market.parquet")


@pytest.mark.long
def test_a_plan_follows_the_rates_while_the_application_runs_and_outlives_the_orchestrator(tmp_path):
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
    said = [event.about["said"] for event in read_history(tmp_path / "run") if event.kind == "orchestrator"]
    (moved,) = [text for text in said if text.startswith("the plan follows the rates")]
    assert "starts bargain_index/0, stops aggregator/0" in moved


@pytest.mark.long
def test_nodes_of_a_standalone_cluster_run_an_application_and_one_of_them_is_killed(tmp_path, standalone_master, on_loopback):
    faults = {"faults": [{"at_s": 4, "kind": "crash", "what": "node", "target": ["n2"]}]}
    options = ["--nodes", "2", "--master", standalone_master, "--memory", "512m", "--checkpoint-epochs", "5"]
    document, process = run(tmp_path, seconds=10, faults=faults, options=options, environment=on_loopback)
    assert document["state"] == "completed", (document, process.stderr[-3000:])
    assert all(verdict["holds"] for verdict in document["verdicts"]), document["verdicts"]
    require_nothing_left(tmp_path)


def test_an_application_on_spark_does_not_notice_that_the_orchestrator_is_killed_at_transitions():
    command = ["inject", "--beside-spark", "--sample", "4", "--seed", "6", "--json"]
    process = subprocess.run([*HOLDFAST, *command], capture_output=True, text=True, timeout=LIMIT_S)
    assert process.stdout, process.stderr[-3000:]
    document = json.loads(process.stdout)
    assert document["healed"], document["tests"]
    assert {test["machine"] for test in document["tests"]} == {"streaming", "finite"}
    assert {test["moment"] for test in document["tests"]} == {"before", "after", "done"}
    assert document["beside"]["problems"] == []
    assert document["beside"]["epochs"] >= 10
    assert process.returncode == 0
