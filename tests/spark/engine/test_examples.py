"""The example applications as files: importing them starts nothing."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[3] / "examples").glob("*.py"))


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_example_loads_without_java(file):
    code = f"from holdfast.app.load import load_app; print(*load_app({str(file)!r}).graph().order)"
    env = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"} | {"PATH": ""}
    ran = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert len(ran.stdout.split()) >= 3


def test_there_are_ten_examples():
    names = ["bargain_discovery", "datacenter_monitor", "kafka_averages", "pipeline", "top_pages", "traffic_incidents"]
    queries = ["ad_conversions", "click_sessions", "idle_machines", "unique_orders"]
    assert [file.stem for file in EXAMPLES] == sorted([*names, *queries])
