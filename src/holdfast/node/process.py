"""A node as a process: its work folder, its PE host, its metrics, its controller, and an orderly end."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import random
import signal
import ssl
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from holdfast.errors import HoldfastError
from holdfast.node.agent_processes import AgentProcesses
from holdfast.node.controller import HUNG_S, NodeController, NodeOffer
from holdfast.node.pe_hosts import AGENTS, HostProcess, host_command, living_host
from holdfast.node.reports import Reports
from holdfast.protocol.http_client import HttpxClient
from holdfast.protocol.node_files import CONTROLLER_LOCK
from holdfast.protocol.node_link import NodeLink, OrchestratorAddress, locate_orchestrator

REPORTS = "reports.db"


def serve_node(
    node: NodeOffer,
    work: Path,
    *,
    orchestrator: str,
    token: Path | None = None,
    host_options: Sequence[str] = (),
    metrics_port: int | None = None,
    certificate: Path | None = None,
    hung_after_s: float = HUNG_S,
) -> None:
    """Be a node until SIGTERM. What is in the work folder from an earlier life is taken up again.

    `orchestrator` is a URL, or the work folder of an orchestrator on this machine; `certificate` the authority that signed its
    certificate, where that is not a public one. Metrics are served on `metrics_port` (0: a free one), if it is given. A PE host
    that was silent for `hung_after_s` is killed and started again.
    """
    find = locate_orchestrator(orchestrator, token)
    command = (*host_command(node.host_kind), "--work", str(work.resolve()), "--node", node.name, *host_options)
    with _locked(work):
        reports = Reports(work / REPORTS, clock=time.time)
        try:
            host = HostProcess(work.resolve(), command, log=_say)
            asyncio.run(
                _serve(
                    node, find, host, reports=reports, metrics_port=metrics_port, certificate=certificate, hung_after_s=hung_after_s
                )
            )
        except HoldfastError:
            raise
        except Exception as error:
            _say(_last_words(node.name, work, error))
            raise  # a mistake of ours, with all there is to find it by
        finally:
            reports.close()


@contextlib.contextmanager
def _locked(work: Path) -> Iterator[None]:
    """Hold the node's folder against other controllers. Raises HoldfastError where one has it, or nothing can be written there."""
    try:
        work.mkdir(parents=True, exist_ok=True)
        lock = (work / CONTROLLER_LOCK).open("ab", buffering=0)
    except OSError as error:
        raise _unwritable(work, error) from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            lock.truncate(0)
            lock.write(f"{os.getpid()}\n".encode())  # whose lock it is: see `hosts.living_controller`
        except BlockingIOError:
            raise HoldfastError(f"another node controller runs in '{work}'; give this node another --work") from None
        except OSError as error:
            raise _unwritable(work, error) from error
        yield


def _unwritable(work: Path, error: OSError) -> HoldfastError:
    return HoldfastError(f"'{work}' cannot be written: {error.strerror}; make room, or give a --work folder that you may write to")


def _last_words(name: str, work: Path, error: Exception) -> str:
    """What is said by a controller that ends by a mistake of its own, of which its PE host knows nothing."""
    said = f"the controller of node {name} ends by a mistake of its own ({type(error).__name__}: {error}), told below"
    again = f"start the node again with --work {work}"
    host = living_host(work)
    if host is None:
        return f"{said}; {again}"
    return f"{said}; its PE host (process {host}) goes on: {again} to take it up, or end it with 'kill {host}'"


async def _serve(
    node: NodeOffer,
    find: Callable[[], OrchestratorAddress],
    host: HostProcess,
    *,
    reports: Reports,
    metrics_port: int | None,
    certificate: Path | None,
    hung_after_s: float,
) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    link = NodeLink(node.name, find, HttpxClient(_trust(certificate)))
    controller = NodeController(
        node,
        link,
        host,
        reports=reports,
        log=_say,
        rng=random.Random(),  # only spreads retries in time
        monotonic=time.monotonic,
        agents=_agents(node, host.work),
        hung_after_s=hung_after_s,
    )
    if metrics_port is not None:
        from holdfast.node.metrics import serve_metrics

        controller.node = replace(node, metrics=serve_metrics(controller, metrics_port))
    try:
        await controller.run(stop)
    finally:
        await link.close()


def _agents(node: NodeOffer, work: Path) -> AgentProcesses | None:
    """The prediction agents of a node, for a kind of PE host that has them."""
    command = AGENTS.get(node.host_kind)
    return None if command is None else AgentProcesses(work, command, node=node.name, log=_say, monotonic=time.monotonic)


def _trust(certificate: Path | None) -> ssl.SSLContext | None:
    if certificate is None:
        return None
    try:
        return ssl.create_default_context(cafile=certificate)
    except (OSError, ssl.SSLError) as error:
        raise HoldfastError(f"certificate '{certificate}' cannot be used: {error}; give a PEM file") from error


def _say(text: str) -> None:
    with contextlib.suppress(OSError):  # a log that cannot be written, on a full disk say, costs the line and nothing else
        print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)
