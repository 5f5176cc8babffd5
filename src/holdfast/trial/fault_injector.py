"""Injects the faults of a schedule into the processes of a local cluster."""

import errno
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.documents.fault_schedule import Schedule, ScheduledFault
from holdfast.documents.history import History
from holdfast.documents.job import Task
from holdfast.errors import CompoundError, HoldfastError, did_you_mean
from holdfast.protocol.client import ClientError, OrchestratorUnreachable
from holdfast.protocol.node_files import write_fault_order
from holdfast.trial.local_cluster import LocalCluster

BALLAST = "ballast"
INJECT_LIMIT_S = 1.0
"""How long the orchestrator may take to inject a fault."""


@dataclass(frozen=True)
class _ActiveFault:
    """An injected fault, the schedule time at which it ends, and the function that undoes it."""

    ends_s: float
    text: str
    undo: Callable[[], None]


class FaultInjector:
    """A thread that injects each fault when it is due and undoes it when it ends.

    `nodes_of_tasks` returns the nodes that currently run each task, so that the history names the tasks that a fault hits.
    """

    def __init__(
        self,
        cluster: LocalCluster,
        faults: Sequence[ScheduledFault],
        *,
        history: History,
        log: str,
        nodes_of_tasks: Callable[[], dict[str, set[str]]],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._cluster, self._history, self._log, self._clock = cluster, history, log, clock
        self._nodes_of_tasks = nodes_of_tasks
        self._pending = list(faults)
        self._active: list[_ActiveFault] = []
        self._zero_s = 0.0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="fault injector", daemon=True)
        self.error: BaseException | None = None

    def start(self, *, at_s: float) -> None:
        """Start the thread. The schedule's times count from `at_s` on the wall clock."""
        self._zero_s = at_s
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread, which undoes all active faults, so that no process stays stopped and no disk full."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(30)

    def _run(self) -> None:
        try:
            while (self._pending or self._active) and not self._stopping.is_set():
                self.step(self._clock() - self._zero_s)
                self._stopping.wait(0.02)
        except Exception as error:
            self.error = error
        finally:
            self.undo_all()

    def check(self) -> None:
        """Raise HoldfastError if a fault could not be injected, because a run without it tests nothing."""
        if self.error is not None:
            raise HoldfastError(f"a fault of the schedule could not be injected: {self.error}") from self.error

    def step(self, now_s: float) -> None:
        """Undo the faults that have ended and inject those that are due, `now_s` seconds after the start of the schedule."""
        for active in [active for active in self._active if active.ends_s <= now_s]:
            self._active.remove(active)
            active.undo()
            self._history.append("undone", {"what": active.text})
        for fault in [fault for fault in self._pending if fault.at_s <= now_s]:
            try:
                self._inject(fault, now_s)
            except OrchestratorUnreachable:
                continue  # try again in the next step: another fault may have stopped the orchestrator
            self._pending.remove(fault)

    def undo_all(self) -> None:
        """Undo all active faults now. An error in one does not keep the others from being undone."""
        while self._active:
            try:
                self._active.pop().undo()
            except Exception as error:
                self.error = self.error or error

    def _inject(self, fault: ScheduledFault, now_s: float) -> None:
        """Inject one fault, remember how to undo it, and write it to the history."""
        text = f"{fault.kind} {fault.what} {' '.join(fault.target)}".strip()
        targets = self._targets(fault)
        tasks = sorted({task for target in targets for task in self._tasks_at(fault, target)})
        dead = [target for target in targets if not self._is_alive(fault, target)]
        orders = []
        for target in targets:
            if fault.what == "pe":
                orders.append(self._order_hosts(fault, target))
                continue
            undo = self._inject_into(fault, target)
            if undo is not None and fault.lasts_s is not None:
                self._active.append(_ActiveFault(now_s + fault.lasts_s, text, undo))
        self._history.append("fault", {"what": text, "tasks": tasks, "for_s": fault.for_s, "orders": orders, "dead": dead})

    def _targets(self, fault: ScheduledFault) -> list[str]:
        if fault.what in ("orchestrator", "disk"):
            return [fault.what]
        if fault.what == "pe":
            return list(fault.target)
        return [node for target in fault.target for node in _nodes(target, self._cluster)]

    def _tasks_at(self, fault: ScheduledFault, target: str) -> set[str]:
        """Return the tasks that a fault hits: the task it names, or the tasks on the target node."""
        if fault.what == "pe":
            return {target.rsplit(".", 1)[0] if "." in target.rsplit("/", 1)[-1] else target}
        return {task for task, nodes in self._nodes_of_tasks().items() if target in nodes and fault.what in ("host", "node")}

    def _is_alive(self, fault: ScheduledFault, target: str) -> bool:
        """Return whether the target runs. For a PE this is always true here, because only its PE host knows."""
        if fault.what in ("pe", "disk"):
            return True
        host = fault.what in ("host", "node") and self._cluster.host_runs(target)
        return host or (fault.what != "host" and self._cluster.runs(target))

    def _inject_into(self, fault: ScheduledFault, target: str) -> Callable[[], None] | None:
        """Inject a fault into one target. Returns the function that undoes it, or None if there is nothing to undo."""
        cluster = self._cluster
        match fault.kind, fault.what:
            case "crash", "orchestrator":
                if cluster.runs("orchestrator"):
                    cluster.kill("orchestrator")
                return lambda: None if cluster.runs("orchestrator") else cluster.start_orchestrator()
            case "crash", "controller":
                if cluster.runs(target):
                    cluster.kill(target)
                return lambda: None if cluster.runs(target) else cluster.start_node(target)
            case "crash", "node":
                cluster.kill_node(target)
                return lambda: None if cluster.runs(target) else cluster.start_node(target)
            case "crash", "host":
                cluster.kill_host(target)
                return None
            case "stall", "host":
                cluster.signal_host(target, signal.SIGSTOP)
                return lambda: cluster.signal_host(target, signal.SIGCONT)
            case "hog", _:
                return _start_hogs(HOGS * max(1, round(cluster.cores)))
            case "stall", ("controller" | "orchestrator"):
                cluster.signal(target, signal.SIGSTOP)
                return lambda: cluster.signal(target, signal.SIGCONT)
            case "cut", _:
                self._inject_by_orchestrator({"fault": "cut-node", "node": target, "settings": {"for_s": fault.for_s}})
                return None
            case "fill", _:
                return _fill_disk(Path(self._log))
            case _:
                raise HoldfastError(f"this fault cannot be injected: {fault.kind} {fault.what}")

    def _inject_by_orchestrator(self, fault: Mapping[str, Any]) -> None:
        """Have the orchestrator inject a fault. Raises OrchestratorUnreachable soon, because other faults must end in time."""
        try:
            self._cluster.client.inject(fault, limit_s=INJECT_LIMIT_S)
        except ClientError as error:
            if error.status != 503:
                raise
            raise OrchestratorUnreachable(str(error)) from error

    def _order_hosts(self, fault: ScheduledFault, target: str) -> str:
        """Order all PE hosts to inject a fault into a PE; those with a replica of it obey. Returns the order's name."""
        order = {"kind": fault.kind, "target": target, "for_s": fault.for_s, "by_s": fault.by_s}
        return write_fault_order(map(self._cluster.node_work, self._cluster.names), order, at_s=self._clock())


HOG = (sys.executable, "-c", "import os; run = os.getppid()\nwhile os.getppid() == run: sum(range(10_000))")
HOGS = 2
"""Busy processes per core of a hogged node. They also slow down the other nodes, which share the machine's cores."""


def _start_hogs(count: int) -> Callable[[], None]:
    """Start busy processes, and return the function that ends them."""
    hogs = [subprocess.Popen(HOG) for _ in range(count)]

    def end() -> None:
        for hog in hogs:
            hog.kill()
            hog.wait()

    return end


MAX_BALLAST_BYTES = 1 << 30


def _fill_disk(log: Path) -> Callable[[], None]:
    """Fill the disk of the log, and return the function that frees it."""
    _require_fillable(str(log))
    ballast = log / BALLAST
    with ballast.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"\0" * 4096)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
    return lambda: ballast.unlink(missing_ok=True)


def _require_fillable(log: str) -> None:
    """Raise HoldfastError unless the log's disk is small, because other programs may use a large one."""
    if "://" in log:
        raise HoldfastError(f"a fault fills the log's disk, but the log at '{log}' is not on a disk; use a folder as the log")
    folder = next(path for path in (Path(log).absolute(), *Path(log).absolute().parents) if path.exists())
    free_bytes = shutil.disk_usage(folder).free
    if free_bytes > MAX_BALLAST_BYTES:
        raise HoldfastError(
            f"a fault fills the log's disk, but the disk at '{log}' has {free_bytes >> 20} MiB free and the limit is "
            f"{MAX_BALLAST_BYTES >> 20} MiB; mount a small disk for the log (such as a tmpfs of 64 MiB)"
        )


def resolve_faults(schedule: Schedule, tasks: Sequence[Task], cluster: LocalCluster, *, log: str) -> list[ScheduledFault]:
    """Return the faults of a schedule, with random ones drawn for a job. Raises CompoundError with all that cannot be injected."""
    pes = [task.name for task in tasks if task.kind == "operators"]
    faults = schedule.drawn(tasks=[task.name for task in tasks], nodes=cluster.names, pes=pes)
    known = {task.pe for task in tasks} | {task.name for task in tasks}
    errors: list[str] = []
    for fault in faults:
        try:
            _require_possible(fault, known, cluster, log=log)
        except HoldfastError as error:
            errors.append(str(error))
    if errors:
        raise CompoundError("the fault schedule", list(dict.fromkeys(errors)))
    return faults


def _require_possible(fault: ScheduledFault, known: Collection[str], cluster: LocalCluster, *, log: str) -> None:
    """Raise HoldfastError if a fault's target does not exist, or if the fault must not be injected there."""
    if fault.kind == "fill":
        _require_fillable(log)
    for target in fault.target:
        if fault.what == "pe" and target not in known and target.rsplit(".", 1)[0] not in known:
            raise HoldfastError(
                f"a fault targets PE '{target}'; the job has: {', '.join(sorted(known))}{did_you_mean(target, known)}"
            )
        if fault.what in ("host", "node", "controller"):
            _nodes(target, cluster)


def _nodes(target: str, cluster: LocalCluster) -> list[str]:
    """Return the nodes that a target names: one node, or all nodes of a rack. Raises HoldfastError if there are none."""
    nodes = [name for name in cluster.names if target in (name, f"rack={cluster.rack(name)}")]
    if not nodes:
        racks = sorted({f"rack={cluster.rack(name)}" for name in cluster.names if cluster.racks})
        raise HoldfastError(f"a fault targets node '{target}'; nodes are: {', '.join([*cluster.names, *racks])}")
    return nodes
