"""Fault injection inside an orchestrator: faults that machines' transitions strike with, faults by call, and disturbed messages."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from holdfast.control.api.calls import ApiAnswer, ApiRequest, Call, Refusal, error_response
from holdfast.control.faults.fault_library import FaultContext, Injected, all_faults, setting_errors
from holdfast.control.faults.injection_tests import ACTION, InjectionTest, Trigger, add_faults, read_tests
from holdfast.control.nodes.replicas import STARTED
from holdfast.control.plugins import Plugin
from holdfast.documents.document import Part
from holdfast.errors import CompoundError, HoldfastError

if TYPE_CHECKING:
    from holdfast.control.jobs.job_state import JobState
    from holdfast.control.jobs.machine_document import Machine
    from holdfast.control.jobs.state_machine import Command

Kind = Literal["drop", "delay", "duplicate", "cut"]


@dataclass(frozen=True, slots=True)
class Disturbance:
    """What happens to messages of a node, or of all, until a moment."""

    kind: Kind
    node: str | None
    until_s: float
    by_s: float = 0.0


class Injection(Part):
    """A fault to bring about now."""

    fault: str = Field(max_length=100)
    node: str | None = Field(default=None, max_length=100)
    pe: str | None = Field(default=None, max_length=300)
    settings: dict[str, float] = Field(default_factory=dict, max_length=10)


class Faults(Plugin):
    """Brings faults about. Without tests and calls it does nothing, and costs next to nothing."""

    action_names = (ACTION,)

    def __init__(self, orchestrator: Any) -> None:
        super().__init__(orchestrator)
        self.library = all_faults()
        self._injection_counts: Counter[str] = Counter()
        self._disturbances: list[Disturbance] = []
        self._rng = random.Random(0)

    def calls(self) -> list[Call]:
        return [
            Call(
                "POST", "/v1/faults", "Bring about a fault", self.inject_now, body=Injection, strict=True, status=202,
                statuses=(403,), tag="control",
            )
        ]  # fmt: skip

    def add_faults(self, machines: Mapping[str, Machine], documents: Sequence[Any]) -> dict[str, Machine]:
        """The machines with the faults of these test documents (paths). Raises DocumentError."""
        tests: list[InjectionTest] = []
        for path in documents:
            document = read_tests(path, machines, faults=self.library)
            self._rng.seed(document.seed)
            tests.extend(document.tests)
        return {name: add_faults(machine, tests) for name, machine in machines.items()}

    async def inject(self, job: JobState, command: Command) -> None:
        """The action of faulty machines."""
        test = InjectionTest.model_validate(dict(command.settings))
        which = test.model_dump_json()  # all of it: two may have one name, and another node, PE or trigger
        if self._injection_counts[which] >= test.trigger.times or not self._is_due(test.trigger, job):
            return
        self._injection_counts[which] += 1
        at = FaultContext(self.orchestrator, job, test.node, test.pe, test.settings)
        text = f"fault {test.fault} at {test.state}.{test.transition} ({test.moment})"
        self.orchestrator.events.emit("fault", text, job=job.id, data={"fault": test.fault, "test": test.name})
        self.orchestrator.say(f"{text} of job {job.id}")
        wait_s = self._rng.uniform(test.trigger.min_s, test.trigger.max_s)
        if wait_s:
            self.orchestrator.spawn(self._inject_later(at, test, wait_s))
        else:
            await self._run_fault(test, at)

    async def inject_now(self, asked: ApiRequest) -> ApiAnswer:
        """The call: a fault, now."""
        if not self.orchestrator.settings.faults:
            raise Refusal(403, "fault injection is off; start the orchestrator with --faults to allow it")
        wanted: Injection = asked.body
        if wanted.fault not in self.library:
            raise Refusal(422, f"there is no fault '{wanted.fault}'; faults are: {', '.join(sorted(self.library))}")
        if errors := [f"settings.{name}: {text}" for name, text in setting_errors(self.library[wanted.fault], wanted.settings)]:
            raise CompoundError(f"fault '{wanted.fault}'", errors)
        whom = " ".join(each for each in (wanted.pe, f"on {wanted.node}" if wanted.node else None) if each)
        text = f"fault {wanted.fault} {whom}".strip()
        self.orchestrator.events.emit("fault", text, node=wanted.node, data={"fault": wanted.fault, "pe": wanted.pe})
        self.orchestrator.say(text)
        try:
            await self.library[wanted.fault](FaultContext(self.orchestrator, None, wanted.node, wanted.pe, wanted.settings))
        except HoldfastError as error:
            self.orchestrator.events.emit("control", f"{text} did not come about: {error}", node=wanted.node)
            raise
        return ApiAnswer({"fault": wanted.fault}, status=202)

    def disturb(self, kind: Kind, node: str | None, *, for_s: float, by_s: float = 0.0) -> None:
        """Disturb messages from now on, for so long."""
        self._disturbances.append(Disturbance(kind, node, self.orchestrator.time.monotonic_s() + for_s, by_s))

    async def pass_on(self, node: str | None, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand a call on, or do to it what is being done to messages. Calls of users (no `node`) are never touched."""
        disturbance = self._disturbance(node) if self._disturbances and node is not None else None
        if disturbance is None:
            await app(scope, receive, send)
            return
        match disturbance.kind:
            case "cut":
                await _lose(scope, receive, send)
            case "drop":
                if self._rng.random() < 0.5:
                    await app(scope, receive, _unheard)  # taken, and the answer is lost: the caller must send it again
                await _lose(scope, receive, send)
            case "delay":
                await asyncio.sleep(self._rng.uniform(0, disturbance.by_s))
                await app(scope, receive, send)
            case "duplicate":
                twice = await _repeatable(receive)
                await app(dict(scope), twice(), _unheard)
                await app(scope, twice(), send)

    async def _inject_later(self, at: FaultContext, test: InjectionTest, wait_s: float) -> None:
        await self.orchestrator.time.sleep(wait_s)
        try:
            await self._run_fault(test, at)
        except Injected as error:  # there is no transition any more that it could strike
            self._report_missed(test, at, error)

    async def _run_fault(self, test: InjectionTest, at: FaultContext) -> None:
        try:
            await self.library[test.fault](at)
        except Injected:
            raise
        except HoldfastError as error:  # nobody there to strike is no failure of the transition
            self._report_missed(test, at, error)

    def _report_missed(self, test: InjectionTest, at: FaultContext, error: HoldfastError) -> None:
        """Tell that a test's fault did not come about, in words and for whoever judges the test."""
        data = {"fault": test.fault, "test": test.name, "missed": str(error)}
        text = f"fault {test.fault} did not come about: {error}"
        self.orchestrator.events.emit("fault", text, job=at.job.id if at.job else None, data=data)

    def _is_due(self, trigger: Trigger, job: JobState) -> bool:
        if trigger.job is not None and trigger.job != job.id:
            return False
        started = sum(replica.state in STARTED for replica in self.orchestrator.replicas.of(job.id))
        return started >= trigger.started

    def _disturbance(self, node: str | None) -> Disturbance | None:
        now_s = self.orchestrator.time.monotonic_s()
        self._disturbances = [each for each in self._disturbances if each.until_s > now_s]
        return next((each for each in self._disturbances if each.node in (None, node)), None)


async def _lose(scope: Scope, receive: Receive, send: Send) -> None:
    await error_response(503, "this message was lost, by fault injection")(scope, receive, send)


async def _unheard(message: Message) -> None:
    """An answer that nobody gets."""


async def _repeatable(receive: Receive) -> Any:
    """A body that can be received more than once."""
    parts: list[Message] = []
    while True:
        message = await receive()
        parts.append(message)
        if message["type"] != "http.request" or not message.get("more_body", False):
            break

    def again() -> Receive:
        waiting = list(parts)

        async def give() -> Message:
            return waiting.pop(0) if waiting else await receive()

        return give

    return again
