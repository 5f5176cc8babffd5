"""Faults that the orchestrator orders a node to inject into its own processes: its controller, its PE host, or a replica."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

from holdfast.errors import HoldfastError
from holdfast.node.pe_hosts import living_host
from holdfast.protocol.messages import FaultOrder
from holdfast.protocol.node_files import FailureRequest, request_failure, write_fault_order


def inject_fault(order: FaultOrder, work: Path, *, light: bool) -> None:
    """Inject a fault into the node of this process, whose folder is `work`. Raises HoldfastError if no PE host runs."""
    host = living_host(work)
    if host is None and order.kind not in ("crash-controller", "crash-node"):
        raise HoldfastError(f"fault {order.kind}: no PE host runs in '{work}'")
    match order.kind:
        case "crash-pe" | "stall-pe" | "slow-pe" as kind if light:
            if kind != "crash-pe":
                raise HoldfastError(f"fault {kind}: a light PE can only crash; choose a PE on Spark, or a PE host")
            request_failure(work, FailureRequest(keys=(order.target,)))
        case "crash-pe" | "stall-pe" | "slow-pe" as kind:
            target = order.target.split(":", 1)[1]
            write_fault_order(
                [work],
                {"kind": kind.removesuffix("-pe"), "target": target, "for_s": order.for_s, "by_s": order.by_s},
                at_s=time.time(),
            )
        case "stall-host":
            assert host is not None
            _signal_host(host, signal.SIGSTOP)
            subprocess.run(  # the shell's child continues the PE host, because another fault may kill this controller meanwhile
                ["/bin/sh", "-c", f"(sleep {order.for_s}; kill -s CONT -- -{host}) &"],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True, check=False,
            )  # fmt: skip
        case kind:
            if host is not None and kind != "crash-controller":
                _signal_host(host, signal.SIGKILL)
            if kind != "crash-host":
                os.kill(os.getpid(), signal.SIGKILL)


def _signal_host(host: int, number: signal.Signals) -> None:
    """Send a signal to a PE host and its children. Raises HoldfastError if it has just ended."""
    try:
        os.killpg(host, number)
    except OSError as error:
        raise HoldfastError(f"process {host} cannot be signalled: {error.strerror}") from None
