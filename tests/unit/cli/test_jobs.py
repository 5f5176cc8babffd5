"""The lists of jobs and nodes, in a terminal and in a pipe."""

import io

from click.testing import CliRunner
from rich.console import Console

from holdfast.cli.jobs import jobs
from holdfast.cli.nodes import table
from holdfast.protocol import client

ERRORS = (
    "job 14 has 2 errors:\n  - task 'a/0' reads stream 'b:s', which that job does not make\n  - names job 'c', which is not there"
)
JOB = {"id": 14, "name": "a", "type": "streaming", "host_kind": "light", "state": "failed", "submitted_s": 0.0, "reason": ERRORS}
STATUS = {"ready": True, "error": None, "cpu_s": 7300.0, "memory_bytes": 300 * 2**20}
NODE = {
    "name": "node-17", "state": "draining", "host_kind": "light", "labels": {"rack": "r1", "zone": "north"}, "cores": 16.0,
    "memory_bytes": 2**36, "replicas": 120, "slots": 512, "since_s": 0.0, "stalled_s": 0.0, "host_status": STATUS,
}  # fmt: skip


class Orchestrator:
    """A client and its orchestrator with one job."""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None

    def jobs(self, **_):
        return [JOB]


def test_job_list_has_one_line_per_job_with_its_errors(monkeypatch):
    monkeypatch.setattr(client, "find_client", lambda *_, **__: Orchestrator())
    monkeypatch.delenv("COLUMNS", raising=False)
    lines = CliRunner().invoke(jobs, ["--all"]).output.splitlines()
    assert len(lines) == 2
    assert "job 14 has 2 errors: task 'a/0' reads stream 'b:s', which that job does not make; names job 'c'" in lines[1]


def test_narrow_terminal_does_not_break_numbers():
    shown = io.StringIO()
    Console(file=shown, width=80, markup=False).print(table([NODE, {**NODE, "host_status": None}], now_s=7300.0))
    first = shown.getvalue().splitlines()[1]
    for words in ("node-17", "draining", "light", "64.0 GiB", "120 of 512", "2 h"):
        assert words in first
    assert max(map(len, shown.getvalue().splitlines())) <= 80


def test_host_of_a_lost_node_is_unknown():
    shown = io.StringIO()
    Console(file=shown, width=200).print(table([{**NODE, "state": "lost"}], now_s=0.0))
    assert "unknown" in shown.getvalue() and "ready" not in shown.getvalue()
