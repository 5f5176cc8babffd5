"""The HTML page of a plan: which tasks have a replica and why, quality and cost, and what more budget would buy."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from holdfast.planning.ppa import internal_completeness, output_fidelity
from holdfast.planning.ppa.budget_curve import BudgetCurve
from holdfast.planning.ppa.explanation import OBJECTIVES
from holdfast.planning.ppa.fidelity import Measure
from holdfast.planning.ppa.plan_document import Changes, PlanDocument, PlannedReplica
from holdfast.report.page import cards, heading, html_page, long_table, paragraph, table
from holdfast.report.plot import FAINT, INK, SERIES, draw_svg

SHOWN = 120
"""Rows of a table on the page; the plan document contains all rows."""

SHAPES = "osv^DP"


def plan_page(plan: PlanDocument, measure: Measure, *, curve: BudgetCurve, others: Sequence[PlanDocument] = ()) -> str:
    """Return the page of a plan. `curve` is the quality of other budgets, `others` the plans of other planners."""
    parts = [
        paragraph(_protected(plan, measure)),
        paragraph(_promise(plan)),
        *([paragraph(f"Next: {plan.next.why}.")] if plan.next else [paragraph("More replicas buy nothing.")]),
        heading("What it promises, what it costs"),
        table(("", "with this plan", "without any replica", "with all of them"), _figures(plan, measure), words=("",)),
        paragraph("Quality is what remains when all tasks without a replica fail at once (PPA, Definition 2).", note=True),
        *_changes(plan.changes),
        heading("What other budgets buy"),
        cards([budget_plot(plan, curve, others)]),
        heading("Why"),
        *_reasons(plan, curve),
        heading("Operators"),
        _operators(plan, measure),
    ]
    if len(others) > 1:
        rows = [(one.planner, str(len(one.replicated)), _share(one.quality), _bound(one)) for one in others]
        parts += [
            heading("Planners compared"),
            table(("planner", "replicas", OBJECTIVES[plan.objective], "no plan exceeds"), rows),
        ]
    return html_page(f"A plan for {plan.topology}", parts)


def _protected(plan: PlanDocument, measure: Measure) -> str:
    tasks, replicas = len(measure.topology.tasks), len(plan.replicated)
    if not replicas:
        return f"No task has a replica: the budget is {plan.budget}."
    operators = dict.fromkeys(replica.task.rpartition("/")[0] for replica in plan.replicated)
    return (
        f"{replicas} of {tasks} tasks have an active replica (budget {plan.budget}, planner {plan.planner}): of "
        f"{', '.join(operators)}."
    )


def _promise(plan: PlanDocument) -> str:
    quality = f"{OBJECTIVES[plan.objective]} {plan.quality or 0.0:.3f} is left when all other tasks fail"
    if plan.proven:
        return f"{quality[0].upper()}{quality[1:]}; no plan of this budget is better."
    bound = "no bound is known" if plan.bound is None or plan.bound >= 1 else f"no plan of this budget exceeds {plan.bound:.3f}"
    return f"{quality[0].upper()}{quality[1:]}; {bound}."


def _figures(plan: PlanDocument, measure: Measure) -> list[tuple[str, ...]]:
    """Return rows with fidelity, completeness and the plan's objective, and with replicas and their input rates."""
    topology = measure.topology
    chosen = [topology.number[task] for task in plan.tasks]
    measures = {one.name: one for one in (output_fidelity(topology), internal_completeness(topology), measure)}
    everything = range(len(topology.tasks))
    rows: list[tuple[str, ...]] = [
        (OBJECTIVES[name], _share(one.of(chosen)), _share(one.of([])), _share(one.of(everything))) for name, one in measures.items()
    ]
    used, whole = float(topology.input_rates[chosen].sum()), float(topology.input_rates.sum())
    rows.append(("replicas", f"{len(chosen):,}", "0", f"{len(topology.tasks):,}"))
    rows.append(("input tuples per second of the replicas", _figure(used), "0", _figure(whole)))
    if whole > 0:
        rows.append(("share of full replication", f"{used / whole:.0%}", "0%", "100%"))
    return rows


def _changes(changes: Changes | None) -> list[str]:
    if changes is None:
        return []
    return [
        heading("Changes to the current plan"),
        paragraph(f"Start {', '.join(changes.start) or 'none'}; stop {', '.join(changes.stop) or 'none'}."),
        paragraph(
            f"The current plan now has quality {changes.current_quality:.3f}, the best {changes.best_quality:.3f}; a start must "
            f"add {changes.move_worth:g}.",
            note=True,
        ),
    ]


def budget_plot(plan: PlanDocument, curve: BudgetCurve, others: Sequence[PlanDocument]) -> str:
    """Plot quality against budget: the best plans as a line, and this plan and those of other planners as points."""
    quality = OBJECTIVES[plan.objective]

    def draw(axes: Axes) -> None:
        label = "the best plan" if curve.exact else "at least"
        axes.step(range(len(curve.quality)), curve.quality, where="post", color=SERIES[0], label=label)
        for number, other in enumerate(others if len(others) > 1 else ()):
            if other.planner != plan.planner:
                shape, colour = SHAPES[number % len(SHAPES)], SERIES[1 + number % (len(SERIES) - 1)]
                axes.plot([len(other.replicated)], [other.quality or 0.0], shape, color=colour, label=other.planner)
        if plan.bound is not None and not plan.proven and plan.bound < 1:
            axes.plot([plan.budget], [plan.bound], "_", markersize=12, color=FAINT, label="no plan exceeds")
        axes.plot([plan.budget], [plan.quality or 0.0], "o", markersize=7, color=INK, label=f"this plan ({plan.planner})")
        if plan.next is not None:
            at = plan.budget + plan.next.replicas
            axes.plot([at], [plan.next.quality], "o", markersize=7, color=INK, markerfacecolor="none", label="the next unit")
        axes.set(xlabel="replicas", ylabel=quality, ylim=(-0.03, 1.04), title=f"{quality[0].upper()}{quality[1:]} against budget")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.figure.legend(loc="outside lower center", ncols=3)

    return draw_svg(draw, label=f"{quality} against the number of replicas", height=3.6)


def _reasons(plan: PlanDocument, curve: BudgetCurve) -> list[str]:
    """Return the table of replicas, ordered by the budget from which they are chosen, or by the cost of their loss."""
    if not plan.replicated:
        return [paragraph("This plan has no replica.")]
    since = curve.since if {*plan.tasks} <= curve.since.keys() else {}

    def order(replica: PlannedReplica) -> tuple[float, float, str]:
        without = replica.quality_without
        return since.get(replica.task, 0), 1.0 if without is None else without, replica.task

    rows = [
        (
            *((str(since[replica.task]),) if since else ()),
            replica.task,
            "-" if replica.quality_without is None else f"{replica.quality_without:.3f}",
            replica.why or "-",
        )
        for replica in sorted(plan.replicated, key=order)
    ]
    columns = (*(("from budget",) if since else ()), "task", "left without it", "why")
    note = "Ordered by the budget from which the best plan has the replica." if since else "The costliest losses first."
    return [paragraph(note, note=True), long_table(columns, rows, most=SHOWN, where="in the plan", words=("why",), names=("task",))]


def _operators(plan: PlanDocument, measure: Measure) -> str:
    topology = measure.topology
    replicated, rows = {*plan.tasks}, []
    for name, span in zip(topology.order, topology.spans, strict=True):
        tasks = topology.tasks[span]
        numbers = [task.rpartition("/")[2] for task in tasks if task in replicated]
        rate = float(topology.input_rates[span].sum())
        rows.append((name, str(len(tasks)), str(len(numbers)), _figure(rate), _listed(numbers)))
    columns = ("operator", "tasks", "with a replica", "tuples a second", "which")
    return long_table(columns, rows, most=SHOWN, where="in the topology", names=("which",))


def _listed(numbers: Sequence[str], most: int = 12) -> str:
    listing = ", ".join(numbers[:most])
    return f"{listing} and {len(numbers) - most} more" if len(numbers) > most else listing or "-"


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


def _bound(plan: PlanDocument) -> str:
    return "-" if plan.bound is None or plan.bound >= 1 else _share(plan.bound)


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
