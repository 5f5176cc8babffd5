"""holdfast inject: inject faults at every transition of a control plane's state machines, and check that it heals."""

import json
import random
import sys
import tempfile
from collections import defaultdict
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.table import Table

from holdfast.cli import exit_on_signals, json_option
from holdfast.errors import HoldfastError
from holdfast.terminal import print_json, progress_bar, say

if TYPE_CHECKING:
    from holdfast.control import InjectionTest
    from holdfast_papers.system_s.injection.bystander_app import BystanderApp
    from holdfast_papers.system_s.injection.injection_trial import InjectionVerdict

TEST_S, ROUND_S = 6, 240
"""About how many seconds a test takes, and how long the bystander application runs before it is started again."""

SETTINGS: dict[str, dict[str, float]] = {
    "delay": {"by_s": 0.5},
    "drop-messages": {"for_s": 2.0},
    "delay-messages": {"for_s": 2.0, "by_s": 0.5},
    "duplicate-messages": {"for_s": 2.0},
    "database-away": {"for_s": 1.0},
    "cut-node": {"for_s": 5.0},
    "stall-host": {"for_s": 2.0},
}


@click.command()
@click.argument("documents", metavar="[TESTS]...", nargs=-1, type=click.Path(path_type=Path))
@click.option("--machine", "machines", multiple=True, help="Generate tests for this machine.  [default: streaming and finite]")
@click.option("--fault", "faults", multiple=True, help="Generate tests with this fault.  [default: crash-orchestrator]")
@click.option("--all-faults", is_flag=True, help="Generate tests with every fault.")
@click.option("--moment", "moments", multiple=True, type=click.Choice(["before", "after", "done"]), help="Only at these moments.")
@click.option("--state", "states", multiple=True, help="Only transitions of these states.")
@click.option("--transition", "transitions", multiple=True, help="Only transitions of this name.")
@click.option("--sample", type=click.IntRange(1), help="Run only this many of the generated tests, drawn at random.")
@click.option("--seed", default=0, show_default=True, help="Seed of the sample.")
@click.option("--beside-spark", is_flag=True, help="Run an application on Spark during the tests; the faults must not affect it.")
@click.option("--work", type=click.Path(path_type=Path, file_okay=False), help="Work folder.  [default: a temporary one]")
@click.option("--list", "only_list", is_flag=True, help="Print the tests as a document instead of running them.")
@json_option
def inject(
    documents: tuple[Path, ...],
    machines: tuple[str, ...],
    faults: tuple[str, ...],
    all_faults: bool,
    moments: tuple[str, ...],
    states: tuple[str, ...],
    transitions: tuple[str, ...],
    sample: int | None,
    seed: int,
    beside_spark: bool,
    work: Path | None,
    only_list: bool,
    as_json: bool,
) -> None:
    """Run fault injection tests against real processes: an orchestrator, three nodes and light PEs on this machine.

    TESTS are documents that list faults, each with the state, transition and moment at which it is injected. By default tests are
    generated for every transition of the built-in machines. Exit code 1 if the control plane did not heal.

    \b
    Example:
      holdfast inject --sample 10
      holdfast inject --state dispatching --fault crash-orchestrator --fault database-away
      holdfast inject --list --machine finite > tests.yaml
      holdfast inject tests.yaml --json
    """
    from holdfast.control import InjectionTests
    from holdfast.documents import document_text

    tests, skipped = _tests(documents, machines, faults, all_faults, moments, states, transitions)
    if sample is not None and sample < len(tests):
        tests = sorted(random.Random(seed).sample(tests, sample), key=tests.index)
    if only_list:
        click.echo(document_text(InjectionTests(seed=seed, tests=tuple(tests))), nl=False)
        return
    exit_on_signals()
    verdicts, bystander = _run(tests, work, beside_spark=beside_spark)
    bystander_errors = bystander.errors if bystander is not None else []
    if as_json:
        print_json(
            {"healed": all(verdict.passed for verdict in verdicts), "coverage": _coverage(verdicts), "skipped": skipped,
             "bystander": bystander
             and {"errors": bystander_errors, "epochs": bystander.epochs, "rounds": len(bystander.rounds)},
             "tests": [verdict.document() for verdict in verdicts]}
        )  # fmt: skip
    else:
        _show(verdicts, skipped)
        if bystander is not None:
            outcome = "; ".join(bystander_errors) or "no replica restarted, and its output equals the replay of the whole trace"
            click.echo(f"the application on Spark ran {len(bystander.rounds)} times, {bystander.epochs} epochs in all: {outcome}")
    if bystander_errors or not all(verdict.passed for verdict in verdicts):
        sys.exit(1)


def _tests(
    documents: tuple[Path, ...],
    machines: tuple[str, ...],
    faults: tuple[str, ...],
    all_faults: bool,
    moments: tuple[str, ...],
    states: tuple[str, ...],
    transitions: tuple[str, ...],
) -> tuple[list["InjectionTest"], list[str]]:
    """Return the tests to run, and those that are skipped because no scenario reaches their transition."""
    from holdfast.control import all_faults as load_faults
    from holdfast.control import read_tests, shipped_actions, shipped_machines
    from holdfast_papers.system_s.injection.generated_tests import generate_tests
    from holdfast_papers.system_s.injection.injection_trial import NODES
    from holdfast_papers.system_s.injection.transition_scenarios import NoScenario, scenario_for

    built_in = shipped_machines(shipped_actions())
    library = load_faults()
    if documents:
        requested = [test for path in documents for test in read_tests(path, built_in, faults=library).tests]
        _refuse_unknown("node", [test.node for test in requested if test.node is not None], NODES, where="tests")
        if not requested:
            raise HoldfastError(f"{', '.join(map(str, documents))}: there is no test in it; 'holdfast inject --list' lists some")
    else:
        for name in machines:
            if name not in built_in:
                raise click.BadParameter(f"there is no machine '{name}'; machines are: {', '.join(sorted(built_in))}")
        names = sorted(library) if all_faults else faults or ("crash-orchestrator",)
        _refuse_unknown("fault", names, library)
        settings = {name: SETTINGS.get(name, {}) for name in names}
        selected = [built_in[name] for name in machines or sorted(built_in, reverse=True)]
        _refuse_unknown("state", states, {state for machine in selected for state, _, _ in machine.transitions()})
        _refuse_unknown("transition", transitions, {event for machine in selected for _, event, _ in machine.transitions()})
        requested = [
            test
            for machine in selected
            for test in generate_tests(machine, settings)
            if (not moments or test.moment in moments)
            and (not states or test.state in states)
            and (not transitions or test.transition in transitions)
        ]
    if not requested:
        raise HoldfastError("there is no test to run: no transition matches all options; 'holdfast inject --list' lists all")
    tests, skipped = [], []
    for test in requested:
        try:
            scenario_for(test.machine, test.state, test.transition, name="trial", hold_s=1)
        except NoScenario as error:
            skipped.append(f"{test.name}: {error}")
        else:
            tests.append(test)
    return tests, skipped


def _refuse_unknown(kind: str, names: Collection[str], known: Collection[str], *, where: str = "") -> None:
    """Raise HoldfastError for unknown names. Without tests, all tests would pass."""
    if unknown := sorted(set(names) - set(known)):
        text = " or ".join(f"'{name}'" for name in unknown)
        raise HoldfastError(f"{where or f'--{kind}'}: there is no {kind} {text}; {kind}s are: {', '.join(sorted(known))}")


def _run(
    tests: list["InjectionTest"], work: Path | None, *, beside_spark: bool
) -> tuple[list["InjectionVerdict"], "BystanderApp | None"]:
    from holdfast_papers.system_s.injection.campaign import Campaign

    verdicts: list[InjectionVerdict] = []
    with tempfile.TemporaryDirectory(prefix="holdfast-inject-") as scratch, progress_bar("injecting") as bar:
        folder = work or Path(scratch)
        bystander = _bystander(folder, len(tests)) if beside_spark else None
        campaign = Campaign(folder) if bystander is None else Campaign(folder, bystander=bystander.running)
        bar(0, len(tests))
        for verdict in campaign.run(tests):
            verdicts.append(verdict)
            with (folder / "verdicts.jsonl").open("a") as file:  # an interrupted run keeps its verdicts
                file.write(json.dumps(verdict.document()) + "\n")
            if not verdict.passed:
                say(f"{verdict.test.name}: {'; '.join(verdict.errors) or 'the fault was not injected'}")
            bar(len(verdicts), len(tests))
    return verdicts, bystander


def _bystander(folder: Path, tests: int) -> "BystanderApp":
    """Return Bargain Discovery with a generated trace. It runs again and again until the tests have ended."""
    from holdfast.app import example_path
    from holdfast.trace import write_market
    from holdfast_papers.system_s.injection.bystander_app import SPEED, BystanderApp

    folder.mkdir(parents=True, exist_ok=True)
    trace, seconds = folder / "beside.parquet", min(ROUND_S, 60 + TEST_S * tests)
    write_market(trace, events=int(100 * SPEED * seconds), seed=1, tickers=50, rate=100.0, peak=200.0)
    say(f"Bargain Discovery runs on two Spark nodes during the tests, in rounds of {seconds} s")
    return BystanderApp(example_path("bargain_discovery.py"), trace)


def _coverage(verdicts: list["InjectionVerdict"]) -> dict[str, dict[str, Any]]:
    """Return for each transition the number of tests, injected faults, faults without a target, and healed tests."""
    rows: dict[str, dict[str, Any]] = defaultdict(lambda: {"tests": 0, "injected": 0, "missed": 0, "healed": 0})
    for verdict in verdicts:
        row = rows[f"{verdict.test.machine}:{verdict.test.state}.{verdict.test.transition}"]
        row["tests"] += 1
        row["injected"] += verdict.injected
        row["missed"] += bool(verdict.missed)
        row["healed"] += verdict.healed
    return dict(rows)


def _show(verdicts: list["InjectionVerdict"], skipped: list[str]) -> None:
    table = Table("transition", "tests", "injected", "missed", "healed", box=None, pad_edge=False)
    for name, row in _coverage(verdicts).items():
        table.add_row(name, *(str(row[column]) for column in ("tests", "injected", "missed", "healed")))
    Console().print(table, markup=False)
    healed = sum(verdict.healed for verdict in verdicts)
    missed = sum(bool(verdict.missed) for verdict in verdicts)
    without_target = f"; {missed} faults had no target" if missed else ""
    without_scenario = f"; {len(skipped)} skipped" if skipped else ""
    click.echo(f"{healed} of {len(verdicts)} tests healed{without_target}{without_scenario}")
