"""holdfast reproduce system-s: kills the orchestrator and times its recovery (System-S, Figure 8)."""

import json
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli import exit_on_signals
from holdfast.documents import write_whole
from holdfast.errors import HoldfastError
from holdfast.terminal import progress_bar, say
from holdfast_papers.results import finish, result_options

if TYPE_CHECKING:
    from holdfast_papers.system_s.recovery_study import Run


@click.command("system-s")
@click.option("--runs", default=3, show_default=True, type=click.IntRange(1), help="Runs per row; the paper made 10.")
@click.option("--rows", help="Only these rows, separated by commas: 1 to 6, 300 or 1000 (nodes), dispatch.  [default: all]")
@click.option("--beyond/--no-beyond", default=True, show_default=True, help="Also 3,000 and 10,000 PEs, one run each.")
@click.option("--processes", default=10, show_default=True, help="Up to this number, every node is its own process.")
@click.option("--seed", default=1, show_default=True, help="Seed of the realistic set of jobs.")
@click.option(
    "--out", type=click.Path(path_type=Path, file_okay=False), help="Folder for the runs and Figure 9. Run again to continue."
)
@result_options
def system_s(runs: int, rows: str | None, beyond: bool, processes: int, seed: int, out: Path | None, as_json: bool) -> None:
    """Start jobs of light PEs, kill the orchestrator (SIGKILL), and time its recovery against starting the jobs again.

    The six rows of Figure 8, the crash half-way through a dispatch (section 6.2), and 3,000 and 10,000 PEs beyond the paper. With
    many nodes, their real controllers share one process; the table shows which rows do.

    \b
    Example:
      holdfast reproduce system-s --runs 3 --out system-s
      holdfast reproduce system-s --rows 1,5,dispatch --runs 1
    """
    from holdfast_papers.system_s.recovery_study import BEYOND, FIGURE_8, crash_in_dispatch, findings, measure

    exit_on_signals()
    names = {row.name.split()[0].replace(",", ""): row for row in (*FIGURE_8, *BEYOND)}
    row_names = _chosen(
        rows, [*names, "dispatch"], beyond=[] if beyond else [row.name.split()[0].replace(",", "") for row in BEYOND]
    )
    run_file = _RunFile(out)
    runs_of_row = {name: 1 if names[name] in BEYOND else runs for name in row_names if name != "dispatch"}
    existing = {
        name: [run for run in run_file.runs() if run.row == names[name].name][:count] for name, count in runs_of_row.items()
    }
    missing = [(name, number) for name, count in runs_of_row.items() for number in range(len(existing[name]) + 1, count + 1)]
    runs_done = [run for some in existing.values() for run in some]
    total = len(runs_done) + len(missing) + ("dispatch" in row_names)
    dispatch = None
    with tempfile.TemporaryDirectory(prefix="holdfast-system-s-") as scratch, progress_bar("runs") as progress:
        bytecode = Path(scratch) / "bytecode"
        progress(len(runs_done), total)
        for name, number in missing:
            row = names[name]
            say(f"row {row.name}: run {number} of {runs_of_row[name]}, {row.nodes} nodes ...")
            run = measure(row, Path(scratch) / f"{name}-{number}", seed=seed, processes=processes, bytecode=bytecode)
            run_file.add(run)
            runs_done.append(run)
            progress(len(runs_done), total)
        if "dispatch" in row_names:
            say("crash half-way through a dispatch ...")
            dispatch = crash_in_dispatch(Path(scratch) / "dispatch", bytecode=bytecode)
    checks = findings([*FIGURE_8, *BEYOND], runs_done, dispatch)
    rows_done = _table([row for row in names.values() if any(run.row == row.name for run in runs_done)], runs_done)
    document = {
        "rows": rows_done,
        "dispatch": dispatch.document() if dispatch else None,
        "findings": [asdict(finding) for finding in checks],
        "runs": [run.document() for run in runs_done],
    }
    if out is not None and rows_done:
        from holdfast_papers.system_s.figure9 import figure_9

        write_whole(out / "figure9.svg", figure_9(rows_done))
    finish(document, as_json=as_json, show=lambda: _show(document))


def _chosen(rows: str | None, known: list[str], *, beyond: list[str]) -> list[str]:
    if rows is None:
        return [name for name in known if name not in beyond]
    row_names = [name.strip() for name in rows.split(",")]
    unknown = [name for name in row_names if name not in known]
    if unknown:
        raise HoldfastError(f"--rows: there is no row {', '.join(unknown)}; rows are: {', '.join(known)}")
    return row_names


class _RunFile:
    """Runs in a file, one line each. An interrupted study continues from them."""

    def __init__(self, out: Path | None) -> None:
        self.path = None if out is None else out / "runs.jsonl"
        if out is not None:
            out.mkdir(parents=True, exist_ok=True)

    def runs(self) -> "list[Run]":
        from holdfast_papers.system_s.recovery_study import Run

        if self.path is None or not self.path.exists():
            return []
        lines = self.path.read_text().splitlines(keepends=True)
        return [Run(**json.loads(line)) for line in lines if line.endswith("\n")]

    def add(self, run: "Run") -> None:
        if self.path is not None:
            with self.path.open("a") as file:
                file.write(json.dumps(run.document()) + "\n")


def _table(rows: list[Any], runs: "list[Run]") -> list[dict[str, Any]]:
    from holdfast_papers.system_s.recovery_study import averaged

    table = []
    for row in rows:
        own = [run for run in runs if run.row == row.name]
        table.append(
            {
                "row": row.name,
                "nodes": row.nodes,
                "jobs": own[0].jobs,
                "pes": own[0].pes,
                "nodes_as": "processes" if own[0].processes else "controllers in one process",
                "runs": len(own),
                "paper_start_s": row.paper_start_s,
                "paper_recover_s": row.paper_recover_s,
                **averaged(own),
            }
        )
    return table


def _show(document: dict[str, Any]) -> None:
    click.echo("Figure 8: seconds to start the jobs and to recover, the paper's and ours")
    click.echo(f"  {'row':12} {'nodes':>5} {'PEs':>6} {'start':>13} {'recover':>13} {'ratio':>11}  answers after, nodes are")
    for row in document["rows"]:
        start = f"{_s(row['paper_start_s'])} {row['start_s']:6.2f}"
        recover = f"{_s(row['paper_recover_s'])} {row['recover_s']:6.2f}"
        paper = row["paper_recover_s"] / row["paper_start_s"] if row["paper_start_s"] else None
        ratio = f"{'-' if paper is None else format(paper, '.2f'):>5} {row['recover_s'] / row['start_s']:5.2f}"
        click.echo(
            f"  {row['row']:12} {row['nodes']:5} {row['pes']:6} {start:>13} {recover:>13} {ratio:>11}  "
            f"{row['boot_s']:.2f} s, {row['nodes_as']} (x{row['runs']})"
        )
    click.echo("")
    for finding in document["findings"]:
        paper = f" (the paper: {finding['paper']})" if finding["paper"] else ""
        click.echo(f"  {'holds' if finding['holds'] else 'FAILS'}  {finding['name']}: {finding['ours']}{paper}")


def _s(seconds: float | None) -> str:
    return f"{'-' if seconds is None else format(seconds, '.1f'):>6}"
