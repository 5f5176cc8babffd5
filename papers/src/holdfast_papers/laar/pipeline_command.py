"""holdfast reproduce laar-pipeline: compares static replication with activation by load on real nodes (LAAR, Figure 3)."""

import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from holdfast.app import example_path
from holdfast.cli import exit_on_signals
from holdfast.errors import HoldfastError
from holdfast.terminal import say
from holdfast_papers.results import finish, result_options

if TYPE_CHECKING:
    from holdfast_papers.finding import Finding
    from holdfast_papers.laar.pipeline_study import Load, PipelineRun


@click.command("laar-pipeline")
@click.option("--low", "low_s", default=20, show_default=True, help="Seconds of 4 tuples/s before the load doubles.")
@click.option("--high", "high_s", default=30, show_default=True, help="Seconds of 8 tuples/s.")
@click.option("--after", "after_s", default=20, show_default=True, help="Seconds of 4 tuples/s at the end.")
@click.option("--sla", default=0.6, show_default=True, help="Internal completeness that the strategy must guarantee.")
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), help="Folder for the report with Figure 3.")
@result_options
def laar_pipeline(low_s: int, high_s: int, after_s: int, sla: float, out: Path | None, as_json: bool) -> None:
    """Run two PEs of 0.1 s a tuple on two one-core nodes: with all replicas always active, with activation by load, and with
    activation by load and a node that is killed in High.

    Every tuple uses 0.1 s of CPU time, and a node runs one Spark task at a time. So at 8 tuples/s a node with both PEs would need
    1.6 cores. The runs use real processes on this machine and take a little longer than the load.

    \b
    Example:
      holdfast reproduce laar-pipeline --out figure3
    """
    from holdfast.documents import Schedule
    from holdfast_papers.laar.pipeline_study import KILLED, WAYS, Load, findings, kill_in_high, run_way, strategies

    exit_on_signals()
    load = Load(low_s, high_s, after_s)
    strategy_of = strategies(sla)
    runs: list[PipelineRun] = []
    with tempfile.TemporaryDirectory(prefix="holdfast-pipeline-") as folder:
        described = load.as_described
        ways = [
            *((way, load, strategy_of[way], Schedule()) for way in WAYS),
            (KILLED, described, strategy_of[WAYS[1]], kill_in_high(described)),
        ]
        for number, (way, own, strategy, faults) in enumerate(ways):
            remaining_s = sum(len(each.rates) + 30 for _, each, _, _ in ways[number:])
            say(f"replicas {way}: {len(own.rates)} s of load (about {remaining_s} s left) ...")
            work = Path(folder) / str(number)
            runs.append(run_way(way, example_path("pipeline.py"), work, load=own, strategy=strategy, faults=faults))
    checks = findings(runs, load)
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        (out / "laar-pipeline.html").write_text(_report(runs, checks, load, sla))
    document = {"load": asdict(load), "runs": [asdict(run) for run in runs], "findings": [asdict(finding) for finding in checks]}
    finish(document, as_json=as_json, show=lambda: _show(runs, checks, load))
    if not all(finding.holds for finding in checks):
        raise HoldfastError("not every finding holds; on a busy machine two one-core nodes do not have a core each: try again")


def _show(runs: "list[PipelineRun]", checks: "list[Finding]", load: "Load") -> None:
    from holdfast.trial import describe_switch
    from holdfast_papers.laar.pipeline_study import KILLED

    for run in runs:
        click.echo(f"{run.way}: {run.describe(load if run.way != KILLED else load.as_described)}")
        for at_s, decision in run.decisions:
            click.echo(f"  after {at_s:.0f} s {decision}")
        for switch in run.switches:
            click.echo(f"  {describe_switch(switch)}")
    for finding in checks:
        click.echo(f"  {'holds ' if finding.holds else 'BROKEN'} {finding.name}: {finding.ours} (paper: {finding.paper})")


def _report(runs: "list[PipelineRun]", checks: "list[Finding]", load: "Load", sla: float) -> str:
    from holdfast.report import cards, heading, html_page, line_plot, paragraph, table

    parts = [
        paragraph(
            f"Two PEs of 0.1 s of CPU time a tuple, two replicas each on two one-core nodes; {load.low_s} s of 4 tuples/s, "
            f"{load.high_s} s of 8, {load.after_s} s of 4 again. Nothing is random, so there is no seed. Made by: "
            f"holdfast reproduce laar-pipeline --low {load.low_s} --high {load.high_s} --after {load.after_s} --sla {sla:g}"
        ),
        heading("Findings"),
        table(
            ["finding", "paper", "here", "holds"],
            [[finding.name, finding.paper, finding.ours, "yes" if finding.holds else "no"] for finding in checks],
            words=["paper", "here"],
            names=["finding"],
        ),
    ]
    for run in runs:
        seconds = list(range(len(run.tuples_in)))
        rates: list[tuple[str, list[int], list[float]]] = [
            ("in", seconds, [float(count) for count in run.tuples_in]),
            ("out", seconds, smooth(run.tuples_out)),
        ]
        parts += [
            heading(f"Replicas {run.way}"),
            cards(
                [
                    line_plot(rates, x="seconds", y="tuples/s", title=f"Input and output, replicas {run.way}", level=None),
                    line_plot(
                        [(node, *shares(readings)) for node, readings in sorted(run.cpu.items())],
                        x="seconds",
                        y="cores",
                        title=f"CPU per node, replicas {run.way}",
                    ),
                ]
            ),
        ]
    return html_page("LAAR's pipeline (Figure 3), real runs", parts)


def smooth(values: list[int], over: int = 3) -> list[float]:
    """Return the mean over a few seconds. Output leaves by the epoch, so a single second has none or two.

    >>> smooth([0, 6, 3, 0])
    [3.0, 3.0, 3.0, 1.5]
    """
    half = over // 2
    windows = [values[max(0, n - half) : n + half + 1] for n in range(len(values))]
    return [sum(window) / len(window) for window in windows]


def shares(readings: list[tuple[float, float]], every_s: float = 2.0) -> tuple[list[float], list[float]]:
    """Return the CPU seconds per second between readings of a counter that are at least `every_s` apart, with their times."""
    at, share = [], []
    before = readings[0]
    for now in readings[1:]:
        if now[0] - before[0] >= every_s:
            at.append(now[0])
            share.append((now[1] - before[1]) / (now[0] - before[0]))
            before = now
    return at, share
