"""PPA's Figure 9 as real runs on Spark: the time of a task's checkpoints as a share of its processing time, by interval and rate.

Tasks that do the same work on the same stream differ only in how often they are checkpointed. The study measures wall-clock time,
because the CPU time of a task is spread over threads of Python, of the JVM and of the object store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import psutil

from holdfast.documents import HistoryEvent
from holdfast.errors import HoldfastError
from holdfast.trial import LocalCluster
from holdfast_papers.finding import Finding
from holdfast_papers.ppa.even_windows import run_to_end, write_windows

RATES = (500, 1000)
INTERVALS = (1, 5, 15, 30)
"""Epochs of one second between checkpoints."""
WINDOW, KEYS = 30, 50
SECONDS = 122
"""Time to fill a window, three of the longest intervals, and a margin."""
PES = {f"every_{interval}": interval for interval in INTERVALS}

APPLICATION = f'''
from pyspark.sql import functions as F

from holdfast import App, last_epochs

app = App("checkpoints", epoch_s=1.0)
source = app.source("source", "seq long, time timestamp, key long, value double")


def window(rows):
    """Per key the sum over a sliding window of {WINDOW} epochs."""
    once = rows.groupBy("epoch", "key").agg(F.max("seq").alias("seq"), F.sum("value").alias("value"))
    reach = F.explode(F.expr("sequence(epoch, epoch + {WINDOW - 1})"))
    spread = once.select("seq", reach.alias("epoch"), "key", "value")
    return spread.groupBy("epoch", "key").agg(F.max("seq").alias("seq"), F.sum("value").alias("value"))


for name in {tuple(PES)!r}:
    made = app.operator(inputs=source, keep=last_epochs({WINDOW - 1}), name=name)(window)
    app.sink(f"{{name}}_out", made)
    app.score(f"{{name}}_out", "sum(value)")
'''


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of a task's checkpoints at a rate and interval.

    The median checkpoint has `rows` rows and took `checkpoint_s`; the median epoch took `epoch_s`. `share` is the time of a
    checkpoint divided by that of the epochs between two. Medians, because the machine may be busy during one of a few checkpoints.
    """

    rate: int
    interval_s: int
    checkpoints: int
    rows: float
    checkpoint_s: float
    epoch_s: float
    share: float


Run = dict[str, Any]
"""A rate, its costs by interval, and the load of the machine."""


def run_rates(rates: Sequence[int], work: Path, *, done: Callable[[Run], None] = lambda run: None) -> list[Run]:
    """Run every rate, one after the other, on one cluster."""
    work.mkdir(parents=True, exist_ok=True)
    application = work / "checkpoints.py"
    application.write_text(APPLICATION)
    terms = {"contracts": {pe: {"checkpoint_epochs": interval} for pe, interval in PES.items()}}
    results = []
    with LocalCluster(work / "cluster", nodes=2) as cluster:
        cluster.start()
        for rate in rates:
            trace = work / f"trace-{rate}.parquet"
            write_windows(trace, seconds=SECONDS, rate=rate, keys=KEYS)
            job_run = run_to_end(cluster, f"rate-{rate}", application, trace, terms, what=f"{rate} tuples/s")
            assert job_run.timeline is not None
            events = [event for event in job_run.events if event.at_s >= job_run.timeline.opened_s]
            costs = [asdict(cost) for cost in costs_of(events, rate, full=job_run.timeline.first + WINDOW - 1)]
            run = {"rate": rate, "costs": costs, "load": round(psutil.getloadavg()[0], 2)}
            results.append(run)
            done(run)
    return results


def costs_of(events: Iterable[HistoryEvent], rate: int, *, full: int) -> list[Cost]:
    """Return the cost of each task's checkpoints after epoch `full`, when its window is full, from the history.

    The last checkpoint of a job comes early and does not count. Raises HoldfastError for a task without checkpoints.
    """
    checkpoints = [event.about for event in events if event.kind == "checkpoint"]
    costs = []
    for pe, interval in PES.items():
        own = [
            event
            for event in checkpoints
            if event["task"] == f"{pe}/0" and event["since"] >= full and event["epoch"] - event["since"] >= interval
        ]
        if not own:
            raise HoldfastError(
                f"PE '{pe}': expected a checkpoint every {interval} epochs after epoch {full}, but the history has none"
            )
        took_s = median(event["took_s"] for event in own)
        epoch_s = median(event["worked_s"] / (event["epoch"] - event["since"]) for event in own)
        between = sum(event["epoch"] - event["since"] for event in own) / len(own)
        rows = median(event["rows"] for event in own)
        costs.append(Cost(rate, interval, len(own), rows, took_s, epoch_s, took_s / (between * epoch_s)))
    return costs


def findings(runs: Sequence[Mapping[str, Any]]) -> list[Finding]:
    """Check the statements of section VI-A about Figure 9 with real runs."""
    shares = {run["rate"]: {cost["interval_s"]: cost["share"] for cost in run["costs"]} for run in runs}
    series = [[by[interval] for interval in INTERVALS] for by in shares.values()]

    def shares_text(by: Mapping[int, float]) -> str:
        return ", ".join(f"{interval} s {by[interval]:.1%}" for interval in INTERVALS)

    return [
        Finding(
            "Figure 9, real runs: more frequent checkpoints cost more",
            "increases quickly with shorter intervals",
            "; ".join(f"{rate} tuples/s: {shares_text(by)}" for rate, by in shares.items()),
            all(often > rarely for row in series for often, rarely in pairwise(row)),
        ),
        Finding(
            "Figure 9, real runs: one every second is prohibitive",
            "prohibitively expensive",
            ", ".join(f"{rate} tuples/s: {by[1]:.1%} of what processing takes" for rate, by in shares.items()),
            all(by[1] > 1 for by in shares.values()),
        ),
    ]
