"""Divide a job into tasks: what each reads, produces and runs, and how many replicas it has.

The orchestrator does this in a confined process (`sandbox.py`), because an application's file is code that must not run inside the
orchestrator.
"""

import signal
import sys
from collections.abc import Callable, Iterable

from holdfast.app import App, Graph, Operator, Sink, Source
from holdfast.app.load import load_app
from holdfast.app.task_topology import topology_of
from holdfast.documents.document import check_document
from holdfast.documents.job import Job, Layout, Reading, Task
from holdfast.errors import ApplicationError, CompoundError, DocumentError, HoldfastError, did_you_mean
from holdfast.planning.laar.strategy import Strategy, read_strategy
from holdfast.planning.ppa.plan_document import PlanDocument, read_plan
from holdfast.prediction.contract_terms import check_protection, stream_key


def layout_of(job: Job, *, load: Callable[[str], App] = load_app) -> Layout:
    """Return the tasks of a job in topological order. Raises HoldfastError for errors of the application, plan or strategy."""
    if job.application is None:
        raise HoldfastError(f"job '{job.job}' names no application; a job for Spark needs the path of its file")
    assert job.log is not None  # a job with an application has one
    app = load(job.application)
    graph = app.graph()
    tasks = [*_sources(graph, job), *_pes(graph, job, app.name)]
    _check_names(job, graph, tasks)
    _check_times(job, graph)
    replicas = _Replicas(job, app.name, graph, tasks)
    tasks = [task.model_copy(update={"replicas": replicas.of(task)}) for task in tasks]
    for sink in graph.sinks:
        producers = [task for task in tasks if sink.input in task.makes]
        reading = _named(job, sink.input).model_copy(update={"tasks": tuple(range(len(producers))) or (0,)})
        # A sink is cheap and writes each epoch once with any number of replicas, so it gets as many as the most replicated task.
        copies = max((task.replicas for task in tasks if task.kind != "sink"), default=1)
        tasks.append(Task(pe=sink.name, kind="sink", reads=(reading,), replicas=job.replicas.get(sink.name, copies)))
    check_protection(job, tasks, epoch_s=app.epoch_s)
    _check_numbering(job, tasks)
    _check_readers(job, graph, tasks)
    _check_correction(job, tasks)
    settings = {
        "job": job.model_dump(mode="json"),
        "tasks": [task.model_dump(mode="json") for task in tasks],
        "keys": {stream: list(stream_key(graph, stream)) for task in tasks if task.kind == "operators" for stream in task.makes},
    }
    if job.adapt is not None and replicas.plan is not None:
        settings["topology"] = topology_of(graph, name=app.name).model_dump(mode="json")
        settings["planned"] = list(replicas.plan.tasks)
    return Layout(application=app.name, tasks=tuple(tasks), nodes=replicas.nodes, settings=settings)


def _sources(graph: Graph, job: Job) -> list[Task]:
    return [
        Task(pe=source.name, task=number, kind="source", makes=(source.name,))
        for source in graph.sources
        if source.name not in job.streams
        for number in range(source.parallelism)
    ]


def _check_names(job: Job, graph: Graph, tasks: Iterable[Task]) -> None:
    """Raise CompoundError with all names of the job that its application does not have."""
    all_tasks, sinks = list(tasks), {sink.name for sink in graph.sinks}
    pes = {task.pe for task in all_tasks} | sinks
    parts = pes | {task.name for task in all_tasks}
    errors = [
        f"{what} '{name}'; its {kind} are: {_list(known)}{did_you_mean(name, known)}"
        for what, kind, names, known in (
            ("takes from another job source", "sources", job.streams, {source.name for source in graph.sources}),
            ("wants replicas of", "PEs and tasks", job.replicas, parts),
            ("has a contract for", "PEs", job.contracts, pes),
            ("says the needs of", "PEs and tasks", job.needs, parts | {f"{sink}/0" for sink in sinks}),
        )
        for name in sorted(set(names) - known)
    ]
    if errors:
        raise CompoundError(f"job '{job.job}'", errors)


def _check_times(job: Job, graph: Graph) -> None:
    """Raise HoldfastError if another job feeds one source and a trace feeds another."""
    own = [source.name for source in graph.sources if source.name not in job.streams]
    if job.streams and own and job.feed.trace is not None:
        raise HoldfastError(
            f"job '{job.job}' takes source '{min(job.streams)}' from another job and '{own[0]}' from a trace, whose times do "
            "not coincide; feed both by the other job"
        )


def _check_numbering(job: Job, tasks: Iterable[Task]) -> None:
    """Raise CompoundError if a task reads rows that its own job numbers and rows that another job numbers.

    Operators recognise new rows by their seq, which ascends only over the sources of one job. Tasks are listed after those that
    they read.
    """
    origins: dict[str, dict[str | None, str]] = {}
    errors: dict[str, str] = {}
    for task in tasks:
        input_of_origin: dict[str | None, str] = {} if task.reads else {None: task.pe}
        for reading in task.reads:
            input_of_origin |= origins[reading.stream] if reading.job is None else {reading.job: f"{reading.job}:{reading.stream}"}
        origins |= dict.fromkeys(task.makes, input_of_origin)
        other = next((stream for origin, stream in sorted(input_of_origin.items(), key=str) if origin is not None), None)
        if None in input_of_origin and other is not None:
            errors[task.pe] = (
                f"'{task.pe}' reads rows of source '{input_of_origin[None]}' and of stream '{other}', which two jobs number "
                f"independently, so that rows would be lost; let one job read both, or let that job feed both sources"
            )
    if errors:
        raise CompoundError(f"job '{job.job}'", list(errors.values()))


def _is_read_once(job: Job, graph: Graph, task: Task) -> bool:
    """Return whether the task is a source with a reader. Two replicas of it would use the same Spark checkpoint."""
    source = graph.nodes.get(task.pe)
    return task.kind == "source" and job.feed.trace is None and isinstance(source, Source) and source.input is None


def _check_readers(job: Job, graph: Graph, tasks: Iterable[Task]) -> None:
    """Raise HoldfastError if Spark would have to store checkpoints in an object store that only the log can use."""
    read = [task.pe for task in tasks if _is_read_once(job, graph, task)]
    log = job.log or ""
    if read and job.feed.checkpoints is None and "://" in log and not log.startswith("file://"):
        raise HoldfastError(
            f"job '{job.job}' has its log at '{log}', where Spark cannot keep how far it has read source '{read[0]}'; give 'feed' "
            "its 'checkpoints': a folder that all nodes see, or a URL that your Spark can use, such as one with s3a://"
        )


def _pes(graph: Graph, job: Job, name: str) -> list[Task]:
    tasks = []
    errors = []
    for pe, part in graph.pes.items():
        operators = [graph.operator(each) for each in part]
        counts = {operator.parallelism for operator in operators}
        inner = [
            (stream, o.name)
            for o in operators
            for stream in o.inputs
            if stream in part and graph.partitioning(stream, o.name) != "one-to-one"
        ]
        ways = {
            stream: {(graph.partitioning(stream, o.name), o.key) for o in operators if stream in o.inputs}
            for stream in graph.streams_into(part)
        }
        if len(counts) > 1 or inner or (counts != {1} and any(len(way) > 1 for way in ways.values())):
            errors.append(
                f"PE '{pe}' fuses {', '.join(part)}, which divide their rows differently; fused operators need the same "
                "parallelism, key and partitioning"
            )
            continue
        tasks += [
            Task(
                pe=pe,
                task=number,
                operators=part,
                reads=tuple(_reading(graph, job, stream, operators, number) for stream in graph.streams_into(part)),
                makes=graph.streams_out_of(part),
            )
            for number in range(operators[0].parallelism)
        ]
    if errors:
        raise ApplicationError(f"application '{name}'", errors)
    return tasks


def _check_correction(job: Job, tasks: Iterable[Task]) -> None:
    """Raise CompoundError if a task waits for final records that nothing writes. Sources always write theirs."""
    all_tasks = list(tasks)
    without = {
        stream: task.pe
        for task in all_tasks
        for stream in task.makes
        if task.kind == "operators" and not job.contract_of(task.pe).correction
    }
    pairs = {(task.pe, reading.stream) for task in all_tasks for reading in task.reads if reading.job is None}
    errors = [
        f"'{pe}' has correction and reads '{stream}' of PE '{without[stream]}', which has none: it would wait for corrections that "
        f"never come; let the contract of '{pe}' be without correction too, or that of '{without[stream]}' have it"
        for pe, stream in sorted(pairs)
        if stream in without and job.contract_of(pe).correction
    ]
    if errors:
        raise CompoundError(f"job '{job.job}'", errors)


def _reading(graph: Graph, job: Job, stream: str, operators: list[Operator], number: int) -> Reading:
    """Return what a task reads of a stream: the upstream tasks of its group, and its share of their rows (PPA, section II-A)."""
    reader = next(operator for operator in operators if stream in operator.inputs)
    upstream = graph.nodes[stream]
    assert not isinstance(upstream, Sink)
    above, below = upstream.parallelism, reader.parallelism
    kind = graph.partitioning(stream, reader.name)
    reading = _named(job, stream)
    if kind == "one-to-one":
        return reading.model_copy(update={"tasks": (number,)})
    if kind == "merge":
        group = above // below
        return reading.model_copy(update={"tasks": tuple(range(number * group, (number + 1) * group))})
    if kind == "split":
        group = below // above
        return reading.model_copy(update={"tasks": (number // group,), "key": reader.key, "share": number % group, "of": group})
    return reading.model_copy(update={"tasks": tuple(range(above)), "key": reader.key, "share": number, "of": below})


def _named(job: Job, stream: str) -> Reading:
    """Return the reading of a stream of this job or, for a source that another job feeds, of that job's stream."""
    if stream not in job.streams:
        return Reading(stream=stream)
    other, name = job.streams[stream].split(":", 1)
    return Reading(stream=name, name=stream, job=other)


class _Replicas:
    """The number and nodes of each task's replicas: from the job, otherwise from its plan or strategy, otherwise one."""

    def __init__(self, job: Job, application: str, graph: Graph, tasks: list[Task]) -> None:
        self._job, self._graph = job, graph
        for task in tasks:
            if _is_read_once(job, graph, task) and self._requested(task) not in (None, 1):
                raise HoldfastError(
                    f"job '{job.job}' wants {self._requested(task)} replicas of '{task.name}', a source with a reader, which "
                    "has one, because two could not read the same rows: it is started elsewhere when it fails; take it out of "
                    "'replicas', or read data that can be read again (kafka=, files=, delta=, iceberg=)"
                )
        self._planned: set[str] = set()
        self._count = 1
        self.plan: PlanDocument | None = None
        self.nodes: dict[str, tuple[str, ...]] = {}
        if job.plan is not None:
            self.plan = read_plan(job.plan)
            _require_adaptable(job, self.plan)
            self._planned = self._from_plan(self.plan, application, graph, tasks)
        if job.strategy is not None:
            strategy = read_strategy(job.strategy)
            self._count, self.nodes = self._from_strategy(strategy, application, graph, tasks)

    def of(self, task: Task) -> int:
        requested = self._requested(task)
        if requested is not None or _is_read_once(self._job, self._graph, task):
            return requested or 1
        if task.name in self.nodes:
            return self._count
        spare = task.kind == "operators" and self._job.contract_of(task.pe).protection == "upstream"
        return 2 if spare or self._job.adapt is not None or task.name in self._planned else 1

    def _requested(self, task: Task) -> int | None:
        """Return the number that the job document requests, or None."""
        return self._job.replicas.get(task.name, self._job.replicas.get(task.pe))

    def _from_plan(self, plan: PlanDocument, application: str, graph: Graph, tasks: list[Task]) -> set[str]:
        """Return the tasks that a plan replicates. For fused operators, the task of their PE."""
        _require_same(f"plan '{self._job.plan}'", plan.topology, application)
        sources = {source.name: source.parallelism for source in graph.sources}
        errors = plan.topology_errors({**sources, **{operator.name: operator.parallelism for operator in graph.operators}})
        if errors:
            raise DocumentError(f"plan '{self._job.plan}' of application '{application}'", errors)
        home = {f"{operator}/{task.task}": task.name for task in tasks for operator in (task.operators or (task.pe,))}
        return {home[name] for name in plan.tasks if name in home}

    def _from_strategy(
        self, strategy: Strategy, application: str, graph: Graph, tasks: list[Task]
    ) -> tuple[int, dict[str, tuple[str, ...]]]:
        what = f"strategy '{self._job.strategy}'"
        _require_same(what, strategy.application, application)
        pes, sources = {task.pe for task in tasks if task.kind == "operators"}, {source.name for source in graph.sources}
        for kind, there, theirs in (("PE", pes, strategy.placement), ("source", sources, strategy.configurations[0].rates)):
            if apart := sorted(there ^ set(theirs)):
                raise HoldfastError(f"{what} and the application differ in {kind} '{apart[0]}'; both must have: {_list(there)}")
        return strategy.replicas, {t.name: strategy.placement[t.pe] for t in tasks if t.kind == "operators"}


def _require_same(what: str, actual: str, application: str) -> None:
    if actual != application:
        raise HoldfastError(
            f"{what} is for application '{actual}', but this one is '{application}'; plan it from its own documents"
        )


def _require_adaptable(job: Job, plan: PlanDocument) -> None:
    """Raise HoldfastError if adapted plans would have another objective than the plan that they replace."""
    if job.adapt is None or plan.objective == job.adapt.objective:
        return
    if plan.objective in ("of", "ic"):
        raise HoldfastError(
            f"plan '{job.plan}' was made for '{plan.objective}', and job '{job.job}' adapts it for '{job.adapt.objective}'; give "
            f"'adapt' the objective '{plan.objective}', or plan anew"
        )
    raise HoldfastError(
        f"plan '{job.plan}' was made for '{plan.objective}', from the measured costs of failures; the rates of a run do not show "
        "them, so --adapt would lose them. Run the plan without --adapt, or adapt one made with --objective of or ic"
    )


def _list(names: Iterable[str]) -> str:
    return ", ".join(sorted(set(names)))


def print_layout(document: object, *, limit_s: int) -> None:
    """Print the layout of a job. An error goes to stderr and exits with code 2."""
    signal.alarm(limit_s + 1)  # the process that enforces the limit may have died
    try:
        print(layout_of(check_document(document, Job, thing="job")).model_dump_json())
    except HoldfastError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
