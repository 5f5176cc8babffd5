"""Interrupts a process that writes epochs before each of its external calls: `interrupted_writers.py KIND SIGNAL FOLDER [URL]`.

Each case runs in forked processes. The first one stops before its n-th external call. A successor repeats the write that was not
marked as done, with larger claims, and does the others. A process that was stopped, not killed, then continues its write. Prints a
JSON document: the calls before which a process was interrupted, and what the target then contained.
"""

import importlib
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from holdfast.app.writers import FencedError, WriteToken
from holdfast.log import Quality, Store
from holdfast.log.output_files import write_correction, write_first
from holdfast.log.row_files import encode_parquet

WRITES = [(1, "first"), (1, "final"), (2, "first")]
CALLS = {
    "delta": ["deltalake:DeltaTable.is_deltatable", "deltalake:DeltaTable.transaction_version", "deltalake:write_deltalake"],
    "iceberg": [
        "pyiceberg.io.pyarrow:PyArrowFile.create",
        "pyiceberg.catalog.sql:SqlCatalog.load_table",
        "pyiceberg.catalog.sql:SqlCatalog.create_table",
        "pyiceberg.catalog.sql:SqlCatalog.commit_table",
        "sqlalchemy.orm:Session.commit",
    ],
    "parquet": [f"holdfast.log.local_folder:FileCalls.{name}" for name in ("write", "sync", "link", "rename", "remove")],
    "sql": ["psycopg:Cursor.execute", "psycopg:Cursor.executemany", "psycopg:Connection.commit"],
}
CALLS["upsert"] = CALLS["sql"]
BLOCKED_S = 0.5
"""How long a successor runs before the stopped process continues: it may wait for a lock that the stopped one holds."""


class Case:
    """One interruption: after how many external calls, and by which signal."""

    def __init__(self, kind: str, folder: Path, url: str, after: int, by: signal.Signals) -> None:
        self.kind, self.url, self.after, self.by = kind, url, after, by
        self.folder = folder / f"{by.name}-{after}"
        self.folder.mkdir()
        self.table = f"{kind}_{by.name}_{after}".lower()
        self.calls = 0

    def interrupt(self, name: str) -> None:
        """Count an external call that is about to happen. End or stop this process if it is the one of the case."""
        if self.calls == self.after:
            (self.folder / "interrupted").write_text(name)
            os.kill(os.getpid(), self.by)
        self.calls += 1

    def watch(self, where: str) -> None:
        """Let the calls of a function or method count."""
        module, _, path = where.partition(":")
        *owners, name = path.split(".")
        owner: Any = importlib.import_module(module)
        for each in owners:
            owner = getattr(owner, each)
        static = isinstance(owner.__dict__.get(name), staticmethod | classmethod)
        real = getattr(owner, name)

        def call(*arguments: Any, **named: Any) -> Any:
            self.interrupt(name)
            return real(*arguments, **named)

        setattr(owner, name, staticmethod(call) if static else call)

    def writer(self) -> Callable[..., Any]:
        import holdfast

        if self.kind == "delta":
            return holdfast.DeltaWriter(str(self.folder / "table"))
        if self.kind == "iceberg":
            return holdfast.IcebergWriter(catalog_options(self.folder), "shop.results")
        if self.kind == "parquet":
            return self.write_file
        return holdfast.SqlWriter(self.url, self.table, key="name" if self.kind == "upsert" else ())

    def write_file(self, rows: pa.Table, epoch: int, quality: str, *, token: WriteToken) -> None:
        """Write an epoch as a sink without a writer does."""
        content = encode_parquet(rows.append_column("epoch", pa.array([epoch])))
        store = Store(self.folder / "table")
        if token.kind == "first":
            write_first(store, "out", epoch, Quality.TENTATIVE if epoch == 1 else Quality.EXACT, content)
        else:
            write_correction(store, "out", epoch, content)

    def prepare(self) -> None:
        if self.kind == "iceberg":
            from pyiceberg.catalog import load_catalog

            load_catalog("holdfast", **catalog_options(self.folder)).create_namespace("shop")
        if self.kind in ("sql", "upsert"):
            import psycopg

            with psycopg.connect(self.url) as connection:
                connection.execute(f"CREATE TABLE {self.table} (epoch BIGINT, value BIGINT, name TEXT)")

    def write(self, claim: int) -> None:
        """Do the writes that are not marked as done, and mark each. Stop after one if another process has taken over."""
        write, done = self.writer(), self.folder / "done"
        start = int(done.read_text()) if done.exists() else 0
        for number, (epoch, kind) in enumerate(WRITES[start:], start + 1):
            value = pa.table({"value": pa.array([epoch * 10 + (kind == "final")], pa.int64()), "name": ["x"]})
            try:
                write(value, epoch, "exact", token=WriteToken("run", epoch, kind, claim + number))
            except FencedError:
                return
            if claim == 0:
                self.interrupt("mark as done")
                if (self.folder / "taken over").exists():
                    return
            done.write_text(str(number))

    def outcome(self) -> dict[str, Any]:
        """Return the call before which the first process was interrupted, and what the target contains."""
        if self.kind == "delta":
            import deltalake

            rows = deltalake.DeltaTable(str(self.folder / "table")).to_pyarrow_table().select(["epoch", "value"])
        elif self.kind == "iceberg":
            from pyiceberg.catalog import load_catalog

            table = load_catalog("holdfast", **catalog_options(self.folder)).load_table("shop.results")
            rows = table.scan().to_arrow().select(["epoch", "value"])
        elif self.kind == "parquet":
            rows = pq.read_table(self.folder / "table" / "out")
        else:
            import psycopg

            with psycopg.connect(self.url) as connection:
                found = connection.execute(f"SELECT epoch, value FROM {self.table}").fetchall()
            rows = pa.table({"epoch": [row[0] for row in found], "value": [row[1] for row in found]})
        pairs = zip(rows["epoch"].to_pylist(), rows["value"].to_pylist(), strict=True)
        return {"before": (self.folder / "interrupted").read_text(), "content": sorted(pairs)}

    def run(self) -> bool:
        """Interrupt a process and let another one finish its work. Return whether the first one reached its call."""
        first = fork(self.write_watched)
        _, status = os.waitpid(first, os.WUNTRACED)
        if os.WIFEXITED(status):
            assert os.WEXITSTATUS(status) == 0, "the first writer failed"
            return False
        (self.folder / "taken over").touch()
        successor = fork(lambda: self.write(claim=100))
        if self.by == signal.SIGSTOP:
            deadline_s = time.monotonic() + BLOCKED_S
            ended = 0
            while not ended and time.monotonic() < deadline_s:
                ended, status = os.waitpid(successor, os.WNOHANG)
                time.sleep(0.01)
            os.kill(first, signal.SIGCONT)
            wait(first)
            if not ended:
                wait(successor)
            else:
                assert status == 0, "the successor failed"
        else:
            wait(successor)
        return True

    def write_watched(self) -> None:
        self.prepare()
        for where in CALLS[self.kind]:
            self.watch(where)
        self.write(claim=0)


def catalog_options(folder: Path) -> dict[str, str]:
    return {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}/warehouse"}


def fork(run: Callable[[], None]) -> int:
    """Run a function in a process of its own, which ends without the clean-up of libraries. Return its id."""
    process = os.fork()
    if process:
        return process
    try:
        run()
    except BaseException:
        import traceback

        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def wait(process: int) -> None:
    """Wait until a process has ended well."""
    _, status = os.waitpid(process, 0)
    assert status == 0, f"process {process} ended with status {status}"


def main(kind: str, by: str, folder: str, url: str = "") -> None:
    for where in CALLS[kind]:
        importlib.import_module(where.partition(":")[0])
    cases: list[Case] = []
    while (case := Case(kind, Path(folder), url, len(cases), signal.Signals[by])).run():
        cases.append(case)
    print(json.dumps([case.outcome() for case in cases]))


if __name__ == "__main__":
    main(*sys.argv[1:])
