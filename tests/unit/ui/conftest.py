"""The folder of a run that has ended: a database with one job, and a history. Both are written by the product's own code."""

import sqlite3
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import pytest
from sqlalchemy import create_engine

from holdfast.control.storage.schema import migrate
from holdfast.documents.history import History
from holdfast.documents.job import Contract, Job, Layout, Reading, Task
from holdfast.log import Store
from holdfast.log.timeline import Timeline, agree_on_timeline

BEGAN_S = 1_700_000_000.0
TIMELINE = Timeline(first=100, last=119, epoch_s=1.0, opened_s=BEGAN_S + 1)
TASKS = (
    Task(pe="trades", kind="source", makes=("trades",)),
    Task(pe="vwap", operators=("vwap",), reads=(Reading(stream="trades"),), makes=("vwap",), replicas=2),
    Task(pe="index", operators=("index",), reads=(Reading(stream="vwap"),), makes=("index",)),
    Task(pe="out", kind="sink", reads=(Reading(stream="index"),), replicas=2),
)


def write_run(folder: Path) -> Path:
    """Write a run of twenty epochs: `index` fails at 8 s, two of its epochs are absent, and both are corrected by 14 s."""
    log = folder / "log"
    job = Job(
        job="bargains", application="bargains.py", log=str(log), contract=Contract(tentative_after_s=1.0), replicas={"vwap": 2}
    )
    agree_on_timeline(Store(str(log)), TIMELINE)
    _write_database(folder / "orchestrator" / "jobs.db", job, Layout(application="bargains", tasks=TASKS))
    history = History(folder / "history-run.jsonl", "run")
    for at_s, kind, about in sorted(_events(), key=lambda event: event[0]):
        with mock.patch("time.time", return_value=BEGAN_S + at_s):  # History reads the clock, but the run lies in the past
            history.append(kind, about)
    history.close()
    return folder


def _write_database(path: Path, job: Job, layout: Layout) -> None:
    path.parent.mkdir(parents=True)
    with create_engine(f"sqlite:///{path}").begin() as connection:
        migrate(connection)
    with sqlite3.connect(path) as raw:
        raw.execute(
            "INSERT INTO jobs VALUES (7, ?, 'finite', 'spark', 'completed', 1, '', ?, ?, '{}', ?, ?)",
            (job.job, job.model_dump_json(), layout.model_dump_json(), BEGAN_S, BEGAN_S + 25),
        )


def _events():
    places = {"trades/0.0": "n1", "vwap/0.0": "n1", "vwap/0.1": "n2", "index/0.0": "n2", "out/0.0": "n1", "out/0.1": "n2"}
    for node in ("n1", "n2"):
        yield 0.0, "host", {"pid": 1, "node": node, "what": "ready"}
        for second in range(0, 24, 2):
            yield second + 0.1, "usage", {"node": node, "pid": 1, "cpu_s": second * 0.75, "memory_bytes": 2**29}
    for key, node in places.items():
        yield 0.2, "start", {"replica": f"7:{key}", "incarnation": 1, "node": node}
        yield 0.6, "orchestrator", _orchestrator_event("replica", "running", 0.5, node=node, replica=f"7:{key}")
    yield 8.0, "fault", {"what": "crash pe index/0", "tasks": ["index/0"], "for_s": None}
    yield 8.2, "orchestrator", _orchestrator_event("replica", "failed: killed by a fault", 8.1, node="n2", replica="7:index/0.0")
    yield (
        9.0,
        "orchestrator",
        _orchestrator_event("replica", "moved from n2 to n1: restarted after failure 1", 9.0, node="n1", replica="7:index/0.0"),
    )
    yield 10.2, "orchestrator", _orchestrator_event("replica", "running", 10.1, node="n1", replica="7:index/0.0")
    for epoch in range(100, 120):
        closed = epoch - 100 + 2.0
        gap = epoch in (107, 108)
        for stream, late_s in (("trades", 0.1), ("vwap", 0.2), *((("index", 0.3),) if not gap else ())):
            yield closed + late_s, "commit", _commit(stream, epoch, "first", "exact", closed)
        yield closed + 0.5, "output", _output(epoch, "first", "absent" if gap else "exact")
        if gap:
            yield closed + 0.4, "commit", _commit("index", epoch, "first", "absent", closed)
            yield 13.0, "commit", _commit("index", epoch, "final", "exact", closed)
            yield 13.5, "output", _output(epoch, "final", "exact")


def _orchestrator_event(what: str, text: str, at_s: float, **who: object) -> dict[str, object]:
    return {"text": text, "what": what, "reported_s": BEGAN_S + at_s, "job": 7, **who}


def _commit(stream: str, epoch: int, kind: str, quality: str, closed_s: float) -> dict[str, object]:
    about = {"stream": stream, "task": 0, "epoch": epoch, "as": kind, "quality": quality, "rows": 50}
    return {**about, "closed_s": BEGAN_S + closed_s, "producer": "n1"}


def _output(epoch: int, kind: str, quality: str) -> dict[str, object]:
    return {"sink": "out", "epoch": epoch, "as": kind, "quality": quality, "rows": 5, "latency_s": 0.5}


@pytest.fixture
def past(tmp_path) -> Path:
    return write_run(tmp_path / "run")


@pytest.fixture
def written() -> Callable[[Path], Path]:
    return write_run
