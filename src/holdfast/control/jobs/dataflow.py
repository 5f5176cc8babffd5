"""The graph of streams over all jobs: who makes a stream, who reads it, and which jobs use a PE.

A PE is used by its own job and by every job that shares it. It lives while any of them does.
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
    """A job wants streams or PEs that are not there."""


@dataclass(frozen=True, slots=True)
class Connection:
    """A task that reads a stream of another task."""

    stream: str
    maker: tuple[int, str]
    reader: tuple[int, str]


@dataclass(slots=True)
class Graph:
    """Jobs that are mapped. `users` is per PE, as (job, PE), the jobs that use it; `makers` is per job and stream the PE that makes
    it; `named_by` is per job those that name it."""

    layouts: dict[int, Layout] = field(default_factory=dict)
    makers: dict[int, dict[str, str]] = field(default_factory=dict)
    refs: dict[int, Mapping[str, int]] = field(default_factory=dict)
    users: dict[tuple[int, str], set[int]] = field(default_factory=dict)
    named_by: dict[int, set[int]] = field(default_factory=dict)

    def add(self, job: int, layout: Layout, refs: Mapping[str, int]) -> None:
        """Map a job. Raises Unmappable with everything that it wants and is not there."""
        errors = [*self._errors(layout, refs), *self._uncovered(layout, refs)]
        if errors:
            raise Unmappable(f"job {job}", errors)
        self.restore(job, layout, refs)

    def restore(self, job: int, layout: Layout, refs: Mapping[str, int]) -> None:
        """Map a job that was mapped before, whatever has become of those it names."""
        self.remove(job)
        self.layouts[job], self.refs[job] = layout, dict(refs)
        self.makers[job] = {stream: task.pe for task in layout.tasks for stream in task.makes}
        for other in refs.values():
            self.named_by.setdefault(other, set()).add(job)
        for task in layout.tasks:
            self.users.setdefault(self._pe(job, task, refs), set()).add(job)

    def remove(self, job: int) -> None:
        """Take a job off the graph; what it shared with others stays theirs."""
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
        """The tasks that a job uses, each with the job whose they are."""
        layout = self.layouts.get(job)
        for task in layout.tasks if layout is not None else ():
            owner, pe = self._pe(job, task, self.refs[job])
            yield owner, task if owner == job else task.model_copy(update={"pe": pe})

    def with_shared(self, layout: Layout, refs: Mapping[str, int]) -> tuple[Layout, dict[str, int]]:
        """A layout with every PE of other jobs that the streams which it reads rest on, and the jobs whose these are, by name."""
        named, found = dict(refs), dict[tuple[int, str], Task]()
        ahead = [(each.job, refs[each.job], each.stream) for task in layout.tasks for each in task.reads if each.job is not None]
        while ahead:
            name, job, stream = ahead.pop()
            if named.setdefault(name, job) != job:
                text = f"shares PEs of two jobs '{name}', {named[name]} and {job}; cancel whatever uses the one that has ended"
                raise Unmappable("a job", [text])
            for task in self.layouts[job].tasks if job in self.layouts else ():
                if task.shared is not None:  # of a job that may have ended: it cannot be asked what feeds what
                    owner, pe = self._pe(job, task, self.refs[job])
                    found.setdefault((owner, f"{pe}/{task.task}"), task.model_copy(update={"pe": task.shared}))
                    named.setdefault(task.shared.partition(":")[0], owner)
                elif stream in task.makes and (job, task.name) not in found:
                    found[job, task.name] = _shared(task, name)
                    ahead += [
                        (name, job, each.stream) if each.job is None else (each.job, self.refs[job][each.job], each.stream)
                        for each in task.reads
                    ]
        return layout.model_copy(update={"tasks": (*(found[key] for key in sorted(found)), *layout.tasks)}), named

    def users_of(self, job: int, pe: str) -> set[int]:
        return self.users.get((job, pe), set())

    def left_by(self, job: int) -> dict[int, list[str]]:
        """Per job, the tasks that nobody uses any more once this job is gone."""
        left: dict[int, list[str]] = {}
        for owner, task in self.uses(job):
            if self.users_of(owner, task.pe) <= {job}:
                left.setdefault(owner, []).append(task.name)
        return left

    def connections(self, job: int) -> Iterator[Connection]:
        """What a job's tasks read, across jobs."""
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
                    made = self._made(refs[reading.job])
                    yield f"task '{task.name}' reads stream '{reading.job}:{reading.stream}', which that job does not make; {made}"
            if task.shared is not None:
                name, _, pe = task.shared.partition(":")
                if not self.users_of(refs[name], pe):
                    has = sorted(pe for job, pe in self.users if job == refs[name])
                    yield f"task '{task.name}' shares PE '{task.shared}', which is not there; its PEs are: {', '.join(has)}"

    def _uncovered(self, layout: Layout, refs: Mapping[str, int]) -> Iterator[str]:
        """Streams of other jobs of which a job would read fewer tasks, or more, than there are."""
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
                    f"give the source that stands for it a parallelism of {count}"
                )

    def _made(self, job: int) -> str:
        made = sorted(self.makers.get(job, ()))
        return f"it makes: {', '.join(made)}" if made else "it makes none"

    @staticmethod
    def _pe(job: int, task: Task, refs: Mapping[str, int]) -> tuple[int, str]:
        if task.shared is None:
            return job, task.pe
        name, _, pe = task.shared.partition(":")
        return refs[name], pe


def _shared(task: Task, job: str) -> Task:
    """A task of another job, as it stands in the layout of one that shares it: its PE has a name that no own one can have."""
    pe = f"{job}:{task.pe}"
    return task.model_copy(update={"pe": pe, "shared": pe, "reads": (), "makes": ()})


def _unshared(layout: Layout) -> Layout:
    """A layout without what `with_shared` has put there."""
    return layout.model_copy(update={"tasks": tuple(task for task in layout.tasks if task.shared != task.pe)})


def named_jobs(layout: Layout) -> list[str]:
    """The other jobs that a layout names, by name."""
    reads = {reading.job for task in layout.tasks for reading in task.reads if reading.job is not None}
    return sorted(reads | {task.shared.partition(":")[0] for task in layout.tasks if task.shared is not None})


class Dataflow(Plugin):
    """The dataflow graph manager. Mapping waits for jobs that are named and not yet mapped themselves."""

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
        """Find the makers of all streams that the job reads; on to `mapped`."""
        self._waiting[job.id] = (job, job.lifecycle.version)
        self._try(job, job.lifecycle.version)

    async def unmap(self, job: JobState, command: Command) -> None:
        self._waiting.pop(job.id, None)
        self._take_off(job.id)

    async def instantiate(self, job: JobState, command: Command) -> None:
        """Note where the job's tasks are going to be; on to `instantiated`."""
        self.orchestrator.post(job, "instantiated", since=job.lifecycle.version)

    def restore(self, job: JobState) -> None:
        """Put a job that was mapped before a crash on the graph again."""
        assert job.layout is not None
        self.graph.restore(job.id, job.layout, job.refs)

    def remove_ended_job(self, job: JobState) -> None:
        """Forget an ended job, tell those that read it, and look again at those that waited for it."""
        self._waiting.pop(job.id, None)
        self._take_off(job.id)
        self._tell_readers(job)
        self._try_waiting(gone=job)

    def _take_off(self, job: int) -> None:
        """Remove a job from the graph with the PEs that it alone used, and have those that shared others with it weighed: one may
        be the last to use them now."""
        self.orchestrator.dispatch.remove_replicas(job)
        sharers = {user for owner, task in self.graph.uses(job) for user in self.graph.users_of(owner, task.pe)} - {job}
        self.graph.remove(job)
        for user in sorted(sharers & self.orchestrator.jobs.keys()):
            self.orchestrator.post_status(self.orchestrator.jobs[user])

    def _tell_readers(self, gone: JobState) -> None:
        readers = self.graph.named_by.get(gone.id, set()) & self.orchestrator.jobs.keys()
        for reader in (self.orchestrator.jobs[number] for number in sorted(readers)):
            names = {name for name, number in reader.refs.items() if number == gone.id}
            tasks = reader.layout.tasks if reader.layout is not None else ()
            streams = {each.stream for task in tasks for each in task.reads if each.job in names}
            if streams and not reader.document.share:
                what = (
                    f"reads {join_names(streams)} of job '{gone.name}', which is {gone.lifecycle.state}: nothing more comes of it"
                )
                text = f"{what} until that is submitted again with the same log ('share: true' keeps what makes it)"
                self.orchestrator.events.emit("decision", text, job=reader.id)

    def _try_waiting(self, *, gone: JobState | None = None) -> None:
        for waiting, moves in list(self._waiting.values()):
            self._try(waiting, moves, gone=gone)

    def _try(self, job: JobState, moves: int, *, gone: JobState | None = None) -> None:
        """Map a job, or fail it, or leave it waiting. `gone` is a job that has just ended."""
        assert job.layout is not None
        layout = _unshared(job.layout)
        refs: dict[str, int] = {}
        errors = []
        for name in named_jobs(layout):
            number = self.orchestrator.names.get(name)
            live = None if number is None else self.orchestrator.jobs.get(number)
            if number is None and gone is not None and gone.name == name:
                errors.append(f"names job '{name}', which is {gone.lifecycle.state}: {gone.reason or 'it has ended'}")
            elif number is None or number == job.id:
                living = join_names(set(self.orchestrator.names) - {job.name}, most=10)
                errors.append(f"names job '{name}', which is not there; jobs are: {living}; 'holdfast jobs --all' tells of others")
            elif live is not None and live.is_stopping:
                errors.append(f"names job '{name}', which is being canceled; wait until it is gone and name another")
            elif self._waits_for(number, job.id):
                errors.append(f"names job '{name}', which names this one: neither can go first")
            elif number not in self.graph.layouts:
                return  # it is still being parsed: this job is looked at again when that one is mapped or gone
            else:
                refs[name] = number
        self._waiting.pop(job.id, None)
        try:
            if errors:
                raise Unmappable(f"job {job.id}", errors)
            if job.document.share:
                layout, refs = self.graph.with_shared(layout, refs)
                job.layout_stored = False
            self.graph.add(job.id, layout, refs)
        except HoldfastError as error:
            self.orchestrator.post(job, "error", cause=str(error), since=moves)
            return
        job.layout, job.refs = layout, refs
        self.orchestrator.post(job, "mapped", since=moves)
        self._try_waiting()

    def _waits_for(self, job: int, other: int) -> bool:
        """Whether a job that waits to be mapped waits, over others or not, for that other one."""
        seen, ahead = {job}, [job]
        while ahead:
            waiting, _ = self._waiting.get(ahead.pop(), (None, 0))
            if waiting is None or waiting.layout is None:
                continue
            for name in named_jobs(waiting.layout):
                number = self.orchestrator.names.get(name)
                if number == other:
                    return True
                if number is not None and number not in seen:
                    seen.add(number)
                    ahead.append(number)
        return False
