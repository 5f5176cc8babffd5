"""holdfast demo: Bargain Discovery on a generated market, told for a newcomer."""

import tempfile
from datetime import datetime, timedelta
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

import click

from holdfast.cli.shared import json_option, print_json, say, spark_options, spark_session
from holdfast.errors import HoldfastError
from holdfast.model.load import load_app

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

APPLICATION = "bargain_discovery.py"


@click.command()
@click.option("--events", default=300_000, show_default=True, help="How many trades and quotes to generate.")
@click.option("--seed", default=1, show_default=True, help="Seed of the generated market.")
@spark_options
@json_option
def demo(events: int, seed: int, master: str, memory: str, as_json: bool) -> None:
    """Run Bargain Discovery on Spark over a generated market and show what it found.

    \b
    Example:
      holdfast demo
    """
    if events < 10_000:
        raise HoldfastError(f"the demo needs at least 10,000 events to have something to show, got {events}")
    from pyspark.sql import functions as F

    from holdfast.execute.batch import run_batch
    from holdfast.execute.compare import first_difference
    from holdfast.execute.cut import ByTime, with_epochs
    from holdfast.execute.replay import replay_by_epoch, replay_whole
    from holdfast.execute.trace import open_trace
    from holdfast.trace import write_market

    app = load_app(example())
    graph = app.graph()
    cut = ByTime(app.epoch_s)
    with tempfile.TemporaryDirectory(prefix="holdfast-demo-") as folder, spark_session(master, memory, name="demo") as spark:
        market = Path(folder) / "market.parquet"
        say(f"generating {events:,} trades and quotes ...")
        write_market(market, events=events, seed=seed)
        sources = open_trace(spark, graph, str(market))
        say("looking for bargains in the whole trace, as one Spark plan ...")
        whole = replay_whole(spark, app, sources, cut=cut)
        best = (
            run_batch(graph, with_epochs(sources, cut))["bargain_index"]
            .groupBy("ticker")
            .agg(F.count("*").alias("bargains"), F.sum("gain").alias("gain"))
            .orderBy(F.desc("gain"), "ticker")
            .limit(5)
            .collect()
        )
        say("and now the way a stream arrives, second by second: 20 epochs of it ...")
        start = sources["market"].where(F.col("time") < F.lit(_after(sources["market"], seconds=20)))
        slow = replay_by_epoch(spark, app, {"market": start}, cut=cut, epoch_s=app.epoch_s, out=Path(folder) / "epochs")
        replay_whole(spark, app, {"market": start}, cut=cut, out=Path(folder) / "whole")
        apart = first_difference(
            spark.read.parquet(f"{folder}/whole/bargains.parquet").toArrow(),
            spark.read.parquet(f"{folder}/epochs/bargains.parquet").toArrow(),
        )
    if as_json:
        print_json(
            {
                "events": whole.events,
                "bargains": whole.rows["bargains"],
                "gain": whole.scores["sum(gain) of bargains"],
                "seconds": whole.seconds,
                "best": [row.asDict() for row in best],
                "epochs": slow.epochs,
                "same_by_epoch": apart is None,
            }
        )
        return
    gain = whole.scores["sum(gain) of bargains"] or 0.0
    click.echo(f"""
Bargain Discovery read {whole.events:,} trades and quotes in {whole.seconds:.1f} s. Of the quotes,
{whole.rows["bargains"]:,} asked less than the stock's average price over its last five trades;
buying them all would have gained {gain:,.2f}. The best tickers:
""")
    for row in best:
        click.echo(f"  {row['ticker']:<8} {row['bargains']:>7,} bargains  {row['gain']:>14,.2f}")
    verdict = "gave exactly the same rows" if apart is None else f"DIFFERED, first at seq {apart.seq}"
    click.echo(f"""
The same functions, run on {slow.epochs} one-second epochs with only the rows they must remember
between them, {verdict} (median {1000 * (slow.median_epoch_s or 0):.0f} ms per epoch).
That equality is what lets holdfast checkpoint, replicate and replay any part of an application.

Next:  holdfast assess --help     which operators matter, by injecting faults
       holdfast plan --help       which replicas are worth their price""")
    if apart is not None:
        raise HoldfastError(f"the first law was broken at seq {apart.seq}; please report it with the seed {seed}")


def _after(rows: "DataFrame", *, seconds: int) -> datetime:
    """The time so many seconds after the second in which the rows begin."""
    from pyspark.sql import functions as F

    first = rows.agg(F.date_trunc("second", F.min("time")).alias("first")).collect()[0]["first"]
    assert isinstance(first, datetime)
    return first + timedelta(seconds=seconds)


def example() -> Path:
    """The example application, from the checkout this runs in or from the installed package."""
    here = Path(__file__).parents[3] / "examples" / APPLICATION
    return here if here.is_file() else Path(str(files("holdfast") / "examples" / APPLICATION))
