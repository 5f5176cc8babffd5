"""A node: its PE host, which runs real replica loops, and its node controller, which watches the PE host.

The node controller uses the real functions that decide what a PE host may run and which replicas have failed.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING

from holdfast.documents.job import Reading
from holdfast.errors import HoldfastError, LogError
from holdfast.node.replica_changes import changes_in_status, fail_replicas_of_dead_host, runnable_assignment
from holdfast.node.reports import KnownReplica, ReplicaChange
from holdfast.protocol.messages import AssignedReplica, Assignment, HostStatus, ReplicaStatus
from holdfast.runtime.replica import Replica
from holdfast.runtime.replica_loop import ReplicaLoop

from .factory import SimFactory, machine_time
from .scheduler import Actor, Machine, Process
from .threads import SimEvent

if TYPE_CHECKING:
    from .world import World

BEAT_S = 1.0
HOST_START_S = 1.0
HUNG_S = 20.0


class Host:
    """One PE host process: it starts, stops and changes loops until they match the newest assignment."""

    def __init__(self, world: World, machine: Machine, assignment: Assignment) -> None:
        self.world, self.machine = world, machine
        world.host_count += 1
        self.process = Process(f"host {world.host_count} on {machine.name}", machine)
        self.time = machine_time(world, self)
        self.assignment = assignment
        self.changed = SimEvent(world.scheduler)
        self.loops: dict[str, ReplicaLoop] = {}
        self._actors: dict[str, Actor] = {}
        self._without_loop: dict[str, ReplicaStatus] = {}
        self._factories: dict[int, SimFactory] = {}
        self._creating: set[int] = set()
        self.applied = -1
        self.status = self._write_status()
        world.scheduler.spawn("host", self._run, self.process, poll_s=5.0)

    @property
    def can_work(self) -> bool:
        """Whether no fault keeps the process from working now."""
        until_s = max(self.process.paused_until_s, self.machine.cut_until_s, self.machine.full_until_s)
        return self.process.alive and until_s <= self.world.scheduler.now_s

    def assign(self, assignment: Assignment) -> None:
        self.assignment = assignment
        self.changed.set()

    def beat(self) -> HostStatus:
        """Return the status that the PE host has written last. It writes one regularly unless it is stopped."""
        if self.process.alive and self.process.paused_until_s <= self.world.scheduler.now_s:
            self.status = self._write_status()
        return self.status

    def thread_started(self, name: str, actor: Actor) -> None:
        self._actors[name] = actor

    def actor_of(self, key: str) -> Actor | None:
        return self._actors.get(key)

    def replica_created(self, assigned: AssignedReplica, replica: Replica) -> None:
        """Let the replica's actor wake up when the log changes around its task, instead of polling all the time."""
        actor, log = self._actors[assigned.key], self.world.jobs[assigned.job].job.log
        assert log is not None
        task = replica.task
        folders = [(self._log_of(reading, log), f"records/{reading.stream}/{n}") for reading in task.reads for n in reading.tasks]
        if self.world.jobs[assigned.job].replicas_of(task.name) > 1:
            folders += [(log, f"records/{stream}/{task.task}") for stream in task.makes]
            folders += [(log, f"checkpoints/{task.name.replace('/', '%2F')}")]
        actor.poll_s = 0.5 if task.kind == "source" else 1.5
        self.world.scheduler.watch(actor, folders)

    def _log_of(self, reading: Reading, log: str) -> str:
        return log if reading.job is None else self.world.log_of(reading.job)

    def _run(self) -> None:
        while True:
            if self.applied != self.assignment.generation:
                self._apply(self.assignment)
            if self.applied == self.assignment.generation:
                self.changed.clear()
                self.changed.wait(60.0)

    def _apply(self, assignment: Assignment) -> None:
        """Do what `runtime.pe_host.PeHost` does with an assignment."""
        replicas = {assigned.key: assigned for assigned in assignment.replicas}
        incarnations = {key: assigned.incarnation for key, assigned in replicas.items()}
        for key in [key for key, loop in self.loops.items() if incarnations.get(key) != loop.assigned.incarnation]:
            self.loops.pop(key).stop()
        self._without_loop = {k: status for k, status in self._without_loop.items() if incarnations.get(k) == status.incarnation}
        for key, assigned in replicas.items():
            if key not in self.loops and key not in self._without_loop:
                self._without_loop[key] = ReplicaStatus(key=key, incarnation=assigned.incarnation, state="starting")
        self.status = self._write_status()
        for key, assigned in replicas.items():
            self.world.turn()
            if key in self.loops:
                self.loops[key].assign(assigned)
            elif self._without_loop[key].state == "starting":
                self._start(assigned)
        self.applied = assignment.generation
        self.status = self._write_status()

    def _start(self, assigned: AssignedReplica) -> None:
        self.world.note_start(assigned)
        self.loops[assigned.key] = ReplicaLoop(
            assigned,
            lambda assigned, is_stopping: self._factory(assigned.job).create(assigned, is_stopping),
            cancel=lambda: None,
            time=self.time,
        )
        self._without_loop.pop(assigned.key, None)

    def _factory(self, number: int) -> SimFactory:
        while number in self._creating:
            self.world.scheduler.sleep(0.1)
        if number not in self._factories:
            self._creating.add(number)
            try:
                self._factories[number] = SimFactory(self.world, self.world.jobs[number], self)
            finally:
                self._creating.discard(number)
        return self._factories[number]

    def _write_status(self) -> HostStatus:
        replicas = [loop.status() for loop in self.loops.values()]
        replicas += [status for key, status in self._without_loop.items() if key not in self.loops]
        return SimpleNamespace(generation=self.applied, term=0, replicas=tuple(replicas))  # type: ignore[return-value]


class Node:
    """A machine with a node controller. What the controller knows survives a crash of the machine."""

    def __init__(self, world: World, name: str, offset_s: float) -> None:
        self.world, self.name = world, name
        self.machine = Machine(name, offset_s=offset_s)
        self.assignment = Assignment()
        self.known: dict[str, KnownReplica] = {}
        self.reports: list[ReplicaChange] = []
        self.host: Host | None = None
        self.paused_until_s = self.cut_off_until_s = self._start_host_s = self._silent_s = 0.0
        self._last_status: HostStatus | None = None
        world.scheduler.call_at(world.scheduler.now_s + world.scheduler.random.random() * BEAT_S, self._tick)

    @property
    def now_s(self) -> float:
        return self.world.scheduler.now_s

    def crash(self) -> None:
        """Turn the machine off."""
        self.machine.up = False
        if self.host is not None:
            self.world.scheduler.kill(self.host.process)
        self.world.kill_agents(self.name)

    def boot(self) -> None:
        self.machine.up = True
        self._start_host_s = self.now_s + HOST_START_S

    def kill_host(self) -> None:
        if self.host is not None:
            self.world.scheduler.kill(self.host.process)

    def _tick(self) -> None:
        self.world.scheduler.call_at(self.now_s + BEAT_S, self._tick)
        if not self.machine.up or self.paused_until_s > self.now_s:
            return
        self._check_host()
        if self.cut_off_until_s > self.now_s:
            return
        orchestrator = self.world.orchestrator
        if orchestrator is None or not orchestrator.answers:
            return
        status = self.host.status if self.host is not None and self.host.process.alive else None
        if not orchestrator.knows(self.name):
            orchestrator.register(self.name, self._statuses(status))
        assignment = orchestrator.take_beat(self.name, tuple(self.reports), status)
        self.reports.clear()
        if assignment is not None and assignment.generation != self.assignment.generation:
            self._take(assignment)

    def _statuses(self, status: HostStatus | None) -> dict[str, ReplicaStatus]:
        """Return the replicas that the PE host reports, and those that have ended and must not start again."""
        statuses = {each.key: each for each in status.replicas} if status is not None else {}
        for key, known in self.known.items():
            if known.ended and (key not in statuses or statuses[key].incarnation < known.incarnation):
                statuses[key] = ReplicaStatus(key=key, incarnation=known.incarnation, state=known.state, error=known.error)
        return statuses

    def _check_host(self) -> None:
        host = self.host
        if host is not None:
            status = host.beat()
            self._record(changes_in_status(self.known, self.assignment, status))
            if host.process.alive and host.process.paused_until_s > self.now_s:
                self._silent_s += BEAT_S
                if self._silent_s > HUNG_S:
                    self.kill_host()
            else:
                self._silent_s = 0.0
            if host.process.alive:
                return
            self.host, self._start_host_s = None, max(self._start_host_s, self.now_s + HOST_START_S)
        self._record(fail_replicas_of_dead_host(self.known, self.assignment, cause="its PE host died"))
        if self.now_s >= self._start_host_s:
            self._silent_s = 0.0
            self.host = Host(self.world, self.machine, runnable_assignment(self.assignment, self.known))

    def _record(self, changes: object) -> None:
        for change in list(changes):  # type: ignore[call-overload]
            self.reports.append(change)
            if change.state in ("failed", "lost"):
                self.world.emit("ended", {"replica": change.key, "incarnation": change.incarnation})
            if change.state == "failed":
                self.world.emit("replica failed", {"replica": change.key, "error": change.error})
            if change.state == "stopped":
                self.known.pop(change.key, None)
            else:
                self.known[change.key] = KnownReplica(change.incarnation, change.state, change.error)

    def _take(self, assignment: Assignment) -> None:
        self.assignment = assignment
        for replica in assignment.replicas:
            known = self.known.get(replica.key)
            if known is None or known.incarnation < replica.incarnation:
                self.known[replica.key] = KnownReplica(replica.incarnation, "assigned")
        if self.host is not None:
            self.host.assign(runnable_assignment(assignment, self.known))


__all__ = ["HoldfastError", "Host", "LogError", "Node"]
