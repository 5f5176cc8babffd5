"""Runs plain Structured Streaming as a process with one input file per second, for the benchmarks that compare with it."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

PLAIN = Path(__file__).with_name("plain_streaming.py")


class Feeder(threading.Thread):
    """Writes a trace to a folder, one file of `rows` rows per second. `closed` has the time and the last seq of each file."""

    def __init__(self, trace: Path, folder: Path, *, rows: int, epochs: int) -> None:
        super().__init__(daemon=True)
        self.table, self.folder, self.rows, self.epochs = pq.read_table(trace), folder, rows, epochs
        self.closed: dict[int, tuple[float, int]] = {}
        folder.mkdir(parents=True, exist_ok=True)

    def write(self, epoch: int) -> None:
        part: pa.Table = self.table.slice(epoch * self.rows, self.rows)
        hidden = self.folder / f"_{epoch}.parquet"
        pq.write_table(part, hidden, coerce_timestamps="us")
        hidden.rename(self.folder / f"{epoch:06d}.parquet")
        self.closed[epoch] = time.time(), int(part["seq"][-1].as_py())

    def run(self) -> None:
        began_s = time.time()
        for epoch in range(self.epochs):
            time.sleep(max(0.0, began_s + epoch + 1 - time.time()))
            self.write(epoch)


class Rival:
    """The process that runs plain Structured Streaming, and its output."""

    def __init__(self, source: Path, work: Path, *, queries: str) -> None:
        self.source, self.work, self.queries = source, work, queries
        work.mkdir(parents=True, exist_ok=True)
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        (self.work / "ready").unlink(missing_ok=True)
        command = [sys.executable, str(PLAIN), "--input", str(self.source), "--work", str(self.work), "--queries", self.queries]
        with (self.work / "rival.log").open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)

    def wait_ready(self) -> None:
        while not (self.work / "ready").exists():
            if self.process is None or self.process.poll() is not None:
                raise SystemExit(f"the rival ended: {(self.work / 'rival.log').read_text()[-2000:]}")
            time.sleep(0.05)

    def kill(self) -> None:
        assert self.process is not None
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def outputs(self) -> list[dict[str, object]]:
        path = self.work / "outputs.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def output_times(self, closed: dict[int, tuple[float, int]], rows: int) -> dict[int, float]:
        """Return when the last rows of each epoch left. An epoch without bargains has no entry."""
        times: dict[int, float] = {}
        first = {epoch: last - rows for epoch, (_, last) in closed.items()}
        for output in self.outputs():
            for seq in output["seqs"]:  # type: ignore[attr-defined]  # a list of numbers
                epoch = next((e for e, low in first.items() if low < seq <= closed[e][1]), None)
                if epoch is not None:
                    times[epoch] = max(times.get(epoch, 0.0), float(str(output["at_s"])))
        return times
