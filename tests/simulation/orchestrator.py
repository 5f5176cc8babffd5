"""The orchestrator: the real observers and restart decisions, applied to a model of placements.

The database of the model holds what the real one stores. A new orchestrator knows nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from holdfast.control.nodes.dispatch import living_peers
from holdfast.control.nodes.replicas import DEAD, LIVING, STARTED, PlacedReplica, Replicas
from holdfast.control.observers.job_observers import Activate, FailJob, FailReplica, JobView, Note, ReplicaView
from holdfast.control.observers.spark_job_observer import SparkJobObserver
from holdfast.control.recovery.log_fences import RETRY_S, fence_off
from holdfast.control.recovery.restart_decision import STEADY_S, Abandon, Restart, Situation, decide
from holdfast.documents.job import Policy
from holdfast.errors import HoldfastError
from holdfast.node.reports import ReplicaChange
from holdfast.protocol.messages import Assignment, HostStatus, ReplicaStatus

from .scheduler import Machine, Process

if TYPE_CHECKING:
    from .world import JobModel, World

LOST_AFTER_S = 3.0
RECOVERY_WAIT_S = 5.0
TICK_S = 0.5


class Orchestrator:
    """One orchestrator process. `answers` is whether nodes can reach it."""

    def __init__(self, world: World, term: int) -> None:
        self.world, self.term = world, term
        self.machine: Machine = world.orchestrator_machine
        self.process = Process(f"orchestrator {term}", self.machine)
        self.observer = SparkJobObserver(open_store=lambda location, sync=True: world.open(location))
        self.replicas = Replicas()
        self._generations: dict[str, int] = {}
        self._assignments: dict[str, Assignment] = {}
        self._last_beats_s: dict[str, float] = {}
        self._lost: set[str] = set()
        self._dirty: set[str] = set()
        for row in sorted(world.database.values(), key=lambda stored: (stored.job, stored.task, stored.replica)):
            pe, _, task = row.task.rpartition("/")
            replica = PlacedReplica(row.job, pe, int(task), row.replica, row.node, incarnation=row.incarnation, rank=row.replica)
            replica.active, replica.failures, replica.since_s = row.active, row.failures, self.now_s
            replica.state = "finished" if row.finished else "abandoned" if row.abandoned else "placed"
            self.replicas.add(replica)
            if replica.state == "abandoned":
                self.replicas.demote(replica)
        self._unconfirmed: dict[str, int] = {}
        self._is_fencing = False
        if world.canceling is not None:
            self._unconfirmed = {node.name: term * 1_000_000 for node in world.nodes}
        self._recovers_until_s = self.now_s + (RECOVERY_WAIT_S if term > 1 else 0.0)
        self.recovering = term > 1
        world.scheduler.call_at(world.scheduler.now_s + TICK_S, self._tick)
        world.scheduler.spawn("observers", self._observe, self.process)

    @property
    def now_s(self) -> float:
        return self.world.scheduler.now_s + self.machine.offset_s

    @property
    def answers(self) -> bool:
        return self.process.alive and self.process.paused_until_s <= self.world.scheduler.now_s

    def has_room(self, model: JobModel) -> bool:
        """Return whether there are enough nodes for the replicas of a task."""
        return not self.recovering and len(self._usable_nodes()) >= max(task.replicas for task in model.layout.tasks)

    def _usable_nodes(self) -> list[str]:
        return [node.name for node in self.world.nodes if node.name not in self._lost]

    def add_job(self, model: JobModel) -> None:
        """Place the replicas of a job on different nodes."""
        names = self._usable_nodes()
        for index, task in enumerate(model.layout.tasks):
            for number in range(task.replicas):
                node = names[(index + number) % len(names)]
                replica = PlacedReplica(model.number, task.pe, task.task, number, node, rank=number, since_s=self.now_s)
                self.replicas.add(replica)
                self._store(replica)
        self._renew(names)

    def cancel(self, model: JobModel) -> None:
        """Forget a job. Until every node has confirmed an assignment without it, it may still run there."""
        for replica in self.replicas.of(model.number):
            self.replicas.remove(replica)
            del self.world.database[replica.key]
        names = [node.name for node in self.world.nodes]
        self._renew(names)
        self._unconfirmed = {name: self._generation_of(name) for name in names}

    def _finish_cancellation(self) -> None:
        """Submit the successor of a canceled job, or fence the job off from its log if a node is silent."""
        world = self.world
        if world.canceling is None or self.recovering:
            return
        if not self._unconfirmed:
            (_, successor), world.canceling = world.canceling, None
            world.place(successor)
        elif not self._is_fencing and self._lost.intersection(self._unconfirmed):
            self._is_fencing = True
            world.scheduler.spawn("fence", self._fence, self.process)

    def _fence(self) -> None:
        assert self.world.canceling is not None
        model, _ = self.world.canceling
        while True:
            try:
                fence_off(self.world.open(str(model.job.log)), model.owner, model.layout.tasks)
                break
            except HoldfastError:
                self.world.scheduler.sleep(RETRY_S)
        self.world.emit("fenced", {"job": model.number})
        self._unconfirmed.clear()

    def _generation_of(self, node: str) -> int:
        return self.term * 1_000_000 + self._generations.get(node, 0)

    def take_beat(self, node: str, reports: tuple[ReplicaChange, ...], status: HostStatus | None) -> Assignment | None:
        """Take a node's beat as the resource manager does. Return its assignment."""
        self._last_beats_s[node] = self.world.scheduler.now_s
        statuses = {each.key: each for each in status.replicas} if status is not None else {}
        for report in reports:
            self._observe_state(node, report.key, report.state, report.incarnation, report.error)
        for each in statuses.values():
            replica = self.replicas.get(each.key)
            if replica is not None and replica.node == node and replica.incarnation == each.incarnation:
                replica.status = each
                self._status_changed(replica)
                self._observe_state(node, each.key, each.state, each.incarnation, each.error)
        applied = (
            status.generation if status is not None else next(n for n in self.world.nodes if n.name == node).assignment.generation
        )
        if applied >= self._unconfirmed.get(node, applied + 1):
            del self._unconfirmed[node]
        if self.recovering:
            return None
        generation = self._generation_of(node)
        if node in self._assignments and self._assignments[node].generation == generation:
            return self._assignments[node]
        wanted = [replica for replica in self.replicas.at(node) if replica.wanted]
        self._assignments[node] = Assignment.model_construct(
            term=0,
            generation=generation,
            replicas=tuple(replica.to_assigned() for replica in sorted(wanted, key=lambda replica: replica.key)),
            agents=(),
            jobs={},
        )
        return self._assignments[node]

    def knows(self, node: str) -> bool:
        """Return whether a node is registered and not lost."""
        return node in self._last_beats_s and node not in self._lost

    def register(self, node: str, statuses: Mapping[str, ReplicaStatus]) -> None:
        """Compare what a node has with what is placed there, as the resource manager does."""
        self._last_beats_s[node] = self.world.scheduler.now_s
        self._lost.discard(node)
        for replica in self.replicas.at(node):
            status = statuses.get(replica.key)
            if status is not None and status.incarnation == replica.incarnation:
                self._observe_state(node, replica.key, status.state, replica.incarnation, status.error)
            elif replica.state not in ("finished", "failed", "abandoned", "stopped", "placed"):
                replica.state, replica.since_s = "placed", self.now_s
                self._changed(replica)

    def _observe_state(self, node: str, key: str, state: str, incarnation: int, error: str | None) -> None:
        replica = self.replicas.get(key)
        if (
            replica is not None
            and replica.node == node
            and replica.observe(state, incarnation=incarnation, error=error, at_s=self.now_s)
        ):
            self._changed(replica)

    def _changed(self, replica: PlacedReplica) -> None:
        """React to a change of a replica as the restart policy does."""
        state = {"replica": replica.key, "state": replica.state, "incarnation": replica.incarnation, "error": replica.error}
        self.world.emit("replica", state)
        if replica.state in DEAD:
            if replica.state == "lost" or replica.died_with_host:
                replica.losses += 1
            else:
                replica.failures += 1
            replica.reached = self._furthest(replica)
            self._renew([peer.node for peer in self.replicas.demote(replica)])
            self._decide(replica)
            return
        replica.due_s = None
        if replica.state == "finished":
            self._store(replica)
        if (replica.failures or replica.losses) and replica.state in STARTED:
            incarnation, failures = replica.incarnation, (replica.failures, replica.losses)

            def reset() -> None:
                if (
                    replica.incarnation == incarnation
                    and (replica.failures, replica.losses) == failures
                    and replica.state in STARTED
                ):
                    replica.failures = replica.losses = 0

            self.world.scheduler.call_at(self.world.scheduler.now_s + STEADY_S, reset)

    def _status_changed(self, replica: PlacedReplica) -> None:
        clean = replica.status.clean if replica.status is not None else None
        if clean is None:
            return
        replica.furthest = clean if replica.furthest is None else max(replica.furthest, clean)
        if replica.state in DEAD or replica.reached is None:
            replica.reached = self._furthest(replica)
        elif (replica.failures or replica.losses) and clean > replica.reached:
            replica.failures = replica.losses = 0

    def _furthest(self, replica: PlacedReplica) -> int | None:
        peers = self.replicas.of(replica.job, [replica.task_name])
        return max((peer.furthest for peer in peers if peer.furthest is not None), default=None)

    def _decide(self, replica: PlacedReplica) -> None:
        """Carry out what the real restart decision says about a dead replica."""
        peers = self.replicas.of(replica.job, [replica.task_name])
        others = self._other_nodes(replica, peers)
        situation = Situation(
            failures=replica.failures,
            losses=replica.losses,
            living_peers=living_peers(replica, peers),
            here=self.knows(replica.node),
            elsewhere=bool(others),
        )
        decision = decide(self._policy(replica), situation)
        if isinstance(decision, Restart):
            replica.due_s = due_s = self.now_s + decision.after_s
            self.world.scheduler.call_at(self.world.scheduler.now_s + decision.after_s, lambda: self._restart(replica, due_s))
        elif isinstance(decision, Abandon):
            replica.state = "abandoned"
            self.world.emit("abandoned", {"replica": replica.key, "cause": decision.cause, "failures": replica.failures})
            self._store(replica)

    def _restart(self, replica: PlacedReplica, due_s: float) -> None:
        if not self.process.alive or replica.due_s != due_s or self.replicas.get(replica.key) is not replica:
            return
        if not self.answers:
            self.world.scheduler.call_at(self.process.paused_until_s, lambda: self._restart(replica, due_s))
            return
        replica.due_s = None
        if replica.state not in DEAD:
            return
        peers = self.replicas.of(replica.job, [replica.task_name])
        node = replica.node if self.knows(replica.node) else None
        if self._policy(replica).restart != "here":
            node = next(iter(self._other_nodes(replica, peers)), node)
        if node is not None:
            self._place(replica, node)

    def _place(self, replica: PlacedReplica, node: str) -> None:
        previous = replica.node
        self.replicas.move(replica, node)
        replica.incarnation, replica.state, replica.since_s = replica.incarnation + 1, "placed", self.now_s
        replica.error = replica.status = replica.due_s = None
        self._store(replica)
        self._renew([previous, node])

    def _other_nodes(self, replica: PlacedReplica, peers: list[PlacedReplica]) -> list[str]:
        taken = {replica.node} | {peer.node for peer in peers if peer.holds_room}
        return [node.name for node in self.world.nodes if node.name not in taken and self.knows(node.name)]

    def _policy(self, replica: PlacedReplica) -> Policy:
        return self.world.jobs[replica.job].job.policy

    def _tick(self) -> None:
        if not self.process.alive:
            return
        self.world.scheduler.call_at(self.world.scheduler.now_s + TICK_S, self._tick)
        if not self.answers:
            self._last_beats_s = dict.fromkeys(self._last_beats_s, self.world.scheduler.now_s)
            return
        now_s = self.world.scheduler.now_s
        if self.recovering:
            names = {replica.node for replica in self.replicas if replica.holds_room} | self._unconfirmed.keys()
            if names <= self._last_beats_s.keys() or now_s + self.machine.offset_s > self._recovers_until_s:
                for name in sorted(names - self._last_beats_s.keys()):
                    self._mark_lost(name)
                self.recovering = False
        for name in sorted(self._last_beats_s):
            if name not in self._lost and now_s - self._last_beats_s[name] > LOST_AFTER_S:
                self._mark_lost(name)
        self._finish_cancellation()
        for replica in self.replicas:
            if replica.state in DEAD and replica.due_s is None and not self.recovering:
                self._decide(replica)

    def _mark_lost(self, name: str) -> None:
        self._lost.add(name)
        for replica in self.replicas.at(name):
            if replica.state in LIVING:
                replica.state, replica.since_s, replica.error = "lost", self.now_s, f"node {name} is lost"
                self._changed(replica)

    def _renew(self, nodes: list[str]) -> None:
        for name in nodes:
            self._generations[name] = self._generations.get(name, 0) + 1

    def _store(self, replica: PlacedReplica) -> None:
        self.world.database[replica.key] = replica.to_stored()

    # The observers.

    def _observe(self) -> None:
        scheduler = self.world.scheduler
        while True:
            scheduler.sleep(self.world.observe_every_s)
            if self.recovering:
                continue
            for model in list(self.world.jobs.values()):
                if model.placed:
                    self._observe_job(model)

    def _observe_job(self, model: JobModel) -> None:
        try:
            decisions = self.observer.decide(self._view(model))
        except HoldfastError as error:
            self.world.emit("observer failed", {"job": model.number, "error": str(error)})
            return
        for decision in decisions:
            match decision:
                case Activate(task=task, replicas=numbers):
                    for replica in self.replicas.of(model.number, [task]):
                        if replica.active != (replica.replica in numbers):
                            replica.active = not replica.active
                            self._store(replica)
                            self._renew([replica.node])
                case FailReplica(key=key, incarnation=incarnation, cause=cause):
                    replica_ = self.replicas.get(key)
                    if replica_ is not None and replica_.observe("failed", incarnation=incarnation, error=cause, at_s=self.now_s):
                        self.world.emit("failed by observer", {"replica": key, "incarnation": incarnation, "cause": cause})
                        self._changed(replica_)
                case FailJob(cause=cause):
                    self.world.emit("job failed", {"job": model.number, "cause": cause})
                case Note(text=text):
                    self.world.emit("decision", {"text": text})

    def _view(self, model: JobModel) -> JobView:
        return JobView(
            model.number,
            model.job,
            model.layout,
            "running",
            {},
            tuple(_view_of(replica) for replica in self.replicas.of(model.number)),
            frozenset(self._lost),
            self.now_s,
            self.world.agent_documents(model),
        )


def _view_of(replica: PlacedReplica) -> ReplicaView:
    return ReplicaView(
        replica.key,
        replica.task_name,
        replica.replica,
        replica.node,
        replica.incarnation,
        replica.rank,
        replica.active,
        replica.state,
        replica.since_s,
        replica.due_s,
        replica.error,
        replica.status,
    )


__all__ = ["Orchestrator", "replace"]
