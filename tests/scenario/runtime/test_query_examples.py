"""The example applications with Structured Streaming queries, with kills: real Spark, real processes, SIGKILL."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.documents.history import read_history

EXAMPLES = Path(__file__).parents[3] / "examples"
HOLDFAST = [sys.executable, "-m", "holdfast.cli.main"]
LIMIT_S = 600
QUERY_OF = {
    "click_sessions": "sessions",
    "ad_conversions": "conversions",
    "unique_orders": "unique_orders",
    "idle_machines": "silent",
}


def write_trace(name, path, *, seconds):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.write_trace(path, seconds=seconds)


def run(tmp_path, name, *, seconds, faults, options=()):
    trace = tmp_path / ("ads" if name == "ad_conversions" else "trace.parquet")
    write_trace(name, trace, seconds=seconds)
    schedule, work = tmp_path / "faults.yaml", tmp_path / "run"
    schedule.write_text(json.dumps(faults))
    command = ["run", str(EXAMPLES / f"{name}.py"), "--trace", str(trace), "--faults", str(schedule), "--work", str(work), "--json"]
    process = subprocess.run([*HOLDFAST, *command, *options], capture_output=True, text=True, timeout=LIMIT_S)
    assert process.stdout, process.stderr[-3000:]
    return json.loads(process.stdout), process


def require_laws(document, process, tmp_path, *, faults):
    assert document["state"] == "completed", (document, process.stderr[-3000:])
    assert process.returncode == 0
    verdicts = {verdict["name"]: verdict["holds"] for verdict in document["verdicts"]}
    assert verdicts.pop("every fault injected") is not False  # the chosen target may be dead already
    assert all(verdicts.values()), document["verdicts"]
    assert sum(name.startswith("second law") for name in verdicts) == len(document["rows"])
    assert len(document["faults"]) == faults
    assert all(document["rows"].values()), document["rows"]
    return {event.about.get("quality") for event in read_history(tmp_path / "run") if event.kind == "commit"}


OPTIONS = ["--nodes", "2", "--tentative-after", "1", "--checkpoint-epochs", "5"]


def test_laws_hold_after_kills_of_a_source_and_a_query(tmp_path):
    faults = {
        "faults": [
            {"at_s": 12, "kind": "crash", "what": "pe", "target": ["clicks/0.0"], "back_after_s": 4},
            {"at_s": 18, "kind": "crash", "what": "pe", "target": ["sessions/0.0"]},
        ]
    }
    document, process = run(tmp_path, "click_sessions", seconds=30, faults=faults, options=OPTIONS)
    qualities = require_laws(document, process, tmp_path, faults=2)
    assert "tentative" in qualities


@pytest.mark.long
@pytest.mark.parametrize("replicas", [1, 2])
@pytest.mark.parametrize("name", list(QUERY_OF))
def test_laws_hold_for_queries_with_random_kills(tmp_path, name, replicas):
    if name == "idle_machines":
        pytest.importorskip("google.protobuf", reason="transformWithState needs the extra 'stateful'")
    query = QUERY_OF[name]
    anything = ["pe", "host", "node", "orchestrator"]
    faults = {"seed": 11 + replicas, "random": {"count": 4, "from_s": 5, "to_s": 30, "what": anything, "back_after_s": 3}}
    options = [*OPTIONS, "--replicas", f"{query}={replicas}"]
    document, process = run(tmp_path, name, seconds=45, faults=faults, options=options)
    require_laws(document, process, tmp_path, faults=4)
