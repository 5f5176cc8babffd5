"""The faults that can be injected, by name. A package adds its own with an entry point of the group `holdfast.faults`.

A fault is a coroutine that gets a `FaultContext`. If it takes time or raises, so does its caller: for an action, the transition.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from holdfast.documents.document import format_value, join_names
from holdfast.entry_points import installed_entry_points
from holdfast.errors import HoldfastError, MachineError

if TYPE_CHECKING:
    from holdfast.control.jobs.job_state import JobState
    from holdfast.control.nodes.replicas import PlacedReplica
    from holdfast.control.orchestrator import Orchestrator

GROUP = "holdfast.faults"
MAX_S = 3600
A_TIME = f"seconds from 0 to {MAX_S}"


class InjectedFailure(HoldfastError):
    """The injected failure of an action."""


@dataclass(frozen=True, slots=True)
class FaultContext:
    """Where a fault is injected: the node or PE, if the fault needs one, and the job, if it happens at a transition."""

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
        """Return the target replica: of the given PE and node, else the first of the job. Raises HoldfastError."""
        replicas = self.orchestrator.replicas
        candidates = replicas if self.job is None else replicas.of(self.job.id)
        fitting = [
            replica
            for replica in candidates
            if (
                self.pe is None or self.pe in (replica.pe, replica.task_name, f"{replica.task_name}.{replica.replica}", replica.key)
            )
            and (self.node is None or replica.node == self.node)
        ]
        if not fitting:
            raise HoldfastError(f"no replica to inject the fault into: wanted PE {self.pe or 'any'} on node {self.node or 'any'}")
        return min(fitting, key=lambda replica: replica.key)

    def target_node(self) -> str:
        """Return the node of the target. Raises HoldfastError if there is no target replica."""
        return self.node if self.node is not None and self.pe is None else self.replica().node

    async def order(self, kind: str, **details: Any) -> None:
        """Order the target node to inject a fault into its own processes, and wait until it is about to. Raises HoldfastError."""
        await self.orchestrator.resources.order_fault(self.target_node(), kind=kind, **details)


Fault: TypeAlias = Callable[[FaultContext], Awaitable[None]]


async def crash_orchestrator(context: FaultContext) -> None:
    """Kill the orchestrator."""
    os.kill(os.getpid(), signal.SIGKILL)


async def crash_pe(context: FaultContext) -> None:
    """Make one replica fail."""
    await _order_replica(context, "crash-pe")


async def stall_pe(context: FaultContext) -> None:
    """Stop one replica for `for_s`."""
    await _order_replica(context, "stall-pe", for_s=context.seconds("for_s", 5.0))


async def slow_pe(context: FaultContext) -> None:
    """For `for_s`, delay every epoch of one replica by `by_s`."""
    await _order_replica(context, "slow-pe", for_s=context.seconds("for_s", 10.0), by_s=context.seconds("by_s", 1.0))


async def _order_replica(context: FaultContext, kind: str, **details: float) -> None:
    """Order the node of the target replica to inject a fault into it."""
    replica = context.replica()
    node = context.orchestrator.resources.nodes.get(replica.node)
    if kind != "crash-pe" and node is not None and node.offer.host_kind == "light":
        raise HoldfastError(f"a light PE cannot {kind.removesuffix('-pe')}; choose a PE on Spark, or a PE host")
    await context.orchestrator.resources.order_fault(replica.node, kind=kind, target=replica.key, **details)


async def stall_host(context: FaultContext) -> None:
    """Stop a PE host and its children for `for_s` (SIGSTOP, then SIGCONT)."""
    await context.order("stall-host", for_s=context.seconds("for_s", 5.0))


async def crash_node(context: FaultContext) -> None:
    """Kill a node controller and its PE host; nothing restarts them."""
    await context.order("crash-node")


async def crash_host(context: FaultContext) -> None:
    """Kill a PE host, with all replicas on it."""
    await context.order("crash-host")


async def crash_controller(context: FaultContext) -> None:
    """Kill a node controller; its PE host keeps running."""
    await context.order("crash-controller")


async def delay(context: FaultContext) -> None:
    """Delay the transition by `by_s`."""
    await asyncio.sleep(context.seconds("by_s", 1.0))


async def fail(context: FaultContext) -> None:
    """Make the action fail."""
    raise InjectedFailure("a fault was injected")


async def drop_messages(context: FaultContext) -> None:
    """For `for_s`, lose messages of nodes, or the answers to them."""
    context.orchestrator.faults.disturb("drop", context.node, for_s=context.seconds("for_s", 2.0))


async def delay_messages(context: FaultContext) -> None:
    """For `for_s`, delay messages of nodes by up to `by_s`."""
    disturb = context.orchestrator.faults.disturb
    disturb("delay", context.node, for_s=context.seconds("for_s", 2.0), by_s=context.seconds("by_s", 0.5))


async def duplicate_messages(context: FaultContext) -> None:
    """For `for_s`, deliver messages of nodes twice."""
    context.orchestrator.faults.disturb("duplicate", context.node, for_s=context.seconds("for_s", 2.0))


async def cut_node(context: FaultContext) -> None:
    """For `for_s`, lose all messages of a node."""
    node = context.node or context.replica().node
    context.orchestrator.faults.disturb("cut", node, for_s=context.seconds("for_s", 5.0))


async def database_away(context: FaultContext) -> None:
    """Make the database unreachable for `for_s`."""
    context.orchestrator.persistence.database.simulate_outage(context.seconds("for_s", 2.0))


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
"""The settings of each fault; all are times. A package's faults check their own settings."""


def setting_errors(fault: Fault, settings: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the name of each invalid setting, and what is wrong with it."""
    names = TIMES.get(fault)
    for name, value in settings.items() if names is not None else ():
        if name not in (names or ()):
            yield name, f"is no setting of this fault; settings are: {join_names(names or ())}"
        elif not is_time(value):
            yield name, f"wanted {A_TIME}, got {format_value(value)}"


def is_time(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= MAX_S


def all_faults() -> dict[str, Fault]:
    """Return the library with the faults that packages add or replace. Raises MachineError for one that cannot be loaded."""
    faults = dict(LIBRARY)
    for entry in installed_entry_points(GROUP):
        try:
            faults[entry.name] = entry.load()
        except Exception as error:
            raise MachineError(f"fault '{entry.name}' cannot be loaded from '{entry.value}': {error}; fix its package") from error
    return faults
