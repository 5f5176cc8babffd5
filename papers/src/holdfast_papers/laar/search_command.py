"""holdfast reproduce laar-search: FT-Search over a corpus of applications, as in LAAR's Figures 4 to 6."""

import json
from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import asdict
from math import inf
from pathlib import Path
from typing import Any

import click

from holdfast.cli.plan_output import check_study
from holdfast.cli.shared import json_option, spark_session
from holdfast.errors import HoldfastError
from holdfast.planning.solver_processes import map_in_processes
from holdfast.terminal import print_json, progress_bar, say
from holdfast_papers.laar.search_findings import findings
from holdfast_papers.laar.search_plot import draw
from holdfast_papers.laar.search_study import (
    CONSTRAINTS,
    CONTENDERS,
    PAPER,
    Run,
    Task,
    decided_by_any,
    evaluate,
    first_solutions,
    outcomes,
    prunings,
    run_of,
)
from holdfast_papers.spread import on_spark

SAYS = {
    "CPU": "applied earliest: cuts the largest branches",
    "COMPL": "applied most often",
    "COST": "applied least, and cuts the smallest branches",
    "DOM": "second most often",
}


@click.command("laar-search")
@click.option("--applications", default=600, show_default=True, help="Size of the corpus.")
@click.option("--seed", default=1, show_default=True, help="Seed of the corpus.")
@click.option("--seconds", default=60.0, show_default=True, help="Time limit of each run; the paper had 600 s on 6 cores.")
@click.option(
    "--constraints", default=",".join(f"{c:g}" for c in CONSTRAINTS), show_default=True, help="IC constraints, by commas."
)
@click.option("--solvers", default=",".join(CONTENDERS), show_default=True, help="Solvers to run, by commas.")
@click.option("--workers", default=2, show_default=True, help="Processes that make runs side by side, one core each.")
@click.option("--master", help="A Spark master to make the runs on, in place of local processes.")
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), help="Where to keep runs (to go on later) and figures.")
@json_option
def laar_search(
    applications: int,
    seed: int,
    seconds: float,
    constraints: str,
    solvers: str,
    workers: int,
    master: str | None,
    out: Path | None,
    as_json: bool,
) -> None:
    """Solve a corpus of random applications under growing IC constraints, and put the paper's figures beside ours.

    Applications have 1 to 12 nodes and 2 to 12 PEs a node. Runs are kept in --out as they end: the same command goes on
    where it was stopped.

    \b
    Example:
      holdfast reproduce laar-search --applications 60 --seconds 10 --out laar-search
    """
    chosen = _names(solvers)
    slas = _numbers(constraints)
    if applications < 1 or workers < 1 or seed < 0 or not 0 < seconds < inf:
        raise HoldfastError(
            "wanted --applications and --workers of at least 1, --seed of at least 0 and --seconds above 0, "
            f"got {applications}, {workers}, {seed} and {seconds:g}"
        )
    tasks = [
        Task(seed=seed, application=n, sla=sla, solver=solver, seconds=seconds)
        for n in range(applications)
        for sla in slas
        for solver in chosen
    ]
    kept = _Kept(out, {"seed": seed, "seconds": seconds}) if out else None
    wanted = {task.key for task in tasks}
    runs = [run for run in (kept.runs() if kept else []) if run.key in wanted]
    done = {run.key for run in runs}
    waiting = [task for task in tasks if task.key not in done]
    if done:
        say(f"{len(done)} of {len(tasks)} runs are already in {out}")
    if waiting:
        made = _on_spark(waiting, master) if master else map_in_processes(evaluate, waiting, workers=workers)
        with closing(made), progress_bar("runs") as progress:
            progress(len(done), len(tasks))
            for run in made:
                runs.append(run)
                if kept:
                    kept.add(run)
                progress(len(runs), len(tasks))
    runs.sort(key=lambda run: run.key)
    document = {"seed": seed, **_summary(runs, chosen), "findings": [asdict(finding) for finding in findings(runs)]}
    if out:
        document["figures"] = [str(path) for path in draw(runs, out)]
        (out / "summary.json").write_text(json.dumps(document, indent=2) + "\n")
    if as_json:
        print_json(document)
    else:
        _show(document)
    if out:
        say(f"runs, summary and figures are in {out}")


def _names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    unknown = [name for name in names if name not in CONTENDERS]
    if unknown or not names:
        raise HoldfastError(f"--solvers wants some of {', '.join(CONTENDERS)}; got '{text}'")
    return names


def _numbers(text: str) -> list[float]:
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if not numbers or not all(0 <= number <= 1 for number in numbers):
        raise HoldfastError(f"--constraints wants numbers from 0 to 1 with commas between, got '{text}'")
    return numbers


def _on_spark(tasks: list[Task], master: str) -> Generator[Run]:
    with spark_session(master, "2g", name="holdfast-laar-search") as spark:
        yield from on_spark(spark, evaluate, tasks)


class _Kept:
    """Runs in a directory, one line of JSON each, with the settings they were made with."""

    def __init__(self, directory: Path, settings: dict[str, Any]) -> None:
        check_study(directory, ["settings.json", "runs.jsonl"])
        directory.mkdir(parents=True, exist_ok=True)
        self.path = directory / "runs.jsonl"
        noted = directory / "settings.json"
        try:
            before = json.loads(noted.read_text()) if noted.exists() else settings
        except ValueError:
            raise HoldfastError(f"'{noted}' was not written by this command; give another --out") from None
        if before != settings:
            raise HoldfastError(f"'{directory}' holds runs made with {before}, not {settings}; give another --out")
        noted.write_text(json.dumps(settings) + "\n")

    def runs(self) -> list[Run]:
        """Every whole line; a line cut short by an interruption is made anew."""
        if not self.path.exists():
            return []
        lines = self.path.read_text().split("\n")
        try:
            found = [run_of(json.loads(line)) for line in lines[:-1]]
        except (ValueError, TypeError, KeyError):
            raise HoldfastError(f"'{self.path}' holds something else than runs of this command; give another --out") from None
        beside = self.path.with_suffix(".tmp")  # a kill here loses nothing
        beside.write_text("".join(line + "\n" for line in lines[:-1]))
        beside.replace(self.path)
        return found

    def add(self, run: Run) -> None:
        with self.path.open("a") as file:
            file.write(json.dumps(run.document()) + "\n")


def _summary(runs: list[Run], solvers: list[str]) -> dict[str, Any]:
    by_solver = {solver: [run for run in runs if run.solver == solver] for solver in solvers}
    firsts = {solver: first_solutions(found) for solver, found in by_solver.items() if any(run.first for run in found)}
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
            solver: {rule: {"share": share, "height": height} for rule, (share, height) in prunings(found).items()}
            for solver, found in by_solver.items()
            if any(run.prunings for run in found)
        },
        "nodes_per_second": {
            solver: sum(run.tree_nodes for run in found) / max(1e-9, sum(run.seconds for run in found))
            for solver, found in by_solver.items()
            if any(run.prunings for run in found)
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
        found = document["figure5"].get(solver, {"runs": 0})
        if found["runs"]:
            echo(f"  {solver:16} {found['first_cost']:7.3f} {found['first_time']:7.2f} {found['runs']:6}")
        else:
            echo(f"  {solver:16} {'-':>7} {'-':>7} {0:6}  {_no_first(document, solver)}")
    for solver, rules in document["figure6"].items():
        echo("")
        echo(f"Figure 6: prunings of {solver} ({document['nodes_per_second'][solver] / 1e6:.1f} million nodes a second)")
        echo(f"  {'rule':6} {'share':>7} {'height':>7}  the paper")
        for rule, found in rules.items():
            echo(f"  {rule:6} {found['share']:7.1%} {found['height']:7.1f}  {SAYS[rule]}")
    echo("")
    for finding in document["findings"]:
        echo(f"{'holds' if finding['holds'] else 'FAILS'}  {finding['name']}: {finding['ours']} (paper: {finding['paper']})")


def _no_first(document: dict[str, Any], solver: str) -> str:
    """Why there is no first solution of a solver to compare with the optimum."""
    if solver not in document["figure6"]:
        return "it tells its last solution only"
    if document["decided"][solver] == 1:
        return "no strategy meets the constraint, as each run proved"
    return "no run found an optimum in its time; give more --seconds"
