"""A node's metrics for Prometheus, read at each scrape from the controller and from the last status of the PE host."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from holdfast.errors import HoldfastError
from holdfast.node.controller import NodeController
from holdfast.protocol.messages import HostStatus, ReplicaStatus

ADDRESS = "127.0.0.1"
STATES = ("starting", "running", "idle", "finished", "failed")
REPLICA: tuple[tuple[str, str, Callable[[ReplicaStatus], float | None]], ...] = (
    ("live_epoch", "Last epoch done from first records.", lambda replica: replica.live),
    ("clean_epoch", "Last epoch done from final records.", lambda replica: replica.clean),
    ("lag_seconds", "Lag behind the close of the newest epoch.", lambda replica: replica.lag_s),
    ("rows_per_second", "Input rate.", lambda replica: replica.rows_s),
    ("latency_seconds", "From an epoch's close to its commit.", lambda replica: replica.latency_s),
    ("caught_up", "1 if the replica has processed all available input.", lambda replica: replica.caught_up),
)
HOST: tuple[tuple[str, str, Callable[[HostStatus], float]], ...] = (
    ("ready", "1 when the PE host can run replicas.", lambda host: host.ready),
    ("memory_bytes", "Memory of the PE host.", lambda host: host.memory_bytes),
    ("threads", "Threads of the PE host.", lambda host: host.threads),
    ("open_files", "Open files of the PE host.", lambda host: host.files),
    ("started_timestamp_seconds", "When the PE host was started.", lambda host: host.started_s),
    ("beat_timestamp_seconds", "When the PE host last beat.", lambda host: host.beat_s),
)


class NodeCollector(Collector):
    """Reads the metrics from the controller at every scrape."""

    def __init__(self, controller: NodeController) -> None:
        self._controller = controller

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics of the node."""
        controller = self._controller
        alive = controller.host.alive()
        yield GaugeMetricFamily("holdfast_host_alive", "1 while the PE host's process lives.", value=alive)
        yield GaugeMetricFamily(
            "holdfast_host_stalled_seconds",
            "Silence of the PE host that a busy machine does not explain.",
            value=controller.stalled_s,
        )
        yield GaugeMetricFamily("holdfast_reports_waiting", "Reports not yet acknowledged.", value=len(controller.reports))
        yield GaugeMetricFamily("holdfast_assignment_term", "Term of the assignment.", value=controller.assignment.term)
        yield GaugeMetricFamily(
            "holdfast_assignment_generation", "Generation of the assignment.", value=controller.assignment.generation
        )
        status = controller.host.status() if alive else None
        if status is None:
            return
        yield CounterMetricFamily("holdfast_host_cpu_seconds", "CPU time of the PE host.", value=status.cpu_s)
        for name, text, of in HOST:
            yield GaugeMetricFamily(f"holdfast_host_{name}", text, value=of(status))
        yield from replica_metrics(status)


def replica_metrics(status: HostStatus) -> Iterator[Metric]:
    """Yield the metrics of the replicas in a status."""
    labels = {replica.key: _labels(replica.key) for replica in status.replicas}
    for name, text, of in REPLICA:
        family = GaugeMetricFamily(f"holdfast_replica_{name}", text, labels=("job", "pe", "task", "replica"))
        for replica in status.replicas:
            value = of(replica)
            if value is not None:
                family.add_metric(labels[replica.key], value)
        yield family
    behind = GaugeMetricFamily(
        "holdfast_source_rows_behind",
        "Rows that a source had still to read when it last looked.",
        labels=("job", "pe", "task", "replica", "partition"),
    )
    for replica in status.replicas:
        for partition, rows in replica.rows_behind.items():
            behind.add_metric((*labels[replica.key], partition), rows)
    yield behind
    states = GaugeMetricFamily(
        "holdfast_replica_state", "1 for the present state of the replica.", labels=("job", "pe", "task", "replica", "state")
    )
    for replica in status.replicas:
        for state in STATES:
            states.add_metric((*labels[replica.key], state), replica.state == state)
    yield states


def _labels(key: str) -> tuple[str, str, str, str]:
    """Return the job, PE, task and replica in a replica's key.

    >>> _labels("7:vwap.fast/0.1")
    ('7', 'vwap.fast', '0', '1')
    """
    job, rest = key.split(":", 1)
    pe, numbers = rest.rsplit("/", 1)
    task, replica = numbers.split(".")
    return job, pe, task, replica


def serve_metrics(controller: NodeController, port: int) -> str:
    """Serve the metrics of a node until the process ends, and return the URL. Port 0 takes any free port."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(NodeCollector(controller))
    try:
        server, _ = start_http_server(port, addr=ADDRESS, registry=registry)
    except OSError as error:
        raise HoldfastError(f"metrics cannot be served on port {port}: {error.strerror}; give another --metrics-port") from error
    return f"http://{ADDRESS}:{server.server_port}/metrics"
