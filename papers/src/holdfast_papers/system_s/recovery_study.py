"""System-S's experiments (section 6): the orchestrator is killed, and its recovery is timed against a new start."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean, median
from typing import Any

from holdfast.documents import Job
from holdfast.protocol import Client, WaitFailed
from holdfast.trial import ProcessCluster
from holdfast_papers.finding import Finding
from holdfast_papers.system_s.node_fleet import node_name, start_fleet
from holdfast_papers.system_s.workload import fan_out, own_pes, realistic, uniform

PROCESSES = 10
"""Up to this number, every node is its own process; above it, controllers share one process."""
HALF = 12
"""Section 6.2: the crash happens when about half of the third job's 32 PEs are dispatched. Half of the nodes are cut off by then.
The others get 12 to 20 of the PEs, and the orchestrator is killed when 12 have started."""
LIMIT_S = 600.0
POLL_S = 0.03
STARTS_WRITTEN_S = 0.5
"""The fleet of nodes writes the starts of PEs to its file ten times a second."""


@dataclass(frozen=True, slots=True)
class Row:
    """A row of Figure 8 with the paper's seconds, or a larger one of ours."""

    name: str
    nodes: int
    jobs: int
    realistic: bool = False
    paper_start_s: float | None = None
    paper_recover_s: float | None = None

    def workload(self, seed: int) -> list[Job]:
        return realistic(random.Random(seed)) if self.realistic else uniform(self.jobs)


FIGURE_8 = (
    Row("1", 10, 1, paper_start_s=2.0, paper_recover_s=7.6),
    Row("2", 10, 10, paper_start_s=9.1, paper_recover_s=8.8),
    Row("3", 30, 10, paper_start_s=9.1, paper_recover_s=8.0),
    Row("4", 30, 30, paper_start_s=26.3, paper_recover_s=15.1),
    Row("5", 90, 30, paper_start_s=33.9, paper_recover_s=16.2),
    Row("6 (RWS)", 90, 104, realistic=True, paper_start_s=27.0, paper_recover_s=15.4),
)
BEYOND = (Row("300 nodes", 300, 97), Row("1,000 nodes", 1000, 323))
"""About 3,000 and 10,000 PEs."""


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a row. `start_s` from the first submission until all jobs run; `again_s` the same after all were canceled, if that
    was done.

    `recover_s` is from starting the orchestrator's process, after it was killed, until every job and every PE is known to run.
    `boot_s` of that passed until it answered. `restarted`: PEs that were started more than once. `lost`: jobs or PEs that were
    not running afterwards.
    """

    row: str
    nodes: int
    jobs: int
    pes: int
    processes: bool
    start_s: float
    again_s: float | None
    recover_s: float
    boot_s: float
    restarted: int
    lost: int

    def document(self) -> dict[str, Any]:
        return asdict(self)


def measure(
    row: Row,
    work: Path,
    *,
    seed: int = 1,
    processes: int = PROCESSES,
    bytecode: Path | None = None,
    again: bool = True,
    crashes: int = 1,
) -> Run:
    """Start a row's jobs, kill the orchestrator in steady state, recover and, with `again`, cancel all and start them again.

    With several `crashes`, recovery is their median.
    `bytecode` is where compiled code is kept, as an installed package has it; what is timed then compiles none.
    """
    jobs = row.workload(seed)
    with ProcessCluster(work, bytecode=bytecode) as cluster:
        own = row.nodes <= processes
        start_nodes(cluster, row.nodes, own=own)
        client = cluster.client
        start_s = submit_all(client, jobs)
        cluster.wait_until(lambda: not unsettled(client), limit_s=LIMIT_S, what="PEs running")
        before = cluster.starts()
        recoveries = []
        for _ in range(crashes):
            cluster.kill_orchestrator()
            recoveries.append(recover(cluster, len(jobs)))
        recover_s, boot_s = (median(seconds) for seconds in zip(*recoveries, strict=True))
        lost = len(jobs) - len(running(client)) + unsettled(client)
        after = cluster.starts()
        again_s = None
        if again:
            cancel_all(client)
            again_s = submit_all(client, jobs)
        return Run(
            row=row.name,
            nodes=row.nodes,
            jobs=len(jobs),
            pes=own_pes(jobs),
            processes=own,
            start_s=start_s,
            again_s=again_s,
            recover_s=recover_s,
            boot_s=boot_s,
            restarted=sum((after - before).values()) + sum(count > 1 for count in before.values()),
            lost=lost,
        )


def start_nodes(cluster: ProcessCluster, nodes: int, *, own: bool, options: Sequence[str] = ()) -> None:
    """Start an orchestrator and nodes, and wait until all have registered."""
    cluster.start_orchestrator(*options)
    if own:
        for number in range(1, nodes + 1):
            cluster.start_node(node_name(number), "--cores", "64", "--label", f"rack=r{number // 10:03}")
    else:
        start_fleet(cluster, nodes)
    cluster.wait_for_nodes(nodes, limit_s=LIMIT_S)


def submit_all(client: Client, jobs: Sequence[Job]) -> float:
    """Submit all jobs; return the seconds from the first submission until all of them run."""
    began = time.monotonic()
    for job in jobs:
        client.submit(job)
    _until(lambda: len(running(client)) >= len(jobs), what=f"{len(jobs)} jobs running")
    return time.monotonic() - began


def cancel_all(client: Client) -> None:
    """Cancel every job, and wait until all have ended."""
    for line in living(client):
        client.cancel(line["id"])
    _until(lambda: not any(True for _ in living(client)), what="all jobs canceled")


def recover(cluster: ProcessCluster, jobs: int) -> tuple[float, float]:
    """Start the orchestrator again; return the seconds until it knows that every job and PE runs, and until its first answer."""
    client = cluster.client
    began = time.monotonic()
    cluster.start_orchestrator()
    cluster.wait_until(lambda: client.health(), limit_s=LIMIT_S, what="an answer")
    boot_s = time.monotonic() - began
    cluster.wait_until(
        lambda: client.health()["state"] == "serving" and len(running(client)) >= jobs, limit_s=LIMIT_S, what="recovery"
    )
    recover_s = time.monotonic() - began
    if unsettled(client):  # only then does waiting for the last PE count
        cluster.wait_until(lambda: not unsettled(client), limit_s=LIMIT_S, what="PEs running")
        recover_s = time.monotonic() - began
    return recover_s, boot_s


def living(client: Client) -> Iterator[dict[str, Any]]:
    """Return every job that has not ended."""
    return client.all_jobs(state="living")


def running(client: Client) -> list[dict[str, Any]]:
    return [line for line in living(client) if line["state"] == "running"]


def unsettled(client: Client) -> int:
    """Return the number of PEs that the orchestrator does not know to run."""
    states: dict[str, int] = client.status()["replica_states"]
    return sum(states.values()) - states.get("running", 0)


def _until(condition: Callable[[], object], *, what: str) -> None:
    ends = time.monotonic() + LIMIT_S
    while not condition():
        if time.monotonic() > ends:
            raise WaitFailed(f"not within {LIMIT_S:g} s: {what}")
        time.sleep(POLL_S)


@dataclass(frozen=True, slots=True)
class DispatchRun:
    """The result of killing the orchestrator during the dispatch of its third job (section 6.2). `dispatched` of the job's `third`
    PEs had been dispatched by then."""

    pes: int
    third: int
    dispatched: int
    recover_s: float
    restarted: int
    lost: int

    def document(self) -> dict[str, Any]:
        return asdict(self)


def crash_in_dispatch(work: Path, *, nodes: int = 10, bytecode: Path | None = None) -> DispatchRun:
    """Run section 6.2: three jobs of 9, 32 and 32 PEs; the orchestrator dies half-way through the third and is started again.

    State-machine fault injection cuts off half of the nodes before the third job is dispatched, and causes the crash in the
    transition that this job's status reports trigger. So the PEs on the other half of the nodes are not dispatched yet.
    """
    jobs = [fan_out("small", pes=9, sinks=4), fan_out("second", pes=32), fan_out("third", pes=32)]
    cuts = [
        {"state": "instantiating", "transition": "instantiated", "moment": "before", "fault": "cut-node", "node": node_name(number),
         "settings": {"for_s": LIMIT_S}, "trigger": {"job": 3}}
        for number in range(nodes // 2 + 1, nodes + 1)
    ]  # fmt: skip
    crash = {
        "state": "dispatching",
        "transition": "peStatusUpdate",
        "fault": "crash-orchestrator",
        "trigger": {"job": 3, "started": HALF},
    }
    work.mkdir(parents=True, exist_ok=True)
    (work / "crash.yaml").write_text(json.dumps({"tests": [*cuts, crash]}))
    with ProcessCluster(work, bytecode=bytecode) as cluster:
        start_nodes(cluster, nodes, own=False, options=("--inject", str(work / "crash.yaml"), "--lost-after", "60"))
        for number, job in enumerate(jobs, 1):
            cluster.client.submit(job)
            if number < len(jobs):
                _until(lambda expected=number: len(running(cluster.client)) >= expected, what=f"job {number} running")  # type: ignore[misc]
        _until(lambda: cluster.exit_code("orchestrator") is not None, what="the injected crash")
        time.sleep(STARTS_WRITTEN_S)
        dispatched = sum(key.startswith("3:") for key, _ in cluster.starts())
        recover_s, _ = recover(cluster, len(jobs))
        after = cluster.starts()
        return DispatchRun(
            pes=own_pes(jobs),
            third=own_pes(jobs[2:]),
            dispatched=dispatched,
            recover_s=recover_s,
            restarted=sum(count > 1 for count in after.values()) + sum(incarnation > 1 for _, incarnation in after),
            lost=own_pes(jobs) - len(after) + unsettled(cluster.client),
        )


def averaged(runs: Sequence[Run], *, by: Callable[[list[float]], float] = mean) -> dict[str, float]:
    """Return mean seconds (or the summary `by`) of a row: to start, both times; to recover; of these until the first answer."""
    return {
        "start_s": by([seconds for run in runs for seconds in (run.start_s, run.again_s) if seconds is not None]),
        "recover_s": by([run.recover_s for run in runs]),
        "boot_s": by([run.boot_s for run in runs]),
    }


def findings(rows: Sequence[Row], runs: Sequence[Run], dispatch: DispatchRun | None) -> list[Finding]:
    """Check the paper's statements and ours, each if the rows that it needs were run."""
    by_row = {row.name: [run for run in runs if run.row == row.name] for row in rows}
    means = {name: averaged(checks) for name, checks in by_row.items() if checks}
    checks = [_untouched(runs, dispatch)]
    if dispatch is not None:
        name = "after a crash during a dispatch, the dispatch is finished and no PE starts twice"
        ours = f"killed when {dispatch.dispatched} of {dispatch.third} PEs were dispatched; {dispatch.recover_s:.1f} s to recover"
        holds = 0 < dispatch.dispatched < dispatch.third and not dispatch.restarted and not dispatch.lost
        checks.append(Finding(name, "16 of 32 PEs dispatched; recovered", ours, holds))
    if {"1", "5"} <= means.keys():
        checks.extend(_growing(means["1"], means["5"]))
    for few, many, paper in (("2", "3", "-9 %"), ("4", "5", "+7 %")):
        if {few, many} <= means.keys():
            a, b = means[few]["recover_s"], means[many]["recover_s"]
            name = f"three times as many nodes slow recovery by less than half (rows {few} and {many})"
            checks.append(Finding(name, paper, f"{a:.1f} s and {b:.1f} s: {b / a - 1:+.0%}", b < 1.5 * a))
    if "5" in means:
        ratio = means["5"]["recover_s"] / means["5"]["start_s"]
        name = "recovering 930 PEs on 90 nodes takes less than a third of starting them"
        checks.append(Finding(name, f"about a half: {16.2 / 33.9:.2f}", f"ratio {ratio:.2f}", ratio < 1 / 3))
    checks.extend(_scaling(by_row, means))
    return checks


def _untouched(runs: Sequence[Run], dispatch: DispatchRun | None) -> Finding:
    restarted = sum(run.restarted for run in runs) + (dispatch.restarted if dispatch else 0)
    lost = sum(run.lost for run in runs) + (dispatch.lost if dispatch else 0)
    crashes = len(runs) + (dispatch is not None)
    name = "no PE is restarted and none is lost when the orchestrator is killed"
    return Finding(name, "none", f"{crashes} crashes, {restarted} PEs restarted, {lost} lost", not restarted and not lost)


def _growing(small: dict[str, float], large: dict[str, float]) -> Iterator[Finding]:
    start, recovery = large["start_s"] / small["start_s"], large["recover_s"] / small["recover_s"]
    name = "recovery grows more slowly with the PEs than starting does (row 1 to row 5)"
    yield Finding(name, "2.1-fold against 17-fold", f"{recovery:.1f}-fold against {start:.1f}-fold", recovery < start)
    name = "with very few PEs, recovery takes longer than starting (row 1)"
    ours = f"{small['recover_s']:.1f} s against {small['start_s']:.1f} s"
    yield Finding(name, "7.6 s against 2.0 s", ours, small["recover_s"] > small["start_s"])


def _scaling(by_row: dict[str, list[Run]], means: dict[str, dict[str, float]]) -> Iterator[Finding]:
    """Yield findings on the growth of the recovery beyond the paper's scale."""
    beyond = [row.name for row in BEYOND if row.name in means]
    for name in beyond if "5" in means else ():
        run, base = by_row[name][0], by_row["5"][0]
        pes = run.pes / base.pes
        seconds = means[name]["recover_s"] / means["5"]["recover_s"]
        yield Finding(
            f"recovery grows at most linearly from {base.pes:,} PEs on {base.nodes:,} nodes to {run.pes:,} on {run.nodes:,}",
            "",
            f"{pes:.1f} times the PEs, {seconds:.1f} times the seconds",
            seconds <= pes,
        )
