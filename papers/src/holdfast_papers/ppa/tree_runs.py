"""PPA's Figure 10 as real runs: a tree of parallel tasks, a killed node, tentative output, and plans made by our planner.

Figure 6 has 16 source tasks, and 8, 4, 2 and 1 tasks of four operators, on 34 nodes. Here it is scaled to one machine: 8 source
tasks, and 4, 2 and 1 tasks of three operators, with epochs of 4 s. All primaries share node n1, which is killed, so every task
without a replica fails at once. The replicas are on n2. n3 is the standby node on which the other tasks are restored from their
checkpoints.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from holdfast.app import load_app, topology_of
from holdfast.documents import HistoryEvent, Schedule, ScheduledFault
from holdfast.errors import HoldfastError
from holdfast.planning.ppa import Frontier, Plan, output_fidelity
from holdfast.trial import JobRun, LocalCluster, recoveries
from holdfast_papers.ppa.even_windows import run_to_end, write_windows

PLANS = {"PPA-0": 0.0, "PPA-0.5": 0.5, "PPA-1.0": 1.0}
"""The share of the tasks that have a replica."""
EPOCH_S, WINDOW, RATE, KEYS = 4.0, 5, 200, 64
CHECKPOINT_EPOCHS, TENTATIVE_AFTER_S = 4, 1.0
KILL_S, SECONDS = 32.0, 72
VICTIM, SMALL, STANDBY = "n1", "n2", "n3"
LARGE_CORES, SMALL_CORES = 16.0, 0.9
"""What nodes offer. A task without a replica needs a core, so it is placed on n1 and restored on n3, not on n2. Each node has one
Spark thread all the same."""

APPLICATION = """
import json
import time
from pathlib import Path

from pyspark.sql import functions as F

from holdfast import App, last_epochs

app = App("tree", epoch_s={epoch_s})
source = app.source("source", "seq long, time timestamp, key long, value double", key="key", parallelism=8)


def window(rows):
    \"\"\"Per key the sum over a sliding window of {window} epochs.\"\"\"
    reach = F.explode(F.expr("sequence(epoch, epoch + {window} - 1)"))
    spread = rows.select("seq", reach.alias("epoch"), "key", "value")
    return spread.groupBy("epoch", "key").agg(F.max("seq").alias("seq"), F.sum("value").alias("value"))


def keep_every_version(rows, epoch, quality):
    \"\"\"Write the rows of an epoch to a new file each time, so that tentative and corrected output can be compared.\"\"\"
    values = [[row.key, row.value] for row in rows.select("key", "value").collect()]
    Path({folder!r}, f"{{epoch}}-{{time.time_ns()}}.json").write_text(json.dumps(sorted(values)))


before = source
for name, tasks in (("o1", 4), ("o2", 2), ("o3", 1)):
    options = {{"key": "key", "partitioning": "merge"}} if tasks > 1 else {{"partitioning": "merge"}}
    before = app.operator(inputs=before, keep=last_epochs({window} - 1), name=name, parallelism=tasks, **options)(window)
app.sink("out", before, writer=keep_every_version)
"""


@dataclass(frozen=True, slots=True)
class TreeRun:
    """Measurements of a run, in seconds after the kill.

    `tentative_s`: the first tentative output that has rows. `exact_s`: the first exact output of an epoch that closed after the
    kill. `recovered_s`: the last recovery of a task without a replica. `accuracy`: per tentative epoch, the share of its exact rows
    that the tentative output had. `fidelity` is what the plan promises.
    """

    plan: str
    seed: int
    replicas: int
    fidelity: float
    tentative_s: float | None
    exact_s: float | None
    recovered_s: float | None
    accuracy: tuple[float, ...]
    load: float

    @property
    def key(self) -> str:
        return key_of(self.plan, self.seed)

    def document(self) -> dict[str, Any]:
        return {"key": self.key, **asdict(self)}


def key_of(plan: str, seed: int) -> str:
    return f"{plan}/{seed}"


class StandbyCluster(LocalCluster):
    """n1 for primaries and n2 for replicas; n3 joins when the job has been placed, so that nothing is placed there before."""

    def __init__(self, work: Path) -> None:
        super().__init__(work, nodes=2, cores=LARGE_CORES, master="local[1]")

    def start_node(self, name: str, *options: str) -> None:
        super().start_node(name, *options, *(("--cores", str(SMALL_CORES)) if name == SMALL else ()))

    def start_standby(self, document: Mapping[str, Any]) -> None:
        """Start n3 once every replica of the job has a node."""
        tasks = document["tasks"]
        placed = bool(tasks) and all(task["replicas"] and all(replica["node"] for replica in task["replicas"]) for task in tasks)
        if STANDBY not in self.names and placed:
            self.names.append(STANDBY)
            self.start_node(STANDBY)


def planned(application: Path, share: float) -> Plan:
    """Return our planner's plan for a share of the application's tasks, sources included."""
    app = load_app(str(application))
    topology = topology_of(app.graph(), name=app.name)
    return Frontier().plan(output_fidelity(topology), round(share * len(topology.tasks)))


def run_plan(name: str, seed: int, work: Path) -> TreeRun:
    """Run the tree with a plan, kill n1, and measure."""
    work.mkdir(parents=True)
    written = work / "written"
    written.mkdir()
    application, trace, document = work / "tree.py", work / "trace.parquet", work / "plan.json"
    application.write_text(APPLICATION.format(epoch_s=EPOCH_S, window=WINDOW, folder=str(written)))
    write_windows(trace, seconds=SECONDS, rate=RATE, keys=KEYS)
    plan = planned(application, PLANS[name])
    replicated = [{"task": task} for task in plan.tasks]
    document.write_text(json.dumps({"topology": "tree", "budget": plan.budget, "quality": plan.quality, "replicated": replicated}))
    tasks = [f"{pe}/{n}" for pe, count in (("source", 8), ("o1", 4), ("o2", 2), ("o3", 1)) for n in range(count)]
    terms = {
        "plan": str(document),
        "replicas": {"out": 2},
        "needs": {task: {"cores": 1.0} for task in tasks if task not in plan.tasks},
        "contract": {"checkpoint_epochs": CHECKPOINT_EPOCHS, "tentative_after_s": TENTATIVE_AFTER_S},
    }
    kill_s = KILL_S + float(np.random.default_rng(seed).uniform(0, EPOCH_S))
    faults = Schedule(faults=(ScheduledFault(at_s=kill_s, kind="crash", what="node", target=(VICTIM,)),))
    with StandbyCluster(work / "cluster") as cluster:
        cluster.start()
        run = run_to_end(
            cluster,
            "tree",
            application,
            trace,
            terms,
            what=f"{name}, seed {seed}",
            faults=faults,
            show=lambda document, nodes, timeline: cluster.start_standby(document),
        )
    return measure(name, seed, plan, run, written)


def measure(name: str, seed: int, plan: Plan, run: JobRun, written: Path) -> TreeRun:
    """Measure a run from its history and from the versions of its output."""
    assert run.timeline is not None
    killed = [event.at_s for event in run.events if event.kind == "fault"]
    if len(killed) != 1:
        raise HoldfastError(f"{name}, seed {seed}: expected one fault in the history, found {len(killed)}")
    outputs = [event for event in run.events if event.kind == "output" and event.at_s >= killed[0]]
    after = run.timeline.last_closed_epoch(killed[0]) + 1

    def first_s(events: Sequence[HistoryEvent]) -> float | None:
        return round(min(event.at_s for event in events) - killed[0], 2) if events else None

    tentative = [event for event in outputs if event.about["quality"] == "tentative" and event.about["rows"]]
    exact = [event for event in outputs if event.about["quality"] == "exact" and event.about["epoch"] >= after]
    ends = [each.recovered_s for each in recoveries(run.events) if each.recovered_s >= killed[0]]
    inexact = sorted({e.about["epoch"] for e in outputs if e.about["as"] == "first" and e.about["quality"] == "tentative"})
    return TreeRun(
        name,
        seed,
        len(plan.tasks),
        round(plan.quality, 4),
        first_s(tentative),
        first_s(exact),
        round(max(ends) - killed[0], 2) if ends else None,
        tuple(accuracy_of(versions(written, epoch)) for epoch in inexact if len(versions(written, epoch)) > 1),
        round(psutil.getloadavg()[0], 1),
    )


def versions(written: Path, epoch: int) -> list[list[list[float]]]:
    """Return the rows of each version of an epoch's output, the oldest first."""
    files = sorted(written.glob(f"{epoch}-*.json"), key=lambda path: int(path.stem.partition("-")[2]))
    return [json.loads(path.read_text()) for path in files]


def accuracy_of(versions: Sequence[Sequence[Sequence[float]]]) -> float:
    """Return the share of the rows of the last version that the first has (section VI-B).

    >>> accuracy_of([[[1, 2.0]], [[1, 2.0], [2, 3.0]]])
    0.5
    """
    first, last = ({tuple(row) for row in version} for version in (versions[0], versions[-1]))
    return len(first & last) / len(last) if last else 1.0
