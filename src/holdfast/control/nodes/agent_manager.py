"""The agent manager (ISORC'16, section IV-C): it places a prediction agent for every protected task, collects their status and
passes on changes by a user. Agents also watch and predict while there is no orchestrator."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pydantic import Field

from holdfast.control.api.calls import ApiAnswer, ApiRequest, Call, Refusal
from holdfast.control.api.submission_checks import NotFound
from holdfast.control.nodes.replicas import LIVING
from holdfast.control.observers.job_observers import EVERY_S
from holdfast.control.plugins import Plugin
from holdfast.documents.document import Part
from holdfast.protocol.messages import AgentStatus, AssignedAgent

if TYPE_CHECKING:
    from holdfast.control.jobs.job_state import JobState
    from holdfast.documents.job import Task


AGENT_ERRORS = {"error": "cannot predict it", "refused": "has not carried out a change"}
"""The error fields of an agent's status, and the text for each."""


class AgentOrders(Part):
    """A change of an agent: `algorithms` (installed ones, with their parameters) and parameters of the contract, by name."""

    orders: dict[str, Any] = Field(min_length=1, max_length=100)


@dataclass(slots=True, eq=False)
class Agent:
    """One agent: its node, its orders, and the status that its node last reported, at `heard_s`.

    `ordering` is held while an order is checked, so that orders are checked one after another.
    """

    job: int
    task: str
    node: str
    revision: int = 0
    orders: dict[str, Any] = field(default_factory=dict)
    status: AgentStatus | None = None
    heard_s: float | None = None
    ordering: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def key(self) -> str:
        return f"{self.job}:{self.task}"

    @property
    def about(self) -> Mapping[str, Any]:
        """What the agent reports about itself; empty before its first report."""
        return self.status.status.about if self.status is not None and self.status.status is not None else {}


class AgentManager(Plugin):
    """The agents that should run. None of it is stored: the placement of agents follows from that of replicas, and the nodes keep
    the orders."""

    def __init__(self, orchestrator: Any) -> None:
        super().__init__(orchestrator)
        self._agents: dict[str, Agent] = {}
        self._unclaimed: dict[str, tuple[str, AgentStatus]] = {}

    async def run(self) -> None:
        """Place agents periodically, until cancelled."""
        while True:
            await self.orchestrator.time.sleep(EVERY_S)
            if not self.orchestrator.recovering:
                self.place()

    def calls(self) -> list[Call]:
        """Return the API calls of the agent manager."""
        return [
            Call("GET", "/v1/jobs/{id}/agents", "The prediction agents of a job", self._list_agents, statuses=(404,), tag="agents"),
            Call(
                "POST",
                "/v1/jobs/{id}/agents/{pe}/{task}",
                "Change a prediction agent while it runs",
                self._change_agent,
                body=AgentOrders,
                strict=True,
                status=202,
                statuses=(404, 422),
                tag="agents",
            ),
        ]

    async def _list_agents(self, request: ApiRequest) -> ApiAnswer:
        return ApiAnswer({"agents": [agent_line(agent) for agent in self.of(self._job(request))]})

    async def _change_agent(self, request: ApiRequest) -> ApiAnswer:
        job, task = self._job(request), f"{request.path['pe']}/{request.path['task']}"
        try:
            return ApiAnswer(agent_line(await self.order(job, task, request.body.orders)), status=202)
        except NotFound as error:
            raise Refusal(404, str(error)) from None

    def _job(self, request: ApiRequest) -> int:
        text = request.path["id"]
        if not (text.isdecimal() and text.isascii() and len(text) <= 15 and int(text) in self.orchestrator.jobs):
            raise Refusal(404, f"job '{text[:60]}' does not exist or has ended; 'holdfast jobs' lists them")
        return int(text)

    def place(self) -> None:
        """Give every protected task an agent, if possible on another node than its primary. Remove agents that are not needed."""
        protected = {f"{job.id}:{task.name}": (job, task) for job in self.orchestrator.jobs.values() for task in _protected(job)}
        changed = {self._agents.pop(key).node for key in list(self._agents) if key not in protected}
        for key, (job, task) in sorted(protected.items()):
            changed |= self._place(key, job, task)
        self._unclaimed.clear()
        self.orchestrator.dispatch.renew_assignments(changed)

    def at(self, node: str) -> tuple[AssignedAgent, ...]:
        """Return the agents that should run on a node."""
        agents = sorted((agent for agent in self._agents.values() if agent.node == node), key=lambda agent: agent.key)
        return tuple(AssignedAgent(job=a.job, task=a.task, revision=a.revision, orders=a.orders) for a in agents)

    def take_statuses(self, node: str, statuses: Iterable[AgentStatus]) -> None:
        """Take the statuses that a node reports. An agent that an earlier orchestrator placed keeps its node and its orders."""
        for status in statuses:
            agent = self._agents.get(status.key)
            if agent is None:
                self._unclaimed[status.key] = node, status  # an earlier orchestrator placed it there
            if agent is None or agent.node != node:
                continue
            previous = agent.about
            agent.status, agent.heard_s = status, self.orchestrator.time.now_s()
            self._report_errors(agent, previous)

    def of(self, job: int) -> list[Agent]:
        """Return the agents of a job, in the order of their tasks."""
        return sorted((agent for agent in self._agents.values() if agent.job == job), key=lambda agent: agent.task)

    async def order(self, job: int, task: str, orders: Mapping[str, Any]) -> Agent:
        """Change a running agent. What is not named stays as it is; null withdraws an order.

        Raises NotFound, and HoldfastError for a bad order.
        """
        agent = self._agent_of(job, task)
        async with agent.ordering:
            merged = {**agent.orders, **orders}
            await self.orchestrator.observers.check_orders(self.orchestrator.job(job), task, merged)
            if self._agent_of(job, task) is not agent:
                raise NotFound(f"the prediction agent of task '{task}' was replaced meanwhile; change it again")
            agent.revision, agent.orders = agent.revision + 1, {name: value for name, value in merged.items() if value is not None}
        self.orchestrator.dispatch.renew_assignments([agent.node])
        self.orchestrator.events.emit("decision", f"agent of {task} is changed: {dict(orders)}", job=job, node=agent.node)
        return agent

    def _agent_of(self, job: int, task: str) -> Agent:
        """Return the agent of a task. Raises NotFound."""
        agent = self._agents.get(f"{job}:{task}")
        if agent is None:
            tasks = ", ".join(each.task for each in self.of(job)) or "none"
            raise NotFound(f"job {job} has no prediction agent for task '{task}'; its agents watch: {tasks}")
        return agent

    def _report_errors(self, agent: Agent, previous: Mapping[str, Any]) -> None:
        """Emit each new error that keeps an agent from protecting its task."""
        for name, text in AGENT_ERRORS.items():
            error = agent.about.get(name)
            if error and error != previous.get(name):
                message, data = f"agent of {agent.task} {text}: {error}", {"task": agent.task, name: error}
                self.orchestrator.events.emit("control", message, job=agent.job, node=agent.node, data=data)

    def _place(self, key: str, job: JobState, task: Task) -> set[str]:
        """Place one agent or leave it where it is; return the nodes whose assignment changes."""
        agent = self._agents.get(key)
        nodes = self.orchestrator.resources.nodes
        usable = {name for name, node in nodes.items() if node.takes_replicas and node.offer.host_kind == job.document.host_kind}
        living = [r for r in self.orchestrator.replicas.of(job.id, [task.name]) if r.state in LIVING and r.active]
        primary = min(living, key=lambda replica: (replica.state != "running", replica.rank), default=None)
        apart = usable - ({primary.node} if primary is not None else set())
        if agent is not None and (agent.node in apart or (agent.node in usable and not apart)):
            return set()
        counts = Counter(each.node for each in self._agents.values())
        runs_on, status = self._unclaimed.pop(key, ("", None))
        node = min(apart or usable, key=lambda name: (name != runs_on, counts[name], name), default=None)
        if node is None:
            return {self._agents.pop(key).node} if agent is not None else set()
        previous = {agent.node} if agent is not None else set()
        if agent is None:
            orders = (status.revision, dict(status.orders)) if status is not None else (0, {})
            self._agents[key] = Agent(job.id, task.name, node, *orders)
        else:
            agent.node, agent.status = node, None
        self.orchestrator.events.emit("decision", f"agent of {task.name} watches from {node}", job=job.id, node=node)
        return {*previous, node}


def agent_line(agent: Agent) -> dict[str, Any]:
    """Return an agent as the API shows it."""
    status = agent.status
    host = status.status if status is not None else None
    return {
        "task": agent.task,
        "node": agent.node,
        "alive": status is not None and status.alive,
        "starts": 0 if status is None else status.starts,
        "heard_s": agent.heard_s,
        "pid": None if host is None else host.pid,
        "cpu_s": None if host is None else host.cpu_s,
        "memory_bytes": None if host is None else host.memory_bytes,
        "error": None if host is None else host.error,
        "orders": agent.orders,
        "revision": agent.revision,
        "about": dict(agent.about),
    }


def _protected(job: JobState) -> list[Task]:
    """Return the tasks of a job that need an agent."""
    if job.layout is None or not job.is_observed:
        return []
    return [task for task in job.layout.tasks if job.document.has_agent(task)]
