"""A campaign on a Spark standalone cluster, beside the same campaign in one process."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parents[3] / "examples"
HOLDFAST = [sys.executable, "-m", "holdfast.cli.main"]
LIMIT_S = 240


def campaign(trace: Path, out: Path, *, master: str, env: dict[str, str]) -> dict[str, Any]:
    """The report of a campaign that has single targets, a group and a replica."""
    command = [
        *HOLDFAST,
        *("assess", str(EXAMPLES / "bargain_discovery.py"), "--trace", str(trace), "--out", str(out), "--json"),
        *("--target", "market", "--target", "trade_filter,quote_filter", "--protect", "trade_filter,aggregator,vwap"),
        *("--failover", "0.2", "--offset", "1500", "--offset", "4000", "--outage", "0.2", "--outage", "0.5"),
        *("--repetitions", "2", "--section", "200", "--score", "sum", "--score", "count"),
        *("--master", master, "--memory", "1g"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False, env=env)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert isinstance(report, dict)
    return report


@pytest.mark.long
def test_standalone_cluster_gives_the_same_campaign_results(
    tmp_path: Path, standalone_master: str, on_loopback: dict[str, str]
) -> None:
    trace = tmp_path / "market.csv"  # not Parquet: what was parsed is kept where the workers are
    parquet = tmp_path / "market.parquet"
    arguments = ["trace", "market", "--events", "8000", "--seed", "1", "--out", str(parquet)]
    subprocess.run([*HOLDFAST, *arguments], check=True, capture_output=True)
    _as_csv(parquet, trace)
    there = campaign(trace, tmp_path / "cluster", master=standalone_master, env=on_loopback)
    here = campaign(trace, tmp_path / "local", master="local[2]", env=on_loopback)
    assert there["identity"] == here["identity"]
    assert there["facts"]["why_slow"] is None
    assert there["trials"] == 4 * 2 * 2 * 2 * 2  # the group also without its replica
    for one, other in zip(there["scores"], here["scores"], strict=True):
        assert one["ranking"] == other["ranking"]
        assert len(one["what_if"]) > 0
        for mine, theirs in zip(one["what_if"], other["what_if"], strict=True):
            assert [*mine.values()][:2] == [*theirs.values()][:2]
            assert [*mine.values()][2:] == pytest.approx([*theirs.values()][2:], rel=1e-9)
        assert one["golden"] == pytest.approx(other["golden"], rel=1e-9)
        for mine, theirs in zip(one["cases"], other["cases"], strict=True):
            assert mine["impact"] > 0
            for metric in ("outage_impact", "recovery", "impact"):
                assert mine[metric] == pytest.approx(theirs[metric], rel=1e-9), (mine["case"], metric)
            for at, offset in enumerate(mine["offsets"]):
                assert offset["quality"] == pytest.approx(theirs["offsets"][at]["quality"], rel=1e-9)


def _as_csv(parquet: Path, csv: Path) -> None:
    import pyarrow.csv
    import pyarrow.parquet

    pyarrow.csv.write_csv(pyarrow.parquet.read_table(parquet), csv)
