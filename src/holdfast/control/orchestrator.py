"""The orchestrator: owns every job, node and replica, in one event loop, and executes what the state machines command.

Everything here runs in one thread; whoever changes state does so between two awaits. Each job's events are worked off one after
another, different jobs' side by side.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import traceback
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any

from holdfast.control.api.submission_checks import Conflict, NotFound, check_activation
from holdfast.control.clock import Clock
from holdfast.control.events import Events
from holdfast.control.jobs.job_paths import with_absolute_paths
from holdfast.control.jobs.job_state import JobState
from holdfast.control.jobs.machine_document import Machine, read_machine, shipped_machines
from holdfast.control.jobs.state_machine import WRITE, Command, Event, IllegalTransition, Lifecycle, begin_lifecycle, is_stale, step
from holdfast.control.nodes.replicas import Replicas
from holdfast.control.plugins import ActionMethod, plugin_class, plugin_names
from holdfast.control.settings import OrchestratorSettings
from holdfast.control.storage.database import Fenced
from holdfast.documents.job import Job
from holdfast.errors import HoldfastError

if TYPE_CHECKING:
    from holdfast.control.api.routes import Api
    from holdfast.control.faults.fault_plugin import Faults
    from holdfast.control.jobs.dataflow import Dataflow
    from holdfast.control.jobs.parser import Parser
    from holdfast.control.jobs.persistence import Persistence
    from holdfast.control.nodes.agent_manager import AgentManager
    from holdfast.control.nodes.dispatch import Dispatch
    from holdfast.control.nodes.resource_manager import ResourceManager
    from holdfast.control.observers.job_observers import JobObservers
    from holdfast.control.placement.placement_manager import PlacementManager
    from holdfast.control.recovery.orchestrator_recovery import OrchestratorRecovery
    from holdfast.control.recovery.restart_policy import RestartPolicy

STATUS = "peStatusUpdate"


class Orchestrator:
    """The control plane's one owner of state. `run` serves until it is stopped or another orchestrator takes over."""

    time: Clock
    persistence: Persistence
    resources: ResourceManager
    parser: Parser
    dataflow: Dataflow
    placement: PlacementManager
    dispatch: Dispatch
    restart_policy: RestartPolicy
    observers: JobObservers
    agents: AgentManager
    recovery: OrchestratorRecovery
    faults: Faults
    api: Api

    def __init__(self, settings: OrchestratorSettings, *, say: Callable[[str], None]) -> None:
        self.settings, self._say = settings, say
        self.jobs: dict[int, JobState] = {}
        self.names: dict[str, int] = {}
        self.replicas = Replicas()
        self.recovering = True
        self.recovered = asyncio.Event()
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._next_job = 1
        self._event_ids = itertools.count(1)
        self._awaited: dict[int, asyncio.Event] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self.plugins: dict[str, Any] = {}
        for name in plugin_names(settings.plugins):
            made = plugin_class(name, settings.plugins)(self)
            self.plugins[name] = made
            setattr(self, name, made)
            if name == "time":
                self.events = Events(self.time.now_s)
        self.actions = self._actions()
        self.machines = self._machines()

    def say(self, text: str) -> None:
        """Tell whoever runs the orchestrator. A log that cannot be written, on a full disk say, costs the line and nothing else."""
        with contextlib.suppress(OSError):
            self._say(text)

    def say_error(self, what: str, error: BaseException) -> None:
        """Tell of an error that is a mistake of ours, with all there is to find it by."""
        self.say(f"{what}: {''.join(traceback.format_exception(error)).rstrip()}")

    @property
    def stopping(self) -> bool:
        return self.ended.done()

    @property
    def term(self) -> int:
        return self.persistence.database.term

    async def begin(self) -> None:
        """Take the next term and read what the orchestrator before left; from then on nodes may register."""
        await asyncio.to_thread(self.persistence.database.open)
        self.events.begin(self.term)
        self.recovery.begin()

    async def run(self) -> None:
        """Finish the recovery and work until stopped. Raises Fenced when another orchestrator has taken over."""
        self.spawn(self.recovery.finish())
        self.spawn(self.observers.run())
        self.spawn(self.agents.run())
        self.spawn(self.resources.watch())
        self.spawn(self._watch_term())
        try:
            await self.ended
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            self.persistence.database.close()

    def stop(self, error: BaseException | None = None) -> None:
        """End `run`, with an error where there is one."""
        if not self.ended.done():
            self.ended.set_exception(error) if error is not None else self.ended.set_result(None)
        self.recovered.set()
        self.dispatch.renew_assignments(self.resources.nodes)  # whoever waits for something is sent away
        self.events.wake()

    def spawn(self, work: Awaitable[Any]) -> None:
        """Run something beside everything else; if it breaks, the orchestrator ends, because nothing else would notice."""

        async def watched() -> None:
            try:
                await work
            except asyncio.CancelledError:
                raise
            except BaseException as error:
                self.stop(error)

        task = asyncio.create_task(watched())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def submit(self, document: Job) -> int:
        """Take a job that `job_errors` has nothing against: its number, once it cannot be lost any more. Raises Conflict."""
        self._check_name(document.job)
        document = with_absolute_paths(document)
        self._check_log(document.log)
        number = self._next_job
        self._next_job += 1
        machine = self.machines[document.type]
        now_s = self.time.now_s()
        job = JobState(number, document, machine, begin_lifecycle(machine, number, at_s=now_s), now_s)
        self.names[document.job] = number  # before anything is awaited: no second job of that name comes between
        try:
            await self.persistence.submitted(job)
        except BaseException:
            self.names.pop(document.job, None)
            raise
        self.jobs[number] = job
        self.events.emit("job", f"submitted: {document.job}", job=number, data={"state": job.lifecycle.state})
        self.post(job, "parse")
        return number

    def add_recovered_job(self, job: JobState) -> None:
        """Take a job that an orchestrator before this one had."""
        self.jobs[job.id] = job
        self.names[job.name] = job.id

    def continue_numbers_after(self, last: int) -> None:
        self._next_job = max(self._next_job, last + 1)

    def cancel(self, number: int, *, cause: str = "canceled by a user") -> Event | None:
        """Ask for a job to be canceled, before anything else that waits to happen to it. Raises NotFound, Conflict."""
        job = self.job(number)
        if job.is_stopping:
            return None
        if "cancel" not in job.transitions:
            raise Conflict(f"job {number} is {job.lifecycle.state} and cannot be canceled")
        return self.post(job, "cancel", cause=cause, first=True)

    def activate(self, number: int, active: Mapping[str, tuple[int, ...]], *, cause: str = "asked for by a user") -> Event:
        """Ask for exactly these replicas of some tasks to be active. Raises NotFound, Conflict."""
        job = self.job(number)
        if "activate" not in job.transitions:
            raise Conflict(f"job {number} is {job.lifecycle.state}; replicas are activated while it is dispatching or running")
        check_activation(number, active, self.replicas.of(number))
        wanted = {task: tuple(replicas) for task, replicas in active.items()}
        return self.post(job, "activate", data={"active": wanted}, cause=cause)

    async def wait_until_processed(self, event: Event, *, within_s: float) -> bool:
        """Whether an event has been worked off within so long: then nothing about it can be lost any more."""
        done = self._awaited.setdefault(event.id, asyncio.Event())
        try:
            async with asyncio.timeout(within_s):
                await done.wait()
        except TimeoutError:
            return False
        finally:
            self._awaited.pop(event.id, None)
        return True

    def job(self, number: int) -> JobState:
        """A job that has not ended. Raises NotFound."""
        try:
            return self.jobs[number]
        except KeyError:
            raise NotFound(f"job {number} is not there or has ended; 'holdfast jobs' lists them") from None

    def post(
        self,
        job: JobState,
        name: str,
        *,
        cause: str = "",
        data: Mapping[str, Any] | None = None,
        since: int | None = None,
        first: bool = False,
    ) -> Event:
        """Let an event happen to a job, after those that wait already or before them."""
        event = Event(next(self._event_ids), name, self.time.now_s(), cause, data or {}, since)
        (job.queue.appendleft if first else job.queue.append)(event)
        self._start_worker(job)
        return event

    def post_status(self, job: JobState) -> None:
        """Tell a job that replicas of it have changed; what waits to be told already is told with it."""
        if not job.queue or job.queue[-1].name != STATUS:
            self.post(job, STATUS)

    def run_in_background(self, job: JobState, what: str, work: Coroutine[Any, Any, None]) -> None:
        """Do something that takes long and belongs to a job's present state. If it fails, that is an `error` of the job."""

        async def watched() -> None:
            try:
                await work
            except asyncio.CancelledError:
                raise
            except Fenced as error:
                self.stop(error)
            except Exception as error:
                self._post_error(job, what, error)

        job.run_in_background(watched())

    def resume(self) -> None:
        """Work off what has waited while recovering."""
        self.recovering = False
        self.recovered.set()
        for job in list(self.jobs.values()):
            self._start_worker(job)

    def _start_worker(self, job: JobState) -> None:
        if not self.recovering and job.queue and (job.worker is None or job.worker.done()):
            job.worker = asyncio.create_task(self._process_queue(job))
            self._tasks.add(job.worker)
            job.worker.add_done_callback(self._tasks.discard)

    async def _process_queue(self, job: JobState) -> None:
        while job.queue and not job.ended:
            event = job.queue.popleft()
            try:
                await self._process(job, event)
            except Fenced as error:
                self.stop(error)
                return
            if event.id in self._awaited:
                self._awaited[event.id].set()
        if job.ended:
            for event in job.queue:  # what comes too late is over: nobody need wait for it
                if event.id in self._awaited:
                    self._awaited[event.id].set()
            self._forget(job)

    async def _process(self, job: JobState, event: Event) -> None:
        if is_stale(job.lifecycle, event):
            return
        try:
            moved, commands = step(job.machine, job.lifecycle, event)
        except IllegalTransition as error:
            if event.name != STATUS:
                self.events.emit("job", str(error), job=job.id)
            return
        await self._execute(job, moved, commands, event)

    async def _execute(self, job: JobState, moved: Lifecycle, commands: list[Command], event: Event) -> None:
        """Run the commands of one event, in order; the lifecycle moves when the move is durable, before the first action."""
        entered = moved is job.lifecycle
        if not entered and event.name in ("error", "cancel", "gaveUp"):  # what ends it counts, not what it went on after
            job.reason, job.broken = event.cause, event.name != "cancel"
        command: Command | None = None
        try:
            for command in commands:
                if command.name == WRITE:
                    await self.persistence.write(job, moved)
                if not command.before and not entered:
                    self._enter(job, moved, event)
                    entered = True
                if command.name != WRITE:
                    await self.actions[command.name](job, command)
        except (Fenced, asyncio.CancelledError):
            raise
        except Exception as error:
            self._post_error(job, command.name if command else event.name, error)
            return
        if not entered:
            self._enter(job, moved, event)

    def _enter(self, job: JobState, moved: Lifecycle, event: Event) -> None:
        was = job.lifecycle.state
        job.lifecycle, job.errors = moved, 0
        job.cancel_background()
        text = f"{was} -> {moved.state}" + (f": {event.cause}" if event.cause else "")
        self.events.emit("job", text, job=job.id, data={"state": moved.state, "event": event.name})

    def _post_error(self, job: JobState, what: str, error: Exception) -> None:
        """Turn the failure of an action into an event; each in a row waits longer, in case its cure fails too."""
        if not isinstance(error, HoldfastError):
            self.say_error(f"job {job.id}, {what}", error)
        job.errors += 1
        since = job.lifecycle.version
        cause = str(error) or type(error).__name__
        self.events.emit("control", f"{what} failed: {cause}", job=job.id)
        wait_s = 0.0 if job.errors == 1 else min(5.0, 0.1 * 2**job.errors)
        asyncio.get_running_loop().call_later(wait_s, lambda: self.post(job, "error", cause=cause, since=since))

    def _forget(self, job: JobState) -> None:
        """Let go of a job that has ended, whatever its machine's actions did about it."""
        self.jobs.pop(job.id, None)
        if self.names.get(job.name) == job.id:
            del self.names[job.name]
        self.placement.release(job.id)
        self.observers.forget(job.id)
        self.dataflow.remove_ended_job(job)  # those that waited for it look for its name
        if self.replicas.of(job.id):
            self.restart_policy.ended_jobs[job.id] = job  # its PEs that others share live on
        for owner in [owner for owner in self.restart_policy.ended_jobs if not self.replicas.of(owner)]:
            del self.restart_policy.ended_jobs[owner]
            self.observers.forget(owner)
            self.dispatch.forget(owner)
        for owner in {job.id, *job.refs.values()} & set(self.restart_policy.ended_jobs):
            self.dispatch.renew_ended_job(owner)

    def _check_name(self, name: str) -> None:
        if name in self.names:
            number = self.names[name]
            state = self.jobs[number].lifecycle.state if number in self.jobs else "being submitted"
            raise Conflict(f"job '{name}' is there already, as job {number} ({state}); cancel it or choose another name")

    def _check_log(self, log: str | None) -> None:
        """One job at a time makes a log: two would fight over where its readers are."""
        if log is None:
            return
        for job in (*self.jobs.values(), *self.restart_policy.ended_jobs.values()):
            if (job.document.log or "").rstrip("/") == log.rstrip("/"):
                state = f"{job.lifecycle.state}, and others share PEs of it" if job.ended else job.lifecycle.state
                text = f"log '{log}' is being written by job {job.id} ('{job.name}', {state})"
                raise Conflict(f"{text}; give each job a log of its own, or let that one end")

    async def _watch_term(self) -> None:
        while True:
            await self.time.sleep(1.0)
            try:
                await self.persistence.database.check_term()
            except Fenced:
                raise
            except HoldfastError:
                continue  # the database is away: whoever writes waits for it and says so

    def _actions(self) -> dict[str, ActionMethod]:
        found: dict[str, ActionMethod] = {}
        for made in self.plugins.values():
            found.update(made.actions() if hasattr(made, "actions") else {})
        return found

    def _machines(self) -> dict[str, Machine]:
        machines = shipped_machines(self.actions)
        for path in self.settings.machines:
            machine = read_machine(path, actions=self.actions)
            machines[machine.name] = machine
        return self.faults.add_faults(machines, self.settings.inject) if self.settings.inject else machines
