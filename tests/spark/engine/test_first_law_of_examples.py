"""The first law: a whole trace as one plan gives, row for row, what it gives epoch by epoch, wherever it is cut."""

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import Window
from pyspark.sql import functions as F

from holdfast.app import App, last_epochs, last_rows, state_table
from holdfast.app.load import load_app
from holdfast.engine.epochs import join_spans
from holdfast.engine.row_comparison import first_difference
from holdfast.engine.trace_reader import open_trace
from holdfast.errors import ApplicationError
from holdfast.trace import write_market, write_servers
from holdfast_papers.ppa.page_trace import write_pages
from holdfast_papers.ppa.traffic_trace import write_traffic

EXAMPLES = Path(__file__).parents[3] / "examples"


def slow_traffic(path: Path) -> None:
    """Generated traffic in which every other segment is jammed."""
    write_traffic(path, events=500, seed=1, users=40, segments=4, rate=8.0, every_s=4.0)
    table = pq.read_table(path / "locations.parquet")
    jammed = pc.equal(pc.bit_wise_and(table["segment"], pa.scalar(1, pa.int32())), 0)
    speed = pc.if_else(jammed, pc.multiply(table["speed"], 0.1), table["speed"])
    place = table.column_names.index("speed")
    pq.write_table(table.set_column(place, table.schema.field(place), speed), path / "locations.parquet")


WRITE = {
    "bargain_discovery": lambda path: write_market(path, events=400, seed=1, tickers=4, rate=50.0, peak=100.0),
    "top_pages": lambda path: write_pages(path, events=1500, seed=1, servers=2, pages=40, rate=50.0, peak=100.0),
    "traffic_incidents": slow_traffic,
    "datacenter_monitor": lambda path: write_servers(path, events=240, seed=1, servers=6, rack_size=3),
}


@pytest.fixture(scope="module")
def samples(spark, tmp_path_factory):
    """Every example application with the rows of a small generated trace, each made when it is first asked for."""
    folder, files = tmp_path_factory.mktemp("traces"), {}

    def sample(name):
        if name not in files:
            app = load_app(EXAMPLES / f"{name}.py")
            path = folder / (name if name == "traffic_incidents" else f"{name}.parquet")
            WRITE[name](path)
            files[name] = (
                app.graph(),
                {source: rows.toArrow() for source, rows in open_trace(spark, app.graph(), str(path)).items()},
            )
        return files[name]

    return sample


@st.composite
def cuts(draw, last: int, most: int = 2):
    """Where epochs end: anywhere, and always an epoch of one seq and, beside it, one of none."""
    somewhere = draw(st.lists(st.integers(1, last), max_size=most))
    at = draw(st.integers(1, last - 2))
    return sorted([*somewhere, at, at, at + 1])


def assert_same(wanted, got, why):
    assert wanted.keys() == got.keys()
    for name, table in wanted.items():
        difference = first_difference(table, got[name])
        assert difference is None, f"{name} {why}: {difference}"


@pytest.mark.parametrize("name", WRITE)
@settings(max_examples=2)
@given(data=st.data())
def test_examples_obey_fused_or_not(both, tools, samples, name, data):
    graph, tables = samples(name)
    last = max(pc.max(table["seq"]).as_py() for table in tables.values())
    tables, spans = tools.cut(tables, data.draw(cuts(last)))
    whole = both.whole(graph, tables, spans)
    assert all(table.num_rows > 0 for table in whole.values()), "a law about no rows says nothing"
    operators = [operator.name for operator in graph.operators]
    assert_same(whole, both.by_epoch(graph, tables, spans, [operators]), "fused")
    assert_same(whole, both.by_epoch(graph, tables, spans, [[name] for name in operators]), "operator by operator")


@pytest.mark.parametrize("name", ["traffic_incidents", "bargain_discovery"])
def test_several_epochs_in_one_job_equal_single_epochs(both, tools, samples, name):
    graph, tables = samples(name)
    tables, spans = tools.cut(tables, [30, 90, 90, 140, 260, 261, 300])
    whole = both.whole(graph, tables, spans)
    joined = [spans[0], join_spans(spans[1:5]), join_spans(spans[5:])]
    everything = [[operator.name for operator in graph.operators]]
    assert_same(whole, both.by_epoch(graph, tables, joined, everything), "in three jobs")
    assert_same(whole, both.by_epoch(graph, tables, joined, everything, executors=True), "in three jobs of executors")


IN_ORDER = ("epoch", "seq")
COLUMNS = ("seq", "epoch", "k", "x")


def keep_some(rows):
    return rows.where("pmod(cast(x as long), 3) != 1").select(*COLUMNS)


def project(rows):
    return rows.select("seq", "epoch", "k", (F.col("x") * 2 + 1).alias("x"))


def running_sum(rows, totals):
    so_far = Window.partitionBy("k").orderBy(*IN_ORDER).rangeBetween(Window.unboundedPreceding, 0)
    output = rows.join(totals, "k", "left").select(
        "seq", "epoch", "k", (F.coalesce("total", F.lit(0.0)) + F.sum("x").over(so_far)).alias("x")
    )
    after = rows.select("k", F.col("x").alias("total")).unionByName(totals).groupBy("k").agg(F.sum("total").alias("total"))
    return output, after


def moving_average(rows):
    recent = Window.partitionBy("k").orderBy(*IN_ORDER, "x").rowsBetween(-3, 0)
    return rows.select("seq", "epoch", "k", F.avg("x").over(recent).alias("x"))


def window_counts(rows):
    spread = rows.withColumn("epoch", F.explode(F.expr("sequence(epoch, epoch + 2)")))
    return spread.groupBy("epoch", "k").agg(F.max("seq").alias("seq"), F.count("*").cast("double").alias("x")).select(*COLUMNS)


def union(one, other):
    return one.unionByName(other)


def latest(rows, values):
    so_far = Window.partitionBy("k").orderBy(*IN_ORDER).rangeBetween(Window.unboundedPreceding, 0)
    value = F.when(F.col("is_value"), F.struct(*IN_ORDER, "x"))
    return (
        rows.withColumn("is_value", F.lit(False))
        .unionByName(values.withColumn("is_value", F.lit(True)))
        .withColumn("newest", F.max(value).over(so_far))
        .where("not is_value and newest is not null")
        .select("seq", "epoch", "k", (F.col("x") - F.col("newest.x")).alias("x"))
    )


LIBRARY = {
    "keep_some": (keep_some, 1, None),
    "project": (project, 1, None),
    "running_sum": (running_sum, 1, state_table("k int, total double", by="k")),
    "moving_average": (moving_average, 1, last_rows(3, by="k")),
    "window_counts": (window_counts, 1, last_epochs(2)),
    "union": (union, 2, None),
    "latest": (latest, 2, {1: last_rows(1, by="k")}),
}


@st.composite
def applications(draw) -> App:
    """A random graph of the library's operators over one or two sources, each stream read by any number, fused at random."""
    shape = []
    streams = ["s0", "s1"][: draw(st.integers(1, 2))]
    sources = list(streams)
    for number in range(draw(st.integers(2, 5))):
        kind = draw(st.sampled_from(sorted(kind for kind, (_, arity, _) in LIBRARY.items() if arity <= len(streams))))
        inputs = draw(st.permutations(streams))[: LIBRARY[kind][1]]
        shape.append((f"{kind}{number}", kind, inputs, draw(st.sampled_from([None, "p", "q"]))))
        streams.append(f"{kind}{number}")
    for fused in (True, False):
        app = composed(sources, shape, fused=fused)
        try:
            app.graph()
        except ApplicationError as error:
            assert "PE" in str(error)
        else:
            return app
    raise AssertionError("a graph without fusion is always sound")


def composed(sources, shape, *, fused: bool) -> App:
    app = App("random")
    for source in sources:
        app.source(source, "seq long, k int, x double")
    for name, kind, inputs, pe in shape:
        function, _, keep = LIBRARY[kind]
        rules = {inputs[place]: rule for place, rule in keep.items()} if isinstance(keep, dict) else keep
        app.operator(inputs=inputs, keep=rules, name=name, pe=pe if fused else None)(function)
    read = {stream for _, _, inputs, _ in shape for stream in inputs}
    for stream in [*sources, *(name for name, *_ in shape)]:
        if stream not in read:
            app.sink(f"{stream}_out", stream)
    return app


ROWS = 40


@settings(max_examples=6)
@given(app=applications(), bounds=cuts(ROWS), rng=st.randoms(use_true_random=False))
def test_random_graphs_obey_for_any_epochs_and_fusion(both, tools, app, bounds, rng):
    graph = app.graph()
    rows = [(seq, rng.randrange(3), float(rng.randrange(20)), rng.choice(graph.sources).name) for seq in range(1, ROWS + 1)]
    tables = {
        source.name: pa.table(
            [[row[i] for row in rows if row[3] == source.name] for i in range(3)],
            pa.schema([("seq", pa.int64()), ("k", pa.int32()), ("x", pa.float64())]),
        )
        for source in graph.sources
    }
    tables, spans = tools.cut(tables, bounds)
    whole = both.whole(graph, tables, spans)
    assert any(table.num_rows for table in whole.values())
    assert_same(whole, both.by_epoch(graph, tables, spans, graph.pes.values()), f"by PEs {graph.pes}")
    middle = rng.randrange(1, len(spans))
    everything = [[operator.name for operator in graph.operators]]
    two_jobs = [join_spans(spans[:middle]), join_spans(spans[middle:])]
    assert_same(whole, both.by_epoch(graph, tables, two_jobs, everything), f"as two jobs, cut at {middle}")
    assert_same(whole, both.by_epoch(graph, tables, two_jobs, everything, executors=True), f"by executors, cut at {middle}")


def test_stateful_operators_of_the_library_need_their_state(both, tools):
    """A law that holds with nothing kept would be no test of keeping."""
    rows = {"s": pa.table({"seq": range(1, 13), "k": pa.array([1] * 12, pa.int32()), "x": [float(n) for n in range(12)]})}
    tables, spans = tools.cut(rows, [4, 8])
    for kind in ("moving_average", "window_counts"):
        app = tools.simple(**{kind: LIBRARY[kind][0]})
        whole = both.whole(app.graph(), tables, spans)
        forgetful = both.by_epoch(app.graph(), tables, spans, [[kind]])
        assert first_difference(whole[kind], forgetful[kind]) is not None
