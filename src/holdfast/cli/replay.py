"""holdfast replay: run an application over a recorded trace."""

from dataclasses import asdict
from pathlib import Path

import click

from holdfast.app.load import load_app
from holdfast.cli.shared import (
    application_argument,
    atomic_folder,
    columns_option,
    json_option,
    spark_options,
    spark_session,
)
from holdfast.documents.column_mapping import read_columns
from holdfast.errors import HoldfastError
from holdfast.terminal import print_json, progress_bar, say


@click.command()
@application_argument
@click.option("--trace", required=True, type=click.Path(), help="The trace: a file, or a folder with one file per source.")
@columns_option
@click.option("--by-epoch", "epoch_s", type=float, metavar="SECONDS", help="Run it epoch by epoch, with epochs of this length.")
@click.option("--epoch-rows", type=int, metavar="ROWS", help="Run it epoch by epoch, with epochs of this many seqs.")
@click.option("--unfused", is_flag=True, help="With epochs: run each PE as a Spark job of its own.")
@click.option("--out", type=click.Path(path_type=Path), help="Folder to write the rows of the sinks to, as Parquet.")
@click.option("--force", is_flag=True, help="Replace an earlier result at --out.")
@spark_options
@json_option
def replay(
    application: str,
    trace: str,
    columns: Path | None,
    epoch_s: float | None,
    epoch_rows: int | None,
    unfused: bool,
    out: Path | None,
    force: bool,
    master: str,
    memory: str,
    as_json: bool,
) -> None:
    """Run APP over a whole recorded trace. Print the rows, scores and speed.

    By default it runs as one Spark plan: only counts and scores reach the driver, and Spark spills what does not fit in --memory.
    With --by-epoch it runs one epoch after another, on kept rows plus new rows. Both give the same rows.

    \b
    Example:
      holdfast trace market --events 1000000 --out market.parquet
      holdfast replay examples/bargain_discovery.py --trace market.parquet
      holdfast replay examples/bargain_discovery.py --trace market.parquet --by-epoch 1
    """
    app = load_app(application)
    graph = app.graph()
    if epoch_s is not None and epoch_s != app.epoch_s and any(operator.windowed for operator in graph.operators):
        raise HoldfastError(
            f"'{app.name}' has windows of epochs of {app.epoch_s:g} s; epochs of {epoch_s:g} s would change the windows: "
            f"give --by-epoch {app.epoch_s:g}, or change epoch_s in the application"
        )
    if epoch_s is not None and epoch_rows is not None:
        raise HoldfastError("--by-epoch and --epoch-rows both define the epochs; give only one of them")
    mapping = read_columns(columns, [source.name for source in graph.sources])
    from holdfast.engine.epochs import ByCount, ByTime, Cut

    cut: Cut = ByCount(epoch_rows) if epoch_rows is not None else ByTime(app.epoch_s if epoch_s is None else epoch_s)
    from holdfast.engine.replay import replay_by_epoch, replay_whole
    from holdfast.engine.trace_reader import opened_trace

    with (
        atomic_folder(out, force=force) as folder,
        spark_session(master, memory, name=app.name) as spark,
        opened_trace(spark, graph, trace, columns=mapping) as sources,
    ):
        if epoch_s is None and epoch_rows is None:
            result = replay_whole(spark, app, sources, cut=cut, out=folder)
        else:
            with progress_bar("epochs") as progress:
                result = replay_by_epoch(
                    spark, app, sources, cut=cut, epoch_s=epoch_s, fused=not unfused, out=folder, progress=progress
                )
    if as_json:
        print_json({**asdict(result), "tuples_per_second": result.tuples_per_second})
        return
    click.echo(f"{app.name}: {result.events:,} tuples in {result.seconds:.2f} s, {result.tuples_per_second:,.0f} tuples/s")
    for sink, rows in result.rows.items():
        click.echo(f"  sink {sink}: {rows:,} rows")
    for score, value in result.scores.items():
        click.echo(f"  score {score}: {'none' if value is None else f'{value:,.4f}'}")
    if result.epochs and result.median_epoch_s is not None:
        click.echo(
            f"  {result.epochs:,} epochs, median {1000 * result.median_epoch_s:.0f} ms, "
            f"slowest {1000 * (result.slowest_epoch_s or 0):.0f} ms"
        )
        if epoch_s:
            pace = "keeps up" if result.median_epoch_s < epoch_s else "falls behind"
            click.echo(f"  in real time it {pace}: an epoch lasts {1000 * epoch_s:.0f} ms")
    if out:
        say(f"rows written to {out}")
