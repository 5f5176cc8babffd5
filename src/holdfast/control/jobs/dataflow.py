"""The dataflow graph over all jobs: which PE makes a stream, which tasks read it, and which jobs use a PE.

A PE is used by its own job and by every job that shares it. It runs until all of them have ended.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from holdfast.control.plugins import Plugin
from holdfast.documents.document import join_names
from holdfast.documents.job import Layout, Task
from holdfast.errors import CompoundError, HoldfastError

if TYPE_CHECKING:
    from holdfast.control.jobs.job_state import JobState
    from holdfast.control.jobs.state_machine import Command


class Unmappable(CompoundError):
    """A job names streams or PEs that do not exist."""


@dataclass(frozen=True, slots=True)
class Connection:
    """A task that reads a stream of another task."""

    stream: str
    maker: tuple[int, str]
    reader: tuple[int, str]


@dataclass(slots=True)
class Graph:
    """The mapped jobs. `users` maps each PE, as (job, PE), to the jobs that use it; `makers` maps each job and stream to the PE
    that makes it; `named_by` maps each job to the jobs that name it."""

    layouts: dict[int, Layout] = field(default_factory=dict)
    makers: dict[int, dict[str, str]] = field(default_factory=dict)
    refs: dict[int, Mapping[str, int]] = field(default_factory=dict)
    users: dict[tuple[int, str], set[int]] = field(default_factory=dict)
    named_by: dict[int, set[int]] = field(default_factory=dict)

    def add(self, job: int, layout: Layout, refs: Mapping[str, int]) -> None:
        """Map a job. Raises Unmappable with every stream and PE that the job names and that does not exist."""
        errors = [*self._errors(layout, refs), *self._uncovered(layout, refs)]
        if errors:
            raise Unmappable(f"job {job}", errors)
        self.restore(job, layout, refs)

    def restore(self, job: int, layout: Layout, refs: Mapping[str, int]) -> None:
        """Map a job that was mapped before, even if jobs that it names have ended."""
        self.remove(job)
        self.layouts[job], self.refs[job] = layout, dict(refs)
        self.makers[job] = {stream: task.pe for task in layout.tasks for stream in task.makes}
        for other in refs.values():
            self.named_by.setdefault(other, set()).add(job)
        for task in layout.tasks:
            self.users.setdefault(self._pe(job, task, refs), set()).add(job)

    def remove(self, job: int) -> None:
        """Remove a job from the graph. PEs that other jobs share stay."""
        layout, refs = self.layouts.pop(job, None), self.refs.pop(job, {})
        self.makers.pop(job, None)
        for other in set(refs.values()):
            self.named_by[other].discard(job)
            if not self.named_by[other]:
                del self.named_by[other]
        for pe in {self._pe(job, task, refs) for task in layout.tasks} if layout is not None else ():
            self.users[pe].discard(job)
            if not self.users[pe]:
                del self.users[pe]

    def uses(self, job: int) -> Iterator[tuple[int, Task]]:
        """Yield the tasks that a job uses, each with the number of the job that owns it."""
        layout = self.layouts.get(job)
        for task in layout.tasks if layout is not None else ():
            owner, pe = self._pe(job, task, self.refs[job])
            yield owner, task if owner == job else task.model_copy(update={"pe": pe})

    def with_shared(self, layout: Layout, refs: Mapping[str, int]) -> tuple[Layout, dict[str, int]]:
        """Return the layout with the PEs of other jobs that its input streams depend on, and these jobs, from name to number."""
        owners, shared = dict(refs), dict[tuple[int, str], Task]()
        pending = [(each.job, refs[each.job], each.stream) for task in layout.tasks for each in task.reads if each.job is not None]
        while pending:
            name, job, stream = pending.pop()
            if owners.setdefault(name, job) != job:
                text = f"shares PEs of two jobs '{name}', {owners[name]} and {job}; cancel the jobs that use the ended one"
                raise Unmappable("a job", [text])
            for task in self.layouts[job].tasks if job in self.layouts else ():
                if task.shared is not None:  # its job may have ended, so its inputs are unknown
                    owner, pe = self._pe(job, task, self.refs[job])
                    shared.setdefault((owner, f"{pe}/{task.task}"), task.model_copy(update={"pe": task.shared}))
                    owners.setdefault(task.shared.partition(":")[0], owner)
                elif stream in task.makes and (job, task.name) not in shared:
                    shared[job, task.name] = _shared(task, name)
                    pending += [
                        (name, job, each.stream) if each.job is None else (each.job, self.refs[job][each.job], each.stream)
                        for each in task.reads
                    ]
        return layout.model_copy(update={"tasks": (*(shared[key] for key in sorted(shared)), *layout.tasks)}), owners

    def users_of(self, job: int, pe: str) -> set[int]:
        return self.users.get((job, pe), set())

    def used_only_by(self, job: int) -> dict[int, list[str]]:
        """Return, per owner, the tasks that only this job uses."""
        tasks: dict[int, list[str]] = {}
        for owner, task in self.uses(job):
            if self.users_of(owner, task.pe) <= {job}:
                tasks.setdefault(owner, []).append(task.name)
        return tasks

    def connections(self, job: int) -> Iterator[Connection]:
        """Yield the connections from the tasks that a job's tasks read, which may be tasks of other jobs."""
        layout = self.layouts.get(job)
        for task in layout.tasks if layout is not None else ():
            for reading in task.reads:
                maker = job if reading.job is None else self.refs[job][reading.job]
                for index in reading.tasks:
                    pe = self._maker(maker, reading.stream)
                    if pe is not None:
                        yield Connection(reading.stream, (maker, f"{pe}/{index}"), (job, task.name))

    def _maker(self, job: int, stream: str) -> str | None:
        return self.makers.get(job, {}).get(stream)

    def _errors(self, layout: Layout, refs: Mapping[str, int]) -> Iterator[str]:
        for task in layout.tasks:
            for reading in task.reads:
                if reading.job is not None and self._maker(refs[reading.job], reading.stream) is None:
                    streams = ", ".join(sorted(self.makers.get(refs[reading.job], ()))) or "none"
                    text = f"task '{task.name}' reads stream '{reading.job}:{reading.stream}', which that job does not make"
                    yield f"{text}; it makes: {streams}"
            if task.shared is not None:
                name, _, pe = task.shared.partition(":")
                if not self.users_of(refs[name], pe):
                    pes = sorted(pe for job, pe in self.users if job == refs[name])
                    yield f"task '{task.name}' shares PE '{task.shared}', which does not exist; its PEs are: {', '.join(pes)}"

    def _uncovered(self, layout: Layout, refs: Mapping[str, int]) -> Iterator[str]:
        """Yield an error for each stream of another job if this job does not read exactly the tasks that make it."""
        read: dict[tuple[str, str], set[int]] = {}
        for task in layout.tasks:
            for reading in task.reads:
                if reading.job is not None:
                    read.setdefault((reading.job, reading.stream), set()).update(reading.tasks)
        for (job, stream), numbers in sorted(read.items()):
            other = self.layouts.get(refs[job])
            count = sum(stream in task.makes for task in other.tasks) if other is not None else 0
            if count and numbers != set(range(count)):
                yield (
                    f"reads {len(numbers)} of the {count} tasks that make stream '{job}:{stream}'; "
                    f"give the source that reads it a parallelism of {count}"
                )

    @staticmethod
    def _pe(job: int, task: Task, refs: Mapping[str, int]) -> tuple[int, str]:
        if task.shared is None:
            return job, task.pe
        name, _, pe = task.shared.partition(":")
        return refs[name], pe


def _shared(task: Task, job: str) -> Task:
    """Return a task of another job as the sharing job's layout lists it. Its PE's name cannot be that of an own PE."""
    pe = f"{job}:{task.pe}"
    return task.model_copy(update={"pe": pe, "shared": pe, "reads": (), "makes": ()})


def _unshared(layout: Layout) -> Layout:
    """Return a layout without the tasks that `with_shared` added."""
    return layout.model_copy(update={"tasks": tuple(task for task in layout.tasks if task.shared != task.pe)})


def named_jobs(layout: Layout) -> list[str]:
    """Return the names of the other jobs that a layout names."""
    reads = {reading.job for task in layout.tasks for reading in task.reads if reading.job is not None}
    return sorted(reads | {task.shared.partition(":")[0] for task in layout.tasks if task.shared is not None})


class Dataflow(Plugin):
    """The dataflow graph manager. A job waits to be mapped until the jobs that it names are mapped."""

    action_names = (
        "dataflow.map",
        "dataflow.unmap",
        "dataflow.instantiate",
    )

    def __init__(self, orchestrator: Any) -> None:
        super().__init__(orchestrator)
        self.graph = Graph()
        self._waiting: dict[int, tuple[JobState, int]] = {}

    async def map(self, job: JobState, command: Command) -> None:
        """Find the makers of all streams that the job reads, then post `mapped`."""
        self._waiting[job.id] = (job, job.lifecycle.version)
        self._try_to_map(job, job.lifecycle.version)

    async def unmap(self, job: JobState, command: Command) -> None:
        self._waiting.pop(job.id, None)
        self._remove(job.id)

    async def instantiate(self, job: JobState, command: Command) -> None:
        """Post `instantiated`: the tasks exist once their placement is known."""
        self.orchestrator.post(job, "instantiated", since=job.lifecycle.version)

    def restore(self, job: JobState) -> None:
        """Map a job again that was mapped before the orchestrator restarted."""
        assert job.layout is not None
        self.graph.restore(job.id, job.layout, job.refs)

    def remove_ended_job(self, job: JobState) -> None:
        """Remove an ended job, notify the jobs that read its streams, and try again to map the jobs that waited for it."""
        self._waiting.pop(job.id, None)
        self._remove(job.id)
        self._notify_readers(job)
        self._map_waiting(ended=job)

    def _remove(self, job: int) -> None:
        """Remove a job and the replicas that it alone used. Jobs that shared PEs with it get a status event, because one of them
        may now be the last user."""
        self.orchestrator.dispatch.remove_replicas(job)
        sharers = {user for owner, task in self.graph.uses(job) for user in self.graph.users_of(owner, task.pe)} - {job}
        self.graph.remove(job)
        for user in sorted(sharers & self.orchestrator.jobs.keys()):
            self.orchestrator.post_status(self.orchestrator.jobs[user])

    def _notify_readers(self, ended: JobState) -> None:
        readers = self.graph.named_by.get(ended.id, set()) & self.orchestrator.jobs.keys()
        for reader in (self.orchestrator.jobs[number] for number in sorted(readers)):
            names = {name for name, number in reader.refs.items() if number == ended.id}
            tasks = reader.layout.tasks if reader.layout is not None else ()
            streams = {each.stream for task in tasks for each in task.reads if each.job in names}
            if streams and not reader.document.share:
                text = (
                    f"reads {join_names(streams)} of job '{ended.name}', which is {ended.lifecycle.state}: it gets no more rows "
                    "until that job is submitted again with the same log ('share: true' would keep the PEs that make it)"
                )
                self.orchestrator.events.emit("decision", text, job=reader.id)

    def _map_waiting(self, *, ended: JobState | None = None) -> None:
        for waiting, version in list(self._waiting.values()):
            self._try_to_map(waiting, version, ended=ended)

    def _try_to_map(self, job: JobState, version: int, *, ended: JobState | None = None) -> None:
        """Map a job, fail it, or leave it waiting. `ended` is a job that has just ended."""
        assert job.layout is not None
        layout = _unshared(job.layout)
        refs: dict[str, int] = {}
        errors = []
        for name in named_jobs(layout):
            number = self.orchestrator.names.get(name)
            other = None if number is None else self.orchestrator.jobs.get(number)
            if number is None and ended is not None and ended.name == name:
                errors.append(f"names job '{name}', which is {ended.lifecycle.state}: {ended.reason or 'it has ended'}")
            elif number is None or number == job.id:
                names = join_names(set(self.orchestrator.names) - {job.name}, most=10)
                text = f"names job '{name}', which does not exist; jobs are: {names}"
                errors.append(f"{text}; 'holdfast jobs --all' lists ended ones, too")
            elif other is not None and other.is_stopping:
                errors.append(f"names job '{name}', which is being canceled; wait until it has ended and name another")
            elif self._waits_for(number, job.id):
                errors.append(f"names job '{name}', which names this one: neither can be mapped first")
            elif number not in self.graph.layouts:
                return  # that job is still being parsed: this one is tried again when that one is mapped or has ended
            else:
                refs[name] = number
        self._waiting.pop(job.id, None)
        errors += self._correction_errors(job, layout, refs)
        try:
            if errors:
                raise Unmappable(f"job {job.id}", errors)
            if job.document.share:
                layout, refs = self.graph.with_shared(layout, refs)
                job.layout_stored = False
            self.graph.add(job.id, layout, refs)
        except HoldfastError as error:
            self.orchestrator.post(job, "error", cause=str(error), since=version)
            return
        job.layout, job.refs = layout, refs
        self.orchestrator.post(job, "mapped", since=version)
        self._map_waiting()

    def _correction_errors(self, job: JobState, layout: Layout, refs: Mapping[str, int]) -> list[str]:
        """Return an error for each PE that waits for corrections of another job's stream, which that job never writes."""
        errors = {}
        for task in layout.tasks:
            for reading in task.reads:
                other = self.orchestrator.jobs.get(refs.get(reading.job or "", 0))
                if other is None or not job.document.contract_of(task.pe).correction:
                    continue
                makers = self.graph.layouts[other.id].tasks
                maker = next((each for each in makers if reading.stream in each.makes and each.kind != "source"), None)
                if maker is not None and not other.document.contract_of(maker.pe).correction:
                    errors[task.pe, reading.stream] = (
                        f"'{task.pe}' has correction and reads '{reading.job}:{reading.stream}' of PE '{maker.pe}', which has "
                        f"none: it would wait for corrections that never come; let '{task.pe}' be without correction too"
                    )
        return list(errors.values())

    def _waits_for(self, job: int, other: int) -> bool:
        """Return whether a job that waits to be mapped waits, directly or indirectly, for another job."""
        visited, pending = {job}, [job]
        while pending:
            waiting, _ = self._waiting.get(pending.pop(), (None, 0))
            if waiting is None or waiting.layout is None:
                continue
            for name in named_jobs(waiting.layout):
                number = self.orchestrator.names.get(name)
                if number == other:
                    return True
                if number is not None and number not in visited:
                    visited.add(number)
                    pending.append(number)
        return False
