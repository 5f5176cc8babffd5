"""What runs in a schedule: an application, its rows, and a pure function in place of Spark that obeys every keep rule."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal

import pyarrow as pa

from holdfast.app import App, Graph, LastEpochs, LastRows, Operator, last_epochs, last_rows, state_table
from holdfast.documents.job import Job, Layout, Task
from holdfast.engine.epochs import Span, join_spans
from holdfast.engine.kept_rows import rows_of
from holdfast.engine.stored_frame import StoredInput
from holdfast.errors import OperatorError
from holdfast.job_layout import layout_of
from holdfast.log import Store
from holdfast.log.checkpoints import kept_rows_folder
from holdfast.log.position import KeptRows, Position
from holdfast.log.row_files import read_rows, row_folder
from holdfast.log.stored_rows import StoredRows, load_rows, store_rows
from holdfast.planning.laar.strategy import Activation, Strategy
from holdfast.runtime.sources.trace_source import FetchRows

from .rows import DDL, EMPTY, Row, intern, partition_numbers, to_rows, to_table

FIRST = 1
EPOCHS = 20
KEYS = 4
PRIME = 1_000_003
WORKLOADS = 60
"""How many different applications there are. Their exact results are computed once per process."""

Feed = Literal["trace", "reader", "ranges", "job"]
KEEPS = ("stateless", "rows", "epochs", "state", "join")


@dataclass(frozen=True)
class Workload:
    """An application, its layout with one replica per task, and the trace of its sources.

    `feed` is what the sources read: a trace, a reader's queries, ranges of replayable data, or another job's stream.
    """

    number: int
    app: App
    layout: Layout
    feed: Feed
    trace: Mapping[str, tuple[Row, ...]]
    spans: tuple[Span, ...]
    graph: Graph

    @property
    def is_live(self) -> bool:
        """Whether rows enter the epochs in which they arrive, so that the interleaving determines their epochs."""
        return self.feed in ("reader", "ranges")


def _reader(spark: object) -> None:
    """Stands for a reader. The simulation has its own queries."""


def _writer_with_token(rows: object, epoch: int, quality: str, *, token: object) -> None:
    """Stands for a writer that takes a token."""


def _writer(rows: object, epoch: int, quality: str) -> None:
    """Stands for a writer that takes none."""


def fenced_writer(rows: object, epoch: int, quality: str, *, token: object) -> None:
    """Stands for a writer whose target fences it off as soon as another one opens the target."""


WRITERS = (None, _writer_with_token, fenced_writer, None, _writer)
KAFKA = {"servers": "simulated", "topic": "simulated"}


@cache
def workload(number: int, *, feeds: str | None = None) -> Workload:
    """Return an application. `feeds` is the stream of another job, as `job:stream`, that feeds its only source."""
    rng = random.Random(f"workload {number} {feeds is not None}")
    app = App(f"w{number}", epoch_s=1.0)
    feed: Feed = "job" if feeds is not None else ("trace", "ranges", "trace", "reader")[number % 4]
    streams = [
        app.source(
            f"s{index}",
            DDL,
            key="key",
            parallelism=1 if feeds is not None else rng.choice([1, 1, 2]),
            reader=_reader if feed == "reader" else None,
            kafka=KAFKA if feed == "ranges" else None,
        )
        for index in range(1 if feeds is not None else rng.choice([1, 1, 2]))
    ]
    operators: list[Operator] = []
    for index in range(rng.choice([1, 2]) if feeds is not None else rng.choice([3, 3, 4])):
        kind = KEEPS[(number + index) % len(KEEPS)] if index < 2 else rng.choice(KEEPS)
        available = [*streams[-1:], *operators] if index else streams
        inputs = [rng.choice(available)]
        if kind == "join" or (index == 0 and len(streams) > 1):
            others = [each for each in (*streams, *operators) if each is not inputs[0]]
            inputs += [rng.choice(others)] if others else []
        keep: object = None
        if kind in ("rows", "join"):
            keep = last_rows(rng.choice([1, 2]), by="key")
        elif kind == "epochs":
            keep = last_epochs(rng.choice([1, 2]))
        elif kind == "state":
            keep = state_table("key long, value long", by="key")
        operators.append(
            app.operator(
                inputs=inputs,
                keep=keep,
                key="key",
                parallelism=rng.choice([1, 1, 1, 2]),
                correlated=len(inputs) > 1,
                name=f"o{index}",
            )(lambda *frames: frames)
        )
    read = {name for operator in operators for name in operator.inputs}
    ends = [operator for operator in operators if operator.name not in read]
    for index, end in enumerate(ends):
        app.sink(f"k{index}", end, writer=WRITERS[(number + index) % len(WRITERS)])
    for source in streams:
        if source.name not in read:
            app.sink(f"k{source.name}", source)
    job = Job(
        job=f"w{number}" if feeds is None else f"r{number}",
        application="simulated",
        log=f"log-w{number}" if feeds is None else f"log-r{number}",
        streams={} if feeds is None else {"s0": feeds},
        feed={"trace": "simulated"} if feed == "trace" else {},
    )
    layout = layout_of(job, load=lambda path: app)
    graph = app.graph()
    trace, spans = _trace([source.name for source in graph.sources], rng)
    return Workload(number, app, layout, feed, trace, spans, graph)


def job_of(layout: Layout) -> Job:
    """Return the job document of a layout."""
    return Job.model_validate(layout.settings["job"])


def strategy_of(path: str, _: object) -> Strategy:
    """Return the strategy of the workload with this number: which replicas are active with few and with many rows."""
    load, rng = workload(int(path)), random.Random(f"strategy {path}")
    sources = [source.name for source in load.graph.sources]
    pes = [name for name, node in load.graph.nodes.items() if isinstance(node, Operator)]
    return Strategy.model_construct(
        configurations=tuple(
            Activation(
                name=name,
                rates=dict.fromkeys(sources, rate / len(sources)),
                probability=0.5,
                active={pe: rng.choice([(0,), (1,), (0, 1)]) for pe in pes},
            )
            for name, rate in (("low", 2.0), ("high", 3.5))
        )
    )


def _trace(sources: list[str], rng: random.Random) -> tuple[dict[str, tuple[Row, ...]], tuple[Span, ...]]:
    rows: dict[str, list[Row]] = {name: [] for name in sources}
    spans, seq = [], 0
    for epoch in range(FIRST, FIRST + EPOCHS):
        after = seq
        for _ in range(0 if rng.random() < 0.08 and FIRST < epoch < FIRST + EPOCHS - 1 else rng.choice([2, 3, 4])):
            seq += 1
            rows[rng.choice(sources)].append((seq, rng.randrange(KEYS), rng.randrange(1000), epoch))
        spans.append(Span(epoch, epoch, after, seq))
    return {name: tuple(content) for name, content in rows.items()}, tuple(spans)


def part_of(content: Iterable[Row], *, share: int, of: int) -> tuple[Row, ...]:
    """Return the rows that belong to one of several tasks."""
    content = tuple(content)
    if of == 1 or not content:
        return content
    numbers = partition_numbers(to_table(content), ("key",), parts=of)
    return tuple(row for row, number in zip(content, numbers, strict=True) if number == share)


def fetcher(load: Workload, task: Task) -> FetchRows:
    """Return a function that reads a source task's share of the trace."""
    of = load.graph.nodes[task.pe].parallelism
    content = _share(load, task.pe, task.task, of)

    def fetch(span: Span) -> pa.Table:
        return to_table(tuple(row for row in content if span.after < row[0] <= span.until))

    return fetch


@cache
def _share_of(number: int, feeds: bool, source: str, share: int, of: int) -> tuple[Row, ...]:
    return part_of(workload(number).trace[source], share=share, of=of)


def _share(load: Workload, source: str, share: int, of: int) -> tuple[Row, ...]:
    return _share_of(load.number, False, source, share, of)


class SimCompute:
    """Stands for Spark: it computes a PE of one operator. A trap of the kind "operator" makes one run fail."""

    def __init__(
        self, graph: Graph, task: Task, step: object, fails: object, store: Store, open_store: Callable[[str], Store]
    ) -> None:
        (self._name,) = task.operators
        self._task, self._store, self._open_store = task, store, open_store
        self._operator = graph.operator(self._name)
        self._step, self._fails = step, fails

    def warm(self, schemas: object) -> None:
        """Do nothing."""

    def run(self, new: dict[str, pa.Table], position: Position, span: Span) -> tuple[dict[str, pa.Table], dict[str, pa.Table]]:
        self._step()  # type: ignore[operator]
        if self._fails("operator"):  # type: ignore[operator]
            raise OperatorError(f"operator '{self._name}' failed (simulated)")
        rows = tuple((label, to_rows(table)) for label, table in new.items())
        kept = tuple((label, to_rows(table)) for label, table in position.kept_rows.items())
        output, kept_after = compute(self._operator, rows, kept, span.first, span.last)
        return {self._name: to_table(output)}, {label: to_table(content) for label, content in kept_after}

    def run_stored(
        self, new: dict[str, StoredInput], position: Position, spans: Sequence[Span]
    ) -> tuple[dict[str, list[StoredRows]], dict[str, StoredRows]]:
        """Stand for executors: read the rows of files, and store output and kept rows as files."""
        output, kept_rows = self.run(
            {label: self._read(rows) for label, rows in new.items()},
            replace(position, kept_rows={label: self._load(rows) for label, rows in position.kept_rows.items()}),
            join_spans(spans),
        )
        folder = row_folder(self._name, self._task.task)
        parts = [store_rows(self._store, rows_of(output[self._name], span), folder=folder) for span in spans]
        folder = kept_rows_folder(self._task.name, spans[-1].last)
        return {self._name: parts}, {label: store_rows(self._store, rows, folder=folder) for label, rows in kept_rows.items()}

    def _read(self, rows: StoredInput) -> pa.Table:
        tables = [read_rows(self._open_store(file.root), file.name) for file in rows.files]
        content = sorted(row for table in tables for row in to_rows(table))
        return to_table(part_of(content, share=rows.share, of=rows.of))

    def _load(self, rows: KeptRows) -> pa.Table:
        if isinstance(rows, StoredRows):
            return load_rows(self._store, rows) if rows.num_rows else EMPTY
        return rows


Labelled = tuple[tuple[str, tuple[Row, ...]], ...]
_results: dict[object, tuple[tuple[Row, ...], Labelled]] = {}


def compute(operator: Operator, new: Labelled, kept: Labelled, first: int, last: int) -> tuple[tuple[Row, ...], Labelled]:
    """Return an operator's output rows and its kept rows after a span of epochs. Equal calls are computed once."""
    key = operator.name, operator.inputs, tuple(operator.keep.values()), operator.state, new, kept, last if operator.windowed else 0
    result = _results.get(key)
    if result is None:
        if len(_results) > 100_000:
            _results.clear()
        result = _results[key] = _compute(operator, dict(new), dict(kept), last)
    return result


def _compute(
    operator: Operator, new: dict[str, tuple[Row, ...]], kept: dict[str, tuple[Row, ...]], last: int
) -> tuple[tuple[Row, ...], Labelled]:
    if operator.state is not None:
        return _with_state(new, kept)
    if not operator.keep:
        rows = sorted(row for content in new.values() for row in content)
        return tuple((s, k, (v * 3 + 1) % PRIME, e) for s, k, v, e in rows if v % 5), ()
    all_rows = {name: sorted({*kept.get(name, ()), *new.get(name, ())}) for name in operator.inputs}
    rule = next(iter(operator.keep.values()))
    if isinstance(rule, LastEpochs):
        output = _sums_over_epochs(new, all_rows, rule.n)
        after = {name: tuple(row for row in content if row[3] > last - rule.n) for name, content in all_rows.items()}
    else:
        output = _joined(operator, new, all_rows, rule.n) if len(operator.inputs) > 1 else _sums_over_rows(new, all_rows, rule.n)
        after = {name: _last_rows(content, rule) for name, content in all_rows.items()}
    return output, tuple(after.items())


def _with_state(new: dict[str, tuple[Row, ...]], kept: dict[str, tuple[Row, ...]]) -> tuple[tuple[Row, ...], Labelled]:
    state = {key: value for _, key, value, _ in kept.get("state", ())}
    output = []
    for seq, key, value, epoch in sorted(row for content in new.values() for row in content):
        state[key] = (state.get(key, 7) * 31 + value) % PRIME
        output.append((seq, key, state[key], epoch))
    return tuple(output), (("state", tuple((0, key, state[key], 0) for key in sorted(state))),)


def _sums_over_rows(new: dict[str, tuple[Row, ...]], every: dict[str, list[Row]], n: int) -> tuple[Row, ...]:
    """Return, for each new row, the weighted sum of the last n + 1 rows of its key."""
    output = []
    for name, content in new.items():
        for seq, key, _, epoch in content:
            recent = [row[2] for row in every[name] if row[1] == key and row[0] <= seq][-n - 1 :]
            output.append((seq, key, sum((i + 1) * value for i, value in enumerate(recent)) % PRIME, epoch))
    return tuple(sorted(output))


def _sums_over_epochs(new: dict[str, tuple[Row, ...]], every: dict[str, list[Row]], n: int) -> tuple[Row, ...]:
    """Return, for each new epoch and key, the sum over a window of n + 1 epochs."""
    groups: dict[tuple[int, int], int] = {}
    for content in new.values():
        for seq, key, _, epoch in content:
            groups[epoch, key] = max(seq, groups.get((epoch, key), 0))
    merged = [row for content in every.values() for row in content]
    return tuple(
        sorted(
            (seq, key, sum(v for _, k, v, e in merged if k == key and epoch - n <= e <= epoch) % PRIME, epoch)
            for (epoch, key), seq in groups.items()
        )
    )


def _joined(operator: Operator, new: dict[str, tuple[Row, ...]], every: dict[str, list[Row]], n: int) -> tuple[Row, ...]:
    """Return, for each new row of the first input, its match with the last rows of the same key of the others."""
    output = []
    first, *others = operator.inputs
    for seq, key, value, epoch in new.get(first, ()):
        matches = [[row[2] for row in every[name] if row[1] == key and row[0] <= seq][-n:] for name in others]
        if all(matches):
            output.append((seq, key, (value * 7 + sum(sum(match) for match in matches)) % PRIME, epoch))
    return tuple(sorted(output))


def _last_rows(content: list[Row], rule: LastRows) -> tuple[Row, ...]:
    by_key: dict[int, list[Row]] = {}
    for row in content:
        by_key.setdefault(row[1], []).append(row)
    return tuple(sorted(row for rows in by_key.values() for row in rows[-rule.n :]))


Whole = dict[tuple[str, int], tuple[Row, ...]]
"""The rows of each task's stream."""
ByEpoch = dict[tuple[str, int], dict[int, tuple[Row, ...]]]
"""The rows of each task's stream, by epoch."""


def golden(load: Workload, sources: Mapping[tuple[str, int], tuple[Row, ...]]) -> ByEpoch:
    """Return the rows of every task's stream by epoch, computed in one go from the rows of the source tasks."""
    return _golden(id(load), tuple(sorted(sources.items())), load)


_goldens: dict[object, ByEpoch] = {}


def _golden(identity: int, sources: object, load: Workload) -> ByEpoch:
    key = identity, sources
    if key not in _goldens:
        if len(_goldens) > 2_000:
            _goldens.clear()
        _goldens[key] = _compute_golden(load, dict(sources))  # type: ignore[call-overload]
    return _goldens[key]


def _compute_golden(load: Workload, whole: Whole) -> ByEpoch:
    for task in load.layout.tasks:
        if task.kind == "operators":
            new = inputs_of(task, whole)
            operator = load.graph.operator(task.pe)
            epochs = [row[3] for content in new.values() for row in content]
            output, _ = compute(operator, tuple(new.items()), (), 0, max(epochs, default=0))
            whole[task.pe, task.task] = output
    return {stream: _by_epoch(content) for stream, content in whole.items()}


def inputs_of(task: Task, whole: Mapping[tuple[str, int], tuple[Row, ...]]) -> dict[str, tuple[Row, ...]]:
    """Return the rows that a task reads, by the name of the input."""
    return {
        reading.name or reading.stream: part_of(
            sorted(row for number in reading.tasks for row in whole[reading.name or reading.stream, number]),
            share=reading.share,
            of=reading.of,
        )
        for reading in task.reads
    }


def _by_epoch(content: Iterable[Row]) -> dict[int, tuple[Row, ...]]:
    epochs: dict[int, list[Row]] = {}
    for row in content:
        epochs.setdefault(row[3], []).append(row)
    return {epoch: tuple(rows) for epoch, rows in epochs.items()}


__all__ = ["EMPTY", "intern"]
