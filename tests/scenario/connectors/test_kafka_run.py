"""From topic to topic and to a Delta table, with a real broker, real Spark and SIGKILL: the output equals the batch run."""

import subprocess

import pyarrow.parquet as pq
import pytest

from holdfast.trace import write_market
from holdfast.trial.local_cluster import LocalCluster
from holdfast.trial.process_cluster import HOLDFAST

from .kafka_campaign import EXAMPLE, Campaign, bargains_per_ticker


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    path = tmp_path_factory.mktemp("market") / "market.parquet"
    write_market(path, events=3600, seed=1, tickers=40)
    return path


@pytest.fixture(scope="module")
def wanted(trace):
    """The output of the batch run: one Spark plan over the whole trace."""
    out = trace.parent / "batch"
    subprocess.run([*HOLDFAST, "replay", str(EXAMPLE), "--trace", str(trace), "--out", str(out)], check=True, timeout=300)
    rows = pq.read_table(out / "bargains.parquet").to_pylist()
    assert len(rows) > 200
    return bargains_per_ticker(rows)


@pytest.fixture(scope="module")
def cluster(broker, tmp_path_factory):
    with LocalCluster(tmp_path_factory.mktemp("cluster"), nodes=2) as cluster:
        cluster.start()
        yield cluster


@pytest.mark.parametrize("seed", [*range(2), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(2, 12))])
def test_output_equals_the_batch_run_under_kills(cluster, broker, tmp_path, trace, wanted, seed):
    Campaign(cluster, broker, tmp_path, seed=seed, trace=trace, wanted=wanted).play()
