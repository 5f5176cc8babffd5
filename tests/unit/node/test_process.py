"""A node as a process: what happens to its PE host when its controller ends by an internal error."""

import resource
import subprocess
import sys

import pytest

from holdfast.errors import HoldfastError
from holdfast.node.controller import NodeController, NodeOffer
from holdfast.node.pe_hosts import living_host
from holdfast.node.process import _locked, serve_node

BROKEN = """
import asyncio, sys
from pathlib import Path
from holdfast.node.controller import NodeController, NodeOffer
from holdfast.node.pe_hosts import living_host
from holdfast.node.process import serve_node

async def broken(controller):
    while controller.host.status() is None:
        await asyncio.sleep(0.02)
    raise KeyError("odd")

NodeController._keep_registered = broken
serve_node(NodeOffer("n1", cores=1, memory_bytes=1, host_kind="light"), Path(sys.argv[1]), orchestrator=sys.argv[1])
"""


def test_failed_controller_logs_its_host_and_the_next_adopts_it(tmp_path, monkeypatch):
    done = subprocess.run([sys.executable, "-c", BROKEN, str(tmp_path)], capture_output=True, text=True, timeout=60, check=False)
    pid = living_host(tmp_path)
    pids = []

    async def look(controller: NodeController) -> None:
        pids.append(living_host(tmp_path) if controller.host.alive() else None)  # the host ends with its node

    monkeypatch.setattr(NodeController, "_keep_registered", look)
    serve_node(NodeOffer("n1", cores=1, memory_bytes=1, host_kind="light"), tmp_path, orchestrator=str(tmp_path))
    assert pid is not None and pids == [pid], done.stderr
    assert living_host(tmp_path) is None
    assert done.returncode == 1
    assert (
        "the controller of node n1 ends by an internal error (KeyError: 'odd'), shown below; "
        f"its PE host (process {pid}) keeps running: start the node again with --work {tmp_path} to control it again, "
        f"or end it with 'kill {pid}'"
    ) in done.stderr


def test_locked_folder_and_full_disk_are_reported(tmp_path):
    offered = NodeOffer("n1", cores=1, memory_bytes=1, host_kind="light")
    with _locked(tmp_path), pytest.raises(HoldfastError, match=r"another node controller runs in '.*'; give this node another"):
        serve_node(offered, tmp_path, orchestrator=str(tmp_path))
    most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, most[1]))  # every write fails, as on a full disk
    try:
        with pytest.raises(HoldfastError, match=r"' cannot be written: File too large; make room, or give a --work folder"):
            serve_node(offered, tmp_path / "full", orchestrator=str(tmp_path))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, most)
