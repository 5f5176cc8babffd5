"""The faults that can be injected, by name. A package adds its own by an entry point of the group `holdfast.faults`.

A fault is called with where it strikes. One that takes time or raises does so to whoever called it: as an action, to the
transition.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from holdfast.documents.document import format_value, join_names
from holdfast.entry_points import installed_entry_points
from holdfast.errors import HoldfastError, MachineError
from holdfast.protocol.node_files import FailureRequest, request_failure, write_fault_order

if TYPE_CHECKING:
    import psutil

    from holdfast.control.jobs.job_state import JobState
    from holdfast.control.nodes.replicas import PlacedReplica
    from holdfast.control.orchestrator import Orchestrator

GROUP = "holdfast.faults"
MAX_S = 3600
A_TIME = f"seconds from 0 to {MAX_S}"


class Injected(HoldfastError):
    """An action that failed because it was told to."""


@dataclass(frozen=True, slots=True)
class FaultContext:
    """Where a fault strikes. `node` and `pe` name whom, where it matters; `job` is whose transition it is, if it is one's."""

    orchestrator: Orchestrator
    job: JobState | None = None
    node: str | None = None
    pe: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)

    def seconds(self, name: str, default: float) -> float:
        value = self.settings.get(name, default)
        if not is_time(value):
            raise HoldfastError(f"setting '{name}': wanted {A_TIME}, got {value!r}")
        return float(value)

    def replica(self) -> PlacedReplica:
        """The replica that is struck: of the PE and node named, else the first of the job. Raises HoldfastError."""
        replicas = self.orchestrator.replicas
        among = replicas if self.job is None else replicas.of(self.job.id)
        fitting = [
            replica
            for replica in among
            if (
                self.pe is None or self.pe in (replica.pe, replica.task_name, f"{replica.task_name}.{replica.replica}", replica.key)
            )
            and (self.node is None or replica.node == self.node)
        ]
        if not fitting:
            raise HoldfastError(f"no replica to strike: wanted PE {self.pe or 'any'} on node {self.node or 'any'}")
        return min(fitting, key=lambda replica: replica.key)

    def host_process(self) -> psutil.Process:
        """The PE host of the node that is struck, if it runs on this machine. Raises HoldfastError."""
        import psutil

        name = self.node if self.node is not None and self.pe is None else self.replica().node
        node = self.orchestrator.resources.nodes.get(name)
        if node is None or node.host is None:
            raise HoldfastError(f"node '{name}' has not said which process its PE host is")
        try:
            process = psutil.Process(node.host.pid)
            if abs(process.create_time() - node.host.started_s) > 60 or "--work" not in process.cmdline():
                raise HoldfastError(f"node '{name}': its PE host does not run on the orchestrator's machine; strike it there")
        except (psutil.Error, ValueError, OverflowError):  # it has ended, or what the node says is no process
            raise HoldfastError(f"node '{name}': its PE host is not there") from None
        return process

    def host_work(self) -> Path:
        """The work folder of the PE host that is struck, if it runs on this machine. Raises HoldfastError."""
        arguments = self.host_process().cmdline()
        return Path(arguments[arguments.index("--work") + 1])

    def controller(self) -> int | None:
        """The process number of the living controller of the node that is struck. Raises HoldfastError for one on another machine.

        It is found by its folder and not as the host's parent, which is a stranger once the controller was started anew.
        """
        from holdfast.node.pe_hosts import living_controller

        return living_controller(self.host_work())

    def host_kind(self) -> str:
        """What kind of PE host is struck."""
        name = self.node if self.node is not None and self.pe is None else self.replica().node
        node = self.orchestrator.resources.nodes.get(name)
        return "" if node is None else node.offer.host_kind


Fault: TypeAlias = Callable[[FaultContext], Awaitable[None]]


async def crash_orchestrator(strike: FaultContext) -> None:
    """The orchestrator dies at once."""
    os.kill(os.getpid(), signal.SIGKILL)


async def crash_pe(strike: FaultContext) -> None:
    """One replica fails, as one does that gives up."""
    replica = strike.replica()
    if strike.host_kind() == "light":
        request_failure(strike.host_work(), FailureRequest(keys=(replica.key,)))
    else:
        _order(strike, kind="crash")


async def stall_pe(strike: FaultContext) -> None:
    """For `for_s`, one replica does nothing and says nothing of it."""
    _order(strike, kind="stall", for_s=strike.seconds("for_s", 5.0))


async def slow_pe(strike: FaultContext) -> None:
    """For `for_s`, every epoch of one replica takes `by_s` longer."""
    _order(strike, kind="slow", for_s=strike.seconds("for_s", 10.0), by_s=strike.seconds("by_s", 1.0))


async def stall_host(strike: FaultContext) -> None:
    """For `for_s`, a PE host stands still (SIGSTOP), with all that it started."""
    group, for_s = strike.host_process().pid, strike.seconds("for_s", 5.0)
    _signal(os.killpg, group, signal.SIGSTOP)
    # whoever lets it go on outlives this orchestrator: a host must not stay stopped because the orchestrator was struck too
    subprocess.Popen(
        ["/bin/sh", "-c", f"sleep {for_s}; kill -s CONT -- -{group}"],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip


async def crash_node(strike: FaultContext) -> None:
    """A node controller and its PE host die together; nothing there starts them again."""
    host, controller = strike.host_process(), strike.controller()
    if controller is not None:
        _signal(os.kill, controller, signal.SIGKILL)
    _signal(os.killpg, host.pid, signal.SIGKILL)


def _signal(send: Callable[[int, int], None], process: int, what: signal.Signals) -> None:
    """Send a signal. Raises HoldfastError where that cannot be: the process has just ended, or is another user's."""
    try:
        send(process, what)
    except OSError as error:
        raise HoldfastError(f"process {process} cannot be struck: {error.strerror}") from None


def _order(strike: FaultContext, **order: Any) -> None:
    """Have a Spark PE host do something to the replica that is struck."""
    if strike.host_kind() == "light":
        raise HoldfastError(f"a light PE cannot be told to {order['kind']}; strike a PE on Spark, or the PE host")
    target = strike.replica().key.split(":", 1)[1]
    write_fault_order([strike.host_work()], {"target": target, **order}, at_s=time.time())


async def crash_host(strike: FaultContext) -> None:
    """A PE host dies, and all replicas on it."""
    _signal(os.killpg, strike.host_process().pid, signal.SIGKILL)


async def crash_controller(strike: FaultContext) -> None:
    """A node controller dies; its PE host goes on."""
    controller = strike.controller()
    if controller is None:
        raise HoldfastError(f"no controller of the node in '{strike.host_work()}' lives")
    _signal(os.kill, controller, signal.SIGKILL)


async def delay(strike: FaultContext) -> None:
    """The transition takes `by_s` longer."""
    await asyncio.sleep(strike.seconds("by_s", 1.0))


async def fail(strike: FaultContext) -> None:
    """The action fails."""
    raise Injected("a fault was injected")


async def drop_messages(strike: FaultContext) -> None:
    """For `for_s`, messages of nodes are lost, or the answers to them."""
    strike.orchestrator.faults.disturb("drop", strike.node, for_s=strike.seconds("for_s", 2.0))


async def delay_messages(strike: FaultContext) -> None:
    """For `for_s`, messages of nodes and the answers to them are up to `by_s` late."""
    disturb = strike.orchestrator.faults.disturb
    disturb("delay", strike.node, for_s=strike.seconds("for_s", 2.0), by_s=strike.seconds("by_s", 0.5))


async def duplicate_messages(strike: FaultContext) -> None:
    """For `for_s`, messages of nodes come twice."""
    strike.orchestrator.faults.disturb("duplicate", strike.node, for_s=strike.seconds("for_s", 2.0))


async def cut_node(strike: FaultContext) -> None:
    """For `for_s`, no message of a node comes through."""
    node = strike.node or strike.replica().node
    strike.orchestrator.faults.disturb("cut", node, for_s=strike.seconds("for_s", 5.0))


async def database_away(strike: FaultContext) -> None:
    """For `for_s`, the database does not answer."""
    strike.orchestrator.persistence.database.simulate_outage(strike.seconds("for_s", 2.0))


LIBRARY: dict[str, Fault] = {
    "crash-orchestrator": crash_orchestrator,
    "crash-pe": crash_pe,
    "crash-host": crash_host,
    "crash-controller": crash_controller,
    "crash-node": crash_node,
    "stall-pe": stall_pe,
    "stall-host": stall_host,
    "slow-pe": slow_pe,
    "delay": delay,
    "raise": fail,
    "drop-messages": drop_messages,
    "delay-messages": delay_messages,
    "duplicate-messages": duplicate_messages,
    "cut-node": cut_node,
    "database-away": database_away,
}


TIMES: dict[Fault, tuple[str, ...]] = {
    **dict.fromkeys((crash_orchestrator, crash_pe, crash_host, crash_controller, crash_node, fail), ()),
    **dict.fromkeys((stall_pe, stall_host, drop_messages, duplicate_messages, cut_node, database_away), ("for_s",)),
    **dict.fromkeys((slow_pe, delay_messages), ("for_s", "by_s")),
    delay: ("by_s",),
}
"""The settings that a fault has, all of them times. Those of a package's faults are its own to check."""


def setting_errors(fault: Fault, settings: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Per setting that is wrong, its name and what is."""
    known = TIMES.get(fault)
    for name, value in settings.items() if known is not None else ():
        if name not in (known or ()):
            yield name, f"is no setting of this fault; settings are: {join_names(known or ())}"
        elif not is_time(value):
            yield name, f"wanted {A_TIME}, got {format_value(value)}"


def is_time(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= MAX_S


def all_faults() -> dict[str, Fault]:
    """The library, and what packages add to it or replace. Raises MachineError for one that cannot be loaded."""
    found = dict(LIBRARY)
    for entry in installed_entry_points(GROUP):
        try:
            found[entry.name] = entry.load()
        except Exception as error:
            raise MachineError(f"fault '{entry.name}' cannot be loaded from '{entry.value}': {error}; mend its package") from error
    return found
