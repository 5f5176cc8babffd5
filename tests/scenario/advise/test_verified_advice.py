"""An advice that is held against real kills: real processes, from the trace to the verdict."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[3] / "examples"
HOLDFAST = [sys.executable, "-m", "holdfast.cli.main"]
LIMIT_S = 900


@pytest.mark.long
def test_kill_of_a_protected_unit_does_not_affect_output(tmp_path):
    trace, out = tmp_path / "market.parquet", tmp_path / "advice"
    generate = ["trace", "market", "--events", "40000", "--seed", "1", "--out", str(trace)]
    subprocess.run([*HOLDFAST, *generate], check=True, capture_output=True)
    options = ["--budget", "2", "--outage", "4", "--repetitions", "1", "--verify", "--out", str(out), "--memory", "1g", "--json"]
    command = [*HOLDFAST, "advise", str(EXAMPLES / "bargain_discovery.py"), "--trace", str(trace), *options]
    process = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S)
    assert process.returncode == 0, (process.stdout[-3000:], process.stderr[-1000:])
    document = json.loads(process.stdout)
    assert len(document["protect"]) == 2 and document["verified"]["holds"], document["verified"]
    kills = document["verified"]["kills"]
    assert [kill["replica"] for kill in kills] == [True, True, False]
    assert all(kill["noticed"] and kill["epochs"] for kill in kills)
    assert "the promise held" in (out / "advice.html").read_text()
