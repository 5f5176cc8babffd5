"""The prediction agents of one node, one process each. The controller starts, adopts, watches and stops them like a PE host."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from urllib.parse import quote

from holdfast.node.host_health import HostHealth
from holdfast.node.pe_host_watch import HUNG_GRACE_S
from holdfast.node.pe_hosts import HostProcess
from holdfast.protocol.messages import AgentStatus, AssignedAgent, Assignment

FOLDER = "agents"
GRACE_S = 5.0
HUNG_S = 30.0
"""An agent that is silent for this long is killed and started again, because an installed predictor may never return.
Its first beat may take as long as that of a PE host."""


class AgentProcesses:
    """Starts and stops agents so that they match the assignment. The death of one affects neither the PEs nor the other agents."""

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
        """Set what should run here. Running agents get the change at once."""
        self._assignment = assignment
        for assigned in assignment.agents:
            if assigned.key in self._agents:
                self._agents[assigned.key].process.assign(self._share(assigned))

    def check(self) -> None:
        """Start agents that are missing, restart those that died or hang, and stop those that are no longer assigned."""
        expected = {assigned.key: assigned for assigned in self._assignment.agents}
        for key, assigned in expected.items():
            if key not in self._agents:
                self._agents[key] = self._new(_folder(assigned))
            agent = self._agents[key]
            agent.check(self._share(assigned), now_s=self._now(), log=self._log)
            if agent.health.is_hung(self._now(), after_s=self._hung_after_s) and not agent.is_ending:
                silent_s = agent.health.silent_s(self._now())
                self._log(f"the prediction agent of {assigned.task} was silent for {silent_s:.0f} s and is killed")
                agent.ending = self._end(agent.process, grace_s=HUNG_GRACE_S)
        for key in [key for key in self._agents if key not in expected]:
            self._end(self._agents.pop(key).process)

    def adopt(self) -> None:
        """Stop agents that an earlier controller started and that are no longer assigned. `check` takes over the others."""
        expected = {_folder(assigned) for assigned in self._assignment.agents}
        for folder in sorted(self._work.glob("*")):
            if folder.name not in expected:
                self._end(self._new(folder.name).process)

    def statuses(self) -> tuple[AgentStatus, ...]:
        assigned = {agent.key: agent for agent in self._assignment.agents}
        return tuple(self._agents[key].status(assigned[key]) for key in sorted(self._agents) if key in assigned)

    async def stop(self) -> None:
        """End all agents."""
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
        """Return the part of the assignment that concerns one agent."""
        jobs = {number: settings for number, settings in self._assignment.jobs.items() if number == assigned.job}
        return self._assignment.model_copy(update={"replicas": (), "agents": (assigned,), "jobs": jobs})

    def _end(self, process: HostProcess, *, grace_s: float = GRACE_S) -> asyncio.Task[None]:
        task = asyncio.create_task(process.stop(grace_s))
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)
        return task


class _Agent:
    """The process of one agent, and its health."""

    def __init__(self, process: HostProcess) -> None:
        self.process = process
        self.ending: asyncio.Task[None] | None = None
        self.health = HostHealth()
        self._starts = 0

    def check(self, share: Assignment, *, now_s: float, log: Callable[[str], None]) -> None:
        alive = self.process.alive()
        self.health.observe(self.process.status(), now_s, alive=alive)
        if alive or self.is_ending:
            self.process.clean()
            return
        if self.health.note_death(now_s):
            log(f"a prediction agent ended ({self.process.death()}); starting it again in {self.health.wait_s:g} s")
        if now_s >= self.health.start_at_s:
            self.process.start(share)
            self.health.note_start(now_s)
            self._starts += 1

    @property
    def is_ending(self) -> bool:
        return self.ending is not None and not self.ending.done()

    def status(self, assigned: AssignedAgent) -> AgentStatus:
        return AgentStatus(
            key=assigned.key,
            alive=self.process.alive(),
            starts=self._starts,
            revision=assigned.revision,
            orders=assigned.orders,
            status=self.process.status(),
        )


def _folder(assigned: AssignedAgent) -> str:
    return f"{assigned.job}-{quote(assigned.task, safe='')}"
