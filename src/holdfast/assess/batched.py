"""Many trials in one Spark job: only the rows that a fault can reach, each trial in a lane of its own.

Of every golden stream that the changed operators read, a trial takes the rows of the keys it reaches, from as far back as
operators remember until they remember right again (reach.py). Trials share a plan: seq, epoch and key columns carry the
trial's lane, so that windows, groups and joins keep trials apart. The operators' own functions then run as they are, provided
that they take keys, epochs and seqs for what they are: names, and an order. verify.py puts that to the test.
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
from holdfast.assess.campaign_context import CampaignContext, Keying, part_of
from holdfast.assess.fault_reach import FaultPath, GoldenIndex, Reach, reach_of
from holdfast.assess.golden_runs import Golden, require_numbers
from holdfast.assess.injection import Strike, injected
from holdfast.assess.keyed_seqs import Floats, Ints
from holdfast.assess.lanes import AFTER, BEFORE, COUNTED, Lanes
from holdfast.assess.operator_shape import window_epochs
from holdfast.assess.outcome import NOISE, TrialOutcome
from holdfast.assess.output_score import parts_of
from holdfast.engine.operator_call import running
from holdfast.engine.schema import to_frame
from holdfast.engine.whole_trace import run_batch

ROWS = 2_000_000
"""Rows of one job, over all its lanes: what bounds memory however many trials there are."""
LANES = 400
WIDEST = 1 << 51
"""Seqs of all lanes together: with phase and displacement they fit a long, and without these Spark divides them exactly."""
INTEGERS = {"bigint": 1 << 62, "int": 1 << 30, "smallint": 1 << 14}


@dataclass(frozen=True)
class Lane:
    """A trial to be run: where it strikes, how far it reaches, and from which golden run it is told."""

    strike: Strike
    reach: Reach
    seed: int
    rows: int


class FastWay:
    """Runs trials of a course together, on golden streams that the setting holds."""

    def __init__(self, setting: CampaignContext, ground: GoldenIndex) -> None:
        assert isinstance(setting.keying, Keying)
        self._setting, self._ground, self._keying = setting, ground, setting.keying
        self._lanes = Lanes.over(int(setting.rows.seq[0]), int(setting.rows.seq[-1]) + 4 * setting.jitter)

    def lane(self, course: FaultPath, strike: Strike, seed: int) -> Lane:
        """A trial with its reach."""
        reach = reach_of(self._ground, course, strike.first, strike.last, sink=self._setting.sink)
        counts = [self._ground.seqs[stream].counts(reach.keys, *need).sum() for stream, need in reach.needs.items()]
        return Lane(strike, reach, seed, int(sum(counts)))

    def run(self, course: FaultPath, lanes: Sequence[Lane], golden: Mapping[int, Golden]) -> list[TrialOutcome]:
        """The outcomes of several trials on one course, by one Spark job."""
        parts = parts_of(self._setting.scores)
        sections, values = self._faulty(course, lanes, parts)
        outcomes = []
        for number, lane in enumerate(lanes):
            outputs = golden[lane.seed].outputs
            assert outputs is not None
            mine = sections["lane"] == number
            outcomes.append(
                _difference(
                    sections["section"][mine],
                    {part: values[part][mine] for part in parts},
                    *outputs.within(lane.reach, self._setting.cut),
                )
            )
        return outcomes

    def _faulty(self, course: FaultPath, lanes: Sequence[Lane], parts: Sequence[str]) -> tuple[dict[str, Ints], dict[str, Floats]]:
        code, setting = self._lanes, self._setting
        plan = part_of(setting.graph, course.operators, course.cut, setting.sink)
        plan = _lane_epochs(plan, setting.epochs, self._epoch_span)
        plan = jittered(plan, bound=setting.jitter, seeds=[lane.seed for lane in lanes], code=code)
        plan = injected(plan, [lane.strike for lane in lanes], code=code, edges=course.edges)
        sources = {stream: self._in_lanes(stream, lanes) for stream in course.cut}
        output = run_batch(plan, sources)[plan.predecessors(setting.sink)[0]]
        seq = F.col("seq")
        places = (code.lane(seq).alias("lane"), setting.cut.column(code.seq(seq)).alias("section"))
        sums = [F.expr(f"cast({part} as double)").alias(f"p{n}") for n, part in enumerate(parts)]
        with running(setting.graph, f"a batch of {len(lanes)} trials"):
            table = output.where(code.phase(seq) == COUNTED).groupBy(*places).agg(*sums).toArrow()
        columns = {name: table[name].to_numpy().astype(np.int64) for name in ("lane", "section")}
        values = {part: pc.fill_null(table[f"p{n}"], 0.0).to_numpy() for n, part in enumerate(parts)}
        for part, sums in values.items():
            require_numbers(setting, part, columns["section"], sums)
        return columns, values

    @property
    def _epoch_span(self) -> int:
        first, last = self._setting.epochs
        return last - first + 2 + sum(window_epochs(operator) for operator in self._setting.graph.operators)

    def _in_lanes(self, stream: str, lanes: Sequence[Lane]) -> DataFrame:
        """The rows of a golden stream that any lane needs, once for each lane that does.

        Lanes that strike at the same place reach alike: a row is first held against the reach of each such place, and only
        then against that of each outage there; repetitions take the row together.
        """
        key, golden = self._keying.column, self._setting.frame(stream)
        ranges = to_frame(self._setting.spark, self._needs(stream, lanes))
        bounds = ranges.groupBy("_key", "_place").agg(F.min("_start").alias("_low"), F.max("_stop").alias("_high"))
        reached = golden.join(
            F.broadcast(bounds), (F.col(key) == F.col("_key")) & F.col("seq").between(F.col("_low"), F.col("_high"))
        )
        reached = reached.withColumnsRenamed({"_key": "_reached", "_place": "_at"})
        laned = reached.join(
            F.broadcast(ranges),
            (F.col("_reached") == F.col("_key"))
            & (F.col("_at") == F.col("_place"))
            & F.col("seq").between(F.col("_start"), F.col("_stop")),
        ).withColumn("_lane", F.explode("_lanes"))
        lane = F.col("_lane")
        phase = (
            F.when(F.col("seq") < F.col("_first"), F.lit(BEFORE))
            .when(F.col("seq") <= F.col("_last"), F.lit(COUNTED))
            .otherwise(F.lit(AFTER))
        )
        columns = []
        for field in golden.schema:
            column: Column = F.col(field.name)
            if field.name == "seq":
                column = self._lanes.code(column, lane, phase)
            elif field.name == "epoch":
                column = column + lane * F.lit(self._epoch_span)
            elif field.name in self._keying.marked:
                column = self._marked(field.name, field.dataType, lane)
            columns.append(column.alias(field.name))
        return laned.select(*columns)

    def _needs(self, stream: str, lanes: Sequence[Lane]) -> pa.Table:
        values = self._setting.rows.values[self._keying.column]
        together: dict[int, list[int]] = {}
        for number, lane in enumerate(lanes):
            together.setdefault(id(lane.reach), []).append(number)
        tables = []
        for numbers in together.values():
            lane = lanes[numbers[0]]
            start, stop = lane.reach.needs[stream]
            count = len(start)
            tables.append(
                pa.table(
                    {
                        "_lanes": pa.array([numbers] * count, pa.list_(pa.int32())),
                        "_place": pa.array(np.full(count, lane.strike.first, np.int64)),
                        "_key": values.take(pa.array(lane.reach.keys)),
                        "_start": pa.array(start),
                        "_stop": pa.array(stop),
                        "_first": pa.array(lane.reach.first),
                        "_last": pa.array(lane.reach.last),
                    }
                )
            )
        return pa.concat_tables(tables).combine_chunks()

    def _marked(self, name: str, kind: DataType, lane: Column) -> Column:
        """A key column that differs from lane to lane and within a lane only where it did."""
        if kind.simpleString() == "string":
            return F.concat(F.col(name), F.lit("\x1f"), lane.cast("string"))
        values = self._setting.rows.values[name].to_numpy(zero_copy_only=False)
        stride = int(values.max()) - int(values.min()) + 1
        return (F.col(name) + lane.cast("long") * F.lit(stride)).cast(kind)


def obstacle(setting: CampaignContext, course: FaultPath) -> str | None:
    """Why trials of this course cannot share a job, or None where they can."""
    keying = setting.keying
    if isinstance(keying, str):
        return keying
    first, span = setting.span
    if span * (LANES + 1) >= WIDEST:
        return f"its seqs, from {first:,} to {first + span - 1:,}, are too far apart to carry the number of a trial too"
    other = [score.expression for score in setting.scores if not score.additive]
    if other:
        return f"the score '{other[0]}' is no sum, count or average, so it cannot be told from the rows that differ"
    for stream in course.cut:
        error = _stream_obstacle(setting, keying, stream)
        if error:
            return error
    return None if setting.deterministic else _order_obstacle(setting.graph, course)


def _order_obstacle(graph: Graph, course: FaultPath) -> str | None:
    """That trials would take up a golden stream which differs from run to run; the last obstacle, so that it is the only one."""
    unstable = [operator.name for operator in graph.operators if _order_feeds(graph, operator, course)]
    if not unstable:
        return None
    return (
        f"operator '{unstable[0]}' reads streams whose arrival order varies from run to run, so its output does too, and trials "
        "that strike after it have no common rows to begin with (with --jitter 0 the order is always the same, and they share jobs)"
    )


def _order_feeds(graph: Graph, operator: Operator, course: FaultPath) -> bool:
    """Whether what an operator makes of the arrival order reaches a stream that trials read from golden."""
    return order_sensitive(operator) and any(
        stream == operator.name or operator.name in graph.upstream(stream) for stream in course.cut
    )


def _stream_obstacle(setting: CampaignContext, keying: Keying, stream: str) -> str | None:
    fields = {field.name: field.dataType.simpleString() for field in setting.schemas[stream]}
    if keying.column not in fields:
        return f"stream '{stream}' does not carry the column '{keying.column}'"
    groups = setting.groups(name for name in setting.graph.downstream(stream) if name in setting.shapes)
    for group in groups:
        here = [name for name in group if name in fields and name in keying.marked]
        if not here:
            return f"stream '{stream}' does not carry {', '.join(group)}, by which later operators take rows together"
    for name in keying.marked:
        if name not in fields or fields[name] == "string":
            continue
        if fields[name] not in INTEGERS:
            return f"the key '{name}' is a {fields[name]}; only text and whole numbers can carry a lane"
        values = setting.rows.values[name].to_numpy(zero_copy_only=False)
        if (int(values.max()) - int(values.min()) + 1) * (LANES + 1) + abs(int(values.max())) >= INTEGERS[fields[name]]:
            return f"the values of the key '{name}' leave no room for lanes in a {fields[name]}"
    return None


def _difference(there: Ints, faulty: Mapping[str, Floats], golden_there: Ints, golden: Mapping[str, Floats]) -> TrialOutcome:
    sections = np.union1d(there, golden_there)
    differences = {}
    differs = np.zeros(len(sections), bool)
    for part in golden:
        now, then = np.zeros(len(sections)), np.zeros(len(sections))
        now[np.searchsorted(sections, there)] = faulty[part]
        then[np.searchsorted(sections, golden_there)] = golden[part]
        apart = np.where(np.abs(now - then) <= NOISE * (np.abs(now) + np.abs(then)), 0.0, now - then)
        differences[part] = apart
        differs |= apart != 0.0
    return TrialOutcome(sections[differs], {part: values[differs] for part, values in differences.items()})


def _lane_epochs(graph: Graph, epochs: tuple[int, int], span: int) -> Graph:
    """The same, with what windowed operators make for epochs outside the trace left out, lane by lane."""
    first, last = epochs

    def cut(function: Callable[..., Any]) -> Callable[..., Any]:
        within = F.pmod(F.col("epoch") - F.lit(first), F.lit(span)) <= F.lit(last - first)
        return lambda *inputs: function(*inputs).where(within)

    nodes = {
        name: replace(node, function=cut(node.function)) if isinstance(node, Operator) and node.windowed else node
        for name, node in graph.nodes.items()
    }
    return Graph(nodes, graph.order)
