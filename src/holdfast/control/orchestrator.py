"""The orchestrator: it owns every job, node and replica, and executes the commands of the state machines.

All of it runs in one event loop, so code between two awaits is never interrupted. The events of one job are processed one after
another; different jobs proceed concurrently.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import traceback
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from functools import partial
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
from holdfast.control.storage.database import DatabaseUnreachable, LeadershipLost, NotStorable
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
    """The only owner of the control plane's state. `run` works until it is stopped or another orchestrator takes over."""

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
        self._processed: dict[int, asyncio.Future[None]] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self.plugins: dict[str, Any] = {}
        for name in plugin_names(settings.plugins):
            plugin = plugin_class(name, settings.plugins)(self)
            self.plugins[name] = plugin
            setattr(self, name, plugin)
            if name == "time":
                self.events = Events(self.time.now_s)
        self.actions = self._actions()
        self.machines = self._machines()

    def say(self, text: str) -> None:
        """Print a line for whoever runs the orchestrator. If it cannot be written, for example on a full disk, it is dropped."""
        with contextlib.suppress(OSError):
            self._say(text)

    def say_error(self, what: str, error: BaseException) -> None:
        """Print an unexpected error with its traceback."""
        self.say(f"{what}: {''.join(traceback.format_exception(error)).rstrip()}")

    @property
    def stopping(self) -> bool:
        return self.ended.done()

    @property
    def term(self) -> int:
        return self.persistence.database.term

    async def begin(self) -> None:
        """Become the leader and read the stored state. After that, nodes may register. Raises LeaseHeld, unless this is a standby,
        which waits until the present leader's lease ends."""
        database, settings = self.persistence.database, self.settings
        await asyncio.to_thread(database.open, standby=settings.standby, restored=settings.restored)
        self.events.begin(self.term)
        self.recovery.begin()

    async def run(self) -> None:
        """Finish the recovery, then work until stopped. Raises LeadershipLost when another orchestrator has taken over, or when the
        lease could not be renewed."""
        self.spawn(self.recovery.finish())
        self.spawn(self.observers.run())
        self.spawn(self.agents.run())
        self.spawn(self.resources.watch())
        self.spawn(self.persistence.database.keep_lease())
        try:
            await self.ended
        finally:
            for task in self._tasks:
                task.cancel()
            for job in self.jobs.values():
                job.cancel_background()
            self.persistence.database.stop_waiting()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await asyncio.to_thread(self.persistence.database.close, release=self.ended.exception() is None)

    def stop(self, error: BaseException | None = None) -> None:
        """End `run`, with the error if there is one."""
        if not self.ended.done():
            self.ended.set_exception(error) if error is not None else self.ended.set_result(None)
        self.recovered.set()
        self.dispatch.renew_assignments(self.resources.nodes)  # nodes that wait for an assignment get an answer
        self.events.wake()

    def spawn(self, work: Awaitable[Any]) -> asyncio.Task[None]:
        """Run a task concurrently. If it fails, the orchestrator stops, because nothing else would notice the failure."""

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
        return task

    async def submit(self, document: Job) -> int:
        """Accept a job without `job_errors`; return its number once the job is durable. Raises Conflict."""
        self._check_name(document.job)
        document = with_absolute_paths(document)
        self._check_log(document.log)
        number = self._next_job
        self._next_job += 1
        machine = self.machines[document.type]
        now_s = self.time.now_s()
        job = JobState(number, document, machine, begin_lifecycle(machine, number, at_s=now_s), now_s)
        self.names[document.job] = number  # before the first await, so that no second job can take the name
        try:
            await self.persistence.write_job(job)
        except BaseException:
            self.names.pop(document.job, None)
            raise
        self.jobs[number] = job
        self.events.emit("job", f"submitted: {document.job}", job=number, data={"state": job.lifecycle.state})
        self.post(job, "parse")
        return number

    def add_recovered_job(self, job: JobState) -> None:
        """Add a job of an earlier orchestrator."""
        self.jobs[job.id] = job
        self.names[job.name] = job.id

    def continue_numbers_after(self, last: int) -> None:
        self._next_job = max(self._next_job, last + 1)

    def cancel(self, number: int, *, cause: str = "canceled by a user") -> Event | None:
        """Cancel a job, ahead of its other queued events. Raises NotFound, Conflict."""
        job = self.job(number)
        if job.is_stopping:
            return None
        if "cancel" not in job.transitions:
            raise Conflict(f"job {number} is {job.lifecycle.state} and cannot be canceled")
        return self.post(job, "cancel", cause=cause, first=True)

    def activate(self, number: int, active: Mapping[str, tuple[int, ...]], *, cause: str = "requested by a user") -> Event:
        """Make exactly these replicas of some tasks active. Raises NotFound, Conflict."""
        job = self.job(number)
        if "activate" not in job.transitions:
            raise Conflict(f"job {number} is {job.lifecycle.state}; replicas are activated while it is dispatching or running")
        check_activation(number, active, self.replicas.of(number))
        return self.post(job, "activate", data={"active": {task: tuple(each) for task, each in active.items()}}, cause=cause)

    async def wait_until_processed(self, event: Event, *, within_s: float) -> bool:
        """Wait until an event is processed and its effects are durable. Return whether that happened in time.

        Raises Conflict if the job's state has no transition for it any more, and HoldfastError if it could not be carried out.
        """
        processed = self._processed.setdefault(event.id, asyncio.get_running_loop().create_future())
        try:
            done, _ = await asyncio.wait({processed}, timeout=within_s)
        finally:
            self._processed.pop(event.id, None)
        for each in done:
            each.result()
        return bool(done)

    def job(self, number: int) -> JobState:
        """Return a job that has not ended. Raises NotFound."""
        try:
            return self.jobs[number]
        except KeyError:
            raise NotFound(f"job {number} does not exist or has ended; 'holdfast jobs' lists them") from None

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
        """Queue an event for a job: at the end, or, with `first`, at the front."""
        event = Event(next(self._event_ids), name, self.time.now_s(), cause, data or {}, since)
        (job.queue.appendleft if first else job.queue.append)(event)
        self._start_worker(job)
        return event

    def post_status(self, job: JobState) -> None:
        """Queue a status event for a job whose replicas have changed, unless one is the last in the queue already."""
        if not job.queue or job.queue[-1].name != STATUS:
            self.post(job, STATUS)

    def run_in_background(self, job: JobState, what: str, work: Coroutine[Any, Any, None]) -> None:
        """Run long work that belongs to a job's present state. If it fails, the job gets an `error` event."""

        async def watched() -> None:
            try:
                await work
            except asyncio.CancelledError:
                raise
            except LeadershipLost as error:
                self.stop(error)
            except Exception as error:
                self._post_error(job, what, error)

        job.run_in_background(watched())

    def resume(self) -> None:
        """Take reports again, and process the events that were queued meanwhile."""
        self.recovering = False
        self.recovered.set()
        self.start_workers()

    def start_workers(self) -> None:
        """Process the queued events of every job that need not wait for a node."""
        for job in list(self.jobs.values()):
            self._start_worker(job)

    def _start_worker(self, job: JobState) -> None:
        free = job.worker is None or job.worker.done()
        waits = self.recovering or self.stopping or self.recovery.awaits_nodes_of(job)
        if free and job.queue and not waits:
            job.worker = asyncio.create_task(self._process_queue(job))
            self._tasks.add(job.worker)
            job.worker.add_done_callback(self._tasks.discard)

    async def _process_queue(self, job: JobState) -> None:
        while job.queue and not job.ended:
            event = job.queue.popleft()
            try:
                error = await self._process(job, event)
            except LeadershipLost as lost:
                self.stop(lost)
                return
            self._note_processed(event, error)
        if job.ended:
            for event in job.queue:  # nobody need wait for the later events of an ended job
                self._note_processed(event, Conflict(f"job {job.id} is {job.lifecycle.state}: it has ended"))
            self._forget(job)

    def _note_processed(self, event: Event, error: HoldfastError | None) -> None:
        """Answer the caller that waits for an event."""
        waiting = self._processed.get(event.id)
        if waiting is not None and not waiting.done():
            waiting.set_result(None) if error is None else waiting.set_exception(error)

    async def _process(self, job: JobState, event: Event) -> HoldfastError | None:
        """Carry out an event. Return the error if that failed."""
        if is_stale(job.lifecycle, event):
            return None
        try:
            moved, commands = step(job.machine, job.lifecycle, event)
        except IllegalTransition as error:
            if event.name != STATUS:
                self.events.emit("job", str(error), job=job.id)
            return Conflict(str(error))
        return await self._execute(job, moved, commands, event)

    async def _execute(self, job: JobState, moved: Lifecycle, commands: list[Command], event: Event) -> HoldfastError | None:
        """Run the commands of one event in order. The job enters its next state once that is durable, before the first action.

        Return the error of a command that failed. After a storage error the command is repeated instead.
        """
        entered = moved is job.lifecycle
        if not entered and event.name in ("error", "cancel", "gaveUp"):  # the event that ends the job gives the reason
            job.reason, job.failed = event.cause, event.name != "cancel"
        command: Command | None = None
        try:
            for command in commands:
                if command.name == WRITE:
                    await self._repeat_until_stored(job, command, lambda: self.persistence.write_transition(job, moved))
                if not command.before and not entered:
                    self._enter(job, moved, event)
                    entered = True
                if command.name != WRITE:
                    action = partial(self.actions[command.name], job, command)
                    await self._repeat_until_stored(job, command, action)
        except (LeadershipLost, DatabaseUnreachable, asyncio.CancelledError):
            raise
        except Exception as error:
            self._post_error(job, command.name if command else event.name, error)
            return HoldfastError(f"job {job.id}: '{event.name}' could not be carried out: {_cause(error)}")
        if not entered:
            self._enter(job, moved, event)
        return None

    async def _repeat_until_stored(self, job: JobState, command: Command, action: Callable[[], Awaitable[None]]) -> None:
        """Run an action. While the database takes no write of it, the job pauses: it reports that and tries again."""
        for attempt in itertools.count(1):
            try:
                await action()
                return
            except (NotStorable, DatabaseUnreachable) as error:
                if self.stopping:
                    raise
                if attempt == 1:
                    self.say(f"job {job.id} pauses in {command.name}: {error}")
                    self.events.emit("control", f"{command.name} waits for the database: {error}", job=job.id)
                await self.time.sleep(min(5.0, 0.1 * 2**attempt))

    def _enter(self, job: JobState, moved: Lifecycle, event: Event) -> None:
        was = job.lifecycle.state
        job.lifecycle, job.errors = moved, 0
        job.cancel_background()
        text = f"{was} -> {moved.state}" + (f": {event.cause}" if event.cause else "")
        self.events.emit("job", text, job=job.id, data={"state": moved.state, "event": event.name})

    def _post_error(self, job: JobState, what: str, error: Exception) -> None:
        """Post an `error` event for a failed action. Each failure in a row waits longer, because handling it may fail too."""
        if not isinstance(error, HoldfastError):
            self.say_error(f"job {job.id}, {what}", error)
        job.errors += 1
        since = job.lifecycle.version
        cause = _cause(error)
        self.events.emit("control", f"{what} failed: {cause}", job=job.id)
        wait_s = 0.0 if job.errors == 1 else min(5.0, 0.1 * 2**job.errors)
        asyncio.get_running_loop().call_later(wait_s, lambda: self.post(job, "error", cause=cause, since=since))

    def _forget(self, job: JobState) -> None:
        """Remove a job that has ended. This does not depend on the actions that its state machine ran."""
        self.jobs.pop(job.id, None)
        if self.names.get(job.name) == job.id:
            del self.names[job.name]
        self.placement.release(job.id)
        self.observers.forget(job.id)
        self.dataflow.remove_ended_job(job)  # jobs that waited for it look for its name again
        if self.replicas.of(job.id):
            self.restart_policy.ended_jobs[job.id] = job  # other jobs share PEs of it
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
            raise Conflict(f"job '{name}' exists already, as job {number} ({state}); cancel it or choose another name")

    def _check_log(self, log: str | None) -> None:
        """Raise Conflict if another job writes this log: only one job at a time can write a log."""
        if log is None:
            return
        for job in (*self.jobs.values(), *self.restart_policy.ended_jobs.values()):
            if (job.document.log or "").rstrip("/") == log.rstrip("/"):
                state = f"{job.lifecycle.state}, and others share PEs of it" if job.ended else job.lifecycle.state
                text = f"log '{log}' is being written by job {job.id} ('{job.name}', {state})"
                raise Conflict(f"{text}; give each job a log of its own, or let that one end")

    def _actions(self) -> dict[str, ActionMethod]:
        actions: dict[str, ActionMethod] = {}
        for plugin in self.plugins.values():
            actions.update(plugin.actions() if hasattr(plugin, "actions") else {})
        return actions

    def _machines(self) -> dict[str, Machine]:
        machines = shipped_machines(self.actions)
        for path in self.settings.machines:
            machine = read_machine(path, actions=self.actions)
            machines[machine.name] = machine
        return self.faults.add_faults(machines, self.settings.inject) if self.settings.inject else machines


def _cause(error: Exception) -> str:
    """Return an error as users see it. The text of an unexpected error may contain SQL or paths; it goes to the log instead."""
    if isinstance(error, HoldfastError):
        return str(error) or type(error).__name__
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return f"{type(error).__name__}; the orchestrator's log has the details"
