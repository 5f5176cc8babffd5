"""A job on two nodes whose clocks differ by half a minute: nothing counts as hung, and the second law holds after kills."""

import importlib.util
from pathlib import Path

import pytest

from holdfast.documents.fault_schedule import Schedule, ScheduledFault
from holdfast.documents.job import Contract, Feed, Job
from holdfast.trace import write_market
from holdfast.trial.local_cluster import LocalCluster
from holdfast.trial.local_run import run_locally
from holdfast.trial.run_document import describe_run

from .test_run import EXAMPLE, require_no_processes

SKEW_S = 30


def faketime_library() -> Path | None:
    """Return the library that changes the clock of a process, from the package libfaketime or from Debian."""
    spec = importlib.util.find_spec("libfaketime")
    folders = [Path(spec.origin).parent / "vendor/libfaketime/src"] if spec is not None and spec.origin is not None else []
    folders += sorted(Path("/usr/lib").glob("*/faketime"))
    return next((folder / "libfaketime.so.1" for folder in folders if (folder / "libfaketime.so.1").exists()), None)


class SkewedCluster(LocalCluster):
    """A local cluster whose node n2 has a clock of its own."""

    def start_node(self, name: str, *options: str) -> None:
        own = dict(self._environment)
        if name == "n2":
            clock = {"FAKETIME": f"-{SKEW_S}s", "FAKETIME_DONT_FAKE_MONOTONIC": "1", "FAKETIME_DONT_RESET": "1"}
            self._environment |= {"LD_PRELOAD": str(faketime_library()), **clock}
        try:
            super().start_node(name, *options)
        finally:
            self._environment = own


@pytest.mark.long
@pytest.mark.skipif(faketime_library() is None, reason="needs libfaketime: pip install libfaketime")
def test_second_law_holds_on_nodes_whose_clocks_differ(tmp_path):
    trace = tmp_path / "market.parquet"
    write_market(trace, events=4_000, seed=1, tickers=50, rate=200.0, peak=400.0)
    job = Job(
        job="skewed",
        application=str(EXAMPLE),
        feed=Feed(trace=str(trace)),
        log=str(tmp_path / "log"),
        out=str(tmp_path / "out"),
        contract=Contract(tentative_after_s=1.0, checkpoint_epochs=5),
    )
    faults = [
        ScheduledFault(at_s=6, kind="crash", what="pe", target=("vwap/0.0",)),
        ScheduledFault(at_s=10, kind="crash", what="node", target=("n1",), back_after_s=1),
        ScheduledFault(at_s=14, kind="crash", what="orchestrator"),
    ]
    run = run_locally(
        job,
        SkewedCluster(tmp_path, nodes=2),
        schedule=Schedule(faults=tuple(faults)),
        for_s=None,
        verify=True,
        on_start=lambda: None,
        on_started=lambda client: None,
        show=lambda document, nodes, timeline: None,
    )
    document = describe_run(job, run, verify=True)
    verdicts = {verdict["name"]: verdict for verdict in document["verdicts"]}
    assert run.state == "completed", run.reason
    assert verdicts["second law at 'bargains'"]["holds"] is True, verdicts
    assert verdicts["every tentative result corrected"]["holds"] is True, verdicts
    assert not [event for event in run.events if "counts as hung" in str(event.about)]
    require_no_processes(tmp_path)
