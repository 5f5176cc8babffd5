"""holdfast record: record the sources of an application as a trace. `trial/recording.py` reads them and writes the files."""

import shutil
import time
from dataclasses import asdict
from pathlib import Path

import click

from holdfast.app.load import load_app
from holdfast.cli.shared import application_argument, atomic_folder, json_option, spark_options, spark_session
from holdfast.errors import HoldfastError
from holdfast.terminal import print_json, progress_bar, say


@click.command()
@application_argument
@click.option("--for", "for_s", type=float, help="Seconds to record.")
@click.option("--rows", type=int, help="Number of rows to record, of all sources together.")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Folder to write, with a Parquet file per source.")
@click.option("--force", is_flag=True, help="Replace an earlier recording at --out.")
@spark_options
@json_option
def record(
    application: str, for_s: float | None, rows: int | None, out: Path, force: bool, master: str, memory: str, as_json: bool
) -> None:
    """Record the rows that arrive at the sources of APP as a trace, for assess, profile, advise, replay and run.

    Give --for, --rows or both: the recording ends with whichever comes first. The rows are numbered in the order of their times and
    held in memory. Nothing remains of a recording that is interrupted.

    \b
    Example:
      holdfast record app.py --for 60 --out recorded
      holdfast assess app.py --trace recorded
    """
    if for_s is None and rows is None:
        raise HoldfastError("a recording needs an end; give --for seconds, --rows number, or both")
    if (for_s is not None and not for_s > 0) or (rows is not None and rows < 1):
        raise HoldfastError(f"a recording must have a length, got --for {for_s} --rows {rows}")
    app = load_app(application)
    app.graph()
    from holdfast.trial.recording import record_sources

    with (
        atomic_folder(out, force=force) as folder,
        spark_session(master, memory, name=app.name) as spark,
        progress_bar("seconds" if rows is None else "rows") as show,
    ):
        assert folder is not None
        scratch, began_s = folder / ".scratch", time.monotonic()
        recording = record_sources(
            spark,
            application,
            folder,
            scratch=scratch,
            for_s=for_s,
            max_rows=rows,
            progress=lambda count, seconds: show(int(seconds), int(for_s or 0)) if rows is None else show(count, rows),
        )
        seconds = time.monotonic() - began_s
        shutil.rmtree(scratch)
    if as_json:
        print_json({"application": app.name, "trace": str(out), "seconds": seconds, **asdict(recording)})
        return
    for name, count in recording.rows.items():
        click.echo(f"  source {name}: {count:,} rows")
    if recording.skipped or recording.lost:
        say(f"  {recording.skipped} were skipped and {recording.lost} were lost before they could be read")
    click.echo(f"recorded {seconds:.0f} s to {out}")
