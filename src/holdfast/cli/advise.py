"""holdfast advise: measure, plan, measure again with the plan in place, and say it on one page."""

import json
import shutil
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.assess_campaign import SECTION, campaign_of, carry_out, fitting_outages, scores_of, subject_of, trace_rows
from holdfast.cli.shared import (
    columns_option,
    json_option,
    print_json,
    progress_bar,
    read_columns,
    say,
    spark_options,
    spark_session,
)
from holdfast.errors import HoldfastError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from holdfast.advise.advice import Advice
    from holdfast.advise.loss import Loss
    from holdfast.assess.assessment import Assessment
    from holdfast.assess.campaign import Campaign
    from holdfast.assess.case import Case
    from holdfast.assess.setting import Setting
    from holdfast.assess.target import Choice
    from holdfast.model import App
    from holdfast.model.descriptor import Descriptor
    from holdfast.model.topology import Topology
    from holdfast.profile import Measurement

SINGLE, TOGETHER = "assessment", "with-plan"


@click.command()
@click.argument("app_file", metavar="APP", type=click.Path(path_type=Path))
@click.option("--trace", required=True, help="The recorded trace: a file, or a folder with a file per source.")
@columns_option
@click.option("--budget", type=int, help="How many operators and sources may have a replica.  [default: half of them]")
@click.option("--ic", type=float, help="Instead: as few as keep this internal completeness when everything else fails.")
@click.option("--loss", type=float, help="Instead: as few as leave at most this share of the loss under single failures.")
@click.option(
    "--outage", "outage_s", type=float, help="Seconds at the peak rate that a failure lasts without a replica.  [default: up to 16]"
)
@click.option("--failover", "failover_s", type=float, help="Seconds that a replica needs to take over.  [default: an epoch]")
@click.option("--repetitions", default=3, show_default=True, type=click.IntRange(1), help="Arrival orders to try at each.")
@click.option(
    "--score", "scores", multiple=True, metavar="SQL", help="Aggregate over the sink's rows. [default: the application's]"
)
@click.option("--sink", help="The sink to score. [default: the application's scored sink]")
@click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True, help="Seed of every random choice.")
@click.option("--verify", is_flag=True, help="Also run the application with real kills, and hold the promise against them.")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("advice"),
    show_default=True,
    help="Folder for it all; run again to resume.",
)
@spark_options
@json_option
def advise(**options: Any) -> None:
    """Say which operators of APP deserve a replica, on the evidence of injected faults.

    Profiles and assesses the application, makes plans by what was measured, by output fidelity and by internal completeness,
    injects single and correlated failures with each plan in place, and recommends the one that loses least. Writes advice.html,
    advice.json, plan.json and strategy.json for 'holdfast run'. Interrupted, it goes on from where it was when called again.

    \b
    Example:
      holdfast trace market --events 200000 --out market.parquet
      holdfast advise examples/bargain_discovery.py --trace market.parquet --budget 3
    """
    _advise(**options)


def _advise(*, app_file: Path, trace: str, columns: Path | None, out: Path, as_json: bool, **options: Any) -> None:
    from holdfast.assess.setting import Setting
    from holdfast.assess.target import choose_targets
    from holdfast.model.load import load_app

    _check(options)
    app = load_app(app_file)
    graph = app.graph()
    _quick_check(len([*graph.sources, *graph.operators]), options)
    mapping = read_columns(columns, [source.name for source in graph.sources])
    scores = scores_of(app, options["scores"], options["sink"])[:1]
    choices = choose_targets(graph)
    with spark_session(options["master"], options["memory"], name="holdfast advise") as spark:
        say(f"reading {trace} ...")
        with trace_rows(spark, graph, trace, columns=mapping) as frames:
            descriptor, topology, cpu = _profiled(spark, app, frames, out)
            setting = Setting(spark, app, frames, scores=scores, jitter=8, section=SECTION)
            subject = subject_of(setting, app_file, trace, mapping)
            advice, campaigns = Loop(setting, subject, choices, topology, options, out).run(cpu)
            if options["verify"]:
                others = [name for name in advice.ranking if name not in advice.chosen.candidate.protected][:1]
                _write_beginning(frames, out / "verify" / "trace", kills=len(advice.chosen.candidate.protected) + len(others))
    strategy = _write_documents(advice, topology, descriptor, out, sla=options["ic"])
    verified: list[str] = []
    if options["verify"]:
        from holdfast.advise.verify import verify

        say("running the application with real kills ...")
        held, work = advice.chosen.candidate.protected, out / "verify"
        verified = verify(app_file, work / "trace", out / "plan.json", work, protected=held, others=others)
    from holdfast.assess.files import write_whole
    from holdfast.report.advice import advice_page

    write_whole(out / "advice.html", advice_page(advice, campaigns, [strategy, *verified]))
    document = {**advice.document(), "verified": verified, "strategy": strategy, "out": str(out)}
    write_whole(out / "advice.json", json.dumps(document, indent=2))
    print_json(document) if as_json else _tell(advice, strategy, verified, out)


def _check(options: dict[str, Any]) -> None:
    given = [f"--{name}" for name in ("budget", "ic", "loss") if options[name] is not None]
    if len(given) > 1:
        raise HoldfastError(f"{' and '.join(given)} say different things; give one of them")
    for name in ("ic", "loss"):
        if options[name] is not None and not 0 <= options[name] <= 1:
            raise HoldfastError(f"--{name}: wanted a share from 0 to 1, got {options[name]:g}")


def _quick_check(most: int, options: dict[str, Any]) -> None:
    budget = options["budget"]
    if budget is not None and not 1 <= budget <= most:
        nothing = "; with a budget of nothing there is nothing to advise" if budget == 0 else ""
        raise HoldfastError(f"--budget: wanted 1 to {most} replicas, as many as operators and sources, got {budget}{nothing}")


def _profiled(
    spark: "SparkSession", app: "App", frames: "dict[str, DataFrame]", out: Path
) -> "tuple[Descriptor, Topology, dict[str, float]]":
    """Measured rates and costs: as a descriptor, as a topology, and CPU seconds per second of every source and operator."""
    from holdfast.model.document import write_document
    from holdfast.model.tasks import topology_of
    from holdfast.plan.laar import expected_work
    from holdfast.profile import describe, measure

    with progress_bar("measuring PEs") as bar:
        measurement: Measurement = measure(spark, app, frames, progress=lambda what, done, total: bar(done, total))
    descriptor = describe(app, measurement, hosts=2)
    named = {host: f"n{number}" for number, host in enumerate(descriptor.hosts, 1)}  # as holdfast run names its nodes
    descriptor = descriptor.model_copy(update={"hosts": {named[host]: about for host, about in descriptor.hosts.items()}})
    topology = topology_of(app.graph(), name=app.name, rates=measurement.leaving, shares=measurement.shares)
    out.mkdir(parents=True, exist_ok=True)
    write_document(out / "descriptor.yaml", descriptor)
    write_document(out / "topology.yaml", topology)
    cpu = dict.fromkeys(topology.operators, 0.0)
    for configuration in descriptor.input_configurations:
        work = expected_work(descriptor, configuration)
        for name, described in descriptor.pes.items():
            operators = described.operators or (name,)
            for operator in operators:
                cpu[operator] += configuration.probability * work[name] / len(operators)
    return descriptor, topology, cpu


def _write_beginning(frames: "dict[str, DataFrame]", folder: Path, *, kills: int) -> None:
    """The first seconds of a trace, as long as so many kills need, as a file per source."""
    from pyspark.sql import functions as F

    from holdfast.advise.verify import seconds_for

    shutil.rmtree(folder.parent, ignore_errors=True)
    begins = min(frame.agg(F.min("time")).collect()[0][0] for frame in frames.values())
    ends = begins + timedelta(seconds=seconds_for(kills))
    for name, frame in frames.items():
        frame.where(F.col("time") < F.lit(ends)).coalesce(1).write.parquet(str(folder / name))


class Loop:
    """Assess, plan, assess again."""

    def __init__(
        self,
        setting: "Setting",
        subject: dict[str, Any],
        choices: "Sequence[Choice]",
        topology: "Topology",
        options: dict[str, Any],
        out: Path,
    ) -> None:
        from holdfast.advise.candidate import whole_operators

        self.setting, self.subject, self.choices, self.options, self.out = setting, subject, choices, options, out
        self.tasks = {name: operator.parallelism for name, operator in topology.operators.items()}
        self.topology = whole_operators(topology)
        self.everything = tuple(name for name in setting.graph.order if name in self.topology.operators)
        self.failover_s: float = options["failover_s"] or setting.app.epoch_s

    def run(self, cpu: dict[str, float]) -> "tuple[Advice, dict[str, tuple[Campaign, Assessment]]]":
        from holdfast.advise.advice import Advice, reasons, weigh
        from holdfast.advise.candidate import candidates
        from holdfast.advise.loss import losses_of

        first, assessed, single = self.singles()
        impact = {name: loss.mean for name, loss in single.items()}
        if not sum(impact.values()):
            raise HoldfastError(
                "no failure left a mark on the output: no section of it was more than 3 % off at any offset, so nothing needs a "
                "replica; longer outages (--outage) may show more"
            )
        campaigns = {SINGLE: (first, assessed)}
        budget = self._budget()
        while True:
            plans = candidates(self.topology, impact, budget)
            cases = self._cases(plans)
            folder = f"{TOGETHER}-{budget}"
            second, again = self.assessed(cases, folder, offsets=first.offsets)
            measured = losses_of(again.cases)
            weighed = tuple(weigh(plan, single, measured, self.everything, failover_s=self.failover_s) for plan in plans)
            advice = Advice(
                application=self.setting.app.name,
                budget=budget,
                outage_s=first.outages_s[-1],
                failover_s=self.failover_s,
                single=single,
                weighed=weighed,
                why=reasons(assessed, self.choices),
                cpu=cpu,
                tasks=self.tasks,
            )
            campaigns = {SINGLE: (first, assessed), folder: (second, again)}
            wanted = self.options["loss"]
            if wanted is None or advice.left <= wanted:
                return advice, campaigns
            if budget == len(self.everything):
                raise HoldfastError(
                    f"--loss: even with a replica of everything {advice.left:.1%} of the loss under single failures is left, which "
                    f"is the best there is; wanted {wanted:.1%} (a shorter --failover leaves less)"
                )
            budget += 1

    def singles(self) -> "tuple[Campaign, Assessment, dict[str, Loss]]":
        """What each source and operator costs when it fails alone, with the assessment that says so."""
        from holdfast.advise.loss import alone, losses_of
        from holdfast.assess.case import Case

        cases = [Case((choice.name,)) for choice in self.choices if choice.chosen]
        campaign, assessed = self.assessed(cases, SINGLE, offsets=())
        return campaign, assessed, alone(self.choices, losses_of(assessed.cases))

    def _budget(self) -> int:
        """The budget that was given, the least that keeps the completeness asked for, or where to begin to look."""
        from holdfast.advise.candidate import check_budget, least_budget

        if self.options["ic"] is not None:
            return least_budget(self.topology, self.options["ic"])
        if self.options["loss"] is not None:
            return 1
        budget: int = self.options["budget"] if self.options["budget"] is not None else max(1, len(self.everything) // 2)
        check_budget(self.topology, budget)
        return budget

    def _cases(self, plans: "Sequence[Any]") -> "list[Case]":
        """Every protected operator failing over, and for every plan all that it leaves open failing at once."""
        from holdfast.advise.loss import protected_case, together_case

        held = sorted({name for plan in plans for name in plan.protected}, key=self.everything.index)
        cases = [protected_case(name, failover_s=self.failover_s) for name in held]
        for plan in plans:
            open_ = tuple(name for name in self.everything if name not in plan.protected)
            cases.append(together_case(open_, self.everything, failover_s=self.failover_s))
        return list(dict.fromkeys(cases))

    def assessed(self, cases: "Sequence[Case]", folder: str, *, offsets: tuple[int, ...]) -> "tuple[Campaign, Assessment]":
        """Try these cases in a folder of their own, or read what was tried there."""
        from holdfast.assess.assessment import assess
        from holdfast.assess.results import Results

        outage_s = self.options["outage_s"] or max(fitting_outages(self.setting))
        wanted = {
            "repetitions": self.options["repetitions"],
            "outages": (outage_s / 4, outage_s) if folder == SINGLE else (outage_s,),  # what length does matters only alone
            "rate": "peak",
            "targets": () if folder == SINGLE else (folder,),
            "offsets": offsets,
            "golden_runs": None,
            "fault": "loss",
            "section": None,
            "threshold": 0.03,
            "percentile": 0.9,
            "jitter": 8,
            "seed": self.options["seed"],
            "affected": None,
        }
        campaign = campaign_of(self.setting, cases, self.subject, wanted)
        say(f"{folder}: {len(cases)} ways to fail, {campaign.size:,} trials")
        carry_out(
            self.setting.sectioned(campaign.section), campaign, self.out / folder, choices=self.choices, check=folder == SINGLE
        )
        results = Results(self.out / folder, campaign)
        facts, golden = results.read("facts") or {}, results.read("golden") or {}
        return campaign, assess(campaign, facts, golden, results.outcomes)[0]


def _write_documents(advice: "Advice", topology: "Topology", descriptor: "Descriptor", out: Path, *, sla: float | None) -> str:
    """Write the plan and the strategy that 'holdfast run' takes; in words what the strategy promises."""
    from holdfast.model.document import write_document
    from holdfast.plan.laar import plan_strategy
    from holdfast.plan.ppa.document import PlanDocument, Replica

    held = advice.chosen.candidate.protected
    tasks = [f"{name}/{number}" for name in held for number in range(topology.operators[name].parallelism)]
    plan = PlanDocument(
        topology=topology.topology,
        parallelism={name: topology.operators[name].parallelism for name in topology.order},
        planner="advise",
        objective=advice.chosen.candidate.objective,
        budget=len(tasks),
        replicated=tuple(Replica(task=task, why=advice.why[task.rpartition("/")[0]]) for task in tasks),
    )
    write_document(out / "plan.json", plan)
    try:
        planned = plan_strategy(descriptor, sla=sla, seconds=20.0)
    except HoldfastError as error:
        return f"There is no strategy for activation by load: {error}"
    write_document(out / "strategy.json", planned.explained())
    return (
        "As an alternative, strategy.json switches replicas with the load on two one-core hosts and keeps an internal "
        f"completeness of {planned.strategy.internal_completeness:.2f} (asked for: {planned.strategy.sla:.2f})."
    )


def _tell(advice: "Advice", strategy: str, verified: Sequence[str], out: Path) -> None:
    document = advice.document()
    chosen, following = advice.chosen, advice.next_unit()
    click.echo(
        f"Protect {', '.join(chosen.candidate.protected)} ({document['cost']['share_of_full']:.0%} of full replication's CPU)."
    )
    click.echo(
        f"Expected quality impact of one failure: {advice.unprotected.mean:,.4g} without, {chosen.single.mean:,.4g} with "
        f"({chosen.single.least:,.4g} to {chosen.single.greatest:,.4g} over offsets): {advice.left:.1%} is left."
    )
    click.echo(f"When everything without a replica fails at once: {chosen.together.mean:,.4g}.")
    for name in advice.ranking:
        mark = "*" if name in chosen.candidate.protected else " "
        click.echo(f" {mark} {name}: {advice.single[name].mean:,.4g}")
        click.echo(click.wrap_text(advice.why[name], width=120, initial_indent="     ", subsequent_indent="     "))
    for each in advice.weighed:
        click.echo(
            f"plan by {each.candidate.objective}: {', '.join(each.candidate.protected)}: one failure {each.single.mean:,.4g}, all "
            f"others at once {each.together.mean:,.4g}"
        )
    if following is not None:
        click.echo(f"The next replica should be of {following[0]}: {following[1]:.1%} of the loss would then be left.")
    for text in (strategy, *verified):
        click.echo(text)
    click.echo(f"report: {out / 'advice.html'}; next: holdfast run APP --trace FILE --plan {out / 'plan.json'}")
