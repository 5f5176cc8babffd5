"""A writer stops in the middle of a tentative epoch until another replica has taken over; its write must not replace newer rows."""

import sqlite3

import pyarrow.compute as pc
import pytest

from holdfast.log.output_files import read_output

from .test_run import require_no_processes, run

APPLICATION = """
import os
import signal
import subprocess
from pathlib import Path

from holdfast import App, SqlWriter

FOLDER = Path(__file__).parent
STALL_S = 13
table = SqlWriter(f"sqlite:///{FOLDER / 'target.db'}", "prices")


def stalling(rows, epoch, quality, *, token):
    "Stops its own process before it writes the first tentative epoch."
    stalled = FOLDER / "stalled"
    if quality != "exact" and not stalled.exists():
        stalled.write_text(f"{epoch} {token.claim}")
        command = f"sleep {STALL_S}; kill -CONT {os.getpid()}"
        subprocess.Popen(["sh", "-c", command], start_new_session=True, stdin=subprocess.DEVNULL)
        os.kill(os.getpid(), signal.SIGSTOP)
    if not table(rows, epoch, quality, token=token):
        (FOLDER / f"refused-{epoch}").write_text(str(token.claim))


stalling.takes_arrow = True

app = App("stalled")
market = app.source("market", "seq long, time timestamp, ticker string, kind string, price double", key="ticker")


@app.operator(inputs=market)
def prices(events):
    return events.select("seq", "price")


app.sink("table", prices, writer=stalling)
app.sink("files", prices)
"""
OPTIONS = ["--nodes", "3", "--replicas", "table=2", "--tentative-after", "0", "--checkpoint-epochs", "20", "--speed", "0.5"]


@pytest.mark.long
def test_stalled_writer_does_not_replace_what_its_successor_wrote(tmp_path):
    (tmp_path / "stalled.py").write_text(APPLICATION)
    with sqlite3.connect(tmp_path / "target.db") as target:
        target.execute("CREATE TABLE prices (epoch BIGINT, seq BIGINT, price DOUBLE)")
    faults = {"faults": [{"at_s": at_s, "kind": "crash", "what": "pe", "target": ["prices/0.0"]} for at_s in (8, 12, 16)]}
    application = tmp_path / "stalled.py"
    document, process = run(tmp_path, seconds=25, faults=faults, options=OPTIONS, application=application)
    assert document["state"] == "completed", (document, process.stderr[-3000:])
    assert all(verdict["holds"] is not False for verdict in document["verdicts"]), document["verdicts"]
    epoch = int((tmp_path / "stalled").read_text().split()[0])
    assert (tmp_path / f"refused-{epoch}").exists()  # the stalled write came after that of the other replica
    expected = read_output(tmp_path / "run" / "out", "files")
    with sqlite3.connect(tmp_path / "target.db") as target:
        rows = target.execute("SELECT seq, price FROM prices ORDER BY seq").fetchall()
    assert [seq for seq, _ in rows] == sorted(expected["seq"].to_pylist())
    assert sum(price for _, price in rows) == pytest.approx(pc.sum(expected["price"]).as_py())
    require_no_processes(tmp_path)
