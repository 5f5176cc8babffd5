"""The prediction agents of one node: a process for each, started, found again, watched and stopped as a PE host is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from urllib.parse import quote

from holdfast.node.controller import HUNG_GRACE_S
from holdfast.node.host_health import HostHealth
from holdfast.node.pe_hosts import HostProcess
from holdfast.protocol.messages import AgentStatus, AssignedAgent, Assignment

FOLDER = "agents"
GRACE_S = 5.0
HUNG_S = 30.0
"""After how much silence an agent is killed and started again: an algorithm of anyone's may never return. Its first word may
take it as long as a PE host."""


class AgentProcesses:
    """Made equal to the assignment again and again. The death of one touches neither the PEs nor the other agents."""

    def __init__(
        self,
        work: Path,
        command: Sequence[str],
        *,
        node: str,
        log: Callable[[str], None],
        monotonic: Callable[[], float],
        hung_after_s: float = HUNG_S,
    ) -> None:
        self._work, self._command, self._node = work / FOLDER, tuple(command), node
        self._log, self._now, self._hung_after_s = log, monotonic, hung_after_s
        self._agents: dict[str, _Agent] = {}
        self._assignment = Assignment()
        self._ending: set[asyncio.Task[None]] = set()

    def assign(self, assignment: Assignment) -> None:
        """Take what should run here; agents hear of changes at once."""
        self._assignment = assignment
        for assigned in assignment.agents:
            if assigned.key in self._agents:
                self._agents[assigned.key].process.assign(self._share(assigned))

    def look(self) -> None:
        """Start what is missing, start again what has died or hangs, and stop what is no longer wanted."""
        wanted = {assigned.key: assigned for assigned in self._assignment.agents}
        for key, assigned in wanted.items():
            if key not in self._agents:
                self._agents[key] = self._new(_folder(assigned))
            agent = self._agents[key]
            agent.look(self._share(assigned), now_s=self._now(), log=self._log)
            if agent.health.is_hung(self._now(), after_s=self._hung_after_s) and not agent.is_ending:
                silent_s = agent.health.silent_s(self._now())
                self._log(f"the prediction agent of {assigned.task} was silent for {silent_s:.0f} s and is killed")
                agent.ending = self._end(agent.process, grace_s=HUNG_GRACE_S)
        for key in [key for key in self._agents if key not in wanted]:
            self._end(self._agents.pop(key).process)

    def adopt(self) -> None:
        """Find agents that a controller before this one left behind; those that are not wanted any more are stopped."""
        wanted = {_folder(assigned) for assigned in self._assignment.agents}
        for folder in sorted(self._work.glob("*")):
            if folder.name not in wanted:
                self._end(self._new(folder.name).process)

    def statuses(self) -> tuple[AgentStatus, ...]:
        told = {assigned.key: assigned for assigned in self._assignment.agents}
        return tuple(self._agents[key].status(told[key]) for key in sorted(self._agents) if key in told)

    async def stop(self) -> None:
        """End them all."""
        for agent in self._agents.values():
            self._end(agent.process)
        self._agents.clear()
        self._assignment = Assignment()
        await asyncio.gather(*self._ending)

    def _new(self, name: str) -> _Agent:
        folder = self._work / name
        folder.mkdir(parents=True, exist_ok=True)
        command = (*self._command, "--work", str(folder), "--node", self._node)
        return _Agent(HostProcess(folder, command, log=self._log))

    def _share(self, assigned: AssignedAgent) -> Assignment:
        """The part of the assignment that an agent needs to see."""
        jobs = {number: settings for number, settings in self._assignment.jobs.items() if number == assigned.job}
        return self._assignment.model_copy(update={"replicas": (), "agents": (assigned,), "jobs": jobs})

    def _end(self, process: HostProcess, *, grace_s: float = GRACE_S) -> asyncio.Task[None]:
        task = asyncio.create_task(process.stop(grace_s))
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)
        return task


class _Agent:
    """One agent's process and how it has been doing."""

    def __init__(self, process: HostProcess) -> None:
        self.process = process
        self.ending: asyncio.Task[None] | None = None
        self.health = HostHealth()
        self._starts = 0

    def look(self, share: Assignment, *, now_s: float, log: Callable[[str], None]) -> None:
        alive = self.process.alive()
        self.health.saw(self.process.status(), now_s, alive=alive)
        if alive or self.is_ending:
            self.process.clean()
            return
        if self.health.died(now_s):
            log(f"a prediction agent ended ({self.process.death()}); starting it again in {self.health.wait_s:g} s")
        if now_s >= self.health.start_at:
            self.process.start(share)
            self.health.started(now_s)
            self._starts += 1

    @property
    def is_ending(self) -> bool:
        return self.ending is not None and not self.ending.done()

    def status(self, told: AssignedAgent) -> AgentStatus:
        return AgentStatus(
            key=told.key,
            alive=self.process.alive(),
            starts=self._starts,
            revision=told.revision,
            orders=told.orders,
            status=self.process.status(),
        )


def _folder(assigned: AssignedAgent) -> str:
    return f"{assigned.job}-{quote(assigned.task, safe='')}"
