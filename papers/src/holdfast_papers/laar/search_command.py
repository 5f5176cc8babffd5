"""holdfast reproduce laar-search: runs FT-Search over a corpus of applications (LAAR, Figures 4 to 6)."""

import json
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

import click

from holdfast.errors import HoldfastError
from holdfast.planning import map_in_processes
from holdfast.terminal import progress_bar, say
from holdfast_papers.laar.search_findings import findings
from holdfast_papers.laar.search_plot import draw
from holdfast_papers.laar.search_study import (
    CONSTRAINTS,
    CONTENDERS,
    PAPER,
    Run,
    Task,
    decided_by_any,
    evaluate_to_document,
    first_solutions,
    outcomes,
    prunings,
    run_of,
)
from holdfast_papers.records import Records, require_own_folder
from holdfast_papers.results import finish, result_options, show_findings
from holdfast_papers.spark_tasks import RunTasks, spark_runner

PAPER_PRUNINGS = {
    "CPU": "applied earliest: cuts the largest branches",
    "COMPL": "applied most often",
    "COST": "applied least, and cuts the smallest branches",
    "DOM": "second most often",
}


@click.command("laar-search")
@click.option("--applications", default=600, show_default=True, help="Size of the corpus.")
@click.option("--seed", default=1, show_default=True, help="Seed of the corpus.")
@click.option(
    "--seconds",
    default=60.0,
    show_default=True,
    help="Time limit of each run (FT-Search: CPU time); the paper had 600 s on 6 cores.",
)
@click.option(
    "--constraints", default=",".join(f"{c:g}" for c in CONSTRAINTS), show_default=True, help="IC constraints, separated by commas."
)
@click.option("--in-turn", is_flag=True, help="Solve each application under one constraint only, the next one in turn.")
@click.option("--solvers", default=",".join(CONTENDERS), show_default=True, help="Solvers to run, separated by commas.")
@click.option("--workers", default=2, show_default=True, help="Processes that run solvers in parallel, one core each.")
@click.option("--master", help="A Spark master to use instead of local processes.")
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), help="Folder for runs (to continue later) and figures.")
@result_options
def laar_search(
    applications: int,
    seed: int,
    seconds: float,
    constraints: str,
    in_turn: bool,
    solvers: str,
    workers: int,
    master: str | None,
    out: Path | None,
    as_json: bool,
) -> None:
    """Solve a corpus of random applications under growing IC constraints, and compare the paper's figures with ours.

    Applications have 1 to 12 nodes and 2 to 12 PEs a node. Run the same command again to continue an
    interrupted study in --out.

    \b
    Example:
      holdfast reproduce laar-search --applications 60 --seconds 10 --out laar-search
      holdfast reproduce laar-search --in-turn --solvers milp --out exact
    """
    solver_names = _names(solvers)
    slas = _numbers(constraints)
    if applications < 1 or workers < 1 or seed < 0 or not 0 < seconds < inf:
        raise HoldfastError(
            "--applications and --workers must be at least 1, --seed at least 0 and --seconds above 0, "
            f"got {applications}, {workers}, {seed} and {seconds:g}"
        )
    tasks = [
        Task(seed=seed, application=n, sla=sla, solver=solver, seconds=seconds)
        for n in range(applications)
        for sla in ([slas[n % len(slas)]] if in_turn else slas)
        for solver in solver_names
    ]
    runs = _make_runs(tasks, out, {"seed": seed, "seconds": seconds}, workers=workers, master=master)
    document = {"seed": seed, **_summary(runs, solver_names), "findings": [asdict(finding) for finding in findings(runs)]}
    if out:
        document["figures"] = [str(path) for path in draw(runs, out)]
        (out / "summary.json").write_text(json.dumps(document, indent=2) + "\n")
    finish(document, as_json=as_json, show=lambda: _show(document))
    if out:
        say(f"runs, summary and figures are in {out}")


def _names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    unknown = [name for name in names if name not in CONTENDERS]
    if unknown or not names:
        raise HoldfastError(f"--solvers needs some of {', '.join(CONTENDERS)}; got '{text}'")
    return names


def _numbers(text: str) -> list[float]:
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if not numbers or not all(0 <= number <= 1 for number in numbers):
        raise HoldfastError(f"--constraints needs numbers from 0 to 1, separated by commas; got '{text}'")
    return numbers


def _make_runs(tasks: list[Task], out: Path | None, settings: dict[str, Any], *, workers: int, master: str | None) -> list[Run]:
    """Return the run of every task, sorted by key. With `out`, runs that are in the folder are not repeated."""
    with spark_runner(master, name="holdfast-laar-search") as on_cluster:
        run: RunTasks = on_cluster or partial(map_in_processes, workers=workers)
        with tempfile.TemporaryDirectory(prefix="holdfast-laar-search-") as scratch:
            if out:
                require_own_folder(out, ["settings.json", "runs.jsonl"])
            records = Records(out or Path(scratch), settings, name="runs")
            existing = sum(task.key in records for task in tasks)
            if existing:
                say(f"{existing} of {len(tasks)} runs are already in {out}")
            with progress_bar("runs") as progress:
                documents = records.fill(evaluate_to_document, {task.key: task for task in tasks}, run=run, progress=progress)
    return sorted(map(run_of, documents), key=lambda result: result.key)


def _summary(runs: list[Run], solvers: list[str]) -> dict[str, Any]:
    by_solver = {solver: [run for run in runs if run.solver == solver] for solver in solvers}
    firsts = {
        solver: first_solutions(solver_runs) for solver, solver_runs in by_solver.items() if any(run.first for run in solver_runs)
    }
    return {
        "runs": len(runs),
        "figure4": [{"solver": solver, "sla": sla, **shares} for (solver, sla), shares in outcomes(runs).items()],
        "decided": {
            **{solver: decided_by_any(runs, [solver]) for solver in solvers},
            "any": decided_by_any(runs, solvers),
        },
        "figure5": {
            "paper": PAPER,
            **{s: {"runs": len(f.cost), "first_cost": f.mean_cost, "first_time": f.mean_time} for s, f in firsts.items()},
        },
        "figure6": {
            solver: {rule: {"share": share, "height": height} for rule, (share, height) in prunings(solver_runs).items()}
            for solver, solver_runs in by_solver.items()
            if any(run.prunings for run in solver_runs)
        },
        "nodes_per_second": {
            solver: sum(run.tree_nodes for run in solver_runs) / max(1e-9, sum(run.seconds for run in solver_runs))
            for solver, solver_runs in by_solver.items()
            if any(run.prunings for run in solver_runs)
        },
    }


def _show(document: dict[str, Any]) -> None:
    echo: Callable[[str], None] = click.echo
    echo("Figure 4: how runs end, by IC constraint (the paper: NUL grows with the constraint, TMO is small)")
    echo(f"  {'solver':16} {'IC':>4} {'BST':>7} {'SOL':>7} {'NUL':>7} {'TMO':>7}")
    for row in document["figure4"]:
        shares = " ".join(f"{row[outcome]:7.1%}" for outcome in ("BST", "SOL", "NUL", "TMO"))
        echo(f"  {row['solver']:16} {row['sla']:4.2g} {shares}")
    echo("decided (proved optimal or infeasible): " + ", ".join(f"{s} {share:.1%}" for s, share in document["decided"].items()))
    echo("")
    echo("Figure 5: first solution against the optimum, where the optimum was found")
    echo(f"  {'':16} {'cost':>7} {'time':>7} {'runs':>6}")
    echo(f"  {'the paper':16} {PAPER['first_cost']:7.3f} {PAPER['first_time']:7.2f}")
    for solver in (name for name in document["decided"] if name != "any"):
        result = document["figure5"].get(solver, {"runs": 0})
        if result["runs"]:
            echo(f"  {solver:16} {result['first_cost']:7.3f} {result['first_time']:7.2f} {result['runs']:6}")
        else:
            echo(f"  {solver:16} {'-':>7} {'-':>7} {0:6}  {_no_first(document, solver)}")
    for solver, rules in document["figure6"].items():
        echo("")
        echo(f"Figure 6: prunings of {solver} ({document['nodes_per_second'][solver] / 1e6:.1f} million nodes a second)")
        echo(f"  {'rule':6} {'share':>7} {'height':>7}  the paper")
        for rule, result in rules.items():
            echo(f"  {rule:6} {result['share']:7.1%} {result['height']:7.1f}  {PAPER_PRUNINGS[rule]}")
    echo("")
    show_findings(document, with_paper=True)


def _no_first(document: dict[str, Any], solver: str) -> str:
    """Explain why a solver has no first solution to compare with the optimum."""
    if solver not in document["figure6"]:
        return "it reports its last solution only"
    if document["decided"][solver] == 1:
        return "no strategy meets the constraint, as each run proved"
    return "no run found an optimum in time; give more --seconds"
