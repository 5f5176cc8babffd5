"""The node controller: registers the node, supervises its PE host, and reports to the orchestrator.

Three loops run side by side:

- `_watch_host` records the changes of replicas as reports and restarts a hung or dead PE host (`pe_host_watch.py`). It works
  without the orchestrator.
- `_send_beats` sends beats with the reports that are not yet acknowledged.
- `_fetch_assignments` waits for new assignments.

The last two begin with a registration, and begin again whenever the orchestrator was unreachable or was replaced.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import sqlite3
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from holdfast.errors import HoldfastError
from holdfast.node.pe_host_watch import HUNG_S, PeHostWatch
from holdfast.node.pe_hosts import PeHost
from holdfast.node.replica_changes import assignment_order, fail_replicas_of_dead_host, runnable_assignment
from holdfast.node.reports import Reports
from holdfast.protocol.messages import (
    OLDEST_PROTOCOL,
    PROTOCOL,
    AgentStatus,
    Assignment,
    Beat,
    FaultOrder,
    Registration,
    ReplicaStatus,
)
from holdfast.protocol.node_link import (
    CallRefused,
    LinkError,
    NodeLink,
    NoLeader,
    OrchestratorBusy,
    OrchestratorSuperseded,
    RegistrationOutdated,
)

if TYPE_CHECKING:
    from holdfast.node.agent_processes import AgentProcesses

REPORTS_PER_BEAT = 500
RETRY_S, RETRY_MAX_S, RETRY_SHARE = 0.1, 3.0, 0.1
"""The next attempt comes after a tenth of the time since the last contact, so that a short outage is noticed quickly."""
GRACE_S = 10.0
FAREWELL_S = 3.0
STORE_REPORTS, STORE_ASSIGNMENT = "reports", "the assignment"


@dataclass(frozen=True, slots=True)
class NodeOffer:
    """What a node offers to the orchestrator."""

    name: str
    cores: float
    memory_bytes: int
    host_kind: str = "spark"
    labels: dict[str, str] = field(default_factory=dict)
    metrics: str | None = None


class NodeController:
    """The controller of one node. `run` serves until it is stopped. Its durable state is in `reports` and the PE host's files."""

    def __init__(
        self,
        node: NodeOffer,
        link: NodeLink,
        host: PeHost,
        *,
        reports: Reports,
        log: Callable[[str], None],
        rng: random.Random,
        monotonic: Callable[[], float],
        agents: AgentProcesses | None = None,
        hung_after_s: float = HUNG_S,
        inject: Callable[[FaultOrder], None] | None = None,
        write_presence: Callable[[], None] | None = None,
    ) -> None:
        self.node, self.link, self.host, self.reports, self.agents = node, link, host, reports, agents
        self._inject, self._fault = inject, 0
        self._write_presence = write_presence
        self._log, self._rng, self._now = log, rng, monotonic
        self._state_lock = asyncio.Lock()  # held while an assignment is accepted, and while changes are looked for and recorded
        self._new_reports = asyncio.Event()
        self._term = self._registration = 0
        self._beat_every_s = 1.0
        self._watch = PeHostWatch(
            host, reports, log=log, monotonic=monotonic, hung_after_s=hung_after_s, on_change=self._new_reports.set
        )
        self._link_error: str | None = None
        self._storage_errors: dict[str, str] = {}

    @property
    def assignment(self) -> Assignment:
        return self.reports.assignment

    @property
    def stalled_s(self) -> float:
        """For how long the PE host has been silent, if that is longer than a busy machine explains; else 0."""
        return self._watch.stalled_s

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until `stop` is set. Then end the PE host and report its replicas as lost if the orchestrator is reachable.

        After any error but a refused registration the PE host keeps running, and the next controller finds it.
        """
        if self.agents is not None:
            self.agents.assign(self.assignment)
            self.agents.adopt()
        tasks = [asyncio.create_task(loop) for loop in (self._watch_host(), self._keep_registered(), _wait(stop))]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        failure = next((error for task in done if (error := task.exception())), None)
        if failure is None or isinstance(failure, CallRefused):
            await self._end_host()
        if failure is not None:
            raise failure

    async def _end_host(self) -> None:
        if self.agents is not None:
            await self.agents.stop()
        await self.host.stop(GRACE_S)
        cause = f"node {self.node.name} was stopped"
        async with self._state_lock:
            await self._watch.record(fail_replicas_of_dead_host(self.reports.known, self.assignment, cause=cause))
        if self._link_error is None and self._term:
            with contextlib.suppress(LinkError, TimeoutError):
                async with asyncio.timeout(FAREWELL_S):
                    while len(self.reports):
                        await self._send_beat()

    async def _watch_host(self) -> None:
        while True:
            async with self._state_lock:
                try:
                    await self._watch.check()
                    if self.agents is not None:
                        self.agents.check()
                    self._storage_errors.pop(STORE_REPORTS, None)
                except (sqlite3.Error, OSError) as error:  # such as a full disk: what was not recorded is found again next time
                    self._log_storage_error(STORE_REPORTS, error)
                    await asyncio.sleep(1.0)
            await self.host.changed()

    async def _keep_registered(self) -> None:
        last_contact_s = self._now()
        while True:
            try:
                await self._register()
                try:
                    await _first_of(self._send_beats(), self._fetch_assignments(), self._hold_presence())
                finally:
                    last_contact_s = self._now()
            except LinkError as error:
                if isinstance(error, CallRefused) and not (self._term or self.assignment.term):
                    raise  # the node was never accepted so far: its address or token is probably wrong
                self._log_link_error(error)
                outage_s = RETRY_MAX_S / RETRY_SHARE if isinstance(error, CallRefused) else self._now() - last_contact_s
                pause_s = min(max(RETRY_S, RETRY_SHARE * outage_s), RETRY_MAX_S)
                if isinstance(error, NoLeader):
                    pause_s = min(pause_s, self._beat_every_s / 2)
                await asyncio.sleep(pause_s * self._rng.uniform(0.5, 1.0))
            except (sqlite3.Error, OSError) as error:  # such as a full disk: the next registration fetches the assignment again
                self._log_storage_error(STORE_ASSIGNMENT, error)
                await asyncio.sleep(RETRY_MAX_S)

    def _log_storage_error(self, content: str, error: Exception) -> None:
        """Log an error of the node's own files, once. Raises HoldfastError if the work folder does not exist any more, because a
        node that stays registered and can store nothing would be given replicas that it never starts."""
        if not self.host.has_work_folder():
            raise HoldfastError(
                f"the --work folder of node {self.node.name} was removed, and its PE host ends; start the node again"
            ) from error
        text = f"cannot store {content}: {error}; trying again"
        if self._storage_errors.get(content) != text:
            self._storage_errors[content] = text
            self._log(text)

    def _log_link_error(self, error: LinkError) -> None:
        """Log an error of the link once, not at every attempt."""
        kind = type(error).__name__
        if kind != self._link_error and not isinstance(error, RegistrationOutdated):
            self._log(f"{error}; running replicas continue, {len(self.reports)} reports wait")
            self._link_error = kind

    async def _register(self) -> None:
        async with self._state_lock:
            replicas, agents = self._replica_statuses(), self._agent_statuses()
            status = self.host.status() if self.host.alive() else None
            reported = self.reports.last
        newest = max(self._term, self.assignment.term)
        answer = await self.link.register(
            Registration(
                protocol=PROTOCOL,
                name=self.node.name,
                controller=self.reports.owner,
                heard=newest,
                reported=reported,
                cores=self.node.cores,
                memory_bytes=self.node.memory_bytes,
                host_kind=self.node.host_kind,
                labels=self.node.labels,
                metrics=self.node.metrics,
                process=status and status.model_copy(update={"replicas": ()}),
                replicas=replicas,
                agents=agents,
            )
        )
        if answer.protocol < OLDEST_PROTOCOL:
            raise CallRefused(f"the orchestrator speaks version {answer.protocol} of the protocol; update it before its nodes")
        if answer.term == self.assignment.term and answer.generation < self.assignment.generation:
            raise OrchestratorSuperseded(
                f"the orchestrator uses term {answer.term} for a second time, because its database lost transactions; "
                "start it with --restored"
            )
        if self._link_error is not None or answer.term != self._term:
            self._log(f"registered as {self.node.name} with the orchestrator of term {answer.term}")
        self._term, self._registration, self._link_error, self._fault = answer.term, answer.generation, None, 0
        self._beat_every_s = answer.every_s
        await asyncio.to_thread(self.reports.acknowledge, answer.acknowledged)

    def _replica_statuses(self) -> tuple[ReplicaStatus, ...]:
        """Return the replicas of the node: those that its PE host reports, and those that have ended and must not start again."""
        status = self.host.status()
        known = self.reports.known
        living = (
            replica
            for replica in (status.replicas if status is not None and self.host.alive() else ())
            if replica.key in known and known[replica.key].incarnation == replica.incarnation and not known[replica.key].ended
        )
        ended = (
            ReplicaStatus.model_validate({"key": key, "incarnation": k.incarnation, "state": k.state, "error": k.error})
            for key, k in known.items()
            if k.ended
        )
        return (*living, *ended)

    def _agent_statuses(self) -> tuple[AgentStatus, ...]:
        return () if self.agents is None else self.agents.statuses()

    async def _send_beats(self) -> None:
        every_s = self._beat_every_s
        if not len(self.reports):  # the registration has just reported everything
            await self._pause(every_s * self._rng.random())
        while True:
            self._new_reports.clear()
            try:
                every_s, more = await self._send_beat()
            except OrchestratorBusy as error:
                self._log_link_error(error)
                await asyncio.sleep(min(every_s, 1.0) * self._rng.uniform(0.2, 0.4))
                continue
            self._link_error = None
            if not more:
                await self._pause(every_s)

    async def _pause(self, for_s: float) -> None:
        """Wait for this long, or until there is something to report."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(for_s):
                await self._new_reports.wait()

    async def _send_beat(self) -> tuple[float, bool]:
        """Beat once. Returns the seconds until the next beat, and whether more reports wait to be sent at once."""
        reports = self.reports.waiting(REPORTS_PER_BEAT)
        newest = self.assignment
        beat = Beat(
            term=self._term,
            registration=self._registration,
            controller=self.reports.owner,
            reports=reports,
            host=self.host.status() if self.host.alive() else None,
            unhosted=newest.generation if newest.term == self._term and not self.host.has_begun() else None,
            fault=self._fault,
            stalled_s=self.stalled_s,
            agents=self._agent_statuses(),
        )
        answer = await self.link.beat(beat)
        if answer.term != self._term:
            raise RegistrationOutdated(f"the orchestrator has term {answer.term}, not {self._term}")
        if reports:
            await asyncio.to_thread(self.reports.acknowledge, answer.acknowledged)
        all_acknowledged = bool(reports) and answer.acknowledged >= reports[-1].number
        return answer.every_s, all_acknowledged and len(self.reports) > 0

    async def _fetch_assignments(self) -> None:
        while True:
            present = self.assignment
            newer = await self.link.assignment(present.term, present.generation, controller=self.reports.owner)
            if newer is None or newer.term != self._term:
                continue  # an answer of an orchestrator that was replaced
            if assignment_order(newer) > assignment_order(self.assignment):
                await self._accept(newer.model_copy(update={"faults": ()}))
                await self._carry_out(newer.faults)

    async def _hold_presence(self) -> None:
        """Keep a request to the orchestrator open, if the PE host is a process that does so, too.

        A proxy may close it now and then. That the orchestrator is unreachable is for the other calls to notice.
        """
        if self._write_presence is None:
            await asyncio.Event().wait()
            return
        self._write_presence()
        while True:
            opened_s = self._now()
            with contextlib.suppress(LinkError):  # also of an orchestrator that is too old to know the call
                await self.link.hold_presence()
            await asyncio.sleep(RETRY_S if self._now() - opened_s > RETRY_MAX_S else RETRY_MAX_S)

    async def _carry_out(self, orders: Iterable[FaultOrder]) -> None:
        """Inject the faults that are new. A beat first reports each to the orchestrator, because a fault may kill this process."""
        for order in orders:
            if order.number <= self._fault:
                continue
            self._fault = order.number
            await self._send_beat()
            self._log(f"injects fault {order.kind} {order.target}".rstrip())
            try:
                if self._inject is not None:
                    self._inject(order)
            except HoldfastError as error:
                self._log(str(error))

    async def _accept(self, assignment: Assignment) -> None:
        async with self._state_lock:
            await asyncio.to_thread(self.reports.expect, assignment)
            self.host.assign(runnable_assignment(assignment, self.reports.known))
            self._storage_errors.pop(STORE_ASSIGNMENT, None)
            if self.agents is not None:
                self.agents.assign(assignment)


async def _wait(stop: asyncio.Event) -> None:
    await stop.wait()


async def _first_of(*loops: Coroutine[Any, Any, None]) -> None:
    """Run loops side by side until one ends. Cancel the others, and raise the error of the one that ended."""
    tasks = [asyncio.create_task(loop) for loop in loops]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        task.result()
