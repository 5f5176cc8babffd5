"""Run many trials in one Spark job, each in its own slot and only on the rows that its fault can reach.

A trial recomputes only the operators on its fault path. From each golden stream that these operators read, it takes the rows of
the affected keys. The range begins early enough to rebuild the kept rows and ends where the output is correct again
(fault_reach.py). The trials share a Spark plan: seq, epoch and key columns carry the slot, so that windows, groups and joins keep
the trials apart. The operators' functions run unchanged. This is correct if they use keys, epochs and seqs only as names and as an
order; batched_check.py tests that.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType

from holdfast.app import Graph, Operator
from holdfast.assess.arrival_jitter import jittered, order_sensitive
from holdfast.assess.campaign_context import CampaignContext, TraceKey, subgraph
from holdfast.assess.fault_reach import FaultPath, GoldenIndex, Reach, reach_of
from holdfast.assess.golden_runs import Golden, require_numbers
from holdfast.assess.injection import Injection, injected
from holdfast.assess.keyed_seqs import Floats, Ints
from holdfast.assess.operator_shape import window_epochs
from holdfast.assess.outcome import NOISE, TrialOutcome
from holdfast.assess.output_score import parts_of
from holdfast.assess.slots import AFTER, BEFORE, COUNTED, SlotCode
from holdfast.engine.operator_call import naming_failed_operator
from holdfast.engine.schema import to_frame
from holdfast.engine.whole_trace import build_whole_trace

ROWS = 2_000_000
"""The largest number of rows in one job, over all its slots. It bounds memory."""
MAX_SLOTS = 400
WIDEST = 1 << 51
"""Bound on the codes of all slots. With phase and jitter they fit into a long, and Spark still divides them exactly."""
INTEGERS = {"bigint": 1 << 62, "int": 1 << 30, "smallint": 1 << 14}


@dataclass(frozen=True)
class Slot:
    """A trial in a shared job: its injection, how far the fault reaches, the seed of its golden run, and its number of rows."""

    injection: Injection
    reach: Reach
    seed: int
    rows: int


class BatchedRunner:
    """Runs trials with the same fault path in one Spark job, on golden streams that the context caches."""

    def __init__(self, context: CampaignContext, golden_index: GoldenIndex) -> None:
        assert isinstance(context.trace_key, TraceKey)
        self._context, self._index, self._key = context, golden_index, context.trace_key
        self._code = SlotCode.over(int(context.rows.seq[0]), int(context.rows.seq[-1]) + 4 * context.jitter)

    def slot(self, fault_path: FaultPath, injection: Injection, seed: int) -> Slot:
        """Return the slot for a trial."""
        reach = reach_of(self._index, fault_path, injection.first, injection.last, sink=self._context.sink)
        counts = [self._index.seqs[stream].counts(reach.keys, *need).sum() for stream, need in reach.needs.items()]
        return Slot(injection, reach, seed, int(sum(counts)))

    def run(self, fault_path: FaultPath, slots: Sequence[Slot], golden: Mapping[int, Golden]) -> list[TrialOutcome]:
        """Run several trials with the same fault path in one Spark job, and return their outcomes."""
        parts = parts_of(self._context.scores)
        sections, values = self._faulty(fault_path, slots, parts)
        outcomes = []
        for number, slot in enumerate(slots):
            outputs = golden[slot.seed].outputs
            assert outputs is not None
            mine = sections["slot"] == number
            outcomes.append(
                _difference(
                    sections["section"][mine],
                    {part: values[part][mine] for part in parts},
                    *outputs.within(slot.reach, self._context.sections),
                )
            )
        return outcomes

    def _faulty(
        self, fault_path: FaultPath, slots: Sequence[Slot], parts: Sequence[str]
    ) -> tuple[dict[str, Ints], dict[str, Floats]]:
        code, context = self._code, self._context
        plan = subgraph(context.graph, fault_path.operators, fault_path.inputs, context.sink)
        plan = _slot_epochs(plan, context.epochs, self._epoch_span)
        plan = jittered(plan, bound=context.jitter, seeds=[slot.seed for slot in slots], code=code)
        plan = injected(plan, [slot.injection for slot in slots], code=code, edges=fault_path.edges)
        sources = {stream: self._in_slots(stream, slots) for stream in fault_path.inputs}
        output = build_whole_trace(plan, sources)[plan.predecessors(context.sink)[0]]
        seq = F.col("seq")
        places = (code.slot(seq).alias("slot"), context.sections.column(code.seq(seq)).alias("section"))
        sums = [F.expr(f"cast({part} as double)").alias(f"p{n}") for n, part in enumerate(parts)]
        with naming_failed_operator(context.graph, f"a batch of {len(slots)} trials"):
            table = output.where(code.phase(seq) == COUNTED).groupBy(*places).agg(*sums).toArrow()
        columns = {name: table[name].to_numpy().astype(np.int64) for name in ("slot", "section")}
        values = {part: pc.fill_null(table[f"p{n}"], 0.0).to_numpy() for n, part in enumerate(parts)}
        for part, sums in values.items():
            require_numbers(context, part, columns["section"], sums)
        return columns, values

    @property
    def _epoch_span(self) -> int:
        first, last = self._context.epochs
        return last - first + 2 + sum(window_epochs(operator) for operator in self._context.graph.operators)

    def _in_slots(self, stream: str, slots: Sequence[Slot]) -> DataFrame:
        """Return the rows of a golden stream, once for each slot that needs them, with the slot encoded.

        Trials that inject at the same seq have similar reaches. So the join compares a row first with the joint range of all
        trials at that seq, and then with the range of each outage. Repetitions share a range.
        """
        key, golden = self._key.column, self._context.frame(stream)
        ranges = to_frame(self._context.spark, self._needs(stream, slots))
        bounds = ranges.groupBy("_key", "_place").agg(F.min("_start").alias("_low"), F.max("_stop").alias("_high"))
        reached = golden.join(
            F.broadcast(bounds), (F.col(key) == F.col("_key")) & F.col("seq").between(F.col("_low"), F.col("_high"))
        )
        reached = reached.withColumnsRenamed({"_key": "_reached", "_place": "_at"})
        slotted = reached.join(
            F.broadcast(ranges),
            (F.col("_reached") == F.col("_key"))
            & (F.col("_at") == F.col("_place"))
            & F.col("seq").between(F.col("_start"), F.col("_stop")),
        ).withColumn("_slot", F.explode("_slots"))
        slot = F.col("_slot")
        phase = (
            F.when(F.col("seq") < F.col("_first"), F.lit(BEFORE))
            .when(F.col("seq") <= F.col("_last"), F.lit(COUNTED))
            .otherwise(F.lit(AFTER))
        )
        columns = []
        for field in golden.schema:
            column: Column = F.col(field.name)
            if field.name == "seq":
                column = self._code.code(column, slot, phase)
            elif field.name == "epoch":
                column = column + slot * F.lit(self._epoch_span)
            elif field.name in self._key.marked:
                column = self._marked(field.name, field.dataType, slot)
            columns.append(column.alias(field.name))
        return slotted.select(*columns)

    def _needs(self, stream: str, slots: Sequence[Slot]) -> pa.Table:
        values = self._context.rows.values[self._key.column]
        together: dict[int, list[int]] = {}
        for number, slot in enumerate(slots):
            together.setdefault(id(slot.reach), []).append(number)
        tables = []
        for numbers in together.values():
            slot = slots[numbers[0]]
            start, stop = slot.reach.needs[stream]
            count = len(start)
            tables.append(
                pa.table(
                    {
                        "_slots": pa.array([numbers] * count, pa.list_(pa.int32())),
                        "_place": pa.array(np.full(count, slot.injection.first, np.int64)),
                        "_key": values.take(pa.array(slot.reach.keys)),
                        "_start": pa.array(start),
                        "_stop": pa.array(stop),
                        "_first": pa.array(slot.reach.first),
                        "_last": pa.array(slot.reach.last),
                    }
                )
            )
        return pa.concat_tables(tables).combine_chunks()

    def _marked(self, name: str, kind: DataType, slot: Column) -> Column:
        """Return a key column that is distinct per slot, and within a slot distinct as before."""
        if kind.simpleString() == "string":
            return F.concat(F.col(name), F.lit("\x1f"), slot.cast("string"))
        values = self._context.rows.values[name].to_numpy(zero_copy_only=False)
        stride = int(values.max()) - int(values.min()) + 1
        return (F.col(name) + slot.cast("long") * F.lit(stride)).cast(kind)


def obstacle(context: CampaignContext, fault_path: FaultPath) -> str | None:
    """Return why trials with this fault path cannot share a job, or None if they can."""
    trace_key = context.trace_key
    if isinstance(trace_key, str):
        return trace_key
    first, span = context.span
    if span * (MAX_SLOTS + 1) >= WIDEST:
        return f"its seqs, from {first:,} to {first + span - 1:,}, cover too wide a range to encode the number of a trial as well"
    other = [score.expression for score in context.scores if not score.additive]
    if other:
        return f"the score '{other[0]}' is not a sum, count or average, so it cannot be computed from the rows that differ"
    for stream in fault_path.inputs:
        if reason := _stream_obstacle(context, trace_key, stream):
            return reason
    return None if context.deterministic else _order_obstacle(context.graph, fault_path)


def _order_obstacle(graph: Graph, fault_path: FaultPath) -> str | None:
    """Return an error if a golden stream that the trials read differs from run to run."""
    unstable = [operator.name for operator in graph.operators if _order_feeds(graph, operator, fault_path)]
    if not unstable:
        return None
    return (
        f"operator '{unstable[0]}' reads streams whose arrival order varies from run to run, so its output does too, and trials "
        "that inject after it have no common rows to start from (with --jitter 0 the order is always the same, and "
        "they share jobs)"
    )


def _order_feeds(graph: Graph, operator: Operator, fault_path: FaultPath) -> bool:
    """Return whether an operator's dependence on arrival order reaches a golden stream that the trials read."""
    return order_sensitive(operator) and any(
        stream == operator.name or operator.name in graph.upstream(stream) for stream in fault_path.inputs
    )


def _stream_obstacle(context: CampaignContext, trace_key: TraceKey, stream: str) -> str | None:
    fields = {field.name: field.dataType.simpleString() for field in context.schemas[stream]}
    if trace_key.column not in fields:
        return f"stream '{stream}' does not carry the column '{trace_key.column}'"
    groups = context.groups(name for name in context.graph.downstream(stream) if name in context.shapes)
    for group in groups:
        if not any(name in fields and name in trace_key.marked for name in group):
            return f"stream '{stream}' does not carry {', '.join(group)}, by which later operators group rows"
    for name in trace_key.marked:
        if name not in fields or fields[name] == "string":
            continue
        if fields[name] not in INTEGERS:
            return f"the key '{name}' is a {fields[name]}; only text and whole numbers can carry a slot"
        values = context.rows.values[name].to_numpy(zero_copy_only=False)
        if (int(values.max()) - int(values.min()) + 1) * (MAX_SLOTS + 1) + abs(int(values.max())) >= INTEGERS[fields[name]]:
            return f"the values of the key '{name}' leave no room for slots in a {fields[name]}"
    return None


def _difference(
    faulty_sections: Ints, faulty: Mapping[str, Floats], golden_sections: Ints, golden: Mapping[str, Floats]
) -> TrialOutcome:
    """Return the outcome of a trial, given the score parts of the sections with affected rows in both runs."""
    sections = np.union1d(faulty_sections, golden_sections)
    differences = {}
    differs = np.zeros(len(sections), bool)
    for part in golden:
        new, old = np.zeros(len(sections)), np.zeros(len(sections))
        new[np.searchsorted(sections, faulty_sections)] = faulty[part]
        old[np.searchsorted(sections, golden_sections)] = golden[part]
        differences[part] = np.where(np.abs(new - old) <= NOISE * (np.abs(new) + np.abs(old)), 0.0, new - old)
        differs |= differences[part] != 0.0
    return TrialOutcome(sections[differs], {part: values[differs] for part, values in differences.items()})


def _slot_epochs(graph: Graph, epochs: tuple[int, int], span: int) -> Graph:
    """Return the graph without the output of windowed operators for epochs outside the trace, in each slot."""
    first, last = epochs

    def limit(function: Callable[..., Any]) -> Callable[..., Any]:
        within = F.pmod(F.col("epoch") - F.lit(first), F.lit(span)) <= F.lit(last - first)
        return lambda *inputs: function(*inputs).where(within)

    nodes = {
        name: replace(node, function=limit(node.function)) if isinstance(node, Operator) and node.windowed else node
        for name, node in graph.nodes.items()
    }
    return Graph(nodes, graph.order)
