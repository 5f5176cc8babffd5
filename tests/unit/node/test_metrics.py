"""The metrics of a node."""

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from holdfast.errors import HoldfastError
from holdfast.node.metrics import replica_metrics, serve_metrics
from holdfast.protocol.messages import AssignedReplica, HostStatus, ReplicaStatus

A = AssignedReplica(job=1, pe="vwap", task=0, replica=1)


def test_metrics_show_replicas_and_host(bench):
    samples = {}

    async def scenario(bench):
        bench.orchestrator.assign(A)
        await bench.until(lambda: (A.key, 1, "running") in bench.reported())
        address = serve_metrics(bench.controller, 0)
        async with httpx.AsyncClient() as http:
            text = (await http.get(address)).text
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                samples[(sample.name, tuple(sorted(sample.labels.items())))] = sample.value

    bench.play(scenario)
    replica = (("job", "1"), ("pe", "vwap"), ("replica", "1"), ("task", "0"))
    assert samples[("holdfast_host_alive", ())] == 1
    assert samples[("holdfast_host_ready", ())] == 1
    assert samples[("holdfast_reports_waiting", ())] == 0
    assert samples[("holdfast_assignment_generation", ())] == 1
    assert samples[("holdfast_replica_live_epoch", replica)] == 0
    assert samples[("holdfast_replica_state", (*replica[:3], ("state", "running"), replica[3]))] == 1
    assert samples[("holdfast_replica_state", (*replica[:3], ("state", "failed"), replica[3]))] == 0
    assert not any(name == "holdfast_replica_rows_per_second" for name, _ in samples)


def test_rows_behind_are_exported_by_partition():
    source = ReplicaStatus(key="1:clicks/0.1", incarnation=1, state="running", rows_behind={"clicks:0": 7, "clicks:2": 0})
    families = replica_metrics(HostStatus(pid=1, started_s=0, beat_s=0, replicas=(source,)))
    samples = [sample for family in families for sample in family.samples if sample.name == "holdfast_source_rows_behind"]
    about = {"job": "1", "pe": "clicks", "task": "0", "replica": "1"}
    assert [(s.labels, s.value) for s in samples] == [({**about, "partition": f"clicks:{n}"}, v) for n, v in ((0, 7), (2, 0))]


def test_occupied_metrics_port_is_reported(bench):
    async def scenario(bench):
        port = int(serve_metrics(bench.controller, 0).rsplit(":", 1)[1].split("/")[0])
        with pytest.raises(HoldfastError, match=rf"metrics cannot be served on port {port}: .*; give another --metrics-port"):
            serve_metrics(bench.controller, port)

    bench.play(scenario)
