"""Replayable sources, without Spark: replicas read real files, in any order of steps, restarts and absent records."""

import tempfile
from pathlib import Path

import deltalake
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from obstore.store import MemoryStore

from holdfast.connectors.delta_history import DeltaHistory
from holdfast.connectors.files_reader import FilesReader
from holdfast.connectors.table_reader import TableReader
from holdfast.documents.job import Contract, Task
from holdfast.documents.source_inputs import DeltaInput, FilesInput
from holdfast.log import EpochLog, Quality, Record, Store
from holdfast.log.checkpoints import Checkpoints
from holdfast.log.range_claims import RangeClaims
from holdfast.log.row_files import read_rows
from holdfast.log.timeline import Timeline
from holdfast.runtime.output_writer import OutputWriter
from holdfast.runtime.replica import ReplicaContext
from holdfast.runtime.sources.replayable_source import ReplayableSource

FIRST = 100
TIMELINE = Timeline(FIRST, None, epoch_s=1.0, opened_s=1000.0)
SCHEMA = pa.schema({"seq": pa.int64(), "time": pa.timestamp("us", "UTC"), "page": pa.string()})
READ = pa.schema({"seq": pa.int64(), "page": pa.string()})
TASK = Task(pe="clicks", kind="source", makes=("clicks",))


class Stage:
    """Replicas of a source on one log, a folder that receives files, and a clock; `over` is how many epochs have ended."""

    def __init__(self, folder):
        self.folder, self.store, self.events, self.over = Path(folder), Store(MemoryStore()), [], 0
        self.log, self.delivered = EpochLog(self.store), []

    def start(self, name, *, checkpoint_epochs=50, reader=FilesReader, starting="earliest"):
        options = FilesInput(path=str(self.folder), files_per_epoch=2, starting=starting)
        checkpoints = Checkpoints(self.store)
        return ReplayableSource(
            ReplicaContext(TASK, Contract(checkpoint_epochs=checkpoint_epochs), TIMELINE, checkpoints),
            schema=SCHEMA,
            reader=reader(options, READ, source="clicks", task=0, tasks=1),
            claims=RangeClaims(self.store, TASK.name, checkpoints=checkpoints),
            source_task=(0, 1),
            output=OutputWriter(self.store, 0, name, TIMELINE, lambda kind, about: self.events.append((kind, about))),
            clock=lambda: 1000.5 + self.over,
        )

    def deliver(self):
        name = f"{len(self.delivered):06d}"
        (self.folder / f"{name}.csv").write_text(f"page\np{name}\n")
        self.delivered.append(f"p{name}")

    def commit_absent(self):
        epoch = self.log.last_epoch("clicks", 0, after=FIRST - 1) + 1
        nothing = {"files": (), "rows": 0, "first_seq": None, "last_seq": None, "checksum": "absent"}
        times = {"closed_s": TIMELINE.closes_s(epoch), "committed_s": 0.0}
        self.log.offer(Record("clicks", 0, epoch, Quality.ABSENT, producer="recovery manager", **nothing, **times))

    def rows(self):
        last = self.log.last_exact_epoch("clicks", 0, after=FIRST - 1)
        finals = [self.log.final("clicks", 0, epoch=epoch) for epoch in range(FIRST, last + 1)]
        return [row for record in finals for file in record.files for row in read_rows(self.store, file).to_pylist()]


class TableStage(Stage):
    """The same with a Delta table, which is compacted after every third commit."""

    def __init__(self, folder):
        super().__init__(folder)
        deltalake.write_deltalake(str(self.folder), pa.table({"page": pa.array(["p000000"])}))
        self.delivered.append("p000000")

    def start(self, name, *, checkpoint_epochs=50):
        return super().start(name, checkpoint_epochs=checkpoint_epochs, reader=self.reader)

    def reader(self, options, schema, **about):
        table = DeltaInput(path=options.path, files_per_epoch=2)
        return TableReader(table, DeltaHistory(table, source="clicks"), schema, **about)

    def deliver(self):
        page = f"p{len(self.delivered):06d}"
        deltalake.write_deltalake(str(self.folder), pa.table({"page": [page]}), mode="append")
        self.delivered.append(page)
        if len(self.delivered) % 3 == 0:
            deltalake.DeltaTable(str(self.folder)).optimize.compact()


ACTIONS = st.sampled_from(["deliver", "close epoch", "step a", "step b", "restart a", "restart b", "absent"])


@settings(max_examples=60, deadline=None)
@given(actions=st.lists(ACTIONS, max_size=60), checkpoint_epochs=st.integers(1, 4))
def test_every_row_enters_once_whatever_happens_to_the_replicas(actions, checkpoint_epochs):
    with tempfile.TemporaryDirectory() as folder:
        stage = Stage(folder)
        play(stage, actions, checkpoint_epochs)
        assert [row["page"] for row in stage.rows()] == stage.delivered


@settings(max_examples=15, deadline=None)
@given(actions=st.lists(ACTIONS, max_size=40), checkpoint_epochs=st.integers(1, 4))
def test_every_row_of_a_table_enters_once_also_if_it_is_compacted(actions, checkpoint_epochs):
    with tempfile.TemporaryDirectory() as folder:
        stage = TableStage(folder)
        play(stage, actions, checkpoint_epochs)
        assert sorted(row["page"] for row in stage.rows()) == stage.delivered


def play(stage, actions, checkpoint_epochs):
    """Play actions, and then let the replicas read everything."""
    replicas = {name: stage.start(name, checkpoint_epochs=checkpoint_epochs) for name in "ab"}
    for action in actions:
        verb, _, name = action.partition(" ")
        if verb == "deliver":
            stage.deliver()
        elif verb == "close":
            stage.over += 1
        elif verb == "step":
            replicas[name].step()
        elif verb == "restart":
            replicas[name] = stage.start(name, checkpoint_epochs=checkpoint_epochs)
        elif stage.log.last_epoch("clicks", 0, after=FIRST - 1) < FIRST + stage.over - 1:
            stage.commit_absent()
    stage.over += len(stage.delivered) + 1
    while replicas["a"].step() | replicas["b"].step():
        pass
    seqs = [row["seq"] for row in stage.rows()]
    assert seqs == sorted(set(seqs))
    assert "divergence" not in [kind for kind, _ in stage.events]


def test_absent_epoch_is_corrected_with_its_rows(tmp_path):
    stage = Stage(tmp_path)
    stage.deliver()
    stage.over = 1
    stage.commit_absent()
    source = stage.start("a")
    assert source.step()
    record = stage.log.final("clicks", 0, epoch=FIRST)
    assert (record.quality, record.rows) == (Quality.EXACT, 1)


class OwnPositionsReader(FilesReader):
    has_own_positions = True


def test_rows_that_arrive_before_a_restart_in_the_first_epoch_are_read(tmp_path):
    stage = Stage(tmp_path)
    stage.start("a", reader=OwnPositionsReader, starting="latest")
    stage.deliver()
    source = stage.start("a", reader=OwnPositionsReader, starting="latest")
    stage.over = 1
    assert source.step()
    assert [row["page"] for row in stage.rows()] == stage.delivered


def test_secondary_reads_nothing_that_the_primary_has_committed(tmp_path):
    stage = Stage(tmp_path)
    stage.deliver()
    primary, secondary = stage.start("a"), stage.start("b")
    secondary.set_rank(1)
    stage.over = 1
    assert primary.step()
    assert secondary.step()
    assert (primary.rows_read, secondary.rows_read) == (1, 0)
