"""The fault-injection plug-in: it injects faults at transitions, by API call, and into the messages of nodes."""

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
from holdfast.control.faults.fault_library import FaultContext, InjectedFailure, all_faults, setting_errors
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
    """What happens to the messages of one node, or of all nodes, until `until_s`."""

    kind: Kind
    node: str | None
    until_s: float
    by_s: float = 0.0


class Injection(Part):
    """A request to inject a fault now."""

    fault: str = Field(max_length=100)
    node: str | None = Field(default=None, max_length=100)
    pe: str | None = Field(default=None, max_length=300)
    settings: dict[str, float] = Field(default_factory=dict, max_length=10)


class Faults(Plugin):
    """The fault-injection plug-in. It does nothing unless a test or an API call asks for a fault."""

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
                "POST", "/v1/faults", "Inject a fault", self.inject_now, body=Injection, strict=True, status=202,
                statuses=(403,), tag="control",
            )
        ]  # fmt: skip

    def add_faults(self, machines: Mapping[str, Machine], documents: Sequence[Any]) -> dict[str, Machine]:
        """Return the machines with the faults of these test documents (paths). Raises DocumentError."""
        tests: list[InjectionTest] = []
        for path in documents:
            document = read_tests(path, machines, faults=self.library)
            self._rng.seed(document.seed)
            tests.extend(document.tests)
        return {name: add_faults(machine, tests) for name, machine in machines.items()}

    async def inject(self, job: JobState, command: Command) -> None:
        """Inject the fault that the action's settings describe. State machines with faults call this action."""
        test = InjectionTest.model_validate(dict(command.settings))
        test_id = test.model_dump_json()  # all fields: two tests of one name may differ in node, PE or trigger
        if self._injection_counts[test_id] >= test.trigger.times or not self._is_due(test.trigger, job):
            return
        self._injection_counts[test_id] += 1
        context = FaultContext(self.orchestrator, job, test.node, test.pe, test.settings)
        text = f"fault {test.fault} at {test.state}.{test.transition} ({test.moment})"
        self.orchestrator.events.emit("fault", text, job=job.id, data={"fault": test.fault, "test": test.name})
        self.orchestrator.say(f"{text} of job {job.id}")
        wait_s = self._rng.uniform(test.trigger.min_s, test.trigger.max_s)
        if wait_s:
            self.orchestrator.spawn(self._inject_later(context, test, wait_s))
        else:
            await self._run_fault(test, context)

    async def inject_now(self, request: ApiRequest) -> ApiAnswer:
        """Handle the API call: inject a fault now."""
        if not self.orchestrator.settings.faults:
            raise Refusal(403, "fault injection is off; start the orchestrator with --faults to allow it")
        injection: Injection = request.body
        if injection.fault not in self.library:
            raise Refusal(422, f"there is no fault '{injection.fault}'; faults are: {', '.join(sorted(self.library))}")
        fault = self.library[injection.fault]
        if errors := [f"settings.{name}: {text}" for name, text in setting_errors(fault, injection.settings)]:
            raise CompoundError(f"fault '{injection.fault}'", errors)
        target = " ".join(each for each in (injection.pe, f"on {injection.node}" if injection.node else None) if each)
        text = f"fault {injection.fault} {target}".strip()
        self.orchestrator.events.emit("fault", text, node=injection.node, data={"fault": injection.fault, "pe": injection.pe})
        self.orchestrator.say(text)
        try:
            await fault(FaultContext(self.orchestrator, None, injection.node, injection.pe, injection.settings))
        except HoldfastError as error:
            self.orchestrator.events.emit("control", f"{text} was not injected: {error}", node=injection.node)
            raise
        return ApiAnswer({"fault": injection.fault}, status=202)

    def disturb(self, kind: Kind, node: str | None, *, for_s: float, by_s: float = 0.0) -> None:
        """Disturb the messages of a node, or of all nodes (None), for the next `for_s` seconds."""
        self._disturbances.append(Disturbance(kind, node, self.orchestrator.time.monotonic_s() + for_s, by_s))

    async def pass_on(self, node: str | None, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a call on, or disturb it. Calls of users (no `node`) are never disturbed."""
        disturbance = self._disturbance(node) if node is not None else None
        if disturbance is None:
            await app(scope, receive, send if node is None else self._unless_cut(node, scope, receive, send))
            return
        match disturbance.kind:
            case "cut":
                await _lose(scope, receive, send)
            case "drop":
                if self._rng.random() < 0.5:
                    await app(scope, receive, _discard)  # processed, but the answer is lost: the caller must send it again
                await _lose(scope, receive, send)
            case "delay":
                await asyncio.sleep(self._rng.uniform(0, disturbance.by_s))
                await app(scope, receive, send)
            case "duplicate":
                new_receive = await _repeatable(receive)
                await app(dict(scope), new_receive(), _discard)
                await app(scope, new_receive(), send)

    def _unless_cut(self, node: str, scope: Scope, receive: Receive, send: Send) -> Send:
        """Return a `send` that loses the answer if the node was cut off meanwhile: a call for an assignment may wait long."""
        is_lost = False

        async def send_unless_cut(message: Message) -> None:
            nonlocal is_lost
            if message["type"] == "http.response.start":
                disturbance = self._disturbance(node)
                is_lost = disturbance is not None and disturbance.kind == "cut"
                if is_lost:
                    await _lose(scope, receive, send)
            if not is_lost:
                await send(message)

        return send_unless_cut

    async def _inject_later(self, context: FaultContext, test: InjectionTest, wait_s: float) -> None:
        await self.orchestrator.time.sleep(wait_s)
        try:
            await self._run_fault(test, context)
        except InjectedFailure as error:  # the transition is over, so nothing can fail
            self._report_missed(test, context, error)

    async def _run_fault(self, test: InjectionTest, context: FaultContext) -> None:
        try:
            await self.library[test.fault](context)
        except InjectedFailure:
            raise
        except HoldfastError as error:  # the fault has no target, which is no failure of the transition
            self._report_missed(test, context, error)

    def _report_missed(self, test: InjectionTest, context: FaultContext, error: HoldfastError) -> None:
        """Emit an event that a test's fault was not injected, for users and for the verdict on the test."""
        data = {"fault": test.fault, "test": test.name, "missed": str(error)}
        text = f"fault {test.fault} was not injected: {error}"
        self.orchestrator.events.emit("fault", text, job=context.job.id if context.job else None, data=data)

    def _is_due(self, trigger: Trigger, job: JobState) -> bool:
        if trigger.job is not None and trigger.job != job.id:
            return False
        start_count = sum(replica.state in STARTED for replica in self.orchestrator.replicas.of(job.id))
        return start_count >= trigger.started

    def _disturbance(self, node: str | None) -> Disturbance | None:
        if not self._disturbances:
            return None
        now_s = self.orchestrator.time.monotonic_s()
        self._disturbances = [each for each in self._disturbances if each.until_s > now_s]
        return next((each for each in self._disturbances if each.node in (None, node)), None)


async def _lose(scope: Scope, receive: Receive, send: Send) -> None:
    await error_response(503, "an injected fault lost this message")(scope, receive, send)


async def _discard(message: Message) -> None:
    """Drop an answer."""


async def _repeatable(receive: Receive) -> Any:
    """Return a function that returns, at each call, a `receive` for the same body."""
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
