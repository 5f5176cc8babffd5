"""The node controller: offers its node, starts and watches the PE host, and carries word both ways.

Three loops. One watches the PE host: makes reports of what changes, kills the host when it is hung, and starts it again when it
has died. One beats, with the reports that are not yet acknowledged. One waits for assignments. The first needs no orchestrator; the
other two start anew with a registration whenever the orchestrator was away or is another one.
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
from holdfast.node.host_health import HostHealth
from holdfast.node.pe_hosts import Host
from holdfast.node.replica_changes import bereaved, order, runnable, seen
from holdfast.node.reports import Change, Reports
from holdfast.protocol.messages import AgentStatus, Assignment, Beat, Registration, ReplicaStatus
from holdfast.protocol.node_link import Busy, Link, LinkError, Outdated, Refused, Superseded

if TYPE_CHECKING:
    from holdfast.node.agent_processes import AgentProcesses

REPORTS_A_BEAT = 500
RETRY_S, RETRY_MAX_S, RETRY_SHARE = 0.1, 3.0, 0.1
"""The orchestrator is tried again after a tenth of the time that it has been away, so one that is back soon is found soon."""
UNREADY_DEATHS = 3
"""So many deaths in a row before a host was ready, and what waits for it is reported as failed."""
HUNG_S = 60.0
"""A PE host that was silent for so long is killed and started again: its beat waits for no work, so it is no busy one."""
GRACE_S = 10.0
HUNG_GRACE_S = 1.0
FAREWELL_S = 3.0


@dataclass(frozen=True, slots=True)
class Node:
    """What a node offers."""

    name: str
    cores: float
    memory_bytes: int
    host_kind: str = "spark"
    labels: dict[str, str] = field(default_factory=dict)
    metrics: str | None = None


class NodeController:
    """A node's controller. `run` serves until it is stopped; all it must remember is in `reports` and in its host's files."""

    def __init__(
        self,
        node: Node,
        link: Link,
        host: Host,
        *,
        reports: Reports,
        log: Callable[[str], None],
        rng: random.Random,
        monotonic: Callable[[], float],
        agents: AgentProcesses | None = None,
        hung_after_s: float = HUNG_S,
    ) -> None:
        self.node, self.link, self.host, self.reports, self.agents = node, link, host, reports, agents
        self._log, self._rng, self._now, self._hung_after_s = log, rng, monotonic, hung_after_s
        self._turn = asyncio.Lock()  # one at a time: an assignment accepted, or changes found and recorded
        self._news = asyncio.Event()
        self._term = 0
        self._every_s = 1.0
        self._health = HostHealth()
        self._away: str | None = None
        self._troubles: dict[str, str] = {}

    @property
    def assignment(self) -> Assignment:
        return self.reports.assignment

    @property
    def stalled_s(self) -> float:
        """For how long the PE host has not beaten, where that is longer than a busy machine explains; else 0."""
        return self._health.stalled_s(self._now())

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until told to stop; then end the PE host, and say what became of its replicas if the orchestrator listens."""
        if self.agents is not None:
            self.agents.assign(self.assignment)
            self.agents.adopt()
        tasks = [asyncio.create_task(loop) for loop in (self._watch(), self._talk(), _wait(stop))]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        failure = next((error for task in done if (error := task.exception())), None)
        if failure is None or isinstance(failure, Refused):
            await self._farewell()
        if failure is not None:
            raise failure  # the PE host goes on, and is found again by the next controller

    async def _farewell(self) -> None:
        if self.agents is not None:
            await self.agents.stop()
        await self.host.stop(GRACE_S)
        async with self._turn:
            await self._record(bereaved(self.reports.known, self.assignment, cause=f"node {self.node.name} was stopped"))
        if self._away is None and self._term:
            with contextlib.suppress(LinkError, TimeoutError):
                async with asyncio.timeout(FAREWELL_S):
                    while len(self.reports):
                        await self._beat()

    async def _watch(self) -> None:
        while True:
            async with self._turn:
                try:
                    await self._look()
                    if self.agents is not None:
                        self.agents.look()
                    self._troubles.pop("reports", None)
                except (sqlite3.Error, OSError) as error:  # a full disk, say: nothing is known that was not recorded, so look again
                    self._cannot_keep("reports", error)
                    await asyncio.sleep(1.0)
            await self.host.changed()

    async def _look(self) -> None:
        """Record what changed in the PE host, and start it where there is none."""
        alive = self.host.alive()  # before its status: what a dead host says is the last that it will say
        status = self.host.status()
        self._health.saw(status, self._now(), alive=alive)
        if status is not None:
            await self._record(seen(self.reports.known, self.assignment, status))
        hung = None
        if alive and self._health.is_hung(self._now(), after_s=self._hung_after_s):
            hung = f"the PE host was silent for {self._health.silent_s(self._now()):.0f} s and was killed"
            await self.host.stop(HUNG_GRACE_S)
            alive = self.host.alive()
        if alive:
            self.host.clean()
            return
        died = self._health.died(self._now())
        cause = hung or (self.host.death() if died else "the PE host was gone when its node came back")
        if died:
            self._log(f"{cause}; starting it again in {self._health.wait_s:g} s")
        broken = self._health.has_died and status is not None and status.error is not None and not status.ready
        unready = broken or self._health.unready_deaths >= UNREADY_DEATHS
        await self._record(bereaved(self.reports.known, self.assignment, cause=cause, unready=unready))
        if self._now() >= self._health.start_at:
            self.host.start(runnable(self.assignment, self.reports.known))
            self._health.started(self._now())

    async def _record(self, changes: Iterable[Change]) -> None:
        found = list(changes)
        if found:
            await asyncio.to_thread(self.reports.record, found)
            self._news.set()

    async def _talk(self) -> None:
        since_s = self._now()
        while True:
            try:
                await self._register()
                try:
                    await _first_of(self._beats(), self._fetches())
                finally:
                    since_s = self._now()
            except LinkError as error:
                if isinstance(error, Refused) and not (self._term or self.assignment.term):
                    raise  # never yet accepted: a mistake of whoever started it
                self._tell(error)
                away_s = RETRY_MAX_S / RETRY_SHARE if isinstance(error, Refused) else self._now() - since_s
                pause_s = min(max(RETRY_S, RETRY_SHARE * away_s), RETRY_MAX_S)
                await asyncio.sleep(pause_s * self._rng.uniform(0.5, 1.0))
            except (sqlite3.Error, OSError) as error:  # a full disk, say; the next registration asks for all of it again
                self._cannot_keep("what the orchestrator said", error)
                await asyncio.sleep(RETRY_MAX_S)

    def _cannot_keep(self, what: str, error: Exception) -> None:
        """Log a trouble with the node's own files once. Raises HoldfastError where there is no place for them any more: a node
        that registers and can keep nothing would be given replicas that it never starts."""
        if not self.host.has_place():
            raise HoldfastError(
                f"the --work folder of node {self.node.name} is gone, and its PE host ends with it; start the node again"
            ) from error
        text = f"cannot keep {what}: {error}; trying again"
        if self._troubles.get(what) != text:
            self._troubles[what] = text
            self._log(text)

    def _tell(self, error: LinkError) -> None:
        """Log a trouble with the orchestrator once, not at every try."""
        kind = type(error).__name__
        if kind != self._away and not isinstance(error, Outdated):
            self._log(f"{error}; {len(self.reports)} reports wait, going on with what runs")
            self._away = kind

    async def _register(self) -> None:
        async with self._turn:
            replicas, agents = self._replicas(), self._agents()
            status = self.host.status() if self.host.alive() else None
        newest = max(self._term, self.assignment.term)
        registered = await self.link.register(
            Registration(
                name=self.node.name,
                controller=self.reports.owner,
                heard=newest,
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
        if registered.term < newest:
            raise Superseded(
                f"the orchestrator that answered is of term {registered.term}, and this node has heard from term {newest}; "
                "if its database was made anew, give the node a new --work"
            )
        if self._away is not None or registered.term != self._term:
            self._log(f"registered as {self.node.name} with the orchestrator of term {registered.term}")
        self._term, self._away, self._every_s = registered.term, None, registered.every_s
        await asyncio.to_thread(self.reports.acknowledge, registered.acknowledged)

    def _replicas(self) -> tuple[ReplicaStatus, ...]:
        """What the node has: what its host says, and what ended and is not to be started again."""
        status = self.host.status()
        known = self.reports.known
        told = {
            replica.key: replica
            for replica in (status.replicas if status is not None and self.host.alive() else ())
            if replica.key in known and known[replica.key].incarnation == replica.incarnation and not known[replica.key].ended
        }
        ended = (
            ReplicaStatus(key=key, incarnation=k.incarnation, state="failed" if k.state == "failed" else "finished", error=k.error)
            for key, k in known.items()
            if k.ended
        )
        return (*told.values(), *ended)

    def _agents(self) -> tuple[AgentStatus, ...]:
        return () if self.agents is None else self.agents.statuses()

    async def _beats(self) -> None:
        every_s = self._every_s
        if not len(self.reports):  # the registration has just said all there is: the first beat need not follow at once
            await self._pause(every_s * self._rng.random())
        while True:
            self._news.clear()
            try:
                every_s, again = await self._beat()
            except Busy as error:
                self._tell(error)
                await asyncio.sleep(min(every_s, 1.0) * self._rng.uniform(0.2, 0.4))
                continue
            self._away = None
            if not again:
                await self._pause(every_s)

    async def _pause(self, for_s: float) -> None:
        """Wait so long, or until there is something to report."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(for_s):
                await self._news.wait()

    async def _beat(self) -> tuple[float, bool]:
        """Beat once: how long until the next, and whether there is more to say at once."""
        reports = self.reports.waiting(REPORTS_A_BEAT)
        newest = self.assignment
        beat = Beat(
            term=self._term,
            controller=self.reports.owner,
            reports=reports,
            host=self.host.status() if self.host.alive() else None,
            unhosted=newest.generation if newest.term == self._term and not self.host.has_begun() else None,
            stalled_s=self.stalled_s,
            agents=self._agents(),
        )
        beaten = await self.link.beat(beat)
        if beaten.term != self._term:
            raise Outdated(f"the orchestrator is of term {beaten.term}, not {self._term}")
        if reports:
            await asyncio.to_thread(self.reports.acknowledge, beaten.acknowledged)
        taken = bool(reports) and beaten.acknowledged >= reports[-1].number
        return beaten.every_s, taken and len(self.reports) > 0

    async def _fetches(self) -> None:
        while True:
            newest = self.assignment
            found = await self.link.assignment(newest.term, newest.generation, controller=self.reports.owner)
            if found is not None and order(found) > order(self.assignment):
                await self._accept(found)

    async def _accept(self, assignment: Assignment) -> None:
        async with self._turn:
            await asyncio.to_thread(self.reports.expect, assignment)
            self.host.assign(runnable(assignment, self.reports.known))
            self._troubles.pop("what the orchestrator said", None)
            if self.agents is not None:
                self.agents.assign(assignment)


async def _wait(stop: asyncio.Event) -> None:
    await stop.wait()


async def _first_of(*loops: Coroutine[Any, Any, None]) -> None:
    """Run loops side by side until one ends or fails; the others are cancelled and its error is raised."""
    tasks = [asyncio.create_task(loop) for loop in loops]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        task.result()
