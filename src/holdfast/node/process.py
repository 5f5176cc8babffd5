"""Runs a node as a process: locks its work folder, and runs its controller, PE host, agents and metrics server."""

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
from functools import partial
from pathlib import Path

from holdfast.errors import HoldfastError
from holdfast.node.agent_processes import AgentProcesses
from holdfast.node.controller import NodeController, NodeOffer
from holdfast.node.injected_faults import inject_fault
from holdfast.node.pe_host_watch import HUNG_S
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
    """Run a node until SIGTERM. A node that was killed continues with what is in its work folder.

    `orchestrator` is a URL, or the work folder of an orchestrator on this machine. `certificate` is the authority that signed the
    orchestrator's certificate, unless that is a public one. `metrics_port` 0 takes any free port; without it no metrics are served.
    A PE host that is silent for `hung_after_s` is killed and started again.
    """
    locate = locate_orchestrator(orchestrator, token)
    command = (*host_command(node.host_kind), "--work", str(work.resolve()), "--node", node.name, *host_options)
    with _locked(work):
        reports = Reports(work / REPORTS, clock=time.time)
        try:
            host = HostProcess(work.resolve(), command, log=_log)
            asyncio.run(
                _serve(
                    node,
                    locate,
                    host,
                    reports=reports,
                    metrics_port=metrics_port,
                    certificate=certificate,
                    hung_after_s=hung_after_s,
                )
            )
        except HoldfastError:
            raise
        except Exception as error:
            _log(_failure_text(node.name, work, error))
            raise
        finally:
            reports.close()


@contextlib.contextmanager
def _locked(work: Path) -> Iterator[None]:
    """Lock the node's folder. Raises HoldfastError if another controller has locked it, or if it cannot be written."""
    try:
        work.mkdir(parents=True, exist_ok=True)
        lock = (work / CONTROLLER_LOCK).open("ab", buffering=0)
    except OSError as error:
        raise _unwritable(work, error) from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            lock.truncate(0)
            lock.write(f"{os.getpid()}\n".encode())  # for people who look for the process
        except BlockingIOError:
            raise HoldfastError(f"another node controller runs in '{work}'; give this node another --work") from None
        except OSError as error:
            raise _unwritable(work, error) from error
        yield


def _unwritable(work: Path, error: OSError) -> HoldfastError:
    return HoldfastError(f"'{work}' cannot be written: {error.strerror}; make room, or give a --work folder that you may write to")


def _failure_text(name: str, work: Path, error: Exception) -> str:
    """Return the log line of a controller that ends by an internal error. Its PE host keeps running."""
    text = f"the controller of node {name} ends by an internal error ({type(error).__name__}: {error}), shown below"
    restart = f"start the node again with --work {work}"
    host = living_host(work)
    if host is None:
        return f"{text}; {restart}"
    return f"{text}; its PE host (process {host}) keeps running: {restart} to control it again, or end it with 'kill {host}'"


async def _serve(
    node: NodeOffer,
    locate: Callable[[], OrchestratorAddress],
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
    link = NodeLink(node.name, locate, HttpxClient(_trust(certificate)))
    controller = NodeController(
        node,
        link,
        host,
        reports=reports,
        log=_log,
        rng=random.Random(),  # only spreads retries in time
        monotonic=time.monotonic,
        agents=_agents(node, host.work),
        hung_after_s=hung_after_s,
        inject=partial(inject_fault, work=host.work, light=node.host_kind == "light"),
        write_presence=partial(link.write_presence, host.work, certificate=certificate),
    )
    if metrics_port is not None:
        from holdfast.node.metrics import serve_metrics

        controller.node = replace(node, metrics=serve_metrics(controller, metrics_port))
    try:
        await controller.run(stop)
    finally:
        await link.close()


def _agents(node: NodeOffer, work: Path) -> AgentProcesses | None:
    """Return the prediction agents of a node, or None if its host kind has none."""
    command = AGENTS.get(node.host_kind)
    return None if command is None else AgentProcesses(work, command, node=node.name, log=_log, monotonic=time.monotonic)


def _trust(certificate: Path | None) -> ssl.SSLContext | None:
    if certificate is None:
        return None
    try:
        return ssl.create_default_context(cafile=certificate)
    except (OSError, ssl.SSLError) as error:
        raise HoldfastError(f"certificate '{certificate}' cannot be used: {error}; give a PEM file") from error


def _log(text: str) -> None:
    with contextlib.suppress(OSError):  # a full disk costs the log line and nothing else
        print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)
