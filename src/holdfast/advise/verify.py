"""The promise held against real kills: the application run with the plan, its operators killed one after the other."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from holdfast.errors import HoldfastError
from holdfast.model.job import Contract, Feed, Job
from holdfast.model.load import load_app
from holdfast.model.schedule import Schedule, ScheduledFault
from holdfast.run.checkers import check_run, output_gap_s
from holdfast.run.cluster import LocalCluster
from holdfast.run.experiment import new_folder, run_job
from holdfast.run.history import Event
from holdfast.run.layout import layout_of

FIRST_S, EVERY_S = 12.0, 7.0
"""When the first operator is killed, and how far the kills are apart: each must have been repaired before the next."""


@dataclass(frozen=True)
class Kill:
    """One operator killed, and how many epochs then left the sink as anything but exact."""

    operator: str
    protected: bool
    at_s: float
    inexact: int

    @property
    def kept(self) -> bool:
        """Whether what was promised of it held: nothing promised is nothing broken."""
        return not self.protected or self.inexact == 0

    def __str__(self) -> str:
        has = "with a replica" if self.protected else "without one"
        left = "every epoch left exact" if not self.inexact else f"{self.inexact} epochs left tentative or absent at first"
        return f"{self.operator} ({has}) killed after {self.at_s:.0f} s: {left}"


def seconds_for(kills: int) -> int:
    """How much of a trace so many kills need."""
    return int(FIRST_S + EVERY_S * kills + 8)


def verify(application: Path, trace: Path, plan: Path, work: Path, *, protected: Sequence[str], others: Sequence[str]) -> list[str]:
    """Run the trace with the plan on two local nodes and kill every operator named, one after the other; what was seen, in words.

    A protected operator must not show at the sink at all; whatever is killed, the output must be whole in the end.
    """
    app = load_app(application)
    graph = app.graph()
    pe_of = {operator: pe for pe, part in graph.pes.items() for operator in part}
    targets = {name: f"{pe_of.get(name, name)}/0.0" for name in (*protected, *others)}
    faults = [
        ScheduledFault(at_s=FIRST_S + EVERY_S * number, kind="crash", what="pe", target=(target,))
        for number, target in enumerate(targets.values())
    ]
    job = Job(
        job="verify",
        type="finite",
        application=str(application.resolve()),
        feed=Feed(trace=str(trace)),
        log=str(work / "run" / "log"),
        out=str(work / "run" / "out"),
        plan=str(plan.resolve()),
        contract=Contract(checkpoint_epochs=5, tentative_after_s=1.0),
    )
    with LocalCluster(new_folder(work / "run"), nodes=2) as cluster:
        cluster.start()
        ran = run_job(job, layout_of(job), cluster, schedule=Schedule(faults=tuple(faults)))
    if ran.timeline is None or ran.state != "completed":
        raise HoldfastError(f"the run with real kills ended as {ran.state}: {ran.reason}")
    sinks = [task.pe for task in ran.tasks if task.kind == "sink"]
    kills = _kills(ran.events, list(targets), protected, opened_s=ran.timeline.opened_s)
    broken = [kill for kill in kills if not kill.kept]
    verdicts = check_run(ran.events, ran.timeline, sinks=sinks)
    said = [str(kill) for kill in kills]
    said += [f"{verdict.name}: {'holds' if verdict.holds else 'BROKEN'} ({verdict.said})" for verdict in verdicts]
    gaps = [
        f"{output_gap_s(ran.events, sink=sink, after_s=ran.timeline.opened_s + FIRST_S / 2) or 0:.1f} s at {sink}" for sink in sinks
    ]
    said.append(f"longest silence: {', '.join(gaps)}")
    promise = "no kill of an operator with a replica showed at the sink"
    said.insert(0, f"Real kills: {'the promise held, ' + promise if not broken else 'the promise did NOT hold'}.")
    return said


def _kills(events: Sequence[Event], names: Sequence[str], protected: Sequence[str], *, opened_s: float) -> list[Kill]:
    """What left the sinks between each kill and the next."""
    times = [event.at_s for event in events if event.kind == "fault"]
    ends = [*times[1:], float("inf")]
    found = []
    for name, begins, until in zip(names, times, ends, strict=False):
        firsts = [e for e in events if e.kind == "output" and e.about["as"] == "first" and begins <= e.at_s < until]
        inexact = sum(event.about["quality"] != "exact" for event in firsts)
        found.append(Kill(name, name in protected, begins - opened_s, inexact))
    return found
