"""Running applications both ways on small tables, as the tests of this folder do it."""

import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

from holdfast.app import App, Graph
from holdfast.engine.analysis import analyse
from holdfast.engine.combined_job import collect_together
from holdfast.engine.connector.feeds import EpochFile
from holdfast.engine.epochs import Span
from holdfast.engine.kept_rows import rows_of
from holdfast.engine.pe import Pe
from holdfast.engine.schema import arrow_schema, to_frame
from holdfast.engine.stored_frame import StoredInput
from holdfast.engine.stored_jobs import StoredJobs
from holdfast.engine.whole_trace import build_whole_trace
from holdfast.log import Store
from holdfast.log.stored_rows import load_rows, store_rows

Tables = dict[str, pa.Table]


def cut(tables: Tables, bounds: Iterable[int]) -> tuple[Tables, list[Span]]:
    """The tables with the epochs that end at the given seqs, and a span per epoch from the first row's to the last row's."""
    ends = np.sort(np.array(list(bounds), np.int64))
    with_epochs = {
        name: table.append_column("epoch", pa.array(np.searchsorted(ends, table["seq"].to_numpy()), pa.int64()))
        for name, table in tables.items()
    }
    seqs = np.sort(np.concatenate([table["seq"].to_numpy() for table in tables.values()]))
    epochs = np.searchsorted(ends, seqs)
    spans, after = [], int(seqs[0]) - 1
    for epoch in range(int(epochs[0]), int(epochs[-1]) + 1):
        mine = seqs[epochs == epoch]
        until = int(mine[-1]) if len(mine) else after
        spans.append(Span(epoch, epoch, after, until))
        after = until
    return with_epochs, spans


class ExecutorPe:
    """A PE whose rows are in files that executors read and write."""

    def __init__(self, pe, spark, graph, schemas):
        self.reads, self.schemas, self.kept_rows = pe.reads, schemas, {}
        self.store = Store(tempfile.mkdtemp(prefix="holdfast-test-"), sync=False)
        self.jobs = StoredJobs(spark, graph, pe.part, schemas, store=self.store, folder_of=lambda label, span: "rows")

    def run(self, new, span):
        inputs = {}
        for name, rows in new.items():
            stored = store_rows(self.store, rows.cast(arrow_schema(self.schemas[name])), folder="new")
            inputs[name] = StoredInput(tuple(EpochFile(self.store.root, file, span.first, "exact") for file in stored.files))
        output, self.kept_rows = self.jobs.run_stored(inputs, self.kept_rows, [span])
        return {
            name: load_rows(self.store, rows) if rows.files else arrow_schema(self.schemas[name]).empty_table()
            for name, (rows,) in output.items()
        }


@dataclass(frozen=True)
class Both:
    """One session, and an application's streams by either way of running it."""

    spark: object

    def frames(self, tables: Tables) -> dict:
        return {name: to_frame(self.spark, table) for name, table in tables.items()}

    def whole(self, graph: Graph, tables: Tables, spans: Sequence[Span]) -> Tables:
        frames = build_whole_trace(graph, self.frames(tables), epochs=(spans[0].first, spans[-1].last))
        return collect_together({name: frames[name] for name in leaving(graph)})

    def by_epoch(
        self, graph: Graph, tables: Tables, spans: Sequence[Span], parts: Iterable[Iterable[str]], *, executors: bool = False
    ) -> Tables:
        schemas = analyse(graph, self.spark)
        pes = [Pe(self.spark, graph, part, schemas) for part in parts]
        pes = [ExecutorPe(pe, self.spark, graph, schemas) for pe in pes] if executors else pes
        outputs: dict[str, list[pa.Table]] = {name: [] for name in leaving(graph)}
        for span in spans:
            streams = {name: rows_of(table, span) for name, table in tables.items()}
            for pe in pes:
                streams.update(pe.run({name: streams[name] for name in pe.reads}, span))
            for name, tables_so_far in outputs.items():
                tables_so_far.append(streams[name])
        return {name: pa.concat_tables([part.cast(parts[0].schema) for part in parts]) for name, parts in outputs.items()}


def leaving(graph: Graph) -> list[str]:
    return sorted({sink.input for sink in graph.sinks})


def simple(schema: str = "seq long, k int, x double", **operators: Callable) -> App:
    """An application of one source 's' and one operator per function, each reading the source and with a sink of its own."""
    app = App("simple")
    source = app.source("s", schema)
    for name, function in operators.items():
        settings = getattr(function, "settings", {})
        app.sink(f"{name}_out", app.operator(inputs=source, name=name, **settings)(function))
    return app


@pytest.fixture(scope="session")
def both(spark):
    return Both(spark)


@pytest.fixture(scope="session")
def tools():
    return SimpleNamespace(cut=cut, leaving=leaving, simple=simple)
