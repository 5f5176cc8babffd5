"""holdfast init: an application to start from, with comments, and a small trace that it runs on."""

import csv
import io
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

import click

from holdfast.cli.shared import json_option
from holdfast.documents.job import NAME
from holdfast.errors import HoldfastError
from holdfast.terminal import print_json

SENSORS, SECONDS = 8, 60

APPLICATION = '''"""{name}: which sensors are hotter than they lately were?

    holdfast check app.py --trace readings.csv      is anything wrong with it
    holdfast replay app.py --trace readings.csv     what it puts out
    holdfast advise app.py --trace readings.csv     which parts deserve a replica
    holdfast run app.py --trace readings.csv        on local nodes; --faults kills parts of it meanwhile
"""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from holdfast import App, last_rows

# Time is cut into epochs of this length: what is committed, replicated and made good again is always a whole epoch.
app = App("{name}", epoch_s=1.0)

# A source declares its columns as Spark's DDL. Every row has a seq, which ascends, and a time. The key says what can be
# worked on apart: with parallelism=2 every operator by that key would be two tasks.
readings = app.source("readings", "seq long, time timestamp, sensor string, celsius double", key="sensor")


# An operator is a function from DataFrames to a DataFrame. It is called with the rows of an epoch.
@app.operator(inputs=readings)
def plausible(readings: DataFrame) -> DataFrame:
    """Leave out what no sensor can have measured. Keep seq: it says where a row comes from."""
    return readings.where("celsius between -40 and 120").select("seq", "sensor", "celsius")


# What must be remembered from epoch to epoch is declared: here the four rows before, of every sensor. The function then sees
# them beside the new rows, and what it says about old rows is ignored. There are also last_epochs(n) and state tables.
@app.operator(inputs=plausible, keep=last_rows(4, by="sensor"), key="sensor")
def compared(readings: DataFrame) -> DataFrame:
    """Every reading beside the mean of the sensor's four before."""
    before = Window.partitionBy("sensor").orderBy("seq").rowsBetween(-4, -1)
    return readings.select("seq", "sensor", "celsius", F.avg("celsius").over(before).alias("usual"))


@app.operator(inputs=compared)
def warm(compared: DataFrame) -> DataFrame:
    """Readings that are at least two degrees above what was usual."""
    return compared.where("celsius >= usual + 2").select("seq", "sensor", (F.col("celsius") - F.col("usual")).alias("above"))


# Where rows leave: Parquet files by default, or writer=a function of (rows, epoch, quality).
app.sink("warnings", warm)

# How good an output is: an aggregate over the sink's rows. Assessments compare it with and without a fault.
app.score("warnings", "sum(above)")
'''


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@json_option
def init(folder: Path, as_json: bool) -> None:
    """Write an application with comments, and a trace to try it on, into a new FOLDER.

    \b
    Example:
      holdfast init hot-sensors
    """
    name = folder.resolve().name
    if not NAME.fullmatch(name):
        raise HoldfastError(f"wanted a folder named by letters, digits, '_', '.', '-' (at most 100), got '{name}'")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise HoldfastError(f"'{folder}' is there already and is not an empty folder; give another name")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "readings.csv").write_text(trace_text())
        (folder / "app.py").write_text(APPLICATION.format(name=name))
    except OSError as error:
        raise HoldfastError(f"cannot write into '{folder}': {error.strerror}") from error
    if as_json:
        print_json({"application": str(folder / "app.py"), "trace": str(folder / "readings.csv")})
        return
    click.echo(f"{folder / 'app.py'} and {folder / 'readings.csv'} are there; the first lines of app.py say what to try next")


def trace_text(seed: int = 1) -> str:
    """A minute of readings of a few sensors, some of which warm up for a while; ten readings a second each."""
    rng = Random(seed)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("seq", "time", "sensor", "celsius"))
    begins = datetime(2026, 1, 1, tzinfo=UTC)
    usual = [rng.uniform(15, 25) for _ in range(SENSORS)]
    for number in range(SENSORS * SECONDS * 10):
        sensor = number % SENSORS
        usual[sensor] += rng.gauss(0, 0.05)
        warm = 3.0 if rng.random() < 0.02 else 0.0
        at = begins + timedelta(seconds=number / (SENSORS * 10))
        reading = usual[sensor] + warm + rng.gauss(0, 0.3)
        writer.writerow((number + 1, at.isoformat(timespec="milliseconds"), f"sensor-{sensor + 1}", f"{reading:.2f}"))
    return text.getvalue()
