"""A node as a process: what is left of it when its controller ends by a mistake of its own."""

import subprocess
import sys

from holdfast.manage.controller import Controller, Node
from holdfast.manage.hosts import living_host
from holdfast.manage.node import serve_node

BROKEN = """
import asyncio, sys
from pathlib import Path
from holdfast.manage.controller import Controller, Node
from holdfast.manage.hosts import living_host
from holdfast.manage.node import serve_node

async def broken(controller):
    while controller.host.status() is None:
        await asyncio.sleep(0.02)
    raise KeyError("odd")

Controller._talk = broken
serve_node(Node("n1", cores=1, memory_bytes=1, host="light"), Path(sys.argv[1]), orchestrator=sys.argv[1])
"""


def test_a_controller_that_breaks_says_what_becomes_of_its_pe_host_and_the_next_one_takes_it_up(tmp_path, monkeypatch):
    done = subprocess.run([sys.executable, "-c", BROKEN, str(tmp_path)], capture_output=True, text=True, timeout=60, check=False)
    left = living_host(tmp_path)
    found = []

    async def look(controller: Controller) -> None:
        found.append(living_host(tmp_path) if controller.host.alive() else None)  # its end is that of the node, in good order

    monkeypatch.setattr(Controller, "_talk", look)
    serve_node(Node("n1", cores=1, memory_bytes=1, host="light"), tmp_path, orchestrator=str(tmp_path))
    assert left is not None and found == [left], done.stderr
    assert living_host(tmp_path) is None
    assert done.returncode == 1
    assert (
        "the controller of node n1 ends by a mistake of its own (KeyError: 'odd'), told below; "
        f"its PE host (process {left}) goes on: start the node again with --work {tmp_path} to take it up, "
        f"or end it with 'kill {left}'"
    ) in done.stderr
