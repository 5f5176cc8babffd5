"""holdfast init: write an application to start from, with comments, and a small trace to run it on."""

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

TEMPLATE = Path(__file__).with_name("application_template.txt")
SENSORS, SECONDS, READINGS_PER_S = 8, 60, 10


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@json_option
def init(folder: Path, as_json: bool) -> None:
    """Write a commented application, and a trace to run it on, into a new FOLDER.

    \b
    Example:
      holdfast init hot-sensors
    """
    name = folder.resolve().name
    if not NAME.fullmatch(name):
        raise HoldfastError(f"wanted a folder name of at most 100 letters, digits, '_', '.' and '-', got '{name}'")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise HoldfastError(f"'{folder}' exists and is not an empty folder; give another name")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "readings.csv").write_text(trace_text())
        (folder / "app.py").write_text(TEMPLATE.read_text().format(name=name))
    except OSError as error:
        raise HoldfastError(f"cannot write into '{folder}': {error.strerror}") from error
    if as_json:
        print_json({"application": str(folder / "app.py"), "trace": str(folder / "readings.csv")})
        return
    click.echo(f"{folder / 'app.py'} and {folder / 'readings.csv'} are written; app.py begins with the commands to try next")


def trace_text(seed: int = 1) -> str:
    """Return a minute of sensor readings as CSV. Now and then a reading is three degrees too high."""
    rng = Random(seed)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("seq", "time", "sensor", "celsius"))
    start = datetime(2026, 1, 1, tzinfo=UTC)
    usual = [rng.uniform(15, 25) for _ in range(SENSORS)]
    for number in range(SENSORS * SECONDS * READINGS_PER_S):
        sensor = number % SENSORS
        usual[sensor] += rng.gauss(0, 0.05)
        warm = 3.0 if rng.random() < 0.02 else 0.0
        at = start + timedelta(seconds=number / (SENSORS * READINGS_PER_S))
        reading = usual[sensor] + warm + rng.gauss(0, 0.3)
        writer.writerow((number + 1, at.isoformat(timespec="milliseconds"), f"sensor-{sensor + 1}", f"{reading:.2f}"))
    return text.getvalue()
