"""The real runs of holdfast reproduce ppa: runs them, stores their records and reports them."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from holdfast.cli import exit_on_signals
from holdfast.terminal import progress_bar, say
from holdfast_papers.finding import Finding

Step = tuple[dict[str, Any], Sequence[Finding], list[str]]


def real_runs(out: Path, *, varied: bool) -> Step:
    """Run section VI-A on Spark: recovery (with `varied`, at several rates and windows) and the cost of checkpoints.

    The record of each run is stored in `out` when it ends.
    """
    recovered, costs = _recoveries(out, varied=varied), _costs(out)
    return recovered[0] | costs[0], [*recovered[1], *costs[1]], [*recovered[2], *costs[2]]


@contextmanager
def _work() -> Iterator[Path]:
    """Yield a temporary folder for runs. All processes of the runs end when this process gets a signal to end."""
    exit_on_signals()
    with tempfile.TemporaryDirectory(prefix="holdfast-ppa-") as folder:
        yield Path(folder)


def _recoveries(out: Path, *, varied: bool) -> Step:
    """Measure Figures 7, 8 and 10 on Spark, and return their rows, findings and sections of the report."""
    from holdfast_papers.ppa.recovery_run_findings import findings
    from holdfast_papers.ppa.recovery_runs import SECONDS, TECHNIQUES, Cell, RecoveryTimes, cells, run_cells
    from holdfast_papers.records import Records

    records = Records(out / "runs", {"techniques": [technique.name for technique in TECHNIQUES]})
    cells_to_run = cells(varied=varied)
    missing = [cell for cell in cells_to_run if cell.name not in records]
    if missing:
        say(f"{len(missing)} real runs of {SECONDS} s each, one after the other ...")
        with _work() as folder, progress_bar("runs") as progress:
            progress(len(cells_to_run) - len(missing), len(cells_to_run))

            def keep(cell: Cell, run: RecoveryTimes) -> None:
                records.add({"key": cell.name, **run.document()})
                progress(sum(each.name in records for each in cells_to_run), len(cells_to_run))
                say(f"{cell.name}: {run.one_silence_s:.1f} s after one task died, {run.all_silence_s:.1f} s after all did")

            run_cells(missing, folder / "work", done=keep)
    rows = [records[cell.name] | {"rate": cell.rate, "window": cell.window} for cell in cells_to_run]
    return {"runs": rows}, findings(rows), _recovery_sections(rows)


def tree_runs(seed: int, repetitions: int, out: Path) -> Step:
    """Run Figure 10 on Spark: each plan with the seeds from `seed` on. The record of each run is stored when it ends."""
    from holdfast.report import heading, table
    from holdfast_papers.ppa.tree_findings import findings
    from holdfast_papers.ppa.tree_runs import EPOCH_S, PLANS, SECONDS, WINDOW, key_of, run_plan
    from holdfast_papers.records import Records

    records = Records(out / "tree", {"seconds": SECONDS, "epoch_s": EPOCH_S, "window": WINDOW})
    requested_runs = [(plan, each) for each in range(seed, seed + repetitions) for plan in PLANS]
    missing = [(plan, each) for plan, each in requested_runs if key_of(plan, each) not in records]
    if missing:
        say(f"{len(missing)} real runs of {SECONDS} s each, one after the other ...")
        with _work() as folder, progress_bar("runs of the tree") as progress:
            for number, (plan, each) in enumerate(missing):
                progress(len(requested_runs) - len(missing) + number, len(requested_runs))
                run = run_plan(plan, each, folder / f"{plan}-{each}")
                records.add(run.document())
                say(f"{plan}, seed {each}: tentative after {run.tentative_s} s, exact after {run.exact_s} s")
    rows = [records[key_of(plan, each)] for plan, each in requested_runs]
    columns = ("plan", "seed", "replicas", "fidelity", "tentative_s", "exact_s", "recovered_s", "load")
    cells = [tuple("-" if row[name] is None else f"{row[name]}" for name in columns) for row in rows]
    return {"tree": rows}, findings(rows), [heading("Figure 10, real runs of a tree of tasks"), table(columns, cells)]


def _costs(out: Path) -> Step:
    """Measure Figure 9 on Spark, and return its rows, findings and sections of the report."""
    from holdfast_papers.ppa.checkpoint_runs import INTERVALS, RATES, SECONDS, WINDOW, findings, run_rates
    from holdfast_papers.records import Records

    records = Records(out / "checkpoints", {"intervals": list(INTERVALS), "window": WINDOW, "seconds": SECONDS})
    missing = [rate for rate in RATES if str(rate) not in records]
    if missing:
        say(f"checkpoints: {len(missing)} real runs of {SECONDS} s each, one after the other ...")
        with _work() as folder, progress_bar("runs with checkpoints") as progress:
            progress(len(RATES) - len(missing), len(RATES))

            def keep(run: dict[str, Any]) -> None:
                records.add({"key": str(run["rate"]), **run})
                progress(sum(str(rate) in records for rate in RATES), len(RATES))
                shares = ", ".join(f"every {cost['interval_s']} s {cost['share']:.1%}" for cost in run["costs"])
                say(f"{run['rate']} tuples a second: checkpoints {shares} of the time of epochs")

            run_rates(missing, folder / "work", done=keep)
    runs = [records[str(rate)] for rate in RATES]
    costs = [cost | {"load": run["load"]} for run in runs for cost in run["costs"]]
    return {"checkpoint_runs": costs}, findings(runs), _cost_sections(costs)


def _recovery_sections(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    from holdfast.report import heading, paragraph, table

    def seconds(value: float | None) -> str:
        return "-" if value is None else f"{value:.1f}"

    return [
        heading("Figures 7, 8 and 10, real runs"),
        paragraph(
            "Three PEs with windows in a row on two one-core nodes. Silence: the longest that the sink waited for an epoch, over "
            "an epoch's length. Latency: from detection until the last task was at its earlier epoch again; none if a replica "
            "continued."
        ),
        table(
            (
                "technique",
                "tuples/s",
                "window (s)",
                "one task: silence (s)",
                "latency (s)",
                "all tasks: silence (s)",
                "latency (s)",
                "load average",
            ),
            [
                (
                    r["technique"],
                    f"{r['rate']}",
                    f"{r['window']}",
                    seconds(r["one_silence_s"]),
                    seconds(r["one_latency_s"]),
                    seconds(r["all_silence_s"]),
                    seconds(r["all_latency_s"]),
                    f"{r['load']:g}",
                )
                for r in rows
            ],
        ),
    ]


def _cost_sections(costs: Sequence[Mapping[str, Any]]) -> list[str]:
    from holdfast.report import cards, heading, line_plot, paragraph, table
    from holdfast_papers.ppa.checkpoint_runs import WINDOW

    def line(rate: int) -> tuple[str, list[float], list[float]]:
        own = [cost for cost in costs if cost["rate"] == rate]
        return f"{rate} tuples/s", [cost["interval_s"] for cost in own], [cost["share"] for cost in own]

    lines = [line(rate) for rate in dict.fromkeys(cost["rate"] for cost in costs)]
    columns = ("tuples/s", "interval (s)", "checkpoints", "rows of each", "checkpoint (ms)", "epoch (ms)", "share", "load average")
    plot = line_plot(lines, x="checkpoint interval (s)", y="time, share of processing", title="Figure 9, real runs", level=None)
    return [
        heading(f"Figure 9, real runs: time of checkpoints, of that of processing, window {WINDOW} s"),
        paragraph(
            "PEs that do the same work on the same stream on two one-core nodes, each checkpointed at another interval. "
            "Processing is reading, the Spark job and publishing; a checkpoint is writing the kept rows, and the trimming "
            "upstream that follows from it. Counted once windows are full, in wall-clock time."
        ),
        table(
            columns,
            [
                (
                    f"{c['rate']}",
                    f"{c['interval_s']}",
                    f"{c['checkpoints']}",
                    f"{c['rows']:,.0f}",
                    f"{1000 * c['checkpoint_s']:.1f}",
                    f"{1000 * c['epoch_s']:.1f}",
                    f"{c['share']:.4f}",
                    f"{c['load']:g}",
                )
                for c in costs
            ],
        ),
        cards([plot]),
    ]
